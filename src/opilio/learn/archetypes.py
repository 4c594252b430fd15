"""Archetypes: pages that the crawl found, and that show a topic so well that it can learn from them (BINGO 2.6, 3.2).

A round looks at each topic that is wanted and has documents to learn from. Candidates are its best authorities
(`learn.authorities` of them) and its most confident pages (`learn.confident`): stored, taken by the topic and relevant
by the newest model, neither duplicates nor training documents of any topic, be it as counter-examples: so what the user
has rejected does not come again. Candidates are ordered by the sum of their places in both lists, where one that is not
in a list has the place after its end; of equal ones the more confident comes first.

Of these, the ones more confident than the topic's training documents are on the average join the training set, at most
as many as the smaller of the two numbers. Archetypes that are less confident than that leave it. Documents that the
user gave or confirmed never do. All are judged as pages are, by a model that has not learned from them (`folding.py`):
the paper asks the model that has, and then next to nothing is above the mean. With `learn.above_mean = false` all
candidates may join (BINGO 5.2), and archetypes leave when their topic does not take them any more.

Nothing is written while a round is decided on, nor while a model is tried with it (`guard.py`): a model that is refused
leaves no trace in the training set, and neither does a crash.

The user's part in archetypes: to look at them, and to confirm, reject or trim them (BINGO 2.6).

What is confirmed is the user's own from then on: no round removes it, and the guard asks about it. What is rejected is
a counter-example of its topic, and never proposed again. A page that is about several things can be trimmed to the part
that is on the topic: that part is learned from in place of the whole, and the page stays an example of its topic.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opilio.classify import Example, Model, TrainingSet
from opilio.distill import Scores, WebGraph, distill
from opilio.errors import InputError
from opilio.features.evidence import TextReader
from opilio.learn.explanations import current_model
from opilio.learn.guard import GuardVerdict, Trial, confidences
from opilio.learn.mined_negatives import with_strangers
from opilio.learn.training_data import ARCHETYPE, Taught
from opilio.learn.training_set import examples_of, gather
from opilio.model import RELEVANT
from opilio.process import NICENESS, OnStart, call
from opilio.settings import LearnSettings, Settings
from opilio.store import Batch, Store
from opilio.store.loading import TrainingRecord
from opilio.topics import find_topic

_CHUNK = 200

# A page may have been judged by the same model twice, when it was fetched again: the latest counts.
_CANDIDATES = f"""
    WITH latest AS (
        SELECT oid, arg_max(accepted, rowid) AS accepted, arg_max(kcid, rowid) AS kcid,
               arg_max(relevance, rowid) AS relevance, arg_max(confidence, rowid) AS confidence
        FROM judgements WHERE model_version = $1 GROUP BY oid
    )
    SELECT oid, c.url, coalesce(p.title, ''), l.confidence
    FROM latest l JOIN pages p USING (oid) JOIN crawl c USING (oid)
    WHERE l.accepted AND l.relevance >= {RELEVANT} AND l.kcid = $2 AND p.model_version = $1
      AND oid NOT IN (SELECT oid FROM duplicates) AND oid NOT IN (SELECT unnest($3::BIGINT[]))
"""
_CONFIDENT = f"{_CANDIDATES} ORDER BY l.confidence DESC, oid LIMIT $4"
_AMONG = f"{_CANDIDATES} AND oid IN (SELECT unnest($4::BIGINT[]))"
_PAGES = """
    SELECT p.oid, coalesce(p.title, ''), coalesce(p.language, ''), p.text FROM pages p
    WHERE p.oid IN (SELECT unnest($1::BIGINT[]))
"""
_DROP = f"DELETE FROM training WHERE kcid = $1 AND name = $2 AND source = '{ARCHETYPE}'"
_ADD = f"""
    INSERT INTO training (name, kind, kcid, positive, source, title, text, added)
    SELECT $2, 'url', $1, true, '{ARCHETYPE}', '', NULL, make_timestamp(($3 * 1e6)::BIGINT)
    WHERE EXISTS (FROM topics WHERE kcid = $1) AND NOT EXISTS (FROM training WHERE name = $2)
