"""The server, asked over raw sockets and by clients that are not ours."""

from __future__ import annotations

import gzip
import http.client
import math
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opilio.errors import OpilioError
from opilio.lab.local_web import LocalServer, LocalWeb, build

PAGE = "http://math.python.test/"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWeb]:
    """The small web, from a cache folder of our own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield build("small")


@pytest.fixture(scope="module")
def running(web: LocalWeb) -> Iterator[LocalServer]:
    """One server for all tests of this file that need nothing special."""
    with LocalServer(web) as server:
        yield server


@pytest.fixture
def server(running: LocalServer) -> LocalServer:
    """The running server with an empty log."""
    running.clear_log()
    return running


class Client:
    """A client that knows sockets only."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.buffer = b""

    def send(self, *requests: tuple[str, str], extra: str = "", method: str = "GET") -> None:
        lines = (f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{extra}\r\n" for host, target in requests)
        self.socket.sendall("".join(lines).encode())

    def answer(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", 0)) if has_body else 0
        while len(self.buffer) < length:
            self._more()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return int(status_line.split()[1]), headers, body

    def _more(self) -> None:
        data = self.socket.recv(65536)
        assert data, "the server closed the connection"
        self.buffer += data

    def is_closed(self) -> bool:
        return self.buffer == b"" and self.socket.recv(1) == b""


@contextmanager
def connected(server: LocalServer) -> Iterator[Client]:
    """A client with a connection of its own."""
    client = Client(server.port)
    try:
        yield client
    finally:
        client.socket.close()


def test_every_page_file_and_redirect_is_served(server: LocalServer) -> None:
    """What the web says is what a client that is not ours gets, over one kept connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    for url, page in server.web.pages.items():
        host, _, path = url[7:].partition("/")
        connection.request("GET", f"/{path}", headers={"Host": host})
        answer = connection.getresponse()
        assert (answer.status, answer.read(), answer.headers.get_content_charset()) == (200, page.body, "utf-8")
    for url, (status, target) in server.web.redirects.items():
        host, _, path = url[7:].partition("/")
        connection.request("GET", f"/{path}", headers={"Host": host})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Location"]) == (status, target)
        answer.read()
    connection.request("GET", "/robots.txt", headers={"Host": "math.python.test"})
    answer = connection.getresponse()
    assert answer.headers.get_content_type() == "text/plain"
    assert answer.read() == server.web.files["http://math.python.test/robots.txt"][1]
    connection.close()
    assert len({request.connection for request in server.requests()}) == 1


def test_pipelined_requests_are_answered_in_order(server: LocalServer) -> None:
    """Five requests in one packet, one of them slow: the answers come in the order of the questions."""
    with connected(server) as client:
        paths = ["/about.html", "/contents.html", "/", "/nothing"]
        wanted = [("math.python.test", path) for path in paths]
        client.send(wanted[0], ("slow.test", "/wait/0.2"), *wanted[1:])
        answers = [client.answer() for _ in range(5)]
    assert [status for status, _, _ in answers] == [200, 200, 200, 200, 404]
    bodies = [answers[place][2] for place in (0, 2, 3)]
    assert bodies == [server.web.pages[f"http://math.python.test{path}"].body for path in paths[:3]]


def test_a_request_may_come_in_pieces(server: LocalServer) -> None:
    """A head cut anywhere is put together; a body that nobody asked for is skipped."""
    with connected(server) as client:
        request = b"GET / HTTP/1.1\r\nHost: math.python.test\r\nContent-Length: 5\r\n\r\nhello"
        for byte in request:
            client.socket.sendall(bytes([byte]))
        assert client.answer()[0] == 200
        client.send(("math.python.test", "/about.html"))
        assert client.answer()[0] == 200


def test_works_as_a_proxy(server: LocalServer) -> None:
    """A client without our settings gets the web by http_proxy; the target's host counts, not the Host header."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": f"http://{server.address}/"}))
    with opener.open(PAGE, timeout=5) as answer:
        assert answer.read() == server.web.pages[PAGE].body
    with opener.open("http://math.python.test/index.html", timeout=5) as answer:
        assert answer.url == PAGE
    with connected(server) as client:
        client.send(("elsewhere.test", "HTTP://Math.Python.Test:80/about.html"))
        assert client.answer()[2] == server.web.pages[PAGE + "about.html"].body


def test_unchanged_pages_are_not_sent_again(server: LocalServer) -> None:
    """ETag and Last-Modified are honoured, the ETag first; a wrong or broken one gets the page."""
    with connected(server) as client:
        ask = ("math.python.test", "/")
        client.send(ask)
        _, headers, body = client.answer()
        etag, modified = headers["etag"], headers["last-modified"]
        cases = {
            f"If-None-Match: {etag}": 304,
            f'If-None-Match: "other", W/{etag}': 304,
            'If-None-Match: "other"': 200,
            f'If-None-Match: "other"\r\nIf-Modified-Since: {modified}': 200,
            f"If-Modified-Since: {modified}": 304,
            "If-Modified-Since: Mon, 01 Jan 1990 00:00:00 GMT": 200,
            "If-Modified-Since: yesterday": 200,
        }
        for condition, status in cases.items():
            client.send(ask, extra=condition + "\r\n")
            assert client.answer()[0] == status, condition
    assert body == server.web.pages[PAGE].body


def test_head_has_the_header_and_no_body(server: LocalServer) -> None:
    """HEAD says how long the page is; the next answer on the connection is not disturbed."""
    with connected(server) as client:
        client.send(("math.python.test", "/"), method="HEAD")
        status, headers, _ = client.answer(has_body=False)
        assert (status, headers["content-length"]) == (200, str(len(server.web.pages[PAGE].body)))
        client.send(("math.python.test", "/nothing"))
        assert client.answer()[0] == 404


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: math.python.test\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: unknown.test\r\n\r\n", 404),
        (b"GET /?utm=1 HTTP/1.1\r\nHost: MATH.python.test.:8800\r\n\r\n", 200),
        (b"G" * 70_000, 400),
    ],
)
def test_odd_requests_get_a_proper_answer(server: LocalServer, request_bytes: bytes, status: int) -> None:
    """What cannot be answered is refused by the right status; host names are compared as HTTP asks for."""
    with connected(server) as client:
        client.socket.sendall(request_bytes)
        assert client.answer()[0] == status


