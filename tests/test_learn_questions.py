"""Which pages the user is asked about: properties of the choice, for any pages."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opilio.analyze.sketch import sketch
from opilio.learn.questions import (
    ROUND_SIZE,
    Candidate,
    QuestionReason,
    are_alike,
    choose_questions,
    count_scores,
    describe_benefit,
    round_size,
)
from opilio.model.visit import BORDERLINE_WITHIN

WORDS = ("owl", "barn", "nest", "prey", "map", "news", "2", "3")
RELEVANCES = st.one_of(st.floats(0.0, 1.0, width=32), st.sampled_from([0.25, 0.5, 0.75, 1.0]))


@st.composite
def pages(draw: st.DrawFn) -> list[Candidate]:
    """Some judged pages of a few topics and hosts."""
    return [
        Candidate(
            oid,
            draw(st.integers(1, 3)),
            draw(RELEVANCES),
            draw(st.floats(-3, 3)),
            draw(st.sampled_from(["a.test", "b.test", "c.test"])),
            " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=3))),
        )
        for oid in range(draw(st.integers(0, 30)))
    ]


KNOWN = st.sets(st.integers(0, 30), max_size=10)


def plain(
    oid: int, relevance: float, *, kcid: int = 1, host: str = "", title: str = "", sketch: bytes = b""
) -> Candidate:
    """A page that differs from others in what matters to a test."""
    return Candidate(oid, kcid, relevance, 0.0, host or f"h{oid}.test", title, sketch)


@given(pages(), KNOWN, st.integers(1, 12))
def test_a_round_is_bounded_and_fresh(given: list[Candidate], known: set[int], size: int) -> None:
    """No more questions than asked for, none twice, none about known pages, each about its page's own topic."""
    chosen = choose_questions(given, known, size)
    by_oid = {page.oid: page for page in given}
    assert len(chosen) <= size
    assert len({one.oid for one in chosen}) == len(chosen)
    assert not {one.oid for one in chosen} & known
    assert all(by_oid[one.oid].kcid == one.kcid for one in chosen)


@given(pages(), KNOWN, st.integers(1, 12))
def test_reasons_are_true(given: list[Candidate], known: set[int], size: int) -> None:
    """A sure page is accepted, and an uncertain one is close to the threshold; the benefit counts other fresh pages."""
    by_oid = {page.oid: page for page in given}
    fresh = [page for page in given if page.oid not in known]
    for one in choose_questions(given, known, size):
        page = by_oid[one.oid]
        if one.reason is QuestionReason.SURE:
            assert page.relevance >= 0.5
        else:
            assert abs(page.relevance - 0.5) <= BORDERLINE_WITHIN
        assert 0 <= one.benefit < len([other for other in fresh if other.kcid == page.kcid])


@given(pages(), KNOWN, st.integers(1, 12))
def test_no_two_pages_are_alike(given: list[Candidate], known: set[int], size: int) -> None:
    """One answer serves for both, so the other is not asked about."""
    by_oid = {page.oid: page for page in given}
    chosen = [by_oid[one.oid] for one in choose_questions(given, known, size)]
    assert not any(are_alike(one, other) for one, other in itertools.combinations(chosen, 2))


def test_what_is_alike() -> None:
    """The same words in the title, whatever stands between them, or half of the text; not one word in common."""
    words = np.random.default_rng(1).integers(0, 2**63, 300).astype(np.uint64)
    text, changed, other = sketch(words), sketch(np.append(words[:280], words[:20])), sketch(words[::-1].copy())
    assert are_alike(plain(1, 0.9, title="The Barn Owl"), plain(2, 0.9, title="the barn-owl"))
    assert not are_alike(plain(1, 0.9, title="RFC 2119"), plain(2, 0.9, title="RFC 8174"))
    assert not are_alike(plain(1, 0.9), plain(2, 0.9)), "no title is like no other"
    assert are_alike(plain(1, 0.9, sketch=text), plain(2, 0.9, sketch=changed))
    assert not are_alike(plain(1, 0.9, sketch=text), plain(2, 0.9, sketch=other))


@given(pages(), KNOWN, st.randoms())
def test_the_order_of_the_pages_does_not_matter(given: list[Candidate], known: set[int], draw: object) -> None:
    """The same pages give the same questions, on any machine."""
    shuffled = list(given)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    assert choose_questions(given, known) == choose_questions(shuffled, known)


@given(pages(), KNOWN)
def test_a_round_is_full_when_there_are_pages(given: list[Candidate], known: set[int]) -> None:
    """Fewer questions than asked for means that each page left over resembles a chosen one or is neither kind."""
    chosen = {one.oid for one in choose_questions(given, known)}
    if len(chosen) < ROUND_SIZE:
        taken = [page for page in given if page.oid in chosen]
        for page in given:
            fits = page.relevance >= 0.5 - BORDERLINE_WITHIN
            if page.oid not in known and fits:
                assert any(are_alike(page, one) for one in taken)


def test_half_sure_half_uncertain() -> None:
    """Of five, three are the surest pages and two the closest to the threshold."""
    given = [plain(n, 1.0 - n / 100) for n in range(10)] + [plain(20 + n, 0.5 + n / 100) for n in range(10)]
    chosen = choose_questions(given, ())
    assert [(one.oid, one.reason.value) for one in chosen] == [
        (0, "sure"), (20, "uncertain"), (1, "sure"), (21, "uncertain"), (2, "sure"),
    ]  # fmt: skip


def test_without_uncertain_pages_all_are_sure() -> None:
    """A model that is certain of everything is asked about its best hits alone."""
    chosen = choose_questions([plain(n, 0.99) for n in range(10)], ())
    assert {one.reason for one in chosen} == {QuestionReason.SURE} and len(chosen) == ROUND_SIZE


def test_questions_are_spread_over_hosts() -> None:
    """Ten pages of one host do not displace the pages of others that are nearly as sure."""
    given = [plain(n, 0.99, host="big.test", title=f"{'abcdefghij'[n]} page") for n in range(10)]
    given += [plain(20 + n, 0.97) for n in range(4)]
    chosen = [one.oid for one in choose_questions(given, ())]
    assert chosen[0] == 0 and set(chosen[1:]) == {20, 21, 22, 23}


def test_topics_take_turns() -> None:
    """Each topic gets a question before one gets two; the one with the fewest answers comes first."""
    given = [plain(10 * kcid + n, 0.9, kcid=kcid) for kcid in (1, 2, 3) for n in range(5)]
    given += [plain(100 * kcid + n, 0.51, kcid=kcid) for kcid in (1, 2, 3) for n in range(5)]
    chosen = choose_questions(given, (), 3, answers={1: 2, 2: 0, 3: 1})
    assert [one.kcid for one in chosen] == [2, 3, 1]
    assert {one.reason for one in chosen} == set(QuestionReason)


def test_the_benefit_counts_similar_scores() -> None:
    """Pages within a twentieth of the score count, others do not."""
    given = [plain(0, 0.90), plain(1, 0.93), plain(2, 0.87), plain(3, 0.70)]
    [first, *_] = choose_questions(given, {1, 2, 3}, counts=count_scores(given))
    assert first.oid == 0 and first.benefit == 2
    assert describe_benefit(2).startswith("2 other pages") and "no other" in describe_benefit(0)


def test_more_questions_make_larger_rounds() -> None:
    """Rounds of five, or a quarter of all answers when that is more."""
    assert [round_size(budget) for budget in (0, 1, 20, 50)] == [5, 5, 5, 12]
