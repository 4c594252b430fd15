"""Split a collection by topic: the names of the parts, their topics, what each of them wants, and the folders.

The collection itself is not changed; `merge.py` makes one of several again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from opilio.crawl.collection import WARC_FOLDER, Collection
from opilio.crawl.operations.client import ask
from opilio.crawl.status import FOUND
from opilio.errors import CollectionBusy, InputError
from opilio.parts.building import Scratch, building, check_room
from opilio.parts.divide import NewPart, StepProgress, divide
from opilio.parts.rules import PAGES_AT_ANALYSIS, RELEVANT_AT_ROUND
from opilio.parts.warc_files import WarcFile, list_files, names_in, needed_bytes, note_ends, take
from opilio.settings.files import write_settings
from opilio.store import Store
from opilio.store.connection import FILE_NAME as DATABASE_NAME
from opilio.topics import Mark, TopicRecord, find_topic
from opilio.topics.hierarchy import ROOT
from opilio.topics.records import good_of, marks_from, parent_of

REST = "rest"
MAX_NAME_CHARS = 60
_UNFIT = re.compile(r"[^\w.-]+")
MEASURED = {
    "pages": "pages", PAGES_AT_ANALYSIS: "pages", FOUND: "relevant", RELEVANT_AT_ROUND: "relevant",
    "requests": "requests", "bytes": "bytes",
}  # fmt: skip
"""Totals of what can be counted in a part: the name of the total, and pages, relevant, requests or bytes."""
ROOM = 2.0  # times the databases that are read (measured: docs/decisions/0013)
_BY_TOPIC = """
    SELECT c.topic, count(*), count(p.oid), count(*) FILTER (c.state = 'waiting')
    FROM crawl c LEFT JOIN pages p ON p.oid = c.oid WHERE c.outcome IS DISTINCT FROM 'elsewhere' GROUP BY c.topic
"""
_COUNTS = """
    SELECT (SELECT count(*) FROM pages) AS pages, count(*) FILTER (outcome IS DISTINCT FROM 'elsewhere') AS urls,
           count(*) FILTER (state = 'waiting') AS waiting, count(*) FILTER (outcome = 'elsewhere') AS elsewhere,
           (SELECT count(*) FROM links) AS links
    FROM crawl
