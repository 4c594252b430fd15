"""Operations for the questions that a crawl asks its user: list them, answer, undo; have a labeller answer them."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from opilio.crawl.operations.client import OperationClient, caller_operation
from opilio.crawl.operations.context import Context, LiveCrawl
from opilio.crawl.operations.declaration import LONG_TIMEOUT_S, READS, WRITES, Meta, Route, operation
from opilio.errors import CollectionBusy, InputError
from opilio.store import Store
from opilio.store.user_questions import USER, count_questions


@operation(READS, rest=Route("GET", "questions", "teaching"))
def questions(at: Context) -> list[dict[str, Any]]:
    """The open questions: is this page about the topic? Each has a page, its topic, the reason and the likely benefit.

    A running crawl asks in rounds. When no crawl runs and no question is open, these are the questions that are best
    asked now.
    """
    from opilio.learn.asking import list_questions  # noqa: PLC0415

    return list_questions(at.store, at.settings, chooses=at.engine is None)


@operation(
    READS,
    rest=Route("GET", "hits", "teaching", "analysis"),
    about={"limit": Meta(ge=1, le=200, description="How many at most.")},
)
def hits(at: Context, limit: int = 20) -> list[dict[str, Any]]:
    """The best pages that are no examples yet, best first: title, address, snippet, topic and relevance.

    In a collection that was made from a query they match its words best. To make one an example, give feedback:
    `relevant`.
    """
    from opilio.learn.hits import list_hits  # noqa: PLC0415

    return list_hits(at.store, limit)


@operation(READS, rest=Route("GET", "answers", "teaching"))
def answers(at: Context) -> list[dict[str, Any]]:
    """The questions that were answered or skipped, the latest first, and who answered each (`answered_by`)."""
    from opilio.learn.asking import list_answers  # noqa: PLC0415

    return list_answers(at.store)


@operation(
    WRITES,
    rest=Route("POST", "answer", "teaching"),
    about={
        "oid": Meta(description="The page that the question is about."),
        "answer": Meta(description="yes, no or skip.", extra_json_schema={"enum": ["yes", "no", "skip"]}),
        "by": Meta(description="Who answers: user, or the name of a program."),
    },
)
def answer(at: Context, oid: int, answer: bool | str, *, by: str = USER) -> dict[str, Any]:
    """Answer the question about a page: `True` or `yes`, `False` or `no`, or `skip`; returns what was changed.

    Yes makes the page an example of its topic, no a counter-example. A running crawl learns from it within seconds;
    otherwise the next training does. As long as there is no model, stored pages like it are judged again at once. What
    the user has answered, a program cannot change.
    """
    from opilio.learn.asking import answer_question  # noqa: PLC0415
    from opilio.learn.words import said_with, spreading_answers  # noqa: PLC0415

    with spreading_answers(at.store, at.settings) as spread:
        result = answer_question(at.store, at.settings, oid, answer, chooses=at.engine is None, by=by)
    update_counts(at)
    return said_with(spread, result)


@operation(
    WRITES,
    rest=Route("POST", "answer/undo", "teaching"),
    about={"oid": Meta(description="The page that the answer is about; by default the latest answer is undone.")},
)
def undo_answer(at: Context, oid: int | None = None) -> dict[str, Any]:
    """Undo an answer, by default the latest: the training data is what it was, and the question is open again."""
    from opilio.learn.asking import undo_answer  # noqa: PLC0415
    from opilio.learn.words import said_with, spreading_answers  # noqa: PLC0415

    with spreading_answers(at.store, at.settings) as spread:
        result = undo_answer(at.store, oid)
    update_counts(at)
    return said_with(spread, result)


# -- the labeller

LABEL_LOCK = "labeller.lock"


@operation(
    READS,
    rest=Route("GET", "labels", "teaching"),
    about={"limit": Meta(ge=1, le=1000, description="How many at most.")},
)
def labels(at: Context, limit: int = 100) -> list[dict[str, Any]]:
    """What a labeller said, the latest first: page, topic, model, answer, reason, requests and tokens."""
    from opilio.store.labels import list_labels  # noqa: PLC0415

    return list_labels(at.store, limit)


@caller_operation(WRITES, timeout_s=LONG_TIMEOUT_S)
def label(client: OperationClient) -> dict[str, Any]:
    """Have the language model of the settings (`labeller`) answer the open questions.

    Returns how many it answered yes and no, of how many it was unsure, how many failed, requests, tokens, and the
    `trouble` if not all questions could be asked. The same question is never paid for twice.
    """
    return label_questions(client, threading.Event())


def label_questions(client: OperationClient, cancelled: threading.Event) -> dict[str, Any]:
    """The same, until it is cancelled; then what was not answered stays open."""
    from opilio.learn.labeller import BY, FAILED, NO, YES, Labeller, LabelReport, check_labeller  # noqa: PLC0415

    settings = client.settings.labeller
    if not settings.url:
        raise InputError("there is no labeller", "Set labeller.url and labeller.model in crawl.toml.")
    check_labeller(settings)
    report, said = LabelReport(settings.model), []
    with _alone(client.folder):
        questions, known, spent = _work(client.call(_label_work))
        for one in Labeller(settings, spent, cancelled=cancelled).label_all(questions, known, report):
            if one.calls:
                client.call(_store_label, list(one))
            said.append(one)
        for one in said:
            if one.answer in (YES, NO) and not cancelled.is_set():
                try:
                    client.call(answer, one.oid, one.answer, by=f"{BY}{settings.model}")
                except InputError:  # somebody has answered meanwhile, or the page is gone
                    report.kept += 1
                    continue
            report.yes += one.answer == YES
            report.no += one.answer == NO
            report.failed += one.answer == FAILED
            report.unsure += one.answer not in (YES, NO, FAILED)
    return dataclasses.asdict(report)


def _work(sent: dict[str, Any]) -> Any:
    from opilio.learn.asking import LabelWork  # noqa: PLC0415

    return msgspec.convert(sent, LabelWork)


@operation(READS)
def _label_work(at: Context) -> Any:
    """The open questions with all that a labeller needs."""
    from opilio.learn.asking import label_work  # noqa: PLC0415

    return label_work(at.store, at.settings, chooses=at.engine is None)


@operation(WRITES)
def _store_label(at: Context, label: Sequence[Any]) -> None:
    """Store what a labeller said, before it is used."""
    _add_label(at.store, label)


@_store_label.live
async def _(crawl: LiveCrawl, label: Sequence[Any]) -> None:
    """A running crawl learns nothing from it: only answers are training data."""
    async with crawl.writing:
        await crawl.read(_add_label, label)


def _add_label(store: Store, label: Sequence[Any]) -> None:
    from opilio.store.labels import Label, add_label  # noqa: PLC0415

    add_label(store, int(time.time() * 1e6), Label(*label))


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Refuse a second labeller in a collection: both would pay for the same questions."""
    handle = os.open(folder / LABEL_LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CollectionBusy(f"{folder}: the labeller is at work here", "Wait until it is done.") from None
        yield
    finally:
        os.close(handle)


def update_counts(at: Context) -> None:
    """Have a running crawl know how many questions are open and answered."""
    if at.engine is not None:
        at.engine.asker.counts = count_questions(at.store)
