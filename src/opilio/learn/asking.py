"""Asking the user: reads the judged pages, stores the questions, and turns answers into training data.

`questions.py` chooses the pages. An open question waits; a new round replaces the open ones. A round has questions
about pages that are in a wanted topic. Pages that no topic took are asked about only when one topic is wanted:
otherwise nobody knows which topic the question should name. Until there is a model, words have judged the pages: then
all questions are about the best hits.

*Yes* makes the page an example of the topic, or of the topic below it that took the page; *no* makes it a
counter-example. Both are what feedback does (`feedback.py`), are recorded in the same way, and can be undone. A page
that was skipped is never asked about again. Answers are asked for until there are `learn.questions` of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from opilio.errors import InputError
from opilio.learn.feedback import make_counterexample, make_example
from opilio.learn.labeller import BY, MAX_EXAMPLES, LabelQuestion
from opilio.learn.questions import (
    SCORE_STEPS,
    Candidate,
    QuestionAnswer,
    QuestionReason,
    UserQuestion,
    choose_questions,
    describe_benefit,
    round_size,
)
from opilio.learn.training_data import recording_changes, undo_changes_at
from opilio.learn.training_state import KEYWORDS
from opilio.model import RELEVANT
from opilio.model.visit import BORDERLINE_WITHIN
from opilio.settings import Settings
from opilio.store import Store, labels, user_questions
from opilio.store.labels import KnownLabel, Spending
from opilio.store.training import ARCHETYPE
from opilio.store.user_questions import QuestionCounts, QuestionPage, QuestionRow
from opilio.topics import hierarchy_of
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy

CANDIDATES = 200
"""Pages of a topic that are considered: so many of the surest, and so many of the most uncertain."""

MAX_NAME_CHARS = 120
"""Of who answers."""


def learns(settings: Settings) -> bool:
    """Whether a classifier can learn from pages."""
    return settings.classify.classifier != KEYWORDS and settings.store.terms


def asks(settings: Settings) -> bool:
    """Whether answers are wanted, and a classifier can learn from them."""
    return settings.learn.questions > 0 and learns(settings)


def answers_left(settings: Settings, counts: QuestionCounts) -> int:
    """How many more answers are asked for."""
    return max(0, settings.learn.questions - counts.answered) if asks(settings) else 0


def can_answer(store: Store, settings: Settings) -> bool:
    """Whether a question waits for an answer, or one could be asked now."""
    has_room = answers_left(settings, user_questions.count_questions(store)) > 0
    return has_room and bool(_open(store) or choose_round(store, settings))


def open_count(settings: Settings, counts: QuestionCounts) -> int:
    """How many questions wait for an answer."""
    return min(counts.open, answers_left(settings, counts))


def choose_round(store: Store, settings: Settings) -> list[UserQuestion]:
    """The questions to ask now, from the pages as they are judged now."""
    left = answers_left(settings, user_questions.count_questions(store))
    if not left:
        return []
    found = find_candidates(store, hierarchy_of(store.load_topics()))
    size = min(round_size(settings.learn.questions), left)
    only_best = not store.load_models()
    return choose_questions(found.pages, found.known, size, found.counts, found.answers, only_best=only_best)


class Candidates(NamedTuple):
    """The pages that the user can be asked about."""

    pages: list[Candidate]
    known: set[int]
    """Pages that the user has spoken about: no candidates."""
    counts: dict[int, dict[int, int]]
    """By topic: how many pages have which relevance."""
    answers: Counter[int]
    """By topic: how many answers there are."""


def find_candidates(store: Store, hierarchy: Hierarchy) -> Candidates:
    """The pages that the user can be asked about, as they are judged now."""
    rows = user_questions.load_questions(store)
    known = {row.oid for row in rows if row.answer is not None} | _training_pages(store)
    candidates: list[Candidate] = []
    counts: dict[int, dict[int, int]] = {}
    takes_others = len(hierarchy.good) == 1
    least = RELEVANT - BORDERLINE_WITHIN if takes_others else RELEVANT
    for kcid in sorted(hierarchy.good):
        below = set(hierarchy.nodes) if takes_others else hierarchy.below(kcid)
        has_own = kcid != ROOT or hierarchy.start == ABOVE_ROOT  # the root of a tree has no examples of its own
        candidates += [
            Candidate(page.oid, kcid, page.relevance, page.confidence, page.host, page.title, page.sketch)
            for page in user_questions.candidate_pages(store, below, known, least, CANDIDATES)
            if has_own or page.accepted
        ]
        counts[kcid] = user_questions.score_counts(store, below, known, 0.0, SCORE_STEPS)
    return Candidates(candidates, known, counts, Counter(row.kcid for row in rows if row.answer is not None))


def ask_round(store: Store, settings: Settings) -> list[UserQuestion]:
    """Choose a round, and store it in place of the open questions; they stay open when there is nothing to ask."""
    chosen = choose_round(store, settings)
    rows = [(one.oid, one.kcid, one.reason.value, one.benefit) for one in chosen]
    user_questions.add_round(store, int(time.time() * 1e6), rows)
    return chosen


def list_questions(store: Store, settings: Settings, *, chooses: bool) -> list[dict[str, Any]]:
    """The open questions, as users read them. If there are none and `chooses`, those that a round would ask now."""
    left = answers_left(settings, user_questions.count_questions(store))
    if not left:
        return []
    rows = _open(store)
    if not rows and chooses:
        rows = [
            QuestionRow(one.oid, one.kcid, True, one.reason.value, one.benefit, None, None, "")
            for one in choose_round(store, settings)
        ]
    return _shown(store, rows)[:left]


def list_answers(store: Store) -> list[dict[str, Any]]:
    """The questions that were answered or skipped, the latest first."""
    rows = [row for row in user_questions.load_questions(store) if row.answer is not None]
    return _shown(store, sorted(rows, key=lambda row: -(row.answered_us or 0)))


def answer_question(
    store: Store, settings: Settings, oid: int, answer: bool | str, *, chooses: bool, by: str = user_questions.USER
) -> dict[str, Any]:
    """Learn from the answer to the question about a page; returns what was changed.

    The latest answer counts; but what the user has answered, nobody else can change.
    """
    said = _answer_of(answer)
    if not by.isprintable() or not 0 < len(by) <= MAX_NAME_CHARS:
        raise InputError("a name of who answers is needed", f"Give up to {MAX_NAME_CHARS} characters on one line.")
    if chooses and asks(settings) and not _open(store):
        ask_round(store, settings)  # the questions that `list_questions` has shown
    row = next((row for row in user_questions.load_questions(store) if row.oid == oid), None)
    page = user_questions.question_pages(store, [oid]).get(oid)
    hierarchy = hierarchy_of(store.load_topics())
    if row is None or page is None or row.kcid not in hierarchy.nodes:
        raise InputError(
            f"there is no question about page {oid}",
            "`opilio ask FOLDER --list` shows those there are; for other pages: opilio feedback.",
        )
    if row.answer is not None and row.answered_by == user_questions.USER != by:
        raise InputError(f"the user has answered the question about page {oid}", "The user's answer stands.")
    if row.answer is not None:
        _undo(store, row)
    with recording_changes(store) as moment_us:
        if said is QuestionAnswer.YES:
            make_example(store, hierarchy, example_topic(hierarchy, row.kcid, page), page.url, oid)
        elif said is QuestionAnswer.NO:
            make_counterexample(store, hierarchy, row.kcid, page.url, oid)
        user_questions.record_answer(store, oid, moment_us, said.value, by)
    return {
        "oid": oid,
        "url": page.url,
        "topic": topic_name(hierarchy, row.kcid),
        "answer": said.value,
        "answered_by": by,
        "said": _SAID[said],
    }


_SAID = {
    QuestionAnswer.YES: "an example from now on",
    QuestionAnswer.NO: "a counter-example from now on",
    QuestionAnswer.SKIP: "skipped",
}


class LabelWork(NamedTuple):
    """What a labeller needs: the open questions, what it said before, and what that took."""

    questions: list[LabelQuestion]
    known: list[KnownLabel]
    spent: Spending


def label_work(store: Store, settings: Settings, *, chooses: bool) -> LabelWork:
    """The work for a labeller: the questions that `list_questions` shows, with all that the model is given."""
    asked = list_questions(store, settings, chooses=chooses)
    records = store.load_topics()
    numbers = {record.path or record.name: record for record in records}
    hierarchy, training = hierarchy_of(records), store.load_training(page_texts=False)
    texts = labels.label_texts(store, [one["oid"] for one in asked], settings.labeller.page_chars)
    questions = []
    for one in asked:
        topic = numbers.get(one["topic"])
        if topic is None:
            continue
        below = hierarchy.below(topic.kcid)
        titled = [record for record in training if record.title and record.oid != one["oid"]]
        questions.append(
            LabelQuestion(
                one["oid"], topic.kcid, one["topic"], topic.description, list(dict.fromkeys(topic.keywords)),
                [record.title for record in titled if record.positive and record.kcid in below][:MAX_EXAMPLES],
                [record.title for record in titled if not record.positive and record.kcid == topic.kcid][:MAX_EXAMPLES],
                one["url"], one["title"], texts.get(one["oid"], ""),
            )
        )  # fmt: skip
    return LabelWork(questions, labels.known_labels(store), labels.spending(store))


def undo_answer(store: Store, oid: int | None = None) -> dict[str, Any]:
    """Undo the answer to the question about a page, by default the latest answer; the question is open again."""
    rows = [row for row in user_questions.load_questions(store) if row.answer is not None and oid in (None, row.oid)]
    if not rows:
        raise InputError("there is no answer to undo", "`opilio ask FOLDER --answers` shows those there are.")
    row = max(rows, key=lambda row: row.answered_us or 0)
    _undo(store, row)
    [shown] = _shown(store, [row]) or [{"oid": row.oid, "url": "", "title": ""}]
    return {**shown, "answer": None, "said": "undone: the question is open again"}


def _undo(store: Store, row: QuestionRow) -> None:
    with recording_changes(store):
        undo_changes_at(store, row.answered_us or 0)
        user_questions.reopen_question(store, row.oid)
    if row.answered_by.startswith(BY):
        labels.overrule_labels(store, row.oid)


def _answer_of(answer: bool | str) -> QuestionAnswer:
    if isinstance(answer, bool):
        return QuestionAnswer.YES if answer else QuestionAnswer.NO
    try:
        return QuestionAnswer(answer)
    except ValueError:
        raise InputError(f"{answer!r} is no answer", "Answer yes, no or skip.") from None


def example_topic(hierarchy: Hierarchy, kcid: int, page: QuestionPage) -> int:
    """The topic that a page becomes an example of: the one below the topic asked about that took it, or that topic."""
    if page.relevant_to is not None and page.relevant_to in hierarchy.below(kcid) - {ROOT}:
        return page.relevant_to
    if kcid == ROOT and hierarchy.start != ABOVE_ROOT:
        raise InputError(f"no topic took {page.url}: which is it about?", "Say it by: opilio feedback FOLDER URL TOPIC")
    return kcid


def _open(store: Store) -> list[QuestionRow]:
    """The open questions about pages that are no training documents by now, and about topics that are wanted."""
    rows = [row for row in user_questions.load_questions(store) if row.answer is None and row.is_latest]
    if not rows:
        return []
    known, good = _training_pages(store), hierarchy_of(store.load_topics()).good
    return [row for row in rows if row.oid not in known and row.kcid in good]


def _training_pages(store: Store) -> set[int]:
    """The pages that the user has given as examples or counter-examples. Archetypes are not among them."""
    return {
        record.oid
        for record in store.load_training(page_texts=False)
        if record.oid is not None and record.source != ARCHETYPE
    }


def _shown(store: Store, rows: Sequence[QuestionRow]) -> list[dict[str, Any]]:
    pages = user_questions.question_pages(store, [row.oid for row in rows])
    hierarchy = hierarchy_of(store.load_topics())
    return [
        {
            "oid": row.oid, "url": page.url, "title": page.title, "host": page.host, "snippet": page.snippet,
            "topic": topic_name(hierarchy, row.kcid), "relevance": page.relevance, "reason": row.reason,
            "why": QuestionReason(row.reason).words, "benefit": row.benefit,
            "benefit_words": describe_benefit(row.benefit), "answer": row.answer, "answered_by": row.answered_by,
        }
        for row in rows
        if (page := pages.get(row.oid)) is not None
    ]  # fmt: skip


def topic_name(hierarchy: Hierarchy, kcid: int) -> str:
    """A topic as users read it; empty when it is gone."""
    node = hierarchy.nodes.get(kcid)
    return "" if node is None else node.path or node.name
