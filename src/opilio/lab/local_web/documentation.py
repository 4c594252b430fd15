"""From a docstring to blocks (headings, paragraphs, code, lists, definitions), and from blocks to HTML.

Docstrings follow no single rule (plain text, numpydoc, Google style, reStructuredText), so this reads what they have in
common and takes anything else for a paragraph. Everything that comes from a docstring is escaped here, and only here.

No link leaves the local web: an address of the real web in a docstring stays text, so that a crawler of the demo can
never wander off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape

from opilio.lab.local_web.frame import Entry, Names

_UNDERLINE = re.compile(r"^\s*([-=~^*])\1{2,}\s*$")
_BULLET = re.compile(r"^\s*([-*+•]|\d{1,2}[.)])\s+(?=\S)")
_GOOGLE_HEADING = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Attributes|Example|Examples|Note|Notes):\s*$")
_TERM_HEADINGS = frozenset(
    (
        "parameters", "other parameters", "returns", "yields", "raises", "warns", "attributes", "methods", "args",
        "arguments", "keyword arguments", "see also",
    )
)  # fmt: skip
_INLINE = re.compile(
    r"(?::[a-zA-Z:]+:)?`(?P<role>[^`\n]{1,120})`(?!`)_{0,2}"
    r"|``(?P<code>[^`\n]{1,200})``"
    r"|\*\*(?P<strong>[^*\n]{1,80})\*\*"
    r"|(?<![\w*])\*(?P<emphasis>[A-Za-z_]\w{0,40})\*(?![\w*])"
    r"|(?<![\w.@/:])(?P<dotted>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?"
    r"|(?<![\w.@/])(?P<call>[A-Za-z_]\w*)\(\)"
    r"|(?<![\w.])(?P<camel>[A-Z][a-z]+(?:[A-Z][a-z0-9]+)+)(?!\w)"
)
_TARGET = re.compile(r"^[~!.]?(?:.*<[~!]?(?P<inner>[\w.]+)>|(?P<plain>[\w.]+)(?:\(\))?)$")
_SEE_ALSO_TERM = re.compile(r"^(?P<names>[^:]+?)(?:\s+:\s+(?P<meaning>.*))?$")
Href = Callable[[Entry], str]


@dataclass(frozen=True)
class Block:
    """One piece of a docstring. `items` are the (term, text) pairs of lists and definitions, else it is empty."""

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


class DocWriter:
    """Writes the documentation of one entry; each other page is linked at its first mention only."""

    def __init__(self, entry: Entry, names: Names, href: Href) -> None:
        self.entry, self.names, self.href = entry, names, href
        self.linked: set[str] = {entry.url}

    def text(self) -> str:
        """The docstring as HTML."""
        section = ""
        parts: list[str] = []
        for block in parse(self.entry.doc.text):
            if block.kind == "heading":
                section = block.text.lower()
            parts.append(self._block(block, section))
        return "\n".join(parts)

    def references(self, title: str, real_names: Iterable[str], limit: int = 24) -> str:
        """A list of links to what the code of this entry refers to, or nothing."""
        found = (self.names.by_real_name(name) for name in real_names)
        entries = [entry for entry in dict.fromkeys(found) if entry is not None and entry.url != self.entry.url]
        items = [
            f"<li>{self._anchor(entry, escape(entry.doc.name))} &ndash; {escape(entry.summary)}</li>"
            for entry in entries[:limit]
        ]
        return (
            f'<section class="refs"><h2>{escape(title)}</h2>\n<ul>\n{chr(10).join(items)}\n</ul></section>'
            if items
            else ""
        )

    def _block(self, block: Block, section: str) -> str:
        if block.kind == "heading":
            return f"<h2>{escape(block.text)}</h2>"
        if block.kind == "code":
            return f'<div class="highlight"><pre>{escape(block.text)}</pre></div>'
        if block.kind == "list":
            return "<ul>\n" + "\n".join(f"<li>{self._inline(text)}</li>" for _, text in block.items) + "\n</ul>"
        if block.kind == "terms":
            rows = (self._see_also(*item) if section == "see also" else self._term(*item) for item in block.items)
            return '<dl class="field-list">\n' + "\n".join(rows) + "\n</dl>"
        return f"<p>{self._inline(block.text)}</p>"

    def _term(self, term: str, meaning: str) -> str:
        return f"<dt>{self._inline(term)}</dt><dd>{self._inline(meaning)}</dd>"

    def _see_also(self, term: str, meaning: str) -> str:
        match = _SEE_ALSO_TERM.match(term)
        if match is None:
            return self._term(term, meaning)
        linked = (self._name(name.strip(" `."), name.strip(), quoted=True) for name in match["names"].split(","))
        return f"<dt>{', '.join(linked)}</dt><dd>{self._inline(match['meaning'] or meaning)}</dd>"

    def _inline(self, text: str) -> str:
        parts: list[str] = []
        end = 0
        for match in _INLINE.finditer(text):
            parts += [escape(text[end : match.start()]), self._token(match)]
            end = match.end()
        return "".join([*parts, escape(text[end:])])

    def _token(self, match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        value = match[kind]
        if kind in ("strong", "emphasis"):
            tag = "strong" if kind == "strong" else "em"
            return f"<{tag}>{escape(value)}</{tag}>"
        if kind in ("role", "code"):
            target = _TARGET.match(value)
            name = (target["inner"] or target["plain"]).strip(".") if target else ""
            shown = value.rpartition(".")[2] if value.startswith("~") else value
            return f"<code>{self._name(name, shown, quoted=True)}</code>"
        shown = match[0]
        return self._name(value, shown, quoted=kind == "camel")

    def _name(self, name: str, shown: str, *, quoted: bool) -> str:
        entry = self.names.in_prose(name, self.entry.doc, quoted=quoted) if name else None
        return self._anchor(entry, escape(shown)) if entry is not None else escape(shown)

    def _anchor(self, entry: Entry, label: str) -> str:
        if entry.url in self.linked:
            return label
        self.linked.add(entry.url)
        return f'<a class="reference internal" href="{escape(self.href(entry))}">{label}</a>'
