"""What a strategy that learns gets from a collection: before the first page, after a restart, and after re-judging.

`prepare_strategy` gives it what the topics are about. `replay_pages` shows it the stored pages again, as if they came
now: after a restart, or when another strategy takes over. `read_rejudged` reads, in one go, what a new model says of
the pages that it has learned from.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from opilio.analyze.terms import LinkWords, Vocabulary, link_words, term_ids
from opilio.classify import TrainingSet
from opilio.features.encoder import load_text_vectors
from opilio.features.word_vectors import stem_vectors
from opilio.frontier import Host, LearningStrategy, LinkTextStrategy, QueuedUrl, UrlAliases
from opilio.frontier.arrays import once
from opilio.frontier.hosts import Domain, HostState
from opilio.frontier.link_words import SLOTS, WordOdds
from opilio.frontier.strategies import KnownDocument, RejudgedPages, Rejudging
from opilio.learn.trainer import gather
from opilio.model import RELEVANT, Document, Judgement, Link, Links, Region
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.judgements import relevance_of
from opilio.store.links import hosts_by_oid, links_from, merge_steps
from opilio.store.pages import page_origins
from opilio.store.terms import term_lists, weigh_terms
from opilio.store.urls import url_outcomes

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]


MAX_PAGES = 5_000
"""Pages that are replayed: the latest. Each takes one to two milliseconds, and older ones are forgotten anyway."""
CHUNK_PAGES = 250

_NOWHERE = Host(0, "nowhere", Domain(), dict.fromkeys(HostState, 0))
_EMPTY = Document("", "", "", "", "", "", Links(), b"", b"", [], 0, b"")


def prepare_strategy(strategy: LinkTextStrategy, training: TrainingSet) -> None:
    """Give a strategy the words of the wanted topics, and the training documents, on-topic or not."""
    model = strategy.settings.word_vectors
    vectors = stem_vectors(model, _language_of(training)) if model else None
    if strategy.settings.encoder:
        strategy.use_encoder(load_text_vectors(strategy.settings.encoder), texts_of(training))
    strategy.prepare(term_ids(wanted_words(training)), documents_of(training), vectors)


def prepare_from(store: Store, settings: Settings, strategy: LearningStrategy) -> None:
    """The same with the training data of a collection, if the strategy reads words."""
    if isinstance(strategy, LinkTextStrategy):
        prepare_strategy(strategy, gather(store, settings, texts_only=True))


def _language_of(training: TrainingSet) -> str:
    """The language of most examples."""
    languages = Counter(example.item.language for example in training.examples)
    return languages.most_common(1)[0][0] if languages else ""


def wanted_words(training: TrainingSet) -> str:
    """The words that name the wanted topics."""
    return " ".join(words for kcid, words in training.keywords.items() if training.hierarchy.is_wanted(kcid))


def documents_of(training: TrainingSet) -> Iterator[KnownDocument]:
    """The stems of the training documents, and their relevance: 1 on a wanted topic, else 0."""
    for example in training:
        stems = once(example.item.stems)
        is_wanted = example.positive and training.hierarchy.is_wanted(example.kcid)
        title = np.array(term_ids(example.item.title, example.item.language), np.uint32)
        yield KnownDocument(stems[stems > 0], title, 1.0 if is_wanted else 0.0)


def texts_of(training: TrainingSet) -> list[tuple[str, float]]:
    """The words that name the wanted topics and the titles of the training documents, and their relevance."""
    titles = [
        (example.item.title, float(example.positive and training.hierarchy.is_wanted(example.kcid)))
        for example in training
    ]
    return [(wanted_words(training), 1.0), *titles]


@dataclass
class _Page:
    """A stored page as a strategy sees it."""

    depth: int
    parent: int
    language: str
    title: str
    terms: bytes = b""
    oids: list[int] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


def replay_pages(
    store: Store,
    strategy: LearningStrategy,
    replayed: set[int] | None = None,
    *,
    max_pages: int = MAX_PAGES,
    rest: float = 0.0,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Show a strategy the latest pages of a collection, as if they came now.

    `replayed` are oids that it has seen already; it grows. After each piece, `rest` times as long as that took is
    waited. Ends early when `goes_on` returns False.
    """
    vocabulary = Vocabulary()
    aliases = UrlAliases()
    with store.reading() as cursor:
        aliases.add_all(*merge_steps(cursor))
        sids = hosts_by_oid(cursor)
    steps: dict[int, int] = {}
    replayed = set() if replayed is None else replayed
    ends = [end for end in url_outcomes(store, max_pages) if end.oid not in replayed]
    replayed.update(end.oid for end in ends)
    for start in range(0, len(ends), CHUNK_PAGES):
        began_s = time.monotonic()
        piece = ends[start : start + CHUNK_PAGES]
        pages = _load(store, [end.oid for end in piece if end.is_stored])
        for oid, relevance, is_stored, kcid, accepted, is_dead in piece:
            if is_dead:
                strategy.settle_dead(oid)
            else:
                strategy.settle(oid, relevance)  # None: it has no judgement
            page = pages.get(oid) if is_stored else None
            if page is None:
                continue
            judgement = None if relevance is None else Judgement(kcid, accepted, relevance, relevance)
            url = QueuedUrl(oid, "", _NOWHERE, kcid, page.depth, relevance or 0.0)
            url.steps = steps.get(page.parent, 0)
            url.steps = steps[oid] = strategy.steps_at(url, judgement)
            document = _document(page, strategy, vocabulary)
            oids = aliases.final_all(page.oids)
            if max(oids, default=-1) >= len(sids):  # the crawl goes on, and has stored it since
                with store.reading() as cursor:
                    sids = hosts_by_oid(cursor)
            strategy.observe(url, judgement, document, oids, sids[oids].tolist())
        if not goes_on():
            break
        if rest and start + CHUNK_PAGES < len(ends):
            time.sleep(rest * (time.monotonic() - began_s))


