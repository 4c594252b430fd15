"""Changes to the topics of a collection: pure functions from its records to a `Change`, which the caller writes.

Every change keeps the invariants: paths are unique, at least one topic is good, none below a good one is, and the other
marks follow from the good ones. A change that would break them raises InputError and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opilio.errors import InputError
from opilio.topics.hierarchy import ROOT, Mark
from opilio.topics.records import TopicRecord, find_topic, good_of, marks_from, names_of, records_of
from opilio.topics.tree import (
    MAX_TOPICS,
    SEPARATOR,
    TopicTree,
    check_depth,
    check_name,
    check_root,
    clean_name,
    words_of,
)

SHOWN = 5
"""Topics that a sentence names."""


@dataclass(frozen=True)
class Change:
    """Changes to write to the database."""

    changed: tuple[TopicRecord, ...]
    """Topics that are new, or whose mark changed."""
    removed: frozenset[int] = frozenset()
    """Numbers of removed topics; their seeds and examples are removed too."""

    def applied_to(self, records: Iterable[TopicRecord]) -> list[TopicRecord]:
        """All topics after the change, ascending by number."""
        after = {record.kcid: record for record in (*records, *self.changed)}
        return [after[kcid] for kcid in sorted(after) if kcid not in self.removed]


@dataclass(frozen=True)
class Merge:
    """The change that adds a tree to a collection."""

    change: Change
    numbers: dict[int, int] = field(default_factory=dict)
    """Each topic's number in the collection, by its number in the tree."""


def mark_topic(records: Sequence[TopicRecord], path: str, *, good: bool) -> Change:
    """Mark a topic good, or null. One step suffices: the marks of other topics give way to the one that is asked for.

    A topic that becomes good replaces the good ones below it, which become subsumed, and the good one above it, which
    becomes path: then the other topics below that one are null. A topic below a good one becomes null by dividing that
    one: it becomes path, and all other topics below it stay wanted. A path topic becomes null with all good ones below
    it. Only the last good topic cannot be marked null.
    """
    topic = find_topic(records, path)
    chosen, below = good_of(records), _below(records, topic.kcid)
    line = _line(records, topic)
    if good:
        if topic.kcid == ROOT:
            check_root(len(records))
        return _settled(records, records, chosen - below - set(line) | {topic.kcid})
    above = next((kcid for kcid in line if kcid in chosen), None)
    if above is not None:
        inside = {topic.kcid, *line[: line.index(above)]}
        beside = {r.kcid for r in records if r.pcid in {above, *inside} - {topic.kcid}} - inside
        chosen = chosen - {above} | beside
    return _settled(records, records, chosen - below)


def _line(records: Sequence[TopicRecord], topic: TopicRecord) -> list[int]:
    """The topics above one, from its parent up to the root."""
    parents = {record.kcid: record.pcid for record in records}
    line: list[int] = []
    above = topic.pcid
    while above is not None:
        line.append(above)
        above = parents[above]
    return line


_MARKED = {
    Mark.GOOD: "wanted",
    Mark.SUBSUMED: "part of a wanted topic above",
    Mark.PATH: "only on the way to a wanted topic",
    Mark.NULL: "not wanted",
}


def describe_marks(marks: Mapping[str, str]) -> str:
    """A sentence about topics that have other marks now, given by their paths; empty when there are none."""
    parts = []
    for mark, said in _MARKED.items():
        paths = [path for path, now in marks.items() if now == mark]
        if paths:
            names = ", ".join(map(repr, paths[:SHOWN])) + (f" and {len(paths) - SHOWN} more" * (len(paths) > SHOWN))
            parts.append(f"{names} {'is' if len(paths) == 1 else 'are'} {said} now")
    return "; ".join(parts)


