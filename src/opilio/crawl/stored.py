"""The figures of a collection in which no crawl runs."""

from __future__ import annotations

from pathlib import Path

from opilio import learn
from opilio.crawl.ledger import MAX_NOTICES
from opilio.crawl.status import Counters, Status
from opilio.crawl.taught import describe
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.history import count_host_states, last_notices, last_reason, mean_relevance
from opilio.store.topics import queued_by_topic


def stored_status(folder: Path, settings: Settings, store: Store) -> Status:
    """How the last crawl left the collection."""
    counters = Counters(store.load_counters())
    hosts = count_host_states(store)
    return Status(
        folder=str(folder), running=False, pages=counters.pages, fetched_bytes=counters.counts["bytes"],
        urls=store.count_rows("crawl"), waiting=store.waiting_count(), hot=0, in_flight=0, hosts=sum(hosts.values()),
        slow_hosts=hosts.get("slow", 0), bad_hosts=hosts.get("bad", 0),
        elapsed_s=counters.counts["elapsed_ms"] / 1000, pages_per_s=0.0, harvest=mean_relevance(store),
        harvest_history=[],
        outcomes=counters.outcomes(), counters=dict(counters.counts), strategy=settings.frontier.strategy,
        order_by=settings.frontier.order_by, topics=queued_by_topic(store),
        reason=last_reason(store) or "never crawled",
        model=describe(store.load_models(), settings), notices=last_notices(store, MAX_NOTICES),
        recall=learn.estimate_recall(store),
    )  # fmt: skip
