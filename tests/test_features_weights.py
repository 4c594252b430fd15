"""Weights of features: tf*idf against scikit-learn and by hand, and what is kept of it."""

from __future__ import annotations

import math
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfTransformer

from opilio.features import Idf, Vector, project
from opilio.features.weights import FeatureTable, FeatureWeights, distinct, repeated

ANCHOR = 1 << 32


def vector(counts: dict[int, int]) -> Vector:
    ids = sorted(counts)
    return Vector(np.array(ids, np.uint64), np.array([counts[number] for number in ids], np.float64))


def dense(vectors: list[Vector], ids: np.ndarray) -> np.ndarray:
    """A row for each vector, a column for each of the ascending `ids`."""
    rows = np.zeros((len(vectors), len(ids)))
    for row, one in zip(rows, vectors, strict=True):
        places, values = project(one, ids)
        row[places] = values
    return rows


numbers = st.one_of(st.integers(1, 12), st.integers(ANCHOR, ANCHOR + 5), st.integers(2**63, 2**63 + 5))
pages = st.dictionaries(numbers, st.integers(1, 40), max_size=12).map(vector)
page_lists = st.lists(pages, max_size=12)


def weights(found: Vector) -> dict[int, float]:
    return dict(zip(found.ids.tolist(), found.values.tolist(), strict=True))


class TestIdf:
    @given(page_lists, pages)
    def test_against_brute_force(self, training: list[Vector], page: Vector) -> None:
        """idf is ln((1+n)/(1+df)) + 1; a feature never seen weighs like one seen once."""
        seen = Counter(number for one in training for number in one.ids.tolist())
        found = Idf().fit(training).idf(page.ids).tolist()
        for number, idf in zip(page.ids.tolist(), found, strict=True):
            expected = math.log((1 + len(training)) / (1 + max(seen[number], 1))) + 1
            assert idf == pytest.approx(max(expected, 1))

    @given(st.lists(pages.filter(lambda page: len(page.ids) > 0), min_size=1, max_size=12))
    def test_against_scikit_learn(self, training: list[Vector]) -> None:
        """Training pages are weighed exactly as by TfidfTransformer(sublinear_tf=True)."""
        ids = np.unique(np.concatenate([page.ids for page in training]))
        theirs = TfidfTransformer(sublinear_tf=True).fit_transform(dense(training, ids)).toarray()
        idf = Idf().fit(training)
        ours = dense([idf.weigh(page) for page in training], ids)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)

    @given(page_lists, pages)
    def test_norm(self, training: list[Vector], page: Vector) -> None:
        """A weighed vector has length 1 over all its features, those never seen included; an empty one stays empty."""
        weighed = Idf().fit(training).weigh(page)
        assert weighed.ids.tolist() == page.ids.tolist()
        assert np.linalg.norm(weighed.values) == pytest.approx(1.0 if len(page.ids) else 0.0)
        assert all(weighed.values > 0)

    def test_one_shared_feature(self) -> None:
        """A page that shares one feature with a topic does not look as if it were nothing but that."""
        idf = Idf().fit([vector({1: 1, 2: 1}), vector({3: 1})])
        stranger = idf.weigh(vector({1: 1} | dict.fromkeys(range(100, 199), 1)))
        assert weights(stranger)[1] == pytest.approx(0.1)
        _, values = project(stranger, np.array([1, 2], np.uint64))
        assert np.linalg.norm(values) == pytest.approx(0.1)

    def test_page_is_not_changed(self) -> None:
        """Vectors may be weighed by many models."""
        page = vector({1: 3, 2: 1})
        Idf().fit([page]).weigh(page)
        assert page.values.tolist() == [3, 1]


class TestCollection:
    @given(page_lists, pages, st.lists(st.tuples(st.integers(1, 12), st.integers(1, 50)), min_size=1, max_size=12))
    def test_against_brute_force(
        self, training: list[Vector], page: Vector, frequencies: list[tuple[int, int]]
    ) -> None:
        """Plain terms are counted in the collection, whatever the order of its counts, all others in the training set."""
        seen = Counter(number for one in training for number in one.ids.tolist() if number >= ANCHOR)
        seen.update(dict(frequencies))
        found = Idf().fit(training, 50, dict(frequencies)).idf(page.ids).tolist()
        for number, idf in zip(page.ids.tolist(), found, strict=True):
            documents = 50 if number < ANCHOR else len(training)
            assert idf == pytest.approx(max(math.log((1 + documents) / (1 + max(seen[number], 1))) + 1, 1))

    def test_terms_from_the_collection(self) -> None:
        """Plain terms take their document frequencies from the collection, all other features from the training set."""
        training = [vector({1: 1, 2: 1, ANCHOR + 1: 1}), vector({1: 1, ANCHOR + 1: 1})]
        idf = Idf().fit(training, 999, {1: 9, 3: 499})
        found = idf.idf(np.array([1, 2, 3, ANCHOR + 1, ANCHOR + 2], np.uint64)).tolist()
        rare_term, rare_anchor = math.log(1000 / 2) + 1, math.log(3 / 2) + 1
        assert found == pytest.approx([math.log(1000 / 10) + 1, rare_term, math.log(2) + 1, 1.0, rare_anchor])

    def test_a_small_collection(self) -> None:
        """While the collection has fewer pages than the training set, the training set is the better sample."""
        training = [vector({1: 1}), vector({1: 1}), vector({2: 1})]
        ids = np.array([1, 2], np.uint64)
        assert Idf().fit(training, 3, {1: 1, 2: 3}).idf(ids).tolist() == Idf().fit(training).idf(ids).tolist()
        assert Idf().fit(training, 4, {1: 1, 2: 3}).idf(ids).tolist() != Idf().fit(training).idf(ids).tolist()

    def test_counted_more_often_than_pages(self) -> None:
        """A count that lags behind or runs ahead of the number of pages never makes a weight below 1."""
        idf = Idf().fit([], 10, {1: 25, 2: 10})
        assert idf.idf(np.array([1, 2], np.uint64)).tolist() == pytest.approx([1.0, 1.0])

    def test_nothing_learned(self) -> None:
        """Without any documents all features weigh the same."""
        assert weights(Idf().fit([]).weigh(vector({1: 1, ANCHOR: 1}))) == pytest.approx({1: 0.5**0.5, ANCHOR: 0.5**0.5})


