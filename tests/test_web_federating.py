"""The query server of a federation: one search over several collections, and what users say goes back to them."""

import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browser import chromium
from federation_peers import FakePeer
from federation_server import FederationServer, answering, free_address, portal_at
from opilio import Collection
from opilio.crawl.peer import SUMMARY_FILE, LocalPeer, SharedCollection
from opilio.errors import CollectionError
from opilio.federation.peers import PeerError, PeerSummary
from opilio.federation.remote_peer import RemotePeer
from opilio.web.federated import Federation, Spool, SpooledFeedback
from search_pages import Page, make_collection
from web_portal import TOKEN, Portal

SHARED = "http://shared.example/owls.html"
EVIL = "<script>alert('owl')</script>"
BIRDS = [
    Page("The barn owl nests in barns and hunts at night", f"Barn owls {EVIL}", kcid=2, relevance=0.9),
    Page("Owls of the world, a list of owls", "All owls", SHARED, kcid=2, relevance=0.8),
    *(Page(f"finch number {n} in the garden", f"Finch {n}", kcid=1) for n in range(12)),
]
BEES = [
    Page("Owls of the world, a list of owls", "All owls", SHARED, kcid=1, relevance=0.7),
    *(Page(f"honey bee number {n} in the hive", f"Bee {n}", f"http://bees.example/{n}", kcid=1) for n in range(12)),
]
SHIPS = [Page(f"sailing ship number {n} at sea", f"Ship {n}", f"http://ships.example/{n}") for n in range(8)]


class Three:
    """A folder, a collection that is served, and one that is away."""

    def __init__(self, place: Path) -> None:
        make_collection(place / "here" / "birds", BIRDS)
        make_collection(place / "here" / "ships", SHIPS)
        make_collection(place / "there" / "bees", BEES)
        self.place = place
        self.portal = Portal(place / "there")
        self.bees = f"{self.portal.address}/c/bees"
        self.away = free_address("away")
        self.server = FederationServer(
            [
                LocalPeer("birds", place / "here" / "birds"),
                RemotePeer("bees", self.bees, TOKEN),
                LocalPeer("ships", place / "here" / "ships"),
                RemotePeer("away", self.away, "some-token"),
            ],
            place / "state",
        )


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    place = tmp_path_factory.mktemp("federation")
    for folder in ("here", "there"):
        (place / folder).mkdir()
    three = Three(place)
    with three.portal, three.server:
        yield three


def names(result: dict[str, Any]) -> set[str]:
    return {one["name"] for one in result["collections"]}


def test_the_api_answers_for_all(three: Three) -> None:
    """One question, several collections: a page that two have is one result of both; who was asked is told."""
    status, answer = three.server.get("/api/search", q="owls")
    assert status == 200
    assert [one["url"] for one in answer["results"]].count(SHARED) == 1
    [shared] = [one for one in answer["results"] if one["url"] == SHARED]
    assert names(shared) == {"birds", "bees"}
    peers = {one["name"]: one for one in answer["peers"]}
    assert peers["birds"]["answered"]
    assert peers["bees"]["answered"]
    assert not peers["ships"]["chosen"]  # it has no such word
    _, everybody = three.server.get("/api/search", q="owls", ask_all="true")
    assert all(one["chosen"] for one in everybody["peers"])
    _, narrowed = three.server.get("/api/search", q="owls", host="shared.example")
    assert [one["url"] for one in narrowed["results"]] == [SHARED]
    assert three.server.get("/api/search", q='"owl')[0] == 400
    assert three.server.get("/api/search", q="owl", bm25=-1)[0] == 422
    assert three.server.get("/api/search", q="owl", page=1000)[0] == 400


def test_the_page_says_who_gave_what(three: Three) -> None:
    """Without scripts: results with their collections, links to those that are served, and who was not asked and why."""
    status, page = three.server.get("/search", q="owls")
    assert status == 200
    assert EVIL not in page
    assert "Barn <mark>owls</mark>" in page
    assert f'href="{three.bees}/page?url=http%3A%2F%2Fshared.example%2Fowls.html"' in page
    assert re.search(r"Asked: .*birds.*bees", page)
    assert re.search(r"Not asked: .*ships", page)
    assert "ask_all=true" in page
    assert "Not relevant" not in page  # nobody is signed in
    _, everybody = three.server.get("/search", q="owls", ask_all="true")
    assert "Not asked" not in everybody
    assert re.search(r"No answer: .*away", everybody)
    _, second = three.server.get("/search", q="number", size=10, page=2, ask_all="true")
    assert 'start="11"' in second
    assert 'rel="prev"' in second
    status, wrong = three.server.get("/search", q='"owl')
    assert (status, "not closed" in wrong) == (400, True)
    status, empty = three.server.get("/")
    assert status == 200
    assert "birds" in empty


