"""Searching small collections of known pages."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opilio import Collection
from opilio.errors import InputError
from opilio.search.snippets import differs_by
from opilio.store import Store
from opilio.store.database import reading_together
from search_pages import Page, add_pages, make_collection

FILLER = " ".join(f"filler{n}" for n in range(60))
PAGES = [
    Page("The barn owl nests in barns", "Barn owls", relevance=0.9, kcid=2, day=0, links=((1, "silent hunters"),)),
    Page("Owls hunt mice at night. An owl sees well.", "Night birds", relevance=0.8, day=40),
    Page(
        "A hawk hunts by day",
        "Hawks",
        "http://birds.example/hawk",
        relevance=0.7,
        day=80,
        content_type="application/pdf",
    ),
    Page("Die Eule jagt im Café", "Eulen", relevance=0.6, language="de", day=120),
    Page("Menu owl nest hawk. Cars have engines", "Cars", relevance=0.1, kcid=3, main_text="Cars have engines"),
    Page("猫头鹰在夜里捕食", "猫头鹰", relevance=0.4, language="zh"),
    Page(f"A copied page about kites {FILLER}", "Kites", relevance=0.5),
    Page(f"A copied page about kites {FILLER}", "Kites again", relevance=0.6),
    Page(f"A copied page about kites {FILLER} more", "Kites once more", relevance=0.3),
    Page("happiness of happy people", "Joy", "http://sub.birds.example/joy"),
]


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return make_collection(tmp_path_factory.mktemp("search") / "birds", PAGES)


def found(collection: Collection, question: str, **options: Any) -> set[int]:
    return {result["oid"] for result in collection.search(question, size=100, **options)["results"]}


@pytest.mark.parametrize(
    ("question", "oids"),
    [
        ("owl", {0, 1, 4}),
        ("OWLS", {0, 1}),
        ("owl night", {1}),
        ("owl OR hawk", {0, 1, 2, 4}),
        ("owl -night", {0, 4}),
        ("-owl -kites -hawk", {3, 5, 9}),
        ("owl (mice OR barns)", {0, 1}),
        ('"barn owl"', {0}),
        ('"owl barn"', set()),
        ('"barn owls"', {0}),
        ("title:owls", {0}),
        ("title:night", {1}),
        ("text:owls", {1}),
        ("anchor:silent", {1}),
        ("silent", {1}),
        ("url:hawk", {2}),
        ("hunt*", {1, 2}),
        ("hwak~", {2, 4}),
        ("hukw~", set()),
        ("hukw~2", {1, 2, 4}),
        ("cafe", {3}),
        ("café", {3}),
        ("猫头鹰", {5}),
        ("夜里", {5}),
        ("engines menu", {4}),
        ("happy", {9}),
        ("host:birds.example", {2, 9}),
        ("host:sub.birds.example", {9}),
        ("-host:birds.example owl OR happy", {0, 1, 4}),
        ("lang:de", {3}),
        ("lang:de lang:zh", {3, 5}),
        ("type:pdf", {2}),
        ("topic:birds owl", {0, 1}),
        ('topic:"birds/owls"', {0}),
        ("since:2026-03 before:2026-04", {2}),
        ("relevance:0.75", {0, 1}),
        ("absent", set()),
    ],
)
def test_questions(birds: Collection, question: str, oids: set[int]) -> None:
    """Each form of a question finds exactly the pages it should."""
    assert found(birds, question) == oids


def test_filters_by_name(birds: Collection) -> None:
    """Filters given by name are those of the question; several values are alternatives."""
    assert found(birds, "owl", topic="Birds") == {0, 1}
    assert found(birds, "", lang=["de", "zh"]) == {3, 5}
    assert found(birds, "owl", topic=["Birds / Owls", "Cars"]) == {0, 4}
    with pytest.raises(InputError, match="no topic 'Bird'"):
        birds.search("owl", topic="Bird")
    with pytest.raises(InputError, match="no day"):
        birds.search("since:soon")


def test_boilerplate_counts_little(birds: Collection) -> None:
    """A page that has a word in its menu only is found, after those that are about it."""
    assert [result["oid"] for result in birds.search("owl")["results"]][-1] == 4


def test_copies_are_shown_as_one(birds: Collection) -> None:
    """Near duplicates are folded into the best of them, which says how many there are and leads to all."""
    answer = birds.search("kites", weights={"relevance": 1})
    assert [(one["oid"], one["folded"]) for one in answer["results"]] == [(7, 2)]
    assert answer["total"] == 1
    assert found(birds, "kites", copies_of=7) == {6, 7, 8}
    former = birds.search("kites", weights={"confidence": 1})
    assert (former["weights"], former["results"]) == (answer["weights"], answer["results"]), "the ranking's former name"


def test_facets_count_what_a_filter_would_leave(birds: Collection) -> None:
    """Every value of every facet leaves as many pages as it says, topics with all below them."""
    answer = birds.search("owl OR hawk OR eule")
    assert answer["facets"]["topic"][0] == {"value": "Birds", "count": 4}
    for facet, values in answer["facets"].items():
        assert values
        for one in values:
            again = birds.search("owl OR hawk OR eule", **{facet: one["value"]})
            assert again["total"] == one["count"], (facet, one)


def test_pages_of_results_are_parts_of_one_list(birds: Collection) -> None:
    """Paging shows every result once, in the same order."""
    whole = [one["oid"] for one in birds.search("", size=100)["results"]]
    parts = [one["oid"] for page in range(1, 6) for one in birds.search("", page=page, size=2)["results"]]
    assert parts == whole
    assert len(whole) == 8
    assert birds.search("", page=50)["results"] == []


def test_snippets_say_what_was_asked_for(birds: Collection) -> None:
    """Matches are marked in any form of the word, pieces together are the text, and nothing is HTML."""
    [result] = birds.search("owls night")["results"]
    assert [text for text, is_match in result["snippet"] if is_match] == ["Owls", "night", "owl"]
    assert "".join(text for text, _ in result["snippet"]) == PAGES[1].text
    [result] = birds.search("cafe")["results"]
    assert ("Café", True) in result["snippet"]
    [result] = birds.search("猫头鹰")["results"]
    assert ("猫头鹰", True) in result["snippet"]


def test_rankings_and_sums(birds: Collection) -> None:
    """Each ranking alone orders by its own figure, and a sum by the weighted mean of all."""
    for name in ("bm25", "cosine", "relevance"):
        results = birds.search("owl OR hawk", weights={name: 1})["results"]
        assert [one["score"] for one in results] == [one["parts"][name] for one in results]
        assert [one["score"] for one in results] == sorted((one["score"] for one in results), reverse=True)
    weights = {"bm25": 1.0, "cosine": 0.5, "relevance": 0.25, "authority": 0.25}
    birds.sql("INSERT INTO auth VALUES (0, 1.0)", write=True)
    for one in birds.search("owl OR hawk", weights=weights)["results"]:
        assert one["score"] == pytest.approx(sum(weights[k] * v for k, v in one["parts"].items()) / 2, abs=1e-3)
    birds.sql("DELETE FROM auth", write=True)


@pytest.mark.parametrize("weights", [{"pagerank": 1.0}, {"bm25": 0.0}, {"bm25": -1.0}, {"bm25": math.nan}])
def test_bad_weights_are_refused(birds: Collection, weights: dict[str, float]) -> None:
    """Weights that are no order are refused."""
    with pytest.raises(InputError):
        birds.search("owl", weights=weights)


def test_cosine_is_that_of_the_vectors(birds: Collection) -> None:
    """The cosine is the one computed by hand from tf*idf of stems; stop words such as "well" are none."""
    stems = {
        "owl": "owl",
        "owls": "owl",
        "hunt": "hunt",
        "mice": "mice",
        "night": "night",
        "sees": "see",
    }
    words = [word.strip(".").lower() for word in PAGES[1].text.split()]
    counts = Counter(stems[word] for word in words if word in stems)
    with_term = {"owl": 2, "hunt": 2, "mice": 1, "night": 1, "see": 1}
    weight = {term: (1 + math.log(n)) * math.log1p(10 / with_term[term]) for term, n in counts.items()}
    expected = weight["owl"] / math.sqrt(sum(value**2 for value in weight.values()))
    [result] = [one for one in birds.search("owl")["results"] if one["oid"] == 1]
    assert result["parts"]["cosine"] == pytest.approx(expected, abs=1e-3)


def test_authority_is_a_share_of_the_best(tmp_path: Path) -> None:
    """Authority comes from the link scores of the page's topic, else from those of all topics."""
    collection = make_collection(tmp_path / "linked", PAGES[:4])
    with Store.open(tmp_path / "linked") as store:
        store.query("INSERT INTO link_scores VALUES (1, 1, 0, 0.5), (1, 2, 0, 0.125), (3, 0, 0, 1)", write=True)
        store.query("INSERT INTO auth VALUES (0, 0.2), (3, 0.8)", write=True)
    results = collection.search("", weights={"authority": 1})["results"]
    assert [(one["oid"], one["authority"]) for one in results] == [(1, 1.0), (3, 1.0), (0, 0.25), (2, 0.25)]
    assert results[2]["score"] == 0.5


