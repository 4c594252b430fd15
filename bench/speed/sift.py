"""Pages of a WARC file that are judged in a second of CPU time, with other readers of the same file as peers.

    python -m bench.speed.sift [--quick] [--pages 4000] [--ray]

The file has the pages of the local web, each in a gzip member of its own. Contenders take turns, in processes of their
own, so that a busy machine slows all of them alike; what counts is CPU time, of child processes too, and the median
over the rounds. `opilio` reads, analyses, judges by an SVM model and stores what is on topic; `opilio, reading only` is
the reader without analysis. The peers read the file with warcio or fastwarc and take the text with trafilatura or
resiliparse; they judge nothing and store nothing. A peer that is not installed is left out.

With --ray, the same file is sifted by 1, 2 and 4 workers on a Ray cluster of this machine. On two cores, four workers
cannot be faster than two. The last line is JSON.
"""

# ruff: noqa: PLC0415  (each contender runs in a process of its own, which loads what that contender needs)
from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TOPICS = ["cryptography", "data compression"]
BODY_LIMIT = 2_000_000


def make_archive(path: Path, pages: int) -> int:
    """Write the local web as a WARC file; how many pages it has."""
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    from opilio.lab.local_web import build

    web = build(pages)
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for page in web.pages.values():
            head = StatusAndHeaders("200 OK", [("Content-Type", page.content_type)], protocol="HTTP/1.1")
            body = io.BytesIO(page.body)
            writer.write_record(writer.create_warc_record(page.url, "response", payload=body, http_headers=head))
    return len(web.pages)


def make_collection(folder: Path, pages: int) -> None:
    """A collection with an SVM model, by a short crawl of the same web."""
    from opilio import Collection
    from opilio.lab.local_web import LocalServer, build

    with LocalServer(build(pages)) as server:
        bookmarks = folder.with_suffix(".html")
        bookmarks.write_text(server.web.bookmarks(TOPICS), encoding="utf-8")
        settings = {
            "fetch.connect_to": server.connect_to, "fetch.host_delay_s": 0.0, "limits.max_pages": 100,
            "fetch.pictures_per_host": 0, "learn.questions": 0, "search.index": False,
        }  # fmt: skip
        Collection.create(folder, bookmarks=bookmarks, settings=settings).crawl()


# -- contenders, each in a process of its own


def sift_archive(archive: str, folder: str, workers: int, ray: str) -> dict[str, Any]:
    from opilio import Collection
    from opilio.cluster.sifting import sift_on_ray
    from opilio.sift import sift
    from opilio.sift.pool import LOCAL

    program = sift_on_ray(ray, workers) if ray else LOCAL
    report = sift(Collection(folder), [archive], workers=workers, program=program)
    return {
        "pages": report.judged + sum(report.left_out.values()),
        "on_topic": report.on_topic,
        "wall_s": report.elapsed_s,
    }


def read_only(archive: str) -> dict[str, Any]:
    from opilio.sift.archives import ArchivePage, Position, read_pages

    with Path(archive).open("rb") as file:
        return {"pages": sum(isinstance(one, ArchivePage) for one in read_pages(file, Position()))}


def read_by_warcio(archive: str, text: str) -> dict[str, Any]:
    from warcio.archiveiterator import ArchiveIterator

    extract, pages = _extractor(text), 0
    with Path(archive).open("rb") as file:
        for record in ArchiveIterator(file):
            if record.rec_type == "response":
                extract(record.content_stream().read())
                pages += 1
    return {"pages": pages}


def read_by_fastwarc(archive: str, text: str) -> dict[str, Any]:
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    extract, pages = _extractor(text), 0
    with Path(archive).open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response):
            extract(record.reader.read())
            pages += 1
    return {"pages": pages}


