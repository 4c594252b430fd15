"""The classifier `bayes`: naive Bayes at each node of the topic tree; relevance is the probability of the good topics
(Focus 2.1).

At each inner node the topics below it compete with each other and with OTHERS (`BayesNode`). The probability
Pr[c | d] that page d is about topic c is the product of the probabilities of all choices from the root down to c, and
the relevance R(d) of the page is the sum of Pr[c | d] over the good topics, which include the topics below them.

For one node (Focus 2.1.1), let D(c) be the training documents of c, with n(d, t) occurrences of term t in document d,
c0 the node and ci its children:

    theta(ci, t) = (1 + sum of n(d, t) over D(ci)) / (distinct terms of D(c0) + sum of n(d, t') over D(ci) and all t')

    Pr[ci | c0, d]  is proportional to  Pr[ci | c0] * product over t of d and F(c0) of theta(ci, t) ** n(d, t)

The denominator counts all terms, whether they are features F(c0) or not. The prior Pr[ci | c0] is the share of D(ci) in
D(c0). It enters before the probabilities are normalised: the paper's program sketch adds it afterwards, but its
equation (2), and its requirement that the relevance of the children sum to that of their parent, contradict that.

`opilio.store.probes` has the same model as tables, and computes the same numbers in SQL.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec
import numpy as np

from opilio.classify.judge import (
    BELOW_RELEVANT,
    CLASSIFIERS,
    MAX_MISSING,
    Explanation,
    Reason,
    Step,
    TrainingSet,
    strongest,
)
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput
from opilio.features.spaces import Vector, make_space
from opilio.features.weights import select_among
from opilio.model import RELEVANT, Judgement
from opilio.settings import ClassifySettings, Settings
from opilio.topics.hierarchy import ROOT, Hierarchy, Mark, Node

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Columns = dict[str, npt.NDArray[np.generic]]

SPACE = "terms"
MAX_LOG_ODDS = 10_000.0
"""Bound that keeps confidences finite but does not cut off differences between pages: 500 terms come to hundreds."""
REASONS = 10


class PackedNode(msgspec.Struct, array_like=True):
    """A serialised node: arrays as little-endian bytes, and of log theta only what does not follow from the rest."""

    pcid: int
    children: list[int]
    features: bytes
    logprior: bytes
    logdenom: bytes
    places: bytes
    logtheta: bytes


@dataclass(frozen=True, slots=True)
class BayesNode:
    """One inner node of a trained tree."""

    pcid: int
    children: tuple[int, ...]
    """The competing topics, by kcid, and OTHERS; those without training documents are missing."""
    features: npt.NDArray[np.uint64]
    """F(c0), ascending."""
    logprior: Floats
    logdenom: Floats
    logtheta: Floats
    """Features by children. If the documents of a child lack the term, eq. (1) is 1 / denominator: -logdenom."""

    @classmethod
    def learn(cls, pcid: int, classes: Mapping[int, Sequence[Vector]], settings: ClassifySettings) -> BayesNode:
        """Select features and estimate theta from the documents of each child, which must not be empty."""
        documents = list(classes.values())
        terms = np.unique(np.concatenate([vector.ids for vectors in documents for vector in vectors]))
        features = np.zeros(0, np.uint64)
        if len(documents) > 1:  # a single class needs no features
            features = np.sort(select_among(documents, candidates=settings.candidates, features=settings.features))
        counts = np.stack([_sums(features, vectors) for vectors in documents], axis=1)
        lengths = [sum(float(vector.values.sum()) for vector in vectors) for vectors in documents]
        sizes = np.array([len(vectors) for vectors in documents], np.float64)
        logprior, logdenom = np.log(sizes / sizes.sum()), np.log(len(terms) + np.array(lengths))
        return cls(pcid, tuple(classes), features, logprior, logdenom, np.log(1.0 + counts) - logdenom)

    def rows(self, page: Vector) -> tuple[npt.NDArray[np.intp], Floats]:
        """The rows of `logtheta` whose features the page has, and its counts of them."""
        if not len(self.features):
            return np.zeros(0, np.intp), np.zeros(0)
        places = np.searchsorted(self.features, page.ids)
        places[places == len(self.features)] = 0
        found = self.features[places] == page.ids
        return places[found], page.values[found]

    def log_probabilities(self, page: Vector) -> Floats:
        """log Pr[ci | c0, d] of the children; the priors if the page has no feature."""
        rows, counts = self.rows(page)
        scores = self.logprior + counts @ self.logtheta[rows]
        scores -= scores.max()
        normed: Floats = scores - math.log(float(np.exp(scores).sum()))
        return normed

    def weights(self, page: Vector, child: int) -> dict[int, float]:
        """The contribution of each feature of the page to a child: count times (log theta - mean over its siblings)."""
        siblings = len(self.children) - 1
        if not siblings:
            return {}
        rows, counts = self.rows(page)
        added = counts * self._lead(rows, child)
        return dict(zip(self.features[rows].tolist(), added.tolist(), strict=True))

    def missing(self, page: Vector, child: int) -> list[int]:
        """The features that would speak for a child and that the page lacks, the strongest first."""
        if len(self.children) < 2:
            return []
        rows = np.setdiff1d(np.arange(len(self.features)), self.rows(page)[0])
        lead = self._lead(rows, child)
        order = np.argsort(-lead, kind="stable")
        return [int(tid) for tid in self.features[rows[order[lead[order] > 0.0]]]]

    def _lead(self, rows: npt.NDArray[np.intp], child: int) -> Floats:
        """By feature: log theta of a child, less the mean over its siblings."""
        logtheta = self.logtheta[rows]
        own = logtheta[:, self.children.index(child)]
        lead: Floats = own - (logtheta.sum(axis=1) - own) / (len(self.children) - 1)
        return lead

    def known(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The cells (feature, child) of `logtheta` with a count above 0, where log(1 + count) is at least log 2."""
        rows, columns = np.nonzero(self.logtheta + self.logdenom > 0.5)
        return rows, columns

    def pack(self) -> PackedNode:
        """The serialised node."""
        rows, columns = self.known()
        return PackedNode(
            self.pcid,
            list(self.children),
            self.features.astype("<u8").tobytes(),
            self.logprior.astype("<f8").tobytes(),
            self.logdenom.astype("<f8").tobytes(),
            (rows * len(self.children) + columns).astype("<u4").tobytes(),
            self.logtheta[rows, columns].astype("<f8").tobytes(),
        )

    @classmethod
    def unpack(cls, packed: PackedNode) -> BayesNode:
        """The node that was packed, identical to the last bit."""
        features, logdenom = np.frombuffer(packed.features, "<u8"), np.frombuffer(packed.logdenom, "<f8")
        logtheta = np.tile(np.negative(logdenom), (len(features), 1))
        logtheta.reshape(-1)[np.frombuffer(packed.places, "<u4")] = np.frombuffer(packed.logtheta, "<f8")
        return cls(
            packed.pcid,
            tuple(packed.children),
            features.astype(np.uint64),
            np.frombuffer(packed.logprior, "<f8").astype(np.float64),
            logdenom.astype(np.float64),
            logtheta,
        )


