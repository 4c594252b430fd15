"""Which pages to ask the user about: half the surest, half those closest to the threshold.

A question is "is this page about the topic?". Answers on the surest pages show early when a model accepts the wrong
pages; answers on uncertain ones move the border. A mix is better than uncertain pages alone: an early model is often
uncertain about odd pages that resemble nothing else.

Topics take turns, those with the fewest answers first. Sure and uncertain pages alternate, within a topic and from
topic to topic. Among pages of about the same rank, one of a host comes first that no earlier question of the round is
about. Two pages with nearly the same title or text are not asked about in one round: one answer serves for both.

Before there is a model, when words alone have judged the pages, all questions are about the best hits: what is wanted
then are examples.

This is plain code without input or output; `asking.py` reads and writes the questions.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from opilio.analyze.sketch import jaccard
from opilio.model import RELEVANT
from opilio.model.visit import BORDERLINE_WITHIN

ROUND_SIZE = 5
ROUND_SHARE = 4
"""A round has at least one in so many of the questions in all: more questions make larger rounds, not later ones."""
SIMILAR_WITHIN = 0.05
"""Two pages have a similar relevance when they differ by at most this much."""
SCORE_STEPS = 100
"""Relevance is counted in so many steps."""
SAME_TITLE = 0.8
"""Two titles are nearly the same when they share this part of their words (Jaccard) ..."""
SAME_TEXT = 0.5
"""... and two texts when they share this part of their shingles."""
WINDOW = 4
"""So many times as many pages as are needed count as of about the same rank."""


class QuestionReason(StrEnum):
    """Why a page was chosen. The database column `questions.reason` has these words."""

    SURE = "sure"
    UNCERTAIN = "uncertain"

    @property
    def words(self) -> str:
        """As users read it."""
        return _WORDS[self]


_WORDS = {
    QuestionReason.SURE: "one of the surest pages",
    QuestionReason.UNCERTAIN: "nearly as many reasons for as against",
}


class QuestionAnswer(StrEnum):
    """What the user says. The database column `questions.answer` has these words."""

    YES = "yes"
    NO = "no"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A judged page that the user can be asked about."""

    oid: int
    kcid: int
    """The wanted topic that it may be about."""
    relevance: float
    confidence: float
    """In the classifier's own measure; it decides between pages of the same relevance."""
    host: str
    title: str
    sketch: bytes = b""
    """Of its text (`analyze/sketch.py`); empty for a short page."""


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """Is this page about this topic?"""

    oid: int
    kcid: int
    reason: QuestionReason
    benefit: int
    """How many other pages have a similar relevance: their judgement is what the answer is likely to move."""


ScoreCounts = Mapping[int, int]
"""How many pages of a topic have a relevance, by `score_step`."""