@pytest.mark.parametrize("head", ["HTTP/1.0\r\n", "HTTP/1.1\r\nConnection: close\r\n"])
def test_connections_are_closed_when_asked(server: LocalServer, head: str) -> None:
    """HTTP/1.0 and `Connection: close` end the connection after the answer."""
    with connected(server) as client:
        client.socket.sendall(f"GET / {head}Host: math.python.test\r\n\r\n".encode())
        assert client.answer()[0] == 200
        assert client.is_closed()


def test_gzip_only_where_switched_on_and_accepted(web: LocalWeb, server: LocalServer) -> None:
    """By default no answer is compressed, so that benchmarks compare crawlers and not unpackers."""
    accepting = "Accept-Encoding: gzip, br\r\n"
    with connected(server) as client:
        client.send(("math.python.test", "/"), extra=accepting)
        assert "content-encoding" not in client.answer()[1]
    with LocalServer(web, gzip=True) as packing, connected(packing) as client:
        client.send(("math.python.test", "/"), extra=accepting)
        _, headers, body = client.answer()
        assert headers["content-encoding"] == "gzip"
        assert gzip.decompress(body) == web.pages[PAGE].body
        client.send(("math.python.test", "/"))
        assert client.answer()[2] == web.pages[PAGE].body


def test_the_log_tells_what_was_asked(server: LocalServer) -> None:
    """Host, path, status, bytes, agent and connection of each request, in order, with times that fit the clock."""
    before_s = time.time()
    with connected(server) as first, connected(server) as second:
        first.send(("math.python.test", "/"), extra="User-Agent: tester/1\r\n")
        head_and_body = len(first.answer()[2])
        second.send(("text.python.test", "/none"))
        second.answer()
        first.send(("math.python.test", "/about.html"))
        first.answer()
    log = server.requests()
    assert [(r.host, r.path, r.status) for r in log] == [
        ("math.python.test", "/", 200),
        ("text.python.test", "/none", 404),
        ("math.python.test", "/about.html", 200),
    ]
    assert log[0].user_agent == "tester/1"
    assert log[0].bytes > head_and_body
    assert log[0].connection == log[2].connection != log[1].connection
    assert all(before_s <= r.started_s <= r.ended_s <= time.time() for r in log)
    assert [r.in_flight for r in log] == [1, 1, 1]
    server.clear_log()
    assert server.requests() == []


def test_the_log_counts_requests_in_flight(server: LocalServer) -> None:
    """Three open requests on one host and one on another are counted by host; those under way have no end yet."""
    with connected(server) as a, connected(server) as b, connected(server) as c, connected(server) as d:
        for client in (a, b, c):
            client.send(("slow.test", "/wait/0.4"))
            time.sleep(0.02)
        d.send(("math.python.test", "/"))
        d.answer()
        under_way = server.requests()
        assert [(r.host, r.in_flight) for r in under_way] == [
            ("slow.test", 1), ("slow.test", 2), ("slow.test", 3), ("math.python.test", 1),
        ]  # fmt: skip
        assert [r.ended_s for r in under_way[:3]] == [math.inf] * 3
        assert [client.answer()[0] for client in (a, b, c)] == [200] * 3
        a.send(("slow.test", "/wait/0"))
        a.answer()
    log = server.requests()
    assert log[-1].in_flight == 1
    assert all(0.39 <= r.ended_s - r.started_s < 2 for r in log[:3])


