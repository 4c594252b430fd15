"""What a URL costs the frontier: offered, taken, and in memory, as the number of known URLs grows.

    python bench/frontier.py [--quick] [--sizes 100000,1000000,4000000,10000000]

A page with 40 links is absorbed again and again, as in a crawl (half of its links are new, half known); from time to
time URLs are taken and finished. Measured at each size: microseconds for a link, for a new URL and for a taken one,
bytes of memory for a known URL, and the time in which the database gives the next 1,000 by an arbitrary ORDER BY. The
peer, in the same run and interleaved, is what a crawler without a frontier of its own uses: a Python set of URLs with
one heap (Scrapy's fingerprints and priority queue in their barest form). The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import random
import tempfile
import time
from pathlib import Path

import numpy as np

from opilio.crawl.absorb import Absorber
from opilio.crawl.ledger import Ledger
from opilio.crawl.status import Counters
from opilio.frontier import Duplicates, Frontier, QueuedUrl, ScopeFilter, make_strategy
from opilio.model import Document, Judgement, LeaseKind, Link, Links, Outcome, Region, url_key
from opilio.settings import Settings, override
from opilio.store import Batch, Store

LINKS = 40
HOSTS = 5_000
ORDER = "numtries, relevance DESC, serverload, length(url)"


def make_absorber() -> Absorber:
    settings = override(Settings(), {"fetch.host_delay_s": 0.0, "fetch.in_flight": 10_000})
    ledger = Ledger(Duplicates(settings.duplicates, lambda _: []), Counters())
    frontier = Frontier(settings, make_strategy(settings.frontier), ScopeFilter(settings.scope), ledger)
    return Absorber(settings, frontier, ledger)


class Pages:
    """Pages with links, half of them new."""

    def __init__(self) -> None:
        self._rng = random.Random(1)
        self.made = 0

    def links(self) -> Links:
        links = []
        for position in range(LINKS):
            number = self.made if position % 2 == 0 else self._rng.randrange(max(1, self.made))
            self.made += position % 2 == 0
            url = f"http://host{number * 7919 % HOSTS}.example/section{number % 97}/page{number}.html"
            links.append(Link(url, url_key(url), "anchor text", "", Region.MAIN, position))
        return Links.of(links)


def document(links: Links) -> Document:
    return Document("", "", "", "", "", "", links, b"", b"", [], 0, b"")


def absorb_pages(absorber: Absorber, pages: Pages, until: int) -> float:
    """Absorb pages until `until` URLs are known; seconds spent in the frontier's code."""
    spent_s = 0.0
    source = QueuedUrl(0, "http://source.example/", absorber.frontier.host("source.example"), 0, 0, 0.5)
    rng = random.Random(2)
    while len(absorber.frontier.known) < until:
        documents = [(document(pages.links()), rng.random()) for _ in range(50)]
        started = time.perf_counter()
        for doc, relevance in documents:
            absorber._discovery.offer_links(source, Judgement(relevance=relevance), doc, 1.0)
        spent_s += time.perf_counter() - started
        absorber.swap_batch()  # written by the store, which bench/speed/store.py measures
    return spent_s


def take_urls(absorber: Absorber, count: int) -> float:
    """Seconds for taking and finishing `count` URLs; hosts are contacted on the way."""
    frontier, taken, now_s = absorber.frontier, 0, 10.0
    started = time.perf_counter()
    while taken < count:
        leases = frontier.take(now_s, 200)
        if not leases:
            break
        for lease in leases:
            if lease.kind is LeaseKind.HOST:
                frontier.origin(lease.url).contacted_s = now_s
            else:
                taken += 1
            frontier.ended(lease, Outcome.OK, now_s)
    return (time.perf_counter() - started) / max(taken, 1)


def peer_absorb(known: set[str], heap: list[tuple[float, int, str]], pages: Pages, until: int) -> float:
    spent_s, rng = 0.0, random.Random(2)
    while len(known) < until:
        documents = [(pages.links(), rng.random()) for _ in range(50)]
        started = time.perf_counter()
        for links, relevance in documents:
            for link in links:
                if link.url not in known:
                    known.add(link.url)
                    heapq.heappush(heap, (-relevance, len(known), link.url))
        spent_s += time.perf_counter() - started
    return spent_s


def checkout_s(rows: int) -> float:
    """Seconds in which the store gives the next 1,000 of `rows` waiting URLs in a user's order."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder) / "c") as store:
        for first in range(0, rows, 250_000):
            count = min(250_000, rows - first)
            numbers = np.arange(first, first + count)
            batch = Batch()
            batch.urls.oid = numbers.tolist()
            batch.urls.url = [f"http://host{n * 7919 % HOSTS}.example/section{n % 97}/page{n}.html" for n in numbers]
            batch.urls.key = rng.integers(1, 2**63, count).tolist()
            batch.urls.sid = (numbers * 7919 % HOSTS).tolist()
            batch.urls.relevance = rng.random(count).tolist()
            batch.urls.state = ["waiting"] * count
            for name in ("topic", "depth", "hops", "numtries", "priority", "not_before", "found", "lastvisited"):
                setattr(batch.urls, name, [0] * count)
            batch.urls.parent = batch.urls.outcome = [None] * count
            store.write(batch)
        held = np.arange(0, 1000, dtype=np.int64)
        times = []
        for _ in range(3):
            started = time.perf_counter()
            got = store.next_waiting(ORDER, 1000, exclude=held, now_s=2.0)
            times.append(time.perf_counter() - started)
            assert len(got) == 1000
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="to 1 million URLs")
    parser.add_argument("--sizes", default="")
    options = parser.parse_args()
    default = "100000,400000,1000000" if options.quick else "100000,1000000,4000000,10000000"
    sizes = [int(size) for size in (options.sizes or default).split(",")]
    gc.set_threshold(50_000, 20, 100)
    rows, result = [], {"bench": "frontier", "links_per_page": LINKS, "hosts": HOSTS}
    absorber, pages = make_absorber(), Pages()
    known, heap, peer_pages = set[str](), list[tuple[float, int, str]](), Pages()
    last = 0
    for size in sizes:
        spent_s = absorb_pages(absorber, pages, size)
        links = (size - last) * 2
        ledger = absorber.ledger
        memory = absorber.frontier.known.table.nbytes + len(ledger.states) + ledger.sids.itemsize * len(ledger.sids)
        row = {
            "known": size,
            "us_per_link": round(1e6 * spent_s / links, 2),
            "us_per_taken": round(1e6 * take_urls(absorber, 2_000), 2),
            "bytes_per_url": round(memory / size, 1),
        }
        if size <= 4_000_000:
            peer_s = peer_absorb(known, heap, peer_pages, size)
            row["us_per_link_set_and_heap"] = round(1e6 * peer_s / links, 2)
        row["checkout_1000_s"] = round(checkout_s(size), 3) if size <= 4_000_000 or not options.quick else None
        last = size
        rows.append(row)
        print(row, flush=True)
    result["rows"] = rows
    result["us_per_link_growth"] = round(rows[-1]["us_per_link"] / rows[0]["us_per_link"], 2)
    result["peak_us_per_link"] = max(row["us_per_link"] for row in rows)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
