"""Judging stored pages anew: here, and in a process of its own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import MakeTaught
from learn_webs import text
from opilio import Collection, learn
from opilio.classify import Model
from opilio.classify.keywords import KeywordJudge
from opilio.errors import OpilioError
from opilio.learn import rejudging
from opilio.learn.rejudging_process import PagesJudge, StoredPage
from opilio.model import Judgement
from opilio.process import NICENESS
from opilio.settings import Settings
from opilio.store import Batch, Store
from opilio.store import judgements as store_judgements
from running_crawls import crawl_beside, wait_until

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
            "", "", 0.1, 0, 0, "", 0, 0, b"", None, False, None,
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
        other = learn.rejudge(beside, MODEL, EXAMPLES, Settings().classify, on_start=note)
        assert one == other
        assert one.pages == PAGES
        assert judgements(here) == judgements(beside)
        assert {row[2] for row in judgements(here)} == {0, 1, 2}, "owls, rivers and neither were told apart"
        assert judgements(beside)[3][2:5] == (2, True, 1.0)
    assert len(started) == 1


@pytest.mark.parametrize("together", [1, 8, 100])
def test_link_contexts_of_many_pages_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """Each page gets the context of its own link, and links are read once for so many pages, not for each piece."""
    monkeypatch.setattr(rejudging, "CHUNK_PAGES", 4)
    monkeypatch.setattr(rejudging, "CONTEXT_PAGES", together)
    asked: list[list[int]] = []
    given: dict[str, str] = {}

    def context(store: Store, oids: list[int], settings: object) -> dict[int, tuple[str, bytes]]:
        asked.append(oids)
        return {oid: (f"link {oid}", b"") for oid in oids if oid % 2}

    def judge(self: PagesJudge, pages: Sequence[StoredPage]) -> list[Judgement]:
        given.update((page.url, page.anchor) for page in pages)
        return [Judgement() for _ in pages]

    monkeypatch.setattr(rejudging, "link_context", context)
    monkeypatch.setattr(PagesJudge, "__call__", judge)
    with make_store(tmp_path) as store:
        assert learn.rejudge(store, MODEL, {}, Settings().classify).pages == PAGES
    assert given == {f"http://a.test/{oid}": f"link {oid}" if oid % 2 else "" for oid in range(PAGES)}
    assert {oid for oids in asked for oid in oids} == set(range(PAGES))
    assert len(asked) == -(-PAGES // max(4, together))


def test_few_pages_need_no_process(tmp_path: Path) -> None:
    """A process takes longer to start than a few hundred pages take to be judged."""
    with make_store(tmp_path) as store:
        judged = learn.rejudge(store, MODEL, {}, Settings().classify, on_start=lambda process: pytest.fail("started"))
    assert judged.pages == PAGES


def test_a_process_that_is_killed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl in a hurry kills it: that is heard of, what was judged before stays, and the rest is judged next time."""
    monkeypatch.setattr(rejudging, "CHUNK_PAGES", 7)
    started: list[subprocess.Popen[bytes]] = []
    with make_store(tmp_path) as store:
        with pytest.raises(OpilioError, match="ended"):
            learn.rejudge(
                store, MODEL, {}, Settings().classify, on_start=started.append, on_progress=lambda _: started[0].kill()
            )
        assert 0 < len(judgements(store)) < PAGES
        learn.rejudge(store, MODEL, {}, Settings().classify)
        assert len(judgements(store)) == PAGES


@pytest.mark.usefixtures("cold_processes")
def test_work_that_can_wait_has_a_low_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is nice to the crawl beside it, and gone when all is judged."""
    monkeypatch.setattr(rejudging, "CHUNK_PAGES", 7)
    started: list[subprocess.Popen[bytes]] = []
    seen: list[int] = []
    with make_store(tmp_path) as store:
        learn.rejudge(
            store, MODEL, {}, Settings().classify, on_start=started.append,
            on_progress=lambda _: seen.append(os.getpriority(os.PRIO_PROCESS, started[0].pid)),
        )  # fmt: skip
    assert set(seen) == {min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)}
    assert started[0].poll() is not None


def slowly(work: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """The same work, after a while."""

    def waiting(*given: Any) -> Any:
        time.sleep(seconds)
        return work(*given)

    return waiting


def model_count(collection: Collection) -> int:
    """How many models there are."""
    return int(collection.sql("SELECT count(*) FROM models").rows[0][0])


def test_a_judgement_and_what_it_changes_are_written_together(
    make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When judging anew breaks off in the middle of a piece, the pages still have what the judgements say."""
    collection = make_taught()
    collection.crawl()
    wrong = (*store_judgements._APPLY[:-1], "UPDATE crawl SET relevance = 1 / 'x'")
    monkeypatch.setattr(store_judgements, "_APPLY", wrong)
    before = collection.sql("SELECT count(*) FROM judgements").rows
    with pytest.raises(OpilioError):
        collection.train()
    assert collection.sql("SELECT count(*) FROM judgements").rows == before


def test_a_second_stop_does_not_wait_for_pages_to_be_judged_anew(
    make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was judged by then stays judged; the rest is taken up by the next crawl."""
    monkeypatch.setattr(rejudging, "CHUNK_PAGES", 1)
    monkeypatch.setattr(rejudging, "link_context", slowly(rejudging.link_context, 1.0))  # type: ignore[attr-defined]
    collection = make_taught(limits__max_pages=0, fetch__host_delay_s=0.2)
    crawl = crawl_beside(collection)
    wait_until(lambda: model_count(collection))
    collection.stop()
    collection.stop()
    crawl.join(8)
    assert not crawl.is_alive()
    counts = "SELECT count(*) FILTER (model_version = 0), count(*) FILTER (model_version = 1) FROM pages"
    older, newer = collection.sql(counts).rows[0]
    assert older > 0
    monkeypatch.undo()
    collection.crawl(settings={"limits.max_pages": older + newer + 5, "fetch.host_delay_s": 0.0})
    assert collection.sql(counts).rows[0][0] == 0
