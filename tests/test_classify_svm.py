"""The SVM tree: against scikit-learn used directly, down a tree, with few examples, bad input and strange pages."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.svm import SVC

from opilio.analyze.terms import term_ids
from opilio.classify import svm_training
from opilio.classify.decision import NO_EVIDENCE
from opilio.classify.judge import CLASSIFIERS, Example, TrainingSet
from opilio.classify.svm import SpaceView, SvmTree
from opilio.classify.svm_training import SpaceRows, error_costs, fit_hyperplane
from opilio.classify.xi_alpha import USUAL_RHO, estimate
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput
from opilio.features.spaces import SPACES, Space, Vector, make_space
from opilio.features.weights import Idf, select
from opilio.settings import ClassifySettings, Settings
from opilio.topics.hierarchy import ROOT, Hierarchy, Node, marks_of

COMMON = range(1, 400)
"""Words of every page, by Zipf's law; the own words of topic n are 1000 n + 1 ... 1000 n + 60."""
ALL = ("terms", "pairs", "terms+anchors")


def page(
    topics: tuple[int, ...], seed: int, own_share: float = 0.3, length: int = 200, anchors: int = 0
) -> ClassifierInput:
    """A page with words of `topics`; none: a page about nothing in particular."""
    rng = np.random.default_rng([seed, *topics])
    law = 1.0 / np.arange(1, len(COMMON) + 1)
    stems = rng.choice(COMMON, length, p=law / law.sum())
    law = 1.0 / np.arange(1, 61)
    for place in np.flatnonzero(rng.random(length) < own_share) if topics else ():
        stems[place] = 1000 * rng.choice(topics) + 1 + rng.choice(60, p=law / law.sum())
    links = 1000 * rng.choice(topics, anchors) + 1 + rng.choice(20, anchors) if topics and anchors else []
    return ClassifierInput(stems.astype(np.uint32), anchors=np.array(links, np.uint32), text="x")


def hierarchy_of(parents: dict[int, int], good: set[int]) -> Hierarchy:
    marks = marks_of(parents, good, {kcid: f"p{kcid}" for kcid in parents})
    return Hierarchy(Node(kcid, parent, f"t{kcid}", f"p{kcid}", marks[kcid]) for kcid, parent in parents.items())


ALONE = {0: -1}
FLAT = {0: -1, 1: 0, 2: 0, 3: 0}
DEEP = {0: -1, 1: 0, 2: 0, 11: 1, 12: 1}
TERMS = {kcid * 1000 + number: f"word{kcid}x{number}" for kcid in (1, 2, 3, 11, 12) for number in range(1, 61)}


def test_scores_of_documents_left_out_are_those_of_a_fit_without_them() -> None:
    """The span rule gives nearly the score that a hyperplane has which never saw the document; subtracting the whole of
    its alpha, as `shifted_threshold` does, is much too pessimistic."""
    items = [page((1,), seed, own_share=0.2) for seed in range(6)] + [page((), seed) for seed in range(40)]
    space = make_space("terms", ClassifySettings())
    rows = SpaceRows(space, [space.vector(item) for item in items], 0, {}).documents(
        np.arange(46), np.arange(len(np.unique(np.concatenate([item.stems for item in items]))))
    )
    positive = np.arange(46) < 6
    cost = error_costs(positive, 1.0)
    plane = fit_hyperplane(rows, positive, cost)
    found, whole = plane.left_out(rows, positive), plane.scores - plane.alphas * plane.squares
    errors = []
    for place in np.flatnonzero(positive):
        keep = np.arange(46) != place
        without = fit_hyperplane(rows[keep], positive[keep], cost[keep])
        exact = float((rows[[place]] @ without.weights)[0]) + without.bias
        errors.append((abs(found[place] - exact), abs(whole[place] - exact)))
    by_span, by_whole = np.mean(errors, axis=0)
    assert by_span < 0.15 and by_span < 0.5 * by_whole
    unused = plane.alphas == 0.0
    assert unused.any() and np.array_equal(found[unused], plane.scores[unused])


