"""The small local web as a recorded one, a small experiment on it, and experiments in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

import opilio
from evaluate_webs import make_web, page, redirect
from opilio.lab.experiments.experiment import Experiment
from opilio.lab.local_web import build

TABLE: dict[str, Any] = {
    "name": "tiny",
    "webs": ["local"],
    "tasks": ["from examples", "from neighbours"],
    "topics": {"split": "all", "count": 3},
    "budget": {"pages": 60},
    "strategies": [
        "bfs1",
        {"strategy": "breadth-first"},
        {"strategy": "best-first", "label": "by labels", "judge": "truth"},
    ],
    "measures": {
        "curves": ["recall", "harvest", "static lexical", "dynamic linkage"],
        "table": ["recall@20", "recall", "auc"],
        "points": 5,
        "top": [5, 20],
    },
}


def record_local(folder: Path) -> Path:
    """Record the small local web, with its topics as labels."""
    web = build("small")
    answers = [page(one.url, one.body, (one.topic,) if one.topic else ()) for one in web.pages.values()]
    answers += [redirect(url, target) for url, (_, target) in web.redirects.items() if url not in web.pages]
    make_web(folder, answers)
    return folder


def begin(experiment: Experiment, folder: Path, *, workers: int, **variables: str) -> subprocess.Popen[bytes]:
    """An experiment in a process of its own."""
    program = (
        "import sys, pathlib, msgspec; from opilio.lab.experiments.experiment import Experiment; "
        "from opilio.lab.experiments.runner import run_experiment; run_experiment("
        f"msgspec.json.decode(sys.argv[1], type=Experiment), pathlib.Path(sys.argv[2]), workers={workers})"
    )
    command = [sys.executable, "-c", program, msgspec.json.encode(experiment).decode(), str(folder)]
    env = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent), **variables}
    return subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)


def children(process: subprocess.Popen[bytes]) -> list[Path]:
    """The processes that a process began, by their folders in /proc."""
    return [Path("/proc", pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def is_alive(process: Path) -> bool:
    """Whether a process, by its folder in /proc, runs; one that ended and was not waited for does not."""
    try:
        return process.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
