"""Services on loopback that speak the protocols of the seed providers, written from their documentation."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from opilio.settings import Settings, from_table

PER_PAGE = 3
Parameters = dict[str, str]


class Answer(NamedTuple):
    body: bytes = b""
    status: int = 200
    headers: Parameters = {}
    delay_s: float = 0.0


Serve = Callable[[str, Parameters], Answer]


class Service:
    """A web server that answers with a function of path and parameters, and remembers what it was asked."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.asked: list[tuple[str, Parameters]] = []
        self.agents: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                given = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
                service.asked.append((parts.path, given))
                service.agents.append(self.headers.get("User-Agent", ""))
                answer = service.serve(parts.path, given)
                time.sleep(answer.delay_s)
                with contextlib.suppress(OSError):
                    self.send_response(answer.status)
                    for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Service:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def allowing(**seeds: Any) -> Settings:
    """Settings that let providers be asked on loopback, without delay."""
    fetching = {"allow_private_addresses": True, "host_delay_s": 0.0, "contact_url": "https://example.org/us"}
    return from_table({"fetch": fetching, "seeds": seeds})


def searxng(urls: list[str]) -> Serve:
    """A page of results for each `pageno`, as SearXNG writes them."""

    def serve(path: str, given: Parameters) -> Answer:
        if path != "/search" or given.get("format") != "json":
            return Answer(status=403)
        start = (int(given["pageno"]) - 1) * PER_PAGE
        results = [{"url": url, "title": f"T{url[-1]}", "engine": "e"} for url in urls[start : start + PER_PAGE]]
        return as_json({"query": given["q"], "results": results, "unresponsive_engines": []})

    return serve


def mediawiki(urls: list[str]) -> Serve:
    """generator=search with prop=info; pages come in no order, and the next request continues at gsroffset."""

    def serve(path: str, given: Parameters) -> Answer:
        asked = {"action": "query", "generator": "search", "prop": "info", "inprop": "url", "format": "json"}
        if path != "/w/api.php" or not asked.items() <= given.items():
            return as_json({"error": {"code": "badvalue", "info": "Unrecognized value"}})
        start = int(given.get("gsroffset", 0))
        count = min(PER_PAGE, int(given["gsrlimit"]))
        found = [
            {"pageid": n, "index": n, "title": f"T{url[-1]}", "canonicalurl": url, "fullurl": url}
            for n, url in enumerate(urls[start : start + count], start + 1)
        ]
        answer: dict[str, Any] = {"query": {"pages": found[::-1]}} if found else {"batchcomplete": True}
        if start + count < len(urls):
            answer["continue"] = {"gsroffset": start + count, "continue": "gsroffset||"}
        return as_json(answer)

    return serve


def pywb(urls: list[str]) -> Serve:
    """One JSON object a line, as pywb and Common Crawl write them; 404 when nothing was captured."""

    def serve(path: str, given: Parameters) -> Answer:
        if path != "/owls/cdx" or given.get("output") != "json":
            return Answer(status=400)
        rows = [{"url": url, "mime": "text/html", "status": "200"} for url in urls]
        rows += [{"url": "http://a.test/x.png", "mime": "image/png", "status": "200"}] if urls else []
        rows += [{"url": "http://a.test/gone", "mime": "text/html", "status": "404"}] if urls else []
        return Answer("".join(json.dumps(row) + "\n" for row in rows).encode(), 200 if urls else 404)

    return serve


def portal(urls: list[str]) -> Serve:
    """The REST search of a portal."""

    def serve(path: str, given: Parameters) -> Answer:
        if path != "/api/c/owls/search":
            return Answer(status=404)
        start, size = (int(given["page"]) - 1) * int(given["size"]), int(given["size"])
        found = [{"url": url, "title": f"T{url[-1]}", "relevance": 0.9} for url in urls[start : start + size]]
        return as_json({"question": given["q"], "total": len(urls), "results": found})

    return serve


DESCRIPTION = """<?xml version="1.0"?>
<OpenSearchDescription xmlns="http://a9.com/-/spec/opensearch/1.1/"><ShortName>Owls</ShortName>
<Url type="text/html" template="/html?q={searchTerms}"/>
<Url type="application/x-suggestions+json" rel="suggestions" template="/s?q={searchTerms}"/>
<Url type="application/rss+xml" template="/rss?q={searchTerms}"/>
<Url type="application/atom+xml" indexOffset="0"
     template="/atom?q={searchTerms}&amp;from={startIndex}&amp;n={count?}&amp;geo={geo:box?}"/>
</OpenSearchDescription>"""


def opensearch(urls: list[str]) -> Serve:
    """A description with relative templates; the best has results as Atom, counted from 0."""

    def serve(path: str, given: Parameters) -> Answer:
        if path == "/description":
            return Answer(DESCRIPTION.encode())
        if path != "/atom" or given.get("geo") != "":
            return Answer(status=404)
        start = int(given["from"])
        entries = "".join(
            f'<entry><title type="html">T{url[-1]}</title><link rel="self" href="http://no.test/"/><link href="{url}"/></entry>'
            for url in map(escape, urls[start : start + PER_PAGE])
        )
        return Answer(f'<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title>{entries}</feed>'.encode())

    return serve


class Kind(NamedTuple):
    serve: Callable[[list[str]], Serve]
    path: str
    """What stands after the address of the server in the address of the provider."""


KINDS = {
    "searxng": Kind(searxng, ""),
    "mediawiki": Kind(mediawiki, "/w/api.php"),
    "cdx": Kind(pywb, "/owls/cdx?url=a.test/*"),
    "opilio": Kind(portal, "/c/owls"),
    "opensearch": Kind(opensearch, "/description"),
}
"""A service for every provider that comes with Opilio."""


def as_json(value: Any, status: int = 200) -> Answer:
    return Answer(json.dumps(value).encode(), status, {"Content-Type": "application/json"})


@contextlib.contextmanager
def serving(kind: str, urls: list[str]) -> Iterator[tuple[Service, str]]:
    """The service of a provider with these pages, and the provider as a user writes it."""
    with Service(KINDS[kind].serve(urls)) as service:
        yield service, f"{kind}={service.address}{KINDS[kind].path}"
