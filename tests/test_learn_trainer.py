"""Training in a process of its own: what it gives way to."""

import contextlib
import os
import subprocess
import threading
import time

import pytest

from learn_webs import text
from opilio.classify import Example, TrainingSet
from opilio.features.evidence import TextReader
from opilio.learn import train_beside
from opilio.settings import Settings
from opilio.threads import NICENESS
from opilio.topics import default_others
from opilio.topics.hierarchy import ABOVE_ROOT, Hierarchy, Mark, Node


@pytest.mark.parametrize(("version", "niceness"), [(1, 0), (2, NICENESS)])
def test_only_the_first_model_is_in_a_hurry(version: int, niceness: int) -> None:
    """A crawl waits for its first model; later ones must not take the processors from it."""
    reader = TextReader()
    hierarchy = Hierarchy([Node(0, ABOVE_ROOT, "all", "", Mark.PATH), Node(1, 0, "Owls", "Owls", Mark.GOOD)])
    owls = tuple(Example(1, reader.read("", text(n, owl=0.2)), True, f"owl {n}") for n in range(4))
    others = tuple(
        Example(ABOVE_ROOT, reader.read(one.title, one.text, one.language), False, one.title)
        for one in list(default_others())[:20]
    )
    seen: set[int] = set()
    watchers: list[threading.Thread] = []

    def watch(process: subprocess.Popen[bytes]) -> None:
        def look() -> None:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                while process.poll() is None:
                    seen.add(os.getpriority(os.PRIO_PROCESS, process.pid))
                    time.sleep(0.005)

        watchers.append(threading.Thread(target=look))
        watchers[0].start()

    trained = train_beside(TrainingSet(hierarchy, owls, others), Settings(), version, watch)
    watchers[0].join()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert trained.version == version
    assert max(seen) == min(19, own + niceness)
