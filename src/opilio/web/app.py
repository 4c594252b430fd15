"""The application: its routers, its errors and its files; and the server around it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

import opilio
from opilio.errors import (
    CollectionBusy,
    CollectionError,
    InputError,
    OpilioError,
    QueryError,
    SettingsError,
    StoreError,
)
from opilio.web import (
    api,
    asking,
    browsing,
    console,
    finding,
    metrics,
    opensearch,
    peering,
    reviewing,
    start,
    teaching,
    watching,
)
from opilio.web.access import CollectionAccess, CostlyRequests
from opilio.web.pages import Pages
from opilio.web.security import HEADERS, LOOPBACK, CrossSite, NotAllowed, Security
from opilio.web.server import make_server
from opilio.web.shelf import NoCollection, Shelf

API = "/api"
RETRY_S = 2  # after this time a browser tries again to reach a busy collection
_STATUS: list[tuple[type[Exception], int]] = [  # the first that fits
    (NotAllowed, 403), (CollectionBusy, 503), (StoreError, 500), (NoCollection, 404), (CollectionError, 409),
    (InputError, 400), (QueryError, 400), (SettingsError, 400), (OpilioError, 500),
]  # fmt: skip


def create_app(shelf: Shelf, security: Security) -> FastAPI:
    """The portal for the collections of a shelf."""
    app = FastAPI(
        title="Opilio", version=opilio.__version__, openapi_url=f"{API}/openapi.json", docs_url=None, redoc_url=None
    )
    app.state.shelf, app.state.security, app.state.pages = shelf, security, Pages(security)
    app.state.access, app.state.figures = CollectionAccess(), metrics.FigureReader()
    for module in (start, api, opensearch, browsing, finding, watching, console, teaching, asking, reviewing, metrics):
        app.include_router(module.router)
    app.include_router(api.operation_routes())
    app.include_router(peering.router)
    add_common_parts(app, security)
    return app


def add_common_parts(app: FastAPI, security: Security) -> None:
    """Add what every application of ours has: files, the guard, and pages for errors."""
    app.state.costly = CostlyRequests()
    app.mount("/static", StaticFiles(packages=[("opilio.web", "static")]), name="static")
    app.middleware("http")(security.guard)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    app.add_middleware(Heads)
    for kind in (OpilioError, NotAllowed):
        app.add_exception_handler(kind, _tell)
    app.add_exception_handler(RequestValidationError, _tell_wrong)
    app.add_exception_handler(HTTPException, _tell_http)
    app.add_exception_handler(Exception, _tell_defect)


class Heads:
    """Middleware: a HEAD request is answered like GET; the server leaves out the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope.get("method") == "HEAD":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)


def _tell(request: Request, error: Exception) -> Response:
    status = next(code for kind, code in _STATUS if isinstance(error, kind))
    message = str(getattr(error, "message", error))
    shelf: Shelf | None = getattr(request.app.state, "shelf", None)
    if shelf is not None:  # show the name of a collection, not its place on this machine
        message = message.replace(f"{shelf.folder}/", "")
    again = f"{request.url.path}?{request.url.query}" if isinstance(error, CrossSite) else ""
    return _answer(request, status, message, str(getattr(error, "hint", "")), again)


def _tell_wrong(request: Request, error: Exception) -> Response:
    first: dict[str, Any] = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    place = ".".join(str(part) for part in first.get("loc", ())[1:])
    return _answer(
        request, 422, f"{place}: {first.get('msg', error)}", f"{API}/openapi.json describes what is expected."
    )


def _tell_http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = str(error.detail) if isinstance(error, HTTPException) else str(error)
    response = _answer(request, status, said, "")
    response.headers.update(getattr(error, "headers", None) or {})  # such as Allow
    return response


def _tell_defect(request: Request, error: Exception) -> Response:
    """A defect of ours; the log of the server has the traceback."""
    response = _answer(request, 500, "something went wrong in the server", "The output of the server says what it was.")
    response.headers.update(HEADERS)  # no middleware sees this answer
    return response


def _answer(request: Request, status: int, message: str, hint: str, again: str = "") -> Response:
    """An error, as JSON for programs or as a page for people; `again` is where the page links to for another try."""
    if request.url.path.startswith(API):
        response: Response = JSONResponse({"error": message, "hint": hint}, status_code=status)
    else:
        pages: Pages = request.app.state.pages
        response = pages.render(request, "error.html", status, status=status, message=message, hint=hint, again=again)
    if status == 503:
        response.headers["Retry-After"] = str(RETRY_S)
        response.headers["Refresh"] = str(RETRY_S)
    return response


def serve_forever(
    place: Path, listener: socket.socket, host: str, token: str, *, quiet: bool, echo: Callable[[str], object],
    sets_logging: bool = True,
) -> None:  # fmt: skip
    """Serve until Ctrl-C or SIGTERM."""
    port = listener.getsockname()[1]
    named = f"[{host}]" if ":" in host else host.lower()
    security = Security(token, LOOPBACK | {named})
    app = create_app(Shelf(place), security)
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else named
    echo(f"http://{shown}:{port}/login#{security.token}")
    if not quiet:
        echo("Open that address to browse and to make changes. Ctrl-C ends the server; crawls continue.")
    server = make_server(app, sets_logging=sets_logging)
    app.state.is_ending = lambda: server.should_exit  # event streams end then
    server.run(sockets=[listener])
