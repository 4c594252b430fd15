"""A web on loopback, served as long as a context lasts: starts and ends server processes (`server.py`)."""

from __future__ import annotations

import errno
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import msgspec

from opilio.errors import OpilioError
from opilio.lab.webs.server import CLEAR, LOG, Request, ServerSetup
from opilio.process import Child, start

ADDRESS = "127.0.0.1"
STOP_TIMEOUT_S = 5.0


class LoopbackServer:
    """The part that all servers on loopback share. The server keeps the log, so it shows the requests of a killed
    crawler too. With several workers each keeps a log, and `requests` merges them.
    """

    title: ClassVar[str]
    """What is served, in error messages."""
    target: ClassVar[str]
    """MODULE:FUNCTION that is called in the process, with the setup and the options of the web, both in JSON."""
    hosts: ClassVar[str]
    """Which hosts are served, as a pattern of `fetch.connect_to`."""

    def __init__(self, *, port: int = 0, workers: int = 1, log: bool = True) -> None:
        self.port, self.workers, self.keep_log = port, workers, log
        self.certificate = ""
        """File with a key and a certificate, for a server with TLS."""
        self._children: list[Child] = []
        self._lock = threading.Lock()
        self._folder: Path | None = None

    @property
    def address(self) -> str:
        """Where the server listens: `127.0.0.1:PORT`."""
        return f"{ADDRESS}:{self.port}"

    @property
    def connect_to(self) -> dict[str, str]:
        """What to set `fetch.connect_to` to, so that every host that is served is looked for here."""
        return {self.hosts: self.address}

    def start(self) -> Self:
        """Start serving; on return, connections are accepted."""
        self._folder = Path(tempfile.mkdtemp(prefix="opilio-server-"))
        try:
            options = msgspec.json.encode(self._options(self._folder)).decode()
            with listen(self.port) as listening, (self._folder / "errors.txt").open("wb") as errors:
                self.port = listening.getsockname()[1]
                for worker in range(self.workers):
                    setup = ServerSetup(listening.fileno(), worker, self.keep_log, self.certificate)
                    given = msgspec.json.encode(setup).decode(), options
                    self._children.append(start(self.target, *given, inherited=[listening.fileno()], errors=errors))
            for child in self._children:
                self._expect_ready(child, self._folder / "errors.txt")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server; what is being answered is cut off."""
        for child in self._children:
            child.channel.close()
        for child in self._children:
            child.close(STOP_TIMEOUT_S)
        self._children = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def requests(self) -> list[Request]:
        """All requests since the start or the last `clear_log`, in order of arrival."""
        logs = self._ask(LOG)
        merged = sorted((request for log in logs for request in log), key=lambda request: request.started_s)
        return merged if len(logs) == 1 else list(_recount(merged))

    def clear_log(self) -> None:
        """Forget the requests so far."""
        self._ask(CLEAR)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _options(self, folder: Path) -> dict[str, Any]:
        """What the process needs to know of the web; files for it may be made in `folder`."""
        raise NotImplementedError

    def _expect_ready(self, child: Child, errors: Path) -> None:
        message = child.channel.receive()
        if message:
            problem, hint = msgspec.msgpack.decode(message, type=tuple[str, str])
        else:
            lines = errors.read_text("utf-8", "replace").strip().splitlines()
            problem, hint = lines[-1] if lines else "no reason given", ""
        if problem:
            raise OpilioError(f"the server of {self.title} did not start: {problem}", hint)

    def _ask(self, what: bytes) -> list[list[Request]]:
        """The log of each process."""
        with self._lock:
            if not self._children:
                raise OpilioError(f"{self.title} is not being served", "Use the server inside `with`.")
            return [self._answer(child, what) for child in self._children]

    def _answer(self, child: Child, what: bytes) -> list[Request]:
        answer = bytearray()
        try:
            child.channel.send(what)
            answer = child.channel.receive()
        except ConnectionError:
            pass
        if not answer:
            raise OpilioError(f"the server of {self.title} has ended", "Start it again.")
        return msgspec.msgpack.decode(answer, type=list[Request])


def listen(port: int) -> socket.socket:
    """A socket that listens on loopback; any free port for 0."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
        listening.listen(4096)
    except (OSError, OverflowError) as error:
        listening.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            hint = "Choose another port, or port 0 for any free one."
            raise OpilioError(f"port {port} on {ADDRESS} is in use", hint) from None
        raise OpilioError(f"cannot listen on {ADDRESS}, port {port}: {error}", "Choose another port.") from None
    return listening


def _recount(requests: list[Request]) -> Iterator[Request]:
    """The requests open on a host at each arrival, over all workers, as no worker knows those of the others."""
    ends: dict[str, list[float]] = {}
    for request in requests:
        still_open = [end for end in ends.get(request.host, []) if end > request.started_s]
        ends[request.host] = [*still_open, request.ended_s]
        yield msgspec.structs.replace(request, in_flight=len(ends[request.host]))
