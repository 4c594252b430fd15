"""Tasks for crawlers, made of the labels of a recorded web (BestN 2).

A label with enough pages is a topic. Its pages are put into an order that nobody chose (by SHA-256), then cut up: the
first few are the *examples* that a crawler is given, all others the *targets* that it is to find. A second seed set
takes the next few as examples, so that start sets never overlap. A crawler also gets the *keywords* of a topic;
the *description* is for measuring only.

There are three tasks. From examples: the crawl starts at the examples. From neighbours: it starts at pages from which
targets can be reached by two links, and examples serve to train a classifier only. From a question: the crawler gets
the words of the last part of the label, as a user would type them, and no example. It starts at the ten best hits of a
plain search over the whole web (BM25), a stand-in for a search engine. All pages of the label are targets then, the
hits included.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.analyze.terms import Vocabulary, term_ids, tokenize
from opilio.distill.rankings import pagerank
from opilio.errors import InputError
from opilio.features.weights import mutual_information
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.graph import LinkGraph

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

EXAMPLES = 5
CHARACTERISTIC_TERMS = 5
DESCRIBED_TARGETS = 10  # BestN 2.1: the description is made of up to ten pages
DESCRIBED_WORDS = 40  # of each of them: about as much as an editor writes
IN_LINKS = 20  # BestN 2.1: followed of each page, the best first
NEIGHBOURS = 10
HITS = 10
TITLE_WORDS = 5.0
"""A word of the title counts as so many of the text when a question is searched for."""
SATURATION, LENGTH_SHARE = 1.2, 0.75
"""k1 and b of BM25, the usual ones."""


class Way(StrEnum):
    """Which way a link is followed."""

    BACK = "back"
    FORTH = "forth"


TWO_BACK = (Way.BACK, Way.BACK)
"""BestN 2.1: the in-links of the in-links. A target is two links ahead of each neighbour."""
BACK_AND_FORTH = (Way.BACK, Way.FORTH)
"""Pages that are linked to next to a target: related, but they need not lead to it."""


class Start(StrEnum):
    """Where a crawl of a task begins."""

    EXAMPLES = "from examples"
    NEIGHBOURS = "from neighbours"
    QUESTION = "from a question"


@dataclass(frozen=True)
class TaskTopic:
    """A label as a topic, with one seed set."""

    label: str
    seed_set: int
    name_words: tuple[str, ...]
    """The words of the label itself."""
    characteristic: tuple[str, ...]
    """The words that tell its pages from all others, best first."""
    description: str
    """What some of the targets say of themselves. For measuring: a crawler must not see it."""
    examples: tuple[int, ...]
    targets: tuple[int, ...]
    """All pages of the label but the examples, ascending."""
    neighbours: tuple[int, ...]
    """Neither examples nor targets; fewer than wanted, or none, where the targets have few in-links."""
    hits: tuple[int, ...] = ()
    """The best hits of a search for the words of the label, best first."""
    is_question: bool = False
    """Whether the words of the label are all that a crawler gets."""

    @property
    def keywords(self) -> str:
        """What a crawler gets: the label's words, then the characteristic ones, each once."""
        return " ".join(dict.fromkeys((*self.name_words, *self.characteristic)))

    @property
    def is_development(self) -> bool:
        """Whether the topic is for tuning; the others are for final figures only."""
        return is_development(self.label)

    def starts(self, start: Start) -> tuple[int, ...]:
        """The pages at which a crawl begins."""
        return {Start.EXAMPLES: self.examples, Start.NEIGHBOURS: self.neighbours, Start.QUESTION: self.hits}[start]

    def relevance(self, pages: int) -> Values:
        """1 for each page of the label, examples included, 0 for the others: a perfect judge, by page number."""
        truth = np.zeros(pages)
        truth[[*self.examples, *self.targets]] = 1.0
        return truth


def is_development(label: str) -> bool:
    """The split of topics: for development when the SHA-256 of the label begins with an even hex digit."""
    return int(hashlib.sha256(label.encode()).hexdigest()[0], 16) % 2 == 0


