"""The portal pages: the topic tree, the pages of a topic, and a page with all that is known of it.

A page shows its neighbourhood as a drawing: pages that link here on the left, pages it links to on the right. Only
positions, words and classes are computed here. The template writes the SVG, so that foreign titles are escaped as
everywhere, and the style sheet gives the colours.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from opilio.distill import DEFAULT_METHOD, METHODS
from opilio.errors import InputError
from opilio.model.visit import RELEVANT, certainty
from opilio.topics.tree import OFF_TOPIC, OTHERS
from opilio.web.access import Reading, Render, costly
from opilio.web.front import front_values
from opilio.web.security import Security
from opilio.web.teaching import taught

SIMILAR = 10
DAYS = (1, 7, 30)
SEEN = "opilio_seen"
"""The cookie with the times of the visits of one collection's front page."""
SEEN_MAX_AGE_S = 365 * 86_400
VISIT_GAP_S = 1800
PICTURE_MAX_AGE_S = 86_400
PICTURE_POLICY = "default-src 'none'; sandbox"
WIDTH = 960
ROW_HEIGHT = 26
TOP = 40
LEFT_X, RIGHT_X = 330, 630
LABEL_GAP = 12
MAX_LABEL_CHARS = 44

router = APIRouter()


# -- the drawing


@dataclass(frozen=True)
class DrawnPage:
    """A page of the drawing."""

    x: int
    y: int
    label: str
    tooltip: str
    """What a screen reader says: the whole title, the topic, and how sure that is."""
    look: str
    """same, other, low or unknown: its class in the sheet."""
    url: str
    stored: bool
    label_x: int
    anchor: str
    """The SVG text-anchor of its label."""


@dataclass(frozen=True)
class Edge:
    """A link, from left to right."""

    path: str
    words: str


@dataclass(frozen=True)
class Drawing:
    """What the template draws."""

    width: int
    height: int
    centre: DrawnPage
    nodes: tuple[DrawnPage, ...]
    edges: tuple[Edge, ...]


