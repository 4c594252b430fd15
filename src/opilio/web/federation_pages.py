"""The query server of a federation: one page to search several collections, and the same as REST (OASIS 3).

It has no collection of its own. It knows the summary of each of its collections, sends a question to those that are
likely to have some of the best pages, and merges their answers into one list; feedback on a result goes back to every
collection that returned it. Security is that of the portal (`security.py`): everyone who reaches the server can search,
and feedback needs the token. Answers of collections are foreign text, and are escaped like all other.
"""

from __future__ import annotations

import datetime
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import jinja2
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, Response

import opilio
from opilio.errors import InputError
from opilio.federation.peers import Peer
from opilio.federation.search import MAX_DEPTH
from opilio.search.ranking import DEFAULT_WEIGHTS
from opilio.topics.tree import OTHERS
from opilio.web import api, opensearch, start
from opilio.web.access import Render, allowed, costly
from opilio.web.app import API, add_common_parts
from opilio.web.federated import Federation, described
from opilio.web.finding import FACETS, RANKING_NAMES, SearchBody
from opilio.web.pages import Pages
from opilio.web.security import LOGIN, LOOPBACK, Security
from opilio.web.server import make_server

MAX_TOLD = 100
FIRST_LOOK_S = 10.0
"""The server starts after this time, even if some collections have not answered."""

router = APIRouter()
router.get("/login", include_in_schema=False)(start.login_page)
router.post(LOGIN, tags=["access"])(start.login)
router.post("/api/logout", tags=["access"])(start.logout)


class AskedOfAll(SearchBody):
    """The parameters of a search, as the address has them."""

    copies_of: ClassVar[None] = None  # type: ignore[misc]  # pages have no number that all collections know
    ask_all: bool = Field(False, description="Ask all collections, not only those that are likely to answer.")
    page: int = Field(1, ge=1, le=MAX_DEPTH)

    def request(self) -> dict[str, Any]:
        """The arguments of `Federation.search` besides the question."""
        named = self.model_dump(include={*FACETS, "since", "before"})
        filters = [
            (name, value)
            for name, values in named.items()
            for value in ([values] if isinstance(values, str) else values)
            if value
        ]
        kept = self.model_dump(include={"page", "size", "ask_all"})
        return {**kept, "weights": self.weights, "filters": filters}


class GivenPage(BaseModel):
    """A page, as one of the collections returned it."""

    collection: str = Field(description="Its name: collections[].name of the result.")
    url: str = Field(max_length=4000, description="The page there: collections[].url of the result.")
    topic: str = Field(
        "", max_length=1000, description="The topic that is meant, if it is not the one that the page is in."
    )


class SaidOfPage(BaseModel):
    """Feedback on a result, for every collection that returned it."""

    verdict: Literal["relevant", "irrelevant"]
    pages: list[GivenPage] = Field(min_length=1, max_length=MAX_TOLD)


class FederationPages(Pages):
    """The same templates with another base page."""

    def __init__(self, security: Security) -> None:
        super().__init__(security)
        self._environment.loader = _OtherFrame("opilio.web")
        self._environment.filters |= {"moment": _moment, "duration": _duration}


class _OtherFrame(jinja2.PackageLoader):
    """Templates that extend `base.html` get the base page of the federation: nothing is crawled or trained here."""

    def get_source(self, environment: jinja2.Environment, template: str) -> Any:
        """The text of a template."""
        return super().get_source(environment, "federation_base.html" if template == "base.html" else template)


def create_federation_app(federation: Federation, security: Security) -> FastAPI:
    """The application of a federation that listens already."""
    app = FastAPI(
        title="Opilio, a federation", version=opilio.__version__, openapi_url=f"{API}/openapi.json", docs_url=None,
        redoc_url=None,
    )  # fmt: skip
    app.state.federation, app.state.security, app.state.pages = federation, security, FederationPages(security)
    for module_router in (router, api.router):
        app.include_router(module_router)
    add_common_parts(app, security)
    return app


def _federation(request: Request) -> Federation:
    federation: Federation = request.app.state.federation
    return federation


All = Annotated[Federation, Depends(_federation)]
"""The collections of this server."""


@router.get("/", include_in_schema=False, dependencies=[costly("search")])
@router.get("/search", include_in_schema=False, dependencies=[costly("search")])
def search_page(
    request: Request, federation: All, pages: Render, asked: Annotated[AskedOfAll, Query()]
) -> HTMLResponse:
    """Results, which collections returned them, and which were not asked. Without a question: the collections."""
    answer, wrong, hint = None, "", ""
    if not asked.is_empty:
        try:
            answer = _answer(federation, asked)
        except InputError as error:
            wrong, hint = error.message, error.hint
    weights = dict(answer["weights"]) if answer else {**DEFAULT_WEIGHTS, **(asked.weights or {})}
    return pages.render(
        request, "federation_search.html", 400 if wrong else 200, place="search", asked=asked, answer=answer,
        deepest=MAX_DEPTH, wrong=wrong, hint=hint, facets=FACETS, rankings=RANKING_NAMES, weights=weights,
        names=federation.names,
        peers=_by_outcome(answer["peers"]) if answer else {},
        collections=federation.collections() if not answer else [],
    )  # fmt: skip


