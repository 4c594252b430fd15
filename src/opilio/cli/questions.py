"""`opilio ask`: answer the crawl's questions in a terminal, and the same keys beside the live panel of a crawl."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import click

from opilio.cli import one_line
from opilio.cli.tables import fitted
from opilio.crawl import Collection
from opilio.crawl.operations.client import ask as ask_crawl
from opilio.crawl.operations.client import is_running
from opilio.errors import InputError, OpilioError
from opilio.store.user_questions import USER

KEYS = {"y": "yes", "n": "no", "s": "skip"}
UNDO, QUIT = "u", "q"
SHOWN_CHARS = 300
SHOWN_HITS, MAX_HITS = 20, 200
LOOK_S = 0.1  # how often the thread of a panel looks for a key
REFRESH_S = 5.0  # how often it looks whether the crawl has better questions
ASK_TIMEOUT_S = 10.0
_HELP = "y yes, n no, s skip, u undo, q quit"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--list", "only_list", is_flag=True, help="Print the open questions, and ask nothing.")
@click.option("--answers", is_flag=True, help="Print the answers so far and who gave them, latest first.")
@click.option("--label", is_flag=True, help="Have the language model of the settings [labeller] answer, and print how.")
@click.option("--labels", is_flag=True, help="Print what the language model said, with its reasons, latest first.")
@click.option(
    "--answer",
    "given",
    type=(int, click.Choice([*KEYS.values()])),
    multiple=True,
    metavar="PAGE yes|no|skip",
    help="Answer the question about a page by its number, as --list shows it. May be repeated.",
)
@click.option("--undo", is_flag=True, help="Undo the latest answer.")
@click.option(
    "--hits",
    type=click.IntRange(1, MAX_HITS),
    is_flag=False,
    flag_value=SHOWN_HITS,
    metavar="[N]",
    help=f"Show the N best pages that are no examples yet (default {SHOWN_HITS}), and pick examples from them.",
)
@click.option(
    "--pick", "picked", type=int, multiple=True, metavar="PAGE",
    help="Make a page an example by its number, as --hits shows it. May be repeated.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print.")
def ask(
    folder: Path, only_list: bool, answers: bool, label: bool, labels: bool, given: tuple[tuple[int, str], ...],
    undo: bool, hits: int | None, picked: tuple[int, ...], form: str,
) -> None:  # fmt: skip
    """Answer questions about the best pages of FOLDER: is this page about the topic? Also while a crawl runs.

    Yes makes the page an example, no a counter-example. A running crawl learns from answers within seconds; otherwise
    the next training does. Keys: y yes, n no, s skip, u undo, q quit.

    \b
    opilio ask birds
    opilio ask birds --list
    opilio ask birds --answer 17 yes --answer 25 no
    opilio ask birds --undo
    opilio ask birds --label                   (a language model answers: docs/guides/assistants.md)
    opilio ask birds --hits                    (pick examples from the best pages so far)
    opilio ask birds --pick 17 --pick 25
    opilio topics train birds                  (learn the answers, when no crawl runs)
    """
    collection = Collection(folder)
    if undo:
        _print(form, [collection.undo_answer()])
    elif picked:
        _print(form, _pick(collection, collection.hits(MAX_HITS), picked))
        _tell_what_is_next(collection, form)
    elif hits is not None:
        _show_hits(collection, hits, form)
    elif given:
        _print(form, [collection.answer(oid, said) for oid, said in given])
        _tell_what_is_next(collection, form)
    elif label:
        _show_report(collection.label(), form)
        _tell_what_is_next(collection, form)
    elif labels:
        _list_labels(collection.labels(), form)
    elif answers:
        _list(collection.answers(), form)
    elif only_list or form == "json":
        _list(collection.questions(), form)
        _tell_why_none(collection, form)
    elif not sys.stdin.isatty():
        _list(collection.questions(), form)
        _tell_why_none(collection, form)
        click.echo(f"This is no terminal; answer by: opilio ask {quote(str(folder))} --answer PAGE yes", err=True)
    else:
        _ask_all(collection)
        _tell_what_is_next(collection, form)


def _ask_all(collection: Collection) -> None:
    """Show a question and wait for a key, until none is left or the user quits."""
    answered = 0
    while True:
        found = collection.questions()
        if not found:
            _tell_why_none(collection, "text")
            return
        left = f"{len(found)} question{'s' if len(found) != 1 else ''}"
        click.echo(f"\n{left} left{f', {answered} answered' if answered else ''}")
        _show(found[0])
        click.echo(f"Is it about {one_line(found[0]['topic'])}? [{_HELP}] ", nl=False)
        key = click.getchar().lower()
        click.echo(key if key.isprintable() else "")
        if key == QUIT:
            return
        if key == UNDO:
            try:
                click.echo(_said(collection.undo_answer()))
                answered = max(0, answered - 1)
            except InputError as error:
                click.echo(one_line(error.message))
        elif key in KEYS:
            click.echo(_said(collection.answer(found[0]["oid"], KEYS[key])))
            answered += 1


def _show_hits(collection: Collection, limit: int, form: str) -> None:
    """List the best pages; in a terminal, ask which of them are examples."""
    found = collection.hits(limit)
    if form == "json":
        click.echo(json.dumps(found))
        return
    if not found:
        click.echo(
            f"no hit: no stored page matches that is not yet an example; crawl on: "
            f"opilio crawl {quote(str(collection.folder))}"
        )
        return
    for number, hit in enumerate(found, 1):
        click.echo(f"\n{number:>3}. {one_line(hit['title']) or '(no title)'}")
        click.echo(f"     {one_line(hit['url'])}")
        text = one_line(hit["snippet"])
        if text:
            click.echo(fitted(f"     {text[:SHOWN_CHARS]}{'...' if len(text) >= SHOWN_CHARS else ''}"))
        verdict = "relevant" if hit["accepted"] else "not relevant"
        click.echo(f"     page {hit['oid']}, topic {one_line(hit['topic'])}, {verdict}: {hit['relevance']:.2f}")
    click.echo("")
    if not sys.stdin.isatty():
        click.echo(f"To make one an example: opilio ask {quote(str(collection.folder))} --pick PAGE", err=True)
        return
    places = _ask_places(len(found))
    if places:
        click.echo("\n".join(map(_said, _pick(collection, found, [found[place - 1]["oid"] for place in places]))))
        _tell_what_is_next(collection, form)


def _ask_places(count: int) -> list[int]:
    """Which of so many hits the user picks, from 1."""
    while True:
        said = click.prompt("Which are examples? [1 3 5-7, all, Enter for none]", default="", show_default=False)
        try:
            return parse_places(said, count)
        except ValueError:
            click.echo(f"Write numbers from 1 to {count}, ranges such as 5-7, or all.")


def parse_places(text: str, count: int) -> list[int]:
    """The numbers in `1 3 5-7` or `all`, ascending. Raises ValueError for anything that is not from 1 to `count`."""
    if text.strip().lower() == "all":
        return list(range(1, count + 1))
    places: set[int] = set()
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-")
        low, high = int(first), int(last) if dash else int(first)
        if not 1 <= low <= high <= count:
            raise ValueError(part)
        places.update(range(low, high + 1))
    return sorted(places)


def _pick(collection: Collection, found: list[dict[str, Any]], oids: Sequence[int]) -> list[dict[str, Any]]:
    """Make hits examples."""
    urls = {hit["oid"]: hit["url"] for hit in found}
    for oid in oids:
        if oid not in urls:
            raise InputError(
                f"page {oid} is not among the best hits",
                f"`opilio ask {quote(str(collection.folder))} --hits` shows them; for other pages: opilio feedback.",
            )
    return [collection.feedback(urls[oid], "relevant") for oid in oids]


def _list(found: list[dict[str, Any]], form: str) -> None:
    if form == "json":
        click.echo(json.dumps(found))
        return
    for question in found:
        click.echo("")
        _show(question)


def _show_report(report: dict[str, Any], form: str) -> None:
    """What came of the questions that a labeller was asked."""
    if form == "json":
        click.echo(json.dumps(report))
        return
    counts = ", ".join(f"{report[name]} {name}" for name in ("yes", "no", "unsure", "failed"))
    cost = f"{report['calls']} requests, {report['tokens']:,} tokens; {report['from_store']} answers were known"
    click.echo(f"{one_line(report['model'])}: {counts} ({cost})")
    if report["kept"]:
        click.echo(f"{report['kept']} questions had been answered meanwhile, and stay so")
    if report["trouble"]:
        click.echo(f"not all were answered: {one_line(report['trouble'])}\nhint: {one_line(report['hint'])}", err=True)


def _list_labels(found: list[dict[str, Any]], form: str) -> None:
    if form == "json":
        click.echo(json.dumps(found))
        return
    for one in found:
        overruled = ", overruled by you" if one["overruled"] else ""
        click.echo(f"\n{one_line(one['title']) or '(no title)'}\n{one_line(one['url'])}")
        click.echo(f"  page {one['oid']}, topic {one_line(one['topic'])}: {one['answer']}{overruled}")
        click.echo(f"  {one_line(one['model'])}: {one_line(one['reason'])} ({one['tokens']:,} tokens)")
    if not found:
        click.echo("no labels: no language model has answered (docs/guides/assistants.md)")


def _show(question: dict[str, Any]) -> None:
    by = question.get("answered_by") or USER
    said = f", answered {question['answer']}{'' if by == USER else f' by {one_line(by)}'}" if question["answer"] else ""
    click.echo(one_line(question["title"]) or "(no title)")
    click.echo(one_line(question["url"]))
    text = one_line(question["snippet"])
    if text:
        click.echo(fitted(f"  {text[:SHOWN_CHARS]}{'...' if len(text) >= SHOWN_CHARS else ''}"))
    click.echo(f"  page {question['oid']}, topic {one_line(question['topic'])}{said}")
    click.echo(f"  {question['why']}; {question['benefit_words']}")


def _print(form: str, results: list[dict[str, Any]]) -> None:
    click.echo(json.dumps(results) if form == "json" else "\n".join(map(_said, results)))


def _said(result: dict[str, Any]) -> str:
    return f"{one_line(result['url'])}: {one_line(result['said'])}"


def _tell_why_none(collection: Collection, form: str) -> None:
    """When there is no question, say why, and what to do."""
    if form == "json" or collection.questions():
        return
    wanted, answered = collection.settings.learn.questions, collection.answers()
    count = sum(one["answer"] != "skip" for one in answered)
    if not wanted:
        said = "asking is turned off: learn.questions is 0"
    elif count >= wanted:
        said = f"all {wanted} answers are given; for more questions, raise learn.questions in crawl.toml"
    elif is_running(collection.folder):
        said = "no question now: the crawl asks again when it has found more"
    elif not collection.models():
        said = "no question: no stored page matches well enough to ask about; crawl on, or: opilio topics add"
    else:
        said = "no question: no page is left to ask about"
    click.echo(said)


def _tell_what_is_next(collection: Collection, form: str) -> None:
    if form == "json":
        return
    if is_running(collection.folder):
        learns = "the running crawl learns from your answers by itself"
        waits = "; until there is a model, the words of your question judge"
        click.echo(learns + ("" if collection.models() else waits))
        return
    waits = collection.pending()["count"]
    if waits:
        changes = f"{waits} change{'s' if waits != 1 else ''}"
        click.echo(f"{changes} not yet learned: opilio topics train {quote(str(collection.folder))}")


class QuestionKeys:
    """The questions of the crawl that runs in this process, and the keys that answer them, in a thread of its own.

    It asks the crawl through its control socket, as any other process does, so that the crawl never waits for it. The
    terminal gives keys one by one and does not echo them; Ctrl-C and Ctrl-Z do what they always do.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = 0
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._modes: list[Any] | None = None
        self.question: dict[str, Any] | None = None
        """The question to show."""
        self.said = ""
        """What came of the latest key."""

    def start(self) -> None:
        """Take keys from now on, if this process may."""
        if not _is_in_foreground():
            return
        self._modes = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)
        self._thread = threading.Thread(target=self._run, name="keys", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give the terminal back."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join(2 * LOOK_S)
        if self._modes is not None and _is_in_foreground():
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._modes)

    def update(self, open_questions: int) -> None:
        """Note how many questions the crawl has now."""
        self._open = open_questions

    def _run(self) -> None:
        shown, next_look_s = 0, 0.0
        while not self._ends.is_set():
            if self._open != shown or (self._open and time.monotonic() >= next_look_s):
                shown, next_look_s = self._open, time.monotonic() + REFRESH_S
                self._refresh()
            if self._take_key():
                next_look_s = 0.0

    def _refresh(self) -> None:
        found = self._ask("questions") if self._open else []
        if found is not None:
            self.question = found[0] if found else None

    def _take_key(self) -> bool:
        """Wait a little for a key; whether it answered a question."""
        ready, _, _ = select.select([sys.stdin], [], [], LOOK_S)
        if not ready or not _is_in_foreground():  # reading in the background would stop the process
            if ready:
                self._ends.wait(LOOK_S)
            return False
        key = os.read(sys.stdin.fileno(), 1).decode("ascii", "replace").lower()
        if not key:  # the terminal is gone
            self._ends.set()
            return False
        question = self.question
        if key == UNDO:
            done = self._ask("undo_answer")
        elif key in KEYS and question is not None:
            done = self._ask("answer", {"oid": question["oid"], "answer": KEYS[key]})
        else:
            return False
        if done is not None:
            self.said = _said(done)
            self._refresh()
        return done is not None

    def _ask(self, operation: str, arguments: dict[str, Any] | None = None) -> Any:
        """What the crawl answers; None when it does not."""
        try:
            answer = ask_crawl(self._folder, operation, arguments, timeout_s=ASK_TIMEOUT_S)
        except OpilioError as error:
            self.said = one_line(error.message)
            return None
        return None if answer is None else answer.result


def _is_in_foreground() -> bool:
    with contextlib.suppress(OSError, ValueError):
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    return False
