"""What a client can take from the others: nothing for long, whatever it sends, and however slowly."""

import http.client
import shutil
import socket
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from opilio.web import access, security, server
from web_portal import TOKEN, Portal

SLOW_SQL = "SELECT count(*) FROM range(100000000) a, range(1000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.fixture(scope="module")
def crawled(crawled_taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a collection of a hundred pages."""
    place = tmp_path_factory.mktemp("limits")
    shutil.copytree(crawled_taught, place / "collection")
    return place


@pytest.fixture(scope="module")
def portal(crawled: Path) -> Iterator[Portal]:
    """A portal that shows it."""
    with Portal(crawled) as made:
        yield made


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that waits for tenths of a second where the real one waits for seconds."""
    monkeypatch.setattr(server, "LOOK_S", 0.1)
    monkeypatch.setattr(server, "HEAD_TIMEOUT_S", 0.5)
    monkeypatch.setattr(server, "BODY_TIMEOUT_S", 0.5)


def connect(portal: Portal, receive_bytes: int = 0) -> socket.socket:
    """A connection to the server; with `receive_bytes`, one that takes little at a time."""
    made = socket.socket()
    if receive_bytes:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.settimeout(10)
    made.connect(("127.0.0.1", int(portal.address.rpartition(":")[2])))
    return made


def seconds_until_closed(client: socket.socket, drip: bytes = b"") -> float:
    """How long the server bears with a client that sends `drip` again and again."""
    started_s = time.monotonic()
    client.settimeout(0.05)
    while time.monotonic() - started_s < 10:
        try:
            if drip:
                client.sendall(drip)
            if not client.recv(2**16):
                return time.monotonic() - started_s
        except TimeoutError:
            continue
        except OSError:
            return time.monotonic() - started_s
    raise AssertionError("the server never closed the connection")


@pytest.mark.parametrize(
    ("begun", "drip"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"x"),
        (b"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n", b"x"),
        (b"POST /api/collections HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n", b"x"),
    ],
    ids=["nothing", "head", "body", "body after the refusal"],
)  # fmt: skip
def test_slow_senders_are_closed(hurried: None, portal: Portal, begun: bytes, drip: bytes) -> None:
    """Whoever sends nothing, or a head or a body a byte at a time, loses the connection."""
    with connect(portal) as client:
        client.sendall(begun)
        assert seconds_until_closed(client, drip) < 3


def test_slow_readers_are_closed(hurried: None, tmp_path: Path) -> None:
    """A client that does not read its answer does not keep it in memory for long."""
    made = Portal(tmp_path)
    made.server.config.app.add_api_route("/large", lambda: "x" * 2**25)  # type: ignore[union-attr]
    with made, connect(made, receive_bytes=4096) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        deadline_s = time.monotonic() + 5
        while not made.server.server_state.connections and time.monotonic() < deadline_s:
            time.sleep(0.01)
        while made.server.server_state.connections and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert not made.server.server_state.connections


def test_patient_clients_are_served(hurried: None, portal: Portal) -> None:
    """A connection that is used again and again lives on, and one request that takes long is waited for."""
    client = http.client.HTTPConnection(portal.address.removeprefix("http://"), timeout=20)
    started_s = time.monotonic()
    while time.monotonic() - started_s < 1.5:
        client.request("GET", "/collections")
        assert client.getresponse().read()
        time.sleep(0.1)
    client.close()


