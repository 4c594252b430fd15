"""TLS, HTTP/2 and proxies."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetch_servers import (
    DnsServer,
    ProxyServer,
    WebServer,
    closed_port,
    fetch,
    html,
    make_authority,
    make_certificate,
    pump,
    reply,
    to_server,
)
from opilio import Collection
from opilio.errors import SettingsError
from opilio.fetch import Client
from opilio.model import Lease, Outcome
from opilio.settings import override

PAGE = b"<html>secret</html>"


async def speak_h2(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As little HTTP/2 as answers one request (RFC 9113): settings, one head, one piece of data."""
    await reader.readexactly(6)  # the rest of the preface
    writer.write(frame(4, 0, 0))
    while True:
        header = await reader.readexactly(9)
        await reader.readexactly(int.from_bytes(header[:3], "big"))
        kind, stream = header[3], int.from_bytes(header[5:], "big")
        if kind == 4 and not header[4] & 1:
            writer.write(frame(4, 1, 0))  # acknowledge the client's settings
        if kind == 1:
            head_block = b"\x88" + literal(b"content-type", b"text/html") + literal(b"x-form", b"h2")
            writer.write(frame(1, 4, stream, head_block) + frame(0, 1, stream, PAGE))


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One HTTP/2 frame."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def literal(name: bytes, value: bytes) -> bytes:
    """One header in HPACK, neither indexed nor compressed."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate for secure.test."""
    return make_certificate(tmp_path_factory.mktemp("tls"), "secure.test")


@pytest.fixture(scope="module")
def secure(certificate: tuple[Path, ssl.SSLContext]) -> Iterator[WebServer]:
    """A server that shows it."""
    with WebServer({"/": html(PAGE)}, tls=certificate[1]) as server:
        yield server


def test_self_signed_certificate_fails(secure: WebServer) -> None:
    """A certificate nobody vouches for is TLS_FAILED, and no request is sent."""
    response = fetch(to_server(secure.address), "https://secure.test/")
    assert response.fetch.outcome is Outcome.TLS_FAILED
    assert "certificate" in response.fetch.detail
    assert not secure.requests


def test_verification_can_be_turned_off(secure: WebServer) -> None:
    """Without verification the same server is read."""
    response = fetch(to_server(secure.address, verify_tls=False), "https://secure.test/")
    assert (response.fetch.outcome, response.body) == (Outcome.OK, PAGE)


