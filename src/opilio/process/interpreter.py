"""What every process of ours sets in its interpreter: lazy imports, threads, Ctrl-C, garbage collection."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

SINGLE_THREADED = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment in which numpy uses one thread.

Without it, importing numpy starts a thread for each core, which waits busily for work that never comes: 0.15
CPU-seconds for each process, and memory for each thread. The cores are already shared out among processes.
"""


def use_one_thread() -> None:
    """Let numpy use one thread in this process, unless the user has set a number; call it before importing numpy."""
    os.environ.update(SINGLE_THREADED | os.environ)


_is_ours = threading.Event()
_exit_codes: list[int] = []


def own_interpreter() -> None:
    """Note that this process runs a command of ours, and not somebody's program that uses us.

    Call it before anything else: the exit handler that is registered first runs last.
    """
    if not _is_ours.is_set():
        atexit.register(_exit_quickly)
    _is_ours.set()


def is_own() -> bool:
    """Whether this process runs a command of ours."""
    return _is_ours.is_set()


def exit_quickly(code: int = 0) -> None:
    """Let this process of ours, whose work is done, end without freeing its objects one by one, which takes 0.1 s.

    It ends by itself soon, with this exit code: other threads are joined and exit handlers run as ever.
    """
    _exit_codes.append(code)


def _exit_quickly() -> None:
    if not _exit_codes:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):  # nobody reads it: the interpreter knows what to say and how to exit
        return
    os._exit(_exit_codes[-1])


_DUCKDB_HEAP = {"DUCKDB_JE_MALLOC_CONF": "narenas:1,dirty_decay_ms:300,muzzy_decay_ms:0,tcache_max:4096"}


def lighten_duckdb() -> None:
    """Let DuckDB's allocator keep less free memory in this process; call it before importing duckdb.

    It uses one heap, and gives free memory back after 0.3 s in place of 10 s: 4 MB less at the peak of a crawl. To give
    it back at once would save 8 MB and cost 13 us of CPU a page. Options that the user has set stay.
    """
    os.environ.update(_DUCKDB_HEAP | os.environ)


def lighten_pyarrow() -> None:
    """Let pyarrow take less memory in a process of ours; such a process makes no DataFrames of tables.

    With the first array that it makes, pyarrow imports pandas if it is installed: 0.2 s and 35 MB for nothing. It looks
    for it once, so plug-ins may import pandas afterwards. And its own allocator keeps 8 MB more than the system's.
    """
    if not _is_ours.is_set():
        return
    import pyarrow  # noqa: PLC0415  (few processes need it)

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)
        try:
            pyarrow.array([0])
        finally:
            sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """Stands first among the finders of modules: as if pandas were not installed."""

    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def let_interrupt_exit() -> bool:
    """Let Ctrl-C end this process at once and without a word; whether that is new.

    A handler that somebody has set, and a signal that is ignored, stay as they are.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    signal.signal(signal.SIGINT, _exit_interrupted)
    return True


def let_interrupt_raise() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, after `let_interrupt_exit`."""
    if signal.getsignal(signal.SIGINT) is _exit_interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit_interrupted(*_: object) -> None:
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def exit_at_once() -> Iterator[None]:
    """Let Ctrl-C end this process at once during imports, when there is nothing to finish."""
    is_new = let_interrupt_exit()
    try:
        yield
    finally:
        if is_new:
            let_interrupt_raise()


def loader(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `modules` says which of its modules defines each public name."""

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return load


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Keep the garbage collector from what imports make, now and later, in a process of ours: none of it is garbage.

    To search it takes 20 ms once the modules of a crawl are loaded.
    """
    if not _is_ours.is_set():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def collect_rarely() -> None:
    """Let the garbage collector look at long-lived objects rarely.

    A crawl makes millions of objects that reference counting frees, and keeps a few million. Searching those for cycles
    again and again took a tenth of all CPU time.
    """
    gc.set_threshold(100_000, 20, 100)


def name_process(name: str) -> None:
    """Call this process something in `top` and `ps -o comm`, which show 15 characters of it, where the system can."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as shown:  # noqa: PTH123
        shown.write(name)


_MADV_DONTNEED = 4  # of mman.h


def release_libraries() -> None:
    """Give back the pages of shared libraries: what only the start needed is not read again, 40 MB in an engine.

    The rest comes back from the system's cache when it is used, a microsecond for 64 kB. Mappings of which this process
    has changed a page are left alone. It takes 10 ms.
    """
    if sys.platform != "linux" or not _is_ours.is_set():
        return
    import ctypes  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    give_back = ctypes.CDLL(None).madvise
    give_back.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with contextlib.suppress(OSError), Path("/proc/self/smaps").open(encoding="utf-8", errors="replace") as mappings:
        for start, size in unchanged_libraries(mappings):
            give_back(start, size, _MADV_DONTNEED)


def unchanged_libraries(mappings: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Start and size of the read-only mappings of libraries without private pages, from the lines of `smaps`."""
    start = size = 0
    for line in mappings:
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            rights, _, _, _, *path = rest.split(maxsplit=4)
            begin, _, end = name.partition("-")
            is_library = rights in ("r-xp", "r--p") and bool(path) and ".so" in path[0]
            start, size = (int(begin, 16), int(end, 16) - int(begin, 16)) if is_library else (0, 0)
        elif name == "Anonymous:" and size and rest.split() == ["0", "kB"]:
            yield start, size


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of malloc.h
LARGE_BYTES = 2**20
KEPT_BYTES = 2**24
"""Free memory at the end of the heap that is not given back. It is 128 kB once a threshold is set: then each array that
is freed there shrinks the heap, the next one grows it, and a short crawl spends a twelfth of its CPU on that."""


def share_one_heap() -> None:
    """Let all threads allocate from one heap, and large blocks from the system, if the C library is glibc.

    By default each thread has a heap of its own, whose free memory no other can use, and blocks of up to 32 MB are cut
    out of heaps, which then cannot shrink. In an engine whose memory in use stayed the same, 100 MB more were held like
    that after two minutes (docs/results/reliability.md).
    """
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - not every process calls this

        with contextlib.suppress(AttributeError):  # another C library
            set_option = ctypes.CDLL(None).mallopt
            set_option(_M_ARENA_MAX, 1)
            set_option(_M_MMAP_THRESHOLD, LARGE_BYTES)
            set_option(_M_TRIM_THRESHOLD, KEPT_BYTES)
