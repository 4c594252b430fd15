"""Replay: a recorded web answers a crawler the same way in its process and over HTTP, and the same way every time."""

import asyncio
import gzip
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import opilio
from evaluate_webs import HTML, make_web, page, redirect, town
from opilio import Collection
from opilio.errors import InputError, OpilioError
from opilio.fetch import Client, Response
from opilio.lab.webs import RecordedTransport, RecordedWeb, Serving, record
from opilio.lab.webs.recording import RecordedAnswer
from opilio.lab.webs.server import Exchange
from opilio.lab.webs.serving import ServedRecordedWeb
from opilio.model import Lease, LeaseKind, Outcome
from opilio.settings import Settings, override
from opilio.store import recover

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent)}
PAGE = "<title>Owls</title><p>Owls of the night."


def odd_answers() -> list[RecordedAnswer]:
    """Answers that a crawler must look at twice."""

    def at(name: str, body: str | bytes = PAGE, status: int = 200, **headers: str) -> RecordedAnswer:
        named = [(key.replace("_", "-"), value) for key, value in headers.items()]
        return page(f"http://odd.test/{name}", body, status=status, headers=named)

    packed = gzip.compress(PAGE.encode(), mtime=0)
    return [
        at("plain", content_type=HTML),
        at("packed", packed, content_type=HTML, content_encoding="gzip"),
        at("torn", packed[:-9], content_type=HTML, content_encoding="gzip"),
        at("bomb", gzip.compress(bytes(10**8), mtime=0), content_type=HTML, content_encoding="gzip"),
        at("unknown", PAGE, content_type=HTML, content_encoding="snow"),
        at("large", PAGE * 2**16, content_type=HTML),
        at("picture", b"\x89PNG\r\n\x1a\n", content_type="image/png"),
        at("disguised", b"\x89PNG\r\n\x1a\n" * 99, content_type=HTML),
        at("untyped"),
        at("octets", content_type="application/octet-stream"),
        at("long-error", bytes(10**5), 404, content_type=HTML),
        at("packed-error", packed, 500, content_encoding="gzip"),
        at("later", "", 429, retry_after="120"),
        at("nothing", "", 204),
        at("empty", "", content_type=HTML),
        at("lost", "", 301),
        at("wrong", "", 302, location="javascript:alert(1)"),
        at("choices", "one or two", 300),
        at("moved", "over there", 308, location="/plain"),
        at("named", etag='"x"', content_type=HTML, last_modified="Mon, 01 Jan 2024 00:00:00 GMT"),
        at("closing", content_type=HTML, connection="close"),
        at("sitemap.xml", "<urlset/>", content_type="application/xml"),
        at("robots.txt", "User-agent: *\nDisallow: /x\n" * 99, content_type="text/plain"),
        RecordedAnswer(
            "http://odd.test/ancient", b"HTTP/1.0 200 Document follows\nContent-type: text/html\n\n", PAGE.encode()
        ),
        RecordedAnswer("https://odd.test/safe", b"HTTP/1.1 200 OK\r\n\r\n", PAGE.encode()),
    ]


@pytest.fixture(scope="module")
def odd_web(tmp_path_factory: pytest.TempPathFactory) -> RecordedWeb:
    return make_web(tmp_path_factory.mktemp("odd") / "web", odd_answers())


@pytest.fixture(scope="module")
def odd_serving(odd_web: RecordedWeb) -> Iterator[Serving]:
    with Serving(odd_web) as serving:
        yield serving


def without_time(response: Response) -> Response:
    return response._replace(fetch=msgspec.structs.replace(response.fetch, started_s=0, took_ms=0), request_head=b"")


LEASES = [
    *(Lease(0, answer.url) for answer in odd_answers()),
    Lease(0, "http://odd.test/never-recorded"),
    Lease(0, "http://elsewhere.test/plain"),
    Lease(0, "https://odd.test/plain"),
    Lease(0, "http://odd.test/robots.txt", LeaseKind.HOST),
    Lease(0, "http://elsewhere.test/robots.txt", LeaseKind.HOST),
    Lease(0, "http://odd.test/sitemap.xml", LeaseKind.SITEMAP),
    Lease(0, "http://odd.test/picture", LeaseKind.SITEMAP),
]


