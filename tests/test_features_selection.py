"""Selection of features: mutual information by hand and by scikit-learn, and which candidates are looked at."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from opilio.features import Vector, mutual_information, select, select_among

ENOUGH = 10_000


def vector(counts: dict[int, int]) -> Vector:
    ids = sorted(counts)
    return Vector(np.array(ids, np.uint64), np.array([counts[number] for number in ids], np.float64))


def page(*ids: int) -> Vector:
    return vector(dict.fromkeys(ids, 1))


pages = st.dictionaries(st.integers(1, 9), st.integers(1, 5), max_size=9).map(vector)
page_lists = st.lists(pages, max_size=8)
classes = st.lists(page_lists, max_size=4)


def share(vectors: Sequence[Vector], number: int) -> float:
    return sum(number in one.ids.tolist() for one in vectors) / len(vectors) if vectors else 0.0


def equation_1(number: int, positives: Sequence[Vector], negatives: Sequence[Vector]) -> float:
    """As it stands in the paper, from probabilities."""
    everything = [*positives, *negatives]
    topic = len(positives) / len(everything)
    joint = share(positives, number) * topic
    return joint * math.log(joint / (share(everything, number) * topic)) if joint else 0.0


def totals(vectors: Sequence[Vector]) -> Counter[int]:
    total: Counter[int] = Counter()
    for one in vectors:
        total.update(dict(zip(one.ids.tolist(), one.values.tolist(), strict=True)))
    return total


class TestMutualInformation:
    @given(st.integers(1, 9), st.lists(pages, min_size=1, max_size=8), page_lists)
    def test_equation_1(self, number: int, positives: list[Vector], negatives: list[Vector]) -> None:
        """The counts give what the probabilities of the paper's formula give."""
        in_topic = sum(number in one.ids for one in positives)
        present = in_topic + sum(number in one.ids for one in negatives)
        counts = [np.array([count]) for count in (present, in_topic)]
        found = mutual_information(*counts, len(positives) + len(negatives), len(positives))
        assert found.tolist() == pytest.approx([equation_1(number, positives, negatives)])

    @given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
    def test_is_a_part_of_the_full_measure(self, both: int, topic_only: int, feature_only: int, neither: int) -> None:
        """Equation 1 for the four combinations of feature, topic and their absence adds up to scikit-learn's measure."""
        documents = both + topic_only + feature_only + neither
        if not documents:
            return
        full = 0.0
        for present, absent in ((both, topic_only), (feature_only, neither)):
            for joint, all_with in ((present, both + feature_only), (absent, topic_only + neither)):
                full += mutual_information(np.array([all_with]), np.array([joint]), documents, present + absent)[0]
        feature = [1] * both + [0] * topic_only + [1] * feature_only + [0] * neither
        topic = [1] * (both + topic_only) + [0] * (feature_only + neither)
        assert full == pytest.approx(mutual_info_score(feature, topic), abs=1e-12)

    def test_signs(self) -> None:
        """Positive for what is more frequent in the topic, 0 for what is alike or absent, negative for the opposite."""
        found = mutual_information(np.array([5, 4, 5, 2]), np.array([4, 2, 1, 0]), 10, 5)
        assert np.sign(found).tolist() == [1, 0, -1, 0]


