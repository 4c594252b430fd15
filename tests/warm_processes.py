"""Background processes of ours, forked from a process that has loaded their modules already.

A process that trains a model spends nine tenths of its time on loading scikit-learn, and a crawl of a test trains
several models. Here the fork server of `multiprocessing` loads it once for each process of pytest. A forked process is
what it is outside of tests: it has pipes, a process group, a niceness and an end of its own. Processes that a test
starts by a command, such as `python -m opilio`, start their own background processes as they do for a user.
"""

from __future__ import annotations

import contextlib
import importlib
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

import opilio.process

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    ["opilio.crawl.collection", "opilio.learn.training_process", "opilio.learn.rejudging_process", "sklearn.svm"]
)
_one_at_a_time = threading.Lock()  # `multiprocessing` looks for processes that ended whenever another starts


class _Handle:
    """A file descriptor on its way to a process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (DupFd(self.number),)


def _arrived(given: Any) -> _Handle:
    return _Handle(given.detach())


def _run(module: str, handles: Sequence[_Handle], environment: Mapping[str, str], folder: str) -> None:
    """What an interpreter does by `python -m MODULE`."""
    os.setpgid(0, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, handle in enumerate(handles):
        os.dup2(handle.number, number)
        os.close(handle.number)
    sys.stdin, sys.stdout = (open(number, mode, closefd=False) for number, mode in enumerate("rw"))  # noqa: SIM115
    importlib.import_module(module).main()


class WarmProcess:
    """A process as `subprocess.Popen` shows one, for callers that talk to it through pipes."""

    def __init__(self, command: Sequence[str], *, stdin: int, stdout: int, env: Mapping[str, str], **_: object) -> None:
        assert stdin == stdout == subprocess.PIPE
        asked, self._asking = os.pipe()
        self._answered, answers = os.pipe()
        given = [_Handle(asked), _Handle(answers), _Handle(2)]
        module = command[command.index("-m") + 1]
        self._process = context.Process(target=_run, args=(module, given, dict(env), str(Path.cwd())), daemon=True)
        with _one_at_a_time:
            self._process.start()
        os.close(asked)
        os.close(answers)
        assert self._process.pid is not None
        self.pid = self._process.pid
        self.stdin, self.stdout = open(self._asking, "wb"), open(self._answered, "rb")  # noqa: PTH123, SIM115

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

    def communicate(self, said: bytes = b"") -> tuple[bytes, None]:
        """Say something, hear it out, and wait for its end."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.stdin.write(said)
            self.stdin.close()
        answer = b"" if self.stdout.closed else self.stdout.read()
        self.stdout.close()
        self.wait()
        return answer, None


@contextlib.contextmanager
def warm_processes() -> Iterator[None]:
    """Have processes that `opilio.process` starts forked."""
    before = opilio.process.subprocess
    opilio.process.subprocess = SimpleNamespace(Popen=WarmProcess, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    yield
    opilio.process.subprocess = before
