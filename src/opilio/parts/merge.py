"""Merge several collections into a new one, whether they are parts of one or unrelated. They are not changed
themselves.

First everything is numbered (`plan_merge`): topics are the same by their paths, models by what they are. Then the
databases are joined (`join.py`), and settings and WARC files are brought together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from opilio.classify import Model
from opilio.crawl.collection import WARC_FOLDER, Collection
from opilio.errors import InputError, OpilioError
from opilio.learn.training_data import fingerprint, has_documents
from opilio.parts.building import Scratch, building, check_room
from opilio.parts.divide import StepProgress
from opilio.parts.join import Carried, Joining, SourceCollection
from opilio.parts.split import MEASURED, PartReport, idle_collection, room_for, with_counts
from opilio.parts.warc_files import WarcFile, list_files, named_apart, needed_bytes, note_ends, take
from opilio.settings import Settings, override
from opilio.settings.files import without_secrets, write_settings
from opilio.store import Store
from opilio.topics import Mark, TopicRecord
from opilio.topics.hierarchy import ROOT
from opilio.topics.records import good_of, marks_from
from opilio.topics.tree import MAX_TOPICS, ROOT_NAME, clean_name

OTHERS_BELOW = -3
"""OTHERS below the topic n has the number -3 - n; the numbers between that and 0 are no topics anywhere."""
NO_MODEL = 0
COMMON_ROOT = -(2**15)
"""Stands for the root above the root of a collection that becomes a topic; no row carries it."""
_UNITED = (("scope", "locked_domains"),)
"""Settings that are lists, of which the new collection has the entries of all sources."""


@dataclass
class MergePlan:
    """The topics of the new collection, and for each source what its numbers become."""

    topics: list[TopicRecord]
    kcids: list[dict[int, int]]
    versions: list[dict[int, int]] = field(default_factory=list)
    keeps_models: list[bool] = field(default_factory=list)
    """Whether the models of a source can judge there: its topics have kept their numbers."""
    gives_model: int = -1
    """The source whose newest model is the newest that can judge; -1 when none has a model."""


def plan_merge(carried: Sequence[Carried]) -> MergePlan:
    """Number topics and models. The topics of the first collection that has a model keep their numbers."""
    carried = _below_a_root(carried)
    able = [n for n, source in enumerate(carried) if COMMON_ROOT not in {topic.kcid for topic in source.topics}]
    base = next((number for number in able if carried[number].models), 0)
    order = [base, *(number for number in range(len(carried)) if number != base)]
    numbers = _Numbers([carried[number] for number in order])
    maps = dict(zip(order, numbers.maps, strict=True))
    plan = MergePlan(_marked(numbers, [carried[number] for number in order]), [maps[n] for n in range(len(carried))])
    plan.keeps_models = [all(old == new for old, new in kcids.items()) for kcids in plan.kcids]
    _number_models(carried, plan)
    return plan


def _below_a_root(carried: Sequence[Carried]) -> list[Carried]:
    """Give each collection whose root is what it wants, such as one made from a question, a topic in its place.

    Not where all such roots have the same name and no collection has topics: then their roots become one.
    """
    wanting = [source.tells_root and good_of(source.topics) == {ROOT} for source in carried]
    names = {source.topics[0].name for source, wants in zip(carried, wanting, strict=True) if wants}
    if len(names) < 2 and all(len(source.topics) == 1 for source in carried):
        return list(carried)
    return [_as_topic(source) if wants else source for source, wants in zip(carried, wanting, strict=True)]


def _as_topic(source: Carried) -> Carried:
    """A collection without topics below its root, with the root as a topic."""
    root = source.topics[0]
    name = clean_name(source.name if root.name == ROOT_NAME else root.name) or ROOT_NAME
    above = TopicRecord(COMMON_ROOT, None, ROOT_NAME, "", Mark.PATH.value, [])
    return dataclasses.replace(source, topics=[above, root._replace(pcid=COMMON_ROOT, name=name, path=name)])


class _Numbers:
    """Topics are the same by their path. A new one keeps its number unless that is another topic's in any source."""

    def __init__(self, carried: Sequence[Carried]) -> None:
        everywhere = frozenset().union(*(source.kcids for source in carried))
        self._free = 1 + max([ROOT, *everywhere])
        removed = {kcid for source in carried for kcid in source.kcids - {t.kcid for t in source.topics} if kcid > ROOT}
        self.topics: dict[str, TopicRecord] = {}
        self.maps: list[dict[int, int]] = []
        for place, source in enumerate(carried):
            self.maps.append(self._add(source, removed if place else set()))
        if len(self.topics) > MAX_TOPICS or self._free > MAX_TOPICS:
            raise InputError(f"more than {MAX_TOPICS:,} topics in all", "Merge fewer collections.")
        used = {topic.kcid for topic in self.topics.values()}
        for source, numbers in zip(carried, self.maps, strict=True):
            for kcid in sorted(source.kcids, reverse=True):  # OTHERS follow their topics
                numbers.setdefault(kcid, self._of_no_topic(kcid, numbers, used))

    def _add(self, source: Carried, removed: set[int]) -> dict[int, int]:
        numbers: dict[int, int] = {}
        used = {topic.kcid for topic in self.topics.values()} | removed
        for topic in sorted(source.topics, key=lambda topic: (topic.path.count(" / "), topic.path != "", topic.kcid)):
            known = self.topics.get(topic.path)
            if known is None:
                kcid = self._next() if topic.kcid in used else max(topic.kcid, ROOT)
                pcid = None if topic.pcid is None else numbers[topic.pcid]
                known = topic._replace(kcid=kcid, pcid=pcid)
                used.add(kcid)
            self.topics[topic.path] = _united(known, topic)
            numbers[topic.kcid] = known.kcid
        numbers.pop(COMMON_ROOT, None)
        return numbers

    def _of_no_topic(self, kcid: int, numbers: dict[int, int], used: set[int]) -> int:
        """The number of OTHERS, or of a removed topic that pages still carry."""
        if kcid <= OTHERS_BELOW:
            above = OTHERS_BELOW - kcid
            return OTHERS_BELOW - numbers.get(above, above)
        return self._next() if kcid in used else kcid

    def _next(self) -> int:
        self._free += 1
        return self._free - 1


