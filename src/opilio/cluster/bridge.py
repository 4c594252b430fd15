"""The bridge between the engine and the actors: leases go out to them, visits come back, none is lost between.

An actor has a slot. When it is lost, another is made in its slot, and its leases come back, once: at once when its node
lives, for then its process is known to have ended; after a while when the node is lost as well, for it might only be
out of reach and still be fetching (`workers.orphaned_s`).

A host stays with the actor that has leases of it under way, even a lost one, until the last of them is back: so no two
actors send requests to it at once. When it has none under way, rendezvous hashing gives it to one of the ready actors:
the same as before, unless that one is gone; a new actor takes its share from all others evenly.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import ray
import xxhash
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group

from opilio.cluster.actor import ActorHandle, first_line
from opilio.cluster.workers import ClosedParcel, orphaned_s, parcels_decoder, placed
from opilio.crawl.messages import WorkerOrder, WorkerSetup, encoder
from opilio.crawl.worker_pool import SILENCE_REQUESTS
from opilio.errors import StoreError
from opilio.model import Fetch, Lease, Outcome, Visit, host_of
from opilio.settings import from_table
from opilio.store.warc import WarcFiles, WarcRecords

MAX_REMEMBERED = 100_000


class Capacity:
    """Counts slots. One CPU of the engine's own node is kept for the engine, by a reservation of Ray's."""

    def __init__(self, workers: int) -> None:
        """`workers`: how many the user wants; 0: one for each CPU but the engine's."""
        self._workers = workers
        self._own_node = ray.get_runtime_context().get_node_id()
        self._reserved: PlacementGroup | None = None

    def slots(self) -> int:
        """How many workers there should be now."""
        if self._workers:
            return self._workers
        nodes = _live_nodes()
        cpus = sum(int(node["Resources"].get("CPU", 0)) for node in nodes)
        own = next((node for node in nodes if node["NodeID"] == self._own_node), None)
        if own is None or not own["Resources"].get("CPU") or cpus < 2:
            return max(1, cpus)
        if self._reserved is None:
            self._reserved = placement_group([{"CPU": 1, f"node:{own['NodeManagerAddress']}": 0.001}])
        return cpus - 1

    @staticmethod
    def has_node(node_id: str) -> bool:
        """Whether a node is alive, as far as the cluster knows."""
        return any(node["NodeID"] == node_id for node in _live_nodes())


def _live_nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


class Numbered(Protocol):
    """Something with a number that no other has."""

    @property
    def number(self) -> int:
        """A number that no other has."""
        ...


Who = TypeVar("Who", bound=Numbered)


class Placement(Generic[Who]):
    """Gives hosts to those who are ready."""

    def __init__(self) -> None:
        self._ready: dict[int, Who] = {}
        self._under_way: dict[str, tuple[Who, int]] = {}
        self._chosen: dict[str, Who] = {}  # by hashing; looked up with every lease

    def add(self, who: Who) -> None:
        """Give hosts to `who` too from now on."""
        self._ready[who.number] = who
        self._chosen.clear()

    def remove(self, who: Who) -> None:
        """Give no further hosts to `who`; those with leases under way stay there until `ended`."""
        if self._ready.pop(who.number, None) is not None:
            self._chosen.clear()

    @property
    def ready(self) -> int:
        """How many there are to give hosts to."""
        return len(self._ready)

    def of(self, host: str) -> Who | None:
        """Who has a host; None when nobody is ready."""
        if host in self._under_way:
            return self._under_way[host][0]
        if host not in self._chosen:
            if not self._ready:
                return None
            if len(self._chosen) >= MAX_REMEMBERED:
                self._chosen.clear()
            name = host.encode()
            number = max(self._ready, key=lambda number: (xxhash.xxh3_64_intdigest(name, seed=number), number))
            self._chosen[host] = self._ready[number]
        return self._chosen[host]

    def begun(self, host: str, who: Who) -> None:
        """A lease of a host was given to `who`."""
        self._under_way[host] = who, self._under_way.get(host, (who, 0))[1] + 1

    def ended(self, host: str) -> None:
        """A lease of a host came back."""
        who, count = self._under_way.pop(host)
        if count > 1:
            self._under_way[host] = who, count - 1


LOOK_S = 3.0  # how often the number of slots follows the size of the cluster
AGAIN_S = 2.0  # before an actor is made again in a slot where one could not be made; longer each time
MAX_AGAIN_S = 60.0
MAX_FAILURES = 3  # in a row, with no actor that works: something is wrong with the cluster
ROOM_S = 20.0  # how long the first actor may take before the user hears that there is no room


