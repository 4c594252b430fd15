"""The link graph: links around single URLs, the whole graph for link analysis, and the scores that come of that.

The tables are `links`, `redirects`, `duplicates`, `hubs`, `auth` and `link_scores`. Functions that take a cursor read
from one snapshot (`Store.reading`), so that several of them see the same graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from opilio.store.database import Store

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    Oids = npt.NDArray[np.int64]

MAX_ANCHORS = 50
"""Links looked at for the words that others use for a page."""
_CHUNK_ROWS = 1_000_000

_ANCHORS = f"""
    SELECT oid_dst, list(anchor ORDER BY rowid)[:{MAX_ANCHORS}] FROM links
    WHERE oid_dst IN (SELECT unnest($1::BIGINT[])) AND anchor <> '' GROUP BY oid_dst
"""
# Of several links on a page, the first that has any words.
_PARENT_ANCHORS = """
    SELECT c.oid, arg_min(l.anchor, l.position) FROM crawl c JOIN links l ON l.oid_dst = c.oid AND l.oid_src = c.parent
    WHERE c.oid IN (SELECT unnest($1::BIGINT[])) AND l.anchor <> '' GROUP BY c.oid
"""
_LINKS_TO = """
    SELECT c.url, p.title, p.relevance, l.anchor, l.context FROM links l
    JOIN crawl c ON c.oid = l.oid_src LEFT JOIN pages p ON p.oid = l.oid_src
    WHERE l.oid_dst = $1 ORDER BY p.relevance DESC NULLS LAST, l.oid_src, l.position LIMIT $2
"""
_LINKS_FROM = """
    SELECT l.oid_src, l.oid_dst, l.sid_dst, c.url, coalesce(l.anchor, ''), coalesce(l.context, '')
    FROM links l JOIN crawl c ON c.oid = l.oid_dst
    WHERE l.oid_src IN (SELECT unnest($1::BIGINT[])) ORDER BY l.oid_src, l.position
"""
_COUNT_TO = "SELECT count(*), count(DISTINCT oid_src) FROM links WHERE oid_dst = $1"
_PATHS = """
    WITH RECURSIVE way(target, oid, url, parent, steps) AS (
        SELECT oid, oid, url, parent, 0 FROM crawl WHERE oid IN (SELECT unnest($1::BIGINT[]))
        UNION ALL
        SELECT w.target, c.oid, c.url, c.parent, w.steps + 1
        FROM way w JOIN crawl c ON c.oid = w.parent WHERE w.steps < 100
    )
    SELECT w.target, w.url, arg_min(l.anchor, l.rowid) FROM way w
    LEFT JOIN links l ON l.oid_src = w.parent AND l.oid_dst = w.oid
    GROUP BY w.target, w.steps, w.url
    ORDER BY w.steps DESC
"""
# Of several links between the same two pages the first one's words are shown. Stored pages come before others.
_AROUND = """
    WITH near AS (
        SELECT {here} AS here, {far} AS oid, arg_min(coalesce(l.anchor, ''), l.rowid) AS anchor FROM links l
        WHERE {here} IN (SELECT unnest($oids::BIGINT[])) AND {far} <> {here} GROUP BY 1, 2
    )
    SELECT n.here, n.oid, n.anchor, count(*) OVER (PARTITION BY n.here),
           row_number() OVER (
               PARTITION BY n.here ORDER BY p.oid IS NULL, coalesce(p.relevance, c.relevance) DESC, n.oid
           ) AS place
    FROM near n JOIN crawl c ON c.oid = n.oid LEFT JOIN pages p ON p.oid = n.oid
    QUALIFY place <= $most ORDER BY place
"""
_FROM = _AROUND.format(far="l.oid_src", here="l.oid_dst")
_TO = _AROUND.format(far="l.oid_dst", here="l.oid_src")

# The latest row counts, and a URL that has answered with a page of its own since stands for itself. One that is both
# redirected and a duplicate goes where it is redirected to, as everywhere in Opilio.
_STEPS = """
WITH step AS (
    SELECT oid_src AS oid, arg_max(oid_dst, rowid) AS onward, 0 AS turn FROM redirects GROUP BY oid_src
    UNION ALL
    SELECT oid, arg_max(of_oid, rowid), 1 FROM duplicates GROUP BY oid
)
SELECT oid, arg_min(onward, turn) AS onward
FROM step JOIN crawl USING (oid)
WHERE coalesce(outcome, '') NOT IN ('ok', 'not-modified') AND onward <> oid
GROUP BY oid ORDER BY oid
"""
# A page may have been judged by the same model twice, when it was fetched again: the latest counts.
_LATEST = (
    "WITH latest AS (SELECT oid, model_version, arg_max(accepted, rowid) AS accepted FROM judgements GROUP BY ALL)"
)
_ACCEPTED = f"""
{_LATEST}
SELECT oid, kcid FROM pages JOIN latest USING (oid, model_version) WHERE accepted ORDER BY oid
"""
_IS_JUDGED = "SELECT count(model_version) > 0 FROM pages"
_ALL_PAGES = "SELECT oid FROM pages ORDER BY oid"
_ESTIMATES = "SELECT oid, relevance, state = 'waiting' AND numtries = 0 AS is_open FROM crawl"
_RELEVANCE = "SELECT oid, coalesce(relevance, 0.0) AS relevance FROM pages"
MAX_SERVER_DOMAINS = 10
"""An address that serves more registered domains than this is that of a hosting service or a proxy: sites that have
nothing to do with each other."""
# The server of a host: all hosts at one address are one server, under the number of the first of them (Focus 2.2.3).
# Loopback addresses say nothing: `fetch.connect_to` leads to them.
SERVERS = f"""
SELECT sid, min(sid) OVER (PARTITION BY domain) AS site,
       CASE WHEN ip IS NULL OR ip LIKE '127.%' OR ip = '::1'
                 OR (SELECT count(DISTINCT o.domain) FROM hosts o WHERE o.ip = hosts.ip) > {MAX_SERVER_DOMAINS} THEN sid
            ELSE min(sid) OVER (PARTITION BY ip) END AS server
