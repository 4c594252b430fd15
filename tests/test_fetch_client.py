"""The client itself: its records, connections, refusals, cancelling and closing."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gzip
import time
from collections.abc import Iterator

import pytest
import uvloop

from fetch_servers import Handler, WebServer, closed_port, fetch, html, reply, reset, to_server
from opilio.errors import SettingsError
from opilio.fetch import Client
from opilio.model import Lease, LeaseKind, Outcome
from opilio.settings import RobotsSettings

PAGE = b"<!doctype html><html><title>Spiders</title>" + b"<p>Opiliones have eight legs.</p>" * 400


async def stuck_body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends a little of a body and then falls silent."""
    writer.write(reply(b"<html>", length=100, Content_Type="text/html"))
    await asyncio.sleep(30)


async def reset_at_once(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Resets the connection instead of answering."""
    reset(writer)


ROUTES: dict[str, bytes | Handler] = {
    "/": html(PAGE, ETag='"v1"', Last_Modified="Sun, 01 Nov 2026 00:00:00 GMT"),
    "/gzip": reply(gzip.compress(PAGE), Content_Type="text/html", Content_Encoding="gzip"),
    "/404": reply(b"<p>gone", status="404 Not Found", Content_Type="text/html"),
    "/png": reply(b"\x89PNG\r\n\x1a\n", Content_Type="image/png"),
    "/stuck-body": stuck_body,
    "/reset-at-once": reset_at_once,
}


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    """One server with all the routes."""
    with WebServer(ROUTES) as running:
        yield running


def test_a_page_and_its_record(server: WebServer) -> None:
    """A good page comes with its bytes, head, headers and a complete record."""
    before_s = time.time()
    response = fetch(to_server(server.address), "http://a.test/")
    record = response.fetch
    assert response.body == response.raw_body == PAGE
    page = ROUTES["/"]
    assert isinstance(page, bytes)
    assert response.raw_head + PAGE == page
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert (record.status, record.content_type, record.ip) == (200, "text/html", "127.0.0.1")
    assert (record.etag, record.last_modified) == ('"v1"', "Sun, 01 Nov 2026 00:00:00 GMT")
    assert record.received_bytes == len(page)
    assert before_s <= record.started_s <= time.time()
    assert 0 < record.took_ms < 5000


def test_connect_timeout() -> None:
    """A host that accepts no connection (here: a TLS hello that is never answered) runs into the connect timeout."""

    async def mute(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...

    with WebServer({"/": mute}) as silent:  # waits for an end of head that a TLS hello does not have
        response = fetch(to_server(silent.address, connect_timeout_s=0.3), "https://a.test/")
    assert response.fetch.outcome is Outcome.TIMED_OUT
    assert "connect timeout" in response.fetch.detail


def test_refused_connection() -> None:
    """A closed port is CONNECT_FAILED, with the address in the record."""
    with closed_port() as port:
        response = fetch(to_server(f"127.0.0.1:{port}"), "http://a.test/")
    assert (response.fetch.outcome, response.fetch.ip) == (Outcome.CONNECT_FAILED, "127.0.0.1")


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://[::1]/", "http://10.1.2.3/", "http://[::ffff:7f00:1]/"])
def test_private_addresses_are_refused(url: str) -> None:
    """An address in the URL that is not public is not connected to; a mapped host is exempt, a literal is not."""
    response = fetch(to_server("127.0.0.1:1"), url)
    assert response.fetch.outcome is Outcome.PRIVATE_ADDRESS


def test_private_addresses_can_be_allowed(server: WebServer) -> None:
    """With the setting on, a loopback address is asked as any other."""
    config = to_server("127.0.0.1:1", allow_private_addresses=True)
    response = fetch(config, f"http://127.0.0.1:{server.port}/")
    assert (response.fetch.outcome, response.fetch.ip) == (Outcome.OK, "127.0.0.1")


def test_request_is_recorded_as_sent(server: WebServer) -> None:
    """`request_head` is byte for byte what the server read, conditional headers and all."""
    config = to_server(server.address, contact_url="https://c.test/bot", accept_language="de, en;q=0.5")
    url = "http://a.test/a%20b?x=|{y}^`"
    response = fetch(config, url, etag='W/"1"', last_modified="Sun, 01 Nov 2026 00:00:00 GMT")
    assert server.requests[-1] == response.request_head
    lines = response.request_head.decode().split("\r\n")
    assert lines[0] == "GET /a%20b?x=|{y}^` HTTP/1.1"
    assert "User-Agent: Opilio/0.1 (+https://c.test/bot)" in lines
    assert "Accept-Language: de, en;q=0.5" in lines
    assert "Accept-Encoding: gzip, deflate, br, zstd" in lines
    assert 'If-None-Match: W/"1"' in lines
    assert "If-Modified-Since: Sun, 01 Nov 2026 00:00:00 GMT" in lines


def test_conditions_do_not_stick(server: WebServer) -> None:
    """A pooled handle forgets the conditions of the request before."""

    async def run() -> None:
        client = Client(to_server(server.address))
        await client.fetch(Lease(1, "http://a.test/", etag='"v1"\r\nX-Evil: 1'))
        assert b'If-None-Match: "v1"X-Evil: 1\r\n' in server.requests[-1]  # no header can be smuggled in
        await client.fetch(Lease(2, "http://a.test/"))
        assert b"If-None-Match" not in server.requests[-1]
        await client.aclose()

    asyncio.run(run())


def test_connections_are_kept(server: WebServer) -> None:
    """Requests to one host in a row share one connection."""

    async def run() -> None:
        client = Client(to_server(server.address))
        for _ in range(5):
            assert (await client.fetch(Lease(1, "http://kept.test/"))).fetch.outcome is Outcome.OK
        await client.aclose()

    before = server.connections
    asyncio.run(run())
    assert server.connections == before + 1


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_a_lost_request_is_sent_again_after_the_delay(how: str) -> None:
    """libcurl sends a request again at once when a connection used before is closed without an answer: not here.

    The host may have had it, and its delay has not passed.
    """
    delay_s, dropped_s = 0.4, []

    async def drop(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dropped_s.append(time.monotonic())
        if how == "reset":
            reset(writer)

    async def run() -> None:
        client = Client(to_server(server.address))
        for path, expected in [("/", Outcome.OK), ("/drop", Outcome.BROKEN), ("/", Outcome.OK)]:
            response = await client.fetch(Lease(1, f"http://a.test{path}", delay_s=delay_s))
            assert response.fetch.outcome is expected, response.fetch.detail
        await client.aclose()

    with WebServer({"/": html(), "/drop": drop}) as server:
        asyncio.run(run())
    assert server.paths() == ["/", "/drop", "/drop", "/"]
    assert dropped_s[1] - dropped_s[0] >= delay_s


def test_a_lost_request_to_a_host_with_a_long_delay_fails() -> None:
    """A worker does not wait for a minute: the engine decides when to try again."""

    async def drop(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    async def run() -> None:
        client = Client(to_server(server.address))
        for path, expected in [("/", Outcome.OK), ("/drop", Outcome.BROKEN)]:
            response = await client.fetch(Lease(1, f"http://a.test{path}", delay_s=60.0))
            assert response.fetch.outcome is expected, response.fetch.detail
        await client.aclose()

    with WebServer({"/": html(), "/drop": drop}) as server:
        asyncio.run(asyncio.wait_for(run(), 20.0))
    assert server.paths() == ["/", "/drop"]


def test_a_host_that_closes_idle_connections_gets_new_ones() -> None:
    """A server that closes idle connections costs no attempt: each request gets its answer, on a new connection."""
    idle_s = 0.1

    class Impatient(WebServer):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError):
                while True:
                    self.requests.append(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), idle_s))
                    writer.write(self.answer(self.requests[-1]))
            writer.close()

    async def run() -> list[Outcome]:
        client, outcomes = Client(to_server(server.address)), []
        for number in range(6):
            outcomes.append((await client.fetch(Lease(number, "http://a.test/"))).fetch.outcome)
            await asyncio.sleep(idle_s + 0.05)
        await client.aclose()
        return outcomes

    with Impatient({"/": html()}) as server:
        outcomes = asyncio.run(run())
    assert outcomes == [Outcome.OK] * 6
    assert len(server.requests) == 6


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_300_at_once(server: WebServer, runner: object) -> None:
    """300 requests at once to 100 hosts, good and bad mixed, each get their own answer, in both event loops."""
    paths = ["/", "/gzip", "/404", "/png", "/reset-at-once"]
    expected = [Outcome.OK, Outcome.OK, Outcome.CLIENT_ERROR, Outcome.WRONG_TYPE, Outcome.BROKEN]

    async def run() -> None:
        client = Client(to_server(server.address))
        leases = [Lease(i, f"http://h{i % 100}.test{paths[i % 5]}") for i in range(300)]
        responses = await asyncio.gather(*map(client.fetch, leases))
        assert [r.fetch.outcome for r in responses] == [expected[i % 5] for i in range(300)]
        await client.aclose()

    runner(run())  # type: ignore[operator]


def test_cancelling_a_fetch_leaves_the_client_usable(server: WebServer) -> None:
    """A cancelled fetch raises CancelledError, as asyncio wants it, and the client goes on."""

    async def run() -> None:
        client = Client(to_server(server.address))
        task = asyncio.create_task(client.fetch(Lease(1, "http://a.test/stuck-body")))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.fetch(Lease(2, "http://a.test/"))).fetch.outcome is Outcome.OK
        await client.aclose()

    asyncio.run(run())


def test_closing_cancels_what_is_open(server: WebServer) -> None:
    """A client that is closed leaves nobody waiting."""

    async def run() -> None:
        client = Client(to_server(server.address))
        task = asyncio.create_task(client.fetch(Lease(1, "http://a.test/stuck-body")))
        await asyncio.sleep(0.1)
        await client.aclose()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 1)

    asyncio.run(run())


def test_sitemap_lease_takes_any_type(server: WebServer) -> None:
    """A sitemap may come with any type, where a page of that type is refused."""
    response = fetch(to_server(server.address), "http://a.test/png", LeaseKind.SITEMAP)
    assert response.fetch.outcome is Outcome.OK


def test_host_lease_without_robots_asks_nothing(server: WebServer) -> None:
    """When robots.txt is not obeyed, a HOST lease gives the address and makes no request."""
    before = len(server.requests)
    config = dataclasses.replace(to_server(server.address), robots=RobotsSettings(obey=False))
    response = fetch(config, "http://a.test/robots.txt", LeaseKind.HOST)
    assert (response.fetch.outcome, response.fetch.ip) == (Outcome.OK, "127.0.0.1")
    assert len(server.requests) == before


@pytest.mark.parametrize("to", ["localhost:80", "127.0.0.1", "127.0.0.1:0", "::1"])
def test_bad_connect_to_is_a_settings_error(to: str) -> None:
    """A mapping that is not address:port is our user's mistake and says so."""
    with pytest.raises(SettingsError, match="connect_to"):
        Client(to_server(to))
