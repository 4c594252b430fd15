"""The manual page opilio(1), made from the commands: `docs/generate.py` writes it to docs/reference/opilio.1."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from opilio import __version__
from opilio.cli import aliases, cli

_NAMES = re.compile(r"(?<!\w)(--?[a-z][\w-]*)")


def man_page() -> str:
    """The manual page in the language of man(7)."""
    lines = [
        f'.TH OPILIO 1 "" "Opilio {__version__}" "User Commands"',
        ".\\\" Made by docs/generate.py from the code: do not edit.",
        ".SH NAME", "opilio \\- a focused crawler",
        ".SH SYNOPSIS", ".B opilio", ".I COMMAND", "[\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]",
        ".br", ".B opilio \\-\\-help",
        ".SH DESCRIPTION", *_paragraphs(cli.help or ""),
        ".SH COMMANDS",
    ]  # fmt: skip
    context = click.Context(cli, info_name="opilio")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        lines += _command(command, click.Context(command, info_name=name, parent=context))
    others = ", ".join(f"\\fBopilio {alias}\\fR is \\fBopilio {name}\\fR" for alias, name in aliases().items())
    lines += [
        ".SH ALIASES", f"{others}.",
        ".SH EXIT STATUS",
        "0 on success, 1 on an error, which is one line and a line with the next step, 2 on a wrong call, 130 when "
        "interrupted.",
        ".SH ENVIRONMENT",
        ".TP", ".B OPILIO_TOKEN", "The token that changes in the portal need; otherwise each start makes a new one.",
        ".TP", ".B OPILIO_LOG_FORMAT", "The default of \\-\\-log\\-format: text or json.",
        ".SH FILES",
        ".TP", ".I FOLDER/crawl.toml", "The settings of a collection that differ from the defaults.",
        ".TP", ".I FOLDER/collection.duckdb", "Its database.",
        ".TP", ".I FOLDER/warc/", "All responses, as WARC files.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    """A command, or each command of a group."""
    yield f".SS {_escaped(context.command_path)}"
    yield from _paragraphs(command.help or "")
    yield ".PP"
    yield f"\\fB{_escaped(context.command_path)}\\fR {_escaped(' '.join(command.collect_usage_pieces(context)))}"
    for parameter in command.params:
        shown = parameter.get_help_record(context)
        if shown is not None and shown[1]:
            yield from (".TP", _names(shown[0]), _escaped(" ".join(shown[1].split())))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, click.Context(below, info_name=name, parent=context))


def _paragraphs(text: str) -> Iterator[str]:
    """The help of a command: paragraphs, and what stands as it is."""
    for block in text.replace("\r", "").split("\n\n"):
        lines = block.strip("\n").splitlines()
        if lines and lines[0].strip() == "\b":
            yield from (".PP", ".nf", ".RS", *(_escaped(line.strip()) for line in lines[1:]), ".RE", ".fi")
        elif lines:
            yield from (".PP", _escaped(" ".join(" ".join(lines).split())))


def _names(record: str) -> str:
    """The names of an option in bold."""
    return _NAMES.sub(lambda found: f"\\fB{found[1]}\\fR", _escaped(record).replace("\\-", "-")).replace("-", "\\-")


def _escaped(text: str) -> str:
    """A line that holds no command."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe
