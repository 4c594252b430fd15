"""Why a page is judged as it is, and why a URL has its place in the queue.

A page is explained by the newest model or an older one, with the path by which the crawl came to it. A URL is explained
by the pages that link to it, and by the words of these links.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from opilio.analyze.terms import FUNCTION_WORDS, term_of
from opilio.classify import Explanation, Model, Step
from opilio.errors import InputError
from opilio.features.classifier_input import stored_reader
from opilio.learn.directories import DIRECTORY, accepted_by_directory
from opilio.learn.feedback import feedback_given
from opilio.learn.words import QUERY, words_model
from opilio.store import Store
from opilio.store.archives import ArchivedOrigin, archived_origins
from opilio.store.links import anchors_to, count_links_to, links_to, paths_to
from opilio.store.offers import offers_of
from opilio.store.pages import (
    documents,
    known_spelling,
    known_url,
    last_request,
    nearest_urls,
    pages_for_explanation,
    rights_of,
)
from opilio.store.terms import neighbour_terms, whole_words
from opilio.store.urls import finds_of

MAX_LINKS = 20
MAX_REASONS = 12
_STEMS = re.compile(r"((?:\w+: )?)(#\d+|[^\W\d_]\w*(?: \w+)*)")
MAX_NEAREST = 3
TEXT_NOT_KEPT = "Set store.text = true before you crawl."


def current_model(store: Store, version: int = 0, classifier: str = QUERY) -> Model:
    """A stored model, the newest when `version` is 0; the words of the topics, by `classifier`, when there is none."""
    learned = store.load_model(version)
    if learned:
        return Model.from_bytes(learned)
    if version:
        versions = ", ".join(str(model.version) for model in store.load_models())
        raise InputError(f"no model {version}", f"There are: {versions or 'none yet'}.")
    return words_model(store, classifier)


def explain_pages(store: Store, urls: Sequence[str], version: int = 0, classifier: str = QUERY) -> dict[str, Any]:
    """By URL, the explanation of each page whose text is stored, with the path by which the crawl came to it."""
    model = current_model(store, version, classifier)
    pages = {url: page for url, page in pages_for_explanation(store, urls).items() if page.text is not None}
    oids = sorted({page.oid for page in pages.values()})
    anchors, near, paths = anchors_to(store, oids), neighbour_terms(store, oids), paths_to(store, oids)
    said = feedback_given(store, [page.url for page in pages.values()])
    first = [path[0].url for path in paths.values()]
    offers, finds = offers_of(store, first), finds_of(store, first)
    names, reader, archived = _names(store), stored_reader(), archived_origins(store, oids)
    found: dict[str, Any] = {}
    for url, page in pages.items():
        item = reader.read(
            page.title or "", page.text or "", page.language or "", page.url, anchors.get(page.oid, []),
            np.array(near.get(page.oid, ()), np.uint32),
        )  # fmt: skip
        explanation = model.explain(item)
        if page.agreed == [DIRECTORY] and page.kcid is not None and page.model_version == model.version:
            explanation = replace(explanation, judgement=accepted_by_directory(explanation.judgement, page.kcid))
        topic = "" if page.kcid is None else names.get(page.kcid, "")
        found[url] = _explained(names, explanation, page.title or "") | {
            "stored": {"relevance": page.relevance, "topic": topic, "model_version": page.model_version},
            "url": page.url,
            "said": said.get(page.url),
            "way": [step._asdict() for step in paths[page.oid]],
            "offered": offers[paths[page.oid][0].url],
            "found": finds[paths[page.oid][0].url],
            "rights": rights_of(page.rights),
            "archive": _origin(archived.get(page.oid)),
        }
    _spell_out(store, [(found[url], page.text or "", page.language or "") for url, page in pages.items()])
    return found


def _origin(origin: ArchivedOrigin | None) -> dict[str, Any] | None:
    """The archive that a page came from, where it was there, and when it was fetched; None for a page of the crawl."""
    if origin is None:
        return None
    captured = origin.captured.isoformat() + "Z" if origin.captured is not None else ""
    return {"archive": origin.archive, "offset": origin.record_offset, "captured": captured}


def words_for(store: Store, urls: Mapping[int, str], model: Model, limit: int) -> dict[int, list[str]]:
    """By oid: the words that spoke most for the topic that took a page; `urls` are those of the pages by oid.

    What `explain_pages` says, and no more. Pages whose text is not kept are left out.
    """
    oids = sorted(urls)
    anchors, neighbours, reader = anchors_to(store, oids), neighbour_terms(store, oids), stored_reader()
    explained: dict[int, dict[str, Any]] = {}
    texts = {page.oid: page for page in documents(store, oids).values() if page.text is not None}
    for oid, page in texts.items():
        near = np.array(neighbours.get(oid, ()), np.uint32)
        item = reader.read(page.title, page.text or "", page.language, urls[oid], anchors.get(oid, []), near)
        taken = [step for step in model.explain(item).steps if step.taken]
        reasons = sorted(taken[-1].reasons, key=lambda reason: -reason.weight) if taken else []
        chosen = [dict(vars(reason)) for reason in reasons if reason.weight > 0.0][: 2 * limit]
        explained[oid] = {"title": page.title, "steps": [{"reasons": chosen, "missing": []}]}
    _spell_out(store, [(one, texts[oid].text or "", texts[oid].language) for oid, one in explained.items()])
    said = {oid: [reason["feature"] for reason in one["steps"][0]["reasons"]] for oid, one in explained.items()}
    return {oid: [word for word in words if word.lower() not in FUNCTION_WORDS][:limit] for oid, words in said.items()}


def explain(
    store: Store, *, url: str, title: str, text: str, version: int = 0, classifier: str = QUERY
) -> dict[str, Any]:
    """Explain a text, or the stored page of a URL when no text is given. Without a model, `classifier` judges.

    Of a URL whose page is not stored, what became of it (`explain_link`). One that was redirected, or repeats another
    page, stands for the page that is stored; then `asked` has what became of the URL itself.
    """
    if text:
        model = current_model(store, version, classifier)
        item = stored_reader().read(title, text, url=url)
        explained = _explained(_names(store), model.explain(item), title)
        _spell_out(store, [(explained, text, "")])
        return explained
    if not url:
        raise InputError("no text found in it", "Give a file with text, or a URL of the collection.")
    address = known_address(store, url)
    itself = explain_link(store, address)
    if page := explain_pages(store, [address], version, classifier).get(address):
        return dict(page) if page["url"] == address else page | {"asked": itself}
    if page := pages_for_explanation(store, [address]).get(address):
        raise InputError(f"{page.url}: its text is not kept", TEXT_NOT_KEPT)
    return itself


def _explained(names: dict[int, str], explanation: Explanation, title: str) -> dict[str, Any]:
    judgement = msgspec.structs.asdict(explanation.judgement)
    judgement["topic"] = names.get(explanation.judgement.topic, "")
    return {"title": title, "judgement": judgement, "steps": [_step(step, names) for step in explanation.steps]}


def _spell_out(store: Store, explained: Sequence[tuple[dict[str, Any], str, str]]) -> None:
    """Write the features of explanations as people read them; each comes with the text of its page and its language.

    Stems become the words that the page writes, or else other pages of the collection. A feature is one or more stems,
    perhaps after a prefix: 'anchor: mine'. What is none of these stays as it is.
    """
    spelled, reader = [], stored_reader()
    for one, text, language in explained:
        features = [reason["feature"] for step in one["steps"] for reason in step["reasons"]]
        features += [word for step in one["steps"] for word in step["missing"]]
        parts = [stem for feature in features if (found := _STEMS.fullmatch(feature)) for stem in found[2].split()]
        stems = {part: int(part[1:]) & 0xFFFFFFFF if part.startswith("#") else term_of(part) for part in parts}
        own = reader.spellings([(f"{one['title']}\n{text}", language, set(stems.values()))])
        spelled.append((one, stems, own))
    others = whole_words(store, {term for _, stems, own in spelled for term in stems.values() if term not in own})
    for one, stems, own in spelled:
        words = others | own
        known = {stem: words.get(term, stem) for stem, term in stems.items()}
        for step in one["steps"]:
            for reason in step["reasons"]:
                reason["feature"] = _spelled(reason["feature"], known)
            step["missing"] = [_spelled(word, known) for word in step["missing"]]


def _spelled(feature: str, words: Mapping[str, str]) -> str:
    """A feature with whole words, which are given by stem."""
    found = _STEMS.fullmatch(feature)
    return found[1] + " ".join(words[stem] for stem in found[2].split()) if found else feature


def _step(step: Step, names: dict[int, str]) -> dict[str, Any]:
    return {
        "topic": names.get(step.topic, str(step.topic)),
        "confidence": step.confidence,
        "taken": step.taken,
        "votes": dict(step.votes),
        "estimates": {space: dict(vars(estimate)) for space, estimate in step.estimates.items()},
        "reasons": [dict(vars(reason)) for reason in step.reasons[:MAX_REASONS]],
        "missing": list(step.missing),
    }


def _names(store: Store) -> dict[int, str]:
    """The topics by number: the path of each, or the name of the root."""
    return {topic.kcid: topic.path or topic.name for topic in store.load_topics()}


def known_address(store: Store, url: str) -> str:
    """The URL under which the crawl knows an address, in whichever spelling."""
    found = known_spelling(store, url)
    if found is None:
        nearest = nearest_urls(store, url, MAX_NEAREST)
        hint = f"The nearest that it knows: {' '.join(nearest)}" if nearest else "It knows no URL yet."
        raise InputError(f"{url}: this crawl has never seen it", hint)
    return found


def explain_link(store: Store, url: str) -> dict[str, Any]:
    """What the database knows of a URL, fetched or not."""
    url = known_address(store, url)
    known = known_url(store, url)
    assert known is not None, "its spelling is known"
    links, pages = count_links_to(store, known.oid)
    return {
        "url": url,
        **known._asdict(),
        **last_request(store, known.oid)._asdict(),
        "links": links,
        "pages": pages,
        "best": [link._asdict() for link in links_to(store, known.oid, MAX_LINKS)],
        "parts": {},
        "offered": offers_of(store, [url])[url],
        "found": finds_of(store, [url])[url],
    }
