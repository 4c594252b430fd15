"""The user's part in archetypes: to look at them, and to confirm, reject or trim them (BINGO 2.6).

What is confirmed is the user's own from then on: no round removes it, and the guard asks about it. What is rejected is
a counter-example of its topic, and never proposed again. A page that is about several things can be trimmed to the part
that is on the topic: that part is learned from in place of the whole, and the page stays an example of its topic.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from opilio.classify import Model
from opilio.errors import InputError
from opilio.features.evidence import TextReader
from opilio.learn.archetypes import Archetype, TopicSurvey, survey
from opilio.learn.explaining import current_model
from opilio.learn.lessons import ARCHETYPE
from opilio.settings import Settings
from opilio.store import Batch, Store
from opilio.store.loading import TrainingRecord
from opilio.topics import find_topic

CONFIRMED, REJECTED = "confirmed", "rejected"
PREVIEW_WORDS, PREVIEW_STEP = 36, 12
"""A preview has so many words, and begins at every so manieth."""
MAX_PREVIEWED_WORDS = 5000

_PAGE = "SELECT p.oid, coalesce(p.title, ''), p.text FROM crawl c JOIN pages p USING (oid) WHERE c.url = $1"
_TEXTS = """
    SELECT oid, coalesce(title, ''), coalesce(nullif(main_text, ''), text, ''), coalesce(language, '') FROM pages
    WHERE oid IN (SELECT unnest($1::BIGINT[]))
"""
_FORGET = "DELETE FROM training WHERE kcid = $1 AND name = $2"
_KEEP = f"UPDATE training SET source = CASE source WHEN '{ARCHETYPE}' THEN '{CONFIRMED}' ELSE source END"
_VOUCH = f"{_KEEP} WHERE kcid = $1 AND name = $2"
_TRIM = f"{_KEEP}, text = $3 WHERE kcid = $1 AND name = $2"


class Page(NamedTuple):
    """A stored page."""

    oid: int
    title: str
    text: str


def list_archetypes(store: Store, settings: Settings, topic: str | None = None) -> list[dict[str, Any]]:
    """The archetypes there are, and the candidates for the next round in the order in which they would join."""
    chosen = None if topic is None else find_topic(store.load_topics(), topic).kcid
    surveyed = survey(store, settings)
    coming = {(page.kcid, page.oid) for page in surveyed.choose(settings.learn).added}
    paths = {record.kcid: record.path or record.name for record in store.load_topics()}
    found: list[dict[str, Any]] = []
    for kcid, about in surveyed.topics.items():
        if chosen in (None, kcid):
            found += [_listed(page, about, "archetype", paths[kcid]) for page in about.archetypes]
            found += [
                _listed(page, about, "next" if (kcid, page.oid) in coming else "candidate", paths[kcid])
                for page in about.candidates
            ]
    previews = _previews(store, current_model(store), [page["oid"] for page in found])
    return [{**page, "preview": previews.get(page["oid"], "")} for page in found]


def _listed(page: Archetype, about: TopicSurvey, state: str, path: str) -> dict[str, Any]:
    return {
        "state": state, "topic": path, "confidence": page.confidence, "mean": about.mean, "authority": page.authority,
        "title": page.title, "url": page.url, "oid": page.oid,
    }  # fmt: skip


def page_text(store: Store, url: str) -> dict[str, Any]:
    """The title and the visible text of a stored page."""
    page = _stored(store, url)
    return {"url": url, "title": page.title, "text": page.text}


def confirm_archetype(store: Store, topic: str, url: str) -> None:
    """Make an archetype, a candidate or any other stored page the user's own example of a topic."""
    kcid = find_topic(store.load_topics(), topic).kcid
    record = _record(store, kcid, url)
    if record is not None and record.positive:
        store.query(_VOUCH, [kcid, record.name], write=True)
        return
    _stored(store, url)
    if record is not None:  # it was rejected before
        store.query(_FORGET, [kcid, record.name], write=True)
    _add(store, kcid, url, positive=True)


