"""Judging by keywords alone: two classifiers that need no training documents.

`keywords` is the cosine similarity of a page and the keywords of each topic (BestN 3). Its scale depends on how many
words there are: a page about two words rarely exceeds 0.4.

`query` judges until the first model is trained. Its scale is that of all other classifiers, with 0.5 for a page that is
accepted: how far the words of the topic are present, in the text and in the title. A page that lacks half of the words
or more is not accepted, however often it writes one of them. Pages that the user has refused and confirmed are known
by their most frequent words (`word_profile`): once a page is confirmed, what resembles a refused page more than any
confirmed one loses rank.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Self

import msgspec
import numpy as np

from opilio.analyze.terms import term_ids
from opilio.classify.judge import CLASSIFIERS, MAX_MISSING, Explanation, Reason, Step, TrainingSet
from opilio.features.classifier_input import ClassifierInput
from opilio.model import RELEVANT, Judgement
from opilio.settings import Settings
from opilio.topics.hierarchy import ROOT

METRIC = "keywords"
PROFILE_TERMS = 30
"""A page is known by so many of its words: fewer than a passage has, more than pages about two things share."""
RESEMBLES, SAME = 0.4, 0.8
"""Pages resemble each other from this share of a profile on, by weight, and count as the same from that on. Of the
English pages of the demo's web, 95 % of the pairs about different topics share less than 0.4, half of the pairs on one
site more than 0.5. So relevant pages resemble refused ones, too: a refusal says something only beside a confirmed page
(docs/results/log.md, 2026-11-18)."""
LIKE_A_REFUSED_PAGE = "like a page you refused"
_decoder = msgspec.msgpack.Decoder(dict[int, str])

WordProfile = Mapping[int, float]
"""The most frequent words of a page by term, with weights that add up to 1."""


def word_profile(bag: Mapping[int, int], but: Collection[int] = ()) -> dict[int, float]:
    """The profile of a page with these terms, `but` those that all hits have: the words of the question."""
    ranked = sorted((-count, term) for term, count in bag.items() if term not in but)
    weights = {term: 1.0 + math.log(-count) for count, term in ranked[:PROFILE_TERMS]}
    whole = sum(weights.values())
    return {term: weight / whole for term, weight in weights.items()}


class _Saved(msgspec.Struct, array_like=True):
    words: dict[int, str]
    refused: list[dict[int, float]]
    confirmed: list[dict[int, float]]


_query_decoder = msgspec.msgpack.Decoder(_Saved)


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
        """The topic that fits a page best, with the cosine similarity as relevance, 0 to 1; none if it is 0."""
        if not len(self.topics):
            return Judgement()
        cosines = self._cosines(item)
        best = int(np.argmax(cosines))
        cosine = min(1.0, float(cosines[best]))
        if not cosine:
            return Judgement()
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
            lacks = np.flatnonzero((self._weights[row] > 0.0) & (found == 0.0))
            missing = () if taken else tuple(words[term] for term in self._terms[lacks].tolist())[:MAX_MISSING]
            steps.append(
                Step(topic, float(cosine), taken, {METRIC: float(cosine)}, reasons=tuple(reasons), missing=missing)
            )
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


ENOUGH_WORDS = 4
"""A page with this many of a topic's words has enough of them: the titles of bookmarks give a topic dozens."""
USUAL_WORDS = 600.0
"""A word that stands once in a text of this length is as good as half missing."""
TITLE_WEIGHT = 0.6
"""What a title with all words adds: it takes this share of what the text leaves open."""


