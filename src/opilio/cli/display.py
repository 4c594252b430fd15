"""What a user sees of a crawl: log lines, JSON lines for programs, a summary; and times and sizes as people write them.

On a terminal there is a live panel instead (`panel.py`).
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import time
from shlex import quote
from typing import Any

import click

from opilio.cli import one_line
from opilio.cli.log import log_event
from opilio.cli.tables import fitted
from opilio.crawl.status import Status
from opilio.model import Outcome, OutcomeKind

LOG_EVERY_S = 5.0
SHOWN_NOTICES = 5
_BARS = "▁▂▃▄▅▆▇█"
_NOT_LISTED = {"pages", "bytes", "elapsed_ms", "learning_from_ms"}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "kb": 10**3,
    "m": 10**6,
    "mb": 10**6,
    "g": 10**9,
    "gb": 10**9,
    "t": 10**12,
    "tb": 10**12,
}


class _Quantity(click.ParamType[float]):
    """A number followed by a unit."""

    def __init__(self, name: str, units: dict[str, int], example: str) -> None:
        self.name = name
        self._units = units
        self._example = example

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number in the base unit."""
        if isinstance(value, (int, float)):
            return float(value)
        match = re.fullmatch(r"\s*([\d.]+)\s*([a-z]*)\s*", str(value).lower())
        if not match or match[2] not in self._units or match[1].count(".") > 1 or match[1] == ".":
            self.fail(f"{value!r} is not a {self.name}: write it like {self._example}", param, ctx)
        return float(match[1]) * self._units[match[2]]


DURATION = _Quantity("duration", _SECONDS, "90s, 15m, 8h or 2d")
SIZE = _Quantity("size", _BYTES, "500MB or 2GB")


def show_bytes(count: float) -> str:
    """A size with three significant digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def show_duration(seconds: float) -> str:
    """A time in its two largest units."""
    seconds = int(seconds)
    for size, unit, below, below_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // below} {below_unit}"
    return f"{seconds} s"


class Silence:
    """Shows nothing; the base of all displays, which are context managers."""

    def __enter__(self) -> Silence:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put back."""

    def tick(self, status: Status) -> None:
        """Nothing."""


class LogLines(Silence):
    """One line every few seconds, on standard error."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()
        self._notices = FreshNotices()

    def tick(self, status: Status) -> None:
        """Print new notices at once, and a line of figures when the last one is old enough."""
        for notice in self._notices.of(status):
            click.echo("\n".join(notice_lines(notice, f"{time.strftime('%H:%M:%S')} ")), err=True)
        if time.monotonic() - self._last_s < LOG_EVERY_S:
            return
        self._last_s = time.monotonic()
        found = "" if status.harvest is None else f", relevant {status.relevant:,}, {harvest_words(status)}"
        questions = f", questions for you {status.questions}" if status.questions else ""
        again = f", next visit {next_visit(status)}" if next_visit(status) else ""
        failed = sum(n for name, n in status.outcomes.items() if Outcome(name).kind is OutcomeKind.FAILED)
        click.echo(
            f"{time.strftime('%H:%M:%S')} pages {status.pages:,} ({status.pages_per_s:.1f}/s), "
            f"{show_bytes(status.fetched_bytes)}, waiting {status.waiting:,}, hosts {status.hosts:,}, "
            f"failed {failed:,}{found}{questions}{again}",
            err=True,
        )


class JsonLogLines(Silence):
    """The same as JSON objects, for log collectors."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()
        self._notices = FreshNotices()

    def tick(self, status: Status) -> None:
        """Log new notices at once, and figures when the last ones are old enough."""
        for notice in self._notices.of(status):
            log_event("notice", level="warning", collection=status.folder, kind=notice["kind"], text=notice["text"])
        if time.monotonic() - self._last_s >= LOG_EVERY_S:
            self._last_s = time.monotonic()
            log_event("progress", **log_fields(status))


def log_fields(status: Status) -> dict[str, Any]:
    """The figures of a crawl in the log; `opilio status --json` has all."""
    names = (
        "pages", "pages_per_s", "relevant", "harvest", "harvest_per_request", "harvest_per_s", "fetched_bytes",
        "requests", "in_flight", "waiting", "hosts", "slow_hosts", "bad_hosts", "elapsed_s", "paused", "no_network",
        "questions",
    )  # fmt: skip
    failed = sum(n for name, n in status.outcomes.items() if Outcome(name).kind is OutcomeKind.FAILED)
    return {"collection": status.folder, **{name: getattr(status, name) for name in names}, "failed": failed}


class FreshNotices:
    """Picks the notices that were not shown yet."""

    def __init__(self) -> None:
        self._shown: list[dict[str, Any]] = []

    def of(self, status: Status) -> list[dict[str, Any]]:
        """Those that came since the last call; a status has only the latest ones."""
        before, now = self._shown, status.notices
        self._shown = list(now)
        known = next((n for n in range(len(now), 0, -1) if now[:n] == before[len(before) - n :]), 0)
        return now[known:]


def notice_lines(notice: dict[str, Any], indent: str = "", max_remedies: int | None = None) -> list[str]:
    """A notice as lines for a terminal: what happened, and what can be done, each with its command."""
    remedies = notice.get("remedies", [])[:max_remedies]  # a crawl of an earlier version sends none
    done = [f"{one['why']}: {one['command']}" for one in remedies] or list(filter(None, [notice["remedy"]]))
    return [
        f"{indent}{notice['kind']}: {one_line(notice['text'])}",
        *(f"{' ' * len(indent)}  {one_line(words)}" for words in done),
    ]