@pytest.mark.parametrize("lease", LEASES, ids=lambda lease: f"{lease.kind} {lease.url}")
def test_both_ways_give_the_same(lease: Lease, odd_web: RecordedWeb, odd_serving: Serving) -> None:
    """Outcome, head and body of an answer are the same from the process and from the network, byte for byte."""
    if lease.url.startswith("https:") and not odd_serving.speaks_tls:
        pytest.skip("openssl is not installed")
    settings = override(Settings(), {**odd_serving.settings, "robots.max_bytes": 1000})

    async def ask() -> tuple[Response, Response]:
        client, transport = Client(settings), RecordedTransport(odd_web, settings)
        try:
            return await client.fetch(lease), await transport.fetch(lease)
        finally:
            await client.aclose()
            await transport.aclose()

    served, replayed = map(without_time, asyncio.run(ask()))
    if served.fetch.outcome is Outcome.BOMB or served.fetch.cut or "long" in lease.url or lease.kind is LeaseKind.HOST:
        # How much was received before it was cut off is the network's to say, and so is the detail that names it.
        served, replayed = (
            one._replace(fetch=msgspec.structs.replace(one.fetch, received_bytes=0, detail=""))
            for one in (served, replayed)
        )
    assert replayed == served


def test_the_transport_obeys_the_settings(odd_web: RecordedWeb) -> None:
    """Types that are not accepted are refused, and robots.txt is not asked for when it is not obeyed."""

    async def outcomes(settings: Settings, *leases: Lease) -> list[Any]:
        transport = RecordedTransport(odd_web, settings)
        return [(await transport.fetch(lease)).fetch for lease in leases]

    leases = Lease(0, "http://odd.test/plain"), Lease(0, "http://odd.test/robots.txt", LeaseKind.HOST)
    taken = asyncio.run(outcomes(Settings(), *leases))
    assert [fetch.outcome for fetch in taken] == [Outcome.OK, Outcome.OK]
    assert taken[1].status == 200
    strict = override(Settings(), {"fetch.accept": {"text/plain": 1000}, "robots.obey": False})
    refused = asyncio.run(outcomes(strict, *leases))
    assert [fetch.outcome for fetch in refused] == [Outcome.WRONG_TYPE, Outcome.OK]
    assert refused[1].status == 0


# -- whole crawls

SEEDS = ["http://h0.town.test/", "http://h2.town.test/hidden"]
VISITS = """
    SELECT c.url, v.kind, v.outcome, v.status, v.received_bytes
    FROM visits v JOIN crawl c ON c.oid = v.oid ORDER BY v.visited, v.rowid
"""
STORED = "SELECT * EXCLUDE (visited, took_ms, warc_file, warc_offset, warc_bytes) FROM collection ORDER BY url"


@pytest.fixture(scope="module")
def town_web(tmp_path_factory: pytest.TempPathFactory) -> RecordedWeb:
    return make_web(tmp_path_factory.mktemp("town") / "web", town())


def crawl(folder: Path, serving: Serving | None, web: RecordedWeb) -> Collection:
    """One crawl of the town by a single worker."""
    seeds = folder.with_suffix(".txt")
    seeds.write_text("\n".join(SEEDS))
    settings = {
        "fetch.host_delay_s": 0.0,
        "run.workers": -1,
        "fetch.in_flight": 1,
        **(serving.settings if serving else {}),
    }
    collection = Collection.create(folder, seeds=seeds, settings=settings)
    collection.crawl(transport=None if serving else RecordedTransport(web, collection.settings))
    return collection


def answers_in(collection: Collection) -> list[tuple[str, bytes, bytes]]:
    files = sorted((collection.folder / "warc").iterdir())
    return [(one.url, one.raw_head, one.raw_body) for file in files for one in recover(file)]


