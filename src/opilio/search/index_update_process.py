"""Updates an index in a process of its own, alongside a crawl; the process asks its parent for data.

Making words of texts holds the GIL all the time, and the engine's loop needs it for every visit. A process
of its own has its own lock, and a low priority. Only the engine can open the database while a crawl runs, so the
process sends queries to the engine as pickled pairs, and receives tables in Arrow's format.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from opilio.errors import OpilioError, describe_error
from opilio.process import NICENESS, Channel, Child, start

if TYPE_CHECKING:
    from opilio.search.index_update import Updated
    from opilio.store import Store

PROGRAM = "opilio.search.index_update_process:serve_updates"
UPDATE, ASK, GOES_ON, DONE, FAILED = "update", "ask", "goes on", "done", "failed"


class UpdaterProcess:
    """The process, as its parent sees it. The first update starts it."""

    def __init__(self) -> None:
        self._child: Child | None = None

    def update(self, store: Store, folder: Path, goes_on: Callable[[], bool]) -> Updated | None:
        """Bring the index of a collection up to date; None when another process is doing so. Waits for it."""
        try:
            child = self._child = self._child or start(PROGRAM, niceness=NICENESS)
            _say(child.channel, UPDATE, str(folder.absolute()))
            return self._answer(child.channel, store, goes_on)
        except (EOFError, ConnectionError):
            self.close()
            raise OpilioError("the process that updates the index ended", "Look at the messages above.") from None
        except BaseException:  # it may wait for an answer that will not come
            self.close()
            raise

    def _answer(self, channel: Channel, store: Store, goes_on: Callable[[], bool]) -> Updated | None:
        """Answer until the update is done."""
        from opilio.store.index_source import store_query  # noqa: PLC0415

        ask = store_query(store)
        while True:
            what, said = _hear(channel)
            if what == ASK:
                _say(channel, ASK, _packed(ask(*said)))
            elif what == GOES_ON:
                _say(channel, GOES_ON, goes_on())
            elif what == FAILED:
                raise OpilioError(*said)
            else:
                updated: Updated | None = said
                return updated

    def kill(self) -> None:
        """Cancel the update that is running; from any thread. The next one makes up for it."""
        if self._child is not None:
            self._child.kill()

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.close()
            self._child = None


def _say(channel: Channel, what: str, said: Any = None) -> None:
    channel.send(pickle.dumps((what, said), protocol=pickle.HIGHEST_PROTOCOL))


def _hear(channel: Channel) -> tuple[str, Any]:
    """The next pair; raises EOFError when the other end is closed."""
    message = channel.receive()
    if not message:
        raise EOFError
    pair: tuple[str, Any] = pickle.loads(message)
    return pair


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


# -- in the process


class _Asking:
    """The parent, as the process sees it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def ask(self, what: str, said: Any = None) -> Any:
        """What it answers."""
        self.say(what, said)
        answered, answer = _hear(self._channel)
        assert answered == what
        return answer

    def say(self, what: str, said: Any = None) -> None:
        _say(self._channel, what, said)

    def query(self, sql: str, given: dict[str, Any]) -> pa.Table:
        return pa.ipc.open_stream(self.ask(ASK, (sql, given))).read_all()


def serve_updates(channel: Channel) -> None:
    """The work of the process: update indexes until the channel closes."""
    from opilio.search.index_update import update_from  # noqa: PLC0415

    parent = _Asking(channel)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            _, folder = _hear(channel)
            try:
                goes_on = lambda: bool(parent.ask(GOES_ON))  # noqa: E731
                updated = update_from(parent.query, Path(folder), goes_on=goes_on)
            except (OpilioError, OSError, ValueError, RuntimeError) as error:  # the library says much by a ValueError
                parent.say(FAILED, (describe_error(error),))
            else:
                parent.say(DONE, updated)
