"""The process of the bridge: a driver of Ray, between the engine's channel and the actors.

It is a process of its own because a driver of Ray ends, as a whole and at once, when the node it is connected to is
lost. Then the engine starts it again, and it waits for the cluster. When the engine's end of the channel closes, for
whatever reason, the process ends, and Ray ends its actors.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
import traceback
from typing import TYPE_CHECKING, Any, TextIO

import uvloop

from opilio.cluster.workers import AUTO
from opilio.crawl.messages import encoder, order_decoder, setup_decoder
from opilio.errors import describe_error
from opilio.process import Channel, collect_rarely, end_with_parent, frame, read_message

if TYPE_CHECKING:
    from opilio.cluster.bridge import Bridge

BEAT_S = 5.0  # between two messages to the engine, also while there is nothing to say
RECONNECT_S = 600.0  # how long a cluster may be gone in the middle of a crawl
RETRY_S = 2.0
TELL_S = 30.0  # between two messages to the user about what we wait for
PROBE_S = 5.0
CONNECT_S = 20.0  # Ray itself would try for many minutes
_HINT = "Start it: ray start --head --port 6379 (here), ray start --address HOST:6379 (on other machines)."


def connect(address: str, timeout_s: float, tell: TextIO) -> str:
    """Connect to the cluster; tries again until `timeout_s` have passed. Returns why it failed, '' for success."""
    deadline_s = time.monotonic() + timeout_s
    told_s = 0.0
    while True:
        problem = _try_to_connect(address)
        now_s = time.monotonic()
        if not problem or now_s >= deadline_s:
            return problem
        if now_s - told_s >= TELL_S:
            told_s = now_s
            print(f"opilio: {problem}; trying again for {deadline_s - now_s:.0f} s", file=tell, flush=True)
        time.sleep(RETRY_S)


def _try_to_connect(address: str) -> str:
    import ray  # noqa: PLC0415  (it takes a second, and its environment must be set before)

    try:
        if address != AUTO:
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), PROBE_S).close()
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:  # whatever Ray raises: there are many, and they change
        ray.shutdown()
        return f"no Ray cluster can be reached at {address}: {describe_error(error).splitlines()[0][:300]}"
    return ""


async def serve(engine: Channel, address: str, workers: int, tell: TextIO) -> None:
    """Pass leases and visits on until the engine closes the channel."""
    reader, writer = await engine.streams()
    setup = setup_decoder.decode(await read_message(reader))
    timeout_s = RECONNECT_S if setup.earlier else 0.0
    try:
        connecting = asyncio.to_thread(connect, address, timeout_s, tell)
        problem = await asyncio.wait_for(asyncio.shield(connecting), timeout_s + CONNECT_S)
    except TimeoutError:  # something answers there, but not as Ray does
        problem = f"no Ray cluster can be reached at {address}: no answer within {CONNECT_S:g} s"
    if problem:
        await _greet(writer, problem, _HINT)
        return
    from opilio.cluster.bridge import Bridge  # noqa: PLC0415  (Ray must be there)

    def send(visits: list[Any]) -> None:
        writer.write(frame(encoder.encode(visits)))

    bridge = Bridge(setup, workers, send, lambda text: print(f"opilio: {text}", file=tell, flush=True))
    problem = await bridge.start()
    await _greet(writer, problem, "Opilio must be installed on every node, with the extra `cluster`.")
    if problem:
        return
    beats = asyncio.create_task(_beat(send))
    orders = asyncio.create_task(_take_orders(reader, bridge))
    await asyncio.wait({orders, bridge.defect}, return_when=asyncio.FIRST_COMPLETED)
    beats.cancel()
    for ended in (orders, bridge.defect):
        if ended.done():
            ended.result()


async def _take_orders(reader: asyncio.StreamReader, bridge: Bridge) -> None:
    while message := await read_message(reader):
        bridge.take(order_decoder.decode(message))


async def _greet(writer: asyncio.StreamWriter, problem: str, hint: str) -> None:
    writer.write(frame(encoder.encode((problem, hint if problem else ""))))
    await writer.drain()


async def _beat(send: Any) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        send([])


def own_stderr() -> TextIO:
    """Standard error for us alone: what Ray prints, of its C++ parts too, is in its own logs, not for our user."""
    ours = os.fdopen(os.dup(2), "w")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    return ours


async def _serve_and_end(engine: Channel, address: str, workers: int, tell: TextIO) -> None:
    """Serve, then end without waiting for threads of Ray's: it ends its actors when their driver is gone."""
    try:
        await serve(engine, address, workers, tell)
    except Exception:
        traceback.print_exc(file=tell)
        tell.flush()
        os._exit(1)
    os._exit(0)


def run_bridge(engine: Channel, address: str, workers: str) -> None:
    """The work of the process."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_LOG_TO_STDERR", "0")
    collect_rarely()
    end_with_parent(engine, signal.SIGKILL)  # whatever it waits for
    uvloop.run(_serve_and_end(engine, address, int(workers), own_stderr()))
