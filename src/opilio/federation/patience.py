"""Waiting for several at once, no longer than a moment; and leaving those alone who failed, for a while."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from opilio.federation.peers import PeerError, PeerRefusal

FIRST_PAUSE_S, MAX_PAUSE_S = 5.0, 300.0
"""A peer that fails is left alone so long, twice as long each time it fails again, at most."""
MAX_OPEN = 8
"""Questions that a peer may be behind with; it is asked no more until it has answered some."""

T = TypeVar("T")
Came = dict[str, tuple[T | Exception | None, float]]
"""What came of each, by name, and how long it took: None when nothing came in time."""


def all_at_once(jobs: Mapping[str, Callable[[], T]], timeout_s: float) -> Came[T]:
    """Do several things at the same time, each in a thread of its own. What is not done in time goes on, unheard."""
    done: queue.SimpleQueue[tuple[str, T | Exception, float]] = queue.SimpleQueue()
    began_s = time.monotonic()

    def run(name: str, job: Callable[[], T]) -> None:
        try:
            found: T | Exception = job()
        except Exception as error:
            found = error
        done.put((name, found, time.monotonic() - began_s))

    came: Came[T] = dict.fromkeys(jobs, (None, timeout_s))
    for name, job in jobs.items():
        threading.Thread(target=run, args=(name, job), daemon=True, name=f"peer {name}").start()
    waits = len(jobs)
    while waits and (left_s := began_s + timeout_s - time.monotonic()) > 0:
        try:
            name, found, took_s = done.get(timeout=left_s)
        except queue.Empty:
            break
        came[name] = (found, took_s)
        waits -= 1
    return came


@dataclass
class _State:
    failures: int = 0
    not_before_s: float = 0.0
    open: int = 0


class Patience:
    """Asks peers that are not known to be in trouble."""

    def __init__(
        self,
        names: Sequence[str],
        clock: Callable[[], float],
        first_pause_s: float = FIRST_PAUSE_S,
        max_pause_s: float = MAX_PAUSE_S,
    ) -> None:
        self._clock = clock
        self._first_pause_s, self._max_pause_s = first_pause_s, max_pause_s
        self._states = {name: _State() for name in names}
        self._lock = threading.Lock()

    def ask(self, jobs: Mapping[str, Callable[[], T]], timeout_s: float) -> Came[T]:
        """Do these at the same time, but for those of peers that have failed lately."""
        came: Came[T] = {}
        asked = {}
        for name, job in jobs.items():
            refusal = self._refusal(name)
            if refusal:
                came[name] = (PeerError(refusal), 0.0)
            else:
                asked[name] = self._counted(name, job)
        heard = all_at_once(asked, timeout_s)
        for name, (found, _) in heard.items():
            is_well = isinstance(found, PeerRefusal)  # it does not like the question; it has answered
            self._note(name, failed=not is_well and (found is None or isinstance(found, Exception)))
        return came | heard

    def left_s(self, name: str) -> float:
        """How long a peer is still left alone; 0: it may be asked."""
        with self._lock:
            return max(0.0, self._states[name].not_before_s - self._clock())

    def forgive(self, name: str) -> None:
        """A peer is known to be well: what failed before does not count."""
        self._note(name, failed=False)

    def _refusal(self, name: str) -> str:
        left_s = self.left_s(name)
        with self._lock:
            state = self._states[name]
            if left_s > 0:
                return f"did not answer lately: it is asked again in {left_s:.0f} s"
            if state.open >= MAX_OPEN:
                return f"is still busy with {state.open} earlier questions"
            return ""

    def _counted(self, name: str, job: Callable[[], T]) -> Callable[[], T]:
        state = self._states[name]

        def run() -> T:
            with self._lock:
                state.open += 1
            try:
                return job()
            finally:
                with self._lock:
                    state.open -= 1

        return run

    def _note(self, name: str, *, failed: bool) -> None:
        with self._lock:
            state = self._states[name]
            if not failed:
                state.failures, state.not_before_s = 0, 0.0
                return
            if state.not_before_s > self._clock():  # another question has seen the same failure
                return
            state.failures += 1
            pause_s = min(self._max_pause_s, self._first_pause_s * 2.0 ** min(state.failures - 1, 60))
            state.not_before_s = self._clock() + pause_s
