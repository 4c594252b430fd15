"""What a round of retraining takes from a crawl: pages a second while one is under way, beside those while none is.

    python -m bench.speed.retraining [--quick] [--pages 100000] [--rounds 3] [--delay 0] [--folder FOLDER]

A collection of so many pages is made without fetching them: a short crawl of the local web trains the first model, then
pages with the texts, terms and judgements of real ones, links between them and URLs that wait are written into its
database. From there a crawl goes on against a server on loopback, in a process of its own. After a time of rest it
looks for archetypes (link analysis included), tries a model with them, hands it out, judges all pages anew and orders
the frontier anew; then it rests, and so on. Duplicates are let pass, so that there is always more to fetch.

Of each round, `ratio` is the rate while it is under way over the mean of the rates in the rests before and after it.
Nothing waits for politeness unless `--delay` says so: the crawl takes all the CPU there is, which is the hardest case.
On two cores engine, worker, server and the process that trains share them. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import opilio.crawl.collection as collection_module
from bench.speed.throughput import MemoryWatch, choose_web
from opilio import Collection
from opilio.analyze import Analyzer
from opilio.classify import Model
from opilio.crawl.engine import Engine
from opilio.crawl.status import FOUND
from opilio.features.classifier_input import ClassifierInput
from opilio.lab.local_web import LocalServer, LocalWeb
from opilio.model import Document, Judgement, Links, Region, host_of, url_key
from opilio.model.visit import REGIONS
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings
from opilio.store import Batch, Store

ROOT = Path(__file__).parents[2]
TOPICS = ["databases", "statistics", "networking", "mathematics"]
FIRST_PAGES, BATCH_PAGES, LINKS, LINKS_TO_WAITING, PAGES_PER_HOST = 300, 500, 20, 4, 100
WAITING_PER_ROUND = 150_000
WARM_UP_S, SETTLE_S, REST_S, QUICK_REST_S = 10.0, 2.0, 20.0, 10.0
BUDGET = 0.9
STAGES = ("finding archetypes and training", "judging anew", "ordering anew")
SETTINGS = {
    "fetch.per_host": 16, "fetch.per_domain": 128, "fetch.in_flight": 128, "store.warc": False,
    "duplicates.ip_path": "off", "duplicates.ip_size": "off", "duplicates.content": False,
    "duplicates.near_jaccard": 0.0, "duplicates.suffix": False, "duplicates.canonical": False,
    "robots.obey_meta": False, "robots.sitemaps": False,
}  # fmt: skip


# -- the collection


@dataclass(frozen=True)
class Original:
    """A page of the local web; many pages of the collection have its words."""

    url: str
    document: Document
    judgement: Judgement


class Filling:
    """Writes pages, links and waiting URLs into a collection that has a model: oids of pages first."""

    def __init__(self, store: Store, web: LocalWeb, pages: int, waiting: int) -> None:
        self.store, self.pages, self.rng = store, pages, np.random.default_rng(1)
        model = Model.from_bytes(store.load_model())
        self.version = model.version
        self.originals = list(read_originals(web, model, min(len(web.pages), max(500, pages // 5))))
        self.copies = -(-waiting // self.count)
        self.waiting = self.copies * self.count
        self.first_oid, self.first_sid = store.count_rows("crawl"), store.count_rows("hosts")
        kinds = np.array([original.judgement.topic for original in self.originals])[np.arange(pages) % self.count]
        self.by_topic = {topic: np.flatnonzero(kinds == topic) for topic in np.unique(kinds).tolist()}
        self.sids: dict[str, int] = dict(store.query("SELECT host, sid FROM hosts", max_rows=2**20).rows)

    @property
    def count(self) -> int:
        return len(self.originals)

    def fill(self) -> None:
        """Write all of it."""
        batch, counts = Batch(), self.store.load_counters()
        self._hosts(batch)
        for number in range(self.pages):
            self._page(batch, number)
            if len(batch) >= BATCH_PAGES:
                self.store.write(batch)
                batch = Batch()
        relevant = sum(self.originals[n % self.count].judgement.is_relevant for n in range(self.pages))
        batch.counters = {"pages": counts["pages"] + self.pages, FOUND: counts.get(FOUND, 0) + relevant}
        self.store.write(batch)
        for copy in range(self.copies):
            self._copies(copy)
        self.store.checkpoint()

    def _hosts(self, batch: Batch) -> None:
        made = [f"h{n}.example" for n in range(-(-self.pages // PAGES_PER_HOST))]
        to_meet = sorted({host_of(original.url) for original in self.originals} - self.sids.keys())
        self.sids |= {name: self.first_sid + n for n, name in enumerate([*made, *to_meet])}
        now_s = time.time()
        for name in made:
            batch.hosts.add(self.sids[name], name, name, "", PAGES_PER_HOST, 1, 1, now_s)
        for name in to_meet:
            batch.hosts.add(self.sids[name], name, name, "", 0, 0, 0, 0.0)

    def _page(self, batch: Batch, number: int) -> None:
        """A page with the words of an original, begun at another place, and with its judgement."""
        original = self.originals[number % self.count]
        document, judgement, oid = original.document, original.judgement, self.first_oid + number
        host, now_s = f"h{number // PAGES_PER_HOST}.example", 1_700_000_000.0 + number
        sid, relevance = self.sids[host], judgement.relevance
        cut = int(self.rng.integers(0, max(1, len(document.text))))
        text = f"{document.text[cut:]} {document.text[:cut]}"
        url, content_hash = f"http://{host}/{number}.html", int(self.rng.integers(1, 2**63))
        batch.urls.add(
            oid, url, url_key(url), sid, judgement.topic, 2, None, 0, "fetched", "ok", 1, relevance,
            relevance, 0.0, now_s, now_s,
        )  # fmt: skip
        batch.pages.add(
            oid, now_s, 200, "text/html", "utf-8", document.language, document.title, "", text, text, content_hash, "",
            False, 7_000, 28_000, 83.0, "", "", "", relevance, judgement.topic, self.version, "", 0, 0, b"",
            None, False, None,
        )  # fmt: skip
        batch.judgements.put(oid, judgement)
        batch.terms.add(oid, document.term_ids, document.term_counts)
        self._links(batch, oid, sid, original)

    def _links(self, batch: Batch, oid: int, sid: int, original: Original) -> None:
        """Most links lead to pages of the same topic, some to what waits."""
        near = self.rng.choice(self.by_topic[original.judgement.topic], LINKS - LINKS_TO_WAITING)
        targets = [*near.tolist(), *(self.pages + self.rng.integers(0, self.waiting, LINKS_TO_WAITING)).tolist()]
        words = original.document.text[:2000].split()
        links = Links.from_columns(
            [0] * LINKS,
            [""] * LINKS,
            [" ".join(words[at * 5 : at * 5 + 3]) for at in range(LINKS)],
            [" ".join(words[at * 5 : at * 5 + 12]) for at in range(LINKS)],
            bytes([REGIONS.index(Region.MAIN)] * LINKS),
            range(LINKS),
            bytes(LINKS),
            bytes(LINKS),
        )
        batch.links.put(oid, sid, [self.first_oid + target for target in targets], list(map(self._sid, targets)), links)

    def _sid(self, number: int) -> int:
        if number < self.pages:
            return self.sids[f"h{number // PAGES_PER_HOST}.example"]
        return self.sids[host_of(self.originals[(number - self.pages) % self.count].url)]

    def _copies(self, copy: int) -> None:
        """Every page of the server once more: it ignores a query that names no page of its own."""
        batch = Batch()
        for at, original in enumerate(self.originals):
            number, url = self.pages + copy * self.count + at, f"{original.url}?copy={copy}"
            relevance = original.judgement.relevance
            batch.urls.add(
                self.first_oid + number, url, url_key(url), self._sid(number), original.judgement.topic, 3,
                self.first_oid + int(self.rng.integers(0, self.pages)), 0, "waiting", None, 0, relevance, relevance,
                0.0, 1_700_000_000.0, 0.0,
            )  # fmt: skip
        self.store.write(batch)


def read_originals(web: LocalWeb, model: Model, most: int) -> Iterator[Original]:
    """Some pages of the local web as the analysis and the model see them."""
    analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
    for page in list(web.pages.values())[:: len(web.pages) // most]:
        document = analyzer.analyze(page.body, "text/html; charset=utf-8", page.url)
        if document is not None and "?" not in page.url:
            yield Original(page.url, document, model.judge(ClassifierInput.of(document, page.url)))


def make_collection(folder: Path, web: LocalWeb, server: LocalServer, pages: int, waiting: int) -> None:
    """A collection with a model, so many pages and something to go on with."""
    bookmarks = folder.parent / "bookmarks.html"
    bookmarks.write_text(web.bookmarks(TOPICS), encoding="utf-8")
    settings = {**SETTINGS, "fetch.connect_to": server.connect_to, "fetch.host_delay_s": 0.0}
    collection = Collection.create(folder, bookmarks=bookmarks, settings=settings)
    collection.crawl(settings={"limits.max_pages": FIRST_PAGES})
    with Store.open(folder) as store:
        Filling(store, web, pages, waiting).fill()


# -- the crawl, in a process of its own


@dataclass(frozen=True)
class Sample:
    """A look at the crawl."""

    at_s: float
    pages: int


class Conductor:
    """Works beside a crawl (`opilio.crawl.background`): has it rest, make a round, rest, ..., and takes notes."""

    def __init__(self, engine: Engine, rounds: int, rest_s: float) -> None:
        self._engine, self._rounds, self._rest_s = engine, rounds, rest_s
        self.rests: list[tuple[Sample, Sample]] = []
        self.rounds: list[dict[str, Any]] = []
        self._task: asyncio.Task[None] | None = None
        self.is_busy, self.pauses_fetching = True, False
        self._longest_s = 0.0

    def look(self) -> None:
        """Begin."""
        if self._task is None:
            self._task = asyncio.create_task(self._conduct())

    async def close(self, at_once: asyncio.Event) -> None:
        """Nothing is under way any more, unless something failed."""
        if self._task is not None:
            await asyncio.gather(self._task)

    def _sample(self) -> Sample:
        return Sample(time.monotonic(), self._engine.counters.pages)

    async def _conduct(self) -> None:
        pauses = asyncio.create_task(self._watch_pauses())
        await asyncio.sleep(WARM_UP_S)
        await self._rest()
        for _ in range(self._rounds):
            await self._round()
            await self._rest()
        pauses.cancel()
        self._engine.end("all rounds are made")

    async def _watch_pauses(self) -> None:
        """The longest time for which the loop had no turn."""
        while True:
            before_s = time.monotonic()
            await asyncio.sleep(0.02)
            self._longest_s = max(self._longest_s, time.monotonic() - before_s - 0.02)

    async def _rest(self) -> None:
        await asyncio.sleep(SETTLE_S)
        began = self._sample()
        await asyncio.sleep(self._rest_s)
        self.rests.append((began, self._sample()))

    async def _round(self) -> None:
        counters, teacher = self._engine.counters, self._engine.teacher
        judged, self._longest_s = counters.counts["pages re-judged"], 0.0
        stages = [self._sample()]
        watch = asyncio.create_task(self._watch_stages(stages, teacher.version, judged))
        changes = await teacher.teach_itself("the bench")
        while teacher.is_busy:  # pages that were under way when the model came are judged anew, too
            await asyncio.sleep(0.05)
        stages.append(self._sample())
        watch.cancel()
        pieces = list(itertools.pairwise(stages))
        self.rounds.append(
            {
                "changes": str(changes),
                "verdict": str(changes.verdict),
                "pages_per_s": round(rate(stages[0], stages[-1]), 1),
                "round_s": round(stages[-1].at_s - stages[0].at_s, 1),
                "stage_s": dict(zip(STAGES, (round(end.at_s - start.at_s, 1) for start, end in pieces), strict=False)),
                "stage_pages_per_s": dict(zip(STAGES, (round(rate(*piece), 1) for piece in pieces), strict=False)),
                "pages_judged_anew": counters.counts["pages re-judged"] - judged,
                "longest_pause_s": round(self._longest_s, 2),
            }
        )
        print(json.dumps(self.rounds[-1]), file=sys.stderr, flush=True)

    async def _watch_stages(self, stages: list[Sample], version: int, judged: int) -> None:
        """Note when there is a model, and when all pages are judged by it."""
        while self._engine.teacher.version == version:
            await asyncio.sleep(0.05)
        stages.append(self._sample())
        while self._engine.counters.counts["pages re-judged"] == judged:
            await asyncio.sleep(0.05)
        stages.append(self._sample())


def rate(began: Sample, ended: Sample) -> float:
    return (ended.pages - began.pages) / (ended.at_s - began.at_s)


def crawl(folder: Path, rounds: int, rest_s: float, delay_s: float) -> dict[str, Any]:
    """Crawl on, with rounds; what was noted."""
    conductors: list[Conductor] = []

    class Conducted(Engine):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            conductors.append(Conductor(self, rounds, rest_s))
            self.background_tasks.append(conductors[0])

    collection_module.Engine = Conducted  # type: ignore[misc]
    status = Collection(folder).crawl(settings={"limits.max_pages": 0, "fetch.host_delay_s": delay_s})
    noted = conductors[0]
    rests = [rate(*rest) for rest in noted.rests]
    for number, made in enumerate(noted.rounds):
        made["ratio"] = round(made["pages_per_s"] / statistics.fmean(rests[number : number + 2]), 3)
    return {"reason": status.reason, "rests_pages_per_s": [round(rest, 1) for rest in rests], "rounds": noted.rounds}


def crawl_apart(folder: Path, rounds: int, rest_s: float, delay_s: float) -> dict[str, Any]:
    """The same in a process, whose memory is watched."""
    given = ["--crawl", str(folder.absolute()), "--rounds", str(rounds), "--rest", str(rest_s), "--delay", str(delay_s)]
    command = [sys.executable, "-m", "bench.speed.retraining", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        watch = MemoryWatch(process.pid)
        watch.start()
        said, _ = process.communicate()
        watch.ended.set()
        watch.join()
    if process.returncode:
        sys.exit("the crawl failed")
    noted: dict[str, Any] = json.loads(said.splitlines()[-1])
    return {
        "delay_s": delay_s,
        "fetching_during_round": statistics.median(made["ratio"] for made in noted["rounds"]),
        "pages_per_s_at_rest": statistics.median(noted["rests_pages_per_s"]),
        "round_s": statistics.median(made["round_s"] for made in noted["rounds"]),
        "peak_mib": round(watch.peak_kib / 1024),
        **noted,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10,000 pages, one round")
    parser.add_argument("--pages", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--rest", type=float, default=0.0, help="seconds between two rounds")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds between two requests to a host")
    parser.add_argument("--folder", default=None, help="where the collection is made (and removed)")
    parser.add_argument("--crawl", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    pages = options.pages or (10_000 if options.quick else 100_000)
    rounds = options.rounds or (1 if options.quick else 3)
    rest_s = options.rest or (QUICK_REST_S if options.quick else REST_S)
    if options.crawl:
        print(json.dumps(crawl(options.crawl, rounds, rest_s, options.delay)))
        return
    web, _ = choose_web(None)
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-", dir=options.folder))
    try:
        with LocalServer(web, misbehaving=False, log=False) as server:
            began_s = time.monotonic()
            make_collection(folder / "collection", web, server, pages, WAITING_PER_ROUND * rounds)
            print(f"made a collection of {pages:,} pages in {time.monotonic() - began_s:.0f} s", flush=True)
            figures = crawl_apart(folder / "collection", rounds, rest_s, options.delay)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    meets = figures["fetching_during_round"] >= BUDGET
    result = {"bench": "retraining", "pages": pages, "budget": BUDGET, "within_budget": meets, **figures}
    print(json.dumps(result | {"machine": f"{platform.machine()}, {os.cpu_count()} cores"}))


if __name__ == "__main__":
    main()
