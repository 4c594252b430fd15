"""Making one collection of several, whether parts of one or strangers. They are not changed themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from opilio.classify import Model
from opilio.crawl.building import building, check_room
from opilio.crawl.collection import WARC_FOLDER, Collection
from opilio.crawl.merge_plan import MergePlan, plan_merge
from opilio.crawl.parts import SHARES, PartReport, at_rest, counted, room_for
from opilio.crawl.settings_file import write_settings
from opilio.crawl.warc_files import WarcFile, known_ends, list_files, named_apart, needed_bytes, note_ends, take
from opilio.errors import InputError, OpilioError
from opilio.learn.lessons import fingerprint, has_documents
from opilio.settings import Settings, override
from opilio.store import Store
from opilio.store.dividing import Progress
from opilio.store.joining import Joining, Source
from opilio.store.scratch import Scratch

_UNITED = (("scope", "locked_domains"),)


@dataclass(frozen=True)
class MergeReport:
    """What came of a merge."""

    made: PartReport
    sources: list[PartReport]
    notes: list[str]
    """What the user should know: settings that differ, models that are left out."""
    trained: int = 0
    """Version of the model that was trained; 0: none was."""


def merge(
    target: Path | str,
    folders: Sequence[Path | str],
    *,
    train: bool = False,
    on_progress: Progress = lambda doing, done, steps: None,
) -> MergeReport:
    """Join collections, parts of one or strangers, in the new folder `target`; with `train`, have it learn at once.

    Settings are those of the first. When topics or examples have changed by it, the next crawl trains a model anew.
    """
    if len({Path(folder).resolve() for folder in folders}) < max(2, len(folders)):
        raise InputError("two or more different collections are needed", "Name the folders that are to be joined.")
    collections, target = [at_rest(folder) for folder in folders], Path(target)
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
            made = counted(store, made)
    return MergeReport(made, sources, notes, _train(target) if train else 0)


def _train(target: Path) -> int:
    """Train a model in the new collection. It is there also when nothing can be learned."""
    try:
        return Collection(target).train()
    except OpilioError as error:
        raise type(error)(f"{target} was made, but no model trained: {error.message}", error.hint) from error


def _look(collections: Sequence[Collection]) -> tuple[list[PartReport], list[list[WarcFile]]]:
    """What is in each of the sources, and their WARC files: how far each was read by its own source."""
    reports: list[PartReport] = []
    files: list[list[WarcFile]] = []
    for collection in collections:
        folder, memory_bytes = collection.folder, collection.settings.store.memory_bytes
        with Store.open(folder, read_only=True, memory_bytes=memory_bytes) as store:
            files.append(list_files(folder / WARC_FOLDER, known_ends(store)))
            report = PartReport(folder.name, "", str(folder), 0, 0, 0, warc_files=len(files[-1]))
            reports.append(counted(store, report))
    return reports, files


def _join(
    collections: Sequence[Collection], renamed: Sequence[dict[str, str]], place: Path, on_progress: Progress
) -> MergePlan:
    """Make the database."""
    folders = [collection.folder for collection in collections]
    memory_bytes = max(collection.settings.store.memory_bytes for collection in collections)
    with closing(Scratch(place, memory_bytes)) as scratch, Joining(folders, scratch) as joining:
        plan = plan_merge([joining.carried(number) for number in range(len(folders))])
        sources = [
            Source(folder, plan.kcids[n], plan.versions[n], renamed[n], plan.keeps_models[n], n == plan.gives_model)
            for n, folder in enumerate(folders)
        ]
        joining.join(place, sources, plan.topics, SHARES, on_progress)
    return plan


def _renumber_models(store: Store, plan: MergePlan) -> None:
    """Have models say their new version: pages are judged in its name."""
    new = {new for versions in plan.versions for old, new in versions.items() if old != new}
    for record in store.load_models():
        if record.version in new:
            old = Model.from_bytes(store.load_model(record.version))
            again = Model(record.version, old.classifier, old.judge_alone).to_bytes()
            store.query("UPDATE models SET model = ? WHERE version = ?", [again, record.version], write=True)


def _settings_of(collections: Sequence[Collection]) -> tuple[Settings, list[str]]:
    """The settings of the first, with lists united where more is safer, and what the others have otherwise."""
    first = collections[0].settings
    notes: list[str] = []
    for section, key in _UNITED:
        values = [getattr(getattr(collection.settings, section), key) for collection in collections]
        united = tuple(dict.fromkeys(one for value in values for one in value))
        first = override(first, {f"{section}.{key}": list(united)})
    for collection in collections[1:]:
        for section in (part.name for part in dataclasses.fields(Settings)):
            ours, theirs = (dataclasses.asdict(getattr(s, section)) for s in (first, collection.settings))
            keys = [key for key in ours if ours[key] != theirs[key] and (section, key) not in _UNITED]
            notes += [
                f"{section}.{key} is {theirs[key]!r} in {collection.folder}: {ours[key]!r} is kept" for key in keys
            ]
    return first, notes


def _notes_of(plan: MergePlan, collections: Sequence[Collection], store: Store, settings: Settings) -> list[str]:
    """What the user should know of models."""
    notes = []
    for number, collection in enumerate(collections):
        models = len(plan.versions[number]) - 1
        if models and not plan.keeps_models[number]:
            notes.append(
                f"models of {collection.folder} are left out: its topics have other numbers here (judgements stay)"
            )
    models_kept = store.load_models()
    if models_kept and has_documents(store) and models_kept[0].taught != fingerprint(store, settings):
        notes.append("what is taught has changed: the next crawl trains a model (at once: opilio topics train)")
    return notes
