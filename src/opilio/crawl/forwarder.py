"""The forwarder: offers URLs that suit the topics of other collections to them, in the background (OASIS 3).

Every `federation.deliver_s` seconds, when something was stored, a thread compares the new pages with the topics of the
peers and forwards what suits them (`opilio.federation.forwarding`). Comparing takes at most a tenth of a core: after
it, the forwarder rests for nine times as long. What is left when the crawl ends is forwarded then, for a while.
Whatever goes wrong, the crawl goes on; the user is notified once about each peer that is in trouble.

Nobody waits for the thread: a peer that does not answer delays neither the crawl nor its end.
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
from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.errors import describe_error
from opilio.settings import Settings
from opilio.store import Store

if TYPE_CHECKING:  # it takes a while to import
    from opilio.federation.forwarding import ForwardedCount, Forwarding

T = TypeVar("T")

NOTICE = "federation"
FORWARDED, ACCEPTED = "URLs forwarded", "URLs forwarded that were new there"
"""Names of counters, as users read them."""
REST = 9.0
ROUND_S = 3.0
"""A round compares and forwards for about this long."""
LAST_S = 20.0
"""What is left when a crawl ends is forwarded for this long at most."""


class Forwarder(BackgroundTask):
    """The background task: one round at a time."""

    def __init__(
        self, settings: Settings, store: Store, absorber: Absorber, commit: Callable[[], Awaitable[None]]
    ) -> None:
        """`commit` writes all that was absorbed, so that it can be read."""
        self._settings = settings.federation
        self._store = store
        self._absorber = absorber
        self._commit = commit
        self._slot = TaskSlot(self._end)
        self._forwarding: Forwarding | None = None
        self._is_closing = False
        self._told: set[str] = set()
        self._next_s = time.monotonic() + settings.federation.deliver_s

    def look(self) -> None:
        """Start a round when it is time."""
        if self._settings.peers and not self._slot.is_busy and time.monotonic() >= self._next_s:
            self._slot.start(self._forward())

    async def close(self, at_once: asyncio.Event) -> None:
        """Finish, with all forwarded that can be within a while; nothing more once `at_once` is set."""
        self._is_closing = True
        timer = asyncio.get_running_loop().call_later(2 * LAST_S, self._slot.cancel)
        await self._slot.finish(at_once, self._slot.cancel)
        if self._settings.peers and not at_once.is_set() and not self._slot.is_cancelled:
            self._slot.start(self._forward())
            await self._slot.finish(at_once, self._slot.cancel)
        timer.cancel()

    async def _forward(self) -> None:
        await self._commit()
        began_s = time.monotonic()
        until_s = began_s + (LAST_S if self._is_closing else ROUND_S)
        busy_s = 0.0
        while True:
            forwarded, took_s = await _in_thread(functools.partial(self._round, until_s - time.monotonic()))
            busy_s += took_s
            self._report(forwarded)
            is_done = self._forwarding is None or self._forwarding.is_done
            if not self._is_closing or is_done or self._slot.is_cancelled or time.monotonic() >= until_s:
                break
        self._next_s = time.monotonic() + max(self._settings.deliver_s, REST * busy_s)

    def _round(self, most_s: float) -> tuple[ForwardedCount, float]:
        """In a thread: one round, and for how long it kept a core busy."""
        began_s = time.thread_time()
        if self._forwarding is None:
            self._forwarding = self._open()
        forwarded = self._forwarding.round(most_s)
        return forwarded, time.thread_time() - began_s

    def _open(self) -> Forwarding:
        from opilio.crawl import open_peer  # noqa: PLC0415  (a peer may be a collection, which runs this engine)
        from opilio.federation.forwarding import forwarding_to  # noqa: PLC0415

        return forwarding_to(self._settings.peers, self._store, open_peer, goes_on=lambda: not self._slot.is_cancelled)

    def _report(self, forwarded: ForwardedCount) -> None:
        """Count what was forwarded, and report trouble with a peer once, if it lasts for two tries or to the end.

        A peer that has only begun, and has no index yet, is not worth a notice.
        """
        if forwarded.forwarded:
            self._absorber.counters.add(FORWARDED, forwarded.forwarded)
            self._absorber.counters.add(ACCEPTED, forwarded.new)
        if self._forwarding is None:
            return
        for warning in self._forwarding.warnings:
            self._notice_once(warning, warning)
        for box in self._forwarding.boxes:
            if box.trouble and (box.tries > 1 or self._is_closing):
                remedy = "The crawl goes on, and tries again later; what is left: opilio offer FOLDER"
                self._notice_once(box.peer.name, f"URLs cannot be forwarded: {box.trouble}", remedy)

    def _notice_once(self, about: str, text: str, remedy: str = "") -> None:
        if about not in self._told:
            self._told.add(about)
            self._absorber.notice(NOTICE, text, remedy)

    def _end(self, error: BaseException | None) -> None:
        if error is None or self._slot.is_cancelled:
            return
        self._next_s = time.monotonic() + self._settings.deliver_s
        self._absorber.counters.add("deliveries that failed")
        remedy = "The crawl goes on. `opilio offer FOLDER` tries the same by itself."
        self._notice_once("", f"URLs could not be forwarded: {describe_error(error)}", remedy)


async def _in_thread(work: Callable[[], T]) -> T:
    """Run something in a thread of its own. Nobody joins it: the process may end before it does."""
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="forward URLs", daemon=True).start()
    return await done
