"""`distill`: hubs and authorities of a collection or a topic, by any method; and the analysis of all topics at once.
crawl.

`analyse` does what a crawl needs: HITS of every wanted topic and of all together, with the links loaded once, from one
snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np

from opilio.distill.focus import focus
from opilio.distill.graph import WebGraph, ends_of
from opilio.distill.rankings import hits, rank_pages
from opilio.distill.recommendations import Estimates, Recommended, recommended
from opilio.distill.scores import DistillOptions, Scored, Scores
from opilio.errors import InputError
from opilio.store import Store
from opilio.store.links import accepted_pages, is_judged, page_oids, pages_accepted_by
from opilio.store.pages import QueueEntry, queue_entries
from opilio.topics import find_topic, hierarchy_of

if TYPE_CHECKING:
    from opilio.distill.scores import Oids

BACKGROUND_OPTIONS = DistillOptions(tolerance=1e-6, max_rounds=100)
"""While a crawl runs only the order of the best matters, and with these options that is settled after a few rounds."""
MAX_RAISED = 2000
"""URLs that may rise at a time, shared by the topics; the engine moves them in some milliseconds."""
LEAST_RAISED = 20
"""... of each topic at least."""


def distill(
    store: Store,
    topic: str | int | None = None,
    method: str = "hits",
    *,
    options: DistillOptions | None = None,
    base: Sequence[int] | Oids | None = None,
    graph: WebGraph | None = None,
) -> Scores:
    """Hub and authority scores of pages, by oid. Changes nothing; may run while a crawl does, in any thread.

    `topic` is a path or a number and stands for all that is below it; without it, all topics that are wanted are meant,
    and all pages where nothing is judged yet. `base` names the pages of the topic in place of the judgements (not for
    `focus`, which goes by relevance). `graph` (`WebGraph.of`) saves loading the links for each of several topics.
    """
    run = METHODS.get(method)
    if run is None:
        raise InputError(f"no method of link analysis is called {method!r}", f"There are: {', '.join(METHODS)}.")
    given = None if base is None else np.unique(np.asarray(base, np.int64))
    return run(store, _Asked(_topics(store, topic), options or DistillOptions(), given, graph))


class _Asked(NamedTuple):
    topics: list[int] | None
    """None: all that are wanted."""
    options: DistillOptions
    base: Oids | None
    graph: WebGraph | None


def _hits(store: Store, asked: _Asked) -> Scores:
    graph, base = _load(store, asked)
    return hits(graph, base, asked.options)


def _focus(store: Store, asked: _Asked) -> Scores:
    if asked.base is not None:
        raise InputError("the distiller of Focus goes by relevance, not by given pages", "Use the method hits.")
    with store.reading() as cursor:
        return focus(cursor, asked.topics, asked.options)


def _pagerank(store: Store, asked: _Asked) -> Scores:
    """Ranks are found over the whole graph; a topic or a base set only chooses whose are given (BestN 4.2)."""
    graph, base = _load(store, asked)
    ranked = rank_pages(graph, asked.options)
    if asked.topics is None and asked.base is None:
        return ranked
    chosen = np.isin(ranked.oids, base)
    authority, hub = ranked.authority[chosen], ranked.hub[chosen]
    return Scores(ranked.oids[chosen], hub, authority, ranked.method, ranked.rounds, ranked.converged)


METHODS: Mapping[str, Callable[[Store, _Asked], Scores]] = {"hits": _hits, "focus": _focus, "pagerank": _pagerank}


def _load(store: Store, asked: _Asked) -> tuple[WebGraph, Oids]:
    """The links and the base set, from one snapshot."""
    topics = _wanted(store) if asked.topics is None else asked.topics
    with store.reading() as cursor:
        graph = WebGraph.load(cursor) if asked.graph is None else asked.graph
        base = asked.base
        if base is None:
            base = _base_set(cursor, topics, or_all=asked.topics is None)
    return graph, _ends(graph, base)


def _base_set(cursor: duckdb.DuckDBPyConnection, topics: list[int], *, or_all: bool) -> Oids:
    """The pages accepted by one of the topics; with `or_all`, all pages while none has been judged."""
    return page_oids(cursor) if or_all and not is_judged(cursor) else pages_accepted_by(cursor, topics)


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


def list_best(store: Store, topic: str | None, method: str, top: int) -> dict[str, Any]:
    """The same, distilled now."""
    return listing(store, distill(store, topic, method), top)


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


def analyse(
    store: Store,
    wanted: Collection[int],
    percentile: float,
    *,
    goes_on: Callable[[], bool] = lambda: True,
    options: DistillOptions = BACKGROUND_OPTIONS,
) -> Analysis | None:
    """HITS of each topic and of all, and what their great hubs recommend; None as soon as it should not go on."""
    hierarchy = hierarchy_of(store.load_topics())
    topics = sorted(set(wanted) & set(hierarchy.nodes))
    with store.reading() as cursor:
        graph = WebGraph.load(cursor)
        estimates = Estimates.load(cursor, graph)
        accepted, kcids = accepted_pages(cursor)
        has_judgements = is_judged(cursor)
    bases = {kcid: accepted[np.isin(kcids, sorted(hierarchy.below(kcid)))] for kcid in topics}
    everything = accepted[np.isin(kcids, topics)] if has_judgements else np.flatnonzero(graph.stored)
    overall = hits(graph, _ends(graph, everything), options)
    found: dict[int, Scores] = {}
    parts: list[Recommended] = []
    with_pages = [kcid for kcid in topics if len(bases[kcid])]
    for kcid in with_pages:
        if not goes_on():
            return None
        is_all = np.array_equal(bases[kcid], everything)
        found[kcid] = overall if is_all else hits(graph, _ends(graph, bases[kcid]), options)
        limit = max(LEAST_RAISED, MAX_RAISED // len(with_pages))
        parts.append(recommended(graph, found[kcid], estimates, percentile, limit))
    return Analysis(found, overall, Recommended.joined(parts))


def _ends(graph: WebGraph, base: Oids) -> Oids:
    """The base set with redirects and duplicates merged."""
    ends = np.unique(ends_of(base, graph.merged))
    return ends[(ends >= 0) & (ends < graph.urls)]
