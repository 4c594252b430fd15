"""How good the rankings are: pages of a topic are relevant to a question made of the topic's name.

Every page of a labelled recorded web is indexed. A question is the words of a label, any of which may fit; what should
be found are the pages of the label. Five of them, drawn by lot, train a classifier against others, and are left out of
the results; what it says of a page is its relevance. As authority serves the page's PageRank within the web, because
the webs have few hosts and HITS does not count links within one. Rankings are judged by P@10 and nDCG@10, the mean over
topics. The weights of the sum are chosen on the development topics of all webs together (`evaluate.tasks`) and judged
on the others.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opilio.distill.rankings import pagerank
from opilio.lab.experiments.analysed import Analysed, analyse
from opilio.lab.experiments.crawls import make_judge
from opilio.lab.experiments.experiment import Experiment, JudgeChoice
from opilio.lab.experiments.tasks import TaskMaker, TaskTopic
from opilio.lab.webs.recorded import RecordedWeb
from opilio.model import host_of, url_key
from opilio.search.index import IndexReader, open_reader
from opilio.search.index_update import update
from opilio.search.query import parse
from opilio.search.ranking import RANKINGS, asked_numbers, check_weights, combine
from opilio.search.results import find_hits, rank_by_cosine
from opilio.store import Batch, Store

TOP = 10
MAX_TOPICS = 10
"""Of a web and a side of the split, drawn by lot."""
BATCH_PAGES = 500
GRID = {
    "cosine": (0.0, 0.25, 0.5, 1.0),
    "relevance": (0.0, 0.5, 1.0, 2.0, 4.0, 8.0),
    "authority": (0.0, 0.1, 0.25, 0.5),
}

Parts = Mapping[str, Any]


def judge_webs(folders: Sequence[Path]) -> dict[str, Any]:
    """The figures of all webs, and the best weights."""
    topics = [judged for folder in folders for judged in _topics_of(folder)]
    development = [one for one in topics if one["development"]]
    weights = [{"bm25": 1.0, **dict(zip(GRID, values, strict=True))} for values in itertools.product(*GRID.values())]
    best = max(weights, key=lambda one: _mean(development, one)[1])
    rankings = {name: check_weights({name: 1.0}) for name in RANKINGS} | {
        "default": check_weights(None),
        "best sum": best,
    }
    told: dict[str, Any] = {"weights": best, "topics": len(topics) - len(development)}
    for name, chosen in rankings.items():
        told[name] = {}
        for web in ["all", *dict.fromkeys(one["web"] for one in topics)]:
            some = [one for one in topics if not one["development"] and web in ("all", one["web"])]
            precision, gain = _mean(some, chosen)
            told[name][web] = {"p10": round(precision, 3), "ndcg10": round(gain, 3)}
        print(f"{name:12} {told[name]}", file=sys.stderr, flush=True)
    return told


def _mean(topics: Sequence[dict[str, Any]], weights: Mapping[str, float]) -> tuple[float, float]:
    figures = [_judge(one["parts"], one["relevant"], one["found"], weights) for one in topics]
    return tuple(np.mean(figures, axis=0).tolist()) if figures else (0.0, 0.0)  # type: ignore[return-value]


def _judge(parts: Parts, relevant: Any, targets: int, weights: Mapping[str, float]) -> tuple[float, float]:
    """P@10 and nDCG@10; `relevant` says which hits are, `targets` how many pages there are to find."""
    scores = combine(weights, parts)
    top = relevant[np.argsort(-scores, kind="stable")[:TOP]]
    discounts = 1 / np.log2(np.arange(2, TOP + 2))
    ideal = discounts[: min(TOP, targets)].sum()
    return float(top.sum()) / TOP, float((top * discounts[: len(top)]).sum() / ideal)


def _topics_of(folder: Path) -> Iterator[dict[str, Any]]:
    """What is hit for each topic of a web."""
    analysed = analyse(RecordedWeb.open(folder))
    maker = TaskMaker(analysed)
    popularity = pagerank(maker.graph.within())
    with tempfile.TemporaryDirectory(prefix="opilio-bench-") as place:
        reader = _index(Path(place), analysed)
        reader.columns.rows["authority"] = popularity[reader.columns["oid"]] / popularity.max()
        for development in (True, False):
            labels = sorted(maker.labels(development=development), key=lambda x: hashlib.sha256(x.encode()).digest())
            for label in labels[:MAX_TOPICS]:
                yield _hits(reader, analysed, maker.topic(label)) | {"web": folder.name, "development": development}
                print(".", end="", file=sys.stderr, flush=True)


def _hits(reader: IndexReader, analysed: Analysed, topic: TaskTopic) -> dict[str, Any]:
    oids = reader.columns["oid"]
    hits = find_hits(reader, parse(" OR ".join(topic.name_words)))
    judging = make_judge(
        Experiment(name="", webs=(), strategies=()), JudgeChoice(kind="svm", negatives=50), analysed, topic
    )
    hits.parts["relevance"][:] = [judging(oid).relevance for oid in oids[hits.at].tolist()]
    numbers = asked_numbers(topic.name_words, reader.columns)
    rank_by_cosine(reader, hits, numbers, check_weights({"bm25": 1.0, "cosine": 1.0}))
    kept = ~np.isin(oids[hits.at], topic.examples)
    relevant = np.isin(oids[hits.at], topic.targets)[kept]
    return {
        "parts": {name: values[kept] for name, values in hits.parts.items()},
        "relevant": relevant,
        "found": len(topic.targets),
    }


def _index(folder: Path, analysed: Analysed) -> IndexReader:
    """An index of all pages of a web; the oid of a page is its number."""
    with Store.create(folder) as store:
        batch, sids = Batch(), dict[str, int]()
        for number, document in enumerate(analysed.documents):
            url = analysed.web.urls[number]
            sid = sids.setdefault(host_of(url), len(sids))
            batch.urls.add(number, url, url_key(url), sid, 0, 0, None, 0, "fetched", "ok", 1, 0.0, 0.0, 0.0, 1.0, 1.0)
            if document is not None:
                batch.pages.add(
                    number, 1.0, 200, "text/html", "utf-8", document.language, document.title, "", document.text,
                    document.main_text, number + 1, "", False, 0, 0, 0.0, "", "", "", 0.0, 0, 1, "", 0, 0, b"",
                    None, False, None,
                )  # fmt: skip
                _links(batch, analysed, number, sid)
            if len(batch) >= BATCH_PAGES:
                store.write(batch)
                batch = Batch()
        store.write(batch)
        update(store, folder)
    reader = open_reader(folder)
    assert reader is not None
    return reader


def _links(batch: Batch, analysed: Analysed, number: int, sid: int) -> None:
    document = analysed.documents[number]
    assert document is not None
    for link, target in zip(document.links, analysed.links(number).tolist(), strict=True):
        if target >= 0:
            batch.links.add(number, target, sid, sid, link.anchor, "", "main", 0, "a", False)