def training_of(
    parents: dict[int, int],
    good: set[int],
    each: int = 8,
    others: int = 40,
    words: dict[int, tuple[int, ...]] | None = None,
    anchors: int = 0,
) -> TrainingSet:
    """`each` examples of every leaf; `words` has the topics whose words its pages have, itself by default."""
    hierarchy = hierarchy_of(parents, good)
    leaves = [kcid for kcid in parents if not hierarchy.children(kcid)]
    examples = [
        Example(kcid, page((words or {}).get(kcid, (kcid,)), seed, anchors=anchors), name=f"{kcid}/{seed}")
        for kcid in leaves
        for seed in range(each)
    ]
    common_sense = tuple(Example(ROOT, page((), seed), positive=False) for seed in range(others))
    return TrainingSet(hierarchy, tuple(examples), common_sense, terms=TERMS)


def trained(training: TrainingSet, spaces: tuple[str, ...] = ALL, **changes: object) -> SvmTree:
    return SvmTree.train(training, Settings(classify=dataclasses.replace(ClassifySettings(spaces=spaces), **changes)))  # type: ignore[arg-type]


@cache
def flat() -> SvmTree:
    """Three topics, 1 and 2 wanted, 3 only known; judges by three spaces."""
    return trained(training_of(FLAT, {1, 2}, anchors=6))


DEEP_WORDS = {11: (1, 11), 12: (1, 12)}


@cache
def deep() -> SvmTree:
    """11 and 12 below 1; 11 is wanted."""
    return trained(training_of(DEEP, {11}, words=DEEP_WORDS))


# -- decisions


def oracle(training: TrainingSet, topic: int, pages: list[ClassifierInput], features: int) -> list[float]:
    """Confidences in a topic of a flat tree, with scikit-learn for the machine and plain loops for the rest."""
    space = make_space("terms", ClassifySettings())
    vectors = [space.vector(example.item) for example in training]
    idf = Idf().fit(vectors)
    ours = np.array([example.positive and example.kcid == topic for example in training])
    mine = [vector for vector, is_ours in zip(vectors, ours, strict=True) if is_ours]
    rest = [vector for vector, is_ours in zip(vectors, ours, strict=True) if not is_ours]
    ids = select(mine, rest, candidates=5000, features=features).tolist()

    def row(vector: Vector) -> list[float]:
        weighed = idf.weigh(vector)
        values = dict(zip(weighed.ids.tolist(), weighed.values.tolist(), strict=True))
        return [values.get(number, 0.0) for number in ids]

    rows = np.array([row(vector) for vector in vectors])
    cost = np.where(ours, len(rest) / len(mine), 1.0)
    machine = SVC(kernel="linear", C=1.0, tol=1e-6).fit(rows, ours, sample_weight=cost)
    scores = machine.decision_function(rows)
    without_self = scores.copy()
    for place, dual in zip(machine.support_, machine.dual_coef_[0], strict=True):
        without_self[place] -= dual * (rows[place] @ rows[place])
    others = without_self[~ours]
    clear = np.sort(others)
    middle = (without_self[ours].mean() + np.interp(0.98 * (len(clear) - 1), range(len(clear)), clear)) / 2
    threshold = min(0.0, max(others.mean() + 2.5 * others.std(), middle))
    new = machine.decision_function(np.array([row(space.vector(one)) for one in pages]))
    return ((new - threshold) / (threshold - others.mean())).tolist()


@pytest.mark.parametrize(("features", "each"), [(2000, 5), (50, 5), (2000, 1)])
def test_confidences_are_those_of_scikit_learn(features: int, each: int) -> None:
    """For one space, every topic's confidence is that of a machine of scikit-learn on the same features."""
    training = training_of(FLAT, {1, 2}, each=each)
    judge = trained(training, ("terms",), features=features)
    pages = [page((kcid,), 900 + seed, own_share=0.2) for kcid in (1, 2, 3) for seed in range(4)] + [page((), 990)]
    steps = [{step.topic: step.confidence for step in judge.explain(one).steps} for one in pages]
    for topic in (1, 2, 3):
        expected = oracle(training, topic, pages, features)
        assert [step[topic] for step in steps] == pytest.approx(expected, abs=0.02, rel=0.01)


