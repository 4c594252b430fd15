"""The assisted review: judging a fifth, and knowing the rest (OASIS 4.7 and 5).

What a topic took is put into groups: by the metrics or feature spaces that agreed, and by directory. A directory with
few pages has no group of its own; its pages join those of other small ones. From each group 20 % are drawn by lot and
judged. When more than 75 % of them are relevant the whole group is kept, but for the pages found not to be; otherwise
only the pages found relevant are. Undoubted pages are kept unseen, as in the paper; a sample of them, at the end, is
for the estimate of precision only.

For recall, pages that the topic did not take are looked at as well: those stored around three moments of the crawl, in
groups by host, by the same rule.

The lot is a hash of the page's number and the newest model's: it needs no memory, and a group that grows while a crawl
runs keeps its sample. A page about which the user is unsure is replaced by the next; one that is skipped comes back at
the end. The latest word on a page counts.

What was judged in a review becomes something to learn from.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from opilio.errors import InputError
from opilio.learn.feedback import refuse, take
from opilio.search import review_sampling
from opilio.search.review_sampling import (
    DOUBTFUL,
    FILTERED,
    KINDS,
    NO,
    UNDOUBTED,
    VERDICTS,
    YES,
    ReviewGroup,
    ShareInterval,
    load_groups,
    next_page,
)
from opilio.store import Store
from opilio.topics import TopicRecord, find_topic, hierarchy_of

MAX_TEXT_CHARS = 6000
MIN_MAIN_CHARS = 200
"""A page with less main text is shown whole."""

_LEFT_COUNT = """
    SELECT count(*) FROM pages
    WHERE NOT (kcid IN (SELECT unnest($1::SMALLINT[])) AND relevance >= 0.5) AND text IS NOT NULL
"""
_PAGE = f"""
    SELECT p.oid, c.url, coalesce(p.title, ''),
           left(if(length(p.main_text) >= {MIN_MAIN_CHARS}, p.main_text, coalesce(p.text, '')), {MAX_TEXT_CHARS}),
           p.relevance, coalesce(p.language, '')
    FROM pages p JOIN crawl c USING (oid) WHERE p.oid = $1
"""
_OID = "SELECT p.oid FROM crawl c JOIN pages p USING (oid) WHERE c.url = $1"
_SAY = "INSERT INTO reviews VALUES (make_timestamp($1::BIGINT), $2, $3, $4, $5)"
_LAST = "SELECT rowid, oid FROM reviews WHERE kcid = $1 ORDER BY rowid DESC LIMIT 1"
_COUNT = "SELECT count(DISTINCT oid) FROM reviews WHERE kcid = $1"
_TAKE_BACK = "DELETE FROM reviews WHERE kcid = $1 AND rowid = $2"
_VERDICTS = """
    SELECT c.url, coalesce(p.title, '') AS title, last(r.verdict ORDER BY r.rowid) AS verdict,
           last(r.stratum ORDER BY r.rowid) AS stratum, last(r.judged ORDER BY r.rowid) AS judged, r.oid
    FROM reviews r JOIN crawl c USING (oid) LEFT JOIN pages p USING (oid)
    WHERE r.kcid = $1 GROUP BY r.oid, c.url, p.title ORDER BY judged, r.oid
