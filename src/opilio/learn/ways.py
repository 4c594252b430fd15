"""What the page that led to a URL tells of it, taken from the database: the words of the link, and the page's own."""

from __future__ import annotations

from opilio.features.evidence import SIGNIFICANT_STEMS
from opilio.settings import Classify
from opilio.store import Store

NO_WAY = ("", b"")

# Of several links on a page, the first that says anything.
_ANCHORS = """
    SELECT c.oid, arg_min(l.anchor, l.position) FROM crawl c JOIN links l ON l.oid_dst = c.oid AND l.oid_src = c.parent
    WHERE c.oid IN (SELECT unnest($1::BIGINT[])) AND l.anchor <> '' GROUP BY c.oid
"""
_TOLD = f"""
    SELECT c.oid, t.tids FROM crawl c JOIN (
        SELECT oid, max_by(tid, freq, {SIGNIFICANT_STEMS}) AS tids FROM terms
        WHERE oid IN (SELECT parent FROM crawl WHERE oid IN (SELECT unnest($1::BIGINT[]))) GROUP BY oid
    ) t ON t.oid = c.parent
    WHERE c.oid IN (SELECT unnest($1::BIGINT[]))
"""


def ways_to(store: Store, oids: list[int], settings: Classify) -> dict[int, tuple[str, bytes]]:
    """For URLs found on pages: the words of the link, and the page's significant stems (uint32 little-endian).

    Only what a feature space looks at is asked for.
    """
    looks_at = "+".join(settings.spaces)
    if not oids:
        return {}
    anchors: dict[int, str] = {}
    told: dict[int, bytes] = {}
    if "anchors" in looks_at:
        anchors = dict(store.query(_ANCHORS, [oids], max_rows=len(oids)).rows)
    if "neighbours" in looks_at:
        rows = store.query(_TOLD, [oids], max_rows=len(oids)).rows
        told = {oid: b"".join(tid.to_bytes(4, "little") for tid in sorted(tids)) for oid, tids in rows}
    return {oid: (anchors.get(oid, ""), told.get(oid, b"")) for oid in anchors.keys() | told.keys()}