def test_the_collections_are_shown_as_they_are(three: Three) -> None:
    """Each with pages, topics and when it was heard of; one that is away with what is wrong, and how often."""
    three.server.get("/api/search", q="owls", ask_all="true")
    status, told = three.server.get("/api/collections")
    assert status == 200
    found = {one["name"]: one for one in told}
    assert found["birds"]["pages"] == len(BIRDS)
    assert (found["birds"]["place"], found["bees"]["place"]) == ("", three.bees)
    assert found["bees"]["median_ms"] > 0
    assert abs(found["bees"]["heard_s"] - time.time()) < 120
    assert not found["away"]["known"]
    assert "refused" in found["away"]["trouble"]
    assert found["away"]["failures"] >= 1
    assert 0 < found["away"]["next_try_s"] <= 60
    assert found["birds"]["next_try_s"] is None
    status, page = three.server.get("/collections")
    assert status == 200
    for part in ("birds", three.bees, "Nothing is known about it yet", "refused"):
        assert part in page
    assert re.search(r"refused.*; next try in \d+ s", page)
    shutil.move(three.place / "here" / "ships", three.place / "here" / "gone")
    _, broken = three.server.get("/search", q="ship", ask_all="true")
    three.server.federation.look()
    _, listed = three.server.get("/collections")
    shutil.move(three.place / "here" / "gone", three.place / "here" / "ships")
    assert re.search(r"No answer: .*ships: no collection (t)?here", broken), broken
    assert str(three.place) not in page + broken + listed


def test_the_server_is_guarded_like_the_portal(three: Three) -> None:
    """Strange host names, changes without the token and bodies without end are refused; pages have the policy."""
    ask = three.server.ask
    assert ask("GET", "/api/search?q=owls", Host="evil.example")[0] == 421
    said = {"verdict": "relevant", "pages": [{"collection": "birds", "url": SHARED}]}
    assert ask("POST", "/api/feedback", said, token="")[0] == 403
    assert ask("POST", "/api/feedback", said, token="wrong")[0] == 403
    assert ask("POST", "/api/feedback", {**said, "pages": []})[0] == 422
    assert ask("POST", "/api/feedback", {**said, "verdict": "belongs"})[0] == 422
    status, answer = ask("POST", "/api/feedback", {**said, "pages": [{"collection": "nobody", "url": SHARED}]})
    assert (status, "nobody" in answer["error"]) == (400, True)
    for name in ("birds", "bees"):  # what a collection refuses is told, and not kept
        unknown = {"collection": name, "url": "http://not.there.example/"}
        _, answer = ask("POST", "/api/feedback", {**said, "pages": [unknown]})
        [told] = answer["collections"]
        assert (told["done"], told["kept"]) == (False, False)
        assert "not a page of this collection" in told["said"]
    status, answer = ask("GET", "/api/openapi.json")
    assert {"/api/search", "/api/collections", "/api/feedback", "/api/login"} <= answer["paths"].keys()
    assert "copies_of" not in [one["name"] for one in answer["paths"]["/api/search"]["get"]["parameters"]]
    for path in ("/login", "/api", "/nowhere"):
        _, page = ask("GET", path)
        assert '<nav aria-label="Federation">' in page, path
        assert "/new" not in page, path


