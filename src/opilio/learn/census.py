"""The census of a crawl (Focus 3.7): which topics the pages fell into, what the others are about, who starves.

In the paper a crawl for mutual funds stagnated. One query showed why: most pages around those on mutual funds were on
investment in general, the topic above; marking that good cured it. `take_census` asks this, and what else a user wants
to know then; its remedies can be carried out as they are (`remedies.py`). What off-topic pages are about is shown by
the words that they have more often than relevant pages (`off_topic_terms`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opilio.analyze.terms import FUNCTION_WORDS
from opilio.learn import remedies
from opilio.learn.remedies import Remedy
from opilio.store import Store, terms
from opilio.store.census import CensusScope, count_around, count_by_host, count_by_topic, count_queued, latest_pages
from opilio.store.topics import CountedTopics, TopicCount, counted_topics
from opilio.topics import find_topic, hierarchy_of
from opilio.topics.hierarchy import ROOT, Hierarchy, Mark

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

MIN_AROUND_PAGES = 10
"""Fewer unwanted pages around a topic prove nothing."""
MOST = 0.5
FEW_WAITING = 50
LOW_HARVEST = 0.5
BEST_ORDER = "evidence"
"""The strategy that found most in our comparisons (docs/results/finding.md)."""


class MarkProposal(NamedTuple):
    """A topic to mark good, as the paper did."""

    kcid: int
    around: int
    """The good topic it surrounds."""
    pages: int
    of: int
    """Unwanted pages around that topic, of any topic."""


def propose_mark(hierarchy: Hierarchy, around: Mapping[int, Mapping[int, int]]) -> MarkProposal | None:
    """The topic that took most of the unwanted pages around a good one, when it is above or beside that.

    `around` has, by good topic, how many of the pages it led to fell into which unwanted topic.
    """
    found = []
    for good, counts in around.items():
        total = sum(counts.values())
        parent = hierarchy.nodes[good].parent
        for kcid, pages in counts.items():
            is_near = hierarchy.nodes[kcid].mark is Mark.PATH or hierarchy.nodes[kcid].parent == parent
            if kcid != ROOT and is_near and total >= MIN_AROUND_PAGES and pages > MOST * total:
                found.append(MarkProposal(kcid, good, pages, total))
    return max(found, key=lambda one: (one.pages, -one.kcid), default=None)


@dataclass(frozen=True)
class CrawlState:
    """What decides which remedies make sense, besides the counts."""

    can_answer: bool = False
    """Whether there are questions to the user, or can be some."""
    pending: int = 0
    """Changes of the training data that nothing learns by itself."""
    strategy: str = ""
    """The order of the queue, where another one would take effect at once."""


def remedies_of(
    hierarchy: Hierarchy, census: Mapping[str, Any], mark: MarkProposal | None, state: CrawlState
) -> list[Remedy]:
    """What a census calls for, the most promising first."""
    is_low = census["relevant"] < LOW_HARVEST * census["pages"]
    found = []
    if mark is not None:
        found.append(mark_remedy(hierarchy, mark))
    if state.pending:
        found.append(remedies.train(state.pending))
    if state.can_answer and is_low:
        found.append(remedies.answer_questions())
    if state.strategy not in ("", BEST_ORDER) and is_low:
        found.append(remedies.order_by(BEST_ORDER, "order the queue by all that is known about links"))
    found += [remedies.more_examples(name, f"{name!r} starves") for name in census["starving"]]
    if census["pages"] and census["waiting"] < FEW_WAITING:
        found.append(back_links(f"only {census['waiting']:,} URLs are queued"))
    if is_low:
        found += low_harvest(_a_good_topic(hierarchy, census), found_any=census["relevant"] > 0)
    return found


def mark_remedy(hierarchy: Hierarchy, mark: MarkProposal) -> Remedy:
    """Want more than before, since that is what is around."""
    path, around = hierarchy.nodes[mark.kcid].path, hierarchy.nodes[mark.around].path
    why = f"{mark.pages:,} of {mark.of:,} unwanted pages around {around!r} are about {path!r}: want that too"
    return remedies.mark_good(path, why)


def back_links(why: str) -> Remedy:
    """Find pages that nothing found so far leads to."""
    return remedies.crawl_with(
        f"{why}: try what links to the relevant pages, from a file of known links", frontier__back_links=None
    )


def low_harvest(topic: str, *, found_any: bool) -> list[Remedy]:
    """What may help when much is fetched that is not wanted."""
    learning = remedies.crawl_with("let the crawl learn from what it found", learn__retrain_after=200)
    return [
        remedies.more_examples(topic, "much is fetched that is not wanted"),
        remedies.counter_examples(topic, "show what is not meant"),
        *([learning] if found_any else []),
        remedies.crawl_with(
            "go through pages about other things to further ones",
            frontier__strategy="bingo",
            frontier__tunnel_steps=4,
        ),
        remedies.crawl_with(
            "try URLs about which nothing is known yet",
            frontier__strategy="evidence",
            frontier__explore_share=0.1,
        ),
    ]


def _a_good_topic(hierarchy: Hierarchy, census: Mapping[str, Any]) -> str:
    """The good topic that has the fewest relevant pages; the one that was asked about, if one was."""
    if census["topic"]:
        return str(census["topic"])
    good = {hierarchy.nodes[kcid].path or hierarchy.nodes[kcid].name for kcid in hierarchy.good}
    counts: dict[str, int] = {topic["topic"]: topic["relevant"] for topic in census["topics"] if topic["topic"] in good}
    return min(counts, key=lambda name: (counts[name], name))


PRIOR_PAGES = 10.0
"""Every word counts as if this many more pages of each side were known that have it as often as all pages do."""
MIN_SCORE = 2.0
"""In standard errors: less may be chance."""
MIN_PAGES = 3
"""A word of fewer pages says more about those pages than about the neighbourhood."""
_RANKED = 60  # words looked at: some are no words to show
_RANKED_AT_ONCE = 20
LATEST_PAGES = 1000
"""Pages that count as the latest, by default."""
SAMPLE_PAGES = 500
"""Pages of each side whose words are compared."""
TOP_HOSTS = 10
TOP_NEARBY = 5
STARVES_SHARE = 0.25
"""A topic starves when what it found, and what it has queued, is below this share of the average over the topics."""
RECOVERED_SHARE = 0.5
MIN_FOUND_MEAN = 5.0
"""Pages: where topics found less on the average, there is nothing to compare."""


class TopicShare(NamedTuple):
    """What a wanted topic, with all below it, has found lately and has queued."""

    kcid: int
    found: int
    """Relevant pages of it among the latest."""
    waiting: int
    """URLs that its pages led to."""


def take_census(
    store: Store, last_pages: int = 0, topic: str | None = None, state: CrawlState | None = None
) -> dict[str, Any]:
    """Which topics the pages fell into, what those that are not wanted are about, and what can be done about it.

    Of the latest `last_pages`, 0 meaning all; with a topic, of its pages and of those that they led to. Plain values.
    `state` decides which remedies are proposed, too.
    """
    records = store.load_topics()
    hierarchy = hierarchy_of(records)
    below = None if topic is None else sorted(hierarchy.below(find_topic(records, topic).kcid))
    chosen = CensusScope(below, last_pages)
    by_topic = count_by_topic(store, chosen)
    counted = counted_topics(records, {kcid: TopicCount(*counts) for kcid, counts in by_topic.items()})
    counts = {kcid: count for kcid, count in by_topic.items() if kcid is not None}
    waiting = count_queued(store)
    starving = [share.kcid for share in starving_topics(shares(store, hierarchy, waiting, last_pages))]
    mark = propose_mark(hierarchy, _around(hierarchy, count_around(store, chosen)))
    unwanted, wanted = (latest_pages(store, chosen, relevant=side, limit=SAMPLE_PAGES) for side in (False, True))
    census: dict[str, Any] = {
        "pages": counted.all.pages, "relevant": counted.all.relevant, "untaken": counted.others.pages,
        "last_pages": last_pages,
        "topic": topic,
        "waiting": sum(waiting.values()),
        "topics": _topics(counted, waiting, starving),
        "hosts": [host._asdict() for host in count_by_host(store, chosen, TOP_HOSTS)],
        "instead": off_topic_terms(store, unwanted, wanted),
        "nearby": _nearby(hierarchy, counts),
        "starving": [name_of(hierarchy, kcid) for kcid in starving],
    }  # fmt: skip
    folder = str(store.path.parent)
    found = remedies_of(hierarchy, census, mark, state or CrawlState())
    census["remedies"] = [remedy.described(folder) for remedy in found]
    return census


def name_of(hierarchy: Hierarchy, kcid: int) -> str:
    """What a user calls a topic."""
    return hierarchy.nodes[kcid].path or hierarchy.nodes[kcid].name


def shares(store: Store, hierarchy: Hierarchy, waiting: Mapping[int, int], last_pages: int = 0) -> list[TopicShare]:
    """What each good topic has found lately, and has queued; all that is below it counts for it."""
    by_topic = count_by_topic(store, CensusScope(None, last_pages or LATEST_PAGES))
    found = {kcid: relevant for kcid, (_, relevant) in by_topic.items() if kcid is not None}
    return [
        TopicShare(kcid, *(sum(counts.get(one, 0) for one in hierarchy.below(kcid)) for counts in (found, waiting)))
        for kcid in sorted(hierarchy.good)
    ]


def starving_topics(all_shares: Iterable[TopicShare], below_share: float = STARVES_SHARE) -> list[TopicShare]:
    """The topics that found little lately and have little queued, while others have more."""
    topics = list(all_shares)
    if len(topics) < 2:
        return []
    found = sum(topic.found for topic in topics) / len(topics)
    waiting = sum(topic.waiting for topic in topics) / len(topics)
    if found < MIN_FOUND_MEAN:
        return []
    return [t for t in topics if t.found < below_share * found and t.waiting < below_share * waiting]


def _topics(counted: CountedTopics, waiting: Mapping[int, int], starving: Iterable[int]) -> list[dict[str, Any]]:
    hierarchy, hungry = counted.hierarchy, set(starving)
    found = [
        {
            "topic": name_of(hierarchy, kcid), **hierarchy.described(kcid), **counted.figures(kcid),
            "waiting": waiting.get(kcid, 0), "starves": kcid in hungry,
        }
        for kcid in hierarchy.nodes
    ]  # fmt: skip
    return sorted(found, key=lambda topic: (-topic["own_pages"], topic["topic"]))


def _nearby(hierarchy: Hierarchy, counts: Mapping[int, tuple[int, int]]) -> list[dict[str, Any]]:
    """The topics that are not wanted and took most pages, and where they are."""
    unwanted = [(pages, kcid) for kcid, (pages, _) in counts.items() if kcid != ROOT and not hierarchy.is_wanted(kcid)]
    return [
        {"topic": name_of(hierarchy, kcid), "pages": pages, "where": _where(hierarchy, kcid)}
        for pages, kcid in sorted(unwanted, key=lambda one: (-one[0], one[1]))[:TOP_NEARBY]
    ]


def _where(hierarchy: Hierarchy, kcid: int) -> str:
    node = hierarchy.nodes[kcid]
    if node.mark is Mark.PATH:
        return "above a wanted topic"
    beside = any(hierarchy.nodes[good].parent == node.parent for good in hierarchy.good)
    return "beside a wanted topic" if beside else "elsewhere"


def _around(hierarchy: Hierarchy, rows: Iterable[tuple[int, int, int]]) -> dict[int, dict[int, int]]:
    """By good topic: how many pages that its pages led to fell into which unwanted topic."""
    found: dict[int, dict[int, int]] = {}
    for source, kcid, pages in rows:
        for good in hierarchy.good:
            if source in hierarchy.below(good) and not hierarchy.is_wanted(kcid):
                of_good = found.setdefault(good, {})
                of_good[kcid] = of_good.get(kcid, 0) + pages
    return found


# -- off-topic terms


def off_topic_terms(
    store: Store, unwanted: Sequence[int], wanted: Sequence[int], top: int = 15
) -> list[dict[str, Any]]:
    """The words most over-represented in the pages `unwanted` against `wanted`, both oids, the clearest first.

    Words are whole where texts are kept, and stems where they are not.
    """
    if not unwanted:
        return []
    compared = terms.compare_terms(store, unwanted, wanted)
    if compared is None:
        return []
    tids, here, there = compared
    scores = odds_scores(here, there, len(unwanted), len(wanted))
    clear = np.flatnonzero((scores >= MIN_SCORE) & (here >= MIN_PAGES))
    best = clear[np.lexsort((tids[clear], -scores[clear]))][:_RANKED]
    words: dict[int, str] = {}
    shown: list[int] = []
    for start in range(0, len(best), _RANKED_AT_ONCE):  # each word is looked for in the texts of pages
        piece = best[start : start + _RANKED_AT_ONCE]
        words |= terms.whole_words(store, tids[piece].tolist())
        shown += [n for n in piece.tolist() if _is_shown(words.get(int(tids[n]), ""))]
        if len(shown) >= top:
            break
    return [
        {
            "word": words[int(tids[n])], "score": round(float(scores[n]), 2),
            "unwanted_pages": int(here[n]), "wanted_pages": int(there[n]),
        }
        for n in shown[:top]
    ]  # fmt: skip


def _is_shown(word: str) -> bool:
    return len(word) > 2 and word.isalpha() and word not in FUNCTION_WORDS


def odds_scores(here: Values, there: Values, here_pages: int, there_pages: int) -> Values:
    """Of each word: by how many standard errors the log odds of a page to have it are greater here than there.

    `here` and `there` count the pages that have it. A prior made of both sides together keeps rare words down.
    """
    usual = (here + there) / (here_pages + there_pages)
    yes, no = PRIOR_PAGES * usual, PRIOR_PAGES * (1.0 - usual) + 0.5
    odds, variance = np.zeros(len(usual)), np.zeros(len(usual))
    for sign, have, pages in ((1.0, here, here_pages), (-1.0, there, there_pages)):
        odds = odds + sign * (np.log(have + yes) - np.log(pages - have + no))
        variance = variance + 1.0 / (have + yes) + 1.0 / (pages - have + no)
    scores: Values = odds / np.sqrt(variance)
    return scores