def round_size(budget: int) -> int:
    """How many questions a round has when `budget` answers are asked for in all."""
    return max(ROUND_SIZE, budget // ROUND_SHARE)


def choose_questions(
    candidates: Iterable[Candidate],
    known: Collection[int],
    size: int = ROUND_SIZE,
    counts: Mapping[int, ScoreCounts] | None = None,
    answers: Mapping[int, int] = MappingProxyType({}),
    *,
    only_best: bool = False,
) -> list[UserQuestion]:
    """The questions of a round, at most `size`; none about `known` pages.

    `counts` has the scores of all pages by topic, when the candidates are only some of them; `answers` says how many
    answers each topic has. With `only_best` all questions are about the most relevant pages.
    """
    pages = {page.oid: page for page in candidates if page.oid not in known}
    counts = count_scores(pages.values()) if counts is None else counts
    by_topic: dict[int, list[Candidate]] = {}
    for page in sorted(pages.values(), key=lambda page: page.oid):
        by_topic.setdefault(page.kcid, []).append(page)
    round_ = _Round()
    order = sorted(by_topic, key=lambda kcid: (answers.get(kcid, 0), kcid))
    topics = [
        _best(by_topic[kcid], round_) if only_best else _alternating(by_topic[kcid], round_, size, place % 2)
        for place, kcid in enumerate(order)
    ]
    return [
        UserQuestion(page.oid, page.kcid, reason, similar_pages(counts[page.kcid], page.relevance))
        for page, reason in itertools.islice(_in_turn(topics), size)
    ]


def count_scores(pages: Iterable[Candidate]) -> dict[int, Counter[int]]:
    """How many pages of each topic have which relevance."""
    counts: dict[int, Counter[int]] = {}
    for page in pages:
        counts.setdefault(page.kcid, Counter())[score_step(page.relevance)] += 1
    return counts


def score_step(relevance: float) -> int:
    """The step that a relevance counts for."""
    return math.floor(relevance * SCORE_STEPS)


def similar_pages(counts: ScoreCounts, relevance: float) -> int:
    """How many pages other than one have a relevance similar to its own."""
    step, reach = score_step(relevance), round(SIMILAR_WITHIN * SCORE_STEPS)
    return max(0, sum(counts.get(near, 0) for near in range(step - reach, step + reach + 1)) - 1)


def describe_benefit(benefit: int) -> str:
    """The benefit as users read it."""
    if not benefit:
        return "no other page has a similar score"
    pages = "1 other page has" if benefit == 1 else f"{benefit:,} other pages have"
    return f"{pages} a similar score, and may be re-judged by your answer"


class _Round:
    """What the questions chosen so far are about."""

    def __init__(self) -> None:
        self._hosts: Counter[str] = Counter()
        self._pages: list[Candidate] = []

    def take(self, ranked: Sequence[Candidate], window: int) -> Candidate | None:
        """The best page that is not like a chosen one: of a host with the fewest questions, then by rank."""
        fresh = (page for page in ranked if not any(are_alike(page, chosen) for chosen in self._pages))
        near = list(itertools.islice(fresh, window))
        if not near:
            return None
        page = min(near, key=lambda page: self._hosts[page.host])  # the first of them, by rank
        self._hosts[page.host] += 1
        self._pages.append(page)
        return page


def _best(pages: Sequence[Candidate], round_: _Round) -> Iterator[tuple[Candidate, QuestionReason]]:
    """The pages of a topic, the most relevant first."""
    ranked = sorted(pages, key=_by_rank)
    while (page := round_.take(ranked, 1)) is not None:
        yield page, QuestionReason.SURE


def _by_rank(page: Candidate) -> tuple[float, float, int]:
    return -page.relevance, -page.confidence, page.oid


def _alternating(
    pages: Sequence[Candidate], round_: _Round, size: int, first: int
) -> Iterator[tuple[Candidate, QuestionReason]]:
    """The pages of a topic, sure and uncertain in turn; when one kind is used up, the other alone.

    `first` is 0 to begin with a sure page, 1 to begin with an uncertain one.
    """
    sure = sorted((page for page in pages if page.relevance >= RELEVANT), key=_by_rank)
    uncertain = sorted(
        (page for page in pages if abs(page.relevance - RELEVANT) <= BORDERLINE_WITHIN),
        key=lambda page: (abs(page.relevance - RELEVANT), page.oid),
    )
    both = [(sure, QuestionReason.SURE), (uncertain, QuestionReason.UNCERTAIN)]
    kinds = both[first:] + both[:first]
    while kinds:
        for kind in tuple(kinds):
            page = round_.take(kind[0], WINDOW * size)
            if page is None:
                kinds.remove(kind)
            else:
                yield page, kind[1]


def _in_turn(
    topics: Sequence[Iterator[tuple[Candidate, QuestionReason]]],
) -> Iterator[tuple[Candidate, QuestionReason]]:
    """One of each topic, then the next of each, until all are used up."""
    waiting = list(topics)
    while waiting:
        for topic in tuple(waiting):
            found = next(topic, None)
            if found is None:
                waiting.remove(topic)
            else:
                yield found


def are_alike(one: Candidate, other: Candidate) -> bool:
    """Whether two pages are the same, or have nearly the same title or text. An empty title is like no other."""
    if one.oid == other.oid:
        return True
    a, b = _title_words(one.title), _title_words(other.title)
    if a and b and len(a & b) >= SAME_TITLE * len(a | b):
        return True
    return jaccard(one.sketch, other.sketch) >= SAME_TEXT


@functools.lru_cache(maxsize=4096)
def _title_words(title: str) -> frozenset[str]:
    return frozenset("".join(char if char.isalnum() else " " for char in title.casefold()).split())
