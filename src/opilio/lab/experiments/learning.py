"""A judge that learns while a simulated crawl runs, as the judge of a real crawl does.

The first model knows the examples only. When 10, 25, 50, 100 ... pages were fetched (`LEARNED_AT_PAGES`), the next one
is trained with a sample of them, which shows what is met on this web: the classifier is calibrated on them and mines
its negatives there. Then all pages fetched so far are re-judged, and the strategy learns from the new judgements.

A real crawl does the same, in other processes and with a database between. What differs: here pages are judged by
their own words alone, and training takes no time.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec
import numpy as np

from opilio.classify import CLASSIFIERS, Example, Judge, TrainingSet
from opilio.classify.calibration import MIN_MET
from opilio.crawl.teacher import LEARNED_AT_PAGES
from opilio.features.classifier_input import ClassifierInput
from opilio.lab.experiments.simulate import Simulation
from opilio.learn.mined_negatives import MET_PAGES
from opilio.model import Judgement
from opilio.settings import Settings
from opilio.topics.hierarchy import ABOVE_ROOT

Reading = Callable[[int], ClassifierInput | None]
"""Reads a page by its number; None for one that cannot be read."""


class LearningJudge:
    """Judges pages by their numbers, by the newest of its models."""

    def __init__(self, training: TrainingSet, settings: Settings, read: Reading) -> None:
        self._training = training
        self._settings = settings
        self._read = read
        self._examples: frozenset[int] = frozenset()
        self._known: dict[int, Judgement] = {}
        self._fetched: set[int] = set()
        """The pages fetched, and readable: their numbers, because their texts would fill the memory."""
        self._frequencies: Counter[int] = Counter()
        self._passed = 0
        self._model = self._train(())

    def __call__(self, page: int) -> Judgement:
        """The judgement of the newest model."""
        found = self._known.get(page)
        if found is None:
            item = self._read(page)
            found = self._model.judge(item) if item is not None else Judgement()
            if page in self._examples:
                found = msgspec.structs.replace(found, accepted=True, relevance=1.0)
            self._known[page] = found
        return found

    def attach(self, simulation: Simulation, examples: Iterable[int]) -> None:
        """Learn from the pages that a simulation fetches.

        `examples` are those of its pages that the crawl is given: they are relevant whatever a model says.
        """
        self._examples = frozenset(examples)
        self._known.clear()

        def on_page(page: int, _: Judgement | None) -> None:
            if self._learn(page):
                simulation.rejudge(self)

        simulation.on_page = on_page

    def _learn(self, page: int) -> bool:
        """Take in a page; whether there is a new model."""
        item = self._read(page)
        if item is not None and page not in self._fetched:
            self._fetched.add(page)
            self._frequencies.update(np.unique(item.stems[item.stems > 0]).tolist())
        if len(self._fetched) < LEARNED_AT_PAGES[self._passed]:
            return False
        self._passed += 1
        unknown = [page for page in self._fetched if page not in self._examples]
        drawn = sorted(unknown, key=lambda page: hashlib.sha256(str(page).encode()).digest())[:MET_PAGES]
        if len(drawn) < MIN_MET:
            return False
        items = filter(None, map(self._read, drawn))
        self._model = self._train(tuple(Example(ABOVE_ROOT, item, positive=False) for item in items))
        self._known.clear()
        return True

    def _train(self, met: tuple[Example, ...]) -> Judge:
        classifier = CLASSIFIERS.get(self._settings.classify.classifier)
        counted = replace(self._training, document_frequencies=self._frequencies, documents=len(self._fetched))
        return classifier.train(replace(counted, met=met), self._settings)
