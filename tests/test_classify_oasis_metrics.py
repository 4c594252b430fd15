"""Collocations, shares, cosines and passages, each against a slow and plain reading of the paper."""

import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.analyze.terms import tokenize
from opilio.classify.collocations import SIZES, code_of, phrases, words_of
from opilio.classify.oasis_filter import Element, FilterProposal, count
from opilio.classify.oasis_metrics import Metrics
from opilio.features.classifier_input import ClassifierInput, TextReader
from opilio.settings import OasisSettings

VOCABULARY = ["tree", "search", "trees", "binary", "the", "of", "a", "graph", "42", "123456", "sorting", "x" * 230]
SEPARATORS = [" ", " ", " ", "  ", "-", ", ", ". ", "\n", " - ", "_", "'", " (", "—", "\u2010"]
READER = TextReader()

texts = st.lists(st.tuples(st.sampled_from(VOCABULARY), st.sampled_from(SEPARATORS)), max_size=90).map(
    lambda parts: "".join(word + separator for word, separator in parts)
)


def read(text: str, title: str = "") -> ClassifierInput:
    return READER.read(title, text, "en")


def stems_of(text: str) -> list[int]:
    return [int(stem) for stem in READER.stems(text, "en")]


def naive_collocations(text: str, size: int) -> Counter[tuple[int, ...]]:
    """Cut the text at punctuation and line ends, the pieces at stop words, and slide a window over what is left."""
    joined = re.sub(r"(?<=[^\W_])[-\u2010](?=[^\W_])", " ", text)
    found: Counter[tuple[int, ...]] = Counter()
    for piece in re.split(r"[^\w ]|_", joined):
        run: list[int] = []
        for stem in [*stems_of(piece), 0]:
            if stem:
                run.append(stem)
                continue
            found.update(tuple(run[i : i + size]) for i in range(len(run) - size + 1))
            run = []
    return found


def naive_cosine(stems: list[int], weights: dict[int, float]) -> float:
    counts = {stem: 1 + math.log(times) for stem, times in Counter(stems).items() if stem}
    length = math.sqrt(sum(value**2 for value in counts.values()))
    filter_length = math.sqrt(sum(weight**2 for weight in weights.values()))
    dot = sum(value * weights.get(stem, 0.0) for stem, value in counts.items())
    return dot / length / filter_length if length and filter_length else 0.0


def naive_passages(text: str, weights: dict[int, float], chars: int, step: int) -> float:
    """Slice passage after passage, throw away words cut by a border, and read each like a document of its own."""
    best, start = 0.0, 0
    while True:
        end = min(len(text), start + chars)
        left, right = min(start, end), end
        if 0 < start < end and text[start - 1].isalnum():
            while left < right and text[left].isalnum():
                left += 1
        if end < len(text) and text[end].isalnum():
            while right > left and text[right - 1].isalnum():
                right -= 1
        best = max(best, naive_cosine(stems_of(text[left:right]), weights))
        if end == len(text):
            return best
        start += step


def element(words: str, frequency: int = 1, *, variable: bool = False, recent: int = 0) -> Element:
    stems = tuple(stems_of(words))
    assert 0 not in stems
    return Element(stems, words, frequency, variable=variable, recent=recent)


TREES = FilterProposal(
    1, 9, (element("tree", 12, recent=3), element("binary", 5), element("heap", 2, variable=True)),
    (element("binary tree", 4), element("search tree", 2)), (element("binary search tree", 2),),
)  # fmt: skip
GRAPHS = FilterProposal(2, 9, (element("graph", 7), element("search", 3)), (element("graph search", 1),), ())


def weights_of(proposal: FilterProposal, damping: float) -> dict[int, float]:
    """Weights in the core; those of the pages found since are damped, and correct the weights of permanent terms."""
    weights = {}
    for entry in proposal.terms:
        weight = (1 + math.log(entry.frequency)) * (damping if entry.variable else 1.0)
        weights[entry.stems[0]] = weight + (damping * (1 + math.log(entry.recent)) if entry.recent else 0.0)
    return weights


@given(st.text(max_size=200) | texts)
def test_places_of_words_are_those_of_the_tokenizer(text: str) -> None:
    """Places found by kinds of characters alone cut exactly the words that the tokenizer reads, in any script."""
    item = read(text)
    words = words_of(item)
    lower = text if text.isascii() else text.lower()
    cut = [lower[start:end].lower().encode() for start, end in zip(words.starts, words.ends, strict=True)]
    assert cut == tokenize(text)
    assert len(words.joined) == len(words.stems) == len(cut)


@pytest.mark.parametrize(
    "text", ["データ構造 and 木", "木", "abc日本def語", "İstanbul\u2019da ağaç", "ﬁne ß STRASSE", "日本語日本語日本語"]
)
def test_places_in_other_scripts(text: str) -> None:
    """Unspaced script is cut into overlapping pairs, and letters that grow in lower case do not shift the places."""
    words = words_of(read(text))
    lower = text.lower()
    assert [lower[s:e].encode() for s, e in zip(words.starts, words.ends, strict=True)] == tokenize(text) != []


