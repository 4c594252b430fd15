"""The OASIS filter: thresholds, families of metrics, variable parts, and what it travels as."""

import dataclasses
import random
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.classify import CLASSIFIERS, Example, Model, TrainingSet
from opilio.classify.oasis import METRICS, OasisFilter, draw_middle, relevance, tuned, tuned_apart
from opilio.classify.oasis_filter import ElementCount, proposals
from opilio.errors import InputError, SettingsError
from opilio.features.classifier_input import ClassifierInput, TextReader
from opilio.settings import OasisSettings, Settings
from opilio.topics.hierarchy import Hierarchy, Mark, Node


def _words(text: str) -> list[str]:
    return text.split()


TREES = _words("binary search tree node leaf balanced rotation insert delete depth height root parent child subtree")
COOKING = _words("fresh tomato sauce garlic onion olive oil simmer boil roast oven pasta butter recipe spoon")
ENGINES = _words("diesel engine piston crankshaft torque cylinder valve fuel injection turbo exhaust gearbox clutch")
COMMON = _words("page home contact welcome people time good year work know thing place long small big")


def prose(words: Sequence[str], seed: int, length: int = 120) -> str:
    """Sentences of neighbouring words of the list, mixed with words that everybody uses."""
    chance = random.Random(seed)
    parts = []
    for _ in range(length // 4):
        at = chance.randrange(len(words) - 2)
        parts += [*words[at : at + 3], chance.choice(COMMON), "the" if chance.random() < 0.5 else "and"]
        parts[-1] += chance.choice([".", "", ","])
    return " ".join(parts)


LENIENT = dataclasses.replace(Settings(), oasis=OasisSettings(core_share=1.0))
"""Settings by which the whole core is recognised, and so nearly every page like it."""


def varied_core(library: "Library", topic: str, size: int) -> list[ClassifierInput]:
    """Documents that share words and phrases of a topic, some more and some less often, as those of the web do."""
    chance = random.Random(topic)
    consonants, vowels = "bdfgklmnprstvz", "aiou"
    syllables = [c + v for c in consonants for v in vowels]
    words = [topic + chance.choice(syllables) + chance.choice(syllables) + "k" for _ in range(150)]
    phrases = [chance.sample(words, 3) for _ in range(50)]
    pages = []
    for _ in range(size):
        length, parts = chance.randrange(80, 400), []
        while len(parts) < length:
            rare = int(150 * chance.random() ** 2)
            parts += chance.choice(phrases) if chance.random() < 0.2 else [words[rare], chance.choice(COMMON)]
            parts.append("and" if chance.random() < 0.5 else "the")
        pages.append(library.reader.read("", " ".join(parts), "en"))
    return pages


class Library:
    """Reads texts and makes training sets of them."""

    def __init__(self) -> None:
        self.reader = TextReader()

    def page(self, words: Sequence[str], seed: int, url: str = "", length: int = 120) -> ClassifierInput:
        return self.reader.read("", prose(words, seed, length), "en", url)

    def training(self, topics: dict[str, list[ClassifierInput]], marks: dict[str, Mark] | None = None) -> TrainingSet:
        nodes = [Node(0, -1, "everything", "", Mark.PATH)]
        examples = []
        for kcid, (path, pages) in enumerate(topics.items(), 1):
            parent = next((n.kcid for n in nodes if n.kcid and path.startswith(f"{n.path} / ")), 0)
            nodes.append(Node(kcid, parent, path, path, (marks or {}).get(path, Mark.GOOD)))
            examples += [Example(kcid, page) for page in pages]
        return TrainingSet(Hierarchy(nodes), tuple(examples), terms=dict(self.reader.terms))

    def three_topics(self, size: int = 12, marks: dict[str, Mark] | None = None) -> TrainingSet:
        lists = {"trees": TREES, "cooking": COOKING, "engines": ENGINES}
        return self.training(
            {
                path: [self.page(words, 100 * i + n) for n in range(size)]
                for i, (path, words) in enumerate(lists.items())
            },
            marks,
        )


@pytest.fixture(scope="module")
def library() -> Library:
    return Library()


@pytest.fixture(scope="module")
def trained(library: Library) -> OasisFilter:
    return OasisFilter.train(library.three_topics(), LENIENT)


def fresh(judge: OasisFilter) -> OasisFilter:
    return OasisFilter.from_bytes(judge.to_bytes())


def test_it_is_registered_as_oasis() -> None:
    """The setting classify.classifier = "oasis" finds it."""
    assert CLASSIFIERS.get("oasis") is OasisFilter


def test_pages_go_to_their_topics(library: Library, trained: OasisFilter) -> None:
    """Unseen pages of each topic are taken by it, without doubt; pages of common words by none."""
    for kcid, words in ((1, TREES), (2, COOKING), (3, ENGINES)):
        judgement = trained.judge(library.page(words, 9000 + kcid, length=400))
        assert (judgement.topic, judgement.accepted, judgement.undoubted) == (kcid, True, True)
        assert judgement.relevance >= 0.75
        assert judgement.confidence > 0
    other = trained.judge(library.page(COMMON, 1))
    assert (other.topic, other.accepted, other.agreed) == (0, False, [])
    assert other.relevance < 0.5
    assert other.confidence < 0


def test_unattended_only_undoubted_pages_are_accepted(library: Library) -> None:
    """A model that accepts only undoubted pages refuses the others, just below the threshold of relevance; so do its
    explanations and its bytes (OASIS 6)."""
    pages = varied_core(library, "lu", 40)
    trained = OasisFilter.train(library.training({"lu": pages}), Settings())
    open_minded = Model(3, "oasis", trained)
    model = Model.from_bytes(Model(3, "oasis", trained, only_undoubted=True).to_bytes())
    doubtful = 0
    for page in pages:
        said, strict = open_minded.judge(page), model.judge(page)
        assert strict == model.explain(page).judgement
        assert (strict.accepted, strict.is_relevant) == (said.undoubted, said.undoubted)
        assert (strict.votes, strict.agreed, strict.model_version) == (said.votes, said.agreed, 3)
        if said.accepted and not said.undoubted:
            doubtful += 1
            assert (strict.topic, float(np.float32(strict.relevance)) < 0.5) == (0, True)
            assert strict.relevance > 0.499
        else:
            assert strict == said
    assert doubtful


def test_votes_agree_with_what_is_agreed(library: Library, trained: OasisFilter) -> None:
    """A vote is a value relative to its threshold: those from 1 on, and no others, are the metrics that agreed."""
    for seed in range(60):
        words = [TREES, COOKING, ENGINES, COMMON][seed % 4][: 3 + seed % 7]
        judgement = trained.judge(library.page(words, seed, length=8 + seed))
        assert set(judgement.votes) == set(METRICS)
        assert judgement.agreed == [name for name in METRICS if judgement.votes[name] >= 1]
        assert judgement.accepted == bool(judgement.agreed) == judgement.is_relevant
        families = {name in ("vector", "passages") for name in judgement.agreed}
        assert judgement.undoubted == (len(families) == 2) == (judgement.relevance >= 0.75)


@pytest.mark.parametrize("share", [0.3, 0.65, 1.0])
def test_the_whole_filter_recognises_the_wanted_share_of_the_core(library: Library, share: float) -> None:
    """All metrics together, not each alone, recognise 65 % of a core of 60; as do other shares (OASIS 4, step 4)."""
    training = library.training({topic: varied_core(library, topic, 60) for topic in ("lu", "mo", "ra")})
    judge = OasisFilter.train(training, dataclasses.replace(Settings(), oasis=OasisSettings(core_share=share)))
    for kcid in (1, 2, 3):
        core = [judge.judge(example.item) for example in training.of(kcid)]
        recognised = [said for said in core if said.accepted and said.topic == kcid]
        assert len(recognised) / 60 == pytest.approx(share, abs=0.05)
        alone = {name: sum(said.votes[name] >= 1 for said in recognised) for name in METRICS}
        assert min(alone.values()) > 0  # no metric is silenced to get there
        assert max(alone.values()) < len(recognised) or share == 1.0


VALUES = st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.3, 0.5, 0.7, 1.0])


