"""How far one engine goes: alone, with results as fast as it can take them, and with more and more workers.

    python bench/cluster.py [--quick] [--parts engine,workers,nodes] [--pages 50000] [--seconds 20]

Part `engine`: a web is made beforehand (`made_web.py`), each page as the bytes that a worker would send; workers that
answer at once decode them, as the engine does with what comes over a socket. All else is the default configuration:
strategy `evidence` with a model, database, duplicates, index; then the same with `best-first`. The first two fifths are
not counted: in them models are trained, and what came before them is judged anew. Its bar: 2,000 pages and 80,000 links
a second.

Parts `workers` and `nodes`: real workers fetch, parse and judge pages of a server whose answers take 50 to 300 ms
(`slow_web.py`): processes of this machine, then actors on the nodes of a Ray cluster, which are processes here too, of
one CPU each. A worker has `HELD` requests under way, no more: so it is bound by waiting, as far workers are, and not by
the cores that all of them share here. What grows is the number of workers. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.webs.made_web import Made, make_collection
from bench.webs.slow_web import SlowWeb
from opilio import Collection
from opilio.classify import Model
from opilio.crawl.messages import WorkerSetup, encoder
from opilio.crawl.status import Status
from opilio.model import Document, Judgement, Lease, LeaseKind, Visit

UNIVERSE, PAGES_PER_HOST = 4, 20
GIVE = 512
"""Answers given at once, at most: as many as requests are under way by default."""
SETTINGS: dict[str, object] = {
    "fetch.host_delay_s": 0.0, "fetch.per_host": 16, "fetch.per_domain": 16, "store.warc": False,
}  # fmt: skip
HELD = 4
"""Requests that one worker has under way in the parts `workers` and `nodes`."""
SLOW_PAGES, SLOW_HOSTS, WARM_UP_PAGES = 40_000, 40, 60
LIMIT_S = 180.0
NODE_BYTES = 78 * 2**20
_decoder = msgspec.msgpack.Decoder(tuple[Document, Judgement])


class Recorded:
    """All pages of a made web, as bytes."""

    def __init__(self, pages: int) -> None:
        self.web = Made(pages * UNIVERSE, pages * UNIVERSE // PAGES_PER_HOST)
        self.pages: dict[str, bytes] = {}
        for host, size in enumerate(self.web.sizes.tolist()):
            for place in range(size):
                self.pages[self.web.url(host, place)] = encoder.encode(self.web.page(host, place))


class Replay:
    """Workers that have all answers at hand."""

    def __init__(self, setup: WorkerSetup, recorded: Recorded, kcids: Sequence[int]) -> None:
        self._pages, self._web = recorded.pages, recorded.web
        self._web.kcids = list(kcids)
        self._leases: list[Lease] = []
        self.version = 0

    async def start(self) -> None:
        """Nothing to start."""

    def submit(self, leases: Sequence[Lease]) -> None:
        self._leases.extend(leases)

    def use_model(self, model: bytes) -> None:
        self.version = Model.from_bytes(model).version

    def send_link_words(self) -> None:
        """They are always there."""

    def give_up(self) -> None:
        """Nothing is waited for."""

    async def visits(self, timeout_s: float) -> list[Visit]:
        await asyncio.sleep(0 if self._leases else min(timeout_s, 0.005))  # others in the loop must have their turn
        leases, self._leases = self._leases[:GIVE], self._leases[GIVE:]
        return [self._visit(lease) for lease in leases]

    def _visit(self, lease: Lease) -> Visit:
        if lease.kind is not LeaseKind.PAGE:
            return self._web.visit(lease)
        host, place = self._web.page_of(lease.url)
        fetch = self._web.fetch(host, place)
        if fetch.redirect_url or fetch.status != 200:
            return Visit(lease, fetch)
        document, judgement = _decoder.decode(self._pages[lease.url])
        return Visit(lease, fetch, document, judgement=msgspec.structs.replace(judgement, model_version=self.version))

    async def close(self) -> None:
        """Nothing to stop."""


class Watch:
    """Pages, links and CPU between the moment a model judges and the end."""

    def __init__(self, after_pages: int, seconds: float = 0.0) -> None:
        """Counts from that many pages on; with `seconds`, ends the crawl so much later."""
        self._after_pages, self._seconds = after_pages, seconds
        self._marks: list[tuple[float, float, float, int, int]] = []

    def look(self, status: Status) -> bool:
        if status.pages >= self._after_pages and (status.running or len(self._marks) == 1):
            now = (time.monotonic(), time.process_time(), time.thread_time(), status.pages, status.counters["links"])
            self._marks = [*self._marks[:1], now]
        return not (self._seconds and self._marks and self._marks[-1][0] - self._marks[0][0] > self._seconds)

    def figures(self) -> dict[str, float]:
        first, last = self._marks
        wall_s, cpu_s, loop_s, pages, links = (after - before for before, after in zip(first, last, strict=True))
        return {
            "pages_per_s": round(pages / wall_s, 1),
            "links_per_s": round(links / wall_s),
            "cpu_ms_per_page": round(cpu_s / pages * 1e3, 3),
            "loop_cpu_ms_per_page": round(loop_s / pages * 1e3, 3),
            "loop_cpu_us_per_link": round(loop_s / links * 1e6, 2),
            "links_per_page": round(links / pages, 1),
            "pages": pages,
        }


def engine_alone(recorded: Recorded, pages: int, settings: dict[str, object]) -> dict[str, float]:
    """One crawl by an engine that waits for nobody."""
    folder = Path(tempfile.mkdtemp(prefix="opilio-cluster-")) / "collection"
    watch = Watch(pages * 2 // 5)
    try:
        kcids = make_collection(folder, recorded.web, SETTINGS | {"limits.max_pages": pages} | settings)
        Collection(folder).crawl(on_tick=watch.look, workers=lambda setup: Replay(setup, recorded, kcids))
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)
    return watch.figures()


def part_engine(pages: int, settings: dict[str, object], strategies: Sequence[str]) -> dict[str, Any]:
    recorded = Recorded(pages)
    result: dict[str, Any] = {}
    for strategy in strategies:
        figures = engine_alone(recorded, pages, settings | {"frontier.strategy": strategy})
        print(f"{strategy}: {json.dumps(figures)}", flush=True)
        prefix = "engine" if strategy == "evidence" else f"engine_{strategy.replace('-', '_')}"
        result |= {f"{prefix}_{name}": value for name, value in figures.items()}
    return result


# -- more and more workers


def crawl_for(seconds: float, web: SlowWeb, workers: int, make: Any = None) -> dict[str, float]:
    """Crawl for a while with so many workers."""
    folder = Path(tempfile.mkdtemp(prefix="opilio-cluster-")) / "collection"
    watch = Watch(WARM_UP_PAGES, seconds)
    settings = SETTINGS | {
        "fetch.connect_to": web.connect_to, "fetch.in_flight": HELD * workers, "run.workers": workers,
        "limits.max_time_s": LIMIT_S, "frontier.strategy": "best-first",
    }  # fmt: skip
    seeds = folder.parent / "seeds.txt"
    seeds.write_text("\n".join(web.web.url(host, 0) for host in range(len(web.web.sizes))))
    try:
        Collection.create(folder, seeds=seeds, settings=settings).crawl(on_tick=watch.look, workers=make)
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)
    return watch.figures()


def part_workers(counts: Sequence[int], seconds: float) -> dict[str, Any]:
    """Worker processes of this machine."""
    with SlowWeb(SLOW_PAGES, SLOW_HOSTS) as web:
        rows = {count: crawl_for(seconds, web, count) for count in counts}
    return _speed_ups(rows, "workers")


def part_nodes(counts: Sequence[int], seconds: float) -> dict[str, Any]:
    """Actors on the nodes of a Ray cluster; each time a cluster of its own."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    from opilio.cluster import on_ray  # noqa: PLC0415

    rows: dict[int, dict[str, float]] = {}
    with SlowWeb(SLOW_PAGES, SLOW_HOSTS) as web:
        for count in counts:
            cluster = Cluster()
            try:
                # The head has one CPU more, which the engine has for itself.
                cluster.add_node(
                    num_cpus=2, object_store_memory=NODE_BYTES, include_dashboard=False, include_log_monitor=False
                )
                for _ in range(count - 1):
                    cluster.add_node(num_cpus=1, object_store_memory=NODE_BYTES)
                rows[count] = crawl_for(seconds, web, count, on_ray(str(cluster.address), workers=count))
            finally:
                cluster.shutdown()
    return _speed_ups(rows, "nodes")


