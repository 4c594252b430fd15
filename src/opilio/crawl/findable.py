"""Searching a collection: at rest, or while a crawl runs in it and keeps the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from opilio.crawl.asking import Askable, address_of
from opilio.errors import CollectionBusy, StoreError
from opilio.store.connection import FILE_NAME

if TYPE_CHECKING:  # it takes a while to import
    from opilio.search.index import IndexReader

T = TypeVar("T")


class Findable(Askable):
    """Searching, and what is like a page."""

    def search(
        self,
        question: str,
        *,
        weights: Mapping[str, float] | None = None,
        topic: str | Sequence[str] = (),
        host: str | Sequence[str] = (),
        lang: str | Sequence[str] = (),
        type: str | Sequence[str] = (),
        since: str = "",
        before: str = "",
        copies_of: int | None = None,
        page: int = 1,
        size: int = 10,
    ) -> dict[str, Any]:
        """Search the stored pages; total, results with snippets, and facets.

        A question has words, "phrases", fields (title:, text:, anchor:, url:), prefixes (owl*), likenesses (owl~), OR,
        -not, ( ) and filters (host:, lang:, type:, topic:, since:, before:, relevance:). Filters may be given by name
        too: several values of one are alternatives, a topic has all below it, and '' is no filter.

        `weights` are those of the rankings bm25, cosine, confidence and authority, whose weighted sum orders the
        results. Near duplicates are shown as one, `folded` says how many were left out; `copies_of` a page (its oid)
        lists them. A snippet is a list of pieces of text, each with whether it was asked for.
        """
        named = {"topic": topic, "host": host, "lang": lang, "type": type, "since": since, "before": before}
        filters = [
            (name, value)
            for name, values in named.items()
            for value in ([values] if isinstance(values, str) else values)
            if value
        ]

        def find(reader: IndexReader) -> dict[str, Any]:
            from opilio.search.finding import search  # noqa: PLC0415

            return search(reader, question, weights=weights, filters=filters, copies_of=copies_of, page=page, size=size)

        return self._with_index(find)

    def similar(self, url: str, n: int = 10) -> list[dict[str, Any]]:
        """The stored pages most like the page of a URL, best first; neither itself nor copies of it."""
        address = address_of(url, "Give the address of a stored page.")

        def find(reader: IndexReader) -> list[dict[str, Any]]:
            from opilio.search.finding import similar  # noqa: PLC0415

            return similar(reader, address, n)

        return self._with_index(find)

    def update_index(self) -> bool:
        """Bring the index up to date; False when a crawl runs, or another process does it already."""
        from opilio.search.updating import update  # noqa: PLC0415

        seen = database_state(self.folder)
        try:
            with self._opened(read_only=True) as store:  # beside other threads that read it
                return update(store, self.folder, seen=seen) is not None
        except CollectionBusy:
            return False
        except (OSError, ValueError) as error:  # the library says everything by a ValueError
            raise StoreError(
                f"{self.folder}: the index cannot be written: {error}", "Make room, then search again."
            ) from None

    def _with_index(self, find: Callable[[IndexReader], T]) -> T:
        """Look into the index, brought up to date first unless a crawl does so. A damaged one is made anew."""
        from opilio.search.index import READERS, Damaged, forget  # noqa: PLC0415

        for is_last in (False, True):
            try:
                reader = READERS.get(self.folder)
                if reader is None or reader.columns.seen != database_state(self.folder):
                    self.update_index()
                    reader = READERS.get(self.folder)
                if reader is None:
                    raise CollectionBusy(
                        f"{self.folder}: nothing can be searched yet: the index is being made",
                        "Try again soon. While a crawl runs, it makes the index if [search] index = true.",
                    )
                return find(reader)
            except Damaged as error:
                forget(self.folder)
                if is_last:
                    raise StoreError(
                        f"{self.folder}: the index cannot be read: {error}",
                        "Delete its folder `index`: it is made anew.",
                    ) from None
        raise AssertionError("unreachable")


def database_state(folder: Path) -> str:
    """What changes whenever the database file does."""
    told = []
    for name in (FILE_NAME, f"{FILE_NAME}.wal"):
        try:
            state = (folder / name).stat()
        except FileNotFoundError:
            continue
        told.append(f"{state.st_mtime_ns}/{state.st_size}")
    return " ".join(told)