@given(
    st.integers(1, 25).flatmap(lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=1, max_size=4)),
    st.floats(0.01, 1.0),
)
def test_thresholds_are_values_of_the_core(rows: list[list[float]], share: float) -> None:
    """Each threshold is a value that some document has, or 0 if none has any; and some document reaches one."""
    values = np.array(rows)
    thresholds = tuned(values, share)
    for row, least in zip(rows, thresholds, strict=True):
        assert (least in row and least > 0) or not any(row)
    reached = [any(v >= t > 0 for v, t in zip(column, thresholds, strict=True)) for column in values.T]
    assert any(reached) == bool(values.any())


@given(st.integers(2, 40), st.integers(1, 4), st.floats(0.2, 1.0), st.randoms(use_true_random=False))
def test_thresholds_meet_the_share_exactly_without_ties(
    size: int, metrics: int, share: float, chance: random.Random
) -> None:
    """When no two documents have the same value, the share is met to half a document, unless it is very small."""
    values = np.array([[(rank + 1) / size for rank in chance.sample(range(size), size)] for _ in range(metrics)])
    thresholds = np.array(tuned(values, share))
    reached = int((values >= thresholds[:, None]).any(axis=0).sum())
    if share * size >= metrics:  # the strictest thresholds let one document of each metric pass
        assert abs(reached - share * size) <= 0.5 + 1e-9


