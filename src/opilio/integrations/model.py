"""The model of a collection for other programs: it judges pages that they fetched, and links by their own words.

It is read once. The collection may be crawled meanwhile, and need not stay: whoever wants a newer model reads it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Self

from opilio.analyze.analyzer import Analyzer
from opilio.classify import Model
from opilio.crawl import Collection
from opilio.crawl.operations.client import OperationClient
from opilio.crawl.operations.training import model_for_others
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput, TextReader
from opilio.model import Document, Judgement
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings
from opilio.topics.tree import OTHERS

NOWHERE = "http://page.invalid/"
"""The address of a page that came without one: its relative links lead nowhere."""
_HTML = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype|html|head|body|title|meta|div|p|h1)\b", re.I | re.S
)


@dataclass(frozen=True)
class CollectionModel:
    """What judges the pages of a collection, and the names of its topics."""

    model: Model
    topics: Mapping[int, str]
    """The path of each topic, by number; the name of the root."""

    @classmethod
    def of(cls, folder: Path | str) -> Self:
        """The newest model of a collection, or the words of its topics while there is none."""
        collection = Collection(folder)
        learned, topics = model_for_others(OperationClient(collection.folder, collection.settings))
        if not learned:
            raise InputError(
                f"{folder}: has neither a model nor words to judge by",
                f"Give examples, then: opilio train {quote(str(folder))}",
            )
        return cls(Model.from_bytes(learned), topics)

    def judge(self, item: ClassifierInput) -> Judgement:
        """Which topic a page belongs to, and how relevant it is."""
        return self.model.judge(item)

    def topic_of(self, said: Judgement) -> str:
        """The name of the topic that took a page; OTHERS if none did."""
        return self.topics.get(said.topic, "") if said.accepted else OTHERS


class InputReader:
    """Makes of web pages and texts what a classifier is given. One thread may use it."""

    def __init__(self) -> None:
        self.analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
        self._texts = TextReader()

    def document(self, body: bytes, content_type: str = "", url: str = NOWHERE) -> Document | None:
        """The document in the bytes of a page; None if it is neither HTML nor text."""
        return (
            None if self.analyzer.is_risky(body, content_type, url) else self.analyzer.analyze(body, content_type, url)
        )

    def read(self, page: str | bytes) -> ClassifierInput:
        """A page, as HTML or as plain text. Bytes that are neither have no words."""
        if isinstance(page, str) and not _HTML.match(page):
            return self._texts.read("", page)
        body, content_type = (
            (page, "") if isinstance(page, bytes) else (page.encode("utf-8", "replace"), "text/html; charset=utf-8")
        )
        document = self.document(body, content_type)
        return ClassifierInput.of(document, NOWHERE) if document is not None else self._texts.read("", "")

    @property
    def stems(self) -> dict[int, str]:
        """The stems of the plain texts read so far, by hash code."""
        return self._texts.terms
