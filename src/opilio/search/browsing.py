"""What lists say of a page: its address, title, topic and date, of stored pages and of URLs that are only known.

The topic tree with the pages of each topic counted.

The portal's front and the pages of one topic, each in one read: few statements, over few columns.

Pages are found by oid first, and only those that are shown are described (`browsing_rows`): at 100,000 pages that
decides whether a front takes a tenth of a second or a whole one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import duckdb

from opilio.errors import InputError
from opilio.model import host_of
from opilio.model.visit import RELEVANT
from opilio.store import Store
from opilio.topics import Hierarchy, Mark, TopicRecord, find_topic, hierarchy_of
from opilio.topics.hierarchy import ROOT
from opilio.topics.tree import OTHERS

DATE = "%Y-%m-%d %H:%M:%S"
TAKEN = f"(p.kcid IN (SELECT kcid FROM topics) AND (p.kcid <> {ROOT} OR p.relevance >= {RELEVANT}))"
"""SQL: whether a topic took a page `p`. The root takes one only where it is itself what is wanted."""

_LISTED = f"""
    SELECT c.oid, c.url, coalesce(p.title, ''), coalesce(p.description, ''), coalesce(p.language, ''),
           p.oid IS NOT NULL, coalesce(p.relevance, c.relevance), strftime(p.visited, '{DATE}'),
           CASE WHEN p.oid IS NULL THEN '' WHEN coalesce({TAKEN}, FALSE) THEN coalesce(nullif(t.path, ''), t.name)
                ELSE '{OTHERS}' END,
           c.state::VARCHAR, coalesce(c.outcome, '')
    FROM crawl c LEFT JOIN pages p ON p.oid = c.oid LEFT JOIN topics t ON t.kcid = p.kcid
    WHERE c.oid IN (SELECT unnest($oids::BIGINT[]))
"""
_NAMES = (
    "oid", "url", "title", "description", "language", "stored", "relevance", "visited", "topic", "state", "outcome",
)  # fmt: skip


def listed(read: duckdb.DuckDBPyConnection, oids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """What lists say of these URLs, by oid. The topic of a page that none took is OTHERS."""
    wanted = sorted(set(oids))
    if not wanted:
        return {}
    rows = read.execute(_LISTED, {"oids": wanted}).fetchall()
    return {row[0]: dict(zip(_NAMES, row, strict=True)) | {"host": host_of(row[1])} for row in rows}


def in_order(known: dict[int, dict[str, Any]], found: Sequence[tuple[Any, ...]], *names: str) -> list[dict[str, Any]]:
    """The rows (oid, and values of these names) of a ranking, with what lists say of each."""
    return [known[oid] | dict(zip(names, values, strict=True)) for oid, *values in found]


# Of each topic, NULL standing for OTHERS, the pages; those visited in the last days of the collection are its new ones.
_COUNTS = f"""
    WITH span AS (SELECT max(visited) - to_days($days::INTEGER) AS since FROM pages)
    SELECT CASE WHEN {TAKEN} THEN p.kcid END AS topic, count(*), count(*) FILTER (p.relevance >= {RELEVANT}),
           count(*) FILTER (p.visited > since),
           count(*) FILTER (p.visited > since AND p.relevance >= {RELEVANT}), sum(p.relevance), count(p.relevance)
    FROM pages p, span GROUP BY 1
