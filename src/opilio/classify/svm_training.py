"""Training of the classifier `svm`: one hyperplane for each competing topic and each feature space.

This half runs where models are trained; `svm.py` judges pages.

*The hyperplane* has the maximum soft margin. Its exact dual solution is needed, because `xi_alpha.py` uses the dual
variables. `soft_margin.py` computes it, but from all pairs of documents; so it is given the documents near the
hyperplane, then those that are on the wrong side of the resulting margin are added, and so on until there are none. The
documents left out have alpha = 0, so the solution is that for all documents.

*The scale* of confidence comes from the pages that the crawl has met, when there are any (`_calibrated`): scores of the
hyperplane are joined with the contrast between the topic's documents and the pages met, on the scale of these pages,
and calibrated (`calibration.py`). Five examples against everyday texts rank pages well, but do not show where the topic
ends on this web. Before anything was met, the hyperplane is moved by a rule (`shifted_threshold`).

*Mined negatives* are pages met that are surely not about a topic: a quarter of them at most, those with the lowest
scores, and only such as score lower than each of the topic's own documents does without itself. The hyperplane is
fitted a second time against them: everyday texts say nothing of the neighbourhood of the topic.

*The documents* are the rows of one sparse matrix per feature space (`SpaceRows`). Each topic selects its own features
among the same documents: on one matrix this takes a few sums of columns, whereas vector by vector it takes minutes for
a tree of twenty topics. The selection is that of `features.selection.select`. The documents of a topic with its
features alone are a plain array when there are few of them, else a sparse matrix of scipy: to import that takes 0.1 s
of CPU and 23 MB, more than a training of the first few hundred pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from opilio.analyze.terms import term_ids
from opilio.classify import soft_margin, xi_alpha
from opilio.classify.calibration import MIN_MET, Calibration, calibrate, quantile
from opilio.classify.decision import RELEVANCE_SLOPE
from opilio.classify.judge import Estimate, Example, TrainingSet
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput
from opilio.features.spaces import TERMS_END, Space, Vector, make_space, vectors_of
from opilio.features.weights import FeatureWeights, Idf, distinct, mutual_information, project, repeated
from opilio.settings import ClassifySettings

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Places = npt.NDArray[np.intp]
    Ids = npt.NDArray[np.uint64]
    Counts = npt.NDArray[np.int64]

FIRST_ROWS = 100
"""Documents of each class to start with, and to add at a time: solving is cheap, their products are not."""
NEGATIVE_DEVIATIONS = 2.5
"""See `shifted_threshold`. From 2 to 3 results differ only by noise; without it, hardly any page is accepted."""
CLEAR_NEGATIVES = 0.98
MINED_SHARE = 0.25
"""At most this share of the pages met become negatives (docs/results/log.md, 2026-11-16)."""
REFUSED_WEIGHT = 0.5
"""The pages that the user refused are part of the contrast, with this weight."""
MIN_UNIT = 0.1
"""A tenth of the margin: with less, topics cannot be distinguished, and small distances would become certainties."""


MAX_PLAIN_CELLS = 2**21
"""Documents times features up to which they are a plain array: a thousand documents, 16 MB."""
_STEM = 0xFFFFFFFF
_LEAST_SPREAD = 1e-6
_HALVINGS = 4
"""How many numbers of features are tried: all, a half, a quarter ..."""


_NO_ALPHA = 1e-8
_RIDGE = 1e-9  # two documents may be the same
_NOWHERE = np.zeros(0, np.intp)
_NO_COLUMNS, _NO_WEIGHTS = np.zeros(0, np.int32), np.zeros(0)


@dataclass(frozen=True)
class Hyperplane:
    """The hyperplane w.x + bias = 0, with the results of training for each document, in their order."""

    weights: Numbers
    bias: float
    scores: Numbers
    """w.x + bias."""
    alphas: Numbers
    squares: Numbers
    """x.x"""

    @property
    def radius_squared(self) -> float:
        """An upper bound of x.x - x.x' over all pairs, if no x.x' is negative."""
        return float(self.squares.max(initial=0.0))

    def left_out(self, rows: Any, positive: Flags) -> Numbers:
        """The score of each document by a hyperplane that was fitted without it: the span rule (Vapnik, Chapelle 2000).

        A document loses alpha times its squared distance from the span of the other support vectors. This is exact
        when the others stay support vectors, and was within 0.1 of a fit without the document (docs/results/log.md).
        """
        held = np.flatnonzero(self.alphas > _NO_ALPHA)
        system = np.ones((len(held) + 1, len(held) + 1))
        system[:-1, :-1] = _products(rows, held, held) + _RIDGE * np.eye(len(held))
        system[-1, -1] = 0.0
        spans = 1.0 / np.diag(np.linalg.inv(system))[:-1]
        lost = np.zeros(len(positive))
        lost[held] = self.alphas[held] * np.clip(spans, 0.0, self.squares[held])
        return self.scores - np.where(positive, lost, -lost)


def error_costs(positive: Flags, c: float) -> Numbers:
    """The cost of an error on each document: both classes have the same total, however many documents they have."""
    ours = int(np.count_nonzero(positive))
    more = max(ours, len(positive) - ours)
    return np.where(positive, c * more / max(1, ours), c * more / max(1, len(positive) - ours))


def fit_hyperplane(rows: Any, positive: Flags, cost: Numbers) -> Hyperplane:
    """The hyperplane of maximum margin for the rows of an array or a scipy CSR matrix; both classes must be there."""
    signs = np.where(positive, 1.0, -1.0)
    chosen = _nearest(signs, np.zeros(len(signs), bool), _between_means(rows, positive))
    products = _products(rows, chosen, chosen)
    while True:
        alphas, bias = soft_margin.solve(products, signs[chosen], cost[chosen])
        weights = rows[chosen].T @ (alphas * signs[chosen])
        scores = rows @ weights + bias
        looked_at = np.zeros(len(signs), bool)
        looked_at[chosen] = True
        new = _nearest(signs, looked_at | (signs * scores >= 1.0 - soft_margin.TOLERANCE), scores)
        if not len(new):
            break
        across = _products(rows, chosen, new)
        products = np.block([[products, across], [across.T, _products(rows, new, new)]])
        chosen = np.concatenate((chosen, new))
    all_alphas = np.zeros(len(signs))
    all_alphas[chosen] = alphas
    return Hyperplane(weights, bias, scores, all_alphas, _squares(rows))


def shifted_threshold(plane: Hyperplane, positive: Flags) -> tuple[float, float]:
    """Where to move the hyperplane to, as a score, and the unit of scores.

    The features were selected for the training documents, so these are far from the hyperplane; a new document of the
    topic has only some of these features. With few positive documents it does not reach the middle: five examples find
    a tenth of their topic, although hardly any other page scores higher. So the hyperplane is moved towards the
    negative documents, with the scores that they would have without being trained on (the first step of leave-one-out:
    each score without its own alpha): until it is `NEGATIVE_DEVIATIONS` from their mean, or, if that is farther out,
    half way between the mean of the positive ones and the clear negatives. It is never moved the other way.

    The unit is the distance of the average negative document, which thus has a confidence of about -1 whatever the
    space, the topic and the number of examples.
    """
    own = plane.alphas * plane.squares
    others = plane.scores[~positive] + own[~positive]
    ours = plane.scores[positive] - own[positive]
    noise_end = others.mean() + NEGATIVE_DEVIATIONS * others.std()
    middle = (ours.mean() + quantile(others, CLEAR_NEGATIVES)) / 2
    threshold = min(0.0, max(noise_end, middle))
    return float(threshold), float(max(MIN_UNIT, threshold - others.mean()))


def _between_means(rows: Any, positive: Flags) -> Numbers:
    """The scores of the simplest classifier, which select the documents to start with."""
    ours = np.asarray(rows[positive].mean(axis=0)).ravel()
    others = np.asarray(rows[~positive].mean(axis=0)).ravel()
    return np.asarray(rows @ (ours - others), dtype=np.float64)


def _nearest(signs: Numbers, left_out: Flags, scores: Numbers) -> Places:
    """The documents of each class that are farthest on the other side."""
    chosen: list[Places] = []
    for sign in (1.0, -1.0):
        places = np.flatnonzero((signs == sign) & ~left_out)
        order = np.argsort(sign * scores[places], kind="stable")
        chosen.append(places[order[:FIRST_ROWS]])
    return np.concatenate(chosen)


def _products(rows: Any, some: Places, others: Places) -> Numbers:
    if isinstance(rows, np.ndarray):
        return np.asarray(rows[some] @ rows[others].T)
    # Sparse by dense takes a half to a fifth of the time of all alternatives, including dense by dense.
    return np.asarray(rows[some] @ np.ascontiguousarray(rows[others].toarray().T))


def _squares(rows: Any) -> Numbers:
    """x.x of each row."""
    if isinstance(rows, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()


def weigh(space: Space, idf: Idf, vector: Vector) -> Vector:
    """A vector of length 1, weighted by tf*idf unless the space is dense."""
    if not space.dense:
        return idf.weigh(vector)
    norm = float(np.linalg.norm(vector.values))
    return Vector(vector.ids, vector.values / norm) if norm > 0.0 else Vector(vector.ids[:0], vector.values[:0])


class SpaceRows:
    """The training documents in one feature space: documents by row, features by column.

    Half of all features and more are in one document only. They have a column if they may be selected.
    """

    def __init__(
        self,
        space: Space,
        vectors: Sequence[Vector],
        documents: int,
        frequencies: Mapping[int, int],
        selecting: int | None = None,
    ) -> None:
        """`vectors` are those of the documents. Features are selected from the first `selecting` of them, or all."""
        self.space = space
        self.filled = np.array([len(vector.ids) > 0 for vector in vectors], bool)
        """Which documents have any features in this space."""
        rows: list[tuple[npt.NDArray[Any], Numbers]]
        if space.dense:
            self.idf = Idf().fit([])
            self.ids = distinct(vector.ids for vector in vectors)
            rows = [project(weigh(space, self.idf, vector), self.ids) for vector in vectors]
        else:
            has_terms = any(len(vector.ids) and vector.ids[0] < TERMS_END for vector in vectors)
            features, present = repeated(vector.ids for vector in vectors)
            collection = (documents, frequencies) if has_terms else ()
            self.idf = Idf().fit_counts(features, present, len(vectors), *collection)
            self.ids = distinct([features, *(vector.ids for vector in vectors[:selecting])])
            rows = list(FeatureWeights(self.idf, self.ids).weigh_all(vectors))
        self._ends = np.cumsum([0, *(len(columns) for columns, _ in rows)])
        self._columns = np.concatenate([_NO_COLUMNS, *(columns for columns, _ in rows)])
        self._weights = np.concatenate([_NO_WEIGHTS, *(values for _, values in rows)])
        self._counts = np.concatenate([_NO_WEIGHTS, *(vector.values for vector in vectors[:selecting])])
        self._plain: tuple[Places, Numbers] | None = None  # the array made last, and its columns

    def documents(self, rows: Places, columns: Places) -> Any:
        """Some documents with some features, these ascending: an array if they are few, else a scipy CSR matrix."""
        if (len(self._ends) - 1) * len(columns) > MAX_PLAIN_CELLS:
            return self._by_columns[:, columns].tocsr()[rows]
        if self._plain is None or self._plain[0] is not columns:  # a topic needs the same features several times
            self._plain = columns, self._all_documents(columns)
        return self._plain[1][rows]

    def _all_documents(self, columns: Places) -> Numbers:
        place_of = np.full(len(self.ids), -1, np.int32)
        place_of[columns] = np.arange(len(columns))
        places = place_of[self._columns]
        held = np.flatnonzero(places >= 0)
        documents = np.zeros((len(self._ends) - 1, len(columns)))
        documents[np.searchsorted(self._ends, held, "right") - 1, places[held]] = self._weights[held]
        return documents

    @cached_property
    def _by_columns(self) -> Any:
        """The weights by columns: a topic uses a few thousand of them, out of millions if they are pairs."""
        from scipy.sparse import csr_matrix  # noqa: PLC0415 - see above

        shape = (len(self._ends) - 1, len(self.ids))
        return csr_matrix((self._weights, self._columns, self._ends), shape=shape).tocsc()

    def presence(self, rows: Places) -> Counts:
        """In how many of these documents each feature occurs."""
        return np.bincount(self._of(rows, self._columns), minlength=len(self.ids))

    def _of(self, rows: Places, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The parts of `values` that belong to some documents, in their order."""
        parts = [values[self._ends[row] : self._ends[row + 1]] for row in rows]
        return np.concatenate([values[:0], *parts])

    def select(
        self,
        ours: Places,
        everywhere: Counts,
        n_documents: int,
        candidates: int,
        features: int,
        refused: Places = _NOWHERE,
    ) -> Places:
        """The columns of the features that distinguish the documents `ours` from their competitors, best first.

        `everywhere` is the presence in all `n_documents` that compete, `ours` among them. The candidates are features
        of `ours`, and of documents that the user `refused`: the words of such a page say what the topic is not.
        """
        if self.space.dense:
            return np.arange(len(self.ids))
        mine = np.concatenate((ours, refused))
        held, places = np.unique(self._of(mine, self._columns), return_inverse=True)
        totals = np.bincount(places, self._of(mine, self._counts))
        chosen = np.sort(_best(np.arange(len(held)), totals, candidates))
        chosen = held[chosen].astype(np.intp)
        in_topic = self.presence(ours)[chosen]
        scores = mutual_information(everywhere[chosen], in_topic, n_documents, len(ours))
        return _best(chosen, scores, features)


