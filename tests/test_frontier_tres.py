"""Reinforcement learning: network, tree and replay do what they should, and the order learns what leads to a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from evaluate_standin import make_analysed
from opilio import Collection, learn
from opilio.crawl import collection as collections
from opilio.crawl.engine import Engine
from opilio.frontier import ABSENT, Frontier, QueuedUrl, ScopeFilter, Tres, make_strategy, tres
from opilio.frontier.strategies import KnownDocument
from opilio.frontier.tres import (
    BATCH,
    DRAWN_PRIORITY,
    FEATURES,
    LEAST_TO_SPLIT,
    DoubleDQN,
    Experiences,
    QNetwork,
    Replay,
    TreeFrontier,
    best_split,
)
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.simulate import Answers, Crawl, Simulation
from opilio.lab.local_web import LocalServer
from opilio.model import Document, Judgement, Link, Links, Region
from opilio.settings import Settings, override
from opilio.store import Store
from running_crawls import ORDERLESS

YES, NO = Judgement(0, True, 0.9, 0.9), Judgement(0, False, 0.1, 0.1)
WORD, OTHER = 7, 8


def order() -> Tres:
    return Tres(Settings().frontier)


def url(oid: int, *, steps: int = 0, depth: int = 1) -> QueuedUrl:
    settings = Settings()
    frontier = Frontier(settings, order(), ScopeFilter(settings.scope))
    found = QueuedUrl(oid, f"http://a.example/{oid}", frontier.host("a.example"), 0, depth, 0.0)
    found.steps = steps
    return found


def page(links: list[tuple[int, list[int], list[int]]]) -> Document:
    """A document whose links lead to some oids, with words in them and around them."""
    return Document(
        "", "", "", "", "", "",
        Links.of(Link(f"http://a.example/{oid}", abs(oid), "", "", Region.MAIN, at) for at, (oid, _, _) in enumerate(links)),
        b"", b"", [], 0, b"",
        link_words=np.array([word for _, inner, outer in links for word in (*inner, *outer)], "<u4").tobytes(),
        link_words_in=bytes(len(inner) for _, inner, _ in links),
        link_words_around=bytes(len(outer) for _, _, outer in links),
    )  # fmt: skip


def visit(strategy: Tres, oid: int, judgement: Judgement, links: list[int], *, steps: int = 0, sid: int = 0) -> None:
    """A page was fetched that has links without words."""
    strategy.settle(oid, judgement.relevance)
    strategy.observe(
        url(oid, steps=steps), judgement, page([(link, [], []) for link in links]), links, [sid] * len(links)
    )


def numbers(strategy: Tres, oid: int) -> dict[str, float]:
    return {name: value for name, value in strategy.explain(oid).items() if name in FEATURES}


# -- the network


def test_the_network_learns_a_function_that_is_not_linear() -> None:
    """Exclusive or, which a network without hidden layers cannot learn."""
    rng = np.random.default_rng(1)
    network = QNetwork(rng, 2)
    for _ in range(3000):
        rows = rng.integers(0, 2, (BATCH, 2)).astype(float)
        network.train(rows, np.abs(rows[:, 0] - rows[:, 1]))
    found = network.values(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    assert np.allclose(found, [0.0, 1.0, 1.0, 0.0], atol=0.1)


def test_gradients_are_those_of_finite_differences() -> None:
    """Each gradient is how the mean squared error changes when that one weight changes a little."""
    rng = np.random.default_rng(2)
    network = QNetwork(rng, 3)
    network.weights = [rng.normal(size=one.shape) for one in network.weights]
    rows, goals = rng.normal(size=(20, 3)), rng.normal(size=20)
    found = network.gradients(rows, goals)
    before = network.weights
    for at, weights in enumerate(before):
        for place in np.ndindex(weights.shape):
            losses = []
            for change in (1e-6, -1e-6):
                changed = weights.copy()
                changed[place] += change
                network.weights = [*before[:at], changed, *before[at + 1 :]]
                losses.append(float(((network.values(rows) - goals) ** 2).mean()))
            assert found[at][place] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-3, abs=1e-3)


def test_values_of_a_known_decision_process() -> None:
    """A corridor: the only link of room 1 leads to room 2, then to room 3, where the reward is. Beside it is a room with
    a small reward at once, which leads nowhere. Q is what the discount makes of this."""
    rng, discount = np.random.default_rng(3), 0.5
    agent = DoubleDQN(rng, 4, discount)
    rooms = np.eye(4)
    leads_to = {0: [1, 3], 1: [2], 2: [], 3: []}
    rewards = np.array([0.0, 0.0, 1.0, 0.2])
    for step in range(4000):
        which = rng.integers(0, 4, BATCH)
        sizes = np.array([len(leads_to[room]) for room in which.tolist()])
        children = rooms[[child for room in which.tolist() for child in leads_to[room]]]
        agent.learn(Experiences(rooms[which], rewards[which], children, sizes))
        if step % 200 == 0:
            agent.update_target()
            agent.network.rate = 0.003
    assert np.allclose(agent.network.values(rooms), [0.25, 0.5, 1.0, 0.2], atol=0.02)


def test_one_network_chooses_and_the_other_rates() -> None:
    """Double DQN: the best child by the network is worth what the target network says of it, until that is updated."""
    agent = DoubleDQN(np.random.default_rng(4), 2, 0.9)
    children = np.eye(2)
    batch = Experiences(np.zeros((3, 2)), np.array([0.0, 1.0, 1.0]), children, np.array([2, 0, 0]))
    for _ in range(500):
        agent.network.train(children, np.array([1.0, 3.0]))
    assert agent.goals(batch).tolist() == [0.0, 1.0, 1.0]  # the target network has learned nothing yet
    agent.update_target()
    assert np.allclose(agent.goals(batch), [0.9 * 3.0, 1.0, 1.0], atol=0.2)
    for _ in range(2000):
        agent.network.train(children, np.array([5.0, 3.0]))
    assert np.allclose(agent.goals(batch), [0.9 * 1.0, 1.0, 1.0], atol=0.2)


# -- the replay


def test_old_experiences_are_forgotten_with_their_children() -> None:
    """Those that are left keep their rewards and the links of their pages, whatever was forgotten before them."""
    replay = Replay()
    with patch.object(tres, "MAX_EXPERIENCES", 10):
        for number in range(37):
            assert replay.add(np.full(len(FEATURES), float(number)), float(number % 2)) == number
            replay.add_children(number, np.full((number % 4, len(FEATURES)), 100.0 + number))
    assert len(replay) <= 10 and replay.first + len(replay) == 37
    batch = replay.sample(np.random.default_rng(0), 200)
    assert set(batch.rows[:, 0]) == set(range(replay.first, 37))
    assert np.array_equal(batch.rewards, batch.rows[:, 0] % 2)
    assert np.array_equal(batch.sizes, batch.rows[:, 0] % 4)
    assert np.array_equal(batch.children[:, 0], 100.0 + batch.rows[:, 0].repeat(batch.sizes))


# -- the tree


@given(st.integers(0, 2**32 - 1), st.integers(LEAST_TO_SPLIT, 60))
def test_a_split_is_that_of_an_independent_tree(seed: int, count: int) -> None:
    """It reduces the squared error as much as the first split of scikit-learn's regression tree does."""
    rng = np.random.default_rng(seed)
    rows = np.round(rng.random((count, 4)), 1)
    rewards = (rng.random(count) < 0.2 + 0.6 * (rows[:, 2] > 0.5)).astype(float)
    found = best_split(rows, rewards)
    other = DecisionTreeRegressor(max_depth=1).fit(rows, rewards)
    if found is None:
        assert np.allclose(other.predict(rows), rewards.mean())
        return
    is_left = rows[:, found[0]] <= found[1]
    means = np.where(is_left, rewards[is_left].mean(), rewards[~is_left].mean())
    assert np.isclose(((rewards - means) ** 2).sum(), ((rewards - other.predict(rows)) ** 2).sum())


