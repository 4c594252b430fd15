"""Chaos: one collection is crawled while everything around it fails, and what must hold is checked after each fault.

    python -m bench.chaos [--minutes 30] [--quick] [--seed 1] [--folder FOLDER]

A standing crawl (`opilio crawl --keep-fresh`) of the local web, its misbehaving hosts included, runs as a process of
its own. Its requests go through a network of ours, a forwarder on loopback. Every few seconds something fails, drawn by
lot: the engine or a worker is killed, the network refuses or stalls for a while, connections are cut in the middle, the
web's server stops, a user interrupts, a stranger sends nonsense to the portal. A copy of the collection is damaged now
and then, verified and repaired. Counted, and all but the first three and the peaks wanted to be 0:

- `faults` injected, `checks` made (`opilio verify`, and the comparisons below), `pages` stored at the end;
- `pages_lost`: pages that were committed before a kill and are gone after it, or that a repair could not bring back;
- `defects`: what `opilio verify` found wrong after a kill, and damages that it did not notice;
- `impolite`: requests to a host sooner than its delay after the one before, or more of them at once than allowed;
- `crashes`: runs that ended otherwise than by a kill, an interrupt, or an outage that was too long;
- `portal_errors`: answers of the portal with a status of 500 or more to nonsense, or none at all;
- `peak_mb` of the crawl's processes together, `peak_files` open in the engine, `disk_mb`, and the growth of each an
  hour over the second half of the run.

Ends with exit code 1 when one that should be 0 is not. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from opilio import Collection
from opilio.crawl.repair import repair
from opilio.crawl.verification import INDEX_CHECK, verify
from opilio.errors import OpilioError
from opilio.lab.local_web import LocalServer

DELAY_S = 0.2
PER_HOST = 2
TOLERANCE_S = 0.02
"""We see when a request arrived, not when it was sent."""
FAULT_S = (4.0, 12.0)
"""Between two faults."""
OUTAGE_S = (1.0, 8.0)
COPIES_MB = 400
"""A larger collection is not copied to be damaged."""
SAMPLE_S = 2.0
_HOST = re.compile(rb"^host: ([^\r:]+)", re.IGNORECASE | re.MULTILINE)
BUFFER = 2**16
CUT_SHARE = 0.02
"""Of the connections: cut after some bytes while the network is bad."""
NONSENSE = (
    "/c/web/search?q=%22%28%00", "/c/web/sql?sql=SELECT+repeat%28%27x%27%2C+1000000000%29", "/c/web/page?url=%FF%FE",
    "/api/c/web/search?q=a&size=-1&page=99999999999999999999", "/c/%2e%2e%2fetc/", "/api/c/web/sql?sql=ATTACH+%27x%27",
    "/c/web/topic?topic=%3Cscript%3E", "/api/c/web/distill?top=1e9", "/c/web/picture?url=file:///etc/passwd",
)  # fmt: skip


@dataclass
class SeenRequest:
    """A request that passed, as far as the network can tell when it ended: with the last byte that came back."""

    host: str
    started_s: float
    ended_s: float


class Network:
    """Forwards connections to the web's server; can refuse, stall and cut them."""

    def __init__(self, target_port: int, seed: int) -> None:
        self._target_port = target_port
        self._draw = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._is_flowing = asyncio.Event()
        self.is_cutting = False
        self.requests: list[SeenRequest] = []
        self.port = 0
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Network:
        self._thread.start()
        self._do(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._refuse)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _do(self, step: Callable[[], object]) -> None:
        async def run() -> None:
            result = step()
            if asyncio.iscoroutine(result):
                await result

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    async def _listen(self) -> None:
        self._is_flowing.set()
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._draw.randrange(40_000) if self.is_cutting and self._draw.random() < CUT_SHARE else -1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        try:
            seen: list[SeenRequest] = []
            await asyncio.gather(
                self._copy(reader, far_writer, -1, lambda data: self._note_request(seen, data)),
                self._copy(far_reader, writer, left, lambda _: self._note_answer(seen)),
            )
        finally:
            self._open -= {writer, far_writer}
            writer.transport.abort()
            far_writer.transport.abort()

    def _note_request(self, seen: list[SeenRequest], data: bytes) -> None:
        if found := _HOST.search(data):
            seen.append(SeenRequest(found[1].decode("latin-1").lower(), time.time(), time.time()))
            self.requests.append(seen[-1])

    def _note_answer(self, seen: list[SeenRequest]) -> None:
        if seen:
            seen[-1].ended_s = time.time()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int, note: Callable[[bytes], None]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(BUFFER):
                note(data)
                await self._is_flowing.wait()
                if 0 <= left < len(data):
                    writer.transport.abort()
                    return
                left -= len(data) if left >= 0 else 0
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    def refuse(self) -> None:
        """Refuse all connections from now on, and cut those that are open."""
        self._do(self._refuse)

    def stall(self) -> None:
        """Accept connections, and let nothing through."""
        self._do(self._is_flowing.clear)

    def restore(self) -> None:
        """Work again."""
        self._do(self._is_flowing.set)
        if self._server is None:
            self._do(self._listen)


