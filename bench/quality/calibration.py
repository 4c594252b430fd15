"""Whether a yes can be relied on: calibrated acceptance on labelled webs, and the fit behind its prior.

    python -m bench.quality.calibration --webs FOLDER [--split final] [--pages 400] [--quick] [--plot FILE]
    python -m bench.quality.calibration --webs FOLDER --set 'classify.spaces=["terms", "encoder"]'

FOLDER has recorded webs in its folders. For each topic a crawl starts from five examples, in the default order, with a
judge that is not calibrated and has no negatives. The pages that it met are what a model is then calibrated on, without
any answer; `--set` changes its settings. Printed are, for each web, the precision and recall of the accepted pages,
what the model expected of them, how often the truth lay in its interval, and the average precision of its ranking;
then, for all webs, how often pages with a given probability were right (a reliability diagram, which `--plot` draws).

With `--fit` also the numbers of the prior (`PRIOR` in classify/calibration.py), fitted on these topics as they were
crawled and with pages left out until 25 or 50 % were right, for all webs and with each web left out. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from opilio.classify import Example
from opilio.classify.svm import SvmTree
from opilio.features.classifier_input import ClassifierInput
from opilio.frontier import LinkTextStrategy
from opilio.lab.experiments.crawls import make_judge, training_of
from opilio.lab.experiments.experiment import Contestant, Experiment, JudgeChoice, Topics, Web
from opilio.lab.experiments.plan import choose_topics
from opilio.lab.experiments.runner import Loaded
from opilio.lab.experiments.simulate import Simulation
from opilio.lab.experiments.tasks import Start, TaskTopic
from opilio.learn import prepare_strategy
from opilio.settings import Settings, override
from opilio.settings.files import parse_assignment
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT

SHARES = {0.0: 1.0, 0.25: 0.2, 0.5: 0.05}
"""By share of right pages, 0 for the pages as they came: the weight in the fit."""
BINS = np.linspace(0.0, 1.0, 11)
UNSURE = 1e-9


@dataclass(frozen=True)
class Calibrated:
    """The pages met by one crawl, by a model that was calibrated on them."""

    web: str
    share: float
    scores: np.ndarray
    separation: float
    relevance: np.ndarray
    probabilities: np.ndarray
    expected: tuple[float, float, float]
    right: np.ndarray


def met_pages(loaded: Loaded, experiment: Experiment, topic: TaskTopic, pages: int) -> list[int]:
    """The pages that a crawl from the examples met, without these, in its order."""
    judge = make_judge(experiment, experiment.judge, loaded.analysed, topic)
    settings = override(Settings(), {"frontier.strategy": "evidence", "robots.obey_meta": False})
    simulation = Simulation(loaded.answers, settings, topic.starts(Start.EXAMPLES), judge, max_pages=pages)
    strategy = simulation.absorber.frontier.strategy
    if isinstance(strategy, LinkTextStrategy):
        prepare_strategy(strategy, training_of(experiment.judge, loaded.analysed, topic, experiment.seed))
    return [page for page in simulation.run().pages.tolist() if page not in topic.examples]


def calibrated(
    loaded: Loaded, experiment: Experiment, topic: TaskTopic, met: Sequence[int], share: float, settings: Settings
) -> Calibrated | None:
    """A model calibrated on pages met; some that are not right are left out, when a larger `share` is wanted."""
    right = set(topic.targets)
    if share:
        good, bad = [page for page in met if page in right], [page for page in met if page not in right]
        wanted = int(len(good) * (1 - share) / share)
        if wanted >= len(bad) or len(good) + wanted < 15:
            return None
        kept = {*good, *random.Random(topic.label).sample(bad, wanted)}
        met = [page for page in met if page in kept]
    documents = [(page, document) for page in met if (document := loaded.analysed.documents[page]) is not None]
    items = [ClassifierInput.of(document, "") for _, document in documents]
    training = training_of(experiment.judge, loaded.analysed, topic, experiment.seed)
    examples = tuple(Example(ABOVE_ROOT, item, positive=False) for item in items)
    tree = SvmTree.train(replace(training, met=examples), settings)
    calibration = tree.trained.calibrations[ROOT]
    relevance = np.array([tree.judge(item).relevance for item in items])
    inside = np.clip(relevance, UNSURE, 1 - UNSURE)
    scores = (np.log(inside / (1 - inside)) - calibration.offset) / calibration.slope
    truth = np.array([page in right for page, _ in documents])
    expected = calibration.precision(relevance[relevance >= 0.5])
    probabilities = calibration.probabilities(relevance)
    return Calibrated(loaded.name, share, scores, calibration.separation, relevance, probabilities, expected, truth)


def measure(
    folder: Path, split: str, topics: int, pages: int, shares: Sequence[float], settings: Settings
) -> list[Calibrated]:
    judge = JudgeChoice("svm", settings={"classify.calibrate": False})
    experiment = Experiment(
        "calibration", (Web(str(folder)),), (Contestant("evidence"),), judge=judge,
        topics=Topics(split=split, count=topics, max_share=0.3),
    )  # fmt: skip
    loaded, found = Loaded(experiment, folder.name), []
    for label in choose_topics(loaded.maker, experiment.topics, experiment.seed):
        topic = loaded.maker.topic(label)
        met = met_pages(loaded, experiment, topic, pages)
        if sum(page in set(topic.targets) for page in met) < 3:
            continue  # there is nothing to accept
        made = [calibrated(loaded, experiment, topic, met, share, settings) for share in shares]
        found += [one for one in made if one is not None]
        first = found[-len([one for one in made if one is not None])]
        precision, recall = accuracy(first)
        print(f"{folder.name}, {label}: {first.right.sum()} of {len(first.right)} right, accepted {precision:.2f} right"
              f" (expected {first.expected[0]:.2f}), recall {recall:.2f}", flush=True)  # fmt: skip
    return found


def accuracy(one: Calibrated) -> tuple[float, float]:
    """Precision and recall of the accepted pages."""
    accepted = one.relevance >= 0.5
    both = int((accepted & one.right).sum())
    return both / max(1, int(accepted.sum())), both / max(1, int(one.right.sum()))


def average_precision(one: Calibrated) -> float:
    """The mean precision at each right page, in the order of relevance."""
    right = one.right[np.argsort(-one.relevance, kind="stable")]
    return float((np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean())


def fit(found: Sequence[Calibrated]) -> list[float]:
    """Intercept, slope and weight of the separation; each topic counts the same, whatever its number of pages."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - only this needs it

    webs = {one.web: sum(other.web == one.web and other.share == 0.0 for other in found) for one in found}
    rows = np.concatenate([np.stack((one.scores, np.full(len(one.scores), one.separation)), axis=1) for one in found])
    weights = [np.full(len(one.scores), SHARES[one.share] / webs[one.web] / len(one.scores)) for one in found]
    weight = np.concatenate(weights)
    labels = np.concatenate([one.right for one in found])
    model = LogisticRegression(C=10.0).fit(rows, labels, sample_weight=weight * len(weight) / weight.sum())
    return [round(float(value), 2) for value in (model.intercept_[0], *model.coef_[0])]


