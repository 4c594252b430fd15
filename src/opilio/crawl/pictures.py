"""Pictures of relevant pages and icons of their sites, fetched alongside the crawl for the portal.

They are no URLs of the crawl: they have no state, no priority and no oid, and no figure counts them as pages. What is
still missing is a query (`store/pictures.py`): the database has the addresses that pages name and the pictures that
were requested. So a crawl that is killed loses nothing, and a page that a new model finds relevant gets its picture.

`PictureFinder` looks for missing ones now and then. `Pictures` has those that are planned, gives out leases, and takes
in the visits. Their requests obey robots.txt and the delays of the host. While pages of the host are queued, at most
one request in `TURN` is for a picture. When the last page is fetched, the crawl goes on with pictures for a few seconds
(`Engine`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.crawl.ledger import Ledger
from opilio.frontier import Frontier
from opilio.model import Lease, LeaseKind, Outcome, Visit
from opilio.settings import FetchSettings
from opilio.store import Store
from opilio.store.pictures import missing_pictures

PICTURE_OID = -(2**50)  # leases of pictures have oids below this
TURN = 5
MAX_REDIRECTS = 3
MAX_PLANNED = 200
"""Pictures that are planned at a time."""
LOOK_S, TAKE_S = 5.0, 0.05
"""Least time between two looks at the database, and between two rounds through the planned pictures."""
LOOK_SHARE = 20
"""... as a multiple of how long the last look took: in a collection of millions of pages that may be seconds."""
COUNTER = "pictures"


class PlannedPicture(NamedTuple):
    """A picture to fetch."""

    url: str
    """As the page names it. A redirect leads to another address; the picture keeps this one."""
    lease: Lease
    hops: int = 0


class Pictures:
    """The pictures that are planned or under way. Knows no database and no clock."""

    def __init__(self, settings: FetchSettings, frontier: Frontier, ledger: Ledger) -> None:
        self._settings = settings
        self._frontier = frontier
        self._ledger = ledger
        self._planned: deque[PlannedPicture] = deque()
        self._leased: dict[int, PlannedPicture] = {}
        self._taken = 0
        self._take_at_s = 0.0
        self._requests_then: dict[int, int] = {}
        """By host, its requests when the last picture was requested from it."""
        self.urls: set[str] = set()
        """What is planned or under way."""
        self._settled: set[str] = set()
        """What was requested in this run: a look at the database may have begun before."""

    @property
    def is_on(self) -> bool:
        """Whether pictures are wanted."""
        return self._settings.pictures_per_host > 0

    @property
    def may_be_missing(self) -> bool:
        """Whether there is any page whose pictures may be wanted."""
        return self._ledger.counters.pages > 0

    def note(self, oid: int, sid: int, picture: str, icon: str) -> None:
        """A page is stored that names these addresses; '' for none."""
        if self.is_on and (picture or icon):
            self._ledger.batch.page_pictures.add(oid, sid, picture, icon)

    def plan(self, kind: LeaseKind, url: str) -> None:
        """Fetch a picture when there is time."""
        if url not in self.urls and url not in self._settled:
            self.urls.add(url)
            self._queue(kind, url, url, 0)

    def _queue(self, kind: LeaseKind, url: str, address: str, hops: int) -> None:
        self._taken += 1
        self._planned.append(PlannedPicture(url, Lease(PICTURE_OID - self._taken, address, kind), hops))

    def take(self, now_s: float, limit: int, *, is_last: bool = False) -> list[Lease]:
        """Lease what may be requested now, at most `limit`. With `is_last`, no page is to be fetched any more."""
        if not self._planned or now_s < self._take_at_s:
            return []
        self._take_at_s = now_s + TAKE_S
        leases: list[Lease] = []
        for _ in range(len(self._planned)):
            planned = self._planned.popleft()
            if len(leases) >= limit or not (is_last or self._has_turn(planned)):
                self._planned.append(planned)
                continue
            granted = self._frontier.request(planned.lease, now_s)
            if isinstance(granted, Outcome):
                self._settle(planned, granted, now_s)
            elif granted is not None and granted.oid == planned.lease.oid:
                self._leased[granted.oid] = planned
                host = self._frontier.origin(granted.url).host
                self._requests_then[host.sid] = host.requests
                leases.append(granted)
            else:  # the host is not ready, or its robots.txt comes first
                self._planned.append(planned)
                if granted is not None:
                    leases.append(granted)
        return leases

    def _has_turn(self, planned: PlannedPicture) -> bool:
        """Whether the pages that are queued for a host leave time for a picture."""
        host = self._frontier.origin(planned.lease.url).host
        since = host.requests - self._requests_then.get(host.sid, 0)
        return since >= TURN or not self._frontier.has_queued(host)

    def put_back(self, lease: Lease) -> None:
        """Plan a picture again whose request says nothing about its host; other leases are ignored."""
        planned = self._leased.pop(lease.oid, None)
        if planned is not None:
            self._planned.append(planned)

    def absorb(self, visit: Visit, now_s: float) -> None:
        """Take in the visit of a picture."""
        fetch = visit.fetch
        self._frontier.ended(visit.lease, fetch.outcome, now_s, fetch.retry_after_s)
        self._ledger.changed_hosts.add(self._frontier.origin(visit.lease.url).host.sid)
        self._ledger.recorder.add_visit(self._ledger.batch, visit.lease, fetch)
        planned = self._leased.pop(visit.lease.oid)
        if fetch.outcome is Outcome.REDIRECT and planned.hops < MAX_REDIRECTS:
            self._queue(visit.lease.kind, planned.url, fetch.redirect_url, planned.hops + 1)
            return
        self._settle(planned, fetch.outcome, now_s, visit)

    def _settle(self, planned: PlannedPicture, outcome: Outcome, now_s: float, visit: Visit | None = None) -> None:
        self.urls.discard(planned.url)
        self._settled.add(planned.url)
        picture = visit.picture if visit is not None else None
        values = (picture.content_type, picture.width, picture.height, picture.data) if picture else (None,) * 4
        self._ledger.batch.pictures.add(planned.url, planned.lease.kind, now_s, outcome, *values)
        if picture is not None:
            self._ledger.counters.add(COUNTER)


class PictureFinder(BackgroundTask):
    """Plans the pictures that are missing."""

    def __init__(
        self, settings: FetchSettings, store: Store, pictures: Pictures, commit: Callable[[], Awaitable[None]]
    ) -> None:
        """`commit` writes all that was absorbed."""
        self._settings = settings
        self._store = store
        self._pictures = pictures
        self._commit = commit
        self._slot = TaskSlot(self._end)
        self._look_at_s = 0.0

    def look(self) -> None:
        """Look for missing pictures when it is time, and few are planned."""
        if not self._pictures.is_on or self._slot.is_busy or len(self._pictures.urls) > MAX_PLANNED // 2:
            return
        if time.monotonic() < self._look_at_s:
            return
        if self._pictures.may_be_missing:
            self._slot.start(self.find())
        else:
            self._look_at_s = time.monotonic() + LOOK_S

    async def find(self) -> None:
        """Plan the pictures that are missing now."""
        if not self._pictures.is_on:
            return
        await self._commit()
        began_s = time.monotonic()
        missing = await asyncio.to_thread(missing_pictures, self._store, self._settings.pictures_per_host, MAX_PLANNED)
        for kind, url in missing:
            self._pictures.plan(LeaseKind(kind), url)
        now_s = time.monotonic()
        self._look_at_s = now_s + max(LOOK_S, LOOK_SHARE * (now_s - began_s))

    async def close(self, at_once: asyncio.Event) -> None:
        """Finish a look under way."""
        await self._slot.finish(at_once, self._slot.cancel)

    def _end(self, error: BaseException | None) -> None:
        """Pictures are an extra: a look that failed is made again later."""
        self._look_at_s = time.monotonic() + LOOK_S
