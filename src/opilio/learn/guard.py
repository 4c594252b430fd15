"""The guard: whether a model that the crawl made by itself may replace the current one.

A few off-topic documents can lead a whole crawl astray (BINGO 3.2), and a model that learned from them is the last to
notice. So it is tested with what the user vouched for (`learn.guard`):

- `held-out`: the user's own documents are split into folds. For each fold the training set as it was and the one with
  archetypes are learned without it, and both judges judge it. They are compared by *balanced accuracy*: of each topic,
  the mean of the share of its documents that it takes and the share of all others that it does not. F1 would depend on
  how many texts of OTHERS there happen to be; this does not, and counts two documents of a topic for as much as eighty
  that are none.
- `xi-alpha`: what both expect of themselves (BINGO 2.4). Quicker, but blind to drift that archetypes share.
- `off`: nothing is tested.

When the model would be refused, the archetypes of the topics that fell are left out, and the rest is tried once more.

A judge is surer of a document that it was trained on than of any page that it has not seen: with five examples of a
topic, hardly one page reaches their average confidence. So whatever is compared with pages must be judged as pages are:
some documents are held out, and a judge learns from the others (`split`, `train_without`, `confidences`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from opilio.classify import CLASSIFIERS, Estimating, Example, Judge, Model, TrainingSet
from opilio.classify.xi_alpha import quality
from opilio.errors import InputError
from opilio.learn.trainer import TrainedModel, train
from opilio.process import NICENESS, OnStart, call
from opilio.settings import Settings

FOLDS = 3
TOLERANCE = 0.02
"""The mean over the topics may fall by this much: two of a hundred documents judged otherwise are chance."""
TOPIC_TOLERANCE = 0.1
"""That of a single topic may fall by this much: one of five documents of its own, which is what users give at first."""
_ROUNDING = 1e-9

Scores = Mapping[int, float]
"""By topic."""


# -- held-out documents


def split(examples: Iterable[Example], others: Collection[Example] = ()) -> Iterator[list[Example]]:
    """The documents in folds, those of each topic spread evenly: a topic keeps some whichever fold is held out.

    The only document of a topic is in none: without it there would be nothing to learn the topic from.
    """
    groups: dict[tuple[int, bool], list[Example]] = {}
    for example in examples:
        groups.setdefault((example.kcid, example.positive), []).append(example)
    held = [group for (_, positive), group in groups.items() if len(group) > 1 or not positive]
    for fold in range(FOLDS):
        chosen = [example for group in [*held, list(others)] for example in group[fold::FOLDS]]
        if chosen:
            yield chosen


def train_without(training: TrainingSet, held: Collection[Example], settings: Settings) -> Judge:
    """A classifier that has not seen some documents. Raises InputError when the others do not suffice."""
    excluded = set(held)
    rest = replace(
        training,
        examples=tuple(example for example in training.examples if example not in excluded),
        others=tuple(example for example in training.others if example not in excluded),
        met=(),
    )
    return CLASSIFIERS.get(settings.classify.classifier).train(rest, settings)


def confidences(training: TrainingSet, settings: Settings, model: bytes) -> list[float | None]:
    """Of each example of a wanted topic, how sure a classifier is of it that has learned from the others.

    The only document of a topic, and those of a fold whose others do not suffice, are judged by the model there is,
    which has learned from them. Other documents have none.
    """
    return confidences_by(training, settings, Model.from_bytes(model).trained_judge)


def confidences_by(training: TrainingSet, settings: Settings, current: Judge) -> list[float | None]:
    """The same, with the judge there is."""
    asked = [e for e in training.examples if e.positive and training.hierarchy.is_wanted(e.kcid)]
    found: dict[Example, float] = {}
    for held in split(asked):
        try:
            judge = train_without(training, held, settings)
        except InputError:
            continue
        found |= {example: _confidence(judge, example) for example in held}
    found |= {example: _confidence(current, example) for example in asked if example not in found}
    return [found.get(example) for example in training.examples]


def _confidence(judge: Judge, example: Example) -> float:
    """Of a document that another topic took, or none, a judge is not sure at all: it counts 0, or less."""
    judgement = judge.judge(example.item)
    is_own = judgement.accepted and judgement.topic == example.kcid
    return judgement.confidence if is_own else min(0.0, judgement.confidence)


# -- the guard


@dataclass(frozen=True)
class GuardVerdict:
    """What the guard decided, and why."""

    accepted: bool
    guard: str
    before: float = math.nan
    """Mean over the topics, 0 to 1; not a number: nothing could be compared."""
    after: float = math.nan
    topics: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """The same of each topic, before and after."""
    documents: int = 0
    """Held out of the topics' own: how much the comparison rests on."""
    left_out: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Topics that were refused their archetypes, so that the others could have theirs; with what was compared."""

    def __str__(self) -> str:
        if math.isnan(self.before) or math.isnan(self.after):
            return "not compared" if self.guard == "off" else f"nothing to compare by ({self.guard})"
        what = {"held-out": "balanced accuracy on your own examples", "xi-alpha": "expected F1"}.get(self.guard, "")
        rests = f", {self.documents} of which were held out" if self.guard == "held-out" else ""
        return f"{what}{rests}: {self.before:.3f} before, {self.after:.3f} with them"


@dataclass(frozen=True)
class Trial:
    """Two training sets: as it is, and as it would be."""

    before: TrainingSet
    after: TrainingSet
    archetypes: frozenset[tuple[int, str]]
    """Topic and name of the documents, in either set, that no user vouches for."""

    def without(self, topics: Collection[int]) -> Trial:
        """The same, but the documents of some topics stay as they are."""
        kept = [example for example in self.after.examples if example.kcid not in topics]
        kept += [example for example in self.before.examples if example.kcid in topics]
        return replace(self, after=replace(self.after, examples=tuple(kept)))

    @property
    def changed(self) -> set[int]:
        """The topics whose documents differ."""
        before, after = ({(e.kcid, e.name) for e in one.examples} for one in (self.before, self.after))
        return {kcid for kcid, _ in before ^ after}

    def is_own(self, example: Example) -> bool:
        """Whether the user vouches for a document."""
        return (example.kcid, example.name) not in self.archetypes


def try_out(trial: Trial, settings: Settings, version: int) -> tuple[GuardVerdict, TrainedModel | None]:
    """What the guard says of the later training set, and the model of it when it is accepted."""
    verdict = _judge(trial, settings)
    if not verdict.accepted:
        fallen = {kcid for kcid, (before, after) in verdict.topics.items() if _fell(before, after, TOLERANCE)}
        rest = trial.without(fallen)
        if trial.changed & fallen and rest.changed:
            again = _judge(rest, settings)
            if again.accepted:
                left_out = {kcid: verdict.topics[kcid] for kcid in sorted(trial.changed & fallen)}
                trial, verdict = rest, replace(again, left_out=left_out)
    return verdict, train(trial.after, settings, version) if verdict.accepted else None


def try_in_process(
    trial: Trial, settings: Settings, version: int, on_start: OnStart = lambda process: None
) -> tuple[GuardVerdict, TrainedModel | None]:
    """The same in a process of its own: with three folds it is seven trainings, which a crawl need not wait for."""
    verdict, trained = call(try_out, trial, settings, version, niceness=NICENESS, on_start=on_start)
    return verdict, trained


def _judge(trial: Trial, settings: Settings) -> GuardVerdict:
    return _GUARDS[settings.learn.guard](trial, settings)


def _off(trial: Trial, settings: Settings) -> GuardVerdict:
    return GuardVerdict(accepted=True, guard="off")


def _xi_alpha(trial: Trial, settings: Settings) -> GuardVerdict:
    scores = [_expected(train_without(training, (), settings), training) for training in (trial.before, trial.after)]
    return _compared("xi-alpha", *scores)


def _expected(judge: Judge, training: TrainingSet) -> Scores:
    """The F1 that a judge expects of itself by topic, over its feature spaces."""
    if not isinstance(judge, Estimating):
        raise InputError("this classifier expects nothing of itself", 'Set learn.guard = "held-out".')
    wanted = training.hierarchy.is_wanted
    found = {
        kcid: [one for one in map(quality, spaces.values()) if not math.isnan(one)]
        for kcid, spaces in judge.estimates().items()
        if wanted(kcid)
    }
    return {kcid: statistics.fmean(values) for kcid, values in found.items() if values}


def _held_out(trial: Trial, settings: Settings) -> GuardVerdict:
    before, after = _Tally(trial.before), _Tally(trial.before)
    own = filter(trial.is_own, trial.before.examples)
    for held in split(own, trial.before.others):
        try:
            judges = [train_without(one, held, settings) for one in (trial.before, trial.after)]
        except InputError:  # what is left of a topic has no words: this fold shows nothing
            continue
        for tally, judge in zip((before, after), judges, strict=True):
            for example in held:
                tally.add(example, judge)
    documents = sum(before.own.values())
    return replace(_compared("held-out", before.scores(), after.scores()), documents=documents)


class _Tally:
    """What a judge decides about documents whose topics are known."""

    def __init__(self, training: TrainingSet) -> None:
        hierarchy = training.hierarchy
        self._others = set(training.others)
        self._below = {kcid: hierarchy.below(kcid) for kcid in hierarchy.nodes}
        self._topics = [kcid for kcid in hierarchy.nodes if hierarchy.is_wanted(kcid) and training.of(kcid)]
        self.own = dict.fromkeys(self._topics, 0)
        self._taken = dict.fromkeys(self._topics, 0)
        self._foreign = dict.fromkeys(self._topics, 0)
        self._left = dict.fromkeys(self._topics, 0)

    def add(self, example: Example, judge: Judge) -> None:
        """Have a document judged, and count the result."""
        judgement = judge.judge(example.item)
        for topic in self._topics:
            takes = judgement.accepted and judgement.topic in self._below[topic]
            if example.positive and example.kcid in self._below[topic]:
                self.own[topic] += 1
                self._taken[topic] += takes
            elif self._is_foreign(example, topic):
                self._foreign[topic] += 1
                self._left[topic] += not takes

    def _is_foreign(self, example: Example, topic: int) -> bool:
        """Whether a document is known not to be about a topic: a counter-example of one may be about another."""
        return example.positive or example in self._others or topic in self._below.get(example.kcid, ())

    def scores(self) -> Scores:
        """Balanced accuracy by topic; of a topic with documents of one side only, the share of those."""
        found = {}
        for topic in self._topics:
            sides = ((self._taken, self.own), (self._left, self._foreign))
            shares = [right[topic] / every[topic] for right, every in sides if every[topic]]
            if shares:
                found[topic] = statistics.fmean(shares)
        return found


def _compared(guard: str, before: Scores, after: Scores) -> GuardVerdict:
    """Refuse what is worse on the whole, or much worse for one topic."""
    topics = {kcid: (before[kcid], after[kcid]) for kcid in sorted(before.keys() & after.keys())}
    if not topics:
        return GuardVerdict(accepted=True, guard=guard)
    means = [statistics.fmean(pair[place] for pair in topics.values()) for place in (0, 1)]
    fell = _fell(means[0], means[1], TOLERANCE) or any(_fell(*pair, TOPIC_TOLERANCE) for pair in topics.values())
    return GuardVerdict(not fell, guard, means[0], means[1], topics)


def _fell(before: float, after: float, tolerance: float) -> bool:
    return before - after > tolerance + _ROUNDING


_GUARDS: Mapping[str, Callable[[Trial, Settings], GuardVerdict]] = {
    "held-out": _held_out,
    "xi-alpha": _xi_alpha,
    "off": _off,
}
