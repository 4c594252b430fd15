"""Teaching a collection, whether a crawl runs in it or not: what can be asked for by name, by a socket too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opilio import learn
from opilio.crawl.taught import KEYWORDS, examples_in, why_nothing_is_learned
from opilio.errors import InputError
from opilio.learn import lessons
from opilio.settings import Settings
from opilio.store import Store
from opilio.topics import hierarchy_of

_LIST = """
    SELECT t.kcid, t.path, t.name, t.keywords,
           (SELECT count(*) FROM training x WHERE x.kcid = t.kcid AND x.positive),
           (SELECT count(*) FROM training x WHERE x.kcid = t.kcid AND x.source = 'archetype'),
           (SELECT count(*) FROM training x WHERE x.kcid = t.kcid AND NOT x.positive),
           (SELECT count(*) FROM pages p WHERE p.kcid = t.kcid),
           (SELECT count(*) FROM pages p WHERE p.kcid = t.kcid AND p.relevance >= 0.5)
    FROM topics t ORDER BY t.path
"""


def list_topics(store: Store) -> list[dict[str, Any]]:
    """The topics with their marks, examples and pages."""
    marks = {node.kcid: node.mark.value for node in hierarchy_of(store.load_topics()).nodes.values()}
    return [
        {
            "topic": path or name, "path": path, "mark": marks[kcid], "keywords": list(keywords or []), "examples": yes,
            "archetypes": archetypes, "negatives": no, "pages": pages, "relevant": relevant,
        }
        for kcid, path, name, keywords, yes, archetypes, no, pages, relevant in store.query(_LIST, max_rows=2**15).rows
    ]  # fmt: skip


def _mark(store: Store, topic: str, good: bool) -> list[str]:
    return lessons.mark(store, topic, good=good)


def _add_example(store: Store, topic: str, example: str, positive: bool, relative_to: str) -> str:
    return lessons.add_example(store, topic, example, positive, Path(relative_to), learn.read_file)


def _drop_example(store: Store, topic: str, name: str) -> None:
    lessons.drop_example(store, topic, name)


def _confirm_archetype(store: Store, topic: str, url: str) -> None:
    learn.confirm_archetype(store, topic, url)


def _reject_archetype(store: Store, topic: str, url: str) -> None:
    learn.reject_archetype(store, topic, url)


def _trim_example(store: Store, topic: str, url: str, text: str) -> None:
    learn.trim_example(store, topic, url, text)


LESSONS: Mapping[str, Callable[..., Any]] = {
    "mark": _mark,
    "add_example": _add_example,
    "drop_example": _drop_example,
    "confirm_archetype": _confirm_archetype,
    "reject_archetype": _reject_archetype,
    "trim_example": _trim_example,
}


def use_model_now(store: Store, settings: Settings, version: int) -> int:
    """Judge by an older model again where no crawl runs; the version it has now."""
    renewed = learn.renew(store, version)
    learn.store_model(store, renewed, f"model {version} again", settings, lessons.fingerprint(store, settings))
    learn.rejudge(store, renewed.model, examples_in(store), settings.classify)
    return renewed.version


def train_now(store: Store, settings: Settings, reason: str, *, judge_anew: bool) -> int:
    """Train a model where no crawl runs, and judge the stored pages by it; its version."""
    if settings.classify.classifier == KEYWORDS:
        raise InputError(*why_nothing_is_learned(settings))
    if not lessons.has_documents(store):
        raise InputError("no examples to learn from", "Add some: opilio topics add FOLDER TOPIC URL")
    models = store.load_models()
    taught = lessons.fingerprint(store, settings)
    trained = learn.train(learn.gather(store, settings), settings, (models[0].version if models else 0) + 1)
    learn.store_model(store, trained, reason, settings, taught)
    if judge_anew:
        learn.rejudge(store, trained.model, examples_in(store), settings.classify)
    return trained.version
