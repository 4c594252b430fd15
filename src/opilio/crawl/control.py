"""Talking to a running crawl: `opilio sql`, `status`, `policy`, `pause` and `stop` from another terminal.

The database takes one process. So the engine listens on a loopback port and leaves a note in the collection's folder
(`engine.json`, readable by its owner only) with the port and a token; who cannot read the note cannot ask. A request
and its answer are one line of JSON each. When no engine runs, callers open the database themselves (`Collection`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import functools
import hmac
import json
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opilio import learn
from opilio.crawl.engine import Engine
from opilio.crawl.lessons import LESSONS, NAME_URLS
from opilio.crawl.reads import reader
from opilio.errors import CollectionError, InputError, OpilioError, QueryError
from opilio.federation.offers import RECEIVED, Received, admit, receive
from opilio.frontier import DatabaseOrder, make_strategy
from opilio.model import TrainingCause, TrainingReason
from opilio.settings import override
from opilio.store import export_pages

NOTE = "engine.json"
NOT_ALLOWED = "not allowed"
MAX_REQUEST_BYTES = 2**23  # the text of a file to explain, as JSON: 500,000 characters of 12 bytes, and some
SQL_TIMEOUT_S = 60.0
ASK_TIMEOUT_S = SQL_TIMEOUT_S + 30
HELLO_TIMEOUT_S = 15.0  # a crawl that is busy answers sooner; a page cannot wait for one that hangs
REQUEST_TIMEOUT_S = 10.0  # to send a request, and to take its answer


class ControlServer:
    """Answers requests for one engine while it runs."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._note = folder / NOTE
        self._token = secrets.token_hex(16)
        self._server: asyncio.Server | None = None
        self._teaching = asyncio.Lock()
        self._receiving = asyncio.Lock()
        self._actions: dict[str, Callable[..., Any]] = {
            "sql": self._sql,
            "export": self._export,
            "hello": lambda: True,
            "status": lambda: dataclasses.asdict(engine.status()),
            "policy": self._policy,
            "stop": self._stop,
            "read": self._read_by_name,
            "teach": self._teach,
            "train": self._train,
            "explain_link": self._explain_link,
            "archetypes": lambda **asked: self._read(learn.list_archetypes, settings=engine.settings, **asked),
            "use_model": engine.teacher.use_model,
            "pause": engine.steering.pause,
            "resume": engine.steering.resume,
            "relock": self._relock,
            "boost": engine.steering.boost,
            "take_offers": self._take_offers,
        }

    async def __aenter__(self) -> ControlServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_REQUEST_BYTES)
        port = self._server.sockets[0].getsockname()[1]
        text = json.dumps({"pid": os.getpid(), "port": port, "token": self._token})
        descriptor = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._note.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readuntil(b"\n"), REQUEST_TIMEOUT_S)
            answer = await self._answer(line)
            writer.write(_as_line(answer))
            await asyncio.wait_for(writer.drain(), REQUEST_TIMEOUT_S)
        except (Exception, asyncio.CancelledError):  # whoever asks, and whatever: it is no trouble of the crawl's
            pass
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        request = json.loads(line)
        if not isinstance(request, dict) or not hmac.compare_digest(
            str(request.pop("token", "")).encode(), self._token.encode()
        ):
            return {"error": NOT_ALLOWED, "hint": ""}
        action = self._actions.get(str(request.pop("do", "")))
        if action is None:
            return {"error": "unknown request", "hint": "The crawl may run another version of Opilio."}
        try:
            result = action(**request)
            return {"result": await result if asyncio.iscoroutine(result) else result}
        except OpilioError as error:
            return {"error": error.message, "hint": error.hint}
        except TypeError as error:
            return {"error": f"bad request: {error}", "hint": ""}
        except Exception as error:  # a defect of ours: whoever asked should hear of it
            return {"error": f"{type(error).__name__}: {error}", "hint": "The crawl goes on."}

    async def _sql(self, sql: str, write: bool = False) -> dict[str, Any]:
        await self._engine.commit(wait=True)
        result = await asyncio.to_thread(self._engine.query, sql, write=write, timeout_s=SQL_TIMEOUT_S)
        if write:
            await self._engine.teacher.notice()
        return {"columns": result.columns, "rows": result.rows, "truncated": result.truncated}

    async def _export(self, target: str, **options: Any) -> dict[str, Any]:
        await self._engine.commit(wait=True)
        return {"pages": await asyncio.to_thread(export_pages, self._engine.store, target, **options)}

    async def _policy(self, strategy: str, order_by: str = "", n: int = 0) -> dict[str, Any]:
        changes: dict[str, Any] = {"frontier.strategy": strategy, "frontier.order_by": order_by}
        if n:
            changes["frontier.n"] = n
        engine = self._engine
        order = make_strategy(override(engine.settings, changes, "policy").frontier)
        if engine.phases.has_own_order:
            if isinstance(order, DatabaseOrder):
                engine.store.check_order_by(order.order_by)
            engine.absorber.notice("phase", f"the harvest will be ordered by {order_by or strategy}")
        else:
            await engine.change_strategy(order)
        engine.settings = override(engine.settings, changes, "policy")  # others may have changed meanwhile
        return {"strategy": strategy, "order_by": order.order_by}

    async def _relock(self, domains: list[str], said: str) -> dict[str, Any]:
        engine = self._engine
        engine.settings = override(engine.settings, {"scope.locked_domains": domains}, "lock")
        return await engine.steering.relock(domains, said)

    async def _teach(self, what: str, **request: Any) -> dict[str, Any]:
        await self._engine.commit(wait=True)
        async with self._teaching:  # a change is made of what there is: two at once would not know of each other
            changed = await asyncio.to_thread(LESSONS[what], self._engine.store, **request)
            if what in NAME_URLS:
                await self._engine.steering.claim([changed])
        await self._engine.teacher.learn_soon(
            TrainingCause(TrainingReason.FEEDBACK, f"{what.replace('_', ' ')}: {request.get('topic', '')}")
        )
        return {"changed": changed}

    async def _take_offers(self, sender: str, offers: list[Any]) -> int:
        async with self._receiving:  # what two hand over at once is taken once
            received: list[Received] = await self._read(receive, sender=sender, offers=offers)
        if received:
            self._engine.counters.add(RECEIVED, len(received))
            admit(self._engine.absorber, received)
        return len(received)

    async def _train(self, judge_anew: bool = True) -> int:
        return await self._engine.teacher.retrain(TrainingCause(TrainingReason.REQUESTED), rejudge=judge_anew)

    async def _read(self, read: Callable[..., Any], **request: Any) -> Any:
        """Read something from the database as it is now."""
        await self._engine.commit(wait=True)
        return await asyncio.to_thread(functools.partial(read, self._engine.store, **request))

    async def _read_by_name(self, what: str, asked: dict[str, Any]) -> Any:
        return await self._read(reader(what), **asked)

    async def _explain_link(self, url: str) -> dict[str, Any]:
        told: dict[str, Any] = await self._read(learn.explain_link, url=url)
        frontier = self._engine.frontier
        told["parts"] = frontier.learner.explain(told["oid"]) if frontier.learner is not None else {}
        priority = frontier.tiers.priority_of(told["oid"])
        if priority is not None:
            told["priority"] = priority
        return told

    def _stop(self) -> dict[str, Any]:
        self._engine.stop("stopped by `opilio stop`")
        return {"stopping": True}


