"""What every classifier has in common: it is trained on examples, judges evidence, explains itself, and travels.

A classifier is a plug-in: a class with the methods of `Judge`, registered in `CLASSIFIERS` under the name that the
setting `classify.classifier` takes. A trained one never changes; retraining makes another with the next version.

A model: a trained classifier with its version, as it is stored and sent to workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

import msgspec

from opilio.features.evidence import Evidence
from opilio.model import Judgement
from opilio.registry import Registry
from opilio.settings import Settings
from opilio.topics.hierarchy import ROOT, Hierarchy


@dataclass(frozen=True, slots=True)
class Example:
    """A training document."""

    kcid: int
    evidence: Evidence
    positive: bool = True
    """False: it is not about this topic, and belongs to OTHERS beside it (of the root: to OTHERS right below it)."""
    name: str = ""
    """Its URL or file, for messages."""


@dataclass(frozen=True)
class TrainingSet:
    """What a classifier learns from."""

    hierarchy: Hierarchy
    examples: tuple[Example, ...]
    others: tuple[Example, ...] = ()
    """Common-sense documents that are about none of the topics: they join OTHERS at every inner node."""
    document_frequencies: Mapping[int, int] = field(default_factory=dict)
    """In how many pages of the collection each term stands; empty: the training documents must do."""
    documents: int = 0
    """How many pages those are counted in."""
    terms: Mapping[int, str] = field(default_factory=dict)
    """The stems behind hash codes, for explanations; one that is missing is shown as its number."""
    keywords: Mapping[int, str] = field(default_factory=dict)
    """The words that name each topic, by kcid."""

    def of(self, kcid: int) -> list[Example]:
        """The positive examples of a topic and of all topics below it."""
        below = self.hierarchy.below(kcid)
        return [example for example in self.examples if example.positive and example.kcid in below]

    def others_of(self, kcid: int) -> list[Example]:
        """The documents of OTHERS below a node: common-sense ones, those that are not about it or its children, and its
        own.

        A document of the node itself is about none of its children; but below the root there is nothing to say so.
        """
        near = (kcid, *self.hierarchy.children(kcid))
        refused = [example for example in self.examples if not example.positive and example.kcid in near]
        own = [example for example in self.examples if example.positive and example.kcid == kcid != ROOT]
        return [*self.others, *refused, *own]

    def __iter__(self) -> Iterator[Example]:
        yield from self.examples
        yield from self.others


@dataclass(frozen=True)
class Estimate:
    """How good a decision is expected to be on pages not seen yet (xi-alpha)."""

    error: float
    precision: float
    recall: float


@dataclass(frozen=True)
class Reason:
    """What one feature added to a decision."""

    feature: str
    """As a person would read it: 'mine', 'data mine', 'anchor: home'."""
    weight: float
    """Positive: it spoke for the topic."""


@dataclass(frozen=True)
class Step:
    """One topic asked on the way down the tree."""

    topic: int
    confidence: float
    taken: bool
    votes: Mapping[str, float] = field(default_factory=dict)
    """The confidence by feature space or metric; one that abstained is missing."""
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    """The strongest features, by the size of their weight."""


@dataclass(frozen=True)
class Explanation:
    """Why a page was judged as it was."""

    judgement: Judgement
    steps: tuple[Step, ...]


class Judge(Protocol):
    """A trained classifier."""

    @classmethod
    def train(cls, training: TrainingSet, settings: Settings) -> Self:
        """Learn from examples. Raises InputError when they do not suffice, and says what is missing."""
        ...  # pragma: no cover

    def judge(self, evidence: Evidence) -> Judgement:
        """Which topic a page belongs to. Never raises, whatever the page."""
        ...  # pragma: no cover

    def explain(self, evidence: Evidence) -> Explanation:
        """The same judgement, with its reasons."""
        ...  # pragma: no cover

    def to_bytes(self) -> bytes:
        """Everything it has learned."""
        ...  # pragma: no cover

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The classifier that gave `data`; judges exactly as that one did."""
        ...  # pragma: no cover


@runtime_checkable
class Estimating(Protocol):
    """A classifier that says how good it expects to be."""

    def estimates(self) -> dict[int, dict[str, Estimate]]:
        """By topic and feature space."""
        ...  # pragma: no cover


CLASSIFIERS: Registry[type[Judge]] = Registry("classifiers")


class _Packed(msgspec.Struct, array_like=True):
    version: int
    classifier: str
    learned: bytes


_decoder = msgspec.msgpack.Decoder(_Packed)


class Model:
    """A classifier that signs its judgements with its version."""

    def __init__(self, version: int, classifier: str, judge: Judge) -> None:
        self.version = version
        self.classifier = classifier
        self.judge_alone = judge

    def judge(self, evidence: Evidence) -> Judgement:
        """What the classifier says, signed."""
        return msgspec.structs.replace(self.judge_alone.judge(evidence), model_version=self.version)

    def explain(self, evidence: Evidence) -> Explanation:
        """The same judgement, with its reasons."""
        explanation = self.judge_alone.explain(evidence)
        signed = msgspec.structs.replace(explanation.judgement, model_version=self.version)
        return Explanation(signed, explanation.steps)

    def to_bytes(self) -> bytes:
        """The model as one message."""
        return msgspec.msgpack.encode(_Packed(self.version, self.classifier, self.judge_alone.to_bytes()))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The model that gave `data`."""
        packed = _decoder.decode(data)
        return cls(packed.version, packed.classifier, CLASSIFIERS.get(packed.classifier).from_bytes(packed.learned))
