"""How right the classifiers are, on labelled webs: precision, recall and F1 of what they accept.

    python -m bench.quality.classification                   # all corpora of ../shared/corpora, 25 minutes on two cores
    python -m bench.quality.classification --quick           # one corpus, 5 examples a topic, one draw
    python -m bench.quality.classification --results FILE    # keep what is done in FILE, and go on from there next time
    python -m bench.quality.classification --results FILE --report    # tables and plots of FILE, no measuring

All topics of a corpus that have enough pages compete, flat below the root, against each other and the documents of
OTHERS that come with Opilio. Half of the test pages belong to none of the topics and must be refused. The SVM is
trained once in all feature spaces; the votes of every set of spaces are then combined by every rule, and a sample of
the pages is judged by `SvmTree` itself as well: the bench stops when the two differ. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from bench.quality.classification_cells import Cell
from bench.quality.classification_data import VIEWS, Page, View, read_pages
from bench.quality.classification_report import Report, read_results

DRAWS = 3


def run_cell(view: View, task: tuple[int, int]) -> dict[str, Any]:
    size, seed = task
    began, cpu = time.perf_counter(), time.process_time()
    cell = Cell(_PAGES, view, size, seed)
    with threadpool_limits(1):  # the processes are parallel enough
        cell.run_small()
        cell.run_svm()
        cell.run_as_found()
    return {
        "view": view.name,
        "size": size,
        "seed": seed,
        "counts": cell.counts,
        "estimates": cell.estimates,
        "train_s": cell.train_s,
        "took_s": round(time.perf_counter() - began, 1),
        "cpu_s": round(time.process_time() - cpu, 1),
    }


_PAGES: list[Page] = []
"""Of the corpus that is measured now; processes that are forked inherit it."""


def measure(corpora: Path, views: Sequence[View], tasks: Mapping[str, list[tuple[int, int]]], results: Path) -> None:
    """Run what is not in `results` yet, corpus by corpus, and add it line by line."""
    last = ""
    for view in views:
        todo = tasks[view.name]
        if not todo:
            continue
        if view.folder != last:
            _PAGES[:] = read_pages(corpora / view.folder, view.file)
            last = view.folder
        with multiprocessing.get_context("fork").Pool(min(2, os.cpu_count() or 1)) as pool:
            for done in pool.imap_unordered(partial(run_cell, view), todo):
                with results.open("a") as file:
                    file.write(json.dumps(done) + "\n")
                shown = {key: done[key] for key in ("view", "size", "seed", "took_s", "cpu_s")}
                print(json.dumps(shown), file=sys.stderr, flush=True)


def tasks_of(view: View, results: Path, *, quick: bool) -> list[tuple[int, int]]:
    """Numbers of examples and draws that are not in `results` yet, the longest first."""
    done = {(line["size"], line["seed"]) for line in read_results(results) if line["view"] == view.name}
    wanted = [(5, 0)] if quick else [(size, seed) for size in sorted(view.sizes)[::-1] for seed in range(DRAWS)]
    return [task for task in wanted if task not in done]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first corpus that is there, 5 examples, one draw")
    parser.add_argument("--corpora", type=Path, default=Path(__file__).parents[3] / "shared" / "corpora")
    parser.add_argument("--results", type=Path, help="file of what is done; without it, nothing is kept")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--development", action="store_true", help="tables of the topics for development")
    parser.add_argument("--plots", type=Path, help="folder to draw plots into (needs matplotlib)")
    given = parser.parse_args()
    views = [view for view in VIEWS[::-1] if (given.corpora / view.folder / view.file).exists()]
    if not views and not given.report:
        print(f"{given.corpora}: no labelled corpus there; nothing measured. Name their folder with --corpora.")
        print(json.dumps({"bench": "classification", "skipped": "no corpora"}))
        return
    views = views[:1] if given.quick else views[::-1]
    with tempfile.TemporaryDirectory(prefix="opilio-bench-") as folder:
        results = given.results or Path(folder) / "results.jsonl"
        if not given.report:
            measure(given.corpora, views, {v.name: tasks_of(v, results, quick=given.quick) for v in views}, results)
        report = Report(list(read_results(results)), final=not given.development)
    report.print_tables()
    if given.plots:
        report.plot(given.plots)
    print(json.dumps(report.figures()))


if __name__ == "__main__":
    main()
