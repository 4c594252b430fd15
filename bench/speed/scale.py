"""What an engine with 10, 100 or 1,000 workers would do: its real decisions in virtual time.

    python -m bench.speed.scale [--quick] [--pages 8000] [--plot docs/results/img/scale.svg]

There are no thousand machines here, so time is virtual. Real are the frontier, the absorber, the rows of the batches
and the decoding of what workers send (`Replay` of cluster.py): the CPU time that they take is what passes in virtual
time while the engine decides. Made up are the workers: each holds `HELD` requests, an answer takes 50 to 300 ms, and a
core spends `WORKER_MS` on a page. The database writes beside the loop, so it is a bound of its own: what `store.py` and
`cluster.py` measure of it. Three questions:

1. With N workers and as many hosts as one likes: how many pages a second, and who is busy?
2. With politeness of a second a host: how many hosts must there be at a time to keep N workers busy?
3. What do a page, a link, a host and a known URL cost in CPU and memory?

The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import json
import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.speed.cluster import Recorded, Replay
from opilio.analyze.sketch import bands
from opilio.analyze.terms import term_ids
from opilio.crawl.absorb import Absorber
from opilio.crawl.ledger import Ledger
from opilio.crawl.messages import WorkerSetup
from opilio.crawl.status import Counters
from opilio.frontier import Duplicates, Frontier, KeyMap, LinkTextStrategy, ScopeFilter, make_strategy
from opilio.frontier.hosts import HostTable
from opilio.model import Lease, LeaseKind
from opilio.process import collect_rarely
from opilio.settings import Settings, override

WORKERS = (1, 3, 10, 30, 100, 1000)
HELD = 32
WORKER_MS = 1.5
LEAST_S, MOST_S = 0.05, 0.3
MEAN_S = (LEAST_S + MOST_S) / 2
START_S = 1_000_000.0
BATCH_PAGES = 500
NAMES = ("databases", "astronomy", "cookery", "chess")


class Simulated:
    """One crawl: N workers in virtual time, the engine's code in real CPU time."""

    def __init__(
        self, recorded: Recorded, workers: int, pages: int, changes: dict[str, Any], hosts: Sequence[int] = ()
    ) -> None:
        """With `hosts`, only these may be asked; they are known from the start."""
        settings = override(Settings(), {"fetch.host_delay_s": 0.0, "fetch.per_host": 16, "fetch.per_domain": 16})
        self.settings = override(settings, changes)
        topics = [0, 1, 2, 3, 4]
        strategy = make_strategy(self.settings.frontier)
        ledger = Ledger(Duplicates(self.settings.duplicates, bands), Counters())
        frontier = Frontier(self.settings, strategy, ScopeFilter(self.settings.scope), ledger, topics)
        self.absorber = Absorber(self.settings, frontier, ledger)
        self.replay = Replay(WorkerSetup({}, b"", "", "w0"), recorded, topics[1:])
        self.workers, self.pages = workers, pages
        self.now_s, self.engine_s = START_S, 0.0
        self._under_way: list[tuple[float, int, Lease]] = []
        self._idle_at_s = [START_S] * min(workers, 4096)
        self._rng = random.Random(1)
        for host in hosts:
            url = recorded.web.url(host, 0)
            self.absorber.offer(url, parent=-1, depth=0, relevance=1.0, topic=1, now_s=START_S)
        assert isinstance(strategy, LinkTextStrategy)
        strategy.prepare([stem for name in NAMES for stem in term_ids(name)], [])
        for subject in range(len(NAMES)):
            for url in recorded.web.examples(subject):
                self.absorber.offer(url, parent=-1, depth=0, relevance=1.0, topic=subject + 1, now_s=START_S)

    def run(self) -> dict[str, float]:
        """Crawl so many pages; the first fifth is not counted."""
        counters, began = self.absorber.counters, (0.0, 0.0, 0, 0, 0)
        while counters.pages < self.pages:
            self._engine(self._decide)
            if not self._under_way:
                event_s = self.absorber.frontier.next_event_s()
                if event_s is None:
                    break
                self.now_s = max(self.now_s, event_s)
            elif self._under_way[0][0] > self.now_s:  # nothing has come yet: the engine waits
                event_s = self.absorber.frontier.next_event_s() or self._under_way[0][0]
                self.now_s = max(self.now_s, min(self._under_way[0][0], event_s))
            if not began[2] and counters.pages >= self.pages // 5:
                counts = counters.counts
                began = (self.now_s, self.engine_s, counters.pages, counts["links"], counts["requests"])
        wall_s, engine_s = self.now_s - began[0], self.engine_s - began[1]
        pages, links = counters.pages - began[2], counters.counts["links"] - began[3]
        requests = counters.counts["requests"] - began[4]
        return {
            "workers": self.workers,
            "pages_per_s": round(pages / wall_s, 1),
            "links_per_s": round(links / wall_s),
            "engine_busy": round(engine_s / wall_s, 3),
            "workers_busy": round(requests / wall_s / self.most_requests_per_s, 3),
            "engine_ms_per_page": round(engine_s / pages * 1e3, 3),
        }

    @property
    def most_requests_per_s(self) -> float:
        """What so many workers can do if nobody holds them up."""
        return self.workers * min(HELD / (MEAN_S + WORKER_MS / 1e3), 1e3 / WORKER_MS)

    def _engine(self, act: Callable[[], None]) -> None:
        began_s = time.thread_time()
        act()
        took_s = time.thread_time() - began_s
        self.engine_s += took_s
        self.now_s += took_s

    def _decide(self) -> None:
        """One turn of the engine's loop: what came is absorbed, what may be asked is handed out."""
        came = []
        while self._under_way and self._under_way[0][0] <= self.now_s:
            came.append(heapq.heappop(self._under_way)[2])
        if came:
            self.absorber.absorb_all([self.replay._visit(lease) for lease in came], self.now_s)
        room = self.workers * HELD - self.absorber.frontier.in_flight
        if room > 0:
            for lease in self.absorber.frontier.take(self.now_s, room):
                self._hand_out(lease)
        if len(self.absorber.ledger.batch) >= BATCH_PAGES:
            self.absorber.swap_batch()

    def _hand_out(self, lease: Lease) -> None:
        """A worker asks, waits, and reads what came when its core is free."""
        came_s = self.now_s + self._rng.uniform(LEAST_S, MOST_S)
        if lease.kind is not LeaseKind.HOST:
            worker = hash(lease.url.split("/", 3)[2]) % len(self._idle_at_s)
            came_s = self._idle_at_s[worker] = max(came_s, self._idle_at_s[worker] + WORKER_MS / 1e3)
        heapq.heappush(self._under_way, (came_s, len(self._under_way) + self._rng.getrandbits(40), lease))