@dataclass
class Figures:
    """What is counted."""

    faults: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    pages: int = 0
    runs: int = 0
    pages_lost: int = 0
    defects: int = 0
    impolite: int = 0
    crashes: int = 0
    portal_errors: int = 0
    notes: list[str] = field(default_factory=list)

    def wrong(self, name: str, what: str, count: int = 1) -> None:
        """Something that must not happen."""
        setattr(self, name, getattr(self, name) + count)
        self.notes.append(what)
        print(f"WRONG {name}: {what}", flush=True)


class Sampler(threading.Thread):
    """Measures the crawl's processes and its folder, every so often."""

    def __init__(self, folder: Path, pid: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self._folder, self._pid = folder, pid
        self.rows: list[tuple[float, float, int, float]] = []
        """Seconds, megabytes of memory, open files of the engine, megabytes on disk."""
        self._ends = threading.Event()

    def run(self) -> None:
        while not self._ends.wait(SAMPLE_S):
            with contextlib.suppress(OSError):
                self.rows.append((time.monotonic(), *self._measure()))

    def end(self) -> None:
        """Measure no more."""
        self._ends.set()
        self.join()

    def _measure(self) -> tuple[float, int, float]:
        engine = self._pid()
        memory = sum(_memory_mb(pid) for pid in (engine, *_descendants(engine)))
        files = sum(1 for _ in Path(f"/proc/{engine}/fd").iterdir())
        disk = sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file()) / 1e6
        return memory, files, disk

    def growth(self, column: int) -> float:
        """Of a column an hour, by a line through the second half."""
        rows = self.rows[len(self.rows) // 2 :]
        if len(rows) < 10:
            return 0.0
        seconds = np.array([row[0] for row in rows])
        values = np.array([row[column] for row in rows], dtype=float)
        return float(np.polyfit(seconds - seconds[0], values, 1)[0] * 3600)


def _memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):  # what processes share counts once
            return int(line.split()[1]) / 1e3
    return 0.0


def _descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield int(child)
            yield from _descendants(int(child))


def pages_of(collection: Collection, more: str = "''") -> set[str]:
    """The addresses of the stored pages, each with something more."""
    [(found,)] = collection.sql(f"SELECT list(url || ' ' || {more}) FROM collection").rows  # one row: they are limited
    return set(found or ())


