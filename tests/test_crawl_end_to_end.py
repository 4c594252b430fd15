"""Whole crawls of the local web over real HTTP."""

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from conftest import MakeCollection, MakeTaught, hurried_web
from opilio import Collection
from opilio.crawl import Status
from opilio.crawl.engine import Engine
from opilio.crawl.phases import Phases
from opilio.errors import CollectionBusy, CollectionError, InputError, QueryError, SettingsError
from opilio.lab.local_web import LocalServer, Request
from opilio.model import Outcome, Phase
from opilio.store import Store
from running_crawls import LEARNING, ends

START = ["http://directory.test/"]
PLAIN = {"duplicates__" + name: value for name, value in
         {"ip_path": "off", "ip_size": "off", "content": False, "near_jaccard": 0.0, "suffix": False, "canonical": False}.items()}  # fmt: skip


def pages_asked(server: LocalServer) -> list[Request]:
    return [request for request in server.requests() if not request.path.endswith("/robots.txt")]


def stored_urls(collection: Collection) -> set[str]:
    return {url for (url,) in collection.sql("SELECT url FROM collection").rows}


@pytest.mark.parametrize("workers", [-1, 2])
def test_every_page_is_found_once(workers: int, make_collection: MakeCollection, small_server: LocalServer) -> None:
    """With duplicate checks off, a crawl stores exactly the pages of the web that robots and meta tags leave open."""
    web = small_server.web
    collection = make_collection(START, run__workers=workers, **PLAIN)
    status = collection.crawl()
    assert status.reason.startswith("frontier empty")
    private = {url for url in web.pages if "/private/" in url}
    stored = stored_urls(collection)
    trouble = {url for url in stored if url not in web.pages}
    assert all(url.split("/")[2] not in web.hosts for url in trouble)
    missing = set(web.pages) - stored - web.noindex - private
    nofollow_only = {url for url in missing if not collection.sql(f"SELECT 1 FROM crawl WHERE url = '{url}'").rows}
    assert missing == nofollow_only
    assert len(stored - trouble) > 240
    asked = Counter((request.host, request.path) for request in pages_asked(small_server))
    assert max(asked.values()) == 1
    assert status.pages == len(stored)


def test_politeness_seen_from_the_server(make_collection: MakeCollection) -> None:
    """The server's own log: never more than two requests on a host or five in a domain, and no forbidden path."""
    with LocalServer(hurried_web(), latency_s=0.02, misbehaving=False) as server:
        make_collection(START, run__workers=2, fetch__connect_to=server.connect_to).crawl()
        log = server.requests()
    assert len(log) > 250
    assert max(request.in_flight for request in log) == 2
    domains = Counter()
    for at_s, change, host in sorted(
        [(r.started_s, 1, r.host) for r in log] + [(r.ended_s, -1, r.host) for r in log], key=lambda e: (e[0], e[1])
    ):
        domains[".".join(host.split(".")[-2:])] += change
        assert max(domains.values()) <= 5, at_s
    assert not [request for request in log if "/private/" in request.path]
    first_of_host: dict[str, str] = {}
    for request in log:
        first_of_host.setdefault(request.host, request.path)
    assert set(first_of_host.values()) == {"/robots.txt"}
    assert all(request.user_agent.startswith("Opilio/") for request in log)


def test_delays_seen_from_the_server(make_collection: MakeCollection) -> None:
    """With a delay set, and with a Crawl-delay asked for, the pause between two requests to a host is never shorter."""
    with LocalServer("small", misbehaving=False) as server:
        seeds = [*START, *server.web.seeds("data compression", 6)]  # of a host with a Crawl-delay
        collection = make_collection(
            seeds, run__workers=2, fetch__host_delay_s=0.05, limits__max_pages=110, fetch__connect_to=server.connect_to
        )
        collection.crawl()
        log = server.requests()
    delays = {
        host: float(seconds)
        for host, seconds in collection.sql("SELECT host, crawl_delay_s FROM hosts JOIN origins USING (sid)").rows
    }
    assert max(delays.values()) > 0.05
    assert max(Counter(request.host for request in log if delays[request.host] > 0.05).values()) > 3
    ended: dict[str, float] = {}
    for request in log:
        if request.host in ended:
            pause = request.started_s - ended[request.host]
            assert pause >= max(0.05, delays[request.host]) - 0.002, request
        ended[request.host] = request.ended_s


