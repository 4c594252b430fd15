"""How far archives have been sifted, and which archive a page came from."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import NamedTuple

from opilio.store.database import Store

_PROGRESS = """
    SELECT archive, lane, lanes, record_offset, skip, number, done, judged, on_topic, stored
    FROM archives WHERE model = $1 AND archive || ' ' || size IN (SELECT unnest($2::VARCHAR[]))
    QUALIFY row_number() OVER (PARTITION BY archive, lane, lanes ORDER BY done DESC, number DESC) = 1
    ORDER BY archive, lanes, lane
"""
_ORIGINS = """
    SELECT oid, archive, record_offset, captured FROM sifted WHERE oid IN (SELECT unnest($1::BIGINT[]))
"""


class LaneProgress(NamedTuple):
    """How far one lane of an archive has been sifted."""

    archive: str
    lane: int
    lanes: int
    record_offset: int
    skip: int
    number: int
    done: bool
    judged: int
    on_topic: int
    stored: int


class ArchivedOrigin(NamedTuple):
    """Where a page was in an archive."""

    archive: str
    record_offset: int
    captured: datetime.datetime | None


def sifting_progress(store: Store, model: str, archives: Sequence[tuple[str, int]]) -> list[LaneProgress]:
    """The lanes that were begun of some archives, which are given by name and size, with one model."""
    names = [f"{name} {size}" for name, size in archives]
    return [LaneProgress(*row) for row in store.select(_PROGRESS, [model, names], max_rows=2**24).rows]


def archived_origins(store: Store, oids: Sequence[int]) -> dict[int, ArchivedOrigin]:
    """Where those of some pages that came from an archive, not from the web, were in it; by oid."""
    rows = store.select(_ORIGINS, [list(oids)], max_rows=len(oids)).rows if oids else []
    return {oid: ArchivedOrigin(*origin) for oid, *origin in rows}
