"""Outages: a network that is down is noticed and waited for; a host that is dead is not mistaken for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import call
from fetch_servers import DnsServer, Handler, WebServer, closed_port, html, reply
from opilio import Collection
from opilio.crawl import Status, outage
from opilio.crawl.outage import MIN_HOSTS, QUIET_S, OutageDetector
from opilio.model import Fetch, Lease, LeaseKind, Outcome, Visit

HOSTS, PAGES = 12, 8
WORDS = ["owl", "nest", "tree", "wing", "feather", "hunt", "night", "mouse", "forest", "barn", "moon", "claw"]


def visit(
    oid: int,
    host: str,
    outcome: Outcome,
    started_s: float,
    kind: LeaseKind = LeaseKind.PAGE,
    *,
    looked_up: bool = False,
) -> Visit:
    """A request that ended."""
    status = 200 if outcome is Outcome.OK else 0
    fetch = Fetch(outcome, status, started_s=started_s, looked_up=looked_up)
    return Visit(Lease(oid, f"http://{host}.test/{oid}", kind), fetch)


# -- deciding

silences = st.sampled_from([Outcome.DNS_FAILED, Outcome.CONNECT_FAILED, Outcome.TIMED_OUT, Outcome.BROKEN])
steps = st.lists(
    st.tuples(
        st.sampled_from(["page", "contact", "probe"]),
        st.integers(0, 5),
        st.one_of(st.just(Outcome.OK), silences),
        st.floats(0.0, 3.0),
    ),
    max_size=40,
)


@given(steps, st.booleans())
def test_every_visit_comes_out_once_and_only_outages_excuse(
    taken: list[tuple[str, int, Outcome, float]], has_answered: bool
) -> None:
    """Whatever hosts do: each visit is absorbed or put back exactly once; answers are always absorbed, at once; nothing
    is put back before a round of probes has failed; and an answered probe ends the outage."""
    detector = OutageDetector(["http://h9.test"] if has_answered else [])
    now_s, oid, under_way = 0.0, 0, list[int]()
    given_oids, came_out = list[int](), Counter[int]()
    failed_rounds = 0
    for what, host, outcome, wait_s in taken:
        now_s += wait_s
        if what == "probe" and not under_way and detector.probes_due(now_s):
            oid += 1
            under_way = [oid]
            detector.begin_probes(under_way, now_s)
            continue
        if what == "probe":
            if not under_way:
                continue
            visits = [visit(under_way.pop(), "h9", outcome, now_s, LeaseKind.PROBE)]
            failed_rounds += outcome is not Outcome.OK
        else:
            oid += 1
            given_oids.append(oid)
            kind = LeaseKind.PAGE if what == "page" else LeaseKind.HOST
            visits = [visit(oid, f"h{host}", outcome, now_s, kind)]
        found = detector.sort(visits, now_s)
        came_out.update(one.lease.oid for one in (*found.absorbed, *found.put_back))
        assert not found.put_back or failed_rounds
        if outcome is Outcome.OK:
            assert what == "probe" or visits[0] in found.absorbed
            assert what != "probe" or not detector.is_down
        if detector.is_down:
            assert not detector.held
    came_out.update(one.lease.oid for one in detector.release())
    assert came_out == Counter(given_oids)


def test_failures_wait_for_an_answer_that_explains_them() -> None:
    """A failure is the host's once another host has answered a later request, and of a name only when that request had
    to resolve one: known addresses answer while name servers are down."""
    detector = OutageDetector()
    dead, lost = visit(1, "dead", Outcome.CONNECT_FAILED, 1.0), visit(2, "lost", Outcome.DNS_FAILED, 1.0)
    assert detector.sort([dead, lost], 2.0) == ([], [])
    early, late = visit(3, "good", Outcome.OK, 0.5), visit(4, "good", Outcome.OK, 1.5)
    assert detector.sort([early], 2.0).absorbed == [early]
    assert detector.sort([late], 2.0).absorbed == [dead, late]
    picture = visit(5, "good", Outcome.OK, 1.6, LeaseKind.PICTURE)
    assert detector.sort([picture], 2.0).absorbed == [picture]
    contact = visit(6, "new", Outcome.OK, 1.7, LeaseKind.HOST, looked_up=True)
    assert detector.sort([contact], 2.0).absorbed == [lost, contact]


def test_too_few_hosts_at_the_start_are_no_outage() -> None:
    """Before any host has answered, one or two failing hosts are what they seem; three are probed themselves."""
    detector = OutageDetector()
    for number in range(MIN_HOSTS):
        assert not detector.probes_due(QUIET_S)
        assert detector.is_inexplicable(QUIET_S) is (number > 0)
        detector.sort([visit(number, f"h{number}", Outcome.DNS_FAILED, 0.0)], 0.0)
    assert not detector.is_inexplicable(QUIET_S)
    assert detector.probes_due(QUIET_S) == [f"http://h{number}.test" for number in range(MIN_HOSTS)]


# -- with real servers


def routes() -> dict[str, bytes | Handler]:
    """A web of many hosts, as one server has it: each page links to the next one of its host, and to other hosts."""
    found: dict[str, bytes | Handler] = {"/robots.txt": reply(b"User-agent: *\nDisallow:", Content_Type="text/plain")}
    for host in range(HOSTS):
        for page in range(PAGES):
            words = " ".join(f"{word}{host} {word}{page}" for word in WORDS) + f" {host}x{page}"
            links = f'<a href="/h{host}/{page + 1}">next</a>' if page + 1 < PAGES else ""
            found[f"/h{host}/{page}"] = html(f"<title>{host} {page}</title><p>{words}</p>{links}".encode())
    return found


def make(folder: Path, server: WebServer, names: DnsServer, hosts: int = HOSTS, **changes: Any) -> Collection:
    """A collection of that web, found by a name server of our own."""
    seeds = folder / "seeds.txt"
    seeds.write_text("\n".join(f"http://h{host}.test:{server.port}/h{host}/0" for host in range(hosts)))
    settings: dict[str, Any] = {
        "fetch.dns_servers": [names.address], "fetch.allow_private_addresses": True, "fetch.host_delay_s": 0.05,
        "fetch.dns_timeout_s": 0.1, "fetch.connect_timeout_s": 1.0, "fetch.backoff_s": 0.2, "run.workers": -1,
        "duplicates.near_jaccard": 0.0, "duplicates.ip_path": "off",
    }  # fmt: skip
    settings |= {key.replace("__", "."): value for key, value in changes.items()}
    return Collection.create(folder / "c", seeds=seeds, settings=settings)


def zone(hosts: int = HOSTS) -> dict[str, tuple[int, list[str]]]:
    return {f"h{host}.test": (1, ["127.0.0.1"]) for host in range(hosts)}


def notices(collection: Collection) -> list[str]:
    return [text for (text,) in collection.sql("SELECT text FROM notices WHERE kind = 'network' ORDER BY rowid").rows]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage is seen, and its end, in less time."""
    monkeypatch.setattr(outage, "QUIET_S", 0.3)
    monkeypatch.setattr(outage, "FIRST_WAIT_S", 0.2)