def test_both_crawls_are_the_same(town_web: RecordedWeb, tmp_path: Path) -> None:
    """A single worker visits the same URLs in the same order either way, and stores the same, byte for byte."""
    inside = crawl(tmp_path / "inside", None, town_web)
    with Serving(town_web) as serving:
        outside = crawl(tmp_path / "outside", serving, town_web)
        asked = [request.url for request in serving.requests()]
    visits = inside.sql(VISITS).rows
    assert outside.sql(VISITS).rows == visits
    assert outside.sql(STORED).rows == inside.sql(STORED).rows
    assert answers_in(outside) == answers_in(inside)
    outcomes = {row[0] for row in inside.sql("SELECT DISTINCT outcome FROM crawl").rows}
    assert {"ok", "redirect", "http-4xx", "noindex", "robots"} <= outcomes
    assert [url for url in asked if not url.endswith("robots.txt")] == [row[0] for row in visits if row[1] == "page"]


def test_a_crawl_recorded_again(town_web: RecordedWeb, tmp_path: Path) -> None:
    """What a crawl of a recorded web brought home, recorded, is that part of the web, and nothing else."""
    collection = crawl(tmp_path / "crawl", None, town_web)
    again = record(tmp_path / "again", [collection.folder]).web
    answered = {row[0] for row in collection.sql(VISITS).rows if row[3] != 404}
    assert set(again.urls) == answered | {url for url in town_web.urls if url.endswith("robots.txt")}
    assert len(again) > 60
    for n, url in enumerate(again.urls):
        m = town_web.number(url)
        assert (again.head(n), again.body(n), again.redirect(n)) == (
            town_web.head(m),
            town_web.body(m),
            town_web.redirect(m),
        )
    twice = crawl(tmp_path / "twice", None, again)
    assert twice.sql(VISITS).rows == collection.sql(VISITS).rows
    assert record(tmp_path / "third", [twice.folder]).web.digest == again.digest


# -- the server


def talk(serving: Serving, data: bytes, *, until: bytes = b"") -> bytes:
    """What the server says to raw bytes, until it closes or says `until`."""
    with socket.create_connection(("127.0.0.1", serving.port), timeout=5) as connection:
        connection.sendall(data)
        said = b""
        while not (until and until in said) and (piece := connection.recv(2**16)):
            said += piece
    return said


def test_raw_requests(odd_serving: Serving, odd_web: RecordedWeb) -> None:
    """Requests in a row, HEAD, other methods, proxy requests and nonsense are answered as HTTP has it."""
    get = b"GET /plain HTTP/1.1\r\nHost: odd.test\r\n\r\n"
    n = odd_web.number("http://odd.test/plain")
    answer = odd_web.head(n) + odd_web.body(n)
    last = get.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert talk(odd_serving, get + get + last) == answer * 3
    assert talk(odd_serving, b"HEAD" + last[3:]) == odd_web.head(n)
    assert talk(odd_serving, b"GET http://odd.test/plain HTTP/1.0\r\n\r\n") == answer
    assert talk(odd_serving, last.replace(b"odd.test", b"ODD.test")) == answer
    assert talk(odd_serving, b"POST" + last[3:]).startswith(b"HTTP/1.1 405 ")
    for nonsense in (
        b"\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"x" * 70_000,
        b"\x16\x03nonsense" + bytes(99),
    ):
        assert talk(odd_serving, nonsense)[:13] in (b"HTTP/1.1 400 ", b"", b"\x15\x03\x01\x00\x02\x02\x46")
    assert talk(odd_serving, last) == answer
    assert talk(odd_serving, get.replace(b"plain", b"empty")).endswith(b"\r\n\r\n")  # no length: the end says it is all


