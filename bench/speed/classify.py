"""What judging a page and training cost; scikit-learn beside it in the same run. How right it is: classification.py.

    python bench/classify.py            # 1,000 pages of the local web; probes with 5, 20 and 100 topics: some minutes
    python bench/classify.py --quick    # 300 pages; probes with 20 topics: about a minute

A tree of the 20 topics with most pages on the local web learns from 100 pages of each and the documents of OTHERS that
come with Opilio. Other pages are then judged, each once: from bytes to the judgement, in the default settings, by the
model as it comes out of its bytes, with the page's title as the words of the link to it. All classifiers and the peer
take turns, 25 pages each. Times are CPU times. Quality is not judged here: the menus of the local web name the topics.

The peer is scikit-learn's TfidfVectorizer and LinearSVC, from a page's visible text to `predict`, one page at a time.
It has one space (words) and no tree. Beside it stands ours from the same text, stemming included; the ratios say how
many times as fast ours is. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from bench.speed import probes
from opilio.analyze import Analyzer
from opilio.classify import CLASSIFIERS, Example, Model, TrainingSet
from opilio.features.classifier_input import ClassifierInput, TextReader
from opilio.lab import local_web
from opilio.lab.local_web import WebPage
from opilio.model import Document
from opilio.settings import ClassifySettings, RobotsSettings, Settings, StoreSettings, TrapSettings
from opilio.topics import TopicTree, default_others
from opilio.topics.hierarchy import ABOVE_ROOT

TOPICS, EXAMPLES = 20, 100
JUDGE_BUDGET_MS, TRAIN_BUDGET_S, PROBE_FLOOR = 2.0, 10.0, 10.0
BLOCK_PAGES = 25
DEFAULT = "svm"
WAYS = {
    DEFAULT: Settings(),
    "svm, terms only": Settings(classify=ClassifySettings(spaces=("terms",))),
    "svm, with neighbours": Settings(
        classify=ClassifySettings(spaces=(*ClassifySettings().spaces, "terms+neighbours"))
    ),
    "bayes": Settings(classify=ClassifySettings(classifier="bayes")),
    "oasis": Settings(classify=ClassifySettings(classifier="oasis")),
    "keywords": Settings(classify=ClassifySettings(classifier="keywords")),
}


class Clock:
    """CPU milliseconds by name."""

    def __init__(self) -> None:
        self.ms: dict[str, list[float]] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        began = time.thread_time()
        yield
        self.ms.setdefault(name, []).append((time.thread_time() - began) * 1e3)

    def median(self, *names: str) -> float:
        """Of the sum of the named times of each page."""
        return round(statistics.median(map(sum, zip(*(self.ms[name] for name in names), strict=True))), 3)

    def worst(self, *names: str) -> float:
        """What one page in a hundred exceeds."""
        return round(float(np.percentile([sum(one) for one in zip(*(self.ms[n] for n in names), strict=True)], 99)), 3)


class Task:
    """The topics of the local web, examples of each, and pages to judge."""

    def __init__(self, pages: int) -> None:
        web = local_web.build("full")
        originals = [page for page in web.pages.values() if page.topic and page.url not in web.copies]
        counts = Counter(page.topic for page in originals)
        self.tree = TopicTree()
        self.kcids = {topic: self.tree.topic(tuple(topic.split("/"))).kcid for topic, _ in counts.most_common(TOPICS)}
        self.analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
        self.reader = TextReader()
        rng = random.Random(1)
        self.examples: list[WebPage] = []
        rest: list[WebPage] = []
        for topic in self.kcids:
            found = [page for page in originals if page.topic == topic]
            rng.shuffle(found)
            self.examples += found[:EXAMPLES]
            rest += found[EXAMPLES:]
        self.pages = rng.sample(rest, pages)

    def training(self) -> TrainingSet:
        others = [
            Example(ABOVE_ROOT, self.reader.read(document.title, document.text, document.language), positive=False)
            for document in default_others()
        ]
        return TrainingSet(
            hierarchy=self.tree.hierarchy(),
            examples=tuple(Example(self.kcids[page.topic], self.item(page)) for page in self.examples),
            others=tuple(others),
            keywords={topic.kcid: " ".join(topic.keywords) for topic in self.tree.topics if topic.keywords},
        )

    def item(self, page: WebPage) -> ClassifierInput:
        document = self.analyzer.analyze(page.body, "text/html; charset=utf-8", page.url)
        if document is None:
            raise SystemExit(f"{page.url}: cannot be read")
        return ClassifierInput.of(document, page.url, page.title)


def train(training: TrainingSet) -> tuple[dict[str, Model], dict[str, dict[str, float]]]:
    """All models as workers get them, and what they cost."""
    models, figures = {}, {}
    for name, settings in WAYS.items():
        kind = CLASSIFIERS.get(settings.classify.classifier)
        began, cpu = time.perf_counter(), time.process_time()
        data = Model(1, settings.classify.classifier, kind.train(training, settings)).to_bytes()
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        began = time.process_time()
        models[name] = Model.from_bytes(data)
        models[name].judge(training.examples[0].item)  # some tables are made when they are first needed
        figures[name] = {
            "train_s": round(cpu_s, 2),
            "train_wall_s": round(wall_s, 2),
            "load_ms": round((time.process_time() - began) * 1e3, 1),
            "model_kb": round(len(data) / 1e3),
        }
        print(name, json.dumps(figures[name]), flush=True)
    return models, figures


def train_peer(training: TrainingSet) -> tuple[Pipeline, dict[str, float]]:
    began, cpu = time.perf_counter(), time.process_time()
    documents = list(training)
    texts = [f"{example.item.title}\n{example.item.text}" for example in documents]
    peer = make_pipeline(TfidfVectorizer(sublinear_tf=True), LinearSVC(class_weight="balanced", random_state=0))
    peer.fit(texts, [example.kcid for example in documents])
    spent = {"train_s": time.process_time() - cpu, "train_wall_s": time.perf_counter() - began}
    return peer, {name: round(value, 2) for name, value in spent.items()}


def judge(task: Task, pages: Sequence[WebPage], models: dict[str, Model], peer: Pipeline, clock: Clock) -> None:
    """Judge each page once by everybody: from its bytes by the default, as a worker does, then by the others."""
    seen: list[tuple[Document, ClassifierInput]] = []
    for page in pages:
        with clock.time("analyze"):
            document = task.analyzer.analyze(page.body, "text/html; charset=utf-8", page.url)
        if document is None:
            raise SystemExit(f"{page.url}: cannot be read")
        with clock.time("input"):
            item = ClassifierInput.of(document, page.url, page.title)
        with clock.time(DEFAULT):
            models[DEFAULT].judge(item)
        seen.append((document, item))
    for name, model in models.items():
        for _, item in seen if name != DEFAULT else ():
            near = replace(item, neighbours=item.stems[:30]) if "neighbours" in name else item
            with clock.time(name):
                model.judge(near)
    for document, _ in seen:
        with clock.time("read text"):
            task.reader.read(document.title, document.text, document.language)
    for document, _ in seen:
        text = f"{document.title}\n{document.text}"
        with clock.time("sklearn"):
            peer.predict([text])


def judging_figures(clock: Clock) -> dict[str, dict[str, float]]:
    """By classifier: its own part, and all from bytes to judgement."""
    stages = {name: {"median_ms": clock.median(name), "p99_ms": clock.worst(name)} for name in ("analyze", "input")}
    for name in (*WAYS, "sklearn"):
        stages[name] = {"median_ms": clock.median(name), "p99_ms": clock.worst(name)}
        parts = ("read text", name) if name != "sklearn" else ("sklearn",)
        stages[name]["from_text_ms"] = clock.median(*parts)
        if name != "sklearn":
            stages[name]["from_bytes_ms"] = clock.median("analyze", "input", name)
            stages[name]["from_bytes_p99_ms"] = clock.worst("analyze", "input", name)
    return stages


def probe(quick: bool) -> list[dict[str, float]]:
    """SingleProbe and BulkProbe, as the documents and as the topics grow."""
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-"))
    try:
        return [
            row for topics in ([20] if quick else probes.SHAPES) for row in probes.measure(topics, [100, 1000], folder)
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="300 pages; probes with 20 topics only")
    given = parser.parse_args()
    task = Task(300 if given.quick else 1000)
    training = task.training()
    with threadpool_limits(1):  # as in a worker
        models, trained = train(training)
        peer, trained["sklearn"] = train_peer(training)
        clock = Clock()
        for start in range(0, len(task.pages), BLOCK_PAGES):
            judge(task, task.pages[start : start + BLOCK_PAGES], models, peer, clock)
    judged = judging_figures(clock)
    print(json.dumps(judged), flush=True)
    rows = probe(given.quick)
    [ratio] = [row["bulkprobe_over_singleprobe"] for row in rows if (row["topics"], row["documents"]) == (20, 1000)]
    result = {
        "bench": "classify",
        "judge_ms_median": judged["svm"]["from_bytes_ms"],
        "judge_budget_ms": JUDGE_BUDGET_MS,
        "train_s": trained["svm"]["train_s"],
        "train_budget_s": TRAIN_BUDGET_S,
        "judge_over_sklearn": round(judged["sklearn"]["from_text_ms"] / judged["svm"]["from_text_ms"], 2),
        "judge_terms_over_sklearn": round(
            judged["sklearn"]["from_text_ms"] / judged["svm, terms only"]["from_text_ms"], 2
        ),
        "bulkprobe_over_singleprobe": ratio,
        "bulkprobe_floor": PROBE_FLOOR,
        "judging": judged,
        "training": trained,
        "probes": rows,
        "pages": len(task.pages),
        "words_median": statistics.median(len(page.item.stems) for page in training.examples),
        "versions": {"scikit-learn": sklearn.__version__, "numpy": np.__version__},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