class TestSelect:
    @given(page_lists, page_lists, st.integers(0, 10), st.integers(0, 10))
    def test_against_brute_force(
        self, positives: list[Vector], negatives: list[Vector], candidates: int, features: int
    ) -> None:
        """Of the most frequent features of the topic those with the greatest mutual information, best first."""
        total = totals(positives)
        tried = sorted(total, key=lambda number: (-total[number], number))[:candidates]
        expected = sorted(tried, key=lambda number: (-round(equation_1(number, positives, negatives), 12), number))
        found = select(positives, negatives, candidates=candidates, features=features)
        assert found.dtype == np.uint64
        assert len(found) == min(len(tried), features)
        # Equal scores may be computed with different last bits here and there: compare the scores, not the ties.
        scores = [equation_1(number, positives, negatives) for number in found.tolist()]
        assert scores == pytest.approx([equation_1(number, positives, negatives) for number in expected[:features]])
        assert set(found.tolist()) <= set(tried)

    def test_example_of_the_paper(self) -> None:
        """'theorem' tells mathematics from arts, 'field' tells algebra from stochastics; neither does the other's work."""
        theorem, field, other = 1, 2, 3
        algebra, stochastics = [page(theorem, field, other)] * 5, [page(theorem, other)] * 5
        arts = [page(other)] * 4 + [page(field, other)]
        assert select([*algebra, *stochastics], arts, candidates=9, features=9)[0] == theorem
        assert select(algebra, stochastics, candidates=9, features=9)[0] == field

    @given(page_lists, page_lists, st.randoms())
    def test_order_of_documents_does_not_matter(self, positives: list[Vector], negatives: list[Vector], random) -> None:
        """The same documents in another order give the same features, ties included."""
        found = select(positives, negatives, candidates=5, features=5).tolist()
        random.shuffle(positives)
        random.shuffle(negatives)
        assert select(positives, negatives, candidates=5, features=5).tolist() == found

    def test_ties_go_by_number(self) -> None:
        """Features that are equally good come in the order of their numbers."""
        assert select([page(9, 4, 7)], [page(1)], candidates=2, features=5).tolist() == [4, 7]

    def test_candidates_by_count_within_the_topic(self) -> None:
        """Candidates are the features with the highest total count in the topic; how frequent others are is no matter."""
        positives = [vector({1: 5, 2: 1}), vector({3: 2, 2: 1})]
        negatives = [vector({4: 100, 2: 100})]
        assert select(positives, negatives, candidates=1, features=9).tolist() == [1]
        assert set(select(positives, negatives, candidates=9, features=9).tolist()) == {1, 2, 3}

    def test_nothing_to_select_from(self) -> None:
        """Without positive documents there are no features; without negative ones they are all equal."""
        assert select([], [page(1)], candidates=9, features=9).tolist() == []
        assert select([page(2, 1)], [], candidates=9, features=9).tolist() == [1, 2]


class TestSelectAmong:
    @given(classes)
    def test_against_scikit_learn(self, groups: list[list[Vector]]) -> None:
        """Features come in the order of scikit-learn's mutual information, each class repeated to the same size."""
        filled = [group for group in groups if group]
        size = math.lcm(*map(len, filled))
        balanced = [(one, label) for label, group in enumerate(filled) for one in group * (size // len(group))]

        def score(number: int) -> float:
            present = [number in one.ids.tolist() for one, _ in balanced]
            return float(mutual_info_score([label for _, label in balanced], present))

        found = select_among(groups, candidates=ENOUGH, features=ENOUGH).tolist()
        assert set(found) == {number for group in groups for number in totals(group)}
        scores = [score(number) for number in found]
        assert scores == pytest.approx(sorted(scores, reverse=True), abs=1e-9)

    def test_small_class_beside_a_large_one(self) -> None:
        """The word of a class of three pages is as good as that of a class of three hundred."""
        small, large = [page(1, 9)] * 3, [page(2, 9)] * 300
        assert select_among([large, small], candidates=9, features=2).tolist() == [1, 2]

    def test_candidates_in_turn(self) -> None:
        """Each class gets its most frequent features tried, however loud the others are."""
        loud, quiet = [vector({1: 100, 2: 90, 3: 80})], [vector({4: 2, 5: 1})]
        assert set(select_among([loud, quiet], candidates=2, features=9).tolist()) == {1, 4}
        assert set(select_among([loud, quiet], candidates=4, features=9).tolist()) == {1, 2, 4, 5}

    @given(classes, st.integers(0, 9), st.integers(0, 9), st.randoms())
    def test_reproduces(self, groups: list[list[Vector]], candidates: int, features: int, random) -> None:
        """The number asked for at most, no feature twice, and the order of classes does not matter."""
        found = select_among(groups, candidates=candidates, features=features).tolist()
        assert len(found) == len(set(found)) <= min(candidates, features)
        random.shuffle(groups)
        assert set(select_among(groups, candidates=candidates, features=9).tolist()) >= set(found)

    def test_nothing_to_select_from(self) -> None:
        """No classes, empty classes and empty pages have no features."""
        for groups in ([], [[]], [[], [page()]]):
            assert select_among(groups, candidates=9, features=9).tolist() == []
