"""Tasks made of the labels of a web."""

from __future__ import annotations

import hashlib
import math
from collections import Counter

import networkx
import numpy as np
import pytest

from evaluate_standin import make_analysed, terms_of, url_of
from opilio.analyze.terms import term_ids
from opilio.errors import InputError
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.tasks import (
    BACK_AND_FORTH,
    HITS,
    IN_LINKS,
    NEIGHBOURS,
    Start,
    TaskMaker,
    is_development,
    name_words,
    question_words,
)

PAGES = 120
BIRDS = list(range(0, 60, 2))
SUBJECTS = ["stone", "river", "road", "house", "market", "letter", "engine", "garden", "winter", "window"]


@pytest.fixture(scope="module")
def analysed() -> Analysed:
    """Pages with random links; every second one of the first 60 is about birds."""
    rng = np.random.default_rng(1)
    words = [
        " ".join(rng.choice(SUBJECTS, 12)) + (" feathers feathers nest wing" if page in BIRDS else " wing")
        for page in range(PAGES)
    ]
    return make_analysed(
        rng.integers(0, PAGES, (PAGES, 3)).tolist(),
        words=words,
        titles=[f"Page {page}" for page in range(PAGES)],
        labels={"Science.Birds_of_prey": BIRDS, "small": [1, 3, 5], "nearly.all": list(range(100))},
    )


@pytest.fixture(scope="module")
def maker(analysed: Analysed) -> TaskMaker:
    return TaskMaker(analysed)


def test_labels_with_enough_pages_make_topics(maker: TaskMaker) -> None:
    """Too few pages, or most of the web, make no topic; the split takes each label to one side."""
    assert maker.labels() == ["Science.Birds_of_prey"]
    assert maker.labels(min_pages=2, max_share=1.0) == ["Science.Birds_of_prey", "nearly.all", "small"]
    sides = [maker.labels(2, max_share=1.0, development=side) for side in (True, False)]
    assert sorted(sides[0] + sides[1]) == ["Science.Birds_of_prey", "nearly.all", "small"]


def test_the_split_is_by_the_first_hex_digit() -> None:
    """Even: development. Known by heart for some labels."""
    for label in ("a", "b", "Science.Biology.Birds", "student", "é"):
        assert is_development(label) == (hashlib.sha256(label.encode()).hexdigest()[0] in "02468ace")
    assert len({is_development(str(n)) for n in range(20)}) == 2


def test_seed_sets_are_disjoint_and_fixed(analysed: Analysed, maker: TaskMaker) -> None:
    """Examples and targets together are the label's pages; no page is an example twice; another maker agrees."""
    topics = [maker.topic("Science.Birds_of_prey", seed_set) for seed_set in range(6)]
    for topic in topics:
        assert sorted((*topic.examples, *topic.targets)) == BIRDS
    examples = [page for topic in topics for page in topic.examples]
    assert sorted(examples) == BIRDS
    assert TaskMaker(analysed).topic("Science.Birds_of_prey", 2) == topics[2]
    assert TaskMaker(analysed, seed=1).topic("Science.Birds_of_prey").examples != topics[0].examples
    with pytest.raises(InputError, match="not enough"):
        maker.topic("Science.Birds_of_prey", 6)
    with pytest.raises(InputError, match="no page"):
        maker.topic("fish")


def test_keywords_are_the_labels_words_and_the_best_terms(analysed: Analysed, maker: TaskMaker) -> None:
    """Characteristic terms are those with the greatest mutual information, worked out page by page."""
    topic = maker.topic("Science.Birds_of_prey")
    assert topic.name_words == ("science", "birds", "prey")
    present = Counter(term for page in range(PAGES) for term in terms_of(analysed, page))
    inside = Counter(term for page in BIRDS for term in terms_of(analysed, page))

    def information(term: int) -> float:
        joint = inside[term] / PAGES
        return joint * math.log(joint / (present[term] / PAGES * len(BIRDS) / PAGES))

    best = sorted(inside, key=lambda term: (-information(term), term))[:5]
    assert [term_ids(word) for word in topic.characteristic] == [[term] for term in best]
    assert {"feathers", "nest"} == set(topic.characteristic[:2]), "a word that all pages have tells nothing"
    assert topic.keywords.split()[:5] == ["science", "birds", "prey", *topic.characteristic[:2]]


def test_characteristic_words_are_words_not_stems() -> None:
    """A stem stemmed again may be another term, so words are given; none repeats a word of the label."""
    words = ["universal university universities university maps"] * 6 + ["stone river"] * 6
    maker = TaskMaker(make_analysed([[]] * 12, words=words, labels={"map": list(range(6))}), examples=2)
    topic = maker.topic("map")
    assert topic.characteristic == ("university",)
    assert topic.keywords == "map university"


