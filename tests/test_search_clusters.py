"""Clusters of a topic: k-means, the number of them, their names, and the subtopics made of them."""

import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import adjusted_rand_score, homogeneity_score

from made_crawls import COOKING, GARDENING, MadeCrawl
from opilio.errors import InputError
from opilio.learn.training_data import pending_changes, recording_changes
from opilio.search import clusters
from opilio.search.clusters import find_clusters, fit, impurity_bits, split_topic
from opilio.store import Store
from opilio.topics import hierarchy_of

THEMES = {"roses": 50, "ponds": 35, "lawns": 20}


def garden(draw: random.Random) -> MadeCrawl:
    """A topic whose pages are of three kinds, in a collection with others."""
    common = [f"garden{n}" for n in range(30)]
    crawl = MadeCrawl()
    for theme, pages in THEMES.items():
        own = [f"{theme}{chr(97 + n)}" for n in range(25)]
        for _ in range(pages):
            words = draw.choices(own, k=40) + draw.choices(common, k=25)
            crawl.add(kcid=GARDENING, relevance=0.9, text=" ".join(words))
    crawl.add(60, kcid=COOKING, relevance=0.0, text="oven flour sugar garden1 garden2")
    return crawl


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A collection with the garden in it."""
    with Store.create(tmp_path / "c") as made:
        yield garden(random.Random(5)).fill(made)


def theme_of(url: str) -> str:
    """The kind of a page of the garden, by its number."""
    bounds = itertools.accumulate(THEMES.values())
    number = int(url.rpartition("/")[2])
    return next(theme for theme, bound in zip(THEMES, bounds, strict=True) if number < bound)


def test_the_number_of_clusters_and_their_pages_are_found(store: Store) -> None:
    """Entropy chooses three, their sizes are exact, and the central pages of each are of one kind."""
    found = find_clusters(store, "Gardening")
    assert (found["k"], found["chosen"], found["pages"], found["left_out"]) == (3, True, 105, 0)
    assert [cluster["pages"] for cluster in found["clusters"]] == [50, 35, 20]
    for cluster, theme in zip(found["clusters"], THEMES, strict=True):
        assert {theme_of(page["url"]) for page in cluster["central"]} == {theme}
        assert all(term.startswith(theme) for term in cluster["terms"])  # as the pages write it, not the stem
        cosines = [page["cosine"] for page in cluster["central"]]
        assert cosines == sorted(cosines, reverse=True)
        assert 0 < cluster["homogeneity"] <= cosines[0] <= 1.0001
    assert find_clusters(store, "Gardening") == found  # the same each time


def test_clusters_of_given_pages(store: Store) -> None:
    """The pages of a search are clustered as they are, also those that are not relevant (BINGO 3.6)."""
    roses, dishes = range(20), range(105, 125)
    found = find_clusters(store, "Gardening", 2, among=[*roses, *dishes])
    assert found["pages"] == 40
    numbers = [{int(page["url"].rpartition("/")[2]) for page in cluster["central"]} for cluster in found["clusters"]]
    assert any(one <= set(roses) for one in numbers)
    assert all(one <= {*roses, *dishes} for one in numbers)


def test_pages_outside_the_sample_are_given_to_the_right_cluster(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When k-means sees a third of the pages, the others still land where they belong."""
    monkeypatch.setattr(clusters, "SAMPLE_PAGES", 35)
    found = find_clusters(store, "Gardening", 3)
    assert (found["sampled"], found["chosen"]) == (35, False)
    assert [cluster["pages"] for cluster in found["clusters"]] == [50, 35, 20]


