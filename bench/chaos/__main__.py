"""`python -m bench.chaos`."""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sys
import tempfile
import time
from pathlib import Path

import bench.chaos
from bench.chaos.faults import Chaos, misbehaving
from bench.chaos.figures import WANTED_NONE, WARM_UP_S, WITHIN_RUNS, Sampler
from bench.chaos.network import Network
from bench.chaos.servers import RealServers
from opilio.lab.local_web import LocalServer

FAULT_S = (4.0, 12.0)
"""Between two faults."""
STEADY_S = 600.0
"""A longer run has a steady second half, in which nothing ends the crawl's process."""
WARM_UP_SHARE = 1 / 3
"""Of the steady half: growth is measured after it."""
FILES = 60
"""Pages that nginx serves itself."""


def run(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Crawl, break, check; the figures."""
    seconds = 60.0 * options.minutes
    with LocalServer("small" if options.quick else "full") as server:
        pages = {url: page.body for url, page in list(server.web.pages.items())[:FILES]}
        with RealServers(server.port, pages, misbehaving(server)) as servers:
            targets = {name: found.port for name in ("nginx", "squid") if (found := servers.get(name))}
            with Network({"web": server.port, **targets}, options.seed) as network:
                max_age_s = 120.0 if options.quick else 600.0
                chaos = Chaos(folder / "web", server, servers, network, options.seed, max_age_s)
                print(f"with {', '.join(servers.names()) or 'no real server'}", flush=True)
                for name in servers.left_out:
                    print(f"left out: {name}, which is not installed here", flush=True)
                sampler = crawl(chaos, seconds)
                chaos.count_impolite()
        requests = len(network.requests)
    chaos.figures.pages = len(chaos.known)
    figures = vars(chaos.figures).copy()
    by_fault = dict(figures.pop("faults"))
    return {
        "minutes": options.minutes, "python": platform.python_version(), "seed": options.seed,
        "servers": servers.names(), "left_out": servers.left_out, "requests": requests,
        "faults": sum(by_fault.values()), "by_fault": by_fault, **figures, **growth(sampler, seconds),
    }  # fmt: skip


def crawl(chaos: Chaos, seconds: float) -> Sampler:
    """The run itself, and what was measured."""
    chaos.start()
    sampler = Sampler(chaos.folder, lambda: chaos.pid, lambda: chaos.figures.runs)
    sampler.start()
    ends_s = time.monotonic() + seconds
    try:
        chaos.watch(5.0)
        is_steady = False
        while (left_s := ends_s - time.monotonic()) > 0:
            if seconds > STEADY_S and left_s < seconds / 2 and not is_steady:
                is_steady = True
                chaos.interrupt(proxied=True)
            faults = chaos.faults(may_end=not is_steady)
            # Each once before any twice, so that a short run has them all.
            fewest = min(chaos.figures.faults[name] for name in faults)
            name = chaos.draw.choice([name for name in faults if chaos.figures.faults[name] == fewest])
            print(f"{left_s:6.0f} s left: {name}", flush=True)
            chaos.figures.faults[name] += 1
            faults[name]()
            chaos.watch(chaos.draw.uniform(*FAULT_S))
        chaos.end(signal.SIGINT)
        sampler.end()
        chaos.check()
    finally:
        if chaos.process is not None and chaos.process.poll() is None:
            chaos.end(signal.SIGKILL)
    return sampler


def growth(sampler: Sampler, seconds: float) -> dict[str, object]:
    """What was taken, and how fast that grew."""
    samples = sampler.samples
    if not samples:
        return {}
    peaks = {"peak_mb": round(max(s.peak_mb for s in samples)), "peak_files": max(s.files for s in samples)}
    warm_up_s = max(WARM_UP_S, seconds / 2 * WARM_UP_SHARE if seconds > STEADY_S else 0.0)
    slopes = {
        f"{what}_per_hour": round(sampler.growth(what, warm_up_s if what in WITHIN_RUNS else None), 1)
        for what in (*WITHIN_RUNS, "database_mb", "warc_mb", "disk_mb")
    }
    return {**peaks, "disk_mb": round(samples[-1].disk_mb), **slopes}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=bench.chaos.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=None, help="how long (default: 30, 3 when quick)")
    parser.add_argument("--quick", action="store_true", help="a small web, each fault once")
    parser.add_argument("--seed", type=int, default=1, help="of the lot that draws the faults")
    parser.add_argument("--folder", type=Path, help="where to work, and what to look at afterwards")
    options = parser.parse_args()
    options.minutes = options.minutes or (3.0 if options.quick else 30.0)
    # A shell lets what it starts in the background ignore Ctrl-C, and so would the crawls that we start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="opilio-chaos-") as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        figures = run(options, folder)
    print(json.dumps(figures))
    sys.exit(1 if any(figures[name] for name in WANTED_NONE) else 0)


if __name__ == "__main__":
    main()
