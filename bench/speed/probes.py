"""The Bayes tree in the database: document by document (SingleProbe) against all at once (BulkProbe), Focus 3.8.

    python -m bench.speed.probes            # 100, 1,000 and 10,000 documents; 5, 20 and 100 topics: some minutes
    python -m bench.speed.probes --quick    # 100 and 1,000 documents; 20 topics: under a minute

All ways give the probabilities of all topics for the same documents, and the bench stops when they differ. They are:
BulkProbe; SingleProbe, one SELECT per term and node as in the paper; the same look-ups in SQLite, whose table is a
B-tree by (pcid, tid), because a statement costs DuckDB 0.3 ms however little it asks for; BulkProbe called for each
document alone; and the tree in memory, which needs no database. A slow way is timed on fewer documents. The ratio is
of CPU time, all threads together, so that other programs do not blur it, and to the faster SingleProbe: SQLite's.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import platform
import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

from opilio.classify.bayes import BayesTree
from opilio.classify.judge import Example, TrainingSet
from opilio.features.classifier_input import ClassifierInput
from opilio.settings import Settings
from opilio.store import Batch, Store
from opilio.store.probes import bulk_probe, bulk_relevance, chain, single_probe, write_model
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node

VOCABULARY, WORDS, OWN_TERMS, EXAMPLES = 50_000, 450, 400, 30
SHAPES = {5: (5, 0), 20: (4, 4), 100: (10, 9)}  # topics below the root, and below each of those
MEMORY_MB = (10, 40, 80, 160, 640)
FLOOR = 10.0  # Focus 3.8: more than an order of magnitude


class Web:
    """Documents of a Zipf vocabulary, in which each topic uses some terms of its own more often."""

    def __init__(self, topics: int, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.tids = self.rng.choice(2**32 - 1, VOCABULARY, replace=False).astype(np.uint32) + np.uint32(1)
        self.hierarchy = tree(topics)
        self.own = self.rng.integers(0, VOCABULARY, (topics + 1, OWN_TERMS))
        self.leaves = [kcid for kcid in self.hierarchy.nodes if not self.hierarchy.children(kcid)]

    def page(self, topic: int) -> ClassifierInput:
        common = np.minimum(self.rng.zipf(1.25, WORDS), VOCABULARY) - 1
        line = self.hierarchy.line(topic)
        own = [self.rng.choice(self.own[kcid], WORDS // 12) for kcid in line]
        return ClassifierInput(self.tids[np.concatenate([common, *own])])

    def training(self) -> TrainingSet:
        examples = [Example(leaf, self.page(leaf)) for leaf in self.leaves for _ in range(EXAMPLES)]
        others = [Example(ROOT, self.page(ROOT)) for _ in range(EXAMPLES)]
        return TrainingSet(self.hierarchy, tuple(examples), tuple(others))

    def pages(self, count: int) -> list[ClassifierInput]:
        return [self.page(self.leaves[at % len(self.leaves)]) for at in range(count)]


def tree(topics: int) -> Hierarchy:
    wide, below = SHAPES[topics]
    nodes = [Node(ROOT, ABOVE_ROOT, "", "", Mark.PATH)]
    for one in range(wide):
        top = len(nodes)
        nodes.append(Node(top, ROOT, f"t{one}", f"t{one}", Mark.PATH if below else Mark.NULL))
        for other in range(below):
            mark = Mark.GOOD if other == 0 else Mark.NULL
            nodes.append(Node(len(nodes), top, f"u{other}", f"t{one} / u{other}", mark))
    if not below:
        nodes[1] = Node(1, ROOT, "t0", "t0", Mark.GOOD)
    return Hierarchy(nodes)


class Btree:
    """SingleProbe over SQLite: the look-up that the paper has in mind, by the key of a B-tree."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.path = folder / "peer.sqlite"
        self.path.unlink(missing_ok=True)
        self.connection = sqlite3.connect(self.path)
        self.connection.execute("CREATE TABLE blob (pcid, tid, stat, PRIMARY KEY (pcid, tid)) WITHOUT ROWID")
        rows = connection.execute("SELECT pcid, tid, stat FROM blob").fetchall()
        stats = [[(child["kcid"], child["logtheta"]) for child in row[2]] for row in rows]
        packed = [(row[0], row[1], json.dumps(stat)) for row, stat in zip(rows, stats, strict=True)]
        self.connection.executemany("INSERT INTO blob VALUES (?, ?, ?)", packed)
        self.connection.execute("CREATE TABLE document (did, tid, freq, PRIMARY KEY (did, tid)) WITHOUT ROWID")
        document = connection.execute("SELECT did, tid, freq FROM document").fetchall()
        self.connection.executemany("INSERT INTO document VALUES (?, ?, ?)", document)
        self.connection.commit()
        self.taxonomy = connection.execute("SELECT pcid, kcid, logprior, logdenom FROM taxonomy_stat").fetchall()

    def probe(self, did: int) -> dict[int, float]:
        terms = self.connection.execute("SELECT tid, freq FROM document WHERE did = ?", [did]).fetchall()
        scores: dict[int, dict[int, float]] = {}
        for pcid, kcid, logprior, _ in self.taxonomy:
            scores.setdefault(pcid, {})[kcid] = logprior
        logdenom = {kcid: value for _, kcid, _, value in self.taxonomy}
        for pcid, children in scores.items():
            for tid, freq in terms:
                found = self.connection.execute("SELECT stat FROM blob WHERE pcid = ? AND tid = ?", [pcid, tid])
                row = found.fetchone()
                if row:
                    logtheta = dict(json.loads(row[0]))
                    for kcid in children:
                        children[kcid] += freq * logtheta.get(kcid, -logdenom[kcid])
        return chain(scores)