def test_pages_of_the_topics_and_of_none() -> None:
    """New pages go where their words belong; those of no topic to OTHERS; the topic that is only known is not relevant."""
    for seed in range(500, 512):
        for topic in (1, 2, 3):
            judgement = flat().judge(page((topic,), seed, anchors=5))
            assert (judgement.topic, judgement.accepted) == (topic, True)
            assert judgement.is_relevant == (topic != 3)
            assert judgement.confidence > 0
        nothing = flat().judge(page((), seed))
        assert (nothing.topic, nothing.accepted, nothing.is_relevant) == (ROOT, False, False)
        assert nothing.confidence < 0 and nothing.relevance < 0.2


def test_down_the_tree() -> None:
    """A page goes down to a leaf; one that fits the parent but none of its children stays there, accepted, not wanted."""
    for seed in range(500, 510):
        assert deep().judge(page((1, 11), seed)).topic == 11
        assert deep().judge(page((1, 11), seed)).is_relevant
        assert deep().judge(page((1, 12), seed)).topic == 12
        assert not deep().judge(page((1, 12), seed)).is_relevant
        assert deep().judge(page((2,), seed)).topic == 2
        between = deep().judge(page((1,), seed))
        assert (between.topic, between.accepted, between.is_relevant) == (1, True, False)


def test_a_single_topic() -> None:
    """A tree that is nothing but a root competes with OTHERS: accepted or not, the topic is the root."""
    judge = trained(training_of(ALONE, {0}, each=4, words={0: (1,)}))
    yes, no = judge.judge(page((1,), 500)), judge.judge(page((), 500))
    assert (yes.topic, yes.accepted, yes.is_relevant, yes.undoubted) == (ROOT, True, True, True)
    assert (no.topic, no.accepted, no.is_relevant) == (ROOT, False, False)


@pytest.mark.parametrize("each", [1, 2, 5])
def test_few_examples_find_their_topic(each: int) -> None:
    """With very few examples against a hundred others, most new pages of the topic are found, few others taken."""
    judge = trained(training_of(ALONE, {0}, each=each, others=100, words={0: (1,)}), ("terms",))
    found = [judge.judge(page((1,), seed)).is_relevant for seed in range(500, 530)]
    taken = [judge.judge(page((), seed)).is_relevant for seed in range(500, 560)]
    assert np.mean(found) > 0.7
    assert np.mean(taken) < 0.1


# -- votes


def test_a_space_with_nothing_to_look_at_does_not_vote() -> None:
    """A page without anchors is not held against its topic by the space of anchors, and its vote is missing."""
    judge = trained(training_of(FLAT, {1}, anchors=6), ("terms", "anchors"), meta="unanimous")
    with_links, without = page((1,), 500, anchors=6), page((1,), 500)
    assert set(judge.judge(with_links).votes) == {"terms", "anchors"}
    assert judge.judge(with_links).undoubted
    judgement = judge.judge(without)
    assert set(judgement.votes) == {"terms"}
    assert judgement.topic == 1 and not judgement.undoubted  # one voter is not two


def test_unanimous_needs_all_votes() -> None:
    """A page whose text and links speak for different topics is taken by neither when all must agree."""
    training = training_of(FLAT, {1, 2}, anchors=8)
    torn = dataclasses.replace(page((1,), 500), anchors=page((2,), 500, anchors=8).anchors)
    unanimous = trained(training, ("terms", "anchors"), meta="unanimous").judge(torn)
    assert not unanimous.accepted and not unanimous.is_relevant
    assert unanimous.relevance > 0.0  # in doubt rather than refused
    assert unanimous.agreed in (["terms"], ["anchors"])
    weighted = trained(training, ("terms", "anchors"), meta="weighted")
    assert weighted.judge(page((1,), 500, anchors=8)).agreed == ["terms", "anchors"]


