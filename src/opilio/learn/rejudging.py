"""Re-judging stored pages, after a model has changed or the marks of topics have.

A page is judged by its own text, by the words of the link that led to it, and by the stems of the page with that link
(`link_context`). Two things hold whatever a model says: an example is of its topic, and a counter-example is not. A
counter-example of a topic is in OTHERS next to it (`Example.positive`): neither that topic has it, nor one that
competes with it. So a page that a model puts there anyway stays above them: in their parent, or in OTHERS
(`DeniedTopics`).

With the classifier `oasis`, pages that were judged before a relevant one was found in their directory are re-judged too
(`directories.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Self

import msgspec

from opilio.classify import Model
from opilio.learn.directories import DIRECTORY, accepted_by_directory, uses_directories
from opilio.learn.rejudging_process import PagesJudge, PagesJudgeProcess, StoredPage
from opilio.model import RELEVANT, Judgement
from opilio.process import OnStart
from opilio.settings import ClassifySettings, Settings
from opilio.store import Batch, Store
from opilio.store.judgements import (
    JudgedPage,
    apply_judgements,
    load_pages_to_rejudge,
    pages_of_older_models,
    relevant_directories,
    unaccepted_in,
)
from opilio.store.links import parent_anchors
from opilio.store.terms import parent_terms
from opilio.topics import hierarchy_of
from opilio.topics.hierarchy import ROOT, Hierarchy

CHUNK_PAGES = 500
NO_CONTEXT = ("", b"")


def link_context(store: Store, oids: list[int], settings: ClassifySettings) -> dict[int, tuple[str, bytes]]:
    """For URLs found on pages: the words of the link, and the page's significant stems (uint32 little-endian).

    Only what a feature space uses is read.
    """
    used = "+".join(settings.spaces)
    anchors = parent_anchors(store, oids) if "anchors" in used else {}
    terms = parent_terms(store, oids) if "neighbours" in used else {}
    packed = {oid: b"".join(tid.to_bytes(4, "little") for tid in sorted(tids)) for oid, tids in terms.items()}
    return {oid: (anchors.get(oid, ""), packed.get(oid, b"")) for oid in anchors.keys() | packed.keys()}


@dataclass(frozen=True)
class DeniedTopics:
    """The topics that stored pages are not about, because the user said so."""

    parents: Mapping[int, frozenset[int]]
    """By oid: the nodes of which no topic below has the page."""
    hierarchy: Hierarchy

    @classmethod
    def of(cls, store: Store, examples: Collection[int]) -> Self:
        """Those of a collection; the pages that are `examples` are not among them."""
        hierarchy = hierarchy_of(store.load_topics())
        found: dict[int, frozenset[int]] = {}
        for record in store.load_training():
            if record.positive or record.oid is None or record.oid in examples or record.kcid not in hierarchy.nodes:
                continue
            above = max(hierarchy.nodes[record.kcid].parent, hierarchy.start)
            found[record.oid] = found.get(record.oid, frozenset()) | {above}
        return cls(found, hierarchy)

    def overrule(self, oid: int, said: Judgement) -> Judgement:
        """A judgement, corrected where it says what the user denies."""
        denied = self.parents.get(oid)
        if not denied or not said.accepted:
            return said
        line = self.hierarchy.line(said.topic)
        above = next((kcid for kcid in line if self.hierarchy.nodes[kcid].parent in denied), None)
        if above is None:
            return said
        parent = self.hierarchy.nodes[above].parent
        stays = parent != self.hierarchy.start
        relevance = said.relevance if self.hierarchy.is_wanted(parent) else 0.0
        undoubted = said.undoubted and stays
        return msgspec.structs.replace(
            said, topic=max(parent, ROOT), accepted=stays, relevance=relevance, undoubted=undoubted
        )


@dataclass
class Rejudged:
    """What re-judging came to."""

    pages: int = 0
    relevant_before: int = 0
    relevant_after: int = 0


def rejudge(
    store: Store,
    model_bytes: bytes,
    examples: Mapping[int, int],
    settings: ClassifySettings,
    *,
    on_progress: Callable[[int], object] = lambda pages: None,
    on_start: OnStart | None = None,
) -> Rejudged:
    """Judge all pages that an older model judged, and give what they link to its new priority.

    `examples` are oids of examples with their topics: those stay what the user says they are, as counter-examples do
    (`DeniedTopics`). Pages whose text is not kept cannot be re-judged. Work is committed in pieces: what was done stays
    done when this is stopped, as it is when `on_progress`, which is given the number of pages judged so far, returns
    False. With `on_start`, which is given the process, many pages are judged in a process of low priority, so that a
    crawl can go on.
    """
    result, version = Rejudged(), Model.from_bytes(model_bytes).version
    denied = DeniedTopics.of(store, examples)
    with _judge(store, version, model_bytes, on_start) as judge:
        for rows in _chunks(store, version):
            batch, context = Batch(), link_context(store, [page.oid for page in rows], settings)
            judged = judge([StoredPage._make((*page[2:], *context.get(page.oid, NO_CONTEXT))) for page in rows])
            for page, said in zip(rows, judged, strict=True):
                is_example = page.oid in examples
                own = {"topic": examples[page.oid], "accepted": True, "relevance": 1.0} if is_example else {}
                judgement = denied.overrule(page.oid, msgspec.structs.replace(said, **own))
                batch.judgements.put(page.oid, judgement)
                result.pages += 1
                result.relevant_before += page.relevance >= RELEVANT
                result.relevant_after += judgement.is_relevant
            with store.writing() as connection:
                apply_judgements(connection, batch.judgements.to_arrow())
            if on_progress(result.pages) is False:
                break
    return result


def rejudge_directories(store: Store, directories: Mapping[str, int], examples: Collection[int]) -> int:
    """Accept the stored pages that only their directory speaks for; returns how many.

    `directories` are those with a relevant page, each with its topic; `examples` stay what the user says they are.
    """
    denied, judged = DeniedTopics.of(store, examples), 0
    pages = [page for page in unaccepted_in(store, list(directories)) if page[0] not in examples]
    for start in range(0, len(pages), CHUNK_PAGES):
        batch = Batch()
        for oid, directory, said in pages[start : start + CHUNK_PAGES]:
            judgement = denied.overrule(oid, accepted_by_directory(said, directories[directory]))
            if judgement.accepted:
                batch.judgements.put(oid, judgement)
        judged += len(batch.judgements)
        with store.writing() as connection:
            apply_judgements(connection, batch.judgements.to_arrow())
    return judged


def rejudge_all_directories(store: Store, settings: Settings, examples: Collection[int]) -> None:
    """The same for all directories of a collection, after a model has judged all pages."""
    if uses_directories(settings):
        rejudge_directories(store, relevant_directories(store, DIRECTORY), examples)


def _judge(
    store: Store, version: int, model: bytes, on_start: OnStart | None
) -> AbstractContextManager[Callable[[Sequence[StoredPage]], Sequence[Judgement]]]:
    """Who judges. A few pages are judged before a process would have started."""
    if on_start is None or len(pages_of_older_models(store, version)) <= CHUNK_PAGES:
        return nullcontext(PagesJudge(model))
    return PagesJudgeProcess(model, on_start)


def _chunks(store: Store, version: int) -> Iterator[list[JudgedPage]]:
    """The pages that an older model judged, also those that it judged while others were re-judged."""
    seen: set[int] = set()
    while oids := [oid for oid in pages_of_older_models(store, version) if oid not in seen]:
        seen.update(oids)
        for start in range(0, len(oids), CHUNK_PAGES):
            chosen = oids[start : start + CHUNK_PAGES]
            pages = load_pages_to_rejudge(store, version, chosen)
            if pages:
                yield pages
