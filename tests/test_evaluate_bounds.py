"""Orders that know what no crawler can know."""

from __future__ import annotations

import dataclasses
import functools
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate_standin import make_analysed, plain_heap, url_of
from opilio.errors import SettingsError
from opilio.frontier import Strategy
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.bounds import (
    Foresight,
    Oracle,
    PlannedWeb,
    foreseen,
    make_plan,
    places_of,
    planned_web,
)
from opilio.lab.experiments.experiment import from_table
from opilio.lab.experiments.graph import LinkGraph
from opilio.lab.experiments.simulate import Answers, Crawl, Simulation
from opilio.model import Judgement, Links
from opilio.settings import Settings, override

webs = st.integers(2, 25).flatmap(
    lambda pages: st.tuples(
        st.lists(st.lists(st.integers(0, pages - 1), max_size=6), min_size=pages, max_size=pages),
        st.permutations(range(pages)),
        st.integers(1, pages - 1),
    )
)


@given(webs)
def test_foresight_takes_what_the_judge_is_surest_of(web: tuple[list[list[int]], list[int], int]) -> None:
    """Of all waiting pages, whatever leads to them: as a plain heap of confidences does."""
    links, places, _ = web
    confidence = [place / len(places) for place in places]
    answers = Answers(make_analysed(links))
    settings = override(Settings(), {"frontier.strategy": "foresight"})
    judge = [Judgement(0, True, value, value) for value in confidence].__getitem__
    simulation = Simulation(answers, settings, (0,), judge)
    strategy = simulation.absorber.frontier.strategy
    assert isinstance(strategy, Foresight)
    strategy.know(foreseen(answers, judge))
    assert simulation.run().pages.tolist() == plain_heap(links, [0], lambda _, link: confidence[link])


def best_area(web: PlannedWeb) -> int:
    """The best that any order of a small web can do, by trying all of them."""

    @functools.cache
    def rest(fetched: frozenset[int]) -> int:
        place = len(fetched)
        known = {*web.starts, *(link for page in fetched for link in web.links[page])} - fetched
        if place >= web.max_pages:
            return 0
        worth = ((web.max_pages - place) * (page in web.targets) + rest(fetched | {page}) for page in known)
        return max(worth, default=0)

    return rest(frozenset())


def random_web(random: Random) -> PlannedWeb:
    """A web of a few pages with some targets."""
    pages = random.randint(3, 9)
    links = [sorted({random.randrange(pages) for _ in range(random.choice((0, 1, 1, 2, 3)))}) for _ in range(pages)]
    targets = random.sample(range(1, pages), random.randint(1, min(4, pages - 1)))
    return PlannedWeb(links, frozenset(targets), (0,), random.randint(3, pages))


def test_a_plan_is_as_good_as_the_best_order() -> None:
    """Against all orders there are, on small webs. No proof covers all webs: these are drawn with a fixed seed."""
    random = Random(4)
    for _ in range(300):
        web = random_web(random)
        assert web.area(make_plan(web)) == best_area(web), web


@given(st.lists(st.integers(0, 100), min_size=1, max_size=7), st.sets(st.integers(1, 7), min_size=1))
def test_a_plan_of_a_tree_is_optimal(parents: list[int], targets: set[int]) -> None:
    """Where one way leads to each page, the order is proven to be the best (Horn)."""
    links: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for page, parent in enumerate(parents, 1):
        links[parent % page].append(page)
    web = PlannedWeb(links, frozenset(target for target in targets if target < len(links)), (0,), len(links))
    assert web.area(make_plan(web)) == best_area(web)


@given(webs, st.sets(st.integers(0, 24), max_size=5))
def test_a_plan_can_be_crawled(web: tuple[list[list[int]], list[int], int], more: set[int]) -> None:
    """Each page is a start or linked from an earlier one, once, and all targets that can be reached are in it."""
    links, _, target = web
    targets = {page for page in {target, *more} if page < len(links)}
    plan = make_plan(PlannedWeb(links, frozenset(targets), (0,), len(links)))
    known = {0}
    for page in plan:
        assert page in known
        known.update(links[page])
    reached = set(plain_heap(links, [0], lambda _, link: 0.0))
    assert len(set(plan)) == len(plan)
    assert targets & set(plan) == targets & reached


