"""Background tasks: what works alongside a crawl without making the engine's loop wait.

The engine has a list of them and knows them only as `BackgroundTask`: the teacher, the distiller, the watcher, the
asker, the phases, the steering, the refresher, the finder of pictures, the forgetting, the indexer, the shipper and the
forwarder. Each decides in microseconds whether there is something to do, and does it in tasks and threads of its own,
usually one at a time (`TaskSlot`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol


class BackgroundTask(Protocol):
    """Something that the engine calls at every turn of its loop, and closes when the crawl ends."""

    @property
    def is_busy(self) -> bool:
        """Whether work is under way that may still give the crawl something to fetch: the crawl does not end before.

        By default never: most tasks only use what was stored.
        """
        return False

    @property
    def pauses_fetching(self) -> bool:
        """Whether nothing should be fetched for now. By default never."""
        return False

    def look(self) -> None:
        """See whether there is something to do, and start it. Called often: takes microseconds, and never raises."""
        ...

    async def close(self, at_once: asyncio.Event) -> None:
        """Finish what is under way, or cancel it as soon as `at_once` is set. Nothing is started afterwards."""
        ...


class TaskSlot:
    """Room for one task at a time."""

    def __init__(self, on_end: Callable[[BaseException | None], object]) -> None:
        """`on_end` is called when a task is over, with what it raised: None when all went well or it was cancelled."""
        self._on_end = on_end
        self._task: asyncio.Task[Any] | None = None
        self.is_cancelled = False
        """Whether the work was cancelled. It stays so: a background task that was cancelled starts nothing more."""

    @property
    def is_busy(self) -> bool:
        """Whether a task is under way."""
        return self._task is not None

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a task; there must be none under way."""
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._end)

    async def wait(self) -> None:
        """Wait until no task is under way."""
        while self._task is not None:
            await asyncio.wait({self._task})

    async def finish(self, at_once: asyncio.Event, cancel: Callable[[], object]) -> None:
        """Wait for the task under way, if there is one; call `cancel` as soon as `at_once` is set.

        `cancel` sets `is_cancelled` and does what else makes the work end soon. What the task raises goes to `on_end`.
        """
        task = self._task
        if task is None:
            return
        signal = asyncio.create_task(at_once.wait())
        await asyncio.wait({task, signal}, return_when=asyncio.FIRST_COMPLETED)
        signal.cancel()
        if not task.done():
            cancel()
        await asyncio.gather(task, return_exceptions=True)

    def cancel(self) -> None:
        """Cancel the task itself, wherever it waits."""
        self.is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._task = None
        self._on_end(None if task.cancelled() else task.exception())
