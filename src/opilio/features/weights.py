"""Which features count, and how much: feature selection (BINGO 2.3) and tf*idf weights (BINGO 2.2).

Selected are the features that distinguish a topic from its competitors. Vectors are reduced to those that a model has
selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from opilio.features.spaces import TERMS_END, Vector

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.features.spaces import Ids, Values

    Places = npt.NDArray[np.intp]
    Counts = npt.NDArray[np.int64]


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
        ids, counts = np.unique(np.concatenate([np.zeros(0, np.uint64), *all_ids]), return_counts=True)
        return self.fit_counts(ids, counts, len(all_ids), documents, frequencies)

    def fit_counts(
        self, ids: Ids, counts: Counts, vectors: int, documents: int = 0, frequencies: Mapping[int, int] | None = None
    ) -> Self:
        """The same from ascending features and the number of training documents, of `vectors`, that have each."""
        self.n_terms_ = self.n_others_ = vectors
        if frequencies and documents > vectors:
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


def mutual_information(present: Counts, present_in_topic: Counts, documents: int, documents_in_topic: int) -> Values:
    """P[X and V] log(P[X and V] / (P[X] P[V])) of each feature X and a topic V (BINGO, equation 1).

    This is the part of the mutual information that comes from the presence of a feature in the topic: negative for a
    feature that is rarer in the topic than elsewhere, 0 for one that never occurs in it.
    """
    joint = present_in_topic / documents
    lift = present_in_topic * documents / np.maximum(present * documents_in_topic, 1)
    return joint * np.log(lift, out=np.zeros_like(joint), where=present_in_topic > 0)


def select(positives: Sequence[Vector], negatives: Sequence[Vector], *, candidates: int, features: int) -> Ids:
    """The features of a topic, best first: among its most frequent ones, those with the highest mutual information.

    Features that indicate the competitors come last; they are left out only if there are enough others.
    """
    chosen = _most_frequent(positives, candidates)
    in_topic = document_frequencies(positives, chosen)
    present = in_topic + document_frequencies(negatives, chosen)
    scores = mutual_information(present, in_topic, max(len(positives) + len(negatives), 1), len(positives))
    return _best(chosen, scores, features)


def select_among(classes: Sequence[Sequence[Vector]], *, candidates: int, features: int) -> Ids:
    """The features that distinguish competing classes, best first: for a node of a topic tree as a whole (Focus 2.1).

    Candidates are taken from all classes in turn, the most frequent of each first. They are ranked by their full mutual
    information with the class: that of their presence, which is equation 1 summed over the classes, and that of their
    absence. With few features, this selects better than presence alone, because it prefers words that most pages of a
    class have (docs/concepts/features.md: with 50 features, Bayes had 70 % right instead of 60 %); from 500 on there is
    no difference. Classes count as equally probable; otherwise features of small classes would hardly be selected.
    """
    filled = [vectors for vectors in classes if len(vectors)]
    chosen = _candidates_in_turn(filled, candidates)
    if not len(chosen):
        return chosen
    present = np.array([document_frequencies(vectors, chosen) / len(vectors) for vectors in filled])
    return _best(chosen, _divergence(present) + _divergence(1.0 - present), features)


def _divergence(shares: Values) -> Values:
    """Sum over equally probable classes, the rows, of P[X and V] log(P[X and V] / (P[X] P[V])), given P[X | V]."""
    lift = np.divide(shares, shares.mean(axis=0), out=np.ones_like(shares), where=shares > 0)
    return np.asarray((shares * np.log(lift)).mean(axis=0))


def document_frequencies(vectors: Sequence[Vector], ids: Ids) -> Counts:
    """In how many of `vectors` each of the ascending `ids` occurs."""
    counts = np.zeros(len(ids), np.int64)
    if not len(ids):
        return counts
    for vector in vectors:
        places = np.searchsorted(ids, vector.ids)
        places[places == len(ids)] = 0
        counts[places[ids[places] == vector.ids]] += 1
    return counts


def _most_frequent(vectors: Sequence[Vector], limit: int) -> Ids:
    """The features with the highest total counts, in ascending order."""
    ids, totals = _totals(vectors)
    return np.sort(_best(ids, totals, limit))


def _candidates_in_turn(classes: Sequence[Sequence[Vector]], limit: int) -> Ids:
    """The first `limit` features if each class in turn contributes its most frequent one; in ascending order."""
    ranked = [_best(*_totals(vectors), limit) for vectors in classes]
    ids = np.concatenate([np.zeros(0, np.uint64), *ranked])
    ranks = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(one)) for one in ranked)])
    distinct, places = np.unique(ids, return_inverse=True)
    best_ranks = np.full(len(distinct), limit)
    np.minimum.at(best_ranks, places, ranks)
    return np.sort(_best(distinct, -best_ranks.astype(np.float64), limit))


def _totals(vectors: Sequence[Vector]) -> tuple[Ids, Values]:
    ids = np.concatenate([np.zeros(0, np.uint64), *(vector.ids for vector in vectors)])
    values = np.concatenate([np.zeros(0), *(vector.values for vector in vectors)])
    distinct, places = np.unique(ids, return_inverse=True)
    return distinct, np.bincount(places, values, len(distinct)).astype(np.float64)


def _best(ids: Ids, scores: Values, limit: int) -> Ids:
    """The ids with the highest scores, best first; ties go to the smaller id, so that results are reproducible."""
    return ids[np.lexsort((ids, -scores))[:limit]]
