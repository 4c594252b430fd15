"""Teaching a collection, whether a crawl runs in it or not: what can be asked for by name, by a socket too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opilio import learn
from opilio.analyze.files import read_file
from opilio.crawl.steering import claim
from opilio.crawl.taught import KEYWORDS, examples_in, why_nothing_is_learned
from opilio.errors import InputError
from opilio.learn import training_data
from opilio.learn.training_changes import recording_changes, undo_changes
from opilio.model import TrainingCause, TrainingReason
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


_PARTS = "SELECT kcid || ' ' || name, text IS NOT NULL FROM training WHERE kind = 'url'"


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


def list_examples(store: Store) -> list[dict[str, Any]]:
    """What is learned from, by topic: name, title, side, source, whether its page is there, and the words of a part."""
    paths = {record.kcid: record.path or record.name for record in store.load_topics()}
    parts = dict(store.query(_PARTS, max_rows=2**20).rows)
    return [
        {
            "topic": paths.get(record.kcid, ""), "name": record.name, "kind": record.kind, "title": record.title,
            "positive": record.positive, "source": record.source, "words": len((record.text or "").split()),
            "there": bool(record.text) or record.oid is not None,
            "part": parts.get(f"{record.kcid} {record.name}", False),
        }
        for record in store.load_training()
    ]  # fmt: skip


def _mark(store: Store, topic: str, good: bool) -> list[str]:
    return training_data.mark(store, topic, good=good)


def _add_example(store: Store, topic: str, example: str, positive: bool, relative_to: str) -> str:
    return training_data.add_example(store, topic, example, positive, Path(relative_to), read_file)


def _drop_example(store: Store, topic: str, name: str) -> None:
    training_data.drop_example(store, topic, name)


def _confirm_archetype(store: Store, topic: str, url: str) -> None:
    learn.confirm_archetype(store, topic, url)


def _reject_archetype(store: Store, topic: str, url: str) -> None:
    learn.reject_archetype(store, topic, url)


def _trim_example(store: Store, topic: str, url: str, text: str) -> None:
    learn.trim_example(store, topic, url, text)


def _feedback(store: Store, url: str, verdict: str, topic: str | None = None) -> dict[str, Any]:
    from opilio.learn.feedback import give_feedback  # noqa: PLC0415

    return give_feedback(store, url, verdict, topic)


def _split_topic(store: Store, topic: str, clusters: list[dict[str, Any]]) -> list[str]:
    from opilio.search.clusters import split_topic  # noqa: PLC0415

    return split_topic(store, topic, clusters)


def _learn_review(store: Store, topic: str) -> dict[str, int]:
    from opilio.search.review import learn_review  # noqa: PLC0415

    return learn_review(store, topic)


def _noted(lesson: Callable[..., Any]) -> Callable[..., Any]:
    """The same lesson, with a note of what it changed."""

    def teach(store: Store, **request: Any) -> Any:
        with recording_changes(store):
            return lesson(store, **request)

    return teach


def _judge_page(store: Store, topic: str, url: str, verdict: str) -> None:
    from opilio.search.review import judge  # noqa: PLC0415

    judge(store, topic, url, verdict)


def _take_back(store: Store, topic: str) -> str:
    from opilio.search.review import take_back  # noqa: PLC0415

    return take_back(store, topic)


def _review_anew(store: Store, topic: str) -> int:
    from opilio.search.review import begin_anew  # noqa: PLC0415

    return begin_anew(store, topic)


LESSONS: Mapping[str, Callable[..., Any]] = {
    "mark": _noted(_mark),
    "add_example": _noted(_add_example),
    "drop_example": _noted(_drop_example),
    "confirm_archetype": _noted(_confirm_archetype),
    "reject_archetype": _noted(_reject_archetype),
    "trim_example": _noted(_trim_example),
    "feedback": _noted(_feedback),
    "split_topic": _noted(_split_topic),
    "learn_review": _noted(_learn_review),
    "forget": undo_changes,
    # a review: nothing is learned of it until it is asked for
    "judge": _judge_page,
    "take_back": _take_back,
    "review_anew": _review_anew,
}
NAME_URLS = frozenset({"add_example"})
"""Those that may name a URL which is to be fetched; they return it."""


def teach(store: Store, what: str, **request: Any) -> Any:
    """Teach a lesson where no crawl runs. What it names waits for the next one, also if it was another part's."""
    changed = LESSONS[what](store, **request)
    if what in NAME_URLS:
        claim(store, [changed])
    return changed


def use_model_now(store: Store, settings: Settings, version: int) -> int:
    """Judge by an older model again where no crawl runs; the version it has now."""
    renewed = learn.reuse_model(store, version)
    cause = TrainingCause(TrainingReason.REUSED, repeats=version)
    learn.store_model(store, renewed, cause, settings, training_data.fingerprint(store, settings))
    learn.rejudge(store, renewed.model, examples_in(store), settings.classify)
    return renewed.version


def train_now(store: Store, settings: Settings, *, judge_anew: bool) -> int:
    """Train a model where no crawl runs, and judge the stored pages by it; its version."""
    if settings.classify.classifier == KEYWORDS:
        raise InputError(*why_nothing_is_learned(settings))
    if not training_data.has_documents(store):
        raise InputError("no examples to learn from", "Add some: opilio topics add FOLDER TOPIC URL")
    models = store.load_models()
    taught = training_data.fingerprint(store, settings)
    training = learn.with_strangers(store, settings, learn.gather(store, settings))
    trained = learn.train(training, settings, (models[0].version if models else 0) + 1)
    learn.store_model(store, trained, TrainingCause(TrainingReason.REQUESTED), settings, taught)
    if judge_anew:
        learn.rejudge(store, trained.model, examples_in(store), settings.classify)
    return trained.version
