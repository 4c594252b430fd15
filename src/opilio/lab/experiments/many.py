"""Many simulations on all cores. Processes are forked, so that they share the web in memory instead of reading it."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from opilio.process import collect_rarely

Result = TypeVar("Result")
_jobs: Sequence[Callable[[], object]] = ()


def run_all(jobs: Sequence[Callable[[], Result]], processes: int = 0) -> Iterator[Result]:
    """The results of the jobs in their order, as they come; a job may be a closure, its result must be picklable.

    `processes` 0 means one for each core; with 1, all is done in this process. What a job raises is raised here.
    """
    count = min(processes or len(os.sched_getaffinity(0)), len(jobs))
    if count <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from (job() for job in jobs)
        return
    gc.freeze()  # or the garbage collector of each process would copy what they share
    try:
        with multiprocessing.get_context("fork").Pool(count, _take, (jobs,)) as pool:
            yield from pool.imap(_run, range(len(jobs)))
    finally:
        gc.unfreeze()


def _take(jobs: Sequence[Callable[[], object]]) -> None:
    """Receive the jobs: a fork hands them over as they are."""
    global _jobs  # noqa: PLW0603  (the one way to hand a forked process what cannot be pickled)
    _jobs = jobs
    collect_rarely()


def _run(number: int) -> object:
    return _jobs[number]()
