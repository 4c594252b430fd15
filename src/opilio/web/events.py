"""Live figures: one look a second at a crawl, whoever and however many listen.

A browser keeps a connection open and is sent events (`text/event-stream`). All who listen to one collection share one
`Watch`: it asks the crawl once a second as long as anybody listens. Where no crawl runs, the figures of the last one
are sent once, and then nothing until a crawl begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from opilio.crawl.control import ask
from opilio.errors import OpilioError
from opilio.web.shelf import Shelf

EVERY_S = 1.0
KEEP_ALIVE_S = 15.0  # silence after which a proxy might think the connection dead
LOOK_UP_S = 0.4  # whoever listens looks this often whether the server ends
ASK_TIMEOUT_S = 10.0

Figures = dict[str, Any]


class Watch:
    """The figures of one collection as they change."""

    def __init__(self, shelf: Shelf, name: str) -> None:
        self._shelf = shelf
        self._name = name
        self._listeners: set[asyncio.Queue[str]] = set()
        self._task: asyncio.Task[None] | None = None
        self._last: Figures | None = None
        self._was_live = False
        self.looks = 0
        """How often the crawl has been asked."""

    async def listen(self, is_ending: Callable[[], bool]) -> AsyncIterator[str]:
        """Events, until whoever listens leaves or the server ends."""
        queue: asyncio.Queue[str] = asyncio.Queue(1)
        self._listeners.add(queue)
        if self._last is not None:
            queue.put_nowait(_event(self._last))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_on())
        silent_s = 0.0
        try:
            while not is_ending() and self._task is not None and not self._task.done():
                try:
                    yield await asyncio.wait_for(queue.get(), LOOK_UP_S)
                    silent_s = 0.0
                except TimeoutError:
                    silent_s += LOOK_UP_S
                    if silent_s >= KEEP_ALIVE_S:
                        yield ": nothing new\n\n"
                        silent_s = 0.0
        finally:
            self._listeners.discard(queue)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = self._last = None

    async def _look_on(self) -> None:
        """Look once a second, and tell all who listen what is new."""
        while True:
            try:
                now = await asyncio.to_thread(self._look)
            except OpilioError:  # it begins or ends just now, or the folder is gone
                now = None
            if now is not None and now != self._last:
                self._last = now
                for queue in self._listeners:
                    with contextlib.suppress(asyncio.QueueEmpty):
                        queue.get_nowait()  # whoever is slow hears the newest
                    queue.put_nowait(_event(now))
            await asyncio.sleep(EVERY_S)

    def _look(self) -> Figures | None:
        """The figures; None when no crawl runs and none ran at the last look."""
        self.looks += 1
        told: Figures | None = ask(self._shelf.path(self._name), "status", timeout_s=ASK_TIMEOUT_S)
        if told is not None:
            self._was_live = True
        elif self._last is None or self._was_live:  # as it ended, it may have said less than it wrote
            with self._shelf.reading(self._name) as collection:
                told = dataclasses.asdict(collection.status())
            self._was_live = False
        return told


class Watches:
    """The watches of one server, by collection."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._watches: dict[str, Watch] = {}

    def of(self, name: str) -> Watch:
        """The watch of a collection; an error when there is none of that name."""
        self._shelf.path(name)
        return self._watches.setdefault(name, Watch(self._shelf, name))


def _event(figures: Figures) -> str:
    return f"data: {json.dumps(figures)}\n\n"