def _best(columns: Places, scores: npt.NDArray[Any], limit: int) -> Places:
    """The columns with the highest scores, best first; ties go to the first, so that results are reproducible."""
    return columns[np.argsort(-scores, kind="stable")[:limit]]


@dataclass(frozen=True)
class Plane:
    """One hyperplane, scaled so that weights.x + bias is the confidence."""

    node: int
    topic: int
    space: int
    """Its index in the setting `spaces`."""
    ids: Ids
    """Features, ascending."""
    weights: npt.NDArray[np.float32]
    bias: float
    estimate: Estimate


@dataclass(frozen=True)
class TrainedPlanes:
    """Everything that was learned."""

    idfs: tuple[Idf, ...]
    """By space."""
    planes: tuple[Plane, ...]
    stems: dict[int, str]
    """The stems of the features, for explanations."""
    calibrations: dict[int, Calibration]
    """By topic: how its scores became probabilities. None for topics at nodes where too few pages were met."""


def train_tree(training: TrainingSet, settings: ClassifySettings, mined_negatives: int = 0) -> TrainedPlanes:
    """Learn from the examples; those without features in any space are skipped.

    At most `mined_negatives` of the pages met become negatives of each topic.
    """
    spaces = [make_space(name, settings) for name in settings.spaces]
    if not spaces:
        raise InputError("the classifier svm has no feature space", "Set classify.spaces, for example to ['terms'].")
    training = _with_virtual_documents(training, spaces)
    examples = [*training, *training.met]
    places = {id(example): place for place, example in enumerate(examples)}
    vectors = [vectors_of(spaces, example.item) for example in examples]
    counts = training.documents, training.document_frequencies, len(training.examples)
    rows = [SpaceRows(space, [one[number] for one in vectors], *counts) for number, space in enumerate(spaces)]
    del vectors
    answered = np.array([example.answered for example in examples], bool)
    planes: list[Plane] = []
    calibrations: dict[int, Calibration] = {}
    met = {training.hierarchy.start: np.arange(len(examples) - len(training.met), len(examples))}
    for node in training.hierarchy.inner():
        children = training.hierarchy.children(node)
        groups = [[places[id(example)] for example in training.of(topic)] for topic in children]
        groups.append([places[id(example)] for example in training.others_of(node)])
        arenas = [_Arena.of(one, groups, examples) for one in rows]
        met_here = met.get(node, _NOWHERE)
        is_calibrated = len(met_here) > 0 and len(met_here) + sum(answered[group].sum() for group in groups) >= MIN_MET
        scores = np.zeros((len(children), len(met_here)))
        for place, topic in enumerate(children):
            fits = {number: fit for number, arena in enumerate(arenas) if (fit := arena.fit(place, settings))}
            if not fits:
                raise _missing(training, topic, any(len(arena.groups[place]) for arena in arenas))
            if is_calibrated:
                limit = min(mined_negatives, int(MINED_SHARE * len(met_here)))
                fits = {n: fit.with_negatives(met_here, answered, limit, settings.c) for n, fit in fits.items()}
                scaled, calibrations[topic], scores[place] = _calibrated(fits, answered, met_here, settings.prefer)
            else:
                scaled = {number: fit.shifted() for number, fit in fits.items()}
            for number, (weights, bias) in scaled.items():
                fit = fits[number]
                ids = rows[number].ids[fit.columns]
                planes.append(Plane(node, topic, number, ids, weights.astype("<f4"), bias, fit.estimate))
        if is_calibrated:
            taken = np.where(scores.max(axis=0) > 0.0, scores.argmax(axis=0), -1)
            met.update({topic: met_here[taken == place] for place, topic in enumerate(children)})
    stems = _stems(planes, [example.item for example in training.examples], training)
    return TrainedPlanes(tuple(one.idf for one in rows), tuple(planes), stems, calibrations)


