"""Embedding similarity: words that no link ever had, scored by their vectors."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from opilio import Collection
from opilio.analyze.terms import term_ids
from opilio.classify import Example, TrainingSet
from opilio.errors import SettingsError
from opilio.features.classifier_input import ClassifierInput
from opilio.features.word_vectors import stem_vectors
from opilio.frontier import Host, QueuedUrl
from opilio.frontier.evidence_strategy import AllEvidence
from opilio.frontier.hosts import Domain, HostState
from opilio.frontier.link_words import MAX_POINTS, SLOTS, EmbeddingSimilarity, WordOdds, WordVectors
from opilio.frontier.strategies import KnownDocument, RejudgedPages
from opilio.learn.strategy_history import documents_of
from opilio.model import Document, Judgement, Link, Links, Region
from opilio.settings import Settings
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node
from webs import Page, Web

NO_WORDS = np.zeros(0, np.uint32)
HOST = Host(0, "a.org", Domain(), dict.fromkeys(HostState, 0))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared tables are kept in a folder of the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def vectors_of(rows: np.ndarray, stems: list[int] | None = None) -> WordVectors:
    numbers = np.arange(1, len(rows) + 1) if stems is None else np.array(stems)
    return WordVectors(numbers.astype(np.uint32), np.arange(len(rows)), rows.astype(np.float32))


@given(st.integers(0, 2**32 - 1), st.integers(3, 40), st.integers(3, 40), st.integers(1, 8))
def test_the_direction_is_that_of_an_independent_discriminant(seed: int, good: int, bad: int, size: int) -> None:
    """Links of one word each: words get the scores that scikit-learn's shrunken discriminant gives their vectors."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(good + bad, size + 1))
    similarity = EmbeddingSimilarity(vectors_of(rows))
    relevance = np.array([1.0] * good + [0.0] * bad, np.float32)
    oids = np.arange(good + bad)
    similarity.add_words((oids + 1).astype(np.uint32))
    similarity.learn((oids + 1).astype(np.uint32), oids, oids)
    similarity.refresh(relevance)
    points = rows / np.linalg.norm(rows, axis=1)[:, None]
    other = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5).fit(points, relevance > 0)
    expected = rows @ other.coef_[0] * 0.5  # it shrinks by the mean of both, we by their sum
    assert np.allclose(similarity.scores((oids + 1).astype(np.uint32)), expected, rtol=1e-2, atol=1e-2)


def test_words_without_a_vector_say_nothing() -> None:
    """Also when a word that has one would share their slot, had it been met."""
    similarity = EmbeddingSimilarity(vectors_of(np.array([[1.0, 0.0], [0.0, 1.0]]), [5, 6]))
    similarity.prepare(np.array([5, 6], np.uint32), np.arange(2), np.array([1.0, 0.0]))
    similarity.refresh(np.zeros(0, np.float32))
    assert similarity.scores(np.array([5], np.uint32))[0] > 0.0
    strange = EmbeddingSimilarity(vectors_of(np.array([[1.0, 0.0], [0.0, 1.0]]), [5, 6]))
    strange.add_words(np.array([5 + SLOTS, 7], np.uint32))
    strange.prepare(np.array([6], np.uint32), np.zeros(1, np.int64), np.array([0.0]))
    strange.learn(np.array([6], np.uint32), np.zeros(1, np.int64), np.zeros(1, np.int64))
    strange.refresh(np.ones(1, np.float32))
    assert not strange.scores(np.array([5 + SLOTS, 7], np.uint32)).any()


def test_only_the_last_links_are_remembered() -> None:
    """What was learned long ago goes when as many as can be remembered came after it."""
    similarity = EmbeddingSimilarity(vectors_of(np.eye(3)))
    relevance = np.zeros(MAX_POINTS + 2, np.float32)
    relevance[0] = 1.0
    similarity.add_words(np.array([1, 2, 3], np.uint32))
    similarity.learn(np.array([1, 2], np.uint32), np.arange(2), np.array([0, 1]))
    similarity.refresh(relevance)
    assert similarity.scores(np.array([1], np.uint32))[0] > 0.0
    relevance[1] = 1.0
    oids = np.arange(1, MAX_POINTS + 1)
    words = np.where(oids == 1, 3, 2).astype(np.uint32)
    similarity.learn(words, np.arange(len(oids)), oids)
    similarity.refresh(relevance)
    assert similarity.scores(np.array([3], np.uint32))[0] > similarity.scores(np.array([1], np.uint32))[0]