"""


class TopicCount(NamedTuple):
    """Pages of a topic, or of several."""

    pages: int = 0
    relevant: int = 0
    new_pages: int = 0
    new_relevant: int = 0
    relevance: float = 0.0
    """The sum over the pages that were judged ..."""
    judged: int = 0
    """... and how many those are."""

    def plus(self, other: TopicCount) -> TopicCount:
        """The two together."""
        return TopicCount(
            self.pages + other.pages, self.relevant + other.relevant, self.new_pages + other.new_pages,
            self.new_relevant + other.new_relevant, self.relevance + other.relevance, self.judged + other.judged,
        )  # fmt: skip


class CountedTopics(NamedTuple):
    """The topics of a collection with their pages."""

    records: dict[int, TopicRecord]
    hierarchy: Hierarchy
    own: dict[int, TopicCount]
    """Pages that went to the topic itself."""
    below: dict[int, TopicCount]
    """... and to it or a topic below it."""
    others: TopicCount
    """Pages that no topic took."""

    @property
    def all(self) -> TopicCount:
        """All pages."""
        return self.below[ROOT].plus(self.others)

    def summary(self, kcid: int) -> dict[str, Any]:
        """One topic as plain values, without those below it."""
        record, own, below = self.records[kcid], self.own.get(kcid, TopicCount()), self.below[kcid]
        return {
            "topic": record.path, "name": record.name, "mark": self.hierarchy.nodes[kcid].mark.value,
            "wanted": self.hierarchy.is_wanted(kcid), "pages": below.pages, "relevant": below.relevant,
            "new": below.new_relevant, "own_pages": own.pages, "own_relevant": own.relevant,
        }  # fmt: skip

    def tree(self, kcid: int = ROOT) -> dict[str, Any]:
        """A topic with those below it in `children`, in the order of their names."""
        children = sorted(self.hierarchy.children(kcid), key=lambda child: self.records[child].name.casefold())
        return self.summary(kcid) | {"children": [self.tree(child) for child in children]}


def count_topics(records: list[TopicRecord], read: duckdb.DuckDBPyConnection, days: int = 1) -> CountedTopics:
    """Count the pages of each topic."""
    hierarchy = hierarchy_of(records)
    rows = read.execute(_COUNTS, {"days": days}).fetchall()
    own = {kcid: TopicCount(*(value or 0 for value in counts)) for kcid, *counts in rows}
    others = own.pop(None, TopicCount())
    below: dict[int, TopicCount] = {}
    _add_up(hierarchy, own, ROOT, below)
    return CountedTopics({record.kcid: record for record in records}, hierarchy, own, below, others)


def _add_up(hierarchy: Hierarchy, own: Mapping[int, TopicCount], kcid: int, below: dict[int, TopicCount]) -> TopicCount:
    """Fill `below` for a topic and all below it; topics lie at most 30 below each other."""
    total = own.get(kcid, TopicCount())
    for child in hierarchy.children(kcid):
        total = total.plus(_add_up(hierarchy, own, child, below))
    below[kcid] = total
    return total


PER_PAGE = 25
MAX_PAGE = 1_000_000
BEST = 3
"""Pages that the front shows of each wanted topic."""
MAX_TOPICS = 24
"""Wanted topics of which it shows any: those with the most relevant pages."""
NEW = 10
LINKED = 8
"""Hubs, and authorities."""
NOTICES = 5
MAX_DAYS = 3650
EXAMPLES = 50
KEYWORDS = 40

# The latest word of the model that a page has its relevance from: a page fetched again was judged by it twice.
_JUDGED = """
    judged AS (
        SELECT oid, model_version, arg_max(confidence, rowid) AS confidence FROM judgements
        WHERE model_version IN (SELECT DISTINCT model_version FROM pages) GROUP BY ALL
    )
"""
# Relevant pages by their relevance; the others by how near they are to the topic that took them, or would have.
_SUREST = f"""
    CASE WHEN p.relevance >= {RELEVANT} THEN p.relevance ELSE 0 END DESC, j.confidence DESC NULLS LAST,
    p.relevance DESC NULLS LAST, p.oid
"""
ORDERS: Mapping[str, str] = {
    "confidence": _SUREST,
    "authority": f"s.authority DESC NULLS LAST, {_SUREST}",
    "hub": f"s.hub DESC NULLS LAST, {_SUREST}",
    "newest": "p.visited DESC, p.oid DESC",
    "title": "lower(nullif(trim(p.title), '')) NULLS LAST, p.oid",
}
"""The orders of a topic's pages, in SQL."""