def test_limits_are_exact(make_collection: MakeCollection) -> None:
    """Pages, pages of a host, depth and bytes: the crawl ends where it should, says so, and can go on."""
    collection = make_collection(START, run__workers=1, limits__max_pages=40, limits__max_pages_per_host=6)
    status = collection.crawl()
    assert status.reason == "page limit reached (40)"
    assert status.pages == 40 == len(stored_urls(collection))
    assert collection.sql("SELECT max(pages) FROM hosts").rows[0][0] <= 6
    again = collection.crawl(settings={"limits.max_pages": 60})
    assert again.pages == 60
    shallow = make_collection(START, name="shallow", limits__max_depth=1).crawl()
    assert shallow.outcomes["too-deep"] > 0
    small = make_collection(START, name="small", limits__max_bytes=200_000).crawl()
    assert small.reason.startswith("byte limit")
    brief = make_collection(START, name="brief", limits__max_time_s=0.5, fetch__host_delay_s=0.3).crawl()
    assert brief.reason.startswith("time limit")


def test_trouble_is_recorded_and_survived(make_collection: MakeCollection, small_server: LocalServer) -> None:
    """A crawl among misbehaving hosts ends, and each mishap has its outcome with a reason."""
    collection = make_collection(
        ["http://trouble.test/"], run__workers=1,
        fetch__connect_timeout_s=1.0, fetch__read_timeout_s=0.7, fetch__total_timeout_s=2.0, fetch__per_host=8,
        fetch__per_domain=16, limits__max_time_s=60.0, limits__max_pages_per_host=60, traps__max_calendar_urls_per_host=20,
        traps__max_queries_per_path=20, fetch__max_backoff_s=2.0, scope__only_domains=list(trouble_domains(small_server)),
    )  # fmt: skip
    status = collection.crawl()
    assert status.reason.startswith("frontier empty"), status
    met = set(status.outcomes)
    expected = {
        Outcome.OK, Outcome.TIMED_OUT, Outcome.BROKEN, Outcome.SERVER_ERROR, Outcome.BOMB, Outcome.WRONG_TYPE,
        Outcome.TRAP, Outcome.REDIRECT, Outcome.TOO_MANY_REDIRECTS,
    }  # fmt: skip
    assert {outcome.value for outcome in expected} <= met, met
    without_rules = "SELECT DISTINCT outcome FROM crawl JOIN hosts USING (sid) WHERE host = 'robots5xx.test'"
    assert collection.sql(without_rules).rows == [("http-5xx",)]
    assert not collection.sql("SELECT text FROM notices WHERE kind = 'network'").rows
    reasons = collection.sql(
        "SELECT outcome, any_value(detail) FROM visits WHERE outcome = 'timed-out' GROUP BY 1"
    ).rows
    assert all("timeout" in detail for _, detail in reasons)
    redirected = collection.sql(
        "SELECT c.outcome FROM redirects r JOIN crawl c ON c.oid = r.oid_dst WHERE c.url LIKE '%169.254%'"
    ).rows
    assert {outcome for (outcome,) in redirected} <= {"out-of-scope", "private-address"}
    titles = [title for (title,) in collection.sql("SELECT title FROM pages WHERE title LIKE '%script%'").rows]
    assert titles


def trouble_domains(server: LocalServer) -> set[str]:
    """Every host of the local web that is no part of the well-behaved web."""
    page = "trouble slow trickle endless length charset loop error reset bomb type trap robots5xx robots-slow private header title frames base"
    return {f"{name}.test" for name in page.split()}


