"""Stored pages, and URLs that are only known: looked up one by one, described in lists, and the lists of the portal.

The portal finds pages by oid first and describes only those that it shows (`describe`): at 100,000 pages that decides
whether its front takes a tenth of a second or a whole one. Functions that take a cursor read from one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
import msgspec

from opilio.model import RELEVANT, host_of, registered_domain, url_key
from opilio.model.url import spellings
from opilio.store.database import Store
from opilio.store.pictures import shown_pictures
from opilio.topics.hierarchy import ROOT
from opilio.topics.tree import OTHERS

DATE = "%Y-%m-%d %H:%M:%S"
IS_ACCEPTED = f"(p.kcid IN (SELECT kcid FROM topics) AND (p.kcid <> {ROOT} OR p.relevance >= {RELEVANT}))"
"""SQL: whether a topic took a page `p`. The root takes one only where it is itself what is wanted."""
_MAX_ROWS = 2**20

_KNOWN = "SELECT oid, state, outcome, depth, relevance, priority FROM crawl WHERE key = $1 AND url = $2"
_SPELLED = """
    SELECT c.url FROM crawl c
    JOIN (SELECT unnest($1::VARCHAR[]) AS url, unnest($2::UBIGINT[]) AS key) s USING (key, url)
"""
_LAST_REQUEST = """
    WITH latest AS (
        SELECT oid, arg_max(outcome, visited) AS outcome, arg_max(detail, visited) AS detail,
               arg_max(status, visited) AS status
        FROM visits WHERE oid IN ($1, (SELECT -1 - sid FROM crawl WHERE oid = $1)) GROUP BY oid
    )
    SELECT c.numtries, coalesce(own.outcome, host.outcome, ''), coalesce(own.detail, host.detail, ''),
           coalesce(own.status, host.status, 0),
           (SELECT t.url FROM redirects r JOIN crawl t ON t.oid = r.oid_dst WHERE r.oid_src = c.oid
            ORDER BY r.rowid DESC LIMIT 1),
           (SELECT t.url FROM duplicates d JOIN crawl t ON t.oid = d.of_oid WHERE d.oid = c.oid
            ORDER BY d.rowid DESC LIMIT 1)
    FROM crawl c LEFT JOIN latest own ON own.oid = c.oid LEFT JOIN latest host ON host.oid = -1 - c.sid
    WHERE c.oid = $1
"""
# Of the same domain if the crawl knows it, else of the hosts with the most similar names.
_NEAREST = """
    WITH near AS (
        SELECT sid FROM hosts
        ORDER BY domain = $domain DESC, jaro_winkler_similarity(host, $host) DESC, sid LIMIT 20
    )
    SELECT c.url FROM crawl c JOIN hosts h USING (sid)
    WHERE c.sid IN (FROM near) AND (h.domain = $domain OR NOT EXISTS (FROM hosts WHERE domain = $domain))
    ORDER BY jaro_winkler_similarity(c.url, $url) DESC, c.oid LIMIT $most
"""
_OID = "SELECT p.oid FROM crawl c JOIN pages p USING (oid) WHERE c.url = $1"
_TEXT = "SELECT p.oid, coalesce(p.title, ''), p.text FROM crawl c JOIN pages p USING (oid) WHERE c.url = $1"
# The pages of some URLs, of where each was redirected to, or of the page it is a duplicate of.
_FOUND = """
    WITH RECURSIVE way(asked, oid, hops) AS (
        SELECT url, oid, 0 FROM crawl
        WHERE key IN (SELECT unnest($keys::UBIGINT[])) AND url IN (SELECT unnest($urls::VARCHAR[]))
        UNION ALL
        SELECT w.asked, coalesce(r.oid_dst, d.of_oid), w.hops + 1
        FROM way w LEFT JOIN redirects r ON r.oid_src = w.oid LEFT JOIN duplicates d ON d.oid = w.oid
        WHERE w.hops < 25 AND coalesce(r.oid_dst, d.of_oid) IS NOT NULL
    ),
    found AS (SELECT asked, arg_min(oid, hops) AS oid FROM way WHERE oid IN (SELECT oid FROM pages) GROUP BY asked)
