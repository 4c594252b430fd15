"""Pages per CPU-second and per second, and peak memory: Opilio and its peers on the same local web, interleaved.

    python bench/throughput.py [--quick] [--pages 9500] [--repeats 3] [--peers scrapy,wget,...] [--web debian|python]

Every program starts at the same page, obeys robots.txt, waits for nothing, extracts links, and stores only what it
must; Opilio's database (pages, links, crawl table, visits) and all duplicate checks are on. `opilio-full` also keeps
texts, the words around links and terms in the database, and WARC files: its defaults. `opilio-compiled` is `opilio`
with the modules that `make compiled` has compiled. Pages are counted by the server:
answers 200 that are not robots.txt. CPU time is that of the whole process tree, start-up included; peak memory is the
sum over the tree (proportional set size). Peers that take longer than their share are given fewer pages (`PAGES_OF`);
those that are done soon run again, up to `RUNS` times, and the median by CPU time counts: a moment in which the machine
is busy with something else weighs more in ten seconds than in ninety. The last line is JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.webs.debian_web import build_debian_web
from opilio.lab.local_web import LocalServer, LocalWeb, build

PEERS = Path(__file__).parents[1] / "peers"
COMPILED = Path(__file__).parents[2] / "build" / "compiled" / "src"
SEED = "http://directory.test/"
LIMIT_S = 900
RUNS, SOON_S = 3, 30.0
PAGES_OF = {"trafilatura": 3000, "crawl4ai": 600}  # at most, for what would take many minutes


def command_of(peer: str, server: LocalServer, pages: int, folder: Path) -> list[str]:
    proxy = f"http://{server.address}"
    if peer.startswith("opilio"):
        seeds = folder / "seeds.txt"
        seeds.write_text(SEED + "\n")
        settings = {
            "fetch.connect_to": f'{{ "*.test" = "{server.address}" }}',
            "fetch.host_delay_s": "0",
            "fetch.per_host": "16",
            "fetch.per_domain": "128",
            "fetch.in_flight": "128",
        }
        if peer != "opilio-full":  # the database and all duplicate checks are on; what Scrapy does not keep is not kept
            off = ["store.warc", "store.text", "store.link_context", "store.terms", "search.index"]
            settings |= dict.fromkeys(off, "false")
        sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "opilio", "crawl", str(folder / "collection"), "--seeds", str(seeds)]
        return [*command, "--max-pages", str(pages), "--quiet", *sets]
    if peer == "wget":
        # wget has no limit of pages: its quota in bytes is set to what the others fetch.
        quota = str(pages * 18_000)
        return ["wget", "-q", "-r", "-l", "inf", "-H", "-D", "test", "-Q", quota, "--delete-after", "-P", str(folder),
                "-e", f"http_proxy={proxy}", "-T", "10", "-t", "1", SEED]  # fmt: skip
    script = str(PEERS / f"{peer}_peer.py")
    hosts = ["--hosts", ",".join(server.web.hosts)] if peer == "trafilatura" else []
    return [sys.executable, script, "--seed", SEED, "--proxy", proxy, "--pages", str(pages), *hosts]


def is_installed(peer: str) -> bool:
    if peer == "wget":
        return shutil.which("wget") is not None
    if peer == "opilio-compiled":
        return COMPILED.is_dir()
    return peer.startswith("opilio") or importlib.util.find_spec(peer) is not None


class MemoryWatch(threading.Thread):
    """Samples the proportional set size of a process tree."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak_kib = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.25):
            self.peak_kib = max(self.peak_kib, sum(pss_kib(pid) for pid in tree(self.pid)))


def tree(pid: int) -> list[int]:
    pids = [pid]
    for parent in pids:
        try:
            for task in Path(f"/proc/{parent}/task").iterdir():
                pids += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return pids


def pss_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        return 0
    return 0


