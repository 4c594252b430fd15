"""Equation 2 of BINGO in plain loops against the meta classifier, and the walk down the tree."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.classify.decision import (
    DOUBT,
    NO_EVIDENCE,
    RELEVANCE_SLOPE,
    RULES,
    Decisions,
    WalkStage,
    decide,
    free_rule,
    path_confidence,
    relevance,
    rule_of,
    walk,
)
from opilio.settings import ClassifySettings
from opilio.settings.files import _CHOICES
from opilio.topics.hierarchy import Hierarchy, Node, marks_of

votes_of_spaces = st.lists(
    st.tuples(st.one_of(st.just(nan), st.floats(-3, 3)), st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0])),
    min_size=1,
    max_size=5,
)


def by_equation_2(rule: str, votes: list[tuple[float, float]]) -> int:
    """BINGO's Meta(V, D, C), only spaces that voted being in V."""
    voters = [(1 if vote > 0 else -1, precision) for vote, precision in votes if not isnan(vote)]
    if not voters:
        return 0
    use_precision = rule == "weighted" and any(precision for _, precision in voters)
    total = sum(result * (precision if use_precision else 1.0) for result, precision in voters)
    upper = len(voters) - 0.5 if rule == "unanimous" else 0.0
    return 1 if total > upper else -1 if total < -upper else 0


@given(st.sampled_from(["unanimous", "majority", "weighted"]), st.lists(votes_of_spaces, min_size=1, max_size=4))
def test_decisions_are_those_of_equation_2(rule: str, topics: list[list[tuple[float, float]]]) -> None:
    """For any votes and precisions, each topic is decided on by itself and as the paper says."""
    spaces = max(map(len, topics))
    padded = [votes + [(nan, 0.5)] * (spaces - len(votes)) for votes in topics]
    votes = np.array([[vote for vote, _ in topic] for topic in padded]).T
    precisions = np.array([[precision for _, precision in topic] for topic in padded]).T
    decisions = decide(RULES[rule], votes, precisions)
    assert decisions.signs.tolist() == [by_equation_2(rule, topic) for topic in padded]
    for column, topic in enumerate(padded):
        assert (decisions.confidences[column] > 0) == (decisions.signs[column] > 0)
        voters = [vote for vote, _ in topic if not isnan(vote)]
        if not voters:
            assert decisions.confidences[column] == NO_EVIDENCE
        assert decisions.shares[:, column].sum() == pytest.approx(1.0 if voters else 0.0)


def test_confidence_is_the_weighed_mean() -> None:
    """Voters count by their precision, a space that abstains does not count at all."""
    votes = np.array([[2.0], [1.0], [nan]])
    precisions = np.array([[0.9], [0.3], [1.0]])
    assert decide(RULES["weighted"], votes, precisions).confidences[0] == pytest.approx((2.0 * 0.9 + 1.0 * 0.3) / 1.2)
    assert decide(RULES["majority"], votes, precisions).confidences[0] == pytest.approx(1.5)


def test_a_decision_has_its_sign() -> None:
    """Two weak yes outvote a strong no: the confidence is next to nothing, but still that of a yes."""
    votes = np.array([[0.1], [0.1], [-3.0]])
    for rule, expected in (("majority", DOUBT), ("unanimous", (0.1 + 0.1 - 3.0) / 3)):
        assert decide(RULES[rule], votes, np.ones((3, 1))).confidences[0] == pytest.approx(expected)
    in_doubt = decide(RULES["unanimous"], np.array([[2.0], [-0.1]]), np.ones((2, 1)))
    assert (in_doubt.signs[0], in_doubt.confidences[0]) == (0.0, -DOUBT)


def test_every_setting_has_its_rule() -> None:
    """The rules are those that the setting takes; `auto` is `mean`, unless a phase has chosen another."""
    assert {*RULES, "auto", "free"} == set(_CHOICES["classify", "meta"])
    assert rule_of(ClassifySettings()) is RULES["mean"]
    for name, rule in RULES.items():
        assert rule_of(ClassifySettings(meta=name)) is rule


full_votes = st.lists(st.tuples(st.floats(-3, 3), st.sampled_from([0.25, 0.9, 1.0])), min_size=1, max_size=5)


@given(full_votes)
def test_free_weights_reproduce_the_special_cases_of_the_paper(votes: list[tuple[float, float]]) -> None:
    """BINGO 3.5: weights 1 with t1 = h - 0.5 = -t2 is the unanimous decision, with t1 = t2 = 0 the majority, and the
    precisions as weights are the weighted average. When all spaces vote, free weights decide the same, as surely."""
    h = len(votes)
    given_votes = np.array([[vote] for vote, _ in votes])
    precisions = np.array([[precision] for _, precision in votes])
    for name, rule in (
        ("unanimous", free_rule([1.0] * h, h - 0.5, -(h - 0.5))),
        ("majority", free_rule([1.0] * h, 0.0, 0.0)),
        ("weighted", free_rule([precision for _, precision in votes], 0.0, 0.0)),
    ):
        named, free = decide(RULES[name], given_votes, precisions), decide(rule, given_votes, precisions)
        assert free.signs.tolist() == named.signs.tolist() == [by_equation_2(name, votes)]
        assert free.confidences.tolist() == named.confidences.tolist()
        assert free.shares.tolist() == named.shares.tolist()


