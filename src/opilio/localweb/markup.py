"""From blocks of documentation to HTML. Everything that comes from a docstring is escaped here, and only here.

No link leaves the local web: an address of the real web in a docstring stays text, so that a crawler of the demo can
never wander off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import escape

from opilio.localweb.docstring import Block, parse
from opilio.localweb.names import Entry, Names

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
