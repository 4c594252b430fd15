"""Which display of a crawl fits the place the output goes to."""

from __future__ import annotations

import sys

from opilio.cli.display import JsonLines, LogLines, Silence


def make_display(*, quiet: bool, as_json: bool) -> Silence:
    """A live panel on a terminal, log lines elsewhere, JSON lines or nothing on request."""
    if as_json:
        return JsonLines()
    if quiet:
        return Silence()
    if not sys.stderr.isatty():
        return LogLines()
    from opilio.cli.panel import Panels  # noqa: PLC0415  (what draws it takes long to load)

    return Panels()
