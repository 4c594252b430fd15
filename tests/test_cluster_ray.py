"""The same crawl on a Ray cluster: the same pages, however much of the cluster is lost on the way."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from warcio.archiveiterator import ArchiveIterator

import worker_contract
from conftest import hurried_web
from opilio import Collection
from opilio.classify import KeywordJudge, Model
from opilio.cli.crawl import crawl
from opilio.cluster import on_ray
from opilio.crawl import Status
from opilio.crawl.messages import WorkerSetup
from opilio.crawl.worker_pool import Workers
from opilio.errors import OpilioError, SettingsError
from opilio.lab.local_web import LocalServer
from opilio.model import Visit
from opilio.settings import Settings, override
from ray_cluster import SmallCluster, bridges, kill_one

Make = Callable[..., Collection]
START = ["http://directory.test/"]
DELAY_S = 0.03
# Which of two copies of a page is stored depends on which is met first; without these checks the outcome is one set.
SETTINGS: dict[str, Any] = {
    "duplicates.ip_path": "off", "duplicates.ip_size": "off", "duplicates.content": False,
    "duplicates.near_jaccard": 0.0, "duplicates.suffix": False, "duplicates.canonical": False,
    "fetch.host_delay_s": DELAY_S, "fetch.per_host": 1, "fetch.per_domain": 4, "fetch.backoff_s": 0.1,
    "scope.only_domains": ["directory.test", "text.python.test", "socket.python.test", "math.python.test"],
    "fetch.total_timeout_s": 3.0, "fetch.read_timeout_s": 2.0, "fetch.max_tries": 30, "fetch.host_tries": 3,
    "store.batch_s": 0.2,
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[SmallCluster]:
    """One cluster for all tests: it takes seconds to start."""
    cluster = SmallCluster()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    """The small local web, with answers that take their time: two requests at once would be seen."""
    with LocalServer(hurried_web(), latency_s=0.01, misbehaving=False) as server:
        yield server


@pytest.fixture(scope="module")
def make(server: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes a collection that is crawled by one worker in this process, unless told otherwise."""

    def make(**changes: Any) -> Collection:
        folder = tmp_path_factory.mktemp("crawl")
        (folder / "seeds.txt").write_text("\n".join(START))
        settings = SETTINGS | {"fetch.connect_to": server.connect_to, "run.workers": -1}
        settings |= {key.replace("__", "."): value for key, value in changes.items()}
        server.clear_log()
        return Collection.create(folder / "c", seeds=folder / "seeds.txt", settings=settings)

    return make


@pytest.fixture(scope="module")
def expected(make: Make) -> set[str]:
    """The pages of a crawl on one machine that is left alone."""
    collection = make(fetch__host_delay_s=0.0)
    collection.crawl()
    pages = fetched(collection)
    assert len(pages) > 90
    return pages


def fetched(collection: Collection) -> set[str]:
    return {url for (url,) in collection.sql("SELECT url FROM crawl WHERE state = 'fetched' AND outcome = 'ok'").rows}


def lost(collection: Collection) -> int:
    """How many leases came back without an answer because their worker was lost."""
    return int(collection.sql("SELECT count(*) FROM visits WHERE outcome = 'worker-lost'").rows[0][0])


def at_pages(*moments: tuple[int, Callable[[], object]]) -> Callable[[Status], None]:
    """Does something when a crawl has so many pages."""
    left = list(moments)

    def tick(status: Status) -> None:
        if left and status.pages >= left[0][0]:
            left.pop(0)[1]()

    return tick


def check(collection: Collection, server: LocalServer, expected: set[str]) -> None:
    """All pages are there, none twice, each with its record; each host was asked by one worker at a time, and slowly."""
    assert fetched(collection) == expected
    assert collection.sql("SELECT count(*) - count(DISTINCT oid) FROM pages").rows == [(0,)]
    assert collection.sql("SELECT count(*) - count(DISTINCT url) FROM crawl").rows == [(0,)]
    by_host: dict[str, list[Any]] = {}
    for request in server.requests():
        by_host.setdefault(request.host, []).append(request)
    for host, requests in by_host.items():
        for one, other in itertools.pairwise(sorted(requests, key=lambda request: request.started_s)):
            assert other.started_s >= one.ended_s + 0.9 * DELAY_S, (host, one, other)
    places = collection.sql("SELECT warc_file, warc_offset, url FROM pages JOIN crawl USING (oid)").rows
    for name, offset, url in places:
        with (collection.folder / "warc" / name).open("rb") as file:
            file.seek(offset)
            record = next(iter(ArchiveIterator(file)))
            assert record.rec_headers.get_header("WARC-Target-URI") == url


