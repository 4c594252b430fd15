"""Child processes: started, spoken to and ended in one way."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from opilio.errors import InputError, OpilioError
from opilio.process import NICENESS, Channel, Process, call, end_with_parent, prepare, share_one_heap, start
from opilio.process.interpreter import unchanged_libraries

HERE = "test_process"
pytestmark = pytest.mark.usefixtures("cold_processes")


def echo(channel: Channel, *words: str) -> None:
    """A child that answers each message with its arguments and the message."""
    while message := channel.receive():
        channel.send(" ".join(words).encode() + message)


def describe(channel: Channel) -> None:
    """A child that sends what it was started with."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    threads, leads = os.environ["OPENBLAS_NUM_THREADS"], os.getpgrp() == os.getpid()
    ignores = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    channel.send(f"{nice} {threads} {leads} {ignores} {sys.flags.safe_path} {Path.cwd()}".encode())


def hang(channel: Channel) -> None:
    """A child that starts a child of its own and then works for ever."""
    end_with_parent(channel)
    own = subprocess.Popen(["sleep", "1000"])
    channel.send(f"{os.getpid()} {own.pid}".encode())
    while True:
        pass


def add(one: int, other: int) -> int:
    """A function to be called in a child."""
    return one + other


def who_has(module: str) -> tuple[int, bool]:
    """The process, and whether a module is loaded there."""
    return os.getpid(), module in sys.modules


def refuse() -> None:
    """One that says what is wrong."""
    raise InputError("not like this", "like that")


def vanish() -> None:
    """One whose process is lost."""
    os._exit(3)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, after at most five seconds."""
    deadline_s = time.monotonic() + 5
    while time.monotonic() < deadline_s:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_messages_of_any_size() -> None:
    """Small and large messages arrive whole and in order; closing the channel ends the child."""
    child = start(f"{HERE}:echo", "a", "b")
    for message in (b"1", b"x" * 2**16, b"y" * 3_000_001):
        child.channel.send(message)
        assert child.channel.receive() == b"a b" + message
    child.channel.close()
    assert child.process.wait(5) == 0
    child.close()


def test_how_a_child_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread of linear algebra, niceness, a process group of its own, no Ctrl-C, and a folder that adds no modules."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    child = start(f"{HERE}:describe", niceness=NICENESS, folder=tmp_path)
    said = child.channel.receive().decode()
    child.close(5)
    nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    assert said == f"{nice} 1 True True True {tmp_path}"


def test_deadlines_and_bounds() -> None:
    """Who waits too long gets TimeoutError; a message above the bound counts as the end."""
    child = start(f"{HERE}:echo")
    with pytest.raises(TimeoutError):
        child.channel.receive(time.monotonic() + 0.05)
    child.close()
    child = start(f"{HERE}:echo")
    child.channel.send(b"12345")
    assert child.channel.receive(max_bytes=4) == b""
    child.close()


def test_a_child_that_is_gone() -> None:
    """After kill -9 of the child, its end of the channel is closed: nothing is received, and sending fails."""
    child = start(f"{HERE}:echo")
    child.channel.send(b"1")
    assert child.channel.receive() == b"1"
    os.kill(child.process.pid, signal.SIGKILL)
    assert child.channel.receive() == b""
    with pytest.raises(ConnectionError):
        child.channel.send(b"2")
    child.close()
    child.kill()  # of one that has ended already: nothing happens


@pytest.mark.parametrize("way", ["start", "fork"])
@pytest.mark.parametrize("by", ["kill", "close"])
def test_no_child_outlives_its_parent(by: str, way: str) -> None:
    """When the parent is killed, or closes the channel, a busy child ends at once with all it has started."""
    program = f"""
import sys, time
sys.path.append({str(Path(__file__).parent)!r})
from opilio.process import {way}, own_interpreter
own_interpreter()
child = {way}("{HERE}:hang")
print(child.channel.receive().decode(), flush=True)
if {by!r} == "close":
    child.channel.close()
time.sleep(1000)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        if by == "kill":
            parent.kill()
        assert len(pids) == 2
        assert all(is_gone(pid) for pid in pids)
        parent.kill()


FORKS = f"""
import os, subprocess, sys, threading, time
sys.path.append({str(Path(__file__).parent)!r})
from opilio.process import fork, own_interpreter, use_one_thread
use_one_thread()
"""