def add_topic(
    records: Sequence[TopicRecord],
    parent: str,
    name: str,
    *,
    keywords: Sequence[str] = (),
    description: str = "",
    good: bool = False,
    first_kcid: int = 0,
) -> Change:
    """Add a topic below `parent`.

    Below a good topic it is subsumed. If the tree was only a root, the new topic is good in its place. Its number is at
    least `first_kcid`, so that numbers of removed topics, which stored pages may still have, are not reused.
    """
    above = find_topic(records, parent)
    name = clean_name(name)
    check_name(name)
    if len(records) >= MAX_TOPICS:
        raise InputError(f"more than {MAX_TOPICS:,} topics", "Remove some first.")
    path = _new_path(records, above, name)
    kcid = max(first_kcid, 1 + max(record.kcid for record in records))
    new = TopicRecord(kcid, above.kcid, name, path, Mark.NULL, list(keywords) or words_of(name), description)
    chosen = good_of(records)
    if ROOT in chosen:
        chosen = {kcid}
    return _settled(records, [*records, new], chosen | {kcid} if good else chosen)


def merge_tree(records: Sequence[TopicRecord], tree: TopicTree, *, first_kcid: int = 0) -> Merge:
    """Add the topics of a tree to those of a collection; topics with the same path are the same topic.

    Good topics stay good. The topics that the tree marks good become good; if it marks none, its new topics directly
    below the root do.
    """
    if not records:
        return Merge(Change(tuple(records_of(tree))), {topic.kcid: topic.kcid for topic in tree.topics})
    known = {record.path: record.kcid for record in records}
    numbers: dict[int, int] = {}
    new: list[TopicRecord] = []
    free = max(first_kcid, 1 + max(record.kcid for record in records))
    for topic in tree.topics:
        if topic.path in known:
            numbers[topic.kcid] = known[topic.path]
            continue
        kcid = numbers[topic.kcid] = free + len(new)
        parent = numbers[topic.parent]
        made = TopicRecord(kcid, parent, topic.name, topic.path, Mark.NULL, list(topic.keywords), topic.description)
        new.append(made)
    if len(records) + len(new) > MAX_TOPICS:
        raise InputError(f"more than {MAX_TOPICS:,} topics", "Remove some first.")
    after = [*records, *new]
    chosen = good_of(records) - ({ROOT} if len(after) > 1 else set())
    chosen |= {numbers[topic.kcid] for topic in tree.topics if topic.good} or _good_by_default(tree, numbers, new)
    return Merge(_settled(records, after, chosen), numbers)


def _good_by_default(tree: TopicTree, numbers: dict[int, int], new: list[TopicRecord]) -> set[int]:
    refused = {numbers[topic.kcid] for topic in tree.topics if topic.good is False}
    return {record.kcid for record in new if record.pcid == ROOT} - refused


def _new_path(records: Sequence[TopicRecord], above: TopicRecord, name: str) -> str:
    """The path of a topic of that name below `above`; an InputError if it is taken."""
    names = (*names_of(above.path), name)
    check_depth(names)
    path = SEPARATOR.join(names)
    if any(record.path == path for record in records):
        raise InputError(f"topic {path!r} already exists", "Choose another name.")
    return path


def _below(records: Sequence[TopicRecord], kcid: int) -> set[int]:
    """A topic and all topics below it."""
    children: dict[int | None, list[int]] = {}
    for record in records:
        children.setdefault(record.pcid, []).append(record.kcid)
    found, waiting = {kcid}, [kcid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            found.add(child)
            waiting.append(child)
    return found


def _settled(before: Sequence[TopicRecord], after: Sequence[TopicRecord], chosen: set[int]) -> Change:
    """The records that differ between `before` and `after`, when `chosen` are the good topics after the change."""
    if not chosen:
        raise InputError("no topic would be good, so no page would be wanted", "Mark another topic good first.")
    marks = marks_from(after, chosen)
    had = {record.kcid: record for record in before}
    marked = (record._replace(type=marks[record.kcid].value) for record in after)
    return Change(tuple(record for record in marked if had.get(record.kcid) != record))
