"""From what the user gave and the crawl found to a model that judges pages.

What a model learns from: `training_data.py` puts topics, marks and examples into the store, or changes them there,
records these changes, lists those that no model has learned yet, and undoes them; `feedback.py` turns what a reader
says of results into examples and counter-examples; `questions.py` chooses pages to ask the user about, and `asking.py`
stores the questions and learns from the answers; `hits.py` lists the best hits of a query, and takes them as examples
when nobody is asked; `mined_negatives.py` adds pages that were fetched and are about
nothing wanted. `training_state.py` shows whether a collection can learn, and what it has; it finds wrong settings.

How a model is made: `trainer.py` gathers a training set from all of this and trains a model, in another process
(`opilio.process.call`) so that a crawl can go on. `archetypes.py` finds pages that a crawl can learn from by itself,
and lets the user list, confirm, reject and trim them; `guard.py` refuses a model that became worse by them. `models.py`
lists, compares and reuses models.

What a model says: `rejudging.py` judges stored pages again when a model has changed, in another process too
(`rejudging_process.py`); `directories.py` has the directory metric of `oasis`; `explanations.py` shows why a page is
judged as it is, and what leads to a URL; `strategy_history.py` gives a strategy that learns what the topics are about,
and shows it the stored pages again.

How a crawl stands: `census.py` counts what fell into which topic and finds what the rest is about; `crawl_health.py`
sees whether topics starve, whether the words of pages drift, and how much is left to find; `remedies.py` has what can
be done about it, as data.

Invariants: models are numbered from 1 without gaps and never change; a training set is read in one piece, so that a
model is made of what was committed at one moment; nothing here uses the network. SQL is in `opilio.store`.

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
    from opilio.learn.census import CrawlState, take_census
    from opilio.learn.crawl_health import CrawlHealth, check_health, estimate_recall
    from opilio.learn.explanations import explain, explain_link
    from opilio.learn.guard import GuardVerdict, Trial, try_in_process, try_out
    from opilio.learn.mined_negatives import has_enough_pages, learns_from_crawled, with_crawled_pages
    from opilio.learn.models import compare_models, list_models, reuse_model
    from opilio.learn.rejudging import (
        Rejudged,
        judge_page,
        link_context,
        rejudge,
        rejudge_all_directories,
        rejudge_directories,
    )
    from opilio.learn.strategy_history import prepare_from, prepare_strategy, read_rejudged, replay_pages
    from opilio.learn.trainer import (
        TrainedModel,
        gather,
        prepare_training,
        propose,
        redraw,
        remember_pages,
        store_model,
        train,
        train_off_loop,
    )
    from opilio.learn.training_state import check_guard, check_settings
    from opilio.learn.words import keyword_model, words_model

__all__ = [
    "Archetype",
    "CrawlHealth",
    "CrawlState",
    "GuardVerdict",
    "Rejudged",
    "Round",
    "Survey",
    "TrainedModel",
    "Trial",
    "check_guard",
    "check_health",
    "check_settings",
    "compare_models",
    "confirm_archetype",
    "estimate_recall",
    "explain",
    "explain_link",
    "gather",
    "has_enough_pages",
    "judge_page",
    "keyword_model",
    "learns_from_crawled",
    "link_context",
    "list_archetypes",
    "list_models",
    "page_text",
    "prepare_from",
    "prepare_strategy",
    "prepare_training",
    "propose",
    "read_rejudged",
    "redraw",
    "reject_archetype",
    "rejudge",
    "rejudge_all_directories",
    "rejudge_directories",
    "remember_pages",
    "replay_pages",
    "reuse_model",
    "store_model",
    "survey",
    "take_census",
    "train",
    "train_off_loop",
    "trial_of",
    "trim_example",
    "try_in_process",
    "try_out",
    "with_crawled_pages",
    "words_model",
    "write_round",
]

_MODULES = {
    "Archetype": "archetypes",
    "Round": "archetypes",
    "Survey": "archetypes",
    "confirm_archetype": "archetypes",
    "list_archetypes": "archetypes",
    "page_text": "archetypes",
    "reject_archetype": "archetypes",
    "survey": "archetypes",
    "trial_of": "archetypes",
    "trim_example": "archetypes",
    "write_round": "archetypes",
    "CrawlState": "census",
    "take_census": "census",
    "CrawlHealth": "crawl_health",
    "check_health": "crawl_health",
    "estimate_recall": "crawl_health",
    "explain": "explanations",
    "explain_link": "explanations",
    "keyword_model": "words",
    "words_model": "words",
    "GuardVerdict": "guard",
    "Trial": "guard",
    "try_in_process": "guard",
    "try_out": "guard",
    "has_enough_pages": "mined_negatives",
    "learns_from_crawled": "mined_negatives",
    "with_crawled_pages": "mined_negatives",
    "compare_models": "models",
    "list_models": "models",
    "reuse_model": "models",
    "Rejudged": "rejudging",
    "judge_page": "rejudging",
    "link_context": "rejudging",
    "rejudge": "rejudging",
    "rejudge_all_directories": "rejudging",
    "rejudge_directories": "rejudging",
    "check_guard": "training_state",
    "check_settings": "training_state",
    "prepare_strategy": "strategy_history",
    "prepare_from": "strategy_history",
    "read_rejudged": "strategy_history",
    "replay_pages": "strategy_history",
    "TrainedModel": "trainer",
    "prepare_training": "trainer",
    "remember_pages": "trainer",
    "propose": "trainer",
    "redraw": "trainer",
    "store_model": "trainer",
    "train": "trainer",
    "train_off_loop": "trainer",
    "gather": "trainer",
}

__getattr__ = loader(__name__, _MODULES)