def test_feedback_reaches_all_that_gave_the_page(tmp_path: Path) -> None:
    """What is said of a page that two collections have is an example in both; each says what it did with it."""
    (tmp_path / "there").mkdir()
    make_collection(tmp_path / "birds", BIRDS)
    make_collection(tmp_path / "there" / "bees", BEES)
    with Portal(tmp_path / "there") as portal:
        peers = [LocalPeer("birds", tmp_path / "birds"), RemotePeer("bees", f"{portal.address}/c/bees", TOKEN)]
        with FederationServer(peers, tmp_path / "state") as server:
            [shared] = [one for one in server.get("/api/search", q="owls")[1]["results"] if one["url"] == SHARED]
            pages = [{"collection": one["name"], "url": one["url"]} for one in shared["collections"]]
            status, told = server.ask("POST", "/api/feedback", {"verdict": "irrelevant", "pages": pages})
    assert status == 200
    assert {one["collection"]: one["done"] for one in told["collections"]} == {"birds": True, "bees": True}
    assert "counter-example of Birds" in told["said"]
    for folder in (tmp_path / "birds", tmp_path / "there" / "bees"):
        taught = Collection(folder).sql("SELECT positive FROM training WHERE name = 'http://shared.example/owls.html'")
        assert taught.rows == [(False,)], folder


def test_feedback_waits_for_a_collection_that_is_away(tmp_path: Path) -> None:
    """It is kept over a restart, the later word counts, it is told when the collection is back, and then forgotten."""
    (tmp_path / "there").mkdir()
    make_collection(tmp_path / "there" / "bees", BEES)
    peer = RemotePeer("bees", free_address("bees"), TOKEN)
    first = Federation([peer], tmp_path / "state")
    for relevant in (True, False):
        [told] = first.feedback([("bees", SHARED, "")], relevant=relevant)
        assert (told["done"], told["kept"]) == (False, True)
        assert "sent later" in told["said"]
    other = Federation([RemotePeer("bees", "http://127.0.0.1:9/c/bees", TOKEN)], tmp_path / "state")
    assert other.tell_kept(time.time() + 1e6) == 0  # another collection that has the same name
    again = Federation([peer], tmp_path / "state")
    assert again.collections()[0]["kept"] == 1
    with portal_at(peer.place, tmp_path / "there"):
        assert again.tell_kept(time.time()) == 0  # not so soon
        assert again.tell_kept(time.time() + 1e6) == 1
        assert again.tell_kept(time.time() + 1e6) == 0
    assert again.collections()[0]["kept"] == 0
    taught = Collection(tmp_path / "there" / "bees").sql("SELECT positive FROM training WHERE name LIKE '%owls%'")
    assert taught.rows == [(False,)]


def test_a_collection_that_comes_later_is_noticed(tmp_path: Path) -> None:
    """One that was away at the start is asked again by itself, and then answers questions."""
    (tmp_path / "there").mkdir()
    make_collection(tmp_path / "there" / "bees", BEES)
    peer = RemotePeer("bees", free_address("bees"), TOKEN)
    federation = Federation([peer], tmp_path / "state", every_s=0.1)
    federation.start(wait_s=30)
    try:
        assert not federation.collections()[0]["known"]
        assert "refused" in federation.collections()[0]["trouble"]
        with portal_at(peer.place, tmp_path / "there"):
            deadline_s = time.monotonic() + 30
            while not federation.collections()[0]["known"] or federation.collections()[0]["trouble"]:
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
            assert federation.collections()[0]["next_try_s"] is None
            assert [one["url"] for one in federation.search("owls")["results"]] == [SHARED]
    finally:
        federation.close()


# -- peers that are up to no good


WORSE = "<script>alert(1)</script>"


def evil_summary(**changes: Any) -> dict[str, Any]:
    word = [1_000_000, 9.0, 0.1, 10, 10]
    profile = {"path": WORSE, "description": WORSE, "pages": 10**18, "terms": {"owl": 1.0}, "typical": 0.1}
    return {
        "name": WORSE, "version": "1", "pages": 10**18, "mean_words": 5.0, "topics": [profile], "words": {"owl": word},
        **changes,
    }  # fmt: skip


def evil_page(**changes: Any) -> dict[str, Any]:
    pieces = [[WORSE, False], ["owl", True], [WORSE, True]]
    result = {
        "oid": 1, "url": "http://evil.example/owl", "title": WORSE, "title_pieces": pieces, "snippet": pieces,
        "host": WORSE, "topic": WORSE, "relevance": 1e300, "authority": 1e300, "visited": WORSE, "language": WORSE,
        "type": WORSE, "score": 1e300, "folded": 10**18,
        "parts": {"bm25": 1e300, "cosine": 1e300, "relevance": 1e300, "authority": 1e300}, **changes,
    }  # fmt: skip
    return {"result": result, "words": {"stems:owl": 1e300, "text:owl": 1e300}, "lengths": {"stems": 1.0}, "marks": []}


