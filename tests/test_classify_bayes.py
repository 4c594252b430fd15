"""The Bayes tree against equations 1 to 3 of the Focus paper in exact fractions, and against scikit-learn."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bayes_worlds import UNKNOWN, World, documents, hierarchy_of, log, page, pages, worlds
from opilio.classify.bayes import BELOW_RELEVANT, MAX_LOG_ODDS, BayesTree, others_kcid
from opilio.classify.judge import CLASSIFIERS, Example, TrainingSet
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput
from opilio.model import Judgement
from opilio.settings import ClassifySettings, Settings
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Mark

# -- what the tests are about: trees, documents and a model of the model


def two_topics(**classify: object) -> BayesTree:
    """Birds (1, good) and bikes (2), three documents each, no OTHERS."""
    hierarchy = hierarchy_of({0: -1, 1: 0, 2: 0}, {1})
    birds, bikes = [[7, 7, 11], [7, 900], [11, 901]], [[902, 902, 900], [903, 901], [902]]
    examples = [Example(1, page(tids)) for tids in birds] + [Example(2, page(tids)) for tids in bikes]
    terms = {7: "owl", 11: "nest", 902: "wheel"}
    return BayesTree.train(
        TrainingSet(hierarchy, tuple(examples), terms=terms), Settings(classify=ClassifySettings(**classify))
    )


# -- the numbers


def test_smoothing_by_hand() -> None:
    """Equation 1 on four tiny documents, computed on paper: every number here was worked out without the program.

    Birds: "owl owl hawk", "owl nest". Bikes: "wheel wheel", "chain owl". Five distinct terms in all; birds have 5
    words, 3 of them owl; bikes have 4 words, 1 of them owl and 2 wheel. So theta(birds, owl) = (1 + 3) / (5 + 5),
    theta(bikes, owl) = (1 + 1) / (5 + 4), theta(birds, wheel) = 1 / 10, theta(bikes, wheel) = (1 + 2) / 9. The page
    "owl wheel" has 1/2 * 4/10 * 1/10 = 0.02 for birds and 1/2 * 2/9 * 3/9 = 1/27 for bikes.
    """
    owl, hawk, nest, wheel, chain = 1, 2, 3, 4, 5
    documents = [(1, [owl, owl, hawk]), (1, [owl, nest]), (2, [wheel, wheel]), (2, [chain, owl])]
    training = TrainingSet(
        hierarchy_of({0: -1, 1: 0, 2: 0}, {1}), tuple(Example(kcid, page(tids)) for kcid, tids in documents)
    )
    tree = BayesTree.train(training, Settings())
    node = tree.nodes[0]
    assert node.features.tolist() == [owl, hawk, nest, wheel, chain] and node.children == (1, 2)
    theta = np.exp(node.logtheta)
    assert theta[:, 0] == pytest.approx([4 / 10, 2 / 10, 2 / 10, 1 / 10, 1 / 10])
    assert theta[:, 1] == pytest.approx([2 / 9, 1 / 9, 1 / 9, 3 / 9, 2 / 9])
    assert np.exp(node.logprior) == pytest.approx([0.5, 0.5])
    assert tree.judge(page([owl, wheel])).relevance == pytest.approx(0.02 / (0.02 + 1 / 27))


@settings(max_examples=60)
@given(worlds(), pages)
def test_probabilities_are_those_of_the_equations(world: World, tids: list[int]) -> None:
    """Smoothing, priors, OTHERS, features and the chain rule are equations 1 and 2, for every topic of any tree."""
    model = world.train()
    truth = world.probabilities(model, tids)
    found = model.log_probabilities(page(tids))
    assert found.keys() == truth.keys()
    for kcid, value in truth.items():
        assert found[kcid] == pytest.approx(log(value), rel=1e-9, abs=1e-9)


@settings(max_examples=60)
@given(worlds(), pages)
def test_relevance_is_the_probability_of_what_is_wanted(world: World, tids: list[int]) -> None:
    """Equation 3, summed over good topics, is the probability of all wanted leaves; confidence is its log odds."""
    model = world.train()
    judgement = model.judge(page(tids))
    if not set(tids) & set(model.nodes[world.start].features.tolist()):
        assert judgement == Judgement()
        return
    truth = world.relevance(world.probabilities(model, tids))
    assert judgement.relevance == pytest.approx(float(truth), rel=1e-9)
    odds = log(truth) - log(1 - truth) if truth < 1 else MAX_LOG_ODDS
    assert judgement.confidence == pytest.approx(odds, rel=1e-9, abs=1e-9)
    assert judgement.votes == {"terms": judgement.confidence}


@settings(max_examples=60)
@given(worlds(), pages)
def test_the_topic_is_the_most_probable_leaf(world: World, tids: list[int]) -> None:
    """Expanding the best node first finds the best of all leaves; OTHERS counts as the topic it is below."""
    model = world.train()
    assume(set(tids) & set(model.nodes[world.start].features.tolist()))
    leaves = world.leaves(world.probabilities(model, tids))
    near = [kcid for kcid, value in leaves.items() if float(value) >= float(max(leaves.values())) * (1 - 1e-9)]
    possible = {kcid if kcid >= ROOT else others_kcid(kcid) for kcid in near}
    judgement = model.judge(page(tids))
    assert (judgement.topic if judgement.accepted else world.start) in possible


@settings(max_examples=50)
@given(worlds(), pages)
def test_hard_focus_goes_by_the_best_leaf(world: World, tids: list[int]) -> None:
    """A page is relevant when its best leaf is wanted, in 32 bits too; otherwise its relevance is that of soft focus."""
    hard, soft = world.train("hard").judge(page(tids)), world.train("soft").judge(page(tids))
    assert (hard.topic, hard.accepted) == (soft.topic, soft.accepted)
    if hard == Judgement():
        return
    is_wanted = hard.accepted and any(world.is_below(hard.topic, good) for good in world.good)
    assert hard.is_relevant == is_wanted == (np.float32(hard.relevance) >= 0.5) == (hard.confidence >= 0)
    if soft.is_relevant == is_wanted:
        assert hard.relevance == pytest.approx(soft.relevance, abs=1e-7)
    else:
        assert hard.relevance in (0.5, BELOW_RELEVANT)


def test_hard_and_soft_focus_can_differ() -> None:
    """A good topic with two halves of 0.3 each beside a leaf of 0.4: relevant by R(d), not by the best leaf."""
    examples = [(kcid, [7], True) for kcid in (3, 3, 3, 4, 4, 4, 2, 2, 2, 2)]  # one word for all: the priors decide
    world = World({0: -1, 1: 0, 2: 0, 3: 1, 4: 1}, {1}, examples, [])
    soft, hard = world.train("soft").judge(page([7])), world.train("hard").judge(page([7]))
    assert soft.relevance == pytest.approx(0.6)
    assert soft.topic == hard.topic == 2
    assert np.float32(hard.relevance) < 0.5
    assert hard.relevance == pytest.approx(0.5)
    assert hard.confidence < 0 < soft.confidence


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 3), documents), min_size=3, max_size=12), pages)
def test_a_flat_tree_is_scikit_learns_naive_bayes(taught: list[tuple[int, list[int]]], tids: list[int]) -> None:
    """With all terms as features and no OTHERS, the model is multinomial naive Bayes with alpha 1."""
    from sklearn.naive_bayes import MultinomialNB

    assume(len({kcid for kcid, _ in taught}) > 1 and 1 in dict(taught))
    model = World({0: -1, 1: 0, 2: 0, 3: 0}, {1}, [(kcid, tids, True) for kcid, tids in taught], []).train()
    universe = sorted({tid for _, document in taught for tid in document})
    rows = [[document.count(tid) for tid in universe] for _, document in taught]
    peer = MultinomialNB(alpha=1.0).fit(rows, [kcid for kcid, _ in taught])
    [expected] = peer.predict_log_proba([[tids.count(tid) for tid in universe]])
    found = model.log_probabilities(page(tids))
    assert [found[kcid] for kcid in peer.classes_] == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-9)


def test_long_pages_are_not_tempered() -> None:
    """A page written twice weighs twice: the log odds without the prior double, as the paper's model says."""
    model = two_topics()
    once, twice = model.judge(page([7, 11, 900])), model.judge(page([7, 11, 900] * 2))
    assert twice.confidence == pytest.approx(2 * once.confidence)  # as many documents in both topics: no prior


