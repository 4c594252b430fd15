"""What a new model says of the pages that a strategy has seen, read from the tables in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from opilio.analyze.keywords import term_ids
from opilio.frontier import AllEvidence
from opilio.frontier.link_words import SLOTS, WordOdds
from opilio.frontier.reconsidering import JudgedAnew
from opilio.learn.briefing import documents_of, wanted_words
from opilio.learn.training import gather
from opilio.model import RELEVANT
from opilio.settings import Settings
from opilio.store import Store

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

# In the order in which they were fetched, so that a page comes after the one that led to it.
_JUDGED = """
    SELECT p.oid, p.relevance, coalesce(c.parent, -1)
    FROM seen s JOIN pages p USING (oid) JOIN crawl c USING (oid)
    WHERE p.relevance IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY p.oid ORDER BY p.visited DESC) = 1
    ORDER BY c.lastvisited, p.oid
"""
_WORDS = f"""
    SELECT (t.tid & {SLOTS - 1})::BIGINT, sum(j.goodness), sum(1.0 - j.goodness)
    FROM terms t JOIN judged j USING (oid) GROUP BY 1
"""


def read_anew(
    store: Store, settings: Settings, strategy: AllEvidence, seen: npt.NDArray[np.int64]
) -> tuple[JudgedAnew, frozenset[int]]:
    """How good the pages that a strategy has `seen` are by now, and the words that name the topics."""
    with store.reading() as cursor:
        cursor.register("seen", pa.table({"oid": np.unique(seen)}))
        oids, relevance, parents = (column.to_numpy() for column in cursor.sql(_JUDGED).to_arrow_table().columns)
        goodness = strategy.worth(relevance.astype(np.float64))
        cursor.register("judged", pa.table({"oid": oids, "goodness": goodness}))
        slots, good, bad = (column.to_numpy() for column in cursor.sql(_WORDS).to_arrow_table().columns)
    training = gather(store, settings)
    words = WordOdds()
    documents = list(documents_of(training))
    for stems, _, is_good in documents:
        words.learn(stems, np.zeros(len(stems), np.int64), np.array([is_good]), are_once=True)
    words.add(slots, good, bad, (float(goodness.sum()), float((1.0 - goodness).sum())))
    judged = JudgedAnew(oids, goodness, _steps(oids, relevance, parents), words, documents)
    return judged, frozenset(term_ids(wanted_words(training)))


def _steps(oids: npt.NDArray[np.int64], relevance: Values, parents: npt.NDArray[np.int64]) -> Values:
    """Of each page: 0 when it is relevant, else one more than of the page that led to it."""
    steps: dict[int, int] = {}
    for oid, value, parent in zip(oids.tolist(), relevance.tolist(), parents.tolist(), strict=True):
        steps[oid] = 0 if value >= RELEVANT else steps.get(parent, 0) + 1
    return np.fromiter(steps.values(), np.float64, len(steps))