def _united(known: TopicRecord, topic: TopicRecord) -> TopicRecord:
    """A topic of several collections: the keywords of all, and a name and a description if one has them."""
    more = [word for word in topic.keywords if word not in known.keywords]
    names_it = known.name == ROOT_NAME or (topic.keywords and not known.keywords)  # the words of a question name it
    name = topic.name if names_it else known.name
    return known._replace(
        name=name, keywords=[*known.keywords, *more], description=known.description or topic.description
    )


def _marked(numbers: _Numbers, carried: Sequence[Carried]) -> list[TopicRecord]:
    """The topics, good if they are in one of the collections; a good one covers those below it."""
    records = sorted(numbers.topics.values())
    good = {kcids[kcid] for source, kcids in zip(carried, numbers.maps, strict=True) for kcid in good_of(source.topics)}
    if len(records) > 1:  # the root cannot be good then
        good = good - {ROOT} or {record.kcid for record in records if record.pcid == ROOT}
    parents = {record.kcid: record.pcid for record in records}
    for kcid in sorted(good):
        above = parents[kcid]
        while above is not None and above not in good:
            above = parents[above]
        if above is not None:
            good.discard(kcid)
    marks = marks_from(records, good)
    return [record._replace(type=marks[record.kcid].value) for record in records]


def _number_models(carried: Sequence[Carried], plan: MergePlan) -> None:
    """Versions stay unless two models have the same. Those that cannot judge come first: the highest version judges."""
    found: dict[tuple[object, ...], tuple[bool, datetime, int, int]] = {}
    of_source: list[dict[int, tuple[object, ...]]] = []
    for number, source in enumerate(carried):
        named: dict[int, tuple[object, ...]] = {}
        for version in sorted(source.versions - {NO_MODEL}):  # without its model, nothing more is known of it
            named[version] = (number, version)
            found[number, version] = (False, datetime.min, number, version)
        for model in source.models:
            del found[number, model.version]
            named[model.version] = (model.created, model.classifier, model.digest)
        for model in source.models:
            key = named[model.version]
            keeps, created, first, version = found.get(key, (False, model.created, number, model.version))
            found[key] = (keeps or plan.keeps_models[number], created, first, version)
        of_source.append(named)
    pairs = {(version, key) for named in of_source for version, key in named.items()}
    is_plain = all(plan.keeps_models) and len(pairs) == len({v for v, _ in pairs}) == len({key for _, key in pairs})
    places = {key: place for place, key in enumerate(sorted(found, key=lambda key: found[key]), 1)}
    for named in of_source:
        plan.versions.append({v: v if is_plain else places[key] for v, key in named.items()} | {NO_MODEL: NO_MODEL})
    kept = [
        (plan.versions[number][model.version], -number)
        for number, source in enumerate(carried)
        for model in source.models
        if plan.keeps_models[number]
    ]
    if kept:
        plan.gives_model = -max(kept)[1]


@dataclass(frozen=True)
class MergeReport:
    """The result of a merge."""

    made: PartReport
    sources: list[PartReport]
    notes: list[str]
    """What the user should know: settings that differ, models that were left out."""
    trained: int = 0
    """Version of the model that was trained; 0: none was."""


