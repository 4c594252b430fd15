"""Training: a training set in, a model out."""

from __future__ import annotations

import json
import pickle
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from opilio.classify import CLASSIFIERS, Estimating, Judge, Model, TrainingSet
from opilio.classify.bayes import BayesTree
from opilio.errors import InputError, OpilioError
from opilio.settings import Settings, to_toml
from opilio.store import Batch, Store
from opilio.store.probes import write_model
from opilio.threads import start_beside


@dataclass(frozen=True)
class Trained:
    """A model, and what is to be known of it without opening it."""

    version: int
    classifier: str
    documents: int
    """It was trained on."""
    estimates: str
    """JSON: topic -> feature space -> expected error, precision and recall; '{}' when the classifier tells none."""
    model: bytes


def train(training: TrainingSet, settings: Settings, version: int) -> Trained:
    """Train the classifier that the settings name. Raises InputError when the examples do not suffice."""
    name = settings.classify.classifier
    judge = CLASSIFIERS.get(name).train(training, settings)
    return Trained(
        version, name, len(training.examples), json.dumps(_estimates(judge)), Model(version, name, judge).to_bytes()
    )


OnStart = Callable[[subprocess.Popen[bytes]], object]
"""Is told the process that trains, so that a caller in a hurry can kill it."""


def train_beside(
    training: TrainingSet, settings: Settings, version: int, on_start: OnStart = lambda process: None
) -> Trained:
    """The same in a process of its own. Blocks its caller, but not the threads beside it."""
    # A crawl waits for its first model; later ones take what it leaves of the processors.
    trained = work_beside("train", (training, settings, version), on_start, can_wait=version > 1)
    if not isinstance(trained, Trained):
        raise OpilioError("training gave no model")
    return trained


def work_beside(what: str, given: tuple[Any, ...], on_start: OnStart, *, can_wait: bool = True) -> Any:
    """What comes of a kind of work (`process.WORK`) in a process of its own. Raises its InputError.

    Work that `can_wait` gives way to whatever else the machine does.
    """
    process = start_beside("opilio.learn.process")
    on_start(process)
    try:
        answer, _ = process.communicate(pickle.dumps((what, given, can_wait)))
    finally:
        process.kill()
    if process.returncode or not answer:
        raise OpilioError("training ended without a model", "Look at the messages above.")
    made, error = pickle.loads(answer)
    if error is not None:
        raise InputError(*error)
    return made


def store_model(store: Store, trained: Trained, reason: str, settings: Settings, taught: str) -> None:
    """Keep a model; one of Focus's also as tables, so that the database can judge by itself.

    `taught` is the fingerprint of what it was made of (`lessons.fingerprint`), taken before that was gathered.
    """
    batch = Batch()
    batch.models.add(
        trained.version, time.time(), trained.classifier, reason, trained.documents, trained.estimates,
        to_toml(Settings(classify=settings.classify, oasis=settings.oasis)), taught, trained.model,
    )  # fmt: skip
    store.write(batch)
    judge = Model.from_bytes(trained.model).judge_alone
    if isinstance(judge, BayesTree):
        with store.writing() as connection:
            write_model(connection, judge.tables())


def _estimates(judge: Judge) -> dict[str, dict[str, dict[str, float]]]:
    if not isinstance(judge, Estimating):
        return {}
    found = judge.estimates().items()
    return {str(kcid): {space: asdict(estimate) for space, estimate in spaces.items()} for kcid, spaces in found}
