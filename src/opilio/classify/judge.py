"""What all classifiers share: they are trained on examples, judge pages, explain judgements, and can be serialised.

A classifier is a plug-in: a class with the five methods of `Judge`, registered in `CLASSIFIERS` under the name that the
setting `classify.classifier` uses. A trained classifier never changes; retraining makes another one.

A `Model` is a trained classifier with its version, as it is stored and sent to workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

import msgspec
import numpy as np

from opilio.features.classifier_input import ClassifierInput
from opilio.model import RELEVANT, Judgement
from opilio.registry import Registry
from opilio.settings import Settings
from opilio.topics.hierarchy import ROOT, Hierarchy


@dataclass(frozen=True, slots=True)
class Example:
    """A training document."""

    kcid: int
    item: ClassifierInput
    positive: bool = True
    """False: a negative example, which belongs to the OTHERS next to its topic (for the root: to OTHERS below it)."""
    name: str = ""
    """Its URL or file, for messages."""
    answered: bool = False
    """The user judged it as a page of the crawl, rather than giving it."""


@dataclass(frozen=True)
class TrainingSet:
    """What a classifier learns from."""

    hierarchy: Hierarchy
    examples: tuple[Example, ...]
    others: tuple[Example, ...] = ()
    """Everyday documents that are about none of the topics: they join OTHERS at every inner node."""
    met: tuple[Example, ...] = ()
    """Pages of the crawl about which the user has said nothing: they show what there is on this web."""
    document_frequencies: Mapping[int, int] = field(default_factory=dict)
    """In how many pages of the collection each term occurs; empty: the training documents are counted."""
    documents: int = 0
    """The number of pages in which they were counted."""
    terms: Mapping[int, str] = field(default_factory=dict)
    """Stems by hash code, for explanations; missing ones are shown as numbers."""
    keywords: Mapping[int, str] = field(default_factory=dict)
    """The keywords of each topic, by kcid."""

    def of(self, kcid: int) -> list[Example]:
        """The positive examples of a topic and of all topics below it."""
        below = self.hierarchy.below(kcid)
        return [example for example in self.examples if example.positive and example.kcid in below]

    def others_of(self, kcid: int) -> list[Example]:
        """The documents of OTHERS below a node: everyday ones, negative ones of it and its children, and its own.

        A document of the node itself is about none of its children; but this is not known of documents of the root.
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
    """The expected quality of decisions on new pages (xi-alpha)."""

    error: float
    precision: float
    recall: float


@dataclass(frozen=True)
class Reason:
    """What one feature contributed to a decision."""

    feature: str
    """In readable form: 'mine', 'data mine', 'anchor: home'."""
    weight: float
    """Positive: in favour of the topic."""


@dataclass(frozen=True)
class Step:
    """One topic that was considered on the way down the tree."""

    topic: int
    confidence: float
    taken: bool
    votes: Mapping[str, float] = field(default_factory=dict)
    """The confidence by feature space or metric; those that abstained are missing."""
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    """The strongest features, by the absolute value of their weight; both sides are there if both have any."""
    missing: tuple[str, ...] = ()
    """Of a topic that did not take the page: the words that speak most for it and that the page lacks."""


@dataclass(frozen=True)
class Explanation:
    """Why a page was judged as it was."""

    judgement: Judgement
    steps: tuple[Step, ...]


def strongest(parts: Mapping[int, float], limit: int) -> list[int]:
    """The features with the greatest weights, for or against; half of the places are kept for each side.

    A page that is refused has many words for a topic: they must not hide what speaks against it.
    """
    ranked = sorted((feature for feature in parts if parts[feature]), key=lambda one: (-abs(parts[one]), one))
    sides = [[one for one in ranked if (parts[one] > 0.0) is side] for side in (True, False)]
    kept = {one for side in sides for one in side[: limit // 2]}
    rest = [one for one in ranked if one not in kept][: limit - len(kept)]
    return [one for one in ranked if one in kept or one in rest]


class Judge(Protocol):
    """A trained classifier."""

    @classmethod
    def train(cls, training: TrainingSet, settings: Settings) -> Self:
        """Learn from examples. Raises an InputError that says what is missing if they do not suffice."""
        ...  # pragma: no cover

    def judge(self, item: ClassifierInput) -> Judgement:
        """Which topic a page belongs to. Never raises, whatever the page."""
        ...  # pragma: no cover

    def explain(self, item: ClassifierInput) -> Explanation:
        """The same judgement, with its reasons."""
        ...  # pragma: no cover

    def to_bytes(self) -> bytes:
        """Everything it has learned."""
        ...  # pragma: no cover

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The classifier that was saved as `data`; it judges exactly as that one did."""
        ...  # pragma: no cover


@runtime_checkable
class Estimating(Protocol):
    """A classifier that estimates its own quality."""

    def estimates(self) -> dict[int, dict[str, Estimate]]:
        """The estimates, by topic and feature space."""
        ...  # pragma: no cover


MAX_MISSING = 8
"""Words that an explanation names as missing."""
BELOW_RELEVANT = float(np.nextafter(np.float32(RELEVANT), np.float32(0)))
"""The largest relevance below `RELEVANT`, also when stored in 32 bits."""
CLASSIFIERS: Registry[type[Judge]] = Registry("classifiers")


class _Packed(msgspec.Struct, array_like=True):
    version: int
    classifier: str
    learned: bytes
    only_undoubted: bool = False


_decoder = msgspec.msgpack.Decoder(_Packed)


class Model:
    """A trained classifier with a version, which all its judgements have."""

    def __init__(self, version: int, classifier: str, judge: Judge, *, only_undoubted: bool = False) -> None:
        """`only_undoubted`: a page that the classifier accepts with doubt is not accepted."""
        self.version = version
        self.classifier = classifier
        self.trained_judge = judge
        self.only_undoubted = only_undoubted

    def judge(self, item: ClassifierInput) -> Judgement:
        """The judgement of the classifier, with the version."""
        return self._signed(self.trained_judge.judge(item))

    def explain(self, item: ClassifierInput) -> Explanation:
        """The same judgement, with its reasons."""
        explanation = self.trained_judge.explain(item)
        return Explanation(self._signed(explanation.judgement), explanation.steps)

    def _signed(self, said: Judgement) -> Judgement:
        if self.only_undoubted and said.accepted and not said.undoubted:
            relevance = min(said.relevance, BELOW_RELEVANT)
            said = msgspec.structs.replace(said, topic=ROOT, accepted=False, relevance=relevance)
        return msgspec.structs.replace(said, model_version=self.version)

    def to_bytes(self) -> bytes:
        """The model as one message."""
        learned = self.trained_judge.to_bytes()
        return msgspec.msgpack.encode(_Packed(self.version, self.classifier, learned, self.only_undoubted))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The model that was saved as `data`."""
        packed = _decoder.decode(data)
        judge = CLASSIFIERS.get(packed.classifier).from_bytes(packed.learned)
        return cls(packed.version, packed.classifier, judge, only_undoubted=packed.only_undoubted)
