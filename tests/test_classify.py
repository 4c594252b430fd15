"""The keyword judge against a cosine worked out by hand, term by term."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.classify import KeywordJudge, Model, QueryJudge
from opilio.features.classifier_input import ClassifierInput, TextReader
from opilio.topics.hierarchy import ROOT

WORDS = ["owl", "barn", "hawk", "nest", "egg", "wing", "feather", "beak", "claw", "prey"]
counts_of = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 50), max_size=len(WORDS))
keywords_of = st.dictionaries(st.integers(0, 30), st.lists(st.sampled_from(WORDS), max_size=12), max_size=6)


def judged(keywords: dict[int, list[str]], page: dict[str, int]) -> tuple[int, float]:
    """The topic and the relevance that a page with these words gets."""
    judge = KeywordJudge({topic: " ".join(words) for topic, words in keywords.items()})
    text = " ".join(word for word, count in page.items() for _ in range(count))
    judgement = judge.judge(TextReader().read("", text, "en"))
    return judgement.topic, judgement.relevance


def cosine(page: dict[str, int], keywords: list[str]) -> float:
    """The definition (BestN 3): the product of two vectors of counts over the product of their lengths."""
    topic = {word: keywords.count(word) for word in keywords}
    product = sum(count * topic.get(word, 0) for word, count in page.items())
    lengths = math.sqrt(sum(n * n for n in page.values())) * math.sqrt(sum(n * n for n in topic.values()))
    return product / lengths if lengths else 0.0


@settings(max_examples=300)
@given(page=counts_of, keywords=keywords_of)
def test_agrees_with_the_definition(page: dict[str, int], keywords: dict[int, list[str]]) -> None:
    """The judged topic is one with the greatest cosine, the lowest number among equals, and its cosine is the judgement.
    A page that nothing fits is filed under no topic."""
    usable = {topic: words for topic, words in keywords.items() if words}
    topic, relevance = judged(keywords, page)
    if not usable:
        assert relevance == 0.0
        return
    expected = {number: cosine(page, words) for number, words in usable.items()}
    best = max(expected.values())
    assert relevance == pytest.approx(best, abs=1e-9)
    assert 0.0 <= relevance <= 1.0
    if not relevance:
        assert topic == ROOT
        return
    assert topic in usable
    assert expected[topic] == pytest.approx(best, abs=1e-9)
    clear_winners = [number for number, value in expected.items() if value > best - 1e-9]
    if len(clear_winners) == 1:
        assert topic == clear_winners[0]


def test_a_tie_goes_to_the_lowest_number() -> None:
    """Two topics with the same keywords, in whatever order they were given."""
    keywords = {9: ["owl", "barn"], 4: ["owl", "barn"], 7: ["hawk"]}
    assert judged(keywords, {"owl": 3}) == (4, pytest.approx(1 / math.sqrt(2)))
    assert judged(keywords, {"prey": 3}) == (ROOT, 0.0), "nothing fits: no topic takes it"


def test_topics_without_keywords_take_no_part() -> None:
    """They are never the answer; without any keywords nothing is accepted."""
    assert judged({0: [], 1: ["owl"], 2: []}, {"owl": 1}) == (1, pytest.approx(1.0))
    assert judged({0: [], 1: ["owl"], 2: []}, {"hawk": 1}) == (ROOT, 0.0)
    assert not KeywordJudge({0: "", 1: ""}).judge(TextReader().read("", "owl")).accepted


def test_a_page_without_words_is_about_nothing() -> None:
    """No terms: relevance 0, and no topic takes it."""
    assert judged({3: ["owl"], 5: ["hawk"]}, {}) == (ROOT, 0.0)


def test_a_repeated_keyword_weighs_more() -> None:
    """A word that stands in many titles of a folder says more about its topic."""
    keywords = {1: ["owl", "owl", "owl", "nest"], 2: ["owl", "nest", "nest", "nest"]}
    assert judged(keywords, {"owl": 5, "nest": 1})[0] == 1
    assert judged(keywords, {"owl": 1, "nest": 5})[0] == 2


def test_case_plural_and_stop_words_do_not_matter() -> None:
    """Keywords go the same way as the words of pages."""
    page = TextReader().read("", "an owl and its nest", "en")
    judge, same = KeywordJudge({0: "The Owls nesting"}), KeywordJudge({0: "owl NESTS"})
    assert judge.judge(page) == same.judge(page)
    assert judge.judge(page).relevance == pytest.approx(1.0)


def test_its_bytes_judge_as_it_does_and_sign_with_their_version() -> None:
    """A model that travelled says the same, and every judgement tells which model spoke."""
    page = TextReader().read("Owls", "an owl in a barn", "en")
    model = Model(7, "keywords", KeywordJudge({0: "owl", 3: "barn owl"}))
    copy = Model.from_bytes(model.to_bytes())
    assert copy.judge(page) == model.judge(page)
    assert copy.judge(page).model_version == 7
    explained = copy.explain(page)
    assert explained.judgement == copy.judge(page)
    taken = next(step for step in explained.steps if step.taken)
    assert {reason.feature for reason in taken.reasons} == {"barn", "owl"}
    assert sum(reason.weight for reason in taken.reasons) == pytest.approx(taken.confidence)


def read(title: str, text: str) -> ClassifierInput:
    return TextReader().read(title, text, "en")


def test_a_query_is_on_the_scale_of_all_classifiers() -> None:
    """A page about all words of a query is relevant, above all when its title says so; a page that mentions one of them
    in passing is not, nor is one without them, and what is rejected is filed under no topic."""
    judge = QueryJudge({1: "volcano eruption"})
    filler = "The town has a market, a school and two bridges over the river. " * 30
    about = read("Volcano eruption", "The eruption of the volcano lasted days. " * 5 + filler)
    in_text = read("History", "The eruption of the volcano lasted days. " * 12)
    passing = read("A town", "Nearby stands a volcano. " + filler)
    order = [judge.judge(item).relevance for item in (about, in_text, passing, read("A town", filler))]
    assert order[0] > order[2] and order[0] >= 0.5 and order[1] >= 0.5 > order[2] > order[3] == 0.0
    assert [judge.judge(item).accepted for item in (about, in_text, passing)] == [True, True, False]
    assert [judge.judge(item).topic for item in (about, in_text, passing)] == [1, 1, ROOT]
    assert {reason.feature for reason in judge.explain(about).steps[0].reasons} == {"volcano", "eruption"}


def test_a_page_need_not_have_all_words_of_many_bookmarks() -> None:
    """A topic whose bookmarks give it dozens of words accepts a page that is full of a few of them."""
    words = "owl owlet barn tawny feather nest pellet hoot prey talon night wing habitat survey society"
    judge = QueryJudge({1: words, 2: "river"})
    page = read("Barn owl", "A barn owl hunts prey at night; the owl has its nest in a barn. " * 6)
    assert judge.judge(page).topic == 1 and judge.judge(page).is_relevant
    assert QueryJudge.from_bytes(judge.to_bytes()).judge(page) == judge.judge(page)
    assert QueryJudge({}).judge(page).relevance == 0.0
