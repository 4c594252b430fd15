"""A process that the engine starts and gives leases to: what runs in it, and how it is spoken to."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from typing import NamedTuple

import msgspec

from opilio.crawl.messages import Order, WorkerSetup, encoder, frame
from opilio.model import Lease
from opilio.threads import single_threaded


class Program(NamedTuple):
    """What is started as a worker process."""

    module: str = "opilio.crawl.process"
    arguments: tuple[str, ...] = ()
    greets: bool = False
    """Whether it says first that it is ready, or why it cannot be."""
    hold_s: float = 0.0
    """How long after its end the requests that it had made may still be under way elsewhere."""
    hint: str = "Look at the messages above; with `--set run.workers=-1` the work is done inside the engine."
    """What to do when it ends again and again."""


WORKER = Program()


class Child:
    """One worker process and the leases it holds."""

    def __init__(self, name: str, setup: WorkerSetup, program: Program) -> None:
        self.name = name
        self.program = program
        self.is_ready = False
        self.setup = msgspec.structs.replace(setup, name=name)
        self.leases: dict[int, Lease] = {}
        self.heard_s = time.monotonic()  # the last message, or the first lease since it had none
        self.process: subprocess.Popen[bytes] | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def start(self) -> asyncio.StreamReader:
        """Start the process, with the leases that were given while there was none. Returns what it will say."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", self.program.module, str(theirs.fileno()), *self.program.arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=single_threaded(),
                process_group=0,  # Ctrl-C is the engine's to handle, also while the process is still starting
            )
        reader, self.writer = await asyncio.open_connection(sock=ours, limit=2**20)
        self.writer.write(frame(encoder.encode(self.setup)))
        self.setup = msgspec.structs.replace(self.setup, earlier=self.setup.earlier + 1)
        if self.leases:
            self.writer.write(frame(encoder.encode(Order(list(self.leases.values())))))
        return reader

    def send(self, leases: list[Lease]) -> None:
        """Have leases carried out."""
        if not self.leases:
            self.heard_s = time.monotonic()
        self.leases.update((lease.oid, lease) for lease in leases)
        if self.writer is not None:
            self.writer.write(frame(encoder.encode(Order(leases))))

    def learn(self, model: bytes) -> None:
        """Have pages judged by another model."""
        self.setup = msgspec.structs.replace(self.setup, model=model)  # for a process that takes this one's place
        if self.writer is not None:
            self.writer.write(frame(encoder.encode(Order(model=model))))

    def send_link_words(self) -> None:
        """Have the words of links given with each document."""
        self.setup = msgspec.structs.replace(self.setup, link_words=True)
        if self.writer is not None:
            self.writer.write(frame(encoder.encode(Order(link_words=True))))

    async def stop(self) -> None:
        """End the process; one that does not end by itself is killed."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
        if self.process is not None:
            try:
                await asyncio.to_thread(self.process.wait, 5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                await asyncio.to_thread(self.process.wait)
