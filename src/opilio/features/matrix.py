"""Vectors over chosen features: one page as places and values, many pages as a sparse matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opilio.features.spaces import Vector

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.features.spaces import Ids, Values

    Places = npt.NDArray[np.intp]


def project(vector: Vector, ids: Ids) -> tuple[Places, Values]:
    """Where in `ids`, which ascend, the features of `vector` stand, and their values; other features are left out.

    With the weights of a linear model in the order of `ids`, a page's score is `weights[places] @ values`.
    """
    if not len(ids):
        return np.zeros(0, np.intp), np.zeros(0)
    places = np.searchsorted(ids, vector.ids)
    places[places == len(ids)] = 0
    known = ids[places] == vector.ids
    return places[known], vector.values[known]


def to_matrix(vectors: Sequence[Vector], ids: Ids) -> Any:
    """A scipy CSR matrix: a row for each vector, a column for each of `ids`, which ascend."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - takes tenths of a second, and only training needs it

    projected = [project(vector, ids) for vector in vectors]
    columns = np.concatenate([np.zeros(0, np.intp), *(places for places, _ in projected)])
    values = np.concatenate([np.zeros(0), *(row for _, row in projected)])
    ends = np.cumsum([0, *(len(places) for places, _ in projected)])
    return csr_matrix((values, columns, ends), shape=(len(vectors), len(ids)))
