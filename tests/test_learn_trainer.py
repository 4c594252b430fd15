"""Training in a process of its own: what it gives way to."""

import contextlib
import os
import signal
import subprocess
import threading
import time

import pytest

from learn_webs import OTHERS, documents, hierarchy
from opilio.classify import TrainingSet
from opilio.learn import train_in_process
from opilio.process import NICENESS, start
from opilio.settings import Settings


@pytest.mark.parametrize(("version", "niceness"), [(1, 0), (2, NICENESS)])
def test_only_the_first_model_is_in_a_hurry(version: int, niceness: int) -> None:
    """A crawl waits for its first model; later ones must not take the processors from it."""
    training = TrainingSet(hierarchy("Owls"), tuple(documents(1, "owl", 4, owl=0.2)), OTHERS)
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

    trained = train_in_process(training, Settings(), version, watch)
    watchers[0].join()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert trained.version == version
    assert max(seen) == min(19, own + niceness)


def test_training_ends_with_its_engine() -> None:
    """A process whose model nobody would take does not stay behind."""
    child = start("opilio.process.child:answer_call")
    child.channel.close()
    try:
        assert child.process.wait(20) in (0, -signal.SIGTERM)  # it has not read anything yet, or watches the channel
    finally:
        child.close()
