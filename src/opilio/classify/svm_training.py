"""Training of the SVM tree: for each competing topic and each feature space, one hyperplane.

This half needs scikit-learn and runs where models are made; what judges pages is in `svm.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from opilio.analyze.keywords import term_ids
from opilio.classify import xi_alpha
from opilio.classify.hyperplane import costs, fit_hyperplane, moved
from opilio.classify.judge import Estimate, Example, TrainingSet
from opilio.classify.space_rows import SpaceRows
from opilio.errors import InputError
from opilio.features.evidence import Evidence
from opilio.features.spaces import Space, make_space
from opilio.features.weights import Idf
from opilio.settings import Classify

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint64]
    Places = npt.NDArray[np.intp]

_STEM = 0xFFFFFFFF
_HALVINGS = 4
"""Numbers of features that are tried: all, and each time the half."""


@dataclass(frozen=True)
class Plane:
    """One hyperplane, scaled so that weights.x + bias is the confidence."""

    node: int
    topic: int
    space: int
    """Its place in the setting `spaces`."""
    ids: Ids
    """Features, ascending."""
    weights: npt.NDArray[np.float32]
    bias: float
    estimate: Estimate


@dataclass(frozen=True)
class Trained:
    """All that was learned."""

    idfs: tuple[Idf, ...]
    """By space."""
    planes: tuple[Plane, ...]
    stems: dict[int, str]
    """The stems behind the features, for explanations."""


def train_tree(training: TrainingSet, settings: Classify) -> Trained:
    """Learn from the examples; those in which no space finds anything are skipped."""
    spaces = [make_space(name, settings) for name in settings.spaces]
    if not spaces:
        raise InputError("the classifier svm has no feature space", "Set classify.spaces, for example to ['terms'].")
    training = _with_virtual_documents(training, spaces)
    examples = list(training)
    places = {id(example): place for place, example in enumerate(examples)}
    pages = [example.evidence for example in examples]
    rows = [SpaceRows(space, pages, training.documents, training.document_frequencies) for space in spaces]
    planes: list[Plane] = []
    for node in training.hierarchy.inner():
        children = training.hierarchy.children(node)
        groups = [[places[id(example)] for example in training.of(topic)] for topic in children]
        groups.append([places[id(example)] for example in training.others_of(node)])
        arenas = [_Arena.of(one, groups) for one in rows]
        for place, topic in enumerate(children):
            found = {number: arena.plane(place, settings) for number, arena in enumerate(arenas)}
            planes += [Plane(node, topic, number, *plane) for number, plane in found.items() if plane is not None]
            if not any(found.values()):
                raise _missing(training, topic, any(len(arena.groups[place]) for arena in arenas))
    stems = _stems(planes, [example.evidence for example in training.examples], training)
    return Trained(tuple(one.idf for one in rows), tuple(planes), stems)


@dataclass(frozen=True)
class _Arena:
    """The documents that compete at a node, in one space; those with nothing to look at there are left out."""

    rows: SpaceRows
    groups: list[Places]
    """By topic, OTHERS last."""
    everyone: Places
    presence: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: SpaceRows, groups: Sequence[Sequence[int]]) -> _Arena:
        filled = [np.array([place for place in group if rows.filled[place]], np.intp) for group in groups]
        everyone = np.concatenate(filled)
        return cls(rows, filled, everyone, rows.presence(everyone))

    def plane(self, group: int, settings: Classify) -> tuple[Ids, npt.NDArray[np.float32], float, Estimate] | None:
        """Features, weights and bias of one topic, and the estimate; None when one side has no documents here."""
        ours = self.groups[group]
        others = np.concatenate([one for place, one in enumerate(self.groups) if place != group])
        if not len(ours) or not len(others):
            return None
        limits = settings.candidates, max(1, settings.features)
        ranked = self.rows.select(ours, self.presence, len(self.everyone), *limits)
        positive = np.arange(len(ours) + len(others)) < len(ours)
        sizes = [max(1, len(ranked) >> halving) for halving in range(_HALVINGS if settings.tune_features else 1)]
        tried = []
        for size in sizes:
            columns = np.sort(ranked[:size])
            documents = self.rows.documents(np.concatenate((ours, others)), columns)
            tried.append((columns, *_fit(documents, positive, settings.c, self.rows.space.dense)))
        columns, weights, bias, estimate = max(tried, key=lambda one: xi_alpha.quality(one[-1]))
        return self.rows.ids[columns], weights, bias, estimate


def _fit(
    documents: Any, positive: npt.NDArray[np.bool_], c: float, dense: bool
) -> tuple[npt.NDArray[np.float32], float, Estimate]:
    plane = fit_hyperplane(documents, positive, costs(positive, c))
    threshold, unit = moved(plane, positive)
    radius_squared = plane.radius_squared * (2.0 if dense else 1.0)  # products are negative in dense spaces only
    estimate = xi_alpha.estimate(plane.scores, plane.alphas, positive, radius_squared, xi_alpha.USUAL_RHO)
    return (plane.weights / unit).astype("<f4"), (plane.bias - threshold) / unit, estimate


def _with_virtual_documents(training: TrainingSet, spaces: Sequence[Space]) -> TrainingSet:
    """The words that name a topic are its training document as long as it has no better one (BINGO 2)."""

    def is_empty(example: Example) -> bool:
        return not any(len(space.vector(example.evidence).ids) for space in spaces)

    virtual: list[Example] = []
    for kcid, words in training.keywords.items():
        if kcid in training.hierarchy.nodes and all(is_empty(example) for example in training.of(kcid)):
            stems = np.array(term_ids(words), np.uint32)
            virtual.append(Example(kcid, Evidence(stems, title=words), name=f"keywords: {words}"))
    return replace(training, examples=(*training.examples, *virtual)) if virtual else training


def _missing(training: TrainingSet, topic: int, has_examples: bool) -> InputError:
    node = training.hierarchy.nodes[topic]
    name = node.path or node.name or "the crawl"
    if not has_examples:
        return InputError(
            f"topic {name!r} has no example with any text in it",
            "Give it the address of a page that is about it, or words that name it.",
        )
    return InputError(
        f"topic {name!r} has nothing to be told from: no other topic beside it, and no documents of OTHERS",
        "Set classify.others to texts that are about none of the topics, or add a topic beside it.",
    )


def _stems(planes: Sequence[Plane], pages: Sequence[Evidence], training: TrainingSet) -> dict[int, str]:
    """The stems of the features chosen, and of words that stand in several examples, as those of chosen pairs do."""
    chosen = [plane.ids & np.uint64(_STEM) for plane in planes]
    present = [np.unique(page.stems) for page in pages]
    codes, counts = np.unique(np.concatenate([np.zeros(0, np.uint32), *present]), return_counts=True)
    wanted = {*np.unique(np.concatenate([np.zeros(0, np.uint64), *chosen])).tolist(), *codes[counts > 1].tolist()}
    return {code: training.terms[code] for code in sorted(wanted) if code in training.terms}
