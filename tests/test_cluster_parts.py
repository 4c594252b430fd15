"""The parts of a crawl on a cluster that need none: who has a host, what may be said twice, what passes unread."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import opilio
from opilio.cluster.actor import WorkerActor
from opilio.cluster.bridge import Placement
from opilio.cluster.workers import Parcel, parcels_decoder, placed
from opilio.crawl.messages import WorkerSetup, encoder, visits_decoder
from opilio.errors import OpilioError
from opilio.lab.local_web import LocalServer
from opilio.model import Fetch, HostReport, Lease, Outcome, Visit
from opilio.settings import Settings, override


class Somebody(NamedTuple):
    number: int


HOSTS = [f"host{number}.test" for number in range(300)]


@given(st.sets(st.integers(0, 50), min_size=2, max_size=20))
def test_only_the_hosts_of_a_lost_actor_move(numbers: set[int]) -> None:
    """When one goes, the hosts of the others stay; when it comes back, all is as before."""
    placing: Placement[Somebody] = Placement()
    everybody = [Somebody(number) for number in numbers]
    for one in everybody:
        placing.add(one)
    before = {host: placing.of(host) for host in HOSTS}
    gone = everybody[0]
    placing.remove(gone)
    after = {host: placing.of(host) for host in HOSTS}
    assert all(after[host] == before[host] for host in HOSTS if before[host] != gone)
    assert gone not in after.values()
    placing.add(gone)
    assert {host: placing.of(host) for host in HOSTS} == before


def test_hosts_are_shared_evenly() -> None:
    """Ten actors have about as many hosts each."""
    placing: Placement[Somebody] = Placement()
    for number in range(10):
        placing.add(Somebody(number))
    shares = Counter(placing.of(f"host{number}.test") for number in range(5000))
    assert len(shares) == 10
    assert min(shares.values()) > 400


@given(st.lists(st.tuples(st.sampled_from(["begin", "end", "join", "leave"]), st.integers(0, 3)), max_size=60))
def test_a_host_is_never_with_two(steps: list[tuple[str, int]]) -> None:
    """Whoever joins or leaves: as long as a host has leases under way, all of them are with one actor."""
    placing: Placement[Somebody] = Placement()
    under_way: dict[str, list[Somebody]] = {}
    for step, number in steps:
        host = f"host{number}.test"
        if step == "join":
            placing.add(Somebody(number))
        elif step == "leave":
            placing.remove(Somebody(number))
        elif step == "begin":
            who = placing.of(host)
            if who is None:
                assert not placing.ready
                continue
            placing.begun(host, who)
            under_way.setdefault(host, []).append(who)
        elif under_way.get(host):
            under_way[host].pop()
            placing.ended(host)
        assert all(len(set(those)) <= 1 for those in under_way.values())


def test_what_the_bridge_does_not_read_passes_unchanged() -> None:
    """A visit that went through the bridge is the same but for its place in the archive."""
    visit = Visit(
        Lease(7, "http://a.test/"), Fetch(Outcome.OK, 200, warc_offset=10, warc_bytes=90),
        host=HostReport(200, "User-agent: *", 1.5, ["http://a.test/s.xml"]), sitemap_urls=["http://a.test/1"],
    )  # fmt: skip
    [parcel] = parcels_decoder.decode(encoder.encode([Parcel(visit, b"records")]))
    assert parcel.records == b"records"
    fetch = msgspec.structs.replace(parcel.visit.fetch, warc_file="f.warc.gz", warc_offset=500)
    [arrived] = visits_decoder.decode(encoder.encode([placed(parcel.visit, fetch)]))
    assert arrived == msgspec.structs.replace(visit, fetch=fetch)


def worker_setup(server: LocalServer, folder: Path) -> bytes:
    settings = dataclasses.asdict(override(Settings(), {"fetch.connect_to": server.connect_to}))
    return encoder.encode(WorkerSetup(settings, b"", str(folder), "w0"))


def test_calls_may_be_repeated(small_server: LocalServer, tmp_path: Path) -> None:
    """An order that arrives twice is carried out once; parcels whose answer was lost are given again, no others."""
    leases = [Lease(oid, url) for oid, url in enumerate(sorted(small_server.web.pages)[:6])]

    async def use() -> list[int]:
        actor = WorkerActor(worker_setup(small_server, tmp_path), b"", opilio.__version__)
        for _ in range(2):
            await actor.carry_out(1, encoder.encode(leases[:3]), None, False)
        await actor.carry_out(2, encoder.encode(leases[3:]), None, False)
        oids: list[int] = []
        seen = 0
        while len(oids) < len(leases):
            number, parcels = await actor.parcels(seen)
            assert (number, parcels) == await actor.parcels(seen), "the first answer was lost"
            oids += [parcel.visit.lease.oid for parcel in parcels_decoder.decode(parcels)]
            seen = number
        two = await asyncio.gather(actor.parcels(seen), actor.parcels(seen))  # one of them waits for nobody
        assert two == [(seen, b""), (seen, b"")]
        return oids

    assert sorted(asyncio.run(use())) == list(range(6))
    assert not list(tmp_path.iterdir()), "an actor writes nothing on its node"


def test_nodes_of_another_version(small_server: LocalServer, tmp_path: Path) -> None:
    """A node with another Opilio is refused with both versions named: what is said might mean something else there."""
    with pytest.raises(OpilioError, match=r"this node has Opilio .*, the crawl 0\.0\.7"):
        WorkerActor(worker_setup(small_server, tmp_path), b"", "0.0.7")
