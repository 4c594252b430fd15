"""Operations on what is wanted: topics, examples, archetypes, models, and the reasons for judgements.

A change of the training data is recorded (`recording_changes`), so that `pending` can say what no model has learned
yet. While a crawl runs, the crawl makes the change and trains a new model soon (see `control.py`).
"""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec

from opilio import learn
from opilio.crawl.operations.client import OperationClient, caller_operation, is_running
from opilio.crawl.operations.context import Context, LiveCrawl, address_of
from opilio.crawl.operations.declaration import LONG_TIMEOUT_S, READS, WRITES, Meta, Route, operation
from opilio.errors import CollectionBusy, InputError
from opilio.learn import training_data
from opilio.learn.hits import ensure_documents
from opilio.learn.training_data import recording_changes
from opilio.learn.training_state import KEYWORDS, examples_in, why_nothing_is_learned
from opilio.model import TrainingCause, TrainingReason
from opilio.store.topics import list_topics
from opilio.store.training import list_examples

ADDRESS_HINT = "Give the address as `opilio archetypes list FOLDER` shows it."
VERSION = Meta(description="The version of a model.")
TOPIC_FILTER = Meta(description="Only those of this topic; without one, of all topics.")


# -- topics and examples


@operation(READS, rest=Route("GET", "topics", "teaching"))
def topics(at: Context) -> list[dict[str, Any]]:
    """The topic tree: path, mark, keywords, and how many examples and pages each topic has."""
    return list_topics(at.store)


@operation(
    WRITES, rest=Route("POST", "mark", "crawl"), about={"good": Meta(description="Whether the topic is wanted.")}
)
def mark(at: Context, topic: str, *, good: bool = True) -> dict[str, str]:
    """Want a topic, or no longer want it; a running crawl follows at once. Other marks give way: see `topics.changes`.

    Returns the topics whose mark changed, with the mark that each has now.
    """
    with recording_changes(at.store):
        return training_data.mark(at.store, topic, good=good)


@operation(
    READS,
    rest=Route("GET", "examples", "teaching"),
    about={"topic": TOPIC_FILTER},
)
def examples(at: Context, topic: str = "") -> list[dict[str, Any]]:
    """The training documents: topic, name, title, side (`positive`), source, and whether the page is there."""
    return [one for one in list_examples(at.store) if topic in ("", one["topic"])]


@operation(WRITES, names_a_url=True)
def add_example(at: Context, topic: str, example: str, *, positive: bool = True) -> str:
    """Add a document to learn from: a URL, a file, or `text:` and a text. A negative one belongs to OTHERS."""
    from opilio.analyze.files import read_file  # noqa: PLC0415

    with recording_changes(at.store):
        return training_data.add_example(at.store, topic, example, positive, at.working_folder, read_file)


@operation(WRITES, rest=Route("POST", "examples/drop", "teaching"))
def drop_example(at: Context, topic: str, name: str) -> None:
    """Remove a document from the examples of a topic."""
    with recording_changes(at.store):
        training_data.drop_example(at.store, topic, name)


@operation(WRITES, rest=Route("POST", "trim", "teaching"))
def trim_example(at: Context, topic: str, url: str, text: str) -> None:
    """Learn from a part of a stored page instead of the whole page, which becomes your own example of the topic."""
    with recording_changes(at.store):
        learn.trim_example(at.store, topic, address_of(url, ADDRESS_HINT), text)


@operation(READS)
def page_text(at: Context, url: str) -> dict[str, Any]:
    """The title and the visible text of a stored page; `trim_example` takes parts of this text."""
    return learn.page_text(at.store, address_of(url, ADDRESS_HINT))


@caller_operation(READS)
def propose(client: OperationClient, file: Path | str) -> int:
    """Write the terms and collocations that could distinguish the topics to a file, for an expert to edit.

    `settings.oasis.filter` names the file that the classifier `oasis` uses then. Returns how many topics are in it. It
    needs a collection in which no crawl runs.
    """
    with client.opened(read_only=True) as store:
        return learn.propose(store, client.settings, Path(file))


# -- archetypes


@operation(
    READS,
    timeout_s=LONG_TIMEOUT_S,
    rest=Route("GET", "archetypes", "teaching", "analysis"),
    about={"topic": TOPIC_FILTER},
)
def archetypes(at: Context, topic: str | None = None) -> list[dict[str, Any]]:
    """The pages that the crawl chose to learn from by itself (state `archetype`), those it would add next, and other
    candidates."""
    return learn.list_archetypes(at.store, at.settings, topic or None)


@operation(WRITES, rest=Route("POST", "archetypes/confirm", "teaching"))
def confirm_archetype(at: Context, topic: str, url: str) -> None:
    """Confirm an archetype or another stored page: it is your own example of the topic from now on."""
    with recording_changes(at.store):
        learn.confirm_archetype(at.store, topic, address_of(url, ADDRESS_HINT))


