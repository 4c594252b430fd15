"""Word's fields: an instruction, and the text shown in its place. Links are fields whose instruction is HYPERLINK.

Word files, old and new, and RTF all have them. Fields stand in each other: the table of contents is one, with links.
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
        """For each field we are in, its instruction as far as it was read; None when its text is being shown."""
        self._instructions = 0
        """How many of these are still in their instruction."""

    def begin(self) -> None:
        """A field begins, with its instruction."""
        self._open.append([])
        self._instructions += 1

    def add(self, text: str) -> None:
        """Text, of an instruction or to be shown."""
        if not self._instructions:
            self._draft.add(text)
        else:
            self.instruct(text)

    def instruct(self, text: str) -> None:
        """Text that is surely part of an instruction."""
        if self._open and (parts := self._open[-1]) is not None and len(parts) < _MAX_INSTRUCTION_CHARS:
            parts.append(text[:_MAX_INSTRUCTION_CHARS])

    def show(self) -> None:
        """The instruction is complete; the text shown in its place begins."""
        if not self._open or (parts := self._open[-1]) is None:
            return
        self._open[-1] = None
        self._instructions -= 1
        found = _HYPERLINK.match("".join(parts)[:_MAX_INSTRUCTION_CHARS])
        if found and not self._instructions:
            self._draft.begin_link(found.group(1) or found.group(2) or "")

    def end(self) -> None:
        """The field ends; it may have shown nothing."""
        self.show()
        if self._open:
            self._open.pop()
            self._draft.end_link()

    def end_line(self) -> None:
        """A line ends, unless in an instruction."""
        if not self._instructions:
            self._draft.end_line()