# What was found comes before what the user gave: seeds are at depth 0.
_BEST = f"""
    WITH {_JUDGED}, shown AS (SELECT unnest($kcids::SMALLINT[]) AS kcid, unnest($goods::SMALLINT[]) AS good)
    SELECT good, p.oid
    FROM pages p JOIN shown USING (kcid) JOIN crawl c USING (oid) LEFT JOIN judged j USING (oid, model_version)
    WHERE p.relevance >= {RELEVANT}
    QUALIFY row_number() OVER (PARTITION BY good ORDER BY c.depth = 0, {_SUREST}) <= {BEST}
    ORDER BY good, c.depth = 0, {_SUREST}
"""
_NEW = f"""
    SELECT p.oid FROM pages p JOIN crawl c USING (oid)
    WHERE p.visited > (SELECT max(visited) FROM pages) - to_days($days::INTEGER) AND p.relevance >= {RELEVANT}
    ORDER BY c.depth = 0, p.relevance DESC, p.visited DESC, p.oid LIMIT {NEW}
"""
_SINCE = (
    f"SELECT strftime(max(visited), '{DATE}'), strftime(max(visited) - to_days($days::INTEGER), '{DATE}') FROM pages"
)
_RUN = f"""
    SELECT run, strftime(started, '{DATE}'), strftime(ended, '{DATE}'), coalesce(reason, ''),
           (SELECT count(*) FROM crawl WHERE state = 'waiting')
    FROM runs ORDER BY run DESC LIMIT 1
"""
_NOTICES = f"""
    SELECT strftime(noticed, '{DATE}'), kind, text, coalesce(remedy, '') FROM notices
    WHERE noticed >= (SELECT coalesce(max(started), 'epoch'::TIMESTAMP) FROM runs)
    ORDER BY coalesce(remedy, '') <> '' DESC, noticed DESC, rowid DESC LIMIT {NOTICES}
"""
# Scores of a topic are those of all that is below it; of all wanted topics together where the root is asked for.
_SCORES = f"""
    scores AS (
        SELECT oid, hub, authority FROM link_scores WHERE kcid = $kcid AND $kcid <> {ROOT}
        UNION ALL
        SELECT oid, coalesce(h.score, 0), coalesce(a.score, 0) FROM hubs h FULL JOIN auth a USING (oid)
        WHERE $kcid = {ROOT}
    )
"""
_LINKED = f"""
    WITH {_SCORES}
    (SELECT 'hubs', oid, hub FROM scores WHERE hub > 0 ORDER BY hub DESC, oid LIMIT {LINKED})
    UNION ALL
    (SELECT 'authorities', oid, authority FROM scores WHERE authority > 0 ORDER BY authority DESC, oid LIMIT {LINKED})
"""
_PAGES = f"""
    WITH {_JUDGED}, {_SCORES}
    SELECT p.oid, j.confidence, s.hub, s.authority
    FROM pages p LEFT JOIN judged j USING (oid, model_version) LEFT JOIN scores s USING (oid)
    WHERE coalesce({TAKEN} AND p.kcid IN (SELECT unnest($topics::SMALLINT[])), FALSE) = $taken
      AND (NOT $relevant OR p.relevance >= {RELEVANT})
    ORDER BY {{order}} LIMIT $per_page OFFSET $offset
"""
_EXAMPLES = f"""
    SELECT name, kind, positive, source, coalesce(title, ''), count(*) OVER ()
    FROM training WHERE kcid = $1 ORDER BY NOT positive, added, name LIMIT {EXAMPLES}
"""


