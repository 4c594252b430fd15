"""What is counted and measured, and how fast it grows."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

SAMPLE_S = 2.0
WARM_UP_S = 60.0
"""A process grows while it starts: caches fill, models are loaded."""


@dataclass
class Figures:
    """What is counted."""

    faults: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    pages: int = 0
    runs: int = 0
    interrupts: int = 0
    pages_lost: int = 0
    defects: int = 0
    impolite: int = 0
    crashes: int = 0
    interrupts_lost: int = 0
    hosts_blamed: int = 0
    portal_errors: int = 0

    def wrong(self, name: str, what: str, count: int = 1) -> None:
        """Something that must not happen."""
        setattr(self, name, getattr(self, name) + count)
        print(f"WRONG {name}: {what}", flush=True)


WANTED_NONE = ("pages_lost", "defects", "impolite", "crashes", "interrupts_lost", "hosts_blamed", "portal_errors")


class Sample(NamedTuple):
    """One measurement."""

    at_s: float
    run: int
    """Of the crawl."""
    peak_mb: float
    """Of all processes together; of a library in use by several, a share."""
    memory_mb: float
    """The same without files, so that it does not depend on which other programs use the same libraries."""
    engine_mb: float
    files: int
    """Open in the engine."""
    database_mb: float
    warc_mb: float
    disk_mb: float


WITHIN_RUNS = ("memory_mb", "engine_mb", "files")
"""What begins anew with each run of the crawl."""


class Sampler(threading.Thread):
    """Measures the crawl's processes and its folder, every so often."""

    def __init__(self, folder: Path, pid: Callable[[], int], run: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self._folder, self._pid, self._run_number = folder, pid, run
        self.samples: list[Sample] = []
        self._ends = threading.Event()

    def run(self) -> None:
        while not self._ends.wait(SAMPLE_S):
            with contextlib.suppress(OSError):  # a process or a file has just gone
                self.samples.append(self._measure())

    def end(self) -> None:
        """Measure no more."""
        self._ends.set()
        self.join()

    def _measure(self) -> Sample:
        run, engine = self._run_number(), self._pid()
        taken = [_memory_mb(pid) for pid in (engine, *descendants(engine))]
        memory = (sum(one["Pss"] for one in taken), sum(one["Pss_Anon"] for one in taken), taken[0]["Pss_Anon"])
        files = sum(1 for _ in Path(f"/proc/{engine}/fd").iterdir())
        sizes: Counter[str] = Counter()
        for path in self._folder.rglob("*"):
            if path.is_file():
                kind = "database" if ".duckdb" in path.name else "warc" if ".warc" in path.name else "other"
                sizes[kind] += path.stat().st_size
        disk = (sizes["database"] / 1e6, sizes["warc"] / 1e6, sizes.total() / 1e6)
        return Sample(time.monotonic(), run, *memory, files, *disk)

    def growth(self, what: str, warm_up_s: float | None = None) -> float:
        """Of one figure, an hour, over the second half: the slope of a line.

        With a warm-up: within runs, each a line with a start of its own, without so many seconds at its beginning.
        """
        samples = self.samples[len(self.samples) // 2 :]
        if warm_up_s is not None:
            began_s: dict[int, float] = {}
            for sample in self.samples:
                began_s.setdefault(sample.run, sample.at_s)
            samples = [sample for sample in samples if sample.at_s - began_s[sample.run] >= warm_up_s]
        groups: dict[int, list[Sample]] = {}
        for sample in samples:
            groups.setdefault(0 if warm_up_s is None else sample.run, []).append(sample)
        above = below = 0.0
        for group in groups.values():
            seconds = np.array([sample.at_s for sample in group])
            values = np.array([float(getattr(sample, what)) for sample in group])
            seconds -= seconds.mean()
            above += float(seconds @ (values - values.mean()))
            below += float(seconds @ seconds)
        return above / below * 3600 if len(samples) >= 10 and below else 0.0


def _memory_mb(pid: int) -> dict[str, float]:
    """What a process takes, by kind; what processes share counts once."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(size.split()[0]) / 1e3 for name, size in (line.split(":") for line in lines)}


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, theirs too."""
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield int(child)
            yield from descendants(int(child))
