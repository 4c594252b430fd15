"""Settings of learning that can be found wrong before anything is fetched.

Training: a training set in, a model out.

The variable part of a filter, drawn anew from what was found since (OASIS 4, step 5).

What an expert may choose from for the filter of the classifier `oasis`.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opilio.classify import CLASSIFIERS, Estimating, Judge, Model, TrainingSet
from opilio.classify.bayes import BayesTree
from opilio.classify.oasis import OasisFilter
from opilio.classify.oasis_filter import proposals, write_proposal
from opilio.errors import InputError, OpilioError, SettingsError
from opilio.features.evidence import TextReader
from opilio.learn.training_set import gather
from opilio.model import RELEVANT
from opilio.process import start_beside
from opilio.settings import ClassifySettings, Settings, to_toml
from opilio.store import Batch, Store
from opilio.store.probes import write_model

SVM = "svm"  # the classifier that looks at feature spaces


def check_settings(settings: Settings) -> None:
    """Refuse a classifier or a feature space that there is not."""
    classify = settings.classify
    if (
        classify == ClassifySettings()
    ):  # the defaults are right, and a crawl that learns nothing need not load a classifier
        return
    from opilio.classify import CLASSIFIERS  # noqa: PLC0415
    from opilio.features import make_space  # noqa: PLC0415

    CLASSIFIERS.get(classify.classifier)
    if classify.classifier == SVM:
        if not classify.spaces:
            raise SettingsError("[classify] spaces: no feature space", 'For example: spaces = ["terms", "pairs"]')
        for spec in classify.spaces:
            make_space(spec, classify)


@dataclass(frozen=True)
class TrainedModel:
    """A model, and what is to be known of it without opening it."""

    version: int
    classifier: str
    documents: int
    """It was trained on."""
    estimates: str
    """JSON: topic -> feature space -> expected error, precision and recall; '{}' when the classifier tells none."""
    model: bytes


def train(training: TrainingSet, settings: Settings, version: int) -> TrainedModel:
    """Train the classifier that the settings name. Raises InputError when the examples do not suffice."""
    name = settings.classify.classifier
    judge = CLASSIFIERS.get(name).train(training, settings)
    return TrainedModel(
        version, name, len(training.examples), json.dumps(_estimates(judge)), Model(version, name, judge).to_bytes()
    )


OnStart = Callable[[subprocess.Popen[bytes]], object]
"""Is told the process that trains, so that a caller in a hurry can kill it."""


def train_beside(
    training: TrainingSet, settings: Settings, version: int, on_start: OnStart = lambda process: None
) -> TrainedModel:
    """The same in a process of its own. Blocks its caller, but not the threads beside it."""
    # A crawl waits for its first model; later ones take what it leaves of the processors.
    trained = work_beside("train", (training, settings, version), on_start, can_wait=version > 1)
    if not isinstance(trained, TrainedModel):
        raise OpilioError("training gave no model")
    return trained


def work_beside(what: str, given: tuple[Any, ...], on_start: OnStart, *, can_wait: bool = True) -> Any:
    """What comes of a kind of work (`process.WORK`) in a process of its own. Raises its InputError.

    Work that `can_wait` gives way to whatever else the machine does.
    """
    process = start_beside("opilio.learn.training_process")
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


def store_model(store: Store, trained: TrainedModel, reason: str, settings: Settings, taught: str) -> None:
    """Keep a model; one of Focus's also as tables, so that the database can judge by itself.

    `taught` is the fingerprint of what it was made of (`lessons.fingerprint`), taken before that was gathered.
    """
    batch = Batch()
    batch.models.add(
        trained.version, time.time(), trained.classifier, reason, trained.documents, trained.estimates,
        to_toml(Settings(classify=settings.classify, oasis=settings.oasis)), taught, trained.model,
    )  # fmt: skip
    store.write(batch)
    judge = Model.from_bytes(trained.model).trained_judge
    if isinstance(judge, BayesTree):
        with store.writing() as connection:
            write_model(connection, judge.tables())


def _estimates(judge: Judge) -> dict[str, dict[str, dict[str, float]]]:
    if not isinstance(judge, Estimating):
        return {}
    found = judge.estimates().items()
    return {str(kcid): {space: asdict(estimate) for space, estimate in spaces.items()} for kcid, spaces in found}


_RECOMMENDED = f"""
    SELECT p.title, p.text, p.language, c.url FROM pages p JOIN crawl c USING (oid)
    WHERE p.relevance >= {RELEVANT} AND p.text IS NOT NULL ORDER BY p.visited DESC LIMIT ?
"""


def redraw(store: Store, version: int) -> TrainedModel | None:
    """The newest model with its variable part drawn from the latest documents found; None when it has no such part."""
    model = Model.from_bytes(store.load_model(version))
    judge = model.trained_judge
    if not isinstance(judge, OasisFilter):
        return None
    reader = TextReader()
    rows = store.query(_RECOMMENDED, [judge.settings.redraw_after], max_rows=2**16).rows
    found = [reader.read(title or "", text, language or "", url) for title, text, language, url in rows]
    drawn = Model(version + 1, model.classifier, judge.redrawn(found, version + 1, reader.terms))
    return TrainedModel(drawn.version, drawn.classifier, len(found), "{}", drawn.to_bytes())


def propose(store: Store, settings: Settings, file: Path) -> int:
    """Write terms and collocations of the examples to a file; how many topics have any."""
    training = gather(store, settings)
    found = proposals(training, settings.oasis)
    if not found:
        raise InputError("no examples to make proposals from", "Crawl first, so that the examples are fetched.")
    write_proposal(file, found, training.hierarchy)
    return len(found)