@dataclass(frozen=True)
class _Arena:
    """The documents that compete at a node in one space; those without features there are left out."""

    rows: SpaceRows
    groups: list[Places]
    """By topic, OTHERS last."""
    everyone: Places
    presence: npt.NDArray[np.int64]
    refused: Places
    """Documents of OTHERS that the user refused as pages of the crawl."""

    @classmethod
    def of(cls, rows: SpaceRows, groups: Sequence[Sequence[int]], examples: Sequence[Example]) -> _Arena:
        filled = [np.array([place for place in group if rows.filled[place]], np.intp) for group in groups]
        everyone = np.concatenate(filled)
        refused = np.array([place for place in filled[-1] if examples[place].answered], np.intp)
        return cls(rows, filled, everyone, rows.presence(everyone), refused)

    def fit(self, group: int, settings: ClassifySettings) -> _Fit | None:
        """The hyperplane of one topic; None if one side has no documents here."""
        ours = self.groups[group]
        others = np.concatenate([one for place, one in enumerate(self.groups) if place != group])
        if not len(ours) or not len(others):
            return None
        limits = settings.candidates, max(1, settings.features)
        ranked = self.rows.select(ours, self.presence, len(self.everyone), *limits, self.refused)
        sizes = [max(1, len(ranked) >> halving) for halving in range(_HALVINGS if settings.tune_features else 1)]
        tried = [_Fit.of(self.rows, ours, others, np.sort(ranked[:size]), settings.c) for size in sizes]
        return max(tried, key=lambda one: xi_alpha.quality(one.estimate))


