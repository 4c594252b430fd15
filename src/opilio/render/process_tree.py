"""The processes of a browser: which there are, how much memory they use, and how they end.

Chromium leads a process group of its own, so the group of the process that started it does not include it. The tree is
read from /proc; where there is none, the browser ends with the pipe to it, and its memory is not bounded here.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, parents first."""
    children: dict[int, list[int]] = {}
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, open_ = [], [pid]
    while open_:
        below = children.pop(open_.pop(), [])
        found += below
        open_ += below
    return found


def private_bytes(pid: int) -> int:
    """The memory that a process alone uses; 0 when it is gone."""
    with suppress(OSError, ValueError, IndexError):
        fields = (_PROC / str(pid) / "statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES
    return 0


def is_page(pid: int) -> bool:
    """Whether a process of Chromium runs pages."""
    with suppress(OSError):
        return b"--type=renderer" in (_PROC / str(pid) / "cmdline").read_bytes()
    return False


def limit_memory(pid: int, max_bytes: int) -> bool:
    """Kill the largest process with a page when all processes below `pid` together use more; whether it was done."""
    used = {process: private_bytes(process) for process in descendants(pid)}
    if sum(used.values()) <= max_bytes:
        return False
    pages = [process for process in used if is_page(process)]
    if not pages:
        return False
    kill([max(pages, key=lambda process: used[process])])
    return True


def kill(pids: list[int]) -> None:
    """Kill processes."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
