"""How many page visits a second the simulator makes: crawls of a synthetic web, in two processes.

    python -m bench.speed.simulate [--quick] [--pages 10000] [--links 25] [--strategy breadth-first] [--processes 2]

The web has links at random, most of them to near numbers, on a hundred hosts; every page is different. Each process
crawls all of it several times; making the web is not counted. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import cast

import numpy as np

from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.simulate import Answers, Simulation, run_all
from opilio.lab.webs.recorded import RecordedWeb
from opilio.model import Document, Link, Links, Region, url_key
from opilio.settings import Settings, override

HOSTS = 100
NEAR = 50  # pages apart, of links to near pages


class SyntheticWeb:
    """Addresses, each with an answer; bodies are not asked for."""

    def __init__(self, pages: int) -> None:
        self.urls = [f"http://host{n % HOSTS}.example/section{n % 97}/page{n}.html" for n in range(pages)]

    def number(self, url: str) -> int:
        return -1

    def status(self, n: int) -> int:
        return 200

    def redirect(self, n: int) -> str:
        return ""


def make_web(pages: int, links: int) -> Analysed:
    """A web in which 7 of 10 links lead to near pages."""
    rng = np.random.default_rng(1)
    web = SyntheticWeb(pages)
    keys = [url_key(url) for url in web.urls]
    near = np.arange(pages)[:, None] + rng.integers(-NEAR, NEAR + 1, (pages, links))
    targets = np.where(rng.random((pages, links)) < 0.7, near % pages, rng.integers(0, pages, (pages, links)))
    sketches = rng.integers(0, 2**32, (pages, 64), dtype=np.uint32)
    documents = [
        Document(
            "", "", "", "", "", "",
            Links.of(Link(web.urls[t], keys[t], "its words", "", Region.MAIN, at) for at, t in enumerate(row.tolist())),
            b"", b"", [], n + 1, sketches[n].tobytes(),
        )
        for n, row in enumerate(targets)
    ]  # fmt: skip
    starts = np.arange(0, (pages + 1) * links, links)
    return Analysed(cast(RecordedWeb, web), documents, starts, targets.ravel().astype(np.int32), {})


def crawl(answers: Answers, settings: Settings, judge: np.ndarray, rounds: int) -> int:
    """Crawl the web `rounds` times; page visits made."""
    return sum(len(Simulation(answers, settings, range(3), judge).run()) for _ in range(rounds))


def measure(
    answers: Answers, settings: Settings, judge: np.ndarray, rounds: int, processes: int
) -> tuple[float, float]:
    """Visits a second, and visits a second of CPU time, of several processes at once."""

    def job() -> tuple[int, float]:
        started_s = time.process_time()
        return crawl(answers, settings, judge, rounds), time.process_time() - started_s

    started_s = time.perf_counter()
    visits, cpu_s = zip(*run_all([job] * processes, processes), strict=True)
    return sum(visits) / (time.perf_counter() - started_s), sum(visits) / sum(cpu_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--links", type=int, default=25)
    parser.add_argument("--strategy", default="breadth-first")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    pages = min(options.pages, 3_000) if options.quick else options.pages
    answers = Answers(make_web(pages, options.links))
    settings = override(Settings(), {"frontier.strategy": options.strategy})
    judge = np.random.default_rng(2).random(pages)
    crawl(answers, settings, judge, 1)  # bands of sketches are found once for a web
    rounds, repeats = (4, 1) if options.quick else (5, 3)
    rates = [measure(answers, settings, judge, rounds, options.processes) for _ in range(repeats)]
    best, per_cpu_s = max(rates)
    print(f"{pages:,} pages, {options.links} links a page, {options.strategy}, {options.processes} processes:")
    print(f"{best:,.0f} visits/s at best, {min(rates)[0]:,.0f} at worst; {per_cpu_s:,.0f} a second of one core")
    result = {"pages": pages, "strategy": options.strategy, "visits_per_s": round(best)}
    print(json.dumps(result | {"visits_per_cpu_s": round(per_cpu_s)}))


if __name__ == "__main__":
    main()