def test_free_weights_and_thresholds() -> None:
    """By hand: weights 2, 1 and 1, t1 = 1.5 and t2 = -2.5. A space that abstains adds nothing, one of weight 0 is as if
    it were not there."""
    settings = ClassifySettings(
        meta="free", spaces=("terms", "pairs", "anchors"), meta_thresholds=(1.5, -2.5),
        meta_weights={"anchors": 1.0, "terms": 2.0, "pairs": 1.0},
    )  # fmt: skip
    votes = np.array([[1.0, 1.0, -1.0, -1.0, nan], [1.0, -1.0, 1.0, -1.0, 1.0], [-1.0, -1.0, nan, nan, nan]])
    decisions = decide(rule_of(settings), votes, np.ones((3, 5)))
    # 2 + 1 - 1 = 2; 2 - 1 - 1 = 0; -2 + 1 = -1; -2 - 1 = -3; 1
    assert decisions.signs.tolist() == [1, 0, 0, -1, 0]
    assert decisions.confidences[0] == pytest.approx((2.0 + 1.0 - 1.0) / 4.0)
    alone = decide(free_rule([0.0, 1.0], 0.0, 0.0), np.array([[2.0, 2.0], [-1.0, nan]]), np.ones((2, 2)))
    assert alone.signs.tolist() == [-1, 0] and alone.confidences.tolist() == [-1.0, NO_EVIDENCE]


# -- the walk


@dataclass
class NodeResult:
    topics: tuple[int, ...]
    decisions: Decisions


PARENTS = {0: -1, 1: 0, 2: 0, 3: 0, 11: 1, 12: 1, 21: 2, 22: 2}
"""Topics 1, 2 and 3 below the root; 11 and 12 below 1; 21 and 22 below 2."""


def tree(good: set[int]) -> Hierarchy:
    marks = marks_of(PARENTS, good, {kcid: str(kcid) for kcid in PARENTS})
    return Hierarchy(Node(kcid, parent, str(kcid), str(kcid), marks[kcid]) for kcid, parent in PARENTS.items())


def walked(hierarchy: Hierarchy, confidences: dict[int, float]) -> list[WalkStage[NodeResult]]:
    """The walk of a page for which each topic has this confidence."""

    def judge_below(node: int) -> NodeResult | None:
        topics = hierarchy.children(node)
        if not topics:
            return None
        numbers = np.array([confidences.get(topic, -1.0) for topic in topics])
        return NodeResult(topics, Decisions(np.sign(numbers), numbers, np.ones((1, len(topics)))))

    return walk(hierarchy, judge_below)


def path(stages: list[WalkStage[NodeResult]]) -> list[int]:
    return [stage.result.topics[stage.taken] for stage in stages if stage.taken >= 0]


def test_the_surest_topic_takes_the_page() -> None:
    """At each node the highest positive confidence wins; a topic below one that lost is not even asked."""
    stages = walked(tree({1, 2}), {1: 0.2, 2: 0.5, 11: 9.0, 21: 0.1, 22: 0.3})
    assert path(stages) == [2, 22]
    assert path_confidence(stages) == pytest.approx(0.3)


def test_others() -> None:
    """Where no topic says yes the page stays; its path may be empty."""
    assert path(walked(tree({1}), {1: -0.1, 2: -0.2})) == []
    stages = walked(tree({1}), {1: 0.7, 11: -0.1, 12: -0.3})
    assert path(stages) == [1]
    assert path_confidence(stages) == pytest.approx(0.7)
    assert path_confidence(walked(tree({1}), {1: -0.1, 2: -0.2, 3: -0.4})) == pytest.approx(-0.1)


numbers = st.dictionaries(st.sampled_from(sorted(PARENTS)), st.floats(-2, 2).filter(lambda x: abs(x) > 1e-3))


@given(numbers, st.sampled_from([{1}, {11}, {11, 21}, {3}, {0}, {1, 2, 3}, {22, 3}]))
def test_relevant_is_what_a_wanted_topic_took(confidences: dict[int, float], good: set[int]) -> None:
    """Relevance is 0.5 or more exactly for pages on whose path a wanted topic stands, whatever is wanted."""
    hierarchy = tree(good)
    stages = walked(hierarchy, confidences)
    wanted = any(hierarchy.is_wanted(topic) for topic in path(stages))
    value = relevance(hierarchy, stages)
    assert 0.0 <= value <= 1.0
    assert (value >= 0.5) == wanted


def test_relevance_by_confidence() -> None:
    """It is the logistic curve of the step at which the page became, or failed to become, a wanted one."""

    def curve(confidence: float) -> float:
        return 1 / (1 + exp(-RELEVANCE_SLOPE * confidence))

    cases = [
        ({1}, {1: 0.4, 11: 0.1}, 0.4),  # deeper steps do not matter
        ({11}, {1: 0.2, 11: 0.9}, 0.2),  # the weakest step on the way
        ({11}, {1: 0.9, 12: 0.5, 11: 0.3}, -0.2),  # another topic was surer by so much
        ({11}, {1: -0.3}, -0.3),
        ({2}, {1: 0.5, 2: -0.4}, -0.9),
        ({0}, {1: -0.3, 2: -0.2, 3: -0.7}, -0.2),  # all is wanted, but this is of no topic
    ]
    for good, confidences, expected in cases:
        hierarchy = tree(good)
        assert relevance(hierarchy, walked(hierarchy, confidences)) == pytest.approx(curve(expected)), (
            good,
            confidences,
        )


def test_without_a_good_topic_nothing_is_relevant() -> None:
    """Topics that are only known, none of them wanted, give a relevance of 0 to every page."""
    hierarchy = tree(set())
    assert relevance(hierarchy, walked(hierarchy, {1: 3.0})) == pytest.approx(0.0)
