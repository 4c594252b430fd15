"""Classification: from what is known about a page to a judgement, the topic it belongs to and the confidence in it.

A classifier is trained on examples of the topics and judges pages in the workers. `judge.py` declares what all of them
share, and the registry where others plug in. The default is `svm`: support vector machines at each node of the topic
tree (`svm.py`, trained by `svm_training.py` with the estimates of `xi_alpha.py`), in several feature spaces, whose
votes are combined on the way down the tree (`decision.py`; BINGO). `keywords.py` needs no training.

Classifiers of other papers, which nothing else depends on: naive Bayes down the tree (`bayes.py`, Focus; also in SQL,
see `store/probes.py`), the cosine similarity to examples (`cosine.py`, Best-N-First), and a filter of terms and
collocations (`oasis.py`, `oasis_filter.py`, `oasis_metrics.py`, `collocations.py`; OASIS).

A `Model` is a trained classifier with its version. Invariants: a trained classifier never changes, one restored from
its bytes judges exactly as it does, and every judgement has the version of its model.
"""

from opilio.classify import bayes, cosine, oasis, svm  # classifiers register on import
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
from opilio.classify.keywords import KeywordJudge, QueryJudge

__all__ = [
    "CLASSIFIERS",
    "Estimate",
    "Estimating",
    "Example",
    "Explanation",
    "Judge",
    "KeywordJudge",
    "Model",
    "QueryJudge",
    "Reason",
    "Step",
    "TrainingSet",
    "bayes",
    "cosine",
    "oasis",
    "svm",
]