def test_hand_computed_thresholds() -> None:
    """Two metrics, four documents, half of them: the best of each metric passes, and no other."""
    values = np.array([[0.9, 0.5, 0.2, 0.0], [0.1, 0.2, 0.3, 0.8]])
    assert tuned(values, 0.5) == (0.9, 0.8)
    assert tuned(values, 0.75) == (0.5, 0.8)
    assert tuned(values, 1.0) == (0.5, 0.3)
    assert tuned(np.array([[0.9, 0.5], [0.0, 0.0]]), 0.5) == (0.9, 0.0)


def test_passages_have_half_the_threshold(library: Library) -> None:
    """Their threshold is at least that share of the whole page's that the settings say; 0 silences the metric.

    It is higher where half of it would recognise more of the core than the other metrics do.
    """
    training = library.training({"lu": varied_core(library, "lu", 30)})
    ratios = {}
    for share in (0.5, 2.0, 0.0):
        judge = OasisFilter.train(training, dataclasses.replace(Settings(), oasis=OasisSettings(passage_share=share)))
        [topic] = judge.filters
        ratios[share] = topic.thresholds[4] / topic.thresholds[3]
        core = [judge.judge(example.item) for example in training.examples]
        assert sum(said.accepted for said in core) == pytest.approx(0.65 * 30, abs=1)
        assert ("passages" in core[0].votes) == (share > 0)
    assert ratios[2.0] == pytest.approx(2.0)
    assert 0.5 <= ratios[0.5] < 2.0
    assert ratios[0.0] == 0.0


def test_a_filter_of_an_older_version_has_half_the_threshold_for_passages(trained: OasisFilter) -> None:
    """Filters that were stored without a threshold for passages judge as they did."""
    old = [msgspec.structs.replace(topic, thresholds=topic.thresholds[:4]) for topic in trained.filters]
    judge = OasisFilter.from_bytes(OasisFilter(old, OasisSettings()).to_bytes())
    page = TextReader().read("", prose(TREES, 3), "en")
    ratio = trained.filters[0].thresholds[4] / (0.5 * trained.filters[0].thresholds[3])
    assert judge.judge(page).votes["passages"] == pytest.approx(trained.judge(page).votes["passages"] * ratio)


def test_one_collocation_alone_is_no_sign(library: Library) -> None:
    """Even when core documents share only one collocation each, a page needs two."""
    texts = ("black cat. Alpha", "black cat. Beta", "red tree. Gamma", "red tree. Delta", "old dog. Gamma", "old dog.")
    pages = [library.reader.read("", text, "en") for text in texts]
    judge = OasisFilter.train(library.training({"trees": pages}), Settings())
    assert {element.words for element in judge.filters[0].elements.pairs} == {"black cat", "red tree", "old dog"}
    assert "collocations" not in judge.judge(library.reader.read("", "black cat.", "en")).agreed
    assert "collocations" in judge.judge(library.reader.read("", "black cat, red tree", "en")).agreed


def test_relevance_is_graded_by_families() -> None:
    """Below 0.5 nothing agrees, from 0.75 on both families do, and more is never less."""
    assert relevance(0.0, 0.0) == 0.0
    assert relevance(1.0, 0.2) == 0.5
    assert relevance(1.0, 1.0) == 0.75
    ratios = np.linspace(0, 5, 60).tolist()
    grades = [relevance(ratio, min(ratio, 0.9)) for ratio in ratios]
    assert grades == sorted(grades)
    assert all((grade >= 0.5) == (ratio >= 1) for grade, ratio in zip(grades, ratios, strict=True))
    assert max(grades) < 0.75 <= relevance(9.0, 1.0) < relevance(9.0, 3.0) < 1.0


