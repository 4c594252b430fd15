"""One thread of linear algebra for each process: the cores are shared out among processes already.

Without this, importing numpy starts a thread for each core, which waits busily for work that never comes: 0.15
CPU-seconds a process, and memory for each thread. What the user has set stands.

Work that holds Python's lock for long is done in a process beside the one that needs the lock (`start_beside`). A
process that may be in the middle of long work when the one that began it is killed ends with it (`end_with_parent`).

Public names of a package that are loaded when they are first asked for, so that processes start quickly.

How often Python looks for garbage.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

NICENESS = 10
"""Of work that can wait: the scheduler gives it a tenth of what it gives a process that cannot."""
_LOOK_S = 0.5
"""So often a process looks whether its parent is there."""
SINGLE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def single_threaded() -> dict[str, str]:
    """The environment for a process of ours."""
    return SINGLE | os.environ


def start_beside(module: str) -> subprocess.Popen[bytes]:
    """A process of ours that is spoken to on its standard input and heard on its standard output."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=single_threaded(),
        process_group=0,  # Ctrl-C is its parent's to handle
    )


def end_with_parent() -> None:
    """See to it that this process ends, as by SIGTERM, when the one that began it is gone."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)


def use_one_thread() -> None:
    """The same for this process; of use only before numpy is imported."""
    os.environ.update(single_threaded())


def loader(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `modules` says in which of its modules each public name is."""

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return load


def collect_rarely() -> None:
    """Let the garbage collector look at long-lived objects seldom.

    A crawl makes millions of objects that reference counting frees, and a few million that stay; looking through the
    latter again and again for cycles took a tenth of all CPU time.
    """
    gc.set_threshold(100_000, 20, 100)
