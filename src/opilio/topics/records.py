"""The topics of a collection as rows of its database, and how to find one by its path."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from opilio.errors import InputError
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node, marks_of
from opilio.topics.tree import SEPARATOR, TopicTree

_SLASH = re.compile(r"\s*/\s*")
_SHOWN = 3


class TopicRecord(NamedTuple):
    """A topic as a row of the database."""

    kcid: int
    pcid: int | None
    """Its parent; None for the root."""
    name: str
    path: str
    type: str
    """The value of its `Mark`."""
    keywords: list[str]
    description: str = ""


def records_of(tree: TopicTree) -> list[TopicRecord]:
    """The topics of a tree, marked; parents before children."""
    marks = tree.marks()
    return [
        TopicRecord(
            topic.kcid,
            None if topic.kcid == ROOT else topic.parent,
            topic.name,
            topic.path,
            marks[topic.kcid].value,
            list(topic.keywords),
            topic.description,
        )
        for topic in tree.topics
    ]


def hierarchy_of(records: Sequence[TopicRecord]) -> Hierarchy:
    """The topics as classifiers see them, with all marks derived from the good ones.

    So a single UPDATE suffices to make a topic good. A good topic below a good one is an InputError here too.
    """
    marks = marks_from(records, good_of(records))
    return Hierarchy(Node(r.kcid, parent_of(r), r.name, r.path, marks[r.kcid]) for r in records)


def marks_from(records: Sequence[TopicRecord], good: Iterable[int]) -> dict[int, Mark]:
    """The marks of all topics if these are the good ones."""
    return marks_of({r.kcid: parent_of(r) for r in records}, good, {r.kcid: r.path for r in records})


def good_of(records: Iterable[TopicRecord]) -> set[int]:
    """The topics marked good."""
    return {record.kcid for record in records if record.type == Mark.GOOD}


def parent_of(record: TopicRecord) -> int:
    """Its parent's number; `ABOVE_ROOT` for the root."""
    return ABOVE_ROOT if record.pcid is None else record.pcid


def names_of(path: str) -> tuple[str, ...]:
    """The names in a path; none for the root."""
    return tuple(path.split(SEPARATOR)) if path else ()


def find_topic(records: Sequence[TopicRecord], path: str) -> TopicRecord:
    """The topic a user means by `path`: an exact match, else one that ignores case and spaces around slashes.

    '' and '/' mean the root, and so does its name if no topic has it. The error for an unknown topic suggests the
    nearest one.
    """
    for record in records:
        if record.path == path:
            return record
    wanted = _folded(path)
    fitting = [record for record in records if _folded(record.path) == wanted]
    if not fitting:
        fitting = [record for record in records if record.kcid == ROOT and _folded(record.name) == wanted]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise InputError(f"topic {path!r} is ambiguous: {_listed(fitting)}", "Write its name exactly.")
    raise InputError(f"no topic {path!r}", _nearest(records, wanted))


def _folded(path: str) -> str:
    return _SLASH.sub("/", " ".join(path.split())).casefold().strip("/")


def _nearest(records: Sequence[TopicRecord], wanted: str) -> str:
    """A hint: topics of that name elsewhere in the tree, else the one with the most similar spelling."""
    same = [record for record in records if record.path and _folded(record.name) == wanted]
    if not same:
        by_path = {_folded(record.path): record for record in records if record.path}
        by_name = {_folded(record.name): record for record in records if record.path}
        near = difflib.get_close_matches(wanted, by_path, n=1) or difflib.get_close_matches(wanted, by_name, n=1)
        same = [by_path.get(near[0]) or by_name[near[0]]] if near else []
    if same:
        return f"Did you mean {_listed(same)}?"
    top = [record for record in records if record.pcid == ROOT]
    return f"There are {_listed(top)}." if top else "This collection has no topics except its root."


def _listed(records: Sequence[TopicRecord]) -> str:
    shown = ", ".join(repr(record.path or record.name) for record in records[:_SHOWN])
    more = len(records) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
