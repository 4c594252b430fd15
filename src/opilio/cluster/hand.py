"""One actor as the bridge sees it, from its making to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import ray
from ray.exceptions import ActorUnavailableError, ObjectLostError, RayError

import opilio
from opilio.cluster.actor import WorkerActor
from opilio.crawl.messages import encoder
from opilio.model import Lease

AGAIN_S = 0.5  # before a call is made again that an actor could not be reached with
Answer = TypeVar("Answer")

_make_actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(WorkerActor)


class Hand:
    """An actor and the leases it has. Orders to it are sent one after the other, and one call for parcels waits."""

    def __init__(self, number: int, setup: bytes, model: ray.ObjectRef[bytes], patience_s: float) -> None:
        self.number = number
        self.leases: dict[int, Lease] = {}
        self.behind: list[Lease] = []
        """Leases of hosts that this actor had when it was lost: they wait until its own are back."""
        self.is_gone = False
        self.node = ""
        self.pid = 0
        self._patience_s = patience_s
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

    def learn(self, model: ray.ObjectRef[bytes]) -> None:
        """Have it judge by another model."""
        self._model = model
        self._wanted.set()

    def send_link_words(self) -> None:
        """Have it give the words of links."""
        self._link_words = True
        self._wanted.set()

    async def work(self, on_parcels: Callable[[Hand, bytes], None]) -> str:
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

    async def _take_parcels(self, on_parcels: Callable[[Hand, bytes], None]) -> None:
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
                if not (await asyncio.wait({call}, timeout=self._patience_s))[0]:
                    self.end()  # a page that it cannot finish: the others must not wait for it for ever
                return await call
            except (ActorUnavailableError, ObjectLostError):  # it may live: the call, or its answer, was lost
                await asyncio.sleep(AGAIN_S)
            finally:
                call.cancel()


async def _answer(reference: Awaitable[Answer]) -> Answer:
    return await reference


def first_line(error: BaseException | None) -> str:
    """What Ray says of a lost actor, in a line: the last one, where it shows the traceback of ours."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return (lines[-1] if "Traceback" in str(error) or "ray::" in str(error) else lines[0])[:300]
