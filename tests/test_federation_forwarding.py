"""Crawlers hand each other URLs: what is taken, when it is fetched, and that nothing is offered twice."""

import math
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import MakeTaught
from federation_peers import FakePeer
from made_crawls import COOKING, FUNDS, GARDENING, MadeCrawl
from opilio import Collection
from opilio.cli import cli
from opilio.crawl import forwarder
from opilio.crawl.forwarder import ACCEPTED, FORWARDED, NOTICE
from opilio.crawl.operations import federation as forwarding_operations
from opilio.crawl.peer import SharedCollection
from opilio.crawl.status import Counters
from opilio.errors import InputError
from opilio.federation import forwarding
from opilio.federation import offers as offers_module
from opilio.federation.forwarding import FIRST_DELAY_S, SUMMARY_S, Forwarding
from opilio.federation.offers import MAX_OFFERS, MAX_RELEVANCE, RECEIVED, admit_pending, receive
from opilio.federation.peers import Offer, PeerError, PeerSummary, TopicProfile
from opilio.federation.profiles import PeerTopic, UsualTerms
from opilio.lab.local_web import LocalServer
from opilio.model import normalize
from opilio.store import Store
from running_crawls import wait_for
from search_pages import Page, make_collection
from web_portal import TOKEN, Portal

TOPIC = "data compression"
BOOKMARKS = [TOPIC, "statistics"]


def rows(collection: Collection, sql: str) -> list[tuple[Any, ...]]:
    return collection.sql(sql).rows


# -- receiving


def test_the_next_crawl_takes_up_what_was_handed_over(make_taught: MakeTaught, small_server: LocalServer) -> None:
    """Offers at rest are noted once, fetched by the next crawl, behind the seeds, and told as what they are."""
    collection = make_taught(limits__max_pages=8)
    collection.crawl()
    known = {url for (url,) in rows(collection, "SELECT url FROM crawl")}
    wanted = [url for url in small_server.web.seeds("networking", 200) if normalize(url) not in known][:3]
    assert len(wanted) == 3
    offers = [Offer(url, TOPIC, 1.0, "A <b>title") for url in wanted]
    assert collection.take_offers("ships\x1b[2J", [*offers, offers[0]]) == 3
    assert collection.take_offers("ships", offers) == 0
    assert collection.status().counters[RECEIVED] == 3
    collection.crawl(settings={"limits.max_pages": 1000})
    states = rows(collection, f"SELECT url, state, parent, depth FROM crawl WHERE url IN {tuple(wanted)}")
    assert sorted(states) == sorted((url, "fetched", None, 1) for url in wanted)
    assert rows(collection, "SELECT DISTINCT peer, title FROM offers") == [("ships [2J", "A <b>title")]
    assert collection.explain_link(wanted[0])["offered"] == [{"peer": "ships [2J", "relevance": 1.0}]
    told = collection.explain(wanted[0])
    assert [step["url"] for step in told["way"]] == [wanted[0]]
    assert told["offered"][0]["peer"] == "ships [2J"
    for command in (
        ["explain", str(collection.folder), wanted[0]],
        ["explain", "--link", str(collection.folder), wanted[0]],
    ):
        said = CliRunner().invoke(cli, command).output
        assert "forwarded by ships [2J, which expected a relevance of 1.00" in said
    with Portal(collection.folder) as portal:
        _, page = portal.get("/c/collection/page", url=wanted[0])
    assert "forwarded by ships [2J" in page
    first = rows(collection, "SELECT count(*) FROM crawl WHERE parent IS NULL AND depth = 0")
    assert first[0][0] > 0  # the seeds are still seeds


