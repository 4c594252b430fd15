"""The search for other programs: an OpenSearch 1.1 description, and results as Atom and RSS with OpenSearch elements.

Browsers read the description, which every page links, and offer to add the search. Feed readers, and the seed provider
`opensearch` of another Opilio, read the feeds. A collection and a federation have the same three addresses:
opensearch.xml, search.atom and search.rss. Templates for addresses are absolute, as OpenSearch wants them.
"""

from __future__ import annotations

import datetime
import email.utils
import math
import time
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from opilio.web.access import Reading, Render, costly
from opilio.web.finding import SearchBody
from opilio.web.pages import Pages

DESCRIPTION = "application/opensearchdescription+xml"
FEEDS = {"atom": "application/atom+xml", "rss": "application/rss+xml"}
MAX_SIZE = 200
MAX_SHORT_NAME = 16
"""OpenSearch 1.1: a short name has at most so many characters."""
SIZE = Field(20, ge=1, description=f"Results on a page, at most {MAX_SIZE}.")

router = APIRouter()


class FeedBody(SearchBody):
    """The parameters of a search whose results are a feed. Clients may ask for any size, and get what there is."""

    size: int = SIZE


def described(name: str, place: str, icon: str = "") -> dict[str, Any]:
    """The values of a description; `place` is where the search is, with a slash at its end: http://host:8765/c/birds/.

    Without an `icon` it describes a published site, whose search is a page and nothing else.
    """
    return {
        "title": name, "place": place, "live": bool(icon), "icon": icon or f"{place}opilio.svg",
        "short_name": name if len(name) <= MAX_SHORT_NAME else f"{name[: MAX_SHORT_NAME - 1]}…",
    }  # fmt: skip


def description(request: Request, pages: Pages, name: str, place: str) -> Response:
    """The description of a search of this server."""
    values = described(name, place, f"{request.base_url}static/opilio.svg")
    return pages.render(request, "opensearch.xml", media_type=DESCRIPTION, **values)


def feed(
    request: Request, pages: Pages, kind: str, name: str, place: str, asked: SearchBody, answer: Mapping[str, Any]
) -> Response:
    """The results of a search as a feed."""
    size = min(asked.size, MAX_SIZE)
    last = max(1, math.ceil(answer["total"] / size))
    return pages.render(
        request, f"search_{kind}.xml", media_type=FEEDS[kind], place=place, title=name, asked=asked, size=size,
        total=answer["total"], last=last, start=(asked.page - 1) * size + 1,
        entries=[_entry(one) for one in answer["results"]], now=_times(time.time()),
    )  # fmt: skip


NOTHING: dict[str, Any] = {"total": 0, "results": []}
"""The answer to no question."""


def _entry(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a feed says of a page."""
    try:
        visited = datetime.datetime.fromisoformat(result["visited"]).replace(tzinfo=datetime.UTC).timestamp()
    except ValueError:  # of a page in a federation this need not be known
        visited = time.time()
    relevance = result["relevance"]
    return {
        "url": result["url"],
        "title": result["title"] or result["url"],
        "summary": "".join(text for text, _ in result["snippet"]),
        "relevance": None if relevance is None else f"{min(1.0, max(0.0, relevance)):.4f}",
        **_times(visited),
    }


def _times(at_s: float) -> dict[str, str]:
    """A time as Atom wants it, and as RSS wants it."""
    moment = datetime.datetime.fromtimestamp(at_s, datetime.UTC)
    return {"rfc3339": f"{moment:%Y-%m-%dT%H:%M:%SZ}", "rfc822": email.utils.format_datetime(moment, usegmt=True)}


# -- the search of a collection


def _place(request: Request, name: str) -> str:
    return f"{request.base_url}c/{quote(name, safe='')}/"


@router.get("/c/{name}/opensearch.xml", include_in_schema=False)
def describe_search(request: Request, name: str, collection: Reading, pages: Render) -> Response:
    """The description of the search of a collection."""
    return description(request, pages, name, _place(request, name))


@router.get("/c/{name}/search.atom", tags=["search"], dependencies=[costly("search")])
def search_atom(
    request: Request, name: str, collection: Reading, pages: Render, asked: Annotated[FeedBody, Query()]
) -> Response:
    """Search the stored pages: results as Atom with OpenSearch elements."""
    return _feed(request, "atom", name, collection, pages, asked)


@router.get("/c/{name}/search.rss", tags=["search"], dependencies=[costly("search")])
def search_rss(
    request: Request, name: str, collection: Reading, pages: Render, asked: Annotated[FeedBody, Query()]
) -> Response:
    """Search the stored pages: results as RSS with OpenSearch elements."""
    return _feed(request, "rss", name, collection, pages, asked)


def _feed(request: Request, kind: str, name: str, collection: Reading, pages: Pages, asked: FeedBody) -> Response:
    given = {**asked.request(), "size": min(asked.size, MAX_SIZE)}
    answer = NOTHING if asked.is_empty else collection.search(asked.q, **given)
    return feed(request, pages, kind, name, _place(request, name), asked, answer)
