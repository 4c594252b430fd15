"""How a server process and the one that started it talk: a socket handed down, words in, answers in frames out.

Both servers of webs on loopback do it this way, that of recorded webs and that of the local web. The process ends when
its standard input does, so it never outlives its parent.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine

from opilio.errors import OpilioError

ADDRESS = "127.0.0.1"


# -- the parent


def listen(port: int) -> socket.socket:
    """A socket on loopback that listens; any free port for 0."""
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


def read_message(process: subprocess.Popen[bytes]) -> bytes:
    """What a server process says next; b'' when it has ended."""
    assert process.stdout is not None
    size = process.stdout.read(8)
    return process.stdout.read(int.from_bytes(size)) if len(size) == 8 else b""


# -- the server process


def send_to_parent(message: bytes) -> None:
    """A length, then the message; written straight to the pipe, which the parent is reading."""
    data = memoryview(len(message).to_bytes(8) + message)
    while data:
        data = data[os.write(1, data) :]


async def listen_to_parent(log: Callable[[], bytes], clear: Callable[[], None]) -> None:
    """Do what the parent writes to our standard input, one word a line, until it ends: send the log, or clear it."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    send_to_parent(b"ready")
    while line := await reader.readline():
        if line == b"log\n":
            send_to_parent(log())
        elif line == b"clear\n":
            clear()
            send_to_parent(b"cleared")
        else:
            return


def run(serving: Coroutine[None, None, None]) -> None:
    """Serve until the parent is gone, in the fastest event loop there is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair; we end with our standard input
    try:
        import uvloop  # noqa: PLC0415  # not on every platform
    except ImportError:
        asyncio.run(serving)
    else:
        uvloop.run(serving)
