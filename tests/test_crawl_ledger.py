"""The ledger: every change of a URL's state is recorded once, and the frontier's decisions reach it."""

from __future__ import annotations

from opilio.analyze.sketch import bands
from opilio.crawl.absorb import Absorber
from opilio.crawl.ledger import Ledger
from opilio.crawl.status import Counters
from opilio.frontier import Duplicates, Frontier, ScopeFilter, make_strategy
from opilio.model import LeaseKind, Outcome, UrlState
from opilio.settings import Settings, override


def make(**changes: object) -> Absorber:
    """An absorber that was offered three URLs on two hosts."""
    settings = override(
        Settings(), {"fetch.host_delay_s": 0.0, **{k.replace("__", "."): v for k, v in changes.items()}}
    )
    ledger = Ledger(Duplicates(settings.duplicates, bands), Counters())
    frontier = Frontier(settings, make_strategy(settings.frontier), ScopeFilter(settings.scope), ledger)
    absorber = Absorber(settings, frontier, ledger)
    for url in ("http://a.example/1", "http://a.example/2", "http://b.example/1"):
        absorber.offer(url, parent=-1, depth=1, relevance=0.5, topic=0, now_s=1.0)
    return absorber


def test_a_url_that_the_frontier_drops_is_settled() -> None:
    """What a lock drops from the queues has its final state in the ledger, in the counters and in the batch."""
    absorber = make()
    absorber.frontier.lock(["a.example"])
    ledger = absorber.ledger
    assert [ledger.is_open(oid) for oid in range(3)] == [False, False, True]
    assert sorted(ledger.batch.changes.oid) == [0, 1]
    assert set(ledger.batch.changes.state) == {UrlState.DROPPED}
    assert ledger.counters.counts[f"outcome:{Outcome.LOCKED}"] == 2


def test_a_duplicate_is_rejected_before_its_lease() -> None:
    """A URL that differs from a stored page in its suffix alone is never leased, and both are recorded."""
    absorber = make(duplicates__suffix=True)
    absorber.ledger.duplicates.restore(99, 0, "http://c.example/x.html", "1.2.3.4", 10, 5, b"")
    oid = absorber.offer("http://c.example/x.htm", parent=-1, depth=1, relevance=1.0, topic=0, now_s=1.0)
    for host in absorber.frontier.hosts:
        host.origin("http").contacted_s = 1.0
    leases = absorber.frontier.take(2.0, 10)
    assert sorted(lease.oid for lease in leases if lease.kind is LeaseKind.PAGE) == [0, 1, 2]
    batch = absorber.ledger.batch
    assert (batch.duplicates.oid, batch.changes.oid) == ([oid], [oid])
    assert not absorber.ledger.is_open(oid)


def test_a_stored_url_that_is_reopened_is_a_recrawl() -> None:
    """Its changed priorities are not written: the outcome in its row says that a page is stored."""
    absorber = make()
    ledger = absorber.ledger
    queued = {url.oid: url for queue in absorber.frontier.tiers.queues.values() for url in queue}
    for host in absorber.frontier.hosts:
        host.origin("http").contacted_s = 1.0
    assert [lease.oid for lease in absorber.frontier.take(2.0, 1)] == [0]
    ledger.settle(queued[0], Outcome.OK, 3.0, 0.9)
    assert ledger.is_stored(0) and queued[0].relevance == 0.9
    ledger.reopen(0)
    assert ledger.is_open(0) and ledger.recrawls == {0}
    ledger.swap_batch(absorber.frontier.hosts)
    ledger.priorities_changed([queued[0], queued[1]])
    assert ledger.batch.changes.oid == [1]


def test_every_host_is_written_once_and_again_when_it_changes() -> None:
    """Hosts have no gaps in the database, also those of URLs that are not kept."""
    absorber = make()
    absorber.offer(
        "http://" + "d" * 60 + ".example/" + "x" * 5000, parent=-1, depth=1, relevance=0.5, topic=0, now_s=1.0
    )
    assert absorber.swap_batch().hosts.sid == [0, 1, 2]
    assert absorber.swap_batch().hosts.sid == []
    absorber.ledger.changed_hosts.add(1)
    assert absorber.swap_batch().hosts.sid == [1]
