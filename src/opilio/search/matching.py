"""From a question to a query of the index, and to masks over the columns."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyType

import numpy as np
import tantivy

from opilio.errors import InputError
from opilio.search.columns import Columns
from opilio.search.leaves import leaves_of
from opilio.search.query import Any, Filter, Node, Without, Word
from opilio.topics import TopicRecord, find_topic
from opilio.topics.tree import OTHERS

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]

_MUST, _SHOULD, _MUST_NOT = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot


def query_of(node: Node) -> AnyType:
    """What the index is asked."""
    if isinstance(node, Word):
        return _word(node)
    if isinstance(node, Without):
        return _boolean([(_MUST, tantivy.Query.all_query()), (_MUST_NOT, query_of(node.part))])
    if isinstance(node, Any):
        return _boolean([(_SHOULD, query_of(part)) for part in node.parts])
    parts = [(_MUST_NOT if isinstance(part, Without) else _MUST, _inner(part)) for part in node.parts]
    if all(occur is _MUST_NOT for occur, _ in parts):
        parts.append((_MUST, tantivy.Query.all_query()))
    return _boolean(parts)


def _inner(node: Node) -> AnyType:
    return query_of(node.part if isinstance(node, Without) else node)


def _boolean(parts: Sequence[tuple[AnyType, AnyType]]) -> AnyType:
    return parts[0][1] if len(parts) == 1 and parts[0][0] is not _MUST_NOT else tantivy.Query.boolean_query(list(parts))


def _word(word: Word) -> AnyType:
    return _boolean([(_SHOULD, _boosted(leaf.query(), leaf.boost)) for leaf in leaves_of(word)])


def _boosted(query: AnyType, boost: float) -> AnyType:
    return query if boost == 1.0 else tantivy.Query.boost_query(query, boost)


# -- filters


def mask_of(filters: Iterable[Filter], columns: Columns) -> Mask:
    """The pages that are looked at: alternatives within a kind of filter, all kinds together."""
    mask = np.ones(len(columns), bool)
    kinds: dict[str, Mask] = {}
    for one in filters:
        fits = _MASKS[one.name](one.value, columns)
        if one.is_not:
            mask &= ~fits
        else:
            kinds[one.name] = kinds[one.name] | fits if one.name in kinds else fits
    for fits in kinds.values():
        mask &= fits
    return mask


def _host(value: str, columns: Columns) -> Mask:
    """A host, or a domain with all hosts below it."""
    wanted = value.lower().strip(".")
    sids = [sid for sid, host in columns.hosts.items() if host == wanted or host.endswith(f".{wanted}")]
    return np.isin(columns["sid"], sids)


def _named(column: str, names: list[str], value: str, columns: Columns) -> Mask:
    wanted = value.lower()
    return np.isin(columns[column], [at for at, name in enumerate(names) if (name or "unknown") == wanted])


def _topic(value: str, columns: Columns) -> Mask:
    if value == OTHERS:
        return columns.in_others
    records = [TopicRecord(**topic, type="", keywords=[]) for topic in columns.topics]
    return np.isin(columns["kcid"], columns.subtree(find_topic(records, value).kcid))


def _day_us(value: str) -> int:
    for form in ("%Y-%m-%d", "%Y-%m", "%Y"):
        try:
            day = datetime.datetime.strptime(value, form).replace(tzinfo=datetime.UTC)
        except ValueError:
            continue
        return int(day.timestamp()) * 1_000_000
    raise InputError(f"{value!r} is no day", "Write it as 2026-01-31, 2026-01 or 2026.")


def _relevance(value: str, columns: Columns) -> Mask:
    try:
        least = float(value)
    except ValueError:
        raise InputError(f"relevance: {value!r} is no number", "Write relevance:0.5 for at least 0.5.") from None
    fits: Mask = columns["relevance"] >= np.float32(least)
    return fits


_MASKS = {
    "host": _host,
    "lang": lambda value, columns: _named("language", columns.languages, value, columns),
    "type": lambda value, columns: _named("kind", columns.kinds, value, columns),
    "topic": _topic,
    "since": lambda value, columns: columns["visited_us"] >= _day_us(value),
    "before": lambda value, columns: columns["visited_us"] < _day_us(value),
    "relevance": _relevance,
}
