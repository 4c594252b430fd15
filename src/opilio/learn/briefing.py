"""What a strategy that learns is told before the first page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from opilio.analyze.keywords import term_ids
from opilio.classify import TrainingSet
from opilio.features.stem_vectors import stem_vectors
from opilio.frontier import Strategy
from opilio.frontier.strategies import Taught
from opilio.learn.training import gather
from opilio.settings import Settings
from opilio.store import Store


def brief(strategy: Strategy, training: TrainingSet) -> None:
    """Tell a strategy the words of the topics that are wanted, their examples, and what is about none of them."""
    if strategy.learns:
        model = strategy.settings.word_vectors
        vectors = stem_vectors(model, _language_of(training)) if model and strategy.uses_words else None
        strategy.brief(term_ids(wanted_words(training)), documents_of(training), vectors)


def brief_from(store: Store, settings: Settings, strategy: Strategy) -> None:
    """The same, from what a collection has."""
    if strategy.learns:
        brief(strategy, gather(store, settings))


def _language_of(training: TrainingSet) -> str:
    """The one that most examples are in."""
    languages = Counter(example.evidence.language for example in training.examples)
    return languages.most_common(1)[0][0] if languages else ""


def wanted_words(training: TrainingSet) -> str:
    """The words that name the topics that are wanted."""
    return " ".join(words for kcid, words in training.keywords.items() if training.hierarchy.is_wanted(kcid))


def documents_of(training: TrainingSet) -> Iterator[Taught]:
    """The stems of what a classifier learns from, and whether it is wanted: 1 or 0."""
    for example in training:
        stems = np.unique(example.evidence.stems)
        is_wanted = example.positive and training.hierarchy.is_wanted(example.kcid)
        title = np.array(term_ids(example.evidence.title, example.evidence.language), np.uint32)
        yield Taught(stems[stems > 0], title, 1.0 if is_wanted else 0.0)
