"""The marks of topics after a statement that a user wrote: they must be possible, and the others follow from the good.

Focus 3.7 changes a crawl by one UPDATE of the taxonomy. A statement may do that here too, but it cannot leave a good
topic below a good one, a good root that has topics, or no good topic: then nothing of it is kept. Marks that it did not
write are brought in line with those that it did. A mark that it wrote and that contradicts the good ones is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from opilio.errors import InputError, QueryError
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Mark, marks_of
from opilio.topics.tree import check_root

_TOPICS = "SELECT kcid, pcid, path, type FROM topics ORDER BY kcid"
_SETTLE = "UPDATE topics SET type = ? WHERE kcid = ?"
_HINT = "Nothing was changed. `opilio topics mark FOLDER TOPIC good` changes all marks that must change, in one step."

Topics = dict[int, tuple[int, str, str]]
"""Parent, path and mark of each topic, by its number."""


def read_topics(cursor: duckdb.DuckDBPyConnection) -> Topics:
    """The topics as the transaction of `cursor` sees them."""
    rows = cursor.execute(_TOPICS).fetchall()
    return {kcid: (ABOVE_ROOT if pcid is None else pcid, path, mark) for kcid, pcid, path, mark in rows}


def settle_marks(cursor: duckdb.DuckDBPyConnection, before: Topics) -> None:
    """Derive the other marks from the good ones, after a statement in the transaction of `cursor`; QueryError if that
    cannot be. `before` are the topics as they were before the statement."""
    after = read_topics(cursor)
    if after == before:
        return
    marks = _derived(after)
    for kcid, (_, path, mark) in after.items():
        if mark == marks[kcid]:
            continue
        if kcid not in before or before[kcid][2] != mark:
            raise QueryError(
                f"topic {path or 'root'!r} cannot be {mark}: it is {marks[kcid]} by the good topics", _HINT
            )
        cursor.execute(_SETTLE, [marks[kcid].value, kcid])


def _derived(topics: Topics) -> Mapping[int, Mark]:
    good = {kcid for kcid, (_, _, mark) in topics.items() if mark == Mark.GOOD}
    if not good:
        raise QueryError("no topic would be good, so no page would be wanted", _HINT)
    _check_tree(topics)
    try:
        if ROOT in good:
            check_root(len(topics))
        parents = {kcid: parent for kcid, (parent, _, _) in topics.items()}
        return marks_of(parents, good, {kcid: path for kcid, (_, path, _) in topics.items()})
    except InputError as error:
        raise QueryError(error.message, _HINT) from None


def _check_tree(topics: Topics) -> None:
    """Refuse parents that do not exist, and topics that are above themselves."""
    for kcid, (_, path, _) in topics.items():
        above, line = topics[kcid][0], {kcid}
        while above != ABOVE_ROOT:
            if above not in topics or above in line:
                raise QueryError(f"topic {path or 'root'!r} would not be below the root", "Nothing was changed.")
            line.add(above)
            above = topics[above][0]
