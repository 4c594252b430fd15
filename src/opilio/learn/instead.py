"""What pages that are not wanted are about instead: the words that they have more often than those that are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opilio.analyze.terms import Vocabulary
from opilio.analyze.tokens import tokenize
from opilio.store import Store

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

PRIOR_PAGES = 10.0
"""Every word counts as if so many more pages of each side were known, that have it as often as all pages together."""
MIN_SCORE = 2.0
"""In standard errors: less may be chance."""
MIN_PAGES = 3
"""A word of fewer pages says more of them than of the neighbourhood."""
_RANKED = 60  # words looked at: some are no words to show
_SPELLED_PAGES = 40

_COUNTS = """
    SELECT tid, count(*) FILTER (oid IN (SELECT unnest($1::BIGINT[]))),
           count(*) FILTER (oid IN (SELECT unnest($2::BIGINT[])))
    FROM terms WHERE oid IN (SELECT unnest($1::BIGINT[] || $2::BIGINT[])) GROUP BY tid ORDER BY tid
"""
_STEMS = "SELECT tid, term FROM lexicon_distinct WHERE tid IN (SELECT unnest($1::UINTEGER[]))"
_TEXTS = "SELECT coalesce(language, ''), title, text FROM pages WHERE oid IN (SELECT unnest($1::BIGINT[]))"


def words_instead(store: Store, unwanted: Sequence[int], wanted: Sequence[int], top: int = 15) -> list[dict[str, Any]]:
    """The words most over-represented in the pages `unwanted` against `wanted`, both oids, the clearest first.

    Words are spelled as most pages have them where texts are kept, and stems where they are not.
    """
    if not unwanted:
        return []
    pieces = [piece for piece in store.stream(_COUNTS, [list(unwanted), list(wanted)]) if len(piece)]
    if not pieces:
        return []
    tids, here, there = (np.concatenate([piece.column(n).to_numpy() for piece in pieces]) for n in range(3))
    scores = odds_scores(here, there, len(unwanted), len(wanted))
    clear = np.flatnonzero((scores >= MIN_SCORE) & (here >= MIN_PAGES))
    best = clear[np.lexsort((tids[clear], -scores[clear]))][:_RANKED]
    stems = dict(store.query(_STEMS, [tids[best].tolist()]).rows)
    shown = [n for n in best.tolist() if len(stems.get(int(tids[n]), "")) > 2 and stems[int(tids[n])].isalpha()][:top]
    spelled = _spelled(store, [int(tids[n]) for n in shown], unwanted[:_SPELLED_PAGES])
    return [
        {
            "word": spelled.get(int(tids[n])) or stems[int(tids[n])], "score": round(float(scores[n]), 2),
            "unwanted_pages": int(here[n]), "wanted_pages": int(there[n]),
        }
        for n in shown
    ]  # fmt: skip


def odds_scores(here: Values, there: Values, here_pages: int, there_pages: int) -> Values:
    """Of each word: by how many standard errors the log odds of a page to have it are greater here than there.

    `here` and `there` count the pages that have it. A prior made of both sides together keeps rare words quiet.
    """
    usual = (here + there) / (here_pages + there_pages)
    yes, no = PRIOR_PAGES * usual, PRIOR_PAGES * (1.0 - usual) + 0.5
    odds, variance = np.zeros(len(usual)), np.zeros(len(usual))
    for sign, have, pages in ((1.0, here, here_pages), (-1.0, there, there_pages)):
        odds = odds + sign * (np.log(have + yes) - np.log(pages - have + no))
        variance = variance + 1.0 / (have + yes) + 1.0 / (pages - have + no)
    scores: Values = odds / np.sqrt(variance)
    return scores


def _spelled(store: Store, tids: Sequence[int], oids: Sequence[int]) -> dict[int, str]:
    """The commonest word behind each stem in some pages."""
    vocabulary, wanted = Vocabulary(), np.array(tids, np.uint64)
    counts: dict[int, Counter[bytes]] = {tid: Counter() for tid in tids}
    for language, title, text in store.query(_TEXTS, [list(oids)]).rows:
        words = tokenize(f"{title or ''}\n{text or ''}")
        numbers = vocabulary.numbers(words, language) & np.uint64(0xFFFFFFFF)
        for place in np.flatnonzero(np.isin(numbers, wanted)).tolist():
            counts[int(numbers[place])][words[place]] += 1
    return {
        tid: min(found, key=lambda word: (-found[word], word)).decode("utf-8", "replace")
        for tid, found in counts.items()
        if found
    }
