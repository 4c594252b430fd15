"""Every command as a user types it: what it prints, where, and how it exits."""

import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from command_line import call, link_contexts, opilio
from conftest import MakeTaught
from opilio import Collection
from opilio.cli import aliases, demo, display
from opilio.cli.display import show_bytes, show_duration, sparkline
from opilio.lab.local_web import LocalServer
from opilio.process import INTERRUPTED

COMMANDS = ("crawl", "status", "sql", "policy", "stop", "export", "settings", "demo", "localweb")
WAIT_S = 30.0


@pytest.fixture(scope="module")
def finished(small_server: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of 25 pages that was made by `opilio crawl` with a query."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "seeds.txt").write_text("http://directory.test/ The directory\n# a comment\n")
    ended = call("crawl", folder / "birds", "--seeds", folder / "seeds.txt", "--query", "statistics mean variance",
                 "--max-pages", "25", "-q", *link_contexts(small_server))  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return folder / "birds"


@pytest.fixture
def running(small_server: LocalServer, tmp_path: Path) -> Iterator[tuple[Path, "subprocess.Popen[str]"]]:
    """A slow crawl in a process of its own, with some pages stored."""
    (tmp_path / "seeds.txt").write_text("http://directory.test/")
    process = subprocess.Popen(
        [sys.executable, "-m", "opilio", "crawl", str(tmp_path / "live"), "--seeds", str(tmp_path / "seeds.txt"),
         *link_contexts(small_server, workers=1), "--delay", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline_s = time.monotonic() + WAIT_S
        while not (tmp_path / "live" / "engine.json").exists() or Collection(tmp_path / "live").status().pages < 3:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        yield tmp_path / "live", process
    finally:
        process.kill()
        process.communicate()


# -- help


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str) -> None:
    """`--help` names the command and its options, and exits with 0."""
    ended = call(command, "--help")
    assert ended.returncode == 0
    assert ended.stdout.lower().startswith("usage:")
    assert len(ended.stdout.splitlines()) > 4
    assert not ended.stderr


def test_help_lists_all_commands_and_loads_none() -> None:
    """`opilio --help` names every command; it answers at once, for it loads neither database nor crawler."""
    code = (
        "import sys\nsys.argv = ['opilio', '--help']\nfrom opilio.cli import main\nmain()\n"
        "print(sorted({'duckdb', 'numpy', 'pycurl', 'rich'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for command in COMMANDS:
        assert f"\n  {command} " in ended.stdout
    assert ended.stdout.splitlines()[-1] == "[]"
    assert call("--version").stdout.startswith("opilio, version ")


def test_help_groups_commands_by_task_and_shows_aliases() -> None:
    """The list of commands has a heading for each task; an alias calls the command that it stands behind."""
    lines = call("--help").stdout.splitlines()
    headings = [line for line in lines if re.fullmatch(r"[A-Z][a-z ]+:", line)]
    assert headings == [
        "Options:",
        "Crawl:",
        "Look and search:",
        "Teach:",
        "Collections:",
        "This installation:",
        "Lab:",
    ]
    assert any(line.startswith("  status (info) ") for line in lines)
    assert max(map(len, lines)) <= 80
    for alias, name in aliases().items():
        assert call(alias, "--help").stdout == call(name, "--help").stdout
    assert call("train", "--help").stdout.splitlines()[2:] == call("topics", "train", "--help").stdout.splitlines()[2:]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["crwl"], "`crawl`"), (["lable", "x"], "`label`"), (["topics", "lst"], "list"), (["sql", "--writ"], "--write")],
)
def test_a_mistyped_name_suggests_the_nearest(typed: list[str], meant: str) -> None:
    """A wrong command, alias, subcommand or option names the one that was probably meant, and exits with 2."""
    ended = call(*typed)
    assert ended.returncode == 2
    assert "Did you mean" in ended.stderr and meant in ended.stderr
    assert "Did you mean" not in call("xyzxyz").stderr


def test_a_group_without_a_command_shows_its_help() -> None:
    """`opilio` and `opilio topics` alone print their help as it is, not as an error in one line."""
    for words in ([], ["topics"]):
        ended = call(*words)
        assert ended.returncode == 2
        assert ended.stderr.lower().startswith("usage:")
        assert "error:" not in ended.stderr


