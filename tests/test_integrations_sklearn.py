"""The page judge as an estimator: it keeps the rules of scikit-learn, and works with its tools."""

import io
import random
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from opilio import Collection
from opilio.integrations.sklearn import PageClassifier

WORDS = {
    "owls": "owl barn vole night feather nest talon hoot prey wing moon branch",
    "cars": "engine oil wheel motor diesel garage brake tyre gear lorry petrol driver",
    "bread": "flour yeast oven dough crust baker rye loaf knead salt crumb sourdough",
}


def pages(labels: Iterable[str], count: int = 20) -> tuple[list[str], list[str]]:
    """Pages of random words of their label, every other as HTML."""
    drawn, texts, marks = random.Random(7), [], []
    for n in range(count):
        for label in labels:
            text = " ".join(drawn.choices(WORDS[label].split(), k=40))
            texts.append(f"<html><body><p>{text}</p></body></html>" if n % 2 else text)
            marks.append(label)
    return texts, marks


@pytest.mark.parametrize("labels", [("owls", "cars"), ("owls", "cars", "bread")])
def test_it_learns_and_its_answers_agree(labels: tuple[str, ...]) -> None:
    """Two labels or three: predictions are right, and follow from scores and probabilities."""
    texts, marks = pages(labels)
    judge = PageClassifier().fit(texts[:-9], marks[:-9])
    assert judge.score(texts[-9:], marks[-9:]) == 1.0
    scores, shares = judge.decision_function(texts), judge.predict_proba(texts)
    assert scores.shape == ((len(texts),) if len(labels) == 2 else (len(texts), 3))
    assert shares.shape == (len(texts), len(labels)) and np.allclose(shares.sum(axis=1), 1)
    assert list(judge.classes_[shares.argmax(axis=1)]) == list(judge.predict(texts))
    assert list(judge.predict([texts[0].encode(), ""])) and judge.predict_topics(texts[:2]) == list(
        judge.predict(texts[:2])
    )


def test_it_works_with_the_tools_of_scikit_learn() -> None:
    """In a pipeline, in cross-validation and a search for parameters; copied and pickled it answers the same."""
    texts, marks = pages(("owls", "cars"))
    assert cross_val_score(PageClassifier(), texts, marks, cv=3).mean() == 1.0
    lowered = make_pipeline(FunctionTransformer(lambda rows: [row.lower() for row in rows]), PageClassifier())
    assert lowered.fit(texts, marks).score(texts, marks) == 1.0
    search = GridSearchCV(PageClassifier(), {"features": [20, 200], "spaces": [("terms",), ("terms", "pairs")]}, cv=2)
    assert search.fit(texts, marks).best_score_ > 0.9
    judge = PageClassifier(c=0.5).fit(texts, marks)
    file = io.BytesIO()
    joblib.dump(judge, file)
    file.seek(0)
    assert np.array_equal(joblib.load(file).decision_function(texts), judge.decision_function(texts))
    with pytest.raises(NotFittedError):
        clone(judge).predict(texts)
    assert clone(judge).c == 0.5


class OfNumbers(PageClassifier):
    """Takes tables of numbers, the only input that scikit-learn's checks give: each value becomes a word, repeated for
    its size."""

    def fit(self, X: Any, y: Any) -> "OfNumbers":
        from sklearn.utils.validation import validate_data

        X, y = validate_data(self, X, y)
        super().fit(_written(X), y)
        return self

    def decision_function(self, X: Any) -> Any:
        from sklearn.utils.validation import check_is_fitted, validate_data

        check_is_fitted(self)
        return super().decision_function(_written(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, False, True
        return tags


def _written(table: Any) -> list[str]:
    signs = {False: "plus", True: "minus"}
    return [" ".join(f"{signs[value < 0]}{chr(97 + n % 26)}{chr(97 + n // 26)}x " * min(60, round(4 * abs(value)))
                     for n, value in enumerate(row)) for row in table]  # fmt: skip


NOT_APPLICABLE: dict[str, str] = {}


def test_it_keeps_the_rules_of_estimators() -> None:
    """scikit-learn's own checks, all that it has for classifiers: on numbers written as words, since it checks nothing
    for text alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(OfNumbers(), expected_failed_checks=NOT_APPLICABLE, on_fail=None)
    failed = {one["check_name"]: str(one["exception"]) for one in results if one["status"] == "failed"}
    assert not failed
    assert sum(one["status"] == "passed" for one in results) > 40


@pytest.mark.parametrize(
    ("wrong", "says"),
    [("one page", "single page"), ([[1.0]], "not a string"), (np.zeros((2, 2)), "one dimension"), ([], "no pages")],
)  # fmt: skip
def test_wrong_input(wrong: Any, says: str) -> None:
    """Errors are ValueError, as scikit-learn's tools expect, and say what is wrong."""
    texts, marks = pages(("owls", "cars"))
    with pytest.raises(ValueError, match=says):
        PageClassifier().fit(texts, marks).predict(wrong)
    with pytest.raises(ValueError, match="1 class"):
        PageClassifier().fit(texts, ["owls"] * len(texts))
    with pytest.raises(ValueError, match="no example with any text"):
        PageClassifier().fit(["", "owl"], ["a", "b"])


def test_the_model_of_a_collection(tmp_path: Path) -> None:
    """It says what the collection says: relevance as probability, and the topic."""
    texts, marks = pages(("owls", "cars"), 6)
    (tmp_path / "seeds.txt").write_text("http://owls.test/\n")
    owls = Collection.create(tmp_path / "owls", seeds=tmp_path / "seeds.txt", query="barn owls")
    assert PageClassifier.from_collection(tmp_path / "owls").predict(["Barn owls at night", "A car"]).tolist() == [
        True,
        False,
    ]
    for text, mark in zip(texts, marks, strict=True):
        if not text.startswith("<"):
            owls.add_example("barn owls", f"text: {text}", positive=mark == "owls")
    owls.train()
    judge = PageClassifier.from_collection(tmp_path / "owls")
    assert judge.predict(texts).tolist() == [mark == "owls" for mark in marks]
    assert judge.predict_topics(texts[:2]) == ["barn owls", "OTHERS"]
    (tmp_path / "page.txt").write_text(texts[0])
    said = owls.explain(str(tmp_path / "page.txt"))["judgement"]["relevance"]
    assert judge.predict_proba(texts[:1])[0, 1] == pytest.approx(said, abs=1e-6)
    assert np.array_equal(joblib.load(_dumped(judge, tmp_path)).predict(texts), judge.predict(texts))


def _dumped(judge: PageClassifier, folder: Path) -> Path:
    joblib.dump(judge, folder / "judge.joblib")
    return folder / "judge.joblib"
