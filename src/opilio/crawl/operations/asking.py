"""Operations for the questions that a crawl asks its user: list them, answer, undo."""

from __future__ import annotations

from typing import Any

from opilio.crawl.operations.context import Context
from opilio.crawl.operations.declaration import READS, WRITES, Meta, Route, operation
from opilio.store.user_questions import count_questions


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
    """The questions that you have answered or skipped, the latest first."""
    from opilio.learn.asking import list_answers  # noqa: PLC0415

    return list_answers(at.store)


@operation(
    WRITES,
    rest=Route("POST", "answer", "teaching"),
    about={
        "oid": Meta(description="The page that the question is about."),
        "answer": Meta(description="yes, no or skip.", extra_json_schema={"enum": ["yes", "no", "skip"]}),
    },
)
def answer(at: Context, oid: int, answer: bool | str) -> dict[str, Any]:
    """Answer the question about a page: `True` or `yes`, `False` or `no`, or `skip`; returns what was changed.

    Yes makes the page an example of its topic, no a counter-example. A running crawl learns from it within seconds;
    otherwise the next training does.
    """
    from opilio.learn.asking import answer_question  # noqa: PLC0415

    result = answer_question(at.store, at.settings, oid, answer, chooses=at.engine is None)
    _update_counts(at)
    return result


@operation(
    WRITES,
    rest=Route("POST", "answer/undo", "teaching"),
    about={"oid": Meta(description="The page that the answer is about; by default the latest answer is undone.")},
)
def undo_answer(at: Context, oid: int | None = None) -> dict[str, Any]:
    """Undo an answer, by default the latest: the training data is what it was, and the question is open again."""
    from opilio.learn.asking import undo_answer  # noqa: PLC0415

    result = undo_answer(at.store, oid)
    _update_counts(at)
    return result


def _update_counts(at: Context) -> None:
    if at.engine is not None:
        at.engine.asker.counts = count_questions(at.store)