def _extractor(name: str) -> Any:
    if name == "trafilatura":
        import trafilatura

        return trafilatura.extract
    if name == "resiliparse":
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.encoding import bytes_to_str, detect_encoding

        return lambda body: extract_plain_text(bytes_to_str(body, detect_encoding(body)), main_content=True)
    return lambda body: None


PEERS = {
    "warcio, reading only": (read_by_warcio, "", ("warcio",)),
    "warcio + trafilatura": (read_by_warcio, "trafilatura", ("warcio", "trafilatura")),
    "warcio + resiliparse": (read_by_warcio, "resiliparse", ("warcio", "resiliparse")),
    "fastwarc + resiliparse": (read_by_fastwarc, "resiliparse", ("fastwarc", "resiliparse")),
}


def contend(name: str, archive: str, base: str, workers: int, ray: str) -> None:
    """Run one contender and print its figures."""
    began_s = time.monotonic()
    if name == "opilio":
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(shutil.copytree(base, Path(scratch) / "c"))
            began_s = time.monotonic()
            figures = sift_archive(archive, str(folder), workers, ray)
    elif name == "opilio, reading only":
        figures = read_only(archive)
    else:
        read, text, _ = PEERS[name]
        figures = read(archive, text)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    figures["cpu_s"] = sum(one.ru_utime + one.ru_stime for one in used)
    figures.setdefault("wall_s", time.monotonic() - began_s)
    print(json.dumps(figures))


def run(name: str, archive: Path, base: Path, workers: int = 0, ray: str = "") -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.speed.sift", "--contend", name, "--archive", str(archive)]
    command += ["--base", str(base), "--workers", str(workers), "--address", ray]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def on_ray(archive: Path, base: Path) -> dict[str, Any]:
    """Pages per second of wall time with 1, 2 and 4 workers on a cluster of this machine."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster()
    cluster.add_node(num_cpus=6, object_store_memory=78 * 2**20, include_dashboard=False)
    try:
        found = {}
        for workers in (1, 2, 4):
            figures = run("opilio", archive, base, workers, str(cluster.address))
            found[str(workers)] = round(figures["pages"] / figures["wall_s"], 1)
            print(f"Ray, {workers} workers: {found[str(workers)]:8.1f} pages/s", flush=True)
        return found
    finally:
        cluster.shutdown()


def main() -> None:
    """Measure, print, and give JSON in the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ray", action="store_true")
    for hidden in ("--contend", "--archive", "--base", "--address"):
        parser.add_argument(hidden, default="", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.contend:
        contend(given.contend, given.archive, given.base, given.workers, given.address)
        return
    pages, rounds = (1000, 1) if given.quick else (given.pages, given.rounds)
    with tempfile.TemporaryDirectory() as scratch:
        archive, base = Path(scratch) / "pages.warc.gz", Path(scratch) / "base"
        count = make_archive(archive, pages)
        make_collection(base, pages)
        print(f"{count:,} pages, {archive.stat().st_size:,} bytes")
        names = ["opilio", "opilio, reading only"]
        names += [name for name, (_, _, needs) in PEERS.items() if all(map(importlib.util.find_spec, needs))]
        seen: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                seen[name].append(run(name, archive, base))
        per_cpu_s = {}
        for name in names:
            per_cpu_s[name] = round(statistics.median(one["pages"] / one["cpu_s"] for one in seen[name]), 1)
            wall = statistics.median(one["pages"] / one["wall_s"] for one in seen[name])
            print(f"{name:24} {per_cpu_s[name]:10,.1f} pages per CPU-second {wall:10,.1f} per second")
        missing = [name for name in PEERS if name not in names]
        if missing:
            print(f"not installed: {', '.join(missing)}")
        result: dict[str, Any] = {
            "pages": count, "on_topic": seen["opilio"][0]["on_topic"], "pages_per_cpu_s": per_cpu_s,
            "cores": len(os.sched_getaffinity(0)),
        }  # fmt: skip
        if given.ray:
            result["ray_pages_per_s"] = on_ray(archive, base)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
