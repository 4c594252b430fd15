"""Re-judges stored pages, here or in a process of its own.

The process receives a model, then pages by the hundreds, and sends judgements.

Judging holds the GIL all the time, and the engine's loop needs it for every visit. A process of its own has
its own lock, and a low priority: alongside a crawl that leaves cores idle it takes them, alongside one that needs all
of them it takes a tenth of what a worker gets. Messages are pickled (`opilio.process`).
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

import numpy as np

from opilio.classify import Model
from opilio.errors import OpilioError
from opilio.features.classifier_input import stored_reader
from opilio.model import Judgement
from opilio.process import NICENESS, Channel, OnStart, start


class StoredPage(NamedTuple):
    """What a stored page is judged by."""

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
        self._reader = stored_reader()

    def __call__(self, pages: Sequence[StoredPage]) -> list[Judgement]:
        """The judgement of each page."""
        return [self._judge(page) for page in pages]

    def _judge(self, page: StoredPage) -> Judgement:
        links, near = [page.anchor] if page.anchor else [], np.frombuffer(page.neighbours, "<u4")
        return self._model.judge(self._reader.read(page.title, page.text, page.language, page.url, links, near))


class PagesJudgeProcess:
    """The same in a process of its own; a context manager."""

    def __init__(self, model: bytes, on_start: OnStart) -> None:
        self._child = start("opilio.learn.rejudging_process:judge_pages", niceness=NICENESS)
        on_start(self._child.process)
        self._model = model

    def __call__(self, pages: Sequence[StoredPage]) -> list[Judgement]:
        """The judgement of each page; waits for it."""
        answer = bytearray()
        try:
            if self._model:
                self._child.channel.send(self._model)
                self._model = b""
            self._child.channel.send(pickle.dumps([tuple(page) for page in pages]))
            answer = self._child.channel.receive()
        except ConnectionError:
            pass
        if not answer:
            raise OpilioError("the process that re-judges pages ended", "Look at the messages above.")
        found: list[Judgement] = pickle.loads(answer)
        return found

    def __enter__(self) -> PagesJudgeProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.close()


def judge_pages(channel: Channel) -> None:
    """The work of the process: judge pages until the channel closes."""
    model = channel.receive()
    if not model:
        return
    judge = PagesJudge(bytes(model))
    while message := channel.receive():
        channel.send(pickle.dumps(judge([StoredPage(*page) for page in pickle.loads(message)])))
