"""Bad input gives one line that names the thing and one that says what to do; no traceback, and nothing is lost."""

import contextlib
import ctypes
import io
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from opilio import Collection
from opilio.cli import main
from opilio.lab.local_web import LocalServer
from opilio.settings import Settings

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2  # of Linux
DATABASE = "collection.duckdb"


def obey_permissions() -> None:
    """Give up root's right to pass over them, if we are root; takes effect with the next program that is started."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability)


def opilio(*arguments: object) -> tuple[int, list[str]]:
    """Exit code and lines on standard error of `opilio ARGUMENTS` in a process of its own."""
    command = [sys.executable, "-m", "opilio", *map(str, arguments)]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, preexec_fn=obey_permissions
    )
    return ended.returncode, ended.stderr.splitlines()


EACH = """
import io, json, sys
from opilio.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv, sys.stdout, sys.stderr, code = ["opilio", *words], io.StringIO(), io.StringIO(), 0
    try:
        main()
    except SystemExit as ending:
        code = int(ending.code or 0)
    print(json.dumps([code, sys.stderr.getvalue().splitlines()]), file=sys.__stdout__)
"""


def opilio_each(*commands: tuple[object, ...]) -> list[tuple[int, list[str]]]:
    """The same of several commands, one after the other in one process of their own, which obeys permissions."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    ended = subprocess.run(
        [sys.executable, "-c", EACH, words], capture_output=True, text=True, check=False, timeout=60,
        preexec_fn=obey_permissions,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    told = [tuple(json.loads(line)) for line in ended.stdout.splitlines()]
    assert len(told) == len(commands)
    return told


def call(*arguments: object) -> tuple[int, list[str]]:
    """The same inside this process, which is faster, but may pass over permissions."""
    err, code = io.StringIO(), 0
    words = ["opilio", *map(str, arguments)]
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()), mock.patch("sys.argv", words):
        try:
            main()
        except SystemExit as ending:
            code = int(ending.code or 0)
    return code, err.getvalue().splitlines()


def assert_told(told: tuple[int, list[str]], *words: str, code: int = 1) -> None:
    """Two lines, error and hint; the error holds all of `words`."""
    assert told[0] == code, told
    assert len(told[1]) == 2, told
    error, hint = told[1]
    assert error.startswith("error: ")
    assert hint.startswith("hint: ") and len(hint) > 10
    for word in words:
        assert word in error, told


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    file = tmp_path / "seeds.txt"
    file.write_text("http://directory.test/\n")
    return file


