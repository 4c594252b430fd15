"""Feature selection: the features that distinguish a topic from its competitors (BINGO 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from opilio.features.spaces import Vector

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.features.spaces import Ids, Values

    Counts = npt.NDArray[np.int64]


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
