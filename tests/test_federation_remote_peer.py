"""Peers on other servers: whatever they send, it is an answer or an error that says what happened."""

import gzip
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federation_peers import RawServer, found, response, summary_of
from fetch_servers import make_certificate
from opilio.federation import remote_peer
from opilio.federation.peers import Offer, PeerAnswer, PeerError, PeerHit, check_address
from opilio.federation.remote_peer import RemotePeer
from opilio.federation.validation import check_answer, check_offers

Serve = Callable[[Callable[[socket.socket, bytes], None]], RawServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers that answer as they are told; all are closed in the end."""
    servers: list[RawServer] = []

    def start(answer: Callable[[socket.socket, bytes], None]) -> RawServer:
        servers.append(RawServer(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def ask(server: RawServer, timeout_s: float = 5.0) -> PeerAnswer:
    return RemotePeer("birds", server.address, "t0ken").ask(
        "owl", weights=None, filters=[], most=10, timeout_s=timeout_s
    )


def sends(data: bytes) -> Callable[[socket.socket, bytes], None]:
    return lambda connection, _: connection.sendall(data)


GOOD = msgspec.json.encode(PeerAnswer(1, [found("http://owl.example/", owl=2.0)], pages_indexed=9))


def test_a_question_goes_out_and_an_answer_comes_back(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token and the question are sent to the API of the collection, past any proxy; the answer may be packed."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    server = serve(sends(response(gzip.compress(GOOD), Content_Encoding="gzip")))
    assert ask(server).pages[0].words == {"stems:owl": 2.0}
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /api/c/birds/peer/ask HTTP/1.1\r\n")
    assert b"Authorization: Bearer t0ken" in head
    assert json.loads(body) == {"question": "owl", "weights": None, "filters": [], "most": 10}


def test_a_summary_is_not_sent_twice(serve: Serve) -> None:
    """Its version goes along, and 304 means the one that is known."""
    known = summary_of("birds", owl=3)
    server = serve(sends(response(b"", "304 Not Modified")))
    assert RemotePeer("birds", server.address, "t").summary(known) is known
    assert b'If-None-Match: "birds-1"' in server.requests[0]


def drip(connection: socket.socket, _: bytes) -> None:
    """A head, then a byte now and then, for ever."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def drip_head(connection: socket.socket, _: bytes) -> None:
    """A head that never ends."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X")
        time.sleep(0.05)


@pytest.mark.parametrize("answer", [drip, drip_head, lambda *_: time.sleep(3)], ids=["body", "head", "silence"])
def test_no_peer_takes_longer_than_it_may(serve: Serve, answer: Callable[[socket.socket, bytes], None]) -> None:
    """However slowly it sends, after 0.4 s it is over, and the error says so."""
    began_s = time.monotonic()
    with pytest.raises(PeerError, match=r"birds \(http.*\) did not answer within 0.4 s"):
        ask(serve(answer), 0.4)
    assert time.monotonic() - began_s < 1.5


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (response(b"", "302 Found", Location="http://elsewhere.example/"), "redirect, which is not followed"),
        (response(b'{"error": "wrong \\u001b[31mtoken"}', "403 Forbidden"), r"does not let us in: wrong \[31mtoken"),
        (response(b'{"error": "no collection"}', "404 Not Found"), "status 404: no collection"),
        (response(b"<html>", "500 Error"), "answers with status 500$"),
        (response(b"not json"), "another kind of answer than expected"),
        (response(b'{"total": "many", "pages": []}'), "another kind of answer than expected"),
        (response(b'{"total": 1}'), "another kind of answer than expected"),
        (response(b"[" * 100_000), "another kind of answer than expected"),
        (response(b"\xff\xfe"), "another kind of answer than expected"),
        (response(GOOD)[:-10], "broke off"),
        (response(b"garbage", Content_Encoding="gzip"), "does not speak HTTP"),
        (response(gzip.compress(GOOD)[:-12], Content_Encoding="gzip"), "broke off"),
        (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
        (b"", "cannot be reached|does not speak HTTP"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error(serve: Serve, data: bytes, said: str) -> None:
    """Each says what the peer did, in one line without signs that steer a terminal."""
    with pytest.raises(PeerError, match=said) as caught:
        ask(serve(sends(data)))
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("is_packed", [False, True])
def test_no_peer_fills_the_memory(serve: Serve, monkeypatch: pytest.MonkeyPatch, is_packed: bool) -> None:
    """An answer that is too large, also one that unpacks to a hundred times its size, is given up."""
    monkeypatch.setattr(remote_peer, "MAX_ANSWER_BYTES", 2**20)
    body = b" " * 2**24
    data = response(gzip.compress(body), Content_Encoding="gzip") if is_packed else response(body)
    with pytest.raises(PeerError, match="more than 1 MiB"):
        ask(serve(sends(data)))


def test_nobody_there() -> None:
    """A port where nobody listens, and a name that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(PeerError, match="is not there"):
        RemotePeer("x", f"http://127.0.0.1:{port}/c/x", "t").summary()


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before the token is sent; once the machine trusts it, the answer comes."""
    file, context = make_certificate(tmp_path, "localhost")
    server = RawServer(sends(response(GOOD)), context)
    try:
        with pytest.raises(PeerError, match="certificate that cannot be trusted"):
            ask(server)
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert ask(server).total == 1
    finally:
        server.close()


def test_feedback_and_offers_are_sent(serve: Serve) -> None:
    """What a user says and what a crawl hands over go out as JSON; what comes back is bounded."""
    server = serve(sends(response(b'{"said": "thanks \\u0007", "taken": 999}')))
    peer = RemotePeer("birds", server.address, "t")
    assert peer.feedback("http://a.example/", "Birds", relevant=False) == "thanks "
    assert peer.offer("ships", [Offer("http://b.example/", "Birds", 0.7)]) == 1
    assert json.loads(server.requests[1].partition(b"\r\n\r\n")[2])["offers"][0]["url"] == "http://b.example/"


# -- what is in an answer


def test_only_web_addresses_come_through() -> None:
    """Pages with other addresses are left out; credentials and fragments are cut off; offers likewise."""
    urls = [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "",
        "http://u:p@ok.example/#f",
        "//x",
        "http://",
    ]
    checked = check_answer(PeerAnswer(7, [found(url) for url in urls]), 10)
    assert [page.result["url"] for page in checked.pages] == ["http://ok.example/"]
    assert [offer.url for offer in check_offers([Offer(url, "", 2.0) for url in urls])] == ["http://ok.example/"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
KEYS = list(found("http://a.example/").result)


@settings(max_examples=80)
@given(
    told=st.dictionaries(st.sampled_from(KEYS), values), words=st.dictionaries(st.text(max_size=8), st.floats()),
    marks=st.lists(st.text(max_size=20), max_size=12), total=st.integers(), count=st.floats(),
)  # fmt: skip
def test_whatever_a_page_says_is_made_possible(
    told: dict[str, object], words: dict[str, float], marks: list[str], total: int, count: float
) -> None:
    """Any values in place of those of a page: what is left has the right types and bounds, and is shown without harm."""
    result = {**told, "url": "http://a.example/"}
    answer = PeerAnswer(
        total,
        [PeerHit(result, words, words, marks, "x" * 9)],
        {"host": [result, {"value": "h", "count": count}]},
        count,
    )
    [page] = check_answer(answer, 10).pages
    assert set(page.result) == set(KEYS)
    assert page.text is None, "only folders of this machine give texts"
    assert all(
        isinstance(page.result[key], str) and page.result[key].isprintable() for key in ("title", "topic", "type")
    )
    assert all(isinstance(text, str) and isinstance(mark, bool) for text, mark in page.result["snippet"])
    assert all(0 <= share <= 1 for share in page.result["parts"].values())
    assert all(0 <= value <= 1e6 for value in page.words.values())
    assert len(page.marks) <= 9
    assert 0 <= check_answer(answer, 10).total <= 10**9
    msgspec.json.decode(msgspec.json.encode(page), type=PeerHit)


DEEP = b"[" * 100_000


def ask_federation(address: str, timeout_s: float = 5.0) -> PeerAnswer:
    return RemotePeer("birds", address, "t0ken").ask_federation(
        "owl", weights=None, filters=[], most=10, timeout_s=timeout_s
    )


@pytest.mark.parametrize(
    "sent",
    [
        response(b'{"error":' + DEEP, "500 Internal Server Error"),
        response(b'{"error":' + DEEP, "400 Bad Request"),
        response(b'{"total":1,"pages":[{"words":{},"result":' + DEEP),
    ],
)
def test_what_is_nested_without_end_is_an_error_of_the_peer(sent: bytes) -> None:
    """Whatever its status, an answer that is nested too deep is a PeerError: others would end all deliveries."""
    server = RawServer(lambda connection, _: connection.sendall(sent))
    try:
        with pytest.raises(PeerError):
            ask_federation(server.address)
    finally:
        server.close()


def test_numbers_without_end_are_cut() -> None:
    """A whole number too large for a float is the most that is possible, not an error of ours."""
    number = b"1" + b"0" * 400
    page = msgspec.json.encode(found("http://owl.example/", owl=2.0)).replace(b'"oid":1', b'"oid":' + number)
    body = b'{"total":%s,"pages_indexed":%s,"pages":[%s]}' % (number, number, page)
    server = RawServer(lambda connection, _: connection.sendall(response(body)))
    try:
        answer = ask_federation(server.address)
    finally:
        server.close()
    assert answer.total == answer.pages_indexed == 10**9
    assert answer.pages[0].result["oid"] == 2**53


def test_what_comes_after_a_packed_answer_is_not_read() -> None:
    """A peer that goes on sending after the packed answer has ended fills no memory."""

    def flood(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
        connection.sendall(gzip.compress(GOOD))
        for _number in itertools.count():
            connection.sendall(bytes(2**16))
            time.sleep(0.001)

    server = RawServer(flood)
    began_s = time.monotonic()
    try:
        with pytest.raises(PeerError, match="after the end"):
            ask_federation(server.address, timeout_s=3.0)
    finally:
        server.close()
    assert time.monotonic() - began_s < 2


def test_a_handshake_that_drips_ends_in_time() -> None:
    """The limit of time holds for all of a question, also for what comes before it with https."""

    def drip(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"\x16\x03\x03\x40\x00")  # a record of 16 KiB begins
        while True:
            connection.sendall(b"\x02")
            time.sleep(0.05)

    server = RawServer(drip)
    came: list[str] = []

    def run() -> None:
        with pytest.raises(PeerError) as caught:
            ask_federation(server.address.replace("http:", "https:"), timeout_s=0.4)
        came.append(caught.value.message)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(4)
    server.close()
    assert [message.partition(") ")[2] for message in came] == ["did not answer within 0.4 s"]


def test_a_name_that_is_not_ascii_is_asked_for_as_a_browser_would() -> None:
    """The address of a collection with an umlaut, as it stands in a browser, is one."""
    server = RawServer(lambda connection, _: connection.sendall(response(GOOD)))
    try:
        assert ask_federation(check_address(server.address.replace("birds", "v\u00f6gel%20x"))).total == 1
    finally:
        server.close()
    assert server.requests[0].startswith(b"POST /api/c/v%C3%B6gel%20x/peer/ask_federation HTTP/1.1")
