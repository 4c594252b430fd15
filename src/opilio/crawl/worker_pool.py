"""Where workers run: inside the engine's own loop, or in processes of their own. One Protocol, one contract test.

`ProcessWorkers` gives leases to worker processes and receives their visits over a channel (`opilio.process`); the
messages are in `messages.py`. `work` is what such a process does. When the engine's end of the channel closes, for
whatever reason, the process ends: no worker outlives its engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from opilio.crawl.messages import (
    WorkerOrder,
    WorkerSetup,
    encoder,
    greeting_decoder,
    order_decoder,
    setup_decoder,
    visits_decoder,
)
from opilio.errors import OpilioError
from opilio.model import Fetch, Lease, Outcome, Visit, host_of
from opilio.process import (
    Channel,
    Child,
    collect_rarely,
    fork,
    frame,
    importing,
    name_process,
    read_message,
    release_libraries,
    start,
)
from opilio.settings import from_table

if TYPE_CHECKING:  # with libcurl
    from opilio.fetch import Transport

NAME = "opilio-worker"
SILENCE_REQUESTS = 20  # a worker that is silent for this many times the longest request hangs
MAX_RESTARTS = 20  # of worker processes within RESTARTS_S: more means that something is wrong with the machine
RESTARTS_S = 3600.0
STOP_S = 5.0  # a process that has not ended by itself after this time is killed
FLUSH_S = 0.015
"""Visits that end within this time are sent together: the engine then scores the links of several pages at once, which
takes little longer than for one. A visit is sent at once when nothing else is under way."""
FLUSH_VISITS = 32
RELEASE_VISITS = 500  # so many visits are more than a start: the libraries' pages that only it needed are given back


class Program(NamedTuple):
    """What is started as a worker process."""

    target: str = "opilio.crawl.worker_pool:work"
    arguments: tuple[str, ...] = ()
    greets: bool = False
    """Whether its first message says that it is ready, or why it cannot be."""
    hold_s: float = 0.0
    """How long after its end the requests that it had made may still be under way elsewhere."""
    hint: str = "Look at the messages above; with `--set run.workers=-1` the work is done inside the engine."
    """What to do when it ends again and again."""


WORKER = Program()


def default_count() -> int:
    """One worker for each core but one, which the engine and the database use well."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


_SHARED = (
    "importlib.metadata", "numpy", "uvloop", "opilio.analyze.content", "opilio.analyze.sketch", "opilio.analyze.terms",
    "opilio.features.encoder", "opilio.fetch.addresses", "opilio.fetch.site_rights", "opilio.store.warc",
)  # fmt: skip
"""What both an engine and its workers need: it is imported before they part."""
_forked: list[Child] = []


def fork_early(count: int) -> None:
    """Fork worker processes for the crawl that this process is about to start. It has imported nothing large yet."""
    for module in _SHARED:
        importlib.import_module(module)
    _forked.extend(fork(WORKER.target, *WORKER.arguments) for _ in range(count or default_count()))


@contextlib.contextmanager
def started_early(count: int) -> Iterator[list[Child]]:
    """Worker processes that load their modules while the engine prepares itself; those that nobody takes are ended.

    They are those that were forked, or new ones.
    """
    missing = max(0, (count or default_count()) - len(_forked))
    children = [*_forked, *(start(WORKER.target, *WORKER.arguments) for _ in range(missing))]
    _forked.clear()
    try:
        yield children
    finally:
        for child in children:
            child.close()


class Workers(Protocol):
    """Carries out leases somewhere. Every lease that was submitted comes back as exactly one visit."""

    async def start(self) -> None:
        """Be ready for leases, unless `give_up` is called meanwhile."""
        ...

    def give_up(self) -> None:
        """Let a `start` that still waits for something return: the crawl ends before it began. Returns at once."""
        ...

    def submit(self, leases: Sequence[Lease]) -> None:
        """Have leases carried out; returns at once."""
        ...

    def use_model(self, model: bytes) -> None:
        """Judge by another model from now on; returns at once. Leases submitted later are judged by it."""
        ...

    def send_link_words(self) -> None:
        """Give the words of links with each document from now on; returns at once."""
        ...

    async def visits(self, timeout_s: float) -> list[Visit]:
        """The visits that ended since the last call; waits for the first at most `timeout_s`."""
        ...

    async def close(self) -> None:
        """Stop; leases still under way are forgotten."""
        ...


class Inbox:
    """Visits that arrived and were not collected yet."""

    def __init__(self) -> None:
        self._visits: list[Visit] = []
        self._arrived = asyncio.Event()

    def put(self, visits: Sequence[Visit]) -> None:
        """Visits arrived."""
        self._visits.extend(visits)
        self._arrived.set()

    async def get(self, timeout_s: float) -> list[Visit]:
        """All that arrived since the last call; waits for the first at most `timeout_s`."""
        if not self._visits:
            try:
                await asyncio.wait_for(self._arrived.wait(), timeout_s)
            except TimeoutError:
                return []
        visits, self._visits = self._visits, []
        self._arrived.clear()
        return visits


