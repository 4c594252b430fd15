"""The front page of a portal: its headline, the map of topics and sites, and how the collection grew.

The live portal and a published one show the same (`front_values`). The map is a squarified treemap (Bruls, Huizing and
van Wijk 2000): each topic is a rectangle, divided into its sites, all sized by relevant pages. Only positions, words
and classes are computed here; the template writes the SVG, and the style sheet gives the colours. A drawing that is
made for a desk is too small to read on a phone, so there are two, and the style sheet shows one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opilio.search.portal import title_key

MIN_LATEST_PAGES = 20  # a share of fewer pages says nothing
WIDE, NARROW = (1184, 380), (358, 480)
"""Sizes of the map for a desk and a phone, in pixels."""
MAP_TOPICS = 12
SHOWN_NEW = 8
HEAD_HEIGHT = 24
"""The strip with the name of a topic, above its sites."""
GAP = 3
CHAR_WIDTH = 7.2
"""Of a letter, about, in a label."""
TONES = 8
"""Colours of topics and monograms; the style sheet has them."""
HEADLINE_TOPICS = 5
SPARK = (240, 56)


def front_values(report: dict[str, Any]) -> dict[str, Any]:
    """The values for the template of the front: the result of `Collection.portal`, and what is drawn of it."""
    return report | {
        "headline": headline(report),
        "precision": precision_words(report["found"]["precision"]),
        "maps": [("wide", draw_map(report["wanted"], *WIDE)), ("narrow", draw_map(report["wanted"], *NARROW))],
        "map_topics": _largest(report["wanted"]),
        "sparks": draw_growth(report["growth"]),
        **_without_repeats(report),
    }


def tone(text: str) -> int:
    """The number of the colour that stands for a host."""
    return zlib.crc32(text.encode()) % TONES


def letter(host: str) -> str:
    """The letter that stands for a host."""
    return (host.removeprefix("www.")[:1] or "?").upper()


# -- words


def headline(report: dict[str, Any]) -> str:
    """What was found, in words; empty when nothing was."""
    found = report["found"]
    if not found["pages"]:
        return ""
    topics = sorted((topic for topic in report["wanted"] if topic["relevant"]), key=lambda topic: -topic["relevant"])
    others = report["wanted_topics"] - len(report["wanted"])
    is_one_left = not others and len(topics) == HEADLINE_TOPICS + 1  # its name is as short as "1 more topic"
    names = [topic["name"] for topic in topics[: HEADLINE_TOPICS + is_one_left]]
    more = others + len(topics) - len(names)
    if more > 0:
        names.append(f"{more} more {_plural(more, 'topic')}")
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"{_counted(found['pages'], 'page')} about {listed} from {_counted(found['sites'], 'site')}"


def precision_words(precision: dict[str, Any] | None) -> str:
    """How many of the pages are on topic, and who says so; empty when nobody does."""
    if precision is None:
        return ""
    bounds = f"({100 * precision['low']:.0f} to {100 * precision['high']:.0f} %)"
    share = f"{100 * precision['value']:.0f} %"
    if precision["kind"] == "checked":
        return f"about {share} on topic by a checked sample of {_counted(precision['judged'], 'page')} {bounds}"
    return f"about {share} on topic as the model expects, not checked {bounds}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {_plural(number, noun)}"


def _plural(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"


def _without_repeats(report: dict[str, Any]) -> dict[str, Any]:
    """New pages, authorities and hubs whose titles are not on the page yet."""
    shown = {title_key(page) for topic in report["wanted"] for page in topic["best"]}
    new = list(_unseen(report["new"]["best"], shown))[:SHOWN_NEW]
    shown |= {title_key(page) for page in new}
    authorities = list(_unseen(report["authorities"], shown))
    hubs = list(_unseen(report["hubs"], shown | {title_key(page) for page in authorities}))
    return {"new": report["new"] | {"best": new}, "authorities": authorities, "hubs": hubs}


def _unseen(pages: Sequence[Mapping[str, Any]], shown: set[str]) -> Iterator[Mapping[str, Any]]:
    seen = set(shown)
    for page in pages:
        if (key := title_key(page)) not in seen:
            seen.add(key)
            yield page


# -- the map


@dataclass(frozen=True)
class Rectangle:
    """A place on the map."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Tile:
    """A topic, or a site within one. `label` is empty where it does not fit."""

    place: Rectangle
    label: str
    tooltip: str
    tone: int
    topic: str
    host: str = ""
    url: str = ""
    """The best page of the site; empty for a topic, and for its many small sites together."""


@dataclass(frozen=True)
class TopicTile:
    """A topic with its sites."""

    head: Tile
    sites: tuple[Tile, ...]


@dataclass(frozen=True)
class TopicMap:
    """What the template draws."""

    width: int
    height: int
    topics: tuple[TopicTile, ...]


def draw_map(wanted: Sequence[dict[str, Any]], width: int, height: int) -> TopicMap | None:
    """Lay out the largest topics with their sites; None when no topic has a page."""
    topics = _largest(wanted)
    if not topics:
        return None
    places = squarify([topic["relevant"] for topic in topics], Rectangle(0, 0, width, height))
    drawn = [
        _topic_tile(topic, place, number % TONES)
        for number, (topic, place) in enumerate(zip(topics, places, strict=True))
    ]
    return TopicMap(width, height, tuple(drawn))