def test_private_addresses_are_refused(make_collection: MakeCollection) -> None:
    """A redirect to this machine, or to a cloud's metadata service, is not followed."""
    collection = make_collection(
        [f"http://private.test/{name}" for name in ("loopback", "metadata", "loopback6", "file")],
        fetch__total_timeout_s=2.0,
        limits__max_time_s=20.0,
    )
    status = collection.crawl()
    assert status.outcomes.get("private-address", 0) >= 2
    hosts = collection.sql("SELECT DISTINCT url FROM crawl WHERE outcome = 'private-address'").rows
    assert any("127.0.0.1" in url or "169.254" in url or "[::1]" in url for (url,) in hosts)


def test_asking_while_it_runs(make_collection: MakeCollection) -> None:
    """sql, status and policy answer while a crawl runs, from another thread; a second crawl is refused."""
    collection = make_collection(START, run__workers=1, fetch__host_delay_s=0.05)
    end: list[Status] = []
    thread = threading.Thread(target=lambda: end.append(collection.crawl()))
    thread.start()
    try:
        other = Collection(collection.folder)
        deadline = time.monotonic() + 20
        while not (collection.folder / "engine.json").exists() or other.status().pages < 5:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert oct((collection.folder / "engine.json").stat().st_mode & 0o777) == "0o600"
        status = other.status()
        assert status.running
        assert other.sql("SELECT count(*) FROM pages").rows[0][0] >= status.pages
        with pytest.raises(QueryError):
            other.sql("DELETE FROM pages")
        with pytest.raises(QueryError) as caught:
            other.policy("sql", "relevnce DESC")
        assert "relevance" in caught.value.hint
        assert other.policy("sql", "depth DESC, serverload")
        assert other.status().order_by == "depth DESC, serverload"
        assert other.export(collection.folder / "now.jsonl") >= 5
        assert other.sql("UPDATE topics SET description = 'all' RETURNING kcid", write=True).rows == [(0,)]
        pages = other.status().pages
        while other.status().pages <= pages:
            assert time.monotonic() < deadline + 20
            time.sleep(0.05)
        assert other.stop()
    finally:
        thread.join(30)
    assert end[0].reason == "stopped by `opilio stop`"
    assert not (collection.folder / "engine.json").exists()
    assert Collection(collection.folder).settings.frontier.order_by == "depth DESC, serverload"


def test_a_note_with_a_wrong_token_is_refused(make_collection: MakeCollection) -> None:
    """Who cannot read the engine's note cannot ask it anything."""
    collection = make_collection(START, fetch__host_delay_s=0.5)
    thread = threading.Thread(target=collection.crawl)
    thread.start()
    note = collection.folder / "engine.json"
    try:
        while not note.exists():
            time.sleep(0.02)
        time.sleep(0.3)
        true = json.loads(note.read_text())
        note.write_text(json.dumps({**true, "token": "0" * 32}))
        with pytest.raises(CollectionBusy):  # whoever has another token may as well not ask
            collection.sql("SELECT 1")
        assert collection.stop() is False
        note.write_text(json.dumps(true))
        assert collection.stop()
    finally:
        thread.join(30)


def test_sql_orders_the_crawl(make_collection: MakeCollection, small_server: LocalServer) -> None:
    """With the order `url`, pages of one host are asked for in the order of their URLs as far as they were known."""
    collection = make_collection(
        START,
        frontier__strategy="sql",
        frontier__order_by="depth, url",
        fetch__per_host=1,
        limits__max_pages=30,
        **PLAIN,
    )
    collection.crawl()
    depths = [
        depth for (depth,) in collection.sql("SELECT depth FROM crawl JOIN pages USING (oid) ORDER BY visited").rows
    ]
    assert depths[0] == 0
    assert depths.index(2) > sum(depth < 2 for depth in depths) * 0.5


