"""The workers of a sifting: processes of this machine, or a process that passes orders on to a Ray cluster.

A pool has slots, each of one worker. The answers of a slot come in the order of its orders. When a worker is lost, all
its orders are answered by pieces that say so, and the slot gets another worker.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import deque
from typing import NamedTuple

from opilio.crawl.messages import greeting_decoder
from opilio.crawl.worker_pool import MAX_RESTARTS
from opilio.errors import OpilioError
from opilio.process import Channel, Child, collect_rarely, start
from opilio.sift.sieve import (
    Sieve,
    SiftOrder,
    SiftPiece,
    SiftSetup,
    encoder,
    order_decoder,
    piece_decoder,
    setup_decoder,
)

SILENCE_S = 120.0
"""A worker that answers nothing for so long hangs: a record is read within seconds."""
STOP_S = 2.0


class SiftProgram(NamedTuple):
    """What is started for the slots of a pool."""

    target: str = "opilio.sift.pool:work"
    arguments: tuple[str, ...] = ()
    is_cluster: bool = False
    """One process serves all slots, whose number its first message gives."""


LOCAL = SiftProgram()


def default_workers() -> int:
    """One for each core: the process with the database has little to do while few pages are on topic."""
    return max(1, len(os.sched_getaffinity(0)))


class _Process(NamedTuple):
    child: Child
    slots: list[int]


class SiftPool:
    """Gives orders to workers and collects their pieces. Use it in a `with` block."""

    def __init__(self, setup: SiftSetup, workers: int = 0, program: SiftProgram = LOCAL) -> None:
        self._setup = encoder.encode(setup)
        self._program = program
        self._pieces: queue.SimpleQueue[tuple[Child, bytes]] = queue.SimpleQueue()
        self._ready: deque[SiftPiece] = deque()
        self._processes: dict[Child, _Process] = {}
        self._orders: dict[int, deque[int]] = {}
        """By slot: the units of the orders that are under way."""
        self._heard_s: dict[int, float] = {}
        self._losses = 0
        self.slots = 1 if program.is_cluster else workers or default_workers()

    def __enter__(self) -> SiftPool:
        try:
            if self._program.is_cluster:
                self._start([])
            else:
                for slot in range(self.slots):
                    self._start([slot])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.child.close(STOP_S if self._program.is_cluster else 0.0)
        self._processes.clear()

    def _start(self, slots: list[int]) -> None:
        child = start(self._program.target, *self._program.arguments)
        self._processes[child] = _Process(child, slots)  # from here on it is closed, whatever happens
        child.channel.send(self._setup)
        if self._program.is_cluster:
            problem, hint = greeting_decoder.decode(child.channel.receive() or encoder.encode(("Ray ended early", "")))
            if problem and not problem.isdigit():
                raise OpilioError(problem, hint)
            self.slots = int(problem)
            slots = list(range(self.slots))
            self._processes[child] = _Process(child, slots)
        now_s = time.monotonic()
        for slot in slots:
            self._orders[slot] = deque()
            self._heard_s[slot] = now_s
        threading.Thread(target=self._receive, args=(child,), daemon=True).start()

    def _receive(self, child: Child) -> None:
        """Pass on what a child says, until it ends."""
        while True:
            try:
                message = bytes(child.channel.receive())
            except OSError:
                message = b""
            self._pieces.put((child, message))
            if not message:
                return

    def give(self, order: SiftOrder) -> None:
        """Have an order carried out."""
        if not self._orders[order.slot]:
            self._heard_s[order.slot] = time.monotonic()
        self._orders[order.slot].append(order.unit)
        process = next(one for one in self._processes.values() if order.slot in one.slots)
        with contextlib.suppress(OSError):  # it has just ended, which is noticed when its messages are read
            process.child.channel.send(encoder.encode(order))

    def pieces(self, timeout_s: float) -> list[SiftPiece]:
        """All pieces that came; waits for the first at most `timeout_s`."""
        found = list(self._ready)
        self._ready.clear()
        try:
            while True:
                child, message = self._pieces.get(timeout=0.0 if found else timeout_s)
                found += self._take(child, message)
        except queue.Empty:
            pass
        self._end_silent()
        return found

    def _take(self, child: Child, message: bytes) -> list[SiftPiece]:
        process = self._processes.get(child)
        if process is None:
            return []
        if not message:
            return self._replace(process)
        piece = piece_decoder.decode(message)
        self._heard_s[piece.slot] = time.monotonic()
        if piece.lost:
            self._orders[piece.slot].clear()
        elif self._orders[piece.slot]:
            self._orders[piece.slot].popleft()
        return [piece]

    def _replace(self, process: _Process) -> list[SiftPiece]:
        """A process ended: its orders are lost, and another takes its place."""
        del self._processes[process.child]
        process.child.close()
        self._losses += 1
        if self._losses > MAX_RESTARTS:
            raise OpilioError(
                f"processes that read archives ended {self._losses} times",
                "Look at the messages above. What is committed is safe: run the same command again to go on.",
            )
        lost = [SiftPiece(slot, self._orders[slot][-1], lost=True) for slot in process.slots if self._orders[slot]]
        self._start(process.slots)
        return lost

    def _end_silent(self) -> None:
        now_s = time.monotonic()
        for process in list(self._processes.values()):
            if any(self._orders[slot] and now_s - self._heard_s[slot] > SILENCE_S for slot in process.slots):
                process.child.kill()


def work(channel: Channel) -> None:
    """The work of a process: orders in, pieces out, until the other end is closed."""
    collect_rarely()
    message = channel.receive()
    if message:
        sieve = Sieve(setup_decoder.decode(message))
        with contextlib.suppress(ConnectionError):  # the parent was killed while we worked
            while message := channel.receive():
                channel.send(encoder.encode(sieve.carry_out(order_decoder.decode(message))))
    os._exit(0)
