"""URLs in the table `crawl`: what the user queues again or drops, and what refills and a resumed crawl read.

A crawl changes states in memory and writes them with its batches. The statements here change many URLs at once, on the
user's behalf, and are built from the one table of transitions. Each names the states it changes from: a change that
`TRANSITIONS` does not have raises `IllegalTransition` when the statement is built, and rows in other states are left
alone.

A part of a divided collection knows URLs of other parts, with the outcome `elsewhere`, and leaves them alone. When its
user adds one as a seed or an example, it is claimed: it is queued here from then on, like any seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from opilio.frontier.hosts import HOSTS_PER_RELEVANT, PAGES_PER_HOST
from opilio.model import Outcome, UrlState
from opilio.settings import LimitSettings
from opilio.store import arrow
from opilio.store.database import Store
from opilio.store.links import BOILERPLATE
from opilio.store.questions import DEAD_SEEDS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


FIRST_PRIORITY = 1e6
"""Brings a URL into memory among the first; there the strategy gives it a priority of its own."""


def change_states(old: tuple[UrlState, ...], new: UrlState, sets: str = "", *, source: str = "", where: str) -> str:
    """The statement that takes URLs from one of the states `old` to `new`.

    `sets` are further assignments, `source` is what follows FROM, `where` chooses among the URLs in those states.
    """
    words = []
    for state in old:
        state.to(new)
        words.append(f"'{_stored(state).value}'")
    assignments = f"state = '{_stored(new).value}'" + (f", {sets}" if sets else "")
    from_ = f" FROM {source}" if source else ""
    return f"UPDATE crawl SET {assignments}{from_} WHERE crawl.state IN ({', '.join(words)}) AND ({where})"


def _stored(state: UrlState) -> UrlState:
    if state is UrlState.LEASED:
        raise ValueError("leases live in memory: the database never has one")
    return state


RETRY_FAILED = change_states(
    (UrlState.FAILED, UrlState.DROPPED),
    UrlState.WAITING,
    "numtries = 0, not_before = NULL",
    where=f"state = '{UrlState.FAILED}' OR outcome = '{Outcome.PRIVATE_ADDRESS}'",
)
"""Requeues what failed, by itself or with its host, and what had a private address, which may be allowed now."""

_SHELLS = f"""
    SELECT h.host, count(*) FROM crawl c JOIN hosts h USING (sid)
    WHERE c.state = 'failed' AND c.outcome = '{Outcome.NEEDS_JAVASCRIPT}' GROUP BY 1 ORDER BY 2 DESC, 1
