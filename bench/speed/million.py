"""A crawl of a million pages: whether it goes as fast at the end as at the beginning, and in how much memory.

    python -m bench.speed.million [--quick] [--pages 1000000] [--folder FOLDER]

The web is made while it is crawled (`made_web.py`), five times as many pages as are to be stored, on hosts of very
unlike size. Real: the engine with all its companions, the frontier with the default strategy, known URLs, duplicates,
the database, its checkpoints, the model that is trained of examples, and the index. Not real: no HTTP, no HTML, no WARC
files; judgements come with the pages instead of being made by the model; nobody waits for politeness. Pages are made
in a process beside, and come over a socket in the messages of any worker.

Noted after each tenth: pages a second, CPU of the engine a page, memory of all processes, URLs known and waiting, size
on disk. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.speed.throughput import tree
from bench.webs.made_web import Made, MadeWorkers, make_collection
from opilio import Collection
from opilio.crawl.messages import WorkerSetup
from opilio.crawl.status import Status

UNIVERSE = 5
PAGES_PER_HOST = 80
SETTINGS: dict[str, object] = {
    "fetch.host_delay_s": 0.0, "fetch.per_host": 16, "fetch.per_domain": 16, "store.warc": False,
}  # fmt: skip


class Memory(threading.Thread):
    """Looks at the resident memory of all processes every few seconds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.now_bytes = self.peak_bytes = 0

    def run(self) -> None:
        while True:
            self.now_bytes = sum(map(resident_bytes, tree(os.getpid())))
            self.peak_bytes = max(self.peak_bytes, self.now_bytes)
            time.sleep(4.0)


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return 0


def disk_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


class Notes:
    """One row for each tenth of the crawl."""

    def __init__(self, folder: Path, pages: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self._folder, self._step = folder, max(1, pages // 10)
        self._memory = Memory()
        self._memory.start()
        self._at: tuple[float, float, int, int] | None = None

    def look(self, status: Status) -> None:
        now = (time.monotonic(), time.process_time(), status.pages, status.counters.get("links", 0))
        if self._at is None:
            self._at = now
        early = self._step // 50 if len(self.rows) == 9 else 0  # the last look comes when the index is made, too late
        if status.pages >= self._step * (len(self.rows) + 1) - early and len(self.rows) < 10:
            self._note(status, now)

    def _note(self, status: Status, now: tuple[float, float, int, int]) -> None:
        assert self._at is not None
        took_s, cpu_s, pages, links = (after - before for after, before in zip(now, self._at, strict=True))
        self._at = now
        row = {
            "pages": status.pages,
            "pages_per_s": round(pages / took_s, 1),
            "links_per_s": round(links / took_s),
            "engine_cpu_ms_per_page": round(cpu_s / max(pages, 1) * 1e3, 3),
            "rss_mb": round(self._memory.now_bytes / 1e6),
            "peak_rss_mb": round(self._memory.peak_bytes / 1e6),
            "known_urls": status.urls,
            "waiting": status.waiting,
            "hosts": status.hosts,
            "harvest": round(status.harvest or 0.0, 3),
            "disk_mb": round(disk_bytes(self._folder) / 1e6),
            "index_updates": status.counters.get("index updates", 0),
            "load": os.getloadavg()[0],
        }
        self.rows.append(row)
        print(json.dumps(row), flush=True)


def crawl(folder: Path, pages: int, settings: dict[str, object], makers: int) -> dict[str, Any]:
    """Make a collection, crawl it, and say how it went."""
    universe, hosts = pages * UNIVERSE, max(2_000, pages * UNIVERSE // PAGES_PER_HOST)
    web = Made(universe, hosts)
    kcids = make_collection(folder, web, SETTINGS | settings)
    del web
    notes = Notes(folder, pages)

    def make_workers(setup: WorkerSetup) -> MadeWorkers:
        return MadeWorkers(setup, universe, hosts, kcids, makers)

    began_s = time.monotonic()
    status = Collection(folder).crawl(settings={"limits.max_pages": pages}, on_tick=notes.look, workers=make_workers)
    first, last = notes.rows[0], notes.rows[-1]
    return {
        "bench": "million",
        "pages": status.pages,
        "reason": status.reason,
        "wall_s": round(time.monotonic() - began_s),
        "peak_rss_mb": last["peak_rss_mb"],
        "first_tenth_pages_per_s": first["pages_per_s"],
        "last_tenth_pages_per_s": last["pages_per_s"],
        "last_over_first": round(last["pages_per_s"] / first["pages_per_s"], 3),
        "cpu_first_over_last": round(first["engine_cpu_ms_per_page"] / last["engine_cpu_ms_per_page"], 3),
        "outcomes": status.outcomes,
        "rows": notes.rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20,000 pages")
    parser.add_argument("--pages", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="keep the collection there")
    parser.add_argument("--makers", type=int, default=1, help="processes that make pages")
    parser.add_argument("--set", action="append", default=[], help="a setting of the crawl, as NAME=VALUE in JSON")
    options = parser.parse_args()
    settings = {name: json.loads(value) for name, value in (given.split("=", 1) for given in options.set)}
    pages = options.pages or (20_000 if options.quick else 1_000_000)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="opilio-million-")) / "collection"
    try:
        result = crawl(folder, pages, settings, options.makers)
    finally:
        if options.folder is None:
            shutil.rmtree(folder.parent, ignore_errors=True)
    print(json.dumps(result))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
