"""From what the user gave and the crawl found to a model that judges.

`lessons.py` puts topics, marks and examples into the store, or changes them there; `checking.py` finds slips in the
settings. `training.py` gathers the training set from it: examples that were fetched, files and texts, OTHERS, document
frequencies. `trainer.py` makes a model of that, in a process of its own (`process.py`), so that a crawl can go on;
`models.py` lists, compares and renews models.
`rejudging.py` judges stored pages anew when a model has changed; `redrawing.py` draws the variable part of a filter,
`proposing.py` writes what an expert may choose from; `briefing.py` tells a strategy what the topics are about;
`explaining.py` tells why a page is judged as it is, `linking.py` what leads to a URL, `ways.py` what the page that led
to it says of it.

Invariants: models are numbered from 1 without gaps and never change; a training set is read in one piece, so that a
model is made of what was committed at one moment; nothing here talks to the network.

The names below are loaded on first use: a crawl that learns nothing need not load a classifier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.lazy import loader

if TYPE_CHECKING:
    from opilio.learn.briefing import brief
    from opilio.learn.checking import check_settings
    from opilio.learn.explaining import explain, keyword_model
    from opilio.learn.files import read_file
    from opilio.learn.linking import explain_link
    from opilio.learn.models import compare_models, list_models, renew
    from opilio.learn.proposing import propose
    from opilio.learn.redrawing import redraw
    from opilio.learn.rejudging import Rejudged, rejudge
    from opilio.learn.trainer import Trained, store_model, train, train_beside
    from opilio.learn.training import gather
    from opilio.learn.ways import ways_to

__all__ = [
    "Rejudged",
    "Trained",
    "brief",
    "check_settings",
    "compare_models",
    "explain",
    "explain_link",
    "gather",
    "keyword_model",
    "list_models",
    "propose",
    "read_file",
    "redraw",
    "rejudge",
    "renew",
    "store_model",
    "train",
    "train_beside",
    "ways_to",
]

_MODULES = {
    "Rejudged": "rejudging",
    "Trained": "trainer",
    "brief": "briefing",
    "check_settings": "checking",
    "compare_models": "models",
    "explain": "explaining",
    "explain_link": "linking",
    "gather": "training",
    "keyword_model": "explaining",
    "list_models": "models",
    "propose": "proposing",
    "read_file": "files",
    "redraw": "redrawing",
    "rejudge": "rejudging",
    "renew": "models",
    "store_model": "trainer",
    "train": "trainer",
    "train_beside": "trainer",
    "ways_to": "ways",
}

__getattr__ = loader(__name__, _MODULES)
