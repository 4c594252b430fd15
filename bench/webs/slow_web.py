"""The made web (`made_web.py`) over HTTP, each answer as late as one from far away: 50 to 300 ms, drawn per request.

    with SlowWeb(pages=20_000, hosts=400) as web:
        settings = {"fetch.connect_to": web.connect_to}

The server is a process of its own. It costs little CPU, so that what is measured against it is not the server.
"""

from __future__ import annotations

import asyncio
import html
import random
from types import TracebackType

import uvloop

from bench.webs.made_web import Made
from opilio.model import Outcome
from opilio.process import Channel, end_with_parent, start

LEAST_S, MOST_S = 0.05, 0.3


class SlowWeb:
    """The server, in a process beside this one."""

    def __init__(self, pages: int, hosts: int) -> None:
        self.web = Made(pages, hosts)
        self._child = start("bench.webs.slow_web:serve", str(pages), str(hosts))
        self.connect_to = {"*.example": f"127.0.0.1:{int(self._child.channel.receive())}"}

    def __enter__(self) -> SlowWeb:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, web: Made, rng: random.Random) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ", 2)[1]
            host = next(line[5:].strip() for line in head.split("\r\n") if line.lower().startswith("host:"))
            await asyncio.sleep(rng.uniform(LEAST_S, MOST_S))
            writer.write(_response(web, f"http://{host}{path}", path))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _response(web: Made, url: str, path: str) -> bytes:
    if path == "/robots.txt":
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    host, place = web.page_of(url)
    fetch = web.fetch(host, place)
    if fetch.outcome is Outcome.REDIRECT:
        return f"HTTP/1.1 301 Moved\r\nLocation: {fetch.redirect_url}\r\nContent-Length: 0\r\n\r\n".encode()
    if fetch.outcome is not Outcome.OK:
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    document, _ = web.page(host, place)
    links = "\n".join(
        f'<p>{link.context} <a href="{link.url}">{html.escape(link.anchor)}</a></p>' for link in document.links
    )
    body = f"<!doctype html><html lang=en><title>{document.title}</title><p>{document.text}</p>{links}</html>".encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def _serve(web: Made, channel: Channel) -> None:
    rng = random.Random(1)
    server = await asyncio.start_server(lambda reader, writer: _answer(reader, writer, web, rng), "127.0.0.1", 0)
    channel.send(b"%d" % server.sockets[0].getsockname()[1])
    async with server:
        await server.serve_forever()


def serve(channel: Channel, pages: str, hosts: str) -> None:
    """The work of the process."""
    end_with_parent(channel)
    uvloop.run(_serve(Made(int(pages), int(hosts)), channel))