def test_recrawl_asks_conditionally(make_collection: MakeCollection, small_server: LocalServer) -> None:
    """A recrawl of unchanged pages costs answers without a body, stores nothing twice, and keeps the links."""
    collection = make_collection(START, limits__max_pages=30)
    collection.crawl()
    links = collection.sql("SELECT count(*) FROM links").rows
    small_server.clear_log()
    status = collection.crawl(recrawl=True, settings={"limits.max_pages": 0, "limits.max_depth": 1})
    answers = Counter(request.status for request in pages_asked(small_server))
    assert answers[304] >= 25
    assert status.outcomes["not-modified"] >= 25
    assert collection.sql("SELECT max(n) FROM (SELECT count(*) n FROM pages GROUP BY oid)").rows == [(1,)]
    assert collection.sql("SELECT count(*) FROM links").rows >= links


def test_warc_files_hold_every_answer(make_collection: MakeCollection) -> None:
    """warcio reads all records; every page's record is where the database says; digests are right."""
    collection = make_collection(START, run__workers=1, limits__max_pages=40)
    collection.crawl()
    kinds: Counter[str] = Counter()
    places = {}
    for path in sorted((collection.folder / "warc").glob("*.warc.gz")):
        with path.open("rb") as stream:
            records = ArchiveIterator(stream, check_digests="raise")
            for record in records:
                kinds[record.rec_type] += 1
                if record.rec_type in ("response", "revisit"):
                    record.content_stream().read()
                    places[path.name, records.get_record_offset()] = record.rec_headers["WARC-Target-URI"]
    assert kinds["warcinfo"] >= 1
    assert kinds["response"] >= 40
    assert kinds["request"] == kinds["response"] + kinds["revisit"]
    rows = collection.sql("SELECT warc_file, warc_offset, url FROM collection").rows
    assert len(rows) == 40
    for file, offset, url in rows:
        assert places[file, offset] == url


def test_sitemaps_are_read_when_asked_for(make_collection: MakeCollection, small_server: LocalServer) -> None:
    """With sitemaps on, the URLs that robots.txt leads to are offered."""
    hosts = [url.split("/")[2] for url in small_server.web.files if url.endswith("sitemap.xml")]
    collection = make_collection([f"http://{hosts[0]}/"], robots__sitemaps=True, limits__max_pages=20)
    status = collection.crawl()
    assert status.counters["sitemap urls"] > 5
    assert collection.sql("SELECT count(*) FROM visits WHERE kind = 'sitemap' AND outcome = 'ok'").rows[0][0] >= 1


def test_query_gives_a_harvest_rate(make_collection: MakeCollection, small_server: LocalServer, tmp_path: Path) -> None:
    """The words of a query judge pages: those about them score higher, and best-first finds more of them early."""
    seeds = tmp_path / "q.txt"
    seeds.write_text("http://directory.test/")
    settings = {
        "fetch.connect_to": small_server.connect_to,
        "fetch.host_delay_s": 0.0,
        "run.workers": -1,
        "limits.max_pages": 60,
    }
    topical = Collection.create(
        tmp_path / "q", seeds=seeds, query="statistics mean variance distribution", settings=settings
    )
    focused = topical.crawl().harvest
    blind = Collection.create(
        tmp_path / "b", seeds=seeds, query="statistics mean variance distribution",
        settings={**settings, "frontier.strategy": "breadth-first"},
    ).crawl().harvest  # fmt: skip
    assert focused is not None and blind is not None
    assert focused > blind


def test_wrong_inputs_are_named(tmp_path: Path, make_collection: MakeCollection) -> None:
    """Nothing to start from, a folder that is none, a wrong strategy, a collection that exists."""
    with pytest.raises(InputError, match="nothing to start from"):
        Collection.create(tmp_path / "x", query="owls")
    with pytest.raises(CollectionError, match="no collection there"):
        Collection(tmp_path / "nowhere")
    with pytest.raises(SettingsError, match="unknown strategies"):
        make_collection(START, frontier__strategy="best-fist")
    collection = make_collection(START, name="twice")
    with pytest.raises(CollectionError, match="holds a collection already"):
        make_collection(START, name="twice")
    (collection.folder / "collection.duckdb").write_bytes(b"garbage" * 1000)
    with pytest.raises(CollectionError) as caught:
        collection.crawl()
    assert caught.value.hint