def test_a_killed_worker(make: Make, cluster: SmallCluster, server: LocalServer, expected: set[str]) -> None:
    """A crawl on two nodes finds what a crawl on one machine does, though an actor is killed; nothing of it is left."""
    collection = make()
    seen: set[int] = set()

    def wait_for_two() -> None:  # one CPU of three is the engine's
        deadline_s = time.monotonic() + 30
        while len(workers := cluster.workers()) < 2:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        assert len(workers) == 2
        seen.update(workers)

    moments = [(10, wait_for_two), (30, lambda: kill_one(cluster.workers())), (60, wait_for_two)]
    status = collection.crawl(workers=on_ray(cluster.address), on_tick=at_pages(*moments))
    assert status.reason.startswith("frontier empty")
    assert len(seen) == 3, "another took the place of the one that was killed"
    check(collection, server, expected)
    assert not bridges()
    deadline_s = time.monotonic() + 20
    while cluster.workers():
        assert time.monotonic() < deadline_s, "an actor outlived its crawl"
        time.sleep(0.1)


def test_a_model_reaches_all_workers(make: Make, cluster: SmallCluster, server: LocalServer, tmp_path: Path) -> None:
    """What is learned in the middle of a crawl is what pages are judged by afterwards, on every node."""
    bookmarks = tmp_path / "bookmarks.html"
    bookmarks.write_text(server.web.bookmarks(["statistics", "data compression"]), encoding="utf-8")
    settings = SETTINGS | {"fetch.connect_to": server.connect_to, "scope.only_domains": [], "fetch.host_delay_s": 0.0}
    settings |= {"classify.classifier": "bayes", "limits.max_pages": 60}
    collection = Collection.create(tmp_path / "c", bookmarks=bookmarks, settings=settings)
    collection.crawl(workers=on_ray(cluster.address))
    unjudged = "SELECT count(*) FROM pages WHERE relevance IS NULL OR model_version IS NULL"
    assert collection.sql(unjudged).rows == [(0,)]
    assert collection.sql("SELECT max(model_version) FROM judgements").rows[0][0] >= 1


