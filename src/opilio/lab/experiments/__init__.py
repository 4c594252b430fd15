"""Experiments: any strategy, on any recorded web, on equal terms.

`analyse` makes the documents and the link graph of a whole recorded web once and keeps them next to it (`analysed.py`),
so that an experiment with hundreds of crawls parses each page a single time. On such a web the real frontier,
strategies and absorber crawl without sockets or database, tens of thousands of pages a second (`simulate.py`); orders
that know what no crawler can know show what could be gained (`bounds.py`). Tasks come from the labels (`tasks.py`):
topics with keywords, a description, examples to learn from, targets to find, neighbours to start from. A real crawl of
the same task can do what a simulation cannot: retrain, look for archetypes, distil (`crawls.py` makes the same record
of both).

Crawls are measured by what they found and by how good their judgements are (`measures.py`, with
BestN's four measures; distances are in `graph.py`). They are compared topic by topic, never without an interval
(`statistics.py`). An experiment is a file (`experiment.py`). `plan.py` lists its runs; `runner.py` makes them in child
processes and keeps each as soon as it is finished (`records.py`); `scoring.py` measures them by name (`scores.py`);
`results.py` writes them; `summary.py`, `plots.py` and `report.py` show them; `listing.py` shows one run page by page.
`floors.py` pins figures on webs known by digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.lab.experiments.analysed import Analysed, analyse

__all__ = ["Analysed", "analyse"]

_MODULES = {"Analysed": "analysed", "analyse": "analysed"}

__getattr__ = loader(__name__, _MODULES)