class TestTravel:
    @given(page_lists, pages, st.dictionaries(st.integers(1, 12), st.integers(1, 30), max_size=8))
    def test_round_trip(self, training: list[Vector], page: Vector, frequencies: dict[int, int]) -> None:
        """What is read back from msgpack weighs to the last bit as what was written."""
        idf = Idf().fit(training, 30, frequencies)
        again = Idf.from_table(msgspec.msgpack.decode(msgspec.msgpack.encode(idf.to_table())))
        assert again.weigh(page).values.tolist() == idf.weigh(page).values.tolist()
        assert again.to_table() == idf.to_table()

    def test_features_seen_once_are_not_kept(self) -> None:
        """Half of all features are seen once; their weight is that of unseen ones, so they need no room."""
        idf = Idf().fit([vector(dict.fromkeys([*range(2), *range(n * 100, n * 100 + 50)], 1)) for n in range(1, 11)])
        assert idf.ids_.tolist() == [0, 1]
        assert len(idf.to_table()["ids"]) == 16


class TestFeatureTable:
    @given(
        st.sets(numbers | st.integers(0, 2**64 - 1), max_size=40),
        st.lists(st.integers(0, 2**64 - 1), max_size=20),
        st.booleans(),
    )
    def test_against_brute_force(self, known: set[int], strange: list[int], are_many: bool) -> None:
        """Each known number is found in its row and no other number is, few or many at a time."""
        table = FeatureTable(np.array(sorted(known), np.uint64))
        rows = {number: row for row, number in enumerate(sorted(known))}
        asked = [*known, *strange, *(number ^ 1 for number in known)] * (300 if are_many else 1)
        found = table.find(np.array(asked, np.uint64))
        assert found.tolist() == [rows.get(number, len(known)) for number in asked]

    def test_numbers_of_which_most_begin_alike(self) -> None:
        """Terms beside pairs, nearly all of them in one piece, are found as well."""
        ids = np.concatenate((np.arange(500, dtype=np.uint64), np.array([2**63, 2**64 - 2], np.uint64)))
        assert FeatureTable(ids).find(ids).tolist() == list(range(len(ids)))


class TestFeatureWeights:
    @given(page_lists, page_lists, st.sets(numbers, max_size=10))
    def test_many_pages_are_weighed_as_one_is(self, seen: list[Vector], new: list[Vector], chosen: set[int]) -> None:
        """Pages have the same places and weights one by one and together: those of `Idf.weigh` that were chosen."""
        idf, ids = Idf().fit(seen), np.array(sorted(chosen), np.uint64)
        found = FeatureWeights(idf, ids)
        for page, (places, values) in zip(new, found.weigh_all(new), strict=True):
            alone = found.weigh(page)
            assert (places.tolist(), values.tolist()) == (alone[0].tolist(), alone[1].tolist())
            expected = project(idf.weigh(page), ids)
            assert (places.tolist(), values.tolist()) == (expected[0].tolist(), expected[1].tolist())


def test_distinct_and_repeated_features_of_documents() -> None:
    """Documents with features in common have each of them once, and show how many have it."""
    documents = [np.array(ids, np.uint64) for ids in ([1, 5, 9], [], [5, 9], [0, 9, 2**63])]
    assert distinct(documents).tolist() == [0, 1, 5, 9, 2**63]
    assert [column.tolist() for column in repeated(documents)] == [[5, 9], [2, 3]]
    assert [column.tolist() for column in repeated([])] == [[], []]


class TestProject:
    @given(page_lists, st.sets(numbers, max_size=10))
    def test_against_brute_force(self, rows: list[Vector], chosen: set[int]) -> None:
        """A projected vector has the values of the chosen features and nothing else."""
        ids = np.array(sorted(chosen), np.uint64)
        expected = [[weights(row).get(number, 0.0) for number in sorted(chosen)] for row in rows]
        assert dense(rows, ids).tolist() == expected

    @given(pages, st.sets(numbers, max_size=10))
    def test_score(self, page: Vector, chosen: set[int]) -> None:
        """Places and values give the scalar product with weights in the order of the chosen features."""
        ids = np.array(sorted(chosen), np.uint64)
        model = np.arange(1.0, len(ids) + 1)
        places, values = project(page, ids)
        expected = sum(
            weights(page).get(number, 0.0) * weight for number, weight in zip(sorted(chosen), model, strict=True)
        )
        assert model[places] @ values == pytest.approx(expected)
