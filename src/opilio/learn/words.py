"""Judging by words, as long as there is no model, and what a yes or a no changes meanwhile.

A model needs three confirmed pages. Until then the words of the question judge, and an answer still counts at once:
the page itself is judged as the user says. Once a page is confirmed, stored pages like an answered one are judged again
(`classify/keywords.py`): those that resemble a refused page more than any confirmed one lose rank. A running crawl
gives its workers the same judge. Other pages are not touched, so that an answer takes no time that grows with the
collection.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opilio.analyze.terms import term_ids
from opilio.classify import KeywordJudge, Model, QueryJudge
from opilio.classify.cosine import CosineJudge
from opilio.classify.keywords import RESEMBLES, WordProfile, word_profile
from opilio.learn.rejudging import rejudge
from opilio.learn.training_state import KEYWORDS, examples_in
from opilio.model import RELEVANT
from opilio.settings import Settings
from opilio.store import Store, user_questions
from opilio.store.judgements import relevances
from opilio.store.terms import bags_of_terms, pages_with_terms
from opilio.store.training import ARCHETYPE
from opilio.topics import TopicRecord, hierarchy_of

QUERY = "query"  # the classifier that judges until there is a model
COSINE = "cosine"  # judges by keywords until then


def keyword_model(
    topics: Sequence[TopicRecord],
    classifier: str = QUERY,
    refused: Sequence[WordProfile] = (),
    confirmed: Sequence[WordProfile] = (),
) -> Model:
    """What judges while nothing has been learned: `query`, or the cosine when the user chose such a classifier."""
    hierarchy = hierarchy_of(list(topics))
    wanted = {topic.kcid: " ".join(topic.keywords) for topic in topics if hierarchy.is_wanted(topic.kcid)}
    given = {kcid: words for kcid, words in wanted.items() if words}
    if classifier == KEYWORDS:
        return Model(0, KEYWORDS, KeywordJudge(given))
    if classifier == COSINE:
        return Model(0, COSINE, CosineJudge.of_keywords(given))
    return Model(0, QUERY, QueryJudge(given, refused, confirmed))


def words_model(store: Store, classifier: str = QUERY) -> Model:
    """The same for a collection, with the pages that its user has refused and confirmed."""
    topics = store.load_topics()
    documents = [
        one for one in store.load_training(page_texts=False) if one.oid is not None and one.source != ARCHETYPE
    ]
    refused, confirmed = (
        _profiles(store, topics, [one.oid for one in documents if one.positive is side and one.oid is not None])
        for side in (False, True)
    )
    return keyword_model(topics, classifier, list(refused.values()), list(confirmed.values()))


def _profiles(store: Store, topics: Sequence[TopicRecord], oids: Sequence[int]) -> dict[int, dict[int, float]]:
    """By page, its profile without the words of the question."""
    asked = {term for topic in topics for word in topic.keywords for term in term_ids(word)}
    return {oid: word_profile(bag, asked) for oid, bag in bags_of_terms(store, oids).items()}


@dataclass
class Spread:
    """What answers changed elsewhere."""

    left: int = 0
    """Other pages that are no longer relevant ..."""
    came: int = 0
    """... or are now."""
    fell: int = 0
    """Pages that lost rank, but stay on their side."""

    def __str__(self) -> str:
        """As users read it; empty when no other page changed."""
        parts = [(self.left, "left the topic"), (self.came, "came to the topic"), (self.fell, "lost rank")]
        said = [f"{count:,} similar page{'s' if count != 1 else ''} {did}" for count, did in parts if count]
        return f"; {', '.join(said)}" if said else ""


@contextmanager
def spreading_answers(store: Store, settings: Settings) -> Iterator[Spread]:
    """Judge the pages again whose training documents are changed inside, and those like them, while words judge.

    The result is filled in at the end. Nothing is done once there is a model: that has to be trained.
    """
    spread = Spread()
    is_by_words = not store.load_models() and any(topic.keywords for topic in store.load_topics())
    before = _documents(store) if is_by_words else set()
    yield spread
    if is_by_words:
        changed = {oid for oid, _, _ in before ^ _documents(store)}
        _judge_again(store, settings, changed, spread)


def _documents(store: Store) -> set[tuple[int, int, bool]]:
    return {(one.oid, one.kcid, one.positive) for one in store.load_training(page_texts=False) if one.oid is not None}


def _judge_again(store: Store, settings: Settings, changed: Collection[int], spread: Spread) -> None:
    if not changed:
        return
    near = set(changed)
    for profile in _profiles(store, store.load_topics(), sorted(changed)).values():
        near |= pages_with_terms(store, profile, RESEMBLES)
    before = relevances(store, near)
    model = words_model(store, settings.classify.classifier)
    rejudge(store, model.to_bytes(), examples_in(store), settings.classify, all_pages=True, only=near)
    after = relevances(store, near)
    others = near - set(changed)
    unasked = {oid for oid in others if after.get(oid, 0.0) < min(RELEVANT, before.get(oid, 0.0))}
    user_questions.withdraw_questions(store, unasked)  # the answers so far answer them too
    for oid in others:
        was, is_now = before.get(oid, 0.0), after.get(oid, 0.0)
        spread.left += was >= RELEVANT > is_now
        spread.came += was < RELEVANT <= is_now
        spread.fell += is_now < was and (was < RELEVANT) == (is_now < RELEVANT)


def said_with(spread: Spread, result: dict[str, Any]) -> dict[str, Any]:
    """The result of an operation, whose sentence also says what spread."""
    return {**result, "said": f"{result['said']}{spread}"}