def test_the_tree_grows_with_experience_and_divides_the_queue() -> None:
    """With rewards where one number is high, the leaf is split there; queued links come into their leaves, one of each
    leaf is drawn, and a link that has left is not."""
    replay = Replay()
    tree = TreeFrontier(replay)
    rows = np.full((6, len(FEATURES)), 0.5)
    rows[3:, 4] = 1.0
    leaf_of = np.zeros(6, np.int64)
    tree.add(np.arange(6), tree.find(rows))
    moved: list[int] = []
    for number in range(LEAST_TO_SPLIT):
        reward = float(number % 2)
        row = np.full(len(FEATURES), 0.5)
        row[4] = 0.8 if reward else 0.2
        assert not moved
        moved = tree.learn(replay.add(row, reward), leaf_of)
    assert moved == list(range(6)) and len(tree.leaves) == 2
    leaf_of = tree.find(rows)
    assert len(set(leaf_of[:3])) == len(set(leaf_of[3:])) == 1 and leaf_of[0] != leaf_of[5]
    tree.add(np.arange(6), leaf_of)
    assert tree.means(leaf_of, np.zeros(6)).tolist() == pytest.approx([0.0] * 3 + [2 / 3] * 3)
    leaf_of[[0, 1, 4]] = ABSENT
    rng = np.random.default_rng(0)
    drawn = [tuple(sorted(tree.draw(rng, leaf_of).tolist())) for _ in range(40)]
    assert set(drawn) == {(2, 3), (2, 5)}


