"""One experiment of classification.py: a training set, its test pages, and what each classifier makes of them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bench.quality.classification_data import (
    OTHERS_TRUTH,
    Draw,
    Page,
    View,
    draw,
    training_set,
    with_all_links,
    with_one_link,
)
from opilio.classify import Judge, KeywordJudge, TrainingSet
from opilio.classify.bayes import BayesTree
from opilio.classify.decision import RULES, decide
from opilio.classify.oasis import OasisFilter
from opilio.classify.svm import Competition, SpaceView, SvmTree, union
from opilio.classify.svm_training import TrainedPlanes
from opilio.classify.xi_alpha import quality
from opilio.errors import SettingsError
from opilio.features.classifier_input import ClassifierInput
from opilio.features.spaces import make_space
from opilio.settings import ClassifySettings, Settings
from opilio.topics.hierarchy import ROOT

SPACES = ("terms", "pairs", "anchors", "neighbours", "terms+anchors", "terms+pairs", "terms+neighbours")
LINKED = ("anchors", "neighbours", "terms+anchors", "terms+neighbours")
SETS = {
    "default": ClassifySettings().spaces,
    "words": ("terms", "pairs"),
    "links": ("terms", "pairs", "anchors", "neighbours"),
    "bingo": ("terms", "pairs", "terms+anchors", "terms+neighbours"),
    "default+embeddings": (*ClassifySettings().spaces, "embeddings"),
    "terms+embeddings": ("terms", "embeddings"),
}
BY_F1 = "weighted by F1"
BY_MEAN = "mean confidence"
"""Rules that Opilio does not have, to see what they would give: votes weighed by the estimated F1 instead of the
precision; and a yes when the mean of the confidences is positive, without any voting."""
STRICT = "svm terms, as few as unanimous"
CHECKED_PAGES = 20

Votes = dict[str, Any]
"""By space: an array, a row for each page and a column for each topic; NaN where the space does not vote."""
Counts = dict[str, list[int]]
"""By topic: rightly accepted, accepted, there are, accepted without those to be refused. Under `OTHERS_TRUTH`: refused,
0, there are, 0."""


def installed_spaces() -> tuple[str, ...]:
    try:
        make_space("embeddings", ClassifySettings())
    except SettingsError:
        return SPACES
    return (*SPACES, "embeddings")


class Cell:
    """One experiment: a training set, its test pages, and what each classifier makes of them."""

    def __init__(self, pages: Sequence[Page], view: View, size: int, seed: int) -> None:
        drawn: Draw = draw(pages, view, size, seed)
        self.topics = drawn.topics
        self.training: TrainingSet = training_set(pages, drawn)
        found = zip(self.training.examples, drawn.train, strict=True)
        examples = (replace(example, item=with_one_link(pages, number)) for example, (number, _) in found)
        self.training_as_found = replace(self.training, examples=tuple(examples))
        self.truth = np.array([self.topics.index(topic) if topic else -1 for _, topic in drawn.test])
        self.pages = [with_one_link(pages, number) for number, _ in drawn.test]
        self.linked = [with_all_links(pages, number) for number, _ in drawn.test]
        self.urls = [pages[number].url for number, _ in drawn.test]
        self.counts: dict[str, Counts] = {}
        self.estimates: list[dict[str, Any]] = []
        self.train_s: dict[str, float] = {}

    def record(self, name: str, decisions: Any) -> None:
        """Count by topic; a decision is the place of a topic, or -1."""
        counts: Counts = {}
        for place, topic in enumerate(self.topics):
            accepted, there = decisions == place, self.truth == place
            known = accepted & (self.truth >= 0)
            found = (accepted & there, accepted, there, known)
            counts[topic] = [int(one.sum()) for one in found]
        unknown = self.truth == -1
        counts[OTHERS_TRUTH] = [int((unknown & (decisions == -1)).sum()), 0, int(unknown.sum()), 0]
        self.counts[name] = counts

    def judged(self, judge: Judge, pages: Sequence[ClassifierInput]) -> list[Any]:
        return [judge.judge(page) for page in pages]

    def run_small(self) -> None:
        """Keywords, Bayes, OASIS."""
        settings = Settings()
        self.record("keywords", _places(self.judged(KeywordJudge.train(self.training, settings), self.pages)))
        began = time.process_time()
        bayes = BayesTree.train(self.training, settings)
        self.train_s["bayes"] = time.process_time() - began
        hard = _places(self.judged(bayes, self.pages))
        self.record("bayes hard", hard)
        least = math.log(0.5)
        sure = [
            place >= 0 and bayes.log_probabilities(page)[place + 1] >= least
            for page, place in zip(self.pages, hard.tolist(), strict=True)
        ]
        self.record("bayes soft", np.where(sure, hard, -1))
        began = time.process_time()
        oasis = OasisFilter.train(self.training, settings)
        self.train_s["oasis"] = time.process_time() - began
        for share in (0.5, 1.0):
            judge = OasisFilter(oasis.filters, replace(settings.oasis, passage_share=share))
            found = self.judged(judge, self.pages)
            suffix = "" if share == settings.oasis.passage_share else f" passage_share {share}"
            self.record(f"oasis any{suffix}", _places(found))
            undoubted = np.array([judgement.undoubted for judgement in found])
            self.record(f"oasis undoubted{suffix}", np.where(undoubted, _places(found), -1))
        pages = [replace(page, url=url) for page, url in zip(self.pages, self.urls, strict=True)]
        self.record("oasis any, directories", _places(self.judged(oasis, pages)))

    def run_svm(self) -> None:
        spaces = installed_spaces()
        began = time.process_time()
        settings = Settings(classify=ClassifySettings(spaces=spaces))
        tree = SvmTree.train(self.training, settings)
        self.train_s["svm, all spaces"] = time.process_time() - began
        for suffix, pages in (("", self.pages), (" all links", self.linked)):
            wanted = (
                spaces if not suffix else tuple(space for space in spaces if space in LINKED or space in SPACES[:2])
            )
            panel = _Panels(tree, wanted)
            votes = panel.votes(pages)
            for name in wanted if not suffix else LINKED:
                self.record(f"svm {name}{suffix}", panel.decide(votes, (name,), "majority"))
            for name, chosen in SETS.items():
                if set(chosen) <= set(wanted):
                    for rule in (*RULES, BY_F1, BY_MEAN):
                        decisions = panel.decide(votes, chosen, rule)
                        self.record(f"meta {rule} {name}{suffix}", decisions)
                        if rule in RULES:
                            self.check(tree, chosen, rule, pages, decisions)
            if not suffix:
                self.estimate(panel, votes)
                self.be_as_strict(panel, votes)

    def be_as_strict(self, panel: _Panels, votes: Votes) -> None:
        """Terms alone, but only the pages they are surest of: as many as all spaces of the default agree on."""
        agreed = panel.decide(votes, SETS["default"], "unanimous")
        places = panel.decide(votes, ("terms",), "majority")
        sure = np.where(places >= 0, np.nan_to_num(votes["terms"], nan=-1.0).max(axis=1), -np.inf)
        surest = np.argsort(-sure, kind="stable")[: int((agreed >= 0).sum())]
        kept = np.full_like(places, -1)
        kept[surest] = places[surest]
        self.record(STRICT, kept)

    def run_as_found(self) -> None:
        """The spaces that look at links, when training too knows only the link by which an example was found."""
        tree = SvmTree.train(self.training_as_found, Settings(classify=ClassifySettings(spaces=LINKED)))
        panel = _Panels(tree, LINKED)
        votes = panel.votes(self.pages)
        for name in LINKED:
            self.record(f"svm {name} trained as found", panel.decide(votes, (name,), "majority"))

    def check(
        self, tree: SvmTree, chosen: Sequence[str], rule: str, pages: Sequence[ClassifierInput], found: Any
    ) -> None:
        """Stop when the classifier itself judges otherwise."""
        places = [tree.settings.spaces.index(name) for name in chosen]
        planes = [replace(p, space=places.index(p.space)) for p in tree.trained.planes if p.space in places]
        trained = TrainedPlanes(tuple(tree.trained.idfs[place] for place in places), tuple(planes), {})
        judge = SvmTree(tree.hierarchy, replace(tree.settings, spaces=tuple(chosen), meta=rule), trained)
        for number in range(0, len(pages), max(1, len(pages) // CHECKED_PAGES)):
            [place] = _places([judge.judge(pages[number])])
            if place != found[number]:
                sys.exit(f"{rule} of {chosen}: the bench decides {found[number]}, the classifier {place}")

    def estimate(self, panel: _Panels, votes: Votes) -> None:
        """What xi-alpha expected of each hyperplane beside what it did: among pages of the topics, and all pages."""
        for name, said in votes.items():
            row = panel.competition.estimates[panel.spaces.index(name)]
            for place, estimate in enumerate(row):
                if estimate is None:
                    continue
                yes, there, known = said[:, place] > 0, self.truth == place, self.truth >= 0
                self.estimates.append(
                    {
                        "space": name,
                        "topic": self.topics[place],
                        "estimated": [estimate.precision, estimate.recall],
                        "right": int((yes & there).sum()),
                        "there": int(there.sum()),
                        "accepted_known": int((yes & known).sum()),
                        "accepted": int(yes.sum()),
                    }
                )


class _Panels:
    """The hyperplanes of a flat tree, evaluated space by space, so that each set of spaces reuses the votes."""

    def __init__(self, tree: SvmTree, spaces: Sequence[str]) -> None:
        self.spaces = list(spaces)
        numbers = {tree.settings.spaces.index(name): name for name in spaces}
        planes = {(p.space, p.topic): p for p in tree.trained.planes if p.space in numbers}
        views = {
            number: SpaceView(
                make_space(name, tree.settings),
                tree.trained.idfs[number],
                union(plane for (space, _), plane in planes.items() if space == number),
            )
            for number, name in numbers.items()
        }
        self.views = dict(zip(spaces, views.values(), strict=True))
        self.competition = Competition.of(tree.hierarchy.children(ROOT), planes, views)

    def votes(self, pages: Sequence[ClassifierInput]) -> Votes:
        pairs = zip(self.views.items(), self.competition.panels, strict=True)
        return {
            name: np.array([panel.votes(view.features_of(page)) for page in pages]) for (name, view), panel in pairs
        }

    def decide(self, votes: Votes, chosen: Sequence[str], rule: str) -> Any:
        """The place of the topic that takes each page, or -1."""
        rows = [self.spaces.index(name) for name in chosen]
        if rule == "best":
            rows = [max(rows, key=self._quality)]
        said = np.array([votes[self.spaces[row]] for row in rows])
        _, pages, topics = said.shape
        weights = self.competition.precisions[rows]
        if rule == BY_F1:
            weights = np.array([[quality(e) if e else 0.0 for e in self.competition.estimates[row]] for row in rows])
        known = RULES.get(rule, RULES["weighted"])
        decisions = decide(known, said.reshape(len(rows), -1), np.tile(weights, (1, pages)))
        yes = decisions.signs.reshape(pages, topics) > 0
        sure = decisions.confidences.reshape(pages, topics)
        if rule == BY_MEAN:
            sure = np.nan_to_num(np.nanmean(np.where(np.isnan(said).all(axis=0), -1.0, said), axis=0), nan=-1.0)
            yes = sure > 0
        sure = np.where(yes, sure, -np.inf)
        return np.where(yes.any(axis=1), sure.argmax(axis=1), -1)

    def _quality(self, row: int) -> float:
        return float(sum(quality(estimate) for estimate in self.competition.estimates[row] if estimate))


def _places(judgements: Sequence[Any]) -> Any:
    return np.array([judgement.topic - 1 if judgement.accepted else -1 for judgement in judgements])