def crawl_by_oracle(analysed: Analysed, targets: tuple[int, ...], pages: int) -> Crawl:
    """The crawl from page 0."""
    graph, answers, settings = LinkGraph.of(analysed), Answers(analysed), Settings()
    plan = make_plan(planned_web(analysed, graph, targets, (0,), settings, pages))
    places = places_of(plan, answers, graph, analysed, (0,))

    def prepare(strategy: Strategy) -> None:
        assert isinstance(strategy, Oracle)
        strategy.know(places)

    settings = override(settings, {"frontier.strategy": "oracle"})
    return Simulation(answers, settings, (0,), np.zeros(len(answers.urls)), max_pages=pages, prepare=prepare).run()


@given(webs)
def test_the_oracle_follows_its_plan(web: tuple[list[list[int]], list[int], int]) -> None:
    """The simulated crawl fetches the pages of the plan in its order, before all others."""
    links, _, target = web
    analysed = make_analysed(links)
    plan = make_plan(planned_web(analysed, LinkGraph.of(analysed), (target,), (0,), Settings(), len(links)))
    found = crawl_by_oracle(analysed, (target,), len(links)).pages.tolist()
    assert found[: len(plan)] == plan


def test_the_oracle_follows_redirects() -> None:
    """A URL that leads to a target by two redirects is worth the target; others that lead nowhere cost no request."""
    links: list[list[int]] = [[1, 2, 3, 6], [], [], [], [], [], []]
    redirects = {3: url_of(4), 4: url_of(5), 6: url_of(1)}
    found = crawl_by_oracle(make_analysed(links, redirects=redirects), (5,), 2)
    assert found.pages.tolist() == [0, 5]
    assert found.requests.tolist() == [1, 4]


def test_the_oracle_knows_a_page_by_both_schemes() -> None:
    """A link by https leads to the page that was recorded by http."""
    links: list[list[int | str]] = [[1, url_of(2).replace("http:", "https:")], [], []]
    assert crawl_by_oracle(make_analysed(links), (2,), 2).pages.tolist() == [0, 2]


def test_the_oracle_looks_behind_a_page_that_brings_nothing() -> None:
    """A page without targets that leads to an index of many comes before a page with one target."""
    links: list[list[int]] = [[1, 3], [2], [5, 6, 7, 8], [4], [], [], [], [], []]
    found = crawl_by_oracle(make_analysed(links), (4, 5, 6, 7, 8), 9)
    assert found.pages.tolist()[:3] == [0, 1, 2]


def test_the_oracle_respects_nofollow() -> None:
    """A plan uses only links that the crawl follows."""
    analysed = make_analysed([[1, 2], [3], [], []])
    document = analysed.documents[0]
    assert document is not None
    kept = [msgspec.structs.replace(link, nofollow=link.url == url_of(1)) for link in document.links]
    documents = [msgspec.structs.replace(document, links=Links.of(kept)), *analysed.documents[1:]]
    changed = dataclasses.replace(analysed, documents=documents)
    settings = override(Settings(), {"robots.obey_rel_nofollow": True})
    assert planned_web(changed, LinkGraph.of(changed), (3,), (0,), settings, 4).links == [[2], [3], [], []]


def test_pages_that_cannot_be_had_come_last() -> None:
    """Foresight knows that too."""
    confidence_of = foreseen(Answers(make_analysed([[1], []])), lambda page: Judgement(0, False, 0.0, -3.0))
    assert confidence_of("http://nowhere.test/") < -3.0


@pytest.mark.parametrize("strategy", ["oracle", "foresight"])
def test_a_real_crawl_cannot_know_so_much(strategy: str) -> None:
    """An experiment that asks for it is refused before anything is crawled."""
    table = {"name": "x", "webs": ["w"], "judge": {"kind": "svm"}, "strategies": [{"strategy": strategy, "real": True}]}
    with pytest.raises(SettingsError, match="only simulated"):
        from_table(table)