def test_a_leaf_whose_links_are_all_alike_is_not_split() -> None:
    """Rewards that no number explains leave the tree as it is."""
    replay = Replay()
    tree = TreeFrontier(replay)
    for number in range(50):
        assert tree.learn(replay.add(np.ones(len(FEATURES)), float(number % 3 == 0)), np.zeros(0, np.int64)) == []
    assert list(tree.leaves) == [0]


# -- the numbers of a link


def test_numbers_of_the_path_and_of_hosts() -> None:
    """Relevance of the parent, distance from the last relevant page, relevant pages on the path; of a host, how many of
    its fetched pages are relevant."""
    strategy = order()
    visit(strategy, 0, YES, [1])
    assert numbers(strategy, 1) == pytest.approx({
        "parent": 0.9, "nearness of a relevant page": 1.0, "relevant pages on the path": 1.0, "keyword": 0.0,
        "two keywords": 0.0, "keyword around": 0.0, "host": 0.5, "unknown host": 1.0, "words": 0.5,
    })  # fmt: skip
    visit(strategy, 1, NO, [2, 3], steps=1)
    visit(strategy, 2, NO, [4, ABSENT], steps=2)
    found = numbers(strategy, 4)
    assert found["nearness of a relevant page"] == pytest.approx(1 / 3)
    assert found["relevant pages on the path"] == pytest.approx(1 / 3)
    assert found["host"] == 0.0 and found["unknown host"] == 0.0
    visit(strategy, 4, YES, [5], sid=3)
    assert numbers(strategy, 5)["relevant pages on the path"] == pytest.approx(1 / 2)
    assert numbers(strategy, 5)["unknown host"] == 1.0
    assert numbers(strategy, 3)["host"] == pytest.approx(1 / 3)


