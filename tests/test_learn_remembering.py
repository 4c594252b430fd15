"""What a strategy has learned is replayed from the database."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import MakeCollection
from opilio import learn
from opilio.crawl import Collection
from opilio.crawl import collection as collections
from opilio.crawl.engine import Engine
from opilio.frontier import AllEvidence, make_strategy
from opilio.frontier.link_evidence import FEATURES
from opilio.lab.local_web import LocalServer
from opilio.store import Store
from running_crawls import ORDERLESS


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """The engines of crawls, as they are left."""
    kept: list[Engine] = []

    def make(*parts: Any) -> Engine:
        kept.append(Engine(*parts))
        return kept[-1]

    monkeypatch.setattr(collections, "Engine", make)
    return kept


@pytest.mark.parametrize(
    ("query", "anew"), [("statistics mean variance", False), ("statistics mean variance", True), ("", False)]
)
def test_evidence_is_the_same_after_a_restart(
    small_server: LocalServer, tmp_path: Path, engines: list[Engine], query: str, anew: bool
) -> None:
    """All numbers of all waiting URLs are those that the crawl had which saw the pages itself, judged or not, and judged
    `anew` since or not; being told twice of the same pages changes nothing."""
    (tmp_path / "seeds.txt").write_text("http://directory.test/")
    settings = {
        "fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "run.workers": -1,
        "limits.max_pages": 60, "frontier.strategy": "evidence", "robots.obey_meta": False, "fetch.max_tries": 1,
        **{name.replace("__", "."): value for name, value in ORDERLESS.items()},
    }  # fmt: skip
    collection = Collection.create(tmp_path / "c", seeds=tmp_path / "seeds.txt", query=query, settings=settings)
    collection.crawl()
    before = engines[0].frontier.strategy
    after = make_strategy(collection.settings.frontier)
    assert isinstance(before, AllEvidence) and isinstance(after, AllEvidence)
    told: set[int] = set()
    with Store.open(collection.folder) as store:
        if anew:
            store.query("UPDATE pages SET relevance = (oid * 7 % 11) / 10.0", write=True)
            rejudging = before.rejudging()
            rejudging.finish(learn.read_rejudged(store, collection.settings, rejudging))
        learn.prepare_from(store, collection.settings, after)
        learn.replay_pages(store, after, told)
        learn.replay_pages(store, after, told)
        waiting = [oid for (oid,) in store.query("SELECT oid FROM crawl WHERE state = 'waiting'", max_rows=10**6).rows]
    oids = [oid for oid in waiting if before.evidence.knows(oid)]
    assert len(oids) > 50 and all(after.evidence.knows(oid) for oid in oids)
    before.evidence.refresh()
    after.evidence.refresh()
    was, now = before.evidence.features(oids), after.evidence.features(oids)
    for at, name in enumerate(FEATURES):
        np.testing.assert_allclose(now[:, at], was[:, at], rtol=1e-4, atol=1e-5, err_msg=name)
    assert after.evidence.memory.usually_dead == before.evidence.memory.usually_dead
    assert after.evidence.memory.forms.good.values.sum() == before.evidence.memory.forms.good.values.sum()


def test_only_the_latest_pages_are_told(make_collection: MakeCollection) -> None:
    """A long crawl is not told from its beginning."""
    collection = make_collection(["http://directory.test/"], limits__max_pages=30)
    collection.crawl()
    strategy = make_strategy(collection.settings.frontier)
    told: set[int] = set()
    with Store.open(collection.folder, read_only=True) as store:
        learn.replay_pages(store, strategy, told, max_pages=10)
        latest = [oid for (oid,) in store.query("SELECT oid FROM pages ORDER BY visited DESC LIMIT 10").rows]
    assert set(latest) <= told and len(told) < 25
