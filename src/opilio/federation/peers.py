"""What a peer can be asked, and the file that says who the peers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from opilio.errors import OpilioError


class PeerError(OpilioError):
    """A peer that did not answer, or that did not let us in."""


class WordStatistics(msgspec.Struct, array_like=True, frozen=True):
    """One word of a summary: what is needed to guess how many of a collection's pages would score high."""

    pages: int
    """Pages that have the word."""
    mean: float
    """Of what it adds to their scores, without the weight of the word (idf)."""
    variance: float


class TopicProfile(msgspec.Struct, frozen=True):
    """One topic that a collection wants, so that a crawler elsewhere can tell what would suit it."""

    path: str
    description: str
    pages: int
    terms: dict[str, float]
    """Its characteristic stems; the squares of their weights add up to 1."""
    typical: float
    """Three quarters of the pages of the topic are at least this like the profile (cosine)."""


class Summary(msgspec.Struct, frozen=True):
    """What a collection says of itself."""

    name: str
    version: str
    """Changes with the collection: who has the same version need not be sent the summary again."""
    pages: int
    mean_words: float
    """Words in a page, on average."""
    topics: list[TopicProfile]
    words: dict[str, WordStatistics]


class Found(msgspec.Struct, frozen=True):
    """One page of an answer."""

    result: dict[str, Any]
    """As `Collection.search` describes it."""
    words: dict[str, float]
    """What each word of the question added to its score, without the weight of the word (idf)."""


class Answer(msgspec.Struct, frozen=True):
    """What a peer says to a question."""

    total: int
    pages: list[Found]
    facets: dict[str, list[dict[str, Any]]] = {}
    took_ms: float = 0.0


class Offer(msgspec.Struct, frozen=True):
    """A URL that suits another collection's topic."""

    url: str
    topic: str
    relevance: float
    """How well it suits the topic, as far as who offers it can tell: 0..1."""
    title: str = ""


class Peer(Protocol):
    """A collection of the federation. Every method may take a while, and raises PeerError when it cannot be done."""

    @property
    def name(self) -> str:
        """What the federation calls it."""
        ...

    @property
    def place(self) -> str:
        """Its folder or its address, as users know it."""
        ...

    def summary(self, known: Summary | None = None) -> Summary:
        """What it says of itself; `known` itself when nothing has changed since."""
        ...

    def ask(
        self,
        question: str,
        *,
        weights: Mapping[str, float] | None,
        filters: Sequence[tuple[str, str]],
        most: int,
        timeout_s: float,
    ) -> Answer:
        """Its best `most` pages for a question."""
        ...

    def feedback(self, url: str, topic: str, *, relevant: bool) -> str:
        """Tell it whether one of its pages is relevant to a topic ('': the one it is in); a sentence for the user."""
        ...

    def offer(self, sender: str, offers: Sequence[Offer]) -> int:
        """Hand over URLs; how many of them were new to it."""
        ...