# -- hosts


def hosts_table(recorded: Recorded, pages: int, counts: tuple[int, ...]) -> list[dict[str, float]]:
    """With a second between two requests to a host: pages a second of ten workers, by how many hosts may be asked."""
    rows = []
    for count in counts:
        hosts = recorded.web.great_first[:count].tolist()
        names = [f"site{host}.example" for host in hosts]
        changes = {"fetch.host_delay_s": 1.0, "frontier.strategy": "breadth-first", "scope.only_domains": names}
        row = Simulated(recorded, 10, pages, changes, hosts).run()
        rows.append({"hosts": count, "pages_per_s": row["pages_per_s"], "bound": round(count / (1.0 + MEAN_S), 1)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


# -- memory


def memory_costs() -> dict[str, float]:
    """Bytes of memory for a known URL, a host, and a page among those that duplicates are told from."""

    def grown(make: Callable[[], object], count: int) -> float:
        tracemalloc.start()
        kept = make()
        grown_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        del kept
        return round(grown_bytes / count, 1)

    keys = [random.Random(n).getrandbits(64) | 1 for n in range(200_000)]

    def urls() -> object:
        known = KeyMap()
        for oid, key in enumerate(keys):
            known.add(key, oid)
        return known

    def hosts() -> object:
        table = HostTable(Settings().fetch, ScopeFilter(Settings().scope))
        for n in range(20_000):
            table.get(f"www.host{n}.example")
        return table

    def pages() -> object:
        seen = Duplicates(Settings().duplicates, bands)
        for oid in range(20_000):
            sketch = hashlib.shake_128(oid.to_bytes(8, "little")).digest(256)
            seen.restore(oid, oid % 500, f"http://h{oid % 500}.example/{oid}.html", "10.0.0.1", oid, oid + 1, sketch)
        return seen

    return {
        "bytes_per_known_url": grown(urls, len(keys)),
        "bytes_per_host": grown(hosts, 20_000),
        "bytes_per_page_for_duplicates": grown(pages, 20_000),
    }


def plot(rows: list[dict[str, float]], hosts: list[dict[str, float]], path: Path) -> None:
    """The picture of docs/results/scale.md."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "opilio"
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    counts = [row["workers"] for row in rows]
    left.loglog(counts, [row["pages_per_s"] for row in rows], "o-", color="#1f6f8b", label="simulated")
    alone = [count * min(HELD / (MEAN_S + WORKER_MS / 1e3), 1e3 / WORKER_MS) for count in counts]
    left.loglog(counts, alone, ":", color="#888888", label="workers, if nobody held them up")
    left.set(xlabel=f"workers ({HELD} requests each)", ylabel="pages a second", title="One engine, more workers")
    left.legend(frameon=False)
    names = [row["hosts"] for row in hosts]
    right.loglog(names, [row["pages_per_s"] for row in hosts], "o-", color="#b5541c", label="simulated, 10 workers")
    right.loglog(names, [row["bound"] for row in hosts], ":", color="#888888", label="hosts / (delay + latency)")
    right.set(xlabel="hosts that may be asked", ylabel="pages a second", title="Politeness: 1 s a host")
    right.legend(frameon=False)
    for panel, ticks in ((left, counts), (right, names)):
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        panel.minorticks_off()
        panel.yaxis.set_major_formatter("{x:,.0f}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer pages and workers")
    parser.add_argument("--pages", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="write a picture there")
    options = parser.parse_args()
    pages = options.pages or (1_500 if options.quick else 8_000)
    collect_rarely()
    recorded = Recorded(pages)
    result: dict[str, Any] = {"bench": "scale", "memory": memory_costs()}
    rows = []
    for workers in (1, 10, 1000) if options.quick else WORKERS:
        rows.append(Simulated(recorded, workers, pages, {"frontier.strategy": "evidence"}).run())
        print(json.dumps(rows[-1]), flush=True)
    hosts = hosts_table(recorded, pages // 2, (50, 200) if options.quick else (50, 200, 800))
    if options.plot:
        plot(rows, hosts, options.plot)
    print(json.dumps(result | {"workers": rows, "hosts": hosts}))


if __name__ == "__main__":
    main()
