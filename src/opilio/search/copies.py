"""Near duplicates among the stored pages: which of them are shown as one.

Two pages are copies of each other when their visible texts are the same, or when at least two of the eight bands of
their sketches are (`analyze.sketch`): 99 % of pairs with a similarity of 0.95 do, 92 % of those with 0.9, one of 140
with 0.6. A group of copies is named by its lowest oid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.search.columns import Columns

SHARED_BANDS = 2


def group(columns: Columns) -> npt.NDArray[np.int64]:
    """For each page, the lowest oid of the pages that are copies of it, itself included."""
    bands, hashes = columns.bands, columns["content_hash"]
    pairs = [_same(hashes)]
    for number in range(bands.shape[1]):
        some = _same(bands[:, number])
        shared = (bands[some[:, 0]] == bands[some[:, 1]]).sum(axis=1)
        pairs.append(some[shared >= SHARED_BANDS])
    first = np.arange(len(columns))
    for a, b in np.concatenate(pairs).tolist():
        root_a, root_b = _root(first, a), _root(first, b)
        first[max(root_a, root_b)] = min(root_a, root_b)
    for place in np.flatnonzero(first != np.arange(len(columns))).tolist():
        first[place] = _root(first, place)
    oids: npt.NDArray[np.int64] = columns["oid"][first]
    return oids


def _same(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Each place whose value stands at an earlier one too, with the first such; 0 is no value."""
    places = np.flatnonzero(values)
    _, first, which = np.unique(values[places], return_index=True, return_inverse=True)
    firsts = places[first[which]]
    is_later = firsts != places
    return np.stack([firsts[is_later], places[is_later]], axis=1)


def _root(first: npt.NDArray[np.int64], place: int) -> int:
    while first[place] != place:
        first[place] = first[first[place]]
        place = int(first[place])
    return place
