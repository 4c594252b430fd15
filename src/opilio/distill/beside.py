"""Link analysis of all topics at once, as a crawl needs it: the links are loaded once, from one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import numpy as np

from opilio.distill.graph import WebGraph
from opilio.distill.hits import hits
from opilio.distill.merging import ends_of
from opilio.distill.options import Options
from opilio.distill.recommending import Estimates, Recommended, recommended
from opilio.distill.scores import Scores
from opilio.store import Store
from opilio.topics import hierarchy_of

if TYPE_CHECKING:  # it takes a tenth of a second to import
    from opilio.distill.scores import Oids

BESIDE = Options(tolerance=1e-6, max_rounds=100)
"""Beside a crawl only the order of the best matters, and that of these scores is settled after a few rounds."""
MAX_RAISED = 2000
"""URLs that may rise at a time, shared by the topics; the engine moves so many in some milliseconds."""
LEAST_RAISED = 20
"""... of each topic at least."""

# A page may have been judged by the same model twice, when it was fetched again: the latest counts.
_ACCEPTED = """
WITH latest AS (SELECT oid, model_version, arg_max(accepted, rowid) AS accepted FROM judgements GROUP BY ALL)
SELECT oid, kcid FROM pages JOIN latest USING (oid, model_version) WHERE accepted ORDER BY oid
"""
_IS_JUDGED = "SELECT count(model_version) > 0 FROM pages"


@dataclass(frozen=True, eq=False)
class Analysis:
    """What link analysis found."""

    by_topic: dict[int, Scores]
    """Of the topics that are wanted and have pages."""
    overall: Scores
    """Of all of these together; of all pages, where nothing is judged yet."""
    recommended: Recommended
    """URLs that should rise. None where nothing is judged: then nobody knows how good a hub is."""


def analyse(
    store: Store,
    wanted: Collection[int],
    percentile: float,
    *,
    goes_on: Callable[[], bool] = lambda: True,
    options: Options = BESIDE,
) -> Analysis | None:
    """HITS of each topic and of all, and what their great hubs recommend; None as soon as it should not go on."""
    hierarchy = hierarchy_of(store.load_topics())
    topics = sorted(set(wanted) & set(hierarchy.nodes))
    with store.reading() as cursor:
        graph = WebGraph.load(cursor)
        estimates = Estimates.load(cursor, graph)
        accepted, kcids = _accepted(cursor)
        is_judged = bool(cursor.execute(_IS_JUDGED).fetchall()[0][0])
    bases = {kcid: accepted[np.isin(kcids, sorted(hierarchy.below(kcid)))] for kcid in topics}
    everything = accepted[np.isin(kcids, topics)] if is_judged else np.flatnonzero(graph.stored)
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


def _accepted(cursor: duckdb.DuckDBPyConnection) -> tuple[Oids, Oids]:
    """The pages that a topic took, and which."""
    found = cursor.execute(_ACCEPTED).fetchnumpy()
    return np.asarray(found["oid"], np.int64), np.asarray(found["kcid"], np.int64)


def _ends(graph: WebGraph, base: Oids) -> Oids:
    """The base set with redirects and duplicates merged."""
    ends = np.unique(ends_of(base, graph.merged))
    return ends[(ends >= 0) & (ends < graph.urls)]
