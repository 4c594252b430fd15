"""Starts a child process and ends it: the parent's side first, then the child's."""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

from opilio.errors import OpilioError
from opilio.process.channel import Channel
from opilio.process.interpreter import SINGLE_THREADED, exit_quickly, importing, is_own, own_interpreter

NICENESS = 10
"""Of work that can wait: the scheduler gives it a tenth of the time that it gives to other work."""


class Process(Protocol):
    """A process that we have started, as `subprocess.Popen` shows it."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    @property
    def returncode(self) -> int | None:
        """Its exit code, minus the signal that ended it; None as long as nobody has seen it end."""
        ...

    def poll(self) -> int | None:
        """Look whether it has ended; its exit code."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; its exit code. Raises `subprocess.TimeoutExpired`."""
        ...

    def kill(self) -> None:
        """Kill it, unless it has been seen to end."""
        ...


OnStart = Callable[[Process], object]
"""Receives a process when it has been started, so that another thread can kill it."""


# -- in the parent


class Child:
    """A child process and the channel to it."""

    def __init__(self, process: Process, channel: Channel) -> None:
        self.process = process
        self.channel = channel

    def kill(self) -> None:
        """Kill the child, and whatever it has started itself; from any thread."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self, timeout_s: float = 0.0) -> None:
        """Close the channel, and kill the child when it has not ended by itself after `timeout_s`."""
        self.channel.close()
        if timeout_s > 0.0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout_s)
        self.kill()
        self.process.wait()


def start(
    target: str,
    *arguments: str,
    niceness: int = 0,
    inherited: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    output: int | IO[bytes] | None = None,
    errors: int | IO[bytes] | None = None,
    own_session: bool = False,
) -> Child:
    """Start a child that calls `target`, MODULE:FUNCTION, with its end of the channel and the arguments.

    `niceness` applies once the module is imported. `inherited` are descriptors that keep their numbers in the child.
    Without an `environment` the child has ours; `output` and `errors` are where its standard output and error go, by
    default where ours go.

    The child leads a process group of its own: Ctrl-C is the parent's to handle, and the child can be killed with
    whatever it starts. A child that reads untrusted files has its `own_session` as well: no terminal that it could
    write to. Others have not, for Linux may share out the processors among sessions, whatever their niceness.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "opilio.process", target, str(theirs.fileno()), str(niceness), *arguments],
                pass_fds=[theirs.fileno(), *inherited],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=_environment(os.environ if environment is None else environment),
                cwd=folder,
                start_new_session=own_session,
                process_group=None if own_session else 0,
            )
    except BaseException:
        ours.close()
        raise
    return Child(process, Channel(ours))


def fork(target: str, *arguments: str) -> Child:
    """Start a child as `start` does, but as a copy of this process, where that is safe.

    So it starts no interpreter, has what is imported here, and shares the memory of it. That is safe in a process of
    ours on Linux that has no threads: it must not have begun to work.
    """
    if not (sys.platform == "linux" and is_own() and len(list(Path("/proc/self/task").iterdir())) == 1):
        return start(target, *arguments)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # else the child would write the same text again
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        _live_as_child(theirs.detach(), target, *arguments)
    theirs.close()
    return Child(_Forked(pid), Channel(ours))


class _Forked:
    """A process that was forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._reaping = threading.Lock()
        with contextlib.suppress(OSError):  # it does so itself, now or later
            os.setpgid(pid, pid)

    def poll(self) -> int | None:
        with self._reaping:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            ended = select.poll()
            descriptor = os.pidfd_open(self.pid)
            try:
                ended.register(descriptor, select.POLLIN)
                ended.poll(None if timeout is None else timeout * 1000)
            finally:
                os.close(descriptor)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child: one thread of linear algebra, and modules come from where ours come from."""
    folders = dict.fromkeys([*sys.path, *base.get("PYTHONPATH", "").split(os.pathsep)])
    return {**SINGLE_THREADED, **base, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def prepare(*modules: str) -> Child:
    """Start a child for a later `call`, which imports some modules meanwhile."""
    return start("opilio.process.child:answer_call", *modules)


def call(
    function: Callable[..., Any],
    *arguments: Any,
    niceness: int = 0,
    on_start: OnStart = lambda process: None,
    prepared: Child | None = None,
) -> Any:
    """The result of a function that is called in a child of its own; an OpilioError that it raises is raised here.

    The function is a public one of a module; arguments and result can be pickled. Blocks the calling thread only. The
    child is the `prepared` one, or a new one; it serves this call alone.
    """
    import pickle  # noqa: PLC0415  (most processes do not need it)

    child = prepared or prepare()
    try:
        on_start(child.process)
        with contextlib.suppress(ConnectionError):  # when the child is gone, the answer is empty
            child.channel.send(pickle.dumps((function, arguments, niceness)))
        answer = child.channel.receive()
    finally:
        child.close()
    if not answer:
        raise OpilioError(f"the process for {function.__name__}() ended early", "Look at the messages above.")
    result, error = pickle.loads(answer)
    if error is not None:
        kind, message, hint = error
        raise kind(message, hint)
    return result


# -- in the child


def main(arguments: Sequence[str]) -> None:
    """Do what `start` asks for."""
    target, descriptor, niceness, *rest = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    module, _, name = target.partition(":")
    own_interpreter()
    with importing():
        function = getattr(importlib.import_module(module), name)
    os.nice(int(niceness))  # now: imports alongside a busy crawl would take ten times as long
    function(Channel(socket.socket(fileno=int(descriptor))), *rest)
    exit_quickly()


def _live_as_child(descriptor: int, target: str, *arguments: str) -> NoReturn:
    """Be a child that was just forked: with a process group and standard input of its own, and no files of the parent.

    It must not return: all that the parent was about to do is still on the stack.
    """
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.closerange(3, descriptor)  # with the parent's ends of channels, which would never be seen to close
        os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))
        main([target, str(descriptor), "0", *arguments])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def answer_call(channel: Channel, *modules: str) -> None:
    """Import modules, then call the function that `call` names."""
    import pickle  # noqa: PLC0415

    end_with_parent(channel)
    for module in modules:
        importlib.import_module(module)
    message = channel.receive()
    if not message:
        return
    function, arguments, niceness = pickle.loads(message)  # imports what it needs
    del message
    os.nice(niceness)
    result, error = None, None
    try:
        result = function(*arguments)
    except OpilioError as raised:
        error = type(raised), raised.message, raised.hint
    channel.send(pickle.dumps((result, error)))


def end_with_parent(channel: Channel, by: signal.Signals = signal.SIGTERM) -> None:
    """End this process by a signal as soon as the other end of the channel is closed, whatever it is doing then."""
    descriptor = os.dup(channel.fileno())  # stays open when the channel is closed here
    threading.Thread(target=_end_with, args=(descriptor, by), daemon=True).start()


def _end_with(descriptor: int, by: signal.Signals) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # only hanging up counts
    poll.poll()
    if os.getpgrp() == os.getpid():
        os.killpg(0, by)  # this process, and those that it has started
    else:
        os.kill(os.getpid(), by)
