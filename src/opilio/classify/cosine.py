"""`cosine`: the cosine similarity of a page and the examples of a topic, the score of Best-N-First (BestN 3).

The paper compares pages with the keywords of a topic. Where there are examples, what they have in common stands for
the topic: the sum of their term frequencies, each example of length 1, and the keywords as one more example. Nothing
that is off topic takes part.

Best-N-First needs only an order of pages, a collection also a yes. An example is about as similar to the others as a
new page of the topic would be, so the mean of these similarities is where a page is accepted. Relevance grows with the
cosine, so the order is that of the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import msgspec
import numpy as np

from opilio.analyze.terms import term_ids
from opilio.classify.judge import CLASSIFIERS, MAX_MISSING, Explanation, Reason, Step, TrainingSet
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput
from opilio.model import RELEVANT, Judgement
from opilio.settings import Settings
from opilio.topics.hierarchy import ROOT

METRIC = "cosine"
SINGLE = 0.3
"""The similarity from which a page is accepted when a topic has one example."""
KEYWORDS_ONLY = 0.2
"""The same when it has keywords only: a page about two words has many others."""
MIN_ACCEPTED = 0.05
"""The least such similarity: examples with nothing in common must not let all pages in."""
SHOWN_REASONS = 20

_Vector = dict[int, float]


class _Profile(msgspec.Struct, array_like=True, frozen=True):
    """What stands for a topic."""

    topic: int
    accepted_from: float
    vector: _Vector
    """By term; of length 1."""


class _Packed(msgspec.Struct, array_like=True):
    profiles: list[_Profile]
    words: dict[int, str]


_decoder = msgspec.msgpack.Decoder(_Packed)


@CLASSIFIERS.register("cosine")
class CosineJudge:
    """Judges pages by their similarity to the examples of the wanted topics."""

    def __init__(self, profiles: Sequence[_Profile], words: dict[int, str]) -> None:
        """`words` are stems by their hash codes, for explanations."""
        self._profiles = list(profiles)
        self._words = words

    @classmethod
    def train(cls, training: TrainingSet, settings: Settings) -> Self:
        """Sum up the examples of each wanted topic."""
        profiles = []
        for kcid in sorted(filter(training.hierarchy.is_wanted, training.hierarchy.nodes)):
            vectors = [_vector(example.item) for example in training.of(kcid)]
            vectors += [_unit(_frequencies(term_ids(training.keywords.get(kcid, ""))))]
            vectors = [vector for vector in vectors if vector]
            if vectors:
                profiles.append(_profile(kcid, vectors, settings.classify.features))
        if not profiles:
            raise InputError("no topic has an example with words in it", "Give other examples, or keywords.")
        known = {term for profile in profiles for term in profile.vector}
        return cls(profiles, {term: word for term, word in training.terms.items() if term in known})

    @classmethod
    def of_keywords(cls, keywords: Mapping[int, str]) -> Self:
        """A judge by the keywords of topics, as in the paper; topics without keywords are ignored."""
        vectors = {topic: _unit(_frequencies(term_ids(words))) for topic, words in sorted(keywords.items())}
        words = {term: word for text in keywords.values() for word in text.split() for term in term_ids(word)}
        return cls([_Profile(topic, KEYWORDS_ONLY, vector) for topic, vector in vectors.items() if vector], words)

    def judge(self, item: ClassifierInput) -> Judgement:
        """The topic to which a page is most similar."""
        return self._judged(self._cosines(_vector(item)))

    def explain(self, item: ClassifierInput) -> Explanation:
        """The similarity to each topic, and the terms that make it."""
        page = _vector(item)
        cosines = self._cosines(page)
        judgement = self._judged(cosines)
        steps = []
        for profile, cosine in zip(self._profiles, cosines, strict=True):
            parts = [(term, weight * page[term]) for term, weight in profile.vector.items() if term in page]
            parts.sort(key=lambda part: -part[1])
            reasons = tuple(Reason(self._words.get(term, f"#{term}"), part) for term, part in parts[:SHOWN_REASONS])
            taken = judgement.accepted and judgement.topic == profile.topic
            over = cosine - profile.accepted_from
            lacks = sorted(profile.vector.keys() - page.keys(), key=lambda term: (-profile.vector[term], term))
            missing = () if taken else tuple(self._words[term] for term in lacks if term in self._words)[:MAX_MISSING]
            steps.append(Step(profile.topic, over, taken, {METRIC: cosine}, reasons=reasons, missing=missing))
        return Explanation(judgement, tuple(steps))

    def to_bytes(self) -> bytes:
        """The sums, and the words of their terms."""
        return msgspec.msgpack.encode(_Packed(self._profiles, self._words))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A judge with the same sums."""
        packed = _decoder.decode(data)
        return cls(packed.profiles, packed.words)

    def _cosines(self, page: _Vector) -> list[float]:
        return [_product(page, profile.vector) for profile in self._profiles]

    def _judged(self, cosines: list[float]) -> Judgement:
        if not cosines:
            return Judgement()
        relevances = [
            _relevance(cosine, profile.accepted_from) for profile, cosine in zip(self._profiles, cosines, strict=True)
        ]
        best = int(np.argmax(relevances))
        accepted = relevances[best] >= RELEVANT
        return Judgement(
            topic=self._profiles[best].topic if accepted else ROOT,
            accepted=accepted,
            relevance=relevances[best],
            confidence=cosines[best] - self._profiles[best].accepted_from,
            votes={METRIC: cosines[best]},
            agreed=[METRIC] if accepted else [],
        )


def _profile(kcid: int, vectors: Sequence[_Vector], most_terms: int) -> _Profile:
    total = _sum(vectors)
    if len(vectors) == 1:
        accepted_from = SINGLE
    else:
        others = [_unit({term: total[term] - vector.get(term, 0.0) for term in total}) for vector in vectors]
        alike = [_product(vector, rest) for vector, rest in zip(vectors, others, strict=True)]
        accepted_from = max(MIN_ACCEPTED, sum(alike) / len(alike))
    kept = sorted(total.items(), key=lambda entry: (-entry[1], entry[0]))[:most_terms]
    return _Profile(kcid, accepted_from, _unit(dict(kept)))


def _relevance(cosine: float, accepted_from: float) -> float:
    """`RELEVANT` where pages begin to be accepted; 0 and 1 at the ends."""
    cosine = min(1.0, cosine)
    if cosine < accepted_from:
        return RELEVANT * cosine / accepted_from
    return RELEVANT + (1.0 - RELEVANT) * (cosine - accepted_from) / max(1e-9, 1.0 - accepted_from)


def _frequencies(terms: Iterable[int]) -> _Vector:
    found: _Vector = {}
    for term in terms:
        if term:
            found[term] = found.get(term, 0.0) + 1.0
    return found


def _vector(item: ClassifierInput) -> _Vector:
    """The term frequencies of a page, scaled to length 1."""
    return _unit(_frequencies(item.stems.tolist()))


def _unit(vector: _Vector) -> _Vector:
    length = sum(value * value for value in vector.values()) ** 0.5
    return {term: value / length for term, value in vector.items()} if length else {}


def _sum(vectors: Iterable[_Vector]) -> _Vector:
    total: _Vector = {}
    for vector in vectors:
        for term, value in vector.items():
            total[term] = total.get(term, 0.0) + value
    return total


def _product(one: _Vector, other: _Vector) -> float:
    return sum(value * other[term] for term, value in one.items() if term in other)
