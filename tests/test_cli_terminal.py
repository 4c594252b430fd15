"""`opilio crawl` on a real terminal: the live panel, Ctrl-C, and what is left on the screen."""

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from conftest import MakeCollection, MakeTaught
from opilio import Collection
from opilio.lab.local_web import LocalServer
from opilio.process import INTERRUPTED

COLUMNS, ROWS = 100, 30
CTRL_C = b"\x03"
WAIT_S = 30.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A program on a pseudo-terminal of which it is the foreground process group, as in a window of a desktop."""

    def __init__(self, *command: str, python: Sequence[str] = ()) -> None:
        """`python` are options of the interpreter, which its children do not get."""
        self.shown = ""
        self.pid, self._screen = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # our own handler would lose what comes before the program
            os.environ["TERM"] = "xterm-256color"
            for name in ("COLUMNS", "LINES"):  # what some programs set for those they start
                os.environ.pop(name, None)
            os.execv(sys.executable, [sys.executable, *python, "-m", "opilio", *command])
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def type(self, keys: bytes) -> None:
        """Press keys; the terminal turns Ctrl-C into SIGINT for the whole process group."""
        os.write(self._screen, keys)

    def wait_for(self, pattern: str) -> str:
        """Read until the pattern was shown; what was shown so far, without colours and cursor movements."""
        deadline_s = time.monotonic() + WAIT_S
        while not re.search(pattern, self.plain):
            assert time.monotonic() < deadline_s, self.plain[-2000:]
            self._read()
        return self.plain

    def modes(self) -> list[int]:
        """How the terminal gives keys to the program: echo, lines or single keys, signals."""
        return list(termios.tcgetattr(self._screen)[:4])

    def press(self, key: bytes) -> None:
        """Press a key once the program takes keys one by one: what is typed before is lost."""
        deadline_s = time.monotonic() + WAIT_S
        while self.modes()[3] & termios.ICANON:
            assert time.monotonic() < deadline_s, self.plain[-2000:]
            self._read()
        self.type(key)

    def wait_for_end(self, is_last_so: Callable[[], bool] = lambda: True) -> int:
        """Read to the end; the exit code. `is_last_so` must be true when the program has written its last."""
        deadline_s = time.monotonic() + WAIT_S
        was_so = True
        while self._read():
            assert time.monotonic() < deadline_s, self.plain[-2000:]
            with contextlib.suppress(termios.error):  # the terminal is gone
                was_so = is_last_so()
        assert was_so
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def plain(self) -> str:
        return _ESCAPES.sub("", self.shown)

    def close(self) -> None:
        with contextlib.suppress(OSError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._screen)

    def _read(self) -> bool:
        """Read what there is, waiting for it a little; False at the end."""
        if not select.select([self._screen], [], [], 0.2)[0]:
            return True
        try:
            piece = os.read(self._screen, 65536)
        except OSError:  # how Linux says that the program is gone
            return False
        self.shown += piece.decode(errors="replace")
        return bool(piece)


@pytest.fixture
def slow_crawl(make_collection: MakeCollection, small_server: LocalServer, tmp_path: Path) -> Iterator[Terminal]:
    """A crawl with a query that takes long, on a terminal."""
    (tmp_path / "s.txt").write_text("http://directory.test/")
    settings = {"fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.15, "run.workers": 2}
    Collection.create(tmp_path / "c", seeds=tmp_path / "s.txt", query="statistics mean variance", settings=settings)
    terminal = Terminal("crawl", str(tmp_path / "c"), "--max-pages", "100000")
    yield terminal
    terminal.close()


def test_the_panel_shows_how_the_crawl_stands(slow_crawl: Terminal, tmp_path: Path) -> None:
    """The panel names pages, rate, what waits, the limit and the harvest with its sparkline, and is drawn anew."""
    shown = slow_crawl.wait_for(r"recent harvest [\d.]+% of the latest pages, as judged when fetched +[▁▂▃▄▅▆▇█]")
    panel = shown[shown.rindex("╭") :]
    assert panel.startswith(f"╭─ opilio crawl {tmp_path / 'c'}"[:60])
    for figure in (r"pages +\d+", r"pages/s +\d+\.\d", r"received +[\d.]+ [kM]B", r"waiting +\d+", r"known +\d+",
                   r"under way +\d", r"hosts +\d+", r"order +evidence"):  # fmt: skip
        assert re.search(figure, panel), figure
    assert "Ctrl-C ends the crawl; nothing is lost" in panel
    assert max(map(len, panel.splitlines())) < COLUMNS - 2, "room for the ^C that the terminal shows"
    drawn = r"│ pages +([\d,]+) "
    shown = slow_crawl.wait_for(rf"(?s){drawn}.*│ pages +(?!\1 )([\d,]+) .*│ pages +(?!(?:\1|\2) )[\d,]+ ")
    pages = [int(n.replace(",", "")) for n in re.findall(drawn, shown)]
    assert len(set(pages)) > 2 and pages == sorted(pages)


def test_ctrl_c_ends_the_crawl(slow_crawl: Terminal, tmp_path: Path) -> None:
    """One Ctrl-C: the requests under way are finished, the panel goes, the summary stays, the exit code is 130."""
    slow_crawl.wait_for(r"│ pages +[2-9]\d")
    slow_crawl.type(CTRL_C)
    assert slow_crawl.wait_for_end() == 130
    after = slow_crawl.plain[slow_crawl.plain.rindex("╯") :]
    assert f"{tmp_path / 'c'}: interrupted (SIGINT)" in after
    assert "URLs known" in after and "pages are relevant: harvest" in after
    assert "Traceback" not in slow_crawl.plain, "neither the engine nor a worker process complains"
    assert slow_crawl.shown.rindex("\x1b[?25h") > slow_crawl.shown.rindex("\x1b[?25l"), "the cursor is back"
    collection = Collection(tmp_path / "c")
    told = re.search(r"  (\d+) pages in ", after)
    assert told is not None
    assert collection.sql("SELECT count(*) FROM pages").rows == [(int(told[1]),)]
    assert not (tmp_path / "c" / "engine.json").exists()


def test_a_second_ctrl_c_does_not_wait(make_collection: MakeCollection, tmp_path: Path) -> None:
    """A request that hangs holds up the first Ctrl-C; the second ends the crawl at once, and nothing stored is lost."""
    collection = make_collection(["http://directory.test/", "http://slow.test/"], limits__max_pages_per_host=1)
    terminal = Terminal("crawl", str(collection.folder))
    try:
        terminal.wait_for(r"│ pages +[1-9]\d?[^\d].*\n.*under way +1 ")
        terminal.type(CTRL_C)
        terminal.wait_for("ending: interrupted")
        began_s = time.monotonic()
        terminal.type(CTRL_C)
        assert terminal.wait_for_end() == 130
        assert time.monotonic() - began_s < 8
    finally:
        terminal.close()
    assert "Traceback" not in terminal.plain
    assert collection.sql("SELECT count(*) > 0 FROM pages").rows == [(True,)]


def test_ctrl_c_before_the_crawl_began(make_collection: MakeCollection) -> None:
    """Ctrl-C at any moment of the start, also while worker processes are being started, leaves no traceback."""
    collection = make_collection(["http://directory.test/"], run__workers=2, fetch__host_delay_s=0.5)
    for module in ("opilio.cli.log", "opilio.model", "opilio.crawl.engine", "opilio.cluster.workers"):
        for wait_s in (0, 0.1, 0.3):
            # Each module is named once it is imported: how far the start is.
            terminal = Terminal("crawl", str(collection.folder), python=("-X", "importtime"))
            try:
                terminal.wait_for(rf" {module}\r")
                time.sleep(wait_s)
                terminal.type(CTRL_C)
                code = terminal.wait_for_end()
            finally:
                terminal.close()
            said = "\n".join(line for line in terminal.plain.splitlines() if not line.startswith("import time:"))
            assert code in (INTERRUPTED, -signal.SIGINT), (module, wait_s, said)  # which shells call 130, too
            assert "Traceback" not in said, (module, wait_s, said)
    assert Collection(collection.folder).crawl(settings={"limits.max_pages": 3, "run.workers": -1}).pages == 3


def test_markup_in_a_name_is_just_text(make_collection: MakeCollection, tmp_path: Path) -> None:
    """A folder named like an instruction to the display does not confuse it."""
    (tmp_path / "x[").mkdir()
    collection = make_collection(["http://directory.test/"], name="x[/red]", limits__max_pages=30)
    terminal = Terminal("crawl", str(collection.folder))
    try:
        assert terminal.wait_for_end() == 0, terminal.plain
    finally:
        terminal.close()
    assert "x[/red]: page limit reached (30)" in terminal.plain


def test_keys_answer_questions_beside_the_panel(make_taught: MakeTaught) -> None:
    """The panel of a crawl shows a question; y, n and s answer it and u takes an answer back, while the crawl goes on.
    Ctrl-C still ends the crawl, and the terminal is left as it was found."""
    collection = make_taught(fetch__host_delay_s=1.0, limits__max_pages=0, run__workers=1)
    terminal = Terminal("crawl", str(collection.folder))
    try:
        modes = terminal.modes()
        terminal.wait_for(r"is this page about .*\n.*\n.*http://.*\n.*y yes +n no +s skip +u undo +\(5 open\)")
        assert terminal.modes() != modes, "keys come one by one"
        for key, left in ((b"y", 4), (b"n", 3), (b"s", 2), (b"u", 3)):
            terminal.type(key)
            terminal.wait_for(rf"(?s)\(5 open\).*\({left} open\)")
        terminal.wait_for("open again")
        terminal.type(CTRL_C)
        assert terminal.wait_for_end(lambda: terminal.modes() == modes) == 130
    finally:
        terminal.close()
    assert "Traceback" not in terminal.plain
    assert [one["answer"] for one in collection.answers()] == ["no", "yes"]


def test_no_questions_beside_the_panel_when_they_are_turned_off(make_taught: MakeTaught) -> None:
    """`--no-questions` is kept in the settings, and keys are left alone."""
    collection = make_taught(limits__max_pages=30)
    terminal = Terminal("crawl", str(collection.folder), "--no-questions")
    try:
        assert terminal.wait_for_end() == 0
    finally:
        terminal.close()
    assert "is this page about" not in terminal.plain
    assert Collection(collection.folder).settings.learn.questions == 0


def test_questions_one_by_one(crawled_taught: Path, tmp_path: Path) -> None:
    """`opilio ask` shows one question after the other; other keys are ignored, u goes back, q ends it."""
    shutil.copytree(crawled_taught, tmp_path / "c")
    collection = Collection(tmp_path / "c")
    first, second, *_ = collection.questions()
    terminal = Terminal("ask", str(collection.folder))
    try:
        terminal.wait_for(rf"5 questions left(?s:.*)Is it about {first['topic']}\?")
        terminal.press(b"x")
        terminal.wait_for(r"(?s)5 questions left.*5 questions left.*quit\]")
        terminal.press(b"y")
        terminal.wait_for(rf"(?s)example from now on.*4 questions left, 1 answered.*about {second['topic']}\?")
        terminal.press(b"u")
        terminal.wait_for(r"(?s)open again.*5 questions left.*quit\]")
        terminal.press(b"n")
        terminal.wait_for(r"(?s)counter-example from now on.*4 questions left.*quit\]")
        terminal.press(b"q")
        assert terminal.wait_for_end() == 0
    finally:
        terminal.close()
    assert "1 change not yet learned: opilio topics train" in terminal.plain
    assert [(one["oid"], one["answer"]) for one in collection.answers()] == [(first["oid"], "no")]