@router.get("/collections", include_in_schema=False)
def collections_page(request: Request, federation: All, pages: Render) -> HTMLResponse:
    """The collections: their summaries, and how they answered lately."""
    found = federation.collections()
    return pages.render(
        request, "federation_collections.html", place="collections", collections=found, every_s=federation.every_s,
        kept=sum(one["kept"] for one in found),
    )  # fmt: skip


@router.get("/api/search", tags=["search"], dependencies=[costly("search")])
def search(federation: All, asked: Annotated[AskedOfAll, Query()]) -> dict[str, Any]:
    """Search the collections that are likely to answer: total, results with their collections, facets, peers."""
    return federation.search(asked.q, **asked.request())


class AskedFeed(AskedOfAll):
    """The parameters of a search whose results are a feed."""

    size: int = opensearch.SIZE


@router.get("/opensearch.xml", include_in_schema=False)
def describe_search(request: Request, federation: All, pages: Render) -> Response:
    """The description of the search."""
    return opensearch.description(request, pages, _name(federation), str(request.base_url))


@router.get("/search.atom", tags=["search"], dependencies=[costly("search")])
def search_atom(request: Request, federation: All, pages: Render, asked: Annotated[AskedFeed, Query()]) -> Response:
    """Search the collections that are likely to answer: results as Atom with OpenSearch elements."""
    return _feed(request, "atom", federation, pages, asked)


@router.get("/search.rss", tags=["search"], dependencies=[costly("search")])
def search_rss(request: Request, federation: All, pages: Render, asked: Annotated[AskedFeed, Query()]) -> Response:
    """Search the collections that are likely to answer: results as RSS with OpenSearch elements."""
    return _feed(request, "rss", federation, pages, asked)


def _feed(request: Request, kind: str, federation: Federation, pages: Pages, asked: AskedFeed) -> Response:
    given = {**asked.request(), "size": min(asked.size, opensearch.MAX_SIZE)}
    answer = opensearch.NOTHING if asked.is_empty else federation.search(asked.q, **given)
    return opensearch.feed(request, pages, kind, _name(federation), str(request.base_url), asked, answer)


def _name(federation: Federation) -> str:
    """What the search is called elsewhere."""
    return " + ".join(federation.names)


@router.get("/api/collections", tags=["collections"])
def collections(federation: All) -> list[dict[str, Any]]:
    """The collections: topics, pages, when each last answered, and how."""
    return federation.collections()


@router.post("/api/feedback", tags=["feedback"])
def feedback(federation: All, body: SaidOfPage, _: Annotated[None, Depends(allowed)]) -> dict[str, Any]:
    """Say whether a page is relevant, to the collections that returned it; answers what each did."""
    unknown = [page.collection for page in body.pages if not federation.knows(page.collection)]
    if unknown:
        raise InputError(f"no collection {unknown[0]!r} here", "Take the names from the answer to a search.")
    given = [(page.collection, page.url, page.topic) for page in body.pages]
    report = federation.feedback(given, relevant=body.verdict == "relevant")
    return {"said": " · ".join(f"{one['collection']}: {one['said']}" for one in report), "collections": report}


def _answer(federation: Federation, asked: AskedOfAll) -> dict[str, Any]:
    """An answer with what the page needs in addition: links to the collections, and what the forms send."""
    answer = federation.search(asked.q, **asked.request())
    for result in answer["results"]:
        given = result["collections"]
        result["given"] = [{**one, "page": federation.page_in(one["name"], one["url"])} for one in given]
        result["report"] = described([(one["name"], one["url"]) for one in given])
        result["is_taken"] = any(one["topic"] not in ("", OTHERS) for one in result["collections"])
    return answer


def _by_outcome(peers: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The peers that answered, those that did not (with a sentence about each), and those that were not asked."""
    failed = [peer for peer in peers if peer["chosen"] and not peer["answered"]]
    for peer in failed:
        peer["said"] = peer["error"] if peer["error"].startswith(peer["name"]) else f"{peer['name']} {peer['error']}"
    return {
        "answered": [peer for peer in peers if peer["chosen"] and peer["answered"]],
        "failed": failed,
        "left_out": [peer for peer in peers if not peer["chosen"]],
    }


def _moment(at_s: float) -> str:
    """A local time, and how long ago it is."""
    ago_s = max(0, round(time.time() - at_s))
    moment = datetime.datetime.fromtimestamp(at_s).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S}, {ago_s} s ago"


def _duration(seconds: float) -> str:
    """A duration, roughly."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def serve_federation(
    peers: Sequence[Peer],
    state: Path,
    listener: socket.socket,
    host: str,
    token: str,
    *,
    quiet: bool,
    echo: Callable[[str], object],
    warn: Callable[[str], object],
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    port = listener.getsockname()[1]
    named = f"[{host}]" if ":" in host else host.lower()
    security = Security(token, LOOPBACK | {named})
    federation = Federation(peers, state)
    federation.start(FIRST_LOOK_S)
    for one in federation.collections():
        if not one["known"]:
            trouble = one["trouble"] or f"{one['name']} has not answered yet"
            warn(f"warning: {trouble}; it is tried again in a minute, then at growing intervals")
        elif not quiet:
            echo(f"{one['name']}: {one['pages']:,} pages, {len(one['topics']):,} topics")
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else named
    echo(f"http://{shown}:{port}/login#{security.token}")
    if not quiet:
        echo("Open that address to search and to give feedback. Ctrl-C ends the server.")
    try:
        make_server(create_federation_app(federation, security)).run(sockets=[listener])
    finally:
        federation.close()
