"""What a user sees of a crawl: a live panel on a terminal, log lines elsewhere, JSON lines on request; a summary."""

from __future__ import annotations

import dataclasses
import json
import sys
import time

import click
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from opilio.cli.units import show_bytes, show_duration
from opilio.crawl.counters import Status
from opilio.model import Outcome, OutcomeKind

LOG_EVERY_S = 5.0
ROOM_FOR_CTRL_C = 4  # columns: terminals echo ^C behind the panel, and a wrapped line would shift it
_BARS = "▁▂▃▄▅▆▇█"


def make_display(*, quiet: bool, as_json: bool) -> Silence:
    """The display that fits the place the output goes to."""
    if as_json:
        return JsonLines()
    if quiet:
        return Silence()
    console = Console(stderr=True)
    return Panels(console) if console.is_terminal else LogLines()


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

    def tick(self, status: Status) -> None:
        """Print a line when the last one is old enough."""
        if time.monotonic() - self._last_s < LOG_EVERY_S:
            return
        self._last_s = time.monotonic()
        harvest = "" if status.harvest is None else f", harvest {status.harvest:.3f}"
        failed = sum(n for name, n in status.outcomes.items() if Outcome(name).kind is OutcomeKind.FAILED)
        click.echo(
            f"{time.strftime('%H:%M:%S')} pages {status.pages:,} ({status.pages_per_s:.1f}/s), "
            f"{show_bytes(status.fetched_bytes)}, waiting {status.waiting:,}, hosts {status.hosts:,}, "
            f"failed {failed:,}{harvest}",
            err=True,
        )


class JsonLines(Silence):
    """One JSON object every few seconds on standard output, for programs."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    def tick(self, status: Status) -> None:
        """Print an object when the last one is old enough."""
        if time.monotonic() - self._last_s >= LOG_EVERY_S:
            self._last_s = time.monotonic()
            print_json("progress", status)


def print_json(event: str, status: Status) -> None:
    """One event as a line of JSON."""
    sys.stdout.write(json.dumps({"event": event, **dataclasses.asdict(status)}) + "\n")
    sys.stdout.flush()


class Panels(Silence):
    """A panel that is drawn anew four times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Panels:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the panel away."""
        self._live.stop()

    def tick(self, status: Status) -> None:
        """Draw the panel."""
        self._live.update(panel(status, self._console.width - ROOM_FOR_CTRL_C))


def panel(status: Status, width: int) -> Panel:
    """The live panel of a crawl."""
    figures = Table.grid(padding=(0, 3))
    for _ in range(4):
        figures.add_column(style="dim")
        figures.add_column(justify="right")
    eta = f"{show_duration(status.eta_s)} to {status.limit}" if status.eta_s is not None and status.limit else "-"
    figures.add_row("pages", f"[bold]{status.pages:,}", "pages/s", f"{status.pages_per_s:.1f}", "received",
                    show_bytes(status.fetched_bytes), "time", show_duration(status.elapsed_s))  # fmt: skip
    figures.add_row("waiting", f"{status.waiting:,}", "known", f"{status.urls:,}", "under way", f"{status.in_flight:,}",
                    "left", eta)  # fmt: skip
    figures.add_row("hosts", f"{status.hosts:,}", "slow", f"{status.slow_hosts:,}", "bad", f"{status.bad_hosts:,}",
                    "order", Text(status.order_by, overflow="ellipsis"))  # fmt: skip
    lines: list[Table | Text] = [figures]
    if status.harvest is not None:
        bars = sparkline(status.harvest_history)
        lines.append(Text(f"harvest  {status.harvest:.3f}  {bars}  judged by {status.model}", style="green"))
    for kind, names in grouped(status).items():
        if kind is not OutcomeKind.STORED and names:
            parts = ", ".join(f"{name} {n:,}" for name, n in list(names.items())[:6])
            lines.append(Text(f"{kind.value}: {parts}", style="red" if kind is OutcomeKind.FAILED else "yellow"))
    ending = f"  ending: {status.reason}" if status.reason else "  Ctrl-C ends the crawl; nothing is lost"
    return Panel(Group(*lines), title=Text(f"opilio crawl {status.folder}"), subtitle=ending, title_align="left",
                 width=max(20, width))  # fmt: skip


def sparkline(values: list[float]) -> str:
    """Values as a row of bars, scaled to their largest."""
    top = max(values, default=0.0)
    return "".join(_BARS[min(7, int(8 * value / top))] if top else _BARS[0] for value in values[-40:])


def grouped(status: Status) -> dict[OutcomeKind, dict[str, int]]:
    """Outcomes by family, most frequent first."""
    groups: dict[OutcomeKind, dict[str, int]] = {kind: {} for kind in OutcomeKind}
    for name, n in status.outcomes.items():
        groups[Outcome(name).kind][name] = n
    return groups


def summary(status: Status) -> str:
    """What a crawl came to: why it ended, what it has, what was dropped why."""
    rate = status.pages / status.elapsed_s if status.elapsed_s else 0.0
    lines = [
        f"{status.folder}: {status.reason}" if status.reason else f"{status.folder}: running",
        f"  {status.pages:,} pages in {show_duration(status.elapsed_s)} ({rate:.1f}/s), "
        f"{show_bytes(status.fetched_bytes)} received, {status.hosts:,} hosts "
        f"({status.slow_hosts:,} slow, {status.bad_hosts:,} bad)",
        f"  {status.urls:,} URLs known, {status.waiting:,} waiting",
    ]
    if status.harvest is not None:
        lines.append(f"  harvest rate {status.harvest:.3f} (mean relevance, 0 to 1), judged by {status.model}")
    for kind, names in grouped(status).items():
        if names:
            parts = ", ".join(f"{name} {n:,}" for name, n in names.items())
            lines.append(f"  {kind.value} {sum(names.values()):,}: {parts}")
    counts = {name: n for name, n in status.counters.items() if ":" not in name and name not in _SHOWN_ABOVE and n}
    if counts:
        lines.append("  counted: " + ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items())))
    return "\n".join(lines)


_SHOWN_ABOVE = {"pages", "bytes", "elapsed_ms"}
