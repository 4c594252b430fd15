"""A recorded web and its analysis: what was put in comes out, and nobody can change it unseen."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluate_webs import make_web, page, redirect, town
from opilio.analyze import Analyzer
from opilio.errors import InputError
from opilio.lab.experiments import Analysed, analyse, analysed, simulate
from opilio.lab.experiments.simulate import Answers
from opilio.lab.webs import RecordedWeb
from opilio.lab.webs.recording import RecordedAnswer, recording
from opilio.settings import Settings, override


@settings(max_examples=25)
@given(
    pages=st.dictionaries(
        st.integers(0, 50),
        st.tuples(st.binary(max_size=200), st.sampled_from([200, 404, 410, 500]), st.sets(st.sampled_from("abc"))),
        min_size=1,
    ),
    seed=st.integers(0, 9),
)
def test_what_is_recorded_is_what_is_read(
    pages: dict[int, Any], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each URL has the status, the body and the labels it was recorded with, and the order of recording is no matter."""
    folder = tmp_path_factory.mktemp("webs")
    answers = [
        page(f"http://h{n % 3}.test/{n}", body, tuple(sorted(topics)), status=status)
        for n, (body, status, topics) in pages.items()
    ]
    web = make_web(folder / "one", answers)
    random.Random(seed).shuffle(answers)
    assert make_web(folder / "two", answers).digest == web.digest
    assert web.urls == sorted(answer.url for answer in answers)
    for n, url in enumerate(web.urls):
        body, status, topics = pages[int(url.rpartition("/")[2])]
        assert (web.number(url), web.body(n), web.status(n), set(web.topics(n))) == (n, body, status, topics)
        assert all(n in web.labels[topic] for topic in topics)
    assert sum(map(len, web.labels.values())) == sum(len(topics) for _, _, topics in pages.values())


BASE = [page("http://a.test/", "one", ("x",)), redirect("http://a.test/old", "/"), page("http://a.test/2", "two")]
CHANGES: dict[str, list[RecordedAnswer]] = {
    "url": [BASE[0]._replace(url="http://a.test/b"), *BASE[1:]],
    "status": [BASE[0], redirect("http://a.test/old", "/", 302), BASE[2]],
    "target": [BASE[0], redirect("http://a.test/old", "/2"), BASE[2]],
    "label": [BASE[0]._replace(topics=("y",)), *BASE[1:]],
    "moved label": [BASE[0]._replace(topics=()), BASE[1], BASE[2]._replace(topics=("x",))],
    "body": [*BASE[:2], BASE[2]._replace(body=b"twp")],
    "swapped bodies": [BASE[0]._replace(body=b"two"), BASE[1], BASE[2]._replace(body=b"one")],
    "head": [BASE[0]._replace(head=BASE[0].head.replace(b"utf-8", b"utf-7")), *BASE[1:]],
    "a page less": BASE[:2],
    "a page more": [*BASE, page("http://a.test/3")],
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_changes_the_digest(change: str, tmp_path: Path) -> None:
    """Webs that differ in anything a crawler or a measure could notice have different digests."""
    assert make_web(tmp_path / "base", BASE).digest != make_web(tmp_path / "other", CHANGES[change]).digest


def test_schemes_and_fragments(tmp_path: Path) -> None:
    """https counts as http and fragments do not count, but where both schemes were recorded each answers for itself."""
    web = make_web(
        tmp_path / "web",
        [page("http://a.test/"), redirect("http://b.test/", "https://b.test/"), page("https://b.test/", "safe")],
    )
    assert web.number("https://a.test/") == web.number("http://a.test/") == web.number("http://a.test/#top") >= 0
    plain, safe = web.number("http://b.test/"), web.number("https://b.test/#x")
    assert web.redirect(plain) == "https://b.test/"
    assert web.body(safe) == b"safe"
    assert web.number("http://c.test/") == web.number("nonsense") == web.number("") == -1


def test_later_answers_and_more_labels(tmp_path: Path) -> None:
    """Of two answers the later by date counts, whichever came first; labels add up; a 304 says nothing."""
    url = "http://a.test/"
    web = make_web(
        tmp_path / "web",
        [
            page(url, "new", ("x",), date_s=2),
            page(url, "old", ("y",), date_s=1),
            page(url, "", status=304, date_s=3),
            page("ftp://a.test/", "no URL of ours"),
        ],
    )
    assert web.urls == [url]
    assert web.body(0) == b"new"
    assert web.topics(0) == ("x", "y")


def test_equal_bodies_stand_there_once(tmp_path: Path) -> None:
    """A thousand mirrors of one page cost the room of one."""
    body = random.Random(1).randbytes(5000)
    web = make_web(tmp_path / "web", [page(f"http://m{n}.test/", body) for n in range(100)])
    assert web.info.packed_bytes < 2 * len(body)
    assert all(web.body(n) == body for n in range(len(web)))


def test_damage_is_found(tmp_path: Path) -> None:
    """A flipped byte in a body, a cut file and a changed table are errors that name the web."""
    web = make_web(tmp_path / "web", town())
    web.verify()
    bodies = tmp_path / "web" / "bodies.bin"
    good = bodies.read_bytes()
    bodies.write_bytes(good[:-20] + bytes([good[-20] ^ 1]) + good[-19:])
    with pytest.raises(InputError, match="damaged"):
        RecordedWeb.open(tmp_path / "web").verify()
    bodies.write_bytes(good[:-1])
    with pytest.raises(InputError, match="damaged"):
        RecordedWeb.open(tmp_path / "web")
    bodies.write_bytes(good)
    other = make_web(tmp_path / "other", [answer._replace(topics=("z",)) for answer in town()])
    (tmp_path / "web" / "pages.parquet").write_bytes((other.folder / "pages.parquet").read_bytes())
    with pytest.raises(InputError, match="not those"):
        RecordedWeb.open(tmp_path / "web").verify()


@pytest.mark.parametrize("content", [None, b"{", b'{"name": "x"}', b"[]"])
def test_what_is_no_web_is_said(content: bytes | None, tmp_path: Path) -> None:
    """A folder without a web, or with something else, is an error with a hint."""
    if content is not None:
        (tmp_path / "web.json").write_bytes(content)
    with pytest.raises(InputError) as caught:
        RecordedWeb.open(tmp_path)
    assert caught.value.hint


def test_a_stopped_recording_leaves_nothing(tmp_path: Path) -> None:
    """Whatever happens in the middle, there is no folder, not even half of one; a folder in use is left alone."""

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), recording(tmp_path / "web") as recorder:
        recorder.add(page("http://a.test/"))
        stop()
    with pytest.raises(InputError, match="nothing was recorded"), recording(tmp_path / "web") as recorder:
        recorder.finish([])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "mine.txt").touch()
    with pytest.raises(InputError, match="already"):
        make_web(tmp_path / "web", BASE)
    assert [path.name for path in tmp_path.rglob("*")] == ["web", "mine.txt"]


