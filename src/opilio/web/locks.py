"""Many readers or one writer: a database that one process holds cannot be open in both ways at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class ReadersOrWriter:
    """A lock that is nobody's: whoever takes it may give it back in another thread. A waiting writer goes first."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._writing = False
        self._writers_waiting = 0

    @contextlib.contextmanager
    def reading(self, wait_s: float | None = None) -> Iterator[None]:
        """Hold it beside other readers; TimeoutError when a writer holds it for longer than `wait_s`."""
        with self._condition:
            if not self._condition.wait_for(lambda: not self._writing and not self._writers_waiting, wait_s):
                raise TimeoutError
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold it alone."""
        with self._condition:
            self._writers_waiting += 1
            try:
                self._condition.wait_for(lambda: not self._writing and not self._readers)
            finally:
                self._writers_waiting -= 1
            self._writing = True
        try:
            yield
        finally:
            with self._condition:
                self._writing = False
                self._condition.notify_all()