"""


@dataclass(frozen=True)
class PlannedPart:
    """A part that is planned."""

    name: str
    """The name of its folder."""
    topic: str
    """Its path; empty for the rest."""
    kcids: frozenset[int]
    """Its topics, with all below them; none for the rest, which has what belongs to no other part."""
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
                "Name topics of which none is below another.",
            )
    good = good_of(records)
    taken: set[str] = {REST}
    parts = []
    for record in chosen:
        wanted = good & below[record.kcid] or {record.kcid}
        marks = {kcid: mark.value for kcid, mark in marks_from(records, wanted).items()}
        parts.append(PlannedPart(_folder_name(record.path, taken), record.path, below[record.kcid], marks))
    left = good - frozenset().union(*below.values()) or good  # the rest wants something: a collection must
    marks = {kcid: mark.value for kcid, mark in marks_from(records, left).items()}
    return [*parts, PlannedPart(REST, "", frozenset(), marks)]


def wants_the_rest(records: Sequence[TopicRecord], parts: Sequence[PlannedPart]) -> bool:
    """Whether no part has all of some good topic, so that only the rest can want all of it."""
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
            raise InputError("the root is no part: all topics are below it", "Name topics below the root.")
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
    """A name for the folder of a topic that every file system and the portal accept; each is given once."""
    plain = _UNFIT.sub("-", path).strip("-._")[:MAX_NAME_CHARS] or "part"
    name, number = plain, 2
    while name.casefold() in {other.casefold() for other in taken}:
        name, number = f"{plain}-{number}", number + 1
    taken.add(name)
    return name


@dataclass(frozen=True)
class PartReport:
    """A collection that was made, or would be made."""

    name: str
    topic: str
    """Path; empty for the rest."""
    folder: str
    pages: int
    urls: int
    """Its own URLs."""
    waiting: int
    elsewhere: int = 0
    """URLs it refers to that belong to another part."""
    links: int = 0
    warc_files: int = 0
    copied_bytes: int = 0
    """Bytes of WARC files that could not be hard-linked."""


def split(
    folder: Path | str,
    target: Path | str,
    topics: Sequence[str] = (),
    *,
    dry_run: bool = False,
    on_progress: StepProgress = lambda doing, done, steps: None,
) -> list[PartReport]:
    """Divide a collection into one part for each topic, and one for the rest, in the new folder `target`.

    Without `topics`, the wanted topics right below the root are used. Each part has all topics, examples and models,
    and wants only its own topics. `dry_run` only counts.
    """
    collection, target = idle_collection(folder), Path(target)
    with Store.open(collection.folder, read_only=True, memory_bytes=collection.settings.store.memory_bytes) as store:
        parts, reports = _plan(store, topics, target)
        ends = store.load_warc_ends()
    if dry_run:
        return reports
    with building(target) as place:
        files = list_files(collection.folder / WARC_FOLDER, ends)
        check_room(place, room_for([collection]) + len(parts) * needed_bytes(files, place))
        new = [NewPart(place / part.name, sorted(part.kcids), part.marks) for part in parts]
        rest = next((number for number, part in enumerate(parts) if not part.topic), 0)
        with closing(Scratch(place, collection.settings.store.memory_bytes)) as scratch:
            divide(collection.folder, new, rest, MEASURED, scratch, on_progress)
        return [_add_files(report, place / report.name, collection, files) for report in reports]


def _plan(store: Store, topics: Sequence[str], target: Path) -> tuple[list[PlannedPart], list[PartReport]]:
    """The parts, and how much goes to each. There is a rest when something is left, or only it wants a topic."""
    records = store.load_topics()
    *parts, rest = plan_parts(records, topics)
    of_topic = {kcid: number for number, part in enumerate(parts) for kcid in part.kcids}
    counts = [[0, 0, 0] for _ in (*parts, rest)]
    for kcid, *counted in store.query(_BY_TOPIC, max_rows=2**16).rows:
        of_part = counts[of_topic.get(kcid, len(parts))]
        of_part[:] = [have + more for have, more in zip(of_part, counted, strict=True)]
    if counts[-1][0] or wants_the_rest(records, parts):
        parts.append(rest)
    reports = [
        PartReport(part.name, part.topic, str(target / part.name), pages, urls, waiting)
        for part, (urls, pages, waiting) in zip(parts, counts, strict=False)
    ]
    return parts, reports


def _add_files(report: PartReport, folder: Path, collection: Collection, files: Sequence[WarcFile]) -> PartReport:
    """Give a part its settings, and the WARC files that its rows point to or that hold records not yet read."""
    write_settings(folder, collection.settings)
    with Store.open(folder, memory_bytes=collection.settings.store.memory_bytes) as store:
        names = names_in(store)
        taken = [file for file in files if file.name in names or not file.is_known]
        copied_bytes = take(taken, folder / WARC_FOLDER)
        note_ends(store, taken)
        return with_counts(store, dataclasses.replace(report, warc_files=len(taken), copied_bytes=copied_bytes))


def idle_collection(folder: Path | str) -> Collection:
    """The collection, if no crawl runs in it; else CollectionBusy."""
    collection = Collection(folder)
    if ask(collection.folder, "status") is not None:
        raise CollectionBusy(
            f"{collection.folder}: a crawl runs here", f"Stop it first: opilio stop {quote(str(collection.folder))}"
        )
    return collection


def room_for(collections: Sequence[Collection]) -> int:
    """Bytes that are needed at most to make a new database of all that is in these."""
    return int(ROOM * sum((collection.folder / DATABASE_NAME).stat().st_size for collection in collections))


def with_counts(store: Store, report: PartReport) -> PartReport:
    """The report with what is in the database."""
    found = store.query(_COUNTS)
    return dataclasses.replace(report, **dict(zip(found.columns, found.rows[0], strict=True)))
