"""Evidence to judgements: which topic a page belongs to, and how sure that is.

A classifier is trained on examples of the topics and judges pages in the workers; what they have in common is in
`judge.py`, with the registry by which others can be plugged in. Ours: support vector machines down the topic tree with
a vote of several feature spaces (`svm.py`, BINGO), naive Bayes down the tree (`bayes.py`, Focus; also in the database,
see `store/probes.py`), a filter of terms and collocations (`oasis.py`, OASIS), and the mere keywords of the topics
(`keywords.py`), which need no training.

A `Model` is a trained classifier with its version. Invariants: a trained classifier never changes, its bytes judge
exactly as it does, and every judgement carries the version of its model.
"""

from opilio.classify import bayes, oasis, svm  # classifiers register on import
from opilio.classify.judge import (
    CLASSIFIERS,
    Estimate,
    Estimating,
    Example,
    Explanation,
    Judge,
    Model,
    Reason,
    Step,
    TrainingSet,
)
from opilio.classify.keywords import KeywordJudge

__all__ = [
    "CLASSIFIERS",
    "Estimate",
    "Estimating",
    "Example",
    "Explanation",
    "Judge",
    "KeywordJudge",
    "Model",
    "Reason",
    "Step",
    "TrainingSet",
    "bayes",
    "oasis",
    "svm",
]
