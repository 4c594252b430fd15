"""Archetypes: pages that the crawl found, and that show a topic so well that it can learn from them (BINGO 2.6, 3.2).

A *round* looks at each topic that is wanted and has documents to learn from. Candidates are its best authorities
(`learn.authorities` of them, by `frontier.distill_method`; plain HITS, which BINGO uses, prefers navigation pages) and
its most confident pages (`learn.confident`): stored, taken by the topic and relevant by the newest model, neither
duplicates nor training documents of any topic, be it as counter-examples: so what the user has rejected does not come
again. Pages stuffed with keywords are left out (`store/terms.py`), and listed as such. Candidates are ordered by the
sum of their places in both lists, where one that is not in a list has the place after its end; of equal ones the more
confident one comes first.

Those whose confidence is above the mean confidence of the topic's training documents join the training set, at most as
many as the smaller of the two numbers. Archetypes below that mean leave it. Documents that the user gave or confirmed
never do. All are judged as pages are, by a model that has not learned from them (`guard.confidences`): the paper asks
the model that has, and then next to nothing is above the mean. With `learn.above_mean = false` all
candidates may join (BINGO 5.2), and archetypes leave when their topic does not take them any more.

Nothing is written while a round is decided on, nor while a model is tried with it (`guard.py`): a model that is refused
leaves no trace in the training set, and neither does a crash.

The user can list archetypes, and confirm, reject or trim them (BINGO 2.6). What is confirmed is the user's own from
then on: no round removes it, and the guard tests models with it. What is rejected is a counter-example of its topic,
and is never proposed again. A page that is about several things can be trimmed to the part that is on the topic: that
part is learned from in place of the whole, and the page stays an example of its topic.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opilio.classify import Example, Model, TrainingSet
from opilio.distill import DistillOptions, Scores, WebGraph, distill
from opilio.errors import InputError
from opilio.features.classifier_input import TextReader, stored_reader
from opilio.learn.explanations import current_model
from opilio.learn.guard import GuardVerdict, Trial, confidences
from opilio.learn.mined_negatives import with_crawled_pages
from opilio.learn.trainer import examples_of, gather
from opilio.learn.training_data import TrainingState
from opilio.process import NICENESS, OnStart, call
from opilio.settings import LearnSettings, Settings
from opilio.store import Store, pages, training
from opilio.store.judgements import CandidatePage, confident_among, most_confident
from opilio.store.loader import TrainingRecord
from opilio.store.terms import stuffed_pages
from opilio.store.training import ARCHETYPE, CONFIRMED, REJECTED
from opilio.topics import find_topic

PREVIEW_WORDS, PREVIEW_STEP = 36, 12
"""A preview has this many words, and begins at one of every `PREVIEW_STEP` words."""
MAX_PREVIEWED_WORDS = 5000
_CHUNK = 200
SPARE = 4
"""So many times more of the most confident pages are looked at than are needed: some may be stuffed with keywords."""


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
    stuffed: tuple[Archetype, ...] = ()
    """Pages that would be candidates, but are stuffed with keywords."""

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
    state: TrainingState
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
        """That of the training data once the changes are written."""
        dropped = {(page.kcid, page.url) for page in changes.removed}
        return self.state.changed(dropped, [(page.kcid, page.url) for page in changes.added]).fingerprint(settings)


def survey(store: Store, settings: Settings, on_start: OnStart = lambda process: None) -> Survey:
    """Look for archetypes. Changes nothing; may run in any thread while a crawl runs, and trains in another process."""
    models = store.load_models()
    if not models:
        raise InputError("there is no model yet, and so there are no archetypes", "Crawl until the examples are there.")
    state, records = TrainingState.of(store), list(store.load_training())
    gathered = with_crawled_pages(store, settings, gather(store, settings), on_start)
    made = {(record.kcid, record.name): record for record in records if record.source == ARCHETYPE}
    at_names = pages.oids_of_urls(store, sorted({record.name for record in records}))
    known = sorted({record.oid for record in records if record.oid is not None} | at_names)
    sure = _confidences(store, gathered, settings, on_start)
    graph, found = WebGraph.of(store), {}
    method, options = settings.frontier.distill_method, DistillOptions(rho=settings.frontier.distill_rho)
    for kcid, documents in sure.items():
        scores = distill(store, kcid, method, options=options, graph=graph)
        authority = dict(zip(scores.oids.tolist(), scores.authority.tolist(), strict=True))
        current = [
            Archetype(kcid, record.oid, record.name, record.title, confidence, authority.get(record.oid, 0.0))
            for example, confidence in documents
            if (record := made.get((kcid, example.name))) is not None and record.oid is not None
        ]
        candidates, stuffed = _candidates(store, models[0].version, kcid, known, scores, settings.learn)
        mean = statistics.fmean(value for _, value in documents)
        found[kcid] = TopicSurvey(mean, tuple(candidates), tuple(current), tuple(stuffed))
    return Survey(found, gathered, state, frozenset(made))


def trial_of(store: Store, settings: Settings, surveyed: Survey, changes: Round) -> Trial:
    """The training set as it is, and as the changes would make it."""
    reader, before = stored_reader(), surveyed.training
    added = examples_of(store, _records(store, changes.added), reader, settings.classify)
    removed = {(page.kcid, page.url) for page in changes.removed}
    kept = [example for example in before.examples if (example.kcid, example.name) not in removed]
    terms = {**before.terms, **reader.names([example.item for example in added])}
    after = dataclasses.replace(before, examples=(*kept, *added), terms=terms)
    return Trial(before, after, surveyed.archetypes | {(page.kcid, page.url) for page in changes.added})


def write_round(store: Store, changes: Round) -> None:
    """Make the changes, in one transaction. What the user confirmed or rejected meanwhile stays so."""
    removed, added = ([(page.kcid, page.url) for page in some] for some in (changes.removed, changes.added))
    training.replace_archetypes(store, removed, added)


def _confidences(
    store: Store, gathered: TrainingSet, settings: Settings, on_start: OnStart
) -> dict[int, list[tuple[Example, float]]]:
    """By wanted topic: its training documents, and how sure a model is of each that has not learned from it."""
    values = call(confidences, gathered, settings, store.load_model(), niceness=NICENESS, on_start=on_start)
    found: dict[int, list[tuple[Example, float]]] = {}
    for example, value in zip(gathered.examples, values, strict=True):
        if value is not None:
            found.setdefault(example.kcid, []).append((example, value))
    return dict(sorted(found.items()))


def _candidates(
    store: Store, version: int, kcid: int, known: Sequence[int], scores: Scores, learn: LearnSettings
) -> tuple[list[Archetype], list[Archetype]]:
    """The best authorities and the most confident pages of a topic, in the order in which they would join; and those
    that are left out because they are stuffed with keywords."""
    authority = dict(zip(scores.oids.tolist(), scores.authority.tolist(), strict=True))

    def as_archetype(page: CandidatePage) -> Archetype:
        return Archetype(kcid, page.oid, page.url, page.title, page.confidence, authority.get(page.oid, 0.0))

    confident = most_confident(store, version, kcid, known, SPARE * learn.confident)
    stuffed = {oid: as_archetype(confident[oid]) for oid in stuffed_pages(store, confident)}
    sure = [as_archetype(page) for oid, page in confident.items() if oid not in stuffed]
    best: dict[int, Archetype] = {}
    ranked = [page.oid for page in scores.top_authorities(len(scores))]
    size = _CHUNK
    while ranked and len(best) < learn.authorities:
        chunk, ranked = ranked[:size], ranked[size:]
        found = confident_among(store, version, kcid, known, chunk)
        stuffed |= {oid: as_archetype(found[oid]) for oid in stuffed_pages(store, found)}
        best |= {oid: as_archetype(found[oid]) for oid in chunk if oid in found and oid not in stuffed}
        size *= 4  # each query reads all judgements: where hardly any page is a candidate, a few queries must do
    merged = merge_ranks(list(best.values())[: learn.authorities], sure[: learn.confident])
    return merged, list(stuffed.values())


def merge_ranks(authorities: Sequence[Archetype], confident: Sequence[Archetype]) -> list[Archetype]:
    """Both lists, best first each, as one: by the sum of places; not in a list is the place after its end."""
    found = {page.oid: page for page in (*authorities, *confident)}
    places = [{page.oid: place for place, page in enumerate(ranked)} for ranked in (authorities, confident)]

    def order(page: Archetype) -> tuple[int, float, int]:
        return sum(ranked.get(page.oid, len(ranked)) for ranked in places), -page.confidence, page.oid

    return sorted(found.values(), key=order)


def _records(store: Store, chosen: Sequence[Archetype]) -> list[TrainingRecord]:
    """Pages as the training documents that they would be."""
    stored = pages.documents(store, [page.oid for page in chosen])
    found = []
    for page in chosen:
        if page.oid in stored:
            _, title, language, text = stored[page.oid]
            found.append(TrainingRecord(page.url, "url", page.kcid, True, ARCHETYPE, title, page.oid, language, text))
    return found


# -- the user's part


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
            found += [_listed(page, about, "stuffed", paths[kcid]) for page in about.stuffed]
    previews = _previews(store, current_model(store), [page["oid"] for page in found])
    return [{**page, "preview": previews.get(page["oid"], "")} for page in found]


def _listed(page: Archetype, about: TopicSurvey, state: str, path: str) -> dict[str, Any]:
    return {
        "state": state, "topic": path, "confidence": page.confidence, "mean": about.mean, "authority": page.authority,
        "title": page.title, "url": page.url, "oid": page.oid,
    }  # fmt: skip


def page_text(store: Store, url: str) -> dict[str, Any]:
    """The title and the visible text of a stored page."""
    _, title, text = _stored(store, url)
    return {"url": url, "title": title, "text": text}


def confirm_archetype(store: Store, topic: str, url: str) -> None:
    """Make an archetype, a candidate or any other stored page the user's own example of a topic."""
    kcid = find_topic(store.load_topics(), topic).kcid
    record = _record(store, kcid, url)
    if record is not None and record.positive:
        training.confirm_example(store, kcid, record.name)
        return
    _stored(store, url)
    if record is not None:  # it was rejected before
        training.delete_example(store, kcid, record.name)
    training.add_page_example(store, kcid, url, CONFIRMED)


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
        training.delete_example(store, kcid, record.name)
    training.add_page_example(store, kcid, url, REJECTED)


