"""Child processes that are forked from a process which has loaded their modules already.

A process that trains a model spends nine tenths of its time on loading scikit-learn, and a crawl of a test trains
several models. Here the fork server of `multiprocessing` loads it once for each process of pytest. A forked process has
a channel, a process group, a niceness and an end of its own, as one that `opilio.process` starts. Processes that a test
starts by a command, such as `python -m opilio`, start their own children as they do for a user.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from opilio.process import child

WARM = ("opilio.process.child:", "opilio.learn.", "opilio.search.")
"""What the targets of such processes begin with."""
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    ["opilio.crawl.collection", "opilio.learn.trainer", "opilio.learn.guard", "opilio.search.updating", "sklearn.svm"]
)
_one_at_a_time = threading.Lock()  # `multiprocessing` looks for processes that ended whenever another starts


class _Descriptor:
    """A file descriptor on its way to a process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (DupFd(self.number),)


def _arrived(given: Any) -> _Descriptor:
    return _Descriptor(given.detach())


def _run(
    arguments: Sequence[str], channel: _Descriptor, begun: _Descriptor, environment: Mapping[str, str], folder: str
) -> None:
    """What `python -m opilio.process` does."""
    os.setpgid(0, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os.close(begun.number)
    target, _, *rest = arguments
    child.main([target, str(channel.number), *rest])


class WarmProcess:
    """A process as `subprocess.Popen` shows one, as far as `opilio.process` looks at it."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """`arguments` are those of `python -m opilio.process`."""
        reading, begun = os.pipe()
        given = (arguments, _Descriptor(int(arguments[1])), _Descriptor(begun), dict(environment), str(Path.cwd()))
        self._process = context.Process(target=_run, args=given, daemon=True)
        with _one_at_a_time:
            self._process.start()
        os.close(begun)
        os.read(reading, 1)  # until it leads a process group
        os.close(reading)
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        with _one_at_a_time:
            return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not wait([self._process.sentinel], timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        code = self.returncode
        assert code is not None
        return code

    def kill(self) -> None:
        with _one_at_a_time:
            self._process.kill()


def _popen(command: Sequence[str], **options: Any) -> Any:
    arguments = command[4:]
    assert command[:4] == [sys.executable, "-P", "-m", "opilio.process"], command
    if arguments[0].startswith(WARM):
        return WarmProcess(arguments, options["env"])
    return subprocess.Popen(command, **options)


@contextlib.contextmanager
def warm_processes(popen: Any = _popen) -> Iterator[None]:
    """Have children forked; or started by `popen`."""
    before = child.subprocess
    child.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": popen})  # type: ignore[assignment]
    yield
    child.subprocess = before
