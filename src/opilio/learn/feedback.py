"""Feedback on results: what a reader says of a page becomes an example or a counter-example (BINGO 3.6).

- *relevant*: the page is an example of its topic.
- *irrelevant*: the page is a counter-example of the topic that is wanted: its own, or the good one above it.
- *belongs*: the page is an example of another topic. It need not be a counter-example of the one that took it: topics
  that compete learn from each other's examples what they are not, and those inside a topic from its own examples. As a
  counter-example it would be in OTHERS as well, against its new topic.

What the user says of a page stands when it is re-judged, whatever a model says (`rejudging.DeniedTopics`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from opilio.errors import InputError
from opilio.learn.training_data import recording_changes, undo_changes_at
from opilio.store import Store, training
from opilio.store.pages import verdict_on, verdicts_on
from opilio.store.training import CONFIRMED, REJECTED
from opilio.topics import Mark, TopicRecord, find_topic, hierarchy_of
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy

RELEVANT, IRRELEVANT, BELONGS = "relevant", "irrelevant", "belongs"
VERDICTS = (RELEVANT, IRRELEVANT, BELONGS)


class _Page(NamedTuple):
    """A stored page, and the topic that took it."""

    url: str
    oid: int
    taken_by: int | None


def give_feedback(store: Store, url: str, verdict: str, topic: str | None = None) -> dict[str, Any]:
    """Learn from what a reader says of a page: returns the topic that learns it, and a sentence."""
    if verdict not in VERDICTS:
        raise InputError(f"{verdict!r} is no verdict", f"Say one of {', '.join(VERDICTS)}.")
    records = store.load_topics()
    hierarchy, page = hierarchy_of(records), _page(store, url)
    named = None if not topic else find_topic(records, topic).kcid
    if verdict == IRRELEVANT:
        kcid = _refusing(hierarchy, page, named)
        make_counterexample(store, hierarchy, kcid, page.url, page.oid)
    else:
        kcid = _taking(hierarchy, page, named, verdict)
        make_example(store, hierarchy, kcid, page.url, page.oid)
    path = _shown(records, kcid)
    role = "a counter-example" if verdict == IRRELEVANT else "an example"
    said = f"{role} of {path} from now on"
    return {"url": page.url, "topic": path, "verdict": verdict, "positive": verdict != IRRELEVANT, "said": said}


def give_feedback_on_pages(store: Store, oids: Sequence[int], verdict: str, topic: str | None = None) -> dict[str, Any]:
    """Say the same of many pages, such as those of a cluster. Pages of which it cannot be said are left out.

    Returns how many `pages` learn it, and a sentence.
    """
    if verdict not in (RELEVANT, IRRELEVANT):
        raise InputError(f"{verdict!r} cannot be said of many pages", f"Say {RELEVANT} or {IRRELEVANT}.")
    records = store.load_topics()
    hierarchy, found = hierarchy_of(records), verdicts_on(store, oids)
    named = None if not topic else find_topic(records, topic).kcid
    documents = store.load_training()
    taught = {record.name for record in documents} | {record.oid for record in documents if record.oid is not None}
    topics: Counter[int] = Counter()
    for url, said in found.items():
        page = _Page(url, said.oid, said.kcid if said.accepted else None)
        try:
            kcid = (_refusing if verdict == IRRELEVANT else _of_own_topic)(hierarchy, page, named)
        except InputError:
            continue
        if not {page.url, page.oid} & taught:
            training.add_page_example(store, kcid, page.url, REJECTED if verdict == IRRELEVANT else CONFIRMED)
        elif verdict == IRRELEVANT:
            make_counterexample(store, hierarchy, kcid, page.url, page.oid)
        else:
            make_example(store, hierarchy, kcid, page.url, page.oid)
        topics[kcid] += 1
    if not topics:
        raise InputError("none of these pages is in a topic", "Name the topic that is meant.")
    role = "counter-example" if verdict == IRRELEVANT else "example"
    parts = [
        f"{count:,} {role}{'s' if count != 1 else ''} of {_shown(records, kcid)}"
        for kcid, count in topics.most_common()
    ]
    return {"pages": topics.total(), "verdict": verdict, "said": f"{', '.join(parts)} from now on"}


def feedback_given(store: Store, urls: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By URL: what the user has said of some pages and no later word replaces, and the moment to undo it by."""
    paths = {record.kcid: record.path or record.name for record in store.load_topics()}
    return {
        url: {
            "verdict": RELEVANT if given.positive else IRRELEVANT,
            "topic": paths.get(given.kcid, ""),
            "moment_us": given.moment_us,
        }
        for url, given in training.given_feedback(store, urls).items()
    }


