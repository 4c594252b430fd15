"""The weights of the strategy `evidence`: what tells good waiting URLs from others, on development topics.

    python -m bench.quality.link_weights --webs FOLDER            # all recorded webs in FOLDER: an hour
    python -m bench.quality.link_weights --webs FOLDER --quick    # two topics of each

Crawls of development topics are simulated with weights that were shaken (each kept with probability one half, times a
random factor), so that no kind of good URL has been taken away by the weights themselves. Now and then a sample of the
waiting URLs is noted: their numbers, standardised as the strategy does it, and whether their page has the label. A
logistic regression, in which every web, topic and moment counts the same, gives the weights. It is also made of all
other webs, to see whether weights carry over: `auc` says how well they rank the waiting URLs of a web they have not
seen. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from opilio.errors import InputError
from opilio.frontier import strategies
from opilio.frontier.evidence_strategy import WEIGHTS, AllEvidence
from opilio.frontier.link_evidence import FEATURES
from opilio.frontier.queue import QueuedUrl
from opilio.lab.experiments.analysed import Analysed, analyse
from opilio.lab.experiments.crawls import make_judge, training_of
from opilio.lab.experiments.experiment import Experiment, from_table
from opilio.lab.experiments.simulate import Answers, Simulation
from opilio.lab.experiments.tasks import Start, TaskMaker, TaskTopic
from opilio.lab.webs.recorded import RecordedWeb
from opilio.learn import prepare_strategy
from opilio.settings import override

BUDGET_SHARE = 0.15
NEGATIVES = 300
SKIP_LOOKS, EVERY_LOOK = 4, 2  # the first looks have too little to look at
LIMIT = 4.0  # standard deviations; numbers beyond are cut off
PULL = 0.003  # C of the regression
Numbers = NDArray[np.float64]


@dataclass
class Moments:
    """What was noted in one crawl."""

    web: str
    numbers: list[Numbers] = field(default_factory=list)
    good: list[Numbers] = field(default_factory=list)
    weights: list[Numbers] = field(default_factory=list)

    def note(self, numbers: Numbers, good: Numbers, rng: np.random.Generator) -> None:
        """All good URLs of a moment and some others; either kind weighs 1 together."""
        positives, negatives = np.flatnonzero(good), np.flatnonzero(good == 0)
        if not len(positives) or not len(negatives):
            return
        for chosen in (positives, rng.choice(negatives, min(len(negatives), NEGATIVES), replace=False)):
            self.numbers.append(np.clip(numbers[chosen], -LIMIT, LIMIT))
            self.good.append(good[chosen])
            self.weights.append(np.full(len(chosen), 1.0 / len(chosen)))


@strategies.register("noting")
class Noting(AllEvidence):
    """The strategy, with weights of the bench's choice, noting what is queued."""

    def observe_with(self, weights: Numbers, truth: dict[str, float], rng: np.random.Generator, to: Moments) -> None:
        """Order by these weights, and note to `to` what is queued."""
        self.weights, self._truth, self._rng, self._moments, self._looks = weights, truth, rng, to, 0

    def reprioritise(self, urls: Collection[QueuedUrl]) -> list[float] | None:
        """Note what is queued."""
        priorities = super().reprioritise(urls)
        if priorities is None:
            return None
        self._looks += 1
        if self._looks > SKIP_LOOKS and self._looks % EVERY_LOOK == 0:
            known = [url for url in urls if self.evidence.knows(url.oid)]
            numbers = (self.evidence.features([url.oid for url in known]) - self._mean) / self._spread
            self._moments.note(numbers, np.array([self._truth.get(url.url, 0.0) for url in known]), self._rng)
        return priorities


