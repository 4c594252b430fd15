"""Where operations run: with an open database (`Context`), or inside a running crawl (`LiveCrawl`)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from opilio.errors import CollectionBusy, InputError
from opilio.model import normalize
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.export import STDOUT

if TYPE_CHECKING:  # it takes a while to import
    from opilio.crawl.engine import Engine

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """A collection, for code in the process that has its database open."""

    folder: Path
    settings: Settings
    working_folder: Path
    """Of the caller. Relative paths in arguments are relative to it."""
    opened: Store | None = None
    engine: Engine | None = None
    """The running crawl, if there is one."""

    @property
    def store(self) -> Store:
        """The database. An operation that only steers has none unless a crawl runs."""
        assert self.opened is not None, "an operation that steers needs no database"
        return self.opened

    def output_file(self, target: Path | str) -> str:
        """The file that an export of the caller goes to; `-` is standard output, which a running crawl cannot use."""
        if self.engine is None:
            return str(target)
        if str(target) == STDOUT:
            raise CollectionBusy(f"{self.folder}: a running crawl cannot write to your standard output", "Name a file.")
        return str(self.working_folder / target)


@dataclass(frozen=True)
class LiveCrawl:
    """A running crawl, for operations that run on its loop."""

    engine: Engine
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while training data is changed: a change depends on what there is, and two at once would miss each other."""
    receiving: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while URLs of another collection are taken: what two send at once is taken once."""

    def context(self, working_folder: Path) -> Context:
        """What an operation is given that runs in a thread of the crawl's process."""
        engine = self.engine
        return Context(Path(engine.folder), engine.settings, working_folder, engine.store, engine)

    async def read(self, function: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of the database in a thread, once all that was found so far is in it."""
        await self.engine.commit(wait=True)
        return await asyncio.to_thread(functools.partial(function, self.engine.store, *args, **kwargs))


def address_of(text: str, hint: str = "Give the address of a page, such as http://example.org/page.") -> str:
    """The normal form of a URL that a user gave; `http://` may be left out. `hint` says what is expected."""
    url = normalize(text if "://" in text else f"http://{text}")
    if not url:
        raise InputError(f"{text!r} is not a URL", hint)
    return url