class Chaos:
    """One run."""

    def __init__(self, folder: Path, server: LocalServer, network: Network, seed: int) -> None:
        self.folder, self.server, self.network = folder, server, network
        self.draw = random.Random(seed)
        self.figures = Figures()
        self.process: subprocess.Popen[bytes] | None = None
        self.began_s: list[float] = []
        self.known: set[str] = set()
        bookmarks = folder.parent / "bookmarks.html"
        bookmarks.write_text(server.web.bookmarks(server.web.topics[:4], 5), "utf-8")
        seeds = folder.parent / "seeds.txt"
        seeds.write_text("http://directory.test/\nhttp://trouble.test/\n")
        self.collection = Collection.create(
            folder,
            bookmarks=bookmarks,
            seeds=seeds,
            settings={
                "fetch.connect_to": {server.hosts: f"127.0.0.1:{network.port}"}, "fetch.host_delay_s": DELAY_S,
                "fetch.per_host": PER_HOST, "fetch.total_timeout_s": 6.0, "fetch.read_timeout_s": 3.0,
                "fetch.backoff_s": 1.0, "fetch.outage_timeout_s": 60.0, "store.batch_s": 1.0,
                "revisit.keep_fresh": True, "revisit.min_s": 20.0, "revisit.max_s": 120.0, "run.workers": 2,
            },
        )  # fmt: skip

    # -- the crawl

    @property
    def pid(self) -> int:
        """The engine."""
        return self.process.pid if self.process is not None else 0

    def start(self) -> None:
        """Begin or go on."""
        self.figures.runs += 1
        self.began_s.append(time.time())
        with (self.folder.parent / "crawl.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "opilio", "crawl", str(self.folder), "--quiet"],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def watch(self, seconds: float) -> None:
        """Let it crawl; one that ended by itself is a crash."""
        assert self.process is not None
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        self.figures.wrong("crashes", f"the crawl ended with {code}: {self._last_words()}")
        self.check()
        self.start()

    def _last_words(self) -> str:
        lines = (self.folder.parent / "crawl.log").read_text("utf-8", "replace").splitlines()
        return " / ".join(lines[-3:])

    def end(self, how: int) -> None:
        """Kill it, or interrupt it and wait."""
        assert self.process is not None
        if how == signal.SIGKILL:
            for pid in [*_descendants(self.pid)]:
                with contextlib.suppress(OSError):
                    os.kill(pid, how)
        self.process.send_signal(how)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.figures.wrong("crashes", "it did not end within 60 s of an interrupt")
            self.process.send_signal(signal.SIGABRT)  # it writes to the log what its threads do
            code = self.process.wait()
        if how == signal.SIGINT and code not in (0, 130):
            self.figures.wrong("crashes", f"interrupted, it ended with {code}: {self._last_words()}")

    def check(self) -> None:
        """Nothing that was stored is lost, and everything agrees."""
        self.figures.checks += 2
        report = verify(self.folder)
        for check in report.checks:
            if check.count and check.name != INDEX_CHECK:
                self.figures.wrong("defects", f"{check.name}: {check.defects}", check.count)
        now = pages_of(self.collection)
        if lost := self.known - now:
            self.figures.wrong("pages_lost", f"{len(lost)} pages, such as {min(lost)}", len(lost))
        self.known = now

    # -- faults

    def faults(self) -> dict[str, Callable[[], None]]:
        """What can happen."""
        return {
            "engine killed": self.kill_engine,
            "worker killed": self.kill_worker,
            "network refuses": self.refuse,
            "network stalls": self.stall,
            "connections cut": self.cut,
            "server stops": self.stop_server,
            "interrupted": self.interrupt,
            "nonsense to the portal": self.attack,
            "files damaged": self.damage,
        }

    def kill_engine(self) -> None:
        """kill -9 of all its processes; what was committed is there."""
        with contextlib.suppress(OpilioError):  # it may just be starting
            self.known |= pages_of(self.collection)
        self.end(signal.SIGKILL)
        (self.folder / "engine.json").unlink(missing_ok=True)
        self.check()
        self.start()

    def kill_worker(self) -> None:
        """kill -9 of a process that the engine has started."""
        children = list(_descendants(self.pid))
        if children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.draw.choice(children), signal.SIGKILL)

    def refuse(self) -> None:
        """No connection for a while."""
        self.network.refuse()
        self.watch(self.draw.uniform(*OUTAGE_S))
        self.network.restore()

    def stall(self) -> None:
        """No byte for a while."""
        self.network.stall()
        self.watch(self.draw.uniform(*OUTAGE_S))
        self.network.restore()

    def cut(self) -> None:
        """Connections end in the middle for a while."""
        self.network.is_cutting = True
        self.watch(self.draw.uniform(*OUTAGE_S))
        self.network.is_cutting = False

    def stop_server(self) -> None:
        """The machine of the web hangs for a while."""
        pids = [child.process.pid for child in self.server._children]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self.watch(self.draw.uniform(*OUTAGE_S))
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def interrupt(self) -> None:
        """Ctrl-C, and the same command again."""
        self.end(signal.SIGINT)
        self.check()
        self.start()

    def attack(self) -> None:
        """Nonsense, sent to a portal that shows the collection while it is crawled."""
        with portal(self.folder.parent) as address:
            for path in NONSENSE:
                self.figures.checks += 1
                try:
                    with urllib.request.urlopen(address + path, timeout=30) as answer:
                        status = answer.status
                except urllib.error.HTTPError as error:
                    status = error.code
                except OSError as error:
                    self.figures.wrong("portal_errors", f"{path}: {error}")
                    continue
                if status >= 500 and status != 503:
                    self.figures.wrong("portal_errors", f"{path}: {status}")

    def damage(self) -> None:
        """A bit of a copy is flipped: it is noticed, or nothing has changed; what a repair brings back is all there."""
        if sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) > COPIES_MB * 1e6:
            return
        self.end(signal.SIGINT)
        copy = self.folder.parent / "damaged"
        shutil.copytree(self.folder, copy)
        self.start()
        try:
            before = pages_of(Collection(copy), "content_hash")
            files = [path for path in copy.rglob("*") if path.suffix in (".duckdb", ".gz") and path.stat().st_size]
            file = self.draw.choice(files)
            at = self.draw.randrange(file.stat().st_size)
            with file.open("r+b") as stream:
                stream.seek(at)
                [byte] = stream.read(1)
                stream.seek(at)
                stream.write(bytes([byte ^ 1 << self.draw.randrange(8)]))
            self.figures.checks += 2
            if verify(copy).defects:
                repair(copy)
                if left := verify(copy).defects:
                    self.figures.wrong("defects", f"{left} left after the repair of {file.name}, byte {at}", left)
            if lost := before - pages_of(Collection(copy), "content_hash"):
                self.figures.wrong("pages_lost", f"byte {at} of {file.name}: {len(lost)} pages", len(lost))
        finally:
            shutil.rmtree(copy)

    # -- afterwards

    def count_impolite(self) -> None:
        """Requests that came too soon. The first after a start may: nobody knows when a killed crawl sent its last."""
        by_host: dict[str, list[SeenRequest]] = defaultdict(list)
        for request in sorted(self.network.requests, key=lambda request: request.started_s):
            by_host[request.host].append(request)
        for host, requests in by_host.items():
            for place, request in enumerate(requests):
                began_s = max(began for began in self.began_s if began <= request.started_s)
                earlier = [one for one in requests[max(0, place - 50) : place] if one.started_s >= began_s]
                at_once = 1 + sum(one.ended_s > request.started_s for one in earlier)
                waited_s = request.started_s - max((one.ended_s for one in earlier), default=0.0)
                if at_once > PER_HOST:
                    self.figures.wrong("impolite", f"{host}: {at_once} requests at once")
                elif at_once == 1 and waited_s < DELAY_S - TOLERANCE_S:
                    self.figures.wrong("impolite", f"{host}: a request {waited_s:.3f} s after another")


