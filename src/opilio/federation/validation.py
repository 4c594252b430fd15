"""Validation of what peers send: text and numbers from outside are bounded and cleaned before anything uses them.

URLs are normalised, so that only http and https come through. Texts are cut to length. Numbers are finite and within
what is possible. An answer of another form altogether is refused as a whole, by its types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from opilio.federation.peers import (
    FACETS,
    MAX_TOPIC_CHARS,
    Offer,
    PeerAnswer,
    PeerError,
    PeerHit,
    PeerSummary,
    TopicProfile,
    WordStatistics,
)
from opilio.federation.summary import MAX_BYTES
from opilio.model.url import MAX_URL_CHARS, host_of, normalize
from opilio.search.ranking import RANKINGS

MAX_PAGES = 10**9
MAX_WORDS = 200_000
MAX_PART = 10.0
"""A word adds less than this to a page, without its weight: 2.2 times the boosts of all fields."""
MAX_TEXT_CHARS, MAX_NAME_CHARS = 1000, 300
MAX_TOPICS, MAX_TERMS = 500, 200
LEAST_TYPICAL = 0.05
"""Lower values of `typical` are raised to this: else every URL would be forwarded to a peer that claims 0."""
MAX_FACET_VALUES = 50_000
MAX_PIECES = 100
MAX_KEYS = 1000
MAX_COUNT = 1e6
SPARE = 10
"""Pages that a peer may send beyond those requested."""
_VERSION = re.compile(r"[\w.-]{1,100}", re.ASCII)
_MARK = re.compile(r"[0-9a-f]{0,16}")
_MOMENT = re.compile(r"[0-9T:-]{10,19}")


def check_summary(summary: PeerSummary) -> PeerSummary:
    """A summary within what is possible; PeerError when it cannot be used at all."""
    if not _VERSION.fullmatch(summary.version):
        raise PeerError("the version of a summary is of another form")
    pages = int(_within(summary.pages, MAX_PAGES))
    words = {}
    for stem, one in list(summary.words.items())[:MAX_WORDS]:
        counts = [int(_within(count, pages)) for count in (one.pages, one.titles, one.anchors)]
        if counts[0]:
            mean, variance = _within(one.mean, MAX_PART), _within(one.variance, MAX_PART**2)
            words[_text(stem)] = WordStatistics(counts[0], mean, variance, counts[1], counts[2])
    mean, variance = summary.relevance
    return PeerSummary(
        name=_text(summary.name),
        version=summary.version,
        pages=pages,
        mean_words=_within(summary.mean_words, MAX_COUNT),
        topics=[_profile(topic, pages) for topic in summary.topics[:MAX_TOPICS]],
        words=words,
        rare=b"\xff" if len(summary.words) > MAX_WORDS else summary.rare[:MAX_BYTES],  # too many: it may have any word
        relevance=(_within(mean, 1.0), _within(variance, 1.0)),
        facets={
            name: {
                _text(value, MAX_TOPIC_CHARS): int(_within(count, pages))
                for value, count in list(counts.items())[:MAX_FACET_VALUES]
            }
            for name, counts in summary.facets.items()
            if name in FACETS
        },
        cut=[name for name in FACETS if name in summary.cut],
        lengths=_counts(summary.lengths),
    )


def _profile(topic: TopicProfile, pages: int) -> TopicProfile:
    terms = {_text(stem): _within(weight, 1.0) for stem, weight in list(topic.terms.items())[:MAX_TERMS]}
    length = math.sqrt(sum(weight * weight for weight in terms.values())) or 1.0
    return TopicProfile(
        path=_text(topic.path, MAX_TOPIC_CHARS),
        description=_text(topic.description, MAX_TEXT_CHARS),
        pages=int(_within(topic.pages, pages)),
        terms={stem: weight / length for stem, weight in terms.items()},
        typical=max(LEAST_TYPICAL, _within(topic.typical, 1.0)),
    )


def check_answer(answer: PeerAnswer, most: int) -> PeerAnswer:
    """An answer within what is possible; pages without a valid URL are left out."""
    indexed = int(_within(answer.pages_indexed, MAX_PAGES))
    checked = [_found(found) for found in answer.pages[: most + SPARE]]
    pages = [found for found in checked if found is not None]
    return PeerAnswer(
        total=max(len(pages), int(_within(answer.total, max(indexed, len(pages))))),
        pages=pages,
        facets={name: _facet(answer.facets.get(name, []), indexed) for name in FACETS},
        took_ms=_within(answer.took_ms, MAX_COUNT),
        pages_indexed=indexed,
        frequencies={key: int(count) for key, count in _counts(answer.frequencies, indexed).items()},
        lengths=_counts(answer.lengths),
        at_least=answer.at_least,
    )


def _found(found: PeerHit) -> PeerHit | None:
    report = found.result
    url = normalize(report["url"]) if isinstance(report.get("url"), str) else ""
    if not url or len(url) > 2 * MAX_URL_CHARS:
        return None
    parts = report.get("parts")
    visited = report.get("visited")
    result = {
        "oid": int(_within(report.get("oid"), 2.0**53)), "url": url, "host": host_of(url),
        "title": _text(report.get("title"), MAX_TEXT_CHARS), "topic": _text(report.get("topic"), MAX_TOPIC_CHARS),
        "relevance": _within(report.get("relevance"), 1.0), "authority": _within(report.get("authority"), 1.0),
        "visited": visited if isinstance(visited, str) and _MOMENT.fullmatch(visited) else "",
        "language": _text(report.get("language"), 20), "type": _text(report.get("type"), 40),
        "title_pieces": _pieces(report.get("title_pieces")), "snippet": _pieces(report.get("snippet")),
        "score": _within(report.get("score"), 1.0), "folded": int(_within(report.get("folded"), MAX_PAGES)),
        "parts": {name: _within(parts.get(name) if isinstance(parts, dict) else 0.0, 1.0) for name in RANKINGS},
    }  # fmt: skip
    marks = [mark if _MARK.fullmatch(mark) else "" for mark in found.marks[:9]]
    return PeerHit(result, _counts(found.words), _counts(found.lengths), marks)


def _pieces(pieces: Any) -> list[tuple[str, bool]]:
    """Pieces of a snippet, each with whether it matches the question."""
    if not isinstance(pieces, list):
        return []
    fitting = [piece for piece in pieces[:MAX_PIECES] if isinstance(piece, list) and len(piece) == 2]
    return [(_text(text, MAX_TEXT_CHARS), is_asked is True) for text, is_asked in fitting]


def _facet(values: Iterable[Any], most: int) -> list[dict[str, Any]]:
    return [
        {"value": _text(one["value"], MAX_TOPIC_CHARS), "count": int(_within(one["count"], most))}
        for one in list(values)[:MAX_PIECES]
        if isinstance(one, dict) and isinstance(one.get("value"), str) and "count" in one
    ]


def check_offers(offers: Iterable[Offer]) -> list[Offer]:
    """Offers with normalised URLs; those without a valid URL, or with one that is too long, are left out."""
    checked = []
    for offer in offers:
        url = normalize(offer.url)
        if url and len(url) <= MAX_URL_CHARS:
            title = _text(offer.title, MAX_TEXT_CHARS)
            checked.append(Offer(url, _text(offer.topic, MAX_TOPIC_CHARS), _within(offer.relevance, 1.0), title))
    return checked


def _counts(counts: Mapping[str, float], most: float = MAX_COUNT) -> dict[str, float]:
    return {key[:MAX_NAME_CHARS]: _within(value, most) for key, value in list(counts.items())[:MAX_KEYS]}


def _within(value: Any, most: float) -> float:
    """A number between 0 and `most`; 0 for anything that is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    if isinstance(value, float) and math.isnan(value):  # an integer may be too large for this test
        return 0.0
    return float(min(most, max(0.0, value)))


def _text(text: Any, most: int = MAX_NAME_CHARS) -> str:
    """A text without control characters."""
    if not isinstance(text, str):
        return ""
    return "".join(sign if sign.isprintable() else " " for sign in text[:most])
