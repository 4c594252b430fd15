"""The server as its user sees it: a context manager around one or more server processes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from opilio.errors import OpilioError
from opilio.lab.local_web.builder import Size, build, dump
from opilio.lab.local_web.exchange import Config, Request
from opilio.lab.local_web.web import LocalWeb
from opilio.lab.webs.server_pipe import ADDRESS, listen, read_message

STOP_TIMEOUT_S = 5.0


class LocalServer:
    """Serves a local web from processes of its own, on loopback only.

    The log is kept by the server, so it tells what was asked even of a crawler that was killed. With several workers
    each keeps a log, and they are put together when asked for.
    """

    def __init__(
        self,
        web: LocalWeb | Size = "full",
        *,
        latency_s: float = 0.0,
        log: bool = True,
        misbehaving: bool = True,
        port: int = 0,
        workers: int = 1,
        gzip: bool = False,
    ) -> None:
        self.web = web if isinstance(web, LocalWeb) else build(web)
        self.latency_s, self.keep_log, self.misbehaving, self.gzip = latency_s, log, misbehaving, gzip
        self.port, self.workers = port, workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def address(self) -> str:
        """Where the server listens: `127.0.0.1:PORT`."""
        return f"{ADDRESS}:{self.port}"

    @property
    def connect_to(self) -> dict[str, str]:
        """What to set `fetch.connect_to` to, so that every `.test` host is asked here."""
        return {"*.test": self.address}

    def start(self) -> LocalServer:
        """Start serving; on return, connections are accepted."""
        self._folder = tempfile.TemporaryDirectory(prefix="opilio-localweb-")
        try:
            with listen(self.port) as listening:
                self.port = listening.getsockname()[1]
                for worker in range(self.workers):
                    self._processes.append(self._start_worker(worker, listening.fileno()))
            for process in self._processes:
                self._expect_ready(process)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server processes; what is being answered is cut off."""
        for process in self._processes:
            _close(process.stdin)
        for process in self._processes:
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _close(process.stdout)
        self._processes = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def requests(self) -> list[Request]:
        """What was asked since the start or the last `clear_log`, in order of arrival."""
        logs = [msgspec.msgpack.decode(answer, type=list[Request]) for answer in self._ask_all(b"log\n")]
        merged = sorted((request for log in logs for request in log), key=lambda request: request.started_s)
        return merged if len(logs) == 1 else list(_recount(merged))

    def clear_log(self) -> None:
        """Forget what was asked so far."""
        list(self._ask_all(b"clear\n"))

    def __enter__(self) -> LocalServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _start_worker(self, worker: int, listen_fd: int) -> subprocess.Popen[bytes]:
        config = Config(
            web_file=str(self._web_file()),
            listen_fd=listen_fd,
            worker=worker,
            latency_s=self.latency_s,
            keep_log=self.keep_log,
            misbehaving=self.misbehaving,
            gzip=self.gzip,
        )
        # The same import path as ours, and none of our working folder's modules.
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; from opilio.lab.local_web.server import main; main(sys.argv[1:])"
        )
        with self._error_file().open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-c", program, msgspec.json.encode(config).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                pass_fds=[listen_fd],
            )

    def _web_file(self) -> Path:
        """The file the workers read the web from: the cache's, or one of our own for a web that is not cached."""
        if self.web.cache_file is not None and self.web.cache_file.is_file():
            return self.web.cache_file
        file = self._error_file().with_name("web.zst")
        if not file.exists():
            file.write_bytes(dump(self.web))
        return file

    def _error_file(self) -> Path:
        assert self._folder is not None, "the server is not running"
        return Path(self._folder.name) / "errors.txt"

    def _expect_ready(self, process: subprocess.Popen[bytes]) -> None:
        if read_message(process) != b"ready":
            why = self._error_file().read_text("utf-8", "replace").strip().splitlines()
            raise OpilioError(f"the local web's server did not start: {why[-1] if why else 'no reason given'}")

    def _ask_all(self, command: bytes) -> Iterator[bytes]:
        with self._lock:
            for process in self._processes:
                assert process.stdin is not None
                try:
                    process.stdin.write(command)
                    process.stdin.flush()
                except BrokenPipeError:
                    raise OpilioError("the local web's server has ended", "Start it again.") from None
                yield read_message(process)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


def _recount(requests: list[Request]) -> Iterator[Request]:
    """The requests open on a host at each arrival, over all workers, as no worker knows of the others'."""
    ends: dict[str, list[float]] = {}
    for request in requests:
        still_open = [end for end in ends.get(request.host, []) if end > request.started_s]
        ends[request.host] = [*still_open, request.ended_s]
        yield msgspec.structs.replace(request, in_flight=len(ends[request.host]))
