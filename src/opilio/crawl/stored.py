"""The figures of a collection in which no crawl runs."""

from __future__ import annotations

from pathlib import Path

from opilio import learn
from opilio.crawl.ledger import MAX_NOTICES
from opilio.crawl.status import Counters, Status
from opilio.crawl.taught import describe
from opilio.settings import Settings
from opilio.store import Store


def stored_status(folder: Path, settings: Settings, store: Store) -> Status:
    """How the last crawl left the collection."""
    counters = Counters(store.load_counters(), store.load_progress())
    reason = store.query("SELECT coalesce(reason, 'it was killed') FROM runs ORDER BY run DESC LIMIT 1").rows
    hosts = dict(store.query("SELECT state, count(*) FROM hosts GROUP BY state").rows)
    mean = store.query("SELECT avg(relevance) FROM pages").rows[0][0]
    topics = store.query(
        "SELECT CASE WHEN t.path = '' THEN t.name ELSE t.path END, count(c.oid) FROM topics t "
        "LEFT JOIN crawl c ON c.topic = t.kcid AND c.state = 'waiting' GROUP BY t.kcid, 1 ORDER BY t.kcid"
    ).rows
    return Status(
        folder=str(folder), running=False, pages=counters.pages, fetched_bytes=counters.counts["bytes"],
        urls=store.count_rows("crawl"), waiting=store.waiting_count(), hot=0, in_flight=0, hosts=sum(hosts.values()),
        slow_hosts=hosts.get("slow", 0), bad_hosts=hosts.get("bad", 0),
        elapsed_s=counters.counts["elapsed_ms"] / 1000, pages_per_s=0.0, harvest=mean, harvest_history=[],
        outcomes=counters.outcomes(), counters=counters.shown(), phase=counters.progress.phase,
        strategy=settings.frontier.strategy,
        order_by=settings.frontier.order_by, topics=dict(topics), reason=reason[0][0] if reason else "never crawled",
        model=describe(store.load_models(), settings), notices=_notices(store),
        recall=learn.estimate_recall(store),
    )  # fmt: skip


def _notices(store: Store) -> list[dict[str, str]]:
    sql = "SELECT kind, text, coalesce(remedy, '') FROM notices ORDER BY noticed DESC, rowid DESC LIMIT ?"
    rows = reversed(store.query(sql, [MAX_NOTICES]).rows)
    return [{"kind": kind, "text": text, "remedy": remedy} for kind, text, remedy in rows]