"""
REQUEUE_SHELLS = change_states(
    (UrlState.FAILED,),
    UrlState.WAITING,
    "numtries = 0, not_before = NULL",
    where=f"outcome = '{Outcome.NEEDS_JAVASCRIPT}' "
    "AND sid IN (SELECT sid FROM hosts WHERE host IN (SELECT unnest($1::VARCHAR[])))",
)
"""Requeues pages that are empty without JavaScript."""

_PASSING = ", ".join(f"'{outcome}'" for outcome in Outcome if outcome.may_retry)
_GIVEN_UP = f"SELECT sid, scheme FROM origins WHERE state = 'bad' AND problem IN ({_PASSING})"
RETRY_GIVEN_UP = change_states(
    (UrlState.FAILED,),
    UrlState.WAITING,
    "numtries = 0, not_before = NULL",
    where=f"outcome IN ({_PASSING}) AND (sid, split_part(url, ':', 1)) IN ({_GIVEN_UP})",
)
"""Requeues what failed with an origin that was given up because it did not answer, or answered that it cannot now."""

_HOST_FAILED = ", ".join(f"'{outcome}'" for outcome in Outcome if outcome.blames_host or outcome.may_retry)
TAKE_UP = change_states(
    (UrlState.FAILED,),
    UrlState.WAITING,
    f"numtries = 0, not_before = NULL, outcome = CASE WHEN oid IN (SELECT oid FROM pages) THEN '{Outcome.OK}' END",
    where=f"outcome IN ({_HOST_FAILED}) AND oid IN (SELECT unnest(?::BIGINT[]))",
)
"""Requeues URLs that were given up together with their origin, by their oids."""

RECRAWL = change_states(
    (UrlState.FETCHED,),
    UrlState.WAITING,
    "numtries = 0",
    where=f"outcome IN ('{Outcome.OK}', '{Outcome.NOT_MODIFIED}')",
)
"""Requeues the URLs whose page is stored."""

CLAIM = change_states(
    (UrlState.DROPPED,),
    UrlState.WAITING,
    f"outcome = NULL, topic = g.topic, depth = 0, relevance = 1.0, priority = {FIRST_PRIORITY}",
    source="(SELECT unnest(?::BIGINT[]) AS oid, unnest(?::SMALLINT[]) AS topic) g",
    where=f"g.oid = crawl.oid AND outcome = '{Outcome.ELSEWHERE}'",
)
"""Requeues URLs that were left to another part of a divided collection: their oids, and the topic of each."""

DROP_LOCKED = change_states(
    (UrlState.WAITING,),
    UrlState.DROPPED,
    f"outcome = '{Outcome.LOCKED}', not_before = NULL",
    where="oid IN (SELECT unnest(?::BIGINT[]))",
)
"""Drops URLs of hosts that were locked, by their oids."""

UNLOCK = change_states(
    (UrlState.DROPPED,),
    UrlState.WAITING,
    f"outcome = CASE WHEN oid IN (SELECT oid FROM pages) THEN '{Outcome.OK}' END",
    where=f"outcome = '{Outcome.LOCKED}' AND oid IN (SELECT unnest(?::BIGINT[]))",
)
"""Requeues URLs that a lock dropped, by their oids."""


FETCH_AGAIN = change_states(
    (UrlState.FETCHED,),
    UrlState.WAITING,
    "numtries = 0",
    where=f"outcome IN ('{Outcome.OK}', '{Outcome.NOT_MODIFIED}') AND oid IN (SELECT unnest(?::BIGINT[]))",
)
"""Requeues URLs whose page is stored, by their oids."""
FOLLOW = change_states(
    (UrlState.DROPPED,),
    UrlState.WAITING,
    "outcome = NULL, topic = f.topic, parent = f.parent, depth = f.depth + 1, relevance = f.relevance, "
    "priority = f.relevance",
    source="""(
        SELECT l.oid_dst AS oid, arg_max(c.topic, coalesce(p.relevance, 0)) AS topic,
               arg_max(c.oid, coalesce(p.relevance, 0)) AS parent, min(c.depth) AS depth,
               max(coalesce(p.relevance, 0)) AS relevance
        FROM links l JOIN pages p ON p.oid = l.oid_src JOIN crawl c ON c.oid = l.oid_src
        WHERE l.oid_src IN (SELECT unnest(?::BIGINT[])) GROUP BY l.oid_dst
    ) f""",
    where=f"f.oid = crawl.oid AND outcome = '{Outcome.NOT_FOLLOWED}'",
)
"""Requeues URLs to which some pages link, given by their oids, and that nobody followed so far."""


def reopen(where: str) -> str:
    """The statement that requeues those of the dropped URLs that a condition chooses."""
    return change_states((UrlState.DROPPED,), UrlState.WAITING, "outcome = NULL", where=where)


_RETRY_ORIGINS = """
    UPDATE origins SET state = 'ok', failures = 0, problem = NULL, met = NULL, robots_status = NULL WHERE state <> 'ok'
"""
_RETRY_ONCE = f"UPDATE origins SET state = 'slow', failures = ? WHERE state = 'bad' AND problem IN ({_PASSING})"
# Beginnings of URLs are without a scheme.
_BEGINS_SO = """
    len(list_filter($2::VARCHAR[], lambda start: starts_with(substr(url, strpos(url, '://') + 3), start))) > 0
"""
_QUEUED_AND_LOCKED = f"""
    SELECT oid, topic FROM crawl
    WHERE state = 'waiting' AND (sid IN (SELECT unnest($1::INTEGER[])) OR {_BEGINS_SO})
"""
_LOCKED_OF_HOSTS = f"""
    SELECT oid, topic, oid IN (SELECT oid FROM pages)
    FROM crawl WHERE state = 'dropped' AND outcome = 'locked-domain' AND sid IN (SELECT unnest($1::INTEGER[]))
      AND NOT {_BEGINS_SO}
