"""What great hubs recommend, how relevant that is likely to be (Focus 3.2, 3.7), and storing scores.

`recommended` finds the same URLs that `neglected` lists, in the graph that is in memory anyway: a join over all links
for each of many topics would cost too much while a crawl runs. A hub is as good as what it recommends: its quality is
the mean relevance of the pages of other hosts that it links to and that have been fetched; few of them count less
(`rankings.PRIOR_LINKS`). What it recommends and nobody has fetched is likely to be as relevant. When several great hubs
recommend the same URL, the best of them counts.

`save_scores` stores scores where orders in SQL, archetypes and portals find them: the tables `hubs` and `auth` hold
those over all wanted topics, `link_scores` those of each topic. Only the best of each are stored: the scores of the
others say nothing, and would have to be written again each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import duckdb
import numpy as np
import pyarrow as pa

from opilio.distill.graph import WebGraph
from opilio.distill.rankings import hub_quality
from opilio.distill.scores import Scored, Scores, great_hubs
from opilio.frontier.arrays import once
from opilio.store import Store, arrow
from opilio.store.links import LinkScoreTables, page_relevance, save_link_scores, url_estimates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opilio.distill.graph import Flags
    from opilio.distill.scores import Oids, Values

MAX_SAVED = 10_000
"""Hubs, and authorities, of a topic."""
_SCORES = pa.schema([("kcid", pa.int16()), ("oid", pa.int64()), ("hub", pa.float32()), ("authority", pa.float32())])


@dataclass(frozen=True, eq=False)
class Estimates:
    """The estimated relevance of each URL, by oid."""

    relevance: Values
    """Of a stored page as judged, of a queued URL as estimated."""
    is_open: Flags
    """Whether it is queued and has never been tried."""

    @classmethod
    def load(cls, cursor: duckdb.DuckDBPyConnection, graph: WebGraph) -> Self:
        """As they are now, of the URLs in the graph."""
        relevance, is_open = np.zeros(graph.urls), np.zeros(graph.urls, np.bool_)
        found = url_estimates(cursor)
        known = found["oid"] < graph.urls  # more may have come since the graph was loaded
        relevance[found["oid"][known]] = found["relevance"][known]
        is_open[found["oid"][known]] = found["is_open"][known]
        pages = page_relevance(cursor)
        known = pages["oid"] < graph.urls
        relevance[pages["oid"][known]] = pages["relevance"][known]
        return cls(relevance, is_open & ~graph.stored)


@dataclass(frozen=True, eq=False)
class Recommended:
    """URLs that great hubs of other hosts recommend: parallel arrays."""

    oids: Oids
    relevance: Values
    """As likely, by the best of those hubs; where the estimate is higher already, that one."""
    hub_scores: Values
    """The sum of their scores."""

    def __len__(self) -> int:
        return len(self.oids)

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """All of several; of a URL that stands in more than one, the highest numbers."""
        together = list(parts)
        oids = np.concatenate([np.zeros(0, np.int64), *(part.oids for part in together)])
        unique, places = np.unique(oids, return_inverse=True)
        relevance, hub_scores = np.zeros(len(unique)), np.zeros(len(unique))
        np.maximum.at(relevance, places, np.concatenate([np.zeros(0), *(part.relevance for part in together)]))
        np.maximum.at(hub_scores, places, np.concatenate([np.zeros(0), *(part.hub_scores for part in together)]))
        return cls(unique, relevance, hub_scores)


def recommended(
    graph: WebGraph, scores: Scores, estimates: Estimates, percentile: float = 0.9, limit: int = 1000
) -> Recommended:
    """What hubs above a percentile recommend and nobody has tried, that of the most hub score first.

    The percentile is over pages with a hub score at all; when all of them score the same, none is above.
    """
    hub = np.zeros(graph.urls)
    hub[scores.oids] = scores.hub
    is_great = great_hubs(hub, percentile)
    links = graph.chosen(is_great[graph.sources]).between_hosts()
    quality = hub_quality(links, estimates.relevance)
    links = links.chosen(estimates.is_open[links.targets])
    oids, places = np.unique(links.targets, return_inverse=True)
    likely, total = estimates.relevance[oids], np.zeros(len(oids))
    np.maximum.at(likely, places, quality[links.sources])
    np.add.at(total, places, hub[links.sources])
    likely = likely.astype(np.float32).astype(np.float64)  # as the database stores it: else it would rise for ever
    order = np.lexsort((oids, -total))[:limit]
    return Recommended(oids[order].astype(np.int64), likely[order], total[order])


def save_scores(
    store: Store,
    scores_by_topic: Mapping[int, Scores],
    overall: Scores,
    recommended: Recommended | None = None,
    limit: int = MAX_SAVED,
) -> None:
    """Replace the stored scores by the best of these, and raise the estimates of what hubs recommend.

    All in one transaction: after a crash all of this is there, or none.
    """
    by_topic = [_by_topic(*item, limit) for item in scores_by_topic.items()]
    tables = LinkScoreTables(
        hubs=_table(overall.top_hubs(limit)),
        auth=_table(overall.top_authorities(limit)),
        link_scores=pa.concat_tables([_SCORES.empty_table(), *by_topic]),
    )
    raised = None
    if recommended is not None and len(recommended):
        raised = arrow.table({"oid": recommended.oids, "relevance": recommended.relevance.astype(np.float32)})
    save_link_scores(store, tables, raised)


def _table(pages: Sequence[Scored]) -> pa.Table:
    oids, scores = [page.oid for page in pages], [page.score for page in pages]
    return pa.table({"oid": pa.array(oids, pa.int64()), "score": pa.array(scores, pa.float32())})


def _by_topic(kcid: int, scores: Scores, limit: int) -> pa.Table:
    best = [page.oid for page in (*scores.top_hubs(limit), *scores.top_authorities(limit))]
    places = np.searchsorted(scores.oids, once(np.array(best, np.int64)))
    columns = [
        arrow.numbers(np.full(len(places), kcid, np.int16)),
        arrow.numbers(scores.oids[places]),
        arrow.numbers(scores.hub[places].astype(np.float32)),
        arrow.numbers(scores.authority[places].astype(np.float32)),
    ]
    return pa.table(columns, schema=_SCORES)