def test_the_description_is_of_targets(maker: TaskMaker) -> None:
    """It shows nothing of the examples: ten targets speak, each with its title and some of its words."""
    topic = maker.topic("Science.Birds_of_prey")
    titles = {line.split()[1] for line in topic.description.splitlines()}
    assert len(titles) == 10
    assert {int(title) for title in titles} <= set(topic.targets)


def test_neighbours_are_two_links_before_targets(analysed: Analysed, maker: TaskMaker) -> None:
    """From each neighbour some target is two links ahead; none is an example or a target; all are drawn from the best."""
    topic = maker.topic("Science.Birds_of_prey")
    graph = networkx.DiGraph(
        (page, link) for page in range(PAGES) for link in analysed.links(page).tolist() if link != page
    )
    two_before = {
        far for target in topic.targets for near in graph.predecessors(target) for far in graph.predecessors(near)
    }
    assert len(topic.neighbours) == NEIGHBOURS
    assert set(topic.neighbours) <= two_before - {*topic.targets, *topic.examples}
    assert topic.starts(Start.NEIGHBOURS) == topic.neighbours
    assert topic.starts(Start.EXAMPLES) == topic.examples


def test_a_question_has_words_and_hits_only() -> None:
    """From a question a crawler gets the words of the label's last part and no example; it starts at the best hits of a search, in
    which a word of the title counts for more and a rare word more than a frequent one; every page of the label counts
    as a target."""
    words = ["owl stone", "stone stone river", "river maple maple", "owl owl owl stone"] + ["river stone"] * 12
    maker = TaskMaker(
        make_analysed([[]] * 16, words=words, labels={"rare.Owl_stone": [0, 3, *range(8, 16)]}), examples=2
    )
    topic = maker.topic("rare.Owl_stone")
    asked = maker.task(topic, Start.QUESTION)
    assert (asked.examples, asked.is_question, asked.keywords) == ((), True, "owl stone")
    assert asked.targets == (0, 3, *range(8, 16))
    assert asked.starts(Start.QUESTION) == asked.hits == maker.hits(("owl", "stone"))
    assert set(asked.hits[:2]) == {0, 3}, "the rare word decides"
    assert len(asked.hits) == HITS and 2 not in asked.hits
    assert maker.task(topic, Start.EXAMPLES) is topic
    assert maker.hits(("nowhere",)) == ()
    assert question_words("Software Development :: Sound/Audio") == ("sound", "audio")
    assert question_words("student") == ("student",)


def test_back_and_forth_gives_pages_linked_beside_targets() -> None:
    """The other way: what is linked from a page that links to a target."""
    links: list[list[int]] = [[1, 2], [], [], [0], [], [], []]
    analysed = make_analysed(links, labels={"x": [1, 4, 5, 6]})
    maker = TaskMaker(analysed, examples=1)
    assert maker.neighbours("x", [1]) == (3,)
    assert maker.neighbours("x", [1], examples=[3]) == (), "an example is no neighbour"
    assert maker.neighbours("x", [1], way=BACK_AND_FORTH) == (2,)


def test_only_the_best_in_links_are_followed() -> None:
    """Of more in-links than are followed, those of popular pages are; the others lead nowhere."""
    hub_links: list[list[int]] = [[]] + [[0]] * (IN_LINKS + 1)  # page 0 is the target, 1 to 21 link to it
    far = [[page] for page in range(1, IN_LINKS + 2)]  # each of which has one page that links to it ...
    popular = [[page] * 1 for page in range(1, IN_LINKS + 1) for _ in range(2)]  # ... and all but the last two more
    links = hub_links + far + popular
    maker = TaskMaker(make_analysed(links, labels={"x": [0]}))
    lonely = 2 * IN_LINKS + 2  # the one page that links to page 21
    assert links[lonely] == [IN_LINKS + 1]
    found = {page for seed in range(30) for page in TaskMaker(make_analysed(links), seed=seed).neighbours("x", [0])}
    assert lonely not in found
    assert found > set(maker.neighbours("x", [0]))


def test_pages_without_a_document_take_no_part() -> None:
    """A label on a redirect or an error is not a page to be found."""
    links: list[list[int]] = [[], [], [], [], [], []]
    analysed = make_analysed(links, statuses={1: 404}, redirects={2: url_of(0)}, labels={"x": [0, 1, 2, 3, 4, 5]})
    topic = TaskMaker(analysed, examples=2).topic("x")
    assert sorted((*topic.examples, *topic.targets)) == [0, 3, 4, 5]


def test_a_perfect_judge(maker: TaskMaker) -> None:
    """1 for the pages of the label, examples included."""
    truth = maker.topic("Science.Birds_of_prey").relevance(PAGES)
    assert np.flatnonzero(truth).tolist() == BIRDS
    assert set(truth.tolist()) == {0.0, 1.0}


def test_words_of_a_label() -> None:
    """Punctuation separates, stop words are no keywords, each word stands once."""
    assert name_words("Science.Biology.The_Birds-and-birds") == ("science", "biology", "birds")
