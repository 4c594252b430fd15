"""Benchmarks: each runs alone, takes `--quick`, and prints its figures last, as one line of JSON.

`speed` has what takes time or memory, `quality` what a crawl finds and how right its judgements are, `webs` the webs
that are made for benchmarks, `peers` the programs that Opilio is compared with. From the root of the repository:

    python -m bench.speed.store --quick

`gate.py` compares figures with those pinned in `floors.json` and `quality_floors.json`. The benchmarks that are named
most often have a short path, such as `python bench/throughput.py`.
"""

import os

# Installed peers have their modules compiled. With this variable set, each process of ours would compile its own again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
