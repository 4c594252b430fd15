"""The cosine classifier against similarities worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.classify import Example, Model, TrainingSet
from opilio.classify.cosine import KEYWORDS_ONLY, SINGLE, CosineJudge
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput, TextReader
from opilio.model import RELEVANT
from opilio.settings import Settings
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node

WORDS = ["owl", "barn", "hawk", "nest", "egg", "wing", "feather", "beak", "claw", "prey"]
pages = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 20), max_size=len(WORDS))


def item(counts: dict[str, int]) -> ClassifierInput:
    """A page with these words."""
    return TextReader().read("", " ".join(word for word, count in counts.items() for _ in range(count)), "en")


def unit(counts: dict[str, float]) -> dict[str, float]:
    length = math.sqrt(sum(value**2 for value in counts.values()))
    return {word: value / length for word, value in counts.items()} if length else {}


def cosine(one: dict[str, float], other: dict[str, float]) -> float:
    ones, others = unit(one), unit(other)
    return sum(ones[word] * others.get(word, 0.0) for word in ones)


def trained(examples: list[dict[str, int]], keywords: str = "", topic: int = ROOT) -> CosineJudge:
    nodes = [Node(ROOT, ABOVE_ROOT, "birds", "", Mark.GOOD if topic == ROOT else Mark.PATH)]
    if topic != ROOT:
        nodes.append(Node(topic, ROOT, "owls", "owls", Mark.GOOD))
    known = tuple(Example(topic, item(counts)) for counts in examples)
    return CosineJudge.train(TrainingSet(Hierarchy(nodes), known, keywords={topic: keywords}), Settings())


OWLS: list[dict[str, int]] = [{"owl": 6, "barn": 2}, {"owl": 3, "nest": 1}, {"owl": 2, "prey": 2}]


@given(pages)
def test_the_confidence_is_the_cosine_with_the_sum_of_the_examples(page: dict[str, int]) -> None:
    """Each example counts the same, however long it is; a page is accepted from the mean similarity among examples."""
    lengths = [unit({word: float(count) for word, count in one.items()}) for one in OWLS]
    whole = {word: sum(one.get(word, 0.0) for one in lengths) for word in WORDS}
    rest = [{word: whole[word] - one.get(word, 0.0) for word in WORDS} for one in lengths]
    accepted_from = sum(cosine(one, others) for one, others in zip(lengths, rest, strict=True)) / len(OWLS)
    judgement = trained(OWLS).judge(item(page))
    similarity = cosine({word: float(count) for word, count in page.items()}, whole)
    assert judgement.votes["cosine"] == pytest.approx(similarity, abs=1e-9)
    assert judgement.confidence == pytest.approx(similarity - accepted_from, abs=1e-9)
    if abs(similarity - accepted_from) > 1e-9:
        assert judgement.accepted == (similarity > accepted_from) == (judgement.relevance > RELEVANT)


@given(st.lists(pages, min_size=2, max_size=6))
def test_relevance_orders_pages_as_the_cosine_does(some: list[dict[str, int]]) -> None:
    """So Best-N-First fetches in the paper's order."""
    found = [trained(OWLS).judge(item(page)) for page in some]
    by_cosine = sorted(found, key=lambda one: one.votes["cosine"])
    assert [one.relevance for one in by_cosine] == sorted(one.relevance for one in found)
    assert all(0.0 <= one.relevance <= 1.0 for one in found)


def test_keywords_stand_for_a_topic_without_examples() -> None:
    """They are also one more example where there are some; a topic with neither takes no part."""
    judge = CosineJudge.of_keywords({1: "barn owl", 2: ""})
    page = {"barn": 3, "owl": 4, "egg": 5}
    found = judge.judge(item(page))
    assert (found.topic, found.accepted) == (1, True)
    assert found.votes["cosine"] == pytest.approx((3 + 4) / (math.sqrt(2) * math.sqrt(50)))
    refused = judge.judge(item({"owl": 1, "egg": 9}))
    assert (refused.accepted, refused.topic) == (False, ROOT), f"less than {KEYWORDS_ONLY}: no topic takes it"
    assert CosineJudge.of_keywords({}).judge(item(page)).relevance == 0.0
    assert trained([{"owl": 1}], "hawk").judge(item({"hawk": 1})).votes["cosine"] == pytest.approx(math.sqrt(0.5))


def test_a_single_example_accepts_from_a_fixed_similarity() -> None:
    """There is no other example to compare it with."""
    judge = trained([{"owl": 1}])
    for count, accepted in ((9, 9 / math.hypot(9, 20) > SINGLE), (1, False)):
        assert judge.judge(item({"owl": count, "egg": 20})).accepted is accepted


def test_a_topic_below_the_root_and_its_explanation() -> None:
    """The topic is named, its strongest words come first, and a model read back judges the same."""
    model = Model(3, "cosine", trained(OWLS, topic=7))
    again = Model.from_bytes(model.to_bytes())
    page = item({"owl": 4, "barn": 1, "egg": 2})
    assert again.judge(page) == model.judge(page)
    assert (again.judge(page).topic, again.judge(page).model_version) == (7, 3)
    [step] = again.explain(page).steps
    weights = [reason.weight for reason in step.reasons]
    assert len(weights) == 2 and weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(step.votes["cosine"])


def test_a_page_goes_to_the_topic_below_a_good_one_that_it_resembles() -> None:
    """A good topic covers those below it; each that has examples can take pages."""
    nodes = [
        Node(ROOT, ABOVE_ROOT, "all", "", Mark.PATH), Node(1, ROOT, "birds", "birds", Mark.GOOD),
        Node(2, 1, "owls", "birds / owls", Mark.SUBSUMED), Node(3, 1, "hawks", "birds / hawks", Mark.SUBSUMED),
    ]  # fmt: skip
    examples = (Example(2, item({"owl": 3, "nest": 1})), Example(3, item({"hawk": 3, "claw": 1})))
    judge = CosineJudge.train(TrainingSet(Hierarchy(nodes), examples), Settings())
    assert [judge.judge(item({word: 3})).topic for word in ("owl", "hawk")] == [2, 3]


def test_examples_without_words_are_refused() -> None:
    """And a page without words is like nothing."""
    with pytest.raises(InputError, match="no topic has an example with words"):
        trained([{}])
    assert trained(OWLS).judge(item({})).relevance == 0.0
