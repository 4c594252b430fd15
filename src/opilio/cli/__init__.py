"""The command line: one module per group of commands, each loaded when it is called.

`main` is the one place where an `OpilioError` becomes a message: the error in one line, a `hint:` line with the next
step, exit code 1. A wrong call exits with 2, an interrupted crawl with 130.
"""

from __future__ import annotations

import importlib
import sys

import click

from opilio import __version__
from opilio.errors import OpilioError

_COMMANDS = {
    "crawl": "opilio.cli.crawl:crawl",
    "status": "opilio.cli.ask:status",
    "sql": "opilio.cli.ask:sql",
    "policy": "opilio.cli.ask:policy",
    "stop": "opilio.cli.ask:stop",
    "export": "opilio.cli.ask:export",
    "settings": "opilio.cli.ask:settings",
    "demo": "opilio.cli.demo:demo",
    "localweb": "opilio.cli.demo:localweb",
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
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


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
    try:
        cli(standalone_mode=False)
    except OpilioError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
