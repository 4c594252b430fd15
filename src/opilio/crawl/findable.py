"""Searching a collection."""

from __future__ import annotations

from opilio.crawl.asking import Askable


class Findable(Askable):
    """Searching a collection."""
