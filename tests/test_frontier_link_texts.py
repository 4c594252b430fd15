"""Similarity of link texts: the best queued URLs, scored by a sentence encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from opilio import Collection
from opilio.crawl import collection
from opilio.errors import SettingsError
from opilio.frontier import Host, QueuedUrl, evidence_strategy
from opilio.frontier.evidence_strategy import AllEvidence
from opilio.frontier.hosts import Domain, HostState
from opilio.frontier.link_texts import MAX_POINTS, TextSimilarity, link_text
from opilio.frontier.link_words import WordOdds
from opilio.frontier.strategies import RejudgedPages
from opilio.learn import strategy_history
from opilio.model import Document, Judgement, Link, Links, Region
from opilio.settings import Settings
from webs import Page, Web

HOST = Host(0, "a.org", Domain(), dict.fromkeys(HostState, 0))
VECTORS = {"heron": (1.0, 0.0), "egret": (0.9, 0.3), "lathe": (-1.0, 0.0), "chisel": (-0.9, 0.3), "ridge": (0.0, 1.0)}
KNOWN = [("heron", 1.0), ("lathe", 0.0)]


class Encoder:
    """Stands in for a sentence encoder: the vector of a text is that of its first word."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += texts
        return np.array([VECTORS.get(text.split(",")[0], (0.0, 0.0)) for text in texts], np.float32).reshape(-1, 2)


def link(anchor: str, url: str = "http://a.org/0") -> Link:
    return Link(url, 0, anchor, "", Region.MAIN, 0)


def page_of(*anchors: str) -> Document:
    """A page with links of these anchor texts."""
    return Document("", "", "", "", "", "", Links.of(map(link, anchors)), b"", b"", [], 0, b"")


def waiting(oid: int) -> QueuedUrl:
    return QueuedUrl(oid, f"http://a.org/{oid}", HOST, topic=0, depth=1, relevance=0.5)


def similarity_of(*anchors: str) -> TextSimilarity:
    """Herons are wanted and lathes are not; links with these anchor texts lead to the URLs 0, 1 ..."""
    similarity = TextSimilarity(Encoder())
    similarity.prepare(KNOWN)
    similarity.add_links(page_of(*anchors), range(len(anchors)))
    return similarity


@pytest.mark.parametrize(
    ("anchor", "url", "text"),
    [
        ("Grey heron", "http://a.org/birds/grey_heron.html", "Grey heron, birds"),
        ("here", "http://a.org/x/wading-birds/", "here, wading birds"),
        ("", "http://a.org/B%C3%A4ume/index.php?page=2", "Bäume"),
        ("Home", "http://a.org/", "Home"),
        ("", "http://a.org", ""),
    ],
)
def test_the_text_of_a_link(anchor: str, url: str, text: str) -> None:
    """The anchor text comes first, then the words at the end of the path that it lacks."""
    assert link_text(link(anchor, url)) == text


def test_similarity_is_in_units_of_its_spread() -> None:
    """Over the URLs that it was standardised by, the mean is 0 and the spread 1; a URL without a text gets 0."""
    similarity = similarity_of("egret", "chisel", "ridge", "")
    assert not similarity.similarities(np.arange(3)).any()
    similarity.refresh(np.full(4, np.nan, np.float32), np.arange(4))
    egret, chisel, ridge, nothing = similarity.similarities(np.arange(4)).tolist()
    assert egret > ridge > chisel
    assert nothing == 0.0
    assert np.allclose([np.mean([egret, chisel, ridge]), np.std([egret, chisel, ridge])], [0.0, 1.0], atol=1e-5)


def test_the_direction_follows_what_links_led_to() -> None:
    """A link with the text chisel led to a relevant page, many times: such links are better than egrets then."""
    similarity = similarity_of(*["chisel"] * 9, "chisel", "egret")
    for oid in range(9):
        similarity.settle(oid)
    relevance = np.ones(11, np.float32)
    similarity.refresh(relevance, np.array([9, 10]))
    chisel, egret = similarity.similarities(np.array([9, 10]))
    assert chisel < egret  # lathes count as all that is bad
    similarity.prepare([("egret", 0.0)])
    similarity.refresh(relevance, np.array([9, 10]))
    chisel, egret = similarity.similarities(np.array([9, 10]))
    assert chisel > egret


def test_nothing_is_said_before_good_and_bad_are_known() -> None:
    """Of good texts alone no direction follows, and a page without relevance does not count."""
    similarity = similarity_of("lathe", "egret")
    similarity.prepare([("heron", 1.0), (" ", 0.0)])
    similarity.settle(0)
    similarity.refresh(np.full(2, np.nan, np.float32), np.array([1]))
    assert not similarity.similarities(np.array([1])).any()


def test_a_redirect_hands_over_its_texts_and_a_dropped_url_loses_them() -> None:
    """The target of a redirect is scored by the links to its source."""
    similarity = similarity_of("egret", "chisel", "heron")
    similarity.hand_over(0, 7)
    similarity.forget(2)
    similarity.refresh(np.full(8, np.nan, np.float32), np.array([0, 1]))
    source, target, forgotten = similarity.similarities(np.array([0, 7, 2]))
    assert source == target > 0.0 == forgotten


