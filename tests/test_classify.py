"""The keyword judge against a cosine worked out by hand, term by term."""

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.analyze.keywords import term_ids
from opilio.classify import KeywordJudge
from opilio.model import Document

WORDS = ["owl", "barn", "hawk", "nest", "egg", "wing", "feather", "beak", "claw", "prey"]
IDS = {word: 7919 * (index + 1) % 4_294_967_291 for index, word in enumerate(WORDS)}
counts_of = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 65_535), max_size=len(WORDS))
keywords_of = st.dictionaries(st.integers(0, 30), st.lists(st.sampled_from(WORDS), max_size=12), max_size=6)


def ids_of(text: str) -> list[int]:
    """A stand-in for the analysis of words: one id for each, repeated words repeated."""
    return [IDS[word] for word in text.split()]


def document(counts: dict[str, int]) -> Document:
    """A page of which only the terms matter."""
    terms = sorted((IDS[word], count) for word, count in counts.items())
    ids = struct.pack(f"<{len(terms)}I", *(term for term, _ in terms))
    frequencies = struct.pack(f"<{len(terms)}H", *(count for _, count in terms))
    return Document("", "", "", "", "", "", [], ids, frequencies, [], 0, b"")


def cosine(page: dict[str, int], keywords: list[str]) -> float:
    """The definition (BestN 3): the product of two vectors of counts over the product of their lengths."""
    topic = {word: keywords.count(word) for word in keywords}
    product = sum(count * topic.get(word, 0) for word, count in page.items())
    lengths = math.sqrt(sum(n * n for n in page.values())) * math.sqrt(sum(n * n for n in topic.values()))
    return product / lengths if lengths else 0.0


@settings(max_examples=300, deadline=None)
@given(page=counts_of, keywords=keywords_of)
def test_agrees_with_the_definition(page: dict[str, int], keywords: dict[int, list[str]]) -> None:
    """The judged topic is one with the greatest cosine, the lowest number among equals, and its cosine is the judgement."""
    judge = KeywordJudge(keywords, ids_of)
    usable = {topic: words for topic, words in keywords.items() if words}
    assert bool(judge) == bool(usable)
    if not usable:
        return
    topic, relevance = judge.judge(document(page))
    expected = {number: cosine(page, words) for number, words in usable.items()}
    best = max(expected.values())
    assert relevance == pytest.approx(best, abs=1e-9)
    assert 0.0 <= relevance <= 1.0
    assert topic in usable
    assert expected[topic] == pytest.approx(best, abs=1e-9)
    clear_winners = [number for number, value in expected.items() if value > best - 1e-9]
    if len(clear_winners) == 1:
        assert topic == clear_winners[0]


def test_a_tie_goes_to_the_lowest_number() -> None:
    """Two topics with the same keywords, in whatever order they were given."""
    judge = KeywordJudge({9: ["owl", "barn"], 4: ["owl", "barn"], 7: ["hawk"]}, ids_of)
    assert judge.judge(document({"owl": 3})) == (4, pytest.approx(1 / math.sqrt(2)))
    assert judge.judge(document({"prey": 3})) == (4, 0.0), "nothing fits: the first topic, not at all"


def test_topics_without_keywords_take_no_part() -> None:
    """They are never the answer; without any keywords there is no judge."""
    judge = KeywordJudge({0: [], 1: ["owl"], 2: []}, ids_of)
    assert judge.judge(document({"owl": 1})) == (1, pytest.approx(1.0))
    assert judge.judge(document({"hawk": 1})) == (1, 0.0)
    assert not KeywordJudge({0: [], 1: []}, ids_of)
    assert not KeywordJudge({}, ids_of)


def test_a_page_without_words_is_about_nothing() -> None:
    """No terms: relevance 0 for the first topic that has keywords."""
    judge = KeywordJudge({3: ["owl"], 5: ["hawk"]}, ids_of)
    assert judge.judge(document({})) == (3, 0.0)


def test_words_at_both_ends_of_the_vocabulary_are_found() -> None:
    """The least and the greatest id of a page are looked up as well as those between; ids past both ends are not there."""
    low, high = min(IDS, key=IDS.__getitem__), max(IDS, key=IDS.__getitem__)
    middle = next(word for word in WORDS if word not in (low, high))
    judge = KeywordJudge({0: [low], 1: [high]}, ids_of)
    assert judge.judge(document({low: 1, high: 2})) == (1, pytest.approx(2 / math.sqrt(5)))
    assert judge.judge(document({low: 2, high: 1})) == (0, pytest.approx(2 / math.sqrt(5)))
    assert judge.judge(document({middle: 1})) == (0, 0.0)


def test_a_repeated_keyword_weighs_more() -> None:
    """A word that stands in many titles of a folder says more about its topic."""
    judge = KeywordJudge({1: ["owl", "owl", "owl", "nest"], 2: ["owl", "nest", "nest", "nest"]}, ids_of)
    assert judge.judge(document({"owl": 5, "nest": 1}))[0] == 1
    assert judge.judge(document({"owl": 1, "nest": 5}))[0] == 2


def test_with_the_ids_of_real_pages() -> None:
    """Keywords go the same way as the words of pages: case, plural and stop words do not matter."""
    judge = KeywordJudge({0: ["The", "Owls", "nesting"]}, term_ids)
    same = KeywordJudge({0: ["owl", "NESTS"]}, term_ids)
    ids = sorted(set(term_ids("owl nest")))
    page = Document("", "", "", "", "", "", [], struct.pack("<2I", *ids), struct.pack("<2H", 1, 1), [], 0, b"")
    assert judge.judge(page) == same.judge(page) == (0, pytest.approx(1.0))