def _as_line(answer: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(answer, default=_plain)
    except (TypeError, ValueError) as error:  # such as a map whose keys are dates
        text = json.dumps({"error": f"the answer cannot be sent: {error}", "hint": "Cast it: CAST(... AS VARCHAR)."})
    return text.encode() + b"\n"


def _plain(value: Any) -> Any:
    """Values of the database as JSON can hold them."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)


def is_running(folder: Path) -> bool:
    """Whether a crawl runs in a collection; a small question, for who asks it often."""
    return ask(folder, "hello", timeout_s=HELLO_TIMEOUT_S) is not None


def ask(folder: Path, do: str, *, timeout_s: float = ASK_TIMEOUT_S, **request: Any) -> Any:
    """Ask the engine that crawls into `folder`; None when none runs. Raises the engine's error, if it has one."""
    try:
        note = json.loads((folder / NOTE).read_text())
        connection = socket.create_connection(("127.0.0.1", int(note["port"])), timeout=5)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    with connection:
        connection.settimeout(timeout_s)
        try:
            line = json.dumps({"token": note["token"], "do": do, **request}).encode() + b"\n"
            if len(line) > MAX_REQUEST_BYTES:
                raise InputError("this is too large for a crawl that runs", "Stop the crawl first, or give less.")
            connection.sendall(line)
            answer = json.loads(connection.makefile("rb").readline())
        except TimeoutError:
            raise CollectionError(f"{folder}: the crawl does not answer", "Try again.") from None
        except (OSError, ValueError, KeyError):  # it ended meanwhile, or its port has gone to some other program
            return None
    if not isinstance(answer, dict) or not answer.keys() & {"error", "result"}:
        return None
    if answer.get("error") == NOT_ALLOWED:  # the crawl of the note was killed, and another one has its port now
        return None
    if "error" in answer:
        raise QueryError(answer["error"], answer.get("hint", ""))
    return answer["result"]