def test_only_the_last_links_are_learned_from() -> None:
    """What a link led to long ago is forgotten when as many as count came after it."""
    similarity = similarity_of(*["egret"] * (MAX_POINTS + 5), "chisel")
    similarity.prepare([("ridge", 1.0)])
    for oid in range(MAX_POINTS + 5):
        similarity.settle(oid)
    encoder = Encoder()
    similarity._encode = encoder
    similarity.refresh(np.zeros(MAX_POINTS + 6, np.float32), np.array([MAX_POINTS + 5]))
    assert encoder.texts.count("egret") == MAX_POINTS


def test_only_the_best_urls_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others keep the scores of all other evidence; a new link is encoded when it is as good as the best."""
    monkeypatch.setattr(evidence_strategy, "ENCODED_URLS", 1)
    plain, strategy, encoder = AllEvidence(Settings().frontier), AllEvidence(Settings().frontier), Encoder()
    strategy.use_encoder(encoder, KNOWN)
    for order in (plain, strategy):
        order.prepare([], [])
        order.observe(waiting(10), Judgement(0, True, 1.0, 1.0), page_of("egret"), [0], [0])
        order.observe(waiting(11), Judgement(0, False, 0.0, 0.0), page_of("chisel"), [1], [0])
    urls = [waiting(0), waiting(1)]
    before, after = plain.reprioritise(urls), strategy.reprioritise(urls)
    assert before is not None
    assert after is not None
    assert before[1] == after[1]
    assert set(encoder.texts) == {"heron", "lathe", "egret"}
    strategy.observe(waiting(12), Judgement(0, True, 1.0, 1.0), page_of("ridge"), [2], [0])
    strategy.priorities([waiting(1), waiting(2)])
    assert "chisel" not in encoder.texts
    assert "ridge" in encoder.texts


def test_a_strategy_orders_links_by_their_texts_and_explains_it() -> None:
    """Two links of one page differ in their texts only, and new judgements turn their order round."""
    strategy = AllEvidence(Settings().frontier)
    strategy.use_encoder(Encoder(), KNOWN)
    strategy.prepare([], [])
    strategy.observe(waiting(10), Judgement(0, True, 1.0, 1.0), page_of("chisel", "egret"), [0, 1], [0, 0])
    found = strategy.reprioritise([waiting(0), waiting(1)])
    assert found is not None
    assert found[0] < found[1]
    assert found == strategy.priorities([waiting(0), waiting(1)])
    assert strategy.explain(0)["text similarity"] == pytest.approx(-1.0)
    assert sum(strategy.explain(1).values()) == pytest.approx(found[1])
    nothing = np.zeros(0)
    turned = [("heron", 0.0), ("lathe", 1.0)]
    rejudged = RejudgedPages(nothing.astype(np.int64), nothing, nothing, WordOdds(), texts=turned)
    strategy.rejudging().finish(rejudged)
    found = strategy.reprioritise([waiting(0), waiting(1)])
    assert found is not None
    assert found[0] > found[1]


def test_a_crawl_without_its_encoder_is_refused_at_once(tmp_path: Path) -> None:
    """Before the collection has a folder."""
    (tmp_path / "seeds.txt").write_text("http://a.org/\n")
    with pytest.raises(SettingsError, match=r"onnxruntime|not a folder"):
        Collection.create(
            tmp_path / "c", seeds=tmp_path / "seeds.txt", settings={"frontier.encoder": str(tmp_path / "none")}
        )
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("has_encoder", [False, True])
def test_a_crawl_goes_by_the_meaning_of_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_encoder: bool
) -> None:
    """Herons are asked for, and a lathe was no good. Of what its page links to an egret is fetched before a chisel that
    stands above it; without an encoder the chisel is."""
    monkeypatch.setattr(collection, "find_encoder", lambda model: None)
    monkeypatch.setattr(strategy_history, "load_text_vectors", lambda model: Encoder())
    web = Web(
        [
            Page("Some words first.", title="Start", url="/", links=(("/a", "lathe"),)),
            Page("Other words here.", title="Next", url="/a", links=(("/b", "chisel"), ("/c", "egret"))),
            Page("Nothing like it.", title="Third", url="/b"),
            Page("Quite another thing.", title="Last", url="/c"),
        ]
    )
    with web.served() as server:
        (tmp_path / "seeds.txt").write_text(f"http://{server.address}/\n")
        settings = {
            "fetch.allow_private_addresses": True, "fetch.host_delay_s": 0.0, "fetch.in_flight": 1, "limits.max_pages": 3,
            "frontier.strategy": "evidence", "frontier.encoder": "installed" if has_encoder else "",
        }  # fmt: skip
        Collection.create(tmp_path / "c", seeds=tmp_path / "seeds.txt", query="heron", settings=settings).crawl()
        fetched = [path for path in server.paths() if path in web.routes()]
    assert fetched == (["/", "/a", "/c"] if has_encoder else ["/", "/a", "/b"])