def output_of(program: str) -> list[str]:
    """The lines that a program prints that may fork."""
    done = subprocess.run([sys.executable, "-c", FORKS + program], capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.splitlines()


def show_files(channel: Channel) -> None:
    """A child that sends which files it has open, but for the channel, and where its standard input comes from."""
    files = {int(file.name) for file in Path("/proc/self/fd").iterdir()} - {channel.fileno()}
    still_open = sorted(number for number in files if Path(f"/proc/self/fd/{number}").exists())
    channel.send(f"{still_open} {Path('/proc/self/fd/0').readlink()}".encode())


def fail(channel: Channel) -> None:
    """A child with a defect."""
    raise ValueError(f"channel {channel.fileno()}")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_how_a_child_is_forked() -> None:
    """It has a process group of its own, no Ctrl-C, no file of its parent, not even the channels of other children, and
    no text that the parent has yet to write; what is imported is there."""
    said = output_of(f"""
own_interpreter()
import wave
print("one text")
children = [fork("{HERE}:describe"), fork("{HERE}:show_files")]
print(children[0].channel.receive().decode().split()[:4])
print(children[1].channel.receive().decode())
print([child.process.wait(5) for child in children], children[0].process.poll())
print(open(f"/proc/self/stat").read().split()[0] == str(os.getpid()))
""")
    assert said[0] == "one text"
    assert said[1] == str([str(min(19, os.getpriority(os.PRIO_PROCESS, 0))), "1", "True", "True"])
    assert said[2:] == ["[0, 1, 2] /dev/null", "[0, 0] 0", "True"]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_how_a_forked_child_ends() -> None:
    """It can be waited for and killed; a defect in it is shown, and nothing that its parent was about to do is done."""
    program = f"""
own_interpreter()
hanging, failing = fork("{HERE}:hang"), fork("{HERE}:fail")
hanging.channel.receive()
try:
    hanging.process.wait(0.05)
except subprocess.TimeoutExpired:
    print(hanging.process.poll())
hanging.kill()
print(hanging.process.wait(5), hanging.process.returncode, failing.process.wait())
hanging.close(), failing.close(1)
"""
    done = subprocess.run([sys.executable, "-c", FORKS + program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["None", "-9 -9 1"]
    assert "ValueError: channel" in done.stderr


@pytest.mark.parametrize(
    "before", ["", "own_interpreter(); threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"]
)
def test_no_fork_where_it_is_not_safe(before: str) -> None:
    """In somebody's program, and in a process with threads, a child is started as ever: with its own interpreter."""
    [said] = output_of(f"""
{before}
child = fork("{HERE}:echo", "a")
child.channel.send(b"1"), child.channel.receive()
print(b"opilio.process" in open(f"/proc/{{child.process.pid}}/cmdline", "rb").read())
child.close(5)
""")
    assert said == "True"


def test_calls() -> None:
    """A result comes back, an error of ours too; a child that is lost is an error with a hint."""
    started: list[Process] = []
    assert call(add, 2, 3, on_start=started.append) == 5
    assert started[0].poll() is not None
    with pytest.raises(InputError, match="not like this") as caught:
        call(refuse)
    assert caught.value.hint == "like that"
    with pytest.raises(OpilioError, match=r"vanish\(\) ended early"):
        call(vanish)


def test_a_prepared_child_has_imported_what_a_call_needs() -> None:
    """The call is answered by the child that was started before, and by no other; its modules are there already."""
    child = prepare("wave")
    assert call(who_has, "wave", prepared=child) == (child.process.pid, True)
    assert child.process.poll() is not None, "it serves one call"
    pid, has_it = call(who_has, "wave")
    assert (pid != child.process.pid, has_it) == (True, False)
    unused = prepare("wave")
    unused.close()
    assert is_gone(unused.process.pid)


def test_the_package_is_light() -> None:
    """Importing it brings in nothing large: every process does."""
    program = (
        "import sys, opilio.process.child; print([m for m in ('numpy', 'asyncio', 'msgspec') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def new_heaps(folder: str, shared: bool) -> int:
    """How many heaps four threads have made that allocate at once."""
    if shared:
        share_one_heap()
    barrier = threading.Barrier(4)

    def allocate() -> None:
        barrier.wait()
        held = [bytes(2000) for _ in range(20_000)]
        barrier.wait()
        held.clear()

    before = count_heaps(folder)
    threads = [threading.Thread(target=allocate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count_heaps(folder) - before


def count_heaps(folder: str) -> int:
    """How many heaps glibc says it has."""
    library, path = ctypes.CDLL(None), Path(folder) / "heaps.xml"
    library.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(library.fopen(bytes(path), b"w"))
    library.malloc_info(0, file)
    library.fclose(file)
    return path.read_text().count("<heap ")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="another C library than glibc")
def test_threads_share_one_heap(tmp_path: Path) -> None:
    """Threads allocate from the heap of the process, whose free memory all of them can use."""
    assert call(new_heaps, str(tmp_path), False) > 0
    assert call(new_heaps, str(tmp_path), True) == 0


PANDAS = """
import sys
from opilio.process import lighten_pyarrow, own_interpreter
{own}
lighten_pyarrow()
import pyarrow
pyarrow.table({{"a": [1, 2]}})
print("pandas" in sys.modules)
import pandas
"""


@pytest.mark.parametrize(("own", "imports"), [("own_interpreter()", "False"), ("", "True")])
def test_pandas_stays_out_of_our_processes(own: str, imports: str) -> None:
    """A command of ours makes Arrow tables without importing pandas; a program that uses us has it as ever."""
    pytest.importorskip("pandas")
    ended = subprocess.run([sys.executable, "-c", PANDAS.format(own=own)], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [imports]


COLLECTOR = """
import gc
from opilio.process import importing, own_interpreter
{own}
with importing():
    print(gc.isenabled())
    import decimal
print(gc.isenabled(), gc.get_freeze_count() > 1000)
"""


@pytest.mark.parametrize(
    ("own", "says"), [("own_interpreter()", "False True True"), ("", "True True False")], ids=["ours", "theirs"]
)
def test_garbage_collector_leaves_imports_alone(own: str, says: str) -> None:
    """In a process of ours, what imports make is never searched for garbage; a program that uses us keeps its ways."""
    ended = subprocess.run(
        [sys.executable, "-c", COLLECTOR.format(own=own)], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == says.split()


QUICK_END = """
import atexit, sys, threading, time
from opilio.process import exit_quickly, own_interpreter

class Held:
    def __del__(self):
        print("freed")

def last_words():
    time.sleep(0.1)
    print("thread", flush=True)

own_interpreter()
held = Held()
atexit.register(print, "handler")
threading.Thread(target=last_words).start()
{quickly}
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("quickly", "says"),
    [("exit_quickly(3)", ["thread", "handler"]), ("", ["thread", "handler", "freed"])],
    ids=["quickly", "as ever"],
)
def test_process_ends_quickly_after_everything_else(quickly: str, says: list[str]) -> None:
    """A quick end waits for threads, runs exit handlers, writes all output and keeps its exit code; it frees nothing."""
    ended = subprocess.run(
        [sys.executable, "-c", QUICK_END.format(quickly=quickly)], check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout.split()) == (3, says)


SMAPS = """\
7f0000000000-7f0000002000 r--p 00000000 08:01 11 /lib/libx.so.1
Rss:                   8 kB
Anonymous:             0 kB
7f0000002000-7f0000005000 r-xp 00002000 08:01 11 /lib/libx.so.1
Rss:                  12 kB
Anonymous:             0 kB
7f0000005000-7f0000006000 r--p 00005000 08:01 11 /lib/libx.so.1
Rss:                   4 kB
Anonymous:             4 kB
7f0000006000-7f0000007000 rw-p 00006000 08:01 11 /lib/libx.so.1
Rss:                   0 kB
Anonymous:             0 kB
7f0000010000-7f0000020000 r--p 00000000 00:00 0
Rss:                   0 kB
Anonymous:             0 kB
7f0000020000-7f0000030000 r--p 00000000 08:01 12 /usr/lib/locale/C.utf8/LC_CTYPE
Rss:                   4 kB
Anonymous:             0 kB
"""


def test_only_unchanged_pages_of_libraries_are_released() -> None:
    """Mappings with changed pages, writable ones, and what belongs to no library stay."""
    assert list(unchanged_libraries(SMAPS.splitlines(keepends=True))) == [
        (0x7F0000000000, 0x2000),
        (0x7F0000002000, 0x3000),
    ]


RELEASE = """
import numpy
from opilio.process import own_interpreter, release_libraries

def file_pages():
    [line] = [line for line in open("/proc/self/status") if line.startswith("RssFile")]
    return int(line.split()[1])

own_interpreter()
before = file_pages()
release_libraries()
print(file_pages() < before / 2, numpy.linalg.solve(numpy.eye(3) * 2, numpy.ones(3)).tolist())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_released_libraries_go_on_working() -> None:
    """The pages of libraries leave the process, and come back when the library is used."""
    ended = subprocess.run([sys.executable, "-c", RELEASE], capture_output=True, text=True, check=True)
    assert ended.stdout.split(maxsplit=1) == ["True", "[0.5, 0.5, 0.5]\n"]


def test_duckdb_gets_options_unless_the_user_has_set_some() -> None:
    """The command says how DuckDB's allocator keeps free memory; what the user's environment says counts more."""
    code = "import os; from opilio.process import lighten_duckdb; lighten_duckdb(); print(os.environ['DUCKDB_JE_MALLOC_CONF'])"
    for own, expected in (({}, "narenas:1,"), ({"DUCKDB_JE_MALLOC_CONF": "narenas:7"}, "narenas:7")):
        ended = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **own}
        )
        assert ended.stdout.startswith(expected)
