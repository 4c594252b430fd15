"""Browsing a collection: its topics, their best pages, a page with all that is known of it."""

from __future__ import annotations

from opilio.crawl.asking import Askable


class Browsable(Askable):
    """Browsing a collection: its topics, their best pages, a page with all that is known of it."""