@dataclass(frozen=True)
class _Fit:
    """The hyperplane of one topic in one space, before its scale is known."""

    rows: SpaceRows
    documents: Places
    """Those of the topic, then its competitors."""
    columns: Places
    positive: Flags
    plane: Hyperplane
    estimate: Estimate

    @classmethod
    def of(cls, rows: SpaceRows, ours: Places, others: Places, columns: Places, c: float) -> _Fit:
        everyone = np.concatenate((ours, others))
        positive = np.arange(len(everyone)) < len(ours)
        plane = fit_hyperplane(rows.documents(everyone, columns), positive, error_costs(positive, c))
        # Only in dense spaces can products be negative.
        radius_squared = plane.radius_squared * (2.0 if rows.space.dense else 1.0)
        estimate = xi_alpha.estimate(plane.scores, plane.alphas, positive, radius_squared, xi_alpha.USUAL_RHO)
        return cls(rows, everyone, columns, positive, plane, estimate)

    def shifted(self) -> tuple[Numbers, float]:
        """Weights and bias on the scale of the documents alone."""
        threshold, unit = shifted_threshold(self.plane, self.positive)
        return self.plane.weights / unit, (self.plane.bias - threshold) / unit

    def with_negatives(self, met: Places, answered: Flags, limit: int, c: float) -> _Fit:
        """The same against at most `limit` pages met, too, which are surely not about the topic."""
        ours, others = self.documents[self.positive], self.documents[~self.positive]
        scale = self.standardised(met, answered)
        least = min(scale.alone[place] for place in ours.tolist())
        surely_not = np.flatnonzero(scale.met < least)
        chosen = met[surely_not[np.argsort(scale.met[surely_not], kind="stable")[:limit]]]
        return self if not len(chosen) else _Fit.of(self.rows, ours, np.concatenate((others, chosen)), self.columns, c)

    def standardised(self, met: Places, answered: Flags) -> _Standardised:
        """The sum of hyperplane and contrast, each in standard deviations above the average of the pages met.

        `answered` tells which of all documents are pages that the user has judged: they were met, too, and count as
        they are scored without themselves.
        """
        plane, positive, answered = self.plane, self.positive, answered[self.documents]
        documents, pages = self.rows.documents(self.documents, self.columns), self.rows.documents(met, self.columns)
        by_plane = plane.left_out(documents, positive)
        contrast, by_contrast = _contrast(documents, positive, answered & ~positive, _mean(pages))
        weights, offset, alone, on_met = np.zeros(len(self.columns)), 0.0, np.zeros(len(positive)), np.zeros(len(met))
        for part, bias, without in ((plane.weights, plane.bias, by_plane), (contrast, 0.0, by_contrast)):
            scores = np.asarray(pages @ part, np.float64) + bias
            mean, spread = _scale(np.concatenate((scores, without[answered])))
            weights += part / spread
            offset += (bias - mean) / spread
            alone += (without - mean) / spread
            on_met += (scores - mean) / spread
        on_met[~self.rows.filled[met]] = np.nan
        return _Standardised(weights, offset, dict(zip(self.documents.tolist(), alone.tolist(), strict=True)), on_met)


