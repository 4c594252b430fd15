"""The process that reads documents: files come in on an inherited socket, contents go out on it.

A file may do its worst here. What it can reach is bounded by the system: memory, time, open files, no writing of files.
The process ends at once when its parent is gone, and at the latest when a file has taken too long: the kernel's timer
ends it wherever it hangs.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import sys
import threading

from opilio.analyze import draft, html  # readers register on import
from opilio.analyze.content import Failure, Source
from opilio.analyze.documents import archives, legacy_office, pdf, postscript, rtf  # readers register on import
from opilio.analyze.documents.reading import ReadingContext, UnpackBudget, Unreadable
from opilio.analyze.extractor import (
    BEGUN,
    READY,
    Reply,
    Request,
    documents_decoder,
    encoder,
    receive,
    request_decoder,
    send,
)
from opilio.analyze.formats import read_as
from opilio.analyze.targets import Targets
from opilio.settings import MIB, DocumentSettings

__all__ = ["archives", "draft", "html", "legacy_office", "main", "pdf", "postscript", "rtf"]

GRACE_S = 5.0
"""So much after the time a file may take, the process ends itself; its parent ends it before, when there is one."""
_MAX_OPEN_FILES = 64


def limit_resources(documents: DocumentSettings) -> None:
    """Bound what this process and its children can use."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, _MAX_OPEN_FILES)
    _limit(resource.RLIMIT_AS, documents.memory_bytes)


def _limit(what: int, most: int) -> None:
    with contextlib.suppress(ValueError, OSError):  # a system that does not know the limit, or has a lower one
        resource.setrlimit(what, (most, most))


def limit_time(documents: DocumentSettings) -> None:
    """Start the clock for one file."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = int(used.ru_utime + used.ru_stime + documents.timeout_s) + 2
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    signal.setitimer(signal.ITIMER_REAL, documents.timeout_s + GRACE_S)


def read(request: Request, documents: DocumentSettings, targets: Targets) -> Reply:
    """Read one file. Whatever is wrong with it is a failure in words."""
    source = Source(
        request.url, request.charset, targets, request.max_links, request.link_context, request.obey_rel_nofollow
    )
    try:
        return Reply(read_as(request.kind, request.body, ReadingContext(source, UnpackBudget(documents), request.name)))
    except Unreadable as error:
        return Reply(failure=Failure(str(error), error.outcome))
    except MemoryError:
        failure = Failure(f"needs more than {documents.memory_bytes / MIB:.4g} MiB of memory")
        return Reply(failure=failure, is_last=True)
    except Exception as error:  # a defect of ours costs this file only
        return Reply(failure=Failure(f"analysis failed: {type(error).__name__}: {error}"[:300]))


def _end_with_parent(connection: socket.socket) -> None:
    """Wait until the other end of the socket is closed; then end this process and its children."""
    poll = select.poll()
    poll.register(connection, 0)  # only hanging up counts
    poll.poll()
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def serve(connection: socket.socket) -> None:
    """Read files until the other end closes the socket."""
    setup = receive(connection)
    if not setup:
        return
    documents = documents_decoder.decode(setup)
    limit_resources(documents)
    threading.Thread(target=_end_with_parent, args=(connection,), daemon=True).start()
    targets = Targets()
    send(connection, READY)
    while message := receive(connection):
        limit_time(documents)
        send(connection, BEGUN)
        reply = read(request_decoder.decode(message), documents, targets)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        send(connection, encoder.encode(reply))


def main() -> None:
    """Entry point: `python -m opilio.analyze.extraction_process FD`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the engine's to handle
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    sys.dont_write_bytecode = True
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
