"""One contract for all workers: every lease that was submitted comes back as exactly one visit, whatever happens."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvloop

from conftest import MakeCollection
from opilio.classify import KeywordJudge, Model
from opilio.crawl.messages import visits_decoder
from opilio.crawl.worker import WorkerSetup
from opilio.crawl.worker_pool import InlineWorkers, ProcessWorkers, Program, Workers, _Sender
from opilio.errors import OpilioError
from opilio.lab.local_web import LocalServer
from opilio.model import Fetch, Lease, LeaseKind, Outcome, Visit
from opilio.process import frame
from opilio.settings import Settings, override
from worker_contract import MAKERS, WAIT_S, collect, every_lease_comes_back_once, page_leases, run

KINDS = tuple(MAKERS)


@pytest.fixture
def setup(small_server: LocalServer, tmp_path: Path) -> WorkerSetup:
    """Workers that reach the small local web, and give up on a slow page soon."""
    changes = {"fetch.connect_to": small_server.connect_to, "fetch.read_timeout_s": 1.0, "fetch.total_timeout_s": 2.0}
    settings = dataclasses.asdict(override(Settings(), changes))
    model = Model(0, "keywords", KeywordJudge({0: "statistics mean"})).to_bytes()
    return WorkerSetup(settings, model, str(tmp_path / "warc"), "w0")


def children() -> set[int]:
    """Worker processes of this process that are alive."""
    command = ["pgrep", "-P", str(os.getpid()), "-f", "opilio.crawl.worker_pool:work"]
    return set(map(int, subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_lease_comes_back_once(kind: str, setup: WorkerSetup, small_server: LocalServer) -> None:
    """Pages, hosts, sitemaps, errors of every sort: one visit for each lease, with the lease in it."""
    every_lease_comes_back_once(kind, setup, small_server)


@pytest.mark.parametrize("kind", KINDS)
def test_no_lease_is_lost_between_calls(kind: str, setup: WorkerSetup, small_server: LocalServer) -> None:
    """Leases given in many small pieces, visits asked for without patience: the sums agree."""
    leases = page_leases(small_server, 80)

    async def use(workers: Workers) -> list[Visit]:
        visits: list[Visit] = []
        for lease in leases:
            workers.submit([lease])
            visits += await workers.visits(0.0)
        return visits + await collect(workers, len(leases) - len(visits))

    assert Counter(visit.lease.oid for visit in run(kind, setup, use)) == Counter(range(80))


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_that_cannot_be_analysed(
    kind: str, setup: WorkerSetup, small_server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analyzer that raises costs the page it raised for: `unreadable`, with the reason; the others are stored."""
    poison = sorted(small_server.web.pages)[3]
    patch = (
        "from opilio.analyze import Analyzer\n"
        "analyze = Analyzer.analyze\n"
        "def raise_for_one(self, body, content_type, url, *rest):\n"
        f"    if url == {poison!r}:\n"
        "        raise RecursionError('too deep')\n"
        "    return analyze(self, body, content_type, url, *rest)\n"
        "Analyzer.analyze = raise_for_one\n"
    )
    if kind == "inline":
        from opilio.analyze import Analyzer

        monkeypatch.setattr(Analyzer, "analyze", Analyzer.analyze)  # put back in the end
        exec(patch, {})
    else:  # a process of Python imports this module by itself when it starts
        (tmp_path / "sitecustomize.py").write_text(patch)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    leases = page_leases(small_server, 8)

    async def use(workers: Workers) -> list[Visit]:
        workers.submit(leases)
        return await collect(workers, len(leases))

    outcomes = {visit.lease.url: visit.fetch for visit in run(kind, setup, use)}
    assert outcomes[poison].outcome is Outcome.UNREADABLE
    assert "RecursionError: too deep" in outcomes[poison].detail
    assert sum(fetch.outcome is Outcome.OK for fetch in outcomes.values()) >= 6


@pytest.mark.parametrize("kind", KINDS)
def test_close_leaves_nothing_behind(kind: str, setup: WorkerSetup, small_server: LocalServer) -> None:
    """Closing with requests under way ends every process and every task, within seconds."""

    async def use(workers: Workers) -> float:
        assert len(children()) == {"one process": 1, "two processes": 2}.get(kind, 0)
        workers.submit([Lease(1, "http://slow.test/"), *page_leases(small_server, 20)])
        await workers.visits(1.0)
        return time.monotonic()

    began_s = run(kind, setup, use)
    assert time.monotonic() - began_s < 5
    assert children() == set()


def test_what_cannot_be_archived_ends_the_crawl(setup: WorkerSetup, small_server: LocalServer, tmp_path: Path) -> None:
    """A WARC folder that cannot be written is told as fatal, for no page may be stored without its record."""
    (tmp_path / "warc").write_text("a file where the folder should be")

    async def use(workers: Workers) -> list[Visit]:
        workers.submit(page_leases(small_server, 2))
        return await collect(workers, 2)

    for kind in KINDS:
        visits = run(kind, setup, use)
        assert all(str(tmp_path / "warc") in visit.fatal for visit in visits)