def test_trusted_certificate(
    secure: WebServer, certificate: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate that Python trusts is trusted, for the name in it and no other, wherever we connect."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    config = to_server(secure.address)
    assert fetch(config, "https://secure.test/").fetch.outcome is Outcome.OK
    assert fetch(config, "https://other.test/").fetch.outcome is Outcome.TLS_FAILED


def test_own_authority(
    secure: WebServer, certificate: tuple[Path, ssl.SSLContext], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose certificate the user's own authority signed is read with `fetch.ca_file`, under its name only; what
    Python trusts is trusted still, what nobody vouches for is not. A proxy with TLS is checked in the same way."""
    authority, context = make_authority(tmp_path, "inside.test")
    with WebServer({"/": html(PAGE)}, tls=context) as inside:
        assert fetch(to_server(inside.address), "https://inside.test/").fetch.outcome is Outcome.TLS_FAILED
        config = to_server(inside.address, ca_file=str(authority))
        response = fetch(config, "https://inside.test/")
        assert (response.fetch.outcome, response.body) == (Outcome.OK, PAGE), response.fetch.detail
        assert fetch(config, "https://other.test/").fetch.outcome is Outcome.TLS_FAILED
    config = to_server(secure.address, ca_file=str(authority))
    assert fetch(config, "https://secure.test/").fetch.outcome is Outcome.TLS_FAILED
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert fetch(config, "https://secure.test/").fetch.outcome is Outcome.OK
    with WebServer({"/": html(PAGE)}) as origin, ProxyServer(origin.port, tls=context) as proxy:
        through = {"connect_to": {}, "proxy": f"https://{proxy.address}", "proxy_resolves_names": True}
        assert fetch(to_server("", **through), "http://a.test/").fetch.outcome is Outcome.TLS_FAILED
        assert fetch(to_server("", **through, ca_file=str(authority)), "http://a.test/").body == PAGE


def test_file_of_an_authority_is_checked_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is missing or has no certificate is a mistake in the settings, before anything is fetched. A good one
    is kept by its full path."""
    (tmp_path / "seeds.txt").write_text("http://a.test/")
    seeds = tmp_path / "seeds.txt"
    (tmp_path / "empty.pem").write_text("")
    (tmp_path / "torn.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    (tmp_path / "binary.pem").write_bytes(bytes(range(256)))
    for name in ("missing.pem", "empty.pem", "torn.pem", "binary.pem", "."):
        with pytest.raises(SettingsError, match="ca_file"):
            Client(to_server("127.0.0.1:1", ca_file=str(tmp_path / name)))
        with pytest.raises(SettingsError, match="ca_file"):
            Collection.create(tmp_path / "c", seeds=seeds, settings={"fetch.ca_file": str(tmp_path / name)})
    make_certificate(tmp_path, "own")
    monkeypatch.chdir(tmp_path)
    collection = Collection.create(tmp_path / "c", seeds=seeds, settings={"fetch.ca_file": "cert.pem"})
    assert collection.settings.fetch.ca_file == str(tmp_path / "cert.pem")


class HastyServer(WebServer):
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(status="400 Bad Request"))
        writer.close()


def test_no_tls_on_the_other_side() -> None:
    """A server that answers a TLS hello in plain text is TLS_FAILED."""
    with HastyServer({}) as plain:
        response = fetch(to_server(plain.address), "https://secure.test/")
    assert response.fetch.outcome is Outcome.TLS_FAILED


def test_http2_is_spoken_and_written_as_http1(tmp_path: Path) -> None:
    """HTTP/2 is chosen by ALPN; its head is recorded in the form of HTTP/1.1, which WARC readers understand."""
    _, context = make_certificate(tmp_path, "secure.test")
    context.set_alpn_protocols(["h2"])
    with WebServer({"*": speak_h2}, tls=context) as server:
        response = fetch(to_server(server.address, verify_tls=False), "https://secure.test/page")
    assert (response.fetch.outcome, response.body) == (Outcome.OK, PAGE), response.fetch.detail
    assert response.headers["x-form"] == "h2"
    assert response.raw_head == b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nx-form: h2\r\n\r\n"
    assert response.request_head.startswith(b"GET /page HTTP/1.1\r\nHost: secure.test\r\n")


def test_http_through_a_proxy() -> None:
    """Pages are asked from the proxy by their names, once these are known to be at public addresses. A name at a private
    address and one that nobody here knows never reach the proxy, unless names are left to it."""
    zone = {"name.test": (60, ["93.184.216.34"]), "router.test": (60, ["192.168.1.1"])}
    with WebServer({"/x": html(PAGE)}) as origin, ProxyServer(origin.port) as proxy, DnsServer(zone) as dns:
        config = to_server("", connect_to={}, proxy=f"http://{proxy.address}", dns_servers=(dns.address,))
        response = fetch(config, "http://name.test/x")
        assert (response.fetch.outcome, response.body) == (Outcome.OK, PAGE)
        assert fetch(config, "http://router.test/x").fetch.outcome is Outcome.PRIVATE_ADDRESS
        unknown = fetch(config, "http://unknown.test/x").fetch
        assert (unknown.outcome, "fetch.proxy_resolves_names" in unknown.detail) == (Outcome.DNS_FAILED, True)
        assert [request.split(b" ")[1] for request in proxy.requests] == [b"http://name.test/x"]
        dns.asked.clear()
        left = override(config, {"fetch.proxy_resolves_names": True})
        for name in ("router", "unknown"):
            assert fetch(left, f"http://{name}.test/x").body == PAGE
        assert fetch(left, "http://localhost/x").fetch.outcome is Outcome.PRIVATE_ADDRESS
        assert not dns.asked


def test_https_through_a_proxy(secure: WebServer) -> None:
    """TLS goes through a tunnel whose own answer is not taken for the page's head, on new and on kept connections."""

    async def run() -> None:
        config = to_server("", connect_to={}, proxy=f"http://{proxy.address}", dns_servers=(dns.address,))
        client = Client(override(config, {"fetch.verify_tls": False}))
        for _ in range(2):
            response = await client.fetch(Lease(1, "https://secure.test/"))
            assert (response.fetch.outcome, response.body) == (Outcome.OK, PAGE), response.fetch.detail
            assert "x-proxy" not in response.headers
            assert b"Connection established" not in response.raw_head
        await client.aclose()

    with ProxyServer(secure.port) as proxy, DnsServer({"secure.test": (60, ["93.184.216.34"])}) as dns:
        asyncio.run(run())
        assert [request.split(b" ")[:2] for request in proxy.requests] == [[b"CONNECT", b"secure.test:443"]]


class SocksServer(ProxyServer):
    """SOCKS5 without authentication (RFC 1928); `requests` holds the names it was asked to connect to."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        header = await reader.readexactly(5)
        assert header[3] == 3, "the name should come unresolved"
        self.requests.append((await reader.readexactly(header[4] + 2))[:-2])
        there, onward = await asyncio.open_connection("127.0.0.1", self._origin_port)
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await asyncio.gather(pump(reader, onward), pump(there, writer))


def test_socks_proxy_resolves_the_names() -> None:
    """With socks5h the proxy gets the name, not an address."""
    zone = {"n.test": (60, ["93.184.216.34"])}
    with WebServer({"/x": html(PAGE)}) as origin, SocksServer(origin.port) as proxy, DnsServer(zone) as dns:
        config = to_server("", connect_to={}, proxy=f"socks5h://{proxy.address}", dns_servers=(dns.address,))
        response = fetch(config, "http://n.test/x")
    assert (response.fetch.outcome, response.body) == (Outcome.OK, PAGE), response.fetch.detail
    assert proxy.requests == [b"n.test"]


def test_proxy_that_is_none() -> None:
    """A proxy of a kind we do not speak is a mistake in the settings."""
    with pytest.raises(SettingsError, match="proxy"):
        Client(to_server("127.0.0.1:1", proxy="ftp://127.0.0.1:1"))


def test_proxy_rules() -> None:
    """Local names and addresses are refused with a proxy too; a mapped host goes past it; a dead one is an outcome."""
    with WebServer({"/": html(PAGE)}) as origin, closed_port() as port:
        config = to_server(origin.address, proxy=f"http://127.0.0.1:{port}", proxy_resolves_names=True)
        assert fetch(config, "http://localhost/").fetch.outcome is Outcome.PRIVATE_ADDRESS
        assert fetch(config, "http://10.0.0.1/").fetch.outcome is Outcome.PRIVATE_ADDRESS
        assert fetch(config, "http://mapped.test/").fetch.outcome is Outcome.OK
        assert fetch(config, "http://name.example/").fetch.outcome is Outcome.CONNECT_FAILED


def test_environment_proxies_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment changes nothing: only the settings say how we connect."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with WebServer({"/": html(PAGE)}) as origin:
        assert fetch(to_server(origin.address), "http://a.test/").fetch.outcome is Outcome.OK
