"""The assisted review: judging a fifth, and knowing the rest (OASIS 4.7 and 5).

What a topic took is put into groups: by the metrics or feature spaces that agreed, and by directory. A directory with
few pages has no group of its own; its pages join those of other small ones. Of each group, 20 % are drawn at random and
judged. When more than 75 % of them are relevant the whole group is kept, except the pages found irrelevant; otherwise
only the pages found relevant are kept. Undoubted pages are kept unseen, as in the paper; a sample of them, at the end,
serves the estimate of precision only. The user may keep or drop a group as a whole, whatever the rule says
(`decide_group`); no more of its pages are asked about then. What is kept can be exported (`export_review`).

For recall, pages that the topic did not take are judged as well: those stored around three moments of the crawl, in
groups by host, by the same rule.

Pages are drawn by a hash of the page's number and the newest model's: it needs no memory, and a group that grows while
a crawl runs keeps its sample. A page about which the user is unsure is replaced by the next; one that is skipped comes
back at the end. The latest verdict on a page counts.

The share of one group that is relevant has the interval of Wilson. For several groups, each with its weight, the
intervals of the groups are added up at a narrower level (Yan and Su 2010): because the groups err independently, their
sum is surer than each of them. A group of which every page was judged adds no doubt, and one of which a large part was
adds less (the correction for finite populations).

The verdicts of a review become examples and counter-examples (`learn_review`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from opilio.errors import InputError
from opilio.learn.feedback import make_counterexample, make_example
from opilio.store import Store, reviews
from opilio.store.export import DEFAULT_COLUMNS, export_pages
from opilio.store.pages import oid_of
from opilio.store.reviews import (
    BY_RULE,
    DOUBTFUL,
    DROPPED,
    FILTERED,
    KEPT,
    UNDOUBTED,
    ReviewGroup,
    groups_of_not_taken,
    groups_of_taken,
)
from opilio.topics import TopicRecord, find_topic, hierarchy_of

LEVEL = 0.95
SAMPLE_SHARE, KEPT_ABOVE = 0.2, 0.75
"""OASIS 4.7: 20 % of a group, and "more than 75 %"."""
MIN_DIRECTORY_PAGES = 10
"""A smaller directory has no group of its own: one page of five would stand for the other four."""
MAX_CHECKED_PAGES = 50
"""At most this many undoubted pages are judged: nothing is decided by them."""
MOMENTS = (0.1, 0.5, 1.0)
"""Shares of the crawl, as the paper has the 10th, 50th and 100th hour."""
MOMENT_PAGES = 100
"""Pages looked at before each of them."""
YES, NO, UNSURE, SKIP = "yes", "no", "unsure", "skip"
VERDICTS = (YES, NO, UNSURE, SKIP)
OPEN, REFUSED = "open", "refused"
DECISIONS = (KEPT, DROPPED, BY_RULE)
KINDS = (DOUBTFUL, UNDOUBTED, FILTERED)
MAX_TEXT_CHARS = 6000


def review_state(store: Store, topic: str, url: str | None = None) -> dict[str, Any]:
    """How the review of a topic stands, and which page is to be judged next: `url`, or the next that was drawn."""
    record, kcids = _topic(store, topic)
    groups = load_groups(store, record.kcid, kcids)
    filtered_pages = reviews.count_not_taken(store, kcids)
    chosen = next_page(groups) if url is None else (_oid(store, url), None)
    return {
        "topic": record.path or record.name,
        "left": sum(left_to_judge(group) for group in groups),
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
    precision = estimate([stratum_of(group) for group in taken])
    lost = estimate([stratum_of(group) for group in of[FILTERED]])
    pages = sum(group.pages for group in taken)
    found = precision and lost and recall((pages, precision), (filtered_pages, lost))
    kept_pages = _kept_pages([*of[UNDOUBTED], *of[DOUBTFUL]])
    looked_at = sum(group.pages for group in of[FILTERED])
    lost_pages = _kept_pages(of[FILTERED]) * filtered_pages / looked_at if looked_at else 0.0
    by_agreed = {}
    for agreed in dict.fromkeys(group.agreed for group in of[DOUBTFUL]):
        mine = [group for group in of[DOUBTFUL] if group.agreed == agreed]
        by_agreed[agreed] = _figures(mine)
    return {
        "precision": _plain(precision), "recall": _plain(found), "pages": pages,
        "undoubted": _figures(of[UNDOUBTED]), "by_agreed": by_agreed,
        "kept_pages": kept_pages,
        "recall_by_rule": round(kept_pages / (kept_pages + lost_pages), 4) if lost is not None and kept_pages else None,
        "to_judge_without": sum(group.pages for group in of[DOUBTFUL]),
        "judged": sum(group.yes + group.no for group in of[DOUBTFUL]),
        "filtered_pages": filtered_pages, "filtered_looked_at": looked_at,
    }  # fmt: skip


def checked_precision(store: Store, topics: Mapping[int, list[int]]) -> dict[str, Any] | None:
    """The share of on-topic pages by the reviews of some topics together, and how many pages were judged.

    `topics` have the numbers of all topics below each. A topic counts when a page of each of its groups was judged;
    None when that holds for no topic.
    """
    counted: list[Stratum] = []
    for kcid, kcids in topics.items():
        if reviews.count_verdicts(store, kcid):
            groups = groups_of_taken(store, kcid, kcids, draw=0, min_directory_pages=MIN_DIRECTORY_PAGES)
            strata = [stratum_of(group) for group in groups]
            counted += strata if estimate(strata) is not None else []
    known = _plain(estimate(counted))
    return None if known is None else known | {"judged": sum(stratum.judged for stratum in counted)}


def _kept_pages(groups: list[ReviewGroup]) -> int:
    """The pages that the rule of 75 % leaves of groups."""
    return sum(group.pages - group.no if decision_on(group) == KEPT else group.yes for group in groups)


def _figures(groups: list[ReviewGroup]) -> dict[str, Any]:
    known = estimate([stratum_of(group) for group in groups])
    return {"pages": sum(group.pages for group in groups), "precision": _plain(known)}


def _plain(interval: ShareInterval | None) -> dict[str, float] | None:
    return None if interval is None else {name: round(value, 4) for name, value in asdict(interval).items()}


def _topic(store: Store, topic: str) -> tuple[TopicRecord, list[int]]:
    records = store.load_topics()
    record = find_topic(records, topic)
    return record, sorted(hierarchy_of(records).below(record.kcid))


def _described(group: ReviewGroup) -> dict[str, Any]:
    known = {name: getattr(group, name) for name in ("kind", "agreed", "directory", "pages", "yes", "no", "unsure")}
    return {
        **known,
        "name": group.name,
        "sample": sample_size(group),
        "left": left_to_judge(group),
        "decision": decision_on(group),
        "decided": group.decided,
    }


def _oid(store: Store, url: str) -> int:
    oid = oid_of(store, url)
    if oid is None:
        raise InputError(f"{url}: not a page of this collection", "The review says which page is next.")
    return oid


def _page(store: Store, oid: int, group: ReviewGroup | None) -> dict[str, Any]:
    page = reviews.review_page(store, oid, MAX_TEXT_CHARS)
    return {**page._asdict(), "group": None if group is None else _described(group)}


def decide_group(store: Store, topic: str, group: str, decision: str) -> None:
    """Keep or drop a group of a review as a whole, or let the rule of 75 % decide again."""
    if decision not in DECISIONS:
        raise InputError(f"{decision!r} is no decision", f"Say one of {', '.join(DECISIONS)}.")
    record, kcids = _topic(store, topic)
    names = [one.name for one in load_groups(store, record.kcid, kcids) if one.kind != FILTERED]
    if group not in names:
        known = "; ".join(names[:10]) or "none: the topic has no pages"
        raise InputError(f"{group!r} is no group of pages that {record.name!r} took", f"Groups: {known}.")
    reviews.add_decision(store, int(time.time() * 1e6), record.kcid, group, decision)


def export_review(store: Store, topic: str, target: str, format_name: str = "") -> dict[str, int]:
    """Write the pages that the rule of 75 % and the decisions of the user leave of a topic to a file.

    Of a group that is not kept, these are the pages judged relevant. Returns how many `pages` there are, and how many
    groups are still `open`.
    """
    record, kcids = _topic(store, topic)
    groups = [group for group in load_groups(store, record.kcid, kcids) if group.kind != FILTERED]
    decisions = {group.name: decision_on(group) for group in groups}
    taken = reviews.pages_of_taken(
        store, record.kcid, kcids, draw=_draw(store), min_directory_pages=MIN_DIRECTORY_PAGES
    )
    kept = [
        page.oid for page in taken if page.verdict == YES or (page.verdict != NO and decisions.get(page.group) == KEPT)
    ]
    pages = export_pages(store, target, format_name, columns=(*DEFAULT_COLUMNS, "undoubted"), oids=kept)
    return {"pages": pages, "open": sum(decision == OPEN for decision in decisions.values())}


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


@dataclass(frozen=True)
class Stratum:
    """A group of pages, and what was found in a sample of it."""

    pages: int
    judged: int
    relevant: int

    @property
    def share(self) -> float:
        """The share of its sample that is relevant."""
        return self.relevant / self.judged

    @property
    def weight_of_sample(self) -> float:
        """How many independent pages its sample is worth; infinite when the whole group was judged."""
        if self.judged >= self.pages:
            return math.inf
        return self.judged * (self.pages - 1) / (self.pages - self.judged)


@dataclass(frozen=True)
class ShareInterval:
    """A share, and where it may lie."""

    value: float
    low: float
    high: float


def z_of(level: float = LEVEL) -> float:
    """How many standard deviations an interval reaches to each side."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def wilson(share: float, judged: float, z: float) -> tuple[float, float]:
    """The interval of Wilson for a share found among `judged` pages."""
    if math.isinf(judged):
        return share, share
    squared = z * z / judged
    middle = (share + squared / 2) / (1 + squared)
    reach = z / (1 + squared) * math.sqrt(share * (1 - share) / judged + squared / (4 * judged))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def estimate(strata: Sequence[Stratum], level: float = LEVEL) -> ShareInterval | None:
    """The share that is relevant in all groups together; None while no page of one of them was judged."""
    filled = [stratum for stratum in strata if stratum.pages]
    if not filled or not all(stratum.judged for stratum in filled):
        return None
    pages = sum(stratum.pages for stratum in filled)
    weights = [stratum.pages / pages for stratum in filled]
    z = _narrowed(filled, weights, z_of(level))
    bounds = [wilson(stratum.share, stratum.weight_of_sample, z) for stratum in filled]
    low, high = (sum(w * b[side] for w, b in zip(weights, bounds, strict=True)) for side in (0, 1))
    known_yes = sum(stratum.relevant for stratum in filled) / pages
    known_no = sum(stratum.judged - stratum.relevant for stratum in filled) / pages
    value = sum(w * stratum.share for w, stratum in zip(weights, filled, strict=True))
    return ShareInterval(value, min(value, max(low, known_yes)), max(value, min(high, 1 - known_no)))


