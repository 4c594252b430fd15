"""Features: from a page to vectors that a classifier can use.

A `ClassifierInput` is everything known about a page when it is judged (`classifier_input.py`): its stems in order, the
anchor texts of links to it, significant terms of its neighbours, its text. A *feature space* (`spaces.py`) turns it
into a sparse vector of feature numbers and counts. Only the space knows what a feature means; for everything else it is
a 64-bit number. Spaces are plug-ins, and combinations of spaces are spaces too. Anchor texts have their own stop list
(`anchors.py`). Two spaces are dense and optional: `embeddings`, the mean of word vectors (`embeddings.py`,
`word_vectors.py`), and `encoder`, a small neural network (`encoder.py`, `bert_graph.py`).

For each topic, the best features are selected by mutual information against its competitors (`weights.py`) and
weighted by tf*idf (`weights.py`).

All of this needs only numpy; scipy is imported only for training.

Invariants: the feature numbers of a vector are ascending and distinct; two spaces share a number only for the same
feature.
"""

from opilio.features import embeddings, encoder  # register their spaces
from opilio.features.classifier_input import ClassifierInput
from opilio.features.spaces import SPACES, Space, Vector, make_space
from opilio.features.weights import Idf, mutual_information, project, select, select_among

__all__ = [
    "SPACES",
    "ClassifierInput",
    "Idf",
    "Space",
    "Vector",
    "embeddings",
    "encoder",
    "make_space",
    "mutual_information",
    "project",
    "select",
    "select_among",
]