def test_a_crawl_that_runs_takes_offers_at_once(make_taught: MakeTaught, small_server: LocalServer) -> None:
    """While a crawl runs, what is handed over waits in its frontier at once, and is fetched in the same run."""
    collection = make_taught(fetch__host_delay_s=0.05, limits__max_pages=0)
    thread = threading.Thread(target=collection.crawl)
    thread.start()
    try:
        wait_for(collection, (collection.folder / "engine.json").exists, 20)
        other = Collection(collection.folder)
        wait_for(other, lambda: other.status().pages >= 5, 30)
        url = "http://handed.over.test/first"  # a host that no page links to, and that does not exist
        assert other.take_offers("ships", [Offer(url, TOPIC, 0.95)]) == 1
        assert other.take_offers("ships", [Offer(url, TOPIC, 0.95)]) == 0
        asked = "SELECT count(*) FROM visits v JOIN crawl c USING (oid) WHERE c.url = 'http://handed.over.test/first'"
        wait_for(other, lambda: other.sql(asked).rows[0][0] > 0, 30)
        assert other.status().counters[RECEIVED] == 1
        other.stop()
    finally:
        thread.join(60)
    assert rows(collection, "SELECT incoming, peer FROM offers") == [(True, "ships")]
    assert rows(collection, "SELECT max(run) FROM runs") == [(1,)]


def test_offers_are_not_trusted(tmp_path: Path) -> None:
    """What is no web address, names no topic that is wanted here, or is no number is left out."""
    collection = make_collection(tmp_path / "birds", [Page("an owl", url="http://known.example/")])
    bad = [
        Offer("javascript:alert(1)", "Birds", 0.9),
        Offer("file:///etc/passwd", "Birds", 0.9),
        Offer("http://x.example/" + "a" * 3000, "Birds", 0.9),
        Offer("not a url", "Birds", 0.9),
        Offer("http://cars.example/", "Cars", 0.9),  # known, not wanted
        Offer("http://none.example/", "Fish", 0.9),
        Offer("http://nan.example/", "Birds", math.nan),
        Offer("http://known.example/", "Birds", 0.9),
    ]
    with Store.open(tmp_path / "birds") as store:
        assert receive(store, "ships", bad) == []
        assert store.query("SELECT count(*) FROM offers").rows == [(0,)]
        [high, low] = receive(
            store,
            "ships",
            [
                Offer("HTTP://A.example:80/x?utm_source=1#top", "Birds / Owls", 1e300),
                Offer("http://b.example", "Birds", -5),
            ],
        )
    assert (high.url, high.kcid, high.relevance) == ("http://a.example/x", 2, 1.0)
    assert (low.url, low.relevance) == ("http://b.example/", 0.0)
    with pytest.raises(InputError, match="name"):
        collection.take_offers(" \n", [Offer("http://c.example/", "Birds", 0.5)])
    with pytest.raises(InputError, match="too many"):
        collection.take_offers("ships", [Offer(f"http://c.example/{n}", "Birds", 0.5) for n in range(MAX_OFFERS + 1)])


