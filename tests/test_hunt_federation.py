"""What went wrong, or could have, in a federation: hostile peers, damaged files, words that overtake each other."""

import gzip
import itertools
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from federation_peers import FakePeer, RawServer, found, response, summary_of
from federation_server import FederationServer
from made_crawls import COOKING, FUNDS, MadeCrawl
from opilio.cli import cli
from opilio.cli.federate import entries_at
from opilio.crawl.forwarder import ACCEPTED, FORWARDED
from opilio.crawl.operations import federation as forwarding_operations
from opilio.crawl.peer import SUMMARY_FILE, LocalPeer, SharedCollection
from opilio.crawl.status import Counters
from opilio.errors import CollectionError, InputError
from opilio.federation.forwarding import Forwarding
from opilio.federation.offers import RECEIVED, admit_pending, receive
from opilio.federation.peers import Offer, PeerAnswer, PeerError, PeerSummary, TopicProfile, check_address, read_peers
from opilio.federation.remote_peer import RemotePeer
from opilio.federation.search import FederatedSearch
from opilio.federation.validation import check_offers, check_summary
from opilio.store import Store
from opilio.web.federated import Federation, Spool, SpooledFeedback
from opilio.web.peering import Offered
from search_pages import Page, make_collection

GOOD = msgspec.json.encode(PeerAnswer(1, [found("http://owl.example/", owl=2.0)], pages_indexed=9))
DEEP = b"[" * 100_000


def ask(address: str, timeout_s: float = 5.0) -> PeerAnswer:
    return RemotePeer("birds", address, "t0ken").ask("owl", weights=None, filters=[], most=10, timeout_s=timeout_s)


# -- hostile peers


@pytest.mark.parametrize(
    "sent",
    [
        response(b'{"error":' + DEEP, "500 Internal Server Error"),
        response(b'{"error":' + DEEP, "400 Bad Request"),
        response(b'{"total":1,"pages":[{"words":{},"result":' + DEEP),
    ],
)
def test_what_is_nested_without_end_is_an_error_of_the_peer(sent: bytes) -> None:
    """Whatever its status, an answer that is nested too deep is a PeerError: others would end all deliveries."""
    server = RawServer(lambda connection, _: connection.sendall(sent))
    try:
        with pytest.raises(PeerError):
            ask(server.address)
    finally:
        server.close()


def test_numbers_without_end_are_cut() -> None:
    """A whole number too large for a float is the most that is possible, not an error of ours."""
    number = b"1" + b"0" * 400
    page = msgspec.json.encode(found("http://owl.example/", owl=2.0)).replace(b'"oid":1', b'"oid":' + number)
    body = b'{"total":%s,"pages_indexed":%s,"pages":[%s]}' % (number, number, page)
    server = RawServer(lambda connection, _: connection.sendall(response(body)))
    try:
        answer = ask(server.address)
    finally:
        server.close()
    assert answer.total == answer.pages_indexed == 10**9
    assert answer.pages[0].result["oid"] == 2**53


