"""Reads files that cannot be trusted, in a child process that may be lost: the worker's side.

A file that hangs or crashes its reader costs that file and the start of a new process (a quarter of a second), nothing
else. The process is started with the first file, and files are read one at a time.

Messages are msgpack. First comes the setup, answered by `READY`; then requests one way and replies the other, strictly
in turn. `BEGUN` goes before each reply, as soon as the request has arrived: a process that ends without having sent it
was lost for other reasons than the file.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import unquote

import msgspec

from opilio.analyze.content import Content, Failure
from opilio.analyze.formats import charset_of, kind_of, media_type
from opilio.process import Channel, Child, start
from opilio.settings import DocumentSettings, Settings

PROGRAM = "opilio.analyze.extraction_process:serve"
FILES_PER_PROCESS = 500
"""After this many files a fresh process is started: what a library has leaked is gone with the old one."""
READY, BEGUN = b"ready", b"begun"
MAX_REPLY_BYTES = 1 << 26
"""Far above what any content can have: 500,000 characters of text, twice, and some thousand links."""
STOPPED = Failure("reading was stopped")
_ENVIRONMENT = frozenset({"PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR"})
"""Reading a file needs nothing else from our environment."""
_MAX_NAME_CHARS = 200
_MAX_START_S = 60.0
_TRIES = 3


class ExtractionRequest(msgspec.Struct, frozen=True, array_like=True):
    """A file to be read."""

    kind: str
    body: bytes
    url: str
    name: str
    charset: str
    max_links: int
    link_context: bool
    obey_rel_nofollow: bool
    hidden_links: bool


class ExtractionReply(msgspec.Struct, frozen=True, array_like=True):
    """What came of it: a content or a failure."""

    content: Content | None = None
    failure: Failure | None = None
    is_last: bool = False
    """The process is not to be used again: it ran out of memory."""


encoder = msgspec.msgpack.Encoder()
documents_decoder = msgspec.msgpack.Decoder(DocumentSettings)
request_decoder = msgspec.msgpack.Decoder(ExtractionRequest)
reply_decoder = msgspec.msgpack.Decoder(ExtractionReply)


class Extractor:
    """Reads files, one at a time. May be called from several tasks and threads."""

    def __init__(self, settings: Settings, program: str = PROGRAM) -> None:
        self._settings = settings
        self._program = program
        self._line = ThreadPoolExecutor(max_workers=1, thread_name_prefix="documents")  # files wait here
        self._lock = threading.Lock()
        self._child: Child | None = None
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

    def _request(self, body: bytes, content_type: str, url: str) -> ExtractionRequest:
        settings = self._settings
        name = unquote(url.partition("?")[0].rpartition("/")[2], errors="replace")
        return ExtractionRequest(
            kind=kind_of(media_type(content_type), body, url),
            body=body,
            url=url,
            name=name[-_MAX_NAME_CHARS:],
            charset=charset_of(content_type),
            max_links=settings.traps.max_links_per_page,
            link_context=settings.store.link_context,
            obey_rel_nofollow=settings.robots.obey_rel_nofollow,
            hidden_links=settings.traps.hidden_links,
        )

    def _ask(self, request: ExtractionRequest) -> Content | Failure:
        """Have one file read; whatever the process does, there is an answer in time."""
        message = encoder.encode(request)
        for _ in range(_TRIES):
            channel = self._running()
            deadline_s = time.monotonic() + self._settings.documents.timeout_s
            with suppress(ConnectionError):  # when the process is gone, the answer is empty
                channel.send(message, deadline_s)
            if channel.receive(deadline_s, MAX_REPLY_BYTES) == BEGUN:
                break
            self._end()  # it was lost before it saw the file
            if self._closed:
                return STOPPED
        else:
            raise OSError("it ends without reading anything")
        answer = channel.receive(deadline_s, MAX_REPLY_BYTES)
        if not answer:
            return Failure(self._how_it_ended())
        reply = reply_decoder.decode(answer)
        self._files_left -= 1
        if self._files_left <= 0 or reply.is_last:
            self._end()
        return reply.content or reply.failure or Failure("has no content")

    def _running(self) -> Channel:
        """The channel to a process that is alive."""
        if self._child is not None and self._child.process.poll() is not None:
            self._end()
        if self._child is not None:
            return self._child.channel
        self._child = start(
            self._program,
            environment={name: value for name, value in os.environ.items() if name in _ENVIRONMENT},
            output=subprocess.DEVNULL,
            errors=subprocess.DEVNULL,
            own_session=True,
        )
        channel = self._child.channel
        self._files_left = FILES_PER_PROCESS
        deadline_s = time.monotonic() + _MAX_START_S
        channel.send(encoder.encode(self._settings.documents), deadline_s)
        ready = bytearray()
        with suppress(TimeoutError):  # so that starting, which takes long on a busy machine, is not counted as reading
            ready = channel.receive(deadline_s, MAX_REPLY_BYTES)
        if ready != READY:
            raise OSError("it does not start")
        return channel

    def _how_it_ended(self) -> str:
        """Why the process gave no answer."""
        child = self._child
        self._end()
        code = (child.process.returncode or 0) if child is not None else 0
        if code == -signal.SIGXCPU:
            return f"took longer than {self._settings.documents.timeout_s:g} s"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
        return f"crashed the process that read it ({name})"

    def _end(self) -> None:
        """End the process and its children."""
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def close(self) -> None:
        """End the process, also in the middle of a file; the extractor cannot be used again."""
        self._closed = True
        self._line.shutdown(wait=False)  # files that still wait there get `STOPPED`
        child = self._child
        if child is not None:
            child.kill()
        with self._lock:
            self._end()

    async def aclose(self) -> None:
        """The same, from a loop."""
        await asyncio.to_thread(self.close)
