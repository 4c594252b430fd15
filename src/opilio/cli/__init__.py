"""The command line: one module per group of commands, each loaded when it is called.

`main` is the one place where an error becomes a message: the error in one line, a `hint:` line with the next step, exit
code 1. A wrong call exits with 2, an interrupted crawl with 130. What is not listed there is a defect of ours: it shows
its traceback.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import NoReturn, TextIO

import click

from opilio import __version__
from opilio.errors import CollectionError, InputError, OpilioError, QueryError, SettingsError
from opilio.process import use_one_thread

INTERRUPTED = 130  # exit code after Ctrl-C, as shells have it

_COMMANDS = {  # where each is, and what the list of commands says of it
    "crawl": ("opilio.cli.crawl:crawl", "Make a collection, or go on with one."),
    "serve": ("opilio.cli.portal:serve", "Show the portal: browse, search, teach, watch."),
    "federate": ("opilio.cli.federate:federate", "Search several collections as one, here and elsewhere."),
    "search": ("opilio.cli.search:search", "Search the stored pages."),
    "status": ("opilio.cli.ask:status", "Show how a crawl stands, while it runs or after."),
    "sql": ("opilio.cli.ask:sql", "Ask the database of a collection."),
    "policy": ("opilio.cli.ask:policy", "Change the order in which URLs are asked for."),
    "stop": ("opilio.cli.ask:stop", "Stop the crawl that runs."),
    "pause": ("opilio.cli.steer:pause", "Let the crawl that runs ask for nothing new."),
    "resume": ("opilio.cli.steer:resume", "Let a paused crawl go on."),
    "host": ("opilio.cli.steer:host", "Lock a host, unlock it, or let it come sooner."),
    "topics": ("opilio.cli.teach:topics", "Look at the topics, and teach what is wanted."),
    "explain": ("opilio.cli.teach:explain", "Show why a page is judged as it is."),
    "models": ("opilio.cli.teach:models", "List, compare and choose the models that judge."),
    "census": ("opilio.cli.distill:census", "Show which topics the pages fell into, and what to do about it."),
    "archetypes": (
        "opilio.cli.archetypes:archetypes",
        "Look at what a crawl learns from by itself; confirm, reject, trim.",
    ),
    "feedback": ("opilio.cli.review:feedback", "Say of a page whether it is relevant, or where it belongs."),
    "clusters": ("opilio.cli.review:clusters", "Find clusters in a topic, and make subtopics of them."),
    "review": ("opilio.cli.review:review", "Judge a sample of a topic, and know how good all of it is."),
    "distill": ("opilio.cli.distill:distill", "List the best hubs and authorities."),
    "export": ("opilio.cli.ask:export", "Write the pages to a file."),
    "offer": ("opilio.cli.federate:offer", "Hand over to other collections the URLs that suit them."),
    "split": ("opilio.cli.parts:split", "Divide a collection by topic."),
    "merge": ("opilio.cli.parts:merge", "Make one collection of several."),
    "publish": ("opilio.cli.portal:publish", "Write the portal as a site that needs no server."),
    "settings": ("opilio.cli.ask:settings", "Show the settings of a collection, or all defaults."),
    "record": ("opilio.cli.lab:record", "Record a web, on which crawls can be repeated and compared."),
    "replay": ("opilio.cli.lab:replay", "Serve a recorded web on this machine."),
    "evaluate": ("opilio.cli.lab:evaluate", "Compare strategies on recorded webs."),
    "demo": ("opilio.cli.demo:demo", "See it at work on this machine, offline."),
    "localweb": ("opilio.cli.demo:localweb", "Serve the web of the demo, for crawls of your own."),
}

# For errors that come without a hint of their own.
_HINTS: dict[type[OpilioError], str] = {
    SettingsError: "`opilio settings` lists all settings with their defaults.",
    InputError: "`opilio crawl --help` shows what can be given.",
    CollectionError: "`opilio status FOLDER` shows how a collection stands.",
    QueryError: "docs/sql.md describes the tables.",
}


class LazyGroup(click.Group):
    """Commands by name, imported when they are needed, so that `opilio --help` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order a user meets them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in _COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="opilio")
def cli() -> None:
    """Opilio, a focused crawler: from bookmarks, examples or a question to a topical collection of the web.

    \b
    Begin:     opilio crawl birds --bookmarks bookmarks.html --max-pages 1000
    Go on:     opilio crawl birds
    Watch:     opilio status birds        (from another terminal, while it runs)
    Ask:       opilio sql birds "SELECT url, title FROM collection ORDER BY relevance DESC LIMIT 10"
    Take out:  opilio export birds pages.parquet
    Try it:    opilio demo                (offline, on a web made from the documentation on this machine)
    """


def main() -> None:
    """Entry point of the command `opilio`."""
    use_one_thread()
    warnings.showwarning = _show_warning
    try:
        cli(standalone_mode=False)
    except OpilioError as error:
        hints = [hint for kind, hint in _HINTS.items() if isinstance(error, kind)]
        _fail(error.message, error.hint or (hints or ["`opilio --help` shows what there is."])[0], 1)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "opilio"
        _fail(error.format_message(), f"`{command} --help` shows how it is called.", error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), "`opilio --help` shows what there is.", error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", "Check that the place exists, is yours and has room.", 1)


def _fail(message: str, hint: str, code: int) -> NoReturn:
    """Say what went wrong and what to do, in a line each, and end. Text of strangers cannot steer the terminal."""
    click.echo(f"error: {one_line(message)}", err=True)
    click.echo(f"hint: {one_line(hint)}", err=True)
    sys.exit(code)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
    line: str | None = None,
) -> None:  # fmt: skip
    """Show what will stop working in the next release as one `notice:` line; other warnings as Python shows them."""
    if issubclass(category, FutureWarning):
        click.echo(f"notice: {one_line(str(message))}", err=True)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def one_line(text: str) -> str:
    """`text` without line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
