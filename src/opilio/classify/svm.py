"""The classifier `svm`: one linear support vector machine per topic, feature space and node (BINGO 2.4, 3.4, 3.5).

A page walks down the topic tree. At each node, every feature space yields its distance from the hyperplane of every
competing topic, and the meta classifier combines them into one decision per topic (`decision.py`).

*Confidence* is the signed distance from the hyperplane: 0 is where a page is just accepted. Before the crawl has met
any pages, its unit is the distance of the average competing document. After that it is calibrated (`calibration.py`):
three times the confidence is the logit of the probability that a page is right, less that of the threshold. So
confidences are comparable across topics, spaces and trainings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
import numpy as np

from opilio.classify.calibration import Calibration
from opilio.classify.decision import (
    Decisions,
    MetaRule,
    WalkStage,
    decide,
    path_confidence,
    relevance,
    rule_of,
    walk,
)
from opilio.classify.judge import (
    CLASSIFIERS,
    MAX_MISSING,
    Estimate,
    Example,
    Explanation,
    Reason,
    Step,
    TrainingSet,
    strongest,
)
from opilio.classify.svm_training import Plane, TrainedPlanes, train_tree, weigh
from opilio.classify.xi_alpha import quality
from opilio.features.classifier_input import ClassifierInput
from opilio.features.spaces import TERMS_END, Space, Vector, make_space, vectors_of
from opilio.features.weights import FeatureWeights, Idf, distinct, project
from opilio.model import Judgement
from opilio.settings import ClassifySettings, Settings
from opilio.topics.hierarchy import ROOT, Hierarchy, Node

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint64]
    Numbers = npt.NDArray[np.float64]

MAX_REASONS = 10


class PageFeatures(NamedTuple):
    """The chosen features of a page in one space."""

    places: npt.NDArray[Any]
    """Their indices among the chosen features, ascending."""
    values: npt.NDArray[np.float32]


class SpaceView:
    """One feature space of a trained tree."""

    def __init__(self, space: Space, idf: Idf, chosen: Ids) -> None:
        """`chosen` are the features that any topic selected, ascending."""
        self.space = space
        self.chosen = chosen
        self._idf = idf
        self._weights = FeatureWeights(idf, chosen)

    def usual(self, ids: Ids) -> Numbers:
        """How usual features are: the square root of the share of pages that have them, up to a factor."""
        found: Numbers = np.ones(len(ids)) if self.space.dense else np.exp(-self._idf.idf(ids) / 2)
        return found

    def features_of(self, item: ClassifierInput) -> PageFeatures:
        """The chosen features of a page."""
        return self.features_in(self.space.vector(item))

    def features_in(self, vector: Vector) -> PageFeatures:
        """The same from its vector in this space."""
        found: tuple[npt.NDArray[Any], Numbers] = (
            project(weigh(self.space, self._idf, vector), self.chosen)
            if self.space.dense
            else self._weights.weigh(vector)
        )
        return PageFeatures(found[0], found[1].astype(np.float32))


@dataclass(frozen=True)
class Panel:
    """The hyperplanes of all topics that compete at a node in one space, as one matrix over all their features."""

    ids: Ids
    weights: npt.NDArray[np.float32]
    """A row for each feature, a column for each topic."""
    biases: Numbers
    """NaN: the topic has no hyperplane in this space."""
    rows: npt.NDArray[np.int32] | None
    """The row of each feature of the view, -1 for features of other nodes; None if the features are the same."""

    @classmethod
    def of(cls, topics: Sequence[int], planes: Mapping[int, Plane], seen: Ids) -> Panel:
        """Combine `planes`, by topic; `seen` are the features of the view."""
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

    def votes(self, page: PageFeatures) -> Numbers:
        """The confidence in each topic; all NaN if the page has none of their features."""
        rows, values = self._here(page)
        if not len(rows):
            return np.full(len(self.biases), np.nan)
        votes: Numbers = values @ self.weights.take(rows, axis=0) + self.biases
        return votes

    def parts(self, page: PageFeatures, column: int) -> Vector:
        """What each feature of a page contributes to the vote for one topic."""
        rows, values = self._here(page)
        return Vector(self.ids[rows], values * self.weights[rows, column].astype(np.float64))

    def _here(self, page: PageFeatures) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
        if self.rows is None:
            return page.places, page.values
        rows = self.rows[page.places]
        return rows[rows >= 0], page.values[rows >= 0]


@dataclass(frozen=True)
class Competition:
    """The topics that compete below a node."""

    topics: tuple[int, ...]
    panels: tuple[Panel, ...]
    """By space."""
    estimates: tuple[tuple[Estimate | None, ...], ...]
    """By space and topic."""
    precisions: Numbers
    """The precisions of the estimates."""

    @classmethod
    def of(
        cls, topics: Sequence[int], planes: Mapping[tuple[int, int], Plane], views: Mapping[int, SpaceView]
    ) -> Competition:
        """Combine `planes`, by space and topic; only spaces with a view are used."""
        by_space = [{topic: planes[space, topic] for topic in topics if (space, topic) in planes} for space in views]
        estimates = tuple(tuple(one[t].estimate if t in one else None for t in topics) for one in by_space)
        precisions = [[estimate.precision if estimate else 0.0 for estimate in row] for row in estimates]
        pairs = zip(by_space, views.values(), strict=True)
        panels = tuple(Panel.of(topics, one, view.chosen) for one, view in pairs)
        return cls(tuple(topics), panels, estimates, np.array(precisions, np.float64))


@dataclass(frozen=True)
class CompetitionResult:
    """The result of a competition for one page."""

    competition: Competition
    votes: Numbers
    """By space and topic."""
    decisions: Decisions

    @property
    def topics(self) -> Sequence[int]:
        """The competing topics."""
        return self.competition.topics


def union(planes: Iterable[Plane]) -> Ids:
    """The features of all planes, ascending."""
    return distinct(plane.ids for plane in planes)


class _Table(msgspec.Struct, array_like=True):
    """A trained tree as plain values."""

    settings: ClassifySettings
    nodes: list[Node]
    idfs: list[dict[str, Any]]
    planes: list[tuple[int, int, int, bytes, bytes, float, Estimate]]
    stems: dict[int, str]
    calibrations: dict[int, Calibration] = {}


@CLASSIFIERS.register("svm")
@dataclass(frozen=True)
class SvmTree:
    """A trained tree of support vector machines."""

    hierarchy: Hierarchy
    settings: ClassifySettings
    trained: TrainedPlanes

    @classmethod
    def train(cls, training: TrainingSet, settings: Settings) -> Self:
        """Learn from examples."""
        trained = train_tree(training, settings.classify, settings.learn.mined_negatives)
        return cls(training.hierarchy, settings.classify, trained)

    def judge(self, item: ClassifierInput) -> Judgement:
        """The topic that the page belongs to."""
        return self._judgement(self._walk(self._features(item)))

    def explain(self, item: ClassifierInput) -> Explanation:
        """The judgement, with every topic that competed on the way and the features for and against it."""
        features = self._features(item)
        stages = self._walk(features)
        names: dict[int, str] = {}
        for view in self._views.values():
            names.update(view.space.names(item, self.trained.stems))
        steps = [
            self._step(stage, column, features, names, frozenset(item.stems.tolist()))
            for stage in stages
            for column in range(len(stage.result.topics))
        ]
        return Explanation(self._judgement(stages), tuple(steps))

    def scores(self, item: ClassifierInput) -> dict[int, float]:
        """The confidence in each topic that competes at the start, whether it takes the page or not."""
        result = self._compete(self.hierarchy.start, self._features(item))
        return {} if result is None else dict(zip(result.topics, result.decisions.confidences.tolist(), strict=True))

    def confidences(self, training: TrainingSet) -> list[tuple[Example, float]]:
        """The confidence in each positive example for its own topic: that of the weakest step down to it.

        Other topics may be more confident. Examples of the start node, and those without features, are left out.
        """
        found: list[tuple[Example, float]] = []
        for example in training.examples:
            line = (
                self.hierarchy.line(example.kcid) if example.positive and example.kcid in self.hierarchy.nodes else []
            )
            features = self._features(example.item) if line else []
            if any(len(page.places) for page in features):
                found.append((example, min(self._confidence(topic, features) for topic in line)))
        return found

    def to_bytes(self) -> bytes:
        """Everything it has learned, as MessagePack."""
        planes = [
            (p.node, p.topic, p.space, p.ids.astype("<u8").tobytes(), p.weights.tobytes(), p.bias, p.estimate)
            for p in self.trained.planes
        ]
        idfs = [idf.to_table() for idf in self.trained.idfs]
        nodes = list(self.hierarchy.nodes.values())
        return msgspec.msgpack.encode(
            _Table(self.settings, nodes, idfs, planes, self.trained.stems, self.trained.calibrations)
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The tree that was saved as `data`."""
        table = msgspec.msgpack.decode(data, type=_Table)
        planes = tuple(
            Plane(node, topic, space, np.frombuffer(ids, "<u8"), np.frombuffer(weights, "<f4"), bias, estimate)
            for node, topic, space, ids, weights, bias, estimate in table.planes
        )
        trained = TrainedPlanes(tuple(map(Idf.from_table, table.idfs)), planes, table.stems, table.calibrations)
        return cls(Hierarchy(table.nodes), table.settings, trained)

    def estimates(self) -> dict[int, dict[str, Estimate]]:
        """The estimates of all hyperplanes, by topic and feature space."""
        found: dict[int, dict[str, Estimate]] = {}
        for plane in self.trained.planes:
            found.setdefault(plane.topic, {})[self.settings.spaces[plane.space]] = plane.estimate
        return found

    @cached_property
    def voting_spaces(self) -> tuple[int, ...]:
        """Indices of the spaces that vote. `best` uses one for the whole tree, so that no other is needed."""
        every = range(len(self.settings.spaces))
        if self.settings.meta != "best":
            return tuple(every)
        return (max(every, key=self._total_quality),)

    def _total_quality(self, space: int) -> float:
        """The quality summed over all topics; a topic without a hyperplane in this space counts 0: it gets no pages."""
        return sum(quality(plane.estimate) for plane in self.trained.planes if plane.space == space)

    @cached_property
    def _views(self) -> dict[int, SpaceView]:
        """The views of the spaces that vote, by index."""
        return {
            number: SpaceView(
                make_space(self.settings.spaces[number], self.settings),
                self.trained.idfs[number],
                union(plane for plane in self.trained.planes if plane.space == number),
            )
            for number in self.voting_spaces
        }

    @cached_property
    def _telling_words(self) -> dict[int, list[int]]:
        """The words that speak for a topic, the strongest first; each topic is added when it is first explained."""
        return {}

    @cached_property
    def _rule(self) -> MetaRule:
        return rule_of(self.settings)

    @cached_property
    def _competitions(self) -> dict[int, Competition]:
        planes: dict[int, dict[tuple[int, int], Plane]] = {node: {} for node in self.hierarchy.inner()}
        for plane in self.trained.planes:
            planes[plane.node][plane.space, plane.topic] = plane
        return {
            node: Competition.of(self.hierarchy.children(node), found, self._views) for node, found in planes.items()
        }

    def _features(self, item: ClassifierInput) -> list[PageFeatures]:
        vectors = vectors_of([view.space for view in self._views.values()], item)
        return [view.features_in(vector) for view, vector in zip(self._views.values(), vectors, strict=True)]

    def _compete(self, node: int, features: Sequence[PageFeatures]) -> CompetitionResult | None:
        competition = self._competitions.get(node)
        if competition is None:
            return None
        pairs = zip(competition.panels, features, strict=True)
        votes = np.array([panel.votes(page) for panel, page in pairs])
        return CompetitionResult(competition, votes, decide(self._rule, votes, competition.precisions))

    def _walk(self, features: Sequence[PageFeatures]) -> list[WalkStage[CompetitionResult]]:
        return walk(self.hierarchy, lambda node: self._compete(node, features))

    def _confidence(self, topic: int, features: Sequence[PageFeatures]) -> float:
        result = self._compete(self.hierarchy.nodes[topic].parent, features)
        return float(result.decisions.confidences[result.topics.index(topic)]) if result else 0.0

    def _judgement(self, stages: Sequence[WalkStage[CompetitionResult]]) -> Judgement:
        taken = [stage for stage in stages if stage.taken >= 0]
        # By space, the weakest vote on the way; for a rejected page, the votes for the topic that came closest.
        votes = np.array([stage.result.votes[:, stage.best] for stage in taken or stages]).min(axis=0)
        named = {self.settings.spaces[n]: float(vote) for n, vote in zip(self.voting_spaces, votes, strict=True)}
        voted = {name: vote for name, vote in named.items() if not math.isnan(vote)}
        agreed = [name for name, vote in voted.items() if vote > 0.0]
        return Judgement(
            topic=taken[-1].result.topics[taken[-1].taken] if taken else ROOT,
            accepted=bool(taken),
            relevance=relevance(self.hierarchy, stages),
            confidence=path_confidence(stages),
            votes=voted,
            agreed=agreed,
            undoubted=bool(taken) and len(agreed) == len(voted) >= 2,
        )

    def _step(
        self,
        stage: WalkStage[CompetitionResult],
        column: int,
        features: Sequence[PageFeatures],
        names: Mapping[int, str],
        stems: frozenset[int],
    ) -> Step:
        result = stage.result
        votes: dict[str, float] = {}
        estimates: dict[str, Estimate] = {}
        found = [Vector(np.zeros(0, np.uint64), np.zeros(0))]
        for row, number in enumerate(self.voting_spaces):
            estimate = result.competition.estimates[row][column]
            if estimate is not None:
                estimates[self.settings.spaces[number]] = estimate
            vote = float(result.votes[row, column])
            if math.isnan(vote):
                continue
            votes[self.settings.spaces[number]] = vote
            share = float(result.decisions.shares[row, column])
            part = result.competition.panels[row].parts(features[row], column)
            found.append(Vector(part.ids, share * part.values))
        ids, places = np.unique(np.concatenate([part.ids for part in found]), return_inverse=True)
        sums = np.bincount(places, np.concatenate([part.values for part in found]), len(ids))
        order = np.lexsort((ids, -np.abs(sums)))
        first = np.concatenate([order[sums[order] > 0.0][:MAX_REASONS], order[sums[order] < 0.0][:MAX_REASONS]])
        parts = dict(zip(ids[first].tolist(), sums[first].tolist(), strict=True))
        return Step(
            topic=result.topics[column],
            confidence=float(result.decisions.confidences[column]),
            taken=column == stage.taken,
            votes=votes,
            estimates=estimates,
            reasons=tuple(Reason(names.get(f, f"#{f}"), parts[f]) for f in strongest(parts, MAX_REASONS)),
            missing=() if column == stage.taken else self._missing(result.competition, column, stems),
        )

    def _missing(self, competition: Competition, column: int, stems: frozenset[int]) -> tuple[str, ...]:
        """The words that would have spoken most for a topic, and that a page with these stems does not have."""
        topic = competition.topics[column]
        if topic not in self._telling_words:
            self._telling_words[topic] = self._ranked_words(competition, column)
        lacking = (word for word in self._telling_words[topic] if word not in stems)
        return tuple(self.trained.stems[word] for word in itertools.islice(lacking, MAX_MISSING))

    def _ranked_words(self, competition: Competition, column: int) -> list[int]:
        """The words that speak for a topic, the strongest first.

        A rare word may weigh much because one example has it: only usual words are worth naming.
        """
        found: dict[int, float] = {}
        for view, panel in zip(self._views.values(), competition.panels, strict=True):
            rows = np.flatnonzero((panel.weights[:, column] > 0.0) & (panel.ids < TERMS_END))
            gains = panel.weights[rows, column] * view.usual(panel.ids[rows])
            for word, gain in zip(panel.ids[rows].tolist(), gains.tolist(), strict=True):
                if gain and word in self.trained.stems:
                    found[word] = found.get(word, 0.0) + gain
        return sorted(found, key=lambda word: (-found[word], word))