def test_best_asks_one_space() -> None:
    """The space of noise has the worse estimate, so that only the other is asked, wherever it stands in the setting."""
    training = training_of(FLAT, {1, 2}, each=20)
    noisy = [
        dataclasses.replace(
            example,
            item=dataclasses.replace(
                example.item, neighbours=np.random.default_rng(n).integers(1, 50, 30, dtype=np.uint32)
            ),
        )
        for n, example in enumerate(training)
    ]
    count = len(training.examples)
    training = dataclasses.replace(training, examples=tuple(noisy[:count]), others=tuple(noisy[count:]))
    for spaces in (("neighbours", "terms"), ("terms", "neighbours")):
        judge = trained(training, spaces, meta="best")
        assert [spaces[number] for number in judge.voting_spaces] == ["terms"]
        judgement = judge.judge(page((1,), 500))
        assert set(judgement.votes) == {"terms"} and judgement.topic == 1 and not judgement.undoubted


def test_estimates_choose_the_number_of_features() -> None:
    """With `tune_features` each topic has one of four numbers of features, and none has a worse estimate for it."""
    training = training_of(FLAT, {1, 2}, each=15)
    fixed, tuned = (trained(training, ("terms",), features=160, tune_features=tune) for tune in (False, True))
    for before, after in zip(fixed.trained.planes, tuned.trained.planes, strict=True):
        assert len(before.ids) == 160 and len(after.ids) in (160, 80, 40, 20)
        assert (after.estimate.precision + after.estimate.recall) >= (
            before.estimate.precision + before.estimate.recall
        ) or len(after.ids) == 160