"""
_GIVEN_UP_OF_ORIGINS = f"""
    SELECT oid, topic, oid IN (SELECT oid FROM pages) AS is_stored
    FROM crawl
    WHERE state = 'failed' AND outcome IN ({_HOST_FAILED})
      AND (sid, split_part(url, ':', 1)) IN (SELECT unnest($1::INTEGER[]), unnest($2::VARCHAR[]))
    QUALIFY row_number() OVER (PARTITION BY sid, split_part(url, ':', 1)
                               ORDER BY is_stored DESC, relevance DESC, oid) <= $3
"""
_STORED = f"""
    SELECT oid, topic FROM crawl
    WHERE state = 'fetched' AND outcome IN ('{Outcome.OK}', '{Outcome.NOT_MODIFIED}')
      AND oid IN (SELECT unnest(?::BIGINT[]))
"""
_FINDS = "SELECT url, found FROM seeds WHERE found IS NOT NULL AND url IN (SELECT unnest(?::VARCHAR[])) ORDER BY rowid"
_COUNT_OF_HOSTS = "SELECT count(*) FROM crawl WHERE state = 'waiting' AND sid IN (SELECT unnest(?::INTEGER[]))"
_ELSEWHERE = f"""
    SELECT c.oid, coalesce(t.kcid, s.kcid, c.topic)
    FROM crawl c
    LEFT JOIN (SELECT name, arg_max(kcid, rowid) AS kcid FROM training WHERE kind = 'url' GROUP BY name) t
        ON t.name = c.url
    LEFT JOIN (SELECT url, arg_max(kcid, rowid) AS kcid FROM seeds GROUP BY url) s ON s.url = c.url
    WHERE c.outcome = '{Outcome.ELSEWHERE}' AND c.url IN (SELECT unnest(?::VARCHAR[]))
"""
_VALIDATORS = """
    SELECT oid, coalesce(arg_max(etag, visited), ''), coalesce(arg_max(last_modified, visited), ''),
           epoch(max(visited))
    FROM pages WHERE oid IN (SELECT unnest(?)) GROUP BY oid
"""
_QUEUED = "SELECT oid, topic FROM crawl WHERE state = 'waiting'"
_RECRAWLED = "SELECT oid FROM crawl WHERE state = 'waiting' AND oid IN (SELECT oid FROM pages)"  # whatever its last try
_UNFOLLOWED = f"SELECT oid FROM crawl WHERE outcome = '{Outcome.NOT_FOLLOWED}' AND state = 'dropped'"
# Pages with links that were not followed, and how each is judged now.
_UNFOLLOWED_PAGES = f"""
    SELECT p.oid, coalesce(p.relevance, 0.0), coalesce(p.kcid, 0), coalesce(j.accepted, false)
    FROM pages p
    LEFT JOIN (SELECT oid, model_version, arg_max(accepted, rowid) AS accepted FROM judgements GROUP BY ALL) j
        ON j.oid = p.oid AND j.model_version = p.model_version
    WHERE p.oid IN (SELECT oid_src FROM links WHERE oid_dst IN ({_UNFOLLOWED}))
    ORDER BY p.oid
"""
_FOLLOWED_FROM = f"""
    SELECT DISTINCT c.oid FROM crawl c JOIN links l ON l.oid_dst = c.oid
    WHERE c.state = 'dropped' AND c.outcome = '{Outcome.NOT_FOLLOWED}' AND l.oid_src IN (SELECT unnest(?::BIGINT[]))
"""
_FOLLOWED = "SELECT oid, topic, url, sid FROM crawl WHERE oid IN (SELECT unnest(?::BIGINT[])) ORDER BY oid"
_TRAP_LIKE = r"""
    SELECT url, sid FROM crawl WHERE coalesce(outcome, '') NOT IN ('trap', 'not-followed')
    AND (url LIKE '%?%' OR url LIKE '%;%' OR regexp_matches(url, '/(19|20)\d\d[-/]W?\d{1,2}([-/]\d{1,2})?/?$', 'i')
         OR regexp_matches(url, '/[a-z]+[/_-]?\d+(\.\w+)?/?$', 'i'))