FROM hosts
"""
BOILERPLATE = "('nav', 'header', 'footer', 'aside', 'head')"
"""The parts of a page whose links are the site's, not the author's."""
_RAISE = """
UPDATE crawl SET relevance = incoming.relevance FROM incoming
WHERE crawl.oid = incoming.oid AND state = 'waiting' AND crawl.relevance < incoming.relevance
"""


# -- around a URL


class InLink(NamedTuple):
    """A link to a URL, and the page that it is on."""

    url: str
    title: str | None
    relevance: float | None
    anchor: str | None
    context: str | None


class OutLink(NamedTuple):
    """A link of a page."""

    source: int
    target: int
    sid: int
    """The host of the target."""
    url: str
    anchor: str
    context: str


class PathStep(NamedTuple):
    """A page on the path from a seed, and the words of the link that led to it."""

    url: str
    anchor: str


class Neighbour(NamedTuple):
    """A URL that a page links to or is linked from, with the words of the link."""

    oid: int
    anchor: str
    total: int
    """Neighbours on this side in all."""


def anchors_to(store: Store, oids: Sequence[int]) -> dict[int, list[str]]:
    """The words of links that point to each of some pages."""
    return dict(store.select(_ANCHORS, [list(oids)], max_rows=2**20).rows) if oids else {}


def parent_anchors(store: Store, oids: Sequence[int]) -> dict[int, str]:
    """For URLs found on pages: the words of the link by which each was found."""
    return dict(store.select(_PARENT_ANCHORS, [list(oids)], max_rows=len(oids)).rows) if oids else {}


def links_to(store: Store, oid: int, limit: int) -> list[InLink]:
    """The links to a URL, those of the most relevant pages first."""
    return [InLink(*row) for row in store.select(_LINKS_TO, [oid, limit]).rows]


def links_from(store: Store, oids: Sequence[int]) -> Iterator[OutLink]:
    """The links of some pages, in the order in which they are on each page."""
    for piece in store.select_pieces(_LINKS_FROM, [list(oids)]):
        yield from map(OutLink._make, zip(*(column.to_pylist() for column in piece.columns), strict=True))


def count_links_to(store: Store, oid: int) -> tuple[int, int]:
    """How many links lead to a URL, and from how many pages."""
    [[links, pages]] = store.select(_COUNT_TO, [oid]).rows
    return links, pages


def paths_to(store: Store, oids: Sequence[int]) -> dict[int, list[PathStep]]:
    """The pages by which the crawl came to each of some URLs, from a seed to the URL itself."""
    paths: dict[int, list[PathStep]] = {oid: [] for oid in oids}
    for oid, url, anchor in store.select(_PATHS, [list(oids)], max_rows=2**20).rows:
        paths[oid].append(PathStep(url, anchor or ""))
    return paths


def neighbours(
    cursor: duckdb.DuckDBPyConnection, oids: Sequence[int], limit: int
) -> tuple[dict[int, list[Neighbour]], dict[int, list[Neighbour]]]:
    """The best pages that link to each of some URLs, and those that it links to."""
    asked = {"oids": list(oids), "most": limit}
    linking: dict[int, list[Neighbour]] = {oid: [] for oid in oids}
    linked: dict[int, list[Neighbour]] = {oid: [] for oid in oids}
    for sql, found in ((_FROM, linking), (_TO, linked)):
        for oid, *near, _ in cursor.execute(sql, asked).fetchall():
            found[oid].append(Neighbour(*near))
    return linking, linked


# -- the whole graph


def merge_steps(cursor: duckdb.DuckDBPyConnection) -> tuple[Oids, Oids]:
    """URLs that stand for others, ascending, and for which: the next in a chain of redirects, or the original."""
    found = cursor.execute(_STEPS).fetchnumpy()
    return np.asarray(found["oid"], np.int64), np.asarray(found["onward"], np.int64)


def hosts_by_oid(cursor: duckdb.DuckDBPyConnection) -> npt.NDArray[np.int32]:
    """The host of each URL, by oid."""
    hosts = np.zeros(_scalar(cursor, "SELECT coalesce(max(oid) + 1, 0) FROM crawl"), np.int32)
    found = cursor.execute("SELECT oid, sid FROM crawl").fetchnumpy()
    hosts[found["oid"]] = found["sid"]
    return hosts


def site_numbers(cursor: duckdb.DuckDBPyConnection, hosts: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """By host, of which there are `hosts`: its site, which is its registered domain, and its server."""
    sites, servers = np.arange(hosts, dtype=np.int32), np.arange(hosts, dtype=np.int32)
    found = cursor.execute(SERVERS).fetchnumpy()
    known = found["sid"] < hosts
    sites[found["sid"][known]], servers[found["sid"][known]] = found["site"][known], found["server"][known]
    return sites, servers


def host_names(cursor: duckdb.DuckDBPyConnection) -> list[tuple[int, str, str]]:
    """Number, name and registered domain of each host."""
    return cursor.execute("SELECT sid, host, domain FROM hosts ORDER BY sid").fetchall()


def url_keys(cursor: duckdb.DuckDBPyConnection) -> tuple[Oids, npt.NDArray[np.uint64]]:
    """All known URLs, and the key of each."""
    found = cursor.execute("SELECT oid, key FROM crawl ORDER BY oid").fetchnumpy()
    return np.asarray(found["oid"], np.int64), np.asarray(found["key"], np.uint64)


def url_texts(cursor: duckdb.DuckDBPyConnection, oids: Oids) -> dict[int, str]:
    """Some URLs by their numbers."""
    sql = "SELECT oid, url FROM crawl WHERE oid IN (SELECT unnest(?::BIGINT[]))"
    return dict(cursor.execute(sql, [oids.tolist()]).fetchall())


def page_oids(cursor: duckdb.DuckDBPyConnection) -> Oids:
    """All stored pages, ascending."""
    return np.asarray(cursor.execute(_ALL_PAGES).fetchnumpy()["oid"], np.int64)


def count_links(cursor: duckdb.DuckDBPyConnection) -> int:
    """All links."""
    return _scalar(cursor, "SELECT count(*) FROM links")


def stream_links(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Oids, Oids, npt.NDArray[np.bool_]]]:
    """All links in pieces: sources, targets, and whether each is in a boilerplate part of its page."""
    sql = f"SELECT oid_src, oid_dst, coalesce(region IN {BOILERPLATE}, false) FROM links"
    for piece in cursor.sql(sql).to_arrow_reader(_CHUNK_ROWS):
        sources, targets, is_boilerplate = (column.to_numpy(zero_copy_only=False) for column in piece.columns)
        yield sources, targets, is_boilerplate


def is_judged(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Whether a model has judged any page."""
    return bool(cursor.execute(_IS_JUDGED).fetchall()[0][0])


