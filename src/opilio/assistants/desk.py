"""The desk: the collections that an assistant reaches, and the crawls that it may start in them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opilio.assistants.limits import MINUTE_S, AssistantLimits
from opilio.crawl import Status
from opilio.crawl.operations.client import is_running
from opilio.crawl.operations.context import address_of
from opilio.errors import CollectionBusy, CollectionError, InputError, OpilioError
from opilio.web.shelf import NoCollection, Shelf
from opilio.web.start import Wish, create, start_crawl

MAX_SEEDS = 100
DEFAULT_PAGES = 100
"""Of a crawl, unless the call or the limits of the server say otherwise."""
MAX_WAIT_S = 50.0
"""Clients give up on a call after a minute."""
POLL_S = 0.5
MAX_TOPICS = 12
_NO_NEW = "this server makes no new collections"
_NO_NEW_HINT = "Continue one that there is, or ask the user to start the server with --folder FOLDER."


class Desk:
    """The collections of one server, and its operations that concern several collections or start crawls."""

    def __init__(self, places: Sequence[Path], limits: AssistantLimits) -> None:
        """`places` are collections, or folders with several; new collections are shown as well."""
        folders = [*places, *([limits.new_in] if limits.new_in is not None else [])]
        self._shelves = [Shelf(place) for place in dict.fromkeys(folder.absolute() for folder in folders)]
        self.limits = limits
        self._starting = threading.Lock()
        self._granted_pages = 0

    def names(self) -> list[str]:
        """The names of all collections."""
        return sorted({name for shelf in self._shelves for name in shelf.names()})

    def shelf_of(self, name: str) -> Shelf:
        """The place of a collection; an error lists those that there are."""
        found = [shelf for shelf in self._shelves if name in shelf.names()]
        folders = {shelf.path(name) for shelf in found}
        if len(folders) > 1:
            raise CollectionError(f"two collections are called {name!r}", "Rename one of them.")
        if not found:
            known = ", ".join(self.names()[:MAX_TOPICS]) or "none"
            raise NoCollection(f"no collection {name!r} here", f"There are: {known}.")
        return found[0]

    def without_places(self, text: str) -> str:
        """A message without the folders of this machine."""
        for shelf in self._shelves:
            text = text.replace(f"{shelf.folder}/", "").replace(str(shelf.folder), "")
        return text

    # -- operations on all collections

    def collections(self) -> list[dict[str, Any]]:
        """The collections: figures, whether a crawl runs, and the topics that are wanted."""
        return [self._figures(name) for name in self.names()]

    def _figures(self, name: str) -> dict[str, Any]:
        try:
            with self.shelf_of(name).reading(name) as collection:
                status, topics = collection.status(), collection.topics()
        except OpilioError as error:  # it must not hide the others
            return {"collection": name, "trouble": self.without_places(error.message)}
        wanted = [topic for topic in topics if topic["mark"] == "good"]
        return {
            "collection": name, "running": status.running, "pages": status.pages, "relevant": status.relevant,
            "hosts": status.hosts, "open_questions": status.questions,
            "topics": [{name: topic[name] for name in ("topic", "pages", "relevant")} for topic in wanted[:MAX_TOPICS]],
            "more_topics": max(0, len(wanted) - MAX_TOPICS),
        }  # fmt: skip

    def start_crawl(
        self,
        collection: str,
        seeds: Sequence[str],
        *,
        query: str = "",
        description: str = "",
        examples: Sequence[str] = (),
        max_pages: int | None = None,
        stay_on_these_sites: bool = False,
    ) -> dict[str, Any]:
        """Make a new collection and start its crawl, in the background."""
        limits = self.limits
        if limits.new_in is None:
            raise InputError(_NO_NEW, _NO_NEW_HINT)
        if not 1 <= len(seeds) + len(examples) <= MAX_SEEDS:
            raise InputError(f"{len(seeds) + len(examples)} URLs are given", f"Give 1 to {MAX_SEEDS} seeds.")
        limits.check_seeds([address_of(url) for url in (*seeds, *examples)])
        pages = self._checked_pages(max_pages)
        settings = [*limits.assignments, f"limits.max_time_s={limits.max_time_s}", f"limits.max_pages={pages}"]
        if stay_on_these_sites:
            settings.append("scope.stay_on_seed_domains=true")
        if limits.allow_hosts:
            settings.append(f"scope.only_domains={json.dumps(limits.allow_hosts)}")
        wish = Wish.model_validate({
            "name": collection, "seeds": list(seeds), "examples": list(examples), "query": query,
            "description": description, "max_pages": pages, "settings": settings, "start": True,
        })  # fmt: skip
        with self._starting:
            self._check_room(pages)
            made = create(wish, self._shelf_for_new(), None)
            self._granted_pages += pages
        return {"said": made["said"], "collection": made["name"], "max_pages": pages,
                "max_minutes": limits.max_time_s / MINUTE_S}  # fmt: skip

    def continue_crawl(self, collection: str, *, more_pages: int | None = None) -> dict[str, Any]:
        """Continue the crawl of a collection, in the background, for so many pages more."""
        pages = self._checked_pages(more_pages)
        shelf = self.shelf_of(collection)
        with self._starting:
            if is_running(shelf.path(collection)):
                raise CollectionBusy(f"a crawl runs in {collection} already", "Watch it, or stop it first.")
            with shelf.writing(collection) as opened:
                self.limits.check_settings(opened.settings)
                status = opened.status()
                self._check_room(pages)
                opened.change_limits(
                    max_pages=status.pages + pages, max_time_s=status.elapsed_s + self.limits.max_time_s
                )
                start_crawl(opened.folder)
            self._granted_pages += pages
        return {"said": "the crawl runs", "collection": collection, "pages": status.pages,
                "max_pages": status.pages + pages}  # fmt: skip

    def watch_crawl(self, collection: str, *, wait_s: float = 0.0) -> Status:
        """The figures of a crawl, after `wait_s` seconds, or sooner if it ends before."""
        shelf = self.shelf_of(collection)
        until_s = time.monotonic() + min(wait_s, MAX_WAIT_S)
        while (left_s := until_s - time.monotonic()) > 0 and is_running(shelf.path(collection)):
            time.sleep(min(POLL_S, left_s))
        with shelf.reading(collection) as opened:
            return opened.status()

    def _shelf_for_new(self) -> Shelf:
        return next(shelf for shelf in self._shelves if shelf.folder == self.limits.new_in and not shelf.is_one)

    def _checked_pages(self, asked: int | None) -> int:
        most = self.limits.max_pages
        pages = min(DEFAULT_PAGES, most) if asked is None else asked
        if not 1 <= pages <= most:
            raise InputError(
                f"max_pages = {pages:,}: this server allows 1 to {most:,} pages a crawl", "Give a number in this range."
            )
        return pages

    def _check_room(self, pages: int) -> None:
        """Refuse one crawl too many, and pages beyond what all crawls may fetch."""
        running = [name for name in self.names() if is_running(self.shelf_of(name).path(name))]
        if len(running) >= self.limits.max_crawls:
            raise CollectionBusy(
                f"{self.limits.max_crawls} crawl(s) at a time are allowed, and one runs in {', '.join(running)}",
                "Wait until it ends, or stop it.",
            )
        left = self.limits.total_pages - self._granted_pages
        if pages > left:
            raise InputError(
                f"this server has {max(0, left):,} pages left to give of {self.limits.total_pages:,}",
                "Ask for fewer, or ask the user to start the server again.",
            )
