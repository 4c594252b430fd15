"""What routes depend on: a collection to read, or a collection to change for those who may."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager
from typing import Annotated
from urllib.parse import parse_qs, quote

import anyio
from fastapi import Depends, Request
from starlette.responses import RedirectResponse

from opilio.crawl import Collection
from opilio.web.pages import Pages
from opilio.web.security import Security
from opilio.web.shelf import Shelf

MAX_WAITING = 40
"""Requests that may wait at a time to read a collection, and to change one."""


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


Reading = Annotated[Collection, Depends(_reading)]
"""The collection {name} of the path, to read."""
Writing = Annotated[Collection, Depends(_writing)]
"""The same, to change; only for requests that are allowed to."""
AllShelf = Annotated[Shelf, Depends(shelf_of)]
Render = Annotated[Pages, Depends(pages_of)]