def undo_feedback(store: Store, moment_us: int, url: str = "") -> dict[str, Any]:
    """Undo what the user said at a moment; with `url`, of this page only. Returns how many documents that restores."""
    with recording_changes(store):
        restored = undo_changes_at(store, moment_us, url)
    if not restored:
        raise InputError("there is nothing to undo", "Reload the page: it may have been undone already.")
    return {"restored": restored, "said": "undone" if restored == 1 else f"undone for {restored:,} pages"}


def make_example(store: Store, hierarchy: Hierarchy, kcid: int, url: str, oid: int, *, source: str = CONFIRMED) -> None:
    """Make a page an example of a topic, by default the user's own, and of none of its siblings."""
    line = {kcid, ROOT, *hierarchy.line(kcid)}
    has_it = False
    for name, of, positive in _documents(store, url, oid):
        if of == kcid and positive:
            has_it = True
            training.confirm_example(store, of, name)
        elif positive or of in line:  # no page is of two topics, nor denied to a topic that contains its own
            training.delete_example(store, of, name)
    if not has_it:
        training.add_page_example(store, kcid, url, source)


def make_counterexample(store: Store, hierarchy: Hierarchy, kcid: int, url: str, oid: int) -> None:
    """Make a page a counter-example of a topic; what is below it cannot have it as an example then."""
    below = hierarchy.below(kcid)
    for name, of, positive in _documents(store, url, oid):
        if of == kcid or (positive and of in below):
            training.delete_example(store, of, name)
    training.add_page_example(store, kcid, url, REJECTED)


def _page(store: Store, url: str) -> _Page:
    page = verdict_on(store, url)
    if page is None:
        raise InputError(f"{url}: not a page of this collection", "Take one from the results of a search.")
    return _Page(url, page.oid, page.kcid if page.accepted else None)


def _taking(hierarchy: Hierarchy, page: _Page, named: int | None, verdict: str) -> int:
    """The topic that a page becomes an example of."""
    if verdict == BELONGS and named is None:
        raise InputError("to which topic does it belong?", "Name the topic.")
    kcid = page.taken_by if named is None else named
    if kcid is None and len(hierarchy.good) == 1:
        [kcid] = hierarchy.good
    if kcid is None:
        raise InputError(f"no topic took {page.url}: which is it about?", "Name the topic it belongs to.")
    if kcid == ROOT and hierarchy.start != ABOVE_ROOT:
        raise InputError("the root has topics, and no examples of its own", "Name the topic below it.")
    return kcid


def _of_own_topic(hierarchy: Hierarchy, page: _Page, named: int | None) -> int:
    """The topic that one of many relevant pages becomes an example of: its own if it is the named one or below it."""
    if page.taken_by is not None and (named is None or page.taken_by in hierarchy.below(named)):
        return page.taken_by
    return _taking(hierarchy, page, named, RELEVANT)


def _refusing(hierarchy: Hierarchy, page: _Page, named: int | None) -> int:
    """The topic that a page becomes a counter-example of: the one that is wanted, not one inside of it."""
    if named is not None:
        return named
    if page.taken_by is None:
        raise InputError(
            f"no topic took {page.url}", "There is nothing to take back: it is not among what is relevant."
        )
    line = [kcid for kcid in hierarchy.line(page.taken_by) if hierarchy.nodes[kcid].mark is Mark.GOOD]
    return line[0] if line else page.taken_by


def _documents(store: Store, url: str, oid: int) -> list[tuple[str, int, bool]]:
    """The training documents that a page is: name, topic and side."""
    return [(r.name, r.kcid, r.positive) for r in store.load_training() if r.name == url or r.oid == oid]


def _shown(records: list[TopicRecord], kcid: int) -> str:
    return next(record.path or record.name for record in records if record.kcid == kcid)