"""
_FIND = f"{_FOUND} SELECT asked, oid FROM found"
_EXPLAINED = f"""
    {_FOUND},
    said AS (
        SELECT oid, model_version, last(agreed ORDER BY rowid) AS agreed FROM judgements
        WHERE oid IN (SELECT oid FROM found) GROUP BY ALL
    )
    SELECT f.asked, p.oid, c.url, p.title, p.language, p.text, p.relevance, p.kcid, p.model_version, s.agreed, p.rights
    FROM found f JOIN pages p USING (oid) JOIN crawl c USING (oid) LEFT JOIN said s USING (oid, model_version)
"""
_JUDGED = """
    SELECT p.oid, p.kcid, coalesce(last(j.accepted ORDER BY j.rowid), p.relevance >= 0.5, FALSE)
    FROM crawl c JOIN pages p USING (oid) LEFT JOIN judgements j ON j.oid = p.oid AND j.model_version = p.model_version
    WHERE c.url = $1 GROUP BY p.oid, p.kcid, p.relevance
"""
_JUDGED_PAGES = """
    SELECT c.url, p.oid, p.kcid, coalesce(last(j.accepted ORDER BY j.rowid), p.relevance >= 0.5, FALSE)
    FROM crawl c JOIN pages p USING (oid) LEFT JOIN judgements j ON j.oid = p.oid AND j.model_version = p.model_version
    WHERE p.oid IN (SELECT unnest($1::BIGINT[])) GROUP BY c.url, p.oid, p.kcid, p.relevance ORDER BY p.oid
"""
_OIDS_OF_URLS = "SELECT oid FROM crawl WHERE url IN (SELECT unnest($1::VARCHAR[]))"
_TITLES = """
    SELECT c.url, p.title FROM crawl c JOIN pages p USING (oid) WHERE c.url IN (SELECT unnest($1::VARCHAR[]))
"""
_DOCUMENTS = """
    SELECT p.oid, coalesce(p.title, ''), coalesce(p.language, ''), p.text FROM pages p
    WHERE p.oid IN (SELECT unnest($1::BIGINT[]))
"""
_MAIN_TEXTS = """
    SELECT oid, coalesce(title, ''), coalesce(language, ''), coalesce(nullif(main_text, ''), text, '') FROM pages
    WHERE oid IN (SELECT unnest($1::BIGINT[]))
"""
_SHORT_TEXTS = """
    SELECT p.oid, c.url, coalesce(p.title, ''), coalesce(p.language, ''),
           left(coalesce(nullif(p.main_text, ''), p.text, ''), $2)
    FROM pages p JOIN crawl c USING (oid) WHERE p.oid IN (SELECT unnest($1::BIGINT[]))
"""
_LATEST_RELEVANT = f"""
    SELECT p.title, p.text, p.language, c.url FROM pages p JOIN crawl c USING (oid)
    WHERE p.relevance >= {RELEVANT} AND p.text IS NOT NULL ORDER BY p.visited DESC LIMIT ?
"""
_SINCE_VISIT = """
    SELECT oid, epoch(visited) FROM pages WHERE visited >= make_timestamp(($1 * 1e6)::BIGINT) ORDER BY visited, oid
"""
_PAGE_RELEVANCES = f"""
    SELECT p.oid, c.url, coalesce(p.title, ''), coalesce(p.relevance >= {RELEVANT}, FALSE)
    FROM pages p JOIN crawl c USING (oid) WHERE p.oid IN (SELECT unnest($1::BIGINT[])) ORDER BY p.oid
