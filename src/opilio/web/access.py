"""What routes depend on: a collection to read, or a collection to change for those who may."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

import anyio
from fastapi import Depends, Request
from starlette.responses import RedirectResponse

from opilio.crawl import Collection
from opilio.errors import CollectionBusy
from opilio.web.pages import Pages
from opilio.web.security import Security, check_own_site
from opilio.web.shelf import Shelf

MAX_WAITING = 40
"""Requests that may wait at a time to read a collection, and to change one."""


COSTLY_AT_ONCE, COSTLY_QUEUED = 2, 16
COSTLY_WAIT_S = 30.0
"""Of each kind of costly request: how many are carried out at a time, how many wait, and for how long."""


class CostlyRequests:
    """Where costly requests wait for their turn, each kind in a queue of its own. They wait on the loop and hold
    neither a thread nor a collection, so all other requests are answered meanwhile."""

    def __init__(self) -> None:
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._queued: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def turn(self, kind: str) -> AsyncIterator[None]:
        """Wait for a turn; CollectionBusy when too many wait already, or for too long."""
        turns = self._turns.setdefault(kind, asyncio.Semaphore(COSTLY_AT_ONCE))
        if turns.locked() and self._queued[kind] >= COSTLY_QUEUED:
            raise CollectionBusy(f"too many requests for {kind} are waiting already", "Try again in a moment.")
        self._queued[kind] += 1
        try:
            await asyncio.wait_for(turns.acquire(), COSTLY_WAIT_S)
        except TimeoutError:
            raise CollectionBusy(f"other requests for {kind} take long", "Try again in a moment.") from None
        finally:
            self._queued[kind] -= 1
        try:
            yield
        finally:
            turns.release()


def costly(kind: str, only_with: str = "") -> Any:
    """A dependency for routes that take long: they wait for their turn, and other sites cannot call them.

    A page without any parameter is only a form, and not costly; nor is one without the parameter `only_with`.
    """

    async def wait(request: Request) -> AsyncIterator[None]:
        given = request.query_params.get(only_with) if only_with else request.query_params
        if not given and not request.url.path.startswith("/api/"):
            yield
            return
        check_own_site(request)
        requests: CostlyRequests = request.app.state.costly
        async with requests.turn(kind):
            yield

    return Depends(wait, scope="function")  # released before the answer is sent, however slowly it is read


class CollectionAccess:
    """Where requests wait for a collection: in threads of their own. If they waited in the threads of the routes, they
    could block the very request that they wait for."""

    def __init__(self) -> None:
        self._reading = anyio.CapacityLimiter(MAX_WAITING)
        self._writing = anyio.CapacityLimiter(MAX_WAITING)

    def reading(self, shelf: Shelf, name: str) -> contextlib.AbstractAsyncContextManager[Collection]:
        """A collection to read."""
        return _entered(shelf.reading(name), self._reading)

    def writing(self, shelf: Shelf, name: str) -> contextlib.AbstractAsyncContextManager[Collection]:
        """A collection to change."""
        return _entered(shelf.writing(name), self._writing)


@contextlib.asynccontextmanager
async def _entered(
    taken: AbstractContextManager[Collection], limiter: anyio.CapacityLimiter
) -> AsyncIterator[Collection]:
    collection = await anyio.to_thread.run_sync(
        taken.__enter__, limiter=limiter
    )  # not cancelled when the browser leaves
    try:
        yield collection
    finally:
        taken.__exit__(None, None, None)  # it only releases: nothing here waits


def shelf_of(request: Request) -> Shelf:
    """The collections of this server."""
    shelf: Shelf = request.app.state.shelf
    return shelf


def pages_of(request: Request) -> Pages:
    """The templates of this server."""
    pages: Pages = request.app.state.pages
    return pages


def allowed(request: Request) -> None:
    """Refuse a request that is not allowed to change anything."""
    security: Security = request.app.state.security
    security.check_change(request)


def signed_in(request: Request) -> None:
    """Refuse a request of somebody who neither sends the token nor has signed in. For reading: a change needs more."""
    security: Security = request.app.state.security
    security.check_signed_in(request)


def form_fields(body: bytes) -> dict[str, str]:
    """The fields of a form that a browser without JavaScript sends; of several values of one field, the last."""
    return {key: values[-1] for key, values in parse_qs(body.decode("utf-8", "replace")).items()}


def way_back(name: str, given: Mapping[str, str], otherwise: str) -> RedirectResponse:
    """Where such a form leads: back to the page of the collection on which it is."""
    here = f"/c/{quote(name, safe='')}/"
    back = given.get("back", "")
    return RedirectResponse(back if back.startswith(here) else here + otherwise, 303)


async def _reading(request: Request, name: str) -> AsyncIterator[Collection]:
    access: CollectionAccess = request.app.state.access
    async with access.reading(shelf_of(request), name) as collection:
        yield collection


async def _writing(request: Request, name: str, _: Annotated[None, Depends(allowed)]) -> AsyncIterator[Collection]:
    access: CollectionAccess = request.app.state.access
    async with access.writing(shelf_of(request), name) as collection:
        yield collection


Reading = Annotated[Collection, Depends(_reading, scope="function")]
"""The collection {name} of the path, to read."""
Writing = Annotated[Collection, Depends(_writing, scope="function")]
"""The same, to change; only for requests that are allowed to."""
AllShelf = Annotated[Shelf, Depends(shelf_of)]
Render = Annotated[Pages, Depends(pages_of)]
