"""The command line: one module per group of commands, each loaded when it is called.

`main` is the one place where an error becomes a message: the error in one line, a `hint:` line with the next step, exit
code 1. A wrong call exits with 2, an interrupted crawl with 130. Any other exception is a defect of ours and shows its
traceback.
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

_COMMANDS = {  # where each is, and its line in the list of commands
    "crawl": ("opilio.cli.crawl:crawl", "Crawl into a new collection, or continue a crawl."),
    "bookmarks": ("opilio.cli.bookmarks:bookmarks", "Show the folders of a bookmark file, and which links are dead."),
    "serve": ("opilio.cli.portal:serve", "Serve the portal: browse, search, train and watch in a browser."),
    "federate": ("opilio.cli.federate:federate", "Search several collections as one, local and remote."),
    "search": ("opilio.cli.search:search", "Search the stored pages."),
    "status": ("opilio.cli.steer:status", "Show the figures of a crawl, while it runs or after."),
    "sql": ("opilio.cli.steer:sql", "Query the database of a collection."),
    "policy": ("opilio.cli.steer:policy", "Change the order in which URLs are fetched."),
    "stop": ("opilio.cli.steer:stop", "Stop the running crawl."),
    "pause": ("opilio.cli.steer:pause", "Pause the running crawl."),
    "resume": ("opilio.cli.steer:resume", "Resume a paused crawl."),
    "host": ("opilio.cli.steer:host", "Lock a host, unlock it, or boost it."),
    "topics": ("opilio.cli.teach:topics", "List the topics; change what is wanted, add examples, train."),
    "classify": ("opilio.cli.teach:classify", "Classify the stored pages again, in the database or in memory."),
    "explain": ("opilio.cli.teach:explain", "Explain how a page was judged."),
    "models": ("opilio.cli.teach:models", "List, compare and choose the models that judge pages."),
    "census": ("opilio.cli.distill:census", "Show the topics of the pages, and what to do about it."),
    "archetypes": (
        "opilio.cli.archetypes:archetypes",
        "List the pages that a crawl chose to learn from; confirm, reject, trim.",
    ),
    "ask": ("opilio.cli.questions:ask", "Answer the crawl's questions about its best pages."),
    "feedback": ("opilio.cli.review:feedback", "Say whether a page is relevant, or which topic it belongs to."),
    "clusters": ("opilio.cli.review:clusters", "Find clusters in a topic, and make subtopics of them."),
    "review": ("opilio.cli.review:review", "Judge a sample of a topic to estimate precision and recall."),
    "distill": ("opilio.cli.distill:distill", "Find hubs and authorities, store their scores, and list the best."),
    "export": ("opilio.cli.steer:export", "Write the pages to a file."),
    "offer": ("opilio.cli.federate:offer", "Forward URLs to other collections that they suit."),
    "split": ("opilio.cli.parts:split", "Split a collection by topic."),
    "merge": ("opilio.cli.parts:merge", "Merge several collections into one."),
    "shared": ("opilio.cli.parts:shared", "List the pages that two collections share."),
    "publish": ("opilio.cli.portal:publish", "Write the portal as a static site."),
    "settings": ("opilio.cli.steer:settings", "Show the settings of a collection, or all defaults."),
    "record": ("opilio.cli.lab:record", "Record a web on which crawls can be repeated and compared."),
    "replay": ("opilio.cli.lab:replay", "Serve a recorded web on this machine."),
    "evaluate": ("opilio.cli.lab:evaluate", "Compare strategies on recorded webs."),
    "demo": ("opilio.cli.demo:demo", "Run a demonstration on this machine, offline."),
    "localweb": ("opilio.cli.demo:localweb", "Serve the web of the demo for your own crawls."),
}

# For errors that come without a hint of their own.
_HINTS: dict[type[OpilioError], str] = {
    SettingsError: "`opilio settings` lists all settings with their defaults.",
    InputError: "`opilio crawl --help` lists the possible inputs.",
    CollectionError: "`opilio status FOLDER` shows the state of a collection.",
    QueryError: "docs/sql.md describes the tables.",
}


class LazyGroup(click.Group):
    """Commands by name, imported when they are needed, so that `opilio --help` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order in which a user needs them."""
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
    """Opilio, a focused crawler: it turns bookmarks, examples or a query into a topical collection of web pages.

    \b
    Begin:     opilio crawl birds --bookmarks bookmarks.html --max-pages 1000
    Continue:  opilio crawl birds
    Watch:     opilio status birds        (from another terminal, while it runs)
    Query:     opilio sql birds "SELECT url, title FROM collection ORDER BY relevance DESC LIMIT 10"
    Export:    opilio export birds pages.parquet
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
        _fail(error.message, error.hint or (hints or ["`opilio --help` lists the commands."])[0], 1)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "opilio"
        _fail(error.format_message(), f"`{command} --help` shows how to call it.", error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), "`opilio --help` lists the commands.", error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(
            f"{where}{error.strerror or error}",
            "Check that the folder exists, that you may write there, and that the disk is not full.",
            1,
        )


def _fail(message: str, hint: str, code: int) -> NoReturn:
    """Print what went wrong and what to do, one line each, and exit. Foreign text cannot control the terminal."""
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