"""
_ORIGINS = """
    SELECT p.oid, c.depth, c.parent, coalesce(p.language, ''), coalesce(p.title, '')
    FROM pages p JOIN crawl c USING (oid) WHERE p.oid IN (SELECT unnest($1::BIGINT[]))
"""
_RELEVANT_SHUFFLED = """
    SELECT oid FROM pages WHERE kcid IN (SELECT unnest($1::SMALLINT[])) AND relevance >= 0.5 ORDER BY hash(oid), oid
"""

_FACTS = """
    SELECT p.oid, p.status, coalesce(p.content_type, ''), coalesce(p.charset, ''), p.body_bytes, p.received_bytes,
           coalesce(p.ip, ''), coalesce(p.last_modified, ''), coalesce(p.canonical, ''), p.model_version,
           p.text IS NOT NULL, left(coalesce(p.main_text, ''), $2),
           left(coalesce(p.text, ''), $2), length(coalesce(p.text, '')),
           coalesce(p.warc_file, ''), p.warc_offset, p.warc_bytes, c.depth, h.host, coalesce(p.cut, false),
           p.rights
    FROM pages p JOIN crawl c USING (oid) LEFT JOIN hosts h USING (sid)
    WHERE p.oid IN (SELECT unnest($1::BIGINT[]))
"""
_FACT_NAMES = (
    "oid", "status", "content_type", "charset", "body_bytes", "received_bytes", "ip", "last_modified", "canonical",
    "model_version", "has_text", "main_text", "text", "text_chars", "warc_file", "warc_offset", "warc_bytes", "depth",
    "host", "cut", "rights",
)  # fmt: skip
_JUDGEMENTS = f"""
    SELECT j.oid, j.model_version,
           CASE WHEN j.accepted THEN coalesce(nullif(t.path, ''), t.name, '') ELSE '{OTHERS}' END,
           j.relevance, j.confidence, coalesce(j.agreed, []), j.undoubted, strftime(m.created, '{DATE}')
    FROM judgements j LEFT JOIN topics t USING (kcid) LEFT JOIN models m ON m.version = j.model_version
    WHERE j.oid IN (SELECT unnest($1::BIGINT[])) ORDER BY j.rowid
"""
_JUDGEMENT_NAMES = ("model_version", "topic", "relevance", "confidence", "agreed", "undoubted", "trained")
_SAME = """
    WITH same AS (
        SELECT of_oid AS page, oid, step FROM duplicates
        UNION ALL
        SELECT oid_dst, oid_src, 'redirect ' || coalesce(status, 0) FROM redirects
    )
    SELECT s.page, c.url, s.step FROM same s JOIN crawl c ON c.oid = s.oid
    WHERE s.page IN (SELECT unnest($1::BIGINT[]))
    QUALIFY row_number() OVER (PARTITION BY s.page ORDER BY c.url) <= $2 ORDER BY c.url
"""

_DESCRIBED = f"""
    SELECT c.oid, c.url, coalesce(p.title, ''), coalesce(p.description, ''), coalesce(p.language, ''),
           p.oid IS NOT NULL, coalesce(p.relevance, c.relevance), strftime(p.visited, '{DATE}'),
           CASE WHEN p.oid IS NULL THEN '' WHEN coalesce({IS_ACCEPTED}, FALSE) THEN coalesce(nullif(t.path, ''), t.name)
                ELSE '{OTHERS}' END,
           c.state::VARCHAR, coalesce(c.outcome, '')
    FROM crawl c LEFT JOIN pages p ON p.oid = c.oid LEFT JOIN topics t ON t.kcid = p.kcid
    WHERE c.oid IN (SELECT unnest($oids::BIGINT[]))
