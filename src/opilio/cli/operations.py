"""Commands that call one operation and show its result: arguments and options come from the declaration.

The decorated function prints the result; its docstring is the help text. Required arguments of the operation become
arguments of the command and the others become options, described as in the declaration. `--json` prints the result as
the operation returns it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import click

from opilio.crawl import Collection
from opilio.crawl.operations import Operation
from opilio.crawl.operations.declaration import Meta

P = ParamSpec("P")
R = TypeVar("R")


class Called(NamedTuple):
    """A call, for those who print its result."""

    folder: Path
    arguments: Mapping[str, Any]


def folder_argument() -> click.Argument:
    """The folder of a collection, which every command takes first."""
    return click.Argument(["folder"], type=click.Path(path_type=Path, file_okay=False))


def operation_command(
    operation: Operation[P, R], *, name: str = "", options: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Callable[[Called, R], None]], click.Command]:
    """Make a command of a function that prints the result of an operation; `options` renames arguments."""

    def decorate(show: Callable[[Called, R], None]) -> click.Command:
        def run(folder: Path, as_json: bool, **arguments: Any) -> None:
            method: Callable[..., R] = getattr(Collection(folder), operation.name)
            result = method(**arguments)
            if as_json:
                click.echo(json.dumps(result, default=dataclasses.asdict))
            else:
                show(Called(folder, arguments), result)

        given = [_parameter(operation, one, options.get(one, one)) for one in operation.parameters]
        as_json = click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON.")
        return click.Command(
            name or show.__name__.strip("_"),
            callback=run,
            params=[folder_argument(), *given, as_json],
            help=inspect.getdoc(show),
        )

    return decorate


def _parameter(operation: Operation[..., Any], name: str, shown: str) -> click.Parameter:
    parameter, about = operation.parameters[name], operation.about.get(name, Meta())
    kind = type_of(operation.types[name], about)
    if parameter.default is inspect.Parameter.empty:
        return click.Argument([name], metavar=shown.upper(), type=kind)
    if kind is bool:
        return click.Option([f"--{shown.replace('_', '-')}", name], is_flag=True, default=parameter.default,
                            help=about.description)  # fmt: skip
    return click.Option([f"--{shown.replace('_', '-')}", name], default=parameter.default, type=kind,
                        help=about.description, show_default=parameter.default not in (None, "", 0))  # fmt: skip


def type_of(kind: Any, about: Meta) -> click.ParamType[Any] | type:
    """How an argument is read from the command line."""
    if kind in (int, float):
        ranged = click.IntRange if kind is int else click.FloatRange
        return ranged(about.ge, about.le)  # type: ignore[arg-type]
    return str