def test_a_client_that_leaves_ends_its_requests(server: LocalServer) -> None:
    """The log shows a request that was given up as ended, unanswered, and no longer in flight."""
    with connected(server) as client:
        client.send(("slow.test", "/wait/30"))
        time.sleep(0.05)
    deadline_s = time.time() + 2
    while server.requests()[0].ended_s == math.inf and time.time() < deadline_s:
        time.sleep(0.01)
    (request,) = server.requests()
    assert (request.status, request.bytes) == (0, 0)
    assert request.ended_s < time.time()


def test_the_log_survives_a_killed_crawler(server: LocalServer) -> None:
    """A crawler that dies by SIGKILL in the middle of its work leaves its requests in the log."""
    program = (
        "import socket, sys\n"
        f"s = socket.create_connection(('127.0.0.1', {server.port}))\n"
        "s.sendall(b'GET / HTTP/1.1\\r\\nHost: math.python.test\\r\\n\\r\\n'); s.recv(100)\n"
        "s.sendall(b'GET /wait/30 HTTP/1.1\\r\\nHost: slow.test\\r\\n\\r\\n'); print('asked', flush=True)\n"
        "while s.recv(65536): pass\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as crawler:
        assert crawler.stdout is not None
        crawler.stdout.readline()
        time.sleep(0.1)
        crawler.kill()
    assert [(r.host, r.path) for r in server.requests()] == [("math.python.test", "/"), ("slow.test", "/wait/30")]


def test_latency_delays_each_answer_but_not_the_others(web: LocalWeb) -> None:
    """With 0.15 s of latency, four connections at once take one latency, not four."""
    with LocalServer(web, latency_s=0.15, log=False) as server:
        clients = [Client(server.port) for _ in range(4)]
        started_s = time.monotonic()
        for client in clients:
            client.send(("math.python.test", "/"))
        assert [client.answer()[0] for client in clients] == [200] * 4
        took_s = time.monotonic() - started_s
        for client in clients:
            client.socket.close()
        assert server.requests() == []
    assert 0.15 <= took_s < 0.45


def test_several_workers_share_a_port_and_a_log(web: LocalWeb) -> None:
    """Requests over many connections are all answered and all logged, whichever process took them."""
    with LocalServer(web, workers=2) as server:
        clients = [Client(server.port) for _ in range(20)]
        for client in clients:
            client.send(("slow.test", "/wait/0.3"))
        assert [client.answer()[0] for client in clients] == [200] * 20
        log = server.requests()
        for client in clients:
            client.socket.close()
    assert len({request.connection for request in log}) == 20
    assert [request.in_flight for request in log] == list(range(1, 21))


def test_well_behaved_on_request(web: LocalWeb) -> None:
    """Without misbehaving hosts, theirs are names like any other that does not exist."""
    with LocalServer(web, misbehaving=False) as server, connected(server) as client:
        client.send(("trouble.test", "/"))
        assert client.answer()[0] == 404
        assert server.connect_to == {"*.test": f"127.0.0.1:{server.port}"}


def test_a_port_in_use_is_said_so(server: LocalServer) -> None:
    """The error names the port and what to do."""
    with pytest.raises(OpilioError, match=f"port {server.port} .* in use") as caught:
        LocalServer(server.web, port=server.port).start()
    assert "another port" in caught.value.hint


def test_a_server_that_is_gone_is_said_so(web: LocalWeb) -> None:
    """Asking for the log of a server that was killed is an error, not a hang."""
    with LocalServer(web) as server:
        server._children[0].kill()
        server._children[0].process.wait()
        with pytest.raises(OpilioError, match="has ended"):
            server.requests()


def test_the_server_ends_with_the_process_that_started_it(web: LocalWeb, tmp_path: Path) -> None:
    """Even when that process is killed, the port is free again at once: no server is ever left behind."""
    program = (
        "import time\nfrom opilio.lab.local_web import LocalServer\n"
        "with LocalServer('small') as server:\n print(server.port, flush=True)\n time.sleep(60)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
        parent.kill()
    deadline_s = time.time() + 3
    with pytest.raises(ConnectionRefusedError):
        while time.time() < deadline_s:
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
            time.sleep(0.02)


def test_the_command_serves_until_interrupted(web: LocalWeb) -> None:
    """`python -m opilio.lab.local_web` prints where it serves, serves, and ends in order at Ctrl-C."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "opilio.lab.local_web", "--size", "small", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stdout is not None
        said = ""
        while "trouble.test" not in said:
            line = program.stdout.readline()
            assert line, said
            said += line
        port = int(said.partition("http://127.0.0.1:")[2].partition("/")[0])
        client = Client(port)
        client.send(("directory.test", "/"))
        assert client.answer()[0] == 200
        client.socket.close()
        program.send_signal(signal.SIGINT)
        assert program.wait(5) == 0
    assert "connect_to" in said
