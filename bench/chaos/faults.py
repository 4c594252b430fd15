"""One run: the crawl, what fails around it, and what is checked after each fault."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.chaos.figures import Figures, descendants
from bench.chaos.network import Network, SeenRequest
from bench.chaos.servers import FILES_HOST, RealServers
from opilio import Collection
from opilio.crawl.repair import repair
from opilio.crawl.verification import INDEX_CHECK, verify
from opilio.errors import OpilioError
from opilio.lab.local_web import LocalServer
from opilio.lab.local_web.trouble import trouble_handlers
from opilio.settings import override
from opilio.settings.files import changing, write_settings

DELAY_S = 0.2
PER_HOST = 2
TOLERANCE_S = 0.02
"""We see when a request arrived, not when it was sent."""
OUTAGE_S = (1.0, 8.0)
COPIES_MB = 1500
"""A larger collection is not copied to be damaged."""
END_S = 60.0
"""An interrupted crawl ends within this."""
NONSENSE = (
    "/c/web/search?q=%22%28%00", "/c/web/sql?sql=SELECT+repeat%28%27x%27%2C+1000000000%29", "/c/web/page?url=%FF%FE",
    "/api/c/web/search?q=a&size=-1&page=99999999999999999999", "/c/%2e%2e%2fetc/", "/api/c/web/sql?sql=ATTACH+%27x%27",
    "/c/web/topic?topic=%3Cscript%3E", "/api/c/web/distill?top=1e9", "/c/web/picture?url=file:///etc/passwd",
)  # fmt: skip


def misbehaving(server: LocalServer) -> list[str]:
    """The hosts of the local web that are its traps."""
    return list(trouble_handlers(server.web.seed))


def pages_of(collection: Collection, more: str = "''") -> set[str]:
    """The addresses of the stored pages, each with something more."""
    [(found,)] = collection.sql(f"SELECT list(url || ' ' || {more}) FROM collection").rows  # one row: they are limited
    return set(found or ())


class Chaos:
    """One run."""

    def __init__(
        self, folder: Path, server: LocalServer, servers: RealServers, network: Network, seed: int, max_age_s: float
    ) -> None:
        self.folder, self.server, self.servers, self.network = folder, server, servers, network
        self.draw = random.Random(seed)
        self.figures = Figures()
        self.process: subprocess.Popen[bytes] | None = None
        self.began_s: list[float] = []
        self.known: set[str] = set()
        self.is_proxied = False
        bookmarks = folder.parent / "bookmarks.html"
        bookmarks.write_text(server.web.bookmarks(server.web.topics[:4], 5), "utf-8")
        seeds = folder.parent / "seeds.txt"
        own = f"http://{FILES_HOST}/\n" if servers.get("nginx") else ""
        seeds.write_text(f"http://directory.test/\nhttp://trouble.test/\n{own}")
        self.collection = Collection.create(
            folder,
            bookmarks=bookmarks,
            seeds=seeds,
            settings={
                "fetch.host_delay_s": DELAY_S, "fetch.per_host": PER_HOST, "fetch.total_timeout_s": 6.0,
                "fetch.read_timeout_s": 3.0, "fetch.backoff_s": 1.0, "fetch.outage_timeout_s": 120.0,
                "store.batch_s": 1.0, "revisit.keep_fresh": True, "revisit.min_s": 20.0, "revisit.max_s": max_age_s,
                "run.workers": 2,
            },
        )  # fmt: skip

    # -- the crawl

    @property
    def pid(self) -> int:
        """The engine."""
        return self.process.pid if self.process is not None else 0

    def start(self, *, proxied: bool | None = None) -> None:
        """Begin or go on; every other run through the proxy, if nothing else is said."""
        self.is_proxied = not self.is_proxied if proxied is None else proxied
        self.is_proxied &= self.servers.get("squid") is not None
        with changing(self.folder) as settings:
            write_settings(self.folder, override(settings, self._way()))
        self.figures.runs += 1
        self.began_s.append(time.time())
        with (self.folder.parent / "crawl.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "opilio", "crawl", str(self.folder), "--quiet"],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _way(self) -> dict[str, object]:
        """The settings that say how the web is reached."""
        ports = self.network.ports
        if self.is_proxied:
            names = self.servers.get("dnsmasq")
            return {
                "fetch.connect_to": {}, "fetch.proxy": f"http://127.0.0.1:{ports['squid']}",
                "fetch.dns_servers": [f"127.0.0.1:{names.port}"] if names else [],
                "fetch.proxy_resolves_names": names is None,
            }  # fmt: skip
        bare = dict.fromkeys(misbehaving(self.server), f"127.0.0.1:{ports['web']}")
        front = f"127.0.0.1:{ports.get('nginx', ports['web'])}"
        return {"fetch.connect_to": {**bare, self.server.hosts: front}, "fetch.proxy": ""}

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
            for pid in [*descendants(self.pid)]:
                with contextlib.suppress(OSError):
                    os.kill(pid, how)
        self.process.send_signal(how)
        self.figures.interrupts += how == signal.SIGINT
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.figures.wrong("interrupts_lost", f"it did not end within {END_S:.0f} s of an interrupt")
            self.process.send_signal(signal.SIGABRT)  # it writes to the log what its threads do
            self.process.wait()
            return
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
        blamed = self.collection.sql(
            "SELECT DISTINCT host FROM origins JOIN hosts USING (sid) "
            "WHERE state = 'bad' AND problem IN ('dns-failed', 'connect-failed') AND host LIKE '%.test'"
        ).rows
        for host in {host for [host] in blamed} - set(misbehaving(self.server)):
            self.figures.wrong("hosts_blamed", host)

    # -- faults

    def faults(self, *, may_end: bool = True) -> dict[str, Callable[[], None]]:
        """What can happen; `may_end`: also what ends the crawl's process."""
        found: dict[str, Callable[[], None]] = {}
        if may_end:
            found |= {
                "engine killed": self.kill_engine,
                "interrupted": self.interrupt,
                "files damaged": self.damage,
            }
        if self.servers.get("nginx"):
            found |= {
                "nginx killed": lambda: self.bring_down("nginx"),
                "nginx restarted": self.restart_nginx,
                "nginx reloaded": self.reload_nginx,
            }
        for name in ("squid", "dnsmasq"):
            if self.servers.get(name) and (may_end or self.is_proxied):
                found[f"{name} killed"] = functools.partial(self.bring_down_proxied, name)
        return found | {
            "worker killed": self.kill_worker,
            "network refuses": self.refuse,
            "network stalls": self.stall,
            "connections cut": self.cut,
            "server stops": self.stop_server,
            "nonsense to the portal": self.attack,
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
        children = list(descendants(self.pid))
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

    def bring_down(self, name: str) -> None:
        """A server is killed, and comes back after a while."""
        server = self.servers.get(name)
        assert server is not None
        server.kill()
        self.watch(self.draw.uniform(*OUTAGE_S))
        server.start()

    def bring_down_proxied(self, name: str) -> None:
        """The same while the crawl depends on it."""
        if not self.is_proxied:
            self.interrupt(proxied=True)
            self.watch(self.draw.uniform(*OUTAGE_S))
        self.bring_down(name)

    def restart_nginx(self) -> None:
        """Its administrator restarts it."""
        nginx = self.servers.get("nginx")
        assert nginx is not None
        nginx.restart()

    def reload_nginx(self) -> None:
        """Its administrator lets it read its configuration again: workers end, others begin."""
        nginx = self.servers.get("nginx")
        assert nginx is not None
        nginx.signal(signal.SIGHUP)

    def interrupt(self, *, proxied: bool | None = None) -> None:
        """Ctrl-C, and the same command again."""
        self.end(signal.SIGINT)
        self.check()
        self.start(proxied=proxied)

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
                last = max(earlier, key=lambda one: one.ended_s, default=None)
                # With a delay, one request at a time: `fetch.per_host` counts only without one.
                if last is not None and (waited_s := request.started_s - last.ended_s) < DELAY_S - TOLERANCE_S:
                    answered = "answered" if last.is_answered else "not answered"
                    self.figures.wrong(
                        "impolite",
                        f"{host}: {request.target} {waited_s:.3f} s after the end of {last.target}, {answered}, at "
                        f"{request.started_s:.3f}",
                    )


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
