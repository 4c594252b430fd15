"""What rendering costs and what it finds, on a client-rendered site made here, on loopback.

    python -m bench.speed.rendering [--pages N]

The site has N pages of 100 to 800 words, each of which links to 5 others. It is served twice: written by the server,
and as one empty shell whose script fetches the text of each page and writes it. Both are crawled by one worker process
without delays; the second one without and with rendering. CPU is that of all processes of the crawl, the browser
included. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Process, Queue
from pathlib import Path

from opilio import Collection
from opilio.render.process_tree import descendants, private_bytes
from opilio.settings import Settings, override

WORDS = [
    "moth",
    "spider",
    "lichen",
    "tide",
    "lamp",
    "star",
    "shore",
    "rock",
    "wing",
    "web",
    "silk",
    "spore",
    "salt",
    "wave",
    "glass",
    "lens",
    "night",
    "field",
    "stone",
]
SHELL = '<!doctype html><html lang="en"><head><title>Shore</title></head><body><div id="root"></div>' \
        '<script type="module" src="/app.js"></script></body></html>'  # fmt: skip
APP = """
const page = await (await fetch("/api" + location.pathname)).json();
document.title = page.title;
document.getElementById("root").innerHTML = page.html;
"""


def content(number: int, pages: int) -> dict[str, str]:
    """A page: its title and what is in its body."""
    chance = random.Random(number)
    words = " ".join(chance.choice(WORDS) for _ in range(chance.randint(100, 800)))
    links = "".join(f'<a href="/page/{chance.randrange(pages)}">{chance.choice(WORDS)}</a> ' for _ in range(5))
    return {"title": f"Page {number}", "html": f"<main><h1>Page {number}</h1><p>{words}</p>{links}</main>"}


def serve(pages: int, answer: Queue[int]) -> None:
    """The site in a process of its own; /static/... is the one that the server writes."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            kind, body = "text/html; charset=utf-8", SHELL
            path, is_static = self.path, self.headers["Host"].startswith("static.")
            if path == "/robots.txt":
                kind, body = "text/plain", ""
            elif path == "/app.js":
                kind, body = "text/javascript", APP
            elif is_static or path.startswith("/api/"):
                page = content(int(path.rpartition("/")[2]), pages)
                if is_static:
                    body = f"<!doctype html><html lang=en><title>{page['title']}</title><body>{page['html']}"
                else:
                    kind, body = "application/json", json.dumps(page)
            data = body.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    answer.put(server.server_address[1])
    server.serve_forever()


def cpu_s(pid: int) -> float:
    """CPU of a process and of the children that it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def crawl(folder: Path, port: int, host: str, mode: str, answer: Queue[dict[str, float]]) -> None:
    """One crawl, measured, in a process of its own."""
    seeds = folder / "seeds.txt"
    folder.mkdir()
    seeds.write_text(f"http://{host}:{port}/page/0\n")
    settings = override(Settings(), {
        "render.mode": mode, "render.sandbox": os.geteuid() != 0, "fetch.host_delay_s": 0.0, "run.workers": 1,
        "fetch.connect_to": {"*.test": f"127.0.0.1:{port}"}, "fetch.per_host": 8, "traps.soft_404": False,
        "search.index": False, "fetch.pictures_per_host": 0,
    })  # fmt: skip
    collection = Collection.create(folder / "c", seeds=seeds, settings=settings)
    peak, used, is_over = [0], [0.0], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.1):
            tree = [os.getpid(), *descendants(os.getpid())]
            peak[0] = max(peak[0], sum(map(private_bytes, tree)))
            used[0] = max(used[0], sum(map(cpu_s, tree)))

    threading.Thread(target=watch, daemon=True).start()
    started_s = time.monotonic()
    status = collection.crawl()
    took_s = time.monotonic() - started_s
    is_over.set()
    answer.put({
        "pages": status.pages, "shells": status.shell_pages, "requests": status.requests, "wall_s": took_s,
        "cpu_s": used[0], "peak_mib": peak[0] / 2**20,
    })  # fmt: skip


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=200)
    pages = parser.parse_args().pages
    ports: Queue[int] = Queue()
    server = Process(target=serve, args=(pages, ports), daemon=True)
    server.start()
    port, found = ports.get(), {}
    runs = {"written by the server": ("static.test", "never"), "client-rendered, never": ("app.test", "never"),
            "client-rendered, auto": ("app.test", "auto")}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, (host, mode) in runs.items():
            results: Queue[dict[str, float]] = Queue()
            place = Path(folder) / name.replace(" ", "-")
            one = Process(target=crawl, args=(place, port, host, mode, results))
            one.start()
            found[name] = results.get()
            one.join()
            row = found[name]
            per = f"{1000 * row['cpu_s'] / row['pages']:.0f} ms CPU, {1000 * row['wall_s'] / row['pages']:.0f} ms" \
                if row["pages"] else "no page"  # fmt: skip
            print(
                f"{name}: {row['pages']:.0f} pages, {row['requests']:.0f} requests, {per} a page, "
                f"{row['peak_mib']:.0f} MiB"
            )
    server.terminate()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
