"""Arrays that grow: columns of numbers, and a hash table from 64-bit keys to integers. They know nothing of URLs.

`KeyMap` takes about 20 to 40 bytes an entry: open addressing with linear probing, for keys that are well mixed hashes
already. A Python dict of the same entries takes five times the memory, and memory bounds the number of URLs that a
crawl can know. `RecentKeys` puts a dict of bounded size in front of it, which makes repeated lookups cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Keys = npt.NDArray[np.uint64]
    Values = npt.NDArray[np.int64]

Number = TypeVar("Number", bound=np.generic)

ABSENT = -1
_MAX_LOAD = 0.6
_EMPTY = np.uint64(0)


def once(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Each number once, in ascending order: as `np.unique`, in a sixth of its time for some thousands of numbers."""
    values = np.sort(values)
    is_first = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return values[is_first]


class Column(Generic[Number]):
    """Numbers of one type, or rows of `width` numbers each, as an array with spare room behind its end."""

    def __init__(self, dtype: type[Number], width: int | None = None) -> None:
        self._room: npt.NDArray[Number] = np.zeros(1024 if width is None else (1024, width), dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> npt.NDArray[Number]:
        """All numbers; a view that is valid until the next `extend`."""
        return self._room[: self._size]

    def extend(self, values: Any) -> None:
        """Add numbers at the end."""
        self._add(self._size + len(values), values)

    def grow(self, size: int, value: float = 0.0) -> None:
        """Add `value` at the end until there are at least `size` numbers."""
        if size > self._size:
            self._add(size, value)

    def _add(self, size: int, values: Any) -> None:
        if size > len(self._room):
            room = np.zeros((max(size, 2 * len(self._room)), *self._room.shape[1:]), self._room.dtype)
            room[: self._size] = self.values
            self._room = room
        self._room[self._size : size] = values
        self._size = size

    def cut(self, count: int) -> None:
        """Forget the first `count` numbers."""
        self._room = self._room[count : self._size].copy()
        self._size -= count


class KeyMap:
    """Maps uint64 keys to integers below 2**32 - 1."""

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
        keys, mask = self._key_slots, self._mask
        slot = key & mask
        while True:
            found = keys[slot]
            if found == key:
                return self._value_slots[slot]
            if found == 0:
                return ABSENT
            slot = (slot + 1) & mask

    def set(self, key: int, value: int) -> None:
        """Set one key that is absent; use `get` first, or `add`."""
        self.add(key, value)

    def add(self, key: int, value: int) -> None:
        """Set one key unless it is there: then it keeps its value."""
        if self._size + 1 > self._limit:
            self._grow(self._size + 1)
        key = key or 1
        keys, mask = self._key_slots, self._mask
        slot = key & mask
        while True:
            found = keys[slot]
            if found == 0:
                keys[slot] = key
                self._value_slots[slot] = value
                self._size += 1
                return
            if found == key:
                return
            slot = (slot + 1) & mask

    def get_many(self, keys: Keys) -> Values:
        """The values of many keys; ABSENT where a key is not in the map."""
        keys = np.where(keys == _EMPTY, np.uint64(1), keys)
        result = np.full(len(keys), ABSENT, dtype=np.int64)
        slots = (keys & np.uint64(self._mask)).astype(np.int64)
        table_keys, table_values, mask = self._keys, self._values, self._mask
        open_: npt.NDArray[np.int64] | None = None  # positions not yet decided; None: all
        while True:
            wanted = keys if open_ is None else keys[open_]
            found = table_keys[slots]
            hit = found == wanted
            if hit.any():
                positions = hit.nonzero()[0] if open_ is None else open_[hit]
                result[positions] = table_values[slots[hit]]
            going_on = ~hit & (found != _EMPTY)
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
        # The same memory, for one key at a time: a memoryview gives a Python int in a third of numpy's time.
        self._key_slots, self._value_slots = self._keys.data, self._values.data

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


class RecentKeys:
    """A `KeyMap` for keys that mostly repeat: a small dict has those looked up lately."""

    def __init__(self, max_recent: int = 250_000) -> None:
        self.table = KeyMap()
        self._recent: dict[int, int] = {}
        self._max_recent = max_recent

    def __len__(self) -> int:
        return len(self.table)

    def get(self, key: int) -> int:
        """The value of one key, or ABSENT."""
        value = self._recent.get(key)
        if value is None:
            value = self.table.get(key)
            if value != ABSENT:
                self._remember(key, value)
        return value

    def get_list(self, keys: list[int]) -> list[int]:
        """The values of many keys, or ABSENT."""
        values = list(map(self._recent.get, keys))
        if None not in values:
            return values  # type: ignore[return-value]  # just checked
        return [self.get(key) if value is None else value for key, value in zip(keys, values, strict=True)]

    def set(self, key: int, value: int) -> None:
        """Set one key that is absent; use `get` first."""
        self.table.add(key, value)
        self._remember(key, value)

    def _remember(self, key: int, value: int) -> None:
        if len(self._recent) >= self._max_recent:
            self._recent.clear()
        self._recent[key] = value