def test_features_are_chosen_for_each_node() -> None:
    """Each inner node has features of its own, at most as many as the setting says, ascending."""
    parents = {0: -1, 1: 0, 2: 0, 3: 1, 4: 1}
    examples = [(3, [7, 900, 901], True), (4, [11, 900, 901], True), (2, [902, 903, 901], True)]
    model = World(parents, {3}, examples, [], features=2).train()
    assert {pcid: len(node.features) for pcid, node in model.nodes.items()} == {0: 2, 1: 2}
    assert model.nodes[1].features.tolist() == [7, 11]
    assert not {7, 11} <= set(model.nodes[0].features.tolist())


def test_only_what_was_counted_is_in_the_tables() -> None:
    """log theta is stored where a child's documents have the term; the rest follows from logdenom."""
    model = two_topics()
    stat = model.tables().stat
    rows = set(zip(stat["kcid"].tolist(), stat["tid"].tolist(), strict=True))
    assert rows == {(1, 7), (1, 11), (1, 900), (1, 901), (2, 902), (2, 900), (2, 903), (2, 901)}
    assert model.nodes[0].logtheta[0, 1] == -model.nodes[0].logdenom[1]


# -- what is judged when there is little to judge by


@pytest.mark.parametrize("tids", [[], [0, 0], [UNKNOWN], [UNKNOWN] * 500])
def test_a_page_without_known_words_is_left_alone(tids: list[int]) -> None:
    """Priors alone would call every such page relevant or none; the tree abstains and gives no reasons."""
    model = two_topics()
    assert model.judge(page(tids)) == Judgement(topic=ROOT, accepted=False, relevance=0.0)
    assert model.explain(page(tids)).steps == ()


