"""A federation of three collections beside one that has all their pages: what is found, and whom it takes to find it.

    python -m bench.quality.federation [--quick] [--web WEB] [--questions 300] [--left-out 0.02 ...] [--folder FOLDER]

The pages of the three largest topics of a web become three collections: by topic, and dealt by lot. All together are a
fourth, in which the same questions are asked. A tenth of the pages is held out: they are in no collection, and the
questions are made of their titles and texts, drawn with a fixed seed: one to four words of a title, words that stand
beside each other, single words, and two words of which one is enough.

Recall is the share of the one collection's best ten that the federation's best ten have, on average over the questions
that have any; `asked` is the mean number of collections that were asked. `anchors apart` is how it really is: a
collection knows only what links of its own pages say. For the other figures, every collection knows all links to its
pages, as the one does: they tell how good choosing and merging are, apart from that.

With several values of `--left-out` each is tried, to choose one: on other webs than those that are reported. The web
is the local one (the documentation of the installed Python), or a recorded one. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from opilio import Collection
from opilio.analyze import Analyzer
from opilio.analyze.terms import ENGLISH_STOP_WORDS
from opilio.crawl.peer import LocalPeer
from opilio.federation.peers import PeerAnswer, PeerError
from opilio.federation.search import FederatedSearch
from opilio.federation.selection import LEFT_OUT
from opilio.lab.local_web import build
from opilio.lab.webs.recorded import RecordedWeb
from opilio.model import Document, host_of, url_key
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings
from opilio.store import Batch, Store

PARTS = 3
TOP = 10
HELD_OUT = 10  # one page of so many
BATCH_PAGES = 500
PATIENT_S = 60.0  # on a machine that is busy otherwise, nobody is counted as dead
QUICK_PAGES = 400  # of a topic
NAMES = ("one", "two", "three")
Way = tuple[bool, bool]
WAYS: tuple[Way, ...] = ((True, False), (False, False), (True, True), (False, True))
"""By topic or by lot; with the words of all links, or with those of own links only."""
_WORD = re.compile(r"[a-z]{3,}")


@dataclass(frozen=True)
class Page:
    """A page of the web."""

    url: str
    topic: str
    document: Document

    @property
    def chance(self) -> float:
        """A number in 0..1 that is the page's own."""
        return xxhash.xxh32_intdigest(self.url.encode()) / 2**32

    @property
    def relevance(self) -> float:
        """As if a model had judged it: three of four pages of a focused crawl's topic are relevant."""
        return round(0.5 + 0.5 * self.chance if self.chance > 0.25 else 2 * self.chance, 3)


# -- the web


def read_web(web: Path | None, most: int) -> list[Page]:
    """The pages of the three largest topics; at most so many of each, drawn by lot."""
    bodies = list(_recorded(web) if web else _local())
    largest = [topic for topic, _ in Counter(topic for _, topic, _ in bodies).most_common(PARTS)]
    analyzer, pages = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()), []
    for topic in largest:
        some = sorted(
            (one for one in bodies if one[1] == topic), key=lambda one: xxhash.xxh32_intdigest(one[0].encode(), 7)
        )
        for url, _, body in some[:most]:
            document = analyzer.analyze(body, "text/html; charset=utf-8", url)
            if document is not None and document.text:
                pages.append(Page(url, topic, document))
    return pages


def _local() -> Iterator[tuple[str, str, bytes]]:
    for page in build("full").pages.values():
        if page.topic and "?" not in page.url:
            yield page.url, page.topic, page.body