def test_a_sender_is_limited_by_the_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hands over too much in an hour is refused, and told so; others are not."""
    monkeypatch.setattr(offers_module, "MAX_OFFERS_PER_HOUR", 5)
    collection = make_collection(tmp_path / "birds", [])
    offers = [Offer(f"http://a.example/{n}", "Birds", 0.5) for n in range(12)]
    assert collection.take_offers("ships", offers[:4]) == 4
    with pytest.raises(InputError, match="enough for now"):
        collection.take_offers("ships", offers[4:6])
    assert collection.take_offers("ships", offers[:5]) == 1  # four of them are known
    assert collection.take_offers("bees", offers[5:10]) == 5
    collection.sql("UPDATE offers SET offered = offered - INTERVAL 2 HOUR", write=True)
    assert collection.take_offers("ships", offers[10:]) == 2


ANY_OFFER = st.fixed_dictionaries(
    {},
    optional={
        "url": st.one_of(
            st.text(max_size=40), st.from_regex(r"https?://[a-z.]{1,9}/[ -~]{0,9}", fullmatch=True), st.none()
        ),
        "topic": st.sampled_from(["Birds", "Birds / Owls", "Cars", "", "Fish"]),
        "relevance": st.one_of(st.floats(), st.integers(), st.text(max_size=3)),
        "title": st.text(max_size=20),
    },
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offers=st.lists(ANY_OFFER, max_size=6))
def test_whatever_is_offered(offers: list[dict[str, Any]], any_store: Store) -> None:
    """Any JSON at all is taken in normal form or refused with an error of ours; nothing else happens."""
    try:
        found = receive(any_store, "ships", offers)
    except InputError:
        return
    for url, kcid, relevance in found:
        assert normalize(url) == url
        assert kcid in (1, 2)
        assert 0 <= relevance <= 1
    assert MAX_RELEVANCE < 1


@pytest.fixture
def any_store(tmp_path: Path) -> Any:
    make_collection(tmp_path / "birds", [])
    with Store.open(tmp_path / "birds") as store:
        yield store


# -- delivering


class CookingPeer:
    """A collection about cooking that writes down what it is offered; away when it is told to be."""

    def __init__(self, name: str = "cooks") -> None:
        self.name, self.place = name, f"http://{name}.example/c/{name}"
        self.is_away = False
        self.calls: list[list[Offer]] = []
        self.summaries = 0

    def summary(self, known: PeerSummary | None = None) -> PeerSummary:
        self._answer()
        self.summaries += 1
        profile = TopicProfile("Cooking", "", 9, {"oven": 0.7, "flour": 0.7, "yeast": 0.14}, 0.8)
        return PeerSummary(self.name, "1", 9, 5.0, [profile], {})

    def offer(self, sender: str, offers: Sequence[Offer]) -> int:
        self._answer()
        assert sender == "funds"
        self.calls.append(list(offers))
        return len(offers)

    def _answer(self) -> None:
        if self.is_away:
            raise PeerError(f"{self.name} is not there", "Start it.")

    @property
    def urls(self) -> list[str]:
        return [offer.url for call in self.calls for offer in call]


class Clock:
    """A time that passes when it is told to."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


BAKING = "oven flour oven flour yeast"


@pytest.fixture
def funds(tmp_path: Path) -> Any:
    """A collection about funds and gardens that has come across some pages about baking."""
    crawl = MadeCrawl()
    crawl.add(10, kcid=FUNDS, relevance=0.9, text="mutual fund manager portfolio fee prospectus redemption")
    crawl.add(5, kcid=COOKING, relevance=0.0, text=BAKING, host=1)
    crawl.add(5, kcid=0, relevance=0.1, text="cookies privacy login flour shop")
    crawl.add(10, kcid=GARDENING, relevance=0.9, text="soil seed flower bed", host=2)
    crawl.add(1, kcid=GARDENING, relevance=0.6, text=BAKING)  # the model was wrong here
    (tmp_path / "funds").mkdir()
    with crawl.fill(Store.create(tmp_path / "funds")) as store:
        yield store


SUITABLE = {f"http://h1.org/{n}" for n in range(10, 15)} | {"http://h0.org/30"}


def deliver(forwarding_: Forwarding) -> int:
    """Rounds until nothing is left; how many URLs were handed over."""
    total = 0
    while True:
        total += forwarding_.round(60.0).forwarded
        if forwarding_.is_done:
            return total