@SPACES.register("test-circle")
class Circle:
    """A dense space: two numbers, whichever way the sum of the stems points."""

    name, dense = "test-circle", True

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    def vector(self, item: ClassifierInput) -> Vector:
        own = item.stems[item.stems >= 1000]
        if not len(own):
            return Vector(np.zeros(0, np.uint64), np.zeros(0))
        angle = float(np.mean(own // 1000)) + 0.8 * np.sin(float(item.stems.sum()))
        return Vector(np.array([0, 1], np.uint64), 7.0 * np.array([np.cos(angle), np.sin(angle)]))

    def names(self, item: ClassifierInput, terms: object) -> dict[int, str]:
        return {0: "east", 1: "north"}


def test_a_dense_space() -> None:
    """All its features are kept, negative ones too, and pages of any length of vector are judged by its direction."""
    training = training_of(FLAT, {1, 2}, others=0)
    judge = trained(training, ("test-circle",), features=1)
    rows = np.array([Circle(ClassifySettings()).vector(example.item).values / 7.0 for example in training])
    first = np.array([example.kcid == 1 for example in training])
    plane = fit_hyperplane(csr_matrix(rows), first, error_costs(first, 1.0))
    assert (rows @ rows.T).min() < -0.5  # so that x.x - x.x' may be far greater than the length of x
    assert judge.trained.planes[0].estimate == estimate(plane.scores, plane.alphas, first, 2.0, USUAL_RHO)
    assert judge.trained.planes[0].estimate != estimate(plane.scores, plane.alphas, first, 1.0, USUAL_RHO)
    assert all(len(plane.ids) == 2 for plane in judge.trained.planes)
    assert judge.judge(page((1,), 500)).topic == 1
    assert judge.judge(page((3,), 500)).topic == 3
    assert {reason.feature for step in judge.explain(page((1,), 500)).steps for reason in step.reasons} == {
        "east",
        "north",
    }
    assert SvmTree.from_bytes(judge.to_bytes()).judge(page((1,), 500)) == judge.judge(page((1,), 500))


# -- explanations, confidences, bytes


def test_explanations_add_up() -> None:
    """Every competing topic on the way is a step; the judgement is the same; the reasons are the topic's own words."""
    one = page((1, 11), 500)
    explanation = deep().explain(one)
    assert explanation.judgement == deep().judge(one)
    assert [step.topic for step in explanation.steps] == [1, 2, 11, 12]
    assert [step.topic for step in explanation.steps if step.taken] == [1, 11]
    assert min(step.confidence for step in explanation.steps if step.taken) == explanation.judgement.confidence
    for step in explanation.steps:
        assert set(step.votes) == set(step.estimates) == set(ALL)
        sizes = [abs(reason.weight) for reason in step.reasons]
        assert sizes == sorted(sizes, reverse=True) and len(sizes) == 10
    strongest = explanation.steps[2].reasons[0]
    assert strongest.weight > 0 and "word11x" in strongest.feature


def test_votes_are_sums_over_features() -> None:
    """At every node of the tree, a vote is the sum of weight times value over the features of that hyperplane alone."""
    one = page((1, 11), 500)
    found = {step.topic: step.votes for step in deep().explain(one).steps}
    for plane in deep().trained.planes:
        space = make_space(ALL[plane.space], ClassifySettings())
        weighed = deep().trained.idfs[plane.space].weigh(space.vector(one))
        values = dict(zip(weighed.ids.tolist(), weighed.values.tolist(), strict=True))
        pairs = zip(plane.ids.tolist(), plane.weights.tolist(), strict=True)
        expected = sum(weight * values.get(number, 0.0) for number, weight in pairs) + plane.bias
        assert found[plane.topic][ALL[plane.space]] == pytest.approx(expected, abs=1e-4)


def test_a_judgement_shows_the_weakest_votes_on_its_way() -> None:
    """By space, the vote of a judgement is the least of those at the topics that took the page."""
    for seed in range(500, 505):
        explanation = deep().explain(page((1, 12), seed))
        taken = [step for step in explanation.steps if step.taken]
        assert len(taken) == 2
        weakest = {space: min(step.votes[space] for step in taken) for space in ALL}
        assert explanation.judgement.votes == weakest
        assert explanation.judgement.undoubted == all(vote > 0 for vote in weakest.values())


def test_reasons_are_the_parts_of_the_vote() -> None:
    """In a single space, all parts and the bias together are the vote."""
    judge = trained(training_of(ALONE, {0}, words={0: (1,)}), ("terms",))
    features = judge._features(page((1,), 500))
    panel = judge._competitions[-1].panels[0]
    assert panel.parts(features[0], 0).values.sum() + panel.biases[0] == pytest.approx(
        panel.votes(features[0])[0], abs=1e-5
    )


def test_training_documents_have_confidences() -> None:
    """Each positive example has the confidence in its own topic that judging it gives; others have none."""
    training = training_of(DEEP, {11}, words=DEEP_WORDS)
    empty = Example(11, ClassifierInput(np.zeros(3, np.uint32)))
    found = deep().confidences(dataclasses.replace(training, examples=(*training.examples, empty)))
    assert [example.name for example, _ in found] == [example.name for example in training.examples]
    for example, confidence in found:
        judgement = deep().judge(example.item)
        if judgement.topic == example.kcid:
            assert confidence == judgement.confidence
    assert np.mean([confidence > 0 for _, confidence in found]) > 0.9


stems = st.lists(
    st.one_of(st.sampled_from([0, 1, 2, 1001, 1002, 2001, 11001, 12001]), st.integers(0, 2**32 - 1)), max_size=40
)


@settings(max_examples=40)
@given(stems, stems, stems)
def test_any_page_is_judged_alike_after_a_round_trip(
    words: list[int], anchors: list[int], neighbours: list[int]
) -> None:
    """Whatever the page, it is judged, and exactly so by the tree made again from its bytes."""
    one = ClassifierInput(*(np.array(part, np.uint32) for part in (words, anchors, neighbours)))
    for judge, again in copies():
        judgement = judge.judge(one)
        assert again.judge(one) == judgement
        assert again.explain(one) == judge.explain(one)
        assert 0.0 <= judgement.relevance <= 1.0
        assert judgement.accepted or judgement.topic == ROOT


@cache
def copies() -> list[tuple[SvmTree, SvmTree]]:
    return [(judge, SvmTree.from_bytes(judge.to_bytes())) for judge in (flat(), deep())]


def test_an_empty_page() -> None:
    """A page with nothing on it has no votes, and is as little wanted as any page about other things."""
    judgement = flat().judge(ClassifierInput(np.zeros(0, np.uint32)))
    assert (judgement.accepted, judgement.votes, judgement.confidence) == (False, {}, NO_EVIDENCE)
    assert judgement.relevance < 0.1


def test_training_reproduces() -> None:
    """The same examples give the same bytes."""
    training = training_of(FLAT, {1, 2}, anchors=6)
    assert trained(training).to_bytes() == trained(training).to_bytes()


def test_it_is_the_classifier_svm() -> None:
    """The setting finds it by its name."""
    assert CLASSIFIERS.get("svm") is SvmTree


def test_judging_needs_numpy_alone() -> None:
    """A worker that judges pages never loads scikit-learn or scipy."""
    program = (
        "import sys; from opilio.classify.svm import SvmTree; import numpy as np\n"
        "from opilio.features.classifier_input import ClassifierInput\n"
        "SvmTree.from_bytes(sys.stdin.buffer.read()).explain(ClassifierInput(np.arange(9, dtype=np.uint32)))\n"
        "assert not {'sklearn', 'scipy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], input=flat().to_bytes(), check=True, timeout=60)


def test_plain_and_sparse_documents_give_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many documents are a sparse matrix, few an array: confidences differ by rounding errors only."""
    training = training_of(DEEP, {11}, words=DEEP_WORDS, anchors=6)
    plain = trained(training)
    monkeypatch.setattr(svm_training, "MAX_PLAIN_CELLS", 0)
    sparse = trained(training)
    for seed in range(500, 510):
        item = page((1, 11), seed, anchors=3)
        one, other = plain.judge(item), sparse.judge(item)
        assert (one.topic, one.accepted, one.agreed) == (other.topic, other.accepted, other.agreed)
        assert one.votes == pytest.approx(other.votes, abs=1e-6)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-6)


def test_a_small_training_does_not_import_scipy() -> None:
    """What would take most of the time of a small training is left out of it."""
    program = (
        "import sys, numpy as np\n"
        "from opilio.classify.svm_training import SpaceRows, error_costs, fit_hyperplane\n"
        "from opilio.features.classifier_input import ClassifierInput\n"
        "from opilio.features.spaces import make_space\n"
        "from opilio.settings import ClassifySettings\n"
        "items = [ClassifierInput(np.arange(n, n + 9, dtype=np.uint32)) for n in range(9)]\n"
        "space = make_space('pairs', ClassifySettings())\n"
        "rows = SpaceRows(space, [space.vector(item) for item in items], 0, {})\n"
        "ours = np.arange(9) < 4\n"
        "fit_hyperplane(rows.documents(np.arange(9), np.arange(20)), ours, error_costs(ours, 1.0))\n"
        "assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# -- bad input


def test_a_topic_without_examples() -> None:
    """The error names the topic; its keywords, if it has any, are its training document."""
    training = training_of(FLAT, {1, 2})
    without = dataclasses.replace(training, examples=tuple(e for e in training.examples if e.kcid != 2))
    with pytest.raises(InputError, match="'p2' has no example") as caught:
        trained(without)
    assert "keywords" in caught.value.hint
    judge = trained(dataclasses.replace(without, keywords={2: "sailing boat harbour", 9: "unknown topic"}))
    words = ClassifierInput(np.array(term_ids("a harbour full of sailing boats"), np.uint32))
    assert judge.judge(words).topic == 2
    stop_words = dataclasses.replace(without, keywords={2: "the of and"})
    with pytest.raises(InputError, match="'p2' has no example"):
        trained(stop_words)


def test_keywords_do_not_replace_examples() -> None:
    """A topic that has examples learns nothing from its name."""
    training = training_of(FLAT, {1, 2})
    named = dataclasses.replace(training, keywords={1: "sailing boat harbour"})
    assert trained(named).to_bytes() == trained(training).to_bytes()


def test_keywords_of_a_child_serve_its_parent() -> None:
    """A parent whose only child with documents has keywords alone is trained on them."""
    training = training_of({0: -1, 1: 0, 2: 0, 11: 1}, {11})
    only_words = dataclasses.replace(
        training, examples=tuple(e for e in training.examples if e.kcid == 2), keywords={11: "sailing boat harbour"}
    )
    words = ClassifierInput(np.array(term_ids("sailing boat harbour"), np.uint32))
    assert trained(only_words).judge(words).topic == 11


def test_nothing_to_be_told_from() -> None:
    """One topic, no OTHERS: the error says what is missing."""
    with pytest.raises(InputError, match="'p0' has no competitors") as caught:
        trained(training_of(ALONE, {0}, others=0))
    assert "classify.others" in caught.value.hint


def test_no_others_but_siblings() -> None:
    """Topics can be told from each other without any document of OTHERS."""
    judge = trained(training_of(FLAT, {1, 2}, others=0))
    assert [judge.judge(page((topic,), 500)).topic for topic in (1, 2, 3)] == [1, 2, 3]


def test_one_example_each() -> None:
    """One example a topic, and one of OTHERS, are enough to be trained on."""
    judge = trained(training_of(FLAT, {1, 2}, each=1, others=1))
    assert judge.judge(page((1,), 0)).topic == 1


def test_two_identical_topics() -> None:
    """Topics with the same documents cannot be told apart; judging works all the same, and always alike."""
    training = training_of(FLAT, {1, 2}, words={1: (1,), 2: (1,), 3: (3,)})
    twin = tuple(
        dataclasses.replace(example, item=page((1,), n % 8)) if example.kcid in (1, 2) else example
        for n, example in enumerate(training.examples)
    )
    judge = trained(dataclasses.replace(training, examples=twin))
    judgements = [judge.judge(page((1,), 500)) for _ in range(3)]
    assert judgements[0] == judgements[1] == judgements[2]
    assert abs(judgements[0].confidence) < 2.0
    assert judge.judge(page((3,), 500)).topic == 3


def test_empty_examples_are_skipped() -> None:
    """Documents with no words among the examples change nothing in any decision."""
    training = training_of(FLAT, {1, 2})
    empty = ClassifierInput(np.zeros(5, np.uint32))
    more = dataclasses.replace(
        training,
        examples=(*training.examples, Example(1, empty), Example(2, empty, positive=False)),
        others=(*training.others, Example(ROOT, empty, positive=False)),
    )
    one, other = trained(training), trained(more)
    for mine, theirs in zip(one.trained.planes, other.trained.planes, strict=True):
        assert np.array_equal(mine.ids, theirs.ids)
        assert mine.estimate == theirs.estimate


def test_no_space() -> None:
    """Without any feature space there is nothing to learn from."""
    with pytest.raises(InputError, match="no feature space"):
        trained(training_of(FLAT, {1}), ())


# -- the parts that are only faster ways to do what others do


vectors = st.dictionaries(st.integers(1, 30), st.integers(1, 5), min_size=1, max_size=12).map(
    lambda counts: ClassifierInput(
        np.array([stem for stem, count in sorted(counts.items()) for _ in range(count)], np.uint32)
    )
)


@given(
    st.lists(vectors, min_size=1, max_size=5),
    st.lists(vectors, min_size=1, max_size=5),
    st.integers(1, 30),
    st.integers(1, 30),
    st.booleans(),
)
def test_selection_on_a_matrix(
    ours: list[ClassifierInput], others: list[ClassifierInput], candidates: int, features: int, only_ours: bool
) -> None:
    """The features are those, in that order, which `select` chooses from vectors, and the rows what `weigh` gives;
    also when columns are left out that are never selected."""
    space = make_space("terms", ClassifySettings())
    selecting = len(ours) if only_ours else None
    rows = SpaceRows(space, [space.vector(one) for one in (*ours, *others)], 0, {}, selecting)
    everyone = np.arange(len(ours) + len(others))
    mine = everyone[: len(ours)]
    columns = rows.select(mine, rows.presence(everyone), len(everyone), candidates, features)
    expected = select(
        [space.vector(one) for one in ours],
        [space.vector(one) for one in others],
        candidates=candidates,
        features=features,
    )
    assert rows.ids[columns].tolist() == expected.tolist()
    weighed = rows.idf.weigh(space.vector(ours[0]))
    first = csr_matrix(rows.documents(mine[:1], np.arange(len(rows.ids)))).toarray()[0]
    assert first[np.searchsorted(rows.ids, weighed.ids)] == pytest.approx(weighed.values)


@given(
    st.lists(vectors, min_size=1, max_size=6),
    vectors,
    st.sets(st.integers(0, 40)),
    st.sampled_from(["terms", "terms+anchors"]),
)
def test_a_lens_weighs_as_idf_does(
    seen: list[ClassifierInput], new: ClassifierInput, chosen: set[int], spec: str
) -> None:
    """Through a lens a page has the chosen features only, with the very weights they have among all of them."""
    space: Space = make_space(spec, ClassifySettings())
    idf = Idf().fit([space.vector(one) for one in seen], 100, {1: 60, 2: 3, 35: 9})
    new = dataclasses.replace(new, anchors=new.stems)
    lens = SpaceView(space, idf, np.array(sorted(chosen), np.uint64))
    whole = idf.weigh(space.vector(new))
    kept = np.isin(whole.ids, lens.chosen)
    found = lens.features_of(new)
    assert lens.chosen[found.places].tolist() == whole.ids[kept].tolist()
    assert found.values.tolist() == whole.values[kept].astype(np.float32).tolist()


def met_pages(right: int, wrong: int) -> tuple[Example, ...]:
    """Pages of a crawl: some of topic 1, the others of topics that nobody asked for."""
    found = [page((1,), 100 + seed, own_share=0.15) for seed in range(right)]
    found += [page((2 + seed % 2,), 300 + seed, own_share=0.15) for seed in range(wrong)]
    return tuple(Example(-1, one, positive=False) for one in found)


@pytest.mark.parametrize("spaces", [("terms",), ALL])
def test_pages_met_show_where_the_topic_ends(spaces: tuple[str, ...]) -> None:
    """Without them nearly everything is accepted that has words of the web; with them nearly all that is right, and
    little else. The relevance of a page with features in all spaces is what the calibration says of the mean of their
    scores, and survives storing."""
    words = {0: (1,)}
    training = training_of(ALONE, {0}, each=5, words=words)
    met = met_pages(30, 170)
    tree = trained(dataclasses.replace(training, met=met), spaces)
    said = [tree.judge(example.item) for example in met]
    accepted = [judgement.is_relevant for judgement in said]
    assert sum(accepted[:30]) >= 22
    assert sum(accepted[30:]) <= 8
    assert all(judgement.accepted == judgement.is_relevant for judgement in said)
    assert [judgement.relevance for judgement in said] == [
        judgement.relevance for judgement in map(SvmTree.from_bytes(tree.to_bytes()).judge, (e.item for e in met))
    ]
    calibration = tree.trained.calibrations[0]
    assert calibration == SvmTree.from_bytes(tree.to_bytes()).trained.calibrations[0]
    chances = calibration.probabilities(np.array([judgement.relevance for judgement in said]))
    assert (chances >= calibration.threshold - 1e-6).tolist() == accepted


def test_what_the_user_prefers_moves_the_threshold() -> None:
    """Who prefers precision gets a part of what a balance gives, and who prefers recall gets more."""
    training = dataclasses.replace(training_of(ALONE, {0}, each=5, words={0: (1,)}), met=met_pages(30, 170))
    found = [
        {place for place, one in enumerate(training.met) if tree.judge(one.item).is_relevant}
        for tree in (trained(training, prefer=wish) for wish in ("precision", "balance", "recall"))
    ]
    assert found[0] <= found[1] <= found[2] and len(found[0]) < len(found[2])


def test_answers_teach_a_topic() -> None:
    """Pages that the user refused as found by the crawl, though they have words of the topic, are refused afterwards,
    and so are pages like them; the calibration has learned from all answers."""
    training = training_of(ALONE, {0}, each=5, words={0: (1,)})
    mixed = [page((1, 2), 500 + seed, own_share=0.4) for seed in range(20)]
    met = (*met_pages(30, 120), *(Example(-1, one, positive=False) for one in mixed[8:]))
    answered = [Example(0, one, positive=False, answered=True) for one in mixed[:8]]
    answered += [Example(0, page((1,), 900 + seed, own_share=0.15), answered=True) for seed in range(4)]
    before = trained(dataclasses.replace(training, met=met))
    after = trained(dataclasses.replace(training, met=met, examples=(*training.examples, *answered)))
    assert after.trained.calibrations[0].answers == 12
    like_refused = [tree_said for one in mixed[8:] if (tree_said := after.judge(one).is_relevant)]
    assert len(like_refused) < sum(before.judge(one).is_relevant for one in mixed[8:])
    assert sum(after.judge(example.item).is_relevant for example in met[:30]) >= 20