def _contrast(documents: Any, positive: Flags, refused: Flags, usual: Numbers) -> tuple[Numbers, Numbers]:
    """The contrast between the topic's documents and the average page met, and the score of each document by it.

    Pages that the user refused are part of the average. The topic's documents and refused pages are scored as if they
    were not part of it.
    """
    ours, others = documents[positive], documents[refused]
    contrast = _mean(ours) - usual
    if others.shape[0]:
        contrast = contrast - REFUSED_WEIGHT * _mean(others)
    scores = np.asarray(documents @ contrast, np.float64)
    for which, rows, weight in ((positive, ours, 1.0), (refused, others, -REFUSED_WEIGHT)):
        count = rows.shape[0]
        if count:
            own, mean = _squares(rows), np.asarray(rows @ _mean(rows)).ravel()
            left = (count * mean - own) / (count - 1) if count > 1 else 0.0
            scores[which] += weight * (left - mean)
    return contrast, scores


def _scale(scores: Numbers) -> tuple[float, float]:
    """The mean and the standard deviation of scores."""
    return float(scores.mean()), max(float(scores.std()), _LEAST_SPREAD)


@dataclass(frozen=True)
class _Standardised:
    """A hyperplane on the scale of the pages met."""

    weights: Numbers
    offset: float
    alone: Mapping[int, float]
    """By document: its score, as if it had not been learned from."""
    met: Numbers
    """The scores of the pages met; NaN for a page without features."""


