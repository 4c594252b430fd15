"""The models of a collection: listed, compared, used again.

What another model changed, topic by topic: to keep it, or to go back.
"""

from __future__ import annotations

import json
import math
import statistics
from typing import Any

from opilio.classify import Model
from opilio.errors import InputError
from opilio.learn.trainer import TrainedModel
from opilio.store import Store

MAX_CHANGED = 20

_JUDGED = """
    SELECT model_version, count(*), count(*) FILTER (WHERE relevance >= 0.5) FROM judgements GROUP BY model_version
"""
_BOTH = """
    WITH latest AS (
        SELECT oid, model_version, last(relevance ORDER BY rowid) AS relevance FROM judgements
        WHERE model_version IN ($1, $2) GROUP BY oid, model_version
    )
    SELECT a.oid, a.relevance AS first, b.relevance AS second FROM latest a JOIN latest b USING (oid)
    WHERE a.model_version = $1 AND b.model_version = $2
"""
_COUNTS = f"""
    SELECT count(*), count(*) FILTER (WHERE first >= 0.5), count(*) FILTER (WHERE second >= 0.5),
           count(*) FILTER (WHERE first >= 0.5 AND second >= 0.5)
    FROM ({_BOTH})
"""
_CHANGED = f"""
    SELECT c.url, p.title, first, second FROM ({_BOTH}) JOIN crawl c USING (oid) LEFT JOIN pages p USING (oid)
    WHERE (first >= 0.5) <> (second >= 0.5) ORDER BY abs(first - second) DESC, oid LIMIT {MAX_CHANGED}
"""
_REFUSED = "SELECT epoch(noticed), text FROM notices WHERE kind = 'model' ORDER BY noticed DESC, rowid DESC"


def list_models(store: Store) -> list[dict[str, Any]]:
    """All models, newest first."""
    judged = {version: (pages, relevant) for version, pages, relevant in store.query(_JUDGED, max_rows=2**15).rows}
    found = []
    for record in store.load_models():
        pages, relevant = judged.get(record.version, (0, 0))
        found.append(
            {
                "version": record.version, "created_s": record.created_s, "classifier": record.classifier,
                "reason": record.reason, "documents": record.documents, "pages": pages, "relevant": relevant,
                "expected_precision": _expected(record.estimates, "precision"),
                "expected_recall": _expected(record.estimates, "recall"),
            }
        )  # fmt: skip
    return found


def list_refused(store: Store) -> list[dict[str, Any]]:
    """The models that were made and not taken, newest first, with the reason."""
    return [{"refused_s": when, "reason": text} for when, text in store.query(_REFUSED, max_rows=2**15).rows]


def _expected(estimates: str, name: str) -> float | None:
    """The mean over all topics and feature spaces; None when the classifier expects nothing."""
    found = [one[name] for spaces in json.loads(estimates).values() for one in spaces.values()]
    known = [value for value in found if not math.isnan(value)]
    return round(statistics.fmean(known), 4) if known else None


def compare_models(store: Store, first: int, second: int) -> dict[str, Any]:
    """Of the pages that both have judged: how many each finds relevant, and those they disagree about most."""
    for version in (first, second):
        _bytes_of(store, version)
    [[pages, by_first, by_second, by_both]] = store.query(_COUNTS, [first, second]).rows
    names = ("url", "title", "first", "second")
    changed = [dict(zip(names, row, strict=True)) for row in store.query(_CHANGED, [first, second]).rows]
    return {
        "first": first, "second": second, "pages": pages, "relevant_first": by_first, "relevant_second": by_second,
        "relevant_both": by_both, "changed": changed,
    }  # fmt: skip


def renew(store: Store, version: int) -> TrainedModel:
    """An older model under the next version: versions never change, so going back is a step forward."""
    old = Model.from_bytes(_bytes_of(store, version))
    models = store.load_models()
    record = next(record for record in models if record.version == version)
    again = Model(models[0].version + 1, old.classifier, old.trained_judge)
    return TrainedModel(again.version, old.classifier, record.documents, record.estimates, again.to_bytes())


def _bytes_of(store: Store, version: int) -> bytes:
    found = store.load_model(version) if version > 0 else b""
    if not found:
        known = ", ".join(str(record.version) for record in store.load_models()) or "none"
        raise InputError(f"there is no model {version}", f"There are: {known}.")
    return found


MAX_MOVED = 50

_JUDGED_BY_BOTH = """
    WITH latest AS (
        SELECT oid, model_version, last(CASE WHEN accepted THEN kcid END ORDER BY rowid) AS kcid,
               last(relevance ORDER BY rowid) AS relevance
        FROM judgements WHERE model_version IN ($1, $2) GROUP BY oid, model_version
    )
    SELECT a.oid, a.kcid AS kcid_first, b.kcid AS kcid_second, a.relevance AS first, b.relevance AS second
    FROM latest a JOIN latest b USING (oid) WHERE a.model_version = $1 AND b.model_version = $2
"""
_FLOWS = f"SELECT kcid_first, kcid_second, count(*) FROM ({_JUDGED_BY_BOTH}) GROUP BY ALL"
_MOVED = f"""
    SELECT c.url, coalesce(p.title, ''), kcid_first, kcid_second, first, second
    FROM ({_JUDGED_BY_BOTH}) JOIN crawl c USING (oid) LEFT JOIN pages p USING (oid)
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
                "expected_first": _expected_of_topic(expected.get(first, {}).get(str(kcid))),
                "expected_second": _expected_of_topic(expected.get(second, {}).get(str(kcid))),
            }
        )  # fmt: skip
    names = ("url", "title", "topic_first", "topic_second", "first", "second")
    moved = [
        dict(zip(names, (url, title, paths.get(a), paths.get(b), one, other), strict=True))
        for url, title, a, b, one, other in store.query(_MOVED, [first, second]).rows
    ]
    changed = sum(pages for a, b, pages in flows if a != b)
    return {**compared, "topics": topics, "moved": moved, "moved_pages": changed}


def _expected_of_topic(spaces: dict[str, dict[str, float]] | None) -> dict[str, float] | None:
    """Precision and recall that a model expects of itself, as the mean over its feature spaces."""
    if not spaces:
        return None
    found = {}
    for name in ("precision", "recall"):
        known = [one[name] for one in spaces.values() if not math.isnan(one[name])]
        if known:
            found[name] = round(sum(known) / len(known), 4)
    return found or None
