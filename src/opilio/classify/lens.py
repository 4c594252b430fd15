"""Pages as a trained tree sees them: in one feature space, weighed, and only by the features it knows.

This is most of the work of judging a page: it has thousands of pairs of words, the training documents had millions. So
features are searched for once, in one table that tells both the weight and whether any topic chose the feature; after
that only the few chosen ones are looked at. (A hash table of arrays was no faster to ask, and took seconds to load.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opilio.classify.space_rows import weigh
from opilio.features.evidence import Evidence
from opilio.features.matrix import project
from opilio.features.spaces import TERMS_END, Space, Vector
from opilio.features.weights import Idf

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint64]
    Places = npt.NDArray[np.intp]

_NOT_CHOSEN = -1


class Sight(NamedTuple):
    """A page seen through a lens."""

    places: Places
    """Which of the chosen features it has, ascending."""
    values: npt.NDArray[np.float32]


class Lens:
    """One feature space of a trained tree."""

    def __init__(self, space: Space, idf: Idf, chosen: Ids) -> None:
        """`chosen` are the features that any topic chose, ascending."""
        self.space = space
        self.chosen = chosen
        self._idf = idf
        places, _ = project(Vector(idf.ids_, np.zeros(len(idf.ids_))), chosen)
        unknown = np.delete(chosen, places)
        self._ids = np.insert(idf.ids_, np.searchsorted(idf.ids_, unknown), unknown)
        # Two more rows follow, for terms and for other features that are in neither.
        self._weights = idf.idf(np.concatenate((self._ids, _not_in(self._ids))))
        self._chosen_places = np.full(len(self._weights), _NOT_CHOSEN)
        self._chosen_places[np.searchsorted(self._ids, chosen)] = np.arange(len(chosen))

    def see(self, evidence: Evidence) -> Sight:
        """The chosen features of a page, as `Idf.weigh` weighs them: over the length of all of its features."""
        vector = self.space.vector(evidence)
        if self.space.dense or not len(vector.ids) or not len(self.chosen):
            places, values = project(weigh(self.space, self._idf, vector), self.chosen)
            return Sight(places, values.astype(np.float32))
        rows = np.searchsorted(self._ids, vector.ids)
        is_known = self._ids.take(rows, mode="clip") == vector.ids
        rows = np.where(is_known, rows, len(self._ids) + (vector.ids >= TERMS_END))
        weights = (1.0 + np.log(vector.values)) * self._weights[rows]
        places = self._chosen_places[rows]
        seen = np.flatnonzero(places != _NOT_CHOSEN)
        return Sight(places[seen], (weights[seen] / np.sqrt(weights @ weights)).astype(np.float32))


def _not_in(ids: Ids) -> Ids:
    """A term and a feature of another kind that are not among `ids`, ascending: to ask what unknown ones weigh."""
    some = []
    for start in (0, TERMS_END):
        end = start + len(ids) + 1
        taken = ids[np.searchsorted(ids, np.uint64(start)) : np.searchsorted(ids, np.uint64(end))]
        free = np.flatnonzero(taken != np.arange(start, start + len(taken), dtype=np.uint64))
        some.append(start + (int(free[0]) if len(free) else len(taken)))
    return np.array(some, np.uint64)
