"""Choosing: who is passed over has nothing, or next to nothing; who cannot be judged is asked."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma

import opilio.federation.summary as summary_module
from federation_pages import BIRDS, CARS, COMMON, NAMES, make_federation, open_federation
from opilio import Collection
from opilio.errors import InputError
from opilio.federation.peers import PeerSummary
from opilio.federation.selection import ScoreDistribution, ScoreSpread, choose
from opilio.federation.summary import make_filter, make_summary, may_have
from opilio.search.index import open_reader
from opilio.search.query import parse
from opilio.search.ranking import check_weights

WEIGHTS = check_weights(None)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three collections and the one that has all their pages."""
    return make_federation(tmp_path_factory.mktemp("federation"))


def summaries_of(place: Path) -> dict[str, PeerSummary | None]:
    return dict(open_federation(place).summaries)


parts = st.sampled_from(
    [*BIRDS, *CARS, *COMMON, "nowhere", "title:owl", "title:gear", "anchor:nest", "text:race", '"owl nest"', "unique1x7",
     "topic:Birds", "topic:Nothing", "host:owl1.example", "host:engine", "type:html", "lang:de", "-owl", "-wheel"]
)  # fmt: skip


@settings(max_examples=60)
@given(words=st.lists(parts, min_size=1, max_size=3, unique=True), glue=st.sampled_from([" ", " ", " OR "]))
def test_who_is_surely_passed_over_has_nothing(place: Path, words: list[str], glue: str) -> None:
    """A peer of which no page is said to fit has no hit in its own index."""
    filters = [word for word in words if word.partition(":")[0] in ("topic", "host", "type", "lang")]
    question = " ".join([glue.join(word for word in words if word not in filters), *filters])
    choices = choose(parse(question), summaries_of(place), WEIGHTS, 10)
    for name, choice in choices.items():
        if not choice.possible:
            assert not choice.chosen
            try:
                total = Collection(place / name).search(question)["total"]
            except InputError:  # it has no such topic
                total = 0
            assert total == 0, (question, name, choice)


@settings(max_examples=20)
@given(word=st.sampled_from([*BIRDS, *CARS, "unique0x3", "unique2x9"]))
def test_a_word_that_is_left_out_of_a_summary_hides_nothing(place: Path, word: str) -> None:
    """Summaries with room for five words still let every collection be asked that has the word."""
    small = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary_module, "MAX_WORDS", 5)
        for name in NAMES:
            Collection(place / name).search("x")
            reader = open_reader(place / name)
            assert reader is not None
            small[name] = make_summary(reader, name, "1", [])
            assert len(small[name].words) == 5
    choices = choose(parse(word), small, WEIGHTS, 10, left_out=0.0)
    for name in NAMES:
        if Collection(place / name).search(word)["total"]:
            assert choices[name].chosen


def test_what_cannot_be_told_is_asked(place: Path) -> None:
    """Beginnings, likenesses, words of addresses, filters alone, authority above all, and strangers: all are asked."""
    known = summaries_of(place)
    for question in ("ow*", "ow~", "url:example", "type:html", "owl* OR nowhere", "-ow*"):
        assert all(choice.chosen for choice in choose(parse(question), known, WEIGHTS, 10).values()), question
    by_authority = choose(parse("owl"), known, check_weights({"authority": 1.0}), 10)
    assert {name for name, choice in by_authority.items() if choice.chosen} == {"birds", "both"}  # none of cars has it
    strangers = choose(parse("nowhere"), {**known, "new": None}, WEIGHTS, 10)
    assert [name for name, choice in strangers.items() if choice.chosen] == ["new"]
    assert "'nowher'" in strangers["birds"].why


def test_the_fullest_is_asked_and_the_empty_is_not(place: Path) -> None:
    """A word of birds is not sought among cars; what is expected of the peers adds up to what is shown."""
    choices = choose(parse("hawk prey"), summaries_of(place), WEIGHTS, 10)
    assert choices["birds"].chosen
    assert not choices["cars"].chosen
    common = choose(parse("small"), summaries_of(place), WEIGHTS, 10)
    assert sum(choice.expected or 0.0 for choice in common.values()) == pytest.approx(10, abs=0.2)


def test_filters_scale_what_is_expected(place: Path) -> None:
    """Fewer pages are expected of a collection when a filter leaves fewer of them."""
    known = summaries_of(place)
    everything = choose(parse("small"), known, WEIGHTS, 10)["birds"].matching
    some = choose(parse("small topic:Owls host:owl1.example"), known, WEIGHTS, 10)
    assert some["birds"].matching == 0.0  # the path of the topic is Birds / Owls
    some = choose(parse('small topic:"birds/owls" host:owl1.example'), known, WEIGHTS, 10)
    assert everything is not None
    assert some["birds"].matching is not None
    assert 0 < some["birds"].matching < everything / 2
    assert not some["cars"].chosen  # it has no such host


@given(words=st.sets(st.text(min_size=1, max_size=12), max_size=200), other=st.text(max_size=12))
def test_a_set_of_words_forgets_none(words: set[str], other: str) -> None:
    """Every word that was put in may be in it; of the others hardly any is."""
    packed = make_filter(words)
    assert all(may_have(packed, word) for word in words)
    assert not words or len(packed) <= max(8, 2 * len(words))
    strangers = [f"stranger {number} {other}" for number in range(300)]
    assert sum(may_have(packed, word) for word in strangers if word not in words) < 40


@given(
    spreads=st.lists(
        st.tuples(st.floats(1, 1e4), st.floats(0.1, 30), st.floats(0.01, 50)).map(lambda one: ScoreSpread(*one)), min_size=1,
        max_size=5,
    ),
    rank=st.floats(0.5, 50),
)  # fmt: skip
def test_scores_at_a_rank(spreads: list[ScoreSpread], rank: float) -> None:
    """Above the score at a rank so many pages are expected, by scipy's Gamma distribution, or there are not so many."""
    least = ScoreDistribution(spreads).at(rank)
    above = sum(
        one.pages * gamma.sf(least, one.mean**2 / one.variance, scale=one.variance / one.mean) for one in spreads
    )
    total = sum(one.pages for one in spreads)
    assert (
        above == pytest.approx(min(rank, total), rel=0.01)
        or (least < 1e-6 and above <= rank)
        or np.isclose(total, rank)
    )
