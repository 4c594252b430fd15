"""What an operation is: a function with its name, its typed arguments, what it may change, and how long it may take.

The function's own signature and docstring are the declaration; the decorator adds what a signature cannot say. From it
follow the request on the control socket, the method of `Collection`, the REST route and the JSON schema.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

import msgspec
from msgspec import Meta

from opilio.crawl.operations.context import Context, LiveCrawl
from opilio.errors import InputError

__all__ = ["OPERATIONS", "READS", "STEERS", "WRITES", "Access", "Meta", "Operation", "Route", "operation"]

P = ParamSpec("P")
R = TypeVar("R")

SQL_TIMEOUT_S = 60.0
TIMEOUT_S = SQL_TIMEOUT_S + 30
"""How long a caller waits for a running crawl unless an operation says otherwise."""
LONG_TIMEOUT_S = 600.0
"""For training, and for link analysis of a large collection."""


class Access(enum.Enum):
    """What an operation needs."""

    READS = "reads"
    """The database, read-only."""
    WRITES = "writes"
    """The database, to change it; while a crawl runs, the crawl makes the change."""
    STEERS = "steers"
    """A running crawl. Without one, the function says what happens instead, and no database is opened for it."""


READS, WRITES, STEERS = Access.READS, Access.WRITES, Access.STEERS


class Route(NamedTuple):
    """Where the REST API offers an operation: below /api/c/{name}/."""

    method: str
    path: str
    tag: str
    costly: str = ""
    """The kind of costly requests that it belongs to, if it takes long: few of a kind are carried out at a time."""


@dataclasses.dataclass(eq=False)
class Operation(Generic[P, R]):
    """One thing that a user can ask of a collection."""

    name: str
    function: Callable[Concatenate[Any, P], R]
    access: Access
    timeout_s: float = TIMEOUT_S
    rest: Route | None = None
    about: Mapping[str, Meta] = dataclasses.field(default_factory=dict)
    """What single arguments mean and which values make sense, for schemas and REST; Python callers are not bound."""
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Former names of arguments, which are still accepted."""
    names_a_url: bool = False
    """The result may be a URL that this collection should fetch, even if another part of it left it alone so far."""
    runs_in_caller: bool = False
    """It runs where it is called, also while a crawl runs, and reaches the database through an `OperationClient`."""
    live_function: Callable[Concatenate[LiveCrawl, P], Awaitable[R] | R] | None = None

    @property
    def is_public(self) -> bool:
        """Whether users may call it. Names that begin with `_` are steps of other operations."""
        return not self.name.startswith("_")

    @property
    def doc(self) -> str:
        """Its docstring."""
        return inspect.getdoc(self.function) or ""

    def live(
        self, function: Callable[Concatenate[LiveCrawl, P], Awaitable[R] | R]
    ) -> Callable[Concatenate[LiveCrawl, P], Awaitable[R] | R]:
        """Declare how a running crawl does it, when that differs. It is called on the loop of the engine."""
        self.live_function = function
        return function

    @functools.cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The arguments by name; the first parameter, the context, is not one."""
        _, *others = inspect.signature(self.function).parameters.values()
        return {parameter.name: parameter for parameter in others}

    @functools.cached_property
    def types(self) -> dict[str, Any]:
        """The types of the arguments, and that of the result under `return`; a path is sent as text."""
        hints = typing.get_type_hints(self.function)
        return {name: _as_sent(hints[name]) for name in (*self.parameters, "return")}

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The arguments of a call by name."""
        return dict(self._signature.bind(*args, **kwargs).arguments)

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.Signature(list(self.parameters.values()))

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments that came as JSON, with their types; an InputError names the one that is wrong."""
        try:
            checked = msgspec.convert(dict(given), self._form)
        except msgspec.ValidationError as error:
            raise InputError(f"{self.name}: {error}", f"Its arguments are: {', '.join(self.parameters)}.") from None
        return {name: getattr(checked, name) for name in self.parameters}

    def result(self, sent: Any) -> R:
        """The result of a call that came as JSON, as the function would have returned it."""
        converted: R = msgspec.convert(sent, self.types["return"])
        return converted

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments: one object."""
        described = {
            name: Annotated[kind, self.about[name]] if name in self.about else kind
            for name, kind in self.types.items()
            if name != "return"
        }
        found = msgspec.json.schema(_form_of(self, described))
        [form] = [found["$defs"].pop(name) for name in list(found["$defs"]) if name == self.name]
        whole = {**form, **({"$defs": found["$defs"]} if found["$defs"] else {})}
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole))  # defaults may be tuples
        return plain

    @functools.cached_property
    def _form(self) -> type[msgspec.Struct]:
        return _form_of(self, {name: self.types[name] for name in self.parameters})


def _form_of(operation: Operation[..., Any], kinds: Mapping[str, Any]) -> type[msgspec.Struct]:
    """A record with a field for each argument."""
    required = inspect.Parameter.empty
    fields = [
        (name, kinds[name]) if parameter.default is required else (name, kinds[name], parameter.default)
        for name, parameter in operation.parameters.items()
    ]
    return msgspec.defstruct(operation.name, fields, kw_only=True, forbid_unknown_fields=True)


def _as_sent(kind: Any) -> Any:
    """A type as JSON can carry it."""
    if kind is Path:
        return str
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return functools.reduce(lambda one, other: one | other, map(_as_sent, typing.get_args(kind)))
    return kind


OPERATIONS: dict[str, Operation[..., Any]] = {}
"""All operations by name."""


def declare(operation: Operation[P, R]) -> Operation[P, R]:
    """Add an operation to the table."""
    assert operation.name not in OPERATIONS, operation.name
    OPERATIONS[operation.name] = operation
    return operation


def operation(
    access: Access,
    *,
    timeout_s: float = TIMEOUT_S,
    rest: Route | None = None,
    about: Mapping[str, Meta] = types.MappingProxyType({}),
    renamed: Mapping[str, str] = types.MappingProxyType({}),
    names_a_url: bool = False,
) -> Callable[[Callable[Concatenate[Context, P], R]], Operation[P, R]]:
    """Declare a function of an open database as an operation (see the fields of `Operation`)."""

    def decorate(function: Callable[Concatenate[Context, P], R]) -> Operation[P, R]:
        made = Operation(function.__name__, function, access, timeout_s, rest, about, renamed, names_a_url)
        return declare(made)

    return decorate
