"""A crawl that meets pages about other things learns from them what is not wanted."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fetch_servers import WebServer
from learn_webs import OwlWeb
from opilio import Collection
from opilio.crawl import teacher
from opilio.model import RELEVANT, TrainingReason
from opilio.settings import Settings, override


def web_of(**others: dict[str, float]) -> OwlWeb:
    """Five and more pages about owls, and those of other kinds between them."""
    web = OwlWeb()
    web.add("owl", 30 if others else 110, owl=0.3)
    for kind, shares in others.items():
        web.add(kind, 80, **shares)
    paths = list(web.texts)
    random.Random(1).shuffle(paths)
    web.texts = {path: web.texts[path] for path in paths}
    return web


def collect(web: OwlWeb, server: WebServer, folder: Path, **changes: Any) -> Collection:
    """A collection with five examples that fetches one page after the other, the same each time."""
    taxonomy = web.taxonomy(folder, {"owls": [f"/owl/{number}" for number in range(5)]})
    settings: dict[str, Any] = {
        "classify__classifier": "bayes",
        "learn__mined_negatives": 50,
        "learn__synchronous": True,
    }
    settings |= {"fetch__in_flight": 1, "search__index": False, "limits__max_pages": 110}
    return web.collection(server, folder / "c", taxonomy, **(settings | changes))


def reasons(collection: Collection) -> list[str]:
    """Why the models were trained, oldest first."""
    return [reason for (reason,) in collection.sql("SELECT reason FROM models ORDER BY version").rows]


def share_taken(collection: Collection, kind: str, version: int) -> float:
    """The share of the pages of a kind, as far as a model judged them, that it found relevant."""
    sql = f"""
        SELECT avg((j.relevance >= {RELEVANT})::INTEGER) FROM judgements j JOIN crawl c USING (oid)
        WHERE j.model_version = {version} AND c.url LIKE '%/{kind}/%' AND c.url NOT IN (SELECT name FROM training)
    """
    return float(collection.sql(sql).rows[0][0])


def test_a_crawl_learns_what_is_not_wanted(tmp_path: Path) -> None:
    """Pages about rivers in which owls are named are taken by the first models, and by the last one hardly any; those
    about owls are taken as before. It looks at 10, 25, 50 and 100 pages, and going on with the crawl trains nothing."""
    web = web_of(river={"river": 0.3, "owl": 0.05})
    with WebServer(web.routes()) as server:
        collection = collect(web, server, tmp_path)
        status = collection.crawl()
        assert status.counters["rounds of mined negatives"] == 4
        trained = reasons(collection)
        assert trained[0] == TrainingReason.FIRST
        assert len(trained) > 1
        assert set(trained[1:]) == {TrainingReason.NEGATIVES}
        first = max(share_taken(collection, "river", version) for version in (1, 2))
        assert first > 0.5
        assert share_taken(collection, "river", len(trained)) < 0.1
        assert share_taken(collection, "owl", len(trained)) > 0.9
        collection.crawl(settings={"limits.max_pages": 112})
        assert reasons(collection) == trained, "it has looked at as many pages before"


def test_a_web_of_wanted_pages_is_not_thrown_out(tmp_path: Path) -> None:
    """Where all is about owls, a quarter of the pages is least sure of it too; nearly all are still taken at the end."""
    web = web_of()
    with WebServer(web.routes()) as server:
        collection = collect(web, server, tmp_path)
        collection.crawl()
        assert collection.status().counters["rounds of mined negatives"] == 4
        assert share_taken(collection, "owl", len(reasons(collection))) > 0.9


@pytest.mark.parametrize("how", ["turned off", "an older model again"])
def test_when_a_crawl_does_not_look(tmp_path: Path, how: str) -> None:
    """With the setting at 0 there is one model and no look; a model that the user went back to is not replaced."""
    web = web_of(river={"river": 0.3, "owl": 0.05})
    with WebServer(web.routes()) as server:
        if how == "turned off":
            collection = collect(web, server, tmp_path, learn__mined_negatives=0, limits__max_pages=60)
            collection.crawl()
            assert reasons(collection) == [TrainingReason.FIRST]
            assert "rounds of mined negatives" not in collection.status().counters
        else:
            collection = collect(web, server, tmp_path, limits__max_pages=40)
            collection.crawl()
            made = reasons(collection)
            collection.use_model(1)
            status = collection.crawl(settings={"limits.max_pages": 110})
            assert status.counters["rounds of mined negatives"] == 4
            assert reasons(collection) == [*made, TrainingReason.REUSED]


def accepted(collection: Collection, kind: str) -> float:
    """The share of the stored pages of a kind that are accepted in the end; examples do not count."""
    sql = f"""
        SELECT avg((relevance >= {RELEVANT})::INTEGER) FROM collection
        WHERE url LIKE '%/{kind}/%' AND url NOT IN (SELECT name FROM training)
    """
    return float(collection.sql(sql).rows[0][0])


def test_a_crawl_learns_where_its_topic_ends(tmp_path: Path) -> None:
    """The default classifier is calibrated on the pages met: of those about rivers in which owls are named hardly any
    is accepted in the end, and most of those about owls are. What the user refuses stays refused, with its like."""
    web = web_of(river={"river": 0.3, "owl": 0.05}, bets={"owl": 0.15, "casino": 0.3})
    with WebServer(web.routes()) as server:
        calibrated = {"classify__classifier": "svm", "classify__calibrate": True, "limits__max_pages": 190}
        collection = collect(web, server, tmp_path, **calibrated)
        status = collection.crawl()
        assert len(reasons(collection)) > 3, "it learns at 10, 25, 50 and 100 pages"
        assert "of accepted pages to be right" in status.model and status.model == collection.status().model
        expected = [model["expected_precision"] for model in collection.models()]
        assert 0.2 < expected[0] <= 1.0
        assert accepted(collection, "river") < 0.1
        assert accepted(collection, "owl") > 0.6
        before = accepted(collection, "bets")
        for number in range(6):
            collection.feedback(next_url(collection, "bets", number), "irrelevant", topic="owls")
        collection.train()
        assert accepted(collection, "bets") < max(0.1, before)
        assert accepted(collection, "owl") > 0.6


def next_url(collection: Collection, kind: str, number: int) -> str:
    """The address of the stored page of a kind with this number, in order of relevance."""
    sql = f"SELECT url FROM collection WHERE url LIKE '%/{kind}/%' ORDER BY relevance DESC, url LIMIT 1 OFFSET {number}"
    return str(collection.sql(sql).rows[0][0])


def test_a_round_is_followed_by_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast pages come, learning from them takes a third of the time at most; a crawl that must be the same each
    time does not go by the clock."""
    now_s = [100.0]
    monkeypatch.setattr(teacher, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    counters = SimpleNamespace(pages=30, progress=SimpleNamespace(negative_rounds=1))
    settings = Settings()
    mining = teacher.NegativeMining(settings, None, SimpleNamespace(counters=counters))
    assert mining.is_due
    mining.begin()
    now_s[0], counters.progress.negative_rounds = 103.0, 2
    mining.end()
    counters.pages = 500
    assert not mining.is_due
    now_s[0] = 108.9
    assert not mining.is_due
    mining.change_settings(override(settings, {"learn.synchronous": True}))
    assert mining.is_due
    mining.change_settings(settings)
    now_s[0] = 109.0
    assert mining.is_due