class Outage:
    """Called at every tick of a crawl: an outage begins after some pages, and ends a moment after it was noticed."""

    def __init__(self, after_pages: int, switch: Callable[[bool], object]) -> None:
        self._after_pages, self._switch = after_pages, switch
        self.was_seen = self.has_begun = False

    def __call__(self, status: Status) -> None:
        if not self.has_begun and status.pages >= self._after_pages:
            self.has_begun = True
            self._switch(False)
        elif status.no_network and not self.was_seen:
            self.was_seen = True
            self._switch(True)


@pytest.mark.parametrize("what", ["names", "connections"])
def test_an_outage_costs_nothing_but_time(tmp_path: Path, what: str, quick: None) -> None:
    """Name servers fall silent, or all connections break, in the middle of a crawl of many hosts. The crawl pauses with
    a notice and goes on when they are back: no host is bad, no URL has failed, and every page is there."""
    with WebServer(routes()) as server, DnsServer(zone()) as names:

        def switch(on: bool) -> None:
            if what == "names":
                names.silent = not on
            else:
                server.switch(on=on)

        # Addresses are cached for a second, so the crawl must take longer.
        collection = make(tmp_path, server, names, fetch__host_delay_s=0.4 if what == "names" else 0.2)
        trouble = Outage(HOSTS * 2, switch)
        status = collection.crawl(on_tick=trouble)
    assert trouble.was_seen
    assert (status.pages, status.bad_hosts, status.waiting) == (HOSTS * PAGES, 0, 0)
    assert collection.sql("SELECT DISTINCT state, outcome FROM crawl").rows == [("fetched", "ok")]
    down, back = notices(collection)
    assert "no host answers" in down and "is back" in back
    assert not status.no_network and status.reason.startswith("frontier empty")
    assert collection.sql("SELECT count(*) FROM visits WHERE kind = 'probe'").rows[0][0] > 0


def test_an_outage_from_the_start_ends_with_an_error_and_loses_nothing(tmp_path: Path, quick: None) -> None:
    """Without a network, the command says so, waits as long as it is told, and fails; the next run has every page."""
    with WebServer(routes()) as server, DnsServer(zone(), silent=True) as names:
        collection = make(tmp_path, server, names, fetch__outage_timeout_s=0.5)
        ended = call("crawl", collection.folder, "--contact", "http://me.test/")
        assert ended.returncode == 1
        assert "error: the network is down: no host has answered for" in ended.stderr
        assert "hint: Nothing is lost." in ended.stderr
        assert collection.sql("SELECT state, count(*) FROM crawl GROUP BY state").rows == [("waiting", HOSTS)]
        assert collection.status().bad_hosts == 0
        names.silent = False
        assert collection.crawl().pages == HOSTS * PAGES


def test_a_dead_host_is_no_outage(tmp_path: Path, quick: None) -> None:
    """Among many good hosts, one whose name is unknown and one that refuses connections are given up, each with its
    true cause, and the crawl never pauses; also at its end, when no other host is left to answer."""
    with WebServer(routes()) as server, DnsServer(zone()) as names, closed_port() as port:
        collection = make(tmp_path, server, names)
        more = tmp_path / "more.txt"
        more.write_text(f"http://unknown.test:{server.port}/\nhttp://h1.test:{port}/\n")
        collection.add(seeds=more)
        seen: list[bool] = []
        status = collection.crawl(on_tick=lambda status: seen.append(status.no_network))
    assert status.pages == HOSTS * PAGES
    assert not any(seen) and not notices(collection)
    failed = collection.sql("SELECT outcome FROM crawl WHERE state = 'failed' ORDER BY 1").rows
    assert failed == [("connect-failed",), ("dns-failed",)]
    assert collection.sql("SELECT problem FROM origins WHERE state = 'bad' ORDER BY 1").rows == failed


def test_a_single_site_that_goes_down_is_waited_for(tmp_path: Path, quick: None) -> None:
    """A crawl of one host cannot tell its host from its network, and has nothing else to do: it waits for either."""
    with WebServer(routes()) as server, DnsServer(zone(1)) as names:
        collection = make(tmp_path, server, names, hosts=1, fetch__host_delay_s=0.2)
        trouble = Outage(3, lambda on: server.switch(on=on))
        status = collection.crawl(on_tick=trouble)
    assert trouble.was_seen
    assert (status.pages, status.bad_hosts) == (PAGES, 0)