"""
_DESCRIBED_NAMES = (
    "oid", "url", "title", "description", "language", "stored", "relevance", "visited", "topic", "state", "outcome",
)  # fmt: skip
_QUEUE = """
SELECT c.oid, c.url, coalesce(p.title, ''), c.relevance, c.state::VARCHAR, coalesce(t.path, '')
FROM crawl c
LEFT JOIN pages p ON p.oid = c.oid
LEFT JOIN topics t ON t.kcid = c.topic
WHERE c.oid IN (SELECT unnest($oids::BIGINT[]))
"""

# The latest judgement by the model that a page has its relevance from: a page fetched again was judged by it twice.
_LATEST_JUDGEMENTS = """
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
# What the user gave: seeds are at depth 0, and examples are training data that no crawl chose.
_IS_OWN = """
    (c.depth = 0 OR c.url IN (SELECT name FROM training WHERE kind = 'url' AND positive AND source <> 'archetype'))
"""
_BEST = f"""
    WITH {_LATEST_JUDGEMENTS}, shown AS (SELECT unnest($kcids::SMALLINT[]) AS kcid, unnest($goods::SMALLINT[]) AS good)
    SELECT good, p.oid, j.confidence, {_IS_OWN} AS own
    FROM pages p JOIN shown USING (kcid) JOIN crawl c USING (oid) LEFT JOIN judged j USING (oid, model_version)
    WHERE p.relevance >= {RELEVANT}
    QUALIFY row_number() OVER (PARTITION BY good ORDER BY own, {_SUREST}) <= $best
    ORDER BY good, own, {_SUREST}
"""
# The last days of crawling, counted back from the latest visit, or the time since a moment.
NEW_SINCE = """
    SELECT coalesce(make_timestamp(($since_s::DOUBLE * 1e6)::BIGINT), max(visited) - to_days($days::INTEGER)) AS since
    FROM pages
"""
"""SQL: since when a page counts as new."""
_NEW = f"""
    SELECT p.oid FROM pages p JOIN crawl c USING (oid)
    WHERE p.visited > ({NEW_SINCE}) AND p.relevance >= {RELEVANT}
    ORDER BY c.depth = 0, p.relevance DESC, p.visited DESC, p.oid LIMIT $limit
"""
_LATEST_FINDS = f"""
    SELECT p.oid FROM pages p JOIN crawl c USING (oid)
    WHERE p.relevance >= {RELEVANT} AND {IS_ACCEPTED} AND c.depth > 0
      AND c.url NOT IN (SELECT name FROM training WHERE kind = 'url' AND source IN ('given', 'added'))
    ORDER BY p.visited DESC, p.oid DESC LIMIT $limit
"""
_SINCE = f"SELECT strftime(max(visited), '{DATE}'), strftime(({NEW_SINCE}), '{DATE}') FROM pages"
_OPENINGS = """
    SELECT oid, left(coalesce(nullif(main_text, ''), text, ''), $2) FROM pages
    WHERE oid IN (SELECT unnest($1::BIGINT[]))
"""
_SITES = f"""
    WITH shown AS (SELECT unnest($kcids::SMALLINT[]) AS kcid, unnest($goods::SMALLINT[]) AS good)
    SELECT good, c.sid, count(*), arg_max(c.url, (p.relevance, -c.oid))
    FROM pages p JOIN shown USING (kcid) JOIN crawl c USING (oid)
    WHERE p.relevance >= {RELEVANT} GROUP BY ALL ORDER BY good, count(*) DESC, c.sid
"""
# Scores of a topic are those of all that is below it; of all wanted topics together where the root is requested.
_SCORES = f"""
    scores AS (
        SELECT oid, hub, authority FROM link_scores WHERE kcid = $kcid AND $kcid <> {ROOT}
        UNION ALL
        SELECT oid, coalesce(h.score, 0), coalesce(a.score, 0) FROM hubs h FULL JOIN auth a USING (oid)
        WHERE $kcid = {ROOT}
    )
"""
_LINKED = f"""
    WITH {_SCORES},
    shown AS (
        FROM scores WHERE NOT $relevant OR oid IN (SELECT oid FROM pages WHERE relevance >= {RELEVANT})
    )
    (SELECT 'hubs', oid, hub FROM shown WHERE hub > 0 ORDER BY hub DESC, oid LIMIT $limit)
    UNION ALL
    (SELECT 'authorities', oid, authority FROM shown WHERE authority > 0 ORDER BY authority DESC, oid LIMIT $limit)
"""
_OF_TOPICS = f"""
    WITH {_LATEST_JUDGEMENTS}, {_SCORES}
    SELECT p.oid, j.confidence, s.hub, s.authority
    FROM pages p LEFT JOIN judged j USING (oid, model_version) LEFT JOIN scores s USING (oid)
    WHERE coalesce({IS_ACCEPTED} AND p.kcid IN (SELECT unnest($topics::SMALLINT[])), FALSE) = $accepted
      AND (NOT $relevant OR p.relevance >= {RELEVANT})
    ORDER BY {{order}} LIMIT $per_page OFFSET $offset
"""


