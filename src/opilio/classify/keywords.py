"""The classifier `keywords`: the cosine similarity of a page and the keywords of each topic (BestN 3).

It needs no training documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Self

import msgspec
import numpy as np

from opilio.analyze.terms import term_ids
from opilio.classify.judge import CLASSIFIERS, Explanation, Reason, Step, TrainingSet
from opilio.features.classifier_input import ClassifierInput
from opilio.model import Judgement
from opilio.settings import Settings

METRIC = "keywords"
_decoder = msgspec.msgpack.Decoder(dict[int, str])


@CLASSIFIERS.register("keywords")
class KeywordJudge:
    """Judges pages by the keywords of the topics; topics without keywords are ignored."""

    def __init__(self, keywords: Mapping[int, str]) -> None:
        """`keywords` are the words of each topic, separated by spaces."""
        self._keywords = dict(keywords)
        counts = {topic: Counter(term_ids(words)) for topic, words in keywords.items()}
        counts = {topic: count for topic, count in counts.items() if count}
        self.topics = np.array(sorted(counts), dtype=np.int64)
        self._terms = np.array(sorted({term for count in counts.values() for term in count}), dtype=np.uint32)
        weights = [[float(counts[topic][term]) for term in self._terms.tolist()] for topic in self.topics.tolist()]
        self._weights = np.array(weights, dtype=np.float64).reshape(len(self.topics), len(self._terms))
        if len(self.topics):
            self._weights /= np.linalg.norm(self._weights, axis=1, keepdims=True)

    @classmethod
    def train(cls, training: TrainingSet, settings: Settings) -> Self:
        """Use the keywords of the wanted topics."""
        return cls({kcid: words for kcid, words in training.keywords.items() if training.hierarchy.is_wanted(kcid)})

    def judge(self, item: ClassifierInput) -> Judgement:
        """The topic that fits a page best, with the cosine similarity as relevance, 0 to 1."""
        if not len(self.topics):
            return Judgement()
        cosines = self._cosines(item)
        best = int(np.argmax(cosines))
        cosine = min(1.0, float(cosines[best]))
        if not cosine:
            return Judgement(topic=int(self.topics[best]))
        return Judgement(
            topic=int(self.topics[best]),
            accepted=True,
            relevance=cosine,
            confidence=cosine,
            votes={METRIC: cosine},
            agreed=[METRIC],
        )

    def explain(self, item: ClassifierInput) -> Explanation:
        """The cosine with each topic, and the keywords that were found."""
        judgement = self.judge(item)
        words = {term: word for text in self._keywords.values() for word in text.split() for term in term_ids(word)}
        found = self._frequencies(item) / max(1.0, float(np.linalg.norm(_counts(item)[1])))
        steps = []
        for row, (topic, cosine) in enumerate(zip(self.topics.tolist(), self._cosines(item), strict=True)):
            parts = zip(self._terms.tolist(), self._weights[row] * found, strict=True)
            reasons = [Reason(words.get(term, f"#{term}"), float(part)) for term, part in parts if part]
            reasons.sort(key=lambda reason: -reason.weight)
            taken = judgement.accepted and topic == judgement.topic
            steps.append(Step(topic, float(cosine), taken, {METRIC: float(cosine)}, reasons=tuple(reasons)))
        return Explanation(judgement, tuple(steps))

    def to_bytes(self) -> bytes:
        """The keywords."""
        return msgspec.msgpack.encode(self._keywords)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A judge with the same keywords."""
        return cls(_decoder.decode(data))

    def _cosines(self, item: ClassifierInput) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        ids, counts = _counts(item)
        if not len(ids):
            return np.zeros(len(self.topics))
        cosines: np.ndarray[tuple[int], np.dtype[np.float64]] = self._weights @ self._frequencies(item)
        return cosines / np.linalg.norm(counts)

    def _frequencies(self, item: ClassifierInput) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        ids, counts = _counts(item)
        if not len(ids):
            return np.zeros(len(self._terms))
        places = np.searchsorted(ids, self._terms)
        places[places == len(ids)] = 0
        return np.where(ids[places] == self._terms, counts[places], 0.0)


def _counts(
    item: ClassifierInput,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint32]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    ids, counts = np.unique(item.stems, return_counts=True)
    known = ids != 0
    return ids[known], counts[known].astype(np.float64)
