"""`opilio completion`: have a shell complete commands, options and folders.

The script is click's own. For bash and zsh it is a file in the user's data folder, read by one line in the shell's
start file; fish reads it from its own folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from opilio.cli.log import tell
from opilio.errors import InputError, OpilioError

SHELLS = ("bash", "zsh", "fish")
_MARK = "# added by: opilio completion install"
_ZSH_START = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n"
"""zsh completes nothing before this, and without a start file nobody has called it."""


@dataclass(frozen=True)
class CompletionFiles:
    """Where the completion of a shell is kept."""

    script: Path
    start: Path | None
    """The file that the shell reads when it starts, to which a line is added; None if it finds the script itself."""

    @classmethod
    def of(cls, shell: str, environment: Mapping[str, str]) -> CompletionFiles:
        """Those of the user of an environment."""
        home = Path(environment.get("HOME") or Path.home())
        if shell == "fish":
            config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
            return cls(config / "fish" / "completions" / "opilio.fish", None)
        data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
        start = home / ".bashrc" if shell == "bash" else Path(environment.get("ZDOTDIR") or home) / ".zshrc"
        return cls(data / "opilio" / f"completion.{shell}", start)

    @property
    def line(self) -> str:
        """What is added to the start file."""
        path = str(self.script).replace("'", "'\\''")
        return f"[ -r '{path}' ] && . '{path}'  {_MARK}\n"


@click.group()
def completion() -> None:
    """Have your shell complete commands, options and folders: bash, zsh or fish.

    \b
    opilio completion install          (for the shell that you use)
    opilio completion install zsh
    opilio completion show fish        (print the script, to put it where you like)
    opilio completion remove
    """


_shell = click.argument("shell", type=click.Choice(SHELLS), required=False)


@completion.command()
@_shell
def install(shell: str | None) -> None:
    """Install the completion for SHELL, by default the one in the variable SHELL. Open a new shell afterwards."""
    name = shell or _own_shell()
    files = CompletionFiles.of(name, os.environ)
    try:
        files.script.parent.mkdir(parents=True, exist_ok=True)
        files.script.write_text(_script(name))
        if files.start is not None and _MARK not in _read(files.start):
            before = _read(files.start)
            with files.start.open("a") as start:
                start.write(("\n" if before and not before.endswith("\n") else "") + files.line)
    except OSError as error:
        raise OpilioError(
            f"{error.filename}: {error.strerror}", f"Put it elsewhere yourself: opilio completion show {name}"
        ) from None
    click.echo(f"wrote {files.script}" + (f", which {files.start} reads" if files.start else ""))
    click.echo(f"Open a new {name}, then type: opilio <Tab>")


@completion.command()
@_shell
def show(shell: str | None) -> None:
    """Print the script for SHELL."""
    click.echo(_script(shell or _own_shell()))


@completion.command()
@_shell
def remove(shell: str | None) -> None:
    """Remove what `install` has written."""
    name = shell or _own_shell()
    files = CompletionFiles.of(name, os.environ)
    was_there = files.script.exists()
    files.script.unlink(missing_ok=True)
    if files.start is not None and _MARK in _read(files.start):
        kept = [line for line in _read(files.start).splitlines(keepends=True) if _MARK not in line]
        start = files.start.resolve()  # it may be a link to a file that the user keeps elsewhere
        written = start.with_name(f"{start.name}.opilio")
        written.write_text("".join(kept))
        shutil.copymode(start, written)
        written.replace(start)
    tell("notice", f"removed {files.script}" if was_there else f"there was no completion for {name}")


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise InputError(
            f"the shell {name!r} is not known" if name else "the variable SHELL does not say which shell you use",
            f"Name it: {', '.join(SHELLS)}.",
        )
    return name


def _script(shell: str) -> str:
    from opilio.cli import cli  # noqa: PLC0415  (it lists this command)

    kind = get_completion_class(shell)
    assert kind is not None, shell
    script = kind(cli, {}, "opilio", "_OPILIO_COMPLETE").source()
    return (_ZSH_START if shell == "zsh" else "") + script


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""