def _sums(features: npt.NDArray[np.uint64], vectors: Sequence[Vector]) -> Floats:
    """How often each of the ascending `features` occurs in all `vectors`."""
    ids = np.concatenate([vector.ids for vector in vectors])
    values = np.concatenate([vector.values for vector in vectors])
    is_feature = np.isin(ids, features)
    places = np.searchsorted(features, ids[is_feature])
    return np.bincount(places, values[is_feature], len(features)).astype(np.float64)


def others_kcid(pcid: int) -> int:
    """The number of OTHERS below a node: negative, and different from `ABOVE_ROOT`. The function is its own inverse."""
    return -3 - pcid


class ModelTables(NamedTuple):
    """The model as the tables of the paper, with columns by name."""

    taxonomy_stat: Columns
    """kcid, pcid, logprior, logdenom: a row for each child of an inner node, OTHERS included."""
    stat: Columns
    """pcid, kcid, tid, logtheta: a row for each child and each feature that its documents have."""


class _Packed(msgspec.Struct):
    """A serialised tree."""

    focus: str
    topics: list[tuple[int, int, str, str, Mark]]
    nodes: list[PackedNode]
    names: dict[int, str]
    kind: str = "bayes"


class _Descent:
    """The probabilities of one page, computed node by node as needed."""

    def __init__(self, nodes: Mapping[int, BayesNode], start: int, page: Vector) -> None:
        self.page = page
        self._nodes = nodes
        self._start = start
        self._logpr = {start: 0.0}
        self._expanded: set[int] = set()

    def expand(self, pcids: Iterable[int]) -> dict[int, float]:
        """Expand the nodes `pcids`, and return log Pr[c | d] of all topics reached so far; parents come first."""
        for pcid in pcids:
            if pcid not in self._expanded:
                self._expanded.add(pcid)
                node = self._nodes[pcid]
                logpr = node.log_probabilities(self.page) + self._logpr[pcid]
                self._logpr.update(zip(node.children, logpr.tolist(), strict=True))
        return self._logpr

    def best_leaf(self) -> int:
        """The most probable leaf: the most probable node is expanded until it is a leaf, which no other can exceed."""
        pool = [(0.0, self._start)]
        while pool[0][1] in self._nodes:
            _, pcid = heapq.heappop(pool)
            logpr = self.expand([pcid])
            for kcid in self._nodes[pcid].children:
                heapq.heappush(pool, (-logpr[kcid], kcid))
        return pool[0][1]


