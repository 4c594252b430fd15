"""Clusters become subtopics: one topic each, learned from its most central pages (BINGO 3.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opilio.errors import InputError
from opilio.learn.feedback import take
from opilio.learn.lessons import apply
from opilio.store import Store
from opilio.topics import add_topic, find_topic, hierarchy_of
from opilio.topics.hierarchy import ROOT

_OID = "SELECT p.oid FROM crawl c JOIN pages p USING (oid) WHERE c.url = $1"
_FREE = "SELECT 1 + greatest(coalesce(max(kcid), 0), (SELECT coalesce(max(kcid), 0) FROM judgements)) FROM topics"


def split_topic(store: Store, topic: str, clusters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Make a subtopic of each cluster; returns their paths.

    A cluster has a `name` and `central` pages, as `find_clusters` tells them, and may have `examples`: documents of the
    topic that are in it and become the subtopic's. Below a good topic all are wanted as it is. When the topic is the
    root of a collection without other topics, they are good in its place.
    """
    records = store.load_topics()
    above = find_topic(records, topic)
    names = [" ".join(str(cluster.get("name", "")).split()) for cluster in clusters]
    if len(set(map(str.casefold, names))) < len(names) or not all(names) or not names:
        raise InputError("each subtopic needs a name of its own", "Give every cluster that you choose another name.")
    is_alone = above.kcid == ROOT and len(records) == 1
    [[free]] = store.query(_FREE).rows
    changes, made = [], []
    for name in names:  # all are checked before anything is written
        known = {record.kcid for record in records}
        change = add_topic(records, above.path, name, good=is_alone, first_kcid=free)
        records = change.applied_to(records)
        changes.append(change)
        made += [record for record in change.changed if record.kcid not in known]
    for change in changes:
        apply(store, change)
    hierarchy = hierarchy_of(records)
    for subtopic, cluster in zip(made, clusters, strict=True):
        for url in dict.fromkeys([*(page["url"] for page in cluster.get("central", ())), *cluster.get("examples", ())]):
            rows = store.query(_OID, [url]).rows
            if rows:
                take(store, hierarchy, subtopic.kcid, url, rows[0][0])
    return [subtopic.path for subtopic in made]
