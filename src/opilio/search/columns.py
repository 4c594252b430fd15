"""What is known of each page apart from its words: numbers that change with every judgement, in columns sorted by oid.

The columns are one file next to the words and are replaced together, in one step. So pages that are re-judged need no
indexing, and whoever searches sees the numbers of one moment. A page counts as indexed only once it is here: the words
are committed first, then the columns are written. After a crash in between, the next update finds the page missing here
and indexes it once more.

Near duplicates among the stored pages are shown as one result. Two pages are copies of each other when their visible
texts are the same, or when at least two of the eight bands of their sketches are (`analyze.sketch`): 99 % of pairs with
a similarity of 0.95 do, 92 % of those with 0.9, one of 140 with 0.6. A group of copies is named by its lowest oid.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opilio.model.visit import RELEVANT
from opilio.topics.hierarchy import ROOT

if TYPE_CHECKING:
    import numpy.typing as npt

    Whole = npt.NDArray[np.int64]
    Real = npt.NDArray[np.float32]

VERSION = 1
"""Of the index as a whole. One of another version is rebuilt."""
FILE_NAME = "columns.npz"
BANDS, SHARED_BANDS = 8, 2

_TYPES: dict[str, type[np.generic]] = {
    "oid": np.int64, "visited_us": np.int64, "sid": np.int32, "language": np.int16, "kind": np.int16,
    "content_hash": np.uint64, "in_links": np.int32, "relevance": np.float32, "kcid": np.int16,
    "authority": np.float32, "group": np.int64,
}  # fmt: skip


@dataclass
class Columns:
    """The columns, and the names that some of their numbers refer to."""

    rows: dict[str, npt.NDArray[Any]] = field(default_factory=lambda: {k: np.zeros(0, t) for k, t in _TYPES.items()})
    bands: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros((0, BANDS), np.uint64))
    """Of the sketch of each page; zeros when its text is too short for one."""
    tids: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    """Every term, sorted, ..."""
    numbers: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """... its number in the vectors of pages, ..."""
    pages_with: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """... and, by that number, how many pages have it."""
    hosts: dict[int, str] = field(default_factory=dict)
    languages: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    topics: list[dict[str, Any]] = field(default_factory=list)
    """kcid, pcid, name and path of each."""
    seen: str = ""
    """The state of the database file that all of this was read from; '' when it was not closed then."""

    @cached_property
    def is_copied(self) -> npt.NDArray[np.bool_]:
        """Which pages have copies. For columns that do not change any more."""
        _, which, counts = np.unique(self["group"], return_inverse=True, return_counts=True)
        copied: npt.NDArray[np.bool_] = counts[which] > 1
        return copied

    def __len__(self) -> int:
        return len(self.rows["oid"])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.rows[name]

    def places(self, oids: Whole) -> tuple[Whole, npt.NDArray[np.bool_]]:
        """The place of each oid, and which of them are here at all."""
        at = np.searchsorted(self["oid"], oids)
        at[at == len(self)] = 0
        known = self["oid"][at] == oids if len(self) else np.zeros(len(oids), bool)
        return at, known

    @cached_property
    def in_others(self) -> npt.NDArray[np.bool_]:
        """Pages that no topic took. The root takes one only where it is itself what is wanted."""
        found: npt.NDArray[np.bool_] = (self["kcid"] == ROOT) & (self["relevance"] < RELEVANT)
        return found

    def subtree(self, kcid: int) -> list[int]:
        """A topic and all below it."""
        found = [kcid]
        for one in found:
            found += [topic["kcid"] for topic in self.topics if topic["pcid"] == one]
        return found

    def save(self, folder: Path) -> None:
        """Replace the old columns by these, in one step."""
        facts = {
            "version": VERSION, "hosts": self.hosts, "languages": self.languages, "kinds": self.kinds,
            "topics": self.topics, "seen": self.seen,
        }  # fmt: skip
        arrays = self.rows | {
            "bands": self.bands, "tids": self.tids, "numbers": self.numbers, "pages_with": self.pages_with
        }  # fmt: skip
        packed = io.BytesIO()
        np.savez(packed, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
        new = folder / f"{FILE_NAME}.new"
        with new.open("wb") as file:
            file.write(packed.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        new.replace(folder / FILE_NAME)

    @classmethod
    def load(cls, folder: Path) -> Columns | None:
        """The columns in `folder`; None when there are none that can be used."""
        try:
            with np.load(folder / FILE_NAME) as arrays:
                facts = json.loads(arrays["facts"].tobytes())
                if facts.pop("version") != VERSION:
                    return None
                facts["hosts"] = {int(sid): host for sid, host in facts["hosts"].items()}
                rest = {name: arrays[name] for name in ("bands", "tids", "numbers", "pages_with")}
                return cls({name: arrays[name] for name in _TYPES}, **rest, **facts)
        except (OSError, ValueError, KeyError, TypeError, EOFError, SyntaxError, RuntimeError, zipfile.BadZipFile):
            return None


def number_of(names: list[str], name: str) -> int:
    """The number of a name in a short list, to which it is added when it is new."""
    if name not in names:
        names.append(name)
    return names.index(name)


def group(columns: Columns) -> npt.NDArray[np.int64]:
    """For each page, the lowest oid of the pages that are copies of it, itself included."""
    bands, hashes = columns.bands, columns["content_hash"]
    pairs = [_same(hashes)]
    for number in range(bands.shape[1]):
        some = _same(bands[:, number])
        shared = (bands[some[:, 0]] == bands[some[:, 1]]).sum(axis=1)
        pairs.append(some[shared >= SHARED_BANDS])
    first = np.arange(len(columns))
    for a, b in np.concatenate(pairs).tolist():
        root_a, root_b = _root(first, a), _root(first, b)
        first[max(root_a, root_b)] = min(root_a, root_b)
    for place in np.flatnonzero(first != np.arange(len(columns))).tolist():
        first[place] = _root(first, place)
    oids: npt.NDArray[np.int64] = columns["oid"][first]
    return oids


def _same(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Each place whose value is at an earlier place too, with the first such; 0 is no value."""
    places = np.flatnonzero(values)
    _, first, which = np.unique(values[places], return_index=True, return_inverse=True)
    firsts = places[first[which]]
    is_later = firsts != places
    return np.stack([firsts[is_later], places[is_later]], axis=1)


def _root(first: npt.NDArray[np.int64], place: int) -> int:
    while first[place] != place:
        first[place] = first[first[place]]
        place = int(first[place])
    return place