@operation(WRITES, rest=Route("POST", "archetypes/reject", "teaching"))
def reject_archetype(at: Context, topic: str, url: str) -> None:
    """Make an archetype or a candidate a counter-example of the topic; it is never proposed again."""
    with recording_changes(at.store):
        learn.reject_archetype(at.store, topic, address_of(url, ADDRESS_HINT))


# -- models


@operation(WRITES, timeout_s=LONG_TIMEOUT_S, renamed={"judge_anew": "rejudge"})
def train(at: Context, *, rejudge: bool = True, take_hits: bool = False) -> int:
    """Train a model from the examples as they are now; returns its version. It re-judges the stored pages, too.

    A collection that was made from a query may have too few examples. With `take_hits`, the eight stored pages that
    match its words best become examples then.
    """
    store, settings = at.store, at.settings
    if settings.classify.classifier == KEYWORDS:
        raise InputError(*why_nothing_is_learned(settings))
    ensure_documents(store, take_hits=take_hits)
    models = store.load_models()
    taught = training_data.fingerprint(store, settings)
    training = learn.with_crawled_pages(store, settings, learn.gather(store, settings))
    trained = learn.train(training, settings, (models[0].version if models else 0) + 1)
    learn.store_model(store, trained, TrainingCause(TrainingReason.REQUESTED), settings, taught)
    if rejudge:
        examples = examples_in(store)
        learn.rejudge(store, trained.model, examples, settings.classify)
        learn.rejudge_all_directories(store, settings, examples)
    return trained.version


@train.live
async def _(crawl: LiveCrawl, *, rejudge: bool = True, take_hits: bool = False) -> int:
    """A running crawl trains in the background and gives the model to its workers."""
    async with crawl.writing:
        await crawl.read(ensure_documents, take_hits=take_hits)
    return await crawl.engine.teacher.retrain(TrainingCause(TrainingReason.REQUESTED), rejudge=rejudge)


@caller_operation(WRITES, timeout_s=LONG_TIMEOUT_S)
def classify(client: OperationClient, *, in_database: bool | None = None) -> dict[str, int]:
    """Judge all stored pages again by the newest model. Returns how many, and how many are relevant before and after.

    `in_database` has a Bayes tree judge by SQL (BulkProbe), or not; by default it does where that is faster. It needs a
    collection in which no crawl runs: a running crawl re-judges by itself.
    """
    if is_running(client.folder):
        raise CollectionBusy(
            f"{client.folder}: a crawl runs here, and re-judges pages by itself when it has a new model",
            f"Have it train one: opilio topics train {quote(str(client.folder))}. "
            f"Or stop it first: opilio stop {quote(str(client.folder))}",
        )
    with client.opened_soon() as store:
        model = store.load_model()
        if not model:
            raise InputError("there is no model yet", "Train one: opilio topics train FOLDER")
        settings, examples = client.settings, examples_in(store)
        judged = learn.rejudge(store, model, examples, settings.classify, all_pages=True, in_database=in_database)
        judged.relevant_after += learn.rejudge_all_directories(store, settings, examples)
    return dataclasses.asdict(judged)


@operation(
    READS,
    rest=Route("GET", "classify", "teaching", "analysis"),
    about={"in_database": Meta(description="Judge by SQL: SingleProbe of a Bayes tree.")},
)
def classify_page(at: Context, url: str, *, in_database: bool = False) -> dict[str, Any]:
    """What the newest model says of one stored page: its URL, its title and the judgement. Nothing is stored.

    With `in_database`, a Bayes tree judges by SQL, with one look-up for each node and term (SingleProbe); the judgement
    is the same as in memory.
    """
    address = address_of(url, "Give the URL of a stored page.")
    page, said = learn.judge_page(at.store, address, at.settings.classify, in_database=in_database)
    paths = {topic.kcid: topic.path or topic.name for topic in at.store.load_topics()}
    judgement = {**msgspec.structs.asdict(said), "topic": paths.get(said.topic, "")}
    return {"url": page.url, "title": page.title, "judgement": judgement}


@operation(READS, rest=Route("GET", "models", "teaching"))
def models(at: Context) -> list[dict[str, Any]]:
    """All models, newest first: why each was trained, on how many examples, what is expected of it, what it found."""
    return learn.list_models(at.store)


@operation(READS)
def refused_models(at: Context) -> list[dict[str, Any]]:
    """The models that were trained and refused, newest first, each with the figures that decided against it."""
    from opilio.learn.models import list_refused  # noqa: PLC0415

    return list_refused(at.store)


@operation(READS)
def compare_models(at: Context, first: int, second: int) -> dict[str, Any]:
    """How two models judge the pages that both have judged."""
    return learn.compare_models(at.store, first, second)