def fill(store: Store, pages: list[ClassifierInput], have: int) -> None:
    batch = Batch()
    for did in range(have, len(pages)):
        tids, counts = np.unique(pages[did].stems, return_counts=True)
        batch.terms.add(did, tids.astype("<u4").tobytes(), counts.astype("<u2").tobytes())
    store.write(batch)


def timed_ms(documents: int, run: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall milliseconds a document, the best of three runs."""
    cpu, wall = [], []
    for _ in range(3):
        cpu_began, began = time.process_time(), time.perf_counter()
        run()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - cpu_began)
    return round(min(cpu) / documents * 1e3, 3), round(min(wall) / documents * 1e3, 3)


def check(
    model: BayesTree, pages: list[ClassifierInput], dids: list[int], *ways: Callable[[int], dict[int, float]]
) -> None:
    for did in dids:
        truth = model.log_probabilities(pages[did])
        for way in ways:
            found = way(did)
            if found.keys() != truth.keys() or any(
                not math.isclose(found[kcid], logpr, rel_tol=1e-9, abs_tol=1e-9) for kcid, logpr in truth.items()
            ):
                raise SystemExit(f"document {did}: the ways differ")


def measure(topics: int, sizes: list[int], folder: Path) -> list[dict[str, float]]:
    web = Web(topics)
    model = BayesTree.train(web.training(), Settings())
    pages = web.pages(max(sizes))
    rows: list[dict[str, float]] = []
    with Store.create(folder / str(topics)) as store:
        connection = store._file.cursor()
        write_model(connection, model.tables())
        for node in web.hierarchy.nodes.values():
            values = [node.kcid, None if node.kcid == ROOT else node.parent, node.name, node.path, str(node.mark)]
            connection.execute("INSERT INTO topics (kcid, pcid, name, path, type) VALUES (?, ?, ?, ?, ?)", values)
        have = 0
        for size in sizes:
            fill(store, pages[:size], have)
            have = size
            rows.append(one_size(connection, model, pages[:size], topics, folder))
            print(json.dumps(rows[-1]), flush=True)
        connection.close()
    return rows


def one_size(
    connection: duckdb.DuckDBPyConnection,
    model: BayesTree,
    pages: list[ClassifierInput],
    topics: int,
    folder: Path,
) -> dict[str, float]:
    btree = Btree(connection, folder)
    chosen = random.Random(1).sample(range(len(pages)), min(50, len(pages)))
    few = chosen[:2]

    def bulk_of(did: int) -> dict[int, float]:
        found = bulk_probe(connection, [did])
        return dict(zip(found["kcid"].to_pylist(), found["logpr"].to_pylist(), strict=True))

    check(model, pages, few, lambda did: single_probe(connection, did), btree.probe, bulk_of)
    bulk = timed_ms(len(pages), lambda: bulk_probe(connection))
    relevance = timed_ms(len(pages), lambda: bulk_relevance(connection))
    single = timed_ms(len(few), lambda: [single_probe(connection, did) for did in few])
    sqlite = timed_ms(len(chosen), lambda: [btree.probe(did) for did in chosen])
    alone = timed_ms(len(few), lambda: [bulk_of(did) for did in few])
    memory = timed_ms(len(chosen), lambda: [model.judge(pages[did]) for did in chosen])
    [[terms, output]] = connection.execute("SELECT count(*), count(DISTINCT did) FROM document").fetchall()
    output *= len(model.log_probabilities(pages[0]))
    return {
        "topics": topics,
        "documents": len(pages),
        "terms_per_document": round(terms / len(pages)),
        "bulkprobe_cpu_ms": bulk[0],
        "bulkprobe_ms": bulk[1],
        "bulk_relevance_ms": relevance[1],
        "bulkprobe_of_one_ms": alone[1],
        "singleprobe_cpu_ms": single[0],
        "singleprobe_ms": single[1],
        "singleprobe_sqlite_cpu_ms": sqlite[0],
        "singleprobe_sqlite_ms": sqlite[1],
        "in_memory_ms": memory[1],
        "bulk_cpu_us_per_output_row": round(bulk[0] * 1e3 * len(pages) / output, 2),
        "bulkprobe_over_singleprobe": round(min(single[0], sqlite[0]) / bulk[0], 1),
        "bulkprobe_over_singleprobe_duckdb": round(single[0] / bulk[0], 1),
    }


def by_memory(documents: int, folder: Path) -> list[dict[str, float | None]]:
    """The same documents with more and more memory for the database (Focus, figure 8 b), 20 topics.

    SQLite's pages come from the system's cache in any case, which no setting of a database limits.
    """
    web = Web(20)
    model = BayesTree.train(web.training(), Settings())
    pages = web.pages(documents)
    rows: list[dict[str, float | None]] = []
    with Store.create(folder / "memory") as store:
        connection = store._file.cursor()
        write_model(connection, model.tables())
        fill(store, pages, 0)
        btree = Btree(connection, folder)
        connection.close()
    chosen = random.Random(1).sample(range(documents), min(50, documents))
    for megabytes in MEMORY_MB:
        with Store.open(folder / "memory", memory_bytes=megabytes * 10**6) as store:
            cursor = store._file.cursor()
            bulk: float | None
            try:
                bulk = timed_ms(documents, functools.partial(bulk_probe, cursor))[0]
            except duckdb.OutOfMemoryException:
                bulk = None
            cursor.close()
        btree.connection.execute(f"PRAGMA cache_size = -{megabytes * 1000}")
        single = timed_ms(len(chosen), lambda: [btree.probe(did) for did in chosen])[0]
        rows.append({"memory_mb": megabytes, "bulkprobe_cpu_ms": bulk, "singleprobe_sqlite_cpu_ms": single})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100 and 1,000 documents, 20 topics")
    parser.add_argument("--folder", default=None, help="where the databases are made (and removed)")
    given = parser.parse_args()
    sizes = [100, 1000] if given.quick else [100, 1000, 10_000]
    folder = Path(tempfile.mkdtemp(prefix="opilio-bench-", dir=given.folder))
    try:
        rows = [row for topics in ([20] if given.quick else SHAPES) for row in measure(topics, sizes, folder)]
        memory = by_memory(max(sizes), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    at_scale = [row["bulkprobe_over_singleprobe"] for row in rows if row["documents"] == max(sizes)]
    result = {
        "bench": "probes",
        "bulkprobe_over_singleprobe": min(at_scale),
        "floor": FLOOR,
        "rows": rows,
        "by_memory": memory,
        "versions": {"duckdb": duckdb.__version__, "sqlite": sqlite3.sqlite_version, "numpy": np.__version__},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