def has_judged_pages(store: Store) -> bool:
    """The same, of the store as it is now."""
    with store.reading() as cursor:
        return is_judged(cursor)


def accepted_pages(cursor: duckdb.DuckDBPyConnection) -> tuple[Oids, Oids]:
    """The pages that a topic accepted, ascending, and which."""
    found = cursor.execute(_ACCEPTED).fetchnumpy()
    return np.asarray(found["oid"], np.int64), np.asarray(found["kcid"], np.int64)


def url_estimates(cursor: duckdb.DuckDBPyConnection) -> dict[str, npt.NDArray[Any]]:
    """Of each URL its `oid`, the estimated `relevance`, and `is_open`: it is queued and was never tried."""
    return cursor.execute(_ESTIMATES).fetchnumpy()


def page_relevance(cursor: duckdb.DuckDBPyConnection) -> dict[str, npt.NDArray[Any]]:
    """Of each stored page its `oid` and its `relevance`, 0 when it was not judged."""
    return cursor.execute(_RELEVANCE).fetchnumpy()


def _scalar(cursor: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(cursor.execute(sql).fetchall()[0][0])


# -- scores


class LinkScoreTables(NamedTuple):
    """The scores of a link analysis, as the tables of the same names hold them."""

    hubs: pa.Table
    auth: pa.Table
    link_scores: pa.Table


def save_link_scores(store: Store, tables: LinkScoreTables, raised: pa.Table | None = None) -> None:
    """Replace the scores, and raise the estimated relevance of queued URLs (`raised`: oid, relevance).

    All in one transaction: after a crash all of this is there, or none.
    """
    with store.writing() as cursor:
        for name, table in tables._asdict().items():
            cursor.execute(f"DELETE FROM {name}")
            _with_incoming(cursor, table, f"INSERT INTO {name} BY NAME FROM incoming")
        if raised is not None:
            _with_incoming(cursor, raised, _RAISE)


def _with_incoming(cursor: duckdb.DuckDBPyConnection, table: pa.Table, sql: str) -> None:
    cursor.register("incoming", table)
    cursor.execute(sql)
    cursor.unregister("incoming")
