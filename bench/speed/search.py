"""How long searching takes, how fast pages are indexed, and how good the rankings are.

    python bench/search.py [--quick] [--pages 100000] [--folder FOLDER] [--web WEB ...]

A collection of so many pages is made without fetching them (`retraining.make_collection`): real texts, each begun at
another place, 20 links a page, judgements of a model. It is indexed, once from nothing and once with nothing new. Then
220 questions of eleven kinds are asked, each once, in an order drawn by lot, through `Collection.search`; a time is
that of the whole call: reading the question, finding, ranking, snippets, facets. Words are drawn from the texts.

The same words are asked of SQLite's full-text index (`search_peer`), each right after ours, where it knows the kind.

With `--web`, labelled recorded webs, the rankings are judged too (`search_quality`). The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.search_peer import KINDS, Fts5
from bench.quality.search_quality import judge_webs
from bench.speed.retraining import make_collection
from bench.speed.throughput import choose_web
from opilio import Collection
from opilio.analyze.terms import tokenize
from opilio.lab.local_web import LocalServer
from opilio.search.index import FOLDER
from opilio.search.index_update import update
from opilio.store import Store

QUESTIONS = 220
SAMPLE_PAGES = 2_000
BUDGET_MS = 100.0
ALL_FOUR = {"bm25": 1.0, "cosine": 0.5, "relevance": 0.5, "authority": 0.3}


class Asking:
    """Draws questions whose words are in the collection."""

    def __init__(self, texts: list[str], topics: list[str], hosts: list[str]) -> None:
        self._rng = np.random.default_rng(1)
        self._pages = [words for text in texts if len(words := _words(text)) > 20]
        counts = Counter(word for words in self._pages for word in dict.fromkeys(words))
        ordered = [word for word, _ in counts.most_common()]
        self._common, self._rare = ordered[:60], [word for word, n in counts.items() if n <= 2]
        self._middle = [word for word in ordered[60:2000] if len(word) > 3]
        self._topics, self._hosts = topics, hosts
        self.kinds: dict[str, Callable[[], tuple[str, dict[str, Any]]]] = {
            "common word": lambda: (self._one(self._common), {}),
            "rare word": lambda: (self._one(self._rare), {}),
            "two words": lambda: (" ".join(self._beside(2)), {}),
            "phrase": lambda: (f'"{" ".join(self._beside(3))}"', {}),
            "prefix": lambda: (f"{self._one(self._middle)[:4]}*", {}),
            "fuzzy": lambda: (f"{self._one(self._middle)}~", {}),
            "or, not": lambda: (f"{self._one(self._middle)} OR {self._one(self._middle)} -{self._one(self._rare)}", {}),
            "topic": lambda: (self._one(self._middle), {"topic": self._one(self._topics)}),
            "all four rankings": lambda: (self._one(self._common), {"weights": ALL_FOUR}),
            "host": lambda: (self._one(self._common), {"host": self._one(self._hosts)}),
            "page 20": lambda: (self._one(self._common), {"page": 20}),
        }

    def _one(self, some: list[str]) -> str:
        return some[int(self._rng.integers(len(some)))]

    def _beside(self, count: int) -> list[str]:
        """Words that stand beside each other in some page."""
        words = self._pages[int(self._rng.integers(len(self._pages)))]
        at = int(self._rng.integers(len(words) - count))
        return words[at : at + count]

    def questions(self) -> list[tuple[str, str, dict[str, Any]]]:
        made = [(kind, *make()) for kind, make in self.kinds.items() for _ in range(QUESTIONS // len(self.kinds))]
        return [made[at] for at in self._rng.permutation(len(made)).tolist()]


def _words(text: str) -> list[str]:
    return [word for word in (word.decode() for word in tokenize(text)) if word.isascii() and word.isalpha()]


def measure_index(folder: Path) -> dict[str, Any]:
    """The time from nothing to a whole index, and that of an update with nothing new."""
    with Store.open(folder, read_only=True) as store:
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        done = update(store, folder)
        took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        assert done is not None
        began_s = time.perf_counter()
        update(store, folder)
        idle_s = time.perf_counter() - began_s
    size = sum(file.stat().st_size for file in (folder / FOLDER).rglob("*") if file.is_file())
    return {
        "index_docs_per_s": round(done.added / took_s),
        "index_cpu_ms_per_doc": round(1000 * cpu_s / done.added, 3),
        "idle_update_s": round(idle_s, 2),
        "index_mib": round(size / 2**20),
    }


def measure_questions(folder: Path, peer: Fts5) -> dict[str, Any]:
    """The times of all questions, and those of the peer."""
    collection = Collection(folder)
    sql = f"SELECT text FROM pages ORDER BY hash(oid), oid LIMIT {SAMPLE_PAGES}"
    texts = [text for (text,) in collection.sql(sql).rows]
    topics = [topic["topic"] for topic in collection.topics() if topic["pages"]]
    hosts = [host for (host,) in collection.sql("SELECT host FROM hosts WHERE pages > 20 ORDER BY sid LIMIT 100").rows]
    asking = Asking(texts, topics, hosts)
    collection.search("first")  # opens the index
    times: dict[str, list[float]] = {kind: [] for kind in asking.kinds}
    totals: dict[str, list[int]] = {kind: [] for kind in asking.kinds}
    cpu_ms: list[float] = []
    ours_ms, theirs_ms = [], []
    for kind, question, options in asking.questions():
        began_s, began_cpu_s = time.perf_counter(), time.thread_time()
        answer = collection.search(question, **options)
        times[kind].append((time.perf_counter() - began_s) * 1000)
        cpu_ms.append((time.thread_time() - began_cpu_s) * 1000)
        totals[kind].append(answer["total"])
        if kind in KINDS:
            ours_ms.append(times[kind][-1])
            theirs_ms.append(peer.ask_ms(question))
    everything = sorted(took for some in times.values() for took in some)
    for kind, some in times.items():
        median, worst, hits = statistics.median(some), max(some), statistics.median(totals[kind])
        print(f"{kind:20} median {median:6.1f} ms  longest {worst:6.1f} ms  {hits:9,.0f} hits", file=sys.stderr)
    return {
        "query_ms_p50": round(float(np.percentile(everything, 50)), 1),
        "query_ms_p95": round(float(np.percentile(everything, 95)), 1),
        "query_ms_max": round(everything[-1], 1),
        "query_cpu_ms_p95": round(float(np.percentile(cpu_ms, 95)), 1),
        "fts5_ms_p50": round(statistics.median(theirs_ms), 1),
        "fts5_ms_p95": round(float(np.percentile(theirs_ms, 95)), 1),
        "query_ms_p50_over_fts5": round(statistics.median(ours_ms) / statistics.median(theirs_ms), 2),
        "query_ms_p95_over_fts5": round(float(np.percentile(ours_ms, 95) / np.percentile(theirs_ms, 95)), 2),
        "by_kind_ms": {kind: round(statistics.median(some), 1) for kind, some in times.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20,000 pages")
    parser.add_argument("--pages", type=int, default=0)
    parser.add_argument("--folder", default=None, help="where the collection is made (and removed)")
    parser.add_argument("--web", type=Path, action="append", default=[], help="a labelled recorded web; repeatable")
    options = parser.parse_args()
    pages = options.pages or (20_000 if options.quick else 100_000)
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-", dir=options.folder))
    try:
        web, _ = choose_web(None)
        with LocalServer(web, misbehaving=False, log=False) as server:
            began_s = time.monotonic()
            make_collection(folder / "collection", web, server, pages, 1)
        print(f"made a collection of {pages:,} pages in {time.monotonic() - began_s:.0f} s", flush=True)
        shutil.rmtree(folder / "collection" / FOLDER, ignore_errors=True)
        figures = measure_index(folder / "collection")
        print(json.dumps(figures), file=sys.stderr, flush=True)
        with Store.open(folder / "collection", read_only=True) as store:
            peer = Fts5(folder, store)
        figures["index_docs_per_s_over_fts5"] = round(figures["index_docs_per_s"] / peer.docs_per_s, 2)
        figures |= measure_questions(folder / "collection", peer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.web:
        figures["quality"] = judge_webs(options.web)
    result = {"bench": "search", "pages": pages, "budget_ms": BUDGET_MS, **figures}
    result["within_budget"] = figures["query_ms_p95"] <= BUDGET_MS
    print(json.dumps(result | {"machine": f"{platform.machine()}, {os.cpu_count()} cores"}))


if __name__ == "__main__":
    main()