def test_similar_pages(tmp_path: Path) -> None:
    """Pages with the same words are most alike; the page itself and copies of it are left out."""
    pages = [
        Page("falcons dive fast and hunt pigeons in cities", "Falcons"),
        Page("pigeons live in cities where falcons hunt them", "Pigeons"),
        Page("falcons dive fast and hunt pigeons in cities", "Falcons, copied"),
        Page("steam engines drive old cars", "Engines"),
        Page("cities have old engines", "Cities"),
    ]
    collection = make_collection(tmp_path / "alike", pages)
    alike = collection.similar("http://h0.example/0.html")
    assert [one["oid"] for one in alike][:1] == [1]
    assert not {0, 2} & {one["oid"] for one in alike}
    assert all(0 < one["likeness"] <= 1 for one in alike)
    with pytest.raises(InputError, match="not in the index"):
        collection.similar("http://nowhere.example/")


WORDS = ["owl", "hawk", "kite", "crow", "finch"]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_boolean_questions_agree_with_sets(
    oracle: Callable[[Any], set[int]], birds2: Collection, data: st.DataObject
) -> None:
    """Whatever is made of words, OR, - and ( ), the pages are those that sets give."""
    tree = data.draw(
        st.recursive(
            st.sampled_from(WORDS),
            lambda inner: st.tuples(st.sampled_from(["and", "or", "not"]), inner, inner),
            max_leaves=6,
        )
    )
    assert found(birds2, _written(tree)) == oracle(tree)