def test_numbers_of_words() -> None:
    """Keywords in a link, two of them, and around it; and the odds of words, by documents known before."""
    strategy = order()
    good = KnownDocument(np.array([WORD, 20], np.uint32), np.array([9], np.uint32), 1.0)
    bad = KnownDocument(np.array([OTHER, 21], np.uint32), np.array([10], np.uint32), 0.0)
    strategy.prepare([3], [good, bad])
    links = [(1, [3], [OTHER]), (2, [3, 9], []), (3, [10], [9]), (4, [WORD], []), (5, [OTHER], [])]
    strategy.settle(0, 0.9)
    strategy.observe(url(0), YES, page(links), [1, 2, 3, 4, 5], [0] * 5)
    keywords = [[numbers(strategy, oid)[name] for name in FEATURES[3:6]] for oid in range(1, 6)]
    assert keywords == [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert numbers(strategy, 4)["words"] > 0.55 and numbers(strategy, 5)["words"] < 0.45


def test_a_url_has_its_best_link() -> None:
    """A link on a better page takes over, one on a worse page changes nothing."""
    strategy = order()
    visit(strategy, 0, NO, [9], steps=1)
    visit(strategy, 1, YES, [9])
    assert numbers(strategy, 9)["parent"] == pytest.approx(0.9)
    visit(strategy, 2, NO, [9], steps=1)
    assert numbers(strategy, 9)["parent"] == pytest.approx(0.9)


def test_an_experience_has_the_links_of_its_page() -> None:
    """What is replayed of a link that was followed: its numbers, its reward, and the links of the page behind it."""
    strategy = order()
    visit(strategy, 0, NO, [1, 2], steps=1)
    visit(strategy, 1, YES, [2, 3, 4, ABSENT])
    strategy.settle(2, 0.0)  # it could not be fetched
    batch = strategy.replay.sample(np.random.default_rng(0), 50)
    parents, rewards, sizes = batch.rows[:, 0], batch.rewards, batch.sizes
    assert {*zip(parents.round(3).tolist(), rewards.tolist(), sizes.tolist(), strict=True)} == {
        (0.1, 1.0, 3),
        (0.9, 0.0, 0),
    }
    assert np.allclose(batch.children[:, 0], 0.9)


def test_settled_and_forgotten_urls_are_gone() -> None:
    """Neither a fetched URL nor one that is dropped has numbers, is drawn, or comes back when a page links to it; only
    the fetched one is an experience."""
    strategy = order()
    visit(strategy, 0, YES, [1, 2, 3])
    strategy.settle(1, 0.9)
    strategy.settle(2, None)
    assert len(strategy.replay) == 1 and len(strategy.pairs) == 1
    visit(strategy, 3, YES, [1, 2, 4])
    assert strategy.explain(1) == strategy.explain(2) == {} and strategy.explain(4)
    assert set(strategy.outdated([1, 2, 4])) == {4}


def test_links_to_urls_out_of_memory_are_forgotten_when_there_are_too_many() -> None:
    """Those in memory stay; a forgotten URL keeps its priority, and gets numbers again with the next link to it."""
    strategy = order()
    with patch.object(tres, "MAX_PAIRS", 10):
        visit(strategy, 0, YES, list(range(1, 31)))
        queued = [url(oid) for oid in range(1, 6)]
        assert strategy.reprioritise(queued) is not None
    assert len(strategy.pairs) == 5
    gone = url(20)
    gone.priority = 0.125
    assert strategy.priorities([gone]) == [0.125]
    strategy.outdated([])
    visit(strategy, 1, YES, [20])
    assert strategy.explain(20)


# -- the order


def crawled(analysed: Analysed, strategy: str, relevance: np.ndarray, budget: int) -> Crawl:
    settings = override(Settings(), {"frontier.strategy": strategy})
    return Simulation(Answers(analysed), settings, (0,), relevance, max_pages=budget).run()


def a_web(kind: str) -> tuple[Analysed, np.ndarray]:
    """2,500 pages with 10 links each, every sixteenth page is relevant. Either the URLs of relevant pages have a word
    that these pages have too, or relevant pages link to each other more often than chance would have it."""
    rng = np.random.default_rng(6)
    count = 2500
    is_good = rng.random(count) < 1 / 16
    is_good[0] = True
    good = np.flatnonzero(is_good)
    links = rng.integers(0, count, (count, 10))
    if kind == "parents":
        links[is_good, :3] = rng.choice(good, (len(good), 3))
    names = [("owl" if is_good[n] and kind == "words" else "item") for n in range(count)]
    urls = [f"http://h{n % 7}.test/{names[n]}/{n}" for n in range(count)]
    words = [f"{'owl' if is_good[n] else 'car'} page number {n}" for n in range(count)]
    return make_analysed(links.tolist(), urls=urls, words=words), is_good.astype(float)


@pytest.mark.parametrize(("kind", "times"), [("words", 3.5), ("parents", 1.3)])
def test_it_learns_what_leads_to_relevant_pages(kind: str, times: float) -> None:
    """Of 400 pages, many more are relevant than in a breadth-first crawl, though nothing is known before the crawl of
    words or of what relevant pages link to. The same crawl comes out twice, bit for bit."""
    analysed, relevance = a_web(kind)
    first, again, plain = (crawled(analysed, name, relevance, 400) for name in ("tres", "tres", "breadth-first"))
    assert relevance[first.pages].sum() > times * relevance[plain.pages].sum()
    assert first.to_bytes() == again.to_bytes()


def learned() -> Tres:
    """An order that knows of a good and of a bad kind of link, with 20 queued URLs of each: 100 to 119 are the good."""
    strategy = order()
    visit(strategy, 0, YES, [*range(1, 31), *range(100, 120)])
    visit(strategy, 50, NO, [*range(51, 81), *range(120, 140)], steps=3)
    for oid in range(1, 31):
        strategy.settle(oid, 0.9)
        strategy.settle(oid + 50, 0.1)
    return strategy


def test_one_url_of_each_leaf_comes_first() -> None:
    """Each leaf has one URL drawn, with priorities above all others in the order of Q; the others have the mean reward
    of their leaves. The next time others are drawn, and those drawn before fall back."""
    strategy = learned()
    linked = [*range(100, 140)]
    with patch.object(tres, "RANDOM_PAGES", 1):
        strategy.outdated(linked)
        before = dict(zip(linked, strategy.priorities([url(oid) for oid in linked]), strict=True))
        outdated = set(strategy.outdated(linked))
    after = dict(zip(linked, strategy.priorities([url(oid) for oid in linked]), strict=True))
    assert len(strategy.tree.leaves) == 2
    for found in (before, after):
        drawn = sorted((oid for oid in linked if found[oid] > DRAWN_PRIORITY), key=lambda oid: -found[oid])
        assert len(drawn) == 2 and drawn[0] < 120 <= drawn[1]
        good, bad = ({found[oid] for oid in some if oid not in drawn} for some in (linked[:20], linked[20:]))
        assert len(good) == len(bad) == 1 and 1.0 >= good.pop() > 0.9 and 0.1 > bad.pop() >= 0.0
    changed = {oid for oid in linked if before[oid] != after[oid]}
    assert changed and changed <= outdated


def test_early_choices_are_random_and_late_ones_are_not() -> None:
    """The share of drawn URLs that come first though another has a higher Q falls from one half, for two leaves, to 0."""
    strategy = learned()
    strategy.outdated([])
    bad_first = {}
    for random_pages in (10**9, 2 * strategy._pages, 1):
        drawn = []
        with patch.object(tres, "RANDOM_PAGES", random_pages):
            for _ in range(400):
                strategy._draw()
                drawn.append(max(strategy._drawn, key=strategy._drawn.__getitem__))
        bad_first[random_pages] = sum(oid >= 120 for oid in drawn) / 400
    often, seldom, never = bad_first.values()
    assert 0.42 < often < 0.58 and 0.18 < seldom < 0.32 and never == 0.0


def test_of_links_that_are_worth_the_same_the_first_is_kept() -> None:
    """Before anything is learned, a link from a page that is exactly as relevant does not replace the one that is known,
    whichever way the relevance is rounded when it is kept."""
    for relevance in (0.9836419, 0.1, 0.2, 0.7, 0.9):
        strategy = Tres(Settings().frontier)
        known = np.full((1, len(FEATURES)), relevance)
        slots = strategy.pairs.put(np.array([1]), strategy.pairs.slots([1]), known, np.array([0]), (1, 1))
        kept = strategy.pairs.rows(slots)
        assert not strategy._are_better(known, kept)[0]
        assert strategy._are_better(known + 1e-3, kept)[0]


def test_a_crawl_goes_on_with_what_it_learned(
    small_server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order that is shown the stored pages, as after a restart or a re-judging, has the experiences, the network and
    the numbers of queued URLs that the crawl had which saw the pages itself. The crawl can go on."""
    engines: list[Engine] = []

    def make(*parts: Any) -> Engine:
        engines.append(Engine(*parts))
        return engines[-1]

    monkeypatch.setattr(collections, "Engine", make)
    (tmp_path / "seeds.txt").write_text("http://directory.test/")
    settings = {
        "fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "run.workers": -1, "fetch.in_flight": 1,
        "limits.max_pages": 100, "frontier.strategy": "tres", "robots.obey_meta": False, "fetch.max_tries": 1,
        **{name.replace("__", "."): value for name, value in ORDERLESS.items()},
    }  # fmt: skip
    collection = Collection.create(tmp_path / "c", seeds=tmp_path / "seeds.txt", query="statistics", settings=settings)
    assert collection.crawl().pages == 100
    before, after = engines[0].frontier.strategy, make_strategy(collection.settings.frontier)
    assert isinstance(before, Tres) and isinstance(after, Tres) and after.rejudging() is None
    with Store.open(collection.folder) as store:
        learn.prepare_from(store, collection.settings, after)
        learn.replay_pages(store, after)
        waiting = [oid for (oid,) in store.query("SELECT oid FROM crawl WHERE state = 'waiting'").rows]
    assert len(after.replay) == len(before.replay) > BATCH and len(after.tree.leaves) == len(before.tree.leaves) > 1
    assert after.agent.network.steps == before.agent.network.steps > 0
    oids = [oid for oid in waiting if before.explain(oid)]
    assert len(oids) > 20
    for oid in oids:  # relevance is stored with 24 bits
        assert after.explain(oid) == pytest.approx(before.explain(oid), abs=1e-6)
    collection.change_settings({"limits.max_pages": 120})
    assert collection.crawl().pages == 120
