"""The process of one worker: leases come in on an inherited socket, visits go out on it.

When the engine's end of the socket closes, for whatever reason, the process ends: no worker outlives its engine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys

import uvloop

from opilio.crawl.messages import encoder, frame, order_decoder, read_message, setup_decoder
from opilio.crawl.worker import Worker
from opilio.model import Lease, Visit
from opilio.process import collect_rarely

FLUSH_S = 0.03  # visits are sent together that end within this time: fewer wake-ups of the engine
FLUSH_VISITS = 32
AT_ONCE_LEASES = 16  # with fewer under way a visit is sent at once: who waits for its host would wait longer for us


class _Sender:
    """Collects visits and sends them together, when there are many."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.under_way = 0
        self._visits: list[Visit] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, visit: Visit) -> None:
        self._visits.append(visit)
        self.under_way -= 1
        if len(self._visits) >= FLUSH_VISITS or self.under_way < AT_ONCE_LEASES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._visits:
            self._writer.write(frame(encoder.encode(self._visits)))
            self._visits = []


async def serve(engine: socket.socket) -> None:
    """Carry out leases until the engine closes the socket."""
    reader, writer = await asyncio.open_connection(sock=engine)
    setup = await read_message(reader)
    if not setup:
        return
    worker = Worker(setup_decoder.decode(setup))
    sender = _Sender(writer)
    tasks: set[asyncio.Task[None]] = set()

    async def carry_out(lease: Lease) -> None:
        sender.add(await worker.visit(lease))

    while message := await read_message(reader):
        order = order_decoder.decode(message)
        if order.model:
            worker.learn(order.model)
        if order.link_words:
            worker.send_link_words()
        sender.under_way += len(order.leases)
        for lease in order.leases:
            task = asyncio.create_task(carry_out(lease))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    for task in tasks:
        task.cancel()
    await worker.aclose()


def main() -> None:
    """Entry point: `python -m opilio.crawl.worker_process FD`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the engine's to handle
    collect_rarely()
    uvloop.run(serve(socket.socket(fileno=int(sys.argv[1]))))
    os._exit(0)  # all is closed; to free a million remembered words one by one takes a tenth of a second


if __name__ == "__main__":
    main()