class TaskMaker:
    """Makes topics of the labels of one web."""

    def __init__(self, analysed: Analysed, *, examples: int = EXAMPLES, seed: int = 0) -> None:
        self._analysed = analysed
        self._examples = examples
        self._seed = seed
        self.graph = LinkGraph.of(analysed)
        self._back = self.graph.backwards()
        self._popularity = pagerank(self.graph.within())
        self._hits: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._readable = analysed.readable
        self._term_ids, self._pages_with = _document_frequencies(analysed, np.flatnonzero(self._readable))

    def labels(self, min_pages: int = 20, *, max_share: float = 0.5, development: bool | None = None) -> list[str]:
        """The labels that make a topic, sorted: with `min_pages` pages, and not most of the web.

        `development` chooses a side of the split; None: both.
        """
        most = max_share * self._readable.sum()
        return [
            label
            for label in sorted(self._analysed.web.labels)
            if min_pages <= len(self._pages(label)) <= most and development in (None, is_development(label))
        ]

    def topic(self, label: str, seed_set: int = 0, way: tuple[Way, ...] = TWO_BACK) -> TaskTopic:
        """The topic of a label. Seed sets are 0, 1, ... as long as there are pages; their examples are disjoint."""
        pages = sorted(self._pages(label), key=lambda page: self._lot(label, "page", page))
        first = seed_set * self._examples
        examples = pages[first : first + self._examples]
        targets = pages[:first] + pages[first + self._examples :]
        if len(examples) < self._examples or not targets:
            raise InputError(
                f"label {label!r} has {len(pages)} pages: not enough for seed set {seed_set}",
                f"Choose one of `labels(min_pages)`; each seed set takes {self._examples} pages.",
            )
        return TaskTopic(
            label,
            seed_set,
            name_words(label),
            self._characteristic(label, pages),
            self._description(targets[:DESCRIBED_TARGETS]),
            tuple(examples),
            tuple(sorted(targets)),
            self.neighbours(label, targets, examples, way),
        )

    def task(self, topic: TaskTopic, start: Start) -> TaskTopic:
        """A topic as a task has it: from a question, without examples and with no other words than the question's."""
        if start is not Start.QUESTION:
            return topic
        targets = tuple(sorted((*topic.examples, *topic.targets)))
        words = question_words(topic.label)
        return replace(
            topic, name_words=words, characteristic=(), examples=(), targets=targets, hits=self.hits(words),
            is_question=True,
        )  # fmt: skip

    def hits(self, words: Sequence[str]) -> tuple[int, ...]:
        """The best hits of a plain search of the web for some words, best first."""
        if (known := self._hits.get(tuple(words))) is None:
            scores = _bm25(self._analysed, term_ids(" ".join(words)))
            order = np.argsort(-scores, kind="stable")[:HITS]
            known = self._hits[tuple(words)] = tuple(int(page) for page in order if scores[page] > 0.0)
        return known

    def neighbours(
        self, label: str, targets: Sequence[int], examples: Sequence[int] = (), way: tuple[Way, ...] = TWO_BACK
    ) -> tuple[int, ...]:
        """Some pages that one comes to from the targets by following links this way; the best in-links only (BestN 2).

        The paper asks a search engine for the top 20 in-links; here they are those with the greatest PageRank.
        """
        edge = list(targets)
        for direction in way:
            graph = self._back if direction is Way.BACK else self.graph
            edge = sorted({found for page in edge for found in self._best_links(graph, page)})
        known = {*targets, *examples}
        drawn = sorted(set(edge) - known, key=lambda page: self._lot(label, "neighbour", page))
        return tuple(sorted(drawn[:NEIGHBOURS]))

    def _best_links(self, graph: LinkGraph, page: int) -> list[int]:
        found = np.unique(graph.links_of(page))
        found = found[self._readable[found] & (found != page)]
        return [int(one) for one in found[np.lexsort((found, -self._popularity[found]))[:IN_LINKS]]]

    def _pages(self, label: str) -> list[int]:
        pages = self._analysed.web.labels.get(label)
        if pages is None:
            raise InputError(f"no page of {self._analysed.web.name} has the label {label!r}", "See `labels()`.")
        return [page for page in pages if self._readable[page]]

    def _lot(self, label: str, what: str, page: int) -> bytes:
        """What puts pages into an order that nobody chose, the same on every machine."""
        return hashlib.sha256(f"{self._seed}\0{label}\0{what}\0{self._analysed.web.urls[page]}".encode()).digest()

    def _characteristic(self, label: str, pages: Sequence[int]) -> tuple[str, ...]:
        """Words for the stems with the greatest mutual information with the label (BINGO, equation 1)."""
        ids, counts = _document_frequencies(self._analysed, pages)
        present = self._pages_with[np.searchsorted(self._term_ids, ids)]
        scores = mutual_information(present, counts, int(self._readable.sum()), len(pages))
        said = set(term_ids(" ".join(name_words(label))))
        ranked = [term for term in ids[np.lexsort((ids, -scores))].tolist() if term not in said]
        chosen = [term for term in ranked if self._analysed.terms.get(term, "").isalpha()][:CHARACTERISTIC_TERMS]
        spelled = self._spellings(chosen, pages)
        return tuple(spelled[term] for term in chosen if term in spelled)

    def _spellings(self, terms: Sequence[int], pages: Sequence[int]) -> dict[int, str]:
        """The most frequent word behind each stem: a stem itself, stemmed again, may be another term."""
        vocabulary = Vocabulary()
        counts: dict[int, Counter[bytes]] = {term: Counter() for term in terms}
        for page in pages:
            document = self._analysed.documents[page]
            if document is not None:
                words = tokenize(f"{document.title}\n{document.text}")
                numbers = vocabulary.numbers(words, document.language) & np.uint64(0xFFFFFFFF)
                for at in np.flatnonzero(np.isin(numbers, np.array(terms, np.uint64))).tolist():
                    counts[int(numbers[at])][words[at]] += 1
        return {term: _commonest(found) for term, found in counts.items() if found}

    def _description(self, pages: Sequence[int]) -> str:
        parts = []
        for page in pages:
            document = self._analysed.documents[page]
            if document is not None:
                said = document.description or document.main_text or document.text
                parts.append(" ".join([document.title, *said.split()[:DESCRIBED_WORDS]]))
        return "\n".join(parts)


