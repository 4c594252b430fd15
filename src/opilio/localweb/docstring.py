"""From a docstring to blocks: headings, paragraphs, code, lists, definitions.

Docstrings follow no single rule (plain text, numpydoc, Google style, reStructuredText), so this reads what they have in
common and takes anything else for a paragraph. It does not know what a web page is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNDERLINE = re.compile(r"^\s*([-=~^*])\1{2,}\s*$")
_BULLET = re.compile(r"^\s*([-*+•]|\d{1,2}[.)])\s+(?=\S)")
_GOOGLE_HEADING = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Attributes|Example|Examples|Note|Notes):\s*$")
_TERM_HEADINGS = frozenset(
    (
        "parameters", "other parameters", "returns", "yields", "raises", "warns", "attributes", "methods", "args",
        "arguments", "keyword arguments", "see also",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """One piece of a docstring. `items` holds (term, text) pairs of lists and definitions, else it is empty."""

    kind: str  # heading, paragraph, code, list or terms
    text: str = ""
    items: tuple[tuple[str, str], ...] = ()


def parse(text: str) -> list[Block]:
    """The blocks of a docstring whose indentation has been cleaned."""
    return _Reader(text.expandtabs(8).splitlines()).blocks()


class _Reader:
    """Walks the lines once; each method consumes the lines of one block."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0
        self.in_terms = False

    def blocks(self) -> list[Block]:
        found: list[Block] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and not _UNDERLINE.match(line):  # a rule that underlines nothing says nothing
                found.append(self._next_block())
            else:
                self.at += 1
        return found

    def _next_block(self) -> Block:
        line = self.lines[self.at]
        if self._is_heading():
            return self._heading()
        if line.lstrip().startswith(">>>"):
            return self._code(until_blank=True)
        if self.in_terms and not _BULLET.match(line):
            return self._terms()
        if _BULLET.match(line):
            return self._list()
        if _indent(line) >= 4:
            return self._code(until_blank=False)
        return self._paragraph()

    def _is_heading(self) -> bool:
        line = self.lines[self.at]
        below = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
        is_underlined = bool(_UNDERLINE.match(below)) and not _UNDERLINE.match(line) and len(line) < 100
        return is_underlined or bool(_GOOGLE_HEADING.match(line))

    def _heading(self) -> Block:
        is_google = bool(_GOOGLE_HEADING.match(self.lines[self.at]))
        title = self.lines[self.at].strip().rstrip(":")
        self.at += 1 if is_google else 2
        self.in_terms = title.lower() in _TERM_HEADINGS
        return Block("heading", title)

    def _code(self, *, until_blank: bool) -> Block:
        first = self.at
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip() and (until_blank or not self._goes_on_indented()):
                break
            if line.strip() and not until_blank and _indent(line) < 4:
                break
            self.at += 1
        block = self.lines[first : self.at]
        margin = min((_indent(line) for line in block if line.strip()), default=0)
        return Block("code", "\n".join(line[margin:] for line in block))

    def _goes_on_indented(self) -> bool:
        rest = (line for line in self.lines[self.at + 1 : self.at + 3] if line.strip())
        return _indent(next(rest, "")) >= 4

    def _list(self) -> Block:
        items: list[str] = []
        while self.at < len(self.lines) and self.lines[self.at].strip() and not self._is_heading():
            line = self.lines[self.at]
            if _BULLET.match(line):
                items.append(_BULLET.sub("", line))
            else:
                items[-1] += " " + line.strip()
            self.at += 1
        return Block("list", items=tuple(("", item) for item in items))

    def _terms(self) -> Block:
        """Terms at the margin, what they mean indented below; or, in a See Also section, behind a colon."""
        items: list[tuple[str, str]] = []
        margin = _indent(self.lines[self.at])
        while self.at < len(self.lines) and not self._is_heading():
            line = self.lines[self.at]
            if line.strip() and _indent(line) <= margin:
                items.append((line.strip(), ""))
            elif line.strip():
                term, meaning = items[-1]
                items[-1] = (term, f"{meaning} {line.strip()}".strip())
            self.at += 1
        return Block("terms", items=tuple(items))

    def _paragraph(self) -> Block:
        first = self.at
        while self.at < len(self.lines) and self.lines[self.at].strip() and not self._is_heading():
            if self.at > first and (
                self.lines[self.at].lstrip().startswith(">>>") or _BULLET.match(self.lines[self.at])
            ):
                break
            self.at += 1
        return Block("paragraph", " ".join(line.strip() for line in self.lines[first : self.at]))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