@CLASSIFIERS.register("bayes")
class BayesTree:
    """A trained Bayes tree.

    For a page without any feature of the first node, the model could only return the priors, so it abstains, with
    relevance 0. With hard focus, the best leaf decides whether a page is relevant: relevance is R(d), but at least
    `RELEVANT` if that leaf is wanted and at most `BELOW_RELEVANT` if it is not; confidence is consistent with it.
    """

    def __init__(
        self, hierarchy: Hierarchy, nodes: Iterable[BayesNode], names: Mapping[int, str], *, focus: str = "soft"
    ) -> None:
        self.hierarchy = hierarchy
        self.nodes = {node.pcid: node for node in nodes}
        """By pcid, parents first."""
        self.names = dict(names)
        self.focus = focus
        self._space = make_space(SPACE, ClassifySettings())
        met = {kcid for node in self.nodes.values() for kcid in node.children}
        self._good = good_topics(hierarchy) & met
        above = {hierarchy.start}.union(*(hierarchy.line(kcid)[:-1] for kcid in self._good))
        self._path = [pcid for pcid in self.nodes if pcid in above]
        near = {kcid for pcid in self._path for kcid in self.nodes[pcid].children}
        self._unwanted = sorted(near - self._good - above)

    @classmethod
    def train(cls, training: TrainingSet, settings: Settings) -> Self:
        """Learn each inner node. Topics without examples and examples without terms are left out."""
        space, hierarchy = make_space(SPACE, settings.classify), training.hierarchy
        vectors = {id(example): space.vector(example.item) for example in training}
        nodes = []
        for pcid in hierarchy.inner():
            groups = {kcid: training.of(kcid) for kcid in hierarchy.children(pcid)}
            groups[others_kcid(pcid)] = training.others_of(pcid)
            found = ((kcid, [vectors[id(example)] for example in group]) for kcid, group in groups.items())
            classes = {kcid: [vector for vector in group if len(vector.ids)] for kcid, group in found}
            classes = {kcid: group for kcid, group in classes.items() if group}
            if any(kcid in hierarchy.nodes for kcid in classes):
                nodes.append(BayesNode.learn(pcid, classes, settings.classify))
        _check_examples(hierarchy, nodes)
        known = {tid for node in nodes for tid in node.features.tolist()}
        names = {tid: name for tid, name in training.terms.items() if tid in known}
        return cls(hierarchy, nodes, names, focus=settings.classify.focus)

    def judge(self, item: ClassifierInput) -> Judgement:
        """The topic is the best leaf, the relevance R(d), and the confidence the log odds of R(d)."""
        descent = self._descend(item)
        return self._judgement(descent) if descent else Judgement()

    def judge_probabilities(self, logpr: Mapping[int, float]) -> Judgement:
        """The same from log Pr[c | d] of all topics and every OTHERS, which the database computes.

        They must be those of a page with a feature of the first node: on others `judge` abstains.
        """
        leaf = min((kcid for kcid in logpr if kcid not in self.nodes), key=lambda kcid: (-logpr[kcid], kcid))
        return self._judge_leaf(leaf, logpr)

    def explain(self, item: ClassifierInput) -> Explanation:
        """A step for each topic that competed with its siblings at the nodes on the way to the best leaf."""
        descent = self._descend(item)
        if not descent:
            return Explanation(Judgement(), ())
        judgement = self._judgement(descent)
        line = self.hierarchy.line(judgement.topic) if judgement.accepted else []
        names = self._space.names(item, self.names)
        way = [pcid for pcid in (self.hierarchy.start, *line) if pcid in self.nodes]
        steps = [step for pcid in way for step in _steps(self.nodes[pcid], descent.page, line, names, self.names)]
        return Explanation(judgement, tuple(steps))

    def log_probabilities(self, item: ClassifierInput) -> dict[int, float]:
        """log Pr[c | d] of every competing topic and every OTHERS, even for a page on which `judge` abstains."""
        descent = _Descent(self.nodes, self.hierarchy.start, self._space.vector(item))
        found = descent.expand(self.nodes)
        return {kcid: logpr for kcid, logpr in found.items() if kcid != self.hierarchy.start}

    def tables(self) -> ModelTables:
        """The model as tables, with only those values of log theta that were counted; all others are -logdenom."""
        taxonomy: list[tuple[object, ...]] = []
        stat: list[tuple[object, ...]] = []
        for node in self.nodes.values():
            children, (rows, columns) = np.array(node.children, np.int16), node.known()
            parents = np.full(len(rows), node.pcid, np.int16)
            taxonomy.append((children, np.full(len(children), node.pcid, np.int16), node.logprior, node.logdenom))
            tids = node.features[rows].astype(np.uint32)
            stat.append((parents, children[columns], tids, node.logtheta[rows, columns]))
        return ModelTables(
            _columns(("kcid", "pcid", "logprior", "logdenom"), taxonomy),
            _columns(("pcid", "kcid", "tid", "logtheta"), stat),
        )

    def to_bytes(self) -> bytes:
        """Everything it has learned, including marks and focus."""
        topics = [(n.kcid, n.parent, n.name, n.path, n.mark) for n in self.hierarchy.nodes.values()]
        nodes = [node.pack() for node in self.nodes.values()]
        return msgspec.msgpack.encode(_Packed(self.focus, topics, nodes, self.names))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The tree that was saved as `data`."""
        try:
            packed = msgspec.msgpack.decode(data, type=_Packed)
            nodes = [BayesNode.unpack(node) for node in packed.nodes]
        except (msgspec.MsgspecError, ValueError, IndexError) as error:
            raise InputError(f"not a trained Bayes tree: {error}", "Train the classifier again.") from None
        if packed.kind != "bayes":
            raise InputError(f"a trained classifier of the kind {packed.kind!r}, not a Bayes tree")
        return cls(Hierarchy(Node(*topic) for topic in packed.topics), nodes, packed.names, focus=packed.focus)

    def _descend(self, item: ClassifierInput) -> _Descent | None:
        """The start of a page's way down; None if none of its words is known."""
        page = self._space.vector(item)
        start = self.hierarchy.start
        return _Descent(self.nodes, start, page) if len(self.nodes[start].rows(page)[0]) else None

    def _judgement(self, descent: _Descent) -> Judgement:
        leaf = descent.best_leaf()
        return self._judge_leaf(leaf, descent.expand(self._path))

    def _judge_leaf(self, leaf: int, logpr: Mapping[int, float]) -> Judgement:
        topic = leaf if leaf in self.hierarchy.nodes else others_kcid(leaf)
        accepted = topic != self.hierarchy.start
        good, unwanted = _log_sum(logpr, self._good), _log_sum(logpr, self._unwanted)
        relevance = min(1.0, math.exp(good))
        confidence = max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, good - unwanted))
        if self.focus == "hard":
            is_wanted = accepted and self.hierarchy.is_wanted(topic)
            relevance = max(relevance, RELEVANT) if is_wanted else min(relevance, BELOW_RELEVANT)
            confidence = max(confidence, 0.0) if is_wanted else min(confidence, BELOW_RELEVANT - RELEVANT)
        return Judgement(
            topic=topic if accepted else ROOT,
            accepted=accepted,
            relevance=relevance,
            confidence=confidence,
            votes={SPACE: confidence},
            agreed=[SPACE] if relevance >= RELEVANT else [],
        )