@operation(READS, rest=Route("GET", "compare", "teaching", "analysis"), about={"first": VERSION, "second": VERSION})
def compare_topics(at: Context, first: int, second: int) -> dict[str, Any]:
    """Like `compare_models`, with the pages of each topic before and after, and which pages changed topics."""
    from opilio.learn import models as compared  # noqa: PLC0415

    return compared.compare_topics(at.store, first, second)


@operation(
    READS,
    rest=Route("GET", "models/effect", "teaching", "analysis"),
    about={"version": Meta(description="The version of a model; 0: the newest that learned from you.")},
)
def model_effect(at: Context, version: int = 0) -> dict[str, Any] | None:
    """What a model changed among the pages about which you have said nothing: how many left the wanted topics, and how
    many joined them, since the model before it. None when there is nothing to compare.

    By default, of the newest model that learned from you. `compare_topics` of `first` and `second` lists the pages.
    """
    from opilio.learn import models as compared  # noqa: PLC0415

    return compared.model_effect(at.store, version)


@operation(WRITES, timeout_s=LONG_TIMEOUT_S, rest=Route("POST", "models/use", "teaching"), about={"version": VERSION})
def use_model(at: Context, version: int) -> int:
    """Judge by an older model again. It gets a new version, which is returned; stored pages are re-judged."""
    store, settings = at.store, at.settings
    renewed = learn.reuse_model(store, version)
    cause = TrainingCause(TrainingReason.REUSED, repeats=version)
    learn.store_model(store, renewed, cause, settings, training_data.fingerprint(store, settings))
    examples = examples_in(store)
    learn.rejudge(store, renewed.model, examples, settings.classify)
    learn.rejudge_all_directories(store, settings, examples)
    return renewed.version


@use_model.live
async def _(crawl: LiveCrawl, version: int) -> int:
    """A running crawl gives the model to its workers, and re-judges in the background."""
    return await crawl.engine.teacher.use_model(version)


@operation(READS)
def _current_model(at: Context) -> dict[str, Any]:
    """The model that judges pages, in base64 ('' if there is neither a model nor a word to judge by), and topics by
    number."""
    from opilio.learn.explanations import current_model  # noqa: PLC0415

    topics = at.store.load_topics()
    model = current_model(at.store, classifier=at.settings.classify.classifier)
    can_judge = model.version > 0 or any(topic.keywords for topic in topics)
    names = {str(topic.kcid): topic.path or topic.name for topic in topics}
    return {"model": base64.b64encode(model.to_bytes()).decode() if can_judge else "", "topics": names}


def model_for_others(client: OperationClient) -> tuple[bytes, dict[int, str]]:
    """The model that judges pages as a message (b'': there is nothing to judge by), and the names of the topics."""
    found = client.call(_current_model)
    return base64.b64decode(found["model"]), {int(kcid): name for kcid, name in found["topics"].items()}


# -- reasons


@caller_operation(READS)
def explain(client: OperationClient, target: str, *, version: int = 0) -> dict[str, Any]:
    """Why a page or a file is judged as it is: topic, confidence, votes, terms for and against, the path to it.

    `target` is a URL, in any usual spelling, or a file; `version` is that of a model, the newest by default. Of a URL
    whose page is not stored, what became of it: `state` (waiting, fetched, failed, dropped), `outcome`, `priority`,
    `redirected_to`, `duplicate_of`, and what else `explain_link` returns. An error names the nearest URLs to one that
    the crawl has never seen.
    """
    path = Path(target)
    if "://" not in target and path.is_file():
        from opilio.analyze.files import read_file  # noqa: PLC0415

        document = read_file(path)
        return client.call(_explain, "", title=document.title, text=document.text, version=version)
    address = address_of(target, "Give a file, or a URL of the collection.")
    explained = client.call(_explain, address, version=version)
    return explained if "judgement" in explained else client.call(explain_link, explained["url"])


@operation(READS)
def _explain(at: Context, url: str, *, title: str = "", text: str = "", version: int = 0) -> dict[str, Any]:
    """Explain the judgement of a stored page, or of a text."""
    classifier = at.settings.classify.classifier
    return learn.explain(at.store, url=url, title=title, text=text, version=version, classifier=classifier)


@operation(READS)
def explain_link(at: Context, target: str) -> dict[str, Any]:
    """Which pages link to a URL, fetched or not; during a crawl by `evidence`, also what its priority is made of."""
    return learn.explain_link(at.store, _known_url(target))


@explain_link.live
async def _(crawl: LiveCrawl, target: str) -> dict[str, Any]:
    """A running crawl adds what its frontier knows."""
    explained = await crawl.read(learn.explain_link, _known_url(target))
    frontier = crawl.engine.frontier
    explained["parts"] = frontier.learner.explain(explained["oid"]) if frontier.learner is not None else {}
    priority = frontier.tiers.priority_of(explained["oid"])
    if priority is not None:
        explained["priority"] = priority
    return explained


def _known_url(target: str) -> str:
    return address_of(target, "Give a URL that the crawl has found.")