def _narrowed(strata: Sequence[Stratum], weights: Sequence[float], z: float) -> float:
    """The reach at which the intervals of the groups add up to that of all."""
    errors = [w / math.sqrt(s.weight_of_sample) for s, w in zip(strata, weights, strict=True)]
    return z * math.hypot(*errors) / sum(errors) if sum(errors) else z


def recall(found: tuple[int, ShareInterval], missed: tuple[int, ShareInterval]) -> ShareInterval:
    """The share that was found of all that is relevant: both sides are a number of pages and the share relevant.

    Its ends are those of the two intervals that are farthest apart, so it is rather too wide than too narrow.
    """

    def share(relevant: float, lost: float) -> float:
        return relevant / (relevant + lost) if relevant + lost else 0.0

    (kept, precision), (left, lost) = found, missed
    return ShareInterval(
        share(kept * precision.value, left * lost.value),
        share(kept * precision.low, left * lost.high),
        share(kept * precision.high, left * lost.low),
    )


def sample_size(group: ReviewGroup) -> int:
    """How many pages of a group are to be judged."""
    wanted = math.ceil(SAMPLE_SHARE * group.pages)
    wanted = min(wanted, MAX_CHECKED_PAGES) if group.kind == UNDOUBTED else wanted
    return min(wanted, group.pages - group.unsure)