def _calibrated(
    fits: Mapping[int, _Fit], answered: Flags, met: Places, prefer: str
) -> tuple[dict[int, tuple[Numbers, float]], Calibration, Numbers]:
    """Weights and bias of one topic by space, on one calibrated scale; its calibration; the confidence of pages met.

    The mean over the spaces is calibrated, so a page that has features in all of them gets its probability exactly.
    """
    documents = sorted({place for fit in fits.values() for place in fit.documents.tolist()})
    ours = {place for fit in fits.values() for place in fit.documents[fit.positive].tolist()}
    found = {number: fit.standardised(met, answered) for number, fit in fits.items()}
    scores = _mean_of_voters(np.array([one.met for one in found.values()]))

    def alone(places: Sequence[int]) -> Numbers:
        votes = np.array([[one.alone.get(place, np.nan) for place in places] for one in found.values()])
        return _mean_of_voters(votes.reshape(len(found), -1))

    asked = [place for place in documents if answered[place]]
    given = [place for place in documents if place in ours and not answered[place]]
    own = alone(given) if len(ours) > 1 else np.zeros(0)
    labels = np.array([place in ours for place in asked], bool)
    mean, spread = _scale(np.concatenate((scores, alone(asked))))
    calibration = calibrate(
        (scores - mean) / spread, (own - mean) / spread, (alone(asked) - mean) / spread, labels, prefer
    )
    slope = calibration.slope / RELEVANCE_SLOPE
    offset = calibration.offset / RELEVANCE_SLOPE
    scaled = {
        number: (one.weights / spread * slope, (one.offset - mean) / spread * slope + offset)
        for number, one in found.items()
    }
    return scaled, calibration, (scores - mean) / spread * slope + offset


