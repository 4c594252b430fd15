"""Summaries: what a collection says of itself is what its pages say, and is made once."""

import contextlib
import math
import os
import shutil
import threading
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

import opilio.crawl.peer as peer_module
from conftest import MakeTaught
from federation_pages import BIRDS, make_federation
from federation_peers import RawServer, response, summary_of
from opilio import Collection
from opilio.crawl.peer import SUMMARY_FILE, LocalPeer, SharedCollection
from opilio.federation.peers import MAX_TOPIC_CHARS, PeerError, PeerSummary, TopicProfile, WordStatistics
from opilio.federation.profiles import profiles_from, suitability, tid_of, topic_profiles
from opilio.federation.remote_peer import RemotePeer
from opilio.federation.validation import check_summary
from opilio.search.index import open_reader
from opilio.search.matching import leaves_of
from opilio.search.query import Word
from opilio.store import Store
from search_pages import Page, add_pages


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three collections and the one that has all their pages."""
    return make_federation(tmp_path_factory.mktemp("federation"))


def test_pages_with_a_word_are_counted_exactly(place: Path) -> None:
    """For every word, as many pages as a search for it finds; of titles and anchors likewise."""
    collection, summary = Collection(place / "birds"), SharedCollection(place / "birds").summarize()
    assert summary.pages == 60
    for word in [*BIRDS, "small", "unique0x5"]:
        stem = leaves_of(Word(word))[0].terms[0]
        assert summary.words[stem].pages <= collection.search(word)["total"]
        assert summary.words[stem].titles == collection.search(f"title:{word}")["total"]
        assert summary.words[stem].anchors == collection.search(f"anchor:{word}")["total"]
    assert not summary.rare
    assert sum(summary.facets["host"].values()) == 60
    assert summary.facets["topic"]["Birds"] == collection.search("topic:Birds")["total"]


def test_what_a_word_adds_is_measured(place: Path) -> None:
    """Mean and variance of a word's part in scores agree with the scores that the index gives, its weights taken out."""
    summary = SharedCollection(place / "all").summarize()
    reader = open_reader(place / "all")
    assert reader is not None
    for word in ("owl", "engine", "small"):
        parts: dict[int, float] = {}
        for leaf in leaves_of(Word(word)):
            pages_with = reader.searcher.doc_freq(leaf.field, leaf.terms[0])
            pages = reader.searcher.num_docs
            weight = math.log(1 + (pages - pages_with + 0.5) / (pages_with + 0.5))
            _, oids, scores, _ = reader.find(leaf.query(), 1000)
            for oid, score in zip(oids.tolist(), scores.tolist(), strict=True):
                parts[oid] = parts.get(oid, 0.0) + leaf.boost * score / weight
        told, values = summary.words[leaves_of(Word(word))[0].terms[0]], np.array(list(parts.values()))
        assert 0.9 * len(values) <= told.pages <= len(values)  # some have it in what links say only
        assert told.mean == pytest.approx(values.mean(), rel=0.12)
        assert math.sqrt(told.variance) == pytest.approx(values.std(), rel=0.3)


def test_a_summary_is_made_once_and_again_after_a_change(place: Path, tmp_path: Path) -> None:
    """The same until pages come; kept on disk; a little later than the change when it is small; known ones come back."""
    shutil.copytree(place / "cars", tmp_path / "cars")
    peer = LocalPeer("c", tmp_path / "cars")
    first = peer.summary()
    assert peer.summary(first) is first
    file = tmp_path / "cars" / "index" / SUMMARY_FILE
    made_ns = file.stat().st_mtime_ns
    assert peer.summary().version == first.version
    assert file.stat().st_mtime_ns == made_ns
    add_pages(tmp_path / "cars", [Page("zeppelin", "Zeppelin")], first=50)
    assert "zeppelin" not in peer.summary().words  # it is young, and the change small
    os.utime(file, (time.time() - peer_module.MIN_AGE_S - 1,) * 2)
    assert peer.summary(first).words["zeppelin"].pages == 1
    add_pages(tmp_path / "cars", [Page(f"airship {n}", "Airship") for n in range(20)], first=51)
    assert peer.summary().pages == 71  # it is young, and the change large
    file.write_bytes(b"broken")
    assert peer.summary().pages == 71


def test_a_folder_that_is_none_is_said_so(tmp_path: Path) -> None:
    """A peer whose folder is gone fails with its name and place."""
    with pytest.raises(PeerError, match=r"lost \(.*nothing\): .*no collection"):
        LocalPeer("lost", tmp_path / "nothing").summary()


def test_a_summary_survives_the_way(place: Path) -> None:
    """As JSON and through the check of what strangers send, an honest summary stays as it is."""
    made = SharedCollection(place / "both").summarize()
    assert check_summary(msgspec.json.decode(msgspec.json.encode(made), type=PeerSummary)) == made