def crawl(
    analysed: Analysed,
    answers: Answers,
    experiment: Experiment,
    topic: TaskTopic,
    start: Start,
    rng: np.random.Generator,
) -> Moments:
    """One crawl with shaken weights."""
    web, moments = analysed.web, Moments(analysed.web.name)
    judge = make_judge(experiment, experiment.judge, analysed, topic)
    settings = override(experiment.settings_of(experiment.strategies[0]), {"frontier.strategy": "noting"})
    pages = int(BUDGET_SHARE * web.info.pages)
    simulation = Simulation(answers, settings, topic.starts(start), judge, max_pages=pages)
    strategy = simulation.absorber.frontier.strategy
    assert isinstance(strategy, Noting)
    prepare_strategy(strategy, training_of(experiment.judge, analysed, topic, experiment.seed))
    before = np.array([WEIGHTS[name] for name in FEATURES])
    shaken = before * np.exp(rng.normal(0, 0.5, len(before))) * (rng.random(len(before)) < 0.5)
    strategy.observe_with(shaken, {web.urls[page]: 1.0 for page in topic.targets}, rng, moments)
    simulation.run()
    return moments


def collect(folder: Path, topics: int, seed_sets: int) -> list[Moments]:
    """Crawls of the development topics of one web."""
    web = RecordedWeb.open(folder)
    table = {
        "name": "weights",
        "webs": [str(folder)],
        "strategies": ["evidence"],
        "judge": {"kind": "svm", "negatives": 50},
    }
    experiment = from_table({**table, "settings": {"robots.obey_meta": False}})
    analysed = analyse(web, experiment.settings_of(experiment.strategies[0]))
    answers, maker, rng = Answers(analysed), TaskMaker(analysed), np.random.default_rng(1)
    found = []
    for label in maker.labels(development=True, max_share=0.3)[:topics]:
        for seed_set in range(seed_sets):
            for start in Start:
                try:
                    topic = maker.topic(label, seed_set)
                except InputError:
                    continue
                if topic.starts(start):
                    found.append(crawl(analysed, answers, experiment, topic, start, rng))
        print(f"{web.name}: {label}", flush=True)
    return [moments for moments in found if moments.numbers]


def fit(found: Sequence[Moments]) -> Numbers:
    """The weights; every web counts the same, and so does every crawl of it."""
    crawls = {name: sum(moments.web == name for moments in found) for name in {moments.web for moments in found}}
    weights = [np.concatenate(m.weights) / sum(map(np.sum, m.weights)) / crawls[m.web] for m in found]
    together = np.concatenate(weights)
    numbers = np.concatenate([part for moments in found for part in moments.numbers])
    good = np.concatenate([part for moments in found for part in moments.good])
    model = LogisticRegression(C=PULL, max_iter=500)
    model.fit(numbers, good, sample_weight=together * 20_000 / together.sum())
    coefficients: Numbers = model.coef_[0]
    return coefficients


def auc(found: Sequence[Moments], weights: Numbers) -> float:
    """How well weights rank what waits, mean over crawls."""
    scores = [
        roc_auc_score(
            np.concatenate(m.good), np.concatenate(m.numbers) @ weights, sample_weight=np.concatenate(m.weights)
        )
        for m in found
    ]
    return float(np.mean(scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--webs", type=Path, required=True, help="a folder with recorded webs")
    parser.add_argument("--quick", action="store_true", help="two topics of each, one seed set")
    options = parser.parse_args()
    folders = sorted(path.parent for path in options.webs.glob("*/web.json"))
    topics, seed_sets = (2, 1) if options.quick else (6, 2)
    found = [moments for folder in folders for moments in collect(folder, topics, seed_sets)]
    shipped = np.array([WEIGHTS[name] for name in FEATURES])
    fitted = fit(found)
    result: dict[str, object] = {"bench": "link_weights", "weights": dict(zip(FEATURES, fitted.round(3), strict=True))}
    for name in sorted({moments.web for moments in found}):
        own, others = [m for m in found if m.web == name], [m for m in found if m.web != name]
        result[f"auc {name}"] = {
            "shipped": round(auc(own, shipped), 3),
            "fitted": round(auc(own, fitted), 3),
            "fitted on the others": round(auc(own, fit(others)), 3) if others else None,
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
