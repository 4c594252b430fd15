"""Watching and steering a crawl while it runs."""

from __future__ import annotations

from opilio.crawl.asking import Askable


class Steerable(Askable):
    """Watching and steering a crawl while it runs."""