class JsonLines(Silence):
    """One JSON object every few seconds on standard output, for programs."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    def tick(self, status: Status) -> None:
        """Print an object when the last one is old enough."""
        if time.monotonic() - self._last_s >= LOG_EVERY_S:
            self._last_s = time.monotonic()
            print_json("progress", status)


def print_json(event: str, status: Status, **more: Any) -> None:
    """One event as a line of JSON."""
    sys.stdout.write(json.dumps({"event": event, **dataclasses.asdict(status), **more}) + "\n")
    sys.stdout.flush()


def sparkline(values: list[float]) -> str:
    """Values as a row of bars, scaled to their largest."""
    top = max(values, default=0.0)
    return "".join(_BARS[min(7, int(8 * value / top))] if top else _BARS[0] for value in values[-40:])


def grouped(status: Status) -> dict[OutcomeKind, dict[str, int]]:
    """Outcomes by kind, most frequent first."""
    groups: dict[OutcomeKind, dict[str, int]] = {kind: {} for kind in OutcomeKind}
    for name, n in status.outcomes.items():
        groups[Outcome(name).kind][name] = n
    return groups


def next_visit(status: Status) -> str:
    """Which stored page is visited again next, and when; empty when none is."""
    if status.next_due_s is None:
        return ""
    wait_s = status.next_due_s - time.time()
    due = f", {status.due_pages:,} due" if status.due_pages else ""
    return f"{one_line(status.next_due_url)} {f'in {show_duration(wait_s)}' if wait_s > 0 else 'now'}{due}"


def found_words(status: Status) -> str:
    """What was found, in words: the same figures as in the portal."""
    return (
        f"{status.relevant:,} of {status.pages:,} pages are relevant: harvest {status.harvest or 0:.1%} of the pages, "
        f"{status.harvest_per_request or 0:.1%} of {status.requests:,} requests, "
        f"{status.harvest_per_s or 0:.3g} a second, as judged now"
    )


def harvest_words(status: Status) -> str:
    """The three harvests, in little room."""
    return (
        f"harvest {status.harvest or 0:.1%} of pages, {status.harvest_per_request or 0:.1%} of requests, "
        f"{status.harvest_per_s or 0:.3g} a second"
    )


def recent_words(status: Status) -> str:
    """The recent harvest, which is another figure than the harvest rate."""
    return f"recent harvest {status.recent_harvest or 0:.1%} of the latest pages, as judged when fetched"


def shell_words(status: Status) -> str:
    """How many pages are empty without JavaScript, on which hosts, and what to do; empty when none is."""
    if not status.shell_pages:
        return ""
    hosts = ", ".join(f"{one_line(host)} ({n:,})" for host, n in status.shells.items())
    pages = "1 page is" if status.shell_pages == 1 else f"{status.shell_pages:,} pages are"
    more = " and others" if sum(status.shells.values()) < status.shell_pages else ""
    command = f"opilio crawl {quote(status.folder)} --render auto"
    return f"{pages} empty without JavaScript: on {hosts}{more}; next step: {command}"


def dead_seed_lines(folder: str, report: dict[str, Any]) -> list[str]:
    """The seeds that gave no page, by outcome, with the first of each; nothing when all gave one."""
    if not report["dead"]:
        return []
    lines = [f"  seeds without a page: {report['dead']:,} of {report['seeds']:,}"]
    for kind in report["outcomes"]:
        lines.append(f"    {kind['outcome']} {kind['count']:,}: {kind['meaning']}")
        lines += [f"      {one_line(one['url'])}" for one in kind["urls"]]
    if any(kind["count"] > len(kind["urls"]) for kind in report["outcomes"]):
        lines.append(f"    all of them: opilio sql {quote(folder)} --question dead-seeds")
    return lines


def summary(status: Status) -> str:
    """The summary of a crawl: why it ended, what it has, what was dropped and why."""
    rate = status.pages / status.elapsed_s if status.elapsed_s else 0.0
    lines = [
        f"{status.folder}: {status.reason}" if status.reason else f"{status.folder}: running",
        f"  {status.pages:,} pages in {show_duration(status.elapsed_s)} ({rate:.1f}/s), "
        f"{show_bytes(status.fetched_bytes)} received, {status.hosts:,} hosts "
        f"({status.slow_hosts:,} slow, {status.bad_hosts:,} bad)",
        f"  {status.urls:,} URLs known, {status.waiting:,} waiting",
    ]
    if status.system:
        lines.append(f"  system {status.system}; what it sets: opilio settings {quote(str(status.folder))} --diff")
    if status.harvest is not None:
        lines.append(fitted(f"  {found_words(status)}"))
        lines.append(fitted(f"  judged by {status.model}"))
    if status.running and status.recent_harvest is not None:
        lines.append(f"  {recent_words(status)}")
    if status.recall is not None:
        recall = f"  recall about {status.recall:.0%} of the relevant pages that can be reached, by its own estimate"
        lines.append(fitted(recall))
    if next_visit(status):
        lines.append(f"  next visit to a stored page: {next_visit(status)}")
    if shell_words(status):
        lines.append(f"  {shell_words(status)}")
    for kind, names in grouped(status).items():
        if names:
            parts = ", ".join(f"{name} {n:,}" for name, n in names.items())
            lines.append(fitted(f"  {kind.value} {sum(names.values()):,}: {parts}"))
    counts = {name: n for name, n in status.counters.items() if ":" not in name and name not in _NOT_LISTED and n}
    if counts:
        lines.append(fitted("  counted: " + ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items()))))
    for notice in status.notices[-SHOWN_NOTICES:]:
        lines += notice_lines(notice, "  ")
    if status.questions:
        lines.append(f"  questions for you: {status.questions}; answer them: opilio ask {quote(str(status.folder))}")
    return "\n".join(lines)