def test_latency_and_log(town_web: RecordedWeb) -> None:
    """Each answer takes its time, the same every time; the log has all of them, with times, until it is cleared."""
    paths = [b"/%d" % n for n in range(10)]
    with Serving(town_web, latency_s=0.04, latency_spread_s=0.03) as serving:
        for _ in range(2):
            for path in paths:
                talk(serving, b"GET %s HTTP/1.0\r\nHost: h0.town.test\r\n\r\n" % path)
        log = serving.requests()
        assert [request.url for request in log] == [f"http://h0.town.test{path.decode()}" for path in paths] * 2
        assert [request.status for request in log] == [200] * 20
        n = town_web.number("http://h0.town.test/0")
        assert log[0].bytes == len(town_web.head(n) + town_web.body(n))
        served = ServedRecordedWeb(town_web, 0.04, 0.03)
        wanted_s = [served.latency_s(Exchange("GET", "http", r.host, r.path, {}, True)) for r in log]
        assert all(
            request.ended_s - request.started_s >= wait_s - 0.001 for request, wait_s in zip(log, wanted_s, strict=True)
        )
        assert wanted_s[:10] == wanted_s[10:]
        assert 0.01 <= min(wanted_s) < 0.03
        assert 0.05 < max(wanted_s) <= 0.07
        serving.clear_log()
        assert serving.requests() == []


def test_many_requests_a_second(town_web: RecordedWeb) -> None:
    """Latency does not add up over connections: 50 clients get 500 answers of 50 ms in far less than 25 s."""

    async def client(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for n in range(10):
            writer.write(b"GET /%d HTTP/1.1\r\nHost: h1.town.test\r\n\r\n" % n)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            await reader.readexactly(length)
        writer.close()

    async def all_clients(port: int) -> None:
        await asyncio.gather(*(client(port) for _ in range(50)))

    with Serving(town_web, latency_s=0.05, log=False) as serving:
        started_s = time.monotonic()
        asyncio.run(all_clients(serving.port))
        assert 0.5 <= time.monotonic() - started_s < 8
        assert serving.requests() == []


def test_errors_are_ours_to_explain(town_web: RecordedWeb, tmp_path: Path) -> None:
    """A port in use, a spread that cannot be, a web that vanished and a server that ended are errors in a line."""
    with pytest.raises(InputError, match="spread"):
        Serving(town_web, latency_s=0.1, latency_spread_s=0.2)
    with Serving(town_web) as serving, pytest.raises(OpilioError, match="in use"):
        Serving(town_web, port=serving.port).start()
    with pytest.raises(OpilioError, match="not being served"):
        serving.requests()
    gone = make_web(tmp_path / "web", town(1))
    for file in gone.folder.iterdir():
        file.unlink()
    with pytest.raises(OpilioError, match="no recorded web there"):
        Serving(gone).start()


def test_the_command(town_web: RecordedWeb) -> None:
    """`opilio replay` serves until Ctrl-C, says how to crawl, and ends in order."""
    command = [
        sys.executable,
        "-m",
        "opilio",
        "replay",
        str(town_web.folder),
        "--port",
        "0",
        "--latency",
        "0.01s",
        "--verify",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while "wget" not in (lines or [""])[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], "it ended early"
        told = "".join(lines)
        address = told.partition('"*" = "')[2].partition('"')[0]
        with socket.create_connection((address.split(":")[0], int(address.split(":")[1])), timeout=5) as connection:
            connection.sendall(b"GET /3 HTTP/1.0\r\nHost: h0.town.test\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert "has ended" in process.stdout.read()
    assert town_web.digest in told


def test_a_redirect_between_schemes(tmp_path: Path) -> None:
    """A page that moved from http to https, as half the web has, is found by a crawl in both ways of replay."""
    web = make_web(tmp_path / "web", [redirect("http://a.test/", "https://a.test/"), page("https://a.test/", PAGE)])
    (tmp_path / "seeds.txt").write_text("http://a.test/")
    settings = {"fetch.host_delay_s": 0.0, "run.workers": -1}
    with Serving(web) as serving:
        for name, more in (("inside", {}), ("outside", serving.settings)):
            if more and not serving.speaks_tls:
                pytest.skip("openssl is not installed")
            collection = Collection.create(tmp_path / name, seeds=tmp_path / "seeds.txt", settings={**settings, **more})
            collection.crawl(transport=None if more else RecordedTransport(web))
            assert collection.sql("SELECT url, title FROM collection").rows == [("https://a.test/", "Owls")]
