"""Weights of features: tf*idf (BINGO 2.2), and vectors reduced to the features that a model has selected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from opilio.features.spaces import TERMS_END, Vector

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.features.spaces import Ids, Values

    Places = npt.NDArray[np.intp]


class Idf:
    """Inverse document frequencies, ln((1+n) / (1+df)) + 1, and vectors weighted by them.

    A feature that was never seen has the weight of one that was seen once, which is the largest. It must not weigh
    more: every new page is full of unseen features, training pages have none, and through the norm they would make the
    known features of new pages weaker than they were in training. It also means that features seen once, more than half
    of all, need not be stored.
    """

    ids_: Ids
    """Features seen in two or more documents, ascending."""
    frequencies_: Ids
    """In how many documents each was seen."""
    n_terms_: int
    """Number of documents in which plain terms were counted."""
    n_others_: int
    """Number of documents in which all other features were counted."""

    def fit(self, vectors: Iterable[Vector], documents: int = 0, frequencies: Mapping[int, int] | None = None) -> Self:
        """Count features in training documents; plain terms in the collection instead, if that has more documents.

        `frequencies` is the number of pages, out of `documents`, in which each term occurs.
        """
        all_ids = [vector.ids for vector in vectors]
        self.n_terms_ = self.n_others_ = len(all_ids)
        ids, counts = np.unique(np.concatenate([np.zeros(0, np.uint64), *all_ids]), return_counts=True)
        if frequencies and documents > len(all_ids):
            self.n_terms_ = documents
            first_other = np.searchsorted(ids, np.uint64(TERMS_END))
            terms = np.fromiter(frequencies, np.uint64, len(frequencies))
            term_counts = np.fromiter(frequencies.values(), np.int64, len(frequencies))
            order = np.argsort(terms)
            ids = np.concatenate((terms[order], ids[first_other:]))
            counts = np.concatenate((term_counts[order], counts[first_other:]))
        return self._keep(ids[counts > 1], counts[counts > 1].astype(np.uint64))

    def idf(self, ids: Ids) -> Values:
        """The inverse document frequency of each feature."""
        idf: Values = np.where(ids < TERMS_END, self._rare_term, self._rare_other)
        if not len(self.ids_):
            return idf
        places = np.searchsorted(self.ids_, ids)
        places[places == len(self.ids_)] = 0
        known = self.ids_[places] == ids
        idf[known] = self._idf[places[known]]
        return idf

    def weigh(self, vector: Vector) -> Vector:
        """(1 + ln tf) * idf, divided by the length of the whole vector.

        The whole vector counts: if only the selected features of a topic did, a page that shares a single feature with
        the topic would seem to be about nothing else.
        """
        if not len(vector.ids):
            return vector
        weights = (1.0 + np.log(vector.values)) * self.idf(vector.ids)
        return Vector(vector.ids, weights / np.sqrt(weights @ weights))

    def to_table(self) -> dict[str, Any]:
        """What was learned, as plain values."""
        return {
            "ids": self.ids_.astype("<u8").tobytes(),
            "frequencies": self.frequencies_.astype("<u4").tobytes(),
            "n_terms": self.n_terms_,
            "n_others": self.n_others_,
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """The weights that were saved as `table`."""
        idf = cls()
        idf.n_terms_, idf.n_others_ = table["n_terms"], table["n_others"]
        frequencies = np.frombuffer(table["frequencies"], "<u4").astype(np.uint64)
        return idf._keep(np.frombuffer(table["ids"], "<u8").astype(np.uint64), frequencies)

    def _keep(self, ids: Ids, frequencies: Ids) -> Self:
        self.ids_, self.frequencies_ = ids, frequencies
        documents = np.where(ids < TERMS_END, self.n_terms_, self.n_others_)
        self._idf: Values = _smooth(documents, frequencies)
        self._rare_term, self._rare_other = _smooth(np.array([self.n_terms_, self.n_others_]), np.uint64(1)).tolist()
        return self


def _smooth(documents: Any, frequencies: Any) -> Values:
    # Never below 1, although the counts of a collection may be ahead of its number of pages, or be 1 of 0.
    idf: Values = np.maximum(np.log((1.0 + documents) / (1.0 + frequencies)) + 1.0, 1.0)
    return idf


def project(vector: Vector, ids: Ids) -> tuple[Places, Values]:
    """The places of the features of `vector` in the ascending `ids`, and their values; other features are left out.

    With the weights of a linear model in the order of `ids`, the score of a page is `weights[places] @ values`.
    """
    if not len(ids):
        return np.zeros(0, np.intp), np.zeros(0)
    places = np.searchsorted(ids, vector.ids)
    places[places == len(ids)] = 0
    known = ids[places] == vector.ids
    return places[known], vector.values[known]
