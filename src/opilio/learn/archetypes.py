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
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opilio.classify import Example, TrainingSet
from opilio.distill import Scores, WebGraph, distill
from opilio.errors import InputError
from opilio.features.evidence import TextReader
from opilio.learn.guard import Trial, Verdict
from opilio.learn.lessons import ARCHETYPE, Taught
from opilio.learn.strangers import with_strangers
from opilio.learn.trainer import OnStart, work_beside
from opilio.learn.training import examples_of, gather
from opilio.model import RELEVANT
from opilio.settings import Learn, Settings
from opilio.store import Store
from opilio.store.loading import TrainingRecord

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
    verdict: Verdict | None = None
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

    def choose(self, learn: Learn) -> tuple[list[Archetype], list[Archetype]]:
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

    def choose(self, learn: Learn) -> Round:
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
    confidences = _confidences(store, training, settings, on_start)
    graph, found = WebGraph.of(store), {}
    for kcid, documents in confidences.items():
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
    values = work_beside("confidences", (training, settings, store.load_model()), on_start)
    found: dict[int, list[tuple[Example, float]]] = {}
    for example, value in zip(training.examples, values, strict=True):
        if value is not None:
            found.setdefault(example.kcid, []).append((example, value))
    return dict(sorted(found.items()))


def _candidates(
    store: Store, version: int, kcid: int, known: Sequence[int], scores: Scores, learn: Learn
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
