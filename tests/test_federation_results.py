"""Merging: a federation finds and scores as one collection with all the pages does."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federation_pages import BIRDS, CARS, COMMON, NAMES, make_federation, open_federation
from federation_peers import summary_of
from opilio import Collection
from opilio.crawl.peer import SharedCollection
from opilio.errors import InputError
from opilio.federation.peers import Offer, PeerAnswer, PeerHit, TopicProfile
from opilio.federation.results import K1, ResultScorer, gather_statistics, merge
from opilio.federation.validation import check_answer, check_offers, check_summary
from opilio.search.matching import leaves_of
from opilio.search.query import parse
from opilio.search.ranking import check_weights
from opilio.search.snippets import Highlighter, Pieces
from opilio.web.peering import Offered
from search_pages import Page, make_collection

QUESTIONS = [
    "owl", "owl nest", "owl OR engine", '"small owl"', "title:owl", "anchor:wheel", "text:brake", "url:owl0", "fea*",
    "ow~1", "owl -hawk", "-owl", "owl OR -engine", "(owl OR hawk) (wheel OR engine)", "owls nesting", "topic:Birds owl",
    "-topic:Cars wheel", "host:owl1.example nest", "small", "unique1x7", "owl topic:Birds relevance:0.5", "type:html",
]  # fmt: skip
WEIGHTS = [None, {"bm25": 1.0}, {"bm25": 1.0, "relevance": 2.0}]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three collections and the one that has all their pages."""
    return make_federation(tmp_path_factory.mktemp("federation"))


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize("question", QUESTIONS)
def test_scores_are_those_of_one_collection(place: Path, question: str, weights: dict[str, float] | None) -> None:
    """Every page of the best twenty, its score, the number of hits and their facets are as one collection has them."""
    one = Collection(place / "all").search(question, weights=weights, size=20)
    found = open_federation(place).search(question, weights=weights, size=20, ask_all=True)
    assert one["total"] == found["total"]
    assert not found["estimated"]
    scores = {result["url"]: result["score"] for result in found["results"]}
    assert [result["score"] for result in one["results"]] == pytest.approx(list(scores.values()), abs=2e-4)
    last = one["results"][-1]["score"] if one["results"] else 0.0
    for result in one["results"]:
        if result["score"] > last + 3e-4:  # among the last, equals may stand for each other
            assert scores[result["url"]] == pytest.approx(result["score"], abs=2e-4)
    pieces = {result["url"]: (result["title_pieces"], result["snippet"]) for result in found["results"]}
    for result in one["results"]:
        assert pieces.get(result["url"]) in (None, (result["title_pieces"], result["snippet"]))
    for facet in ("host", "type", "lang"):
        counted = {value["value"]: value["count"] for value in one["facets"][facet]}
        assert {value["value"]: value["count"] for value in found["facets"][facet]} == counted


