"""Tables and lines for a terminal: as wide as it is, and no word is ever broken, so that a URL can be copied whole.

Cells that are too long are wrapped between words. When that does not suffice, the columns with the longest words, such
as URLs, move to lines of their own below their row.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Sequence

import click
from rich.cells import cell_len

GAP = 2
INDENT = "    "
COLUMNS = 80
"""The width when standard output is no terminal and the variable COLUMNS is not set."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = ()) -> None:
    """Print rows of text below the names of their columns; those named in `right` are flush right."""
    width = _terminal_width()
    for number, line in enumerate(table_lines(columns, rows, width, right)):
        click.echo(click.style(line, bold=True) if number == 0 and any(columns) else line)


def fitted(line: str) -> str:
    """A line for standard output: on a terminal in lines that fit, all but the first indented by two more.

    Elsewhere it stays as it is. Not for lines that end with a command: it could no longer be copied.
    """
    if not sys.stdout.isatty():
        return line
    indent = line[: len(line) - len(line.lstrip())]
    first, *rest = _wrapped(line.strip(), _terminal_width() - len(indent) - GAP)
    return "\n".join([indent + first, *(indent + " " * GAP + more for more in rest)])


def _terminal_width() -> int:
    return shutil.get_terminal_size((COLUMNS, 24)).columns


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, right: Collection[str] = ()
) -> list[str]:
    """The table as lines; no line is longer than `width` unless one word is."""
    cells = [list(columns), *map(list, rows)]
    least = [max(map(_longest_word, column)) for column in zip(*cells, strict=True)]
    beside = list(range(len(columns)))
    while len(beside) > 1 and sum(least[n] + GAP for n in beside) - GAP > width:
        beside.remove(max(beside, key=lambda n: least[n]))
    below = [n for n in range(len(columns)) if n not in beside]
    widths = _widths(
        [max(cell_len(row[n]) for row in cells) for n in beside], [least[n] for n in beside], width - GAP * len(beside)
    )
    lines: list[str] = []
    for row in cells:
        if row is cells[0] and not any(columns):
            continue
        parts = [_wrapped(row[n], wide) for n, wide in zip(beside, widths, strict=True)]
        for at in range(max(map(len, parts), default=0)):
            texts = [part[at] if at < len(part) else "" for part in parts]
            padded = [
                _padded(text, wide, columns[n] in right) for n, text, wide in zip(beside, texts, widths, strict=True)
            ]
            lines.append((" " * GAP).join(padded).rstrip())
        for n in below:
            lines += [INDENT + line for line in _wrapped(row[n], width - len(INDENT)) if line]
    return lines


def _widths(natural: list[int], least: list[int], room: int) -> list[int]:
    """The width of each column: what its cells need while there is room, else a share of it, no less than a word."""
    widths = list(least)
    spare = max(0, room + GAP - sum(least))
    for n in sorted(range(len(natural)), key=lambda n: natural[n] - least[n]):  # the modest first
        open_columns = sum(natural[m] > widths[m] for m in range(len(natural)))
        more = min(natural[n] - widths[n], spare // max(1, open_columns))
        widths[n] += more
        spare -= more
    return widths


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split(" ")))


def _padded(text: str, width: int, is_right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if is_right else text + space


def _wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most `width`, broken between words only."""
    if cell_len(click.unstyle(text)) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(click.unstyle(longer)) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
