"""Visits that come together are absorbed together: with the same result as one by one."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio import Collection
from opilio.analyze.sketch import bands
from opilio.crawl.absorb import VISIT_SPACING_S, Absorber
from opilio.crawl.commits import Commits
from opilio.crawl.ledger import Ledger
from opilio.crawl.restore import restore
from opilio.crawl.status import Counters
from opilio.frontier import AllEvidence, Duplicates, Frontier, QueuedUrl, ScopeFilter, make_strategy
from opilio.lab.webs import RecordedTransport
from opilio.model import (
    Document,
    Fetch,
    HostReport,
    IllegalTransition,
    Judgement,
    Lease,
    LeaseKind,
    Link,
    Links,
    Outcome,
    Region,
    UrlState,
    Visit,
    url_key,
)
from opilio.settings import Settings, override
from opilio.store import Batch, Store
from webs import Page, Web

PAGES = 40


def url_of(number: int) -> str:
    return f"http://h{number % 4}.example/d{number % 3}/{number}.html"


def made(lease: Lease) -> Visit:
    """What a worker would say: pages link to others, some are gone, some redirect."""
    if lease.kind is LeaseKind.HOST:
        return Visit(lease, Fetch(Outcome.CLIENT_ERROR, 404), host=HostReport(404))
    number = int(lease.url.rpartition("/")[2].removesuffix(".html"))
    if number % 11 == 7:
        return Visit(lease, Fetch(Outcome.CLIENT_ERROR, 404))
    if number % 11 == 9:
        return Visit(lease, Fetch(Outcome.REDIRECT, 301, redirect_url=url_of((number + 5) % PAGES)))
    rng = random.Random(number)
    targets = [url_of(rng.randrange(PAGES)) for _ in range(6)]
    links = Links.of(Link(url, url_key(url), "word", "around", Region.MAIN, at) for at, url in enumerate(targets))
    document = Document(
        "", "", "en", "", str(number), "", links, np.array([number % 5 + 1, 90], "<u4").tobytes(), b"\1\0\1\0", [],
        number + 1, b"", link_words=np.arange(12, dtype="<u4").tobytes(), link_words_in=bytes([1] * 6),
        link_words_around=bytes([1] * 6),
    )  # fmt: skip
    relevance = rng.random()
    return Visit(lease, Fetch(Outcome.OK, 200), document, judgement=Judgement(0, relevance > 0.5, relevance, relevance))


def crawl(strategy: str, *, together: bool, max_turns: int = 3) -> Absorber:
    settings = override(Settings(), {"frontier.strategy": strategy, "fetch.host_delay_s": 0.0, "fetch.per_host": 8})
    ledger = Ledger(Duplicates(settings.duplicates, bands), Counters())
    frontier = Frontier(settings, make_strategy(settings.frontier), ScopeFilter(settings.scope), ledger)
    absorber = Absorber(settings, frontier, ledger)
    for number in range(4):
        absorber.offer(url_of(number), parent=-1, depth=0, relevance=1.0, topic=0, now_s=1.0)
    for turn in range(max_turns + 1):  # hosts are contacted in the first
        visits = [made(lease) for lease in frontier.take(10.0 + turn, 16)]
        if together:
            absorber.absorb_all(visits, 10.0 + turn)
        else:
            for visit in visits:
                absorber.absorb(visit, 10.0 + turn)
    return absorber


def test_a_url_is_leased_in_memory_until_its_visit_comes() -> None:
    """What a worker has is leased, in memory alone; then it has the final state of its outcome, and no other comes."""
    absorber = crawl("best-first", together=True)
    ledger = absorber.ledger
    leases = [lease for lease in absorber.frontier.take(100.0, 16) if lease.kind is LeaseKind.PAGE]
    assert leases
    assert all(ledger.states[lease.oid] is UrlState.LEASED and ledger.is_open(lease.oid) for lease in leases)
    rows = ledger.swap_batch(absorber.frontier.hosts)
    assert UrlState.LEASED not in {*rows.urls.state, *rows.changes.state}
    visits = [made(lease) for lease in leases]
    absorber.absorb_all(visits, 100.0)
    after = dict(zip(ledger.batch.changes.oid, ledger.batch.changes.state, strict=True))
    assert {oid: ledger.states[oid] for oid in after} == after
    assert {lease.oid for lease in leases} <= set(after)
    url = QueuedUrl(leases[0].oid, leases[0].url, absorber.frontier.hosts[0], 0, 0, 1.0)
    with pytest.raises(IllegalTransition, match="cannot become"):
        ledger.settle(url, Outcome.OK, 100.0)


@pytest.mark.parametrize("strategy", ["best-first", "evidence"])
def test_rows_do_not_depend_on_how_visits_come(strategy: str) -> None:
    """URLs get the same oids, in ascending order, with the same links and ends: two turns from the same frontier."""
    one_by_one, together = (crawl(strategy, together=way, max_turns=1) for way in (False, True))
    for absorber in (one_by_one, together):
        assert absorber.ledger.batch.urls.oid == sorted(absorber.ledger.batch.urls.oid)
    assert together.ledger.batch.urls.url == one_by_one.ledger.batch.urls.url
    assert together.ledger.batch.urls.state == one_by_one.ledger.batch.urls.state
    assert together.ledger.batch.links.oids == one_by_one.ledger.batch.links.oids
    assert together.ledger.batch.changes.oid == one_by_one.ledger.batch.changes.oid
    assert dict(together.counters.counts) == dict(one_by_one.counters.counts)


def test_evidence_does_not_depend_on_how_visits_come() -> None:
    """A strategy that saw pages together knows the same of every URL as one that saw each by itself."""
    known = []
    for way in (False, True):
        absorber = crawl("evidence", together=way, max_turns=1)
        strategy = absorber.frontier.strategy
        assert isinstance(strategy, AllEvidence)
        waiting = strategy.evidence.known_among(range(absorber.ledger.next_oid))
        strategy.evidence.refresh()
        known.append((waiting.tolist(), strategy.evidence.features(waiting)))
    assert known[0][0] == known[1][0] and len(known[0][0]) > 5
    np.testing.assert_allclose(known[0][1], known[1][1], rtol=1e-4, atol=1e-5)


def test_what_is_found_waits_at_once() -> None:
    """After visits were absorbed, all that they led to can be taken or is in the database: nothing is held back."""
    absorber = crawl("evidence", together=True)
    frontier = absorber.frontier
    states = absorber.ledger.batch.urls.state
    assert frontier.waiting + len(absorber.ledger.batch.changes.oid) >= len(states) - frontier.in_flight
    open_oids = [oid for oid in range(absorber.ledger.next_oid) if absorber.ledger.is_open(oid)]
    assert sorted(open_oids) == sorted({*frontier.tiers._hot, *frontier.leased, *frontier.tiers.retries.oids})


@settings(max_examples=200)
@given(st.floats(1.6e9, 3e9))
def test_the_order_of_visits_that_came_together_is_found_again(now_s: float) -> None:
    """The database keeps microseconds, a float of so many seconds a quarter of one: no two times become the same."""
    stored_us = [round((now_s + place * VISIT_SPACING_S) * 1e6) for place in range(600)]
    assert len(set(stored_us)) == 600 and stored_us == sorted(stored_us)


def test_a_crawl_that_resumes_knows_where_redirects_lead(tmp_path: Path) -> None:
    """A redirected URL is fetched but has no page, so that no page is dropped as its twin; links to it are links to
    where it leads, at the end of all redirects."""
    web = Web(
        [
            Page("An owl hunts.", links=((1, "night"),)),
            Page(redirect="http://h2.example/2.html"),
            Page(redirect="http://h0.example/3.html"),
            Page("Owls nest in trees."),
        ]
    )
    (tmp_path / "seeds.txt").write_text(web.url(0))
    collection = Collection.create(
        tmp_path / "c", seeds=tmp_path / "seeds.txt", settings={"run.workers": -1, "fetch.host_delay_s": 0.0}
    )
    collection.crawl(transport=RecordedTransport(web.recorded(tmp_path / "web"), collection.settings))
    absorber = crawl("evidence", together=True, max_turns=-1)
    ledger = absorber.ledger = Ledger(Duplicates(absorber.settings.duplicates, bands), Counters())
    with Store.open(collection.folder) as store:
        restore(store, absorber, tmp_path / "warc")
        oids = {url: oid for oid, url in store.query("SELECT oid, url FROM crawl").rows}
    first, moved, moved_again, last = (oids[web.url(place)] for place in range(4))
    assert [ledger.is_stored(oid) for oid in (first, moved, moved_again, last)] == [True, False, False, True]
    assert ledger.aliases.final_all([first, moved, moved_again]) == [first, last, last]


def test_a_commit_writes_nothing_when_only_time_has_passed(tmp_path: Path) -> None:
    """Tasks commit before they read: without news that costs no transaction. The time is written with the next batch,
    and at the end."""
    settings = Settings()
    ledger = Ledger(Duplicates(settings.duplicates, bands), Counters())
    frontier = Frontier(settings, make_strategy(settings.frontier), ScopeFilter(settings.scope), ledger)
    absorber = Absorber(settings, frontier, ledger)
    times = iter(range(1, 100))
    written: list[dict[str, int]] = []
    with Store.create(tmp_path) as store:
        write = store.write

        def note(batch: Batch) -> None:
            written.append(dict(batch.counters))
            write(batch)

        store.write = note  # type: ignore[method-assign]

        async def use() -> None:
            commits = Commits(settings.store, store, absorber, lambda: float(next(times)))
            await commits.commit(wait=True)
            assert not written
            absorber.counters.add("pages")
            await commits.commit(wait=True)
            await commits.commit(wait=True)
            assert [sorted(counters) for counters in written] == [["elapsed_ms", "pages"]]
            await commits.close()
            assert sorted(written[-1]) == ["elapsed_ms"]

        asyncio.run(use())