def test_only_what_is_shown_is_cut_into_pieces(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the pages that folders of this machine send, those alone get a snippet that are shown; a server sends them."""
    cut: list[str] = []
    snippet = Highlighter.snippet

    def spy(self: Highlighter, text: str) -> Pieces:
        cut.append(text)
        return snippet(self, text)

    monkeypatch.setattr(Highlighter, "snippet", spy)
    answer = open_federation(place).search("small OR large", size=5, page=2, ask_all=True)
    assert answer["total"] > 15
    assert len(answer["results"]) == len(cut) == 5
    assert all(result["snippet"] == Highlighter(parse("small OR large").words()).snippet(text)
               for result, text in zip(answer["results"], list(cut), strict=True))  # fmt: skip
    assert not any("text" in result for result in answer["results"])
    served = SharedCollection(place / "birds").reply("owl", most=5).pages
    assert served
    assert all(found.result["snippet"] and found.result["title_pieces"] and found.text is None for found in served)


words = st.sampled_from([*BIRDS, *CARS, *COMMON, "nowhere"])


@settings(max_examples=40)
@given(words=st.lists(words, min_size=1, max_size=4, unique=True), glue=st.sampled_from([" ", " OR ", " -"]))
def test_the_best_ten_are_found_with_no_hint_of_which(place: Path, words: list[str], glue: str) -> None:
    """With nothing left out by choice, any question has the best ten pages of the one collection."""
    question = glue.join(words)
    one = Collection(place / "all").search(question)
    found = open_federation(place, left_out=0.0).search(question)
    scores = [result["score"] for result in one["results"]]
    assert [result["score"] for result in found["results"]] == pytest.approx(scores, abs=2e-4)


def test_pages_of_results_follow_each_other(place: Path) -> None:
    """Three pages of five are the first fifteen; a page too deep, or of no size, is refused before anybody is asked."""
    federation = open_federation(place)
    whole = [result["url"] for result in federation.search("small", size=15, ask_all=True)["results"]]
    pages = [federation.search("small", size=5, page=n, ask_all=True)["results"] for n in (1, 2, 3)]
    assert [result["url"] for page in pages for result in page] == whole
    for page, size in ((0, 10), (1, 0), (1, 201), (101, 10)):
        with pytest.raises(InputError):
            federation.search("small", page=page, size=size)


def test_a_page_of_two_collections_is_one_result_of_both(tmp_path: Path) -> None:
    """The same URL, and another URL with the same text, are shown once, and say who has them."""
    text = " ".join(f"{word} {other}" for word in BIRDS for other in CARS)
    make_collection(
        tmp_path / "birds", [Page(text, "Owl", "http://a.example/"), Page("owl once", "", "http://b.example/")]
    )
    make_collection(tmp_path / "cars", [Page("owl and wheel", "Owl", "http://a.example/")])
    make_collection(
        tmp_path / "both", [Page(text, "Owl", "http://copy.example/"), Page("owl here", "", "http://c.example/")]
    )
    results = open_federation(tmp_path).search("owl", ask_all=True)["results"]
    have = {result["url"]: {one["name"] for one in result["collections"]} for result in results}
    assert set(have) == {"http://a.example/", "http://b.example/", "http://c.example/"} or set(have) == {
        "http://copy.example/", "http://a.example/", "http://b.example/", "http://c.example/",
    }  # fmt: skip
    assert {"birds", "both"} <= set().union(*(names for names in have.values() if len(names) > 1))
    assert any("cars" in names for names in have.values())
    assert all(
        {"name", "score", "oid", "topic", "url"} <= set(one) for result in results for one in result["collections"]
    )


def page(url: str, frequency: float, **told: object) -> PeerHit:
    """A page of an answer."""
    result = {"oid": 1, "url": url, "topic": "", "score": 0.5, "parts": {"relevance": 0.0}, "title": url, **told}
    return PeerHit(result, {"stems:owl": frequency}, {"stems": 100.0})


def test_a_liar_cannot_drown_others() -> None:
    """A word said to stand a million times adds no more than k1 + 1 times its weight; shares stay between 0 and 1."""
    tree = parse("owl").tree
    honest = PeerAnswer(
        1, [page("http://a.example/", 5.0)], pages_indexed=100, frequencies={"stems:owl": 9}, lengths={"stems": 100.0}
    )
    absurd = page("http://b.example/", 1e300, parts={"relevance": 1e9, "authority": -3.0, "bm25": 7.0})
    liar = check_answer(PeerAnswer(10**12, [absurd], pages_indexed=10**12, frequencies={"stems:owl": -5}), 10)
    answers = {"honest": honest, "liar": liar}
    statistics = gather_statistics(answers, {}, leaves_of(parse("owl").words()[0]))
    scorer = ResultScorer(tree, statistics)
    weight = statistics.idf(leaves_of(parse("owl").words()[0])[0])
    assert scorer.score(liar.pages[0]) <= (K1 + 1) * weight
    assert scorer.score(honest.pages[0]) >= 0.5 * scorer.score(liar.pages[0])
    merged = merge(answers, scorer, check_weights(None))
    assert all(0 <= one.best["score"] <= 1 for one in merged)
    assert {one.best["url"] for one in merged} == {"http://a.example/", "http://b.example/"}


def test_nobody_hides_two_pages_behind_one_like_both() -> None:
    """Copies are those of pages that are shown: a page between two others that is like both joins one of them only."""
    bands = [f"{n:x}" for n in range(1, 9)]
    first = PeerHit(page("http://a.example/", 9.0).result, {"stems:owl": 9.0}, {}, ["", *bands[:2], *["ff"] * 0])
    bridge = PeerHit(page("http://b.example/", 5.0).result, {"stems:owl": 5.0}, {}, ["", *bands[:4]])
    last = PeerHit(page("http://c.example/", 1.0).result, {"stems:owl": 1.0}, {}, ["", "", "", *bands[2:4]])
    answers = {
        name: PeerAnswer(1, [one], pages_indexed=10) for name, one in zip(NAMES, (first, bridge, last), strict=True)
    }
    statistics = gather_statistics(answers, {}, leaves_of(parse("owl").words()[0]))
    merged = merge(answers, ResultScorer(parse("owl").tree, statistics), check_weights(None))
    assert [[one["name"] for one in result.collections] for result in merged] == [["birds", "cars"], ["both"]]


def test_long_paths_of_topics_stay_whole() -> None:
    """A topic below many others has a long path: cut, it would be a topic that nobody knows."""
    path = " / ".join([*map(str, range(20)), "x" * 200, "y" * 190])
    summary = msgspec.structs.replace(
        summary_of("birds", owl=1), topics=[TopicProfile(path, "", 9, {"owl": 1.0}, 0.5)], facets={"topic": {path: 1}}
    )
    checked = check_summary(summary)
    assert (checked.topics[0].path, list(checked.facets["topic"])) == (path, [path])
    [offer] = check_offers([Offer("http://a.example/", path, 0.5)])
    assert Offered(**msgspec.to_builtins(offer)).topic == path
