"""The process for documents with readers that do what no file should be able to do to us. Run by tests."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from opilio.analyze import Content
from opilio.analyze.documents.reading import ReadingContext
from opilio.analyze.extraction_process import serve
from opilio.analyze.formats import DOCUMENTS

__all__ = ["serve"]


def _say(text: str) -> Content:
    return Content(text, text)


@DOCUMENTS.register("test/echo")
def _echo(body: bytes, reading: ReadingContext) -> Content:
    time.sleep(0.01)
    return _say(body.decode())


@DOCUMENTS.register("test/sleep")
def _sleep(body: bytes, reading: ReadingContext) -> Content:
    time.sleep(1000)
    return _say("awake")


@DOCUMENTS.register("test/spin")
def _spin(body: bytes, reading: ReadingContext) -> Content:
    while True:
        pass


@DOCUMENTS.register("test/crash")
def _crash(body: bytes, reading: ReadingContext) -> Content:
    os.kill(os.getpid(), signal.SIGSEGV)
    return _say("alive")


@DOCUMENTS.register("test/memory")
def _memory(body: bytes, reading: ReadingContext) -> Content:
    return _say("x" * (1 << 31))


@DOCUMENTS.register("test/write")
def _write(body: bytes, reading: ReadingContext) -> Content:
    Path(body.decode()).write_text("written")
    return _say("written")


@DOCUMENTS.register("test/environment")
def _environment(body: bytes, reading: ReadingContext) -> Content:
    return _say(" ".join(os.environ))


@DOCUMENTS.register("test/process")
def _process(body: bytes, reading: ReadingContext) -> Content:
    return _say(str(os.getpid()))


@DOCUMENTS.register("test/child")
def _child(body: bytes, reading: ReadingContext) -> Content:
    """Starts a program that goes on for ever, tells its number through the pipe `body`, and hangs."""
    child = subprocess.Popen(["sleep", "1000"])
    Path(body.decode()).write_text(str(child.pid))
    time.sleep(1000)
    return _say("done")
