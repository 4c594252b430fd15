"""Words, stems, counts, hashes."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import Stemmer
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from opilio.analyze import Analyzer
from opilio.analyze.terms import ENGLISH_STOP_WORDS, MAX_TERMS, Vocabulary, tokenize
from opilio.model import Document
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings

URL = "http://site.test/"
WORDS = "the of running runs runner crawled crawling web 1999 123456 x naïve"
GERMAN = (
    "Die Häuser der Stadt wurden von den Bewohnern gebaut, und viele Häuser stehen noch heute an den alten Straßen. "
    "Der Bewohner eines Hauses musste damals für die Straße vor seinem Haus sorgen, sonst zahlte er eine Strafe."
)


def analyze(text: str, analyzer: Analyzer | None = None, title: str = "") -> Document:
    """The document of a page with this title and text."""
    analyzer = analyzer or Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
    page = analyzer.analyze(f"<title>{title}</title><p>{text}".encode(), "text/html; charset=utf-8", URL)
    assert page is not None
    return page


def counts_of(page: Document) -> dict[int, int]:
    """Counts by term hash, checked to be in order."""
    ids = np.frombuffer(page.term_ids, "<u4").tolist()
    assert ids == sorted(set(ids))
    return dict(zip(ids, np.frombuffer(page.term_counts, "<u2").tolist(), strict=True))


def term(stem: str) -> int:
    """The hash code of a stem."""
    return xxhash.xxh32_intdigest(stem.encode())


class TestTokens:
    @given(st.text(max_size=200))
    def test_agrees_with_regular_expression(self, text: str) -> None:
        """Whatever fast path a text takes, its words are the runs of letters and digits."""
        unspaced = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
        words = [word.encode() for word in re.findall(r"[^\W_]+", text.lower())]
        if not unspaced.search(text):
            assert tokenize(text) == words

    @given(st.text("ab1_ -.é’“ß—ж", max_size=100))  # noqa: RUF001 - typographic quotes are the point
    def test_mixed_text(self, text: str) -> None:
        """The same for ASCII mixed with accents and typographic punctuation."""
        assert tokenize(text) == [word.encode() for word in re.findall(r"[^\W_]+", text.lower())]

    def test_unspaced_scripts(self) -> None:
        """Chinese and Japanese are cut into overlapping pairs, words around them stay whole."""
        assert [word.decode() for word in tokenize("Python語入門 3版 字")] == [
            "python",
            "語入",
            "入門",
            "3",
            "版",
            "字",
        ]


class TestTerms:
    @given(st.lists(st.sampled_from(WORDS.split())))
    def test_counts_against_brute_force(self, words: list[str]) -> None:
        """Terms are the Porter stems of the words that are neither stop words nor single letters nor long numbers."""
        stem = Stemmer.Stemmer("porter").stemWord
        unwanted = ENGLISH_STOP_WORDS | {"x", "123456"}
        expected = Counter(term(stem(word)) for word in words if word not in unwanted)
        for language in ("en", ""):
            vocabulary = Vocabulary()
            found = vocabulary.terms(vocabulary.numbers([word.encode() for word in words], language))
            assert found.ids == np.array(sorted(expected), "<u4").tobytes()
            assert found.counts == np.array([expected[code] for code in sorted(expected)], "<u2").tobytes()
            assert dict(found.new).keys() == expected.keys()

    def test_title_counts(self) -> None:
        """The words of the title are terms too, but not part of the text's sketch."""
        text = " ".join(f"word{i}" for i in range(50))
        titled, untitled = analyze(text, title="Spiders"), analyze(text)
        assert counts_of(titled) == counts_of(untitled) | {term("spider"): 1}
        assert titled.shingles == untitled.shingles != b""

    def test_stemmer_follows_language(self) -> None:
        """German text is stemmed by the German rules."""
        page = analyze(GERMAN)
        assert page.language == "de"
        assert counts_of(page)[term("haus")] == 4  # Häuser, Häuser, Hauses, Haus

    def test_new_terms_are_reported_once(self) -> None:
        """Each stem is reported with its hash the first time this analyzer meets it."""
        analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
        first = analyze("crawling spiders", analyzer)
        assert sorted(first.new_terms) == sorted([(term("crawl"), "crawl"), (term("spider"), "spider")])
        assert analyze("spider crawls webs", analyzer).new_terms == [(term("web"), "web")]
        assert analyze("spider", analyzer).new_terms == []

    def test_reports_again_when_full(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Caches are bounded: when they overflow, they start afresh, and results stay the same."""
        monkeypatch.setattr("opilio.analyze.terms._MAX_REMEMBERED", 10)
        vocabulary = Vocabulary()
        words = [b"word%d" % number for number in range(100)]
        for start in (0, 40, 0):
            page = vocabulary.terms(vocabulary.numbers(words[start : start + 60], "en"))
            expected = sorted(xxhash.xxh32_intdigest(word) for word in words[start : start + 60])
            assert np.frombuffer(page.ids, "<u4").tolist() == expected
            assert {stem for _, stem in page.new} <= {word.decode() for word in words}

    def test_limits(self) -> None:
        """The most frequent terms are kept of a page with very many, and counts are clipped."""
        vocabulary = Vocabulary()
        words = [b"rare%d" % number for number in range(3000)] + [b"twice"] * 2 + [b"spider"] * 70_000
        found = vocabulary.terms(vocabulary.numbers(words, "en"))
        ids = np.frombuffer(found.ids, "<u4").tolist()
        counts = dict(zip(ids, np.frombuffer(found.counts, "<u2").tolist(), strict=True))
        assert ids == sorted(ids)
        assert len(ids) == MAX_TERMS
        assert (counts[term("spider")], counts[term("twice")]) == (65535, 2)

    def test_switched_off(self) -> None:
        """Without terms in the store none are made, but the sketch still is."""
        page = analyze(GERMAN, Analyzer(TrapSettings(), RobotsSettings(), StoreSettings(terms=False)))
        assert (page.term_ids, page.term_counts, page.new_terms) == (b"", b"", [])
        assert page.shingles == analyze(GERMAN).shingles != b""

    def test_long_words_are_no_terms(self) -> None:
        """Very long words are no terms, and words that begin alike are told apart in the sketch."""
        assert counts_of(analyze("x" * 100_000 + " fine")) == {term("fine"): 1}
        one, two = Vocabulary().numbers([b"x" * 61, b"x" * 62], "en").tolist()
        vocabulary = Vocabulary()
        assert vocabulary.numbers([b"x" * 62, b"x" * 61], "en").tolist() == [two, one] != [one, two]


class TestContentHash:
    def test_markup_does_not_count(self) -> None:
        """Pages with the same visible words have the same hash, however they are marked up and laid out."""
        pages = [analyze("<div>a <b>b</b></div>\n<p>c"), analyze("a b c", title="other"), analyze("a<br>b<hr>c")]
        assert len({page.content_hash for page in pages}) == 1
        assert pages[0].content_hash == xxhash.xxh3_64_intdigest(b"a b c")

    def test_no_text(self) -> None:
        """Pages without text are not duplicates of each other: their hash is 0."""
        assert analyze("").content_hash == 0
