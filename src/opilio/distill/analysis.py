"""`distill`: hubs and authorities of a collection or a topic, by any method; and the analysis of all topics at once.

`analyse` does what a crawl needs: the scores of every wanted topic and of all together, from one snapshot with the
links loaded once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import duckdb
import numpy as np

from opilio.distill.back_links import BackLinks, with_back_links
from opilio.distill.focus import focus
from opilio.distill.graph import WebGraph, ends_of
from opilio.distill.rankings import hits, rank_pages, weighted
from opilio.distill.recommendations import Estimates, Recommended, recommended
from opilio.distill.scores import DistillOptions, Scored, Scores, average
from opilio.errors import InputError
from opilio.frontier.arrays import once
from opilio.store import Store
from opilio.store.links import accepted_pages, is_judged
from opilio.store.pages import QueueEntry, queue_entries
from opilio.topics import find_topic, hierarchy_of

if TYPE_CHECKING:
    from opilio.distill.scores import Oids, Values

BACKGROUND_OPTIONS = DistillOptions(tolerance=1e-6, max_rounds=100)
"""While a crawl runs only the order of the best matters, and with these options that is settled after a few rounds."""
MAX_RAISED = 2000
"""URLs that may rise at a time, shared by the topics; the engine moves them in some milliseconds."""
LEAST_RAISED = 20
"""... of each topic at least."""
DEFAULT_METHOD = "weighted"
STORED_METHODS = ("weighted", "hits", "focus")
"""The methods whose scores can be stored: they find hubs too."""


def distill(
    store: Store,
    topic: str | int | None = None,
    method: str = DEFAULT_METHOD,
    *,
    options: DistillOptions | None = None,
    base: Sequence[int] | Oids | None = None,
    graph: WebGraph | None = None,
    back_links: BackLinks | None = None,
) -> Scores:
    """Hub and authority scores of pages, by oid. Changes nothing; may run while a crawl does, in any thread.

    `topic` is a path or a number and stands for all that is below it; without it, all topics that are wanted are meant,
    and all pages where nothing is judged yet. `base` names the pages of the topic in place of the judgements (not for
    `focus`, which goes by relevance). `graph` (`WebGraph.of`) saves loading the links for each of several topics.
    `back_links` adds pages outside the crawl that link to those of the topic (`weighted` and `hits`).
    """
    run = METHODS.get(method)
    if run is None:
        raise InputError(f"no method of link analysis is called {method!r}", f"There are: {', '.join(METHODS)}.")
    given = None if base is None else once(np.asarray(base, np.int64))
    request = _Request(_topics(store, topic), options or DistillOptions(), given)
    if method == "focus":
        return run(store, None, request)
    with store.reading() as cursor:
        snapshot = Snapshot.load(cursor, graph, None if method == "pagerank" else back_links)
    return run(store, snapshot, request)


class _Request(NamedTuple):
    topics: list[int] | None
    """None: all that are wanted."""
    options: DistillOptions
    base: Oids | None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The links of a collection, and how its pages are judged, at one moment."""

    graph: WebGraph
    estimates: Estimates
    accepted: Oids
    """The pages that a topic accepted, ascending, ..."""
    kcids: Oids
    """... and which."""
    is_judged: bool
    known: int
    """URLs of the collection. In `graph`, pages from `known` on are outside the crawl and only linked from there."""

    @classmethod
    def load(
        cls, cursor: duckdb.DuckDBPyConnection, graph: WebGraph | None = None, back_links: BackLinks | None = None
    ) -> Self:
        """As it is now; with the links of `graph`, if they were loaded before, and those from outside."""
        graph = WebGraph.load(cursor) if graph is None else graph
        accepted, kcids = accepted_pages(cursor)
        known = graph.urls
        if back_links is not None:
            base = accepted if is_judged(cursor) else np.flatnonzero(graph.stored)
            graph = with_back_links(cursor, graph, back_links, _ends(graph, base))
        return cls(graph, Estimates.load(cursor, graph), accepted, kcids, is_judged(cursor), known)

    def base_of(self, topics: Iterable[int]) -> Oids:
        """The pages that one of some topics accepted."""
        return _ends(self.graph, self.accepted[np.isin(self.kcids, sorted(topics))])

    def all_pages(self) -> Oids:
        """All stored pages."""
        return _ends(self.graph, np.flatnonzero(self.graph.stored))

    def relevance_to(self, topics: Iterable[int]) -> Values:
        """By oid: relevance to some topics. Pages of another topic have none."""
        relevance = self.estimates.relevance.copy()
        relevance[self.accepted[~np.isin(self.kcids, sorted(topics))]] = 0.0
        return relevance

    def relevance_in(self, base: Oids) -> Values:
        """By oid: 1 for given pages, 0 for all others."""
        relevance = np.zeros(self.graph.urls)
        relevance[base] = 1.0
        return relevance

    def scores_of(
        self,
        method: str,
        topics: Sequence[int] | None,
        options: DistillOptions,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> Scores:
        """The scores of some topics as one, by `weighted` or `hits`; None: of all pages, and all count the same."""
        base = self.all_pages() if topics is None else self.base_of(topics)
        if method == "hits":
            return hits(self.graph, base, options, goes_on)
        relevance = np.ones(self.graph.urls) if topics is None else self.relevance_to(topics)
        return weighted(self.graph, base, relevance, options, goes_on)

    def clip(self, scores: Scores) -> Scores:
        """The scores of URLs of the collection, without those of pages outside."""
        return scores if self.known == self.graph.urls else scores.below(self.known)


def _weighted(store: Store, at: Snapshot | None, request: _Request) -> Scores:
    """Without a topic: the mean of all that are wanted, so that none of them crowds out the others."""
    assert at is not None
    if request.base is not None:
        base = _ends(at.graph, request.base)
        return at.clip(weighted(at.graph, base, at.relevance_in(base), request.options))
    if request.topics is None and not at.is_judged:
        return at.clip(at.scores_of("weighted", None, request.options))
    below = _below_wanted(store) if request.topics is None else [request.topics]
    return at.clip(average([at.scores_of("weighted", kcids, request.options) for kcids in below]))


def _hits(store: Store, at: Snapshot | None, request: _Request) -> Scores:
    assert at is not None
    return at.clip(hits(at.graph, _base(store, at, request), request.options))


def _focus(store: Store, at: Snapshot | None, request: _Request) -> Scores:
    if request.base is not None:
        raise InputError("the distiller of Focus goes by relevance, not by given pages", "Use the method weighted.")
    with store.reading() as cursor:
        return focus(cursor, request.topics, request.options)


def _pagerank(store: Store, at: Snapshot | None, request: _Request) -> Scores:
    """Ranks are found over the whole graph; a topic or a base set only chooses whose are given (BestN 4.2)."""
    assert at is not None
    ranked = rank_pages(at.graph, request.options)
    if request.topics is None and request.base is None:
        return ranked
    chosen = np.isin(ranked.oids, _base(store, at, request))
    authority, hub = ranked.authority[chosen], ranked.hub[chosen]
    return Scores(ranked.oids[chosen], hub, authority, ranked.method, ranked.rounds, ranked.converged)


METHODS: Mapping[str, Callable[[Store, Snapshot | None, _Request], Scores]] = {
    "weighted": _weighted,
    "hits": _hits,
    "focus": _focus,
    "pagerank": _pagerank,
}


def _base(store: Store, at: Snapshot, request: _Request) -> Oids:
    """The given pages, or those that a topic accepted; all pages while none has been judged and no topic is given."""
    if request.base is not None:
        return _ends(at.graph, request.base)
    if request.topics is None and not at.is_judged:
        return at.all_pages()
    return at.base_of(_wanted(store) if request.topics is None else request.topics)


def _topics(store: Store, topic: str | int | None) -> list[int] | None:
    """A topic and all below it, by number; None for whatever is wanted."""
    if topic is None:
        return None
    records = store.load_topics()
    kcid = find_topic(records, topic).kcid if isinstance(topic, str) else topic
    hierarchy = hierarchy_of(records)
    if kcid not in hierarchy.nodes:
        raise InputError(f"no topic has the number {kcid}", "`opilio topics list FOLDER` shows the topics.")
    return sorted(hierarchy.below(kcid))


def _wanted(store: Store) -> list[int]:
    hierarchy = hierarchy_of(store.load_topics())
    return sorted(kcid for kcid in hierarchy.nodes if hierarchy.is_wanted(kcid))


def _below_wanted(store: Store) -> list[list[int]]:
    """Each wanted topic with all below it."""
    hierarchy = hierarchy_of(store.load_topics())
    return [sorted(hierarchy.below(kcid)) for kcid in _wanted(store)]


def listing(store: Store, scores: Scores, top: int = 20) -> dict[str, Any]:
    """The best hubs and authorities as plain values, fit for JSON."""
    hubs, authorities = scores.top_hubs(top), scores.top_authorities(top)
    with store.reading() as cursor:
        known = queue_entries(cursor, [page.oid for page in (*hubs, *authorities)])
    return {
        "method": scores.method,
        "pages": len(scores),
        "rounds": scores.rounds,
        "converged": scores.converged,
        "hubs": _described(hubs, known),
        "authorities": _described(authorities, known),
    }


def _described(pages: Sequence[Scored], known: dict[int, QueueEntry]) -> list[dict[str, Any]]:
    return [{"score": page.score, **known[page.oid]._asdict()} for page in pages]


@dataclass(frozen=True, eq=False)
class Analysis:
    """What link analysis found."""

    by_topic: dict[int, Scores]
    """Of the topics that are wanted and have pages."""
    overall: Scores
    """Of all of these together; of all pages, where nothing is judged yet."""
    recommended: Recommended
    """URLs that should rise. Empty where nothing is judged: then nothing shows how good a hub is."""


def check_stored_method(method: str) -> None:
    """Refuse a method whose scores cannot be stored."""
    if method not in STORED_METHODS:
        raise InputError(f"no hubs can be found by {method!r}", f"Choose one of: {', '.join(STORED_METHODS)}.")


def analyse(
    store: Store,
    wanted: Collection[int],
    percentile: float,
    *,
    method: str = DEFAULT_METHOD,
    goes_on: Callable[[], bool] = lambda: True,
    options: DistillOptions = BACKGROUND_OPTIONS,
    back_links: BackLinks | None = None,
) -> Analysis | None:
    """The scores of each topic and of all, and what their great hubs recommend; None as soon as it should not go on."""
    check_stored_method(method)
    hierarchy = hierarchy_of(store.load_topics())
    topics = sorted(set(wanted) & set(hierarchy.nodes))
    below = {kcid: sorted(hierarchy.below(kcid)) for kcid in topics}
    by_sql: dict[int | None, Scores] = {}
    with store.reading() as cursor:
        at = Snapshot.load(cursor, back_links=back_links)
        with_pages = [kcid for kcid in topics if len(at.base_of(below[kcid]))]
        if method == "focus":
            by_sql[None] = focus(cursor, None, options)
            by_sql |= {kcid: focus(cursor, below[kcid], options) for kcid in with_pages if goes_on()}
    found: dict[int, Scores] = {}
    parts: list[Recommended] = []
    for kcid in with_pages:
        if not goes_on():
            return None
        found[kcid] = by_sql[kcid] if by_sql else at.scores_of(method, below[kcid], options, goes_on)
        limit = max(LEAST_RAISED, MAX_RAISED // len(with_pages))
        parts.append(recommended(at.graph, found[kcid], at.estimates, percentile, limit))
    overall = by_sql[None] if by_sql else _overall(at, found, topics, method, options, goes_on)
    clipped = {kcid: at.clip(scores) for kcid, scores in found.items()}
    return Analysis(clipped, at.clip(overall), Recommended.joined(parts)) if goes_on() else None


def _overall(
    at: Snapshot,
    found: Mapping[int, Scores],
    topics: Sequence[int],
    method: str,
    options: DistillOptions,
    goes_on: Callable[[], bool],
) -> Scores:
    """The scores of all topics together: by `weighted` the mean of theirs, by `hits` those of all their pages."""
    if found and (method == "weighted" or len(topics) == 1):
        return average(list(found.values()))
    return at.scores_of(method, topics if at.is_judged else None, options, goes_on)


def _ends(graph: WebGraph, base: Oids) -> Oids:
    """The base set with redirects and duplicates merged."""
    ends = once(ends_of(base, graph.merged))
    return ends[(ends >= 0) & (ends < graph.urls)]
