"""Reading a collection: by the crawl that runs in it, or from the database when none does."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from opilio.crawl.control import ASK_TIMEOUT_S, ask
from opilio.crawl.lessons import teach
from opilio.crawl.reads import reader
from opilio.errors import CollectionBusy, InputError
from opilio.model import normalize
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.database import reading_together

BUSY_WAIT_S = 3.0  # another process that reads is done sooner, and a crawl that starts may answer by then
BUSY_POLL_S = 0.05
T = TypeVar("T")


class Askable:
    """Base of what `Collection` is made of."""

    folder: Path
    settings: Settings

    def _store(self, *, threads: int = 0) -> Store:
        """The database, to change it; one that another process has open for a moment is waited for."""
        memory_bytes = self.settings.store.memory_bytes
        return _patiently(lambda: Store.open(self.folder, memory_bytes=memory_bytes, threads=threads))

    def _ask_or_open(
        self, do: str, here: Callable[[Store], Any], timeout_s: float, *, read_only: bool, **request: Any
    ) -> Any:
        """Have the crawl that runs do something, or do it here. A crawl may begin or end between the two."""

        def once() -> Any:
            answer = ask(self.folder, do, timeout_s=timeout_s, **request)
            if answer is not None:
                return answer
            with self._opened(read_only=read_only) as store:
                return here(store)

        return _patiently(once)

    def _opened(self, *, read_only: bool) -> AbstractContextManager[Store]:
        memory_bytes = self.settings.store.memory_bytes
        if read_only:
            return reading_together(self.folder, memory_bytes=memory_bytes)
        return Store.open(self.folder, memory_bytes=memory_bytes)

    def _read(self, what: str, timeout_s: float = ASK_TIMEOUT_S, /, **request: Any) -> Any:
        """Read something that `reads.READS` names."""
        return self._ask_or_open(
            "read", lambda store: reader(what)(store, **request), timeout_s, read_only=True, what=what, asked=request
        )

    def _teach(self, what: str, **request: Any) -> Any:
        """Change what is taught: by the crawl that runs, which retrains at once, or in the database."""

        def here(store: Store) -> dict[str, Any]:
            return {"changed": teach(store, what, **request)}

        return self._ask_or_open("teach", here, ASK_TIMEOUT_S, read_only=False, what=what, **request)["changed"]


def _patiently(act: Callable[[], T]) -> T:
    """Do something, again and again while another process has the database open, for a moment at most."""
    deadline_s = time.monotonic() + BUSY_WAIT_S
    while True:
        try:
            return act()
        except CollectionBusy:
            if time.monotonic() >= deadline_s:
                raise
        time.sleep(BUSY_POLL_S)


def address_of(text: str, hint: str) -> str:
    """What a user gave for a URL, in normal form; `http://` may be left out. `hint` says what to give instead."""
    url = normalize(text if "://" in text else f"http://{text}")
    if not url:
        raise InputError(f"{text!r} is not a URL", hint)
    return url