@pytest.fixture(scope="module")
def made(small_server: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a collection of four pages, which nobody changes."""
    place = tmp_path_factory.mktemp("made")
    (place / "seeds.txt").write_text("http://directory.test/\n")
    settings = {"fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "run.workers": -1,
                "limits.max_pages": 4}  # fmt: skip
    Collection.create(place / "collection", seeds=place / "seeds.txt", settings=settings).crawl()
    return place / "collection"


@pytest.fixture
def collection(made: Path, tmp_path: Path) -> Collection:
    """A collection of four pages, for a test to change and to damage."""
    return Collection(shutil.copytree(made, tmp_path / "collection"))


# -- what the crawl starts from


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe garbage \x1b[31m" * 100,
        b"<dl><dt><h3>Birds</h3><dl><dt><a href='javascript:1'>x</a><dt><a>no address</a>",
        pytest.param(b"<dl><![if birds]><!DOCTYPE x [<![ <a href="),
        pytest.param(b'<meta charset="undefined"><dl><dt>'),
        b'<meta charset="unicode_escape">\\ud800<a href="ftp://x/">x</a>',
    ],
    ids=["empty", "garbage", "no-address", "markup", "charset-undefined", "surrogate"],
)
def test_bookmarks_that_are_none(content: bytes, tmp_path: Path) -> None:
    """A bookmark file that is empty, broken or holds no address is named, and no folder is made."""
    file = tmp_path / "bookmarks.html"
    file.write_bytes(content)
    assert_told(call("crawl", tmp_path / "new", "--bookmarks", file), str(file), "no bookmark")
    assert not (tmp_path / "new").exists()


def test_broken_bookmarks_beside_good_ones(tmp_path: Path) -> None:
    """Odd markup costs nothing but itself: the bookmarks around it are read."""
    file = tmp_path / "bookmarks.html"
    file.write_bytes(b"<a href='http://directory.test/a'>a</a><![if x]><a href='http://directory.test/b'>b</a>")
    made = Collection.create(tmp_path / "new", bookmarks=file)
    assert made.sql("SELECT count(*) FROM seeds").rows == [(2,)]


@pytest.mark.parametrize("option", ["--bookmarks", "--seeds", "--config"])
def test_files_that_are_not_there(option: str, seeds: Path, tmp_path: Path) -> None:
    """A missing file, and a folder in place of a file, are named."""
    start = [] if option == "--seeds" else ["--seeds", seeds]
    assert_told(call("crawl", tmp_path / "new", *start, option, tmp_path / "nowhere"), str(tmp_path / "nowhere"))
    assert_told(call("crawl", tmp_path / "new", *start, option, tmp_path), str(tmp_path))
    assert not (tmp_path / "new").exists()


def test_seeds_without_a_url(tmp_path: Path) -> None:
    """A seed file without a usable line names the first bad one."""
    file = tmp_path / "seeds.txt"
    file.write_text("# nothing\n\nftp://old.test/\n")
    assert_told(call("crawl", tmp_path / "new", "--seeds", file), str(file), "line 3", "ftp://old.test/")


def test_nothing_to_start_from(tmp_path: Path) -> None:
    """A new collection needs seeds; a query alone is none, and has to have words."""
    assert_told(call("crawl", tmp_path / "new"), "nothing to start")
    for words in ("--query", "--description"):
        told = call("crawl", tmp_path / "new", words, "owls")
        assert_told(told, "nothing to start", "not where")
        assert all(source in told[1][1] for source in ("--seeds", "saved as HTML", "--bookmarks", "opilio sql OTHER"))
    (tmp_path / "s.txt").write_text("http://directory.test/")
    assert_told(call("crawl", tmp_path / "new", "--seeds", tmp_path / "s.txt", "--query", "!!"), "no word")
    assert not (tmp_path / "new").exists()


# -- folders


@pytest.mark.parametrize("command", [["status"], ["stop"], ["settings"], ["sql", "SELECT 1"], ["export", "x.csv"],
                                     ["policy", "depth"], ["crawl"]])  # fmt: skip
def test_folders_that_hold_no_collection(command: list[str], tmp_path: Path) -> None:
    """A missing folder, an empty one, and a file in its place."""
    name, *rest = command
    assert_told(call(name, tmp_path / "nowhere", *rest), "no collection")
    assert_told(call(name, tmp_path, *rest), "no collection")
    (tmp_path / "file").write_text("")
    assert_told(call(name, tmp_path / "file", *rest), "is a file", code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_collection_is_not_made_over(collection: Collection, seeds: Path) -> None:
    """--query and --config are for a new collection; an old one is not changed by them."""
    before = (collection.folder / "crawl.toml").read_text()
    assert_told(call("crawl", collection.folder, "--query", "owls"), "--query", "new collection")
    assert_told(call("crawl", collection.folder, "--config", seeds), "--config", "new collection")
    assert (collection.folder / "crawl.toml").read_text() == before


def test_a_folder_that_cannot_be_written(collection: Collection, seeds: Path, tmp_path: Path) -> None:
    """Where we may only read, a new collection is refused, an old one can be asked but not crawled."""
    folder, locked = collection.folder, tmp_path / "locked"
    locked.mkdir(mode=0o500)
    files = [folder, folder / "warc", *folder.glob("*.*")]
    for path in files:
        path.chmod(0o500 if path.is_dir() else 0o400)
    new, plain, changed, *asked = opilio_each(
        ("crawl", locked / "new", "--seeds", seeds), ("crawl", folder), ("crawl", folder, "--max-pages", "9"),
        ("sql", folder, "SELECT count(*) FROM pages"), ("status", folder),
    )  # fmt: skip
    assert_told(new, str(locked / "new"), "Permission denied")
    assert_told(plain, str(folder), "ermission denied")
    assert_told(changed, str(folder), "Permission denied")
    assert Collection(folder).settings.limits.max_pages == 4
    assert asked == [(0, []), (0, [])]
    folder.chmod(0)
    assert_told(opilio("status", folder), str(folder), "not readable", code=2)
    for path in files:
        path.chmod(0o700)
    assert opilio("crawl", folder, "--max-pages", "9", "-q") == (0, [])


# -- settings


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("fetch.dealy=1", ["[fetch]", "dealy", "Did you mean"]),
        ("fech.per_host=1", ["fech", "Did you mean 'fetch'"]),
        ("per_host", ["section.key=value"]),
        ("fetch.per_host=many", ["per_host", "many"]),
        ("fetch.per_host=0", ["per_host", "at least 1"]),
        ("limits.max_pages=-1", ["max_pages", "negative"]),
        ("limits.max_pages=true", ["max_pages", "True"]),
        ("duplicates.ip_path=maybe", ["ip_path", "learn, trust, off"]),
        ("frontier.strategy=best-fist", ["best-fist"]),
        ("frontier.strategy=sql", ["needs an order"]),
        ("fetch.proxy=ftp://x", ["proxy", "ftp://x"]),
        ('fetch.connect_to={"*.test"="nonsense"}', ["connect_to", "nonsense"]),
        ('scope.only_domains="x.test"', ["only_domains", "x.test"]),
    ],
)
def test_settings_that_cannot_be(assignment: str, words: list[str], seeds: Path, tmp_path: Path) -> None:
    """A typo or a value that makes no sense is found before anything is made, in --set and in a file."""
    assert_told(call("crawl", tmp_path / "new", "--seeds", seeds, "--set", assignment), *words)
    dotted, _, value = assignment.partition("=")
    section, _, key = dotted.partition(".")
    if key:
        is_toml = value[:1] in '{"' or value in ("true", "1", "0", "-1")
        quoted = value if is_toml else f'"{value}"'
        (tmp_path / "my.toml").write_text(f"[{section}]\n{key} = {quoted}\n")
        assert_told(call("crawl", tmp_path / "new", "--seeds", seeds, "--config", tmp_path / "my.toml"), *words)
    assert not (tmp_path / "new").exists()


def test_a_wrong_change_of_settings_changes_nothing(collection: Collection) -> None:
    """A collection keeps its settings when a change of them is refused."""
    before = (collection.folder / "crawl.toml").read_text()
    assert_told(call("crawl", collection.folder, "--set", "fetch.dealy=1"), "dealy")
    assert_told(call("crawl", collection.folder, "--strategy", "best-fist"), "best-fist")
    assert (collection.folder / "crawl.toml").read_text() == before


@pytest.mark.parametrize("text", ["[fetch\n", "garbage", "\x00", "[fetch]\nper_hsot = 1\n", "fetch = 3\n"])
def test_a_settings_file_with_garbage(text: str, collection: Collection) -> None:
    """crawl.toml with garbage in it is named by every command that needs it."""
    (collection.folder / "crawl.toml").write_text(text)
    for command in ("crawl", "status", "settings"):
        assert_told(call(command, collection.folder), "crawl.toml")
    (collection.folder / "crawl.toml").unlink()
    assert_told(call("status", collection.folder), "crawl.toml")


def test_wrong_calls() -> None:
    """Unknown commands and options, values out of range, missing arguments: exit code 2."""
    assert_told(call("craw"), "craw", code=2)
    assert_told(call("crawl"), "FOLDER", code=2)
    assert_told(call("crawl", "x", "--bogus"), "--bogus", code=2)
    assert_told(call("crawl", "x", "--max-pages", "-1"), "--max-pages", code=2)
    assert_told(call("crawl", "x", "--max-pages", "ten"), "--max-pages", code=2)
    assert_told(call("crawl", "x", "--max-time", "5 fortnights"), "--max-time", "8h", code=2)
    assert_told(call("crawl", "x", "--max-bytes", "1.2.3GB"), "--max-bytes", code=2)
    assert_told(call("sql", "x"), "STATEMENT", code=2)
    assert_told(call("export", "x", "y", "--format", "doc"), "doc", code=2)


# -- SQL and exports


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELEC 1", ["syntax error", "SELEC"]),
        ("SELECT titel FROM pages", ["titel"]),
        ("SELECT 1; SELECT 2", ["2 statements"]),
        ("DELETE FROM pages", ["DELETE"]),
        ("COPY pages TO 'x.csv'", ["COPY"]),
        ("SELECT * FROM read_text('/etc/passwd')", ["read_text"]),
        ("", ["0 statements"]),
    ],
)
def test_sql_that_is_refused(statement: str, words: list[str], collection: Collection) -> None:
    """Mistakes and what is not allowed, each in one line."""
    assert_told(call("sql", collection.folder, statement), *words)
    assert collection.sql("SELECT count(*) FROM pages").rows == [(4,)]


@pytest.mark.parametrize("order", ["relevnce DESC", "depth; DROP TABLE pages", "depth LIMIT 1", "(SELECT 1)", "("])
def test_orders_that_are_refused(order: str, collection: Collection, seeds: Path, tmp_path: Path) -> None:
    """A bad SQL order is refused by `policy` and by `crawl`, and the order in force stays."""
    assert_told(call("policy", collection.folder, order))
    assert Collection(collection.folder).settings.frontier.strategy == "auto"
    assert call("policy", collection.folder, "depth", "--strategy", "best-first")[0] == 1
    assert_told(call("crawl", tmp_path / "new", "--seeds", seeds, "--order-by", order, "--contact", "http://me.test/"))


def test_exports_that_cannot_be(collection: Collection, tmp_path: Path) -> None:
    """Unknown form, column, condition, a place that is not there: no file appears."""
    assert_told(call("export", collection.folder, tmp_path / "x.doc"), "doc")
    assert_told(call("export", collection.folder, tmp_path / "no" / "x.csv"), "cannot be written")
    assert_told(call("export", collection.folder, tmp_path / "x.csv", "--columns", "url,titel"), "titel")
    assert_told(call("export", collection.folder, tmp_path / "x.csv", "--where", "titel = 1"), "titel")
    assert_told(
        call("export", collection.folder, "-", "--format", "parquet"), "parquet cannot be written to standard output"
    )
    assert not list(tmp_path.glob("*x.*"))


# -- damage


def test_a_database_that_is_garbage(collection: Collection) -> None:
    """A database file overwritten with garbage is named, with what to do; it is not touched."""
    database = collection.folder / DATABASE
    database.write_bytes(b"garbage" * 10_000)
    for command in (["crawl"], ["status"], ["sql", "SELECT 1"], ["export", "x.csv"]):
        assert_told(call(command[0], collection.folder, *command[1:]), DATABASE)
    assert database.read_bytes() == b"garbage" * 10_000


@pytest.mark.parametrize("share", [0.0, 0.002, 0.3, 0.9])
def test_a_database_that_is_cut(share: float, collection: Collection) -> None:
    """A truncated database is an error, never a traceback or an empty collection that looks sound."""
    database = collection.folder / DATABASE
    size = database.stat().st_size
    os.truncate(database, int(size * share))
    code, lines = opilio("crawl", collection.folder, "-q")
    if code == 0:  # what was cut was not in use
        assert Collection(collection.folder).sql("SELECT count(*) FROM pages").rows == [(4,)]
        return
    assert_told((code, lines), DATABASE)


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    """A DuckDB file that is no collection is not taken for one."""
    import duckdb

    duckdb.connect(str(tmp_path / DATABASE)).execute("CREATE TABLE t (a INTEGER)").close()
    (tmp_path / "crawl.toml").write_text('[fetch]\ncontact_url = "http://me.test/"\n')
    assert_told(call("status", tmp_path), "not one of Opilio")
    assert_told(call("crawl", tmp_path), "not one of Opilio")


def test_warc_files_that_are_damaged(collection: Collection) -> None:
    """Garbage at the end of a WARC file, and a file of nothing but garbage, do not stop the next crawl."""
    [warc] = (collection.folder / "warc").glob("*.warc.gz")
    with warc.open("ab") as file:
        file.write(b"\x1f\x8b\x08 torn record" * 100)
    (collection.folder / "warc" / "other.warc.gz").write_bytes(os.urandom(10_000))
    assert call("crawl", collection.folder, "--max-pages", "8", "-q") == (0, [])
    assert collection.sql("SELECT count(*) FROM pages").rows == [(8,)]


# -- the machine


@pytest.mark.parametrize("program", [["opilio.lab.local_web"], ["opilio", "localweb"]])
def test_a_port_that_is_in_use(program: list[str]) -> None:
    """The local web says which port is taken and how to get another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", *program, "--size", "small", "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert_told((ended.returncode, ended.stderr.splitlines()), str(port), "in use")


def test_errors_fit_in_a_line(collection: Collection) -> None:
    """A message never breaks the rule of one line, whatever the user's text holds."""
    assert_told(call("sql", collection.folder, "SELECT\n\n'a'::INT,\n\x1b[31m"))
    assert_told(call("crawl", "x\ny", "--set", "fetch.\x1b[31m=1"))


def test_settings_shown_can_be_read_back(tmp_path: Path) -> None:
    """`opilio settings` prints a file that --config takes: a way out of every error in a settings file."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), mock.patch("sys.argv", ["opilio", "settings"]):
        main()
    (tmp_path / "all.toml").write_text(out.getvalue())
    (tmp_path / "s.txt").write_text("http://localhost/")
    code, said = call("crawl", tmp_path / "c", "--seeds", tmp_path / "s.txt", "--config", tmp_path / "all.toml")
    assert code == 1 and "1 of 1 seeds failed: private-address 1" in said[-2], "the settings are taken"
    assert Collection(tmp_path / "c").settings == Settings()