@CLASSIFIERS.register("query")
class QueryJudge:
    """Judges pages by how far the words of a topic are present; topics without words are ignored."""

    def __init__(
        self, words: Mapping[int, str], refused: Sequence[WordProfile] = (), confirmed: Sequence[WordProfile] = ()
    ) -> None:
        """`words` are those of each topic, separated by spaces; the profiles are of pages that the user has judged."""
        self._refused, self._confirmed = list(refused), list(confirmed)
        self._words = {topic: text for topic, text in words.items() if term_ids(text)}
        self._terms = {topic: sorted(set(term_ids(text))) for topic, text in self._words.items()}

    @classmethod
    def train(cls, training: TrainingSet, settings: Settings) -> Self:
        """Use the keywords of the wanted topics."""
        return cls({kcid: words for kcid, words in training.keywords.items() if training.hierarchy.is_wanted(kcid)})

    def judge(self, item: ClassifierInput) -> Judgement:
        """The topic whose words are present most, if that is enough; how far they are is the relevance, 0 to 1."""
        return self.explain(item).judgement

    def explain(self, item: ClassifierInput) -> Explanation:
        """The presence of each topic's words, and what each word adds."""
        present = {topic: self._presence(topic, item) for topic in self._terms}
        by_words = {topic: _together(parts, len(self._terms[topic])) for topic, parts in present.items()}
        if not by_words:
            return Explanation(Judgement(), ())
        kept = 1.0 - self._resemblance(item)
        relevance = {topic: kept * value for topic, value in by_words.items()}
        best = max(relevance, key=lambda topic: (relevance[topic], -topic))
        accepted = relevance[best] >= RELEVANT
        judgement = Judgement(
            topic=best if accepted else ROOT,
            accepted=accepted,
            relevance=relevance[best],
            confidence=relevance[best],
            votes={METRIC: relevance[best]} if relevance[best] else {},
            agreed=[METRIC] if accepted else [],
        )
        steps = []
        for topic, parts in present.items():
            spelled = {term: word for word in self._words[topic].split() for term in term_ids(word)}
            found = [Reason(spelled.get(term, f"#{term}"), in_text + in_title) for term, in_text, in_title in parts]
            if kept < 1.0:
                found.append(Reason(LIKE_A_REFUSED_PAGE, (kept - 1.0) * by_words[topic]))
            reasons = tuple(sorted((one for one in found if one.weight), key=lambda reason: -reason.weight))
            taken = accepted and topic == best
            missing = () if taken else tuple(one.feature for one in found if not one.weight)[:MAX_MISSING]
            steps.append(
                Step(topic, relevance[topic], taken, {METRIC: relevance[topic]}, reasons=reasons, missing=missing)
            )
        return Explanation(judgement, tuple(steps))

    def to_bytes(self) -> bytes:
        """The words and the profiles."""
        saved = _Saved(self._words, [dict(one) for one in self._refused], [dict(one) for one in self._confirmed])
        return msgspec.msgpack.encode(saved)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A judge with the same words and profiles."""
        saved = _query_decoder.decode(data)
        return cls(saved.words, saved.refused, saved.confirmed)

    def _resemblance(self, item: ClassifierInput) -> float:
        """How far a page resembles a refused one rather than a confirmed one, 0 to 1."""
        if not self._refused or not self._confirmed:
            return 0.0
        terms = set(_counts(item)[0].tolist())
        refused, confirmed = (
            max((sum(weight for term, weight in one.items() if term in terms) for one in profiles), default=0.0)
            for profiles in (self._refused, self._confirmed)
        )
        return min(1.0, max(0.0, refused - max(RESEMBLES, confirmed)) / (SAME - RESEMBLES))

    def _presence(self, topic: int, item: ClassifierInput) -> list[tuple[int, float, float]]:
        """By term of a topic: how far it is present in the text, 0 to 1, and whether it is in the title."""
        ids, counts = _counts(item)
        length = float(counts.sum())
        found = dict(zip(ids.tolist(), counts.tolist(), strict=True))
        title = set(term_ids(item.title, item.language))
        parts = []
        for term in self._terms[topic]:
            count = found.get(term, 0.0)
            in_text = count / (count + 0.3 + length / USUAL_WORDS)
            parts.append((term, in_text, float(term in title)))
        return parts


def _together(parts: list[tuple[int, float, float]], words: int) -> float:
    """The relevance of a page by the presence of the words of a topic."""
    enough = min(words, ENOUGH_WORDS)
    in_text = min(1.0, sum(part for _, part, _ in parts) / enough)
    in_title = min(1.0, sum(part for _, _, part in parts) / enough)
    relevance = 1.0 - (1.0 - in_text) * (1.0 - TITLE_WEIGHT * in_title)
    there = sum(in_text + in_title > 0.0 for _, in_text, in_title in parts)
    return relevance if there > enough // 2 else relevance * RELEVANT
