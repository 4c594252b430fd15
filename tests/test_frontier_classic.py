"""The orders of the papers do what their papers say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from opilio.analyze.terms import term_ids
from opilio.frontier import ABSENT, Frontier, NoListener, QueuedUrl, ScopeFilter, make_strategy
from opilio.frontier.classic import SharpFocus
from opilio.frontier.strategies import Strategy
from opilio.model import Document, Judgement, Link, Links, Outcome, Region
from opilio.settings import Settings, override

YES = Judgement(1, True, 0.9, 1.5)
NO = Judgement(0, False, 0.1, -0.5)


def strategy_of(name: str) -> Strategy:
    return make_strategy(override(Settings(), {"frontier.strategy": name}).frontier)


def url(oid: int, *, depth: int = 1, steps: int = 0, priority: float = 0.0) -> QueuedUrl:
    settings = Settings()
    frontier = Frontier(settings, make_strategy(settings.frontier), ScopeFilter(settings.scope))
    waiting = QueuedUrl(oid, f"http://a.example/{oid}", frontier.host("a.example"), 0, depth, 0.0)
    waiting.steps, waiting.priority = steps, priority
    return waiting


def page(*words: tuple[str, str]) -> Document:
    """A document with a link for each pair of words in it and around it."""
    pairs = [(term_ids(inside), term_ids(around)) for inside, around in words]
    links = Links.of(Link(f"http://a.example/{at}", at, "", "", Region.MAIN, at) for at in range(len(words)))
    stems = [stem for pair in pairs for part in pair for stem in part]
    return Document(
        "", "", "", "", "", "", links, b"", b"", [], 0, b"", link_words=np.array(stems, "<u4").tobytes(),
        link_words_in=bytes(len(inside) for inside, _ in pairs), link_words_around=bytes(len(a) for _, a in pairs),
    )  # fmt: skip


TWO = page(("", ""), ("", ""))


def test_focus_takes_the_best_page_that_links() -> None:
    """Soft focus: the relevance of the best page; a worse one changes nothing, a better one raises it."""
    focus = strategy_of("focus")
    focus.observe(url(1), NO, TWO, [10, 11], [0, 0])
    assert focus.priorities([url(10), url(11)]) == [0.1, 0.1]
    focus.observe(url(2), YES, TWO, [11, ABSENT], [0, ABSENT])
    focus.observe(url(3), NO, TWO, [11, 12], [0, 0])
    assert focus.priorities([url(10), url(11)]) == [0.1, 0.9]
    assert focus.follows(url(1), NO)


def test_hard_focus_follows_good_pages_only() -> None:
    """A page about something else is a dead end."""
    hard = strategy_of("focus-hard")
    assert hard.follows(url(1), YES) and hard.follows(url(1), None)
    assert not hard.follows(url(1), NO)


def test_bingo_tunnels_two_steps_at_half_the_priority() -> None:
    """Confidence of the page; half of it through one rejected page, a quarter through two; then no further."""
    bingo = strategy_of("bingo")
    bingo.observe(url(1), YES, TWO, [10, 11], [0, 0])
    assert bingo.priorities([url(10)]) == [0.9]
    rejected = url(10, steps=1, priority=0.9)
    assert bingo.follows(rejected, NO)
    bingo.settle(10, 0.1)
    bingo.observe(rejected, NO, TWO, [20, 21], [0, 0])
    assert bingo.priorities([url(20)]) == [0.45]
    second = url(20, steps=2, priority=0.45)
    assert bingo.follows(second, NO)
    bingo.observe(second, NO, TWO, [30, 31], [0, 0])
    assert bingo.priorities([url(30)]) == [0.225]
    assert not bingo.follows(url(30, steps=3), NO)
    assert bingo.follows(url(30, steps=3), YES)


def test_oasis_takes_the_mean_of_all_pages() -> None:
    """The score moves with each page that links, up or down."""
    oasis = strategy_of("oasis")
    for oid, judgement in enumerate((YES, NO, NO, YES)):
        oasis.observe(url(oid), judgement, TWO, [10, 11], [0, 0])
    assert oasis.priorities([url(10)]) == pytest.approx([0.5])


def test_links_to_known_pages_are_not_kept() -> None:
    """What was settled needs no score, however many pages link to it later: memory stays with what waits."""
    focus = strategy_of("focus")
    focus.observe(url(1), YES, TWO, [10, 11], [0, 0])
    focus.settle(10, 1.0)
    focus.observe(url(2), YES, TWO, [10, 11], [0, 0])
    assert set(focus._scores) == {11}  # type: ignore[attr-defined]


def test_shark_search_joins_inheritance_and_words() -> None:
    """Half of what is inherited and half of what the words say; a page without relevance passes on half of its own."""
    shark = strategy_of("shark-search")
    shark.prepare(term_ids("owls hawks"), [])
    shark.observe(
        url(1), YES, page(("owls", "of the meadows"), ("", "hawks here"), ("cars", "")), [10, 11, 12], [0, 0, 0]
    )
    inherited = 0.5 * 0.9
    anchor = 1 / math.sqrt(1 * 2)
    around = 1 / math.sqrt(1 * 2)  # "here" is a stop word
    expected = [
        0.5 * inherited + 0.5 * (0.8 * anchor + 0.2),
        0.5 * inherited + 0.5 * (0.2 * around),
        0.5 * inherited,
    ]
    assert shark.priorities([url(10), url(11), url(12)]) == pytest.approx(expected)
    shark.settle(12, 0.0)
    shark.observe(url(12), Judgement(), page(("cars", "")), [20], [0])
    assert shark.priorities([url(20)]) == pytest.approx([0.5 * 0.5 * inherited])


@pytest.mark.parametrize("name", ["focus", "focus-hard", "bingo", "oasis", "shark-search", "evidence"])
def test_seeds_come_first(name: str) -> None:
    """A URL that the user gave is before all that sitemaps name."""
    strategy = strategy_of(name)
    seed, named = strategy.priorities([url(1, depth=0), url(2, depth=1)])
    assert seed > named


class Drops(NoListener):
    """Notes what a frontier drops."""

    def __init__(self, note: Callable[[QueuedUrl], object]) -> None:
        self._note = note

    def dropped(self, url: QueuedUrl, outcome: Outcome) -> None:
        self._note(url)


def focus(**changes: Any) -> tuple[Frontier, list[QueuedUrl]]:
    """A frontier that learns near a.test, and what it has dropped."""
    settings = override(Settings(), {key.replace("__", "."): value for key, value in changes.items()})
    dropped: list[QueuedUrl] = []
    strategy = SharpFocus(settings.frontier, ["a.test"], max_depth=3)
    scope = ScopeFilter(settings.scope, frozenset())
    return Frontier(settings, strategy, scope, Drops(dropped.append)), dropped


def test_hubs_do_not_break_the_focus() -> None:
    """What great hubs recommend stays in the database while learning when it is not near the seeds, and is there when
    another order comes."""
    frontier, _ = focus()
    url = QueuedUrl(0, "http://b.test/0", frontier.host("b.test"), 0, 1, 0.5)
    frontier.tiers.prioritise([url])
    frontier.tiers.add(url)
    frontier.warm([url])
    frontier.tiers.raise_urls({0: 0.9})
    assert (frontier.hot, frontier.waiting, frontier.tiers.wants_refill()) == (0, 1, [])
    frontier.change_strategy(make_strategy(override(Settings(), {"frontier.strategy": "best-first"}).frontier))
    assert (frontier.waiting, frontier.tiers.wants_refill()) == (1, [0])
