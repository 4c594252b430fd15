"""From what the user gave and the crawl found to a model that judges.

`lessons.py` puts topics, marks and examples into the store, or changes them there; `checking.py` finds slips in the
settings. `training.py` gathers the training set from it: examples that were fetched, files and texts, OTHERS, document
frequencies; `strangers.py` adds pages that were met and are about nothing wanted. `trainer.py` makes a model of that,
in a process of its own (`process.py`), so that a crawl can go on; `models.py` lists, compares and renews models.
`archetypes.py` finds pages that a crawl can learn from by itself, `guard.py` refuses a model that this made worse (both
ask models about documents that these have not seen: `folding.py`), and
`reviewing.py` lets the user look at them, confirm, reject and trim them. `feedback.py` makes lessons of what a reader
says of results, `refusing.py` lets it hold against models, `noting.py` notes what no model has learned yet and takes it
back, `comparing.py` tells topic by topic what a model changed.
`rejudging.py` judges stored pages anew when a model has changed, in a process too (`judging_process.py`);
`redrawing.py` draws the variable part of a filter, `proposing.py` writes what an expert may choose from; `briefing.py`
tells a strategy what the topics are about, `remembering.py` which pages are stored, `reconsidering.py` how good those
are by now; `explaining.py` tells why a page is judged as it is, `linking.py` what leads
to a URL, `ways.py` what the page that led to it says of it.

`census.py` counts what fell into which topic, `instead.py` finds what the rest is about, `drift.py` whether the words
change, `recall.py` estimates how much is left, `remedies.py` says what to do; `surroundings.py` asks it all at once.

Invariants: models are numbered from 1 without gaps and never change; a training set is read in one piece, so that a
model is made of what was committed at one moment; nothing here talks to the network.

The names below are loaded on first use: a crawl that learns nothing need not load a classifier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.learn.archetypes import (
        Archetype,
        Round,
        Survey,
        confirm_archetype,
        list_archetypes,
        page_text,
        reject_archetype,
        survey,
        trial_of,
        trim_example,
        write_round,
    )
    from opilio.learn.census import take_census
    from opilio.learn.crawl_health import Surroundings, estimate_recall, look_around
    from opilio.learn.explanations import explain, explain_link, keyword_model
    from opilio.learn.guard import GuardVerdict, Trial, check_guard, try_beside, try_out
    from opilio.learn.mined_negatives import looks_for_strangers, with_strangers
    from opilio.learn.models import compare_models, list_models, renew
    from opilio.learn.rejudging import Rejudged, rejudge, ways_to
    from opilio.learn.remedies import command_line, more_examples
    from opilio.learn.strategy_history import prepare_from, prepare_order, read_rejudged, replay_pages
    from opilio.learn.trainer import TrainedModel, check_settings, propose, redraw, store_model, train, train_beside
    from opilio.learn.training_set import gather

__all__ = [
    "Archetype",
    "GuardVerdict",
    "Rejudged",
    "Round",
    "Surroundings",
    "Survey",
    "TrainedModel",
    "Trial",
    "check_guard",
    "check_settings",
    "command_line",
    "compare_models",
    "confirm_archetype",
    "estimate_recall",
    "explain",
    "explain_link",
    "gather",
    "keyword_model",
    "list_archetypes",
    "list_models",
    "look_around",
    "looks_for_strangers",
    "more_examples",
    "page_text",
    "prepare_from",
    "prepare_order",
    "propose",
    "read_rejudged",
    "redraw",
    "reject_archetype",
    "rejudge",
    "renew",
    "replay_pages",
    "store_model",
    "survey",
    "take_census",
    "train",
    "train_beside",
    "trial_of",
    "trim_example",
    "try_beside",
    "try_out",
    "ways_to",
    "with_strangers",
    "write_round",
]

_MODULES = {
    "Archetype": "archetypes",
    "Rejudged": "rejudging",
    "Round": "archetypes",
    "Surroundings": "crawl_health",
    "Survey": "archetypes",
    "TrainedModel": "trainer",
    "Trial": "guard",
    "GuardVerdict": "guard",
    "check_guard": "guard",
    "check_settings": "trainer",
    "command_line": "remedies",
    "compare_models": "models",
    "confirm_archetype": "archetypes",
    "estimate_recall": "crawl_health",
    "explain": "explanations",
    "explain_link": "explanations",
    "gather": "training_set",
    "keyword_model": "explanations",
    "list_archetypes": "archetypes",
    "list_models": "models",
    "look_around": "crawl_health",
    "looks_for_strangers": "mined_negatives",
    "more_examples": "remedies",
    "page_text": "archetypes",
    "propose": "trainer",
    "prepare_from": "strategy_history",
    "prepare_order": "strategy_history",
    "read_rejudged": "strategy_history",
    "redraw": "trainer",
    "reject_archetype": "archetypes",
    "rejudge": "rejudging",
    "replay_pages": "strategy_history",
    "renew": "models",
    "store_model": "trainer",
    "survey": "archetypes",
    "take_census": "census",
    "train": "trainer",
    "train_beside": "trainer",
    "trial_of": "archetypes",
    "trim_example": "archetypes",
    "try_beside": "guard",
    "try_out": "guard",
    "ways_to": "rejudging",
    "with_strangers": "mined_negatives",
    "write_round": "archetypes",
}

__getattr__ = loader(__name__, _MODULES)
