"""The process that judges stored pages anew: in go a model, then pages by the hundreds; out come judgements.

Judging holds Python's lock all the time, and the engine's loop needs it for every visit. Here it has a lock of its own,
and a low priority: beside a crawl that leaves cores idle it takes them, beside one that needs them all it takes a tenth
of what a worker gets. Messages are pickled, on standard input and output; both ends are ours, and of what was fetched
there are only texts inside of our own records. The process ends when nobody is left to ask.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple

import numpy as np

from opilio.classify import Model
from opilio.errors import OpilioError
from opilio.features.evidence import TextReader
from opilio.model import Judgement
from opilio.process import NICENESS, start_beside


class StoredPage(NamedTuple):
    """What a page is judged by when it is judged anew."""

    url: str
    title: str
    language: str
    text: str
    anchor: str
    neighbours: bytes


class PagesJudge:
    """A model that judges stored pages."""

    def __init__(self, model: bytes) -> None:
        self._model = Model.from_bytes(model)
        self._reader = TextReader()

    def __call__(self, pages: Sequence[StoredPage]) -> list[Judgement]:
        """What the model says of each."""
        found = [self._judge(page) for page in pages]
        self._reader.terms.clear()  # nobody asks for the words of all pages
        return found

    def _judge(self, page: StoredPage) -> Judgement:
        links, near = [page.anchor] if page.anchor else [], np.frombuffer(page.neighbours, "<u4")
        return self._model.judge(self._reader.read(page.title, page.text, page.language, page.url, links, near))


class PagesJudgeBeside:
    """The same in a process of its own; a context manager."""

    def __init__(self, model: bytes, on_start: Callable[[subprocess.Popen[bytes]], object]) -> None:
        """`on_start` is told the process, so that a caller in a hurry can kill it."""
        self._process = start_beside("opilio.learn.rejudging_process")
        on_start(self._process)
        self._model = model

    def __call__(self, pages: Sequence[StoredPage]) -> list[Judgement]:
        """What the model says of each; waits for it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            if self._model:
                pickle.dump(self._model, self._process.stdin)
                self._model = b""
            pickle.dump([tuple(page) for page in pages], self._process.stdin)
            self._process.stdin.flush()
            found: list[Judgement] = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise OpilioError("the process that judges pages anew ended", "Look at the messages above.") from None
        return found

    def __enter__(self) -> PagesJudgeBeside:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()


def main() -> None:
    """Entry point: `python -m opilio.learn.rejudging_process`."""
    os.nice(NICENESS)
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        judge = PagesJudge(pickle.load(asked))
        while True:
            pages = [StoredPage(*page) for page in pickle.load(asked)]
            pickle.dump(judge(pages), answers)
            answers.flush()
    except EOFError:
        pass


if __name__ == "__main__":
    main()
