"""The topics that compete below a node, and what their hyperplanes say of a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from opilio.classify.judge import Estimate
from opilio.classify.lens import Lens, Sight
from opilio.classify.meta import Verdicts
from opilio.classify.svm_training import Plane

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint64]
    Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """The hyperplanes of all topics that compete at a node, in one space, side by side over all their features."""

    ids: Ids
    weights: npt.NDArray[np.float32]
    """A row for each feature, a column for each topic."""
    biases: Numbers
    """NaN: the topic has no hyperplane in this space."""
    rows: npt.NDArray[np.int32] | None
    """The row of each feature of the lens, -1 for one of other nodes; None when the features are the same."""

    @classmethod
    def of(cls, topics: Sequence[int], planes: Mapping[int, Plane], seen: Ids) -> Panel:
        """Put `planes`, by topic, side by side; `seen` are the features of the lens."""
        ids = union(planes.values())
        weights = np.zeros((len(ids), len(topics)), np.float32)
        biases = np.full(len(topics), np.nan)
        for column, topic in enumerate(topics):
            if topic in planes:
                weights[np.searchsorted(ids, planes[topic].ids), column] = planes[topic].weights
                biases[column] = planes[topic].bias
        rows = np.full(len(seen), -1, np.int32)
        rows[np.searchsorted(seen, ids)] = np.arange(len(ids))
        return cls(ids, weights, biases, rows if len(ids) < len(seen) else None)

    def votes(self, sight: Sight) -> Numbers:
        """The confidence in each topic; NaN for all when the page has none of their features."""
        rows, values = self._here(sight)
        if not len(rows):
            return np.full(len(self.biases), np.nan)
        votes: Numbers = values @ self.weights.take(rows, axis=0) + self.biases
        return votes

    def parts(self, sight: Sight, column: int) -> dict[int, float]:
        """What each feature of a page added to the vote for one topic."""
        rows, values = self._here(sight)
        added = values * self.weights[rows, column]
        return dict(zip(self.ids[rows].tolist(), added.tolist(), strict=True))

    def _here(self, sight: Sight) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
        if self.rows is None:
            return sight.places, sight.values
        rows = self.rows[sight.places]
        return rows[rows >= 0], sight.values[rows >= 0]


@dataclass(frozen=True)
class Competition:
    """The topics that compete below a node."""

    topics: tuple[int, ...]
    panels: tuple[Panel, ...]
    """By space."""
    estimates: tuple[tuple[Estimate | None, ...], ...]
    """By space and topic."""
    precisions: Numbers
    """The same, only those."""

    @classmethod
    def of(
        cls, topics: Sequence[int], planes: Mapping[tuple[int, int], Plane], lenses: Mapping[int, Lens]
    ) -> Competition:
        """`planes` are by space and topic; those of the spaces with a lens are used."""
        by_space = [{topic: planes[space, topic] for topic in topics if (space, topic) in planes} for space in lenses]
        estimates = tuple(tuple(one[t].estimate if t in one else None for t in topics) for one in by_space)
        precisions = [[estimate.precision if estimate else 0.0 for estimate in row] for row in estimates]
        pairs = zip(by_space, lenses.values(), strict=True)
        panels = tuple(Panel.of(topics, one, lens.chosen) for one, lens in pairs)
        return cls(tuple(topics), panels, estimates, np.array(precisions, np.float64))


@dataclass(frozen=True)
class Asked:
    """A competition, and what was said of a page there."""

    competition: Competition
    votes: Numbers
    """By space and topic."""
    verdicts: Verdicts

    @property
    def topics(self) -> Sequence[int]:
        """The competing topics."""
        return self.competition.topics


def union(planes: Iterable[Plane]) -> Ids:
    """The features of all of them, ascending."""
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *(plane.ids for plane in planes)]))