"""


def look(store: Store, topic: str, url: str | None = None) -> dict[str, Any]:
    """How the review of a topic stands, and which page is to be judged next: `url`, or the next that was drawn."""
    record, kcids = _topic(store, topic)
    groups = load_groups(store, record.kcid, kcids)
    [[filtered_pages]] = store.query(_LEFT_COUNT, [kcids]).rows
    chosen = next_page(groups) if url is None else (_oid(store, url), None)
    return {
        "topic": record.path or record.name,
        "left": sum(group.left for group in groups),
        "judged": sum(group.yes + group.no for group in groups),
        "unsure": sum(group.unsure for group in groups),
        "verdicts": store.query(_COUNT, [record.kcid]).rows[0][0],
        "groups": [_told(group) for group in groups],
        "next": None if chosen is None else _page(store, *chosen),
        "estimates": estimates(groups, filtered_pages),
    }


def judge(store: Store, topic: str, url: str, verdict: str) -> None:
    """Keep what the user says of a page: yes, no, unsure or skip."""
    if verdict not in VERDICTS:
        raise InputError(f"{verdict!r} is no verdict", f"Say one of {', '.join(VERDICTS)}.")
    record, kcids = _topic(store, topic)
    oid = _oid(store, url)
    groups = load_groups(store, record.kcid, kcids)
    stands_for = next((group.name for group in groups if oid in (group.fresh, group.later)), "")
    store.query(_SAY, [int(time.time() * 1e6), record.kcid, oid, verdict, stands_for], write=True)


def take_back(store: Store, topic: str) -> str:
    """Forget the latest verdict; the page it was about, to be judged again."""
    record, _ = _topic(store, topic)
    rows = store.query(_LAST, [record.kcid]).rows
    if not rows:
        raise InputError("nothing was judged yet", "Judge a page first.")
    [[rowid, oid]] = rows
    store.query(_TAKE_BACK, [record.kcid, rowid], write=True)
    return str(store.query(_PAGE, [oid]).rows[0][1])


def list_verdicts(store: Store, topic: str) -> list[dict[str, Any]]:
    """All that was judged in the review of a topic, oldest first."""
    record, _ = _topic(store, topic)
    names = ("url", "title", "verdict", "stratum", "judged", "oid")
    found = [dict(zip(names, row, strict=True)) for row in store.query(_VERDICTS, [record.kcid], max_rows=2**20).rows]
    return [{**row, "judged": row["judged"].isoformat(sep=" ", timespec="seconds")} for row in found]


def begin_anew(store: Store, topic: str) -> int:
    """Forget all verdicts of a topic; how many there were."""
    record, _ = _topic(store, topic)
    count = len(list_verdicts(store, topic))
    store.query("DELETE FROM reviews WHERE kcid = $1", [record.kcid], write=True)
    return count


def estimates(groups: list[ReviewGroup], filtered_pages: int) -> dict[str, Any]:
    """What the samples say of the whole. None stands for what too little was judged for."""
    of = {kind: [group for group in groups if group.kind == kind] for kind in KINDS}
    taken = of[DOUBTFUL] + of[UNDOUBTED]
    precision = review_sampling.estimate([group.stratum for group in taken])
    lost = review_sampling.estimate([group.stratum for group in of[FILTERED]])
    pages = sum(group.pages for group in taken)
    recall = precision and lost and review_sampling.recall((pages, precision), (filtered_pages, lost))
    kept_pages = _kept_pages([*of[UNDOUBTED], *of[DOUBTFUL]])
    looked_at = sum(group.pages for group in of[FILTERED])
    lost_pages = _kept_pages(of[FILTERED]) * filtered_pages / looked_at if looked_at else 0.0
    by_agreed = {}
    for agreed in dict.fromkeys(group.agreed for group in of[DOUBTFUL]):
        mine = [group for group in of[DOUBTFUL] if group.agreed == agreed]
        by_agreed[agreed] = _figures(mine)
    return {
        "precision": _plain(precision), "recall": _plain(recall), "pages": pages,
        "undoubted": _figures(of[UNDOUBTED]), "by_agreed": by_agreed,
        "kept_pages": kept_pages,
        "recall_by_rule": round(kept_pages / (kept_pages + lost_pages), 4) if lost is not None and kept_pages else None,
        "to_judge_without": sum(group.pages for group in of[DOUBTFUL]),
        "judged": sum(group.yes + group.no for group in of[DOUBTFUL]),
        "filtered_pages": filtered_pages, "filtered_looked_at": looked_at,
    }  # fmt: skip


def _kept_pages(groups: list[ReviewGroup]) -> int:
    """The pages that the rule of 75 % leaves of groups."""
    return sum(group.pages - group.no if group.decision == "kept" else group.yes for group in groups)


def _figures(groups: list[ReviewGroup]) -> dict[str, Any]:
    known = review_sampling.estimate([group.stratum for group in groups])
    return {"pages": sum(group.pages for group in groups), "precision": _plain(known)}


def _plain(interval: ShareInterval | None) -> dict[str, float] | None:
    return None if interval is None else {name: round(value, 4) for name, value in asdict(interval).items()}


def _topic(store: Store, topic: str) -> tuple[TopicRecord, list[int]]:
    records = store.load_topics()
    record = find_topic(records, topic)
    return record, sorted(hierarchy_of(records).below(record.kcid))


def _told(group: ReviewGroup) -> dict[str, Any]:
    told = {name: getattr(group, name) for name in ("kind", "agreed", "directory", "pages", "yes", "no", "unsure")}
    return {**told, "name": group.name, "sample": group.sample, "left": group.left, "decision": group.decision}


def _oid(store: Store, url: str) -> int:
    rows = store.query(_OID, [url]).rows
    if not rows:
        raise InputError(f"{url}: not a page of this collection", "The review says which page is next.")
    return int(rows[0][0])


def _page(store: Store, oid: int, group: ReviewGroup | None) -> dict[str, Any]:
    [[_, url, title, text, relevance, language]] = store.query(_PAGE, [oid]).rows
    told = {"url": url, "title": title, "text": text, "relevance": relevance, "language": language}
    return {**told, "group": None if group is None else _told(group)}


_TAKEN = "SELECT kcid FROM pages WHERE oid = $1 AND relevance >= 0.5"


def learn_review(store: Store, topic: str) -> dict[str, int]:
    """Make examples of the pages that were judged relevant, and counter-examples of the others; how many of each.

    A page that a topic below the reviewed one took becomes an example of that one: the reviewer did not say otherwise.
    In a review of a root that has topics, a page that none of them took teaches none.
    """
    records = store.load_topics()
    hierarchy, kcid = hierarchy_of(records), find_topic(records, topic).kcid
    below, counts = hierarchy.below(kcid), {YES: 0, NO: 0}
    for page in list_verdicts(store, topic):
        if page["verdict"] == YES:
            rows = store.query(_TAKEN, [page["oid"]]).rows
            learns = rows[0][0] if rows and rows[0][0] in below else kcid
            if learns == hierarchy.start:  # the root has topics: which of them it is about, the reviewer did not say
                continue
            take(store, hierarchy, learns, page["url"], page["oid"])
        elif page["verdict"] == NO:
            refuse(store, hierarchy, kcid, page["url"], page["oid"])
        if page["verdict"] in counts:
            counts[page["verdict"]] += 1
    return counts