"""
_REPEATED = f"""
    SELECT url, sid FROM crawl WHERE lastvisited IS NOT NULL
    AND outcome IN ({", ".join(f"'{one}'" for one in Outcome if one.is_repeat)})
"""
_RELEVANT_BY_HOST = "SELECT sid, count(*) FROM pages JOIN crawl USING (oid) WHERE pages.relevance >= 0.5 GROUP BY sid"
_PAGE_SKETCHES = """
    SELECT p.oid, c.sid, c.url, coalesce(p.ip, ''), CASE WHEN p.cut THEN 0 ELSE p.body_bytes END, p.content_hash,
           p.shingles
    FROM pages p JOIN crawl c ON c.oid = p.oid ORDER BY p.oid
"""
# The hosts of domains that may have more hosts, by the rule of `Domain.has_room_for_host`.
_WITH_ROOM_FOR_HOSTS = f"""
    SELECT sid FROM hosts WHERE domain IN (
        SELECT domain FROM hosts LEFT JOIN (FROM ({_RELEVANT_BY_HOST}) r (sid, relevant)) USING (sid) GROUP BY domain
        HAVING count(*) FILTER (requests > 0)
            < {{}} + {HOSTS_PER_RELEVANT} * coalesce(sum(relevant), 0) + sum(pages) // {PAGES_PER_HOST}
    )
"""
_BY_SCOPE = "('locked-domain', 'out-of-scope')"
_HOSTS_DROPPED = f"SELECT DISTINCT sid, host FROM hosts JOIN crawl USING (sid) WHERE outcome IN {_BY_SCOPE}"
_QUEUED_URLS = """
    SELECT oid, url, sid, topic, depth, relevance, hops, numtries, priority
    FROM crawl WHERE oid IN (SELECT unnest(?::BIGINT[]))
"""
# What the best hubs link to and nobody has tried, and those among the hubs themselves. Redirects are not followed: what
# was redirected has been tried.
_FROM_HUBS = f"""
    WITH scored AS (
        SELECT kcid, oid, hub FROM link_scores
        UNION ALL
        SELECT -1, oid, score FROM hubs WHERE (SELECT count(*) FROM link_scores) = 0
    ),
    best AS (
        SELECT oid FROM scored WHERE hub > 0
        QUALIFY row_number() OVER (PARTITION BY kcid ORDER BY hub DESC, oid) <= $hubs
    )
    SELECT c.oid FROM crawl c
    WHERE c.state = 'waiting' AND c.numtries = 0
      AND (c.oid IN (FROM best) OR c.oid IN (
        SELECT oid_dst FROM links WHERE oid_src IN (FROM best) AND coalesce(region, '') NOT IN {BOILERPLATE}
      ))
    ORDER BY c.oid LIMIT $urls
"""
_BRING_FORWARD = """
    UPDATE crawl SET relevance = 1.0, depth = 0
    WHERE oid IN (SELECT oid FROM asked) AND state = 'waiting' AND numtries = 0
"""
_MAKE_FIRST = f"""
    UPDATE crawl SET relevance = 1.0, depth = 0, priority = {FIRST_PRIORITY}
    WHERE oid IN (SELECT unnest(?)) AND state = 'waiting'
"""
# In order of time. A URL without a page counts only when it could not be fetched.
_OUTCOMES = """
    SELECT c.oid, if(p.oid IS NULL, 0.0, p.relevance), p.oid IS NOT NULL, coalesce(p.kcid, 0),
           coalesce(j.accepted, false), p.oid IS NULL AND coalesce(list_contains($2, c.outcome), false)
    FROM crawl c LEFT JOIN pages p USING (oid)
    LEFT JOIN (SELECT oid, model_version, arg_max(accepted, rowid) AS accepted FROM judgements GROUP BY ALL) j
        ON j.oid = p.oid AND j.model_version = p.model_version
    WHERE (p.oid IS NOT NULL OR c.state = 'failed') AND c.lastvisited >= (
        SELECT coalesce(min(visited), TIMESTAMP '1970-01-01') FROM
            (SELECT visited FROM pages ORDER BY visited DESC LIMIT $1)
    )
    ORDER BY c.lastvisited, c.oid
