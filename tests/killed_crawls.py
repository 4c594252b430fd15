"""Crawls that are killed at some moment, and what they have stored by then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import crawl_killed_process
from opilio import Collection
from running_crawls import ORDERLESS
from warm_processes import context

KILLABLE = {
    **ORDERLESS, "fetch__host_delay_s": 0.06, "store__batch_s": 0.2, "fetch__per_domain": 4, "run__workers": 1,
}  # fmt: skip
"""A crawl that commits often, and takes long enough to be killed in the middle."""


def kill_a_crawl(collection: Collection, after_s: float, is_time: Callable[[], bool] = lambda: True) -> None:
    """Crawl in a process of its own, and kill it with its worker so long after the crawl began and it `is_time`."""
    process = context.Process(target=crawl_killed_process.crawl, args=(str(collection.folder),))
    process.start()
    assert process.pid is not None
    note = collection.folder / "engine.json"
    deadline_s = time.monotonic() + 20
    while not note.exists() or not is_time():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    time.sleep(after_s)
    os.killpg(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL, "it ended by itself"
    note.unlink()


def fetched(collection: Collection) -> set[str]:
    return {url for (url,) in collection.sql("SELECT url FROM crawl WHERE state = 'fetched' AND outcome = 'ok'").rows}
