"""What commands write to standard error: lines for people, or one JSON object per line for programs that collect logs.

Every object has `time` (UTC, ISO 8601), `level` (info, warning or error) and `event`; what else it has depends on the
event.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import click


class LogFormat(StrEnum):
    """The form of log lines."""

    TEXT = "text"
    JSON = "json"


_LEVELS = {"notice": "info", "hint": "info", "portal": "info", "warning": "warning", "error": "error"}
_chosen = {"format": LogFormat.TEXT}


def choose_format(name: str) -> None:
    """Write log lines in this form from now on."""
    _chosen["format"] = LogFormat(name)


def _choose(context: click.Context, option: click.Parameter, value: str) -> None:
    choose_format(value)


log_format_option = click.option(
    "--log-format", type=click.Choice([form.value for form in LogFormat]), default=LogFormat.TEXT.value,
    envvar="OPILIO_LOG_FORMAT", expose_value=False, is_eager=True, callback=_choose,
    help="What is written to standard error: text for people, or json: an object on each line, for log collectors.",
)  # fmt: skip
"""The option `--log-format` of commands that run for long. It also holds for the error that ends them."""


def logs_json() -> bool:
    """Whether log lines are JSON."""
    return _chosen["format"] is LogFormat.JSON


def tell(kind: str, text: str) -> None:
    """Something that the user should know: a notice, a warning, an error."""
    if logs_json():
        log_event(kind, level=_LEVELS[kind], text=text)
    else:
        click.echo(f"{kind}: {text}", err=True)


def log_event(event: str, *, level: str = "info", **fields: Any) -> None:
    """One JSON object."""
    click.echo(_line(event, level, datetime.now(UTC), fields), err=True)


def _line(event: str, level: str, at: datetime, fields: dict[str, Any]) -> str:
    record = {"time": at.isoformat(timespec="milliseconds"), "level": level, "event": event, **fields}
    return json.dumps(record, default=str)


class JsonFormatter(logging.Formatter):
    """Writes the records of Python's logging, such as those of the portal's server, in the same form."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback is a field of it."""
        fields = {"logger": record.name, "text": record.getMessage()}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        level = {"CRITICAL": "error", "DEBUG": "info"}.get(record.levelname, record.levelname.lower())
        return _line("log", level, datetime.fromtimestamp(record.created, UTC), fields)


def use_json_for_logging() -> None:
    """Have the records of Python's logging written as JSON on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