def _recorded(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    """Pages by the first part of their first label: Science of Science.Biology.Birds."""
    web = RecordedWeb.open(folder)
    for number, url in enumerate(web.urls):
        labels = web.topics(number)
        if labels and web.status(number) == 200:
            yield url, labels[0].partition(".")[0], web.body(number)


# -- collections


def write_collection(folder: Path, pages: Sequence[Page], linking: Sequence[Page]) -> None:
    """A collection of these pages; what links to them say comes from the pages `linking`."""
    seeds = folder.parent / "seeds.txt"
    seeds.write_text("http://start.test/\n")
    Collection.create(folder, seeds=seeds)
    oids = {page.url: oid for oid, page in enumerate(pages)}
    sids: dict[str, int] = {}
    batch = Batch()
    with Store.open(folder) as store:
        for oid, page in enumerate(pages):
            host, one = host_of(page.url), page.document
            if host not in sids:
                sids[host] = len(sids)
                batch.hosts.add(sids[host], host, host, "", 1, 1, 1, 1.0)
            batch.urls.add(
                oid, page.url, url_key(page.url), sids[host], 0, 0, None, 0, "fetched", "ok", 1, page.relevance, 1.0,
                0.0, 1.0, 1.0,
            )  # fmt: skip
            batch.pages.add(
                oid, 1.0, 200, "text/html", "utf-8", one.language, one.title, "", one.text, one.main_text,
                one.content_hash, "", False, 0, 0, 0.0, "", "", "", page.relevance, 0, 1, "", 0, 0, one.shingles,
                None, False, None,
            )  # fmt: skip
            if len(batch) >= BATCH_PAGES:
                store.write(batch)
                batch = Batch()
        for number, page in enumerate(linking):
            source = oids.get(page.url, len(pages) + number)
            for link in page.document.links:
                if link.url in oids:
                    batch.links.add(source, oids[link.url], 0, 0, link.anchor, "", "main", 0, "a", False)
        store.write(batch)
    Collection(folder).update_index()


def divide(pages: Sequence[Page], *, by_topic: bool) -> list[list[Page]]:
    """Three parts of the pages."""
    if by_topic:
        topics = list(dict.fromkeys(page.topic for page in pages))
        return [[page for page in pages if page.topic == topic] for topic in topics]
    parts: list[list[Page]] = [[] for _ in range(PARTS)]
    for page in pages:
        parts[xxhash.xxh32_intdigest(page.url.encode(), 3) % PARTS].append(page)
    return parts


# -- questions


def make_questions(held_out: Sequence[Page], count: int) -> list[str]:
    """Questions of several kinds from pages that are in no collection."""
    rng = np.random.default_rng(1)
    titles = [words for page in held_out if (words := _words(page.document.title))]
    texts = [words for page in held_out if len(words := _words(page.document.main_text or page.document.text)) > 10]
    counts = Counter(word for words in texts for word in set(words))
    common = [word for word, _ in counts.most_common(100)]
    rare = [word for word, n in sorted(counts.items()) if n <= 2]

    def some(words: Sequence[str], most: int) -> str:
        n = min(len(words), int(rng.integers(1, most + 1)))
        start = int(rng.integers(len(words) - n + 1))
        return " ".join(words[start : start + n])

    def one(words: Sequence[Any]) -> Any:
        return words[int(rng.integers(len(words)))]

    kinds = [
        lambda: some(one(titles), 4), lambda: some(one(titles), 4), lambda: some(one(texts), 3), lambda: one(common),
        lambda: one(rare), lambda: f"{one(one(texts))} OR {one(one(titles))}",
    ]  # fmt: skip
    return list(dict.fromkeys(kinds[number % len(kinds)]() for number in range(count)))


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in ENGLISH_STOP_WORDS]


# -- measuring


class Dead(LocalPeer):
    """A peer that does not answer any more."""

    def ask(self, *_: Any, **__: Any) -> PeerAnswer:  # type: ignore[override]
        raise PeerError("dead")