def reject_archetype(store: Store, topic: str, url: str) -> None:
    """Make an archetype or a candidate a counter-example of its topic: it is never proposed again."""
    kcid = find_topic(store.load_topics(), topic).kcid
    record = _record(store, kcid, url)
    if record is not None and record.source not in (ARCHETYPE, CONFIRMED, REJECTED):
        raise InputError(
            f"{url} is an example that you gave to {topic!r}, not an archetype",
            f'Drop it: opilio topics drop FOLDER "{topic}" {record.name}',
        )
    _stored(store, url)
    if record is not None:
        store.query(_FORGET, [kcid, record.name], write=True)
    _add(store, kcid, url, positive=False)


def trim_example(store: Store, topic: str, url: str, text: str) -> None:
    """Learn from a part of a page in place of the whole. The page is the user's own example of the topic then."""
    kcid = find_topic(store.load_topics(), topic).kcid
    page, record = _stored(store, url), _record(store, kcid, url)
    if record is not None and not record.positive:
        raise InputError(f"{url} is a counter-example of {topic!r}", "Confirm it first, if it is about the topic.")
    if not text.strip():
        raise InputError("nothing is left of the page", "Keep the part that is about the topic.")
    words = set(_words(f"{page.title}\n{page.text}"))
    strange = next((word for word in _words(text) if word not in words), None)
    if strange is not None:
        raise InputError(
            f"{strange[:100]!r} does not stand on {url}", "Keep parts of it as `opilio archetypes show` prints them."
        )
    if record is None:
        _add(store, kcid, url, positive=True, text=text.strip())
    else:
        store.query(_TRIM, [kcid, record.name, text.strip()], write=True)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _stored(store: Store, url: str) -> Page:
    rows = store.query(_PAGE, [url]).rows
    if not rows:
        raise InputError(f"{url}: not a page of this collection", "`opilio archetypes list FOLDER` shows what can be.")
    oid, title, text = rows[0]
    if text is None:
        raise InputError(f"{url}: its text is not kept", "Set store.text = true before you crawl.")
    return Page(oid, title, text)


def _record(store: Store, kcid: int, url: str) -> TrainingRecord | None:
    """The training document of a topic that a URL stands for: by its name, or by the page that it led to."""
    rows = store.query(_PAGE, [url]).rows
    oid = rows[0][0] if rows else None
    mine = [record for record in store.load_training() if record.kcid == kcid]
    named = [record for record in mine if record.name == url]
    return next(iter(named or [record for record in mine if oid is not None and record.oid == oid]), None)


def _add(store: Store, kcid: int, url: str, *, positive: bool, text: str | None = None) -> None:
    batch = Batch()
    source = CONFIRMED if positive else REJECTED
    batch.training.add(url, "url", kcid, positive, source, "", text, time.time())
    store.write(batch)


def _previews(store: Store, model: Model, oids: Iterable[int]) -> dict[int, str]:
    """Of each page, the passage with the most words that speak for its topic."""
    reader = TextReader()
    found = {}
    for oid, title, text, language in store.query(_TEXTS, [list(oids)], max_rows=2**16).rows:
        explained = model.explain(reader.read(title, text, language))
        speaking = {
            word
            for step in explained.steps
            if step.taken
            for reason in step.reasons
            if reason.weight > 0
            for word in reason.feature.split()
        }
        found[oid] = _passage(text, language, speaking, reader)
    return found


def _passage(text: str, language: str, stems: set[str], reader: TextReader) -> str:
    words = text.split()[:MAX_PREVIEWED_WORDS]
    starts = range(0, max(1, len(words) - PREVIEW_WORDS + PREVIEW_STEP), PREVIEW_STEP)

    def speaks(start: int) -> int:
        numbers = set(reader.stems(" ".join(words[start : start + PREVIEW_WORDS]), language).tolist())
        return sum(reader.terms.get(number) in stems for number in numbers)

    best = max(starts, key=speaks)  # of equal ones the first
    return " ".join(words[best : best + PREVIEW_WORDS])
