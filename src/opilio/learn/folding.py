"""What a classifier makes of documents that it has not learned from: some are kept aside, it learns from the others.

A judge is surer of a document that it was trained on than of any page it meets: with five examples of a topic, hardly
one page is as sure as they are on the average. So whatever is compared with pages must be judged as pages are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from opilio.classify import CLASSIFIERS, Example, Judge, Model, TrainingSet
from opilio.errors import InputError
from opilio.settings import Settings

FOLDS = 3


def split(examples: Iterable[Example], others: Collection[Example] = ()) -> Iterator[list[Example]]:
    """The documents in folds, those of each topic spread evenly: a topic keeps some whichever fold is kept aside.

    The only document of a topic is in none: without it there would be nothing to learn the topic from.
    """
    groups: dict[tuple[int, bool], list[Example]] = {}
    for example in examples:
        groups.setdefault((example.kcid, example.positive), []).append(example)
    held = [group for (_, positive), group in groups.items() if len(group) > 1 or not positive]
    for fold in range(FOLDS):
        chosen = [example for group in [*held, list(others)] for example in group[fold::FOLDS]]
        if chosen:
            yield chosen


def train_without(training: TrainingSet, held: Collection[Example], settings: Settings) -> Judge:
    """A classifier that has not seen some documents. Raises InputError when the others do not suffice."""
    aside = set(held)
    rest = replace(
        training,
        examples=tuple(example for example in training.examples if example not in aside),
        others=tuple(example for example in training.others if example not in aside),
    )
    return CLASSIFIERS.get(settings.classify.classifier).train(rest, settings)


def confidences(training: TrainingSet, settings: Settings, model: bytes) -> list[float | None]:
    """Of each example of a wanted topic, how sure a classifier is of it that has learned from the others.

    The only document of a topic, and those of a fold whose others do not suffice, are judged by the model there is,
    which has learned from them. Other documents have none.
    """
    return confidences_by(training, settings, Model.from_bytes(model).judge_alone)


def confidences_by(training: TrainingSet, settings: Settings, current: Judge) -> list[float | None]:
    """The same, with the judge there is."""
    asked = [e for e in training.examples if e.positive and training.hierarchy.is_wanted(e.kcid)]
    found: dict[Example, float] = {}
    for held in split(asked):
        try:
            judge = train_without(training, held, settings)
        except InputError:
            continue
        found |= {example: _confidence(judge, example) for example in held}
    found |= {example: _confidence(current, example) for example in asked if example not in found}
    return [found.get(example) for example in training.examples]


def _confidence(judge: Judge, example: Example) -> float:
    """Of a document that another topic took, or none, a judge is not sure at all: it counts 0, or less."""
    judgement = judge.judge(example.evidence)
    is_own = judgement.accepted and judgement.topic == example.kcid
    return judgement.confidence if is_own else min(0.0, judgement.confidence)
