"""The strategy `tres`: reinforcement learning with a tree of queued URLs.

The paper. "Tree-based Focused Web Crawling with Reinforcement Learning" (Kontogiannis, Kelesis, Pollatos,
Giannakopoulos, Paliouras; arXiv 2112.07620) sees a crawl as a Markov decision process. The state is the part of the web
that was crawled, an action is a link from a crawled page to a URL that is not fetched yet, and the reward is 1 when its
page turns out relevant, else 0. A link is a few numbers (`FEATURES`): what is known of the path to it, and of the link.
A small neural network learns Q, the sum of discounted rewards to expect from a link and from what it leads to, by
Double DQN: experiences are replayed in random batches, the network chooses the best link of each fetched page, and an
older copy of it, the target network, rates that link. To compute Q for all queued URLs at each step would be too much.
So the *Tree-Frontier* divides them: a regression tree, grown on the rewards of fetched links, has both fetched and
queued links in its leaves. At each step one queued link is drawn from each leaf, and the one with the highest Q is
fetched. In the first steps a leaf is drawn by lot, so that the tree and the network get something to learn from.

What we do. `QNetwork` and `DoubleDQN` are the agent, `Replay` its experiences, `TreeFrontier` the tree, and `Tres` the
order that the crawl talks to. A frontier wants priorities: when pages have come, one URL is drawn from each leaf, those
with the highest Q get the highest priorities, and the ones drawn before fall back. All other URLs have the mean reward
of their leaf as their priority; they are fetched only when the hosts of those that were drawn are not ready. When the
best one fails, the second best comes next. Features and parameters follow the code that the authors published.

Where we deviate, and why:

- Relevance comes from the judge of the crawl, not from the paper's network KwBiLSTM. The relevance of the parent page
  is a number from 0 to 1, as our judges give one; the paper has 0 or 1. Rewards are 0 or 1.
- The paper's classifier also rates the words of a link. Our judges are not known here. So the words of a link are rated
  by their odds to be on relevant pages, learned from the training documents and from all pages that were judged.
- The paper looks for keywords in the URL, in the anchor text, and for key phrases in the anchor text. Words of URL and
  anchor come together here, and as stems: so the numbers are one keyword, two keywords, and a keyword around the link.
  The paper finds more keywords by word vectors; we take the titles of relevant training documents.
- Sites are hosts, not registered domains.
- A URL has one pair of state and action, also when several pages link to it: the one with the highest Q.
- The share of random leaves falls linearly to 0 during the first pages, and learning begins with the first full batch.
  In the authors' crawls, which fetch 20,000 pages, all of the first 300 or 500 choices are random, and learning begins
  then; a small crawl would be over.
- A page without links, or that could not be fetched, ends an episode: it is worth its reward. The last layer of the
  network begins with zeros: before anything is learned, no link is better than another. Seeds are no experiences: no
  link led to them.
- Memory is bounded: old experiences are forgotten, and the numbers of links to URLs that are not in memory.
- Until the first split of the tree there is nothing to choose between: URLs come by the relevance of their parents.

After a re-judging the order is built again from the stored pages. Random numbers have a fixed seed: the same pages in
the same order give the same crawl.

Cost: 0.08 to 0.11 ms of processor time a link, including all other work of a simulated crawl (1,200 pages of
wiki4schools with 65 links each, 281 leaves at the end); `evidence` took 0.02 to 0.03 ms there. More than a third
is the replay, which rates all links of 60 pages after every third page.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from opilio.frontier.arrays import ABSENT, Column
from opilio.frontier.link_words import WordOdds
from opilio.frontier.queue import QueuedUrl
from opilio.frontier.strategies import KnownDocument, LinkTextStrategy, strategies
from opilio.model import RELEVANT, Document, Judgement
from opilio.settings import FrontierSettings

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.frontier.link_words import Words, WordVectors

    Rows: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

FEATURES = (
    "parent", "nearness of a relevant page", "relevant pages on the path",
    "keyword", "two keywords", "keyword around", "host", "unknown host", "words",
)  # fmt: skip
_PARENT, _HOST, _UNKNOWN_HOST = FEATURES.index("parent"), FEATURES.index("host"), FEATURES.index("unknown host")

# The parameters of the code that the authors published.
HIDDEN = (30, 15)
LEAK = 0.1
LEARNING_RATE, RATE_DECAY, MAX_GRADIENT = 0.001, 0.9, 1.0
DISCOUNT = 0.99
BATCH, BATCH_EVERY_PAGES, TARGET_EVERY_PAGES = 60, 3, 500
RANDOM_PAGES = 300
MAX_EXPERIENCES = 20_000
MAX_DEPTH, LEAST_TO_SPLIT = 18, 5
UNKNOWN_HOST_RATIO = 0.5

MAX_CHILDREN = 2**19
"""Links of fetched pages that are remembered for the replay: 36 bytes each."""
MAX_PAIRS = 1_000_000
"""Links that have numbers. When there are more, those to URLs that are not in memory are forgotten."""
PRIOR_PAGES = 1.0
"""The mean reward of a leaf counts as if this many more links had been fetched, which are worth what the parent is."""
SEED_PRIORITY, DRAWN_PRIORITY = 1e4, 2.0
LEAST_DRAWN = 8
"""At least this many drawn URLs get the highest priorities: pages may fail, and hosts may not be ready."""
_EVERY_PAGES, _URLS_PER_PAGE = 32, 50
"""All queued URLs are reprioritised after at least this many pages, and one more for so many queued URLs."""
_SEED = 20211214
_SETTLED = -2


class QNetwork:
    """A multilayer perceptron with one output, trained by Adam on squared errors."""

    def __init__(self, rng: np.random.Generator, inputs: int) -> None:
        sizes = (inputs, *HIDDEN)
        self.weights: list[Values] = [
            rng.normal(0.0, np.sqrt(2.0 / many), (many, few)) for many, few in itertools.pairwise(sizes)
        ]
        self.weights.append(np.zeros((sizes[-1], 1)))
        self.weights.extend(np.zeros(size) for size in (*HIDDEN, 1))  # biases
        self.rate = LEARNING_RATE
        self.steps = 0
        self._mean = [np.zeros_like(one) for one in self.weights]
        self._square = [np.zeros_like(one) for one in self.weights]

    def copy_weights(self, other: QNetwork) -> None:
        """Become as another network is now."""
        self.weights = list(other.weights)  # training replaces them, and changes none

    def values(self, rows: Values) -> Values:
        """Q of each row."""
        return self._layers(rows)[-1][:, 0]

    def _layers(self, rows: Values) -> list[Values]:
        found, last = [rows], len(HIDDEN)
        for layer in range(last + 1):
            out = found[-1] @ self.weights[layer] + self.weights[last + 1 + layer]
            found.append(out if layer == last else np.maximum(out, LEAK * out))
        return found

    def gradients(self, rows: Values, goals: Values) -> list[Values]:
        """How the mean squared error changes with each weight."""
        layers, last = self._layers(rows), len(HIDDEN)
        found: list[Values] = [np.zeros(0)] * len(self.weights)
        error = 2.0 * (layers[-1] - goals[:, None]) / len(rows)
        for layer in range(last, -1, -1):
            found[layer] = layers[layer].T @ error
            found[last + 1 + layer] = error.sum(axis=0)
            error = (error @ self.weights[layer].T) * np.where(layers[layer] > 0.0, 1.0, LEAK)
        return found

    def train(self, rows: Values, goals: Values) -> None:
        """One step towards `goals`."""
        self.steps += 1
        rate = self.rate * np.sqrt(1.0 - 0.999**self.steps) / (1.0 - 0.9**self.steps)
        for at, steep in enumerate(self.gradients(rows, goals)):
            gradient = steep.clip(-MAX_GRADIENT, MAX_GRADIENT)
            self._mean[at] += 0.1 * (gradient - self._mean[at])
            self._square[at] += 0.001 * (gradient * gradient - self._square[at])
            self.weights[at] = self.weights[at] - rate * self._mean[at] / (np.sqrt(self._square[at]) + 1e-7)


class Experiences(NamedTuple):
    """A batch of links that were followed."""

    rows: Values
    rewards: Values
    children: Values
    """The links of their pages, in one line."""
    sizes: Rows
    """How many of these each page has."""


class DoubleDQN:
    """Learns Q from experiences: one network chooses the best next link, an older copy of it rates that link."""

    def __init__(self, rng: np.random.Generator, inputs: int, discount: float = DISCOUNT) -> None:
        self.network = QNetwork(rng, inputs)
        self._target = QNetwork(rng, inputs)
        self._discount = discount

    def learn(self, batch: Experiences) -> None:
        """One step."""
        self.network.train(batch.rows, self.goals(batch))

    def goals(self, batch: Experiences) -> Values:
        """The reward of each experience, and what its page leads to."""
        goals = batch.rewards.copy()
        if len(batch.children):
            owner = np.arange(len(goals)).repeat(batch.sizes)
            order = np.lexsort((-self.network.values(batch.children), owner))
            best = order[np.diff(owner[order], prepend=-1) > 0]
            goals[owner[best]] += self._discount * self._target.values(batch.children[best])
        return goals

    def update_target(self) -> None:
        """Let the target network be as the network is now, which learns more slowly from now on."""
        self._target.copy_weights(self.network)
        self.network.rate *= RATE_DECAY


class Replay:
    """The latest experiences: links that were followed, their rewards, and the links of their pages."""

    def __init__(self) -> None:
        self.first = 0
        """The number of the oldest experience that is remembered. They are numbered from 0."""
        self._rows: Column[np.float32] = Column(np.float32, len(FEATURES))
        self._rewards: Column[np.float64] = Column(np.float64)
        self._starts: Column[np.int64] = Column(np.int64)
        self._sizes: Column[np.int64] = Column(np.int64)
        self._children: Column[np.float32] = Column(np.float32, len(FEATURES))

    def __len__(self) -> int:
        return len(self._rewards)

    def add(self, row: Values, reward: float) -> int:
        """Add an experience, whose page has no links so far; returns its number."""
        if len(self) >= MAX_EXPERIENCES or len(self._children) >= MAX_CHILDREN:
            self._forget(len(self) // 2)
        self._rows.extend(row[None, :])
        self._rewards.extend([reward])
        self._starts.extend([len(self._children)])
        self._sizes.extend([0])
        return self.first + len(self) - 1

    def add_children(self, number: int, rows: Values) -> None:
        """The links of the page of an experience."""
        at = number - self.first
        if at >= 0:
            self._starts.values[at], self._sizes.values[at] = len(self._children), len(rows)
            self._children.extend(rows)

    def of(self, numbers: Rows) -> tuple[Values, Values]:
        """The rows and rewards of some experiences."""
        at = numbers - self.first
        return self._rows.values[at].astype(np.float64), self._rewards.values[at]

    def sample(self, rng: np.random.Generator, count: int) -> Experiences:
        """Some experiences, drawn by lot."""
        at = rng.integers(len(self), size=count)
        sizes = self._sizes.values[at]
        places = np.arange(sizes.sum()) - (sizes.cumsum() - sizes).repeat(sizes)
        children = self._children.values[places + self._starts.values[at].repeat(sizes)]
        rows, rewards = self.of(at + self.first)
        return Experiences(rows, rewards, children.astype(np.float64), sizes)

    def _forget(self, count: int) -> None:
        kept = int(self._starts.values[count])
        for column in (self._rewards, self._starts, self._sizes):
            column.cut(count)
        self._rows.cut(count)
        self._children.cut(kept)
        self._starts.values[:] -= kept
        self.first += count


class RewardLeaf:
    """A leaf of the tree."""

    __slots__ = ("depth", "experiences", "members", "split_at", "total", "visited")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.visited, self.total = 0, 0.0
        """Links that were followed, and the sum of their rewards."""
        self.experiences: list[int] = []
        """Their numbers; the oldest are forgotten."""
        self.split_at = LEAST_TO_SPLIT
        """It may be split when this many links were followed."""
        self.members: list[int] = []
        """Queued links, and some that have left."""


class TreeFrontier:
    """A regression tree on rewards, with queued links in its leaves. Nodes are numbered, the root is 0."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.leaves = {0: RewardLeaf(0)}
        self._feature, self._threshold = np.full(1, ABSENT), np.zeros(1)
        self._left, self._right = np.zeros(1, np.int64), np.zeros(1, np.int64)

    def find(self, rows: Values) -> Rows:
        """The leaf of each row."""
        nodes = np.zeros(len(rows), np.int64)
        going = np.arange(len(rows))
        while True:
            going = going[self._feature[nodes[going]] != ABSENT]
            if not len(going):
                return nodes
            at = nodes[going]
            is_left = rows[going, self._feature[at]] <= self._threshold[at]
            nodes[going] = np.where(is_left, self._left[at], self._right[at])

    def means(self, nodes: Rows, priors: Values) -> Values:
        """The mean reward of some leaves, drawn towards `priors` where little is known."""
        known = {node: (self.leaves[node].visited, self.leaves[node].total) for node in set(nodes.tolist())}
        visited, total = np.array([known[node] for node in nodes.tolist()], np.float64).reshape(-1, 2).T
        means: Values = (total + PRIOR_PAGES * priors) / (visited + PRIOR_PAGES)
        return means

    def add(self, slots: Rows, nodes: Rows) -> None:
        """Queue links in leaves."""
        for slot, node in zip(slots.tolist(), nodes.tolist(), strict=True):
            self.leaves[node].members.append(slot)

    def clear(self) -> None:
        """Take out all queued links."""
        for leaf in self.leaves.values():
            leaf.members.clear()

    def draw(self, rng: np.random.Generator, leaf_of: Rows) -> Rows:
        """One queued link of each leaf that has one, by lot. `leaf_of` has the leaf of each link, by slot."""
        drawn = []
        for (node, leaf), lot in zip(self.leaves.items(), rng.random(len(self.leaves)).tolist(), strict=True):
            members = leaf.members
            while members:
                at = int(lot * len(members))
                if leaf_of[members[at]] == node:
                    drawn.append(members[at])
                    break
                members[at] = members[-1]  # it has left
                members.pop()
        return np.array(drawn, np.int64)

    def learn(self, number: int, leaf_of: Rows) -> list[int]:
        """Add an experience. Returns the queued links of the leaf that was split, if one was: they need new leaves."""
        rows, rewards = self._replay.of(np.array([number]))
        node = int(self.find(rows)[0])
        leaf = self.leaves[node]
        leaf.visited += 1
        leaf.total += float(rewards[0])
        leaf.experiences.append(number)
        if len(leaf.experiences) > MAX_EXPERIENCES:
            del leaf.experiences[: MAX_EXPERIENCES // 2]
        is_pure = leaf.total in (0.0, float(leaf.visited))
        if is_pure or leaf.visited < leaf.split_at or leaf.depth >= MAX_DEPTH:
            return []
        if not self._split(node):
            leaf.split_at = 1 + leaf.visited * 5 // 4  # its links are all alike: to try each time would take long
            return []
        return [slot for slot in dict.fromkeys(leaf.members) if leaf_of[slot] == node]

    def _split(self, node: int) -> bool:
        leaf = self.leaves[node]
        numbers = np.array([one for one in leaf.experiences if one >= self._replay.first])
        rows, rewards = self._replay.of(numbers)
        found = best_split(rows, rewards)
        if found is None:
            return False
        feature, threshold = found
        left = len(self._feature)
        del self.leaves[node]
        is_left = rows[:, feature] <= threshold
        for at, inside in ((left, is_left), (left + 1, ~is_left)):
            child = self.leaves[at] = RewardLeaf(leaf.depth + 1)
            child.experiences = numbers[inside].tolist()
            child.visited, child.total = int(inside.sum()), float(rewards[inside].sum())
        self._feature[node], self._threshold[node] = feature, threshold
        self._left[node], self._right[node] = left, left + 1
        self._feature = np.append(self._feature, [ABSENT, ABSENT])
        self._threshold = np.append(self._threshold, [0.0, 0.0])
        self._left, self._right = np.append(self._left, [0, 0]), np.append(self._right, [0, 0])
        return True


def best_split(rows: Values, rewards: Values) -> tuple[int, float] | None:
    """The feature and the threshold that reduce the variance of the rewards most; None when no split does."""
    count = len(rewards)
    if count < LEAST_TO_SPLIT:
        return None
    order = rows.argsort(axis=0, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=0)
    sums = rewards[order].cumsum(axis=0)
    left = np.arange(1, count)[:, None]
    total = sums[-1]
    # The sum of squared errors falls by this much when the rows up to a place come left.
    gained = sums[:-1] ** 2 / left + (total - sums[:-1]) ** 2 / (count - left) - total**2 / count
    gained[ordered[1:] <= ordered[:-1]] = 0.0  # equal rows stay together
    place, feature = divmod(int(gained.argmax()), rows.shape[1])
    if gained[place, feature] <= 1e-12:
        return None
    return feature, float(ordered[place, feature] + ordered[place + 1, feature]) / 2.0


class LinkPairs:
    """The numbers of the links to URLs that are not settled, one link for each, in slots.

    The numbers of hosts are computed when they are read.
    """

    def __init__(self) -> None:
        self._slots: Column[np.int64] = Column(np.int64)
        """By oid."""
        self._free: list[int] = []
        self.oid: Column[np.int64] = Column(np.int64)
        self.leaf: Column[np.int64] = Column(np.int64)
        """By slot: the leaf where the URL is queued; ABSENT when it is not queued, as far as is known."""
        self.path: Column[np.int64] = Column(np.int64, 2)
        """Relevant pages, and all pages, on the path to the link."""
        self._sid: Column[np.int64] = Column(np.int64)
        self._rows: Column[np.float32] = Column(np.float32, len(FEATURES))
        self._host_pages: Column[np.float64] = Column(np.float64, 2)
        """By host: relevant pages, and all pages."""

    def __len__(self) -> int:
        return len(self.oid) - len(self._free)

    def slots(self, oids: Sequence[int] | Rows) -> Rows:
        """The slot of each URL, negative when it has none."""
        which = np.asarray(oids, np.int64)
        self._slots.grow(int(which.max(initial=-1)) + 1, ABSENT)
        return self._slots.values[which]

    def rows(self, slots: Rows) -> Values:
        """The numbers of some links, as of now."""
        return self.with_hosts(self._rows.values[slots].astype(np.float64), self._sid.values[slots])

    def sid(self, slot: int) -> int:
        """The host of a link's target."""
        return int(self._sid.values[slot])

    def with_hosts(self, rows: Values, sids: Rows) -> Values:
        """Fill in the numbers of hosts."""
        self._host_pages.grow(int(sids.max(initial=-1)) + 1)
        relevant, known = self._host_pages.values[sids].T
        rows[:, _UNKNOWN_HOST] = known == 0.0
        rows[:, _HOST] = np.where(known > 0.0, relevant / np.maximum(known, 1.0), UNKNOWN_HOST_RATIO)
        return rows

    def put(self, oids: Rows, slots: Rows, rows: Values, sids: Rows, path: tuple[int, int]) -> Rows:
        """Set the numbers of links. URLs without a slot get one. Returns the slots."""
        slots = slots.copy()
        for at in np.flatnonzero(slots < 0).tolist():
            if not self._free:
                self._add_slots()
            slots[at] = self._free.pop()
        self._slots.values[oids] = slots
        self.oid.values[slots] = oids
        self._rows.values[slots] = rows
        self._sid.values[slots] = sids
        self.path.values[slots] = path
        return slots

    def _add_slots(self) -> None:
        size = len(self.oid)
        more = max(1024, size)
        for column in (self.oid, self.leaf, self._sid):
            column.grow(size + more, ABSENT)
        self._rows.grow(size + more)
        self.path.grow(size + more)
        self._free.extend(range(size + more - 1, size - 1, -1))

    def free(self, oids: Rows, slots: Rows, *, settled: bool) -> None:
        """Forget the numbers of links."""
        self._slots.values[oids] = _SETTLED if settled else ABSENT
        self.oid.values[slots] = self.leaf.values[slots] = ABSENT
        self._free.extend(slots.tolist())

    def keep(self, slots: Rows) -> None:
        """Forget all links but these."""
        gone = self.oid.values != ABSENT
        gone[slots] = False
        self.free(self.oid.values[gone], np.flatnonzero(gone), settled=False)

    def count_page(self, slot: int, reward: float) -> None:
        """A page of the host of a link was fetched."""
        self._host_pages.values[self._sid.values[slot]] += (reward, 1.0)


class _Ended(NamedTuple):
    """The URL that was settled last: its page may be observed next."""

    oid: int = ABSENT
    path: tuple[int, int] = (0, 0)
    experience: int = ABSENT


@strategies.register("tres")
class Tres(LinkTextStrategy):
    """The URL from which most relevant pages are to be expected in the long run, as a Q network estimates it."""

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self._lots, self._batches = (np.random.default_rng([_SEED, use]) for use in range(2))
        """Random numbers: to draw URLs, and to learn. A restart draws others and learns the same."""
        self.agent = DoubleDQN(self._batches, len(FEATURES))
        self.replay = Replay()
        self.tree = TreeFrontier(self.replay)
        self.pairs = LinkPairs()
        self._words = WordOdds()
        self._keywords: Words = np.zeros(0, np.uint32)
        self._changed: list[Rows] = []
        """Slots that have yet to be placed in the tree."""
        self._drawn: dict[int, float] = {}
        """The priorities of the URLs that were drawn last, by oid."""
        self._ended = _Ended()
        self._pages = 0
        self._pages_drawn = 0
        self._next = 1

    # -- learning

    def prepare(
        self, keywords: Iterable[int], documents: Iterable[KnownDocument], vectors: WordVectors | None = None
    ) -> None:
        """Learn the words of the training documents; those in titles of relevant ones are keywords too."""
        words = set(keywords)
        for document in documents:
            self._learn_words(document.words, document.relevance)
            if document.relevance >= RELEVANT:
                words.update(document.title.tolist())
        self._keywords = np.array(sorted(words), np.uint32)

    def _learn_words(self, words: Words, relevance: float) -> None:
        self._words.learn(words, np.zeros(len(words), np.int64), np.array([relevance]))

    def settle(self, oid: int, relevance: float | None) -> None:
        """Learn from the reward of a URL that was fetched."""
        slot = int(self.pairs.slots([oid])[0])
        self._drawn.pop(oid, None)
        self._ended = _Ended(oid)
        if relevance is not None:
            self._learn_more()
        if slot < 0:
            self.pairs.free(np.array([oid]), np.zeros(0, np.int64), settled=True)
            return
        relevant, known = self.pairs.path.values[slot].tolist()
        experience = ABSENT
        if relevance is not None:
            reward = float(relevance >= RELEVANT)
            experience = self.replay.add(self.pairs.rows(np.array([slot]))[0], reward)
            self.pairs.count_page(slot, reward)
        self.pairs.free(np.array([oid]), np.array([slot]), settled=True)
        self._ended = _Ended(oid, (relevant, known), experience)
        if experience != ABSENT:
            self._place(np.array(self.tree.learn(experience, self.pairs.leaf.values), np.int64))

    def hand_over(self, oid: int, target: int, url: QueuedUrl | None) -> None:
        """The target has the link of the redirected URL, unless it has a better one."""
        source, slot = self.pairs.slots([oid, target]).tolist()
        if source < 0 or slot == _SETTLED:
            return
        sid = self.pairs.sid(source) if url is None else url.host.sid
        rows = self.pairs.with_hosts(self.pairs.rows(np.array([source])), np.array([sid]))
        if slot < 0 or self._are_better(rows, self.pairs.rows(np.array([slot])))[0]:
            relevant, known = self.pairs.path.values[source].tolist()
            put = self.pairs.put(np.array([target]), np.array([slot]), rows, np.array([sid]), (relevant, known))
            self._changed.append(put)

    def _learn_more(self) -> None:
        """One more page is known; the agent learns from pages before it, whose links are known too."""
        self._pages += 1
        if self._pages % BATCH_EVERY_PAGES == 0 and len(self.replay) >= BATCH:
            self.agent.learn(self.replay.sample(self._batches, BATCH))
        if self._pages % TARGET_EVERY_PAGES == 0:
            self.agent.update_target()
        if self._pages % _EVERY_PAGES == 0:
            self._words.refresh()

    def observe(
        self, page: QueuedUrl, judgement: Judgement | None, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """Learn from the words of a page, and take in its links."""
        ended = self._ended if self._ended.oid == page.oid else _Ended(page.oid)
        relevance = judgement.relevance if judgement is not None else 0.0
        if document.term_ids:
            self._learn_words(np.frombuffer(document.term_ids, "<u4"), relevance)
        targets, places = np.unique(np.array(oids, np.int64), return_index=True)
        targets, places = targets[targets != ABSENT], places[targets != ABSENT]
        if not len(targets):
            return
        path = (ended.path[0] + (relevance >= RELEVANT), ended.path[1] + 1)
        rows = np.empty((len(targets), len(FEATURES)))
        rows[:, :3] = relevance, 1.0 / (1.0 + page.steps), path[0] / path[1]
        rows[:, 3:6], rows[:, -1] = self._read_words(document, places)
        hosts = np.array(sids, np.int64)[places]
        self.pairs.with_hosts(rows, hosts)
        if ended.experience != ABSENT:
            self.replay.add_children(ended.experience, rows)
        slots = self.pairs.slots(targets)
        better = slots == ABSENT
        known = np.flatnonzero(slots >= 0)
        if len(known):
            better[known] = self._are_better(rows[known], self.pairs.rows(slots[known]))
        self._changed.append(self.pairs.put(targets[better], slots[better], rows[better], hosts[better], path))

    def _are_better(self, rows: Values, others: Values) -> npt.NDArray[np.bool_]:
        """Which links are better than other links to the same URLs: by Q, then by the pages that they are on."""
        values, before = self.agent.network.values(np.concatenate((rows, others))).reshape(2, -1)
        better: npt.NDArray[np.bool_] = values > before
        parents = rows[:, _PARENT].astype(np.float32)  # as they are kept: else a page could be better than its equal
        better[(values == before) & (parents > others[:, _PARENT])] = True
        return better

    def _read_words(self, document: Document, places: Rows) -> tuple[Values, Values]:
        """Of some links of a page: whether they have one keyword, two, or one around them; and the odds of their words,
        as a number from 0 to 1."""
        count = len(document.links)
        if len(document.link_words_in) != count:  # it came without the words of its links
            return np.zeros((len(places), 3)), np.full(len(places), 0.5)
        words = np.frombuffer(document.link_words, "<u4")
        inner = np.frombuffer(document.link_words_in, np.uint8).astype(np.int64)
        outer = np.frombuffer(document.link_words_around, np.uint8).astype(np.int64)
        # Twice as many parts as links: the even ones are words in links, the odd ones those around them.
        part = np.arange(2 * count).repeat(np.array((inner, outer)).T.ravel())
        keywords = np.bincount(part, np.isin(words, self._keywords), 2 * count)
        odds = np.bincount(part, self._words.odds(words), 2 * count)[::2] / np.sqrt(1.0 + inner)
        found = np.array((keywords[::2] >= 1, keywords[::2] >= 2, keywords[1::2] >= 1), np.float64).T
        return found[places], 1.0 / (1.0 + np.exp(-odds[places]))

    # -- the tree

    def _place(self, slots: Rows) -> None:
        """Queue links in the leaves where they belong now."""
        if len(slots):
            nodes = self.tree.find(self.pairs.rows(slots))
            moved = nodes != self.pairs.leaf.values[slots]
            self.pairs.leaf.values[slots] = nodes
            self.tree.add(slots[moved], nodes[moved])

    def _draw(self) -> None:
        """Draw one URL of each leaf; those with the highest Q come first, now and then one by lot."""
        self._drawn = {}
        if len(self.tree.leaves) == 1:
            return  # there is nothing to choose between yet
        slots = self.tree.draw(self._lots, self.pairs.leaf.values)
        rows = self.pairs.rows(slots)
        means = self.tree.means(self.pairs.leaf.values[slots], rows[:, _PARENT])
        order = np.lexsort((-means, -self.agent.network.values(rows)))
        if len(order) and self._lots.random() < 1.0 - self._pages / RANDOM_PAGES:
            lot = int(self._lots.integers(len(order)))
            order = np.concatenate((order[lot : lot + 1], order[:lot], order[lot + 1 :]))
        count = max(LEAST_DRAWN, 2 * (self._pages - self._pages_drawn))
        self._pages_drawn = self._pages
        oids = self.pairs.oid.values[slots[order[:count]]].tolist()
        self._drawn = {oid: DRAWN_PRIORITY + len(oids) - rank for rank, oid in enumerate(oids)}

    # -- priorities

    def priority(self, link: QueuedUrl) -> float:
        """Of a URL that no observed page links to: seeds come first, what sitemaps name comes late."""
        return SEED_PRIORITY if link.depth == 0 else float(link.relevance)

    def priorities(self, links: Sequence[QueuedUrl]) -> list[float]:
        """High for a URL that was drawn, else the mean reward of its leaf; one without a link keeps what it had."""
        slots = self.pairs.slots([url.oid for url in links])
        known = slots[slots >= 0]
        self._place(known)
        means = self._means(known)

        def mean(url: QueuedUrl) -> float:
            return means[url.oid] if url.oid in means else url.priority or self.priority(url)

        return [mean(url) if url.depth else self.priority(url) for url in links]

    def _means(self, slots: Rows) -> dict[int, float]:
        """The priorities of URLs whose links are in the tree, by oid."""
        means = self.tree.means(self.pairs.leaf.values[slots], self.pairs.rows(slots)[:, _PARENT])
        oids = self.pairs.oid.values[slots].tolist()
        return {oid: self._drawn.get(oid, mean) for oid, mean in zip(oids, means.tolist(), strict=True)}

    def outdated(self, linked: Iterable[int]) -> Iterable[int]:
        """Draw again: the URLs drawn now, those drawn before, and those with new or better links."""
        changed = np.concatenate((np.zeros(0, np.int64), *self._changed))
        self._changed = []
        changed = changed[self.pairs.oid.values[changed] != ABSENT]
        self._place(changed)
        before = self._drawn
        self._draw()
        return dict.fromkeys((*self._drawn, *before, *self.pairs.oid.values[changed].tolist()))

    def reprioritise(self, urls: Collection[QueuedUrl]) -> list[float] | None:
        """Queue all URLs that are in memory, and only those, in the tree as it is now."""
        if self._pages < self._next:
            return None
        self._next = self._pages + max(min(self._pages, _EVERY_PAGES), len(urls) // _URLS_PER_PAGE)
        slots = self.pairs.slots([url.oid for url in urls])
        known = slots[slots >= 0]
        self.pairs.leaf.values[:] = ABSENT
        if len(self.pairs) > MAX_PAIRS:
            self.pairs.keep(known)
            self._changed = []
        self.tree.clear()
        self._place(known)
        self._draw()
        means = self._means(known)
        return [means.get(url.oid, url.priority) if url.depth else self.priority(url) for url in urls]

    def explain(self, oid: int) -> dict[str, float]:
        """The numbers of its link, the mean reward of its leaf, and Q."""
        slots = self.pairs.slots([oid])
        if slots[0] < 0:
            return {}
        rows = self.pairs.rows(slots)
        mean = float(self.tree.means(self.tree.find(rows), rows[:, _PARENT])[0])
        parts = dict(zip(FEATURES, rows[0].tolist(), strict=True))
        return parts | {"mean reward of its leaf": mean, "Q": float(self.agent.network.values(rows)[0])}
