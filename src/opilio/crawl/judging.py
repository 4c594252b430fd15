"""Judging a page in a worker. Loaded with the first model: a crawl that judges nothing need not."""

from __future__ import annotations

from opilio.classify import Model
from opilio.features.evidence import Evidence, significant_stems
from opilio.model import Document, Judgement, Lease
from opilio.settings import ClassifySettings


class PageJudge:
    """A model at work."""

    def __init__(self, model: bytes, settings: ClassifySettings) -> None:
        self._model = Model.from_bytes(model)
        self._tells_neighbours = any("neighbours" in space for space in settings.spaces)

    def judge(self, document: Document, lease: Lease) -> Judgement:
        """What the model says of a page."""
        return self._model.judge(Evidence.of(document, lease.url, lease.anchor, lease.neighbours))

    def significant(self, document: Document) -> bytes:
        """The stems that speak for a page when those it links to are judged; b'' when no space looks at them."""
        return significant_stems(document) if self._tells_neighbours else b""