# -- processes that die


@pytest.mark.parametrize("kind", ["one process", "two processes"])
def test_killed_processes_give_their_leases_back(kind: str, setup: WorkerSetup, small_server: LocalServer) -> None:
    """kill -9 again and again: each lease comes back once, visited or as `worker-lost`, and work goes on after."""
    leases = page_leases(small_server, 200)

    async def use(workers: Workers) -> tuple[list[Visit], int]:
        visits: list[Visit] = []
        kills = 0
        for start in range(0, 200, 20):
            workers.submit(leases[start : start + 20])
            visits += await workers.visits(0.02)
            if start % 60 == 0:
                for pid in children():
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
        visits += await collect(workers, len(leases) - len(visits))
        for attempt in range(5):  # a process may be dead without our knowing it yet
            workers.submit([Lease(5000 + attempt, leases[0].url)])
            [last] = await collect(workers, 1)
            if last.fetch.outcome is Outcome.OK:
                break
        assert last.fetch.outcome is Outcome.OK, "a new process took the place of the killed one"
        assert await workers.visits(0.3) == []
        return visits, kills

    visits, kills = run(kind, setup, use)
    assert kills >= 4
    assert Counter(visit.lease for visit in visits) == Counter(leases)
    outcomes = Counter(visit.fetch.outcome for visit in visits)
    assert outcomes[Outcome.WORKER_LOST] > 0
    assert set(outcomes) <= {Outcome.OK, Outcome.REDIRECT, Outcome.WORKER_LOST}, outcomes
    assert all(visit.fetch.started_s > 0 for visit in visits)
    assert children() == set()


def test_processes_that_die_at_once_end_the_crawl(
    setup: WorkerSetup, small_server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When worker processes cannot live, there is an error with a hint after some tries, not an endless loop."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'opilio.crawl.worker_pool:work' in sys.orig_argv: os._exit(3)"
    )
    monkeypatch.syspath_prepend(str(tmp_path))  # a child imports from where we do

    async def use(workers: Workers) -> None:
        workers.submit(page_leases(small_server, 5))
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            await workers.visits(0.2)

    with pytest.raises(OpilioError, match="died") as caught:
        run("one process", setup, use)
    assert "run.workers=-1" in caught.value.hint
    assert children() == set()


def test_leases_of_a_lost_process_may_be_held_back(setup: WorkerSetup, small_server: LocalServer) -> None:
    """Where requests may go on after their process has ended, leases come back only when they are over, and once."""

    async def use() -> tuple[list[Visit], float]:
        workers = ProcessWorkers(setup, 1, Program(hold_s=1.0))
        await workers.start()
        try:
            workers.submit([Lease(1, "http://slow.test/")])
            [pid] = children()
            os.kill(pid, signal.SIGKILL)
            began_s = time.monotonic()
            await asyncio.sleep(0.3)
            later = page_leases(small_server, 3)[2]
            workers.submit([later])
            visits = await collect(workers, 1)
            waited_s = time.monotonic() - began_s
            return visits + await collect(workers, 1), waited_s
        finally:
            await workers.close()

    [first, second], waited_s = asyncio.run(use())
    assert (first.lease.oid, first.fetch.outcome) == (1, Outcome.WORKER_LOST)
    assert waited_s >= 1.0
    assert (second.lease.oid, second.fetch.outcome) == (2, Outcome.OK), "given while it was held back: not lost"


def test_leases_for_a_process_that_has_just_died(setup: WorkerSetup, small_server: LocalServer) -> None:
    """Whatever the moment at which a process dies, giving it work fails nobody, and every lease comes back."""

    async def use() -> list[Visit]:
        workers = ProcessWorkers(setup, 1)
        await workers.start()
        try:
            await asyncio.sleep(0.2)
            [pid] = children()
            os.kill(pid, signal.SIGKILL)
            leases = page_leases(small_server, 40)
            for lease in leases:
                workers.submit([lease])
                workers.send_link_words()
                await asyncio.sleep(0.001)
            return await collect(workers, len(leases))
        finally:
            await workers.close()

    visits = uvloop.run(use())
    assert {visit.fetch.outcome for visit in visits} <= {Outcome.WORKER_LOST, Outcome.OK}
    assert len({visit.lease.oid for visit in visits}) == len(visits)


