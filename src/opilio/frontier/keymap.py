"""A hash table from 64-bit keys to integers in numpy arrays: about 20-40 bytes an entry, asked in bulk.

It does not know what a URL is. Open addressing with linear probing; keys are already well mixed hashes. A Python dict
of the same entries takes five times the memory, which is what bounds the number of URLs a crawl can know.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Values = npt.NDArray[np.int64]

ABSENT = -1
_MAX_LOAD = 0.6
_EMPTY = np.uint64(0)


class KeyMap:
    """Maps uint64 keys to values below 2**32 - 1."""

    def __init__(self, capacity: int = 1024) -> None:
        self._size = 0
        self._allocate(1 << max(10, int(capacity / _MAX_LOAD).bit_length()))

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Memory of the table."""
        return int(self._keys.nbytes + self._values.nbytes)

    def get(self, key: int) -> int:
        """The value of one key, or ABSENT."""
        key = key or 1
        keys, mask = self._keys, self._mask
        slot = key & mask
        while True:
            found = int(keys[slot])
            if found == key:
                return int(self._values[slot])
            if found == 0:
                return ABSENT
            slot = (slot + 1) & mask

    def set(self, key: int, value: int) -> None:
        """Set one key that is absent; use `get` first."""
        if self._size + 1 > self._limit:
            self._grow(self._size + 1)
        key = key or 1
        slot = key & self._mask
        while self._keys[slot] != 0:
            slot = (slot + 1) & self._mask
        self._keys[slot] = key
        self._values[slot] = value
        self._size += 1

    def get_many(self, keys: Keys) -> Values:
        """The values of many keys; ABSENT where a key is not in the map."""
        keys = np.where(keys == _EMPTY, np.uint64(1), keys)
        result = np.full(len(keys), ABSENT, dtype=np.int64)
        slots = (keys & np.uint64(self._mask)).astype(np.int64)
        table_keys, table_values, mask = self._keys, self._values, self._mask
        open_: npt.NDArray[np.int64] | None = None  # positions not yet decided; None: all
        while True:
            wanted = keys if open_ is None else keys[open_]
            met = table_keys[slots]
            hit = met == wanted
            if hit.any():
                positions = hit.nonzero()[0] if open_ is None else open_[hit]
                result[positions] = table_values[slots[hit]]
            going_on = ~hit & (met != _EMPTY)
            if not going_on.any():
                return result
            open_ = going_on.nonzero()[0] if open_ is None else open_[going_on]
            slots = (slots[going_on] + 1) & mask

    def set_many(self, keys: Keys, values: npt.NDArray[np.integer]) -> None:
        """Set keys that are absent and different from each other."""
        if self._size + len(keys) > self._limit:
            self._grow(self._size + len(keys))
        self._size += len(keys)
        self._place(np.where(keys == _EMPTY, np.uint64(1), keys), values.astype(np.uint32))

    def _place(self, keys: Keys, values: npt.NDArray[np.uint32]) -> None:
        slots = (keys & np.uint64(self._mask)).astype(np.int64)
        while len(keys):
            free = self._keys[slots] == _EMPTY
            self._keys[slots[free]] = keys[free]  # of several that want one slot, the last is in it now
            mine = free & (self._keys[slots] == keys)
            self._values[slots[mine]] = values[mine]
            rest = ~mine
            keys, values, slots = keys[rest], values[rest], (slots[rest] + 1) & self._mask

    def _allocate(self, slots: int) -> None:
        self._mask = slots - 1
        self._limit = int(slots * _MAX_LOAD)
        self._keys: Keys = np.zeros(slots, dtype=np.uint64)
        self._values: npt.NDArray[np.uint32] = np.zeros(slots, dtype=np.uint32)

    def _grow(self, needed: int) -> None:
        old_keys, old_values = self._keys, self._values
        slots = len(old_keys)
        while int(slots * _MAX_LOAD) < needed:
            slots *= 2
        self._allocate(slots)
        for start in range(0, len(old_keys), 1 << 20):
            part = slice(start, start + (1 << 20))
            used = old_keys[part] != _EMPTY
            self._place(old_keys[part][used], old_values[part][used])