def test_profiles_tell_whose_page_it_is(crawled_taught: Path) -> None:
    """Of the pages of a crawled collection, most suit their own topic; those of another topic suit none."""
    with Store.open(crawled_taught, read_only=True) as store:
        profiles = profiles_from(topic_profiles(store))
        terms: dict[int, dict[int, int]] = {}
        for oid, tid, freq in store.query("SELECT oid, tid, freq FROM terms", max_rows=10**6).rows:
            terms.setdefault(oid, {})[tid] = freq
        rows = store.query("SELECT oid, path, relevance FROM pages LEFT JOIN topics USING (kcid)", max_rows=10**4).rows
    summary = PeerSummary("c", "1", len(rows), 100.0, profiles, {})
    assert {profile.path for profile in profiles} == {"cryptography", "data compression", "statistics"}
    for profile in profiles:
        assert sum(weight**2 for weight in profile.terms.values()) == pytest.approx(1, abs=0.01)
    relevant = [(path, *suitability(terms.get(oid, {}), summary)) for oid, path, relevance in rows if relevance >= 0.5]
    assert np.mean([path == topic for path, topic, _ in relevant]) > 0.8
    assert np.mean([relevance >= 0.5 for *_, relevance in relevant]) > 0.6
    without = PeerSummary("c", "1", len(rows), 100.0, [one for one in profiles if one.path != "statistics"], {})
    others = [suitability(terms.get(oid, {}), without)[1] for oid, path, _ in rows if path == "statistics"]
    assert len(others) > 10
    assert np.mean([relevance >= 0.5 for relevance in others]) < 0.2


def test_likeness_by_hand() -> None:
    """A page with one of two equal terms of a profile, and nothing else, has the cosine 1 / sqrt 2."""
    half = math.sqrt(0.5)
    profile = TopicProfile("Birds", "", 9, {"owl": half, "nest": half}, 1.0)
    summary = PeerSummary("c", "1", 9, 9.0, [profile], {})
    topic, relevance = suitability({tid_of("owl"): 1}, summary)
    assert (topic, relevance) == ("Birds", pytest.approx(0.5 * half))
    assert suitability({tid_of("owl"): 3, tid_of("nest"): 3}, summary) == ("Birds", pytest.approx(0.5))
    assert suitability({tid_of("wheel"): 1}, summary) == ("", 0.0)
    assert suitability({}, summary) == ("", 0.0)


def test_what_strangers_say_of_themselves_is_bounded() -> None:
    """Absurd numbers become possible ones; a topic that everything would suit does not; a version is a plain word."""
    profile = TopicProfile("x" * 9999, "\x1b[31m", -5, {"owl": 1e300}, 1e-300)
    absurd = PeerSummary(
        "evil\x07", "v-1", 10**15, float("inf"), [profile], {"owl": WordStatistics(10**12, 1e9, -4.0, 10**12, -1)},
        b"\xff" * 2**23, (7.0, -1.0), {"host": {"h": 10**12}, "rubbish": {"x": 1}}, ["host", "all"], {"stems": -3.0},
    )  # fmt: skip
    checked = check_summary(absurd)
    word = checked.words["owl"]
    assert word.pages <= checked.pages <= 10**9
    assert 0 <= word.mean <= 10
    assert 0 <= word.variance <= 100
    assert checked.relevance == (1.0, 0.0)
    assert checked.topics[0].typical >= 0.05
    assert len(checked.topics[0].path) <= MAX_TOPIC_CHARS
    assert "\x1b" not in checked.topics[0].description
    assert checked.name == "evil "
    assert set(checked.facets) == {"host"}
    assert len(checked.rare) <= 2**21
    for version in ("", 'a"b', "a\r\nX: y", "x" * 101):
        with pytest.raises(PeerError):
            check_summary(msgspec.structs.replace(absurd, version=version))


def test_a_crawl_that_runs_has_a_summary_and_answers(make_taught: MakeTaught) -> None:
    """While a crawl runs, its collection is a peer like any other: topics come from the crawl, words from the index."""
    collection = make_taught(limits__max_pages=90, search__update_s=0.05, fetch__host_delay_s=0.02)
    crawl = threading.Thread(target=collection.crawl)
    crawl.start()
    peer, seen = LocalPeer("c", collection.folder), []
    while crawl.is_alive():
        with contextlib.suppress(PeerError):  # the index is not there yet
            summary = peer.summary()
            found = peer.ask("python", weights=None, filters=[], most=5, timeout_s=5.0)
            if crawl.is_alive():
                seen.append((summary.pages, len(summary.words), found.pages_indexed))
        time.sleep(0.1)
    crawl.join()
    assert any(0 < pages < 90 and words for pages, words, _ in seen)
    assert peer.ask("python", weights=None, filters=[], most=5, timeout_s=5.0).pages_indexed >= 90


def test_a_summary_that_cannot_be_used_names_its_peer() -> None:
    """The notice of a crawl must say who is meant."""
    body = msgspec.json.encode(msgspec.structs.replace(summary_of("birds", owl=1), version="a b\r\nX: y"))
    server = RawServer(lambda connection, _: connection.sendall(response(body)))
    try:
        with pytest.raises(PeerError, match=r"^birds \(http"):
            RemotePeer("birds", server.address, "t").summary()
    finally:
        server.close()
