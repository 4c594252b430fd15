"""How good the estimate of recall is: simulated crawls of recorded webs, whose truth is known.

    python -m bench.quality.recall WEB [WEB ...] [--quick] [--topics 5] [--judge svm] [--until 0.8]

WEB is the folder of a recorded web. Of each, some development topics are crawled by best-first and by evidence into a
real database. The truth is the share found of all pages that the same judge finds relevant and that links lead to. The
first table has the mean estimate where the truth was in each band; the second what a crawl has that ends by itself at
--until. The last line is JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from opilio.crawl import rows
from opilio.frontier import LinkTextStrategy, QueuedUrl
from opilio.lab.experiments.crawls import Judging, make_judge, training_of
from opilio.lab.experiments.experiment import Contestant, Experiment, JudgeChoice, Topics, Web
from opilio.lab.experiments.plan import choose_topics
from opilio.lab.experiments.runner import Loaded
from opilio.lab.experiments.simulate import START_S, Simulation
from opilio.lab.experiments.tasks import Start, TaskTopic
from opilio.learn import prepare_strategy
from opilio.learn.crawl_health import estimate_recall
from opilio.model import RELEVANT, Judgement, Lease, Visit
from opilio.model.url import host_of, url_key
from opilio.settings import Settings, override
from opilio.store import Store

SHARES = (0.03, 0.06, 0.12, 0.25, 0.5, 0.75)
BANDS = ((0.0, 0.3), (0.3, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.01))
LOOK_EVERY_PAGES = 200
MIN_REACHABLE = 1000  # pages: on fewer there is nothing to estimate
LIGHT = {"store.text": False, "store.link_context": False}


class Recording:
    """What a simulation is told goes into the rows of a database too."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        kept, written = getattr(self._kept, name), getattr(rows, name)
        return lambda *told: (kept(*told), written(*told))


class Watched(Simulation):
    """A crawl in which time passes, since the database orders requests by it, with estimates on its way."""

    def __init__(self, loaded: Loaded, settings: Settings, topic: TaskTopic, judge: Judging, store: Store) -> None:
        seeds = topic.starts(Start.EXAMPLES)
        super().__init__(loaded.answers, settings, seeds, judge, examples=topic.examples, on_page=self._on_page)
        self._store, self._by_judge, self._examples = store, judge, set(topic.examples)
        reached = _reached(loaded, seeds)
        self.reachable, self.relevant = len(reached), sum(self._is_relevant(page) for page in reached)
        self._looks = {round(share * self.reachable) for share in SHARES}
        self._pages = self._found = 0
        self.points: list[tuple[int, float, float | None]] = []
        """Pages, true recall, estimate."""
        frontier, ledger = self.absorber.frontier, self.absorber.ledger
        for url in (loaded.answers.urls[seed] for seed in seeds):  # offered before we could listen
            oid, host = frontier.known.get(url_key(url)), frontier.host(host_of(url))
            rows.add_url(ledger.batch, QueuedUrl(oid, url, host, 0, 0, 1.0), url_key(url), -1, START_S, None)
        ledger.recorder = Recording(ledger.recorder)

    def _is_relevant(self, page: int) -> bool:
        return page in self._examples or self._by_judge(page).relevance >= RELEVANT

    def _visit(self, lease: Lease) -> Visit:
        self.now_s += 1.0
        visit = super()._visit(lease)
        return msgspec.structs.replace(visit, fetch=msgspec.structs.replace(visit.fetch, started_s=self.now_s))

    def _on_page(self, number: int, judgement: Judgement | None) -> None:
        self._pages += 1
        self._found += self._is_relevant(number)
        if self._pages in self._looks or self._pages % LOOK_EVERY_PAGES == 0:
            self._store.write(self.absorber.swap_batch())
            self.points.append((self._pages, self._found / self.relevant, estimate_recall(self._store)))

    def at_shares(self) -> list[tuple[float, float]]:
        """True and estimated recall at some shares of the web, where there is an estimate."""
        return [(true, said) for pages, true, said in self.points if pages in self._looks and said is not None]

    def ended(self, until: float) -> tuple[float, float] | None:
        """True recall and share of the web at the second look in a row with an estimate of at least `until`."""
        looks = [point for point in self.points if point[0] % LOOK_EVERY_PAGES == 0]
        for before, now in itertools.pairwise(looks):
            if min(before[2] or 0.0, now[2] or 0.0) >= until:
                return now[1], now[0] / self.reachable
        return None


