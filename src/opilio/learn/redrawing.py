"""The variable part of a filter, drawn anew from what was found since (OASIS 4, step 5)."""

from __future__ import annotations

from opilio.classify import Model
from opilio.classify.oasis import OasisFilter
from opilio.features.evidence import TextReader
from opilio.learn.trainer import Trained
from opilio.model import RELEVANT
from opilio.store import Store

_RECOMMENDED = f"""
    SELECT p.title, p.text, p.language, c.url FROM pages p JOIN crawl c USING (oid)
    WHERE p.relevance >= {RELEVANT} AND p.text IS NOT NULL ORDER BY p.visited DESC LIMIT ?
"""


def redraw(store: Store, version: int) -> Trained | None:
    """The newest model with its variable part drawn from the latest documents found; None when it has no such part."""
    model = Model.from_bytes(store.load_model(version))
    judge = model.judge_alone
    if not isinstance(judge, OasisFilter):
        return None
    reader = TextReader()
    rows = store.query(_RECOMMENDED, [judge.settings.redraw_after], max_rows=2**16).rows
    found = [reader.read(title or "", text, language or "", url) for title, text, language, url in rows]
    drawn = Model(version + 1, model.classifier, judge.redrawn(found, version + 1, reader.terms))
    return Trained(drawn.version, drawn.classifier, len(found), "{}", drawn.to_bytes())
