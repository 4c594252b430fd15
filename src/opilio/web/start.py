"""The start page, signing in, and what belongs to no collection."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response

from opilio.crawl.counters import FOUND
from opilio.errors import CollectionBusy, OpilioError
from opilio.web.access import AllShelf, Render, Writing, allowed
from opilio.web.runs import start_crawl
from opilio.web.security import LOGIN, NotAllowed, Security, cookie_name
from opilio.web.shelf import Shelf

router = APIRouter()


class Token(BaseModel):
    """What the server printed."""

    token: str


@router.get("/", include_in_schema=False)
def home(request: Request, shelf: AllShelf, pages: Render) -> Response:
    """All collections; the one there is, when the server was given one."""
    names = shelf.names()
    if shelf.is_one and len(names) == 1:
        return RedirectResponse(f"/c/{quote(names[0], safe='')}/", 307)
    return pages.render(request, "home.html", collections=collections(shelf))


@router.get("/collections", include_in_schema=False)
def all_collections(request: Request, shelf: AllShelf, pages: Render) -> HTMLResponse:
    """All collections, also when there is one only."""
    return pages.render(request, "home.html", collections=collections(shelf))


@router.get("/login", include_in_schema=False)
def login_page(request: Request, pages: Render) -> HTMLResponse:
    """A page that signs in with the token behind # in its address, or asks for it."""
    return pages.render(request, "login.html")


@router.post(LOGIN, tags=["access"])
def login(request: Request, body: Token) -> Response:
    """Sign a browser in: the answer sets its cookie."""
    security: Security = request.app.state.security
    if not security.knows(body.token.strip()):
        raise NotAllowed("wrong token", "The server prints the right one when it starts.")
    response = JSONResponse({"said": "signed in"})
    response.set_cookie(cookie_name(request), security.new_session(), httponly=True, samesite="strict")
    return response


@router.post("/api/logout", tags=["access"])
def logout(request: Request, _: Annotated[None, Depends(allowed)]) -> Response:
    """Sign out."""
    response = JSONResponse({"said": "signed out"})
    response.delete_cookie(cookie_name(request))
    return response


@router.get("/api/collections", tags=["collections"])
def collections(shelf: AllShelf) -> list[dict[str, Any]]:
    """The collections: how much is in each, and whether a crawl runs there."""
    return [_figures(shelf, name) for name in shelf.names()]


def _figures(shelf: Shelf, name: str) -> dict[str, Any]:
    """What the list of collections says of one; of one that cannot be read now, why."""
    told: dict[str, Any] = {
        "name": name,
        "running": False,
        "pages": None,
        "relevant": None,
        "hosts": None,
        "trouble": "",
    }
    try:
        with shelf.reading(name) as collection:
            status = collection.status()
    except CollectionBusy:
        return told | {"trouble": "in use by another process"}
    except OpilioError as error:  # it must not hide the others
        return told | {"trouble": error.message}
    relevant = status.counters.get(FOUND, 0)
    return told | {"running": status.running, "pages": status.pages, "relevant": relevant, "hosts": status.hosts}


@router.post("/api/c/{name}/crawl", tags=["crawl"])
def crawl(collection: Writing) -> dict[str, Any]:
    """Begin a crawl in a collection, or go on with it."""
    start_crawl(collection.folder)
    return {"said": "the crawl runs"}


@router.post("/api/c/{name}/stop", tags=["crawl"])
def stop(collection: Writing) -> dict[str, Any]:
    """Stop the crawl that runs, cleanly."""
    return {"said": "stopping" if collection.stop() else "no crawl runs"}


@router.get("/assets/d3.js", include_in_schema=False)
def d3() -> Response:
    """D3, from the package that brings it."""
    from xstatic.pkg import d3 as package  # noqa: PLC0415

    return FileResponse(
        f"{package.BASE_DIR}/d3.js", media_type="text/javascript", headers={"Cache-Control": "max-age=86400"}
    )
