"""What a strategy that learns is told before the first page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from opilio.analyze.keywords import term_ids
from opilio.classify import TrainingSet
from opilio.frontier import Strategy
from opilio.learn.training import gather
from opilio.settings import Settings
from opilio.store import Store

if TYPE_CHECKING:
    from opilio.frontier.link_words import Words


def brief(strategy: Strategy, training: TrainingSet) -> None:
    """Tell a strategy the words of the topics that are wanted, their examples, and what is about none of them."""
    if strategy.learns:
        strategy.brief(term_ids(wanted_words(training)), documents_of(training))


def brief_from(store: Store, settings: Settings, strategy: Strategy) -> None:
    """The same, from what a collection has."""
    if strategy.learns:
        brief(strategy, gather(store, settings))


def wanted_words(training: TrainingSet) -> str:
    """The words that name the topics that are wanted."""
    return " ".join(words for kcid, words in training.keywords.items() if training.hierarchy.is_wanted(kcid))


def documents_of(training: TrainingSet) -> Iterator[tuple[Words, float]]:
    """The stems of what a classifier learns from, and whether it is wanted: 1 or 0."""
    for example in training:
        stems = np.unique(example.evidence.stems)
        yield stems[stems > 0], 1.0 if example.positive and training.hierarchy.is_wanted(example.kcid) else 0.0
