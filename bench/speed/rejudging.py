"""Re-judging stored pages by a Bayes tree: in memory from their texts, and in the database from their terms.

    python -m bench.speed.rejudging [--quick]

Pages of 20 topics with some 400 words each, drawn by Zipf's law, are written into a collection, and a tree is trained
on ten more of each topic. Then `learn.rejudge` judges them all, both ways, storing the judgements included. CPU time of
the process; the judgements must agree. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from opilio.analyze.terms import Vocabulary, tokenize
from opilio.classify import Example, TrainingSet
from opilio.features.classifier_input import TextReader
from opilio.learn import rejudge, store_model, train
from opilio.model import TrainingCause, TrainingReason
from opilio.settings import ClassifySettings, Settings
from opilio.store import Batch, Store
from opilio.topics import hierarchy_of, records_of
from opilio.topics.tree import TopicTree

TOPICS, WORDS, OWN_SHARE, VOCABULARY = 20, 400, 0.2, 30_000
SIZES = (20, 50, 100, 500, 5000)
SETTINGS = Settings(classify=ClassifySettings(classifier="bayes"))
NOW_S = 1_700_000_000.0


def texts(topic: int, count: int, draw: np.random.Generator) -> list[str]:
    """Texts of a topic: some words of its own among those of all."""
    found = []
    for _ in range(count):
        common = draw.zipf(1.3, WORDS) % VOCABULARY
        own = draw.random(WORDS) < OWN_SHARE
        found.append(
            " ".join(f"own{topic}x{n % 200}" if mine else f"word{n}" for n, mine in zip(common, own, strict=True))
        )
    return found


def fill(store: Store, count: int, draw: np.random.Generator) -> None:
    """Write the topics, pages and terms, and train a tree."""
    tree = TopicTree()
    for topic in range(1, TOPICS + 1):
        tree.topic((f"topic {topic}",)).good = topic == 1
    records, reader, batch, vocabulary = records_of(tree), TextReader(), Batch(), Vocabulary()
    for record in records:
        batch.topics.add(*record)
    examples = [Example(t, reader.read("", text, "en")) for t in range(1, TOPICS + 1) for text in texts(t, 10, draw)]
    batch.hosts.add(0, "h.test", "h.test", None, 0, 0, 0, 0.0)
    for oid in range(count):
        [text] = texts(1 + oid % TOPICS, 1, draw)
        url = f"http://h.test/{oid}"
        batch.urls.add(oid, url, oid, 0, 0, 0, None, 0, "fetched", "ok", 1, 0.0, 0.0, 0.0, NOW_S, NOW_S)
        batch.pages.add(
            oid, NOW_S, 200, "text/html", "utf-8", "en", "", "", text, text, oid, "", False, 0, 0, 0.0, "", "", "",
            0.0, 0, 0, "", 0, 0, b"", None, False, None,
        )  # fmt: skip
        numbers = vocabulary.numbers(tokenize(text), "en").astype(np.uint32)
        tids, freqs = np.unique(numbers[numbers > 0], return_counts=True)
        batch.terms.add(oid, tids.astype("<u4").tobytes(), freqs.astype("<u2").tobytes())
    store.write(batch)
    trained = train(TrainingSet(hierarchy_of(records), tuple(examples)), SETTINGS, 1)
    store_model(store, trained, TrainingCause(TrainingReason.FIRST), SETTINGS, "")


def measure(count: int) -> dict[str, float]:
    """Both ways on so many pages."""
    with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder) / "c") as store:
        fill(store, count, np.random.default_rng(1))
        model = store.load_model()
        row: dict[str, float] = {"pages": count}
        found = []
        for name, in_database in (("in_memory", False), ("in_database", True)):
            began = time.process_time(), time.perf_counter()
            rejudge(store, model, {}, SETTINGS.classify, all_pages=True, in_database=in_database)
            row[f"{name}_cpu_ms"] = round(1000 * (time.process_time() - began[0]) / count, 3)
            row[f"{name}_ms"] = round(1000 * (time.perf_counter() - began[1]) / count, 3)
            found.append(dict(store.query("SELECT oid, relevance FROM pages").rows))
        assert all(abs(found[0][oid] - found[1][oid]) < 1e-6 for oid in found[0])
        row["ratio"] = round(row["in_memory_cpu_ms"] / row["in_database_cpu_ms"], 1)
        return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only 100 pages")
    given = parser.parse_args()
    rows = []
    for count in (100,) if given.quick else SIZES:
        rows.append(measure(count))
        print(json.dumps(rows[-1]), flush=True)
    print(json.dumps({"bench": "rejudging", "rows": rows}))


if __name__ == "__main__":
    main()