# -- one page


class KnownUrl(NamedTuple):
    """What the crawl knows of a URL, fetched or not."""

    oid: int
    state: str
    outcome: str | None
    depth: int
    relevance: float
    priority: float


class LastRequest(NamedTuple):
    """What came of the latest request for a URL; for the robots.txt of its host while it was not requested itself."""

    tries: int
    requested: str
    """The outcome of that request; empty: there was none."""
    detail: str
    status: int
    redirected_to: str | None
    duplicate_of: str | None
    """The page that it repeats."""


class PageText(NamedTuple):
    """A stored page with its visible text."""

    oid: int
    title: str
    text: str | None
    """None: it is not kept."""


class PageVerdict(NamedTuple):
    """A stored page with the topic it was last put into, and whether that topic accepted it."""

    oid: int
    kcid: int
    accepted: bool


class PageForExplanation(NamedTuple):
    """A stored page with what a model judges it by, and what was said of it."""

    oid: int
    url: str
    title: str | None
    language: str | None
    text: str | None
    relevance: float | None
    kcid: int | None
    model_version: int | None
    agreed: list[str] | None
    rights: str | None = None


def known_url(store: Store, url: str) -> KnownUrl | None:
    """What is known of a URL (in normal form); None when the crawl has never seen it."""
    rows = store.select(_KNOWN, [url_key(url), url]).rows
    return KnownUrl(*rows[0]) if rows else None


def known_spelling(store: Store, url: str) -> str | None:
    """The URL under which the crawl knows an address, such as with a slash at its end; None: it has never seen it."""
    candidates = spellings(url)
    rows = store.select(_SPELLED, [candidates, [url_key(one) for one in candidates]]).rows
    return min((found for (found,) in rows), key=candidates.index, default=None)


def nearest_urls(store: Store, url: str, most: int) -> list[str]:
    """Known URLs that look most like an unknown one."""
    host = host_of(url)
    given = {"url": url, "host": host, "domain": registered_domain(host), "most": most}
    return [found for (found,) in store.select(_NEAREST, given, max_rows=most).rows]


def last_request(store: Store, oid: int) -> LastRequest:
    """What came of the requests for a known URL."""
    return LastRequest(*store.select(_LAST_REQUEST, [oid]).rows[0])


def oid_of(store: Store, url: str) -> int | None:
    """The number of the stored page of a URL."""
    rows = store.select(_OID, [url]).rows
    return int(rows[0][0]) if rows else None


def text_of(store: Store, url: str) -> PageText | None:
    """The stored page of a URL."""
    rows = store.select(_TEXT, [url]).rows
    return PageText(*rows[0]) if rows else None


def verdict_on(store: Store, url: str) -> PageVerdict | None:
    """The stored page of a URL with what its latest judgement says."""
    rows = store.select(_JUDGED, [url]).rows
    return PageVerdict(*rows[0]) if rows else None


