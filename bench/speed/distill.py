"""Link analysis at scale: the distiller as joins against walking along the links (Focus 3.8, figure 8 d).

    python bench/distill.py            # 400,000, 4 and 40 million links: about ten minutes, 2 GB of disk
    python bench/distill.py --quick    # 4 million links: about a minute

A page has 40 links, to pages of other hosts nearly all, their targets by a power law; 40 % of the pages are relevant.
Each way runs in a process of its own, so that its memory can be told; the database may use 1 GiB, as by default.

Walking along the links is done twice, over the same table of weighted links as the joins, and the bench stops when
scores differ: in SQLite, with a look-up of one end's score and an update of the other's by the key of a B-tree for each
link, as in the paper; and over Python dictionaries, which is what a crawler without a database would do. The ratio is
of CPU time, all threads together, for one round, and to the faster walk: that over dictionaries, although these are
given all links and scores as objects in memory. What it takes to weigh the links is told apart (`preparing_s`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from opilio.distill import DistillOptions, Scores, WebGraph, distill
from opilio.distill.focus import update, weigh_links
from opilio.distill.rankings import hits, rank_pages
from opilio.store import Store

LINKS_PER_PAGE, URLS_PER_PAGE, URLS_PER_HOST = 40, 4, 50
ROOT = Path(__file__).parents[2]
CHUNK = 1_000_000
FLOOR = 3.0  # Focus 3.8: the join is a factor of three faster
MAX_BYTES = 8 * 2**30
WAYS = ("focus", "hits", "hits-topic", "pagerank")
URLS = """
INSERT INTO crawl (oid, url, key, sid, topic, depth, hops, state, outcome, numtries, relevance, priority)
SELECT oid, 'http://h' || sid || '.org/' || oid, oid, sid, 0, 1, 0, if(stored, 'fetched', 'waiting'),
       if(stored, 'ok', NULL), stored::INT, relevance, 0
FROM incoming
"""
IN_ORDER = "SELECT oid_src, oid_dst, wgt_fwd, wgt_rev FROM distill_edge ORDER BY oid_src, oid_dst"  # kind to walkers
PAGES = "INSERT INTO pages (oid, visited) SELECT oid, '2024-01-01' FROM incoming WHERE stored"


def make_web(folder: Path, links: int, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    pages = links // LINKS_PER_PAGE
    urls = pages * URLS_PER_PAGE
    hosts = (rng.random(urls) ** 3 * (urls // URLS_PER_HOST)).astype(np.int32)
    is_relevant = rng.random(urls) < 0.4
    relevance = np.where(is_relevant, rng.beta(8, 2, urls), rng.beta(1, 20, urls)).astype(np.float32)
    places = rng.permutation(urls)  # who is popular has nothing to do with who was found first
    with Store.create(folder) as store:
        stored = np.arange(urls) < pages
        fill(store, {"oid": np.arange(urls), "sid": hosts, "relevance": relevance, "stored": stored}, URLS, PAGES)
        for at in range(0, links, CHUNK):
            sources = np.arange(at, min(at + CHUNK, links)) // LINKS_PER_PAGE
            targets = places[(rng.random(len(sources)) ** 5 * urls).astype(np.int64)]
            rows = {"a": sources, "b": targets, "c": hosts[sources], "d": hosts[targets]}
            fill(store, rows, "INSERT INTO links (oid_src, oid_dst, sid_src, sid_dst) FROM incoming")
        store.checkpoint()


def fill(store: Store, columns: dict[str, np.ndarray], *statements: str) -> None:
    with store.writing() as to:
        to.register("incoming", pa.table(columns))
        for statement in statements:
            to.execute(statement)
        to.unregister("incoming")


# -- one way, in a process of its own


def one_way(folder: Path, way: str) -> dict[str, object]:
    with Store.open(folder, read_only=True) as store:
        began, cpu_began = time.perf_counter(), time.process_time()
        found, loading_s = run_way(store, way)
        return {
            "way": way,
            "pages": len(found),
            "rounds": found.rounds,
            "converged": found.converged,
            "loading_s": round(loading_s, 1),
            "s": round(time.perf_counter() - began, 1),
            "cpu_s": round(time.process_time() - cpu_began, 1),
            "rss_mb": peak_rss_mb(),
        }


def peak_rss_mb() -> int:
    """The most memory this process had. Not by getrusage on Linux: a child starts there with its parent's peak."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
    [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) >> 10