def left_to_judge(group: ReviewGroup) -> int:
    """How many pages of a group are still to be judged: none when the user has decided about it."""
    return 0 if group.decided != BY_RULE else max(0, sample_size(group) - group.yes - group.no)


def decision_on(group: ReviewGroup) -> str:
    """`kept` or `dropped` if the user says so; else `open` until the sample of a group is judged, then `kept` or
    `refused` as a whole."""
    if group.decided != BY_RULE:
        return group.decided
    if group.kind == UNDOUBTED:
        return KEPT
    if left_to_judge(group) or not group.yes + group.no:
        return OPEN
    return KEPT if group.yes > KEPT_ABOVE * (group.yes + group.no) else REFUSED


def stratum_of(group: ReviewGroup) -> Stratum:
    """A group for an estimate."""
    return Stratum(group.pages, group.yes + group.no, group.yes)


def load_groups(store: Store, kcid: int, kcids: list[int]) -> list[ReviewGroup]:
    """The groups of a topic, in the order in which they are judged; `kcids` are it and all below it."""
    draw, decisions = _draw(store), reviews.load_decisions(store, kcid)
    taken = groups_of_taken(store, kcid, kcids, draw=draw, min_directory_pages=MIN_DIRECTORY_PAGES)
    not_taken = groups_of_not_taken(
        store, kcid, kcids, draw=draw, min_directory_pages=MIN_DIRECTORY_PAGES, moments=MOMENTS,
        moment_pages=MOMENT_PAGES,
    )  # fmt: skip
    return [*(group._replace(decided=decisions.get(group.name, BY_RULE)) for group in taken), *not_taken]


def _draw(store: Store) -> int:
    """The number that decides the order in which pages are drawn."""
    models = store.load_models()
    return models[0].version if models else 0


def next_page(groups: list[ReviewGroup]) -> tuple[int, ReviewGroup] | None:
    """The page to judge next, group after group; those that were skipped come last."""
    for group in groups:
        if left_to_judge(group) > group.skipped and group.fresh is not None:
            return group.fresh, group
    skipped = [group for group in groups if left_to_judge(group) and group.later is not None]
    first = min(skipped, key=lambda group: group.later_us or 0, default=None)
    return None if first is None or first.later is None else (first.later, first)
