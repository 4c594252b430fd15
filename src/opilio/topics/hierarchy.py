"""The topic tree as classifiers see it: which topics compete, and which are wanted.

A *good* topic is wanted, together with everything below it (*subsumed*). Topics above a good one are on the *path* to
it. All others are *null*: known, so that pages about them are recognised, but not wanted (Focus 1.1). A good topic
below a good one is an error.

Classification descends from `start`. The children of a node compete with each other and with OTHERS. A tree that is
only a root (from a query or a list of examples) competes with OTHERS alone, below the virtual node `ABOVE_ROOT`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from opilio.errors import InputError

ROOT = 0
ABOVE_ROOT = -1


class Mark(StrEnum):
    """Whether a topic is wanted. The user sets GOOD; the others follow from it."""

    GOOD = "good"
    PATH = "path"
    SUBSUMED = "subsumed"
    NULL = "null"


_WORDS = {
    Mark.GOOD: "wanted",
    Mark.PATH: "on the way",
    Mark.SUBSUMED: "part of a wanted topic",
    Mark.NULL: "not wanted",
}


@dataclass(frozen=True)
class Node:
    """One topic."""

    kcid: int
    parent: int
    """`ABOVE_ROOT` for the root."""
    name: str
    path: str
    mark: Mark


class Hierarchy:
    """An immutable tree of nodes, by number."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.kcid: node for node in nodes}
        self._children: dict[int, tuple[int, ...]] = {}
        for node in self.nodes.values():
            self._children[node.parent] = (*self._children.get(node.parent, ()), node.kcid)

    def described(self, kcid: int) -> dict[str, str]:
        """The mark of a topic, and the same in the words that people read."""
        mark, words = self.nodes[kcid].mark, _WORDS[self.nodes[kcid].mark]
        if mark is Mark.SUBSUMED:
            above = self.nodes[self.nodes[kcid].parent]
            while above.mark is not Mark.GOOD:
                above = self.nodes[above.parent]
            words = f"part of {above.path or above.name}"
        return {"mark": mark.value, "mark_words": words}

    @property
    def start(self) -> int:
        """The node at which classification starts."""
        return ROOT if self.children(ROOT) else ABOVE_ROOT

    def children(self, kcid: int) -> tuple[int, ...]:
        """The topics that compete below a node."""
        return self._children.get(kcid, ())

    def inner(self) -> Iterator[int]:
        """The nodes with children, from `start` on, parents before children."""
        queue = [self.start]
        while queue:
            kcid = queue.pop(0)
            if self.children(kcid):
                yield kcid
                queue.extend(self.children(kcid))

    def below(self, kcid: int) -> set[int]:
        """A topic and all topics below it."""
        return {kcid}.union(*(self.below(child) for child in self.children(kcid)))

    def line(self, kcid: int) -> list[int]:
        """The path of topics from a child of `start` down to this one; empty for `start` itself."""
        found: list[int] = []
        while kcid not in (self.start, ABOVE_ROOT):
            found.insert(0, kcid)
            kcid = self.nodes[kcid].parent
        return found

    @property
    def good(self) -> frozenset[int]:
        """The topics marked good."""
        return frozenset(kcid for kcid, node in self.nodes.items() if node.mark is Mark.GOOD)

    def is_wanted(self, kcid: int) -> bool:
        """Whether pages of this topic are wanted: it is good, or below a good one."""
        return kcid in self.nodes and self.nodes[kcid].mark in (Mark.GOOD, Mark.SUBSUMED)


def marks_of(parents: dict[int, int], good: Iterable[int], paths: dict[int, str]) -> dict[int, Mark]:
    """The marks of all topics, derived from the good ones; `parents` and `paths` are by topic number.

    Raises InputError for a good topic below a good one.
    """
    marks = dict.fromkeys(parents, Mark.NULL)
    chosen = set(good)
    for kcid in chosen:
        marks[kcid] = Mark.GOOD
    for kcid, parent in parents.items():
        above = parent
        while above in parents:
            if above in chosen and kcid in chosen:
                raise InputError(
                    f"topic {paths[kcid]!r} cannot be good: {paths[above] or 'the root'!r} above it is good already",
                    "A good topic covers everything below it: mark only one of the two good.",
                )
            if above in chosen:
                marks[kcid] = Mark.SUBSUMED
            elif kcid in chosen:
                marks[above] = Mark.PATH
            above = parents[above]
    return marks
