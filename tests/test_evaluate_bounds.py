"""Orders that know what no crawler can know."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate_standin import make_analysed, plain_heap
from opilio.errors import SettingsError
from opilio.lab.experiments.bounds import Foresight, Oracle, foreseen, links_to_go
from opilio.lab.experiments.experiment import from_table
from opilio.lab.experiments.graph import LinkGraph
from opilio.lab.experiments.simulate import Answers, Simulation
from opilio.lab.experiments.tasks import TaskTopic
from opilio.model import Judgement
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


@given(webs)
def test_the_oracle_goes_to_targets_by_the_shortest_way(web: tuple[list[list[int]], list[int], int]) -> None:
    """What is fewest links away from any target comes first; what leads to none comes last."""
    links, _, target = web
    far = len(links) + 1
    to_go = [0 if page == target else far for page in range(len(links))]
    for _ in links:
        to_go = [min([to_go[page], *(to_go[link] + 1 for link in links[page])]) for page in range(len(links))]
    analysed = make_analysed(links)
    settings = override(Settings(), {"frontier.strategy": "oracle"})
    simulation = Simulation(Answers(analysed), settings, (0,), np.zeros(len(links)))
    strategy = simulation.absorber.frontier.strategy
    assert isinstance(strategy, Oracle)
    strategy.know(links_to_go(analysed, LinkGraph.of(analysed), TaskTopic("x", 0, (), (), "", (), (target,), ())))
    worth = [1.0 / (1 + count) if count < far else 0.0 for count in to_go]
    assert simulation.run().pages.tolist() == plain_heap(links, [0], lambda _, link: worth[link])


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