def test_a_topic_that_is_not_wanted_takes_pages_away(library: Library) -> None:
    """A page that fits an unwanted topic best is accepted there and is not relevant."""
    judge = OasisFilter.train(library.three_topics(marks={"cooking": Mark.NULL}), LENIENT)
    judgement = judge.judge(library.page(COOKING, 77))
    assert (judgement.topic, judgement.accepted) == (2, True)
    assert judgement.relevance < 0.5
    assert judge.judge(library.page(TREES, 78)).is_relevant
    both = library.reader.read("", prose(COOKING, 1, 400) + prose(TREES, 1, 60), "en")
    steps = judge.explain(both).steps
    assert (steps[0].topic, steps[0].taken) == (2, True)
    assert max(step.confidence for step in steps if step.topic == 1) >= 0
    assert judge.judge(both).relevance < 0.5


def test_with_equal_signs_the_deeper_topic_wins(library: Library) -> None:
    """Topic and subtopic with the same examples: the page goes to the subtopic."""
    pages = [library.page(TREES, n) for n in range(6)]
    training = library.training({"computing": pages, "computing / trees": pages, "cooking": [library.page(COOKING, 1)]})
    judge = OasisFilter.train(training, Settings())
    assert {topic.kcid: topic.depth for topic in judge.filters} == {1: 1, 2: 2, 3: 1}
    assert judge.judge(library.page(TREES, 50)).topic == 2


def test_a_tree_that_is_only_a_root(library: Library) -> None:
    """A query or a list of examples: the root itself has the filter, and `accepted` tells yes from no."""
    root = Hierarchy([Node(0, -1, "everything", "", Mark.GOOD)])
    training = TrainingSet(root, tuple(Example(0, library.page(TREES, n)) for n in range(8)))
    judge = OasisFilter.train(training, Settings())
    assert judge.judge(library.page(TREES, 60)).is_relevant
    assert not judge.judge(library.page(COOKING, 60)).accepted


def test_bytes_judge_as_the_original(library: Library, trained: OasisFilter) -> None:
    """Every judgement of the restored filter equals the original's, and the bytes are stable."""
    first, second = fresh(trained), fresh(trained)
    assert first.to_bytes() == trained.to_bytes()
    for seed in range(30):
        page = library.page([TREES, COOKING, COMMON][seed % 3], seed, f"http://a.test/{seed % 5}/p", length=20)
        assert first.judge(page) == second.judge(page)


def test_training_is_deterministic_and_blind_to_order(library: Library, trained: OasisFilter) -> None:
    """The same examples in another order give the same filter, byte for byte."""
    training = library.three_topics()
    turned = dataclasses.replace(training, examples=training.examples[::-1])
    assert OasisFilter.train(turned, LENIENT).to_bytes() == trained.to_bytes()


def test_explanation_names_what_was_found(library: Library, trained: OasisFilter) -> None:
    """An explanation has the same judgement, the metrics beside their thresholds, and the terms of the page."""
    page = library.page(COOKING, 4)
    explanation = trained.explain(page)
    assert explanation.judgement == fresh(trained).judge(page)
    taken = explanation.steps[0]
    assert (taken.topic, taken.taken) == (2, True)
    assert [step.taken for step in explanation.steps].count(True) == 1
    features = [reason.feature for reason in taken.reasons]
    assert any(feature.startswith("vector: ") and "threshold" in feature for feature in features)
    assert "garlic" in features
    assert any("garlic" in feature.split()[:-1] for feature in features[5:])
    assert taken.votes == explanation.judgement.votes


def test_proposals_rank_what_the_topic_shares(library: Library) -> None:
    """Terms of the topic come before words that all topics use, with their true counts."""
    training = library.three_topics()
    trees = proposals(training, OasisSettings())[0]
    position = {element.words: place for place, element in enumerate(trees.terms)}
    stems = {library.reader.terms[stem] for word in TREES for stem in library.reader.stems(word, "en").tolist()}
    common = [position[word] for word in ("home", "good", "year") if word in position]
    assert max(position[stem] for stem in stems) < min(common)
    tree = trees.terms[position["tree"]]
    assert tree.frequency == sum(
        example.item.text.count("tree") - example.item.text.count("subtree") for example in training.of(1)
    )
    assert tree.documents == trees.documents == 12
    assert "binari search" in {element.words for element in trees.pairs}
    assert "binari search tree" in {element.words for element in trees.triples}