def test_the_contract_of_workers(
    cluster: SmallCluster, small_server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers on a cluster keep what all workers promise: each lease comes back once, with its record written."""
    monkeypatch.setitem(worker_contract.MAKERS, "ray", on_ray(cluster.address))
    changes = {"fetch.connect_to": small_server.connect_to, "fetch.read_timeout_s": 1.0, "fetch.total_timeout_s": 2.0}
    model = Model(0, "keywords", KeywordJudge({0: "statistics mean"})).to_bytes()
    settings = dataclasses.asdict(override(Settings(), changes))
    setup = WorkerSetup(settings, model, str(tmp_path / "warc"), "w0")
    worker_contract.every_lease_comes_back_once("ray", setup, small_server)
    (tmp_path / "file").write_text("a file where the folder should be")
    broken = WorkerSetup(settings, model, str(tmp_path / "file"), "w0")

    async def use(workers: Workers) -> list[Visit]:
        workers.submit(worker_contract.page_leases(small_server, 2))
        return await worker_contract.collect(workers, 2)

    visits = worker_contract.run("ray", broken, use)
    assert all(str(tmp_path / "file") in visit.fatal for visit in visits)


def test_no_cluster(make: Make) -> None:
    """An address where no cluster answers, or that is none, is an error before anything is asked for."""
    collection = make()
    with pytest.raises(OpilioError, match=r"no Ray cluster can be reached at 127\.0\.0\.1:9") as caught:
        collection.crawl(workers=on_ray("127.0.0.1:9"))
    assert "ray start" in caught.value.hint
    with pytest.raises(SettingsError, match="not the address"):
        on_ray("somewhere")
    assert collection.sql("SELECT count(*) FROM visits").rows == [(0,)]


@pytest.mark.parametrize("ended_by", ["SIGINT", "opilio stop"])
def test_a_crawl_can_be_ended_while_it_connects(make: Make, ended_by: str) -> None:
    """Where something answers that is no cluster, Ctrl-C and `opilio stop` end the crawl at once, and all of it."""
    collection = make()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "opilio", "crawl", str(collection.folder), "--ray", address, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            with silent.accept()[0]:  # the bridge tries it out, then Ray begins
                [bridge] = bridges(process.pid)
                asked_s = time.monotonic()
                if ended_by == "SIGINT":
                    process.send_signal(signal.SIGINT)
                else:
                    assert collection.stop()
                out, errors = process.communicate(timeout=60)
                took_s = time.monotonic() - asked_s
        finally:
            process.kill()
    assert process.returncode == (130 if ended_by == "SIGINT" else 0), errors.decode()
    assert ended_by in json.loads(out.splitlines()[-1])["reason"]
    assert took_s < 5, "Ray would be waited for much longer"
    assert not Path(f"/proc/{bridge}").exists()
    assert "Traceback" not in errors.decode()


def test_no_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ray is not installed, the command says how to install it, and makes nothing."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://a.test/")
    result = CliRunner().invoke(crawl, [str(tmp_path / "c"), "--seeds", str(seeds), "--ray", "auto"])
    assert isinstance(result.exception, SettingsError)
    assert "pip install 'opilio[cluster]'" in result.exception.hint
    assert not (tmp_path / "c").exists()


# -- what takes longer


@pytest.mark.slow
def test_a_lost_node(make: Make, cluster: SmallCluster, server: LocalServer, expected: set[str]) -> None:
    """A node that is lost takes its workers along; one that joins later gets workers."""
    collection = make(fetch__host_delay_s=20 * DELAY_S)
    losing = at_pages((20, cluster.lose_node), (30, cluster.start_node))
    seen: list[int] = []

    def tick(status: Status) -> None:
        losing(status)
        if status.pages > 35:
            seen.append(len(cluster.workers()))

    collection.crawl(workers=on_ray(cluster.address), on_tick=tick)
    check(collection, server, expected)
    assert max(seen) == 2


@pytest.mark.slow
def test_a_killed_bridge(make: Make, cluster: SmallCluster, server: LocalServer, expected: set[str]) -> None:
    """The process between engine and cluster is started again."""
    collection = make()
    collection.crawl(workers=on_ray(cluster.address), on_tick=at_pages((40, lambda: kill_one(bridges()))))
    check(collection, server, expected)


def start_crawl(collection: Collection, cluster: SmallCluster) -> subprocess.Popen[bytes]:
    """`opilio crawl FOLDER --ray ADDRESS` as a user runs it; returns when it takes questions."""
    command = [sys.executable, "-m", "opilio", "crawl", str(collection.folder), "--ray", cluster.address, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline_s = time.monotonic() + 60
    while not (collection.folder / "engine.json").exists() and process.poll() is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    return process


def wait_for_pages(process: subprocess.Popen[bytes], collection: Collection, pages: int) -> None:
    """Return when a running crawl has so many pages."""
    deadline_s = time.monotonic() + 60
    while collection.status().pages < pages:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def end_crawl(process: subprocess.Popen[bytes]) -> None:
    """Wait for a crawl to end with all that can be had."""
    try:
        out, errors = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 0, errors.decode()
    assert json.loads(out.splitlines()[-1])["reason"].startswith("frontier empty")


def kill_engine(process: subprocess.Popen[bytes], collection: Collection) -> None:
    process.kill()
    process.communicate()
    (collection.folder / "engine.json").unlink(missing_ok=True)


@pytest.mark.slow
def test_a_restarted_head(make: Make, cluster: SmallCluster, server: LocalServer, expected: set[str]) -> None:
    """The crawl waits for a cluster that is gone, and goes on when it is back."""
    collection = make(run__workers=0)
    process = start_crawl(collection, cluster)
    wait_for_pages(process, collection, 30)
    cluster.restart_head()
    end_crawl(process)
    check(collection, server, expected)


@pytest.mark.slow
def test_a_killed_engine(make: Make, cluster: SmallCluster, server: LocalServer, expected: set[str]) -> None:
    """After kill -9 of the engine nothing asks any more; the next crawl goes on, with what reached the archive."""
    collection = make(run__workers=0)
    process = start_crawl(collection, cluster)
    wait_for_pages(process, collection, 30)
    kill_engine(process, collection)
    deadline_s = time.monotonic() + 20
    while cluster.workers():
        assert time.monotonic() < deadline_s, "an actor outlived its engine"
        time.sleep(0.1)
    before = len(fetched(collection))
    assert 0 < before < len(expected)
    end_crawl(start_crawl(collection, cluster))
    check(collection, server, expected)
    asked = Counter((request.host, request.path) for request in server.requests() if request.path != "/robots.txt")
    assert sum(count - 1 for count in asked.values()) <= 8, "only what was on its way is asked for again"


@pytest.mark.slow
def test_twenty_kills(make: Make, cluster: SmallCluster, server: LocalServer, expected: set[str]) -> None:
    """Workers, nodes, bridge and engine killed in a random order: the pages are those of a crawl left alone."""
    rng = random.Random(20)
    collection = make(run__workers=0, fetch__host_delay_s=20 * DELAY_S)
    process = start_crawl(collection, cluster)
    for _ in range(20):
        time.sleep(rng.uniform(0.5, 3.0))
        what = rng.choice(["worker", "node", "bridge", "engine"])
        if what == "engine":
            kill_engine(process, collection)
            process = start_crawl(collection, cluster)
        elif what == "node":
            cluster.replace_node()
        else:
            kill_one(cluster.workers() if what == "worker" else bridges(process.pid))
    assert process.poll() is None, "there was something left to do after each kill"
    end_crawl(process)
    check(collection, server, expected)
    assert lost(collection) > 0
