"""The live panel of a crawl on a terminal, with its question to the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from opilio.cli import one_line
from opilio.cli.display import (
    Silence,
    grouped,
    harvest_words,
    next_visit,
    notice_lines,
    recent_words,
    shell_words,
    show_bytes,
    show_duration,
    sparkline,
)
from opilio.cli.questions import QuestionKeys
from opilio.crawl.status import Status
from opilio.model import OutcomeKind

SHOWN_NOTICES = 2
SHOWN_REMEDIES = 2  # of each; `opilio status` shows all
ROOM_FOR_CTRL_C = 4  # columns: terminals echo ^C behind the panel, and a wrapped line would shift it


class Panels(Silence):
    """A panel that is redrawn four times a second."""

    def __init__(self, asks_in: Path | None = None) -> None:
        """With `asks_in`, the folder of the collection, the questions of the crawl can be answered by keys."""
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._keys = QuestionKeys(asks_in) if asks_in is not None else None

    def __enter__(self) -> Panels:
        if self._keys is not None:
            self._keys.start()
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the panel away, and give the terminal back."""
        self._live.stop()
        if self._keys is not None:
            self._keys.stop()

    def tick(self, status: Status) -> None:
        """Draw the panel."""
        asked: list[Text] = []
        if self._keys is not None:
            self._keys.update(status.questions)
            asked = question_lines(self._keys.question, status.questions, self._keys.said)
        self._live.update(panel(status, self._console.width - ROOM_FOR_CTRL_C, asked))


def question_lines(question: dict[str, Any] | None, count: int, said: str) -> list[Text]:
    """The question to show, its keys, and what came of the latest key."""
    lines = [Text(said, style="dim", overflow="ellipsis", no_wrap=True)] if said else []
    if question is None or not count:
        return lines
    title = one_line(question["title"]) or "(no title)"
    topic = one_line(question["topic"])
    lines.append(Text(f"question  is this page about {topic}?  ({question['why']})", style="bold cyan"))
    lines += [Text(f"  {line}", overflow="ellipsis", no_wrap=True) for line in (title, one_line(question["url"]))]
    lines.append(Text(f"  y yes   n no   s skip   u undo   ({count} open)", style="cyan"))
    return lines


def panel(status: Status, width: int, asked: Sequence[Text] = ()) -> Panel:
    """The live panel of a crawl; `asked` is its question to the user."""
    figures = Table.grid(padding=(0, 3))
    for _ in range(4):
        figures.add_column(style="dim")
        figures.add_column(justify="right")
    eta = f"{show_duration(status.eta_s)} to {status.limit}" if status.eta_s is not None and status.limit else "-"
    figures.add_row("pages", f"[bold]{status.pages:,}", "pages/s", f"{status.pages_per_s:.1f}", "received",
                    show_bytes(status.fetched_bytes), "time", show_duration(status.elapsed_s))  # fmt: skip
    figures.add_row("waiting", f"{status.waiting:,}", "known", f"{status.urls:,}", "under way", f"{status.in_flight:,}",
                    "left", eta)  # fmt: skip
    figures.add_row("hosts", f"{status.hosts:,}", "slow", f"{status.slow_hosts:,}", "bad", f"{status.bad_hosts:,}")
    order = status.order_by if status.strategy == "sql" else status.strategy
    lines: list[Table | Text] = [figures, Text(f"order    {order}", overflow="ellipsis", no_wrap=True)]
    if status.harvest is not None:
        recall = f"  recall about {status.recall:.0%}" if status.recall is not None else ""
        found = f"relevant {status.relevant:,}{recall}  {harvest_words(status)}, as judged now"
        lines.append(Text(found, style="green"))
        lines.append(Text(f"judged by {status.model}", style="green", overflow="ellipsis", no_wrap=True))
    if status.recent_harvest is not None:
        lines.append(Text(f"{recent_words(status)}  {sparkline(status.recent_harvests)}", style="green"))
    if next_visit(status):
        lines.append(Text(f"next visit to a stored page  {next_visit(status)}", overflow="ellipsis", no_wrap=True))
    if shell_words(status):
        lines.append(Text(shell_words(status), style="yellow"))
    for kind, names in grouped(status).items():
        if kind is not OutcomeKind.STORED and names:
            parts = ", ".join(f"{name} {n:,}" for name, n in list(names.items())[:6])
            lines.append(Text(f"{kind.value}: {parts}", style="red" if kind is OutcomeKind.FAILED else "yellow"))
    said = ["\n".join(notice_lines(notice, max_remedies=SHOWN_REMEDIES)) for notice in status.notices[-SHOWN_NOTICES:]]
    lines += [Text(text, style="magenta") for text in said]
    lines += asked
    ending = f"  ending: {status.reason}" if status.reason else "  Ctrl-C ends the crawl; nothing is lost"
    return Panel(Group(*lines), title=Text(f"opilio crawl {quote(status.folder)}"), subtitle=ending, title_align="left",
                 width=max(20, width))  # fmt: skip
