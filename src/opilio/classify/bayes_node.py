"""One inner node of the Bayes tree: naive Bayes among the topics below it (Focus 2.1.1).

With D(c) the training documents of c, in which the term t stands n(d, t) times, c0 the node and ci its children:

    theta(ci, t) = (1 + sum of n(d, t) over D(ci)) / (distinct terms of D(c0) + sum of n(d, t') over D(ci) and all t')

    Pr[ci | c0, d]  is proportional to  Pr[ci | c0] * product over t of d and F(c0) of theta(ci, t) ** n(d, t)

The denominator counts all terms, whether they are features F(c0) or not. The prior Pr[ci | c0] is the share of D(ci) in
D(c0). It enters before the probabilities are made to sum to 1: the paper's sketch of the program adds it afterwards,
but its equation (2) and its demand that the relevance of the children sum to that of their parent say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from opilio.features.selection import select_among
from opilio.features.spaces import Vector
from opilio.settings import Classify

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


class PackedNode(msgspec.Struct, array_like=True):
    """A node as it travels: arrays as little-endian bytes, of log theta only what does not follow from the rest."""

    pcid: int
    children: list[int]
    features: bytes
    logprior: bytes
    logdenom: bytes
    places: bytes
    logtheta: bytes


@dataclass(frozen=True, slots=True)
class BayesNode:
    """What was learned about one inner node."""

    pcid: int
    children: tuple[int, ...]
    """The topics that compete, by kcid, and OTHERS; those without training documents are missing."""
    features: npt.NDArray[np.uint64]
    """F(c0), ascending."""
    logprior: Floats
    logdenom: Floats
    logtheta: Floats
    """Features by children. Where a child's documents lack the term, eq. (1) is 1 / denominator: -logdenom."""

    @classmethod
    def learn(cls, pcid: int, classes: Mapping[int, Sequence[Vector]], settings: Classify) -> BayesNode:
        """Choose features and estimate theta from the documents of each child; none of them may be empty."""
        documents = list(classes.values())
        terms = np.unique(np.concatenate([vector.ids for vectors in documents for vector in vectors]))
        features = np.zeros(0, np.uint64)
        if len(documents) > 1:  # one alone need not be told from any other
            features = np.sort(select_among(documents, candidates=settings.candidates, features=settings.features))
        counts = np.stack([_sums(features, vectors) for vectors in documents], axis=1)
        lengths = [sum(float(vector.values.sum()) for vector in vectors) for vectors in documents]
        sizes = np.array([len(vectors) for vectors in documents], np.float64)
        logprior, logdenom = np.log(sizes / sizes.sum()), np.log(len(terms) + np.array(lengths))
        return cls(pcid, tuple(classes), features, logprior, logdenom, np.log(1.0 + counts) - logdenom)

    def rows(self, page: Vector) -> tuple[npt.NDArray[np.intp], Floats]:
        """The rows of `logtheta` whose features the page has, and its counts of them."""
        if not len(self.features):
            return np.zeros(0, np.intp), np.zeros(0)
        places = np.searchsorted(self.features, page.ids)
        places[places == len(self.features)] = 0
        found = self.features[places] == page.ids
        return places[found], page.values[found]

    def log_probabilities(self, page: Vector) -> Floats:
        """log Pr[ci | c0, d] of the children; the priors when the page has no feature."""
        rows, counts = self.rows(page)
        scores = self.logprior + counts @ self.logtheta[rows]
        scores -= scores.max()
        normed: Floats = scores - math.log(float(np.exp(scores).sum()))
        return normed

    def weights(self, page: Vector, child: int) -> dict[int, float]:
        """What each feature of the page added for a child: its count times log theta over the mean of the siblings."""
        siblings = len(self.children) - 1
        if not siblings:
            return {}
        rows, counts = self.rows(page)
        logtheta = self.logtheta[rows]
        own = logtheta[:, self.children.index(child)]
        added = counts * (own - (logtheta.sum(axis=1) - own) / siblings)
        return dict(zip(self.features[rows].tolist(), added.tolist(), strict=True))

    def known(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The places (feature, child) of `logtheta` with a count above 0: there, log(1 + count) is at least log 2."""
        rows, columns = np.nonzero(self.logtheta + self.logdenom > 0.5)
        return rows, columns

    def pack(self) -> PackedNode:
        """The node as it travels."""
        rows, columns = self.known()
        return PackedNode(
            self.pcid,
            list(self.children),
            self.features.astype("<u8").tobytes(),
            self.logprior.astype("<f8").tobytes(),
            self.logdenom.astype("<f8").tobytes(),
            (rows * len(self.children) + columns).astype("<u4").tobytes(),
            self.logtheta[rows, columns].astype("<f8").tobytes(),
        )

    @classmethod
    def unpack(cls, packed: PackedNode) -> BayesNode:
        """The node that was packed, to the last bit."""
        features, logdenom = np.frombuffer(packed.features, "<u8"), np.frombuffer(packed.logdenom, "<f8")
        logtheta = np.tile(np.negative(logdenom), (len(features), 1))
        logtheta.reshape(-1)[np.frombuffer(packed.places, "<u4")] = np.frombuffer(packed.logtheta, "<f8")
        return cls(
            packed.pcid,
            tuple(packed.children),
            features.astype(np.uint64),
            np.frombuffer(packed.logprior, "<f8").astype(np.float64),
            logdenom.astype(np.float64),
            logtheta,
        )


def _sums(features: npt.NDArray[np.uint64], vectors: Sequence[Vector]) -> Floats:
    """How often each of the ascending `features` stands in `vectors` together."""
    ids = np.concatenate([vector.ids for vector in vectors])
    values = np.concatenate([vector.values for vector in vectors])
    is_feature = np.isin(ids, features)
    places = np.searchsorted(features, ids[is_feature])
    return np.bincount(places, values[is_feature], len(features)).astype(np.float64)
