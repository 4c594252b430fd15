"""Topic trees with training documents as plain lists, and the equations of the Focus paper over them.

It is no web: documents are numbers of terms, and have neither addresses nor links.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from opilio.classify.bayes import BayesTree, others_kcid
from opilio.classify.judge import Example, TrainingSet
from opilio.features.classifier_input import ClassifierInput
from opilio.settings import ClassifySettings, Settings
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Node, marks_of

TIDS = [7, 11, 2**31, 2**32 - 1, 900, 901, 902, 903, 5_000_000, 6_000_000]
UNKNOWN = 4_000_000_000
documents = st.lists(st.sampled_from(TIDS), min_size=1, max_size=9)
pages = st.lists(st.sampled_from([*TIDS, UNKNOWN, 0]), max_size=14)


def page(tids: list[int]) -> ClassifierInput:
    return ClassifierInput(np.array(tids, np.uint32))


def hierarchy_of(parents: dict[int, int], good: set[int]) -> Hierarchy:
    paths = {kcid: str(kcid) if kcid else "" for kcid in parents}
    marks = marks_of(parents, good, paths)
    return Hierarchy(Node(kcid, parents[kcid], f"t{kcid}", paths[kcid], marks[kcid]) for kcid in parents)


@dataclass
class World:
    """A topic tree with training documents by topic, as plain lists."""

    parents: dict[int, int]
    good: set[int]
    examples: list[tuple[int, list[int], bool]]
    others: list[list[int]]
    features: int = 2000

    def hierarchy(self) -> Hierarchy:
        return hierarchy_of(self.parents, self.good)

    def settings(self, focus: str = "soft") -> Settings:
        return Settings(classify=ClassifySettings(features=self.features, focus=focus))

    def train(self, focus: str = "soft") -> BayesTree:
        examples = tuple(Example(kcid, page(tids), positive) for kcid, tids, positive in self.examples)
        others = tuple(Example(ROOT, page(tids)) for tids in self.others)
        return BayesTree.train(TrainingSet(self.hierarchy(), examples, others), self.settings(focus))

    def children(self, kcid: int) -> list[int]:
        return [child for child, parent in self.parents.items() if parent == kcid]

    def is_below(self, kcid: int, top: int) -> bool:
        return kcid == top or (kcid in self.parents and self.is_below(self.parents[kcid], top))

    @property
    def start(self) -> int:
        return ROOT if self.children(ROOT) else ABOVE_ROOT

    def classes(self, pcid: int) -> dict[int, list[list[int]]]:
        """D(ci) for the children of a node; a document of a node itself, or refused there, is in its OTHERS."""
        found = {
            child: [tids for kcid, tids, positive in self.examples if positive and self.is_below(kcid, child)]
            for child in self.children(pcid)
        }
        refused = [
            tids
            for kcid, tids, positive in self.examples
            if not positive and (kcid == pcid or self.parents[kcid] == pcid)
        ]
        own = [tids for kcid, tids, positive in self.examples if positive and kcid == pcid > ROOT]
        found[others_kcid(pcid)] = [*self.others, *refused, *own]
        found = {kcid: group for kcid, group in found.items() if group}
        return found if any(kcid >= ROOT for kcid in found) else {}

    def probabilities(self, model: BayesTree, tids: list[int]) -> dict[int, Fraction]:
        """Pr[c | d] by the equations, in exact fractions. F(c0) alone is taken from the model."""
        found = {self.start: Fraction(1)}
        waiting = [self.start]
        while waiting:
            pcid = waiting.pop()
            classes = self.classes(pcid)
            features = set(model.nodes[pcid].features.tolist()) if classes else set()
            universe = {t for group in classes.values() for d in group for t in d}
            joint = {}
            for kcid, group in classes.items():
                prior = Fraction(len(group), sum(map(len, classes.values())))
                total = len(universe) + sum(map(len, group))
                theta = {t: Fraction(1 + sum(d.count(t) for d in group), total) for t in features}
                joint[kcid] = prior * math.prod(theta[t] for t in tids if t in features)
            for kcid, value in joint.items():
                found[kcid] = found[pcid] * value / sum(joint.values())
            waiting.extend(kcid for kcid in classes if kcid >= ROOT and self.children(kcid))
        del found[self.start]
        return found

    def is_wanted(self, kcid: int) -> bool:
        """Whether a leaf, or OTHERS, lies below a good topic. OTHERS of the whole tree never does."""
        pcid = kcid if kcid >= ROOT else others_kcid(kcid)
        return (kcid >= ROOT or pcid != self.start) and any(self.is_below(pcid, good) for good in self.good)

    def leaves(self, probabilities: dict[int, Fraction]) -> dict[int, Fraction]:
        inner = {kcid for kcid in probabilities if kcid >= ROOT and self.classes(kcid)}
        return {kcid: value for kcid, value in probabilities.items() if kcid not in inner}

    def relevance(self, probabilities: dict[int, Fraction]) -> Fraction:
        """R(d) by its meaning: the probability of all leaves that are wanted."""
        return sum((v for kcid, v in self.leaves(probabilities).items() if self.is_wanted(kcid)), Fraction(0))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Trees of up to eight topics, with a document at least for one good topic and one competitor of it."""
    size = draw(st.integers(1, 8))
    parents = {ROOT: ABOVE_ROOT} | {kcid: draw(st.integers(0, kcid - 1)) for kcid in range(1, size)}
    chosen = draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=3))
    world = World(parents, set(), [], draw(st.lists(documents, max_size=2)), draw(st.sampled_from([2, 5, 2000])))
    world.good = {k for k in chosen if not any(world.is_below(k, top) for top in chosen - {k})}
    kcids = st.integers(0, size - 1)
    world.examples = draw(st.lists(st.tuples(kcids, documents, st.integers(0, 5).map(bool)), min_size=2, max_size=16))
    taught = {kcid for kcid, _, positive in world.examples if positive}
    assume(any(world.is_below(kcid, good) for kcid in taught for good in world.good))
    assume(len(world.classes(world.start)) > 1)
    return world


def log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)
