"""http and https of one name are two origins: each has its own robots.txt, state and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fetch_servers import WebServer, html, make_certificate, pump, reply
from opilio import Collection

TLS_HELLO = b"\x16"
TEXTS = {
    "/": "Owls hunt at night over wide fields and rest by day",
    "/a": "Barn owls nest in old towers, lofts and hollow trees",
    "/b": "The eagle owl is the largest owl of the whole continent",
}


def page(path: str, scheme: str) -> bytes:
    """A page that no other page is like."""
    links = "".join(f'<a href="{to}">{to}</a>' for to in TEXTS)
    return html(f"<title>{scheme}{path}</title><p>{TEXTS[path]}, says {scheme} {path * 5}</p>{links}".encode())


class BothSchemes(WebServer):
    """One port that passes http on to one server and TLS to another; without a second server, TLS breaks off."""

    def __init__(self, plain: WebServer, secure: WebServer | None) -> None:
        super().__init__({})
        self._plain, self._secure = plain, secure

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(1)
        target = self._secure if first == TLS_HELLO else self._plain
        if target is None or not first:
            writer.close()
            return
        there, onward = await asyncio.open_connection("127.0.0.1", target.port)
        onward.write(first)
        await asyncio.gather(pump(reader, onward), pump(there, writer))


@contextmanager
def site(folder: Path, http_robots: bytes, https_robots: bytes | None) -> Iterator[tuple[BothSchemes, WebServer]]:
    """A site with a robots.txt for each scheme; None: it has no https."""
    plain = WebServer({"/robots.txt": http_robots} | {path: page(path, "http") for path in TEXTS})
    _, tls = make_certificate(folder, "site.test")
    secure = WebServer({"/robots.txt": https_robots or b""} | {path: page(path, "https") for path in TEXTS}, tls=tls)
    with plain, secure, BothSchemes(plain, secure if https_robots is not None else None) as both:
        yield both, plain


def make(folder: Path, address: str, urls: list[str], **changes: Any) -> Collection:
    seeds = folder / "seeds.txt"
    seeds.write_text("\n".join(urls))
    settings: dict[str, Any] = {
        "fetch.connect_to": {"*.test": address}, "fetch.verify_tls": False, "fetch.host_delay_s": 0.0,
        "fetch.backoff_s": 0.05, "run.workers": -1, "duplicates.near_jaccard": 0.0, "duplicates.ip_path": "off",
    }  # fmt: skip
    settings |= {key.replace("__", "."): value for key, value in changes.items()}
    return Collection.create(folder / "c", seeds=seeds, settings=settings)


def robots(rule: str) -> bytes:
    return reply(f"User-agent: *\n{rule}\n".encode(), Content_Type="text/plain")


def outcomes(collection: Collection) -> dict[str, str]:
    return dict(collection.sql("SELECT url, outcome FROM crawl").rows)


def test_each_scheme_has_its_own_robots_txt(tmp_path: Path) -> None:
    """A page that http's robots.txt forbids is not fetched by http, whatever https allows, and the other way round."""
    with site(tmp_path, robots("Disallow: /a"), robots("Disallow: /b")) as (both, plain):
        collection = make(tmp_path, both.address, ["http://site.test/", "https://site.test/"])
        collection.crawl()
        asked = plain.paths()
    found = {f"{scheme}://site.test{path}": "ok" for scheme in ("http", "https") for path in TEXTS}
    assert outcomes(collection) == found | {"http://site.test/a": "robots", "https://site.test/b": "robots"}
    assert "/a" not in asked
    rows = collection.sql("SELECT scheme, text FROM robots JOIN origins USING (sid, scheme) ORDER BY 1").rows
    assert [(scheme, text.split()[-1]) for scheme, text in rows] == [("http", "/a"), ("https", "/b")]
    assert collection.sql("SELECT count(*), sum(pages) FROM hosts").rows == [(1, 4)]


def test_an_https_bookmark_does_not_lose_an_http_site(tmp_path: Path) -> None:
    """A site without https gives its pages by http; the https URL fails for its own reason, which is named."""
    with site(tmp_path, robots("Disallow:"), None) as (both, _):
        collection = make(tmp_path, both.address, ["https://site.test/", "http://site.test/"])
        status = collection.crawl()
    assert outcomes(collection) == {
        "https://site.test/": "tls-failed", **{f"http://site.test{path}": "ok" for path in TEXTS},
    }  # fmt: skip
    assert (status.pages, status.bad_hosts) == (3, 0)


@pytest.mark.parametrize("tries", [1, 3])
def test_a_robots_txt_that_cannot_be_had_forbids_for_now(tmp_path: Path, tries: int) -> None:
    """Status 503 for robots.txt is tried again; after too many tries the URL fails as what it is, an error of the
    server, and the next run tries once more."""
    answers = [reply(status="503 Busy")] * 2 + [robots("Disallow: /b")]

    async def next_answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop(0))

    with WebServer({"/robots.txt": next_answer, **{path: page(path, "http") for path in TEXTS}}) as server:
        collection = make(tmp_path, server.address, ["http://site.test/"], fetch__host_tries=tries)
        for _ in range(2 if tries == 1 else 0):
            assert collection.crawl().bad_hosts == 1
            assert collection.sql("SELECT state, outcome FROM crawl").rows == [("failed", "http-5xx")]
            assert collection.sql("SELECT state, problem, met FROM origins").rows == [("bad", "http-5xx", None)]
        status = collection.crawl()
    assert (status.pages, status.bad_hosts) == (2, 0)
    assert outcomes(collection)["http://site.test/b"] == "robots"
    assert collection.sql("SELECT outcome FROM visits WHERE kind = 'host' ORDER BY visited").rows == [
        ("http-5xx",), ("http-5xx",), ("ok",),
    ]  # fmt: skip