def trim_example(store: Store, topic: str, url: str, text: str) -> None:
    """Learn from a part of a page in place of the whole. The page is the user's own example of the topic then."""
    kcid = find_topic(store.load_topics(), topic).kcid
    (_, title, whole), record = _stored(store, url), _record(store, kcid, url)
    if record is not None and not record.positive:
        raise InputError(f"{url} is a counter-example of {topic!r}", "Confirm it first, if it is about the topic.")
    if not text.strip():
        raise InputError("nothing is left of the page", "Keep the part that is about the topic.")
    words = set(_words(f"{title}\n{whole}"))
    missing = next((word for word in _words(text) if word not in words), None)
    if missing is not None:
        raise InputError(
            f"{missing[:100]!r} is not on {url}", "Keep parts of it as `opilio archetypes show` prints them."
        )
    if record is None:
        training.add_page_example(store, kcid, url, CONFIRMED, text.strip())
    else:
        training.trim_example(store, kcid, record.name, text.strip())


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _stored(store: Store, url: str) -> tuple[int, str, str]:
    """The number, title and text of the page of a URL."""
    page = pages.text_of(store, url)
    if page is None:
        raise InputError(f"{url}: not a page of this collection", "`opilio archetypes list FOLDER` shows what can be.")
    if page.text is None:
        raise InputError(f"{url}: its text is not kept", "Set store.text = true before you crawl.")
    return page.oid, page.title, page.text


