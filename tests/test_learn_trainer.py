"""Training in a process of its own: what it gives way to; and the OTHERS that it learns from."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from learn_webs import OTHERS, documents, hierarchy
from opilio.classify import TrainingSet
from opilio.features.classifier_input import TextReader
from opilio.learn import gather, train_off_loop, trainer
from opilio.process import NICENESS, start
from opilio.settings import Settings
from opilio.store import Batch, Store
from opilio.topics import default_others


@pytest.mark.parametrize(("version", "niceness"), [(1, 0), (2, NICENESS)])
def test_only_the_first_model_is_in_a_hurry(version: int, niceness: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl waits for its first model; later ones must not take the processors from it."""
    monkeypatch.setattr(trainer, "FEW_DOCUMENTS", 0)
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

    trained = train_off_loop(training, Settings(), version, watch)
    watchers[0].join()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert trained.version == version
    assert max(seen) == min(19, own + niceness)


def test_few_documents_are_learned_without_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is that of a process, and neither a process is started nor scikit-learn imported for it."""
    training = TrainingSet(hierarchy("Owls"), tuple(documents(1, "owl", 4, owl=0.2)), OTHERS)
    processes: list[subprocess.Popen[bytes]] = []
    here = train_off_loop(training, Settings(), 1, processes.append)
    assert not processes
    monkeypatch.setattr(trainer, "FEW_DOCUMENTS", 0)
    assert train_off_loop(training, Settings(), 1, processes.append).model == here.model
    assert len(processes) == 1


def test_training_ends_with_its_engine() -> None:
    """A process whose model nobody would take does not stay behind."""
    child = start("opilio.process.child:answer_call")
    child.channel.close()
    try:
        assert child.process.wait(20) in (0, -signal.SIGTERM)  # it has not read anything yet, or watches the channel
    finally:
        child.close()


def test_the_shipped_others_are_read_once(tmp_path: Path) -> None:
    """All training sets of a process share their evidence, which is that of the texts, and have all terms of them."""
    found = []
    for name, words in (("one", "owlquark voleflux"), ("two", "tramquark railflux")):
        with Store.create(tmp_path / name) as store:
            batch = Batch()
            batch.topics.add(0, None, "all", "", "good", [], "")
            batch.training.add(name, "text", 0, True, "given", name, words, 0.0)
            store.write(batch)
            found.append(gather(store, Settings()))
    reader = TextReader()
    for shared, again, document in zip(found[0].others, found[1].others, default_others(), strict=True):
        expected = reader.read(document.title, document.text, document.language)
        assert shared is again
        assert shared.item.stems.tolist() == expected.stems.tolist()
        assert (shared.name, shared.item.text) == (document.title, document.text)
    assert all(reader.terms.items() <= training.terms.items() for training in found)
    own = [set(training.terms) - set(reader.terms) for training in found]
    assert own[0] and own[1] and not own[0] & own[1], "the terms of one collection are not in the other's"
