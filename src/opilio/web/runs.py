"""Crawls begun by the portal: processes of their own, which go on when the portal ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from opilio.crawl.control import is_running
from opilio.errors import CollectionBusy, CollectionError

LOG = "crawl.log"
START_S = 60.0  # a large collection is read first
POLL_S = 0.05
_STARTED: list[subprocess.Popen[bytes]] = []


def start_crawl(folder: Path) -> None:
    """Begin a crawl, or go on with one; returns when it answers. What it prints goes to crawl.log in the folder."""
    _STARTED[:] = [process for process in _STARTED if process.poll() is None]
    if is_running(folder):
        raise CollectionError("a crawl runs here already", "Watch it, or stop it first.")
    command = [sys.executable, "-m", "opilio", "crawl", str(folder), "--quiet"]
    with (folder / LOG).open("ab") as log:
        start = log.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    _STARTED.append(process)
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        if is_running(folder):
            return
        code = process.poll()
        if code == 0:
            return  # there was little to do
        if code is not None:
            said = (folder / LOG).read_bytes()[start:].decode("utf-8", "replace").strip().splitlines()
            errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
            hints = [line.removeprefix("hint: ") for line in said if line.startswith("hint: ")]
            raise CollectionError((errors or said or ["the crawl ended at once"])[-1], (hints or [""])[-1])
        time.sleep(POLL_S)
    raise CollectionBusy("the crawl has begun, but does not answer yet", f"Look at {folder / LOG}.")
