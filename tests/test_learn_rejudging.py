"""Judging stored pages anew: here, and in a process of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from learn_webs import text
from opilio import learn
from opilio.classify import Model
from opilio.classify.keywords import KeywordJudge
from opilio.errors import OpilioError
from opilio.learn import rejudging
from opilio.process import NICENESS
from opilio.settings import Settings
from opilio.store import Batch, Store

MODEL = Model(1, "keywords", KeywordJudge({1: "owl owlet feather nest", 2: "river delta stream"})).to_bytes()
PAGES = 30
EXAMPLES = {3: 2}


def make_store(folder: Path) -> Store:
    """Pages about owls, rivers and nothing, judged by keywords that nobody knows any more."""
    store, batch = Store.create(folder), Batch()
    for oid in range(PAGES):
        shares = {"owl": 0.5} if oid % 3 == 0 else {"river": 0.5} if oid % 3 == 1 else {}
        words = text(oid, **shares)
        batch.urls.add(
            oid, f"http://a.test/{oid}", oid + 1, 0, 0, 1, None, 0, "fetched", "ok", 1, 0.1, 0.1, 0.0, 1.0, 1.0
        )
        batch.pages.add(
            oid, 1.0, 200, "text/html", "utf-8", "en", f"page {oid}", "", words, words, oid, "", False, 1, 1, 1.0, "",
            "", "", 0.1, 0, 0, "", 0, 0, b"",
        )  # fmt: skip
    store.write(batch)
    return store


def judgements(store: Store) -> list[tuple[object, ...]]:
    sql = "SELECT oid, model_version, kcid, accepted, relevance, confidence FROM judgements ORDER BY oid"
    return store.query(sql).rows


def test_a_process_says_what_we_would_have_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages get the same judgements, examples their topics, whether they are judged here or in a process."""
    monkeypatch.setattr(rejudging, "CHUNK_PAGES", 7)
    started: list[int] = []

    def note(process: subprocess.Popen[bytes]) -> None:
        started.append(process.pid)

    with make_store(tmp_path / "here") as here, make_store(tmp_path / "beside") as beside:
        one = learn.rejudge(here, MODEL, EXAMPLES, Settings().classify)
        other = learn.rejudge(beside, MODEL, EXAMPLES, Settings().classify, beside=note)
        assert one == other
        assert one.pages == PAGES
        assert judgements(here) == judgements(beside)
        assert {row[2] for row in judgements(here)} == {1, 2}, "owls and rivers were told apart"
        assert judgements(beside)[3][2:5] == (2, True, 1.0)
    assert len(started) == 1


def test_few_pages_need_no_process(tmp_path: Path) -> None:
    """A process takes longer to start than a few hundred pages take to be judged."""
    with make_store(tmp_path) as store:
        judged = learn.rejudge(store, MODEL, {}, Settings().classify, beside=lambda process: pytest.fail("started"))
    assert judged.pages == PAGES


def test_a_process_that_is_killed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl in a hurry kills it: that is heard of, what was judged before stays, and the rest is judged next time."""
    monkeypatch.setattr(rejudging, "CHUNK_PAGES", 7)
    started: list[subprocess.Popen[bytes]] = []
    with make_store(tmp_path) as store:
        with pytest.raises(OpilioError, match="ended"):
            learn.rejudge(
                store, MODEL, {}, Settings().classify, beside=started.append, on_progress=lambda _: started[0].kill()
            )
        assert 0 < len(judgements(store)) < PAGES
        learn.rejudge(store, MODEL, {}, Settings().classify)
        assert len(judgements(store)) == PAGES


def test_work_that_can_wait_has_a_low_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is nice to the crawl beside it, and gone when all is judged."""
    monkeypatch.setattr(rejudging, "CHUNK_PAGES", 7)
    started: list[subprocess.Popen[bytes]] = []
    seen: list[int] = []
    with make_store(tmp_path) as store:
        learn.rejudge(
            store, MODEL, {}, Settings().classify, beside=started.append,
            on_progress=lambda _: seen.append(os.getpriority(os.PRIO_PROCESS, started[0].pid)),
        )  # fmt: skip
    assert set(seen) == {min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)}
    assert started[0].poll() is not None