def test_nothing_is_said_before_good_and_bad_are_known() -> None:
    """Of good pages alone, or of none, no direction follows, and a page without relevance does not count."""
    similarity = EmbeddingSimilarity(vectors_of(np.eye(2)))
    similarity.prepare(NO_WORDS, np.zeros(0, np.int64), np.zeros(0))
    similarity.add_words(np.array([1, 2], np.uint32))
    similarity.learn(np.array([1, 2], np.uint32), np.arange(2), np.array([0, 1]))
    similarity.refresh(np.array([1.0, np.nan], np.float32))
    assert not similarity.scores(np.array([1, 2], np.uint32)).any()


ANIMALS = {"heron": (1.0, 0.1), "egret": (0.9, 0.2), "bittern": (1.0, 0.0), "lathe": (-1.0, 0.1), "chisel": (-0.9, 0.3)}


def model(folder: Path) -> str:
    """Word vectors in the text form."""
    file = folder / "vectors.txt"
    file.write_text("".join(f"{word} {x} {y}\n" for word, (x, y) in ANIMALS.items()))
    return str(file)


def page_of(*anchors: str) -> Document:
    """A page that links to /0, /1 ... by these anchors."""
    words = [np.array(term_ids(anchor), "<u4") for anchor in anchors]
    return Document(
        "", "", "", "", "", "",
        Links.of(Link(f"http://a.org/{at}", at, anchor, "", Region.MAIN, at) for at, anchor in enumerate(anchors)),
        b"", b"", [], 0, b"",
        link_words=np.concatenate(words).tobytes(),
        link_words_in=bytes(len(word) for word in words),
        link_words_around=bytes(len(words)),
    )  # fmt: skip


def waiting(oid: int) -> QueuedUrl:
    return QueuedUrl(oid, f"http://a.org/{oid}", HOST, topic=0, depth=1, relevance=0.5)


def test_a_link_is_scored_by_words_with_similar_vectors(tmp_path: Path) -> None:
    """No link had egrets or chisels: herons are wanted, so egrets score high; lathes are not, so chisels score low."""
    strategy = AllEvidence(Settings().frontier)
    documents = [
        KnownDocument(NO_WORDS, np.array(term_ids(word), np.uint32), good)
        for word, good in (("heron", 1.0), ("lathe", 0.0))
    ]
    strategy.prepare([], documents, stem_vectors(model(tmp_path)))
    strategy.observe(waiting(10), Judgement(0, True, 1.0, 1.0), page_of("chisel", "egret"), [0, 1], [0, 0])
    strategy.reprioritise([waiting(0), waiting(1)])
    chisel, egret = strategy.explain(0)["embedding similarity"], strategy.explain(1)["embedding similarity"]
    assert egret > 0.5 > -0.5 > chisel


def test_rejudged_pages_turn_the_direction(tmp_path: Path) -> None:
    """Links count by the present relevance of their pages, not by the one they had first."""
    strategy = AllEvidence(Settings().frontier)
    strategy.prepare([], [], stem_vectors(model(tmp_path)))
    strategy.observe(
        waiting(10), Judgement(0, True, 1.0, 1.0), page_of("heron", "lathe", "egret", "chisel"), range(4), [0] * 4
    )
    strategy.settle(0, 1.0)
    strategy.settle(1, 0.0)
    rest = [waiting(2), waiting(3)]
    strategy.reprioritise(rest)
    assert strategy.explain(2)["embedding similarity"] > strategy.explain(3)["embedding similarity"]
    strategy.rejudging().finish(RejudgedPages(np.array([0, 1]), np.array([0.0, 1.0]), np.zeros(2), WordOdds()))
    strategy.reprioritise(rest)
    assert strategy.explain(2)["embedding similarity"] < strategy.explain(3)["embedding similarity"]