class InlineWorkers:
    """One worker inside the engine's loop: for tests, small machines and recorded webs."""

    def __init__(self, setup: WorkerSetup, transport: Transport | None = None) -> None:
        from opilio.crawl.worker import Worker  # noqa: PLC0415  (an engine with worker processes need not load it)

        self._worker = Worker(setup, transport)
        self._inbox = Inbox()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Nothing to start."""

    def give_up(self) -> None:
        """Nothing is waited for."""

    def submit(self, leases: Sequence[Lease]) -> None:
        """Start a task for each lease."""
        for lease in leases:
            task = asyncio.create_task(self._carry_out(lease))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def use_model(self, model: bytes) -> None:
        """Tell the worker."""
        self._worker.use_model(model)

    def send_link_words(self) -> None:
        """Tell the worker."""
        self._worker.send_link_words()

    async def _carry_out(self, lease: Lease) -> None:
        self._inbox.put([await self._worker.visit(lease)])

    async def visits(self, timeout_s: float) -> list[Visit]:
        """What ended since the last call."""
        return await self._inbox.get(timeout_s)

    async def close(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._worker.aclose()


class WorkerProcess:
    """One worker process and its leases."""

    def __init__(self, name: str, setup: WorkerSetup, program: Program, started: list[Child]) -> None:
        """The first process is taken from those that are `started` already, if there are any."""
        self.name = name
        self._started = started
        self.program = program
        self.is_ready = False
        self.setup = msgspec.structs.replace(setup, name=name)
        self.leases: dict[int, Lease] = {}
        self.heard_s = time.monotonic()  # the last message, or the first lease since it had none
        self.child: Child | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def start(self) -> asyncio.StreamReader:
        """Start the process, and send it the leases that were given while there was none. Returns its messages."""
        self.child = self._started.pop() if self._started else start(self.program.target, *self.program.arguments)
        reader, self.writer = await self.child.channel.streams(limit=2**20)
        self.writer.write(frame(encoder.encode(self.setup)))
        self.setup = msgspec.structs.replace(self.setup, earlier=self.setup.earlier + 1)
        if self.leases:
            self.writer.write(frame(encoder.encode(WorkerOrder(list(self.leases.values())))))
        return reader

    def send(self, leases: list[Lease]) -> None:
        """Carry out leases."""
        if not self.leases:
            self.heard_s = time.monotonic()
        self.leases.update((lease.oid, lease) for lease in leases)
        self._give(WorkerOrder(leases))

    def use_model(self, model: bytes) -> None:
        """Judge pages by another model from now on."""
        self.setup = msgspec.structs.replace(self.setup, model=model)  # for a process that replaces this one
        self._give(WorkerOrder(model=model))

    def send_link_words(self) -> None:
        """Send the words of links with each document from now on."""
        self.setup = msgspec.structs.replace(self.setup, link_words=True)
        self._give(WorkerOrder(link_words=True))

    def _give(self, order: WorkerOrder) -> None:
        if self.writer is not None and not self.writer.is_closing():  # else it has just died, which is noticed soon
            self.writer.write(frame(encoder.encode(order)))

    async def stop(self) -> None:
        """End the process; one that does not end by itself is killed."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
        if self.child is not None:
            await asyncio.to_thread(self.child.close, STOP_S)