class Bridge:
    """Actors on a cluster, as one worker that the engine can talk to."""

    def __init__(
        self, setup: WorkerSetup, workers: int, send: Callable[[list[Any]], object], tell: Callable[[str], object]
    ) -> None:
        """`send` gives visits to the engine; `tell` says something to the user."""
        settings = from_table(setup.settings, "settings of the crawl")
        self._send = send
        self._tell = tell
        self._capacity = Capacity(workers)
        self._hold_s = orphaned_s(setup)
        self._timeout_s = SILENCE_REQUESTS * settings.fetch.total_timeout_s
        self._setup = msgspec.structs.replace(setup, model=b"")
        self._model = ray.put(setup.model)
        self._files: WarcFiles | None = None
        if settings.store.warc:
            self._files = WarcFiles(
                Path(setup.warc_folder), setup.name,
                max_bytes=settings.store.warc_max_bytes, user_agent=settings.user_agent,
            )  # fmt: skip
        self._placement: Placement[ActorHandle] = Placement()
        self._numbers = itertools.count()
        self._slots: dict[asyncio.Task[None], ActorHandle | None] = {}
        self._handles: set[ActorHandle] = set()
        self._waiting: list[Lease] = []
        self._changed = asyncio.Event()
        self._problem = ""
        self._failures = 0
        self._told: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.defect: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails with what must not happen."""

    # -- the engine

    async def start(self) -> str:
        """Make actors; wait for the first, if there is room for it. Returns what is wrong, '' for nothing."""
        self._spawn(self._follow_capacity())
        deadline_s = time.monotonic() + ROOM_S
        while not self._placement.ready and not self._problem:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), deadline_s - time.monotonic())
            except TimeoutError:
                self._tell("the cluster has no CPU free for a worker; the crawl waits for one")
                break
        return self._problem

    def take(self, order: WorkerOrder) -> None:
        """Carry out an order of the engine."""
        if order.model:
            self._model = ray.put(order.model)
            for handle in self._handles:
                handle.use_model(self._model)
        if order.link_words:
            self._setup = msgspec.structs.replace(self._setup, link_words=True)
            for handle in self._handles:
                handle.send_link_words()
        self._give(order.leases)

    def _give(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            host = host_of(lease.url)
            handle = self._placement.of(host)
            if handle is None:
                self._waiting.append(lease)
            elif handle.is_gone:
                handle.behind.append(lease)
            else:
                self._placement.begun(host, handle)
                handle.give(lease)

    # -- actors

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.defect.done():
            self.defect.set_exception(error)

    async def _follow_capacity(self) -> None:
        """Have as many slots as the cluster has room for, now and when nodes join; fewer when they go."""
        while True:
            wanted = await asyncio.to_thread(self._capacity.slots)
            while len(self._slots) < wanted:
                self._slots[self._spawn(self._keep_slot())] = None
            idle = [task for task, handle in self._slots.items() if handle is None]
            for task in idle[: max(0, len(self._slots) - wanted)]:
                task.cancel()
                del self._slots[task]
            await asyncio.sleep(LOOK_S)

    async def _keep_slot(self) -> None:
        """Have an actor in a slot, always."""
        slot = asyncio.current_task()
        assert slot is not None
        again_s = AGAIN_S
        while True:
            handle = ActorHandle(next(self._numbers), encoder.encode(self._setup), self._model, self._timeout_s)
            self._handles.add(handle)
            try:
                await handle.ready()
                again_s = AGAIN_S
                self._slots[slot] = handle
                self._begin(handle)
                reason = await handle.work(self._arrived)
                await self._lose(handle, reason)
                self._slots[slot] = None
            except RayError as error:
                self._not_made(error)
                await asyncio.sleep(again_s)
                again_s = min(2 * again_s, MAX_AGAIN_S)
            finally:
                self._handles.discard(handle)
                handle.end()

    def _begin(self, handle: ActorHandle) -> None:
        self._failures = 0
        self._placement.add(handle)
        self._changed.set()
        waiting, self._waiting = self._waiting, []
        self._give(waiting)

    def _not_made(self, error: RayError) -> None:
        """Tell why an actor could not be made; once, for it may happen again and again."""
        reason = first_line(error)
        if reason not in self._told:
            self._told.add(reason)
            self._tell(f"a worker could not be started on the cluster: {reason}")
        self._failures += 1
        if self._failures >= MAX_FAILURES and not self._placement.ready:
            self._problem = f"no worker can be started on the cluster: {reason}"
            self._changed.set()

    async def _lose(self, handle: ActorHandle, reason: str) -> None:
        """Let another take the place of a lost actor, and give its leases back when it is surely silent."""
        self._placement.remove(handle)
        node_lives = await asyncio.to_thread(self._capacity.has_node, handle.node)
        self._tell(f"a worker was lost{'' if node_lives else ' with its node'}, {len(handle.leases)} leases: {reason}")
        self._spawn(self._give_back(handle, 0.0 if node_lives else self._hold_s))

    async def _give_back(self, handle: ActorHandle, after_s: float) -> None:
        await asyncio.sleep(after_s)
        fetch = Fetch(
            Outcome.WORKER_LOST, started_s=time.time(), detail=f"the worker on node {handle.node[:8]} was lost"
        )
        self._send([Visit(lease, fetch) for lease in handle.leases.values()])
        for lease in handle.leases.values():
            self._placement.ended(host_of(lease.url))
        handle.leases.clear()
        behind, handle.behind = handle.behind, []
        self._give(behind)

    # -- visits

    def _arrived(self, handle: ActorHandle, parcels: bytes) -> None:
        """Write the records of visits down, then send the visits on."""
        visits = []
        for parcel in parcels_decoder.decode(parcels):
            if handle.leases.pop(parcel.visit.lease.oid, None) is not None:
                self._placement.ended(host_of(parcel.visit.lease.url))
                visits.append(self._archived(parcel))
        self._send(visits)

    def _archived(self, parcel: ClosedParcel) -> Any:
        visit, fetch = parcel.visit, parcel.visit.fetch
        if self._files is None or not parcel.records:
            return visit
        response_at = fetch.warc_offset if fetch.warc_bytes else 0
        try:
            file, offset, size = self._files.append(WarcRecords(parcel.records, response_at))
        except StoreError as error:
            lost = Fetch(Outcome.WORKER_LOST, started_s=time.time(), detail=error.message[:300])
            return placed(visit, lost, fatal=error.message)
        if not fetch.warc_bytes:  # a defect of ours after the answer was kept: its visit does not speak of it
            return visit
        return placed(visit, msgspec.structs.replace(fetch, warc_file=file, warc_offset=offset, warc_bytes=size))
