"""The neighbourhood of a page as a drawing: pages that link here at the left, those it links to at the right.

Only places, words and classes are computed here. The template writes the SVG, so that titles of strangers are escaped
as everywhere, and the sheet gives the colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opilio.model.judgement import RELEVANT

WIDTH = 960
ROW_HEIGHT = 26
TOP = 40
LEFT_X, RIGHT_X = 330, 630
LABEL_GAP = 12
MAX_LABEL_CHARS = 44


@dataclass(frozen=True)
class Node:
    """A page of the drawing."""

    x: int
    y: int
    label: str
    told: str
    """What a reader hears of it: the whole title, topic and relevance."""
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
    centre: Node
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def draw(neighbours: dict[str, Any]) -> Drawing | None:
    """Lay out what `Collection.neighbours` gives; None when there is nothing around the page."""
    linking, linked = neighbours["from"], neighbours["to"]
    rows = max(len(linking), len(linked))
    if not rows:
        return None
    page = neighbours["page"]
    middle_y = TOP + rows * ROW_HEIGHT // 2
    centre = Node(
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
    """A text in one line of so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _y(place: int, count: int, rows: int) -> int:
    """Rows of the shorter side stand in the middle."""
    return TOP + int((place + (rows - count) / 2 + 0.5) * ROW_HEIGHT)


def _node(page: dict[str, Any], near: dict[str, Any], x: int, y: int, side: int) -> Node:
    look = look_of(page, near)
    anchor = "end" if side < 0 else "start"
    return Node(x, y, cut(title_of(near)), _told(near), look, near["url"], near["stored"], x + side * LABEL_GAP, anchor)


def _told(page: dict[str, Any]) -> str:
    if not page["stored"]:
        return f"{title_of(page)} (not stored: {page['outcome'] or page['state']})"
    relevance = "" if page["relevance"] is None else f", relevance {page['relevance']:.2f}"
    return f"{title_of(page)} ({page['topic']}{relevance})"


def _edge(start: Node, end: Node, words: str) -> Edge:
    """A line that leaves and arrives level."""
    middle = (start.x + end.x) // 2
    return Edge(f"M{start.x},{start.y} C{middle},{start.y} {middle},{end.y} {end.x},{end.y}", cut(words, 80))