"""


@dataclass(frozen=True)
class Archetype:
    """A page that is learned from, or may be."""

    kcid: int
    oid: int
    url: str
    title: str
    confidence: float
    """That it is about its topic, in the measure of the classifier; by a model that has not learned from it."""
    authority: float = 0.0


@dataclass(frozen=True)
class Round:
    """What a look for archetypes came to."""

    added: tuple[Archetype, ...] = ()
    removed: tuple[Archetype, ...] = ()
    means: Mapping[int, float] = field(default_factory=dict)
    """By topic: the mean confidence of the documents that it was learned from."""
    verdict: GuardVerdict | None = None
    """Of the guard; None: no model was tried, since nothing had changed or the same was refused before."""

    @property
    def is_empty(self) -> bool:
        """Whether the training set stays as it is."""
        return not self.added and not self.removed

    @property
    def is_refused(self) -> bool:
        """Whether a model was tried with it, and refused."""
        return self.verdict is not None and not self.verdict.accepted

    def without(self, topics: Collection[int]) -> Round:
        """The same, but for some topics."""
        added, removed = (tuple(a for a in all_ if a.kcid not in topics) for all_ in (self.added, self.removed))
        return dataclasses.replace(self, added=added, removed=removed)

    def __str__(self) -> str:
        return f"{len(self.added)} archetype{'s' if len(self.added) != 1 else ''} added, {len(self.removed)} removed"


@dataclass(frozen=True)
class TopicSurvey:
    """What a round decides from, for one topic."""

    mean: float
    candidates: tuple[Archetype, ...]
    """Best first."""
    archetypes: tuple[Archetype, ...]
    """Those it is learned from now."""

    def choose(self, learn: LearnSettings) -> tuple[list[Archetype], list[Archetype]]:
        """The pages that join, best first, and the archetypes that leave."""
        limit = min(learn.authorities, learn.confident)
        if learn.above_mean:
            joining = [page for page in self.candidates if page.confidence > self.mean]
            return joining[:limit], [page for page in self.archetypes if page.confidence < self.mean]
        return list(self.candidates[:limit]), [page for page in self.archetypes if page.confidence <= 0]


@dataclass(frozen=True)
class Survey:
    """What a round decides from, of one moment."""

    topics: Mapping[int, TopicSurvey]
    training: TrainingSet
    taught: Taught
    archetypes: frozenset[tuple[int, str]]
    """Topic and name of all documents that no user vouches for."""

    def choose(self, learn: LearnSettings) -> Round:
        """What changes by the rule."""
        chosen = {kcid: topic.choose(learn) for kcid, topic in self.topics.items()}
        return Round(
            tuple(page for added, _ in chosen.values() for page in added),
            tuple(page for _, removed in chosen.values() for page in removed),
            {kcid: topic.mean for kcid, topic in self.topics.items()},
        )

    def fingerprint(self, changes: Round, settings: Settings) -> str:
        """That of what is taught once the changes are written."""
        dropped = {(page.kcid, page.url) for page in changes.removed}
        return self.taught.changed(dropped, [(page.kcid, page.url) for page in changes.added]).fingerprint(settings)


def survey(store: Store, settings: Settings, on_start: OnStart = lambda process: None) -> Survey:
    """Look for archetypes. Changes nothing; may run in any thread beside a crawl, and trains in a process."""
    models = store.load_models()
    if not models:
        raise InputError("there is no model yet, and so there are no archetypes", "Crawl until the examples are there.")
    taught, records = Taught.of(store), list(store.load_training())
    training = with_strangers(store, settings, gather(store, settings), on_start)
    made = {(record.kcid, record.name): record for record in records if record.source == ARCHETYPE}
    known = sorted({record.oid for record in records if record.oid is not None} | _pages_of(store, records))
    sure = _confidences(store, training, settings, on_start)
    graph, found = WebGraph.of(store), {}
    for kcid, documents in sure.items():
        scores = distill(store, kcid, "hits", graph=graph)
        authority = dict(zip(scores.oids.tolist(), scores.authority.tolist(), strict=True))
        current = [
            Archetype(kcid, record.oid, record.name, record.title, confidence, authority.get(record.oid, 0.0))
            for example, confidence in documents
            if (record := made.get((kcid, example.name))) is not None and record.oid is not None
        ]
        pages = _candidates(store, models[0].version, kcid, known, scores, settings.learn)
        found[kcid] = TopicSurvey(statistics.fmean(value for _, value in documents), tuple(pages), tuple(current))
    return Survey(found, training, taught, frozenset(made))


def trial_of(store: Store, surveyed: Survey, changes: Round) -> Trial:
    """The training set as it is, and as the changes would make it."""
    reader, before = TextReader(), surveyed.training
    added = examples_of(store, _records(store, changes.added), reader)
    removed = {(page.kcid, page.url) for page in changes.removed}
    kept = [example for example in before.examples if (example.kcid, example.name) not in removed]
    after = dataclasses.replace(before, examples=(*kept, *added), terms={**before.terms, **reader.terms})
    return Trial(before, after, surveyed.archetypes | {(page.kcid, page.url) for page in changes.added})


def write_round(store: Store, changes: Round) -> None:
    """Make the changes, in one transaction. What the user confirmed or rejected meanwhile stays so."""
    with store.writing() as connection:
        for page in changes.removed:
            connection.execute(_DROP, [page.kcid, page.url])
        for page in changes.added:
            connection.execute(_ADD, [page.kcid, page.url, time.time()])


def _pages_of(store: Store, records: Iterable[TrainingRecord]) -> set[int]:
    """The pages at the addresses of training documents, whatever those stand for."""
    names = sorted({record.name for record in records})
    rows = store.query("SELECT oid FROM crawl WHERE url IN (SELECT unnest($1::VARCHAR[]))", [names], max_rows=2**20)
    return {oid for (oid,) in rows.rows}


def _confidences(
    store: Store, training: TrainingSet, settings: Settings, on_start: OnStart
) -> dict[int, list[tuple[Example, float]]]:
    """By wanted topic: its training documents, and how sure a model is of each that has not learned from it."""
    values = call(confidences, training, settings, store.load_model(), niceness=NICENESS, on_start=on_start)
    found: dict[int, list[tuple[Example, float]]] = {}
    for example, value in zip(training.examples, values, strict=True):
        if value is not None:
            found.setdefault(example.kcid, []).append((example, value))
    return dict(sorted(found.items()))


def _candidates(
    store: Store, version: int, kcid: int, known: Sequence[int], scores: Scores, learn: LearnSettings
) -> list[Archetype]:
    """The best authorities and the most confident pages of a topic, in the order in which they would join."""
    authority = dict(zip(scores.oids.tolist(), scores.authority.tolist(), strict=True))

    def ask(sql: str, limit: object) -> dict[int, Archetype]:
        rows = store.query(sql, [version, kcid, list(known), limit], max_rows=2**20).rows
        return {
            oid: Archetype(kcid, oid, url, title, confidence, authority.get(oid, 0.0))
            for oid, url, title, confidence in rows
        }

    confident = ask(_CONFIDENT, learn.confident)
    best: dict[int, Archetype] = {}
    ranked = [page.oid for page in scores.top_authorities(len(scores))]
    size = _CHUNK
    while ranked and len(best) < learn.authorities:
        chunk, ranked = ranked[:size], ranked[size:]
        found = ask(_AMONG, chunk)
        best |= {oid: found[oid] for oid in chunk if oid in found}
        size *= 4  # each asks for all judgements: where hardly any is a candidate, a few must do
    return merge_ranks(list(best.values())[: learn.authorities], list(confident.values()))


def merge_ranks(authorities: Sequence[Archetype], confident: Sequence[Archetype]) -> list[Archetype]:
    """Both lists, best first each, as one: by the sum of places; not in a list is the place after its end."""
    pages = {page.oid: page for page in (*authorities, *confident)}
    places = [{page.oid: place for place, page in enumerate(ranked)} for ranked in (authorities, confident)]

    def order(page: Archetype) -> tuple[int, float, int]:
        return sum(ranked.get(page.oid, len(ranked)) for ranked in places), -page.confidence, page.oid

    return sorted(pages.values(), key=order)


def _records(store: Store, pages: Sequence[Archetype]) -> list[TrainingRecord]:
    """Pages as the training documents that they would be."""
    rows = store.query(_PAGES, [[page.oid for page in pages]], max_rows=2**16).rows
    stored = {oid: (title, language, text) for oid, title, language, text in rows}
    found = []
    for page in pages:
        if page.oid in stored:
            title, language, text = stored[page.oid]
            found.append(TrainingRecord(page.url, "url", page.kcid, True, ARCHETYPE, title, page.oid, language, text))
    return found


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


class ReviewedPage(NamedTuple):
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


def _stored(store: Store, url: str) -> ReviewedPage:
    rows = store.query(_PAGE, [url]).rows
    if not rows:
        raise InputError(f"{url}: not a page of this collection", "`opilio archetypes list FOLDER` shows what can be.")
    oid, title, text = rows[0]
    if text is None:
        raise InputError(f"{url}: its text is not kept", "Set store.text = true before you crawl.")
    return ReviewedPage(oid, title, text)


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
