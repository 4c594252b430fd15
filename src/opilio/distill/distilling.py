"""`distill`: hubs and authorities of a collection or a topic, by any of the ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import numpy as np

from opilio.distill.focus import focus
from opilio.distill.graph import WebGraph
from opilio.distill.hits import hits
from opilio.distill.merging import ends_of
from opilio.distill.options import Options
from opilio.distill.pagerank import rank_pages
from opilio.distill.scores import Scores
from opilio.errors import InputError
from opilio.store import Store
from opilio.topics import find_topic, hierarchy_of

if TYPE_CHECKING:  # it takes a tenth of a second to import
    from opilio.distill.scores import Oids

# A page may have been judged by the same model twice, when it was fetched again: the latest counts.
_BASE = """
WITH latest AS (SELECT oid, model_version, arg_max(accepted, rowid) AS accepted FROM judgements GROUP BY ALL)
SELECT oid FROM pages JOIN latest USING (oid, model_version)
WHERE accepted AND kcid IN (SELECT unnest($topics::SMALLINT[]))
ORDER BY oid
"""
_IS_JUDGED = "SELECT count(model_version) > 0 FROM pages"
_ALL_PAGES = "SELECT oid FROM pages ORDER BY oid"


def distill(
    store: Store,
    topic: str | int | None = None,
    method: str = "hits",
    *,
    options: Options | None = None,
    base: Sequence[int] | Oids | None = None,
    graph: WebGraph | None = None,
) -> Scores:
    """Hub and authority scores of pages, by oid. Changes nothing; may run beside a crawl, in any thread.

    `topic` is a path or a number and stands for all that is below it; without it, all topics that are wanted are meant,
    and all pages where nothing is judged yet. `base` names the pages of the topic in place of the judgements (not for
    `focus`, which goes by relevance). `graph` (`WebGraph.of`) saves loading the links for each of several topics.
    """
    run = METHODS.get(method)
    if run is None:
        raise InputError(f"no way of link analysis is called {method!r}", f"There are: {', '.join(METHODS)}.")
    given = None if base is None else np.unique(np.asarray(base, np.int64))
    return run(store, _Asked(_topics(store, topic), options or Options(), given, graph))


class _Asked(NamedTuple):
    topics: list[int] | None
    """None: all that are wanted."""
    options: Options
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
    ends = np.unique(ends_of(base, graph.merged))
    return graph, ends[(ends >= 0) & (ends < graph.urls)]


def _base_set(cursor: duckdb.DuckDBPyConnection, topics: list[int], *, or_all: bool) -> Oids:
    """The pages accepted by one of the topics; with `or_all`, all pages while none has been judged."""
    is_judged = cursor.execute(_IS_JUDGED).fetchall()[0][0]
    if or_all and not is_judged:
        found = cursor.execute(_ALL_PAGES).fetchnumpy()
    else:
        found = cursor.execute(_BASE, {"topics": topics}).fetchnumpy()
    return np.asarray(found["oid"], np.int64)


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