@given(texts)
def test_collocations_are_those_of_the_naive_reading(text: str) -> None:
    """Terms, pairs and triples with their occurrences equal those of cutting the text piece by piece."""
    words = words_of(read(text))
    for size in SIZES:
        found = {entry.stems: entry.occurrences for entry in count([words], size).values()}
        assert found == naive_collocations(text, size)


def test_what_parts_words() -> None:
    """A hyphen joins; stop words, punctuation, dashes, line ends and the end of the title part."""
    pages = {
        "object-oriented programming": ["object oriented programming"],
        "trees of graphs": [],
        "binary, search tree": [],
        "binary - search tree": [],
        "binary\nsearch tree": [],
        "binary   search\ttree": ["binary search tree"],
    }
    for text, triples in pages.items():
        expected = [code_of(tuple(stems_of(triple))) for triple in triples]
        assert phrases(words_of(read(text)), 3).codes.tolist() == expected, text
    assert not len(phrases(words_of(read("search trees", "Binary")), 3).codes)


def test_codes_depend_on_the_order_of_words() -> None:
    """The same stems in another order are another collocation."""
    orders = [("tree", "search"), ("search", "tree"), ("a1", "b2", "c3"), ("b2", "a1", "c3"), ("c3", "b2", "a1")]
    assert len({code_of(tuple(stems_of(" ".join(words)))) for words in orders}) == len(orders)


@given(texts, st.sampled_from([(200, 50), (200, 200), (40, 7), (30, 100)]))
def test_passages_equal_those_cut_one_by_one(text: str, window: tuple[int, int]) -> None:
    """The largest cosine over passages is that of slicing the text as the paper says, whatever the window."""
    chars, step = window
    oasis = OasisSettings(passage_chars=chars, passage_step_chars=step)
    measures = Metrics([TREES, GRAPHS], oasis).measure(words_of(read(text)))
    expected = [naive_passages(text, weights_of(topic, oasis.damping), chars, step) for topic in (TREES, GRAPHS)]
    if measures.passages is None:
        assert not tokenize(text)
    else:
        np.testing.assert_allclose(measures.passages, expected, atol=1e-12)


@given(texts, st.text(alphabet="ab treshinyg-", max_size=40))
def test_shares_and_cosine_equal_the_formula(text: str, title: str) -> None:
    """Shares count what is found, each element alike; the cosine is that of the textbook."""
    oasis = OasisSettings()
    measures = Metrics([TREES, GRAPHS], oasis).measure(words_of(read(text, title)))
    whole = f"{title}\n{text}"
    for place, topic in enumerate((TREES, GRAPHS)):
        weights = weights_of(topic, oasis.damping)
        assert measures.vector[place] == pytest.approx(naive_cosine(stems_of(whole), weights))
        for size in SIZES:
            found = naive_collocations(whole, size)
            present = [entry.stems in found for entry in topic.of_size(size)]
            share = sum(present) / len(present) if present else 0.0
            assert measures.shares[size - 1][place] == pytest.approx(share)


@given(texts)
def test_hits_add_up_to_the_measures(text: str) -> None:
    """What an explanation names, element by element, sums to the measured shares and cosines."""
    metrics, words = Metrics([TREES, GRAPHS], OasisSettings()), words_of(read(text))
    measures = metrics.measure(words)
    for share, hits in zip(measures.shares, metrics.hits(words), strict=True):
        np.testing.assert_allclose(np.bincount(hits.topics, hits.shares, 2), share, atol=1e-12)
    terms = metrics.hits(words)[0]
    np.testing.assert_allclose(np.bincount(terms.topics, terms.cosines, 2), measures.vector, atol=1e-12)


def test_every_word_is_whole_in_some_passage() -> None:
    """Wherever a term of up to 150 characters stands, one passage has it: nothing is lost at borders."""
    word = "tree"
    metrics = Metrics([TREES], OasisSettings())
    for before in range(420):
        measures = metrics.measure(words_of(read("." * before + word + "." * 300)))
        assert measures.passages is not None
        assert measures.passages[0] > 0, before


def test_a_small_relevant_part_is_found_by_passages_only() -> None:
    """A paragraph on the topic in a long page about something else moves the passages, hardly the whole."""
    filler = " ".join(f"filler{chr(97 + i % 26)}{chr(97 + i // 26 % 26)} noise" for i in range(600))
    measures = Metrics([TREES], OasisSettings()).measure(
        words_of(read(f"{filler}. Binary tree, tree, binary. {filler}"))
    )
    assert measures.passages is not None
    assert measures.passages[0] > 5 * measures.vector[0] > 0


def test_without_the_text_stop_words_alone_part_words() -> None:
    """ClassifierInput with stems only still has collocations; where its passages are nobody knows."""
    read_fully = read("binary search tree of search")
    words = words_of(ClassifierInput(read_fully.stems))
    assert {entry.stems for entry in count([words], 3).values()} == {tuple(stems_of("binary search tree"))}
    measures = Metrics([TREES], OasisSettings()).measure(words)
    assert measures.passages is None
    assert measures.shares[2][0] == 1.0


def test_stems_that_do_not_fit_the_text_are_no_trouble() -> None:
    """When stems and text disagree, the stems count and places are unknown."""
    words = words_of(ClassifierInput(read("binary tree").stems, text="quite another text of more words"))
    assert not len(words.starts)
    assert len(phrases(words, 2).codes) == 1
