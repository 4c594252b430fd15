"""One database for all threads of a process that read it at the same time.

DuckDB gives every connection of a process to a file the same database. What is set once, and locked, for the first of
them cannot be set for a second; so threads share one store, opened by the first and closed by the last.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from opilio.store.database import Store


@dataclass
class _Open:
    store: Store | None = None
    readers: int = 0
    opening: threading.Lock = field(default_factory=threading.Lock)


_OPEN: dict[Path, _Open] = {}
_LOCK = threading.Lock()


@contextlib.contextmanager
def reading_together(folder: Path, *, memory_bytes: int) -> Iterator[Store]:
    """The store of a collection, to read, shared with the threads that read it now."""
    path = folder.absolute()
    with _LOCK:
        held = _OPEN.setdefault(path, _Open())
        held.readers += 1
    try:
        with held.opening:  # which may take a while after a crash: readers of other collections do not wait for it
            store = held.store = held.store or Store.open(folder, read_only=True, memory_bytes=memory_bytes)
        yield store
    finally:
        with _LOCK:
            held.readers -= 1
            if not held.readers:
                del _OPEN[path]
                if held.store is not None:
                    held.store.close()
