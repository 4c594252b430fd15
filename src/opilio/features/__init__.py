"""Documents to vectors: what may speak about a page, seen in several ways.

*Evidence* is all that is known of a page when it is judged (`evidence.py`): its stems in order, the words of links that
point to it, significant terms of its neighbours, its text. A *feature space* (`spaces.py`) turns evidence into a sparse
vector: numbers of features and their counts. What a feature means only its space knows; to everything after it, it is
a 64-bit number. Spaces are plug-ins; combinations of them are spaces too. Words of links go through a stop list of
their own (`anchors.py`).

For each topic the best features are chosen by mutual information against its competitors (`selection.py`) and weighed
by tf*idf (`weights.py`). A trained model looks only at chosen features: `matrix.py` finds them in a vector.

All of this runs on numpy alone; only the matrix of a training set needs scipy, and imports it when it is made.

Invariant: a vector's feature numbers are ascending and distinct, and no two spaces share a number unless they mean the
same.
"""

from opilio.features import embeddings  # registers its space
from opilio.features.evidence import Evidence
from opilio.features.selection import mutual_information, select, select_among
from opilio.features.spaces import SPACES, Space, Vector, make_space
from opilio.features.weights import Idf, project, to_matrix

__all__ = [
    "SPACES",
    "Evidence",
    "Idf",
    "Space",
    "Vector",
    "embeddings",
    "make_space",
    "mutual_information",
    "project",
    "select",
    "select_among",
    "to_matrix",
]