def _document(page: _Page, strategy: LearningStrategy, vocabulary: Vocabulary) -> Document:
    reads_words = isinstance(strategy, LinkTextStrategy)
    links = Links.of(page.links)
    words = link_words(links, page.language, vocabulary) if reads_words else LinkWords()
    return msgspec.structs.replace(
        _EMPTY, title=page.title, language=page.language, links=links, term_ids=page.terms,
        link_words=words.stems, link_words_in=words.inside, link_words_around=words.around,
    )  # fmt: skip


def _load(store: Store, oids: Sequence[int]) -> dict[int, _Page]:
    pages = {
        page.oid: _Page(page.depth, -1 if page.parent is None else page.parent, page.language, page.title)
        for page in page_origins(store, oids)
    }
    for oid, terms in term_lists(store, oids):
        pages[oid].terms = np.array(terms, "<u4").tobytes()
    for link in links_from(store, oids):
        page = pages[link.source]
        page.oids.append(link.target)
        page.links.append(Link(link.url, 0, link.anchor, link.context, Region.BODY, len(page.links)))
    return pages


def read_rejudged(store: Store, settings: Settings, rejudging: Rejudging) -> RejudgedPages:
    """What the present model says of the pages that a strategy has learned from, and the present training data."""
    with store.reading() as cursor:
        oids, relevance, parents = relevance_of(cursor, once(rejudging.oids))
        weighed = rejudging.weigh(relevance.astype(np.float64))
        slots, good, bad = weigh_terms(cursor, oids, weighed, SLOTS)
    training = gather(store, settings, texts_only=True)
    words = WordOdds()
    documents = list(documents_of(training))
    for stems, _, is_good in documents:
        words.learn(stems, np.zeros(len(stems), np.int64), np.array([is_good]), are_once=True)
    words.add(slots, good, bad, (float(weighed.sum()), float((1.0 - weighed).sum())))
    keywords = frozenset(term_ids(wanted_words(training)))
    return RejudgedPages(
        oids, weighed, _steps(oids, relevance, parents), words, documents, keywords, texts_of(training)
    )


def _steps(oids: npt.NDArray[np.int64], relevance: Values, parents: npt.NDArray[np.int64]) -> Values:
    """By page: 0 when it is relevant, else one more than at the page that led to it."""
    steps: dict[int, int] = {}
    for oid, value, parent in zip(oids.tolist(), relevance.tolist(), parents.tolist(), strict=True):
        steps[oid] = 0 if value >= RELEVANT else steps.get(parent, 0) + 1
    return np.fromiter(steps.values(), np.float64, len(steps))
