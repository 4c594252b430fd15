"""Which features count, and how much: feature selection (BINGO 2.3) and tf*idf weights (BINGO 2.2).

Selected are the features that distinguish a topic from its competitors. Vectors are reduced to those that a model has
selected (`FeatureWeights`).

Finding the features of a page among those that are known is most of the work: a page has thousands of pairs of words,
the training documents had millions. Feature numbers are hash codes, so their first bits show nearly where one is
(`FeatureTable`), four times as fast as by halving. (A hash table of arrays was no faster, and took seconds to load.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from opilio.features.spaces import TERMS_END, Vector

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.features.spaces import Ids, Values

    Places = npt.NDArray[np.intp]
    Counts = npt.NDArray[np.int64]

_FEW = 256
"""So many features are found as fast by halving."""
_NOT_CHOSEN = -1
_LAST = np.uint64(2**64 - 1)
_MOST_IN_PIECE = 32
_BATCH = 16_384


class FeatureTable:
    """Ascending feature numbers, among which others are found."""

    def __init__(self, ids: Ids) -> None:
        self._padded = np.append(ids, _LAST)  # so that a search ends

    @property
    def ids(self) -> Ids:
        """The feature numbers."""
        return self._padded[:-1]

    def find(self, ids: Ids) -> Places:
        """The row of each of `ids`; one more than the last row for a number that is not there."""
        is_searched = len(ids) >= _FEW and self._pieces is not None
        rows = self._search(ids) if is_searched else np.searchsorted(self.ids, ids)
        rows[self._padded.take(rows) != ids] = len(self.ids)
        return rows

    def _search(self, ids: Ids) -> Places:
        """The first row that is not below each of `ids`; any row for those below the first."""
        assert self._pieces is not None
        first, shift, starts = self._pieces
        pieces = np.minimum((ids - first) >> shift, np.uint64(len(starts) - 1))
        rows: Places = starts.take(pieces.view(np.int64)).astype(np.intp)
        behind = np.flatnonzero(self._padded.take(rows) < ids)
        while len(behind):
            rows[behind] += 1
            behind = behind[self._padded.take(rows[behind]) < ids[behind]]
        return rows

    @cached_property
    def _pieces(self) -> tuple[np.uint64, np.uint64, npt.NDArray[np.int32]] | None:
        """The first number, how many bits the numbers of a piece differ in, and the row at which each piece begins.

        The numbers are divided into pieces of equal range, twice as many as there are numbers. None when many are in
        one piece, as where terms and pairs are combined.
        """
        if not len(self.ids):
            return None
        first = self.ids[0]
        shift = np.uint64(max(0, int(self.ids[-1] - first).bit_length() - (2 * len(self.ids)).bit_length()))
        sizes = np.bincount(((self.ids - first) >> shift).view(np.int64))
        if sizes.max() > _MOST_IN_PIECE:
            return None
        return first, shift, np.append(0, np.cumsum(sizes)).astype(np.int32)


class FeatureWeights:
    """The weights of features, and the places of those that were chosen among them."""

    def __init__(self, idf: Idf, chosen: Ids) -> None:
        """`chosen` are ascending."""
        known = FeatureTable(idf.ids_).find(chosen) < len(idf.ids_)
        others = chosen[~known]
        at = np.searchsorted(idf.ids_, others)
        self._table = FeatureTable(np.insert(idf.ids_, at, others))
        # Two more rows follow, for unknown terms and for other unknown features.
        weights = np.insert(idf.weights, at, idf.rare[(others >= TERMS_END).view(np.int8)])
        self._weights = np.concatenate((weights, idf.rare))
        self._places = np.full(len(self._weights), _NOT_CHOSEN, np.int32)
        self._places[self._table.find(chosen)] = np.arange(len(chosen))

    def weigh(self, vector: Vector) -> tuple[npt.NDArray[np.int32], Values]:
        """The chosen features of a page, weighted as by `Idf.weigh`: relative to the length of the whole vector."""
        places, weights = self._weigh(vector)
        held = np.flatnonzero(places != _NOT_CHOSEN)
        return places[held], weights[held] / np.sqrt(weights @ weights)

    def weigh_all(self, vectors: Sequence[Vector]) -> Iterator[tuple[npt.NDArray[np.int32], Values]]:
        """The same of each page; of many short ones in less time."""
        for batch in _batches(vectors):
            places, weights = self._weigh(Vector(*map(np.concatenate, zip(*batch, strict=True))))
            start = 0
            for vector in batch:
                end = start + len(vector.ids)
                own = weights[start:end]
                held = start + np.flatnonzero(places[start:end] != _NOT_CHOSEN)
                yield places[held], weights[held] / np.sqrt(own @ own)
                start = end

    def _weigh(self, vector: Vector) -> tuple[npt.NDArray[np.int32], Values]:
        """By feature: its place and its weight."""
        rows = self._table.find(vector.ids)
        rows += (rows == len(self._table.ids)) & (vector.ids >= TERMS_END)
        return self._places.take(rows), (1.0 + np.log(vector.values)) * self._weights.take(rows)


def _batches(vectors: Sequence[Vector]) -> Iterator[Sequence[Vector]]:
    """Pieces of up to `_BATCH` features, or single vectors."""
    ends = np.cumsum([len(vector.ids) for vector in vectors])
    start = 0
    while start < len(vectors):
        end = max(start + 1, int(np.searchsorted(ends, _BATCH + (ends[start - 1] if start else 0), "right")))
        yield vectors[start:end]
        start = end


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
    weights: Values
    """The inverse document frequencies of `ids_`."""
    rare: Values
    """Those of a term and of another feature that is not among them."""

    def fit(self, vectors: Iterable[Vector], documents: int = 0, frequencies: Mapping[int, int] | None = None) -> Self:
        """Count features in training documents; plain terms in the collection instead, if that has more documents.

        `frequencies` is the number of pages, out of `documents`, in which each term occurs.
        """
        all_ids = [vector.ids for vector in vectors]
        return self.fit_counts(*repeated(all_ids), len(all_ids), documents, frequencies)

    def fit_counts(
        self, ids: Ids, counts: Counts, vectors: int, documents: int = 0, frequencies: Mapping[int, int] | None = None
    ) -> Self:
        """The same from `repeated` features and the number of training documents, of `vectors`, that have each."""
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
        idf: Values = self.rare[(ids >= TERMS_END).view(np.int8)]
        if not len(self.ids_):
            return idf
        places = np.searchsorted(self.ids_, ids)
        places[places == len(self.ids_)] = 0
        known = self.ids_[places] == ids
        idf[known] = self.weights[places[known]]
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
        self.weights: Values = _smooth(documents, frequencies)
        self.rare: Values = _smooth(np.array([self.n_terms_, self.n_others_]), np.uint64(1))
        return self


def distinct(vectors: Iterable[Ids]) -> Ids:
    """The features that any document has, ascending."""
    ids = _merged(vectors)
    is_new = np.ones(len(ids), bool)
    np.not_equal(ids[1:], ids[:-1], out=is_new[1:])
    return ids[is_new]


def repeated(vectors: Iterable[Ids]) -> tuple[Ids, Counts]:
    """The features that two or more documents have, ascending, and how many have each."""
    ids = _merged(vectors)
    is_again = np.zeros(len(ids) + 1, bool)
    np.equal(ids[1:], ids[:-1], out=is_again[1:-1])
    starts, ends = np.flatnonzero(is_again[1:] > is_again[:-1]), np.flatnonzero(is_again[1:] < is_again[:-1])
    return ids[starts], ends - starts + 1


def _merged(vectors: Iterable[Ids]) -> Ids:
    ids = np.concatenate([np.zeros(0, np.uint64), *vectors])
    ids.sort(kind="stable")  # those of each document are in order: merging them takes half the time of sorting
    return ids


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