def test_what_suits_a_peer_is_handed_over_once(funds: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that no topic took, and one that suits the other far better, go to each peer once, also after a restart."""
    monkeypatch.setattr(forwarding, "SLICE_PAGES", 7)
    monkeypatch.setattr(forwarding, "BATCH_OFFERS", 4)
    cooks, bakers = CookingPeer(), CookingPeer("bakers")
    assert deliver(Forwarding(funds, "funds", [cooks, bakers])) == 12
    for peer in (cooks, bakers):
        assert set(peer.urls) == SUITABLE
        assert len(peer.urls) == len(SUITABLE)
        assert [len(call) for call in peer.calls] == [4, 2]
        assert {(offer.topic, offer.title[:5]) for offer in peer.calls[0]} == {("Cooking", "page ")}
        assert all(0.5 <= offer.relevance <= 1 for offer in peer.calls[0])
    again = Forwarding(funds, "funds", [cooks])
    assert deliver(again) == 0
    noted = funds.query("SELECT peer, incoming, count(*) FROM offers GROUP BY ALL ORDER BY ALL").rows
    assert noted == [("bakers", False, 6), ("cooks", False, 6)]


def test_what_a_peer_handed_over_is_not_handed_back(funds: Store) -> None:
    """A URL that came from a peer does not go back to it."""
    receive(funds, "cooks", [])
    funds.query(
        "INSERT INTO offers SELECT now()::TIMESTAMP, 'cooks', TRUE, url, 'Gardening', 0.5, '' FROM crawl WHERE oid < 14",
        write=True,
    )
    cooks = CookingPeer()
    deliver(Forwarding(funds, "funds", [cooks]))
    assert set(cooks.urls) == {"http://h1.org/14", "http://h0.org/30"}


def test_a_peer_that_is_away_is_tried_later(funds: Store) -> None:
    """It is left alone for longer and longer, nothing is lost meanwhile, others are served, and it is forgiven."""
    clock, cooks, bakers = Clock(), CookingPeer(), CookingPeer("bakers")
    forwarding_ = Forwarding(funds, "funds", [cooks, bakers], clock=clock)
    cooks.is_away = True
    forwarded = forwarding_.round(60.0)
    assert forwarded.forwarded == 6
    assert [box.trouble for box in forwarding_.boxes] == ["cooks is not there. Start it.", ""]
    assert forwarding_.is_done
    cooks.is_away = False
    assert forwarding_.round(60.0).forwarded == 0  # too soon
    clock.now_s += FIRST_DELAY_S
    forwarded = forwarding_.round(60.0)
    assert (forwarded.forwarded, forwarding_.boxes[0].trouble) == (6, "")
    assert set(cooks.urls) == SUITABLE
    cooks.is_away = True
    clock.now_s += SUMMARY_S
    waits_s = []
    for _ in range(12):
        before_s = clock.now_s
        while forwarding_.boxes[0].next_s > clock.now_s:
            clock.now_s += 1
        waits_s.append(clock.now_s - before_s)
        forwarding_.round(60.0)
    assert waits_s[1:4] == [FIRST_DELAY_S, 2 * FIRST_DELAY_S, 4 * FIRST_DELAY_S]
    assert waits_s[-1] == waits_s[-2] == forwarding.MAX_DELAY_S


def test_pages_that_come_later_are_looked_at(funds: Store) -> None:
    """A round sees what was stored since the last one, and asks a peer only now and then what it wants."""
    cooks, clock = CookingPeer(), Clock()
    forwarding_ = Forwarding(funds, "funds", [cooks], clock=clock)
    assert forwarding_.round(60.0).forwarded == 6
    copied = {"crawl": "EXCLUDE (kcid) REPLACE (112 AS oid, url || '/x' AS url)"}
    for table in ("crawl", "pages", "terms"):
        columns = copied.get(table, "REPLACE (112 AS oid)")
        funds.query(f"INSERT INTO {table} BY NAME SELECT * {columns} FROM {table} WHERE oid = 12", write=True)
    assert forwarding_.round(60.0).forwarded == 1
    assert cooks.urls[-1] == "http://h1.org/12/x"
    assert cooks.summaries == 1
    clock.now_s += SUMMARY_S
    forwarding_.round(60.0)
    assert cooks.summaries == 2


def test_a_collection_with_few_pages_hands_nothing_over(funds: Store) -> None:
    """What is usual cannot be told from a few pages; that is no work left undone."""
    for table in ("crawl", "pages", "terms"):
        funds.query(f"DELETE FROM {table} WHERE oid NOT BETWEEN 0 AND {forwarding.MIN_PAGES - 2}", write=True)
    cooks = CookingPeer()
    forwarding_ = Forwarding(funds, "funds", [cooks])
    assert forwarding_.round(60.0).forwarded == 0
    assert forwarding_.is_done


TERMS = st.dictionaries(st.integers(1, 30), st.integers(0, 60_000), max_size=12)
PROFILES = st.dictionaries(st.sampled_from(["owl", "hawk", "ship", "sea"]), st.floats(0, 1), max_size=4)


@given(pages=st.lists(TERMS, min_size=1, max_size=12), profile=PROFILES, typical=st.floats(0, 1), page=TERMS)
def test_how_a_page_stands_out(
    pages: list[dict[int, int]], profile: dict[str, float], typical: float, page: dict[int, int]
) -> None:
    """It is a share, of any pages and any profile; a page that is like all others does not stand out."""
    topic = TopicProfile("Birds", "", 3, profile, typical)
    usual = UsualTerms(pages)
    lens = PeerTopic(topic, usual)
    assert 0 <= lens.relevance(page, usual.vector(page)) <= 1
    assert sum(weight**2 for weight in usual.vector(page).values()) == pytest.approx(1) or not usual.vector(page)
    alike = UsualTerms([page] * 5)
    assert PeerTopic(topic, alike).relevance(page, alike.vector(page)) == 0


# -- two crawls


A_TOPICS = ["cryptography", "data structures", "mathematics"]
B_TOPICS = ["networking"]


class Pair:
    """Two collections on the small local web, each the other's peer: `b` is served, `a` is a folder beside."""

    def __init__(self, server: LocalServer, place: Path) -> None:
        self._server, self.place = server, place
        (place / "there").mkdir()
        self.b = self._make("there/b", B_TOPICS, {"limits.max_urls": 12})  # it knows nothing else
        self.a = self._make("a", A_TOPICS, {"limits.max_pages": 230})
        self.portal = Portal(place / "there")
        self.to_b = self._peers("b", f"{self.portal.address}/c/b", TOKEN)
        self.to_b_wrong = self._peers("b", f"{self.portal.address}/c/b", "wrong")
        self.to_a = self._peers("a", str(place / "a"))

    def _make(self, name: str, topics: list[str], changes: dict[str, Any]) -> Collection:
        bookmarks = self.place / "bookmarks.html"
        bookmarks.write_text(self._server.web.bookmarks(topics), encoding="utf-8")
        chosen = {"fetch.connect_to": self._server.connect_to, "fetch.host_delay_s": 0.0, "fetch.backoff_s": 0.1}
        chosen |= {"run.workers": -1, "frontier.strategy": "breadth-first", "federation.deliver_s": 0.3, **changes}
        return Collection.create(self.place / name, bookmarks=bookmarks, settings=chosen)

    def _peers(self, name: str, at: str, token: str = "") -> str:
        """A file that names one peer."""
        file = self.place / f"peers-{name}-{token}.toml"
        file.write_text(f'[[peer]]\nname = "{name}"\nat = "{at}"\n' + (f'token = "{token}"\n' if token else ""))
        file.chmod(0o600)
        return str(file)


@pytest.fixture(scope="module")
def pair(small_server: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both have crawled a little, `a` with a token for `b` that is wrong."""
    pair = Pair(small_server, tmp_path_factory.mktemp("pair"))
    pair.b.crawl()
    with pair.portal:
        pair.a.crawl(settings={"federation.peers": pair.to_b_wrong})
        yield pair


def test_a_wrong_token_is_told_once(pair: Pair) -> None:
    """A peer that does not let us in is a notice, one; the crawl goes to its end, and nothing is noted as handed over."""
    status = pair.a.status()
    assert status.pages == 230
    [notice] = [notice for notice in status.notices if notice["kind"] == NOTICE]
    assert "does not let us in" in notice["text"]
    assert "opilio offer" in notice["remedy"]
    assert FORWARDED not in status.counters
    assert rows(pair.a, "SELECT count(*) FROM offers") == [(0,)]


def test_two_crawls_hand_each_other_urls(pair: Pair) -> None:
    """What one finds for the other reaches it, by a portal and by a folder, is fetched there, and goes only once."""
    a, b = pair.a, pair.b
    planned = a.offer_to_peers(pair.to_b, dry_run=True)["peers"][0]["urls"]
    status = a.crawl(settings={"federation.peers": pair.to_b, "limits.max_pages": 240})
    handed = [url for (url,) in rows(a, "SELECT url FROM offers WHERE NOT incoming")]
    assert status.counters[FORWARDED] == len(handed) == len(set(handed)) > 5
    assert {offer["url"] for offer in planned} <= set(handed)
    assert [notice for notice in status.notices if notice["kind"] == NOTICE] == []
    came = rows(b, "SELECT url, peer, topic FROM offers WHERE incoming")
    urls = {url for url, _, _ in came}
    assert urls <= set(handed)
    assert {(peer, topic) for _, peer, topic in came} == {("a", "networking")}
    about = [url for url in urls if "socket" in url or "networking" in url]
    assert len(about) >= 0.75 * len(urls) > 3
    assert b.status().counters[RECEIVED] == len(urls)

    grown = b.crawl(settings={"limits.max_urls": 0, "limits.max_pages": 100, "federation.peers": pair.to_a})
    assert grown.pages == 100
    fetched = rows(b, "SELECT c.url FROM offers o JOIN crawl c USING (url) JOIN pages p USING (oid) WHERE o.incoming")
    assert {url for (url,) in fetched} >= set(about)
    back = {url for (url,) in rows(b, "SELECT url FROM offers WHERE NOT incoming")}
    assert len(back) > 0
    assert not back & urls  # what came from there does not go back
    known = {url for (url,) in rows(a, "SELECT url FROM crawl")}
    assert back - known <= {url for (url,) in rows(a, "SELECT url FROM offers WHERE incoming")}
    a.offer_to_peers()  # by the file that the settings name: `b` knows better by now what suits it
    assert a.offer_to_peers()["peers"][0]["count"] == 0
    assert rows(a, "SELECT url FROM offers WHERE NOT incoming GROUP BY url HAVING count(*) > 1") == []


def test_a_file_of_peers_that_cannot_be_read_is_a_notice(make_taught: MakeTaught, tmp_path: Path) -> None:
    """The crawl goes on without handing anything over, and says why."""
    (tmp_path / "peers.toml").write_text("[[peer]]\nnmae = 'b'\n")
    collection = make_taught(limits__max_pages=10, federation__peers=str(tmp_path / "peers.toml"))
    status = collection.crawl()
    assert status.pages == 10
    [notice] = [notice for notice in status.notices if notice["kind"] == NOTICE]
    assert "nmae" in notice["text"]


def test_a_peer_that_holds_us_up_keeps_no_crawl_from_its_end(
    make_taught: MakeTaught, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that takes a connection and says nothing costs the end of a crawl no more than the time that is set."""
    monkeypatch.setattr(forwarder, "LAST_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        file = tmp_path / "peers.toml"
        file.write_text(f'[[peer]]\nname = "b"\nat = "http://127.0.0.1:{listener.getsockname()[1]}/c/b"\ntoken = "x"\n')
        collection = make_taught(limits__max_pages=10, federation__peers=str(file), federation__deliver_s=0.1)
        began_s = time.monotonic()
        assert collection.crawl().pages == 10
        assert time.monotonic() - began_s < 8


class Cooks(FakePeer):
    """Wants pages about baking."""

    def __init__(self) -> None:
        super().__init__("cooks")
        profile = TopicProfile("Cooking", "", 9, {"oven": 0.7, "flour": 0.7, "yeast": 0.14}, 0.8)
        self.told = PeerSummary("cooks", "1", 9, 5.0, [profile], {})
        self.urls: list[str] = []

    def offer(self, sender: str, offers: Sequence[Offer]) -> int:
        self.urls += [offer.url for offer in offers]
        return len(offers)


@pytest.fixture
def funds_federation(tmp_path: Path) -> Path:
    """A collection about funds_federation whose first pages suit nobody, and whose last ones are about baking."""
    crawl = MadeCrawl()
    crawl.add(40, kcid=FUNDS, relevance=0.9, text="mutual fund manager portfolio fee prospectus redemption")
    crawl.add(5, kcid=COOKING, relevance=0.0, text="oven flour oven flour yeast", host=1)
    make_collection(tmp_path / "funds_federation", [])
    with Store.open(tmp_path / "funds_federation") as store:
        crawl.fill(store)
    return tmp_path / "funds_federation"


def test_a_slow_look_does_not_end_offering(funds_federation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When looking at the pages takes as long as a round, what suits is handed over all the same, to the last page."""
    cooks = Cooks()
    monkeypatch.setattr("opilio.crawl.open_peer", lambda _: cooks)
    monkeypatch.setattr("opilio.federation.forwarding.SLICE_PAGES", 10)
    monkeypatch.setattr("opilio.federation.forwarding.BATCH_OFFERS", 2)
    monkeypatch.setattr(forwarding_operations, "ROUND_S", 1e-9)  # a slice, and the time is over
    file = funds_federation.parent / "peers.toml"
    file.write_text('[[peer]]\nname = "cooks"\nat = "cooks"\n')
    told = SharedCollection(funds_federation).offer_to_peers(file, dry_run=True)["peers"][0]
    assert (told["count"], told["is_all"]) == (5, True)
    collection = SharedCollection(funds_federation)
    assert collection.offer_to_peers(file)["peers"][0]["count"] == 5
    assert len(set(cooks.urls)) == 5
    noted = collection.sql("SELECT count(*) FROM offers WHERE NOT incoming").rows[0][0]
    assert collection.status().counters[FORWARDED] == collection.status().counters[ACCEPTED] == noted == 5


def test_a_dry_run_says_when_there_may_be_more(funds_federation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is looked for than may wait; then it is told that this is not all."""
    monkeypatch.setattr("opilio.crawl.open_peer", lambda _: Cooks())
    monkeypatch.setattr("opilio.federation.forwarding.SLICE_PAGES", 42)
    monkeypatch.setattr("opilio.federation.forwarding.MAX_QUEUED", 1)
    file = funds_federation.parent / "peers.toml"
    file.write_text('[[peer]]\nname = "cooks"\nat = "cooks"\n')
    told = SharedCollection(funds_federation).offer_to_peers(file, dry_run=True)["peers"][0]
    assert (told["count"], told["is_all"]) == (2, False)


def test_what_came_in_after_the_last_count_is_counted(funds_federation: Path) -> None:
    """What a crawl that ends has noted, but not counted any more, the next one counts; so do offers at rest."""
    noted = "SELECT count(*) FROM offers WHERE incoming"
    with Store.open(funds_federation) as store:
        [(topic,)] = store.query("SELECT path FROM topics WHERE kcid = $1", [FUNDS]).rows
        assert len(receive(store, "ships", [Offer(f"http://n.example/{n}", topic, 0.5) for n in range(3)])) == 3
        absorber: Any = SimpleNamespace(counters=Counters({RECEIVED: 1}), is_new=lambda _: False)
        admit_pending(store, absorber)
        assert absorber.counters.counts[RECEIVED] == store.query(noted).rows[0][0] == 3
    collection = SharedCollection(funds_federation)
    assert collection.take_offers("ships", [Offer("http://n.example/9", topic, 0.5)]) == 1
    assert collection.status().counters[RECEIVED] == collection.sql(noted).rows[0][0] == 4


def test_offering_nothing_says_why(funds_federation: Path) -> None:
    """With no page that could be compared, and with nobody to hand over to, the command says so."""
    file = funds_federation.parent / "peers.toml"
    file.write_text('[[peer]]\nname = "me"\nat = "funds_federation"\n')
    said = (
        CliRunner().invoke(cli, ["offer", str(funds_federation), "--peers", str(file)], catch_exceptions=False).output
    )
    assert "no other collection" in said
    with Store.open(funds_federation) as store:
        store.query("DELETE FROM pages", write=True)
    said = (
        CliRunner().invoke(cli, ["offer", str(funds_federation), "--peers", str(file)], catch_exceptions=False).output
    )
    assert "too few pages" in said


def test_pages_without_words_are_no_work_left(funds_federation: Path) -> None:
    """Where no page has a term, nothing can be compared: the end of a crawl must not look again and again."""
    with Store.open(funds_federation) as store:
        store.query("DELETE FROM terms", write=True)
        delivery = Forwarding(store, "funds_federation", [Cooks()])
        assert delivery.round(60.0).forwarded == 0
        assert delivery.is_done