def _record(store: Store, kcid: int, url: str) -> TrainingRecord | None:
    """The training document of a topic that a URL stands for: by its name, or by the page that it led to."""
    oid = pages.oid_of(store, url)
    mine = [record for record in store.load_training() if record.kcid == kcid]
    named = [record for record in mine if record.name == url]
    return next(iter(named or [record for record in mine if oid is not None and record.oid == oid]), None)


def _previews(store: Store, model: Model, oids: Sequence[int]) -> dict[int, str]:
    """Of each page, the passage with the most words that speak for its topic."""
    reader = TextReader()
    found = {}
    for oid, title, language, text in pages.main_texts(store, oids):
        assert text is not None
        explained = model.explain(reader.read(title, text, language))
        supporting = {
            word
            for step in explained.steps
            if step.taken
            for reason in step.reasons
            if reason.weight > 0
            for word in reason.feature.split()
        }
        found[oid] = _passage(text, language, supporting, reader)
    return found


def _passage(text: str, language: str, stems: set[str], reader: TextReader) -> str:
    words = text.split()[:MAX_PREVIEWED_WORDS]
    starts = range(0, max(1, len(words) - PREVIEW_WORDS + PREVIEW_STEP), PREVIEW_STEP)

    def matches(start: int) -> int:
        numbers = set(reader.stems(" ".join(words[start : start + PREVIEW_WORDS]), language).tolist())
        return sum(reader.terms.get(number) in stems for number in numbers)

    best = max(starts, key=matches)  # of equal ones the first
    return " ".join(words[best : best + PREVIEW_WORDS])
