"""What a worker and the process that reads its documents say to each other.

A message is its length in four bytes, then msgpack. First comes the setup, answered by `READY`; then requests one way
and replies the other, strictly in turn. `BEGUN` goes before each reply, as soon as the request has arrived: a process
that ends without having said it was lost for other reasons than the file.

Reads files that cannot be trusted, in a process that may be lost: the worker's side.

A file that hangs or crashes its reader costs that file and the start of a new process (a quarter of a second), nothing
else. The process is started with the first file, and files are read one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import msgspec

from opilio.analyze.content import Content, Failure
from opilio.analyze.formats import charset_of, kind_of, media_type
from opilio.process import SINGLE
from opilio.settings import DocumentSettings, Settings

READY, BEGUN = b"ready", b"begun"
MAX_REPLY_BYTES = 1 << 26
"""Far above what any content can have: 500,000 characters of text, twice, and some thousand links."""


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A file to be read."""

    kind: str
    body: bytes
    url: str
    name: str
    charset: str
    max_links: int
    link_context: bool
    obey_rel_nofollow: bool


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """What came of it: one of the two."""

    content: Content | None = None
    failure: Failure | None = None
    is_last: bool = False
    """The process is not to be used again: it ran out of memory."""


encoder = msgspec.msgpack.Encoder()
documents_decoder = msgspec.msgpack.Decoder(DocumentSettings)
request_decoder = msgspec.msgpack.Decoder(Request)
reply_decoder = msgspec.msgpack.Decoder(Reply)


def send(connection: socket.socket, message: bytes) -> None:
    """Send a message."""
    connection.sendall(len(message).to_bytes(4, "big"))
    connection.sendall(message)


def receive(connection: socket.socket, deadline_s: float | None = None, max_bytes: int = 0) -> bytes:
    """The next message; b'' at the end of the stream. Raises TimeoutError at `deadline_s` (monotonic)."""
    size = int.from_bytes(_exactly(connection, 4, deadline_s), "big")
    if max_bytes and size > max_bytes:
        return b""
    return bytes(_exactly(connection, size, deadline_s))


def _exactly(connection: socket.socket, size: int, deadline_s: float | None) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        if deadline_s is not None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0.0:
                raise TimeoutError
            connection.settimeout(left_s)
        got = connection.recv_into(view)
        if not got:
            return bytearray()
        view = view[got:]
    return data


PROGRAM = (sys.executable, "-P", "-m", "opilio.analyze.extraction_process")
FILES_PER_PROCESS = 500
"""After so many files a fresh process is started: what a library has leaked is gone with the old one."""
_ENVIRONMENT = frozenset({"PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR"})
"""Reading a file needs nothing else of what we were told."""
_MAX_NAME_CHARS = 200
_MAX_START_S = 60.0
_TRIES = 3
STOPPED = Failure("reading was stopped")


class Extractor:
    """Reads files, one at a time. May be called from several tasks and threads."""

    def __init__(self, settings: Settings, program: Sequence[str] = PROGRAM) -> None:
        self._settings = settings
        self._program = program
        self._line = ThreadPoolExecutor(max_workers=1, thread_name_prefix="documents")  # files wait here
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._files_left = 0
        self._closed = False

    async def read(self, body: bytes, content_type: str, url: str) -> Content | Failure:
        """The content of a file fetched from `url` (normal form), or why it has none."""
        if self._closed:
            return STOPPED
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._line, self.read_now, body, content_type, url)

    def read_now(self, body: bytes, content_type: str, url: str) -> Content | Failure:
        """The same, for code that may wait."""
        request = self._request(body, content_type, url)
        with self._lock:
            if self._closed:
                return STOPPED
            try:
                return self._ask(request)
            except TimeoutError:
                self._end()
                return Failure(f"took longer than {self._settings.documents.timeout_s:g} s")
            except (OSError, msgspec.MsgspecError) as error:
                self._end()
                return Failure(f"the process that reads documents could not be used: {error}")

    def _request(self, body: bytes, content_type: str, url: str) -> Request:
        settings = self._settings
        name = unquote(url.partition("?")[0].rpartition("/")[2], errors="replace")
        return Request(
            kind=kind_of(media_type(content_type), body, url),
            body=body,
            url=url,
            name=name[-_MAX_NAME_CHARS:],
            charset=charset_of(content_type),
            max_links=settings.traps.max_links_per_page,
            link_context=settings.store.link_context,
            obey_rel_nofollow=settings.robots.obey_rel_nofollow,
        )

    def _ask(self, request: Request) -> Content | Failure:
        """Have one file read; whatever the process does, there is an answer in time."""
        message = encoder.encode(request)
        for _ in range(_TRIES):
            connection = self._running()
            deadline_s = time.monotonic() + self._settings.documents.timeout_s
            connection.settimeout(self._settings.documents.timeout_s)
            with contextlib.suppress(ConnectionError):  # when it is gone, so says the empty answer
                send(connection, message)
            if _received(connection, deadline_s) == BEGUN:
                break
            self._end()  # it was lost before it saw the file
            if self._closed:
                return STOPPED
        else:
            raise OSError("it ends without reading anything")
        answer = _received(connection, deadline_s)
        if not answer:
            return Failure(self._how_it_ended())
        reply = reply_decoder.decode(answer)
        self._files_left -= 1
        if self._files_left <= 0 or reply.is_last:
            self._end()
        return reply.content or reply.failure or Failure("has no content")

    def _running(self) -> socket.socket:
        """The connection to a process that lives."""
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._connection is not None:
            return self._connection
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*self._program, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=SINGLE | {name: value for name, value in os.environ.items() if name in _ENVIRONMENT},
                start_new_session=True,  # so that it can be ended with its children, and Ctrl-C does not reach it
            )
        self._connection = ours
        self._files_left = FILES_PER_PROCESS
        ours.settimeout(_MAX_START_S)
        send(ours, encoder.encode(self._settings.documents))
        try:  # so that starting, which takes long on a busy machine, is not counted as reading
            ready = _received(ours, time.monotonic() + _MAX_START_S)
        except TimeoutError:
            ready = b""
        if ready != READY:
            raise OSError("it does not start")
        return ours

    def _how_it_ended(self) -> str:
        """Why the process gave no answer."""
        process = self._process
        self._end()
        code = process.returncode if process is not None else 0
        if code == -signal.SIGXCPU:
            return f"took longer than {self._settings.documents.timeout_s:g} s"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
        return f"crashed the process that read it ({name})"

    def _end(self) -> None:
        """End the process and its children."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None:
            if process.poll() is None and connection is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """End the process, also in the middle of a file; the extractor cannot be used again."""
        self._closed = True
        self._line.shutdown(wait=False)  # files that still wait there are told so
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        with self._lock:
            self._end()

    async def aclose(self) -> None:
        """The same, from a loop."""
        await asyncio.to_thread(self.close)


def _received(connection: socket.socket, deadline_s: float) -> bytes:
    """The next message; b'' when there is none, because the process is gone or says too much."""
    try:
        return receive(connection, deadline_s, MAX_REPLY_BYTES)
    except ConnectionError:
        return b""
