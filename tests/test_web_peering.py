"""What a served collection answers to peers: all of it, to those who show the token; nothing to others."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from federation_pages import make_federation
from opilio import Collection
from opilio.crawl.peer import LocalPeer
from opilio.federation.peers import Offer, PeerError
from opilio.federation.remote_peer import RemotePeer
from opilio.federation.search import FederatedSearch
from opilio.search.query import parse
from opilio.search.results import pieces
from opilio.search.snippets import Highlighter
from opilio.web.security import SESSION, Security
from web_portal import TOKEN, Portal

PEER = "/api/c/birds/peer"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three collections and the one that has all their pages."""
    return make_federation(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def portal(place: Path) -> Iterator[Portal]:
    """A server that shows them."""
    with Portal(place) as portal:
        yield portal


def remote(portal: Portal, name: str, token: str = TOKEN) -> RemotePeer:
    return RemotePeer(name, f"{portal.address}/c/{name}", token)


@pytest.mark.parametrize("token", ["", "wrong"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "summary", None), ("POST", "ask", {"question": "owl"}), ("POST", "offer", {"sender": "x", "offers": []}),
        ("POST", "feedback", {"url": "http://owl0.example/0/0.html", "relevant": True}),
    ],
)  # fmt: skip
def test_nothing_without_the_token(portal: Portal, token: str, method: str, path: str, body: object) -> None:
    """Reading too is refused, and so is asking whether a collection of some name is there."""
    for name in ("birds", "nothing"):
        status, told = portal.ask(method, f"/api/c/{name}/peer/{path}", body, token=token)
        assert status == 403
        assert set(told) == {"error", "hint"}


def test_a_signed_in_browser_is_no_peer(portal: Portal) -> None:
    """A session that the portal knows does not do in place of the token."""
    security = Security(TOKEN)
    cookie = f"{SESSION}_{portal.address.rpartition(':')[2]}={security.new_session()}"
    assert 'name="csrf"' in portal.ask("GET", "/c/birds/", token="", Cookie=cookie)[1]  # it is signed in
    assert portal.ask("GET", f"{PEER}/summary", token="", Cookie=cookie)[0] == 403


def test_far_and_near_are_the_same(portal: Portal, place: Path) -> None:
    """A peer over HTTP gives the summary and the answers of the same collection in a folder; unchanged means not sent."""
    far, near = remote(portal, "birds"), LocalPeer("birds", place / "birds")
    summary = far.summary()
    assert summary == near.summary()
    assert far.summary(summary) is summary
    status, _ = portal.ask("GET", f"{PEER}/summary", If_None_Match=f'"{summary.version}"')
    assert status == 304
    options = {"weights": {"bm25": 1.0, "cosine": 0.5}, "filters": [("topic", "Birds")], "most": 15, "timeout_s": 10.0}
    ours, theirs = (peer.ask("owl OR nest", **options) for peer in (near, far))  # type: ignore[arg-type]
    assert theirs.total == ours.total
    assert theirs.frequencies == ours.frequencies
    for one, other in zip(ours.pages, theirs.pages, strict=True):
        assert other.words == one.words
        assert other.marks == one.marks
        for key in ("url", "title", "score", "topic", "host", "visited", "parts"):
            assert other.result[key] == one.result[key] or other.result[key] == pytest.approx(one.result[key])
        assert other.text is None, "a text is not sent: the pieces that are shown are cut from it there"
        assert one.text is not None
        cut = pieces(Highlighter(parse("owl OR nest").words()), one.result["title"], one.text)
        assert {key: other.result[key] for key in cut} == cut


def test_a_federation_of_servers_and_folders_is_one(portal: Portal, place: Path) -> None:
    """Two collections over HTTP and one in a folder give the results of the one with all pages; so does a dead one."""
    peers = [remote(portal, "birds"), remote(portal, "cars"), LocalPeer("both", place / "both")]
    federation = FederatedSearch(peers)
    assert federation.refresh() == {}
    for question in ("small owl", "engine OR owl", '"old wheel"'):
        one = Collection(place / "all").search(question)
        found = federation.search(question, ask_all=True)
        assert found["total"] == one["total"]
        scores = [result["score"] for result in one["results"]]
        assert [result["score"] for result in found["results"]] == pytest.approx(scores, abs=2e-4)
    lame = FederatedSearch([*peers[1:], remote(portal, "birds", "expired")])
    wrong = lame.refresh()
    assert list(wrong) == ["birds"]
    assert "does not let us in" in wrong["birds"]
    told = lame.search("small")
    assert len(told["results"]) == 10
    assert "does not let us in" in told["peers"][2]["error"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("ask", {"question": "x" * 2001}, 422), ("ask", {"question": '"owl'}, 400), ("ask", {"most": 10**9}, 422),
        ("ask", {"question": "owl", "weights": {"bm25": -1}}, 400), ("ask", {"filters": [["color", "red"]]}, 422),
        ("ask", {"question": "owl", "filters": [["host", "x"]] * 101}, 422), ("ask", {"most": "many"}, 422),
        ("ask", [1, 2], 422), ("offer", {"sender": "", "offers": []}, 422), ("offer", {"sender": "x" * 99, "offers": []}, 422),
        ("offer", {"sender": "x", "offers": [{"url": "http://a.example/", "relevance": 7}]}, 422),
        ("offer", {"sender": "x", "offers": [{"url": "http://a.example/"}] * 1001}, 422),
        ("feedback", {"url": "x" * 5000, "relevant": True}, 422), ("feedback", {"url": "http://none.example/"}, 422),
        ("feedback", {"url": "http://none.example/", "relevant": True}, 400),
    ],
)  # fmt: skip
def test_what_peers_ask_is_bounded(portal: Portal, path: str, body: object, status: int) -> None:
    """Too long, too many, too much, or of another form: refused with a sentence, and nothing breaks."""
    told = portal.ask("POST", f"{PEER}/{path}", body)
    assert (told[0], bool(told[1]["error"])) == (status, True)


def test_a_topic_of_others_is_no_error(portal: Portal) -> None:
    """A collection that does not have a topic has no page in it, and loses none by leaving it out."""
    peer = remote(portal, "birds")
    everything = peer.ask("small", weights=None, filters=[], most=5, timeout_s=10.0).total
    assert peer.ask("small topic:Ships", weights=None, filters=[], most=5, timeout_s=10.0).total == 0
    assert peer.ask("small -topic:Ships", weights=None, filters=[], most=5, timeout_s=10.0).total == everything
    some = peer.ask("small topic:Ships topic:Birds", weights=None, filters=[], most=5, timeout_s=10.0).total
    assert 0 < some < everything


def test_feedback_and_offers_arrive(place: Path, tmp_path: Path) -> None:
    """What a user says of a page is learned from; URLs that are handed over are taken once; bad ones are not."""
    shutil.copytree(place / "cars", tmp_path / "cars")
    with Portal(tmp_path / "cars") as portal:
        peer = remote(portal, "cars")
        url = Collection(tmp_path / "cars").search("wheel")["results"][0]["url"]
        assert peer.feedback(url, "Birds", relevant=True)
        with pytest.raises(PeerError, match=r"refuses: .*not a page of this collection"):
            peer.feedback("http://nowhere.example/", "", relevant=True)
        offers = [Offer("http://new.example/", "Birds", 0.9), Offer("javascript:alert(1)", "Birds", 0.9)]
        assert peer.offer("ships", offers) == 1
        assert peer.offer("ships", offers) == 0
    assert Collection(tmp_path / "cars").pending()["count"] == 1