def facts(result: Analysed) -> tuple[Any, ...]:
    return list(result.documents), result.starts.tolist(), result.targets.tolist(), result.terms


def test_analysis_is_the_analyzers(tmp_path: Path) -> None:
    """Documents are what the analyzer makes of each page, and the links lead where the documents say."""
    web = make_web(tmp_path / "web", [*town(), page("http://h0.town.test/picture", b"\x89PNG\r\n\x1a\n123")])
    result = analyse(web, Settings())
    chosen = Settings()
    analyzer = Analyzer(chosen.traps, chosen.robots, chosen.store)
    stems = {}
    for n, url in enumerate(web.urls):
        document = result.documents[n]
        if web.status(n) != 200 or url.endswith("picture"):
            assert document is None
            assert len(result.links(n)) == 0
            continue
        kind = "text/plain" if url.endswith("robots.txt") else "text/html; charset=utf-8"
        expected = analyzer.analyze(web.body(n), kind, url)
        assert expected is not None
        stems.update(expected.new_terms)
        assert document == msgspec.structs.replace(expected, new_terms=[])
        assert document is not None
        assert document.stems
        assert [web.number(link.url) for link in document.links] == result.links(n).tolist()
    assert result.terms == stems
    assert (result.targets == -1).any()
    assert result.documents[-1] == result.documents[len(web) - 1]
    assert result.documents[1:3] == [result.documents[1], result.documents[2]]


def test_memory_does_not_grow_with_the_web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents and the words of their links are kept up to a size, then made again: the same as before."""
    web = make_web(tmp_path / "web", town())
    result = analyse(web, Settings())
    pages = np.flatnonzero(result.readable).tolist()
    assert pages == [n for n, document in enumerate(result.documents) if document is not None]
    kept = Answers(result)
    wanted = [(result.documents[page], kept.document(page)) for page in pages]
    assert result.documents[pages[0]] is wanted[0][0], "there is room"
    monkeypatch.setattr(analysed, "KEPT_BYTES", 0)
    monkeypatch.setattr(simulate, "KEPT_WORDS_BYTES", 0)
    result = analyse(web, Settings())
    answers = Answers(result)
    first, words = result.documents[pages[0]], answers.document(pages[0])
    assert [(result.documents[page], answers.document(page)) for page in pages] == wanted
    again = answers.document(pages[0])
    assert words is not None and words.link_words and again is not None
    assert result.documents[pages[0]] is not first, "there was no room"
    assert again.link_words is not words.link_words


def test_processes_and_cache_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three processes find what one finds; what was found is read from disk the next time, by its key only."""
    web = make_web(tmp_path / "web", town())
    alone = facts(analyse(web, Settings(), workers=1))
    twin = make_web(tmp_path / "twin", town())
    monkeypatch.setattr(analysed, "PAGES_PER_PROCESS", 10)
    told: list[tuple[int, int]] = []
    assert facts(analyse(twin, Settings(), workers=3, on_progress=lambda done, of: told.append((done, of)))) == alone
    assert not told or told[-1][0] <= told[-1][1] == len(web)
    monkeypatch.setattr(analysed, "_analyse_into", lambda *_: pytest.fail("analysed again"))
    assert facts(analyse(RecordedWeb.open(twin.folder), Settings())) == alone


def test_the_key_follows_what_matters(tmp_path: Path) -> None:
    """Settings that change what is read of a page change the key; others, and a copy of the web, do not."""
    web = make_web(tmp_path / "web", town())
    base = analysed.key_of(web, Settings())
    for name, value in {"traps.max_links_per_page": 5, "robots.obey_meta": False, "store.link_context": False}.items():
        assert analysed.key_of(web, override(Settings(), {name: value})) != base
    assert analysed.key_of(web, override(Settings(), {"limits.max_pages": 5})) == base
    assert analysed.key_of(make_web(tmp_path / "copy", town()), Settings()) == base
    assert analysed.key_of(make_web(tmp_path / "other", BASE), Settings()) != base
    limited = analyse(web, override(Settings(), {"traps.max_links_per_page": 1}))
    assert np.diff(limited.starts).max() == 1


def test_a_failed_analysis_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An analysis that ends early is not taken for a finished one."""
    web = make_web(tmp_path / "web", town())
    before = sorted(path.name for path in web.folder.iterdir())

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(analysed, "_merge", stop)
        with pytest.raises(KeyboardInterrupt):
            analyse(web, Settings())
    assert sorted(path.name for path in web.folder.iterdir()) == before
    assert dataclasses.is_dataclass(analyse(web, Settings()))
