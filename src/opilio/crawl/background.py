"""What works beside a crawl: the teacher, the distiller, the watcher, the phases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol


class BackgroundTask(Protocol):
    """Looks at the crawl at every turn of the engine's loop, and does its own work in tasks and threads."""

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that may still give the crawl work: it does not end before."""
        ...

    @property
    def holds(self) -> bool:
        """Whether nothing should be fetched for now."""
        ...

    def look(self) -> None:
        """See whether there is something to do, and begin it. Called often: takes microseconds."""
        ...

    async def close(self, at_once: asyncio.Event) -> None:
        """Finish what is under way, or give it up when `at_once` is set."""
        ...


class Aside:
    """A companion that gives the crawl nothing to do and has no say in what is fetched; one task at a time."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._hurries = False
        """Whether what is under way should be given up."""

    @property
    def is_busy(self) -> bool:
        """Never: it gives the crawl nothing to do."""
        return False

    @property
    def holds(self) -> bool:
        """Never: it has no say in what is fetched."""
        return False

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a task; `_end` is called when it is over."""
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._end)
        return self._task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._task = None


async def finish(task: asyncio.Future[Any] | None, at_once: asyncio.Event, give_up: Callable[[], object]) -> None:
    """Wait for work under way, if there is any; as soon as `at_once` is set, have it given up.

    What the work raises is for its own callback to tell.
    """
    if task is None:
        return
    hurry = asyncio.create_task(at_once.wait())
    await asyncio.wait({task, hurry}, return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if not task.done():
        give_up()
    await asyncio.gather(task, return_exceptions=True)
