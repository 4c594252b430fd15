"""A site whose pages a script writes, and pages whose scripts do what they should not, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = {
    "owl": "The barn owl hunts at night over open fields and nests in old barns and hollow trees. " * 6,
    "tern": "The arctic tern flies from one pole to the other and back in every year of its long life. " * 6,
    "swift": "The common swift eats, drinks and sleeps on the wing and lands only to build its nest. " * 6,
}
SHELL = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Birds</title>
<link rel="stylesheet" href="/style.css"><script src="/app.js" defer></script></head>
<body><noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div></body></html>"""
APP = """
const root = document.getElementById("root");
async function show() {
  const name = location.pathname.split("/")[2];
  if (!name) {
    const names = await (await fetch("/api/birds")).json();
    root.innerHTML = "<h1>All birds</h1><p>%s</p>" + names.map(n =>
      `<a href="/birds/${n}" onclick="history.pushState({}, '', this.href); show(); return false">The ${n}</a>`
    ).join(" ");
  } else {
    const bird = await (await fetch("/api/birds/" + name, {headers: {"Accept": "application/json"}})).json();
    document.title = "The " + name;
    root.innerHTML = `<main><h1>The ${name}</h1><p>${bird.text}</p><a href="/birds">All birds</a></main>`;
  }
}
show();
""" % ("A list of birds of open country, written by a script. " * 5)
TEXT = "<p>" + "This text was written by the script of a page that also did something else. " * 5 + "</p>"


def page(script: str, after: str = f"document.getElementById('root').innerHTML += `{TEXT}`") -> str:
    """An empty shell whose own script does something, and then writes a text."""
    return (
        '<!doctype html><html lang="en"><head><title>T</title></head><body><div id="root"></div>'
        f'<script type="module">{script};\n{after};</script></body></html>'
    )


class ScriptSite:
    """A server with pages from a table, in bytes and their type; `requests` are those that came."""

    def __init__(self, pages: dict[str, str | tuple[str, str | bytes]], robots: str = "") -> None:
        self.pages = dict(pages)
        self.robots = robots
        self.requests: list[tuple[str, str, float]] = []
        self.headers: list[dict[str, str]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                import time

                site.requests.append((self.command, self.path, time.monotonic()))
                site.headers.append({name.lower(): value for name, value in self.headers.items()})
                found = site.answer(self.path)
                kind, body = found if isinstance(found, tuple) else ("text/html; charset=utf-8", found)
                data = body.encode() if isinstance(body, str) else body
                self.send_response(404 if not kind else 200)
                self.send_header("Content-Type", kind or "text/plain")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Set-Cookie", "visitor=1")
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_PUT = do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.address = f"127.0.0.1:{self.port}"

    def answer(self, path: str) -> str | tuple[str, str | bytes]:
        """What a path gets."""
        if path == "/robots.txt":
            return "text/plain", self.robots
        return self.pages.get(path, ("", "not here"))

    def paths(self) -> list[str]:
        """The paths that were requested, robots.txt left out."""
        return [path for _, path, _ in self.requests if path != "/robots.txt"]


@contextmanager
def serving(pages: dict[str, str | tuple[str, str | bytes]], robots: str = "") -> Iterator[ScriptSite]:
    """A site on a free port."""
    site = ScriptSite(pages, robots)
    thread = threading.Thread(target=site.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        site.server.server_close()


def bird_site() -> dict[str, str | tuple[str, str | bytes]]:
    """A client-rendered site: every page is the same shell, and its script fetches what it shows."""
    pages: dict[str, str | tuple[str, str | bytes]] = {"/": SHELL, "/birds": SHELL}
    pages["/app.js"] = ("text/javascript", APP)
    pages["/style.css"] = ("text/css", "h1 { color: red }")
    pages["/api/birds"] = ("application/json", json.dumps(list(WORDS)))
    for name, text in WORDS.items():
        pages[f"/birds/{name}"] = SHELL
        pages[f"/api/birds/{name}"] = ("application/json", json.dumps({"text": text}))
    return pages