def test_bash_completes_commands_and_folders(tmp_path: Path) -> None:
    """Bash itself, with click's script loaded, completes a command, and a folder of a command."""
    program = tmp_path / "opilio"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m opilio "$@"\n')
    program.chmod(0o755)
    (tmp_path / "birds").mkdir()
    script = f"""
        cd {tmp_path}; PATH={tmp_path}:$PATH
        eval "$(_OPILIO_COMPLETE=bash_source opilio)"
        COMP_WORDS=(opilio cra); COMP_CWORD=1; COMPREPLY=(); _opilio_completion opilio; echo "${{COMPREPLY[@]}}"
        COMP_WORDS="opilio status bir" COMP_CWORD=2 _OPILIO_COMPLETE=bash_complete opilio
    """
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=30)
    assert ended.stdout.splitlines()[0] == "crawl", ended.stderr
    assert ended.stdout.splitlines()[1].startswith("dir,"), "bash then completes the names of folders"


@pytest.mark.parametrize("command", ["crawl", "serve", "evaluate", "publish"])
def test_ctrl_c_during_the_start_shows_no_traceback(command: str, tmp_path: Path) -> None:
    """SIGINT while a command is imported ends it at once with 130 and without a word."""
    of_command = "socket" if command in ("serve", "publish") else "opilio.model"
    for module in ("opilio.cli.log", of_command):  # while the command line is imported, and the command
        process = subprocess.Popen([sys.executable, "-X", "importtime", "-m", "opilio", command, tmp_path / "no", tmp_path / "no"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        assert process.stderr is not None
        while line := process.stderr.readline():
            if re.search(rf" {module}$", line):
                break
        assert line, f"{module} was never imported"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=WAIT_S)
        assert "Traceback" not in errors
        assert process.returncode == INTERRUPTED


def test_printed_commands_quote_folders(small_server: LocalServer, tmp_path: Path) -> None:
    """A folder with a space in its name stands in quotes in each command that is printed to be copied."""
    (tmp_path / "s.txt").write_text("http://directory.test/")
    folder = tmp_path / "my birds"
    ended = call("crawl", folder, "--seeds", tmp_path / "s.txt", *link_contexts(small_server), "--max-pages", "2")
    assert f"opilio serve '{folder}'" in ended.stdout
    assert f"opilio status '{folder}'" in ended.stdout
    assert f"opilio {folder}" not in ended.stdout


# -- crawl


def test_crawl_ends_with_a_summary(small_server: LocalServer, tmp_path: Path) -> None:
    """The summary says why the crawl ended, what it has and what was dropped why; log lines go to standard error."""
    (tmp_path / "b.html").write_text(small_server.web.bookmarks(small_server.web.topics[:2]))
    ended = opilio("crawl", tmp_path / "c", "--bookmarks", tmp_path / "b.html",
                   *link_contexts(small_server, workers=1), "--max-depth", "2", "--max-pages-per-host", "4")  # fmt: skip
    assert ended.returncode == 0
    lines = ended.stdout.splitlines()
    assert lines[0] == f"{tmp_path / 'c'}: frontier empty: every URL found was fetched or rejected"
    assert " pages in " in lines[1]
    assert " 0 waiting" in lines[2]
    assert any(": harvest " in line and line.endswith("as judged now") for line in lines)
    assert any(line.startswith("  stored ") and "ok" in line for line in lines)
    assert any(line.startswith("  refused by us ") and "host-limit" in line and "too-deep" in line for line in lines)
    assert f"opilio status {tmp_path / 'c'}" in ended.stdout
    assert "\x1b" not in ended.stdout + ended.stderr, "no terminal, so no colours and no panel"
    status = Collection(tmp_path / "c").status()
    assert len(status.topics) >= 3, "a topic for each folder, and the root"


def test_crawl_logs_plain_lines(small_server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where standard error is no terminal, a line with the figures comes every few seconds."""
    assert 2 <= display.LOG_EVERY_S <= 10
    monkeypatch.setattr(display, "LOG_EVERY_S", 2.0)
    (tmp_path / "s.txt").write_text("http://directory.test/")
    began_s = time.monotonic()
    ended = call("crawl", tmp_path / "c", "--seeds", tmp_path / "s.txt", *link_contexts(small_server), "--delay", "0.5s",
                 "--max-time", "2.5s")  # fmt: skip
    elapsed_s = time.monotonic() - began_s
    assert "time limit reached (2.5 s)" in ended.stdout
    lines = ended.stderr.splitlines()
    assert 1 <= len(lines) <= elapsed_s / 2.0
    assert all(" pages " in line and "/s), " in line and ", waiting " in line for line in lines)


def test_crawl_speaks_json_and_keeps_quiet(small_server: LocalServer, tmp_path: Path) -> None:
    """With --json each line is an object and the last one the end; with -q there is the summary alone."""
    (tmp_path / "s.txt").write_text("http://directory.test/")
    first = opilio("crawl", tmp_path / "c", "--seeds", tmp_path / "s.txt", *link_contexts(small_server), "--json",
                   "--max-pages", "7")  # fmt: skip
    events = [json.loads(line) for line in first.stdout.splitlines()]
    assert events[-1]["event"] == "end"
    assert events[-1]["reason"] == "page limit reached (7)"
    assert events[-1]["pages"] == 7
    assert first.stderr == ""
    second = call("crawl", tmp_path / "c", "-q", "--max-pages", "9")
    assert second.stdout.startswith(f"{tmp_path / 'c'}: page limit reached (9)")
    assert "Look:" not in second.stdout
    assert second.stderr == ""


def test_settings_come_from_file_options_and_set(small_server: LocalServer, tmp_path: Path) -> None:
    """--config is the ground, options and --set come on top; all are kept in crawl.toml and shown by `settings`."""
    (tmp_path / "s.txt").write_text("http://directory.test/")
    (tmp_path / "my.toml").write_text('[fetch]\nper_host = 1\nuser_agent = "Mine/2"\n[limits]\nmax_pages = 99\n')
    small_server.clear_log()
    ended = call("crawl", tmp_path / "c", "--seeds", tmp_path / "s.txt", "--config", tmp_path / "my.toml",
                 *link_contexts(small_server, workers=1), "--max-pages", "5", "--max-bytes", "2GB", "--max-time", "1h",
                 "--set", "frontier.hot_urls=30", "--contact", "http://me.test/", "-q")  # fmt: skip
    assert "page limit reached (5)" in ended.stdout
    shown = call("settings", tmp_path / "c").stdout
    for line in ("per_host = 1", 'user_agent = "Mine/2"', "max_pages = 5", "max_bytes = 2000000000",
                 "max_time_s = 3600.0", "hot_urls = 30", "workers = 1"):  # fmt: skip
        assert line in shown.splitlines()
    assert {request.user_agent for request in small_server.requests()} == {"Mine/2 (+http://me.test/)"}
    everything = call("settings").stdout
    assert "in_flight = " in everything and "[robots]" in everything


def test_a_crawl_goes_on_and_takes_more_seeds(small_server: LocalServer, tmp_path: Path) -> None:
    """The folder alone goes on; new seeds are added and counted; 0 takes the limit away."""
    (tmp_path / "s.txt").write_text("http://directory.test/")
    (tmp_path / "t.txt").write_text("http://directory.test/\nhttp://trouble.test/\n")
    call("crawl", tmp_path / "c", "--seeds", tmp_path / "s.txt", *link_contexts(small_server), "--max-pages", "3", "-q")
    again = call("crawl", tmp_path / "c", "--seeds", tmp_path / "t.txt", "--max-pages", "6", "-q")
    assert again.stderr == "1 new seeds\n"
    assert "page limit reached (6)" in again.stdout
    assert Collection(tmp_path / "c").sql("SELECT count(*) FROM crawl WHERE depth = 0").rows == [(2,)]


def test_who_cannot_be_reached_is_warned(tmp_path: Path) -> None:
    """Without a contact URL a crawl of the real web begins with a warning that says what to do."""
    (tmp_path / "s.txt").write_text("http://localhost/")
    ended = call("crawl", tmp_path / "c", "--seeds", tmp_path / "s.txt", "-q", "--workers", "-1")
    assert ended.stderr.startswith("warning: no contact URL is set")
    assert "private-address 1" in ended.stdout


# -- asking a finished collection


def test_status_of_a_finished_crawl(finished: Path) -> None:
    """`status` tells the same as the summary did, as text and as JSON."""
    text = call("status", finished).stdout
    assert text.startswith(f"{finished}: page limit reached (25)\n  25 pages in ")
    told = json.loads(call("status", finished, "--json").stdout)
    assert told["pages"] == 25 and told["running"] is False
    assert told["outcomes"]["ok"] == 25


def test_sql_prints_tables_and_other_forms(finished: Path) -> None:
    """The four forms of an answer hold the same rows; a statement can come on standard input."""
    query = "SELECT depth, count(*) AS n FROM collection GROUP BY depth ORDER BY depth"
    rows = Collection(finished).sql(query).rows
    table = call("sql", finished, query).stdout.splitlines()
    assert table[0].split() == ["depth", "n"]
    assert [tuple(map(int, line.split())) for line in table[1:]] == rows
    read = list(csv.reader(io.StringIO(call("sql", finished, query, "--format", "csv").stdout)))
    assert [tuple(map(int, row)) for row in read[1:]] == rows
    objects = json.loads(call("sql", finished, query, "--format", "json").stdout)
    assert [tuple(o.values()) for o in objects] == rows
    lines = call("sql", finished, query, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == objects
    piped = subprocess.run(
        [sys.executable, "-m", "opilio", "sql", str(finished), "-"],
        input="SELECT 6 * 7 AS answer", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert piped.stdout.split() == ["answer", "42"]


def test_sql_writes_only_when_allowed(finished: Path) -> None:
    """Without --write nothing changes and the refusal says what is allowed; with it the change is kept."""
    refused = call("sql", finished, "UPDATE topics SET description = 'all'")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[0] == "error: UPDATE would change the collection"
    assert call("sql", finished, "UPDATE topics SET description = 'all'", "--write").returncode == 0
    assert Collection(finished).sql("SELECT DISTINCT description FROM topics").rows == [("all",)]
    impossible = call("sql", finished, "UPDATE topics SET type = 'path'", "--write")
    assert impossible.returncode == 1
    assert impossible.stderr.splitlines()[0] == "error: no topic would be good, so no page would be wanted"


def test_text_of_pages_cannot_steer_the_terminal(finished: Path) -> None:
    """Control characters of stored text reach the terminal neither in a table nor in an error message."""
    shown = call("sql", finished, "SELECT chr(27) || '[31mred' || chr(7) || chr(10) || 'next' AS title")
    assert shown.returncode == 0
    assert "\x1b" not in shown.stdout and "\x07" not in shown.stdout
    assert " [31mred  next" in shown.stdout
    failed = call("sql", finished, "SELECT (chr(27) || '[31mred')::INTEGER")
    assert failed.returncode == 1
    assert "[31mred" in failed.stderr and "\x1b" not in failed.stderr


def test_a_reader_that_goes_away_is_no_error(finished: Path) -> None:
    """`opilio sql ... | head -1` ends quietly."""
    command = f"{sys.executable} -m opilio sql {finished} 'FROM range(90000)' --format csv | head -1"
    ended = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert ended.stdout == "range\n"
    assert ended.stderr == ""
    assert ended.returncode == 0


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_export_writes_the_pages(form: str, finished: Path, tmp_path: Path) -> None:
    """Each form holds the pages asked for, with the columns asked for."""
    target = tmp_path / f"pages.{form}"
    ended = call("export", finished, target, "--columns", "url, depth", "--where", "depth < 2")
    assert ended.returncode == 0
    expected = set(Collection(finished).sql("SELECT url, depth FROM collection WHERE depth < 2").rows)
    assert f"{len(expected)} pages written to {target}" in ended.stderr
    if form == "jsonl":
        found = {tuple(json.loads(line).values()) for line in target.read_text().splitlines()}
    elif form == "csv":
        with target.open(newline="") as file:
            found = {(row["url"], int(row["depth"])) for row in csv.DictReader(file)}
    else:
        found = {tuple(row.values()) for row in pyarrow.parquet.read_table(target).to_pylist()}
    assert found == expected
    assert [file.name for file in tmp_path.iterdir()] == [target.name]


def test_export_to_standard_output(finished: Path) -> None:
    """`-` writes to standard output and nothing else goes there."""
    ended = call("export", finished, "-", "--format", "jsonl", "--columns", "url")
    urls = {json.loads(line)["url"] for line in ended.stdout.splitlines()}
    assert urls == {url for (url,) in Collection(finished).sql("SELECT url FROM collection").rows}


def test_policy_of_a_finished_crawl(finished: Path) -> None:
    """`policy` shows the order in force and changes it for the next crawl; `stop` says that nothing runs."""
    assert call("policy", finished).stdout == "auto\n"
    changed = call("policy", finished, "numtries, relevance DESC, serverload")
    assert changed.stdout == "changed; the next crawl follows it\n"
    assert call("policy", finished).stdout == "sql: numtries, relevance DESC, serverload\n"
    assert call("policy", finished, "--n", "16").stdout.startswith("changed")
    assert Collection(finished).settings.frontier.n == 16
    assert call("policy", finished, "--strategy", "best-first").returncode == 0
    assert call("stop", finished).stdout == f"no crawl runs in {finished}\n"


# -- asking a crawl that runs, from another process


def test_a_running_crawl_answers(running: tuple[Path, "subprocess.Popen[str]"], tmp_path: Path) -> None:
    """status, sql, policy and export work beside a crawl; a second crawl is refused and changes nothing; stop ends it."""
    folder, process = running
    status = call("status", folder)
    assert status.stdout.startswith(f"{folder}: running\n")
    assert re.search(r" (1 request|(0|[2-9]|[1-9]\d+) requests) under way", status.stdout)
    assert json.loads(call("status", folder, "--json").stdout)["running"] is True

    counted = call("sql", folder, "SELECT count(*) AS n FROM pages", "--format", "json")
    assert json.loads(counted.stdout)[0]["n"] >= 3
    assert call("sql", folder, "DELETE FROM pages").returncode == 1

    assert call("policy", folder, "depth DESC").stdout == "changed; the running crawl follows it now\n"
    assert call("policy", folder).stdout == "sql: depth DESC\n"
    bad = call("policy", folder, "relevnce DESC")
    assert bad.returncode == 1 and "Did you mean relevance?" in bad.stderr

    assert call("policy", folder, "--strategy", "evidence").returncode == 0
    linked = call("explain", folder, "http://directory.test/", "--link")
    assert linked.returncode == 0 and "pages lead to it" in linked.stdout, linked.stderr
    distilled = json.loads(call("distill", folder, "--method", "pagerank", "--json").stdout)
    assert distilled["method"] == "pagerank" and len(distilled["authorities"]) >= 3

    assert call("export", folder, tmp_path / "now.csv").returncode == 0
    exported = call("export", folder, "-", "--columns", "url")
    assert exported.returncode == 0, exported.stderr
    assert len(exported.stdout.splitlines()) >= 3

    before = (folder / "crawl.toml").read_text()
    second = call("crawl", folder, "--max-pages", "1")
    assert second.returncode == 1
    assert second.stderr.startswith(f"error: {folder}: ") and "\nhint: " in second.stderr
    assert call("crawl", folder).returncode == 1
    assert (folder / "crawl.toml").read_text() == before, "the settings of a crawl do not change under it"

    assert opilio("stop", folder).stdout == "stopping: requests under way are finished first\n"
    out, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert out.startswith(f"{folder}: stopped by `opilio stop`")
    assert call("status", folder).stdout.startswith(f"{folder}: stopped by `opilio stop`")


def test_a_note_left_by_a_killed_crawl_misleads_nobody(running: tuple[Path, "subprocess.Popen[str]"]) -> None:
    """After kill -9 the note is still there; commands find that nobody answers and open the database themselves."""
    folder, process = running
    process.kill()
    process.wait()
    assert (folder / "engine.json").exists()
    status = call("status", folder)
    assert status.returncode == 0, status.stderr
    assert "killed" in status.stdout.splitlines()[0]
    assert call("sql", folder, "SELECT count(*) FROM crawl").returncode == 0
    assert call("stop", folder).stdout.startswith("no crawl runs")


# -- how figures are written


def test_figures_are_written_for_people() -> None:
    """Sizes, times and sparklines in the forms a person reads."""
    assert [show_bytes(n) for n in (0, 999, 1000, 1_234_567, 5e12)] == ["0 B", "999 B", "1 kB", "1.23 MB", "5 TB"]
    assert [show_duration(s) for s in (0.4, 61, 3700, 90_000)] == ["0 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]
    assert sparkline([]) == ""
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert len(sparkline([0.1] * 100)) == 40


def test_a_demo_without_pages_still_says_what_to_do(
    make_taught: MakeTaught, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a demo in which nothing but bookmarks was fetched, or nothing at all, no page can be named as the best. The
    command is explained only to those who do not have it on their path."""
    collection = make_taught(limits__max_pages=1)
    assert demo._example(collection) == "URL"
    collection.crawl()
    assert demo._example(collection).startswith("http://")
    for found in (None, "/usr/bin/opilio"):
        monkeypatch.setattr("shutil.which", lambda name, found=found: found)
        demo._show(collection, tmp_path / "site", "words")
        shown = capsys.readouterr().out
        assert "opilio serve" in shown and ("export PATH=" in shown) == (found is None)
