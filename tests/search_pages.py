"""Small collections with known pages for tests of searching, written without a crawl."""

from collections.abc import Sequence
from pathlib import Path

from opilio import Collection
from webs import Page, Web

__all__ = ["Page", "add_pages", "make_collection"]


def make_collection(folder: Path, pages: Sequence[Page]) -> Collection:
    """A collection of these pages."""
    return Web(pages).stored(folder)


def add_pages(folder: Path, pages: Sequence[Page], first: int = 0, *, replace: bool = False) -> None:
    """Store pages with oids from `first` on."""
    Web(pages).store_in(folder, first, replace=replace)