def run_way(store: Store, way: str) -> tuple[Scores, float]:
    if way == "focus":
        return distill(store, method="focus"), 0.0
    began = time.perf_counter()
    graph = WebGraph.of(store)
    loading_s = time.perf_counter() - began
    if way == "pagerank":
        return rank_pages(graph), loading_s
    pages = np.flatnonzero(graph.stored)
    return hits(graph, pages if way == "hits" else pages[::100]), loading_s


def apart(folder: Path, way: str) -> dict[str, object]:
    command = [sys.executable, "-m", "bench.speed.distill", "--way", way, "--folder", str(folder.absolute())]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    if process.returncode:
        raise SystemExit(f"{way}: failed")
    return json.loads(process.stdout.splitlines()[-1])


# -- joins against walking


def walk_dictionaries(edges: list[tuple[int, int, float, float]], hubs: dict[int, float]) -> tuple[dict, dict]:
    authorities: dict[int, float] = {}
    for source, target, forward, _ in edges:
        authorities[target] = authorities.get(target, 0.0) + hubs[source] * forward
    total = math.fsum(authorities.values())
    authorities = {oid: score / total for oid, score in authorities.items()}
    found: dict[int, float] = {}
    for source, target, _, backward in edges:
        found[source] = found.get(source, 0.0) + authorities[target] * backward
    total = math.fsum(found.values())
    return {oid: score / total for oid, score in found.items()}, authorities


class Walker:
    """Walking along the links in SQLite: look one end up, add to the other."""

    def __init__(self, path: Path, edges: list[tuple[int, int, float, float]]) -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode = OFF")
        self.connection.execute("PRAGMA cache_size = -1000000")  # 1 GB, as the other has
        self.connection.execute("CREATE TABLE link (oid_src, oid_dst, wgt_fwd, wgt_rev)")
        self.connection.executemany("INSERT INTO link VALUES (?, ?, ?, ?)", edges)
        for table, column in (("hubs", "oid_src"), ("auth", "oid_dst")):
            self.connection.execute(f"CREATE TABLE {table} (oid INTEGER PRIMARY KEY, score REAL)")
            self.connection.execute(f"INSERT INTO {table} SELECT DISTINCT {column}, 0.0 FROM link")
        self.connection.execute("UPDATE hubs SET score = 1.0 / (SELECT count(*) FROM hubs)")
        self.connection.commit()

    def round(self) -> None:
        self.walk("hubs", "auth", "SELECT oid_src, oid_dst, wgt_fwd FROM link")
        self.walk("auth", "hubs", "SELECT oid_dst, oid_src, wgt_rev FROM link")

    def walk(self, known: str, new: str, links: str) -> None:
        self.connection.execute(f"UPDATE {new} SET score = 0.0")
        look_up = f"SELECT score FROM {known} WHERE oid = ?"
        add = f"UPDATE {new} SET score = score + ? WHERE oid = ?"
        one, other = self.connection.cursor(), self.connection.cursor()
        for start, end, weight in self.connection.execute(links):
            [score] = one.execute(look_up, (start,)).fetchone()
            other.execute(add, (score * weight, end))
        self.connection.execute(f"UPDATE {new} SET score = score / (SELECT sum(score) FROM {new})")
        self.connection.commit()

    def scores(self, table: str) -> dict[int, float]:
        return dict(self.connection.execute(f"SELECT oid, score FROM {table}"))