def run(peer: str, server: LocalServer, pages: int) -> dict[str, float]:
    server.clear_log()
    with tempfile.TemporaryDirectory(prefix="opilio-bench-") as name:
        command = command_of(peer, server, pages, Path(name))
        started_s = time.monotonic()
        environment = dict(os.environ, http_proxy=f"http://{server.address}")
        if peer == "opilio-compiled":
            environment["PYTHONPATH"] = str(COMPILED)
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, env=environment
        )
        watch = MemoryWatch(process.pid)
        watch.start()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            _, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            _, errors = process.communicate()
        wall_s = time.monotonic() - started_s
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        watch.ended.set()
        watch.join()
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    log = server.requests()
    fetched = sum(request.status == 200 and request.path != "/robots.txt" for request in log)
    if fetched < pages * 0.5:
        sys.stderr.write(f"{peer}: only {fetched} pages; it said: {errors.decode(errors='replace')[-800:]}\n")
    return {
        "pages": fetched,
        "wall_s": round(wall_s, 2),
        "cpu_s": round(cpu_s, 2),
        "pages_per_s": round(fetched / wall_s, 1),
        "pages_per_cpu_s": round(fetched / cpu_s, 1),
        "cpu_ms_per_page": round(1000 * cpu_s / max(fetched, 1), 2),
        "peak_mib": round(watch.peak_kib / 1024, 1),
    }


def run_again(peer: str, server: LocalServer, pages: int) -> dict[str, float]:
    """The figures of one repeat: of a program that is done soon, those of the middle one of several runs."""
    runs = [run(peer, server, pages)]
    while len(runs) < RUNS and runs[0]["wall_s"] < SOON_S:
        runs.append(run(peer, server, pages))
    return sorted(runs, key=lambda figures: figures["cpu_ms_per_page"])[len(runs) // 2]


def choose_web(name: str | None) -> tuple[LocalWeb, str]:
    """Debian's documentation packages, or the documentation of the installed Python without its Crawl-delays."""
    if name == "debian":
        web = build_debian_web()
        if web is None:
            sys.exit("Debian's documentation packages cannot be had here")
        return web, "debian"
    web = build("full")
    files = {
        url: (kind, re.sub(rb"(?m)^Crawl-delay:.*\n", b"", body)) if url.endswith("/robots.txt") else (kind, body)
        for url, (kind, body) in web.files.items()
    }
    return dataclasses.replace(web, files=files, cache_file=None), "python"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one repeat, 3,000 pages, Scrapy only")
    parser.add_argument("--pages", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--peers", default="")
    parser.add_argument(
        "--web",
        choices=["debian", "python"],
        help="python: docs of the installed Python (default); debian: its doc packages",
    )
    options = parser.parse_args()
    pages = options.pages or (3000 if options.quick else 9500)
    repeats = options.repeats or (1 if options.quick else 3)
    default = "scrapy" if options.quick else "opilio-compiled,opilio-full,scrapy,wget,trafilatura,crawl4ai"
    peers = ["opilio", *(options.peers or default).split(",")]
    missing = [peer for peer in peers if not is_installed(peer)]
    for peer in missing:
        print(f"{peer}: not installed, left out")
    peers = [peer for peer in peers if peer not in missing]
    web, web_name = choose_web(options.web)
    hosts, size = len(web.hosts), sum(len(page.body) for page in web.pages.values())
    print(f"{web_name}: {len(web.pages)} pages on {hosts} hosts, {size / len(web.pages) / 1000:.1f} kB a page")
    runs: dict[str, list[dict[str, float]]] = {peer: [] for peer in peers}
    with LocalServer(web, misbehaving=False) as server:
        for repeat in range(repeats):
            for peer in peers:
                figures = run_again(peer, server, min(pages, PAGES_OF.get(peer, pages)))
                runs[peer].append(figures)
                print(f"repeat {repeat + 1} {peer:12} {figures}", flush=True)
    result: dict[str, object] = {
        "bench": "throughput",
        "pages": pages,
        "repeats": repeats,
        "web": web_name,
        "hosts": hosts,
    }
    for peer in peers:
        result[peer] = {name: statistics.median(r[name] for r in runs[peer]) for name in runs[peer][0]}
    result["missing"] = missing
    compared = [("opilio", peer) for peer in peers[1:]]
    if "opilio-compiled" in peers and "scrapy" in peers:
        compared.append(("opilio-compiled", "scrapy"))
    for own, peer in compared:
        for name in ("pages_per_cpu_s", "pages_per_s", "peak_mib"):
            pairs = zip(runs[own], runs[peer], strict=True)
            ratios = [ours[name] / theirs[name] for ours, theirs in pairs if theirs[name]]
            what = f"{name}_over_{peer}" if own == "opilio" else f"{own}: {name}_over_{peer}"
            result[what] = round(statistics.median(ratios), 2) if ratios else None
    print(json.dumps(result))


if __name__ == "__main__":
    main()