def _largest(wanted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    filled = [topic for topic in wanted if topic["relevant"] and topic["sites"]]
    return sorted(filled, key=lambda topic: -topic["relevant"])[:MAP_TOPICS]


def _topic_tile(topic: dict[str, Any], place: Rectangle, colour: int) -> TopicTile:
    said = f"{topic['topic'] or topic['name']}: {_counted(topic['relevant'], 'relevant page')}"
    label = _fitting(f"{topic['name']} {topic['relevant']:,}", topic["name"], place)
    head = Tile(place, label, said, colour, topic["topic"])
    room = Rectangle(place.x + GAP, place.y + HEAD_HEIGHT, place.width - 2 * GAP, place.height - HEAD_HEIGHT - GAP)
    if room.width < HEAD_HEIGHT or room.height < HEAD_HEIGHT:
        return TopicTile(head, ())
    sites = [(site["host"], site["pages"], site["url"]) for site in topic["sites"]]
    rest = topic["relevant"] - sum(pages for _, pages, _ in sites)
    if rest > 0:
        sites.append((f"{_counted(topic['sites_total'] - len(sites), 'more site')}", rest, ""))
    places = squarify([pages for _, pages, _ in sites], room)
    tiles = [_site_tile(topic, site, spot, colour) for site, spot in zip(sites, places, strict=True)]
    return TopicTile(head, tuple(tiles))


def _site_tile(topic: dict[str, Any], site: tuple[str, int, str], place: Rectangle, colour: int) -> Tile:
    host, pages, url = site
    label = _fitting(f"{host} {pages:,}", host, place)
    said = f"{host}: {_counted(pages, 'page')} about {topic['name']}"
    return Tile(place, label, said, colour, topic["topic"], host, url)


def _fitting(whole: str, name: str, place: Rectangle) -> str:
    """As much of a label as its rectangle has room for."""
    room = int((place.width - 12) / CHAR_WIDTH)
    if place.height < 20 or room < 4:
        return ""
    if len(whole) <= room:
        return whole
    return name if len(name) <= room else name[: room - 1].rstrip() + "…"


def squarify(sizes: Sequence[float], room: Rectangle) -> list[Rectangle]:
    """Rectangles with areas in the ratio of the sizes, which are given largest first; as near to squares as can be."""
    left, places = room, list[Rectangle]()
    total = sum(sizes)
    scale = room.width * room.height / total if total else 0.0
    areas = [size * scale for size in sizes]
    while len(places) < len(areas):
        side = min(left.width, left.height)
        start, count = len(places), 1
        while start + count < len(areas):
            row, longer = areas[start : start + count], areas[start : start + count + 1]
            if _worst(longer, side) > _worst(row, side):
                break
            count += 1
        row = areas[start : start + count]
        placed, left = _row(row, left)
        places += placed
    return places


def _worst(row: Sequence[float], side: float) -> float:
    """How far from a square the worst rectangle of a row is."""
    depth = sum(row) / side if side else 0.0
    if not depth or not min(row):
        return float("inf")
    return max(max(depth * depth / area, area / (depth * depth)) for area in row)


def _row(row: Sequence[float], room: Rectangle) -> tuple[list[Rectangle], Rectangle]:
    """A row along the shorter side, and the room that is left."""
    is_column = room.width >= room.height
    side = room.height if is_column else room.width
    depth = sum(row) / side if side else 0.0
    placed, at = [], 0.0
    for area in row:
        length = area / depth if depth else 0.0
        if is_column:
            placed.append(Rectangle(room.x, room.y + at, depth, length))
        else:
            placed.append(Rectangle(room.x + at, room.y, length, depth))
        at += length
    if is_column:
        return placed, Rectangle(room.x + depth, room.y, max(0.0, room.width - depth), room.height)
    return placed, Rectangle(room.x, room.y + depth, room.width, max(0.0, room.height - depth))


# -- growth and harvest


@dataclass(frozen=True)
class Spark:
    """A small line over the pages fetched."""

    name: str
    said: str
    line: str
    """The `d` of a path."""
    area: str
    """... and of the area below it."""
    width: int = SPARK[0]
    height: int = SPARK[1]


def draw_growth(growth: Sequence[dict[str, int]]) -> list[Spark]:
    """The relevant pages so far, and the share of relevant ones, over the pages fetched; none without two points."""
    total = sum(part["pages"] for part in growth)
    relevant = sum(part["relevant"] for part in growth)
    if len(growth) < 2 or not relevant:
        return []
    grown, shares, pages, so_far = [(0.0, 0.0)], [], 0, 0
    for part in growth:
        pages, so_far = pages + part["pages"], so_far + part["relevant"]
        grown.append((pages / total, so_far / relevant))
        shares.append(((pages - part["pages"] / 2) / total, part["relevant"] / part["pages"]))
    share, latest_pages, latest_relevant = relevant / total, 0, 0
    for part in reversed(growth):
        latest_pages, latest_relevant = latest_pages + part["pages"], latest_relevant + part["relevant"]
        if latest_pages >= MIN_LATEST_PAGES:
            break
    latest = f"{latest_relevant / latest_pages:.1%} of the latest {latest_pages:,}"
    return [
        _spark("Growth", f"{relevant:,} relevant pages of {total:,} fetched", grown),
        _spark("Harvest", f"{share:.1%} of all pages are relevant, {latest}", shares),
    ]


def _spark(name: str, said: str, points: Sequence[tuple[float, float]]) -> Spark:
    width, height = SPARK
    placed = [(round(x * width, 1), round((height - 2) - y * (height - 4), 1)) for x, y in points]
    line = "M" + " L".join(f"{x},{y}" for x, y in placed)
    return Spark(name, said, line, f"{line} L{placed[-1][0]},{height} L{placed[0][0]},{height} Z")