def measure(
    place: Path, names: Sequence[str], questions: Sequence[str], left_out: float, lost: Sequence[Page] = ()
) -> dict[str, Any]:
    """Ask the federation and the one collection; the first peer is dead, and nobody expects its pages, if any are lost.

    A peer that fails is left alone for a while: so it is in a crowd of questions.
    """
    gone = {page.url for page in lost}
    one = Collection(place / "all")
    federation = FederatedSearch(
        [(Dead if gone and name == names[0] else LocalPeer)(name, place / name) for name in names], left_out=left_out
    )
    wrong = federation.refresh()
    assert not wrong, wrong
    one.search("first"), federation.search("first", ask_all=True)  # opens the indexes
    recalls, asked, ratios, ours_ms = [], [], [], []
    for question in questions:
        began_s = time.perf_counter()
        best = one.search(question, size=TOP)["results"]
        single_s = time.perf_counter() - began_s
        right = [result["url"] for result in best if result["url"] not in gone]
        if not right:
            continue
        began_s = time.perf_counter()
        answer = federation.search(question, size=TOP, timeout_s=PATIENT_S)
        took_s = time.perf_counter() - began_s
        found = {result["url"] for result in answer["results"]}
        recalls.append(len(found.intersection(right)) / len(right))
        asked.append(sum(peer["chosen"] for peer in answer["peers"]))
        ratios.append(took_s / single_s)
        ours_ms.append(took_s * 1000)
    return {
        "questions": len(recalls),
        "recall": round(statistics.mean(recalls), 4),
        "worst_tenth": round(statistics.mean(sorted(recalls)[: max(1, len(recalls) // 10)]), 3),
        "asked": round(statistics.mean(asked), 3),
        "latency_ratio": round(statistics.median(ratios), 2),
        "ms_p50": round(statistics.median(ours_ms), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_PAGES} pages of each topic, 120 questions, all links known"
    )
    parser.add_argument("--web", type=Path, help="a recorded web with labels, in place of the local one")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--left-out", type=float, nargs="*", default=[LEFT_OUT])
    parser.add_argument("--folder", type=Path, help="keep the collections here")
    options = parser.parse_args()
    pages = read_web(options.web, QUICK_PAGES if options.quick else 2**30)
    held_out = [page for number, page in enumerate(pages) if number % HELD_OUT == 0]
    kept = [page for number, page in enumerate(pages) if number % HELD_OUT]
    questions = make_questions(held_out, 120 if options.quick else options.questions)
    place = options.folder or Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    try:
        ways = WAYS[:2] if options.quick or len(options.left_out) > 1 else WAYS
        figures = run(place, kept, questions, options.left_out, ways)
    finally:
        if options.folder is None:
            shutil.rmtree(place, ignore_errors=True)
    print(json.dumps({"web": options.web.name if options.web else "local", "pages": len(kept), **figures}))


def run(
    place: Path, pages: Sequence[Page], questions: Sequence[str], left_out: Sequence[float], ways: Sequence[Way]
) -> dict[str, Any]:
    """Build the collections and ask."""
    place.mkdir(exist_ok=True)
    if not (place / "all").exists():
        write_collection(place / "all", pages, pages)
    for way in ways:
        for name, part in zip(_named(way), divide(pages, by_topic=way[0]), strict=True):
            if not (place / name).exists():
                write_collection(place / name, part, part if way[1] else pages)
    figures: dict[str, Any] = {}
    for share in left_out:
        for way in ways:
            told = measure(place, _named(way), questions, share)
            what = ("by topic" if way[0] else "by lot") + (", anchors apart" if way[1] else "")
            what += f", {share:g}" if len(left_out) > 1 else ""
            print(f"{what}: {told}", file=sys.stderr, flush=True)
            figures[what] = told
    lost = divide(pages, by_topic=True)[0]
    figures["by topic, one dead"] = measure(place, _named(WAYS[0]), questions, left_out[0], lost)
    first = next(iter(figures.values()))
    return {"recall": first["recall"], "asked": first["asked"], "latency_ratio": first["latency_ratio"], **figures}


def _named(way: Way) -> list[str]:
    return [f"{name}-{'topic' if way[0] else 'lot'}{'-apart' if way[1] else ''}" for name in NAMES]


if __name__ == "__main__":
    main()
