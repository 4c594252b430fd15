"""The resolver against real name servers, and the addresses it may give."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pycurl
import pytest

from fetch_servers import DnsServer, WebServer, closed_port, fetch, html, to_server
from opilio.errors import SettingsError
from opilio.fetch import Client
from opilio.fetch.client import Handle
from opilio.fetch.resolver import MIN_TTL_S, NEGATIVE_TTL_S, DnsAnswer, Endpoint, Resolver
from opilio.fetch.transfer import BodyLimits
from opilio.model import Lease, Outcome
from opilio.settings import FetchSettings


class Clock:
    """A clock that goes only when told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def using(resolver: Resolver, *names: str) -> list[DnsAnswer]:
    """Resolve names one after the other and close."""

    async def run() -> list[DnsAnswer]:
        try:
            return [await resolver.resolve(name) for name in names]
        finally:
            resolver.close()

    return asyncio.run(run())


def test_both_families_are_asked() -> None:
    """A and AAAA records come together, IPv4 first."""
    with DnsServer({"a.example": (60, ["2606:4700::1", "93.184.216.34"])}) as server:
        (answer,) = using(Resolver([server.address]), "a.example")
    assert answer == DnsAnswer(("93.184.216.34", "2606:4700::1"))
    assert {kind for _, kind in server.asked} == {"A", "AAAA"}


def test_a_forgotten_name_is_asked_for_again() -> None:
    """A name that must be looked up again is asked of a server, though its answer would live for long, here and in
    c-ares: else nobody would notice that the name servers are down."""

    async def run(server: DnsServer) -> list[DnsAnswer]:
        resolver = Resolver([server.address], timeout_s=0.1)
        try:
            found = [await resolver.resolve("a.example")]
            server.silent = True
            resolver.forget("a.example")
            found.append(await resolver.resolve("a.example"))
            server.silent = False
            return [*found, await resolver.resolve("b.example")]
        finally:
            resolver.close()

    with DnsServer({"a.example": (3600, ["93.184.216.34"]), "b.example": (3600, ["93.184.216.35"])}) as server:
        before, during, after = asyncio.run(run(server))
    assert before.addresses and not during.addresses and after.addresses


def test_next_server_answers_for_a_dead_one() -> None:
    """A server that stays silent costs its timeout, then the next one is asked."""
    zone = {"a.example": (60, ["93.184.216.34"])}
    with DnsServer(zone, silent=True) as dead, DnsServer(zone) as alive:
        begin_s = time.monotonic()
        (answer,) = using(Resolver([dead.address, alive.address], timeout_s=0.3), "a.example")
        took_s = time.monotonic() - begin_s
    assert answer.addresses == ("93.184.216.34",)
    assert dead.asked and alive.asked
    assert took_s < 2


def test_all_servers_dead() -> None:
    """When no server answers, the lookup ends in time with an error."""
    with DnsServer({}, silent=True) as dead:
        begin_s = time.monotonic()
        (answer,) = using(Resolver([dead.address], timeout_s=0.2), "a.example")
    assert answer.error and not answer.addresses
    assert time.monotonic() - begin_s < 3


def test_cache_lives_as_long_as_the_ttl() -> None:
    """Within the TTL nobody is asked; after it the server is asked again and a new address is seen."""

    async def run() -> None:
        resolver = Resolver([server.address])
        assert (await resolver.resolve("a.example")).addresses == ("93.184.216.34",)
        server.zone["a.example"] = (1, ["93.184.216.35"])
        asked = len(server.asked)
        assert (await resolver.resolve("a.example")).addresses == ("93.184.216.34",)
        assert len(server.asked) == asked
        await asyncio.sleep(2.1)
        assert (await resolver.resolve("a.example")).addresses == ("93.184.216.35",)
        assert len(server.asked) > asked
        resolver.close()

    with DnsServer({"a.example": (1, ["93.184.216.34"])}) as server:
        asyncio.run(run())