def _bm25(analysed: Analysed, terms: Sequence[int]) -> Values:
    """The score of each page for some terms, by its number; 0 for a page with none of them.

    It shares nothing with our judges. A word of the title counts as several of the text.
    """
    wanted = np.array(sorted(set(terms)), np.uint32)
    counts = np.zeros((len(analysed.documents), len(wanted)))
    lengths = np.zeros(len(analysed.documents))
    for page, document in enumerate(analysed.documents):
        if document is None:
            continue
        said = np.frombuffer(document.term_counts, "<u2").astype(np.float64)
        lengths[page] = said.sum()
        for place in np.flatnonzero(np.isin(ids := np.frombuffer(document.term_ids, "<u4"), wanted)).tolist():
            counts[page, np.searchsorted(wanted, ids[place])] += said[place]
        for term in set(term_ids(document.title, document.language)).intersection(wanted.tolist()):
            counts[page, np.searchsorted(wanted, term)] += TITLE_WORDS
    filled = lengths > 0.0
    relative = 1.0 - LENGTH_SHARE + LENGTH_SHARE * lengths / max(1.0, float(lengths[filled].mean()))
    present = (counts > 0.0).sum(axis=0)
    rarity = np.log(1.0 + (filled.sum() - present + 0.5) / (present + 0.5))
    scores: Values = (counts * (SATURATION + 1.0) / (counts + SATURATION * relative[:, None]) * rarity).sum(axis=1)
    return scores


def name_words(label: str) -> tuple[str, ...]:
    """The words of a label such as `Science.Biology.Birds_of_prey`, those that are terms, each once."""
    words = "".join(letter if letter.isalnum() else " " for letter in label).split()
    return tuple(dict.fromkeys(word.lower() for word in words if term_ids(word)))


def question_words(label: str) -> tuple[str, ...]:
    """What a user would type: the words of the last part of a label such as `Science.Birds` or `Science :: Birds`."""
    parts = [words for part in label.replace("::", ".").split(".") if (words := name_words(part))]
    return parts[-1] if parts else ()


def _commonest(counts: Counter[bytes]) -> str:
    """The word counted most often; of equal ones the first by letters."""
    return min(counts, key=lambda word: (-counts[word], word)).decode()


def _document_frequencies(analysed: Analysed, pages: Sequence[int] | Numbers) -> tuple[npt.NDArray[np.uint32], Numbers]:
    """The terms of some pages, ascending, and on how many of them each stands."""
    counts: Counter[int] = Counter()
    for page in pages:
        document = analysed.documents[int(page)]
        if document is not None:
            counts.update(np.frombuffer(document.term_ids, "<u4").tolist())
    ids = np.array(sorted(counts), np.uint32)
    return ids, np.array([counts[term] for term in ids.tolist()], np.int64)
