"""`python bench/throughput.py` runs `bench/speed/throughput.py`."""

import runpy
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])
runpy.run_module("bench.speed.throughput", run_name="__main__", alter_sys=True)
