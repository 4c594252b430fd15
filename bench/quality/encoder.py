"""What a sentence encoder is worth for judging: pages of labelled webs ranked for a topic from five examples.

    python -m bench.quality.encoder --webs FOLDER [--model FOLDER] [--quick] [--tokens 128] [--exact]

FOLDER has recorded webs in its folders. Of each web, some development topics are learned from five examples, 50 pages
drawn by lot and the texts of OTHERS. Ranked are up to 50 pages of each of these topics and some pages drawn by lot; the
measure is average precision, the mean over topics. The rankings are by:

    terms, encoder      one space
    weighted, majority  both spaces, by the rules of the meta classifier
    mean                the mean of both confidences
    held-out            the mean of both confidences, each in units of the spread of negatives that were not trained on,
                        weighted by how well the space ranks held-out examples above them (five folds); also with equal
                        weights
    standard ...        the mean of both confidences, each in units of its spread over the ranked pages

The last line is JSON.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from opilio.classify import TrainingSet
from opilio.classify.svm import SvmTree
from opilio.features import encoder
from opilio.features.classifier_input import ClassifierInput
from opilio.features.word_vectors import INSTALLED
from opilio.lab.experiments.crawls import training_of
from opilio.lab.experiments.experiment import Contestant, Experiment, JudgeChoice, Topics, Web
from opilio.lab.experiments.plan import choose_topics
from opilio.lab.experiments.runner import Loaded
from opilio.settings import Settings, override

FOLDS = 5
TARGETS = 50
Scores = np.ndarray
Trained = Callable[[TrainingSet], SvmTree]


def average_precision(scores: Scores, relevant: np.ndarray) -> float:
    """Of a ranking; equal scores in the order of their places, which are drawn by lot."""
    ranked = relevant[np.argsort(-scores, kind="stable")]
    return float((np.cumsum(ranked) / np.arange(1, len(ranked) + 1))[ranked].mean())


def trainer(model: str, meta: str, *spaces: str) -> Trained:
    changes = {"classify.spaces": list(spaces), "classify.meta": meta, "classify.encoder": model}
    settings = override(Settings(), changes)
    return lambda training: SvmTree.train(training, settings)


def score(tree: SvmTree, pages: Sequence[ClassifierInput]) -> Scores:
    return np.array([tree.judge(page).confidence for page in pages])


def held_out(train: Trained, training: TrainingSet) -> tuple[Scores, Scores]:
    """The scores of examples and of negatives by models that have not seen them."""
    ours, theirs = list(training.examples), list(training.others)
    random.Random(0).shuffle(theirs)
    found: tuple[list[float], list[float]] = [], []
    for fold in range(FOLDS):
        kept = [[one for place, one in enumerate(group) if place % FOLDS != fold] for group in (ours, theirs)]
        tree = train(replace(training, examples=tuple(kept[0]), others=tuple(kept[1])))
        for group, scores in zip((ours, theirs), found, strict=True):
            scores.extend(score(tree, [one.item for one in group[fold::FOLDS]]))
    return np.array(found[0]), np.array(found[1])


def share_above(ours: Scores, theirs: Scores) -> float:
    """How well a space ranks held-out examples: the area under the curve, 0.5 as 0."""
    above = (ours[:, None] > theirs).mean() + 0.5 * (ours[:, None] == theirs).mean()
    return max(0.01, 2.0 * float(above) - 1.0)


def rankings(model: str, training: TrainingSet, pages: Sequence[ClassifierInput]) -> dict[str, Scores]:
    alone = {name: trainer(model, "majority", name) for name in ("terms", "encoder")}
    found = {name: score(train(training), pages) for name, train in alone.items()}
    for meta in ("weighted", "majority"):
        found[meta] = score(trainer(model, meta, "terms", "encoder")(training), pages)
    found["mean"] = found["terms"] + found["encoder"]
    found["held-out"] = np.zeros(len(pages))
    found["held-out, equal weights"] = np.zeros(len(pages))
    for name, train in alone.items():
        ours, theirs = held_out(train, training)
        standard = (found[name] - theirs.mean()) / max(1e-9, float(theirs.std()))
        found["held-out"] = found["held-out"] + share_above(ours, theirs) * standard
        found["held-out, equal weights"] = found["held-out, equal weights"] + standard
    for name in ("terms", "encoder"):
        found[f"{name}, standard"] = (found[name] - found[name].mean()) / found[name].std()
    found["standard on the pages"] = found.pop("terms, standard") + found.pop("encoder, standard")
    return found


def measure(folder: Path, model: str, topics: int, others: int) -> dict[str, float]:
    judge = JudgeChoice("svm", negatives=50)
    experiment = Experiment(
        "encoder", (Web(str(folder)),), (Contestant("best-first"),), judge=judge,
        topics=Topics(split="development", count=topics, min_pages=30),
    )  # fmt: skip
    loaded, totals = Loaded(experiment, folder.name), []
    chosen = [loaded.maker.topic(label) for label in choose_topics(loaded.maker, experiment.topics, experiment.seed)]
    read = [number for number, document in enumerate(loaded.analysed.documents) if document is not None]
    lot = random.Random(0)
    numbers = {number for topic in chosen for number in lot.sample(topic.targets, min(TARGETS, len(topic.targets)))}
    numbers |= set(lot.sample(read, min(others, len(read))))
    numbers = numbers & set(read) - {number for topic in chosen for number in topic.examples}
    ordered = lot.sample(sorted(numbers), len(numbers))
    pages = [
        ClassifierInput.of(document, "") for n in ordered if (document := loaded.analysed.documents[n]) is not None
    ]
    for topic in chosen:
        relevant = np.isin(ordered, topic.targets)
        found = rankings(model, training_of(judge, loaded.analysed, topic, experiment.seed), pages)
        totals.append({name: average_precision(scores, relevant) for name, scores in found.items()})
        row = "  ".join(f"{name} {value:.3f}" for name, value in totals[-1].items())
        print(f"{folder.name}, {topic.label}, {relevant.sum()} of {len(pages)}: {row}", flush=True)
    return {name: round(float(np.mean([row[name] for row in totals])), 3) for name in totals[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--webs", type=Path, required=True)
    parser.add_argument("--only", nargs="*", help="names of webs")
    parser.add_argument("--model", default=INSTALLED)
    parser.add_argument("--topics", type=int, default=8)
    parser.add_argument("--others", type=int, default=1000, help="pages drawn by lot")
    parser.add_argument("--tokens", type=int, default=encoder.PAGE_TOKENS)
    parser.add_argument("--exact", action="store_true", help="weights of 32 bits")
    parser.add_argument("--quick", action="store_true", help="three topics, 300 pages drawn by lot")
    options = parser.parse_args()
    encoder.PAGE_TOKENS = options.tokens
    if options.exact:
        encoder._load = functools.lru_cache(lambda files: encoder.SentenceEncoder(files, quantise=False))
    topics, others = (3, 300) if options.quick else (options.topics, options.others)
    folders = [one for one in sorted(options.webs.iterdir()) if (one / "web.json").is_file()]
    start, result = time.process_time(), {}
    for folder in folders:
        if not options.only or folder.name in options.only:
            result[folder.name] = measure(folder, options.model, topics, others)
            print(f"{folder.name}: {result[folder.name]}", flush=True)
    cpu_s = round(time.process_time() - start, 1)
    print(json.dumps({"tokens": options.tokens, "exact": options.exact, "cpu_s": cpu_s, "webs": result}))


if __name__ == "__main__":
    main()