def good_topics(hierarchy: Hierarchy) -> frozenset[int]:
    """The topics whose probabilities make up R(d).

    A good root is replaced by the topics directly below it: with the root itself, R(d) would be 1 for every page.
    """
    return frozenset(hierarchy.children(ROOT)) if hierarchy.start in hierarchy.good else hierarchy.good


def _check_examples(hierarchy: Hierarchy, nodes: Sequence[BayesNode]) -> None:
    """Raise InputError if there is nothing to distinguish, or no good topic has examples."""
    met = {kcid for node in nodes for kcid in node.children}
    if not good_topics(hierarchy) & met:
        missing = ", ".join(repr(hierarchy.nodes[kcid].path or "the root") for kcid in sorted(hierarchy.good))
        raise InputError(
            f"no example with words for a good topic ({missing or 'no topic is marked good'})",
            "Give each good topic at least one page to learn from.",
        )
    if len(nodes[0].children) < 2:
        raise InputError(
            "only one topic has examples: there is nothing to distinguish it from",
            "Give texts that are about none of the topics ([classify] others), or examples of another topic.",
        )


def _steps(
    node: BayesNode, page: Vector, line: Sequence[int], names: Mapping[int, str], stems: Mapping[int, str]
) -> list[Step]:
    """A step for each topic below a node; `names` are those of the page's features, `stems` of all the tree knows."""
    logpr = dict(zip(node.children, node.log_probabilities(page).tolist(), strict=True))
    steps = []
    for topic in (kcid for kcid in node.children if kcid >= ROOT):
        odds = logpr[topic] - _log_sum(logpr, [kcid for kcid in node.children if kcid != topic])
        confidence = max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, odds))
        parts = node.weights(page, topic)
        reasons = tuple(Reason(names[tid], parts[tid]) for tid in strongest(parts, REASONS))
        lacks = () if topic in line else node.missing(page, topic)
        missing = tuple(stems[tid] for tid in lacks if tid in stems)[:MAX_MISSING]
        steps.append(
            Step(topic, confidence, topic in line, votes={SPACE: confidence}, reasons=reasons, missing=missing)
        )
    return steps


def _log_sum(logpr: Mapping[int, float], kcids: Iterable[int]) -> float:
    """The logarithm of the sum of probabilities, even if they are too small for a float."""
    values = [logpr[kcid] for kcid in kcids]
    if not values:
        return -math.inf
    greatest = max(values)
    return greatest + math.log(sum(math.exp(value - greatest) for value in values))


def _columns(names: Sequence[str], parts: Sequence[tuple[object, ...]]) -> Columns:
    return {name: np.concatenate(column) for name, column in zip(names, zip(*parts, strict=True), strict=True)}
