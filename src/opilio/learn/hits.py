"""Hits: the stored pages that match the words of a query best, and how they become examples (BINGO 2 and 5.3).

A collection that was made from a query has nothing to learn from at first: words judge its pages. The user looks at the
hits and picks examples (`list_hits`; a pick is feedback), answers questions about them (`asking.py`), or leaves it to
the crawl (`take_best_hits`): then the best pages that the words accept become examples unseen. They have a source of
their own in the table `training`, as nobody vouches for them, and a model needs as many of them as of confirmed pages.
"""

from __future__ import annotations

from typing import Any

from opilio.errors import InputError
from opilio.learn.asking import example_topic, find_candidates, topic_name
from opilio.learn.feedback import make_example
from opilio.learn.questions import choose_questions
from opilio.learn.training_data import MIN_CONFIRMED, has_documents, recording_changes, words_suffice
from opilio.model import RELEVANT
from opilio.store import Store, user_questions
from opilio.store.terms import stuffed_pages
from opilio.store.training import HIT, count_confirmed
from opilio.topics import hierarchy_of

SHOWN_HITS = 20
TAKEN_HITS = 8
"""So many of the best hits become examples when nobody is asked: models of one or two pages led crawls astray
(docs/results/log.md). The number itself is a choice, not measured."""


def list_hits(store: Store, limit: int = SHOWN_HITS) -> list[dict[str, Any]]:
    """The most relevant pages that are no training documents, best first; of pages that are nearly the same, one."""
    hierarchy = hierarchy_of(store.load_topics())
    found = find_candidates(store, hierarchy)
    chosen = choose_questions(found.pages, found.known, limit, found.counts, only_best=True)
    pages = user_questions.question_pages(store, [one.oid for one in chosen])
    hits = [
        {
            "oid": page.oid, "url": page.url, "title": page.title, "host": page.host, "snippet": page.snippet,
            "topic": topic_name(hierarchy, one.kcid), "relevance": page.relevance or 0.0,
            "accepted": (page.relevance or 0.0) >= RELEVANT,
        }
        for one in chosen
        if (page := pages.get(one.oid)) is not None
    ]  # fmt: skip
    return sorted(hits, key=lambda hit: -hit["relevance"])


def take_best_hits(store: Store, limit: int) -> list[str]:
    """Make the best pages that the words accept examples, at most `limit`; their URLs.

    None are taken when there is something to learn from already, nor when they are too few for a model, together with
    the pages that the user has confirmed.
    """
    if has_documents(store) and not words_suffice(store):
        return []
    hierarchy = hierarchy_of(store.load_topics())
    found = find_candidates(store, hierarchy)
    accepted = [page for page in found.pages if page.relevance >= RELEVANT]
    stuffed = stuffed_pages(store, [page.oid for page in accepted])
    accepted = [page for page in accepted if page.oid not in stuffed]
    chosen = choose_questions(accepted, found.known, limit, found.counts, only_best=True)
    if len(chosen) + count_confirmed(store) < MIN_CONFIRMED:
        return []
    pages = user_questions.question_pages(store, [one.oid for one in chosen])
    taken = [(one, pages[one.oid]) for one in chosen if one.oid in pages]
    with recording_changes(store):
        for one, page in taken:
            kcid = example_topic(hierarchy, one.kcid, page)
            make_example(store, hierarchy, kcid, page.url, page.oid, source=HIT)
    return [page.url for _, page in taken]


def ensure_documents(store: Store, *, take_hits: bool) -> None:
    """Raise InputError when there is too little to learn from; with `take_hits`, first take the best hits."""
    if has_documents(store) or (take_hits and take_best_hits(store, TAKEN_HITS)):
        return
    if not any(topic.keywords for topic in store.load_topics()):
        raise InputError("no examples to learn from", "Add some: opilio topics add FOLDER TOPIC URL")
    confirmed = count_confirmed(store)
    pages = f"{confirmed} confirmed page{'s' if confirmed != 1 else ''}"
    if take_hits:
        raise InputError(
            f"too few examples for a model: {pages}, and too few stored pages match your words; it takes "
            f"{MIN_CONFIRMED} together",
            "Crawl on, look at the best hits (opilio ask FOLDER --hits), or add examples: opilio topics add FOLDER "
            "TOPIC URL",
        )
    raise InputError(
        f"too few examples for a model: {pages} of at least {MIN_CONFIRMED}",
        "Confirm pages: opilio ask FOLDER (or pick from the best hits: opilio ask FOLDER --hits). To take the best "
        f"{TAKEN_HITS} hits unseen: opilio topics train FOLDER --yes",
    )
