"""The process that reads documents: files come in over the channel, contents go out.

A file may do its worst here. What it can reach is bounded by the system: memory, time, open files, no writing of files.
The process ends at once when its parent is gone, and at the latest when a file has taken too long: the kernel's timer
ends it wherever it hangs. It is a module of its own because it imports the readers of all formats, which no worker
needs (`extractor.py`).
"""

from __future__ import annotations

import contextlib
import resource
import signal
import sys

from opilio.analyze import draft, html  # readers register on import
from opilio.analyze.content import Failure, Source
from opilio.analyze.documents import archives, legacy_office, pdf, postscript, rtf  # readers register on import
from opilio.analyze.documents.reading import ReadingContext, UnpackBudget, Unreadable
from opilio.analyze.extractor import (
    BEGUN,
    READY,
    ExtractionReply,
    ExtractionRequest,
    documents_decoder,
    encoder,
    request_decoder,
)
from opilio.analyze.formats import read_as
from opilio.analyze.targets import Targets
from opilio.process import Channel, end_with_parent
from opilio.settings import MIB, DocumentSettings

__all__ = ["archives", "draft", "html", "legacy_office", "pdf", "postscript", "rtf", "serve"]

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


def read(request: ExtractionRequest, documents: DocumentSettings, targets: Targets) -> ExtractionReply:
    """Read one file. Whatever is wrong with it is a failure in words."""
    source = Source(
        request.url,
        request.charset,
        targets,
        request.max_links,
        request.link_context,
        request.obey_rel_nofollow,
        request.hidden_links,
    )
    try:
        reading = ReadingContext(source, UnpackBudget(documents), request.name)
        return ExtractionReply(read_as(request.kind, request.body, reading))
    except Unreadable as error:
        return ExtractionReply(failure=Failure(str(error), error.outcome))
    except MemoryError:
        failure = Failure(f"needs more than {documents.memory_bytes / MIB:.4g} MiB of memory")
        return ExtractionReply(failure=failure, is_last=True)
    except Exception as error:  # a defect of ours costs this file only
        return ExtractionReply(failure=Failure(f"analysis failed: {type(error).__name__}: {error}"[:300]))


def serve(channel: Channel) -> None:
    """Read files until the other end closes the channel."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    sys.dont_write_bytecode = True
    setup = channel.receive()
    if not setup:
        return
    documents = documents_decoder.decode(setup)
    limit_resources(documents)
    end_with_parent(channel, signal.SIGKILL)
    targets = Targets()
    channel.send(READY)
    while message := channel.receive():
        limit_time(documents)
        channel.send(BEGUN)
        reply = read(request_decoder.decode(message), documents, targets)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        channel.send(encoder.encode(reply))
