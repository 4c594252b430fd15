"""How fast pages go into the database, and how that changes as it grows; SQLite beside it in the same run.

    python -m bench.speed.store            # Opilio to 1,000,000 pages (marks at 100,000 and the end), SQLite to 100,000
    python -m bench.speed.store --quick    # both to 20,000, about a minute

A page has 40 links, 8 of them to URLs not seen before, 200 distinct terms, and 3 to 4 KB of text drawn from a Zipf
vocabulary. Batches of 500 pages are made outside the clock and handed to both databases in turn. Each commit is
durable (fsync) in both. SQLite gets the same rows, made outside the clock, into plain tables with the one index that
its frontier needs.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import platform
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

from opilio.model import Links, Region
from opilio.model.visit import REGIONS
from opilio.store import Batch, Store
from opilio.store.batch import LinkRows, TermRows

PAPER_PAGES_PER_MINUTE = 10_000  # BINGO 4.1
BATCH_PAGES, LINKS, NEW_URLS, TERMS, WORDS = 500, 40, 8, 200, 560
VOCABULARY, PAGES_PER_HOST = 200_000, 50
ORDER_BY = "numtries, relevance * 2 + priority DESC, serverload, oid % 7"


class Web:
    """Makes batches as a crawl would: every page was found on an earlier one."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        letters = np.array(list("etaoinshrdlucmfwypvbgk"))
        lengths = self.rng.integers(3, 12, VOCABULARY)
        self.words = ["".join(self.rng.choice(letters, n)) for n in lengths]
        self.tids = self.rng.integers(0, 2**32, VOCABULARY, dtype=np.uint32)
        self.pages = self.urls = 0

    def sentence(self, words: int) -> list[str]:
        ranks = np.minimum(self.rng.zipf(1.3, words), VOCABULARY) - 1
        return [self.words[rank] for rank in ranks.tolist()]

    def batch(self) -> Batch:
        batch = Batch()
        now_s = 1_700_000_000.0 + self.pages * 0.01
        self.new_urls(batch, BATCH_PAGES * NEW_URLS + (1000 if not self.urls else 0), now_s)
        for oid in range(self.pages, self.pages + BATCH_PAGES):
            self.page(batch, oid, now_s)
        hosts = sorted({self.sid(oid) for oid in batch.pages.oid})
        for sid in hosts:
            host = f"www.{self.words[sid % VOCABULARY]}{sid}.org"
            batch.hosts.add(sid, host, host[4:], "192.0.2.1", 7, 90_000, 8, now_s)
        self.pages += BATCH_PAGES
        batch.counters = {"links dropped": self.pages // 3, "duplicate urls": self.pages * 31}
        return batch

    def sid(self, oid: int) -> int:
        return (oid * 2_654_435_761 % 2**32) % max(100, self.urls // NEW_URLS // PAGES_PER_HOST)

    def new_urls(self, batch: Batch, count: int, now_s: float) -> None:
        scores = self.rng.random(count).tolist()
        keys = self.rng.integers(0, 2**64, count, dtype=np.uint64).tolist()
        for at, oid in enumerate(range(self.urls, self.urls + count)):
            sid = self.sid(oid)
            path = "/".join(self.sentence(3))
            url = f"https://www.{self.words[sid % VOCABULARY]}{sid}.org/{path}-{oid}.html"
            score = scores[at]
            batch.urls.add(
                oid, url, keys[at], sid, 1, 4, oid // NEW_URLS, 0, "waiting", None, 0, score, score, 0.0, now_s, 0.0
            )
        self.urls += count

    def page(self, batch: Batch, oid: int, now_s: float) -> None:
        words = self.sentence(WORDS)
        text = " ".join(words)
        score, sid = float(self.rng.random()), self.sid(oid)
        batch.pages.add(
            oid, now_s, 200, "text/html", "utf-8", "en", " ".join(words[:7]), " ".join(words[7:25]), text,
            text[len(text) // 3 :], hash(text) % 2**64, "", False, 7_000, 28_000, 83.0, "192.0.2.1", '"5f3c"', "",
            score, 1, 1, "opilio-20260101000000-0-00001.warc.gz", oid * 7_300, 7_200, self.rng.bytes(128), None,
            False, None,
        )  # fmt: skip
        batch.changes.add(oid, 1, "fetched", "ok", 1, score, score, 0.0, now_s)
        batch.visits.add(oid, now_s, "page", "ok", 200, "", 83.0, 7_000, "opilio-1.warc.gz", oid * 7_300, 7_200)
        targets = self.rng.integers(0, self.urls, LINKS).tolist()
        main, nav = REGIONS.index(Region.MAIN), REGIONS.index(Region.NAV)
        links = Links.from_columns(
            [0] * LINKS,
            [""] * LINKS,
            [" ".join(words[i * 9 : i * 9 + 3]) for i in range(LINKS)],
            [" ".join(words[i * 9 : i * 9 + 12]) for i in range(LINKS)],
            bytes([main] * 25 + [nav] * (LINKS - 25)),
            range(LINKS),
            bytes(LINKS),
            bytes(LINKS),
        )
        batch.links.put(oid, sid, targets, list(map(self.sid, targets)), links)
        ids = np.sort(self.rng.choice(self.tids, TERMS)).astype("<u4")
        batch.terms.add(oid, ids.tobytes(), np.minimum(self.rng.zipf(2, TERMS), 999).astype("<u2").tobytes())


class Sqlite:
    """The peer: the same rows, by executemany, one transaction a batch."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "peer.sqlite"
        self.connection = sqlite3.connect(self.path)
        self.connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-200000;")
        for name, rows in Batch().tables():
            kept_as_columns = isinstance(rows, (LinkRows, TermRows))
            columns = rows.to_arrow().column_names if kept_as_columns else [f.name for f in dataclasses.fields(rows)]
            extra = ", PRIMARY KEY (sid)" if name == "hosts" else ""
            self.connection.execute(f"CREATE TABLE {name} ({', '.join(columns)}{extra})")
        self.connection.execute("CREATE UNIQUE INDEX by_oid ON urls (oid)")
        self.connection.execute("CREATE INDEX waiting ON urls (state, numtries, relevance DESC)")

    def write(self, tables: dict[str, list[tuple[object, ...]]]) -> None:
        with self.connection:
            for name, values in tables.items():
                if name == "changes":
                    self.connection.executemany(
                        "UPDATE urls SET topic=?2, state=?3, outcome=?4, numtries=?5, relevance=?6, priority=?7, "
                        "not_before=?8, lastvisited=?9 WHERE oid=?1",
                        values,
                    )
                    continue
                marks = ",".join("?" * len(values[0]))
                self.connection.executemany(f"INSERT OR REPLACE INTO {name} VALUES ({marks})", values)

    def refill_s(self) -> float:
        began = time.perf_counter()
        order = ORDER_BY.replace("serverload", "sid")
        self.connection.execute(f"SELECT * FROM urls WHERE state='waiting' ORDER BY {order} LIMIT 1000").fetchall()
        return time.perf_counter() - began


def _rows(rows: object) -> list[tuple[object, ...]]:
    """The rows of a table of a batch; SQLite has no unsigned 64-bit numbers."""
    if isinstance(rows, (LinkRows, TermRows)):
        return list(zip(*(column.to_pylist() for column in rows.to_arrow().columns), strict=True))
    columns = [getattr(rows, f.name) for f in dataclasses.fields(rows)]  # type: ignore[arg-type]
    signed = [[v - 2**63 for v in c] if c and isinstance(c[0], int) and max(c) >= 2**63 else c for c in columns]
    return list(zip(*signed, strict=True))


class Clock:
    """Wall and CPU seconds of one database, batch by batch."""

    def __init__(self, name: str) -> None:
        self.name, self.pages = name, 0
        self.wall_s: list[float] = []
        self.cpu_s: list[float] = []

    def time(self, database: Store | Sqlite, batch: Batch) -> None:
        if isinstance(database, Sqlite):
            tables = {name: _rows(rows) for name, rows in batch.tables() if len(rows)}
            write = functools.partial(database.write, tables)
        else:
            write = functools.partial(database.write, batch)
        wall, cpu = time.perf_counter(), time.process_time()
        write()
        self.wall_s.append(time.perf_counter() - wall)
        self.cpu_s.append(time.process_time() - cpu)
        self.pages += len(batch)

    def figures(self, last: int = 0) -> dict[str, float]:
        wall, cpu = sum(self.wall_s[-last:]), sum(self.cpu_s[-last:])
        pages = len(self.wall_s[-last:]) * BATCH_PAGES
        return {
            "pages": self.pages,
            "pages_per_s": round(pages / wall),
            "pages_per_min": round(pages / wall * 60),
            "times_the_paper": round(pages / wall * 60 / PAPER_PAGES_PER_MINUTE, 1),
            "cpu_ms_per_page": round(cpu / pages * 1e3, 3),
            "slowest_batch_s": round(max(self.wall_s[-last:]), 2),
        }


def rss_mb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


def size_mb(*paths: Path) -> int:
    return sum(p.stat().st_size for path in paths for p in path.parent.glob(path.name + "*")) // 2**20


def refill_s(store: Store) -> float:
    store.check_order_by(ORDER_BY)
    began = time.perf_counter()
    held = np.arange(0, 25_000, dtype=np.int64)
    store.next_waiting(ORDER_BY, 1000, exclude=held, now_s=time.time(), per_host=50)
    return time.perf_counter() - began


def run(pages: int, peer_pages: int, folder: Path) -> dict[str, object]:
    web, store, peer = Web(), Store.create(folder), Sqlite(folder)
    ours, theirs = Clock("opilio"), Clock("sqlite")
    marks: list[dict[str, float]] = []
    while web.pages < pages:
        batch = web.batch()
        ours.time(store, batch)
        if theirs.pages < peer_pages:
            theirs.time(peer, batch)
        if web.pages in (100_000, pages) or web.pages % 100_000 == 0:
            recent = min(100_000, pages) // BATCH_PAGES
            marks.append({**ours.figures(recent), "rss_mb": rss_mb(), "disk_mb": size_mb(store.path), "urls": web.urls})
            print("opilio, last 100,000 pages:", json.dumps(marks[-1]), flush=True)
            if theirs.pages == web.pages:
                print("sqlite                    :", json.dumps(theirs.figures()), flush=True)
    began = time.perf_counter()
    store.checkpoint()
    checkpoint_s = time.perf_counter() - began
    refill = sorted(refill_s(store) for _ in range(3))[1]
    began = time.perf_counter()
    loaded = sum(len(chunk["oid"]) for chunk in store.load_urls())
    load_s = time.perf_counter() - began
    result = {
        "bench": "store",
        "opilio": {
            **ours.figures(), "marks": marks, "disk_mb": size_mb(store.path), "rss_mb": rss_mb(), "urls": loaded,
            "refill_s": round(refill, 3), "load_urls_s": round(load_s, 3), "last_checkpoint_s": round(checkpoint_s, 2),
        },
        "sqlite": {**theirs.figures(), "disk_mb": size_mb(peer.path), "refill_s": round(peer.refill_s(), 3)},
        "versions": {"duckdb": duckdb.__version__, "sqlite": sqlite3.sqlite_version},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }  # fmt: skip
    store.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20,000 pages")
    parser.add_argument("--pages", type=int, default=0, help="another number of pages")
    parser.add_argument("--folder", default=None, help="where the databases are made (and removed)")
    given = parser.parse_args()
    pages = given.pages or (20_000 if given.quick else 1_000_000)
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-", dir=given.folder))
    try:
        result = run(pages, min(pages, 100_000), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
