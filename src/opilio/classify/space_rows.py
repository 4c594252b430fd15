"""The training documents in one feature space, as the rows of one sparse matrix.

Each topic of a tree chooses its own features among the same documents. Done vector by vector that takes minutes for a
tree of twenty topics; on one matrix it is a few sums of columns. What is chosen is what `features.selection.select`
chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opilio.features.evidence import Evidence
from opilio.features.selection import mutual_information
from opilio.features.spaces import Space, Vector
from opilio.features.weights import Idf

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint64]
    Places = npt.NDArray[np.intp]
    Counts = npt.NDArray[np.int64]


def weigh(space: Space, idf: Idf, vector: Vector) -> Vector:
    """A page as classifiers see it: of length 1, by tf*idf unless the space is dense."""
    if not space.dense:
        return idf.weigh(vector)
    norm = float(np.linalg.norm(vector.values))
    return Vector(vector.ids, vector.values / norm) if norm > 0.0 else Vector(vector.ids[:0], vector.values[:0])


class SpaceRows:
    """Documents by row, features by column."""

    def __init__(self, space: Space, pages: Sequence[Evidence], documents: int, frequencies: Mapping[int, int]) -> None:
        from scipy.sparse import csr_matrix  # noqa: PLC0415 - takes tenths of a second, and only training needs it

        self.space = space
        vectors = [space.vector(page) for page in pages]
        self.idf = Idf().fit([] if space.dense else vectors, documents, frequencies)
        weighed = [weigh(space, self.idf, vector) for vector in vectors]
        self.filled = np.array([len(vector.ids) > 0 for vector in weighed], bool)
        """Which documents have anything to look at in this space."""
        none = np.zeros(0, np.uint64)
        self.ids, columns = np.unique(np.concatenate([none, *(v.ids for v in weighed)]), return_inverse=True)
        ends = np.cumsum([0, *(len(vector.ids) for vector in weighed)])
        shape = (len(pages), len(self.ids))
        values = np.concatenate([np.zeros(0), *(vector.values for vector in weighed)])
        # By columns: a topic takes a few thousand of them, out of millions when they are pairs.
        self._weights: Any = csr_matrix((values, columns, ends), shape=shape).tocsc()
        counts = values if space.dense else np.concatenate([np.zeros(0), *(vector.values for vector in vectors)])
        self._counts: Any = csr_matrix((counts, columns, ends), shape=shape)

    def documents(self, rows: Places, columns: Places) -> Any:
        """Some documents by some features, as a scipy CSR matrix."""
        return self._weights[:, columns].tocsr()[rows]

    def presence(self, rows: Places) -> Counts:
        """In how many of these documents each feature stands."""
        return np.bincount(self._counts[rows].indices, minlength=len(self.ids))

    def select(self, ours: Places, everywhere: Counts, n_documents: int, candidates: int, features: int) -> Places:
        """The columns of the features that tell the documents `ours` from their competitors, best first.

        `everywhere` is the presence in all `n_documents` that compete, `ours` among them.
        """
        if self.space.dense:
            return np.arange(len(self.ids))
        mine = self._counts[ours]
        held, places = np.unique(mine.indices, return_inverse=True)
        chosen = np.sort(_best(np.arange(len(held)), np.bincount(places, mine.data), candidates))
        in_topic = np.bincount(places)[chosen]
        chosen = held[chosen].astype(np.intp)
        scores = mutual_information(everywhere[chosen], in_topic, n_documents, len(ours))
        return _best(chosen, scores, features)


def _best(columns: Places, scores: npt.NDArray[Any], limit: int) -> Places:
    """The columns with the greatest scores, best first; of equal ones the first, so that results reproduce."""
    return columns[np.argsort(-scores, kind="stable")[:limit]]
