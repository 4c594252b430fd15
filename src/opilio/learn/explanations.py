"""Why a page is judged as it is, and why a URL has its place in the queue.

A page is explained by the newest model or an older one, with the path by which the crawl came to it. A URL is explained
by the pages that link to it, and by the words of these links.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import msgspec
import numpy as np

from opilio.classify import Explanation, KeywordJudge, Model, QueryJudge, Step
from opilio.classify.cosine import CosineJudge
from opilio.errors import InputError
from opilio.features.classifier_input import TextReader
from opilio.learn.directories import DIRECTORY, accepted_by_directory
from opilio.learn.feedback import feedback_given
from opilio.learn.training_state import KEYWORDS
from opilio.store import Store
from opilio.store.links import anchors_to, count_links_to, links_to, path_to
from opilio.store.offers import offers_of
from opilio.store.pages import documents, known_url, page_for_explanation
from opilio.store.terms import neighbour_terms
from opilio.topics import TopicRecord, hierarchy_of

QUERY = "query"  # the classifier that judges until there is a model
COSINE = "cosine"  # judges by keywords until then
MAX_LINKS = 20
MAX_REASONS = 12


def current_model(store: Store, version: int = 0, classifier: str = QUERY) -> Model:
    """A stored model, the newest when `version` is 0; the words of the topics, by `classifier`, when there is none."""
    learned = store.load_model(version)
    if learned:
        return Model.from_bytes(learned)
    if version:
        versions = ", ".join(str(model.version) for model in store.load_models())
        raise InputError(f"no model {version}", f"There are: {versions or 'none yet'}.")
    return keyword_model(store.load_topics(), classifier)


def keyword_model(topics: list[TopicRecord], classifier: str = QUERY) -> Model:
    """What judges while nothing has been learned: `query`, or the cosine when the user chose such a classifier."""
    hierarchy = hierarchy_of(topics)
    wanted = {topic.kcid: " ".join(topic.keywords) for topic in topics if hierarchy.is_wanted(topic.kcid)}
    given = {kcid: words for kcid, words in wanted.items() if words}
    if classifier == KEYWORDS:
        return Model(0, KEYWORDS, KeywordJudge(given))
    if classifier == COSINE:
        return Model(0, COSINE, CosineJudge.of_keywords(given))
    return Model(0, QUERY, QueryJudge(given))


def explain_page(store: Store, url: str, model: Model) -> dict[str, Any] | None:
    """Explain a stored page, with the path by which the crawl came to it; None when it is not stored."""
    page = page_for_explanation(store, url)
    if page is None:
        return None
    if page.text is None:
        raise InputError(f"{page.url}: its text is not kept", "Set store.text = true before you crawl.")
    anchors = anchors_to(store, [page.oid]).get(page.oid, [])
    near = np.array(neighbour_terms(store, [page.oid]).get(page.oid, ()), np.uint32)
    item = TextReader().read(page.title or "", page.text, page.language or "", page.url, anchors, near)
    topic = "" if page.kcid is None else _paths(store).get(page.kcid, "")
    path = [step._asdict() for step in path_to(store, page.oid)]
    explanation = model.explain(item)
    if page.agreed == [DIRECTORY] and page.kcid is not None and page.model_version == model.version:
        explanation = replace(explanation, judgement=accepted_by_directory(explanation.judgement, page.kcid))
    return _explained(store, explanation, page.title or "") | {
        "stored": {"relevance": page.relevance, "topic": topic, "model_version": page.model_version},
        "said": feedback_given(store, [page.url]).get(page.url),
        "way": path,
        "offered": offers_of(store, path[0]["url"]),
    }


def words_for(store: Store, urls: Mapping[int, str], model: Model, limit: int) -> dict[int, list[str]]:
    """By oid: the words that spoke most for the topic that took a page; `urls` are those of the pages by oid.

    What `explain_page` says, for several pages at once and no more. Pages whose text is not kept are left out.
    """
    oids = sorted(urls)
    anchors, neighbours, reader = anchors_to(store, oids), neighbour_terms(store, oids), TextReader()
    found = {}
    for page in documents(store, oids).values():
        if page.text is None:
            continue
        near = np.array(neighbours.get(page.oid, ()), np.uint32)
        item = reader.read(page.title, page.text, page.language, urls[page.oid], anchors.get(page.oid, []), near)
        taken = [step for step in model.explain(item).steps if step.taken]
        reasons = sorted(taken[-1].reasons, key=lambda reason: -reason.weight) if taken else []
        found[page.oid] = [reason.feature for reason in reasons if reason.weight > 0.0][:limit]
    return found


def explain(
    store: Store, *, url: str, title: str, text: str, version: int = 0, classifier: str = QUERY
) -> dict[str, Any]:
    """Explain a text, or the stored page of a URL when no text is given. Without a model, `classifier` judges."""
    model = current_model(store, version, classifier)
    if text:
        return _explained(store, model.explain(TextReader().read(title, text, url=url)), title)
    if not url:
        raise InputError("no text found in it", "Give a file with text, or a URL of the collection.")
    explained = explain_page(store, url, model)
    if explained is None:
        raise InputError(f"{url}: not a page of this collection", "Save the page and explain the file, or crawl it.")
    return explained


def _explained(store: Store, explanation: Explanation, title: str) -> dict[str, Any]:
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
        "missing": list(step.missing),
    }


def _paths(store: Store) -> dict[int, str]:
    return {topic.kcid: topic.path or topic.name for topic in store.load_topics()}


def explain_link(store: Store, url: str) -> dict[str, Any]:
    """What the database knows of a URL, fetched or not."""
    known = known_url(store, url)
    if known is None:
        raise InputError(f"{url}: not known to this collection", "Give a URL that a page of it links to.")
    links, pages = count_links_to(store, known.oid)
    return {
        "url": url,
        **known._asdict(),
        "links": links,
        "pages": pages,
        "best": [link._asdict() for link in links_to(store, known.oid, MAX_LINKS)],
        "parts": {},
        "offered": offers_of(store, url),
    }