def _speed_ups(rows: dict[int, dict[str, float]], name: str) -> dict[str, Any]:
    first = min(rows)
    for count, row in rows.items():
        print(f"{count} {name}: {json.dumps(row)}", flush=True)
    result: dict[str, Any] = {f"pages_per_s_by_{name}": {count: row["pages_per_s"] for count, row in rows.items()}}
    result[f"cpu_ms_per_page_by_{name}"] = {count: row["cpu_ms_per_page"] for count, row in rows.items()}
    for count in list(rows)[1:]:
        result[f"speedup_{count}_{name}"] = round(rows[count]["pages_per_s"] / rows[first]["pages_per_s"], 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--pages", type=int, default=0, help="of the engine alone")
    parser.add_argument("--seconds", type=float, default=0.0, help="of each crawl with more workers")
    parser.add_argument("--parts", default="engine,workers,nodes")
    parser.add_argument("--strategies", default="evidence,best-first")
    parser.add_argument("--set", action="append", default=[], help="a setting of the engine alone, NAME=VALUE in JSON")
    options = parser.parse_args()
    settings = {name: json.loads(value) for name, value in (given.split("=", 1) for given in options.set)}
    pages = options.pages or (10_000 if options.quick else 50_000)
    seconds = options.seconds or (5.0 if options.quick else 20.0)
    parts = options.parts.split(",")
    result: dict[str, Any] = {"bench": "cluster"}
    if "engine" in parts:
        result |= part_engine(pages, settings, options.strategies.split(","))
    if "workers" in parts:
        result |= part_workers((1, 2) if options.quick else (1, 2, 4), seconds)
    if "nodes" in parts and importlib.util.find_spec("ray") is None:
        print("nodes: left out, Ray is not installed (pip install 'opilio[cluster]')", flush=True)
    elif "nodes" in parts:
        result |= part_nodes((1, 2) if options.quick else (1, 2, 3), seconds)
    print(json.dumps(result | {"machine": f"{platform.machine()}, {os.cpu_count()} cores"}))


if __name__ == "__main__":
    main()
