"""One thread of linear algebra for each process: the cores are shared out among processes already.

Without this, importing numpy starts a thread for each core, which waits busily for work that never comes: 0.15
CPU-seconds a process, and memory for each thread. What the user has set stands.
"""

from __future__ import annotations

import os

SINGLE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def single_threaded() -> dict[str, str]:
    """The environment for a process of ours."""
    return SINGLE | os.environ


def use_one_thread() -> None:
    """The same for this process; of use only before numpy is imported."""
    os.environ.update(single_threaded())
