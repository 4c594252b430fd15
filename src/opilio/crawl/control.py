"""The control socket: a running crawl carries out operations that other processes ask for.

`operations/client.py` sends the requests and describes their form. Every operation of the table can be requested by its
name. One that reads sees all that was found so far: the engine commits first, and the function runs in a thread. One
that changes the training data also runs in a thread, alone; then the crawl trains a new model soon. An operation that
has a `live` body runs on the engine's loop.

The caller of an operation that changes something learns when the crawl begins with it, and a crawl that ends waits
until the change is made and answered.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import functools
import hmac
import inspect
import json
import os
import secrets
from pathlib import Path
from typing import Any

from opilio.crawl.engine import Engine
from opilio.crawl.operations import OPERATIONS, READS, Operation
from opilio.crawl.operations.client import (
    BEGUN,
    EXPECTS_BEGUN,
    HELLO,
    MAX_REQUEST_BYTES,
    NOT_ALLOWED,
    NOTE,
    OperationClient,
)
from opilio.crawl.operations.context import LiveCrawl
from opilio.errors import OpilioError
from opilio.model import TrainingCause, TrainingReason

REQUEST_TIMEOUT_S = 10.0  # to send a request, and to take its answer
CHANGE_TIMEOUT_S = 30.0  # how long a crawl that ends waits for changes; then their callers get an error


class ControlServer:
    """Answers requests for one engine while it runs."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._folder = folder
        self._crawl = LiveCrawl(engine)
        self._note = folder / NOTE
        self._token = secrets.token_hex(16)
        self._server: asyncio.Server | None = None
        self._changes: set[asyncio.Task[Any]] = set()
        self._has_ended = False

    async def __aenter__(self) -> ControlServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_REQUEST_BYTES)
        port = self._server.sockets[0].getsockname()[1]
        text = json.dumps({"pid": os.getpid(), "port": port, "token": self._token})
        self._note.unlink(missing_ok=True)  # that of a killed crawl may be a link, or readable by others
        descriptor = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._note.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()
        self._has_ended = True
        if self._changes:
            await asyncio.wait(self._changes, timeout=CHANGE_TIMEOUT_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readuntil(b"\n"), REQUEST_TIMEOUT_S)
            answer = await self._answer(line, writer)
            writer.write(_as_line(answer))
            await asyncio.wait_for(writer.drain(), REQUEST_TIMEOUT_S)
        except (Exception, asyncio.CancelledError):  # no request, however broken, may disturb the crawl
            pass
        finally:
            writer.close()
            self._changes.discard(_this_task())

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> dict[str, Any]:
        request = json.loads(line)
        if not isinstance(request, dict) or not hmac.compare_digest(
            str(request.get("token", "")).encode(), self._token.encode()
        ):
            return {"error": NOT_ALLOWED, "hint": ""}
        name = str(request.get("operation", ""))
        if name == HELLO:
            return {"result": True}
        operation = OPERATIONS.get(name)
        if operation is None:
            return {"error": f"unknown operation {name!r}", "hint": "The crawl may run another version of Opilio."}
        if self._has_ended and operation.access is not READS:
            raise ConnectionAbortedError("the crawl has ended")  # the caller makes the change itself
        try:
            arguments = operation.check(request.get("arguments", {}))
            if operation.access is not READS:
                self._changes.add(_this_task())
                if request.get(EXPECTS_BEGUN):
                    writer.write(_as_line(BEGUN))
                    await asyncio.wait_for(writer.drain(), REQUEST_TIMEOUT_S)
            return {"result": await self._carry_out(operation, arguments, Path(request.get("working_folder", "")))}
        except OpilioError as error:
            return {"error": error.message, "hint": error.hint, "kind": type(error).__name__}
        except Exception as error:  # a defect of ours: the caller should know
            return {"error": f"{type(error).__name__}: {error}", "hint": "The crawl goes on."}

    async def _carry_out(self, operation: Operation[..., Any], arguments: dict[str, Any], working_folder: Path) -> Any:
        crawl, engine = self._crawl, self._crawl.engine
        if operation.live_function is not None:
            result = operation.live_function(crawl, **arguments)
            return await result if inspect.isawaitable(result) else result
        if operation.runs_in_caller:  # it calls this crawl in its turn, from another thread
            client = OperationClient(self._folder, engine.settings)
            return await asyncio.to_thread(functools.partial(operation.function, client, **arguments))
        await engine.commit(wait=True)
        if operation.access is READS:
            function = functools.partial(operation.function, crawl.context(working_folder), **arguments)
            return await asyncio.to_thread(function)
        async with crawl.writing:
            function = functools.partial(operation.function, crawl.context(working_folder), **arguments)
            result = await asyncio.to_thread(function)
            if operation.names_a_url:
                await engine.steering.claim([str(result)])
        detail = ": ".join(filter(None, (operation.name.replace("_", " "), arguments.get("topic"))))
        await engine.teacher.learn_soon(TrainingCause(TrainingReason.FEEDBACK, detail))
        return result


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _as_line(answer: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(answer, default=_plain)
    except (TypeError, ValueError) as error:  # such as a map whose keys are dates
        text = json.dumps({"error": f"the answer cannot be sent: {error}", "hint": "Cast it: CAST(... AS VARCHAR)."})
    return text.encode() + b"\n"


def _plain(value: Any) -> Any:
    """Values of the database, and records, as JSON can hold them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)
