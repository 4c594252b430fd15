"""What works beside a crawl: the teacher, the distiller, the watcher, the phases."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Companion(Protocol):
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