def reliability(found: Sequence[Calibrated]) -> list[tuple[float, float, int]]:
    """By bin of probability: the mean probability, the share that was right, and the number of pages."""
    said = np.concatenate([one.probabilities for one in found])
    right = np.concatenate([one.right for one in found])
    places = np.minimum(np.digitize(said, BINS) - 1, len(BINS) - 2)
    bins = [(said[places == place], right[places == place]) for place in range(len(BINS) - 1)]
    return [(float(p.mean()), float(truth.mean()), len(p)) for p, truth in bins if len(p)]


def draw(diagram: Sequence[tuple[float, float, int]], file: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - only the plot needs it

    mpl.use("agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(4.5, 4.5))
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    said, right, pages = zip(*diagram, strict=True)
    axes.plot(said, right, marker="o")
    for x, y, count in zip(said, right, pages, strict=True):
        axes.annotate(f"{count:,}", (x, y), textcoords="offset points", xytext=(6, -10), fontsize=8)
    axes.set(
        xlabel="probability that the model gave", ylabel="share of pages that were right", xlim=(0, 1), ylim=(0, 1)
    )
    figure.tight_layout()
    figure.savefig(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--webs", type=Path, required=True)
    parser.add_argument("--only", nargs="*", help="names of webs")
    parser.add_argument("--split", default="development", choices=["development", "final"])
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--pages", type=int, default=400, help="pages that a crawl meets")
    parser.add_argument("--fit", action="store_true", help="fit the prior, too")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting of the model"
    )
    parser.add_argument("--plot", type=Path, help="draw the reliability diagram")
    parser.add_argument("--quick", action="store_true", help="two topics, 100 pages")
    options = parser.parse_args()
    topics, pages = (2, 100) if options.quick else (options.topics, options.pages)
    folders = [folder for folder in sorted(options.webs.iterdir()) if (folder / "pages.parquet").exists()]
    if options.only:
        folders = [folder for folder in folders if folder.name in options.only]
    shares = tuple(SHARES) if options.fit else (0.0,)
    settings = override(Settings(), dict(map(parse_assignment, options.set)))
    found = [one for folder in folders for one in measure(folder, options.split, topics, pages, shares, settings)]
    plain = [one for one in found if one.share == 0.0]
    result: dict[str, object] = {"bench": "calibration", "split": options.split, "pages": pages}
    for web in dict.fromkeys(one.web for one in plain):
        of_web = [one for one in plain if one.web == web]
        precision, recall = (float(np.mean(values)) for values in zip(*map(accuracy, of_web), strict=True))
        expected = float(np.mean([one.expected[0] for one in of_web]))
        covered = float(np.mean([one.expected[1] <= accuracy(one)[0] <= one.expected[2] for one in of_web]))
        ranking = float(np.mean([average_precision(one) for one in of_web]))
        print(f"{web}: {len(of_web)} topics, accepted precision {precision:.2f} (expected {expected:.2f}, in the"
              f" interval {covered:.0%}), recall {recall:.2f}, average precision {ranking:.2f}")  # fmt: skip
        result[web] = [round(value, 3) for value in (precision, recall, expected, covered, ranking)]
    diagram = reliability(plain)
    print("probability  right  pages")
    for said, right, count in diagram:
        print(f"{said:11.2f}  {right:5.2f}  {count:5,}")
    result["reliability"] = [(round(said, 3), round(right, 3), count) for said, right, count in diagram]
    if options.plot:
        draw(diagram, options.plot)
    if options.fit:
        result["prior"] = fit(found)
        for web in {one.web for one in plain} if len(folders) > 1 else ():
            result[f"prior without {web}"] = fit([one for one in found if one.web != web])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
