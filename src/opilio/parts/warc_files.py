"""The WARC files of a collection that is made of others: linked where the file system can, else copied.

A file has the records of all parts of a collection, so that a part's visits alone do not tell how far it was read.
Therefore a part notes that in its table `meta`, under the name of the file.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Collection as Some
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opilio.store import Store
from opilio.store.loader import WARC_END

PATTERN = "*.warc.gz"
_SUFFIX = ".warc.gz"
_NAMES = """
    SELECT DISTINCT warc_file FROM (SELECT warc_file FROM pages UNION ALL SELECT warc_file FROM visits)
    WHERE warc_file <> ''
"""


@dataclass(frozen=True)
class WarcFile:
    """A file that a new collection gets."""

    path: Path
    name: str
    """Its name there."""
    end: int
    """Where the last record ends that the database knows of."""
    is_known: bool
    """False: it has records that the database does not know of, which a crawl will read, and a torn end it will cut."""


def note_ends(store: Store, files: Iterable[WarcFile]) -> None:
    """Note how far files were read, where the visits here do not tell."""
    have = store.load_warc_ends()
    for name, end in sorted({(file.name, file.end) for file in files}):
        if end > have.get(name, 0):
            store.query("INSERT INTO meta VALUES (?, ?)", [f"{WARC_END}{name}", str(end)], write=True)


def names_in(store: Store) -> set[str]:
    """The files that rows of a collection point to."""
    return {name for (name,) in store.query(_NAMES, max_rows=2**20).rows}


def list_files(folder: Path, ends: Mapping[str, int]) -> list[WarcFile]:
    """The files of a collection. `ends` says for each how far the database knows it."""
    files = [(path, path.stat().st_size, ends.get(path.name, 0)) for path in sorted(folder.glob(PATTERN))]
    return [WarcFile(path, path.name, min(end, size), size <= end) for path, size, end in files]


def named_apart(sources: Sequence[Sequence[WarcFile]]) -> list[dict[str, str]]:
    """For each source the files that must have another name, since another source has that name for other bytes.

    Or since it has read more of the same bytes: what a source has not read, none of the others can have read for it.
    """
    names: dict[str, WarcFile] = {}
    renamed: list[dict[str, str]] = []
    for files in sources:
        changes: dict[str, str] = {}
        for file in files:
            name, number = file.name, 2
            while name in names and not _is_same(names[name], file):
                name, number = f"{file.name.removesuffix(_SUFFIX)}-{number}{_SUFFIX}", number + 1
            names.setdefault(name, file)
            if name != file.name:
                changes[file.name] = name
        renamed.append(changes)
    return renamed


def take(files: Sequence[WarcFile], folder: Path) -> int:
    """Put files into the folder of a new collection; how many bytes had to be copied.

    A file that a crawl may cut is copied in any case: the source stays as it is.
    """
    folder.mkdir(exist_ok=True)
    copied_bytes = 0
    for file in files:
        target = folder / file.name
        if target.exists():  # the same bytes, from another source
            continue
        if not (file.is_known and _link(file.path, target)):
            shutil.copy2(file.path, target)
            copied_bytes += target.stat().st_size
    return copied_bytes


def _link(path: Path, target: Path) -> bool:
    """Whether the file system could give a file a second name."""
    try:
        os.link(path.resolve(), target)
    except OSError:
        return False
    return True


def needed_bytes(files: Some[WarcFile], folder: Path) -> int:
    """The room that these files take in another place."""
    device = folder.stat().st_dev
    return sum(f.path.stat().st_size for f in files if not f.is_known or f.path.stat().st_dev != device)


def _is_same(one: WarcFile, other: WarcFile) -> bool:
    if one.end != other.end:
        return False
    return one.path.samefile(other.path) or filecmp.cmp(one.path, other.path, shallow=False)