def test_sizes_of_the_filter_are_those_of_the_settings(library: Library) -> None:
    """Without an expert so many elements are taken as the settings say; none of a class, if they say so."""
    settings = dataclasses.replace(Settings(), oasis=OasisSettings(terms=7, pairs=3, triples=0))
    judge = OasisFilter.train(library.three_topics(), settings)
    assert {tuple(len(topic.elements.of_size(size)) for size in (1, 2, 3)) for topic in judge.filters} == {(7, 3, 0)}
    assert judge.judge(library.page(TREES, 1)).accepted


def test_redrawing_makes_another_filter(library: Library) -> None:
    """A new variable part: 30 % of the permanent size, nothing permanent; the old filter is untouched."""
    settings = dataclasses.replace(Settings(), oasis=OasisSettings(terms=10, pairs=10, triples=10, core_share=1.0))
    training = library.three_topics()
    judge = OasisFilter.train(training, settings)
    cores = {kcid: [example.item for example in training.of(kcid)] for kcid in (1, 2, 3)}
    before = judge.to_bytes()
    words = [*TREES, *(f"{a}{b}ing" for a in ("zipp", "hash", "merg", "sort", "prun") for b in ("l", "t", "r", "n"))]
    found = [library.page(words, 300 + n, length=300) for n in range(8)]
    redrawn = judge.redrawn(found, 1, cores)
    assert judge.to_bytes() == before
    assert redrawn.filters[1:] == judge.filters[1:]
    old, new = judge.filters[0], redrawn.filters[0]
    for size in (1, 2, 3):
        permanent = [element for element in new.elements.of_size(size) if not element.variable]
        variable = [element for element in new.elements.of_size(size) if element.variable]
        assert [(one.stems, one.frequency) for one in permanent] == [
            (one.stems, one.frequency) for one in old.elements.of_size(size)
        ]
        assert len(variable) == 3
        assert not {element.stems for element in permanent} & {element.stems for element in variable}
        assert not any("#" in element.words for element in variable)
    root = next(element for element in new.elements.terms if element.words == "root")
    assert not root.variable
    assert root.recent == sum(page.text.count("root") for page in found) > 0
    assert redrawn.to_bytes() == judge.redrawn(found[::-1], 1, cores).to_bytes()
    assert redrawn.to_bytes() != judge.redrawn(found, 2, cores).to_bytes()
    again = redrawn.redrawn(found, 2, cores)
    assert again.to_bytes() == judge.redrawn(found, 2, cores).to_bytes()
    assert OasisFilter.from_bytes(again.to_bytes()).judge(found[0]) == again.judge(found[0])


def test_a_redrawn_filter_recognises_as_much_of_the_core(library: Library) -> None:
    """Elements of the variable part count in full, so thresholds are tuned again; without a core they stay."""
    core = varied_core(library, "lu", 60)
    judge = OasisFilter.train(library.training({"lu": core[:40]}), Settings())
    cores = {1: core[:40]}
    other = varied_core(library, "mo", 20)
    texts = [f"{page.text} {more.text}" for page, more in zip(core[40:], other, strict=True)]
    found = [library.reader.read("", text, "en") for text in texts]
    redrawn = judge.redrawn(found, 1, cores)
    assert redrawn.filters[0].thresholds != judge.filters[0].thresholds
    recognised = sum(redrawn.judge(page).accepted for page in cores[1])
    assert 0.6 <= recognised / 40 <= 0.7
    assert judge.redrawn(found, 1, {}).filters[0].thresholds == judge.filters[0].thresholds


def test_redrawing_from_pages_of_no_topic_changes_nothing(library: Library, trained: OasisFilter) -> None:
    """Pages that no topic takes, or none at all, leave the filter as it is."""
    dull = [library.reader.read("", "nothing here", "en")]
    assert trained.redrawn(dull, 1, {}).to_bytes() == trained.redrawn([], 1, {}).to_bytes() == trained.to_bytes()


def test_the_middle_is_neither_frequent_nor_rare() -> None:
    """Elements are drawn from the middle third of the ranking; those of one document only when others do not suffice."""
    counts = []
    for documents in range(1, 31):
        entry = ElementCount((documents,))
        entry.documents = entry.occurrences = documents
        counts.append(entry)
    for seed in range(20):
        drawn = [entry.documents for entry in draw_middle(counts, 5, random.Random(seed))]
        assert len(set(drawn)) == 5
        assert set(drawn) <= set(range(11, 22))
    assert len(draw_middle(counts, 25, random.Random(0))) == 25
    assert len(draw_middle(counts[:2], 25, random.Random(0))) == 2
    assert draw_middle([], 3, random.Random(0)) == []