def _mean(rows: Any) -> Numbers:
    return np.asarray(rows.mean(axis=0), np.float64).ravel()


def _mean_of_voters(votes: Numbers) -> Numbers:
    """By page, the mean over the spaces in which it has features; 0 for a page that has none."""
    voted = ~np.isnan(votes)
    means: Numbers = np.where(voted, votes, 0.0).sum(axis=0) / np.maximum(1, voted.sum(axis=0))
    return means


def _with_virtual_documents(training: TrainingSet, spaces: Sequence[Space]) -> TrainingSet:
    """The keywords of a topic are its training document as long as it has no better one (BINGO 2)."""

    def is_empty(example: Example) -> bool:
        return not any(len(space.vector(example.item).ids) for space in spaces)

    virtual: list[Example] = []
    for kcid, words in training.keywords.items():
        if kcid in training.hierarchy.nodes and all(is_empty(example) for example in training.of(kcid)):
            stems = np.array(term_ids(words), np.uint32)
            virtual.append(Example(kcid, ClassifierInput(stems, title=words), name=f"keywords: {words}"))
    return replace(training, examples=(*training.examples, *virtual)) if virtual else training


def _missing(training: TrainingSet, topic: int, has_examples: bool) -> InputError:
    node = training.hierarchy.nodes[topic]
    name = node.path or node.name or "the crawl"
    if not has_examples:
        return InputError(
            f"topic {name!r} has no example with any text in it",
            "Give it the URL of a page that is about it, or keywords.",
        )
    return InputError(
        f"topic {name!r} has no competitors: no other topic at its level, and no documents of OTHERS",
        "Set classify.others to texts that are about none of the topics, or add a topic at its level.",
    )


def _stems(planes: Sequence[Plane], pages: Sequence[ClassifierInput], training: TrainingSet) -> dict[int, str]:
    """The stems of selected features, and of words in several examples, among which are those of selected pairs."""
    chosen = [plane.ids & np.uint64(_STEM) for plane in planes]
    present = [distinct([page.stems.astype(np.uint64)]) for page in pages]
    codes, counts = np.unique(np.concatenate([np.zeros(0, np.uint64), *present]), return_counts=True)
    wanted = {*np.concatenate([np.zeros(0, np.uint64), *chosen]).tolist(), *codes[counts > 1].tolist()}
    return {code: training.terms[code] for code in sorted(wanted) if code in training.terms}