def _reached(loaded: Loaded, seeds: tuple[int, ...]) -> set[int]:
    reached, waiting = set(seeds), list(seeds)
    while waiting:
        new = set(loaded.maker.graph.links_of(waiting.pop()).tolist()) - reached - {-1}
        reached |= new
        waiting += new
    return reached


def crawls(folder: Path, judge: str, topics: int) -> list[Watched]:
    """All crawls of one web."""
    experiment = Experiment(
        "recall", (Web(str(folder)),), (Contestant("best-first"), Contestant("evidence")),
        topics=Topics(split="development", count=topics, min_pages=60), judge=JudgeChoice(judge, negatives=50),
    )  # fmt: skip
    loaded, done = Loaded(experiment, folder.name), []
    for label in choose_topics(loaded.maker, experiment.topics, experiment.seed):
        topic = loaded.maker.topic(label)
        judging = make_judge(experiment, experiment.judge, loaded.analysed, topic)
        for contestant in experiment.strategies:
            settings = override(experiment.settings_of(contestant, 0), LIGHT)
            with tempfile.TemporaryDirectory() as place, Store.create(Path(place)) as store:
                crawl = Watched(loaded, settings, topic, judging, store)
                strategy = crawl.absorber.frontier.strategy
                if isinstance(strategy, LinkTextStrategy):
                    prepare_strategy(strategy, training_of(experiment.judge, loaded.analysed, topic, experiment.seed))
                if crawl.reachable >= MIN_REACHABLE:
                    crawl.run()
                    done.append(crawl)
                    print(f"{folder.name}, {label}, {contestant.name}: {crawl.relevant:,} of {crawl.reachable:,}:",
                          *(f"{true:.2f}/{said:.2f}" for true, said in crawl.at_shares()))  # fmt: skip
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("webs", nargs="+", type=Path)
    parser.add_argument("--quick", action="store_true", help="one topic of each web")
    parser.add_argument("--topics", type=int, default=5)
    parser.add_argument("--judge", default="svm")
    parser.add_argument("--until", type=float, default=0.8)
    options = parser.parse_args()
    done = [c for web in options.webs for c in crawls(web, options.judge, 1 if options.quick else options.topics)]
    points = [point for crawl in done for point in crawl.at_shares()]
    print(f"\n{'true recall':>16} {'points':>6} {'true':>6} {'said':>6}")
    for low, high in BANDS:
        inside = [point for point in points if low <= point[0] < high]
        if inside:
            means = [statistics.fmean(values) for values in zip(*inside, strict=True)]
            print(f"{low:>7.2f} to {min(high, 1.0):>5.2f} {len(inside):>6} {means[0]:>6.2f} {means[1]:>6.2f}")
    ended = [end for crawl in done if (end := crawl.ended(options.until)) is not None]
    print(f"\nended at {options.until}: {len(ended)} of {len(done)} crawls")
    for true, share in sorted(ended):
        print(f"  recall {true:.2f} after {share:.2f} of the web")
    result = {
        "points": len(points), "bias": round(statistics.fmean(said - true for true, said in points), 3),
        "mean_error": round(statistics.fmean(abs(said - true) for true, said in points), 3), "crawls": len(done),
        "ended": len(ended), "lowest_recall_at_end": round(min((true for true, _ in ended), default=1.0), 3),
        "mean_recall_at_end": round(statistics.fmean(true for true, _ in ended), 3) if ended else None,
        "mean_share_at_end": round(statistics.fmean(share for _, share in ended), 3) if ended else None,
    }  # fmt: skip
    print(json.dumps(result))


if __name__ == "__main__":
    main()