"""
_ALL_LINKS = """
    SELECT s.url AS source, t.url AS target
    FROM links JOIN crawl s ON s.oid = oid_src JOIN crawl t ON t.oid = oid_dst
"""


class QueuedRow(NamedTuple):
    """A queued URL."""

    url: str
    sid: int
    topic: int
    depth: int
    relevance: float
    hops: int
    numtries: int
    priority: float


class Validators(NamedTuple):
    """What makes the request for a stored page conditional; '' where the server gave nothing."""

    etag: str = ""
    last_modified: str = ""
    stored_s: float = 0.0
    """When the stored page was fetched."""


class UrlOutcome(NamedTuple):
    """What came of a URL."""

    oid: int
    relevance: float | None
    """0 when it could not be fetched; None: no model has judged its page."""
    is_stored: bool
    kcid: int
    accepted: bool
    is_dead: bool
    """There is no page (`Outcome.is_dead`)."""


class PageSketch(NamedTuple):
    """What duplicates of a stored page are recognised by."""

    oid: int
    sid: int
    url: str
    ip: str
    body_bytes: int
    """0 for a page that was cut: its size says nothing."""
    content_hash: int
    shingles: bytes | None


# -- by the user, and of other parts


def retry_failed(store: Store) -> None:
    """Queue the URLs that failed, by themselves or with their hosts."""
    store.query(RETRY_FAILED, write=True)
    store.query(_RETRY_ORIGINS, write=True)


def shells_by_host(store: Store) -> dict[str, int]:
    """How many pages of each host are empty without JavaScript and were not rendered."""
    return dict(_rows(store, _SHELLS))


def requeue_shells(store: Store, hosts: Sequence[str]) -> None:
    """Queue such pages of some hosts: they can be rendered now."""
    store.query(REQUEUE_SHELLS, [list(hosts)], write=True)


def retry_given_up(store: Store, host_tries: int) -> None:
    """Give origins that did not answer another chance: queue their URLs. One more failure gives them up again.

    "Unreachable" forbids a crawl for now, not for ever (RFC 9309), and it may have been our network that was down.
    """
    if store.select(f"SELECT count(*) FROM ({_GIVEN_UP})").rows[0][0]:
        store.query(RETRY_GIVEN_UP, write=True)
        store.query(_RETRY_ONCE, [host_tries - 1], write=True)


def recrawl(store: Store) -> None:
    """Queue the pages that are stored."""
    store.query(RECRAWL, write=True)


def requeue_pages(store: Store, oids: Sequence[int]) -> list[tuple[int, int]]:
    """Queue some of the stored pages; oid and topic of each that was not queued before."""
    found = [(oid, topic) for oid, topic in _rows(store, _STORED, [list(oids)])]
    if found:
        store.query(FETCH_AGAIN, [[oid for oid, _ in found]], write=True)
    return found


def drop_locked(
    store: Store, sids: Sequence[int], starts: Sequence[str], held: Iterable[int] = ()
) -> list[tuple[int, int]]:
    """Drop the queued URLs of locked hosts, and those that begin so, except URLs that are `held`: oid and topic."""
    kept = set(held)
    rows = _rows(store, _QUEUED_AND_LOCKED, [list(sids), list(starts)])
    found = [(oid, topic) for oid, topic in rows if oid not in kept]
    if found:
        store.query(DROP_LOCKED, [[oid for oid, _ in found]], write=True)
    return found


def requeue_unlocked(store: Store, sids: Sequence[int], starts: Sequence[str]) -> list[tuple[int, int, bool]]:
    """Queue again what a lock dropped of some hosts, except URLs that begin as those that are locked.

    Returns oid, topic, and whether the page is stored and so is fetched once more.
    """
    rows = _rows(store, _LOCKED_OF_HOSTS, [list(sids), list(starts)])
    found = [(oid, topic, stored) for oid, topic, stored in rows]
    if found:
        store.query(UNLOCK, [[oid for oid, _, _ in found]], write=True)
    return found


def take_up_origins(store: Store, origins: Sequence[tuple[int, str]], limit: int) -> list[tuple[int, int, bool]]:
    """Queue what was given up together with some origins, at most `limit` URLs of each, stored pages first.

    Returns oid and topic of each URL, and whether its page is stored.
    """
    given = [[sid for sid, _ in origins], [scheme for _, scheme in origins], limit]
    found = [(oid, topic, stored) for oid, topic, stored in _rows(store, _GIVEN_UP_OF_ORIGINS, given)]
    if found:
        store.query(TAKE_UP, [[oid for oid, _, _ in found]], write=True)
    return found


def count_queued_of_hosts(store: Store, sids: Sequence[int]) -> int:
    """How many URLs of some hosts are queued in the database."""
    return int(store.select(_COUNT_OF_HOSTS, [list(sids)]).rows[0][0])


def elsewhere(store: Store, urls: Sequence[str]) -> list[tuple[int, int]]:
    """Those of some URLs that are left to another part: oid of each, and the topic for which the user named it."""
    return [(oid, topic) for oid, topic in store.select(_ELSEWHERE, [list(urls)], max_rows=len(urls) + 1).rows]


def claim(store: Store, urls: Sequence[str]) -> list[tuple[int, int]]:
    """Queue those of some URLs here that were left to another part; oid and topic of each."""
    found = elsewhere(store, urls)
    if found:
        oids, topics = zip(*found, strict=True)
        store.query(CLAIM, [list(oids), list(topics)], write=True)
    return found


class DeadSeed(NamedTuple):
    """A seed that gave no page."""

    url: str
    title: str | None
    outcome: str
    detail: str


def dead_seeds(store: Store) -> list[DeadSeed]:
    """The seeds that could not be fetched or were refused, by outcome; redirects are followed."""
    return [DeadSeed(*row) for row in _rows(store, DEAD_SEEDS)]


def finds_of(store: Store, urls: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """By URL, who found it as a seed: provider, query and rank. Empty for other URLs."""
    found: dict[str, list[dict[str, Any]]] = {url: [] for url in urls}
    for url, finds in store.select(_FINDS, [list(urls)]).rows:
        found[url] += finds
    return found


def count_seeds(store: Store) -> int:
    """How many different URLs the user gave to start from."""
    return int(store.select("SELECT count(DISTINCT url) FROM seeds").rows[0][0])


class UnfollowedPage(NamedTuple):
    """A page whose links were not followed, and how it is judged now."""

    oid: int
    relevance: float
    kcid: int
    accepted: bool


def unfollowed_pages(store: Store) -> list[UnfollowedPage]:
    """The pages with links that were not followed."""
    return [UnfollowedPage(*row) for row in _rows(store, _UNFOLLOWED_PAGES)]


def follow_links_of(store: Store, pages: Sequence[int]) -> list[tuple[int, int, str, int]]:
    """Queue the links of some pages that were not followed so far: oid, topic, URL and host of each."""
    oids = [oid for (oid,) in _rows(store, _FOLLOWED_FROM, [list(pages)])]
    if not oids:
        return []
    store.query(FOLLOW, [list(pages)], write=True)
    return [(oid, topic, url, sid) for oid, topic, url, sid in _rows(store, _FOLLOWED, [oids])]


def unfollowed_urls(store: Store) -> Iterator[int]:
    """The URLs that were dropped because the links to them are not followed."""
    return (oid for (oid,) in _rows(store, _UNFOLLOWED))


# -- for refills and resuming


def validators(store: Store, oids: Sequence[int]) -> dict[int, Validators]:
    """What makes requests for stored pages conditional."""
    if not oids:
        return {}
    rows = store.select(_VALIDATORS, [list(oids)], max_rows=len(oids)).rows
    return {oid: Validators(*values) for oid, *values in rows}


def all_queued(store: Store) -> Iterator[tuple[int, int]]:
    """All queued URLs: oid and topic."""
    return _rows(store, _QUEUED)


def recrawled_urls(store: Store) -> Iterator[int]:
    """The queued URLs of which a page is stored."""
    return (oid for (oid,) in _rows(store, _RECRAWLED))


def trap_like_urls(store: Store) -> Iterator[tuple[str, int]]:
    """The URLs that the trap detector may count, with their hosts: those with a query, or that end with a number."""
    return _rows(store, _TRAP_LIKE)


def repeated_urls(store: Store) -> Iterator[tuple[str, int]]:
    """The URLs that were fetched and repeat pages, with their hosts."""
    return _rows(store, _REPEATED)


def relevant_by_host(store: Store) -> dict[int, int]:
    """How many pages of each host are relevant."""
    return dict(_rows(store, _RELEVANT_BY_HOST))


def page_sketches(store: Store) -> Iterator[PageSketch]:
    """All stored pages, ascending."""
    return (PageSketch(*row) for row in _rows(store, _PAGE_SKETCHES))


def hosts_dropped_by_scope(store: Store) -> list[tuple[int, str]]:
    """The hosts of which URLs were dropped by the scope or a lock: sid and name."""
    return list(_rows(store, _HOSTS_DROPPED))


def requeue_dropped(store: Store, limits: LimitSettings, sids_in_scope: Sequence[int]) -> int:
    """Requeue URLs that were dropped by a limit, or a scope, that does not drop them any more; how many.

    A limit of 0 is none. `sids_in_scope` are hosts of which the scope dropped URLs and now admits them.
    """
    max_depth, max_pages_per_host, max_hosts = limits.max_depth, limits.max_pages_per_host, limits.max_hosts_per_domain
    domains = _WITH_ROOM_FOR_HOSTS.format(max_hosts)
    room = f"SELECT sid FROM hosts WHERE pages < {max_pages_per_host} OR {max_pages_per_host} = 0"
    conditions = [
        f"outcome = 'too-deep' AND (depth <= {max_depth} OR {max_depth} = 0)",
        f"outcome = 'host-limit' AND sid IN ({room})",
        f"outcome = '{Outcome.DOMAIN_LIMIT}' AND ({max_hosts} = 0 OR sid IN ({domains}))",
    ]
    if sids_in_scope:
        conditions.append(f"outcome IN {_BY_SCOPE} AND sid IN ({', '.join(map(str, sids_in_scope))})")
    chosen = " OR ".join(f"({condition})" for condition in conditions)
    (count,) = store.select(f"SELECT count(*) FROM crawl WHERE state = 'dropped' AND ({chosen})").rows[0]
    if count:
        store.query(reopen(chosen), write=True)
    return int(count)


def url_outcomes(store: Store, max_pages: int) -> list[UrlOutcome]:
    """What came of the URLs since the first of the latest `max_pages` pages, in order of time."""
    dead = [str(outcome) for outcome in Outcome if outcome.is_dead]
    return [UrlOutcome(*row) for row in _rows(store, _OUTCOMES, [max_pages, dead])]


def queued_urls(store: Store, oids: Sequence[int]) -> dict[int, QueuedRow]:
    """URLs by their numbers."""
    return {oid: QueuedRow(*values) for oid, *values in _rows(store, _QUEUED_URLS, [list(oids)])} if oids else {}


def links_by_url(store: Store) -> Iterator[pa.RecordBatch]:
    """All links as URLs, in pieces with the columns `source` and `target`."""
    return store.select_pieces(_ALL_LINKS)


# -- what comes first


def untried_from_hubs(store: Store, hubs: int, limit: int) -> list[int]:
    """Untried URLs that the best `hubs` hubs of each topic link to, and untried hubs; at most `limit`."""
    return [oid for (oid,) in store.select(_FROM_HUBS, {"hubs": hubs, "urls": limit}, max_rows=limit).rows]


def bring_forward(store: Store, oids: npt.NDArray[np.int64]) -> None:
    """Treat queued URLs that were never tried as seeds: relevance 1, depth 0."""
    with store.writing() as cursor:
        cursor.register("asked", arrow.table({"oid": oids}))
        cursor.execute(_BRING_FORWARD)
        cursor.unregister("asked")


def make_first(store: Store, oids: Iterable[int]) -> None:
    """The same for queued URLs, tried or not."""
    store.query(_MAKE_FIRST, [list(oids)], write=True)


def _rows(store: Store, sql: str, params: Sequence[Any] = ()) -> Iterator[Any]:
    for piece in store.select_pieces(sql, params):
        yield from zip(*(column.to_pylist() for column in piece.columns), strict=True)
