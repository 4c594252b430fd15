"""The SVM tree: one linear support vector machine per topic, feature space and competition (BINGO 2.4, 3.4, 3.5).

A page goes down the topic tree (`hierarchy_walk.py`). At each node every feature space gives its distance from the
hyperplane of every competing topic, and the meta classifier (`meta.py`) makes them one decision a topic.

*Confidence* is the signed distance from the hyperplane, in units of the distance of the average competing document:
0 is on it, -1 is where pages about other things usually are. So it compares across topics, spaces and trainings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import msgspec
import numpy as np

from opilio.classify.competition import Asked, Competition, union
from opilio.classify.hierarchy_walk import Stage, path_confidence, relevance, walk
from opilio.classify.judge import CLASSIFIERS, Estimate, Example, Explanation, Reason, Step, TrainingSet
from opilio.classify.lens import Lens, Sight
from opilio.classify.meta import RULES, Rule, decide
from opilio.classify.svm_training import Plane, Trained, train_tree
from opilio.classify.xi_alpha import quality
from opilio.features.evidence import Evidence
from opilio.features.spaces import make_space
from opilio.features.weights import Idf
from opilio.model import Judgement
from opilio.settings import Classify, Settings
from opilio.topics.hierarchy import ROOT, Hierarchy, Node

MAX_REASONS = 10


class _Table(msgspec.Struct, array_like=True):
    """A trained tree as plain values."""

    settings: Classify
    nodes: list[Node]
    idfs: list[dict[str, Any]]
    planes: list[tuple[int, int, int, bytes, bytes, float, Estimate]]
    stems: dict[int, str]


@CLASSIFIERS.register("svm")
@dataclass(frozen=True)
class SvmTree:
    """A trained tree of support vector machines."""

    hierarchy: Hierarchy
    settings: Classify
    trained: Trained

    @classmethod
    def train(cls, training: TrainingSet, settings: Settings) -> Self:
        """Learn from examples."""
        return cls(training.hierarchy, settings.classify, train_tree(training, settings.classify))

    def judge(self, evidence: Evidence) -> Judgement:
        """The topic the page belongs to."""
        return self._judgement(self._walk(self._look(evidence)))

    def explain(self, evidence: Evidence) -> Explanation:
        """The judgement, with every topic that was asked on the way and the features that spoke for or against it."""
        sights = self._look(evidence)
        stages = self._walk(sights)
        names: dict[int, str] = {}
        for lens in self._lenses.values():
            names.update(lens.space.names(evidence, self.trained.stems))
        steps = [
            self._step(stage, column, sights, names) for stage in stages for column in range(len(stage.asked.topics))
        ]
        return Explanation(self._judgement(stages), tuple(steps))

    def confidences(self, training: TrainingSet) -> list[tuple[Example, float]]:
        """How surely each positive example is of its own topic: the weakest step down to it, whoever may be surer.

        Examples of the node at which classification starts, and those with nothing to look at, have none.
        """
        found: list[tuple[Example, float]] = []
        for example in training.examples:
            line = (
                self.hierarchy.line(example.kcid) if example.positive and example.kcid in self.hierarchy.nodes else []
            )
            sights = self._look(example.evidence) if line else []
            if any(len(sight.places) for sight in sights):
                found.append((example, min(self._confidence(topic, sights) for topic in line)))
        return found

    def to_bytes(self) -> bytes:
        """Everything it has learned, as MessagePack."""
        planes = [
            (p.node, p.topic, p.space, p.ids.astype("<u8").tobytes(), p.weights.tobytes(), p.bias, p.estimate)
            for p in self.trained.planes
        ]
        idfs = [idf.to_table() for idf in self.trained.idfs]
        nodes = list(self.hierarchy.nodes.values())
        return msgspec.msgpack.encode(_Table(self.settings, nodes, idfs, planes, self.trained.stems))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The tree that gave `data`."""
        table = msgspec.msgpack.decode(data, type=_Table)
        planes = tuple(
            Plane(node, topic, space, np.frombuffer(ids, "<u8"), np.frombuffer(weights, "<f4"), bias, estimate)
            for node, topic, space, ids, weights, bias, estimate in table.planes
        )
        trained = Trained(tuple(map(Idf.from_table, table.idfs)), planes, table.stems)
        return cls(Hierarchy(table.nodes), table.settings, trained)

    def estimates(self) -> dict[int, dict[str, Estimate]]:
        """What is expected of each hyperplane, by topic and feature space."""
        found: dict[int, dict[str, Estimate]] = {}
        for plane in self.trained.planes:
            found.setdefault(plane.topic, {})[self.settings.spaces[plane.space]] = plane.estimate
        return found

    @cached_property
    def asked_spaces(self) -> tuple[int, ...]:
        """Places of the spaces that vote. `best` asks one for the whole tree, so that no other needs to be made."""
        every = range(len(self.settings.spaces))
        if self.settings.meta != "best":
            return tuple(every)
        return (max(every, key=self._total_quality),)

    def _total_quality(self, space: int) -> float:
        """Over all topics; one without a hyperplane in this space counts 0, for it would never get a page."""
        return sum(quality(plane.estimate) for plane in self.trained.planes if plane.space == space)

    @cached_property
    def _lenses(self) -> dict[int, Lens]:
        """By the places of the spaces that vote."""
        return {
            number: Lens(
                make_space(self.settings.spaces[number], self.settings),
                self.trained.idfs[number],
                union(plane for plane in self.trained.planes if plane.space == number),
            )
            for number in self.asked_spaces
        }

    @cached_property
    def _rule(self) -> Rule:
        return RULES[self.settings.meta]

    @cached_property
    def _competitions(self) -> dict[int, Competition]:
        planes: dict[int, dict[tuple[int, int], Plane]] = {node: {} for node in self.hierarchy.inner()}
        for plane in self.trained.planes:
            planes[plane.node][plane.space, plane.topic] = plane
        return {
            node: Competition.of(self.hierarchy.children(node), found, self._lenses) for node, found in planes.items()
        }

    def _look(self, evidence: Evidence) -> list[Sight]:
        return [lens.see(evidence) for lens in self._lenses.values()]

    def _ask(self, node: int, sights: Sequence[Sight]) -> Asked | None:
        competition = self._competitions.get(node)
        if competition is None:
            return None
        pairs = zip(competition.panels, sights, strict=True)
        votes = np.array([panel.votes(sight) for panel, sight in pairs])
        return Asked(competition, votes, decide(self._rule, votes, competition.precisions))

    def _walk(self, sights: Sequence[Sight]) -> list[Stage[Asked]]:
        return walk(self.hierarchy, lambda node: self._ask(node, sights))

    def _confidence(self, topic: int, sights: Sequence[Sight]) -> float:
        asked = self._ask(self.hierarchy.nodes[topic].parent, sights)
        return float(asked.verdicts.confidences[asked.topics.index(topic)]) if asked else 0.0

    def _judgement(self, stages: Sequence[Stage[Asked]]) -> Judgement:
        taken = [stage for stage in stages if stage.taken >= 0]
        # By space the weakest vote on the way; a rejected page shows those for the topic that came nearest.
        votes = np.array([stage.asked.votes[:, stage.best] for stage in taken or stages]).min(axis=0)
        named = {self.settings.spaces[n]: float(vote) for n, vote in zip(self.asked_spaces, votes, strict=True)}
        voted = {name: vote for name, vote in named.items() if not math.isnan(vote)}
        agreed = [name for name, vote in voted.items() if vote > 0.0]
        return Judgement(
            topic=taken[-1].asked.topics[taken[-1].taken] if taken else ROOT,
            accepted=bool(taken),
            relevance=relevance(self.hierarchy, stages),
            confidence=path_confidence(stages),
            votes=voted,
            agreed=agreed,
            undoubted=bool(taken) and len(agreed) == len(voted) >= 2,
        )

    def _step(self, stage: Stage[Asked], column: int, sights: Sequence[Sight], names: Mapping[int, str]) -> Step:
        asked = stage.asked
        votes: dict[str, float] = {}
        estimates: dict[str, Estimate] = {}
        parts: dict[int, float] = {}
        for row, number in enumerate(self.asked_spaces):
            estimate = asked.competition.estimates[row][column]
            if estimate is not None:
                estimates[self.settings.spaces[number]] = estimate
            vote = float(asked.votes[row, column])
            if math.isnan(vote):
                continue
            votes[self.settings.spaces[number]] = vote
            share = float(asked.verdicts.shares[row, column])
            for feature, part in asked.competition.panels[row].parts(sights[row], column).items():
                parts[feature] = parts.get(feature, 0.0) + share * part
        strongest = sorted(parts, key=lambda feature: (-abs(parts[feature]), feature))[:MAX_REASONS]
        return Step(
            topic=asked.topics[column],
            confidence=float(asked.verdicts.confidences[column]),
            taken=column == stage.taken,
            votes=votes,
            estimates=estimates,
            reasons=tuple(Reason(names.get(f, f"#{f}"), parts[f]) for f in strongest if parts[f] != 0.0),
        )