def test_a_core_of_one_document(library: Library) -> None:
    """One example is little but enough: the thresholds are what it has itself, and it passes them."""
    page = library.page(TREES, 1)
    judge = OasisFilter.train(library.training({"trees": [page]}), Settings())
    judgement = judge.judge(page)
    assert judgement.undoubted
    assert judgement.votes["terms"] == judgement.votes["vector"] == 1.0


def test_a_core_of_identical_documents(library: Library) -> None:
    """Copies count as what they are and break nothing."""
    page = library.page(TREES, 1)
    judge = OasisFilter.train(
        library.training({"trees": [page] * 9, "cooking": [library.page(COOKING, 2)] * 2}), Settings()
    )
    assert judge.judge(page).topic == 1
    assert judge.judge(page).undoubted


def test_documents_that_share_nothing(library: Library) -> None:
    """When no term is shared, all terms are taken: a weak filter, but one."""
    pages = [library.reader.read("", text, "en") for text in ("zebra giraffe", "copper iron")]
    judge = OasisFilter.train(library.training({"odd": pages}), Settings())
    assert {element.words for element in judge.filters[0].elements.terms} == {"zebra", "giraff", "copper", "iron"}


@pytest.mark.parametrize("text", ["", "the of and", "... !!! \n\n", "\x00\x01\x02"])
def test_examples_without_words_are_refused(library: Library, text: str) -> None:
    """Examples that hold no terms cannot make a filter, and the message names the topic."""
    with pytest.raises(InputError, match="'trees'"):
        OasisFilter.train(library.training({"trees": [library.reader.read("", text, "en")]}), Settings())


def test_no_examples_are_refused(library: Library) -> None:
    """Without any example there is nothing to learn."""
    with pytest.raises(InputError, match="no topic has examples"):
        OasisFilter.train(library.training({"trees": []}), Settings())


@pytest.mark.parametrize(
    "bad", [{"passage_chars": 0}, {"passage_step_chars": 0}, {"core_share": 0.0}, {"core_share": 1.5}]
)
def test_unusable_settings_are_refused(library: Library, bad: dict[str, float]) -> None:
    """Settings that would divide by zero or let nothing pass are errors that name the key."""
    settings = dataclasses.replace(Settings(), oasis=msgspec.convert(bad, OasisSettings))
    with pytest.raises(SettingsError, match=next(iter(bad))):
        OasisFilter.train(library.three_topics(2), settings)


@given(st.text(max_size=300), st.text(max_size=30), st.text(max_size=40))
def test_judging_never_raises(text: str, title: str, url: str) -> None:
    """Whatever a page holds, there is a judgement, and its numbers are numbers."""
    judge, reader = _any_filter(), TextReader()
    judgement = judge.judge(reader.read(title, text, url=url))
    assert 0 <= judgement.relevance <= 1
    assert all(np.isfinite(vote) for vote in judgement.votes.values())


@given(st.binary(max_size=400), st.text(max_size=60))
def test_garbage_is_judged_too(data: bytes, text: str) -> None:
    """Stems that are noise, beside a text they do not fit, are judged like any others."""
    stems = np.frombuffer(data[: len(data) // 4 * 4], "<u4")
    judgement = _any_filter().judge(ClassifierInput(stems, text=text))
    assert 0 <= judgement.relevance <= 1


def _any_filter(kept: list[OasisFilter] = []) -> OasisFilter:  # noqa: B006
    if not kept:
        kept.append(OasisFilter.train(Library().three_topics(4), Settings()))
    return kept[0]


def test_a_small_core_is_tuned_by_each_metric_alone() -> None:
    """Two of three documents reach each threshold; that of passages is half of the cosine's."""
    values = np.array([[3.0, 2.0, 1.0], [0.0, 5.0, 0.0], [0.0, 0.0, 0.0], [0.9, 0.8, 0.2], [0.9, 0.9, 0.9]])
    assert tuned_apart(values, 0.65, 0.5) == (2.0, 5.0, 0.0, 0.8, 0.4)
    assert tuned_apart(values, 0.65, 0.0)[-1] == 0.9
