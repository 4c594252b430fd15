"""What to do about a crawl that stagnates, starves or drifts: commands in full, to be copied."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from opilio.topics.hierarchy import ROOT, Hierarchy, Mark

MIN_AROUND_PAGES = 10
"""Fewer unwanted pages around a topic prove nothing."""
MOST = 0.5
FEW_WAITING = 50
LOW_HARVEST = 0.5


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


def remedies_of(
    folder: str, hierarchy: Hierarchy, census: Mapping[str, Any], mark: MarkProposal | None
) -> list[dict[str, str]]:
    """What a census calls for, the most promising first: why, and the command."""
    found = []
    if mark is not None:
        found.append(mark_remedy(folder, hierarchy, mark))
    found += [more_examples(folder, name, f"{name!r} starves") for name in census["starving"]]
    if census["pages"] and census["waiting"] < FEW_WAITING:
        found.append(back_links(folder, f"only {census['waiting']:,} URLs are queued"))
    if census["relevant"] < LOW_HARVEST * census["pages"]:
        found += low_harvest(folder, _a_good_topic(hierarchy, census))
    return found


def mark_remedy(folder: str, hierarchy: Hierarchy, mark: MarkProposal) -> dict[str, str]:
    """Want more than was asked for, since that is what is around."""
    path, around = hierarchy.nodes[mark.kcid].path, hierarchy.nodes[mark.around].path
    why = f"{mark.pages:,} of {mark.of:,} unwanted pages around {around!r} are about {path!r}: want that too"
    return _remedy(why, "topics", "mark", folder, path, "good")


def more_examples(folder: str, topic: str, why: str) -> dict[str, str]:
    """Teach a topic more of what it is."""
    return _remedy(f"{why}: show it more examples", "topics", "add", folder, topic, "URL")


def back_links(folder: str, why: str) -> dict[str, str]:
    """Find pages that nothing found so far leads to."""
    return _remedy(
        f"{why}: try what links to the relevant pages, from a file of known links",
        *("crawl", folder, "--set", "frontier.back_links=FILE"),
    )


def low_harvest(folder: str, topic: str) -> list[dict[str, str]]:
    """What may help when much is fetched that is not wanted."""
    return [
        more_examples(folder, topic, "much is fetched that is not wanted"),
        _remedy("say what is not meant", "topics", "add", folder, topic, "URL", "--negative"),
        _remedy("let the crawl learn from what it found", "crawl", folder, "--set", "learn.retrain_after=200"),
        _remedy(
            "go through pages about other things to further ones",
            *("crawl", folder, "--strategy", "bingo", "--set", "frontier.tunnel_steps=4"),
        ),
        _remedy(
            "try what nothing is known of yet",
            *("crawl", folder, "--strategy", "evidence", "--set", "frontier.explore_share=0.1"),
        ),
    ]


def command_line(*words: str) -> str:
    """A command line of Opilio, as a shell takes it."""
    return shlex.join(["opilio", *words])


def _remedy(why: str, *words: str) -> dict[str, str]:
    return {"why": why, "command": command_line(*words)}


def _a_good_topic(hierarchy: Hierarchy, census: Mapping[str, Any]) -> str:
    """The good topic that has the fewest relevant pages; the one that was asked about, if one was."""
    if census["topic"]:
        return str(census["topic"])
    good = {hierarchy.nodes[kcid].path or hierarchy.nodes[kcid].name for kcid in hierarchy.good}
    counts: dict[str, int] = {topic["topic"]: topic["relevant"] for topic in census["topics"] if topic["topic"] in good}
    return min(counts, key=lambda name: (counts[name], name))