def verdicts_on(store: Store, oids: Sequence[int]) -> dict[str, PageVerdict]:
    """The same for several pages by their numbers; by URL."""
    rows = store.select(_JUDGED_PAGES, [list(oids)], max_rows=_MAX_ROWS).rows
    return {row[0]: PageVerdict(*row[1:]) for row in rows}


def pages_for_explanation(store: Store, urls: Sequence[str]) -> dict[str, PageForExplanation]:
    """By URL, the stored page of it, of where it was redirected to, or of the page that it is a duplicate of."""
    rows = store.select(_EXPLAINED, _asked(urls), max_rows=len(urls)).rows
    return {row[0]: PageForExplanation(*row[1:]) for row in rows}


def find_pages(cursor: duckdb.DuckDBPyConnection, urls: Sequence[str]) -> dict[str, int]:
    """The same, their numbers alone."""
    return dict(cursor.execute(_FIND, _asked(urls)).fetchall())


def _asked(urls: Sequence[str]) -> dict[str, Any]:
    return {"keys": [url_key(url) for url in urls], "urls": list(urls)}


def find_url(cursor: duckdb.DuckDBPyConnection, url: str) -> int | None:
    """The number of a URL that the crawl knows."""
    rows = cursor.execute(_KNOWN, [url_key(url), url]).fetchall()
    return int(rows[0][0]) if rows else None


def page_facts(
    cursor: duckdb.DuckDBPyConnection, oids: Sequence[int], max_text_chars: int
) -> dict[int, dict[str, Any]]:
    """What was received for some stored pages, their texts, and where the record of each lies."""
    rows = cursor.execute(_FACTS, [list(oids), max_text_chars]).fetchall()
    facts = {row[0]: dict(zip(_FACT_NAMES, row, strict=True)) for row in rows}
    return {oid: fact | {"rights": rights_of(fact["rights"])} for oid, fact in facts.items()}


def rights_of(stored: str | None) -> list[dict[str, str]]:
    """What a page and its site say about its use, as it is stored: signal, value and source of each."""
    found: list[dict[str, str]] = msgspec.json.decode(stored) if stored else []
    return found


