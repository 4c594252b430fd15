"""The reference pages, made from the code: settings, commands, outcomes and the Python interface.

    python docs/generate.py            write docs/reference/*.md and the manual page opilio.1 (`manual.py`)
    python docs/generate.py --check    write nothing; exit with 1 when a page differs from the code

Names, types, defaults and most explanations are read from the code. What the code has no words for stands in the two
tables of this file, and a name that has no explanation in either place is an error: so nothing new goes undocumented.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import click
from manual import man_page

from opilio import Collection, errors, merge, settings, shared_pages, split
from opilio.cli import aliases as cli_aliases
from opilio.cli import cli
from opilio.crawl import Status
from opilio.model import Outcome, OutcomeKind
from opilio.parts.merge import MergeReport
from opilio.parts.shared import SharedReport
from opilio.parts.split import PartReport
from opilio.store import Result

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- Made by docs/generate.py from the code: do not edit. -->"

SETTINGS_INTRO = """\
All settings of a collection, with their defaults. They live in `crawl.toml` in the folder of the collection, which
holds only those that differ from the defaults; the command `opilio settings` prints all of them. Change one by
`--set SECTION.KEY=VALUE` on `opilio crawl`, from Python by the dotted name, or in the file. A unit is part of a name:
`_s` is seconds, `_bytes` bytes. A running crawl keeps the settings it started with, except for the order of the
frontier (`opilio policy`).

```toml
[limits]
max_pages = 1000

[fetch]
host_delay_s = 2.0
contact_url = "https://example.org/crawler"
```
"""


def settings_page() -> str:
    """Each section of crawl.toml with its keys."""
    defaults = _defaults()
    lines = ["# Settings", "", NOTE, "", SETTINGS_INTRO]
    for section in dataclasses.fields(settings.Settings):
        cls = typing.get_type_hints(settings.Settings)[section.name]
        lines += [f"## {section.name}", "", inspect.getdoc(cls) or "", "", "| key | type | default | meaning |"]
        lines.append("|---|---|---|---|")
        for name, hint in typing.get_type_hints(cls).items():
            words = _words_of(cls, section.name, name)
            default = defaults[section.name, name].replace("|", "\\|")
            lines.append(f"| `{name}` | {_type_name(hint)} | `{default}` | {words} |")
        lines.append("")
    return "\n".join(lines)


def _defaults() -> dict[tuple[str, str], str]:
    """Every default as TOML writes it."""
    found: dict[tuple[str, str], str] = {}
    section = ""
    for line in settings.to_toml(settings.Settings(), everything=True).splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line:
            key, _, value = line.partition(" = ")
            found[section, key] = value
    return found


def _words_of(cls: type, section: str, name: str) -> str:
    """The comment above a setting."""
    words = _comments(cls).get(name)
    if not words:
        raise SystemExit(f"settings/sections.py, {section}.{name}: no comment above it")
    return words.replace("|", "\\|")


def _comments(cls: type) -> dict[str, str]:
    """The comment lines directly above each field of a dataclass."""
    source = inspect.getsource(cls)
    lines = source.splitlines()
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above: list[str] = []
            at = node.lineno - 2
            while at >= 0 and lines[at].strip().startswith("#"):
                above.insert(0, lines[at].strip().lstrip("# "))
                at -= 1
            if above:
                found[node.target.id] = " ".join(above)
    return found


def _type_name(hint: object) -> str:
    if typing.get_origin(hint) is tuple:
        return "list of numbers" if typing.get_args(hint)[0] is float else "list of strings"
    if isinstance(hint, types.GenericAlias):
        return "table"
    return {int: "integer", float: "number", bool: "true or false", str: "string"}[typing.cast(type, hint)]


def cli_page() -> str:
    """Every command with its arguments and options."""
    lines = [
        "# Commands", "", NOTE, "",
        "An error is one line and a `hint:` line with the next step, and exit code 1; a wrong call exits with 2, an "
        "interrupted command with 130. A crawl that ends by a limit or by `opilio stop` exits with 0, and with 1 if no "
        "page is stored.", "",
        "Aliases: " + ", ".join(f"`opilio {alias}` is `opilio {name}`" for alias, name in cli_aliases().items()) + ".",
        "",
        "`opilio completion install` has your shell complete commands, options and folders.", "",
    ]  # fmt: skip
    context = click.Context(cli)
    lines += ["```text", *(f"opilio {name}" for name in cli.list_commands(context)), "opilio --version", "```", ""]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        lines += _command(name, command)
    return "\n".join(lines)


def _command(name: str, command: click.Command) -> Iterator[str]:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option)]
    usage = [f"opilio {name}", *(["[OPTIONS]"] if options else []), *(_argument(p) for p in arguments)]
    parts = command.commands if isinstance(command, click.Group) else {}
    if parts:
        usage.append(f"{{{'|'.join(parts)}}} ...")
    yield from (f"## opilio {name}", "", "```text", " ".join(usage), "```", "", *_help(command.help or ""))
    if options:
        yield from ("| option | value | what it does |", "|---|---|---|")
        for option in options:
            names = ", ".join(f"`{text}`" for text in [*option.opts, *option.secondary_opts])
            yield f"| {names} | {_value(option)} | {(option.help or '').replace('|', chr(92) + '|')} |"
        yield ""
    for part, inner in parts.items():
        yield from _command(f"{name} {part}", inner)


def _argument(argument: click.Argument) -> str:
    name = (argument.metavar or argument.name or "").upper()
    if argument.nargs == -1:
        return f"[{name}]..."
    return name if argument.required else f"[{name}]"


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return ", ".join(f"`{choice}`" for choice in option.type.choices)
    names = {"text": "text", "path": "file or folder", "integer range": "integer"}
    return names.get(option.type.name, option.type.name)


def _help(text: str) -> Iterator[str]:
    """The paragraphs of a command's help; those that click leaves as they are become code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ("```text", *paragraph.splitlines()[1:], "```", "")
        else:
            yield from (" ".join(paragraph.split()), "")


