"""Names to pages: which page a name in a docstring, a base class or a called function stands for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from opilio.localweb.harvest import Doc, summary

# A name found by its last part alone must be unmistakable: used once, and no everyday word.
MIN_LONE_NAME_CHARS = 5


@dataclass(frozen=True)
class Entry:
    """A documented object with the page it got."""

    doc: Doc
    url: str

    @property
    def path(self) -> str:
        """The page's path on its host."""
        return self.url[len("http://") + len(self.doc.host) :]

    @property
    def label(self) -> str:
        """The name as the page's own section writes it."""
        inner = self.doc.name[len(self.doc.module) + 1 :]
        return inner or self.doc.module

    @cached_property
    def summary(self) -> str:
        """The first sentence of the documentation."""
        return summary(self.doc.text)


def entry_for(doc: Doc) -> Entry:
    """A module's page is a folder; its objects are files in it."""
    folder = f"http://{doc.host}/{quote(doc.module)}/"
    inner = doc.name[len(doc.module) + 1 :]
    return Entry(doc, f"{folder}{quote(inner)}.html" if inner else folder)


class Names:
    """Resolves names, nearest first: the class, the module, its package, the whole web."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._published: dict[str, Entry] = {}
        self._real: dict[str, Entry] = {}
        self._lone: dict[str, Entry | None] = {}
        for entry in entries:
            self._published.setdefault(entry.doc.name, entry)
            if entry.doc.real_name:
                self._real.setdefault(entry.doc.real_name, entry)
            last = entry.doc.name.rpartition(".")[2]
            self._lone[last] = None if last in self._lone else entry

    def by_real_name(self, name: str) -> Entry | None:
        """The page of an object known by where it was defined."""
        return self._real.get(name) or self._published.get(name)

    def in_prose(self, name: str, near: Doc, *, quoted: bool) -> Entry | None:
        """The page a name in the text of `near` means; a quoted name is looked for further away than a plain one."""
        scope = near.name
        while scope:
            found = self._published.get(f"{scope}.{name}")
            if found is not None:
                return found
            scope = scope.rpartition(".")[0]
        found = self._published.get(name) or self._real.get(name)
        if found is None and quoted and len(name) >= MIN_LONE_NAME_CHARS:
            found = self._lone.get(name.rpartition(".")[2])
        return found
