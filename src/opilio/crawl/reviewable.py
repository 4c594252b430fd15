"""Feedback on results, clusters of a topic, and the assisted review."""

from __future__ import annotations

from opilio.crawl.asking import Askable


class Reviewable(Askable):
    """Feedback on results, clusters of a topic, and the assisted review."""