def outcomes_page() -> str:
    """Every outcome with its family, and what follows from it."""
    lines = [
        "# Outcomes", "", NOTE, "",
        "What became of a URL. `crawl.outcome` holds the last word about a URL, `visits.outcome` that of each request; "
        "the summary of a crawl counts them by family. *Retry*: the URL is asked for again, at most `fetch.max_tries` "
        "times in all, after a growing wait. *Blames the host*: the origin (http or https on a host) becomes `slow`, "
        "and `bad` after `fetch.host_tries` such outcomes in a row; the URLs of a bad origin get the outcome of its "
        "last failure (`origins.problem`), also those that were never asked for. *State* is `crawl.state` once it is "
        "the last word.", "",
        "```sql", "SELECT outcome, any_value(detail) AS example, count(*) AS requests",
        "FROM visits GROUP BY outcome ORDER BY requests DESC", "```", "",
    ]  # fmt: skip
    for kind in OutcomeKind:
        lines += [f"## {kind.value.capitalize()}", "", "| outcome | meaning | state | retry | blames the host |"]
        lines.append("|---|---|---|---|---|")
        for outcome in Outcome:
            if outcome.kind is kind:
                marks = [("yes" if mark else "") for mark in (outcome.may_retry, outcome.blames_host)]
                words = outcome.meaning
                lines.append(f"| `{outcome.value}` | {words} | {outcome.final_state.value} | {marks[0]} | {marks[1]} |")
        lines.append("")
    return "\n".join(lines)


def python_page() -> str:
    """The public classes."""
    lines = [
        "# Python",
        "",
        NOTE,
        "",
        "`from opilio import Collection, OpilioError, merge, shared_pages, split`. "
        "[The guide](../guides/python.md) has examples that run.",
        "",
    ]
    lines += ["## Collection", "", inspect.getdoc(Collection) or "", ""]
    lines += ["```python", f"Collection{_signature(Collection)}", "```", ""]
    lines += ["`folder` and `settings` are attributes: a `Path` and the settings the collection has.", ""]
    members = {
        **vars(Collection),
        **{name: member for base in Collection.__bases__ for name, member in vars(base).items()},
    }
    for name, member in members.items():
        method = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        shown = f"Collection.{name}" if isinstance(member, classmethod) else f"collection.{name}"
        lines += [
            f"### {name}",
            "",
            "```python",
            f"{shown}{_signature(method)}",
            "```",
            "",
            inspect.getdoc(method) or "",
            "",
        ]
    lines += ["## Parts of collections", ""]
    for function in (split, merge, shared_pages):
        lines += [f"### {function.__name__}", "", "```python", f"{function.__name__}{_signature(function)}", "```", ""]
        lines += [inspect.getdoc(function) or "", ""]
    for report in (PartReport, MergeReport, SharedReport):
        lines += [f"### {report.__name__}", "", inspect.getdoc(report) or "", "", "| field | type |", "|---|---|"]
        lines += [*(f"| `{f.name}` | `{f.type}` |" for f in dataclasses.fields(report)), ""]
    lines += ["## Status", "", inspect.getdoc(Status) or "", "", "| field | type |", "|---|---|"]
    lines += [f"| `{f.name}` | `{f.type}` |".replace(" | None", " \\| None") for f in dataclasses.fields(Status)]
    lines += ["", "## Result", "", inspect.getdoc(Result) or "", "", "| field | type |", "|---|---|"]
    lines += [f"| `{f.name}` | `{f.type}` |" for f in dataclasses.fields(Result)]
    lines += ["", "## Errors", "", "```text", inspect.cleandoc(errors.__doc__ or "").partition("\n\n")[2], "```", ""]
    return "\n".join(lines)


def _signature(function: object) -> str:
    """A signature, one parameter a line when it is long."""
    signature = inspect.signature(typing.cast("types.FunctionType", function))
    parts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(f"{parameter.name}: {parameter.annotation}{_default(parameter.default)}")
    result = f" -> {signature.return_annotation}"
    one_line = f"({', '.join(parts)}){result}"
    return one_line if len(one_line) < 100 else "(\n    " + ",\n    ".join(parts) + f",\n){result}"


def _default(value: object) -> str:
    """How a default is shown; a function that does nothing as `...`."""
    if value is inspect.Parameter.empty:
        return ""
    return " = ..." if callable(value) else f" = {value!r}".replace("''", '""')


PAGES = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "outcomes.md": outcomes_page,
    "python.md": python_page,
    "opilio.1": man_page,
}


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description="Make the reference pages from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a page is out of date")
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        path, text = FOLDER / name, make().rstrip("\n") + "\n"
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(name)
            if not check:
                FOLDER.mkdir(exist_ok=True)
                path.write_text(text, "utf-8")
    if stale:
        print(f"{'out of date' if check else 'written'}: {', '.join(stale)}")
    if stale and check:
        print("hint: run `python docs/generate.py`", file=sys.stderr)
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