def test_ttl_is_capped_and_failures_are_forgotten() -> None:
    """A TTL of a year is believed for max_ttl_s; a name that does not exist is asked again after a few seconds."""

    async def run() -> None:
        clock = Clock()
        resolver = Resolver([server.address], max_ttl_s=100, clock=clock)
        await resolver.resolve("a.example")
        assert (await resolver.resolve("none.example")).error
        clock.now_s += NEGATIVE_TTL_S - 0.1
        assert resolver.cached("none.example") is not None
        clock.now_s += 0.2
        assert resolver.cached("none.example") is None
        clock.now_s = 1099.9
        assert resolver.cached("a.example") is not None
        clock.now_s = 1100.1
        assert resolver.cached("a.example") is None
        resolver.close()

    with DnsServer({"a.example": (31_536_000, ["93.184.216.34"])}) as server:
        asyncio.run(run())


def test_cache_keeps_the_recently_used() -> None:
    """The cache never holds more than its size, and drops what was not used for longest."""

    async def run() -> None:
        resolver = Resolver([server.address], max_hosts=3)
        for name in ("a", "b", "c"):
            await resolver.resolve(f"{name}.example")
        assert resolver.cached("a.example") is not None  # used again: `b` is the oldest now
        await resolver.resolve("d.example")
        assert len(resolver) == 3
        assert [resolver.cached(f"{name}.example") is not None for name in "abcd"] == [True, False, True, True]
        resolver.close()

    with DnsServer({f"{name}.example": (60, ["93.184.216.34"]) for name in "abcd"}) as server:
        asyncio.run(run())


def test_one_question_for_many_who_wait() -> None:
    """Lookups of one name at once share one question, and one that is cancelled does not take the others with it."""

    async def run() -> None:
        resolver = Resolver([server.address])
        tasks = [asyncio.create_task(resolver.resolve("a.example")) for _ in range(50)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError)
        assert all(answer == DnsAnswer(("93.184.216.34",)) for answer in answers[1:])
        resolver.close()

    with DnsServer({"a.example": (60, ["93.184.216.34"])}) as server:
        asyncio.run(run())
    assert sorted(server.asked) == [("a.example", "A"), ("a.example", "AAAA")]


def test_localhost_needs_no_server() -> None:
    """`localhost` is known without asking."""
    with DnsServer({}) as server:
        (answer,) = using(Resolver([server.address]), "localhost")
    assert "127.0.0.1" in answer.addresses
    assert not server.asked


@pytest.mark.parametrize("name", ["a" * 64 + ".example", "a..b", "x" * 300, "-", "a b"])
def test_names_that_cannot_be(name: str) -> None:
    """A name that breaks the rules of DNS is an error, not an exception."""
    with DnsServer({}) as server:
        (answer,) = using(Resolver([server.address], timeout_s=0.2), name)
    assert answer.error


def test_bad_server_is_a_settings_error() -> None:
    """A name server that is not an address is our user's mistake."""
    with pytest.raises(SettingsError, match="dns_servers"):
        using(Resolver(["not an address"]), "a.example")


def test_fetch_reports_unknown_names() -> None:
    """A name that does not exist is DNS_FAILED."""
    with DnsServer({}) as server:
        response = fetch(to_server("127.0.0.1:1", dns_servers=(server.address,)), "http://none.example/")
    assert response.fetch.outcome is Outcome.DNS_FAILED
    assert "none.example" in response.fetch.detail


@pytest.mark.parametrize("address", ["127.0.0.1", "192.168.1.1", "169.254.169.254", "::1", "::ffff:10.0.0.1"])
def test_names_at_private_addresses_are_refused(address: str) -> None:
    """A public name that points into a private network is not followed there."""
    with DnsServer({"evil.example": (60, [address])}) as server:
        response = fetch(to_server("127.0.0.1:1", dns_servers=(server.address,)), "http://evil.example/")
    assert response.fetch.outcome is Outcome.PRIVATE_ADDRESS


