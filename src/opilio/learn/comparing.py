"""What another model changed, topic by topic: to keep it, or to go back."""

from __future__ import annotations

import json
import math
from typing import Any

from opilio.learn.models import compare_models
from opilio.store import Store

MAX_MOVED = 50

_BOTH = """
    WITH latest AS (
        SELECT oid, model_version, last(CASE WHEN accepted THEN kcid END ORDER BY rowid) AS kcid,
               last(relevance ORDER BY rowid) AS relevance
        FROM judgements WHERE model_version IN ($1, $2) GROUP BY oid, model_version
    )
    SELECT a.oid, a.kcid AS kcid_first, b.kcid AS kcid_second, a.relevance AS first, b.relevance AS second
    FROM latest a JOIN latest b USING (oid) WHERE a.model_version = $1 AND b.model_version = $2
"""
_FLOWS = f"SELECT kcid_first, kcid_second, count(*) FROM ({_BOTH}) GROUP BY ALL"
_MOVED = f"""
    SELECT c.url, coalesce(p.title, ''), kcid_first, kcid_second, first, second
    FROM ({_BOTH}) JOIN crawl c USING (oid) LEFT JOIN pages p USING (oid)
    WHERE kcid_first IS DISTINCT FROM kcid_second ORDER BY abs(first - second) DESC, oid LIMIT {MAX_MOVED}
"""


def compare_topics(store: Store, first: int, second: int) -> dict[str, Any]:
    """The comparison of two models, with the pages of each topic before and after, and those that changed topics.

    A topic of None is OTHERS: no topic took the page.
    """
    compared = compare_models(store, first, second)
    paths = {record.kcid: record.path or record.name for record in store.load_topics()}
    expected = {model.version: json.loads(model.estimates) for model in store.load_models()}
    flows = store.query(_FLOWS, [first, second], max_rows=2**20).rows
    topics = []
    for kcid in sorted(
        {kcid for flow in flows for kcid in flow[:2] if kcid is not None}, key=lambda k: paths.get(k, "")
    ):
        stayed = sum(pages for a, b, pages in flows if a == b == kcid)
        before = sum(pages for a, _, pages in flows if a == kcid)
        after = sum(pages for _, b, pages in flows if b == kcid)
        topics.append(
            {
                "topic": paths.get(kcid, f"topic {kcid}, which was removed"), "first": before, "second": after,
                "came": after - stayed, "left": before - stayed,
                "expected_first": _expected(expected.get(first, {}).get(str(kcid))),
                "expected_second": _expected(expected.get(second, {}).get(str(kcid))),
            }
        )  # fmt: skip
    names = ("url", "title", "topic_first", "topic_second", "first", "second")
    moved = [
        dict(zip(names, (url, title, paths.get(a), paths.get(b), one, other), strict=True))
        for url, title, a, b, one, other in store.query(_MOVED, [first, second]).rows
    ]
    changed = sum(pages for a, b, pages in flows if a != b)
    return {**compared, "topics": topics, "moved": moved, "moved_pages": changed}


def _expected(spaces: dict[str, dict[str, float]] | None) -> dict[str, float] | None:
    """Precision and recall that a model expects of itself, as the mean over its feature spaces."""
    if not spaces:
        return None
    found = {}
    for name in ("precision", "recall"):
        known = [one[name] for one in spaces.values() if not math.isnan(one[name])]
        if known:
            found[name] = round(sum(known) / len(known), 4)
    return found or None
