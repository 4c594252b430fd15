"""Opilio's page judge as an estimator of scikit-learn, for pipelines, cross-validation and comparisons.

    from opilio.integrations.sklearn import PageClassifier

    PageClassifier().fit(pages, labels).predict(others)
    PageClassifier.from_collection("birds").predict(pages)

Pages are strings, as HTML or plain text, or the bytes of a page. Each label is a topic: the support vector machines of
all topics compete, as at a node of a topic tree, in the feature spaces of terms and pairs of words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from opilio.classify import Example, Model, TrainingSet
from opilio.classify.decision import RELEVANCE_SLOPE
from opilio.classify.svm import SvmTree
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput
from opilio.integrations.model import CollectionModel, InputReader
from opilio.settings import ClassifySettings, Settings
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

LEAST = 1e-9
"""Relevance closer than this to 0 or 1 is taken as this far away, so that its logit is finite."""
MODELS_KEPT = 8


class PageClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no type information
    """Classifies web pages by topic.

    `spaces` are feature spaces, `features` is how many features are selected for a topic, `c` the penalty of the
    support vector machine: `classify.spaces`, `classify.features` and `classify.c` of a collection.
    """

    def __init__(self, spaces: Sequence[str] = ("terms", "pairs"), features: int = 2000, c: float = 1.0) -> None:
        self.spaces = spaces
        self.features = features
        self.c = c

    def fit(self, X: Iterable[str | bytes], y: Iterable[Any]) -> Self:
        """Learn from pages and their labels; at least two labels are needed."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        pages = _pages(X)
        labels = column_or_1d(y if hasattr(y, "shape") else list(y), warn=True)
        check_consistent_length(pages, labels)
        check_classification_targets(labels)
        self.classes_, places = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs pages with two labels or more, and there is 1 class")
        reader = InputReader()
        items = [reader.read(page) for page in pages]
        examples = tuple(Example(int(place) + 1, item) for place, item in zip(places, items, strict=True))
        nodes = [Node(ROOT, ABOVE_ROOT, "all", "", Mark.PATH)]
        nodes += [Node(n, ROOT, str(label), str(label), Mark.GOOD) for n, label in enumerate(self.classes_, 1)]
        training = TrainingSet(Hierarchy(nodes), examples, terms=reader.stems)
        chosen = ClassifySettings(
            spaces=tuple(self.spaces), features=self.features, candidates=max(5000, self.features), c=self.c
        )
        try:
            tree = SvmTree.train(training, Settings(classify=chosen))
        except InputError as error:
            raise ValueError(error.message) from None
        self.learned_ = Model(1, "svm", tree).to_bytes()
        self.topics_: dict[int, str] = {}
        return self

    @classmethod
    def from_collection(cls, folder: Path | str) -> Self:
        """The newest model of a collection, fitted already: it predicts whether a page is relevant, True or False.

        `predict_proba` gives the relevance, and `predict_topics` the topic that took each page.
        """
        found = CollectionModel.of(folder)
        made = cls()
        made.learned_ = found.model.to_bytes()
        made.topics_ = dict(found.topics)
        made.classes_ = np.array([False, True])
        return made

    def predict(self, X: Iterable[str | bytes]) -> npt.NDArray[Any]:
        """The label of each page."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[places]
        return labels

    def decision_function(self, X: Iterable[str | bytes]) -> Values:
        """How sure each label is; of two labels, by how much the second is surer than the first."""
        items = self._items(X)
        model = _restored(self.learned_)
        if self.topics_:
            relevance = np.clip([model.judge(item).relevance for item in items], LEAST, 1.0 - LEAST)
            logits: Values = np.log(relevance / (1.0 - relevance))
            return logits
        assert isinstance(model.trained_judge, SvmTree)
        found = [model.trained_judge.scores(item) for item in items]
        scores = np.array([[one[n] for n in range(1, len(self.classes_) + 1)] for one in found], np.float64)
        scores = scores.reshape(len(items), len(self.classes_))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Iterable[str | bytes]) -> Values:
        """The probability of each label, as far as it can be told from the confidences; rows sum to 1."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            slope = 1.0 if self.topics_ else RELEVANCE_SLOPE
            second = 1.0 / (1.0 + np.exp(-np.clip(slope * scores, -700, 700)))
            return np.stack([1.0 - second, second], axis=1)
        grown = np.exp(RELEVANCE_SLOPE * (scores - scores.max(axis=1, keepdims=True)))
        shares: Values = grown / grown.sum(axis=1, keepdims=True)
        return shares

    def predict_topics(self, X: Iterable[str | bytes]) -> list[str]:
        """The topic of the collection that took each page, OTHERS where none did; without a collection, the labels."""
        items = self._items(X)
        if not self.topics_:
            return [str(label) for label in self.predict(X)]
        found = CollectionModel(_restored(self.learned_), self.topics_)
        return [found.topic_of(found.judge(item)) for item in items]

    def _items(self, X: Iterable[str | bytes]) -> list[ClassifierInput]:
        check_is_fitted(self, "learned_")
        reader = InputReader()
        return [reader.read(page) for page in _pages(X)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, True, False
        return tags


@functools.lru_cache(maxsize=MODELS_KEPT)
def _restored(learned: bytes) -> Model:
    """The model of an estimator, which keeps the bytes: so that it can be copied and pickled."""
    return Model.from_bytes(learned)


def _pages(X: Iterable[str | bytes]) -> list[str | bytes]:
    """The pages, if that is what was given."""
    if isinstance(X, str | bytes):
        raise ValueError("a single page was given where several are expected: give a list")  # noqa: TRY004  (the rule of estimators)
    if getattr(X, "ndim", 1) != 1:
        raise ValueError("pages are expected in one dimension, each a string: a column, not a table")
    pages = list(X)
    if not pages:
        raise ValueError("no pages were given: at least one is needed")
    for place, page in enumerate(pages):
        if not isinstance(page, str | bytes):
            raise ValueError(f"page {place} is {type(page).__name__}, not a string")  # noqa: TRY004  (the same)
    return pages