def test_a_process_that_cannot_be_ready(setup: WorkerSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process says is wrong when it starts ends the start with that, and its remedy."""
    (tmp_path / "grumpy.py").write_text(
        "from opilio.crawl.messages import encoder\n"
        "def complain(channel, *given):\n"
        "    assert given == ('one', 'two')\n"
        "    channel.send(encoder.encode(('no cluster', 'start one')))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    async def use() -> None:
        await ProcessWorkers(setup, 1, Program("grumpy:complain", ("one", "two"), greets=True)).start()

    with pytest.raises(OpilioError, match="no cluster") as caught:
        asyncio.run(use())
    assert caught.value.hint == "start one"
    assert children() == set()


@pytest.mark.parametrize(("under_way", "messages"), [(1, 1), (3, 1), (40, 2)])
def test_visits_that_end_together_are_sent_together(under_way: int, messages: int) -> None:
    """Visits wait for those that end soon after them, but not when nothing else is under way."""
    sent: list[bytes] = []
    visit = Visit(Lease(1, "http://a.test/"), Fetch(Outcome.OK))

    async def use() -> None:
        sender = _Sender(SimpleNamespace(write=sent.append))  # type: ignore[arg-type]
        sender.under_way = under_way
        for _ in range(under_way):
            sender.add(visit)

    asyncio.run(use())
    assert sum(len(visits_decoder.decode(message[len(frame(b"")) :])) for message in sent) == under_way
    assert len(sent) == messages


def test_workers_do_not_outlive_their_engine(setup: WorkerSetup, small_server: LocalServer, tmp_path: Path) -> None:
    """When the engine is killed, its worker processes end by themselves."""
    seeds = tmp_path / "s.txt"
    seeds.write_text("http://directory.test/")
    connect_to = ", ".join(f'"{host}" = "{to}"' for host, to in small_server.connect_to.items())
    engine = subprocess.Popen(
        [sys.executable, "-m", "opilio", "crawl", str(tmp_path / "c"), "--seeds", str(seeds), "--workers", "2", "-q",
         "--set", f"fetch.connect_to={{ {connect_to} }}"],
    )  # fmt: skip
    workers: list[str] = []
    deadline_s = time.monotonic() + WAIT_S
    while len(workers) < 2 and time.monotonic() < deadline_s:
        found = subprocess.run(["pgrep", "-P", str(engine.pid)], capture_output=True, text=True, check=False)
        workers = found.stdout.split()
        time.sleep(0.05)
    assert len(workers) == 2
    engine.kill()
    engine.wait()
    while any(is_running(pid) for pid in workers):
        assert time.monotonic() < deadline_s, "a worker process is still there"
        time.sleep(0.05)


def is_running(pid: str) -> bool:
    """Whether a process of ours has not ended yet."""
    try:
        return b"opilio" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


class ForgetfulWorkers(InlineWorkers):
    """Loses the first visits to every robots.txt and every sitemap, as if its processes had been killed."""

    def __init__(self, setup: WorkerSetup) -> None:
        super().__init__(setup)
        self.lost: Counter[str] = Counter()

    def submit(self, leases: Sequence[Lease]) -> None:
        lost = [lease for lease in leases if lease.kind is not LeaseKind.PAGE and self.lost[lease.url] < 4]
        self.lost.update(lease.url for lease in lost)
        self._inbox.put([Visit(lease, Fetch(Outcome.WORKER_LOST, started_s=time.time())) for lease in lost])
        super().submit([lease for lease in leases if lease not in lost])


def test_lost_workers_are_no_fault_of_the_host(make_collection: MakeCollection, small_server: LocalServer) -> None:
    """A host whose robots.txt or sitemap is lost with one worker after another is met again, not given up as bad."""
    host = next(url for url in small_server.web.files if url.endswith("sitemap.xml")).split("/")[2]
    collection = make_collection(
        [f"http://{host}/"], robots__sitemaps=True, limits__max_pages=10, fetch__backoff_s=0.01
    )
    status = collection.crawl(workers=ForgetfulWorkers)
    assert status.pages == 10
    assert status.bad_hosts == 0
    assert status.counters["sitemap urls"] > 0


class TroubledWorkers(InlineWorkers):
    """Answers the first two requests for every sitemap with a passing failure."""

    def __init__(self, setup: WorkerSetup) -> None:
        super().__init__(setup)
        self.failed: Counter[str] = Counter()

    def submit(self, leases: Sequence[Lease]) -> None:
        failed = [lease for lease in leases if lease.kind is LeaseKind.SITEMAP and self.failed[lease.url] < 2]
        self.failed.update(lease.url for lease in failed)
        self._inbox.put([
            Visit(lease, Fetch((Outcome.BROKEN, Outcome.SERVER_ERROR)[self.failed[lease.url] - 1], started_s=time.time()))
            for lease in failed
        ])  # fmt: skip
        super().submit([lease for lease in leases if lease not in failed])


@pytest.mark.parametrize(("tries", "is_read"), [(3, True), (2, False)])
def test_a_sitemap_is_tried_again(
    make_collection: MakeCollection, small_server: LocalServer, tries: int, is_read: bool
) -> None:
    """A sitemap whose request fails in a way that may pass is requested again, as often as a page would be."""
    host = next(url for url in small_server.web.files if url.endswith("sitemap.xml")).split("/")[2]
    collection = make_collection(
        [f"http://{host}/"],
        robots__sitemaps=True,
        scope__only_domains=[host],
        fetch__backoff_s=0.01,
        fetch__max_tries=tries,
    )
    status = collection.crawl(workers=TroubledWorkers)
    visits = collection.sql("SELECT count(*) FROM visits WHERE kind = 'sitemap' GROUP BY oid").rows
    assert [count for (count,) in visits] == [tries]
    assert (status.counters.get("sitemap urls", 0) > 0) is is_read