def _written(tree: Any) -> str:
    if isinstance(tree, str):
        return tree
    kind, left, right = tree
    joined = {"and": " ", "or": " OR ", "not": " -"}[kind]
    return f"({_written(left)}{joined}{_written(right)})"


@pytest.fixture(scope="module")
def texts() -> list[set[str]]:
    return [{word for bit, word in enumerate(WORDS) if number >> bit & 1} for number in range(32)]


@pytest.fixture(scope="module")
def birds2(tmp_path_factory: pytest.TempPathFactory, texts: list[set[str]]) -> Collection:
    pages = [Page(f"page{n} {' '.join(sorted(text))}") for n, text in enumerate(texts)]
    return make_collection(tmp_path_factory.mktemp("search") / "sets", pages)


@pytest.fixture(scope="module")
def oracle(texts: list[set[str]]) -> Callable[[Any], set[int]]:
    def evaluate(tree: Any) -> set[int]:
        if isinstance(tree, str):
            return {n for n, text in enumerate(texts) if tree in text}
        kind, left, right = tree[0], evaluate(tree[1]), evaluate(tree[2])
        return left & right if kind == "and" else left | right if kind == "or" else left - right

    return evaluate


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_letters_that_differ(a: str, b: str) -> None:
    """The distance of words is symmetric, 0 for equal ones only, and 1 for one swap."""
    assert differs_by(a, b) == differs_by(b, a)
    assert (differs_by(a, b) == 0) == (a == b)
    swapped = a[:1] + a[2:3] + a[1:2] + a[3:]
    assert differs_by(a, swapped) <= 1


def test_new_pages_are_found_at_once(tmp_path: Path) -> None:
    """At rest, a search sees what was stored before it, changed pages in their new form, and no removed ones."""
    collection = make_collection(tmp_path / "growing", PAGES[:2])
    assert found(collection, "owl") == {0, 1}
    add_pages(tmp_path / "growing", [Page("another owl")], first=2)
    assert found(collection, "owl") == {0, 1, 2}
    add_pages(tmp_path / "growing", [Page("a robin now", day=300)], first=0, replace=True)
    assert found(collection, "owl") == {1, 2}
    assert found(collection, "robin") == {0}
    with Store.open(tmp_path / "growing") as store:
        store.query("DELETE FROM pages WHERE oid = 1", write=True)
        store.query("UPDATE pages SET relevance = 0.25, kcid = 2 WHERE oid = 2", write=True)
    [result] = collection.search("owl")["results"]
    assert (result["oid"], result["relevance"], result["topic"]) == (2, 0.25, "Birds / Owls")


def test_what_no_topic_took_is_in_others(tmp_path: Path) -> None:
    """A page in OTHERS is said to be there, and can be asked for there; the root takes none that is not relevant."""
    pages = [Page("a tern on a cliff", kcid=0, relevance=0.1), Page("a tern on the sea", kcid=0, relevance=0.9)]
    collection = make_collection(tmp_path / "birds", [*pages, Page("a tern in a nest", kcid=2)])
    found = {one["oid"]: one["topic"] for one in collection.search("tern")["results"]}
    assert found == {0: "OTHERS", 1: "all", 2: "Birds / Owls"}
    assert [one["oid"] for one in collection.search("tern", topic="OTHERS")["results"]] == [0]
    assert {"value": "OTHERS", "count": 1} in collection.search("tern")["facets"]["topic"]


@pytest.mark.parametrize("oid", [-1, 10**30])
def test_copies_of_no_page(birds: Collection, oid: int) -> None:
    """A number that no page can have is refused, however large."""
    with pytest.raises(InputError, match="no page"):
        birds.search("tern", copies_of=oid)


def test_the_index_is_made_while_others_read(tmp_path: Path) -> None:
    """A thread that reads the collection does not keep another from searching what is not indexed yet."""
    collection = make_collection(tmp_path / "birds", [Page("a tern on a cliff")])
    with reading_together(collection.folder, memory_bytes=64 * 2**20):
        assert collection.search("tern")["total"] == 1
