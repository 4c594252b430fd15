"""Cosine similarity of a page and the keywords of each topic (BestN 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from opilio.model import Document


class KeywordJudge:
    """Judges pages by the keywords of the topics; a topic without keywords takes no part."""

    def __init__(self, keywords: Mapping[int, Sequence[str]], term_ids: Callable[[str], Sequence[int]]) -> None:
        """`term_ids` turns text into the hash codes that documents carry."""
        counts = {topic: Counter(term_ids(" ".join(words))) for topic, words in keywords.items()}
        counts = {topic: count for topic, count in counts.items() if count}
        self.topics = np.array(sorted(counts), dtype=np.int64)
        self._terms = np.array(sorted({term for count in counts.values() for term in count}), dtype=np.uint32)
        weights = [[float(counts[topic][term]) for term in self._terms.tolist()] for topic in self.topics.tolist()]
        self._weights = np.array(weights, dtype=np.float64).reshape(len(self.topics), len(self._terms))
        if len(self.topics):
            self._weights /= np.linalg.norm(self._weights, axis=1, keepdims=True)

    def __bool__(self) -> bool:
        return len(self.topics) > 0

    def judge(self, document: Document) -> tuple[int, float]:
        """The topic a page fits best and the cosine of their words, 0 to 1."""
        ids = np.frombuffer(document.term_ids, dtype="<u4")
        if not len(ids):
            return int(self.topics[0]), 0.0
        counts = np.frombuffer(document.term_counts, dtype="<u2").astype(np.float64)
        places = np.searchsorted(ids, self._terms)
        places[places == len(ids)] = 0
        frequencies = np.where(ids[places] == self._terms, counts[places], 0.0)
        cosines = self._weights @ frequencies / np.linalg.norm(counts)
        best = int(np.argmax(cosines))
        return int(self.topics[best]), min(1.0, float(cosines[best]))
