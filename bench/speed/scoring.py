"""What it costs a link to be weighed by all evidence: the strategy `evidence` beside `best-first`, interleaved.

    python -m bench.speed.scoring [--quick] [--web FOLDER] [--repeats 5]

Both strategies crawl all of the same web in the simulator: frontier, duplicates and absorber are those of a real crawl,
and nothing is fetched, analysed or written. So both take in the same links, and the difference of their CPU times is
what `evidence` costs all in: remembering links, learning from every page, weighing what a page links to, looking at all
that waits anew. Once page by page, as when a polite crawl has time to spare, and once with eight answers at a time, as
when the CPU is the limit: what comes together is worked in together. The web is the documentation installed here with
its hosts (`opilio localweb`), or any recorded one (`--web`); a page is relevant, more or less, when it has the label of
the largest topic.

Quarters of the crawl say how the cost changes while URLs come to wait and go. What `evidence` needs of the workers, the
words of links, is measured apart: milliseconds of CPU to analyse a page without and with them, the same pages in turn.
All figures are medians of the repeats. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from opilio.analyze import Analyzer
from opilio.analyze.terms import term_ids
from opilio.frontier import LinkTextStrategy
from opilio.frontier.strategies import KnownDocument
from opilio.lab.experiments.analysed import Analysed, analyse
from opilio.lab.experiments.simulate import Answers, Simulation
from opilio.lab.local_web import build
from opilio.lab.webs.recorded import RecordedWeb
from opilio.lab.webs.recording import RecordedAnswer, head_of, recording
from opilio.model import Judgement
from opilio.settings import RobotsSettings, Settings, StoreSettings, TrapSettings, override

STRATEGIES = ("best-first", "evidence")
AT_ONCE = (1, 8)
"""Answers that come together."""
BUDGET_US = 20.0
EXAMPLES, QUARTERS = 5, 4
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Mark:
    """How far a crawl had come."""

    cpu_s: float
    links: int
    waiting: int


@dataclass
class Course:
    """One crawl: a mark at its start, after each quarter, and at its end."""

    pages: int = 0
    marks: list[Mark] = field(default_factory=list)
    most_waiting: int = 0

    @property
    def links(self) -> int:
        return self.marks[-1].links

    def us_per_link(self, first: int = 0, last: int = -1) -> float:
        """Microseconds of CPU a link, between two marks."""
        links = self.marks[last].links - self.marks[first].links
        return (self.marks[last].cpu_s - self.marks[first].cpu_s) / max(links, 1) * 1e6


def record_local(folder: Path, pages: int) -> RecordedWeb:
    """The local web as a recorded one, its topics as labels."""
    web = build(pages or "full")
    with recording(folder) as recorder:
        for page in web.pages.values():
            head = head_of(200, [("Content-Type", HTML)])
            recorder.add(RecordedAnswer(page.url, head, page.body, (page.topic,) if page.topic else ()))
        for url, (status, target) in web.redirects.items():
            if url not in web.pages:
                recorder.add(RecordedAnswer(url, head_of(status, [("Location", target)]), b""))
        return recorder.finish(["the local web"])


class Crawls:
    """Crawls of one web. What simulations share is made before the clock runs."""

    def __init__(self, analysed: Analysed) -> None:
        web = analysed.web
        self.answers = Answers(analysed)
        self.label = max(web.labels, key=lambda label: len(web.labels[label]))
        is_good = np.isin(np.arange(len(web)), web.labels[self.label])
        rng = np.random.default_rng(1)
        self.judge = np.where(is_good, rng.beta(8, 2, len(web)), rng.beta(1, 20, len(web)))
        documents = [self.answers.document(number) for number in range(len(web))]
        good = [n for n in web.labels[self.label] if documents[n] is not None]
        self.examples = good[:: max(1, len(good) // EXAMPLES)][:EXAMPLES]
        nothing = np.zeros(0, np.uint32)
        self.words = [
            KnownDocument(np.frombuffer(d.term_ids, "<u4"), nothing, 1.0) for n in self.examples if (d := documents[n])
        ]
        for document in documents:
            if document is not None:
                self.answers.bands(document.shingles)
        self._quarter_pages = 2**31
        self._quarter_pages = max(1, self.crawl("best-first", 1).pages // QUARTERS)

    def crawl(self, strategy: str, at_once: int) -> Course:
        """Crawl all that can be reached, with so many answers at a time."""
        course = Course()

        def mark() -> None:
            course.marks.append(Mark(time.process_time(), absorber.counters.counts["links"], absorber.frontier.waiting))

        def on_page(number: int, judgement: Judgement | None) -> None:
            course.pages += 1
            course.most_waiting = max(course.most_waiting, absorber.frontier.waiting)
            if course.pages % self._quarter_pages == 0 and len(course.marks) < QUARTERS:
                mark()

        settings = override(Settings(), {"frontier.strategy": strategy, "fetch.per_host": at_once})
        simulation = Simulation(
            self.answers, settings, self.examples, self.judge,
            in_flight=at_once, examples=self.examples, on_page=on_page,
        )  # fmt: skip
        absorber = simulation.absorber
        if isinstance(absorber.frontier.strategy, LinkTextStrategy):
            absorber.frontier.strategy.prepare(term_ids(self.label), self.words)
        mark()
        simulation.run()
        mark()
        return course


Courses = dict[tuple[str, int], list[Course]]
"""By strategy and the answers that come together."""


def interleaved(crawls: Crawls, repeats: int) -> Courses:
    """The strategies in turn, each first as often as the other."""
    courses: Courses = {(strategy, at_once): [] for at_once in AT_ONCE for strategy in STRATEGIES}
    for repeat in range(repeats):
        for strategy, at_once in courses if repeat % 2 == 0 else reversed(courses):
            course = crawls.crawl(strategy, at_once)
            courses[strategy, at_once].append(course)
            said = f"{strategy:10} {at_once} at once {course.us_per_link():6.2f} us a link"
            print(f"repeat {repeat + 1} {said}", flush=True)
    return courses


def cost_us(courses: Courses, at_once: int) -> float:
    """What evidence costs a link beyond best-first."""
    theirs, ours = (courses[strategy, at_once] for strategy in STRATEGIES)
    return statistics.median(our.us_per_link() - their.us_per_link() for our, their in zip(ours, theirs, strict=True))


def figures_of(courses: list[Course]) -> dict[str, object]:
    """The figures of one strategy."""
    quarters = range(len(courses[0].marks) - 1)
    return {
        "us_per_link": round(statistics.median(course.us_per_link() for course in courses), 2),
        "us_per_link_by_quarter": [
            round(statistics.median(course.us_per_link(at, at + 1) for course in courses), 2) for at in quarters
        ],
        "waiting_by_quarter": [mark.waiting for mark in courses[0].marks[1:]],
        "most_waiting": courses[0].most_waiting,
        "pages": courses[0].pages,
        "links": courses[0].links,
    }


def analysis_ms(web: RecordedWeb, most: int, repeats: int) -> tuple[float, float]:
    """Milliseconds of CPU to analyse a page, without the words of its links and with them."""
    pages = [n for n in range(len(web)) if web.status(n) == 200 and b"html" in web.head(n).lower()]
    bodies = [(web.body(n), web.urls[n]) for n in pages[:: max(1, len(pages) // most)][:most]]
    analyzers = [Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()) for _ in range(2)]
    analyzers[1].gives_link_words = True
    spent: list[list[float]] = []
    for _ in range(repeats + 1):  # the first to warm up
        spent.append([0.0, 0.0])
        for body, url in bodies:
            for at, analyzer in enumerate(analyzers):
                began_s = time.process_time()
                analyzer.analyze(body, HTML, url)
                spent[-1][at] += time.process_time() - began_s
    without, words = (statistics.median(one[at] for one in spent[1:]) for at in range(2))
    return without / len(bodies) * 1e3, words / len(bodies) * 1e3


def measure(web: RecordedWeb, repeats: int, analysed_pages: int) -> dict[str, object]:
    """All figures of a web."""
    crawls = Crawls(analyse(web))
    courses = interleaved(crawls, repeats)
    evidence = courses["evidence", 1]
    costs = {at_once: round(cost_us(courses, at_once), 2) for at_once in AT_ONCE}
    without_ms, words_ms = analysis_ms(web, analysed_pages, repeats)
    return {
        "bench": "scoring",
        "web": web.name,
        "repeats": repeats,
        "links_per_page": round(evidence[0].links / evidence[0].pages, 1),
        "scoring_us_per_link": costs[1],
        "scoring_us_per_link_8_at_once": costs[8],
        "budget_us": BUDGET_US,
        "within_budget": costs[1] <= BUDGET_US,
        "within_budget_8_at_once": costs[8] <= BUDGET_US,
        "most_waiting": evidence[0].most_waiting,
        "analysis_ms_per_page": round(without_ms, 3),
        "analysis_with_link_words_ms_per_page": round(words_ms, 3),
        **{f"{strategy}, {at_once} at once": figures_of(found) for (strategy, at_once), found in courses.items()},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 repeats, on a local web of 3,000 pages")
    parser.add_argument("--web", type=Path, help="a recorded web with labels instead of the local one")
    parser.add_argument("--repeats", type=int, default=0)
    options = parser.parse_args()
    repeats = options.repeats or (3 if options.quick else 5)
    with tempfile.TemporaryDirectory(prefix="opilio-bench-") as name:
        pages = 3_000 if options.quick else 0
        web = RecordedWeb.open(options.web) if options.web else record_local(Path(name) / "local", pages)
        if not web.labels:
            sys.exit(f"{options.web}: its pages have no labels, so that nothing says which of them are relevant")
        print(f"{web.name}: {web.info.pages} pages on {web.info.hosts} hosts", flush=True)
        result = measure(web, repeats, 100 if options.quick else 400)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
