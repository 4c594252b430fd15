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

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Self

import msgspec
import numpy as np

from opilio.classify import Model
from opilio.classify.bayes import BayesTree
from opilio.errors import InputError
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
from opilio.store.pages import pages_for_explanation
from opilio.store.probes import bulk_probe, known_pages, single_probe, whole_pages
from opilio.store.terms import parent_terms
from opilio.store.training import count_negative
from opilio.topics import hierarchy_of
from opilio.topics.hierarchy import ROOT, Hierarchy

CHUNK_PAGES = 500
CONTEXT_PAGES = 20_000
"""The link contexts of so many pages are read together, because each look scans all links. With those of 500 pages at a
time, re-judging a million pages spent 93 % of its time on that (docs/results/scale.md)."""
NO_CONTEXT = ("", b"")
DATABASE_PAGES = 200
"""From so many pages on, a Bayes tree re-judges faster in the database (docs/results/speed.md)."""


def link_context(store: Store, oids: list[int], settings: ClassifySettings) -> dict[int, tuple[str, bytes]]:
    """For URLs found on pages: the words of the link, and the page's significant stems (uint32 little-endian).

    Only what a feature space uses is read.
    """
    used = "+".join(settings.spaces)
    anchors = parent_anchors(store, oids) if "anchors" in used else {}
    terms = parent_terms(store, oids) if "neighbours" in used else {}
    packed = {oid: b"".join(tid.to_bytes(4, "little") for tid in sorted(tids)) for oid, tids in terms.items()}
    return {oid: (anchors.get(oid, ""), packed.get(oid, b"")) for oid in anchors.keys() | packed.keys()}


class LinkContexts:
    """The link contexts of stored pages, which are asked for in pieces, in the order of `oids`."""

    def __init__(self, store: Store, oids: Iterable[int], settings: ClassifySettings) -> None:
        self._store = store
        self._settings = settings
        self._ahead = iter(oids)
        self._read: dict[int, tuple[str, bytes]] = {}

    def of(self, oids: Sequence[int]) -> list[tuple[str, bytes]]:
        """The link context of each page."""
        missing = [oid for oid in oids if oid not in self._read]
        if missing:
            wanted = dict.fromkeys([*oids, *itertools.islice(self._ahead, CONTEXT_PAGES)], NO_CONTEXT)
            self._read = wanted | link_context(self._store, list(wanted), self._settings)
        return [self._read[oid] for oid in oids]


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
        # Most collections have no counter-example, and to find the pages of all examples takes six times as long.
        for record in store.load_training(page_texts=False) if count_negative(store) else ():
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
    all_pages: bool = False,
    only: Collection[int] | None = None,
    in_database: bool | None = None,
    on_progress: Callable[[int], object] = lambda pages: None,
    on_start: OnStart | None = None,
) -> Rejudged:
    """Judge all pages that an older model judged, and give what they link to its new priority.

    `examples` are oids of examples with their topics: those stay what the user says they are, as counter-examples do
    (`DeniedTopics`). Pages whose text is not kept cannot be re-judged. With `all_pages`, pages that this model has
    judged are judged again; with `only`, no others than these. Work is committed in pieces: what was done stays done
    when this is stopped, as it is when `on_progress`, which is given the number of pages judged so far, returns False.

    `in_database` says whether a Bayes tree judges by SQL (`DatabaseJudge`); by default it does when there are enough
    pages for that to be faster. With `on_start`, which is given the process, many pages are judged in a process of low
    priority otherwise, so that a crawl can go on.
    """
    model = Model.from_bytes(model_bytes)
    result, below = Rejudged(), model.version + all_pages
    denied = DeniedTopics.of(store, examples)
    oids = pages_of_older_models(store, below) if only is None else sorted(only)
    with _judge(store, model, model_bytes, settings, oids, in_database, on_start) as judge:
        for rows in _chunks(store, below, only):
            batch = Batch()
            for page, said in zip(rows, judge(rows), strict=True):
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


def rejudge_all_directories(store: Store, settings: Settings, examples: Collection[int]) -> int:
    """The same for all directories of a collection, after a model has judged all pages."""
    if not uses_directories(settings):
        return 0
    return rejudge_directories(store, relevant_directories(store, DIRECTORY), examples)


PageJudge = Callable[[Sequence[JudgedPage]], Sequence[Judgement]]


@contextmanager
def _judge(
    store: Store,
    model: Model,
    model_bytes: bytes,
    settings: ClassifySettings,
    oids: Sequence[int],
    in_database: bool | None,
    on_start: OnStart | None,
) -> Iterator[PageJudge]:
    """Who judges the pages `oids`. A few are judged before a process would have started, or SQL would have been
    planned."""
    pages, tree = len(oids), model.trained_judge
    if in_database is None:
        in_database = isinstance(tree, BayesTree) and pages >= DATABASE_PAGES and _is_newest(store, model)
    if in_database:
        yield DatabaseJudge(store, model, _bayes_tree(model), settings)
        return
    if on_start is None or pages <= CHUNK_PAGES:
        chosen: AbstractContextManager[PagesJudge | PagesJudgeProcess] = nullcontext(PagesJudge(model_bytes))
    else:
        chosen = PagesJudgeProcess(model_bytes, on_start)
    contexts = LinkContexts(store, oids, settings)
    with chosen as judge:
        yield lambda rows: judge(_stored(rows, contexts))


