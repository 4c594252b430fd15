"""Handing over: URLs that suit the topics of other collections are delivered to them, beside the crawl (OASIS 3).

Every `federation.deliver_s` seconds, when something was stored, a thread looks at the new pages and delivers what suits
a peer (`delivering`). Looking takes at most a tenth of a core: after it, it rests for nine times as long. What is left
in the end is delivered then, for a while. Whatever goes wrong, the crawl goes on; of each peer that is in trouble the
user hears once.

The thread is one that nobody waits for: a peer that holds it up keeps neither the crawl from its work nor from its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from opilio.crawl.absorb import Absorber
from opilio.crawl.background import Aside, finish
from opilio.errors import describe_error
from opilio.settings import Settings
from opilio.store import Store

if TYPE_CHECKING:  # it takes a while to import
    from opilio.crawl.delivering import Delivered, Delivery

T = TypeVar("T")

NOTICE = "federation"
HANDED_OVER, TAKEN = "URLs handed over", "URLs handed over that were new there"
REST = 9.0
ROUND_S = 3.0
"""A round looks at pages, and delivers, for about so long."""
LAST_S = 20.0
"""What is left when a crawl ends is delivered for so long."""


class HandOver(Aside):
    """Looks for what suits a peer, and delivers it now and then; one round at a time."""

    def __init__(
        self, settings: Settings, store: Store, absorber: Absorber, commit: Callable[[], Awaitable[None]]
    ) -> None:
        """`commit` writes all that was absorbed, so that it can be read."""
        super().__init__()
        self._settings = settings.federation
        self._store = store
        self._absorber = absorber
        self._commit = commit
        self._delivery: Delivery | None = None
        self._is_closing = False
        self._told: set[str] = set()
        self._next_s = time.monotonic() + settings.federation.deliver_s

    def look(self) -> None:
        """Begin when it is time. Called often."""
        if self._settings.peers and self._task is None and time.monotonic() >= self._next_s:
            self._begin()

    async def close(self, at_once: asyncio.Event) -> None:
        """Finish, with all delivered that can be within a while; at once, without."""
        self._is_closing = True
        timer = asyncio.get_running_loop().call_later(2 * LAST_S, self._hurry)
        await finish(self._task, at_once, self._hurry)
        if self._settings.peers and not at_once.is_set() and not self._hurries:
            await finish(self._begin(), at_once, self._hurry)
        timer.cancel()

    def _begin(self) -> asyncio.Task[None]:
        return self._start(self._deliver())

    async def _deliver(self) -> None:
        await self._commit()
        began_s = time.monotonic()
        until_s = began_s + (LAST_S if self._is_closing else ROUND_S)
        busy_s = 0.0
        while True:
            delivered, took_s = await _beside(functools.partial(self._round, until_s - time.monotonic()))
            busy_s += took_s
            self._tell(delivered)
            is_done = self._delivery is None or self._delivery.is_done
            if not self._is_closing or is_done or self._hurries or time.monotonic() >= until_s:
                break
        self._next_s = time.monotonic() + max(self._settings.deliver_s, REST * busy_s)

    def _round(self, most_s: float) -> tuple[Delivered, float]:
        """In a thread: one round, and for how long it kept a core busy."""
        began_s = time.thread_time()
        if self._delivery is None:
            self._delivery = self._open()
        delivered = self._delivery.round(most_s)
        return delivered, time.thread_time() - began_s

    def _open(self) -> Delivery:
        from opilio.crawl.delivering import delivery_to  # noqa: PLC0415

        return delivery_to(self._settings.peers, self._store, goes_on=lambda: not self._hurries)

    def _tell(self, delivered: Delivered) -> None:
        """Count what was handed over, and say once of each peer what is wrong with it, if it is so twice or to the end.

        One that has only begun, and has no index yet, is no news.
        """
        if delivered.handed_over:
            self._absorber.counters.add(HANDED_OVER, delivered.handed_over)
            self._absorber.counters.add(TAKEN, delivered.new)
        if self._delivery is None:
            return
        for warning in self._delivery.warnings:
            self._say_once(warning, warning)
        for box in self._delivery.boxes:
            if box.trouble and (box.tries > 1 or self._is_closing):
                remedy = "The crawl goes on, and tries again later; what is left: opilio offer FOLDER"
                self._say_once(box.peer.name, f"URLs cannot be handed over: {box.trouble}", remedy)

    def _say_once(self, about: str, text: str, remedy: str = "") -> None:
        if about not in self._told:
            self._told.add(about)
            self._absorber.notice(NOTICE, text, remedy)

    def _hurry(self) -> None:
        """Leave the thread to itself: it ends when it sees this, or when the peer that it waits for answers."""
        self._hurries = True
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[None]) -> None:
        super()._end(task)
        error = None if task.cancelled() else task.exception()
        if error is None or self._hurries:
            return
        self._next_s = time.monotonic() + self._settings.deliver_s
        self._absorber.counters.add("deliveries that failed")
        remedy = "The crawl goes on. `opilio offer FOLDER` tries the same by itself."
        self._say_once("", f"URLs could not be handed over: {describe_error(error)}", remedy)


async def _beside(work: Callable[[], T]) -> T:
    """Do something in a thread of its own. Who gives up waiting leaves it to itself, and the process may end before."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="hand over", daemon=True).start()
    return await done
