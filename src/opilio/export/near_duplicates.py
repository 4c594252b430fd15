"""Groups of pages with nearly the same text, by the sketches that the crawl stored.

A crawl leaves out pages that are nearly the same as a stored one (`duplicates.near_jaccard`). Groups are wider: pages
with a similarity of `SIMILARITY`, which differ in a few sentences, and the same text under another address that a
setting let in. A group is named by its first page. About 170 bytes a page are held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opilio.analyze.sketch import BANDS, BINS
from opilio.model import url_key
from opilio.store import Store
from opilio.store.corpus import stream_sketches

if TYPE_CHECKING:
    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint64]
    Oids = npt.NDArray[np.int64]
    Sketches = npt.NDArray[np.uint16]

SIMILARITY = 0.8
"""Estimated Jaccard similarity of shingles. Of pairs that are this similar, three in four share a band of the sketch,
which makes them candidates; of those at 0.9, 99 in 100."""
_SKETCH_BYTES = BINS * 4
_ODD = np.uint64(0x9E3779B97F4A7C15)


class NearDuplicates:
    """For each page of a selection, the first page of its group. Pages are named by the keys of their URLs."""

    def __init__(self, store: Store, where: str) -> None:
        oids, keys, hashes, rows, sketches = _read(store, where)
        self._oids, self._keys = oids, keys
        self._firsts = np.arange(len(oids))
        self._join(hashes)
        self._compare(rows, sketches)

    def group(self, oid: int, key: int) -> int:
        """The first page of the group of a page: itself when there is none like it."""
        place = int(np.searchsorted(self._oids, oid))
        if place == len(self._oids) or self._oids[place] != oid:  # stored since the groups were made
            return key
        return int(self._keys[self._first(place)])

    def _join(self, hashes: Hashes) -> None:
        """Join pages with exactly the same text."""
        order = np.argsort(hashes, kind="stable")
        same = (hashes[order[1:]] == hashes[order[:-1]]) & (hashes[order[1:]] != 0)
        for one, other in zip(order[:-1][same].tolist(), order[1:][same].tolist(), strict=True):
            self._unite(one, other)

    def _compare(self, rows: npt.NDArray[np.int64], sketches: Sketches) -> None:
        """Join pages that share a band and are similar. In a run of equal bands, all are compared with the first."""
        width = BINS // BANDS
        for band in range(BANDS):
            halves = np.ascontiguousarray(sketches[:, band * width : (band + 1) * width]).view(np.uint64)
            keys = halves[:, 0] * _ODD ^ halves[:, 1]
            order = np.argsort(keys, kind="stable")
            if len(order) < 2:
                return
            is_new = np.concatenate([[True], keys[order[1:]] != keys[order[:-1]]])
            leaders = order[np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))]
            members = order[~is_new]
            leaders = leaders[~is_new]
            for start in range(0, len(members), 10_000):
                some, their = members[start : start + 10_000], leaders[start : start + 10_000]
                alike = (sketches[some] == sketches[their]).sum(axis=1) >= SIMILARITY * BINS
                for one, other in zip(rows[some[alike]].tolist(), rows[their[alike]].tolist(), strict=True):
                    self._unite(one, other)

    def _first(self, place: int) -> int:
        firsts = self._firsts
        while firsts[place] != place:
            firsts[place] = firsts[firsts[place]]
            place = int(firsts[place])
        return place

    def _unite(self, one: int, other: int) -> None:
        first, second = sorted((self._first(one), self._first(other)))
        self._firsts[second] = first


def _read(store: Store, where: str) -> tuple[Oids, Hashes, Hashes, npt.NDArray[np.int64], Sketches]:
    """All pages: oids, keys and hashes of their texts; then those that have a sketch, by place, and the sketches."""
    oids: list[Oids] = [np.zeros(0, np.int64)]
    keys: list[Hashes] = [np.zeros(0, np.uint64)]
    hashes: list[Hashes] = [np.zeros(0, np.uint64)]
    rows: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    sketches: list[Sketches] = [np.zeros((0, BINS), np.uint16)]
    done = 0
    for piece in stream_sketches(store, where):
        columns = piece.to_pydict()
        oids.append(np.array(columns["oid"], np.int64))
        keys.append(np.array([url_key(url) for url in columns["url"]], np.uint64))
        hashes.append(np.array([value or 0 for value in columns["content_hash"]], np.uint64))
        given = [(at, one) for at, one in enumerate(columns["shingles"]) if one and len(one) == _SKETCH_BYTES]
        rows.append(np.array([done + at for at, _ in given], np.int64))
        if given:
            whole = np.frombuffer(b"".join(one for _, one in given), "<u4").reshape(-1, BINS)
            sketches.append(whole.astype(np.uint16))  # 16 bits of each bin are enough to compare
        done += piece.num_rows
    joined = (np.concatenate(oids), np.concatenate(keys), np.concatenate(hashes))
    return (*joined, np.concatenate(rows), np.concatenate(sketches))
