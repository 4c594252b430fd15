"""Reaching a collection from any process: through the crawl that runs in it, or by opening its database.

DuckDB lets one process write a database. So an `OperationClient` sends an operation to the running
crawl, and opens the database itself when no crawl runs. A crawl may begin or end between the two; then it
tries again for a few seconds.

The engine of a crawl listens on a loopback port (`control.py`) and leaves a note in the folder of its collection
(`engine.json`, readable by its owner only) with the port and a token; whoever cannot read the note cannot send a
request. A request and its answer are one line of JSON each: the name of an operation with its arguments, and its result
or its error. Before the answer to an operation that changes something comes the line `BEGUN`.

Invariant: no change is made twice because an answer was lost. A request is sent again, or carried out here, only if the
crawl did not begin with it, or if it only reads.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from opilio import errors
from opilio.crawl.operations.context import Context
from opilio.crawl.operations.declaration import READS, STEERS, TIMEOUT_S, Access, Meta, Operation, Route, declare
from opilio.errors import CollectionBusy, CollectionError, InputError, OpilioError, QueryError
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.database import reading_together
from opilio.store.urls import claim

P = ParamSpec("P")
R = TypeVar("R")

NOTE = "engine.json"
NOT_ALLOWED = "not allowed"
HELLO = "hello"
"""The request that every crawl answers at once, whatever it is busy with."""
BEGUN = {"begun": True}
"""What a crawl sends before it makes a change: from here on the request must not be sent again."""
EXPECTS_BEGUN = "expects_begun"
"""Set in requests: a portal that was started before an upgrade would take the line for no answer."""
UNCERTAIN = "Check whether the change was made before you try again."
MAX_REQUEST_BYTES = 2**23  # the text of a file to explain, as JSON: 500,000 characters of 12 bytes, and some
HELLO_TIMEOUT_S = 15.0  # a crawl that is busy answers sooner; a page cannot wait for one that hangs
CONNECT_TIMEOUT_S = 5.0
_ERRORS = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OpilioError)
}
BUSY_TIMEOUT_S = 3.0  # another process that reads is done sooner, and a crawl that starts may answer by then
BUSY_POLL_S = 0.05


class Answer(NamedTuple):
    """What a running crawl answered."""

    result: Any


def is_running(folder: Path) -> bool:
    """Whether a crawl runs in a collection. This is a small request that can be made often."""
    return ask(folder, HELLO, timeout_s=HELLO_TIMEOUT_S) is not None


def ask(
    folder: Path, operation: str, arguments: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
) -> Answer | None:
    """Have the crawl that runs in `folder` carry out an operation; None when none runs. Raises the crawl's error."""
    try:
        note = json.loads((folder / NOTE).read_text())
        connection = socket.create_connection(("127.0.0.1", int(note["port"])), timeout=CONNECT_TIMEOUT_S)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_begun = False
    with connection:
        connection.settimeout(timeout_s)
        try:
            line = _line(note["token"], operation, arguments or {})
            if len(line) > MAX_REQUEST_BYTES:
                raise InputError("the request is too large for a running crawl", "Stop the crawl first, or send less.")
            connection.sendall(line)
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline())
                if answer == BEGUN:
                    is_begun = True
                    answer = json.loads(lines.readline())
        except TimeoutError:
            hint = UNCERTAIN if is_begun else "Try again."
            raise CollectionError(f"{folder}: the crawl does not answer", hint) from None
        except (OSError, ValueError, KeyError):  # it ended meanwhile, or its port has gone to some other program
            if is_begun:
                name = operation.strip("_")
                message = f"{folder}: the crawl began with {name} and ended without an answer"
                raise CollectionError(message, UNCERTAIN) from None
            return None
    if not isinstance(answer, dict) or not answer.keys() & {"error", "result"}:
        return None
    if answer.get("error") == NOT_ALLOWED:  # the crawl of the note was killed, and another one has its port now
        return None
    if "error" in answer:
        raise _ERRORS.get(answer.get("kind", ""), QueryError)(answer["error"], answer.get("hint", ""))
    return Answer(answer["result"])


def _line(token: str, operation: str, arguments: Mapping[str, Any]) -> bytes:
    plain = msgspec.to_builtins(dict(arguments), enc_hook=str)  # paths are sent as text
    request = {"token": token, "operation": operation, "arguments": plain, "working_folder": str(_working_folder())}
    return json.dumps({**request, EXPECTS_BEGUN: True}).encode() + b"\n"


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it is gone
        return Path(os.sep)


class OperationClient:
    """Calls operations on one collection."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self._store: Store | None = None
        """Open already, for operations that read, while `reading_from` lasts."""

    @contextlib.contextmanager
    def reading_from(self, store: Store) -> Iterator[None]:
        """Carry out operations that read on a database that this process has open, when no crawl runs any more."""
        self._store = store
        try:
            yield
        finally:
            self._store = None

    def call(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Have the running crawl carry out an operation, or do it here."""
        if operation.runs_in_caller:
            return operation.function(self, *args, **kwargs)
        arguments = operation.bind(*args, **kwargs)
        deadline_s = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            answer = ask(self.folder, operation.name, arguments, timeout_s=operation.timeout_s)
            if answer is not None:
                return operation.result(answer.result)
            try:
                return self._call_here(operation, arguments)
            except CollectionBusy:
                if time.monotonic() >= deadline_s:
                    raise
            time.sleep(BUSY_POLL_S)

    def _call_here(self, operation: Operation[P, R], arguments: dict[str, Any]) -> R:
        with self._database_for(operation.access) as store:
            context = Context(self.folder, self.settings, _working_folder(), store)
            result = operation.function(context, **arguments)  # type: ignore[call-arg]  # they are its own
            if operation.names_a_url:
                claim(context.store, [str(result)])
        return result

    def _database_for(self, access: Access) -> AbstractContextManager[Store | None]:
        if access is STEERS:
            return contextlib.nullcontext()
        if access is READS and self._store is not None:
            return contextlib.nullcontext(self._store)
        return self.opened(read_only=access is READS)

    def opened(self, *, read_only: bool) -> AbstractContextManager[Store]:
        """The database, when no other process writes it: an error otherwise."""
        memory_bytes = self.settings.store.memory_bytes
        if read_only:
            return reading_together(self.folder, memory_bytes=memory_bytes)
        return Store.open(self.folder, memory_bytes=memory_bytes)

    @contextlib.contextmanager
    def opened_soon(self, *, threads: int = 0) -> Iterator[Store]:
        """The database, to change it; if another process has it open, wait for a moment."""
        memory_bytes = self.settings.store.memory_bytes
        deadline_s = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                store = Store.open(self.folder, memory_bytes=memory_bytes, threads=threads)
                break
            except CollectionBusy:
                if time.monotonic() >= deadline_s:
                    raise
            time.sleep(BUSY_POLL_S)
        with store:
            yield store


def caller_operation(
    access: Access,
    *,
    timeout_s: float = TIMEOUT_S,
    rest: Route | None = None,
    about: Mapping[str, Meta] = types.MappingProxyType({}),
) -> Callable[[Callable[Concatenate[OperationClient, P], R]], Operation[P, R]]:
    """Declare a function of a client as an operation: it runs where it is called, and calls others."""

    def decorate(function: Callable[Concatenate[OperationClient, P], R]) -> Operation[P, R]:
        made = Operation(function.__name__, function, access, timeout_s, rest, about, runs_in_caller=True)
        return declare(made)

    return decorate