def test_connection_goes_to_the_resolved_address() -> None:
    """With private addresses allowed, a name is resolved and its address used and reported; dead ones are passed."""

    async def run() -> None:
        client = Client(to_server("127.0.0.1:1", dns_servers=(server.address,), allow_private_addresses=True))
        url = f"http://two.example:{web.port}/"
        response = await client.fetch(Lease(1, url))
        assert (response.fetch.outcome, response.fetch.ip) == (Outcome.OK, "127.0.0.1"), response.fetch.detail
        assert f"Host: two.example:{web.port}\r\n".encode() in web.requests[0]
        await client.aclose()

    zone = {"two.example": (60, ["127.0.0.77", "127.0.0.1"])}
    with DnsServer(zone) as server, WebServer({"/": html()}) as web:
        asyncio.run(run())


def test_no_socket_to_an_unchecked_address() -> None:
    """Should libcurl ever head for another address than the checked one, the socket is refused before it connects."""
    handle = Handle(FetchSettings())
    with WebServer({"/": html()}) as web:
        handle.prepare("http://a.example/", Endpoint("127.0.0.1", web.port), [], BodyLimits(max_bytes=1000))
        handle.curl.perform()
        assert handle.transfer.status == 200
        handle.prepare("http://b.example/", Endpoint("127.0.0.1", web.port), [], BodyLimits(max_bytes=1000))
        handle._pinned = "93.184.216.34"
        with pytest.raises(pycurl.error) as failed:
            handle.curl.perform()
    assert failed.value.args[0] == pycurl.E_COULDNT_CONNECT
    assert len(web.requests) == 1


class RebindingServer(DnsServer):
    """Tells one address to who asks first, and another ever after, each to be forgotten at once."""

    def _answer(self, query: Any, name: str, kind: str) -> Any:
        if name == "evil.example":
            self.zone[name] = (0, ["127.0.0.2" if self.asked.count((name, "A")) < 2 else "127.0.0.1"])
        return super()._answer(query, name, kind)


def test_rebinding_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers first with a permitted and then with a forbidden address does not get a connection to
    the forbidden one: not while the first answer is cached, not after, not over an open connection, and not when the
    permitted one of two addresses is dead. Permitted is 127.0.0.2 here, in place of the public addresses."""
    monkeypatch.setattr("opilio.fetch.client.is_public", lambda address: str(address) == "127.0.0.2")
    zone = {"both.example": (60, ["127.0.0.1", "127.0.0.2"]), "evil.example": (0, [])}

    async def run() -> None:
        client = Client(to_server("127.0.0.1:1", dns_servers=(server.address,)))

        async def get(host: str) -> tuple[Outcome, bytes]:
            response = await client.fetch(Lease(1, f"http://{host}.example:{safe.port}/"))
            return response.fetch.outcome, response.body

        for _ in range(2):
            assert await get("evil") == (Outcome.OK, b"<p>safe")
        assert await get("both") == (Outcome.OK, b"<p>safe")
        await asyncio.sleep(MIN_TTL_S + 0.1)
        for _ in range(2):
            assert await get("evil") == (Outcome.PRIVATE_ADDRESS, b"")
        assert server.asked.count(("evil.example", "A")) >= 2
        safe.switch(on=False)
        assert await get("both") == (Outcome.CONNECT_FAILED, b"")
        await client.aclose()

    with (
        WebServer({"/": html(b"<p>safe")}, host="127.0.0.2") as safe,
        WebServer({"/": html(b"<p>secret")}, port=safe.port) as forbidden,
        RebindingServer(zone) as server,
    ):
        asyncio.run(run())
        assert len(safe.requests) == 3
        assert forbidden.connections == 0


def test_every_refused_address_in_turn() -> None:
    """When no address of a name can be connected to, the outcome is CONNECT_FAILED."""
    with closed_port() as port, DnsServer({"dead.example": (60, ["127.0.0.1", "127.0.0.2"])}) as server:
        config = to_server("127.0.0.1:1", dns_servers=(server.address,), allow_private_addresses=True)
        response = fetch(config, f"http://dead.example:{port}/")
    assert response.fetch.outcome is Outcome.CONNECT_FAILED
