"""Which parts a collection is divided into: their names, their topics, and what each of them wants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from opilio.errors import InputError
from opilio.topics import Mark, TopicRecord, find_topic
from opilio.topics.hierarchy import ROOT
from opilio.topics.records import good_of, marks_from, parent_of

REST = "rest"
MAX_NAME_CHARS = 60
_UNFIT = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class PlannedPart:
    """A part that a collection is to be divided into."""

    name: str
    """Of its folder."""
    topic: str
    """Path; empty for the rest."""
    kcids: frozenset[int]
    """Its topics, with all below them; none for the rest, which has what is of no other part."""
    marks: dict[int, str]
    """What it wants: the mark of every topic."""


def plan_parts(records: Sequence[TopicRecord], topics: Sequence[str]) -> list[PlannedPart]:
    """A part for each topic, and the rest at the end. Without topics: those below the root that are wanted."""
    chosen = _chosen(records, topics)
    below = {record.kcid: frozenset(_below(records, record.kcid)) for record in chosen}
    for record in chosen:
        inner = [other.path for other in chosen if other.kcid != record.kcid and other.kcid in below[record.kcid]]
        if inner:
            raise InputError(
                f"topic {inner[0]!r} is below {record.path!r}, and cannot be in both of their parts",
                "Name topics that are beside each other.",
            )
    good = good_of(records)
    taken: set[str] = {REST}
    parts = []
    for record in chosen:
        wanted = good & below[record.kcid] or {record.kcid}
        marks = {kcid: mark.value for kcid, mark in marks_from(records, wanted).items()}
        parts.append(PlannedPart(_folder_name(record.path, taken), record.path, below[record.kcid], marks))
    left = (
        good - frozenset().union(*below.values()) or good
    )  # the rest never wants nothing: there is no such collection
    marks = {kcid: mark.value for kcid, mark in marks_from(records, left).items()}
    return [*parts, PlannedPart(REST, "", frozenset(), marks)]


def wants_the_rest(records: Sequence[TopicRecord], parts: Sequence[PlannedPart]) -> bool:
    """Whether a good topic is in no part as a whole, so that only the rest can want all of it."""
    return bool(good_of(records) - frozenset().union(*(part.kcids for part in parts)))


def _chosen(records: Sequence[TopicRecord], topics: Sequence[str]) -> list[TopicRecord]:
    if not topics:
        found = [record for record in records if record.pcid == ROOT and record.type != Mark.NULL]
        if not found:
            raise InputError(
                "this collection has no topics to divide it by",
                "Make some first: opilio clusters finds subtopics, opilio crawl --topics FILE adds a taxonomy.",
            )
        return found
    chosen = []
    for topic in dict.fromkeys(topics):
        try:
            record = find_topic(records, topic)
        except InputError as error:
            listed = ", ".join(repr(path) for path in sorted(other.path for other in records if other.path))
            raise InputError(error.message, f"{error.hint} All topics: {listed}") from None
        if record.kcid == ROOT:
            raise InputError("the root has all topics below it: that is no part", "Name topics below the root.")
        if record not in chosen:
            chosen.append(record)
    return chosen


def _below(records: Sequence[TopicRecord], kcid: int) -> set[int]:
    """A topic and all that are below it."""
    children: dict[int, list[int]] = {}
    for record in records:
        children.setdefault(parent_of(record), []).append(record.kcid)
    found, waiting = {kcid}, [kcid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def _folder_name(path: str, taken: set[str]) -> str:
    """A name for the folder of a topic that every file system and the portal take; none is taken twice."""
    plain = _UNFIT.sub("-", path).strip("-._")[:MAX_NAME_CHARS] or "part"
    name, number = plain, 2
    while name.casefold() in {other.casefold() for other in taken}:
        name, number = f"{plain}-{number}", number + 1
    taken.add(name)
    return name
