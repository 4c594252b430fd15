"""What the judgements of a crawl are worth, by the labels: all that was accepted, the most confident first, by metric,
and model by model.

All take arrays over the pages of a crawl in the order of the crawl; `judged` is their relevance. A share of nothing is
not known: nan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.classify.oasis import DIRECTORY
from opilio.lab.experiments.records import UNDOUBTED, ModelRun
from opilio.model import RELEVANT

if TYPE_CHECKING:
    import numpy.typing as npt

    Flags: TypeAlias = npt.NDArray[np.bool_]
    Numbers: TypeAlias = npt.NDArray[np.integer]
    Values: TypeAlias = npt.NDArray[np.float64]

UNKNOWN = float("nan")
_WORDS = frozenset(("collocations", "terms"))
_KINDS: dict[str, Callable[[frozenset[str]], bool]] = {
    "words": lambda said: bool(said & _WORDS),
    "vector": lambda said: "vector" in said and not said & _WORDS,
    "passages": lambda said: "passages" in said and not said & {*_WORDS, "vector"},
    DIRECTORY: lambda said: said == {DIRECTORY},
}
ALONE = tuple(_KINDS)
"""Who can be the only one to speak for a page: each belongs to one of them."""


def share(chosen: Flags, of: Flags) -> float:
    """Which share of the pages `of` is among the `chosen`; nan when there are none."""
    return float((chosen & of).sum() / of.sum()) if of.any() else UNKNOWN


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """What the labels say of the pages of a crawl."""

    right: Flags
    """It has the label."""
    telling: Flags
    """It was no example: that a judge accepts those says little of it."""

    def until(self, pages: int) -> LabelCounts:
        """Of the first pages only."""
        return LabelCounts(self.right[:pages], self.telling[:pages])


@dataclass(frozen=True)
class Accuracy:
    """How far what was accepted is right, and what is right was accepted."""

    precision: float
    recall: float


def accuracy(chosen: Flags, counted: LabelCounts) -> Accuracy:
    """Of the pages that were chosen, the share that has the label; and the other way round."""
    return Accuracy(
        share(counted.right, chosen & counted.telling), share(chosen & counted.telling, counted.right & counted.telling)
    )


def accepted(judged: Values) -> Flags:
    """Which pages count as found."""
    return np.asarray(judged >= RELEVANT)


# -- the most confident first (BINGO 5.2, 5.3)


def by_confidence(judged: Values, confidence: Values) -> Numbers:
    """The places of the pages that were accepted, the most confident first; of equal ones the earlier."""
    places = np.flatnonzero(accepted(judged))
    return places[np.argsort(-confidence[places], kind="stable")]


def best_precision(ranked: Flags) -> Values:
    """The share of the best 1, 2, ... pages that has the label; `ranked` says so of each, the best first."""
    return np.asarray(np.cumsum(ranked) / np.arange(1, len(ranked) + 1)) if len(ranked) else np.array([UNKNOWN])


def best_recall(ranked: Flags, targets: int) -> Values:
    """The share of all targets that is among the best 1, 2, ... pages."""
    return np.asarray(np.cumsum(ranked) / max(targets, 1)) if len(ranked) else np.zeros(1)


def first_hit(ranked: Flags, pages: int) -> int:
    """How many of the best pages one must look at until one is right; more than all `pages` fetched when none is."""
    places = np.flatnonzero(ranked)
    return int(places[0]) + 1 if len(places) else pages + 1


# -- by metric (OASIS 5)


def undoubted(judged: Values, votes: Numbers) -> Flags:
    """Which pages were accepted beyond doubt."""
    sure: Flags = votes & UNDOUBTED > 0
    return accepted(judged) & sure


def alone(kind: str, judged: Values, votes: Numbers, metrics: Sequence[str]) -> Flags:
    """Which pages were accepted because of one kind of metric only; the kind is one of ALONE."""
    sets = {
        code: frozenset(name for at, name in enumerate(metrics) if code >> at & 1) for code in np.unique(votes).tolist()
    }
    spoken = np.array([code for code, said in sets.items() if _KINDS[kind](said)], np.int64)
    return accepted(judged) & ~undoubted(judged, votes) & np.isin(votes, spoken)


# -- model by model


def model_accuracy(models: Sequence[ModelRun], counted: LabelCounts) -> list[Accuracy]:
    """Of each model on all pages of the crawl: the same pages for all, whatever was fetched in its time."""
    return [accuracy(accepted(model.relevances), counted) for model in models]


def kept_accuracy(models: Sequence[ModelRun], counted: LabelCounts) -> list[Accuracy]:
    """Of the collection as each model left it: the pages fetched until the next one came, judged by this one."""
    ends = [*(model.pages for model in models[1:]), len(counted.right)]
    return [
        accuracy(accepted(model.relevances[:end]), counted.until(end)) for model, end in zip(models, ends, strict=True)
    ]
