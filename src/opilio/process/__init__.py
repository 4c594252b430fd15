"""Child processes: how Opilio starts them, how it talks to them, and how they end.

Work that holds the GIL for long, that may crash, or that must not share memory with the engine is done in a
child process. `start` starts them in the same way (`child.py`):

    child = start("opilio.crawl.worker_pool:work")  # MODULE:FUNCTION
    child.channel.send(b"a message")
    answer = child.channel.receive()

The child runs `python -P -m opilio.process`, imports the module from where its parent imports, and calls the function
with its end of the channel. It leads a process group of its own, so Ctrl-C reaches the parent only. `call` is the short
form for one function call whose result is wanted; `prepare` starts its child ahead of time, so that it has imported
what it needs when the call comes. A command forks its workers (`fork`) as long as it has no threads, which saves them
the start of an interpreter and the imports that both need.

A channel is a pair of connected sockets (`channel.py`). A message is its length in eight bytes, then its bytes; what
the bytes mean (msgpack or pickle) is up to the two ends. Both ends are ours: nothing that was fetched is ever
unpickled, except for texts inside our own records.

No child outlives its parent. When the parent ends, even by kill -9, the channel closes: a child that reads it sees the
end of the stream and returns. A child that may be in the middle of long work then calls `end_with_parent`.

`interpreter.py` has what every process of ours sets first: names that are imported when they are first used, so that
processes start quickly; one thread of linear algebra; a garbage collector that runs rarely; one heap for
all threads. Nothing in this package imports anything large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process.interpreter import (
    INTERRUPTED,
    collect_rarely,
    exit_at_once,
    exit_quickly,
    importing,
    let_interrupt_exit,
    let_interrupt_raise,
    lighten_duckdb,
    lighten_pyarrow,
    loader,
    name_process,
    own_interpreter,
    release_libraries,
    share_one_heap,
    use_one_thread,
)

if TYPE_CHECKING:
    from opilio.process.channel import Channel, frame, read_message
    from opilio.process.child import NICENESS, Child, OnStart, Process, call, end_with_parent, fork, prepare, start

__all__ = [
    "INTERRUPTED",
    "NICENESS",
    "Channel",
    "Child",
    "OnStart",
    "Process",
    "call",
    "collect_rarely",
    "end_with_parent",
    "exit_at_once",
    "exit_quickly",
    "fork",
    "frame",
    "importing",
    "let_interrupt_exit",
    "let_interrupt_raise",
    "lighten_duckdb",
    "lighten_pyarrow",
    "loader",
    "name_process",
    "own_interpreter",
    "prepare",
    "read_message",
    "release_libraries",
    "share_one_heap",
    "start",
    "use_one_thread",
]

_MODULES = {
    **dict.fromkeys(("Channel", "frame", "read_message"), "channel"),
    **dict.fromkeys(
        ("NICENESS", "Child", "OnStart", "Process", "call", "end_with_parent", "fork", "prepare", "start"), "child"
    ),
}

__getattr__ = loader(__name__, _MODULES)
