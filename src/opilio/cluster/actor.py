"""A worker as an actor of Ray: `WorkerActor` runs on some node, `ActorHandle` is its counterpart in the bridge.

Each call, or its answer, may be lost on its way and be made again. So orders and parcels are numbered, and what was
done or seen already is not done again. An actor that receives no calls any more ends: the bridge that made it is gone
or out of reach, and other actors may soon send requests to its hosts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
import ray
from ray.exceptions import ActorUnavailableError, ObjectLostError, RayError

import opilio
from opilio.cluster.workers import ALONE_S, POLL_S, WATCH_S, Parcel, leases_decoder
from opilio.crawl.messages import encoder, setup_decoder
from opilio.crawl.worker import Worker
from opilio.errors import OpilioError
from opilio.model import Lease
from opilio.process import collect_rarely
from opilio.store.warc import RecordMaker, RecordNote, WarcPlace

FLUSH_S = 0.01  # parcels are sent together that are ready within this time: a call costs as much as a small page
FLUSH_PARCELS = 32
AT_ONCE_LEASES = 16  # with fewer under way they are sent at once
AGAIN_S = 0.5  # before a call is made again that an actor could not be reached with


class _Record:
    """The archive of one lease: keeps the records for its parcel."""

    def __init__(self, maker: RecordMaker) -> None:
        self._maker = maker
        self.data = b""

    def write(
        self,
        url: str,
        ip: str,
        started_s: float,
        request_head: bytes,
        raw_head: bytes,
        raw_body: bytes,
        note: RecordNote,
    ) -> WarcPlace:
        records = self._maker.make(url, ip, started_s, request_head, raw_head, raw_body, note)
        before = len(self.data)  # of a rendered page, what its scripts requested
        self.data += records.data
        return WarcPlace("", before + records.response_at, len(records.data) - records.response_at)


class WorkerActor:
    """Carries out leases on a node. Ray calls its methods, several at a time, in one loop."""

    def __init__(self, setup: bytes, model: bytes, version: str) -> None:
        if version != opilio.__version__:
            raise OpilioError(f"this node has Opilio {opilio.__version__}, the crawl {version}", "Install the same.")
        collect_rarely()
        decoded = msgspec.structs.replace(setup_decoder.decode(setup), model=model)
        self._worker = Worker(decoded, archive=False)
        self._maker = RecordMaker() if self._worker.settings.store.warc else None
        self._orders = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: list[Parcel] = []
        self._arrived = asyncio.Event()
        self._given: tuple[int, bytes] = (0, b"")
        self._alone_s = 0.0
        self._watching: asyncio.Task[None] | None = None

    async def place(self) -> tuple[str, int]:
        """Where it runs: node and process. The first answer says that it is ready."""
        import ray  # noqa: PLC0415  (there, in a process of Ray's)

        self._watching = self._watching or asyncio.create_task(self._watch())
        return ray.get_runtime_context().get_node_id(), os.getpid()

    async def carry_out(self, number: int, leases: bytes, model: bytes | None, link_words: bool) -> None:
        """Begin an order, unless it was begun already. `model`: judge by it from now on."""
        if number <= self._orders:
            return
        self._orders = number
        if model is not None:
            self._worker.use_model(model)
        if link_words:
            self._worker.send_link_words()
        for lease in leases_decoder.decode(leases):
            task = asyncio.create_task(self._carry_out(lease))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, lease: Lease) -> None:
        record = _Record(self._maker) if self._maker is not None else None
        visit = await self._worker.visit(lease, record)
        self._ready.append(Parcel(visit, record.data if record is not None else b""))
        self._arrived.set()

    async def parcels(self, seen: int) -> tuple[int, bytes]:
        """The next parcels and their number, when those up to `seen` have arrived; no parcels after a while without."""
        self._alone_s = 0.0
        if self._given[0] <= seen and not self._ready:
            try:
                await asyncio.wait_for(self._arrived.wait(), POLL_S)
            except TimeoutError:
                return seen, b""
        if len(self._tasks) >= AT_ONCE_LEASES and len(self._ready) < FLUSH_PARCELS:
            await asyncio.sleep(FLUSH_S)
        if self._given[0] <= seen:
            self._given = seen + 1, encoder.encode(self._take())
        return self._given

    def _take(self) -> Sequence[Parcel]:
        parcels, self._ready = self._ready, []
        self._arrived.clear()
        return parcels

    async def _watch(self) -> None:
        """End the process when no calls come any more.

        The time is counted in steps of the loop, not by the clock: on a machine with too much to do, a call that has
        come may wait for long until it is heard.
        """
        while self._alone_s < ALONE_S:
            await asyncio.sleep(WATCH_S)
            self._alone_s += WATCH_S
        os._exit(1)


Answer = TypeVar("Answer")

_make_actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(WorkerActor)


class ActorHandle:
    """An actor and the leases it has. Orders to it are sent one after the other, and one call for parcels waits."""

    def __init__(self, number: int, setup: bytes, model: ray.ObjectRef[bytes], timeout_s: float) -> None:
        self.number = number
        self.leases: dict[int, Lease] = {}
        self.behind: list[Lease] = []
        """Leases of hosts that this actor had when it was lost: they wait until its own are back."""
        self.is_gone = False
        self.node = ""
        self.pid = 0
        self._timeout_s = timeout_s
        self._actor: Any = _make_actor.remote(setup, model, opilio.__version__)
        self._outgoing: list[Lease] = []
        self._model: ray.ObjectRef[bytes] | None = None
        self._link_words = False
        self._wanted = asyncio.Event()

    async def ready(self) -> None:
        """Wait until it runs, for as long as Ray needs to find room. Raises when it cannot be made."""
        self.node, self.pid = await self._actor.place.remote()

    def give(self, lease: Lease) -> None:
        """Have a lease carried out."""
        self.leases[lease.oid] = lease
        self._outgoing.append(lease)
        self._wanted.set()

    def use_model(self, model: ray.ObjectRef[bytes]) -> None:
        """Have it judge by another model."""
        self._model = model
        self._wanted.set()

    def send_link_words(self) -> None:
        """Have it give the words of links."""
        self._link_words = True
        self._wanted.set()

    async def work(self, on_parcels: Callable[[ActorHandle, bytes], None]) -> str:
        """Send orders and take parcels until the actor is lost. Returns why."""
        tasks = {asyncio.create_task(self._send_orders()), asyncio.create_task(self._take_parcels(on_parcels))}
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.is_gone = True
        self.end()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError | RayError):
                raise error
        return first_line(next(iter(done)).exception())

    def end(self) -> None:
        """End the actor, if it still runs."""
        ray.kill(self._actor)

    async def _send_orders(self) -> None:
        number = 0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            number += 1
            leases, self._outgoing = self._outgoing, []
            order = number, encoder.encode(leases), self._model, self._link_words
            self._model, self._link_words = None, False
            await self._call(lambda order=order: self._actor.carry_out.remote(*order))  # type: ignore[misc]

    async def _take_parcels(self, on_parcels: Callable[[ActorHandle, bytes], None]) -> None:
        seen = 0
        while True:
            number, parcels = await self._call(lambda seen=seen: self._actor.parcels.remote(seen))  # type: ignore[misc]
            if parcels:
                seen = number
                on_parcels(self, parcels)

    async def _call(self, make: Callable[[], Awaitable[Answer]]) -> Answer:
        """Call until there is an answer; raises when the actor is lost."""
        while True:
            call = asyncio.ensure_future(_answer(make()))
            try:
                if not (await asyncio.wait({call}, timeout=self._timeout_s))[0]:
                    self.end()  # a page that it cannot finish: the others must not wait for it for ever
                return await call
            except (ActorUnavailableError, ObjectLostError):  # it may live: the call, or its answer, was lost
                await asyncio.sleep(AGAIN_S)
            finally:
                call.cancel()


async def _answer(reference: Awaitable[Answer]) -> Answer:
    return await reference


def first_line(error: BaseException | None) -> str:
    """What Ray says about a lost actor, in one line: the last, when Ray shows a traceback of ours."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return (lines[-1] if "Traceback" in str(error) or "ray::" in str(error) else lines[0])[:300]
