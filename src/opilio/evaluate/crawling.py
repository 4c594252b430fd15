"""One run of an experiment: a crawl, simulated or real, and the record of it.

Both kinds are given the same pages to start from and the same documents to learn from, and leave the same record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opilio.evaluate.analysed import Analysed
from opilio.evaluate.answers import Answers
from opilio.evaluate.bounds import Foresight, Oracle, foreseen, links_to_go
from opilio.evaluate.experiment import Contestant, Experiment
from opilio.evaluate.graph import LinkGraph
from opilio.evaluate.judges import Judging, training_of
from opilio.evaluate.real import crawl_for_real
from opilio.evaluate.records import UNDOUBTED, Place, Run
from opilio.evaluate.simulate import Crawl, Simulation
from opilio.evaluate.tasks import Topic
from opilio.learn import brief
from opilio.model import Judgement

if TYPE_CHECKING:
    from opilio.evaluate.records import ModelRun


@dataclass(frozen=True)
class Errand:
    """What a crawl of an experiment is asked to do."""

    experiment: Experiment
    contestant: Contestant
    analysed: Analysed
    answers: Answers
    graph: LinkGraph
    topic: Topic
    starts: tuple[int, ...]
    place: Place
    key: str

    @property
    def budget_pages(self) -> int:
        """Pages it may fetch: as many as all, unless its own settings say fewer."""
        budget_pages = self.experiment.budget.of(self.analysed.web.info.pages)
        own = self.experiment.settings_of(self.contestant).limits.max_pages
        return min(own or budget_pages, budget_pages)


def simulate(errand: Errand, judge: Judging) -> Run:
    """The run of a simulated crawl."""
    experiment, contestant = errand.experiment, errand.contestant
    settings = experiment.settings_of(contestant, errand.place.repeat)
    simulation = Simulation(errand.answers, settings, errand.starts, judge, max_pages=errand.budget_pages)
    strategy = simulation.absorber.frontier.strategy
    if strategy.learns:
        brief(strategy, training_of(experiment.judge_of(contestant), errand.analysed, errand.topic, experiment.seed))
    if isinstance(strategy, Oracle):
        strategy.know(links_to_go(errand.analysed, errand.graph, errand.topic))
    if isinstance(strategy, Foresight):
        strategy.know(foreseen(errand.answers, judge))
    crawl = simulation.run()
    return _run(errand, crawl, [judge(page) for page in crawl.pages.tolist()])


def crawl(errand: Errand) -> Run:
    """The run of a real crawl."""
    experiment, contestant = errand.experiment, errand.contestant
    found = crawl_for_real(
        errand.analysed,
        errand.topic,
        errand.starts,
        experiment.judge_of(contestant),
        experiment.settings_of(contestant, errand.place.repeat),
        max_pages=errand.budget_pages,
        seed=experiment.seed,
    )
    return _run(errand, found.crawl, found.judgements, found.models)


def _run(errand: Errand, crawl: Crawl, judgements: Sequence[Judgement], models: Iterable[ModelRun] = ()) -> Run:
    metrics = sorted({name for judgement in judgements for name in judgement.agreed})
    bits = {name: 1 << at for at, name in enumerate(metrics)}
    agreed = [sum(bits[name] for name in said.agreed) + UNDOUBTED * said.undoubted for said in judgements]
    return Run(
        errand.place,
        errand.key,
        pages=crawl.pages.astype("<u4").tobytes(),
        judged=np.array([said.relevance for said in judgements], "<f4").tobytes(),
        depths=crawl.depths.astype("<u2").tobytes(),
        requests=crawl.requests.astype("<u4").tobytes(),
        outcomes=crawl.outcomes,
        confidence=np.array([said.confidence for said in judgements], "<f4").tobytes(),
        metrics=tuple(metrics),
        agreed=np.array(agreed, "<u2").tobytes(),
        starts=errand.starts,
        models=tuple(models),
    )