def test_a_query_competes_with_others() -> None:
    """A tree that is a root alone tells its pages from OTHERS; a refused example counts among those."""
    world = World({0: -1}, {0}, [(0, [7, 11], True), (0, [7, 900], True), (0, [902], False)], [[903, 903]])
    model = world.train()
    assert model.nodes[ABOVE_ROOT].children == (ROOT, others_kcid(ABOVE_ROOT))
    yes, no = model.judge(page([7, 11])), model.judge(page([902, 903]))
    assert (yes.accepted, yes.is_relevant, yes.topic) == (True, True, ROOT)
    assert (no.accepted, no.is_relevant, no.topic) == (False, False, ROOT)


def test_a_good_root_does_not_make_every_page_good() -> None:
    """With the root good, relevance is the probability of its topics together, without OTHERS."""
    world = World({0: -1, 1: 0, 2: 0}, {0}, [(1, [7, 11], True), (2, [900, 901], True)], [[902, 903]])
    model = world.train()
    assert model.judge(page([7, 900])).relevance > 0.5
    assert model.judge(page([902, 903])).relevance < 0.5
    assert world.train("hard").judge(page([902, 903])).relevance < 0.5


def test_a_topic_without_examples_takes_no_part() -> None:
    """Topics that have none, and examples without words, change nothing; their subtrees are leaves or missing."""
    examples = [(1, [7, 11], True), (2, [902], True)]
    plain = World({0: -1, 1: 0, 2: 0}, {1}, examples, [])
    more = World({0: -1, 1: 0, 2: 0, 3: 0, 4: 3, 5: 1}, {1, 4}, [*examples, (3, [0], True)], [])
    tids = [7, 902, 902]
    assert more.train().log_probabilities(page(tids)) == plain.train().log_probabilities(page(tids))


def test_too_few_examples_are_refused() -> None:
    """Nothing good to learn, or nothing to tell it from, is said with what is missing."""
    with pytest.raises(InputError, match=r"no example with words for a good topic \('1'\)"):
        World({0: -1, 1: 0, 2: 0}, {1}, [(2, [7], True)], [[11]]).train()
    with pytest.raises(InputError, match="no topic is marked good"):
        World({0: -1, 1: 0, 2: 0}, set(), [(1, [7], True), (2, [11], True)], []).train()
    with pytest.raises(InputError, match="nothing to distinguish it from"):
        World({0: -1}, {0}, [(0, [7], True)], []).train()


# -- reasons, travel, speed


def test_reasons_add_up_to_the_confidence() -> None:
    """Between two topics, what the terms added and the priors are the log odds; terms are shown by their stems."""
    model = two_topics()
    explanation = model.explain(page([7, 7, 902, 900, UNKNOWN]))
    birds, bikes = explanation.steps
    assert (birds.topic, birds.taken, bikes.topic, bikes.taken) == (1, True, 2, False)
    assert sum(reason.weight for reason in birds.reasons) == pytest.approx(birds.confidence)
    assert birds.confidence == pytest.approx(-bikes.confidence) == pytest.approx(explanation.judgement.confidence)
    weights = {reason.feature: reason.weight for reason in birds.reasons}
    assert weights["owl"] == max(weights.values()) > 0 > weights["wheel"]
    assert set(weights) <= {"owl", "wheel", "#900"}
    assert list(map(abs, weights.values())) == sorted(map(abs, weights.values()), reverse=True)