def test_interrupt_ends_cleanly(make_collection: MakeCollection) -> None:
    """A first SIGINT finishes what is under way and says why it ended; nothing absorbed is lost."""
    collection = make_collection(START, run__workers=1, fetch__host_delay_s=0.05)
    interrupted: list[int] = []

    def interrupt(status: Status) -> None:
        if status.pages > 2 and not interrupted:
            interrupted.append(status.pages)
            os.kill(os.getpid(), signal.SIGINT)

    status = collection.crawl(on_tick=interrupt)
    assert "interrupted (SIGINT)" in status.reason
    assert len(stored_urls(collection)) == status.pages >= interrupted[0]


def test_a_raised_limit_takes_up_what_it_dropped(make_collection: MakeCollection) -> None:
    """URLs dropped by depth, by pages of a host or by scope wait again when the limit is raised or the scope widened."""
    collection = make_collection(
        START,
        limits__max_depth=1,
        limits__max_pages_per_host=2,
        scope__only_domains=["directory.test", "links.test", "python.test"],
    )
    first = collection.crawl()
    assert {"too-deep", "host-limit", "out-of-scope"} <= set(first.outcomes)
    wider = {"limits.max_depth": 0, "limits.max_pages_per_host": 0, "scope.only_domains": [], "limits.max_pages": 150}
    second = collection.crawl(settings=wider)
    assert second.pages == 150
    left = collection.sql("SELECT count(*) FROM crawl WHERE outcome IN ('too-deep', 'host-limit', 'out-of-scope')").rows
    assert left == [(0,)]


def test_a_second_interrupt_loses_no_batch(
    make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch, engines: list[Engine]
) -> None:
    """Given up while a batch is being written, a change of phase takes neither the batch nor the crawl's end along."""
    collection = make_taught(limits__max_pages=90, **LEARNING)
    harvest, write = Phases._harvest, Store.write
    slow = threading.Event()

    def write_slowly(self: Store, batch: Any) -> None:
        if slow.is_set():
            time.sleep(1.0)
        write(self, batch)

    async def interrupt(self: Phases) -> None:
        [engine] = engines
        slow.set()
        engine.counters.add("something to write")
        engine.stop("interrupted")
        asyncio.get_running_loop().call_later(0.5, engine.stop, "interrupted again")
        await harvest(self)

    monkeypatch.setattr(Store, "write", write_slowly)
    monkeypatch.setattr(Phases, "_harvest", interrupt)
    assert ends(collection.crawl).reason == "interrupted"
    assert collection.status().counters["something to write"] == 1
    assert collection.status().phase == Phase.LEARNING


@pytest.mark.parametrize(
    "left", ["state = 'waiting', outcome = 'timeout'", "state = 'dropped', outcome = 'locked-domain'"]
)
def test_a_page_is_not_stored_twice(make_collection: MakeCollection, small_server: LocalServer, left: str) -> None:
    """A recrawl that was killed between two tries, or refused by a lock since taken back, replaces pages all the same."""
    collection = make_collection(list(small_server.web.pages)[:5], limits__max_depth=1)
    collection.crawl()
    with Store.open(collection.folder) as store:
        before = store.query("SELECT count(*), count(DISTINCT oid) FROM pages").rows[0]
        store.query(f"UPDATE crawl SET {left} WHERE state = 'fetched' AND outcome = 'ok'", write=True)
        store.query("UPDATE pages SET content_hash = 0, shingles = NULL", write=True)  # all have changed
    collection.crawl()
    with Store.open(collection.folder) as store:
        assert store.query("SELECT count(*), count(DISTINCT oid) FROM pages").rows[0] == before
        assert store.query("SELECT count(*) FROM crawl WHERE state = 'waiting'").rows[0][0] == 0
