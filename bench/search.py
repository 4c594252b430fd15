"""`python bench/search.py` runs `bench/speed/search.py`."""

import runpy
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])
runpy.run_module("bench.speed.search", run_name="__main__", alter_sys=True)