def page_judgements(cursor: duckdb.DuckDBPyConnection, oids: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """All judgements of some pages, oldest first."""
    found: dict[int, list[dict[str, Any]]] = {oid: [] for oid in oids}
    for oid, *row in cursor.execute(_JUDGEMENTS, [list(oids)]).fetchall():
        found[oid].append(dict(zip(_JUDGEMENT_NAMES, row, strict=True)))
    return found


def same_pages(cursor: duckdb.DuckDBPyConnection, oids: Sequence[int], limit: int) -> dict[int, list[dict[str, str]]]:
    """The URLs that were redirected to each of some pages, or found to be duplicates of it, and by which step."""
    found: dict[int, list[dict[str, str]]] = {oid: [] for oid in oids}
    for oid, url, step in cursor.execute(_SAME, [list(oids), limit]).fetchall():
        found[oid].append({"url": url, "step": step})
    return found


# -- several pages


class PageDocument(NamedTuple):
    """The texts of a page that a classifier reads."""

    oid: int
    title: str
    language: str
    text: str | None


class ShortText(NamedTuple):
    """A page with the beginning of its main text."""

    oid: int
    url: str
    title: str
    language: str
    text: str


class RelevantPage(NamedTuple):
    """A relevant page whose text is kept."""

    title: str | None
    text: str
    language: str | None
    url: str


class PageOrigin(NamedTuple):
    """A page with the place in the web where it was found."""

    oid: int
    depth: int
    parent: int | None
    language: str
    title: str


def page_origins(store: Store, oids: Sequence[int]) -> list[PageOrigin]:
    """Some pages."""
    return [
        PageOrigin(*row)
        for piece in store.select_pieces(_ORIGINS, [list(oids)])
        for row in zip(*(column.to_pylist() for column in piece.columns), strict=True)
    ]


def oids_of_urls(store: Store, urls: Sequence[str]) -> set[int]:
    """The numbers of those of some URLs that are known."""
    return {oid for (oid,) in store.select(_OIDS_OF_URLS, [list(urls)], max_rows=_MAX_ROWS).rows}


def titles_of_urls(store: Store, urls: Sequence[str]) -> dict[str, str | None]:
    """The titles of the stored pages of some URLs."""
    return dict(store.select(_TITLES, [list(urls)], max_rows=_MAX_ROWS).rows)


def documents(store: Store, oids: Sequence[int]) -> dict[int, PageDocument]:
    """Some pages with their visible text, by number."""
    rows = store.select(_DOCUMENTS, [list(oids)], max_rows=2**16).rows
    return {row[0]: PageDocument(*row) for row in rows}


def main_texts(store: Store, oids: Sequence[int]) -> list[PageDocument]:
    """Some pages with their text without boilerplate, or with all of it where that is empty."""
    return [PageDocument(*row) for row in store.select(_MAIN_TEXTS, [list(oids)], max_rows=2**16).rows]


def short_texts(store: Store, oids: Sequence[int], max_chars: int) -> dict[int, ShortText]:
    """Some pages with the beginning of their main text, by number."""
    rows = store.select(_SHORT_TEXTS, [list(oids), max_chars], max_rows=2**24).rows
    return {row[0]: ShortText(*row) for row in rows}


def latest_relevant(store: Store, limit: int) -> list[RelevantPage]:
    """The latest relevant pages whose text is kept."""
    return [RelevantPage(*row) for row in store.select(_LATEST_RELEVANT, [limit], max_rows=2**16).rows]


def pages_since(store: Store, since_s: float) -> Iterator[tuple[int, float]]:
    """The pages visited since a moment, oldest first: oid, and the time of the visit in seconds."""
    for piece in store.select_pieces(_SINCE_VISIT, [since_s]):
        yield from zip(*(column.to_pylist() for column in piece.columns), strict=True)


def page_relevances(store: Store, oids: Sequence[int]) -> list[tuple[int, str, str, bool]]:
    """Some pages, ascending: oid, URL, title, and whether it is relevant."""
    return store.select(_PAGE_RELEVANCES, [list(oids)], max_rows=len(oids)).rows


def relevant_of(store: Store, kcids: Sequence[int]) -> list[int]:
    """The relevant pages of some topics in a random order, so that the first are a sample; the same each time."""
    pieces = store.select_pieces(_RELEVANT_SHUFFLED, [list(kcids)])
    return [oid for piece in pieces for oid in piece.column(0).to_pylist()]


# -- lists


def describe(cursor: duckdb.DuckDBPyConnection, oids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """What lists show of some URLs, by oid. The topic of a page that none took is OTHERS."""
    wanted = sorted(set(oids))
    if not wanted:
        return {}
    rows = cursor.execute(_DESCRIBED, {"oids": wanted}).fetchall()
    pictures = shown_pictures(cursor, wanted)
    return {
        row[0]: dict(zip(_DESCRIBED_NAMES, row, strict=True)) | {"host": host_of(row[1])} | pictures[row[0]]
        for row in rows
    }


class QueueEntry(NamedTuple):
    """A URL with the queue that it is in, or was in."""

    oid: int
    url: str
    title: str
    relevance: float
    state: str
    topic: str


def queue_entries(cursor: duckdb.DuckDBPyConnection, oids: Sequence[int]) -> dict[int, QueueEntry]:
    """Some URLs, by number."""
    rows = cursor.execute(_QUEUE, {"oids": list(oids)}).fetchall()
    return {row[0]: QueueEntry(*row) for row in rows}


class TopicPage(NamedTuple):
    """A page in the list of its topic."""

    oid: int
    confidence: float | None
    hub: float | None
    authority: float | None


class LinkedPage(NamedTuple):
    """A hub or an authority."""

    kind: str
    """`hubs` or `authorities`."""
    oid: int
    score: float


class BestPage(NamedTuple):
    """One of the best pages of a good topic."""

    good: int
    oid: int
    confidence: float | None
    own: bool
    """The user gave it: as a bookmark, another seed or an example."""


def best_of_topics(cursor: duckdb.DuckDBPyConnection, pairs: Sequence[tuple[int, int]], best: int) -> list[BestPage]:
    """The `best` pages of each good topic; what the user gave comes last.

    `pairs` are topics, each with the good one it is in.
    """
    asked = {"kcids": [kcid for kcid, _ in pairs], "goods": [good for _, good in pairs], "best": best}
    return [BestPage(*row) for row in cursor.execute(_BEST, asked).fetchall()]


class TopicSite(NamedTuple):
    """The relevant pages of a good topic on one host."""

    good: int
    host: str
    pages: int
    url: str
    """The most relevant one."""


def sites_of_topics(cursor: duckdb.DuckDBPyConnection, pairs: Sequence[tuple[int, int]]) -> list[TopicSite]:
    """The hosts of each good topic, those with the most relevant pages first. `pairs` as for `best_of_topics`."""
    asked = {"kcids": [kcid for kcid, _ in pairs], "goods": [good for _, good in pairs]}
    rows = cursor.execute(_SITES, asked).fetchall()
    return [TopicSite(good, host_of(url), pages, url) for good, _, pages, url in rows]


def page_openings(cursor: duckdb.DuckDBPyConnection, oids: Iterable[int], max_chars: int) -> dict[int, str]:
    """The beginnings of the main texts of some pages."""
    return dict(cursor.execute(_OPENINGS, [sorted(set(oids)), max_chars]).fetchall())


def new_pages(cursor: duckdb.DuckDBPyConnection, days: int, limit: int, since_s: float | None = None) -> list[int]:
    """The most relevant pages of the last days of crawling, or since a moment."""
    asked = {"days": days, "limit": limit, "since_s": since_s}
    return [oid for (oid,) in cursor.execute(_NEW, asked).fetchall()]


def latest_finds(cursor: duckdb.DuckDBPyConnection, limit: int) -> list[int]:
    """The relevant pages that were fetched last, without what the user gave."""
    return [oid for (oid,) in cursor.execute(_LATEST_FINDS, {"limit": limit}).fetchall()]


def new_period(
    cursor: duckdb.DuckDBPyConnection, days: int, since_s: float | None = None
) -> tuple[str | None, str | None]:
    """When the last days of crawling, or the time since a moment, ended and began."""
    [[until, since]] = cursor.execute(_SINCE, {"days": days, "since_s": since_s}).fetchall()
    return until, since


def best_linked(cursor: duckdb.DuckDBPyConnection, kcid: int, limit: int, *, relevant: bool) -> list[LinkedPage]:
    """The best hubs and authorities of a topic, or of all wanted topics for the root; best first.

    `relevant` leaves out what is not a relevant page: a hub may be about something else, and need not be fetched.
    """
    rows = cursor.execute(_LINKED, {"kcid": kcid, "limit": limit, "relevant": relevant}).fetchall()
    return [LinkedPage(*row) for row in rows]


def pages_of_topics(
    cursor: duckdb.DuckDBPyConnection,
    kcid: int,
    kcids: Iterable[int],
    *,
    order: str,
    accepted: bool,
    relevant: bool,
    limit: int,
    offset: int,
) -> list[TopicPage]:
    """Pages that some topics took, in one of the ORDERS, with the link scores of the topic `kcid`.

    Without `accepted`, those that no topic accepted. `relevant` leaves out what is not.
    """
    asked = {
        "kcid": kcid, "topics": sorted(kcids), "accepted": accepted, "relevant": relevant, "per_page": limit,
        "offset": offset,
    }  # fmt: skip
    return [TopicPage(*row) for row in cursor.execute(_OF_TOPICS.format(order=ORDERS[order]), asked).fetchall()]