def timed_s(run: Callable[[], object], times: int = 1) -> tuple[float, float]:
    """CPU and wall seconds of the best of some runs."""
    cpu, wall = [], []
    for _ in range(times):
        cpu_began, began = time.process_time(), time.perf_counter()
        run()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - cpu_began)
    return min(cpu), min(wall)


def check(name: str, found: dict[int, float], truth: dict[int, float]) -> None:
    if found.keys() != truth.keys() or any(
        not math.isclose(score, truth[oid], rel_tol=1e-6, abs_tol=1e-15) for oid, score in found.items()
    ):
        raise SystemExit(f"{name}: the scores differ")


def compare(folder: Path) -> dict[str, float]:
    with Store.open(folder, read_only=True) as store, store.reading() as cursor:
        preparing = timed_s(lambda: weigh_links(cursor, None, DistillOptions().rho))
        edges = cursor.execute(IN_ORDER).fetchall()
        hubs = {source: 1.0 for source, _, _, _ in edges}
        cursor.register("start", pa.table({"oid": list(hubs), "score": [1.0 / len(hubs)] * len(hubs)}))
        cursor.execute("CREATE TEMP TABLE distill_hubs_0 AS FROM start")
        cursor.execute("CREATE TEMP TABLE distill_auth_0 AS FROM start LIMIT 0")
        joins = timed_s(lambda: update(cursor, 0), times=3)
        found = {table: dict(cursor.execute(f"FROM distill_{table}_1").fetchall()) for table in ("hubs", "auth")}
        [links] = cursor.execute("SELECT count(*) FROM links").fetchone() or [0]
    hubs = dict.fromkeys(hubs, 1.0 / len(hubs))
    dictionaries = timed_s(lambda: walk_dictionaries(edges, hubs), times=3)
    for table, truth in zip(("hubs", "auth"), walk_dictionaries(edges, hubs), strict=True):
        check(f"dictionaries, {table}", truth, found[table])
    walker = Walker(folder / "walk.sqlite", edges)
    walking = timed_s(walker.round)
    for table in ("hubs", "auth"):
        check(f"SQLite, {table}", walker.scores(table), found[table])
    return {
        "links": links,
        "links_that_count": len(edges),
        "preparing_s": round(preparing[1], 2),
        "sql_round_cpu_s": round(joins[0], 3),
        "sql_round_s": round(joins[1], 3),
        "walk_round_cpu_s": round(walking[0], 2),
        "walk_round_s": round(walking[1], 2),
        "dictionary_round_cpu_s": round(dictionaries[0], 2),
        "sql_over_sqlite_walk": round(walking[0] / joins[0], 1),
        "sql_over_edge_walk": round(min(walking[0], dictionaries[0]) / joins[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4 million links only")
    parser.add_argument("--folder", default=None, type=Path, help="where the databases are made (and removed)")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps(one_way(given.folder, given.way)))
        return
    sizes = [4_000_000] if given.quick else [400_000, 4_000_000, 40_000_000]
    ratios: list[dict[str, float]] = []
    ways: list[dict[str, object]] = []
    for links in sizes:
        folder = Path(tempfile.mkdtemp(prefix="opilio-bench-", dir=given.folder))
        try:
            make_web(folder, links)
            if links <= 4_000_000:
                ratios.append(compare(folder))
                print(json.dumps(ratios[-1]), flush=True)
            for way in WAYS:
                ways.append({"links": links, **apart(folder, way)})
                print(json.dumps(ways[-1]), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    most = max(int(str(way["rss_mb"])) for way in ways) * 2**20
    result = {
        "bench": "distill",
        "sql_over_edge_walk": ratios[-1]["sql_over_edge_walk"],
        "floor": FLOOR,
        "max_links": max(sizes),
        "max_rss_gb": round(most / 2**30, 2),
        "fits_in_8_gb": most < MAX_BYTES,
        "ratios": ratios,
        "ways": ways,
        "versions": {"duckdb": duckdb.__version__, "sqlite": sqlite3.sqlite_version, "numpy": np.__version__},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