class ProcessWorkers:
    """Workers in processes of their own. A host's leases go to one process, which keeps its connections.

    A process that dies is started again; the leases it held come back with the outcome `worker-lost`.
    """

    def __init__(
        self, setup: WorkerSetup, count: int = 0, program: Program = WORKER, started: list[Child] | None = None
    ) -> None:
        """`started` are processes of the program that wait for work; those that are used leave the list."""
        self._inbox = Inbox()
        self._program = program
        waiting = started if started is not None else []
        self._processes = [WorkerProcess(f"w{i}", setup, program, waiting) for i in range(count or default_count())]
        self._tasks: list[asyncio.Task[None]] = []
        self._restarts_s: deque[float] = deque(maxlen=MAX_RESTARTS + 1)
        self._silence_s = SILENCE_REQUESTS * from_table(setup.settings, "settings of the crawl").fetch.total_timeout_s
        self._failure: OpilioError | None = None
        self._is_given_up = False

    async def start(self) -> None:
        """Start the processes; wait until they are ready; one that connects to a cluster may take long."""
        self._tasks = [asyncio.create_task(self._keep_running(process)) for process in self._processes]
        while not self._is_given_up and not all(process.is_ready for process in self._processes):
            if self._failure is not None:
                await self.close()
                raise self._failure
            await asyncio.sleep(0.001)

    def give_up(self) -> None:
        """Wait for no process any more; `close` ends them."""
        self._is_given_up = True

    def submit(self, leases: Sequence[Lease]) -> None:
        """Send each lease to the process of its host."""
        shares: dict[int, list[Lease]] = {}
        for lease in leases:
            shares.setdefault(hash(host_of(lease.url)) % len(self._processes), []).append(lease)
        for index, share in shares.items():
            self._processes[index].send(share)

    def use_model(self, model: bytes) -> None:
        """Tell all processes."""
        for process in self._processes:
            process.use_model(model)

    def send_link_words(self) -> None:
        """Tell all processes."""
        for process in self._processes:
            process.send_link_words()

    async def visits(self, timeout_s: float) -> list[Visit]:
        """What ended since the last call."""
        if self._failure is not None:
            raise self._failure
        return await self._inbox.get(timeout_s)

    async def _keep_running(self, process: WorkerProcess) -> None:
        while self._failure is None:
            reader = await process.start()
            if await self._await_ready(reader):
                process.is_ready = True
                await self._receive(process, reader)
            await process.stop()
            self._count_restart()
            lost = list(process.leases.values())
            process.leases.clear()
            await asyncio.sleep(self._program.hold_s)
            fetch = Fetch(Outcome.WORKER_LOST, started_s=time.time(), detail=f"the worker process {process.name} ended")
            self._inbox.put([Visit(lease, fetch) for lease in lost])

    async def _await_ready(self, reader: asyncio.StreamReader) -> bool:
        """Wait for the ready message of a process, if its program sends one. Whether it is ready."""
        if not self._program.greets:
            return True
        greeting = await read_message(reader)
        if not greeting:
            return False
        problem, hint = greeting_decoder.decode(greeting)
        if problem:
            self._failure = OpilioError(problem, hint)
        return not problem

    async def _receive(self, process: WorkerProcess, reader: asyncio.StreamReader) -> None:
        """Take visits from a process until it ends."""
        while message := await self._next_message(process, reader):
            visits = visits_decoder.decode(message)
            for visit in visits:
                process.leases.pop(visit.lease.oid, None)
            self._inbox.put(visits)

    def _count_restart(self) -> None:
        now_s = time.monotonic()
        self._restarts_s.append(now_s)
        if len(self._restarts_s) > MAX_RESTARTS and now_s - self._restarts_s[0] < RESTARTS_S:
            self._failure = self._failure or OpilioError(
                f"worker processes died {len(self._restarts_s)} times", self._program.hint
            )

    async def _next_message(self, process: WorkerProcess, reader: asyncio.StreamReader) -> bytes:
        """What a process says next; b'' when it ended. One that is silent for too long over its leases is ended."""
        reading = asyncio.ensure_future(read_message(reader))
        try:
            while not (await asyncio.wait({reading}, timeout=self._silence_s / 4))[0]:
                silent_s = time.monotonic() - process.heard_s
                if process.leases and silent_s > self._silence_s and process.child is not None:
                    process.child.kill()  # a page that it cannot finish: the others must not wait for it for ever
            return reading.result()
        finally:
            reading.cancel()
            process.heard_s = time.monotonic()

    async def close(self) -> None:
        """End the processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(process.stop() for process in self._processes))


# -- in the worker process


class _Sender:
    """Collects visits and sends them together, when there are many."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.under_way = 0
        self._visits: list[Visit] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, visit: Visit) -> None:
        self._visits.append(visit)
        self.under_way -= 1
        if len(self._visits) >= FLUSH_VISITS or not self.under_way:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._visits:
            self._writer.write(frame(encoder.encode(self._visits)))
            self._visits = []


async def _serve(channel: Channel) -> None:
    """Carry out leases until the engine closes the channel."""
    with importing():
        from opilio.crawl.worker import Worker  # noqa: PLC0415  (an engine with worker processes need not load it)

    reader, writer = await channel.streams()
    setup = await read_message(reader)
    if not setup:
        return
    worker = Worker(setup_decoder.decode(setup))
    sender = _Sender(writer)
    tasks: set[asyncio.Task[None]] = set()
    until_release = RELEASE_VISITS

    async def carry_out(lease: Lease) -> None:
        sender.add(await worker.visit(lease))

    while message := await read_message(reader):
        order = order_decoder.decode(message)
        if order.model:
            worker.use_model(order.model)
        if order.link_words:
            worker.send_link_words()
        sender.under_way += len(order.leases)
        if 0 < until_release <= len(order.leases):
            release_libraries()
        until_release -= len(order.leases)
        for lease in order.leases:
            task = asyncio.create_task(carry_out(lease))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    for task in tasks:
        task.cancel()
    await worker.aclose()


def work(channel: Channel) -> None:
    """The work of a worker process."""
    import uvloop  # noqa: PLC0415

    name_process(NAME)  # one that was forked has the command line of its engine
    collect_rarely()
    uvloop.run(_serve(channel))
    os._exit(0)  # all is closed; to free a million remembered words one by one takes a tenth of a second