def evil_answer(pages: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "total": 10**18, "pages": pages, "facets": {"topic": [{"value": WORSE, "count": 10**18}]}, "took_ms": -5.0,
        "pages_indexed": 10**18, "frequencies": {"stems:owl": 10**18}, "lengths": {"stems": 1e300},
    }  # fmt: skip


BAD_URLS = ["javascript:alert('url')", "data:text/html,<script>alert(1)</script>", "http://evil.example/" + "a" * 9000]
HOSTILE = {
    "scripts": lambda what: evil_summary() if what == "summary" else evil_answer([evil_page()]),
    "addresses": lambda what: (
        evil_summary() if what == "summary" else evil_answer([evil_page(url=url) for url in BAD_URLS])
    ),
    "numbers": lambda what: (
        evil_summary(pages=10**40) if what == "summary" else evil_answer([evil_page(relevance=float("nan"))])
    ),
    "types": lambda what: (
        evil_summary(words=[]) if what == "summary" else evil_answer([evil_page(snippet=7, title=None, parts=[])])
    ),
    "huge": lambda what: evil_summary() if what == "summary" else (b" " * 2**20 for _ in range(64)),
    "endless": lambda what: evil_summary() if what == "summary" else trickle(),
}


def trickle() -> Iterator[bytes]:
    """An answer that never ends, and never quite stops."""
    for _ in range(200):
        time.sleep(0.05)
        yield b" "


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_peer_harms_nobody(kind: str, three: Three, tmp_path: Path) -> None:
    """Whatever a peer sends, the others' pages are shown, nothing of it is markup, and no link is a script."""
    with answering(HOSTILE[kind]) as address:
        peers = [LocalPeer("birds", three.place / "here" / "birds"), RemotePeer("evil", address, "x")]
        with FederationServer(peers, tmp_path / "state") as server:
            began_s = time.monotonic()
            status, page = server.get("/search", q="owl", ask_all="true")
            assert time.monotonic() - began_s < 8
            assert status == 200, page
            assert "All <mark>owls</mark>" in page
            for path in ("/collections", "/", "/search?q=owl&ask_all=true"):
                status, shown = server.get(path)
                assert status == 200, shown
                page += shown
            assert WORSE not in page
            assert "<script>alert" not in page
            assert "&lt;script&gt;alert(1)" in page or kind != "scripts"
            assert not re.search(r"""href=["'](javascript|data):""", page)
            assert max(map(len, page.split())) < 5000
            status, answer = server.get("/api/search", q="owl", ask_all="true")
            assert status == 200
            assert all(one["url"].startswith("http") for one in answer["results"])


# -- in a browser


def test_searching_and_saying_in_a_browser(three: Three) -> None:
    """Three collections answer and one is away; what is said of a page is told to both that have it; all is usable."""
    complaints: list[str] = []
    with chromium() as browser:
        page = browser.new_context().new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto(f"{three.server.address}/login#{TOKEN}")
        page.get_by_role("button", name="Sign out").wait_for()
        page.get_by_label("Question").fill("owls")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".asked")).to_contain_text("Not asked: ")
        page.get_by_role("link", name="Ask all").click()
        expect(page.locator(".asked")).to_contain_text("No answer: away")
        expect(page.locator("#results .results .title")).to_have_count(2)
        shared = page.locator("#results li").filter(has_text=SHARED)
        expect(shared).to_contain_text("bees")
        shared.get_by_role("button", name="Relevant", exact=True).click()
        said = page.locator("#said")
        expect(said).to_contain_text("birds: an example of Birds / Owls")
        expect(said).to_contain_text("bees: an example of Birds")
        page.get_by_label("Words (BM25)").fill("0.4")
        expect(page).to_have_url(re.compile("bm25=0.4.*ask_all=true|ask_all=true.*bm25=0.4"))
        for path in ("/search?q=owls&ask_all=true", "/collections", "/"):
            page.goto(three.server.address + path)
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
        page.set_viewport_size({"width": 390, "height": 844})
        for path in ("/search?q=owls&ask_all=true", "/collections", "/"):
            page.goto(three.server.address + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("link", name="Sign in").wait_for()
    assert complaints == []


DEEP = b"[" * 100_000


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
