"""How much memory the processes of `opilio evaluate` take: the most of each that runs crawls, looked at every second.

    python -m bench.speed.evaluate experiments/memory.toml --webs FOLDER [--workers 2]

PSS counts memory that processes share in parts, RSS counts it in each of them. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.speed.throughput import tree

LOOK_EVERY_S = 1.0
WORKER = "experiments.runner:answer_requests"


def memory_mb(pid: int) -> tuple[str, dict[str, float]]:
    """The command line of a process, and its PSS and RSS."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text()
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:  # it has ended
        return "", {}
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return command, {name: round(kib[name] / 1024) for name in ("Pss", "Rss")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--webs", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    peaks: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="opilio-bench-") as folder:
        command = [sys.executable, "-m", "opilio", "evaluate", str(options.experiment), "--webs", str(options.webs)]
        began_s = time.monotonic()
        process = subprocess.Popen([*command, "--folder", folder, "--workers", str(options.workers)])
        while process.poll() is None:
            for pid in tree(process.pid):
                command_line, found = memory_mb(pid)
                if WORKER in command_line:
                    before = peaks.get(pid, {})
                    peaks[pid] = {name: max(mb, before.get(name, 0)) for name, mb in found.items()}
            time.sleep(LOOK_EVERY_S)
    took_s = round(time.monotonic() - began_s)
    result = {"bench": "evaluate", "took_s": took_s, "load": os.getloadavg()[0], "worker_mb": list(peaks.values())}
    print(json.dumps(result))
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