def test_what_comes_after_a_packed_answer_is_not_read() -> None:
    """A peer that goes on sending after the packed answer has ended fills no memory."""

    def flood(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
        connection.sendall(gzip.compress(GOOD))
        for _number in itertools.count():
            connection.sendall(bytes(2**16))
            time.sleep(0.001)

    server = RawServer(flood)
    began_s = time.monotonic()
    try:
        with pytest.raises(PeerError, match="after the end"):
            ask(server.address, timeout_s=3.0)
    finally:
        server.close()
    assert time.monotonic() - began_s < 2


def test_a_handshake_that_drips_ends_in_time() -> None:
    """The limit of time holds for all of a question, also for what comes before it with https."""

    def drip(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"\x16\x03\x03\x40\x00")  # a record of 16 KiB begins
        while True:
            connection.sendall(b"\x02")
            time.sleep(0.05)

    server = RawServer(drip)
    came: list[str] = []

    def run() -> None:
        with pytest.raises(PeerError) as caught:
            ask(server.address.replace("http:", "https:"), timeout_s=0.4)
        came.append(caught.value.message)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(4)
    server.close()
    assert [message.partition(") ")[2] for message in came] == ["did not answer within 0.4 s"]


def test_a_summary_that_cannot_be_used_names_its_peer() -> None:
    """The notice of a crawl must say who is meant."""
    body = msgspec.json.encode(msgspec.structs.replace(summary_of("birds", owl=1), version="a b\r\nX: y"))
    server = RawServer(lambda connection, _: connection.sendall(response(body)))
    try:
        with pytest.raises(PeerError, match=r"^birds \(http"):
            RemotePeer("birds", server.address, "t").summary()
    finally:
        server.close()


def test_a_name_that_is_not_ascii_is_asked_for_as_a_browser_would() -> None:
    """The address of a collection with an umlaut, as it stands in a browser, is one."""
    server = RawServer(lambda connection, _: connection.sendall(response(GOOD)))
    try:
        assert ask(check_address(server.address.replace("birds", "v\u00f6gel%20x"))).total == 1
    finally:
        server.close()
    assert server.requests[0].startswith(b"POST /api/c/v%C3%B6gel%20x/peer/ask HTTP/1.1")


def test_a_search_that_nobody_answers_is_a_page(tmp_path: Path) -> None:
    """When every collection fails, or none can have anything, the page says so; it has all facets, empty."""
    peers = [FakePeer("birds"), FakePeer("bees")]
    peers[0].fails = True
    with FederationServer(peers, tmp_path) as server:
        for question in ("owl", "ship"):
            status, page = server.get("/search", q=question)
            assert (status, "Nothing found" in page or "birds has failed" in page) == (200, True)
        peers[1].fails = True
        status, page = server.get("/search", q="owl", ask_all="true")
        assert (status, "Nothing found" in page) == (200, True)
        _, answer = server.get("/api/search", q="ship")
    assert answer["facets"] == {"topic": [], "host": [], "type": [], "lang": []}


class Hanging(FakePeer):
    """Says nothing of itself until it may."""

    def __init__(self) -> None:
        super().__init__("hangs")
        self.may = threading.Event()

    def summary(self, known: PeerSummary | None = None) -> PeerSummary:
        self.may.wait(30)
        return self.told


def test_one_that_hangs_keeps_no_other_unknown(tmp_path: Path) -> None:
    """What a collection says of itself counts as soon as it has said so, though another says nothing for minutes."""
    hangs = Hanging()
    federation = Federation([hangs, FakePeer("birds")], tmp_path)
    try:
        federation.start(wait_s=0.3)
        told = {one["name"]: (one["known"], one["heard_s"] > 0) for one in federation.collections()}
        assert told == {"hangs": (False, False), "birds": (True, True)}
    finally:
        federation.close()
        hangs.may.set()


def test_long_paths_of_topics_stay_whole() -> None:
    """A topic below many others has a long path: cut, it would be a topic that nobody knows."""
    path = " / ".join([*map(str, range(20)), "x" * 200, "y" * 190])
    summary = msgspec.structs.replace(
        summary_of("birds", owl=1), topics=[TopicProfile(path, "", 9, {"owl": 1.0}, 0.5)], facets={"topic": {path: 1}}
    )
    checked = check_summary(summary)
    assert (checked.topics[0].path, list(checked.facets["topic"])) == (path, [path])
    [offer] = check_offers([Offer("http://a.example/", path, 0.5)])
    assert Offered(**msgspec.to_builtins(offer)).topic == path


class Copying(FakePeer):
    """Has the page of another, and more that it does not send."""

    def ask(self, question: str, **options: Any) -> PeerAnswer:
        page = found("http://birds.example/", owl=3.0)
        return msgspec.structs.replace(super().ask(question, **options), pages=[page])


def test_a_total_with_copies_unseen_is_an_estimate() -> None:
    """Two that have the same page, and nine more each that they do not send, may have more in common: no count."""
    for other, estimated in ((Copying("bees"), True), (FakePeer("bees"), False)):
        both = FederatedSearch([FakePeer("birds"), other])
        both.refresh()
        answer = both.search("owl", ask_all=True)
        assert (answer["total"], answer["estimated"]) == (19 if estimated else 20, estimated)


def test_nobody_is_blamed_for_how_slow_others_are() -> None:
    """Who would be asked after all, with hardly any time left, is not asked, and not taken for one that failed."""
    slow, late = FakePeer("slow", summary_of("slow", owl=100)), FakePeer("late", summary_of("late", owl=1))
    slow.slow_s, late.slow_s = 0.6, 0.5
    asking = FederatedSearch([slow, late])
    asking.refresh()
    peers = asking.search("owl", size=20, timeout_s=1.0)["peers"]
    assert [(one["answered"], one["error"]) for one in peers] == [(True, ""), (False, "")]
    assert (slow.asked, late.asked) == (1, 0)
    slow.slow_s = 0.0
    peers = asking.search("owl", size=20, timeout_s=1.0)["peers"]
    assert [one["answered"] for one in peers] == [True, True]


# -- what was kept


def word(*, relevant: bool, said_s: float, tries: int = 0) -> SpooledFeedback:
    return SpooledFeedback("birds", "place of birds", "http://owl.example/", "", relevant, said_s, tries)


def test_a_damaged_file_of_feedback_is_left_out(tmp_path: Path) -> None:
    """Whatever lies in the folder, what can be read is told and the rest is passed over."""
    spool = Spool(tmp_path)
    spool.keep(word(relevant=True, said_s=time.time()))
    for name, data in {"a": b'{"collection":"\xff"}', "b": b"", "c": DEEP, "d": b'{"x":' + DEEP, "e": b"{}"}.items():
        (tmp_path / f"{name}.json").write_bytes(data)
    (tmp_path / "f.json").mkdir()
    assert [one.relevant for one in spool.waiting()] == [True]


class Overtaken(FakePeer):
    """A peer that cannot be told; while it is being told, the user changes his mind."""

    def __init__(self, meanwhile: Sequence[bool]) -> None:
        super().__init__("birds")
        self.meanwhile = list(meanwhile)
        self.federation: Federation | None = None
        self.told: list[bool] = []
        self.is_away = True

    def feedback(self, url: str, topic: str, *, relevant: bool) -> str:
        is_away = self.is_away
        if self.meanwhile and self.federation is not None:
            self.is_away = self.meanwhile.pop()
            self.federation.feedback([("birds", url, "")], relevant=not relevant)
        if is_away:
            raise PeerError("birds is away")
        self.told.append(relevant)
        return "learned"


@pytest.mark.parametrize("second_fails", [True, False])
def test_an_earlier_word_does_not_come_back(tmp_path: Path, second_fails: bool) -> None:
    """A word that is told in vain while a later one is kept, or told, neither replaces nor follows it."""
    peer = Overtaken([])
    federation = Federation([peer], tmp_path)
    peer.federation = federation
    federation.feedback([("birds", "http://owl.example/", "")], relevant=True)
    peer.meanwhile = [second_fails]
    federation.tell_kept(time.time() + 3600)
    kept = federation.spool.waiting()
    assert [one.relevant for one in kept] == ([False] if second_fails else [])
    peer.is_away = False
    federation.tell_kept(time.time() + 7200)
    assert peer.told == [False]


def test_a_clock_that_was_wrong_puts_nothing_off_for_years(tmp_path: Path) -> None:
    """A word that was put off by a clock years ahead is told when the clock is right again."""
    peer, now_s = FakePeer("birds"), time.time()
    federation = Federation([peer], tmp_path)
    ahead_s = now_s + 10 * 365 * 86_400
    federation.spool.keep(word(relevant=True, said_s=ahead_s).put_off(ahead_s, "away"))
    assert federation.tell_kept(now_s) == 1
    federation.spool.keep(word(relevant=True, said_s=now_s).put_off(now_s, "away"))
    assert federation.tell_kept(now_s + 1) == 0
    assert federation.tell_kept(now_s + 3600) == 1


def test_the_later_of_two_words_stays(tmp_path: Path) -> None:
    """Of two that are told in vain at the same time, the one that was said later is kept, whichever fails first."""
    spool, now_s = Spool(tmp_path), time.time()
    for said_s in (now_s, now_s - 30):
        spool.put_off(word(relevant=said_s == now_s, said_s=said_s), "away")
    assert [one.relevant for one in spool.waiting()] == [True]


def test_feedback_that_cannot_be_kept_is_told_to_the_user(tmp_path: Path) -> None:
    """A disk that is full, or a folder that is gone, is said of the collection that is away; the others learn."""
    away, near = FakePeer("away"), FakePeer("near")
    away.feedback = lambda *_, **__: (_ for _ in ()).throw(PeerError("away is silent"))  # type: ignore[method-assign]
    federation = Federation([away, near], tmp_path / "state")
    (tmp_path / "state" / "feedback").rmdir()
    told = federation.feedback([("away", "http://a.example/", ""), ("near", "http://a.example/", "")], relevant=True)
    assert [(one["done"], one["kept"]) for one in told] == [(False, False), (True, False)]
    assert "cannot be kept" in told[0]["said"]
    with pytest.raises(CollectionError, match="cannot be kept"):
        federation.spool.keep(word(relevant=True, said_s=time.time()))


def test_a_damaged_summary_is_made_anew(tmp_path: Path) -> None:
    """What a crash or a disk left of the file that keeps a summary does not keep a collection from answering."""
    make_collection(tmp_path / "birds", [Page("an owl")])
    made = SharedCollection(tmp_path / "birds").summarize()
    for data in (b"\x85\xa4name\xa1\xff", b"\x91" * 100_000, b""):
        (tmp_path / "birds" / "index" / SUMMARY_FILE).write_bytes(data)
        assert SharedCollection(tmp_path / "birds").summarize().pages == made.pages == 1


def test_an_index_that_goes_away_meanwhile_is_an_error_of_the_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the disk says of a folder is a PeerError: one folder in trouble must not end the deliveries to others."""
    make_collection(tmp_path / "birds", [Page("an owl")])

    def gone(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(SharedCollection, "_summary", gone)
    with pytest.raises(PeerError, match=r"birds.*No such file"):
        LocalPeer("birds", tmp_path / "birds").summary()


# -- names and tokens


@pytest.mark.parametrize(
    "address",
    ["http://[/c/birds", "http://h:99999/c/birds", "http:///c/birds", "http://h/c/bi rds", "http://h/c/bi%0Ards"],
)
def test_addresses_that_are_none_are_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the command line as in the file: an error with a hint, before anything is asked."""
    for name in ("BIRDS", "BI_RDS"):
        monkeypatch.setenv(f"OPILIO_TOKEN_{name}", "secret")
    with pytest.raises(InputError, match="not the address of a collection") as caught:
        entries_at(address)
    assert caught.value.hint


def test_a_token_that_cannot_be_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable with something else in it is an error at once, not a peer that does not speak HTTP."""
    monkeypatch.setenv("OPILIO_TOKEN_BIRDS", "töken")
    with pytest.raises(InputError, match="cannot be a token") as caught:
        entries_at("http://ships.example/c/birds")
    assert caught.value.hint
    assert "töken" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://me:s3cret@h.example/c/birds", "http://h.example:8765/login#s3cret"])
def test_secrets_in_addresses_are_not_repeated(address: str, tmp_path: Path) -> None:
    """What may hold a password or a token is not shown again: errors go into notices, and to others."""
    file = tmp_path / "peers.toml"
    file.write_text(f'[[peer]]\nname = "birds"\nat = "{address}"\ntoken_env = "X"\n')
    with pytest.raises(InputError) as on_line:
        entries_at(address)
    with pytest.raises(InputError) as in_file:
        read_peers(file)
    for error in (on_line.value, in_file.value):
        assert "s3cret" not in f"{error.message} {error.hint}"
        assert "h.example" in error.message


@pytest.mark.parametrize(
    "line", ['at = "~nobody-of-this-name/birds"', 'at = "a\\u0000b"', 'at = "http://h/c/b"\ntoken_file = "~nobody/x"',
             'at = "http://h/c/b"\ntoken_file = "a\\u0000b"'],
)  # fmt: skip
def test_paths_that_are_none_are_told(line: str, tmp_path: Path) -> None:
    """A home that nobody has, a sign that no name can have: errors with a hint, no traceback."""
    file = tmp_path / "peers.toml"
    file.write_text(f'[[peer]]\nname = "birds"\n{line}\n')
    with pytest.raises(InputError) as caught:
        read_peers(file)
    assert caught.value.hint


# -- handing over


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
def funds(tmp_path: Path) -> Path:
    """A collection about funds whose first pages suit nobody, and whose last ones are about baking."""
    crawl = MadeCrawl()
    crawl.add(40, kcid=FUNDS, relevance=0.9, text="mutual fund manager portfolio fee prospectus redemption")
    crawl.add(5, kcid=COOKING, relevance=0.0, text="oven flour oven flour yeast", host=1)
    make_collection(tmp_path / "funds", [])
    with Store.open(tmp_path / "funds") as store:
        crawl.fill(store)
    return tmp_path / "funds"


def test_a_slow_look_does_not_end_offering(funds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When looking at the pages takes as long as a round, what suits is handed over all the same, to the last page."""
    cooks = Cooks()
    monkeypatch.setattr("opilio.crawl.open_peer", lambda _: cooks)
    monkeypatch.setattr("opilio.federation.forwarding.SLICE_PAGES", 10)
    monkeypatch.setattr("opilio.federation.forwarding.BATCH_OFFERS", 2)
    monkeypatch.setattr(forwarding_operations, "ROUND_S", 1e-9)  # a slice, and the time is over
    file = funds.parent / "peers.toml"
    file.write_text('[[peer]]\nname = "cooks"\nat = "cooks"\n')
    told = SharedCollection(funds).offer_to_peers(file, dry_run=True)["peers"][0]
    assert (told["count"], told["is_all"]) == (5, True)
    collection = SharedCollection(funds)
    assert collection.offer_to_peers(file)["peers"][0]["count"] == 5
    assert len(set(cooks.urls)) == 5
    noted = collection.sql("SELECT count(*) FROM offers WHERE NOT incoming").rows[0][0]
    assert collection.status().counters[FORWARDED] == collection.status().counters[ACCEPTED] == noted == 5


def test_a_dry_run_says_when_there_may_be_more(funds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is looked for than may wait; then it is told that this is not all."""
    monkeypatch.setattr("opilio.crawl.open_peer", lambda _: Cooks())
    monkeypatch.setattr("opilio.federation.forwarding.SLICE_PAGES", 42)
    monkeypatch.setattr("opilio.federation.forwarding.MAX_QUEUED", 1)
    file = funds.parent / "peers.toml"
    file.write_text('[[peer]]\nname = "cooks"\nat = "cooks"\n')
    told = SharedCollection(funds).offer_to_peers(file, dry_run=True)["peers"][0]
    assert (told["count"], told["is_all"]) == (2, False)


def test_what_came_in_after_the_last_count_is_counted(funds: Path) -> None:
    """What a crawl that ends has noted, but not counted any more, the next one counts; so do offers at rest."""
    noted = "SELECT count(*) FROM offers WHERE incoming"
    with Store.open(funds) as store:
        [(topic,)] = store.query("SELECT path FROM topics WHERE kcid = $1", [FUNDS]).rows
        assert len(receive(store, "ships", [Offer(f"http://n.example/{n}", topic, 0.5) for n in range(3)])) == 3
        known = SimpleNamespace(get=lambda _: 1)
        absorber: Any = SimpleNamespace(counters=Counters({RECEIVED: 1}), frontier=SimpleNamespace(known=known))
        admit_pending(store, absorber)
        assert absorber.counters.counts[RECEIVED] == store.query(noted).rows[0][0] == 3
    collection = SharedCollection(funds)
    assert collection.take_offers("ships", [Offer("http://n.example/9", topic, 0.5)]) == 1
    assert collection.status().counters[RECEIVED] == collection.sql(noted).rows[0][0] == 4


def test_offering_nothing_says_why(funds: Path) -> None:
    """With no page that could be compared, and with nobody to hand over to, the command says so."""
    file = funds.parent / "peers.toml"
    file.write_text('[[peer]]\nname = "me"\nat = "funds"\n')
    said = CliRunner().invoke(cli, ["offer", str(funds), "--peers", str(file)], catch_exceptions=False).output
    assert "no other collection" in said
    with Store.open(funds) as store:
        store.query("DELETE FROM pages", write=True)
    said = CliRunner().invoke(cli, ["offer", str(funds), "--peers", str(file)], catch_exceptions=False).output
    assert "too few pages" in said


def test_pages_without_words_are_no_work_left(funds: Path) -> None:
    """Where no page has a term, nothing can be compared: the end of a crawl must not look again and again."""
    with Store.open(funds) as store:
        store.query("DELETE FROM terms", write=True)
        delivery = Forwarding(store, "funds", [Cooks()])
        assert delivery.round(60.0).forwarded == 0
        assert delivery.is_done
