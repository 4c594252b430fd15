"""Crawls in the background of a test, and what tests wait for while they run."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from opilio import Collection
from opilio.crawl import Status
from opilio.crawl.operations.client import NOTE

HANGS_S = 60.0
SEEDS = ["http://directory.test/", "http://text.python.test/", "http://math.python.test/"]
STEERED = "text.python.test"
ORDERLESS = {
    "duplicates__ip_path": "off", "duplicates__ip_size": "off", "duplicates__content": False,
    "duplicates__near_jaccard": 0.0, "duplicates__suffix": False, "duplicates__canonical": False,
}  # fmt: skip
"""Which of two copies of a page is stored depends on which is fetched first; without these checks the order does not
change what is found."""
PLAIN = {
    "scope.only_domains": ["directory.test", "text.python.test", "math.python.test"],
    **{name.replace("__", "."): value for name, value in ORDERLESS.items()},
}
"""A part of the local web, of which every crawl finds the same."""
LEARNING = {
    "learn__phases": True,
    "learn__learning_pages": 40,
    "learn__above_mean": False,
    "learn__synchronous": True,
    "classify__classifier": "svm",
    "classify__spaces": ["terms"],
    "fetch__in_flight": 4,
}


def ends(work: Callable[[], Any]) -> Any:
    """What comes of work that may hang, in another thread; raises what it raises."""
    found: dict[str, Any] = {}

    def run() -> None:
        try:
            found["made"] = work()
        except BaseException as error:
            found["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANGS_S)
    assert not thread.is_alive(), "it hangs"
    if "error" in found:
        raise found["error"]
    return found["made"]


def crawl_beside(collection: Collection) -> threading.Thread:
    """Crawl in another thread."""
    thread = threading.Thread(target=collection.crawl)
    thread.start()
    note = collection.folder / NOTE
    until_s = time.monotonic() + 20
    while not note.exists():  # asking before would open the database under the crawl's feet
        assert time.monotonic() < until_s
        time.sleep(0.02)
    return thread


def wait_until(is_so: Callable[[], object], timeout_s: float = 30.0) -> None:
    """Wait until something is so."""
    until_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def wait_for(collection: Collection, is_so: Callable[[], bool], timeout_s: float = 90.0) -> None:
    """Wait until something is so of a crawl that runs."""
    until_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < until_s, collection.status()
        time.sleep(0.05)


@contextlib.contextmanager
def running(collection: Collection, pages: int = 10) -> Iterator[tuple[Collection, list[Status]]]:
    """A crawl in another thread, from so many pages on; it is stopped in the end, unless it ended."""
    ended: list[Status] = []
    thread = threading.Thread(target=lambda: ended.append(collection.crawl()))
    thread.start()
    try:
        wait_for(collection, (collection.folder / "engine.json").exists, 20)
        other = Collection(collection.folder)
        wait_for(other, lambda: other.status().pages >= pages, 30)
        yield other, ended
        other.stop()
    finally:
        thread.join(60)
    assert ended


def paused(collection: Collection) -> None:
    """Pause, and wait for what is under way."""
    assert collection.pause()
    wait_for(collection, lambda: collection.status().in_flight == 0, 20)


def phases_of(collection: Collection) -> list[str]:
    """What was said of phases, in order."""
    return [text for (text,) in collection.sql("SELECT text FROM notices WHERE kind = 'phase' ORDER BY rowid").rows]