def _bayes_tree(model: Model) -> BayesTree:
    """The model's tree, which is in the database too."""
    tree = model.trained_judge
    if not isinstance(tree, BayesTree):
        raise InputError(
            f"model {model.version} is of the classifier {model.classifier}, which cannot judge in the database",
            "Only a Bayes tree can: set classify.classifier to bayes, then train: opilio topics train FOLDER",
        )
    return tree


def _is_newest(store: Store, model: Model) -> bool:
    """Whether the tables of the model in the database are those of this one."""
    models = store.load_models()
    return bool(models) and models[0].version == model.version


def _stored(rows: Sequence[JudgedPage], contexts: LinkContexts) -> list[StoredPage]:
    found = contexts.of([page.oid for page in rows])
    return [StoredPage._make((*page[2:], *context)) for page, context in zip(rows, found, strict=True)]


class DatabaseJudge:
    """Judges stored pages by BulkProbe (Focus 2.1.3): by their terms in the database, all pages of a chunk at once.

    The judgements are those of the tree in memory. A page of which the database has not all terms is judged there.
    """

    def __init__(self, store: Store, model: Model, tree: BayesTree, settings: ClassifySettings) -> None:
        self._store = store
        self._model = model
        self._tree = tree
        self._settings = settings

    def __call__(self, rows: Sequence[JudgedPage]) -> list[Judgement]:
        """The judgement of each page."""
        oids = [page.oid for page in rows]
        with self._store.reading() as cursor:
            whole = whole_pages(cursor, oids)
            known = known_pages(cursor, oids)
            probed = bulk_probe(cursor, sorted(whole & known))
        dids, kcids = probed["did"].to_numpy(), probed["kcid"].to_numpy()
        logprs = probed["logpr"].to_numpy()
        starts = np.flatnonzero(np.diff(dids, prepend=-1)).tolist()
        found = {oid: Judgement() for oid in whole - known}
        for start, end in itertools.pairwise([*starts, len(dids)]):
            logpr = dict(zip(kcids[start:end].tolist(), logprs[start:end].tolist(), strict=True))
            found[int(dids[start])] = self._tree.judge_probabilities(logpr)
        rest = [page for page in rows if page.oid not in whole]
        judged = self._judge_texts(rest) if rest else []
        found.update(zip((page.oid for page in rest), judged, strict=True))
        return [msgspec.structs.replace(found[oid], model_version=self._model.version) for oid in oids]

    def _judge_texts(self, pages: Sequence[JudgedPage]) -> list[Judgement]:
        return PagesJudge(self._model.to_bytes())(_stored(pages, LinkContexts(self._store, (), self._settings)))


def judge_page(
    store: Store, url: str, settings: ClassifySettings, *, in_database: bool
) -> tuple[JudgedPage, Judgement]:
    """What the newest model says of one stored page, which stays as it is.

    With `in_database`, a Bayes tree judges by SingleProbe (Focus 2.1.3): each term of the page is looked up in the
    database, node by node. A page of which the database has not all terms is judged by its text.
    """
    model_bytes, found = store.load_model(), pages_for_explanation(store, [url]).get(url)
    if not model_bytes:
        raise InputError("there is no model yet", "Train one: opilio topics train FOLDER")
    if found is None:
        raise InputError(f"{url}: not a page of this collection", "Give the URL of a stored page, or crawl it.")
    page = JudgedPage(
        found.oid, found.relevance or 0.0, found.url, found.title or "", found.language or "", found.text or ""
    )
    said = _probe_page(store, Model.from_bytes(model_bytes), page.oid) if in_database else None
    if said is None:
        if not page.text:
            raise InputError(f"{page.url}: its text is not kept", "Set store.text = true before you crawl.")
        [said] = PagesJudge(model_bytes)(_stored([page], LinkContexts(store, (), settings)))
    return page, said


def _probe_page(store: Store, model: Model, oid: int) -> Judgement | None:
    """The judgement of one page by SingleProbe; None if the database has not all its terms."""
    tree = _bayes_tree(model)
    with store.reading() as cursor:
        if not whole_pages(cursor, [oid]):
            return None
        said = tree.judge_probabilities(single_probe(cursor, oid)) if known_pages(cursor, [oid]) else Judgement()
    return msgspec.structs.replace(said, model_version=model.version)


def _chunks(store: Store, version: int, only: Collection[int] | None) -> Iterator[list[JudgedPage]]:
    """The pages that an older model judged, also those that it judged while others were re-judged."""
    if only is not None:
        yield from filter(None, (load_pages_to_rejudge(store, version, chosen) for chosen in _pieces(sorted(only))))
        return
    seen: set[int] = set()
    while oids := [oid for oid in pages_of_older_models(store, version) if oid not in seen]:
        seen.update(oids)
        yield from filter(None, (load_pages_to_rejudge(store, version, chosen) for chosen in _pieces(oids)))


def _pieces(oids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (oids[start : start + CHUNK_PAGES] for start in range(0, len(oids), CHUNK_PAGES))