def test_labels_agree_with_the_truth_by_the_measures_of_scikit_learn() -> None:
    """k-means over made vectors: adjusted Rand index and homogeneity are those of a perfect division."""
    draw = np.random.default_rng(3)
    truth = np.repeat(np.arange(4), 60)
    dense = draw.random((240, 40)) * (draw.random((240, 40)) < 0.1)
    for row, kind in enumerate(truth):
        dense[row, kind * 10 : kind * 10 + 10] += draw.random(10)
    rows = sparse.csr_matrix(dense / np.linalg.norm(dense, axis=1, keepdims=True))
    found = {k: fit(rows, k) for k in range(2, 8)}
    assert adjusted_rand_score(truth, found[4].labels) > 0.97
    assert homogeneity_score(truth, found[4].labels) > 0.97
    assert np.allclose(np.linalg.norm(found[4].centres, axis=1), 1)
    assert min(found, key=lambda k: impurity_bits(rows, found[k].labels, k)) == 4


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.booleans(), min_size=5, max_size=5)), min_size=1, max_size=12))
def test_impurity_is_what_counting_by_hand_gives(pages: list[tuple[int, list[bool]]]) -> None:
    """Bits by the definition, term by term and cluster by cluster, in plain Python."""
    labels = [label for label, _ in pages]
    bits = 0.0
    for cluster in set(labels):
        mine = [row for label, row in pages if label == cluster]
        for term in range(5):
            share = sum(row[term] for row in mine) / len(mine)
            bits -= len(mine) * sum(p * math.log2(p) for p in (share, 1 - share) if p)
            bits += math.log2(len(mine) + 1)
        bits -= len(mine) * math.log2(len(mine) / len(pages))
    rows = sparse.csr_matrix(np.array([row for _, row in pages], float) * 0.3)
    assert impurity_bits(rows, np.array(labels), 3) == pytest.approx(bits / len(pages), abs=1e-6)


def test_too_little_is_refused_with_a_reason(store: Store) -> None:
    """A topic without pages, a number that cannot be, and a topic that is not there."""
    for topic, k, said in (
        ("Cooking", 0, "0 relevant pages"),
        ("Gardening", 11, "cannot be made"),
        ("Owls", 0, "Owls"),
    ):
        with pytest.raises(InputError, match=said):
            find_clusters(store, topic, k)


def test_clusters_become_subtopics_that_are_wanted_as_the_topic_is(store: Store) -> None:
    """Each has its central pages as examples; an example of the topic goes with its cluster; all of it is pending."""
    with store.writing() as to:
        to.execute("INSERT INTO training BY NAME SELECT 'http://h0.org/3' AS name, 'url' AS kind, 4::SMALLINT AS kcid, "
                   "TRUE AS positive, 'given' AS source")  # fmt: skip
    found = find_clusters(store, "Gardening")
    assert found["clusters"][0]["examples"] == ["http://h0.org/3"]
    chosen = [{**cluster, "name": f"Kind {n}"} for n, cluster in enumerate(found["clusters"][:2])]
    with recording_changes(store):
        made = split_topic(store, "Gardening", chosen)
    assert made == ["Gardening / Kind 0", "Gardening / Kind 1"]
    hierarchy = hierarchy_of(store.load_topics())
    new = {node.path: node for node in hierarchy.nodes.values() if node.path in made}
    assert all(hierarchy.is_wanted(node.kcid) and node.parent == GARDENING for node in new.values())
    examples = {(record.kcid, record.name) for record in store.load_training() if record.positive}
    first = new["Gardening / Kind 0"].kcid
    assert {name for kcid, name in examples if kcid == first} == {
        "http://h0.org/3", *(page["url"] for page in chosen[0]["central"])
    }  # fmt: skip
    assert not any(kcid == GARDENING for kcid, _ in examples)
    assert pending_changes(store)["count"] >= len(examples)


@pytest.mark.parametrize("names", [["A", "a"], ["A", " "], []])
def test_subtopics_without_names_of_their_own_change_nothing(store: Store, names: list[str]) -> None:
    """A split that cannot be is refused before anything is written."""
    before = store.load_topics()
    with pytest.raises(InputError):
        split_topic(store, "Gardening", [{"name": name, "central": []} for name in names])
    assert store.load_topics() == before


def test_a_collection_that_is_only_a_root_is_split_into_good_topics(tmp_path: Path) -> None:
    """The root cannot stay good above them: the subtopics are wanted in its place."""
    crawl = garden(random.Random(2))
    crawl.topics = ((0, None, "", "good"),)
    for page in crawl.pages:
        page.kcid = 0
    with Store.create(tmp_path / "root") as store:
        crawl.fill(store)
        found = find_clusters(store, "")
        made = split_topic(store, "", found["clusters"])
        hierarchy = hierarchy_of(store.load_topics())
        assert len(made) == 3 == len(hierarchy.good)
