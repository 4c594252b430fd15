"""The process that brings an index up to date beside a crawl: it asks for what it needs of the database.

Making words of texts holds Python's lock all the time, and the engine's loop needs it for every visit. Here it has a
lock of its own, and a low priority. Only the engine can open the database while a crawl runs: so the process asks on
its standard output, in pickled pairs, and is answered on its standard input, with tables in Arrow's format. Both ends
are ours. The process ends when nobody is left to answer.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from opilio.errors import OpilioError, describe_error
from opilio.process import NICENESS, start_beside

if TYPE_CHECKING:
    from opilio.search.updating import Updated
    from opilio.store import Store
    from opilio.store.index_source import Query

UPDATE, BEGIN, ASK, GOES_ON, DONE, FAILED = "update", "begin", "ask", "goes on", "done", "failed"


class UpdaterBeside:
    """The process, as its parent sees it. It is started by the first update."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def update(self, store: Store, folder: Path, goes_on: Callable[[], bool]) -> Updated | None:
        """Bring the index of a collection up to date; None when another process is doing so. Waits for it."""
        try:
            process = self._process = self._process or start_beside("opilio.search.updating_process")
            _say(process, UPDATE, str(folder.absolute()))
            with contextlib.ExitStack() as snapshot:
                return self._answer(process, store, goes_on, snapshot)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.close()
            raise OpilioError("the process that updates the index ended", "Look at the messages above.") from None
        except BaseException:  # it may wait for an answer that will not come
            self.close()
            raise

    def _answer(
        self,
        process: subprocess.Popen[bytes],
        store: Store,
        goes_on: Callable[[], bool],
        snapshot: contextlib.ExitStack,
    ) -> Updated | None:
        """Answer until the update is done."""
        from opilio.store.index_source import snapshot_query  # noqa: PLC0415

        assert process.stdout is not None
        ask: Query | None = None
        while True:
            what, said = pickle.load(process.stdout)
            if what == BEGIN:
                snapshot.close()
                ask = snapshot.enter_context(snapshot_query(store))
            elif what == ASK:
                assert ask is not None
                _say(process, ASK, _packed(ask(*said)))
            elif what == GOES_ON:
                _say(process, GOES_ON, goes_on())
            elif what == FAILED:
                raise OpilioError(*said)
            else:
                updated: Updated | None = said
                return updated

    def kill(self) -> None:
        """Have an update under way given up; from any thread. It is made up for by the next."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _say(process: subprocess.Popen[bytes], what: str, said: Any) -> None:
    assert process.stdin is not None
    pickle.dump((what, said), process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
    process.stdin.flush()


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


# -- in the process


class _Asking:
    """The parent, as the process sees it."""

    def ask(self, what: str, said: Any = None) -> Any:
        """What it answers."""
        self.say(what, said)
        answered, answer = pickle.load(sys.stdin.buffer)
        assert answered == what
        return answer

    @staticmethod
    def say(what: str, said: Any = None) -> None:
        pickle.dump((what, said), sys.stdout.buffer)
        sys.stdout.buffer.flush()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Query]:
        self.say(BEGIN)
        yield lambda sql, given: pa.ipc.open_stream(self.ask(ASK, (sql, given))).read_all()


def main() -> None:
    """Entry point: `python -m opilio.search.updating_process`."""
    from opilio.analyze.terms import Vocabulary  # noqa: PLC0415
    from opilio.search.updating import update_from  # noqa: PLC0415

    os.nice(NICENESS)
    parent, vocabulary = _Asking(), Vocabulary()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            _, folder = pickle.load(sys.stdin.buffer)
            try:
                goes_on = lambda: bool(parent.ask(GOES_ON))  # noqa: E731
                updated = update_from(parent.snapshot, Path(folder), vocabulary, goes_on=goes_on)
            except (OpilioError, OSError, ValueError, RuntimeError) as error:  # the library says much by a ValueError
                parent.say(FAILED, (describe_error(error),))
            else:
                parent.say(DONE, updated)


if __name__ == "__main__":
    main()