def draw(neighbours: dict[str, Any]) -> Drawing | None:
    """Lay out what `Collection.neighbours` gives; None when there is nothing around the page."""
    linking, linked = neighbours["from"], neighbours["to"]
    rows = max(len(linking), len(linked))
    if not rows:
        return None
    page = neighbours["page"]
    middle_y = TOP + rows * ROW_HEIGHT // 2
    centre = DrawnPage(
        WIDTH // 2, middle_y, cut(title_of(page)), _told(page), "centre", page["url"], True, WIDTH // 2, "middle"
    )
    left = [_node(page, near, LEFT_X, _y(place, len(linking), rows), -1) for place, near in enumerate(linking)]
    right = [_node(page, near, RIGHT_X, _y(place, len(linked), rows), 1) for place, near in enumerate(linked)]
    edges = [_edge(node, centre, near["anchor"]) for node, near in zip(left, linking, strict=True)]
    edges += [_edge(centre, node, near["anchor"]) for node, near in zip(right, linked, strict=True)]
    return Drawing(WIDTH, TOP + rows * ROW_HEIGHT + ROW_HEIGHT // 2, centre, (*left, *right), tuple(edges))


def look_of(page: dict[str, Any], near: dict[str, Any]) -> str:
    """How a neighbour is coloured: relevant and of the page's topic, relevant and of another, not relevant, unknown."""
    if not near["stored"]:
        return "unknown"
    if near["relevance"] is None or near["relevance"] < RELEVANT:
        return "low"
    return "same" if near["topic"] == page["topic"] else "other"


def title_of(page: dict[str, Any]) -> str:
    """The title of a page, or its address when it has none."""
    return str(page["title"] or page["url"])


def cut(text: str, most: int = MAX_LABEL_CHARS) -> str:
    """A text in one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _y(place: int, count: int, rows: int) -> int:
    """The height of a row; the rows of the shorter side are centred."""
    return TOP + int((place + (rows - count) / 2 + 0.5) * ROW_HEIGHT)


def _node(page: dict[str, Any], near: dict[str, Any], x: int, y: int, side: int) -> DrawnPage:
    look = look_of(page, near)
    anchor = "end" if side < 0 else "start"
    return DrawnPage(
        x, y, cut(title_of(near)), _told(near), look, near["url"], near["stored"], x + side * LABEL_GAP, anchor
    )


def _told(page: dict[str, Any]) -> str:
    if not page["stored"]:
        return f"{title_of(page)} (not stored: {page['outcome'] or page['state']})"
    topic, certain = OFF_TOPIC if page["topic"] == OTHERS else page["topic"], certainty(page["relevance"])
    return f"{title_of(page)} ({certain if topic == certain else f'{topic}, {certain}'})"


def _edge(start: DrawnPage, end: DrawnPage, words: str) -> Edge:
    """A curve that starts and ends horizontally."""
    middle = (start.x + end.x) // 2
    return Edge(f"M{start.x},{start.y} C{middle},{start.y} {middle},{end.y} {end.x},{end.y}", cut(words, 80))


# -- the pages


class LiveLinks:
    """Links within a portal that a server shows. A published portal has other links (`publishing`)."""

    def __init__(self, name: str) -> None:
        self._start = f"/c/{quote(name, safe='')}/"

    def front(self, days: int = 0) -> str:
        """The front page, with the pages of the last `days`."""
        return self._start + _query(days=days)

    def topic(self, topic: str, page: int = 1, **options: Any) -> str:
        """The pages of a topic."""
        return f"{self._start}topic{_query(topic=topic, page=page if page > 1 else 0, **options)}"

    def page(self, url: str) -> str:
        """A page of the collection."""
        return f"{self._start}page{_query(url=url)}"

    def site(self, topic: str, host: str, best: str) -> str:
        """The pages of a topic on a host."""
        return f"{self._start}search{_query(topic=topic, host=host)}"

    def picture(self, url: str) -> str:
        """A stored picture."""
        return f"{self._start}picture{_query(url=url)}"

    def similar(self, url: str) -> str:
        """Similar pages."""
        return f"{self._start}similar{_query(url=url)}"


def _query(**values: Any) -> str:
    given = {name: int(value) if isinstance(value, bool) else value for name, value in values.items() if value}
    return f"?{urlencode(given, quote_via=quote)}" if given else ""


def _shown(name: str) -> dict[str, Any]:
    """What the templates of a live portal need."""
    return {"name": name, "place": "portal", "base": "base.html", "live": True, "links": LiveLinks(name)}


@router.get("/c/{name}/", include_in_schema=False)
def front(request: Request, name: str, collection: Reading, pages: Render, days: int | None = None) -> HTMLResponse:
    """The front page of the portal. A reader who is signed in sees what is new since the last visit."""
    visits = _visits(request, time.time())
    since_s = visits[0] if visits is not None and days is None else 0
    report = collection.portal(1 if days is None else days, since_s=since_s or None)
    shown = {**_shown(name), **front_values(report), "questions": len(collection.questions())}
    answer = pages.render(request, "portal.html", **shown, choices=DAYS, since_visit=bool(since_s))
    if visits is not None:
        answer.set_cookie(
            SEEN,
            f"{visits[0]}-{visits[1]}",
            SEEN_MAX_AGE_S,
            path=LiveLinks(name).front(),
            httponly=True,
            samesite="strict",
        )
    return answer


def _visits(request: Request, now_s: float) -> tuple[int, int] | None:
    """When the visit before this one was, 0 for none, and when this one was last seen; None for who is not signed in.

    Requests that follow each other within `VISIT_GAP_S` are one visit.
    """
    security: Security = request.app.state.security
    if not security.is_signed_in(request):
        return None
    found = re.fullmatch(r"(\d{1,10})-(\d{1,10})", request.cookies.get(SEEN, ""))
    before_s, last_s = (int(found[1]), int(found[2])) if found else (0, 0)
    return (last_s if now_s - last_s > VISIT_GAP_S else before_s), int(now_s)


@router.get("/c/{name}/topic", include_in_schema=False, dependencies=[costly("analysis", "analyse")])
def topic(
    request: Request,
    name: str,
    collection: Reading,
    pages: Render,
    topic: str = "",
    order: str = "confidence",
    page: int = 1,
    own: bool = False,
    relevant: bool = False,
    analyse: bool = False,
) -> HTMLResponse:
    """The pages of a topic. With `analyse` its links are analysed now, which may take a while."""
    report = collection.topic_pages(topic, order=order, page=page, own=own, relevant=relevant)
    if analyse and topic.strip() != OTHERS:
        best = collection.distill(report["about"]["topic"] or None, top=10)
        report |= {"hubs": best["hubs"], "authorities": best["authorities"]}
    if topic.strip() == OTHERS:  # the user can assign a page to a topic
        report |= {"topics": list(_paths(report["tree"]))}
    said = taught(collection, [page["url"] for page in report["results"]])
    return pages.render(request, "topic.html", **_shown(name), **report, **said, analysed=analyse)


def _paths(node: dict[str, Any]) -> Iterator[str]:
    """The paths of the topics below a node."""
    for child in node["children"]:
        yield child["topic"]
        yield from _paths(child)


@router.get("/c/{name}/distill", include_in_schema=False, dependencies=[costly("analysis")])
def distill(
    request: Request,
    name: str,
    collection: Reading,
    pages: Render,
    search: str = "",
    topic: str = "",
    method: str = DEFAULT_METHOD,
    top: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> HTMLResponse:
    """The hubs and authorities of a search result or a topic, as they are now."""
    found, trouble = None, ""
    if search or topic:
        try:
            found = collection.distill(topic or None, method, top, search=search)
        except InputError as error:
            trouble = f"{error.message}. {error.hint}"
    return pages.render(
        request, "distill.html", 400 if trouble else 200, **_shown(name), search=search, topic=topic, method=method,
        top=top, topics=collection.topics(), methods=METHODS, found=found, trouble=trouble,
    )  # fmt: skip


@router.get("/c/{name}/feed", include_in_schema=False)
@router.get("/c/{name}/{form}.xml", include_in_schema=False)
def feed(request: Request, name: str, collection: Reading, form: str = "atom") -> Response:
    """The relevant pages that were fetched last, for feed readers: atom.xml or rss.xml."""
    home = f"{request.base_url}c/{quote(name)}/"
    text = collection.feed(form, home, str(request.url.replace(query="")))
    return Response(text.encode("utf-8", "replace"), media_type=f"application/{form}+xml")


@router.get("/c/{name}/page", include_in_schema=False)
def page(request: Request, name: str, url: str, collection: Reading, pages: Render) -> HTMLResponse:
    """All that is known of a page."""
    report = collection.page(url)
    if not report["stored"]:
        return pages.render(request, "unstored.html", 404, **_shown(name), **report)
    said = taught(collection, [report["url"]])
    return pages.render(request, "page.html", **_shown(name), **page_values(report), **said)


@router.get("/c/{name}/picture", include_in_schema=False)
def picture(name: str, url: str, collection: Reading) -> Response:
    """A stored picture or icon. Its type is that of its bytes, which the crawl has checked."""
    [found] = collection.pictures([url])
    if found is None:
        return Response(status_code=404)
    headers = {"Content-Security-Policy": PICTURE_POLICY, "Cache-Control": f"private, max-age={PICTURE_MAX_AGE_S}"}
    return Response(base64.b64decode(found["data"]), media_type=found["content_type"], headers=headers)


@router.get("/c/{name}/similar", include_in_schema=False, dependencies=[costly("search")])
def similar(
    request: Request, name: str, url: str, collection: Reading, pages: Render, part: bool = False
) -> HTMLResponse:
    """Similar pages: a whole page, or the part of it that a page view loads."""
    results = collection.similar(url, SIMILAR)
    given = collection.feedback_given([page["url"] for page in results])
    shown = {**_shown(name), "url": url, "results": results, "given": given}
    return pages.render(request, "similar_part.html" if part else "similar.html", **shown)


def page_values(report: dict[str, Any]) -> dict[str, Any]:
    """The values for the template of a page: the result of `Collection.page`, and its drawing."""
    topic = "" if report["topic"] == OTHERS else report["topic"]
    said = [each["confidence"] for each in report["judgements"] if each["model_version"] == report["model_version"]]
    return {
        "seen": report, "result": {"url": report["url"], "topic": topic}, "topics": report["topics"],
        "drawing": draw(report["neighbours"]), "strongest": _strongest(report["why"]),
        "confidence": said[-1] if said else None,
    }  # fmt: skip


def _strongest(why: dict[str, Any] | None) -> float:
    """The largest weight of all terms: the length of the longest bar."""
    steps = why["steps"] if why else []
    return max((abs(reason["weight"]) for step in steps for reason in step["reasons"]), default=0.0)


# -- the REST API


@router.get("/api/c/{name}/page", tags=["browse"])
def page_of(collection: Reading, url: str, explain: bool = True) -> Response:
    """A page with its text, why it is judged so, its judgements, duplicates and neighbours; 404 says what is known."""
    report = collection.page(url, explain=explain)
    if report["stored"]:
        return JSONResponse(report)
    hint = "It is known: see `known`." if report["known"] else "No page of the collection links to it."
    return JSONResponse({"error": f"{report['asked']}: not stored", "hint": hint, **report}, 404)
