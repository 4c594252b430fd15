"""The shipper: moves finished WARC files to where `store.warc_url` says, beside the crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from opilio.crawl.absorb import Absorber
from opilio.settings import Settings
from opilio.store import Store


class Shipper:
    """Moves finished WARC files, one at a time."""

    def __init__(
        self, settings: Settings, store: Store, absorber: Absorber, commit: Callable[[], Awaitable[None]]
    ) -> None:
        """`commit` writes all that was absorbed, so that it can be read."""

    @property
    def is_busy(self) -> bool:
        """Never: it gives the crawl nothing to do."""
        return False

    @property
    def holds(self) -> bool:
        """Never: it has no say in what is fetched."""
        return False

    def look(self) -> None:
        """Begin when it is time. Called often."""

    async def close(self, at_once: asyncio.Event) -> None:
        """Finish what is under way."""
