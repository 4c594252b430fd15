"""The exceptions of Opilio: what *we* or the user did wrong. What the web does is a value (`model.Outcome`).

Every error names the thing, the place and, in its `hint`, the next step.

OpilioError                 base of all; `hint` says what to do next
+-- SettingsError           a bad key or value in crawl.toml or on the command line
+-- InputError              a bookmark, seed or topic file that cannot be used
+-- CollectionError         a folder that is not a collection, is in use, or cannot be written
|   +-- CollectionBusy      another process runs a crawl in it
|   +-- StoreError          the database cannot be opened or written (corrupt, disk full)
+-- QueryError              a SQL statement or policy that the database rejects
"""

from __future__ import annotations


class OpilioError(Exception):
    """Something the user can act on; shown as one line and a `hint:` line, never as a traceback."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class SettingsError(OpilioError):
    """A setting that does not exist or has a value that cannot be used."""


class InputError(OpilioError):
    """An input file (bookmarks, seeds, topics) that is missing, unreadable or without usable content."""


class CollectionError(OpilioError):
    """A collection folder that cannot be used."""


class CollectionBusy(CollectionError):
    """Another process is crawling into this collection."""


class StoreError(CollectionError):
    """The database of a collection cannot be read or written."""


class QueryError(OpilioError):
    """A SQL statement, or the ORDER BY of a policy, that the database rejects."""


def not_installed(package: str, user: str, extra: str = "", otherwise: str = "") -> SettingsError:
    """The error for a package that a part of Opilio uses and that is not installed, with the command that installs it.

    `user` says what needs it; without an `extra` the package itself is installed. `otherwise`, a sentence, says what
    else can be done.
    """
    command = install_command(extra) if extra else _command(package)
    return SettingsError(
        f"{package} is not installed, which {user} needs", f"{command}. {otherwise}" if otherwise else command
    )


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, by the program that made it: pip, pipx or uv.

    It installs into the environment that there is: `pipx install` and `uv tool install` would look for Opilio in the
    package index, wherever it came from, and drop the extras that were installed before.
    """
    return _command(f"'opilio[{extra}]'")


def _command(requirement: str) -> str:
    import shlex  # noqa: PLC0415  (errors are among the first modules that are loaded, before Ctrl-C is caught)
    import sys  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    place = Path(sys.prefix)
    if (place / "pipx_metadata.json").exists():
        return f"pipx runpip {place.name} install {requirement}"
    if (place / "uv-receipt.toml").exists():
        return f"uv pip install --python {shlex.quote(sys.executable)} {requirement}"
    return f"pip install {requirement}"


def describe_error(error: BaseException) -> str:
    """An error as one line: our own errors by their message, all others with the name of their class in front."""
    return error.message if isinstance(error, OpilioError) else f"{type(error).__name__}: {error}"