def test_training_documents_added_meanwhile_count(tmp_path: Path) -> None:
    """The titles of examples that the crawl itself fetched count when pages are re-judged."""
    strategy = AllEvidence(Settings().frontier)
    strategy.prepare([], [], stem_vectors(model(tmp_path)))
    strategy.observe(waiting(10), Judgement(0, True, 1.0, 1.0), page_of("egret", "chisel"), range(2), [0] * 2)
    rest = [waiting(0), waiting(1)]
    strategy.reprioritise(rest)
    assert strategy.explain(0)["embedding similarity"] == 0.0
    rejudging = strategy.rejudging()
    documents = [
        KnownDocument(NO_WORDS, np.array(term_ids(word), np.uint32), good)
        for word, good in (("heron", 1.0), ("lathe", 0.0))
    ]
    nothing = np.zeros(0)
    rejudging.finish(RejudgedPages(nothing.astype(np.int64), nothing, nothing, WordOdds(), documents))
    strategy.reprioritise(rest)
    assert strategy.explain(0)["embedding similarity"] > strategy.explain(1)["embedding similarity"]


def test_vectors_are_read_from_json(tmp_path: Path) -> None:
    """As the npm package has them: an object with a list of numbers for each word, of which the first ones count."""
    packed = {
        "dimensions": 2,
        "words": ["the"],
        "vectors": {"heron": [1, 0, 9, 0], "lathe": [-1, 0.5, 9, 1], "herons": [0, 1, 1, 1]},
    }
    (tmp_path / "vectors.json").write_bytes(msgspec.json.encode(packed))
    (tmp_path / "package.json").write_text("{}")
    vectors = stem_vectors(str(tmp_path))
    assert dict(zip(vectors.stems.tolist(), vectors.places.tolist(), strict=True)) == dict(
        zip(term_ids("heron lathe"), (0, 1), strict=True)
    )
    assert vectors.rows.shape == (3, 2)
    assert np.all(np.diff(vectors.stems.astype(np.int64)) > 0)


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"dimensions": 2, "vectors": {"heron": [1]}}', '{"dimensions": 1, "vectors": {}}', "{"]
)
def test_json_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    """By an error that names the file, not by a traceback."""
    (tmp_path / "vectors.json").write_text(text)
    with pytest.raises(SettingsError, match=r"vectors\.json"):
        stem_vectors(str(tmp_path))


def test_words_are_stemmed_as_the_pages_are(tmp_path: Path) -> None:
    """Links of German pages have German stems, and so must the vectors."""
    (tmp_path / "vectors.txt").write_text("häuser 1 0\n")
    assert stem_vectors(str(tmp_path), "de").stems.tolist() == term_ids("haus", "de") == term_ids("häuser", "de")
    assert stem_vectors(str(tmp_path)).stems.tolist() == term_ids("häuser")


def test_a_crawl_without_its_vectors_is_refused_at_once(tmp_path: Path) -> None:
    """Before the collection has a folder."""
    (tmp_path / "seeds.txt").write_text("http://a.org/\n")
    with pytest.raises(SettingsError, match="does not exist"):
        Collection.create(
            tmp_path / "c", seeds=tmp_path / "seeds.txt", settings={"frontier.word_vectors": str(tmp_path / "none")}
        )
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("has_vectors", [False, True])
def test_a_crawl_goes_by_words_that_it_never_met(tmp_path: Path, has_vectors: bool) -> None:
    """Herons are asked for, and a lathe was no good. Of what its page links to an egret is fetched before a chisel that
    stands above it; without vectors the chisel is."""
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
            "frontier.strategy": "evidence",
            "frontier.word_vectors": model(tmp_path) if has_vectors else "",
        }  # fmt: skip
        Collection.create(tmp_path / "c", seeds=tmp_path / "seeds.txt", query="heron", settings=settings).crawl()
        fetched = [path for path in server.paths() if path in web.routes()]
    assert fetched == (["/", "/a", "/c"] if has_vectors else ["/", "/a", "/b"])


def test_titles_are_stemmed_in_their_own_language() -> None:
    """The title of a German example meets the vectors of German stems."""
    item = ClassifierInput(np.array(term_ids("häuser", "de"), np.uint32), title="Häuser", language="de")
    node = Node(ROOT, ABOVE_ROOT, "Wohnen", "", Mark.GOOD)
    training = TrainingSet(Hierarchy([node]), (Example(ROOT, item, True, "http://a.org/"),), (), {}, {})
    [taught] = documents_of(training)
    assert taught.title.tolist() == term_ids("haus", "de") != term_ids("Häuser")
