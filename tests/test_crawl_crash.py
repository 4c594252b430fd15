"""kill -9 at any moment: nothing acknowledged is lost, nothing is asked for twice but what was under way."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from conftest import MakeCollection
from killed_crawls import KILLABLE, fetched, kill_a_crawl
from opilio import Collection
from opilio.crawl.worker_pool import NAME
from opilio.lab.local_web import LocalServer

START = ["http://directory.test/"]


def crawl_in_a_process(collection: Collection) -> "subprocess.Popen[bytes]":
    """`opilio crawl FOLDER` as a user runs it."""
    command = [sys.executable, "-m", "opilio", "crawl", str(collection.folder), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_in_a_row(make_collection: MakeCollection, small_server: LocalServer, kills: int) -> None:
    """A crawl killed again and again, and resumed, ends with the pages of a crawl that was left alone."""
    undisturbed = make_collection(START, name="undisturbed", **{**KILLABLE, "fetch__host_delay_s": 0.0})
    undisturbed.crawl()
    expected = fetched(undisturbed)
    assert len(expected) > 250

    collection = make_collection(START, name="killed", **KILLABLE)
    rng = random.Random(20)
    acknowledged: set[str] = set()
    for _ in range(kills):
        kill_a_crawl(collection, after_s=rng.uniform(0.0, 0.6))
        now = fetched(collection)
        assert acknowledged <= now, "a committed page was lost"
        acknowledged = now
    assert acknowledged < expected, "there was something left to do after each kill"
    process = crawl_in_a_process(collection)
    try:
        out, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, errors.decode()
    assert json.loads(out.splitlines()[-1])["reason"].startswith("frontier empty")
    assert fetched(collection) == expected
    assert collection.sql("SELECT count(*) - count(DISTINCT oid) FROM pages").rows == [(0,)]
    assert collection.sql("SELECT count(*) - count(DISTINCT oid), count(*) - count(DISTINCT url) FROM crawl").rows == [
        (0, 0)
    ]
    asked = Counter((r.host, r.path) for r in small_server.requests() if r.path != "/robots.txt" and r.status == 200)
    # Asked for twice: only what was on the wire, or not yet in a WARC file, when a kill came; at most per_domain of it.
    again = sum(count - 1 for count in asked.values())
    assert again <= kills * 8, again


def test_a_dead_worker_costs_its_time_only(make_collection: MakeCollection, tmp_path: Path) -> None:
    """A worker process that is killed is started again, and the crawl still finds every page."""
    collection = make_collection(START, **{**KILLABLE, "run__workers": 2})
    process = crawl_in_a_process(collection)
    deadline_s = time.monotonic() + 30
    killed = 0
    while killed < 2 and time.monotonic() < deadline_s:
        time.sleep(0.2)
        children = subprocess.run(["pgrep", "-P", str(process.pid), NAME], capture_output=True, check=False)
        pids = [int(pid) for pid in children.stdout.split()]
        if pids and (collection.folder / "engine.json").exists():
            os.kill(pids[killed % len(pids)], signal.SIGKILL)
            killed += 1
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    assert killed == 2
    assert json.loads(out.splitlines()[-1])["reason"].startswith("frontier empty")
    assert len(fetched(collection)) > 250
