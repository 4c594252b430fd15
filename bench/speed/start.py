"""How soon a crawl begins to work: first request, first model, and how long its loop stands still meanwhile.

    python -m bench.speed.start [--repeats 5] [--pages 300]

`opilio crawl` is started as users start it, against the local web on loopback, with five bookmarks for each of four
topics. Of each run:

- `first_request_s`: from the start of the command to the first request at the server, by the server's log;
- `first_model_s`: from the arrival of the last of the 20 examples to the moment at which the workers have the model;
- `stages_s`: where that time goes;
- `longest_pause_s`: the longest time for which the engine's loop had no turn, training and re-judging included;
- `longest_busy_s`: the most CPU time that the loop's own thread took for one turn, whatever else the machine does.

Medians over the repeats; the last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import opilio.crawl.collection as collection_module
from opilio import learn
from opilio.cli import main as opilio_main
from opilio.crawl.engine import Engine
from opilio.lab.local_web import LocalServer

ROOT = Path(__file__).parents[2]
TOPICS = ["cryptography", "data compression", "machine learning/clustering", "statistics"]
TURN_S = 0.01
STAGES = ("fingerprint", "gather", "with_crawled_pages", "train_off_loop", "store_model")


class Probe:
    """Works alongside a crawl (`opilio.crawl.background`), and takes notes of its first model and of its loop."""

    is_busy = pauses_fetching = False

    def __init__(self, engine: Engine, notes: dict[str, Any]) -> None:
        self._engine, self._notes = engine, notes
        self._task: asyncio.Task[None] | None = None
        self._arrived_s = 0.0

    def look(self) -> None:
        """Note when the last example has arrived, and when there is a model."""
        if self._task is None:
            self._task = asyncio.create_task(self._watch_pauses())
        ledger, examples = self._engine.absorber.ledger, self._engine.absorber.examples
        if not self._arrived_s and not any(ledger.is_open(oid) for oid in examples):
            self._arrived_s = time.monotonic()
        if self._arrived_s and self._engine.teacher.version and "first_model_s" not in self._notes:
            self._notes["first_model_s"] = round(time.monotonic() - self._arrived_s, 3)

    async def close(self, at_once: asyncio.Event) -> None:
        """Nothing is under way."""

    async def _watch_pauses(self) -> None:
        longest_s = busy_s = 0.0
        while True:
            before_s, used_s = time.monotonic(), time.thread_time()
            await asyncio.sleep(TURN_S)
            longest_s = max(longest_s, time.monotonic() - before_s - TURN_S)
            busy_s = max(busy_s, time.thread_time() - used_s)
            self._notes |= {"longest_pause_s": round(longest_s, 3), "longest_busy_s": round(busy_s, 3)}


def time_stages(notes: dict[str, Any]) -> None:
    """Note how long each stage of the first training takes."""

    def timed(name: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            began_s = time.monotonic()
            try:
                return function(*args, **kwargs)
            finally:
                notes.setdefault("stages_s", {}).setdefault(name, round(time.monotonic() - began_s, 3))

        return call

    for name in STAGES:
        if name == "fingerprint":
            from opilio.crawl import teacher  # noqa: PLC0415

            teacher.fingerprint = timed(name, teacher.fingerprint)
        else:
            setattr(learn, name, timed(name, getattr(learn, name)))


def crawl(notes_file: Path, arguments: list[str]) -> None:
    """`opilio crawl` with a probe; what was noted goes to a file."""
    notes: dict[str, Any] = {}

    class Probed(Engine):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.background_tasks.append(Probe(self, notes))

    collection_module.Engine = Probed  # type: ignore[misc]
    time_stages(notes)
    sys.argv = ["opilio", "crawl", *arguments]
    try:
        opilio_main()
    finally:
        notes_file.write_text(json.dumps(notes), encoding="utf-8")


def measure(server: LocalServer, folder: Path, pages: int) -> dict[str, Any]:
    """One run with probe, and a short one without for the first request."""
    bookmarks = folder / "bookmarks.html"
    bookmarks.write_text(server.web.bookmarks(TOPICS), encoding="utf-8")
    given = [
        "--bookmarks", str(bookmarks), "--delay", "0", "--quiet",
        "--set", f'fetch.connect_to={{"{server.hosts}" = "{server.address}"}}',
    ]  # fmt: skip
    server.clear_log()
    began_s = time.time()
    command = [sys.executable, "-m", "opilio", "crawl", str(folder / "short"), *given, "--max-pages", "1"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    first_s = server.requests()[0].started_s - began_s
    notes_file = folder / "notes.json"
    probe = [sys.executable, "-m", "bench.speed.start", "--crawl", str(notes_file), "--", str(folder / "long")]
    command = [*probe, *given, "--max-pages", str(pages)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    return {"first_request_s": round(first_s, 3), **json.loads(notes_file.read_text(encoding="utf-8"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--crawl", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.crawl:
        crawl(options.crawl, options.arguments)
        return
    runs = []
    with LocalServer("full", misbehaving=False) as server:
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory(prefix="opilio-bench-") as folder:
                runs.append(measure(server, Path(folder), options.pages))
                print(json.dumps(runs[-1]), flush=True)
    names = ("first_request_s", "first_model_s", "longest_pause_s", "longest_busy_s")
    medians = {name: statistics.median(run[name] for run in runs) for name in names}
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(json.dumps({"bench": "start", **medians, "runs": runs, "machine": machine}))


if __name__ == "__main__":
    main()