def test_heads_and_connections_are_limited(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A head of a megabyte is refused; so is a connection too many, and there is room again when others have gone."""
    with connect(portal) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Large: " + b"x" * 2**17)
        assert client.recv(100).split()[1] == b"400"
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 5)
    clients = [connect(portal) for _ in range(5)]
    time.sleep(0.1)
    with connect(portal) as one_more:
        head = one_more.recv(1000)
        assert head.split()[1] == b"503" and b"Retry-After" in head
    for client in clients:
        client.close()
    time.sleep(0.2)
    assert portal.get("/collections")[0] == 200


NAVIGATION = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
COSTLY = [
    "/c/collection/search?q=moon", "/api/c/collection/search?q=moon", "/c/collection/distill?search=moon",
    "/api/c/collection/distill", "/api/c/collection/clusters", "/c/collection/clusters?search=moon",
    "/c/collection/similar?url=x", "/c/collection/topic?topic=x&analyse=true", "/c/collection/review/kept.csv?topic=x",
    "/c/collection/sql?question=harvest-per-minute", f"/api/c/collection/sql?sql={quote('SELECT 1')}",
    "/api/c/collection/classify?url=x", "/api/c/collection/archetypes", "/api/c/collection/census",
]  # fmt: skip


def test_other_sites_cannot_cause_costs(portal: Portal) -> None:
    """A link of another site opens plain pages only; a costly one asks first, and nothing of ours can be embedded."""
    for path in COSTLY:
        assert portal.ask("GET", path, **NAVIGATION)[0] == 403, path
        assert portal.ask("GET", path, **{**NAVIGATION, "Sec_Fetch_Site": "same-site"})[0] == 403, path
    page = portal.ask("GET", COSTLY[0], **NAVIGATION)[1]
    assert 'href="/c/collection/search?q=moon"' in page
    for path in ("/c/collection/", "/c/collection/search", "/c/collection/sql", "/collections", "/login"):
        assert portal.ask("GET", path, **NAVIGATION)[0] == 200, path
        embedded = {**NAVIGATION, "Sec_Fetch_Dest": "iframe"}
        fetched = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"}
        assert portal.ask("GET", path, **embedded)[0] == 403, path
        assert portal.ask("GET", path, **fetched)[0] == 403, path
    for site in ("same-origin", "none"):
        assert portal.ask("GET", COSTLY[0], Sec_Fetch_Site=site)[0] == 200
    assert portal.get("/api/c/collection/search", q="moon")[0] == 200  # a program


def test_costly_requests_queue_and_light_ones_do_not(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thirty long queries two run at a time, a few wait, and the others are told to come back; the front page is
    as fast as before."""
    monkeypatch.setattr(access, "COSTLY_QUEUED", 4)
    monkeypatch.setattr(access, "COSTLY_WAIT_S", 1.0)
    path = f"/api/c/collection/sql?sql={quote(SLOW_SQL)}"
    with ThreadPoolExecutor(12) as pool:
        monkeypatch.setattr("opilio.store.questions.TIMEOUT_S", 3.0)
        heavy = [pool.submit(portal.ask, "GET", path) for _ in range(12)]
        time.sleep(0.3)
        times_s = []
        for _ in range(20):
            started_s = time.monotonic()
            assert portal.get("/collections")[0] == 200
            times_s.append(time.monotonic() - started_s)
        codes = [one.result()[0] for one in heavy]
    assert codes.count(503) == 10 and codes.count(400) == 2  # interrupted
    assert statistics.quantiles(times_s, n=20)[-1] < 1.5
    assert portal.get_with_token("/api/c/collection/sql", sql="SELECT 1")[0] == 200


def test_wrong_tokens_are_answered_slowly(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are tried at once, they are answered one after the other; the right one is not delayed by them."""
    monkeypatch.setattr(security, "WRONG_TOKEN_S", 0.3)
    with ThreadPoolExecutor(5) as pool:
        started_s = time.monotonic()
        tries = [pool.submit(portal.ask, "POST", "/api/login", {"token": f"wrong{n}"}, token="") for n in range(3)]
        tries += [pool.submit(portal.ask, "POST", "/api/c/collection/stop", {}, token="guess") for _ in range(2)]
        time.sleep(0.05)
        assert portal.ask("POST", "/api/login", {"token": TOKEN}, token="")[0] == 200
        assert time.monotonic() - started_s < 0.6
        assert {one.result()[0] for one in tries} == {403}
        assert time.monotonic() - started_s > 1.4