def portal(store: Store, days: int = 1) -> dict[str, Any]:
    """The front of a portal: the topics with their best pages, hubs and authorities, what is new, how the crawl stands.

    New is what the last `days` of crawling brought: counted back from the latest visit, so that a collection at rest
    does not seem empty. A crawl that runs answers itself: its database is not open for reading only. Plain values.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InputError(f"{days} days cannot be shown", f"Give 1 to {MAX_DAYS}.")
    with store.reading() as read:
        counted = count_topics(store.load_topics(), read, days)
        goods = _shown_goods(counted)
        best = _best(read, counted, goods)
        new = read.execute(_NEW, {"days": days}).fetchall()
        linked = read.execute(_LINKED, {"kcid": ROOT}).fetchall()
        known = listed(read, [row[1] for row in (*best, *linked)] + [row[0] for row in new])
        [[until, since]] = read.execute(_SINCE, {"days": days}).fetchall()
        crawl, notices = read.execute(_RUN).fetchall(), read.execute(_NOTICES).fetchall()
    return {
        "tree": counted.tree(),
        "others": counted.others.pages,
        "wanted": [
            counted.summary(good) | {"best": [known[oid] for kcid, oid in best if kcid == good]} for good in goods
        ],
        "wanted_topics": len(counted.hierarchy.good),
        **_linked(known, linked),
        "new": {
            "days": days, "since": since, "until": until, "pages": counted.all.new_pages,
            "relevant": counted.all.new_relevant, "best": in_order(known, new),
        },
        "crawl": _crawl(crawl, counted.all, running=not store.read_only),
        "notices": [dict(zip(("noticed", "kind", "text", "remedy"), row, strict=True)) for row in notices],
    }  # fmt: skip


def _shown_goods(counted: CountedTopics) -> list[int]:
    """The wanted topics of the front, in the order of their paths."""
    fullest = sorted(counted.hierarchy.good, key=lambda kcid: (-counted.below[kcid].relevant, kcid))
    return sorted(fullest[:MAX_TOPICS], key=lambda kcid: counted.records[kcid].path.casefold())


def _best(read: duckdb.DuckDBPyConnection, counted: CountedTopics, goods: list[int]) -> list[tuple[Any, ...]]:
    """The best pages of some topics, each with all below it: (topic, oid)."""
    pairs = [(kcid, good) for good in goods for kcid in sorted(counted.hierarchy.below(good))]
    asked = {"kcids": [kcid for kcid, _ in pairs], "goods": [good for _, good in pairs]}
    return read.execute(_BEST, asked).fetchall()


def _linked(known: Mapping[int, dict[str, Any]], rows: list[tuple[Any, ...]]) -> dict[str, list[dict[str, Any]]]:
    return {
        kind: [known[oid] | {"score": score} for its, oid, score in rows if its == kind]
        for kind in ("hubs", "authorities")
    }


def _crawl(rows: list[tuple[Any, ...]], count: TopicCount, *, running: bool) -> dict[str, Any]:
    """How the crawl stands."""
    names = ("run", "started", "ended", "reason", "waiting")
    run = dict(zip(names, rows[0], strict=True)) if rows else dict.fromkeys(names)
    return run | {
        "running": running,
        "pages": count.pages,
        "relevant": count.relevant,
        "harvest": count.relevance / count.judged if count.judged else None,
    }


def topic_pages(
    store: Store,
    topic: str = "",
    order: str = "confidence",
    page: int = 1,
    own: bool = False,
    relevant: bool = False,
    per_page: int = PER_PAGE,
) -> dict[str, Any]:
    """The pages of a topic with all below it, or of the topic alone (`own`), or of OTHERS; and what the topic is.

    `relevant` leaves out what is not. Plain values.
    """
    if order not in ORDERS:
        raise InputError(f"no order is called {order!r}", f"There are: {', '.join(ORDERS)}.")
    if not 1 <= page <= MAX_PAGE or not 1 <= per_page <= 1000:
        raise InputError(f"no page {page} of {per_page} results", "Pages are counted from 1, and have up to 1000.")
    is_others = topic.strip() == OTHERS
    records = store.load_topics()
    kcid = ROOT if is_others else find_topic(records, topic).kcid
    with store.reading() as read:
        counted = count_topics(records, read)
        topics = {kcid} if own else counted.hierarchy.below(kcid)
        asked = {
            "kcid": kcid, "topics": sorted(topics), "taken": not is_others, "relevant": relevant, "per_page": per_page,
            "offset": (page - 1) * per_page,
        }  # fmt: skip
        found = read.execute(_PAGES.format(order=ORDERS[order]), asked).fetchall()
        linked = [] if is_others else read.execute(_LINKED, {"kcid": kcid}).fetchall()
        known = listed(read, [row[0] for row in found] + [row[1] for row in linked])
        examples = [] if is_others else read.execute(_EXAMPLES, [kcid]).fetchall()
    count = counted.others if is_others else (counted.own.get(kcid, TopicCount()) if own else counted.below[kcid])
    total = count.relevant if relevant else count.pages
    return {
        "about": _others(counted) if is_others else _about(counted, kcid, examples),
        "tree": counted.tree(), "others": counted.others.pages, "order": order, "orders": list(ORDERS), "own": own,
        "relevant": relevant, "page": page, "last_page": max(1, -(-total // per_page)), "total": total,
        "results": in_order(known, found, "confidence", "hub", "authority"), "scored": bool(linked),
        **_linked(known, linked),
    }  # fmt: skip


def _about(counted: CountedTopics, kcid: int, rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    record = counted.records[kcid]
    above = [counted.records[number] for number in counted.hierarchy.line(kcid)[:-1]]
    names = ("name", "kind", "positive", "source", "title")
    return counted.summary(kcid) | {
        "above": [{"name": higher.name, "topic": higher.path} for higher in above],
        "keywords": list(dict.fromkeys(record.keywords))[:KEYWORDS],
        "description": record.description,
        "subtopics": [
            counted.summary(child)
            for child in sorted(counted.hierarchy.children(kcid), key=lambda child: counted.records[child].path)
        ],
        "examples": [dict(zip(names, row[:5], strict=True)) for row in rows],
        "examples_total": rows[0][5] if rows else 0,
    }


def _others(counted: CountedTopics) -> dict[str, Any]:
    """What stands in the place of a topic for pages that none took."""
    return {
        "topic": OTHERS, "name": OTHERS, "mark": Mark.NULL.value, "wanted": False, "pages": counted.others.pages,
        "relevant": counted.others.relevant, "new": counted.others.new_relevant, "own_pages": counted.others.pages,
        "own_relevant": counted.others.relevant, "above": [], "keywords": [], "description": "", "subtopics": [],
        "examples": [], "examples_total": 0,
    }  # fmt: skip
