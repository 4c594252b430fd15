"""The command line: one module per group of commands, each loaded when it is called.

`main` is the one place where an error becomes a message: the error in one line, a `hint:` line with the next step, exit
code 1. A wrong call exits with 2, an interrupted command with 130. Any other exception is a defect of ours and shows
its traceback.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
import warnings
from typing import NamedTuple, NoReturn, TextIO

import click
from click.shell_completion import CompletionItem

from opilio import __version__
from opilio.cli.log import LogFormat, choose_format, log_event, logs_json, tell
from opilio.errors import CollectionError, InputError, OpilioError, QueryError, SettingsError
from opilio.process import INTERRUPTED, exit_at_once, importing, let_interrupt_raise


class CommandEntry(NamedTuple):
    """A line in the list of commands, and where the command is."""

    where: str
    says: str
    alias: str = ""


_SECTIONS = {  # the commands by task, in the order in which a user needs them
    "Crawl": {
        "crawl": CommandEntry("opilio.cli.crawl:crawl", "Crawl into a new collection, or continue a crawl."),
        "migrate": CommandEntry("opilio.cli.migrate:migrate", "Make a collection from the configuration of ACHE."),
        "bookmarks": CommandEntry(
            "opilio.cli.bookmarks:bookmarks", "Show the folders of a bookmark file, and which links are dead."
        ),
        "seeds": CommandEntry("opilio.cli.seeds:seeds", "Ask services for further pages to start from."),
        "status": CommandEntry(
            "opilio.cli.steer:status", "Show the figures of a crawl, while it runs or after.", "info"
        ),
        "watch": CommandEntry("opilio.cli.watch:watch", "Keep collections fresh, and report what is new."),
        "stop": CommandEntry("opilio.cli.steer:stop", "Stop the running crawl."),
        "pause": CommandEntry("opilio.cli.steer:pause", "Pause the running crawl."),
        "resume": CommandEntry("opilio.cli.steer:resume", "Resume a paused crawl."),
        "policy": CommandEntry("opilio.cli.steer:policy", "Change the order in which URLs are fetched."),
        "limits": CommandEntry("opilio.cli.steer:limits", "Change when the crawl ends, also while it runs."),
        "host": CommandEntry("opilio.cli.steer:host", "Lock a host, unlock it, or boost it."),
        "settings": CommandEntry(
            "opilio.cli.steer:settings", "Show the settings of a collection, or all defaults.", "config"
        ),
    },
    "Look and search": {
        "serve": CommandEntry(
            "opilio.cli.portal:serve", "Serve the portal: browse, search, train and watch in a browser."
        ),
        "mcp": CommandEntry("opilio.cli.assistants:mcp", "Let an assistant search, read and crawl, by MCP."),
        "search": CommandEntry("opilio.cli.search:search", "Search the stored pages."),
        "explain": CommandEntry("opilio.cli.teach:explain", "Explain how a page was judged, or what became of a URL."),
        "changes": CommandEntry("opilio.cli.watch:changes", "Show what is new, changed and gone since a time."),
        "census": CommandEntry("opilio.cli.distill:census", "Show the topics of the pages, and what to do about it."),
        "distill": CommandEntry(
            "opilio.cli.distill:distill", "Find hubs and authorities, store their scores, and list the best.", "hubs"
        ),
        "sql": CommandEntry("opilio.cli.steer:sql", "Query the database of a collection."),
        "export": CommandEntry("opilio.cli.export:export", "Write pages for other programs."),
        "publish": CommandEntry("opilio.cli.portal:publish", "Write the portal as a static site."),
    },
    "Teach": {
        "topics": CommandEntry(
            "opilio.cli.teach:topics", "List the topics; change what is wanted, add examples, train."
        ),
        "train": CommandEntry("opilio.cli.teach:train", "Train a model now; the same as `opilio topics train`."),
        "ask": CommandEntry("opilio.cli.questions:ask", "Answer the crawl's questions about its best pages."),
        "feedback": CommandEntry(
            "opilio.cli.review:feedback", "Say whether a page is relevant, or which topic it belongs to.", "label"
        ),
        "archetypes": CommandEntry(
            "opilio.cli.archetypes:archetypes",
            "List the pages that a crawl chose to learn from; confirm, reject, trim.",
        ),
        "clusters": CommandEntry(
            "opilio.cli.review:clusters", "Find clusters in a topic; accept, reject or split them."
        ),
        "review": CommandEntry(
            "opilio.cli.review:review", "Judge a sample of a topic to estimate precision and recall."
        ),
        "classify": CommandEntry(
            "opilio.cli.teach:classify", "Classify the stored pages again, in the database or in memory.", "judge"
        ),
        "models": CommandEntry("opilio.cli.teach:models", "List, compare and choose the models that judge pages."),
    },
    "Collections": {
        "sift": CommandEntry(
            "opilio.cli.sift:sift", "Judge archives that others crawled, and keep the pages on topic."
        ),
        "split": CommandEntry("opilio.cli.parts:split", "Split a collection by topic."),
        "merge": CommandEntry("opilio.cli.parts:merge", "Merge several collections into one."),
        "shared": CommandEntry("opilio.cli.parts:shared", "List the pages that two collections share."),
        "verify": CommandEntry("opilio.cli.verify:verify", "Check whether the files of a collection are intact."),
        "forget": CommandEntry("opilio.cli.steer:forget", "Remove pages for good, because somebody asked you to."),
        "repair": CommandEntry("opilio.cli.verify:repair", "Make a damaged collection sound again."),
        "federate": CommandEntry(
            "opilio.cli.federate:federate", "Search several collections as one, local and remote."
        ),
        "offer": CommandEntry("opilio.cli.federate:offer", "Forward URLs to other collections that they suit."),
    },
    "This installation": {
        "completion": CommandEntry(
            "opilio.cli.completion:completion", "Have your shell complete commands, options and folders."
        ),
    },
    "Lab": {
        "demo": CommandEntry("opilio.cli.demo:demo", "Run a demonstration on this machine, offline."),
        "localweb": CommandEntry("opilio.cli.demo:localweb", "Serve a web of documentation for your own crawls."),
        "record": CommandEntry("opilio.cli.lab:record", "Record a web on which crawls can be repeated and compared."),
        "replay": CommandEntry("opilio.cli.lab:replay", "Serve a recorded web on this machine."),
        "evaluate": CommandEntry("opilio.cli.lab:evaluate", "Compare strategies on recorded webs."),
    },
}
_COMMANDS = {name: entry for section in _SECTIONS.values() for name, entry in section.items()}
_ALIASES = {entry.alias: name for name, entry in _COMMANDS.items() if entry.alias}

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
        """All main names, in the order in which a user needs them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command, by its name or its alias. Ctrl-C meanwhile ends the process at once."""
        entry = _COMMANDS.get(_ALIASES.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module, _, attribute = entry.where.partition(":")
        with exit_at_once(), importing():
            command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a call under its main name; suggest the nearest names to a mistyped one."""
        typed = args[0]
        if not typed.startswith("-") and typed not in _COMMANDS and typed not in _ALIASES:
            near = difflib.get_close_matches(typed.lower(), [*_COMMANDS, *_ALIASES], n=2)
            meant = f" Did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else ""
            raise click.UsageError(f"No such command {typed!r}.{meant}", ctx)
        return super().resolve_command(ctx, [_ALIASES.get(typed, typed), *args[1:]])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by task without importing them; an alias stands behind its command."""
        width = max(len(_shown_name(name)) for name in _COMMANDS)
        for title, entries in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(_shown_name(name).ljust(width), entry.says) for name, entry in entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        commands = [
            CompletionItem(name, help=_COMMANDS[name].says) for name in _COMMANDS if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


def aliases() -> dict[str, str]:
    """Other names of commands, and the main name of each."""
    return dict(_ALIASES)


def _shown_name(name: str) -> str:
    alias = _COMMANDS[name].alias
    return f"{name} ({alias})" if alias else name


def _show_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        found = importlib.util.find_spec("opilio.analyze.markup")
        is_compiled = found is not None and not (found.origin or "").endswith(".py")
        click.echo(f"opilio, version {__version__}{' (compiled)' if is_compiled else ''}")
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
    help="Show the version and exit.",
)  # fmt: skip
def cli() -> None:
    """Opilio, a focused crawler: it turns bookmarks, examples or a query into a topical collection of web pages.

    \b
    Begin:     opilio crawl birds --bookmarks bookmarks.html --max-pages 1000
    Continue:  opilio crawl birds
    Watch:     opilio status birds        (from another terminal, while it runs)
    Query:     opilio sql birds "SELECT url FROM collection WHERE relevant"
    Export:    opilio export birds pages.parquet
    Try it:    opilio demo                (offline, on a small web of its own)

    A name in brackets is an alias: `opilio info birds` is `opilio status birds`.
    """


def main() -> None:
    """Run the command that the arguments of this process name."""
    choose_format(LogFormat.TEXT)  # until an option says otherwise
    warnings.showwarning = _show_warning
    try:
        let_interrupt_raise()
        cli(prog_name="opilio", standalone_mode=False)
    except OpilioError as error:
        hints = [hint for kind, hint in _HINTS.items() if isinstance(error, kind)]
        _fail(error.message, error.hint or (hints or ["`opilio --help` lists the commands."])[0], 1)
    except click.UsageError as error:
        if _is_call_for_help(error):
            click.echo(error.format_message(), err=True)
            sys.exit(error.exit_code)
        command = error.ctx.command_path if error.ctx is not None else "opilio"
        _fail(error.format_message(), f"`{command} --help` shows how to call it.", error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), "`opilio --help` lists the commands.", error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if _follows_interrupt(error):  # some libraries turn Ctrl-C into an error of theirs
            sys.exit(INTERRUPTED)
        if not isinstance(error, OSError):
            raise
        where = f"{error.filename}: " if error.filename else ""
        _fail(
            f"{where}{error.strerror or error}",
            "Check that the folder exists, that you may write there, and that the disk is not full.",
            1,
        )


def _follows_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C led to this error."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        if isinstance(error, RuntimeError) and str(error) == "Query interrupted":  # DuckDB; nothing else shows it
            return True
        error = error.__cause__ or error.__context__
    return error is not None


def _is_call_for_help(error: click.UsageError) -> bool:
    """Whether a group was called without a command: click then raises its help text."""
    return (
        error.ctx is not None and isinstance(error.ctx.command, click.Group) and error.message == error.ctx.get_help()
    )


def _fail(message: str, hint: str, code: int) -> NoReturn:
    """Print what went wrong and what to do, one line each, and exit. Foreign text cannot control the terminal."""
    if logs_json():
        log_event("error", level="error", text=one_line(message), hint=one_line(hint), exit_code=code)
        sys.exit(code)
    tell("error", one_line(message))
    tell("hint", one_line(hint))
    sys.exit(code)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
    line: str | None = None,
) -> None:  # fmt: skip
    """Show what will stop working in the next release as one `notice:` line; other warnings as Python shows them."""
    if issubclass(category, FutureWarning):
        tell("notice", one_line(str(message)))
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def one_line(text: str) -> str:
    """`text` without line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
