"""Sifting on a cluster: sieves are actors of Ray, and a process of ours passes orders and pieces on.

As in a crawl, that process stands between because a driver of Ray ends at once when its node is lost; then it is
started again, and what was under way is read again. Actors open the archives themselves: every node must reach them by
the same path or address. Bytes of pages off topic do not leave their node.
"""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from typing import Any, TextIO

import uvloop

from opilio.cluster.process import CONNECT_S, connect, own_stderr
from opilio.cluster.workers import check_address, check_ray
from opilio.crawl.messages import encoder
from opilio.errors import describe_error
from opilio.process import Channel, collect_rarely, end_with_parent, frame, read_message
from opilio.sift.pool import SiftProgram
from opilio.sift.sieve import Sieve, SiftOrder, SiftPiece, order_decoder, setup_decoder

_HINT = "Start it: ray start --head --port 6379 (here), ray start --address HOST:6379 (on other machines)."


def sift_on_ray(address: str, workers: int = 0) -> SiftProgram:
    """Sieves on the Ray cluster at `address`; `workers`: how many, 0: one for each CPU but one."""
    check_ray("sifting")
    check_address(address)
    return SiftProgram("opilio.cluster.sifting:run_sieves", (address, str(workers)), is_cluster=True)


class SieveActor:
    """A sieve on a node."""

    def __init__(self, setup: bytes) -> None:
        collect_rarely()
        self._sieve = Sieve(setup_decoder.decode(setup))

    def carry_out(self, order: bytes) -> bytes:
        """The piece that an order asks for."""
        return encoder.encode(self._sieve.carry_out(order_decoder.decode(order)))


class _Slot:
    """An actor, and the orders that it has not answered."""

    def __init__(self, setup: Any) -> None:
        import ray  # noqa: PLC0415  (Ray must be there)

        self._make: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(SieveActor)
        self._setup = setup
        self._actor: Any = self._make.remote(setup)
        self.orders: asyncio.Queue[tuple[SiftOrder, Any]] = asyncio.Queue()
        self._is_lost = False

    def give(self, order: SiftOrder, message: bytes) -> None:
        """Have an order carried out; after a loss, only one that begins with an archive is."""
        if self._is_lost:
            if order.archive is None:
                return
            self._is_lost = False
            self._actor = self._make.remote(self._setup)
        self.orders.put_nowait((order, self._actor.carry_out.remote(message)))

    async def pieces(self, send: Any) -> None:
        """Send the answers in the order of the orders."""
        from ray.exceptions import RayError  # noqa: PLC0415

        while True:
            order, answer = await self.orders.get()
            try:
                send(await answer)
            except RayError:
                if self._is_lost:
                    continue  # another order of the same actor
                self._is_lost = True
                while not self.orders.empty():
                    self.orders.get_nowait()
                send(encoder.encode(SiftPiece(order.slot, order.unit, lost=True)))


async def _serve(parent: Channel, address: str, workers: int, tell: TextIO) -> None:
    reader, writer = await parent.streams()
    setup = await read_message(reader)
    try:
        connecting = asyncio.to_thread(connect, address, 0.0, tell)
        problem = await asyncio.wait_for(asyncio.shield(connecting), CONNECT_S)
    except TimeoutError:
        problem = f"no Ray cluster can be reached at {address}: no answer within {CONNECT_S:g} s"
    if problem:
        writer.write(frame(encoder.encode((problem, _HINT))))
        await writer.drain()
        return
    import ray  # noqa: PLC0415  (it takes a second, and its environment must be set before)

    cpus = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
    count = workers or max(1, cpus - 1)
    shared = ray.put(setup)
    slots = [_Slot(shared) for _ in range(count)]

    def send(piece: bytes) -> None:
        writer.write(frame(piece))

    writer.write(frame(encoder.encode((str(count), ""))))
    tasks = [asyncio.create_task(slot.pieces(send)) for slot in slots]
    while message := await read_message(reader):
        order = order_decoder.decode(message)
        slots[order.slot].give(order, message)
    for task in tasks:
        task.cancel()


async def _serve_and_end(parent: Channel, address: str, workers: int, tell: TextIO) -> None:
    try:
        await _serve(parent, address, workers, tell)
    except Exception as error:
        print(f"opilio: {describe_error(error)}", file=tell)
        traceback.print_exc(file=tell)
        tell.flush()
        os._exit(1)
    os._exit(0)


def run_sieves(parent: Channel, address: str, workers: str) -> None:
    """The work of the process."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_LOG_TO_STDERR", "0")
    collect_rarely()
    end_with_parent(parent, signal.SIGKILL)
    uvloop.run(_serve_and_end(parent, address, int(workers), own_stderr()))
