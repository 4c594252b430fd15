"""Word's fields: an instruction, and the text shown in its place. A link is a field whose instruction is HYPERLINK.

Word files, old and new, and RTF have them. Fields can be nested: a table of contents is a field that contains links.
"""

from __future__ import annotations

import re

from opilio.analyze.draft import Draft

_HYPERLINK = re.compile(r"\s*HYPERLINK\s+(?:\\[a-km-z]\s+)*(?:\"([^\"]*)\"|([^\s\"\\]\S*))", re.IGNORECASE)
_MAX_INSTRUCTION_CHARS = 5000


class Fields:
    """Writes text to a draft, but not the instructions of fields, which it turns into links."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._open: list[list[str] | None] = []
        """For each open field, its instruction as far as it has been read; None once its text is shown."""
        self._instructions = 0
        """How many open fields are still in their instruction."""

    def begin(self) -> None:
        """Start a field, with its instruction."""
        self._open.append([])
        self._instructions += 1

    def add(self, text: str) -> None:
        """Add text, to an instruction or to the document."""
        if not self._instructions:
            self._draft.add(text)
        else:
            self.instruct(text)

    def instruct(self, text: str) -> None:
        """Add text to an instruction."""
        if self._open and (parts := self._open[-1]) is not None and len(parts) < _MAX_INSTRUCTION_CHARS:
            parts.append(text[:_MAX_INSTRUCTION_CHARS])

    def show(self) -> None:
        """End the instruction; the text shown in its place follows."""
        if not self._open or (parts := self._open[-1]) is None:
            return
        self._open[-1] = None
        self._instructions -= 1
        found = _HYPERLINK.match("".join(parts)[:_MAX_INSTRUCTION_CHARS])
        if found and not self._instructions:
            self._draft.begin_link(found.group(1) or found.group(2) or "")

    def end(self) -> None:
        """End the field, which may have shown nothing."""
        self.show()
        if self._open:
            self._open.pop()
            self._draft.end_link()

    def end_line(self) -> None:
        """End the line, unless in an instruction."""
        if not self._instructions:
            self._draft.end_line()