@contextlib.contextmanager
def portal(folder: Path) -> Iterator[str]:
    """`opilio serve`, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "opilio", "serve", str(folder), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "http://" in line)
        found = urllib.parse.urlsplit(next(word for word in line.split() if word.startswith("http://")))
        yield f"http://{found.netloc}"
    finally:
        process.terminate()
        process.wait(20)


def run(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Crawl, break, check; the figures."""
    seconds = 60.0 * options.minutes
    with LocalServer("small" if options.quick else "full") as server, Network(server.port, options.seed) as network:
        chaos = Chaos(folder / "web", server, network, options.seed)
        chaos.start()
        sampler = Sampler(chaos.folder, lambda: chaos.pid)
        sampler.start()
        ends_s = time.monotonic() + seconds
        try:
            chaos.watch(5.0)
            while time.monotonic() < ends_s:
                # Each once before any twice, so that a short run has them all.
                fewest = min(chaos.figures.faults[name] for name in chaos.faults())
                name = chaos.draw.choice([name for name in chaos.faults() if chaos.figures.faults[name] == fewest])
                print(f"{ends_s - time.monotonic():6.0f} s left: {name}", flush=True)
                chaos.figures.faults[name] += 1
                chaos.faults()[name]()
                chaos.watch(chaos.draw.uniform(*FAULT_S))
            chaos.end(signal.SIGINT)
            sampler.end()
            chaos.check()
        finally:
            if chaos.process is not None and chaos.process.poll() is None:
                chaos.end(signal.SIGKILL)
        chaos.count_impolite()
        figures = chaos.figures
        figures.pages = len(chaos.known)
        requests = len(server.requests())
    rows = sampler.rows or [(0.0, 0.0, 0, 0.0)]
    return {
        "minutes": options.minutes, "python": platform.python_version(), "seed": options.seed,
        "faults": sum(figures.faults.values()), "by_fault": dict(figures.faults), "runs": figures.runs,
        "checks": figures.checks, "pages": figures.pages, "requests": requests, "pages_lost": figures.pages_lost,
        "defects": figures.defects, "impolite": figures.impolite, "crashes": figures.crashes,
        "portal_errors": figures.portal_errors, "peak_mb": round(max(row[1] for row in rows)),
        "peak_files": max(row[2] for row in rows), "disk_mb": round(rows[-1][3]),
        "memory_mb_per_hour": round(sampler.growth(1), 1), "files_per_hour": round(sampler.growth(2), 1),
        "disk_mb_per_hour": round(sampler.growth(3), 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=None, help="how long (default: 30, 1.5 when quick)")
    parser.add_argument("--quick", action="store_true", help="a small web, each fault once")
    parser.add_argument("--seed", type=int, default=1, help="of the lot that draws the faults")
    parser.add_argument("--folder", type=Path, help="where to work, and what to look at afterwards")
    options = parser.parse_args()
    options.minutes = options.minutes or (1.5 if options.quick else 30.0)
    with tempfile.TemporaryDirectory(prefix="opilio-chaos-") as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        figures = run(options, folder)
    wanted_none = ("pages_lost", "defects", "impolite", "crashes", "portal_errors")
    print(json.dumps(figures))
    sys.exit(1 if any(figures[name] for name in wanted_none) else 0)


if __name__ == "__main__":
    main()
