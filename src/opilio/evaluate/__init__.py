"""Evaluation: any strategy, on any recorded web, on equal terms.

The real web never gives the same answer twice, so crawlers are compared on webs that were *recorded*: a folder of
answers as servers gave them, with labels that say what pages are about (`web.py`). `record` makes one (`recording.py`)
of what there is (`sources.py`): collections, WARC files (`warc_source.py`), HTML files, labelled corpora
(`file_sources.py`); a corpus of one host can be spread over many (`spreading.py`).

A recorded web is replayed in two ways that lead a crawler the same way: inside its process, where no network and no
waiting is left (`RecordedTransport`, `transport.py`), or over HTTP on loopback from a process of its own, with the
latency one likes (`Serving`, `serving.py` and `serving_process.py`, which talk by `server_pipe.py`). `analyse` makes
documents and the link graph of a whole web once and keeps them beside it (`analysed.py`, in processes:
`analysis_process.py`), so that an experiment with hundreds of crawls parses each page a single time.

On such a web the real frontier, strategies and absorber crawl without sockets or database, tens of thousands of pages a
second (`simulate.py`, answers from `answers.py`, many crawls at once: `many.py`). Tasks come from the labels
(`tasks.py`): topics with keywords, a description, examples to learn from, targets to find, neighbours to start from.
What a simulation cannot do, a real crawl of the same task can: train again and again, look for archetypes, distil
(`real.py`); `crawling.py` makes the same record of both. Crawls are measured by what they found (`measures.py`, BestN's
four in `quality.py`, ranks and distances in `graph.py`), how far they saw (`authorities.py`), and what their judges'
word is worth (`findings.py`); they are compared topic by topic, never without an interval (`statistics.py`).

An experiment is a file (`experiment.py`). `plan.py` lists its runs, `runner.py` has them made by processes
(`run_process.py`, judges from `judges.py`) and keeps each as soon as it is there (`records.py`); `scoring.py` measures
them by name (`scores.py`, made of `score_facts.py`), `results.py` writes them down, `summary.py`, `plots.py` and
`report.py` show them. Figures are held by floors (`floors.py`) on webs known by digest, one of them made up
(`made_web.py`).

What holds: a URL of the web answers with what was recorded, any other with 404; a web never changes once it stands in
its folder; two webs with the same digest answer the same, byte for byte, and have the same labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.lazy import loader

if TYPE_CHECKING:
    from opilio.evaluate.analysed import Analysed, analyse
    from opilio.evaluate.serving import Serving
    from opilio.evaluate.sources import record
    from opilio.evaluate.transport import RecordedTransport
    from opilio.evaluate.web import RecordedWeb

__all__ = ["Analysed", "RecordedTransport", "RecordedWeb", "Serving", "analyse", "record"]

_MODULES = {
    "Analysed": "analysed",
    "RecordedTransport": "transport",
    "RecordedWeb": "web",
    "Serving": "serving",
    "analyse": "analysed",
    "record": "sources",
}

__getattr__ = loader(__name__, _MODULES)