def merge(
    target: Path | str,
    folders: Sequence[Path | str],
    *,
    train: bool = False,
    on_progress: StepProgress = lambda doing, done, steps: None,
) -> MergeReport:
    """Join collections, parts of one or unrelated, in the new folder `target`; with `train`, train a model at once.

    Settings are those of the first. When topics or examples differ from before, the next crawl trains a model.
    """
    if len({Path(folder).resolve() for folder in folders}) < max(2, len(folders)):
        raise InputError("two or more different collections are needed", "Name the folders that are to be joined.")
    collections, target = [idle_collection(folder) for folder in folders], Path(target)
    settings, notes = _settings_of(collections)
    with building(target) as place:
        sources, files = _look(collections)
        check_room(place, room_for(collections) + needed_bytes([file for some in files for file in some], place))
        renamed = named_apart(files)
        plan = _join(collections, renamed, place, on_progress)
        write_settings(place, settings)
        files = [
            [dataclasses.replace(file, name=names.get(file.name, file.name)) for file in some]
            for some, names in zip(files, renamed, strict=True)
        ]
        taken = [file for some in files for file in some]
        copied_bytes = take(taken, place / WARC_FOLDER)
        with Store.open(place, memory_bytes=settings.store.memory_bytes) as store:
            _renumber_models(store, plan)
            note_ends(store, taken)
            notes += _notes_of(plan, collections, store, settings)
            names = {file.name for file in taken}
            made = PartReport(target.name, "", str(target), 0, 0, 0, warc_files=len(names), copied_bytes=copied_bytes)
            made = with_counts(store, made)
    return MergeReport(made, sources, notes, _train(target) if train else 0)


def _train(target: Path) -> int:
    """Train a model in the new collection. The collection stays when nothing can be learned."""
    try:
        return Collection(target).train()
    except OpilioError as error:
        raise type(error)(f"{target} was made, but no model trained: {error.message}", error.hint) from error


def _look(collections: Sequence[Collection]) -> tuple[list[PartReport], list[list[WarcFile]]]:
    """What is in each of the sources, and its WARC files with how far it has read them."""
    reports: list[PartReport] = []
    files: list[list[WarcFile]] = []
    for collection in collections:
        folder, memory_bytes = collection.folder, collection.settings.store.memory_bytes
        with Store.open(folder, read_only=True, memory_bytes=memory_bytes) as store:
            files.append(list_files(folder / WARC_FOLDER, store.load_warc_ends()))
            report = PartReport(folder.name, "", str(folder), 0, 0, 0, warc_files=len(files[-1]))
            reports.append(with_counts(store, report))
    return reports, files


def _join(
    collections: Sequence[Collection], renamed: Sequence[dict[str, str]], place: Path, on_progress: StepProgress
) -> MergePlan:
    """Make the database."""
    folders = [collection.folder for collection in collections]
    memory_bytes = max(collection.settings.store.memory_bytes for collection in collections)
    with closing(Scratch(place, memory_bytes)) as scratch, Joining(folders, scratch) as joining:
        plan = plan_merge([joining.carried(number) for number in range(len(folders))])
        sources = [
            SourceCollection(
                folder, plan.kcids[n], plan.versions[n], renamed[n], plan.keeps_models[n], n == plan.gives_model
            )
            for n, folder in enumerate(folders)
        ]
        joining.join(place, sources, plan.topics, MEASURED, on_progress)
    return plan


def _renumber_models(store: Store, plan: MergePlan) -> None:
    """Write the new versions into the models: they sign their judgements with them."""
    new = {new for versions in plan.versions for old, new in versions.items() if old != new}
    for record in store.load_models():
        if record.version in new:
            old = Model.from_bytes(store.load_model(record.version))
            again = Model(
                record.version, old.classifier, old.trained_judge, only_undoubted=old.only_undoubted
            ).to_bytes()
            store.query("UPDATE models SET model = ? WHERE version = ?", [again, record.version], write=True)


def _settings_of(collections: Sequence[Collection]) -> tuple[Settings, list[str]]:
    """The settings of the first, with lists united where more is safer; and how the others differ."""
    first = collections[0].settings
    notes: list[str] = []
    for section, key in _UNITED:
        values = [getattr(getattr(collection.settings, section), key) for collection in collections]
        united = tuple(dict.fromkeys(one for value in values for one in value))
        first = override(first, {f"{section}.{key}": list(united)})
    for collection in collections[1:]:
        for section in (part.name for part in dataclasses.fields(Settings)):
            shown = map(without_secrets, (first, collection.settings))
            ours, theirs = (dataclasses.asdict(getattr(settings, section)) for settings in shown)
            keys = [key for key in ours if ours[key] != theirs[key] and (section, key) not in _UNITED]
            notes += [
                f"{section}.{key} is {theirs[key]!r} in {collection.folder}: {ours[key]!r} is kept" for key in keys
            ]
    return first, notes


def _notes_of(plan: MergePlan, collections: Sequence[Collection], store: Store, settings: Settings) -> list[str]:
    """What the user should know about the models."""
    notes = []
    for number, collection in enumerate(collections):
        models = len(plan.versions[number]) - 1
        if models and not plan.keeps_models[number]:
            notes.append(
                f"models of {collection.folder} are left out: its topics have other numbers here (judgements stay)"
            )
    models_kept = store.load_models()
    if models_kept and has_documents(store) and models_kept[0].taught != fingerprint(store, settings):
        notes.append("the training data has changed: the next crawl trains a model (at once: opilio topics train)")
    return notes