@settings(max_examples=30)
@given(worlds(), pages)
def test_explanations_follow_the_way_down(world: World, tids: list[int]) -> None:
    """The taken steps are the topics from the top down to the page's own, and the judgement is that of `judge`."""
    model = world.train()
    explanation = model.explain(page(tids))
    judgement = model.judge(page(tids))
    assert explanation.judgement == judgement
    taken = [step.topic for step in explanation.steps if step.taken]
    assert taken == (model.hierarchy.line(judgement.topic) if judgement.accepted else [])
    assert all(len(step.reasons) <= 10 and math.isfinite(step.confidence) for step in explanation.steps)


@settings(max_examples=30)
@given(worlds(), pages, st.sampled_from(["soft", "hard"]))
def test_a_tree_travels(world: World, tids: list[int], focus: str) -> None:
    """Bytes give back a tree that judges and explains to the last bit as the first did, and has the same bytes."""
    model = world.train(focus)
    other = CLASSIFIERS.get("bayes").from_bytes(model.to_bytes())
    assert isinstance(other, BayesTree)
    assert other.explain(page(tids)) == model.explain(page(tids))
    assert other.log_probabilities(page(tids)) == model.log_probabilities(page(tids))
    assert other.to_bytes() == model.to_bytes()


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 40, two_topics().to_bytes()[:-7]])
def test_bytes_of_something_else_are_refused(data: bytes) -> None:
    """What is no trained tree raises an error of ours."""
    with pytest.raises(InputError, match="not a trained Bayes tree"):
        BayesTree.from_bytes(data)


def test_huge_counts_stay_finite() -> None:
    """A page of a million equal words gives a relevance of 0 to 1 and a finite confidence."""
    model = two_topics()
    for tid in (7, 902):
        judgement = model.judge(page([tid] * 1_000_000))
        assert 0.0 <= judgement.relevance <= 1.0
        assert abs(judgement.confidence) == MAX_LOG_ODDS


def test_five_hundred_terms_take_less_than_half_a_millisecond() -> None:
    """Judging is cheap beside parsing: 500 distinct terms, 20 topics in two levels, 2,000 features a node."""
    rng = np.random.default_rng(1)
    parents = {0: -1} | dict.fromkeys(range(1, 5), 0) | {kcid: (kcid - 1) % 4 + 1 for kcid in range(5, 21)}
    pools = {kcid: rng.integers(1, 2**32, 1500, dtype=np.uint32) for kcid in parents}
    examples = [
        Example(kcid, ClassifierInput(rng.choice(np.concatenate([pools[0], pools[kcid]]), 900)))
        for kcid in range(5, 21)
        for _ in range(5)
    ]
    others = [Example(ROOT, ClassifierInput(rng.choice(pools[0], 900))) for _ in range(5)]
    model = BayesTree.train(TrainingSet(hierarchy_of(parents, {5, 9}), tuple(examples), tuple(others)), Settings())
    terms = rng.choice(np.unique(np.concatenate([pools[0], pools[5]])), 500, replace=False)
    item = ClassifierInput(np.repeat(terms, 2))
    assert model.judge(item).topic == 5
    took_s = []
    for _ in range(50):
        began = time.perf_counter()
        model.judge(item)
        took_s.append(time.perf_counter() - began)
    assert min(took_s) < 0.0005


def test_judging_needs_numpy_alone() -> None:
    """A worker that judges loads neither scikit-learn nor the database."""
    heavy = "[name for name in ('sklearn', 'scipy', 'duckdb', 'pyarrow') if name in sys.modules]"
    code = f"import sys; from opilio.classify.bayes import BayesTree; sys.exit(str({heavy}) if {heavy} else 0)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_counts_matter_and_order_does_not() -> None:
    """The page is a bag of words: its order changes nothing, another count does."""
    model = two_topics()
    tids = [7, 902, 900, 902, 11]
    assert model.judge(page(tids)) == model.judge(page(tids[::-1]))
    assert model.judge(page(tids)).confidence != model.judge(page([*tids, 7])).confidence


def test_marks_are_those_of_the_tree() -> None:
    """A null topic is recognised, and is no reason to want a page."""
    model = two_topics()
    assert model.hierarchy.nodes[2].mark is Mark.NULL
    judgement = model.judge(page([902, 902]))
    assert (judgement.topic, judgement.accepted, judgement.is_relevant) == (2, True, False)
