"""Lists of URLs become archives: a crawl of their own fetches them, as politely as any other, and follows no link.

It is a collection in the folder `url-lists` of the one that is sifted into, with the same settings for requests,
robots.txt and scope. It goes on where it stopped when sifting is run again, and is removed when its pages were judged.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import xxhash

from opilio.crawl import Collection
from opilio.crawl.collection import WARC_FOLDER
from opilio.settings import Settings, override
from opilio.sift.sources import ArchiveFile, UrlList
from opilio.store.connection import FILE_NAME as DATABASE_NAME

FOLDER = "url-lists"


class Stopping(Protocol):
    """Whether somebody wants the end."""

    reason: str
    """Why; empty while nobody does."""


class FetchedLists(NamedTuple):
    """What came of lists of URLs."""

    archives: list[ArchiveFile]
    folders: list[Path]
    is_whole: bool
    """All URLs were fetched, or failed."""

    def remove(self) -> None:
        """Remove what was fetched: the pages on topic are in the collection."""
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)
            if folder.parent.is_dir() and not any(folder.parent.iterdir()):
                folder.parent.rmdir()


def fetch_lists(collection: Collection, lists: Sequence[UrlList], stopping: Stopping) -> FetchedLists:
    """Fetch the URLs of some lists; the archives with what came."""
    archives: list[ArchiveFile] = []
    folders: list[Path] = []
    for one in lists:
        digest = xxhash.xxh3_64_hexdigest("\n".join(one.urls).encode())
        folder = collection.folder / FOLDER / digest
        folders.append(folder)
        fetching = _open(folder, one, collection.settings)
        status = fetching.crawl(on_tick=lambda _: not stopping.reason)
        if status.interrupted or status.no_network or stopping.reason:
            stopping.reason = stopping.reason or status.reason
            return FetchedLists(archives, folders, is_whole=False)
        archives += [
            ArchiveFile(f"{one.name}!{path.name}", str(path.absolute()), size=path.stat().st_size)
            for path in sorted((folder / WARC_FOLDER).glob("*.warc.gz"))
        ]
    return FetchedLists(archives, folders, is_whole=True)


def _open(folder: Path, one: UrlList, settings: Settings) -> Collection:
    if (folder / DATABASE_NAME).exists():
        return Collection(folder)
    chosen = dataclasses.replace(
        Settings(), fetch=settings.fetch, robots=settings.robots, scope=settings.scope, documents=settings.documents,
        run=dataclasses.replace(settings.run, system=""),
    )  # fmt: skip
    chosen = override(
        chosen,
        {
            "frontier.strategy": "breadth-first",
            "fetch.pictures_per_host": 0,
            "robots.sitemaps": False,
            "traps.max_links_per_page": 0,
            "learn.questions": 0,
            "search.index": False,
        },
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as seeds:
        seeds.write("\n".join(one.urls))
        seeds.flush()
        return Collection.create(folder, seeds=Path(seeds.name), settings=chosen)
