"""Why a URL was asked for when it was, or waits where it does: the pages that link to it, and what their links say.

Why a page is judged as it is, told from the newest model or an older one, and how the crawl came to it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np

from opilio.classify import Explanation, KeywordJudge, Model, Step
from opilio.errors import InputError
from opilio.features.evidence import TextReader
from opilio.learn.training_set import anchors_of, neighbours_of
from opilio.model import url_key
from opilio.store import Store
from opilio.topics import TopicRecord, hierarchy_of

MAX_LINKS = 20

_URL = "SELECT oid, state, outcome, depth, relevance, priority FROM crawl WHERE key = $1 AND url = $2"
_LINKS = f"""
    SELECT c.url, p.title, p.relevance, l.anchor, l.context FROM links l
    JOIN crawl c ON c.oid = l.oid_src LEFT JOIN pages p ON p.oid = l.oid_src
    WHERE l.oid_dst = $1 ORDER BY p.relevance DESC NULLS LAST, l.oid_src, l.position LIMIT {MAX_LINKS}
"""
_OFFERED = "SELECT peer, relevance FROM offers WHERE incoming AND url = $1 ORDER BY offered, rowid"
_COUNT = "SELECT count(*), count(DISTINCT oid_src) FROM links WHERE oid_dst = $1"


def explain_link(store: Store, url: str) -> dict[str, Any]:
    """What the database knows of a URL, fetched or not."""
    rows = store.query(_URL, [url_key(url), url]).rows
    if not rows:
        raise InputError(f"{url}: not known to this collection", "Give a URL that a page of it links to.")
    oid, state, outcome, depth, relevance, priority = rows[0]
    names = ("url", "title", "relevance", "anchor", "context")
    [[links, pages]] = store.query(_COUNT, [oid]).rows
    return {
        "url": url,
        "oid": oid,
        "state": state,
        "outcome": outcome,
        "depth": depth,
        "relevance": relevance,
        "priority": priority,
        "links": links,
        "pages": pages,
        "best": [dict(zip(names, row, strict=True)) for row in store.query(_LINKS, [oid]).rows],
        "parts": {},
        "offered": offered_by(store, url),
    }


def offered_by(store: Store, url: str) -> list[dict[str, Any]]:
    """The collections that handed a URL over, each with the relevance that it expected."""
    return [{"peer": peer, "relevance": relevance} for peer, relevance in store.query(_OFFERED, [url]).rows]


MAX_REASONS = 12
# The page of a URL, or of where it was redirected to, or of the page it is a duplicate of.
_PAGE = """
    WITH RECURSIVE way(oid, hops) AS (
        SELECT oid, 0 FROM crawl WHERE url = ?
        UNION ALL
        SELECT coalesce(r.oid_dst, d.of_oid), w.hops + 1
        FROM way w LEFT JOIN redirects r ON r.oid_src = w.oid LEFT JOIN duplicates d ON d.oid = w.oid
        WHERE w.hops < 25 AND coalesce(r.oid_dst, d.of_oid) IS NOT NULL
    )
    SELECT p.oid, c.url, p.title, p.language, p.text, p.relevance, p.kcid, p.model_version
    FROM way w JOIN pages p USING (oid) JOIN crawl c USING (oid) ORDER BY w.hops LIMIT 1
"""
_WAY = """
    WITH RECURSIVE way(oid, url, parent, depth, steps) AS (
        SELECT oid, url, parent, depth, 0 FROM crawl WHERE oid = $1
        UNION ALL
        SELECT c.oid, c.url, c.parent, c.depth, w.steps + 1
        FROM way w JOIN crawl c ON c.oid = w.parent WHERE w.steps < 100
    )
    SELECT w.url, arg_min(l.anchor, l.rowid) FROM way w
    LEFT JOIN links l ON l.oid_src = w.parent AND l.oid_dst = w.oid
    GROUP BY w.steps, w.url
    ORDER BY w.steps DESC
"""


def current_model(store: Store, version: int = 0) -> Model:
    """A stored model, the newest when `version` is 0; the keywords of the topics when there is none."""
    learned = store.load_model(version)
    if learned:
        return Model.from_bytes(learned)
    if version:
        versions = ", ".join(str(model.version) for model in store.load_models())
        raise InputError(f"no model {version}", f"There are: {versions or 'none yet'}.")
    return keyword_model(store.load_topics())


def keyword_model(topics: list[TopicRecord]) -> Model:
    """What judges while nothing has been learned."""
    hierarchy = hierarchy_of(topics)
    wanted = {topic.kcid: " ".join(topic.keywords) for topic in topics if hierarchy.is_wanted(topic.kcid)}
    return Model(0, "keywords", KeywordJudge({kcid: words for kcid, words in wanted.items() if words}))


def explain_page(store: Store, url: str, version: int = 0) -> dict[str, Any] | None:
    """Explain a stored page, with the way by which the crawl came to it; None when it is not stored."""
    rows = store.query(_PAGE, [url]).rows
    if not rows:
        return None
    oid, url, title, language, text, relevance, kcid, model_version = rows[0]
    if text is None:
        raise InputError(f"{url}: its text is not kept", "Set store.text = true before you crawl.")
    anchors = anchors_of(store, [oid]).get(oid, [])
    near = np.array(neighbours_of(store, [oid]).get(oid, ()), np.uint32)
    evidence = TextReader().read(title or "", text, language or "", url, anchors, near)
    told = _told(store, current_model(store, version).explain(evidence), title or "")
    told["stored"] = {"relevance": relevance, "topic": _paths(store).get(kcid, ""), "model_version": model_version}
    told["way"] = [{"url": step_url, "anchor": anchor or ""} for step_url, anchor in store.query(_WAY, [oid]).rows]
    told["offered"] = offered_by(store, told["way"][0]["url"])
    return told


def explain(store: Store, *, url: str, title: str, text: str, version: int = 0) -> dict[str, Any]:
    """Explain a text, or the stored page of a URL when no text is given."""
    if text:
        return explain_text(store, title, text, url, version)
    if not url:
        raise InputError("no text found in it", "Give a file with text, or a URL of the collection.")
    told = explain_page(store, url, version)
    if told is None:
        raise InputError(f"{url}: not a page of this collection", "Save the page and explain the file, or crawl it.")
    return told


def explain_text(store: Store, title: str, text: str, url: str = "", version: int = 0) -> dict[str, Any]:
    """Explain what a model makes of any text."""
    evidence = TextReader().read(title, text, url=url)
    return _told(store, current_model(store, version).explain(evidence), title)


def _told(store: Store, explanation: Explanation, title: str) -> dict[str, Any]:
    paths = _paths(store)
    judgement = msgspec.structs.asdict(explanation.judgement)
    judgement["topic"] = paths.get(explanation.judgement.topic, "")
    return {"title": title, "judgement": judgement, "steps": [_step(step, paths) for step in explanation.steps]}


def _step(step: Step, paths: dict[int, str]) -> dict[str, Any]:
    return {
        "topic": paths.get(step.topic, str(step.topic)),
        "confidence": step.confidence,
        "taken": step.taken,
        "votes": dict(step.votes),
        "estimates": {space: asdict(estimate) for space, estimate in step.estimates.items()},
        "reasons": [asdict(reason) for reason in step.reasons[:MAX_REASONS]],
    }


def _paths(store: Store) -> dict[int, str]:
    return {topic.kcid: topic.path or topic.name for topic in store.load_topics()}
