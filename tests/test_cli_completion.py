"""Completion in real shells: installed by one command, it completes commands, options and folders; and is removed."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import opilio

SOURCE = str(Path(opilio.__file__).parent.parent)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of a user without any files, who has `opilio` on the path."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "opilio"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m opilio "$@"\n')
    program.chmod(0o755)
    (tmp_path / "home" / "birds of prey").mkdir(parents=True)
    return {
        "HOME": str(tmp_path / "home"), "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": SOURCE,
        "TERM": "dumb", "LANG": "C.UTF-8",
    }  # fmt: skip


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env=environment, cwd=environment["HOME"], capture_output=True, text=True, timeout=60, check=False
    )


def install(environment: dict[str, str], shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    for _ in range(2):  # a second time changes nothing
        ended = run({**environment, "SHELL": f"/usr/bin/{shell}"}, "opilio", "completion", "install")
        assert ended.returncode == 0, ended.stderr


def test_bash(environment: dict[str, str]) -> None:
    """An interactive bash that reads its start file completes."""
    start = Path(environment["HOME"]) / ".bashrc"
    start.write_text("export BEFORE=1")  # without an end of line
    install(environment, "bash")
    asked = "COMP_WORDS=(opilio {}); COMP_CWORD={}; _opilio_completion opilio; echo $BEFORE ${{COMPREPLY[@]}}"
    for words, number, expected in (
        ("cra", 1, "1 crawl"),
        ("crawl --max-pages-", 2, "1 --max-pages-per-host"),
        ("topics mar", 2, "1 mark"),
    ):
        ended = run(environment, "bash", "-i", "-c", asked.format(words, number))
        assert ended.stdout.strip().splitlines()[-1] == expected, ended.stderr
    assert start.read_text().count("opilio") == 3
    ended = run(environment, "opilio", "completion", "remove", "bash")
    assert ended.returncode == 0 and start.read_text() == "export BEFORE=1\n"
    assert not list(Path(environment["HOME"]).rglob("completion.bash"))


def test_fish(environment: dict[str, str]) -> None:
    """fish finds the script by itself."""
    install(environment, "fish")
    ended = run(environment, "fish", "-c", "complete -C 'opilio migr'")
    assert ended.stdout.split()[0] == "migrate", ended.stderr
    assert run(environment, "opilio", "completion", "remove", "fish").returncode == 0
    assert not run(environment, "fish", "-c", "complete -C 'opilio migr'").stdout.startswith("migrate")


def test_zsh(environment: dict[str, str]) -> None:
    """An interactive zsh without any start file of its own completes when Tab is pressed."""
    install(environment, "zsh")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(environment["HOME"])
        os.execvpe("zsh", ["zsh", "-i"], {**environment, "PS1": "ready> "})
    try:
        shown = read_until(terminal, "ready> ")
        os.write(terminal, b"opilio migr\t")
        assert "migrate" in read_until(terminal, "migrate"), shown
    finally:
        os.kill(child, 9)
        os.close(terminal)
        os.waitpid(child, 0)


def read_until(terminal: int, text: str) -> str:
    """What a terminal shows until some text appears; what there was after 30 seconds otherwise."""
    shown, until_s = "", time.monotonic() + 30
    while text not in shown and time.monotonic() < until_s:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 4096).decode("utf-8", "replace")
    return shown


def test_a_shell_that_is_not_known(environment: dict[str, str]) -> None:
    """The error names the shells; a script can be printed for any of them."""
    ended = run({**environment, "SHELL": "/bin/tcsh"}, "opilio", "completion", "install")
    assert ended.returncode == 1 and "bash, zsh, fish" in ended.stderr
    assert "complete" in run(environment, "opilio", "completion", "show", "fish").stdout
