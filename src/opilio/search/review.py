"""The assisted review: judging a fifth, and knowing the rest (OASIS 4.7 and 5).

What a topic took is put into groups: by the metrics or feature spaces that agreed, and by directory. A directory with
few pages has no group of its own; its pages join those of other small ones. Of each group, 20 % are drawn at random and
judged. When more than 75 % of them are relevant the whole group is kept, except the pages found irrelevant; otherwise
only the pages found relevant are kept. Undoubted pages are kept unseen, as in the paper; a sample of them, at the end,
serves the estimate of precision only.

For recall, pages that the topic did not take are judged as well: those stored around three moments of the crawl, in
groups by host, by the same rule.

Pages are drawn by a hash of the page's number and the newest model's: it needs no memory, and a group that grows while
a crawl runs keeps its sample. A page about which the user is unsure is replaced by the next; one that is skipped comes
back at the end. The latest verdict on a page counts.

The verdicts of a review become examples and counter-examples (`learn_review`).
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from opilio.errors import InputError
from opilio.learn.feedback import make_counterexample, make_example
from opilio.search import review_sampling
from opilio.search.review_sampling import (
    KINDS,
    NO,
    VERDICTS,
    YES,
    ReviewGroup,
    ShareInterval,
    load_groups,
    next_page,
)
from opilio.store import Store, reviews
from opilio.store.pages import oid_of
from opilio.store.reviews import DOUBTFUL, FILTERED, UNDOUBTED
from opilio.topics import TopicRecord, find_topic, hierarchy_of

MAX_TEXT_CHARS = 6000


def review_state(store: Store, topic: str, url: str | None = None) -> dict[str, Any]:
    """How the review of a topic stands, and which page is to be judged next: `url`, or the next that was drawn."""
    record, kcids = _topic(store, topic)
    groups = load_groups(store, record.kcid, kcids)
    filtered_pages = reviews.count_not_taken(store, kcids)
    chosen = next_page(groups) if url is None else (_oid(store, url), None)
    return {
        "topic": record.path or record.name,
        "left": sum(group.left for group in groups),
        "judged": sum(group.yes + group.no for group in groups),
        "unsure": sum(group.unsure for group in groups),
        "verdicts": reviews.count_verdicts(store, record.kcid),
        "groups": [_described(group) for group in groups],
        "next": None if chosen is None else _page(store, *chosen),
        "estimates": estimates(groups, filtered_pages),
    }


def judge(store: Store, topic: str, url: str, verdict: str) -> None:
    """Record what the user says of a page: yes, no, unsure or skip."""
    if verdict not in VERDICTS:
        raise InputError(f"{verdict!r} is no verdict", f"Say one of {', '.join(VERDICTS)}.")
    record, kcids = _topic(store, topic)
    oid = _oid(store, url)
    groups = load_groups(store, record.kcid, kcids)
    stands_for = next((group.name for group in groups if oid in (group.fresh, group.later)), "")
    reviews.add_verdict(store, int(time.time() * 1e6), record.kcid, oid, verdict, stands_for)


def undo_verdict(store: Store, topic: str) -> str:
    """Undo the latest verdict; the page it was about, to be judged again."""
    record, _ = _topic(store, topic)
    oid = reviews.delete_last_verdict(store, record.kcid)
    if oid is None:
        raise InputError("nothing was judged yet", "Judge a page first.")
    return reviews.review_page(store, oid, MAX_TEXT_CHARS).url


def list_verdicts(store: Store, topic: str) -> list[dict[str, Any]]:
    """All that was judged in the review of a topic, oldest first."""
    record, _ = _topic(store, topic)
    return [
        {**found._asdict(), "judged": found.judged.isoformat(sep=" ", timespec="seconds")}
        for found in reviews.load_verdicts(store, record.kcid)
    ]


def restart_review(store: Store, topic: str) -> int:
    """Delete all verdicts of a topic; how many there were."""
    record, _ = _topic(store, topic)
    count = len(list_verdicts(store, topic))
    reviews.delete_verdicts(store, record.kcid)
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


def _described(group: ReviewGroup) -> dict[str, Any]:
    known = {name: getattr(group, name) for name in ("kind", "agreed", "directory", "pages", "yes", "no", "unsure")}
    return {**known, "name": group.name, "sample": group.sample, "left": group.left, "decision": group.decision}


def _oid(store: Store, url: str) -> int:
    oid = oid_of(store, url)
    if oid is None:
        raise InputError(f"{url}: not a page of this collection", "The review says which page is next.")
    return oid


def _page(store: Store, oid: int, group: ReviewGroup | None) -> dict[str, Any]:
    page = reviews.review_page(store, oid, MAX_TEXT_CHARS)
    return {**page._asdict(), "group": None if group is None else _described(group)}


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
            taken = reviews.taken_by(store, page["oid"])
            learns = taken if taken is not None and taken in below else kcid
            if learns == hierarchy.start:  # the root has topics: which of them it is about, the reviewer did not say
                continue
            make_example(store, hierarchy, learns, page["url"], page["oid"])
        elif page["verdict"] == NO:
            make_counterexample(store, hierarchy, kcid, page["url"], page["oid"])
        if page["verdict"] in counts:
            counts[page["verdict"]] += 1
    return counts
