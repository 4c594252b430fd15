"""What routes ask for: a collection to read, or one to change by somebody who may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Request

from opilio.crawl import Collection
from opilio.web.pages import Pages
from opilio.web.security import Security
from opilio.web.shelf import Shelf


def shelf_of(request: Request) -> Shelf:
    """The collections of this server."""
    shelf: Shelf = request.app.state.shelf
    return shelf


def pages_of(request: Request) -> Pages:
    """The templates of this server."""
    pages: Pages = request.app.state.pages
    return pages


def allowed(request: Request) -> None:
    """Refuse a request that may not change anything."""
    security: Security = request.app.state.security
    security.check_change(request)


def _reading(request: Request, name: str) -> Iterator[Collection]:
    with shelf_of(request).reading(name) as collection:
        yield collection


def _writing(request: Request, name: str, _: Annotated[None, Depends(allowed)]) -> Iterator[Collection]:
    with shelf_of(request).writing(name) as collection:
        yield collection


Reading = Annotated[Collection, Depends(_reading)]
"""The collection {name} of the path, to read."""
Writing = Annotated[Collection, Depends(_writing)]
"""The same, to change: only for requests that may."""
AllShelf = Annotated[Shelf, Depends(shelf_of)]
Render = Annotated[Pages, Depends(pages_of)]
