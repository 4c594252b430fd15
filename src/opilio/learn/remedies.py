"""Remedies: what may help a crawl that finds little, as data.

A remedy is the name of an operation on the collection with its arguments (`crawl/operations`), and a reason. From this
one declaration the terminal shows a command, the portal a button or a link, and a notice keeps it in the database.
One remedy is no operation of the table: `crawl` continues the crawl, with other settings or fetching again what failed,
as `Collection.crawl` does.
An argument that only the user knows, such as the URL of an example, is None.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

CRAWL = "crawl"
"""The remedy that continues a crawl with other settings."""
PLACEHOLDERS = {"example": "URL", "frontier.back_links": "FILE"}
"""How a command shows an argument that the user fills in."""


@dataclass(frozen=True)
class Remedy:
    """An operation that may help, and why."""

    why: str
    operation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def command(self, folder: str) -> str:
        """The command that does it, as a shell takes it."""
        return command_line(*_SHOWN[self.operation].words(folder, self.arguments))

    @property
    def label(self) -> str:
        """What to write on a button that does it."""
        return _SHOWN[self.operation].label(self.arguments)

    def described(self, folder: str) -> dict[str, Any]:
        """The remedy as plain values, with its command and its label."""
        return {
            "why": self.why, "command": self.command(folder), "label": self.label, "operation": self.operation,
            "arguments": dict(self.arguments),
        }  # fmt: skip


# -- what can be done


def mark_good(topic: str, why: str) -> Remedy:
    """Want a topic, too."""
    return Remedy(why, "mark", {"topic": topic, "good": True})


def more_examples(topic: str, why: str) -> Remedy:
    """Show a topic more of what it is."""
    return Remedy(f"{why}: add examples", "add_example", {"topic": topic, "example": None, "positive": True})


def counter_examples(topic: str, why: str) -> Remedy:
    """Show a topic what it is not."""
    return Remedy(why, "add_example", {"topic": topic, "example": None, "positive": False})


def answer_questions() -> Remedy:
    """Answer what the crawl asks."""
    return Remedy("show the crawl what you mean by answering its questions", "questions")


def train(changes: int) -> Remedy:
    """Learn what was changed."""
    several = "changes of the examples are" if changes != 1 else "change of the examples is"
    return Remedy(f"{changes:,} {several} not learned yet", "train")


def order_by(strategy: str, why: str) -> Remedy:
    """Order the queue by another strategy."""
    return Remedy(why, "policy", {"strategy": strategy})


def stop(why: str) -> Remedy:
    """Stop the crawl."""
    return Remedy(why, "stop")


def resume(why: str) -> Remedy:
    """Resume a paused crawl."""
    return Remedy(why, "resume")


def see_census() -> Remedy:
    """See what was found instead."""
    return Remedy("see what the crawl finds instead", "census")


def crawl_with(why: str, **settings: Any) -> Remedy:
    """Continue the crawl with other settings; `section__name` stands for `section.name`."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return Remedy(why, CRAWL, {"settings": named})


# -- how it is shown


def command_line(*words: str) -> str:
    """A command line of Opilio, as a shell takes it."""
    return shlex.join(["opilio", *words])


class _Shown(NamedTuple):
    """How a remedy is shown: the words of its command, and the label of its button."""

    words: Callable[[str, Mapping[str, Any]], list[str]]
    label: Callable[[Mapping[str, Any]], str]


def _plain(command: str, label: str) -> _Shown:
    return _Shown(lambda folder, _: [*command.split(), folder], lambda _: label)


def _given(name: str, value: Any) -> str:
    return PLACEHOLDERS[name] if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _add_words(folder: str, given: Mapping[str, Any]) -> list[str]:
    side = [] if given["positive"] else ["--negative"]
    return ["topics", "add", folder, given["topic"], _given("example", given["example"]), *side]


def _crawl_words(folder: str, given: Mapping[str, Any]) -> list[str]:
    words = ["crawl", folder]
    for name, value in given["settings"].items():
        is_order = name == "frontier.strategy"
        words += ["--strategy", str(value)] if is_order else ["--set", f"{name}={_given(name, value)}"]
    return words


SETTING_WORDS = {
    "learn.retrain_after": "training every {} pages",
    "frontier.strategy": "ordered by {}",
    "frontier.tunnel_steps": "up to {} links off the topic",
    "frontier.explore_share": "exploring with {:.0%} of the requests",
    "limits.min_harvest": "down to a harvest of {:.1%}",
    "limits.when_dry": "however little is found",
    "limits.recall": "without a limit of recall",
}
"""What a button says of a setting, with its value."""


def _crawl_label(given: Mapping[str, Any]) -> str:
    settings = given["settings"].items()
    parts = [
        SETTING_WORDS[name].format(value) if name in SETTING_WORDS else f"{name}={_given(name, value)}"
        for name, value in settings
    ]
    return "Continue, " + ", ".join(parts)


_SHOWN: dict[str, _Shown] = {
    "mark": _Shown(
        lambda folder, given: ["topics", "mark", folder, given["topic"], "good" if given["good"] else "null"],
        lambda given: f"Mark {given['topic']} {'wanted' if given['good'] else 'not wanted'}",
    ),
    "add_example": _Shown(
        _add_words, lambda given: f"Add {'examples' if given['positive'] else 'counter-examples'} of {given['topic']}"
    ),
    "questions": _plain("ask", "Answer the questions"),
    "train": _plain("topics train", "Train a model"),
    "policy": _Shown(
        lambda folder, given: ["policy", folder, "--strategy", given["strategy"]],
        lambda given: f"Order by {given['strategy']}",
    ),
    "stop": _plain("stop", "Stop the crawl"),
    "resume": _plain("resume", "Resume the crawl"),
    "census": _plain("census", "See the census"),
    CRAWL: _Shown(_crawl_words, _crawl_label),
}
"""Every operation that a remedy may name."""


def in_words(remedies: Iterable[Mapping[str, Any]]) -> str:
    """Remedies, as `described` returns them, as one line."""
    return "; ".join(f"{one['why']}: {one['command']}" for one in remedies)


# -- how it is stored


def to_json(remedies: Iterable[Mapping[str, Any]]) -> str:
    """Remedies as the database keeps them, without what follows from the rest; '' when there are none."""
    rows = [{name: one[name] for name in ("why", "operation", "arguments")} for one in remedies]
    return json.dumps(rows) if rows else ""


def from_json(text: str, folder: str) -> list[dict[str, Any]]:
    """Stored remedies as `described` returns them. Those that this version cannot show are left out."""
    found = []
    for row in json.loads(text) if text else []:
        try:
            found.append(Remedy(row["why"], row["operation"], row["arguments"]).described(folder))
        except KeyError:  # of another version
            continue
    return found
