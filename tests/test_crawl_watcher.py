"""The watcher: it notices crawls that stagnate, starve a topic or drift, says so once, and ends them when told to."""

import asyncio
import json
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import TAUGHT_TOPICS, MakeTaught
from dry_webs import NEARBY, funds_collection, funds_web
from made_crawls import COOKING, FUNDS, GARDENING, MadeCrawl, drifting, mutual_funds
from opilio import Collection, learn
from opilio.analyze.sketch import bands
from opilio.cli import display
from opilio.crawl.absorb import Absorber
from opilio.crawl.ledger import Ledger
from opilio.crawl.status import Counters, Status
from opilio.crawl.watcher import STEPS, Harvest, Reported, Watcher
from opilio.frontier import Duplicates, Frontier, ScopeFilter, make_strategy
from opilio.lab.local_web import LocalServer
from opilio.learn.remedies import from_json
from opilio.settings import Settings, override
from opilio.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path) as opened:
        yield opened


class Scene:
    """A watcher of a made-up crawl, with all that it says."""

    def __init__(self, store: Store, **changes: float | str) -> None:
        changed = {f"limits.{name}": value for name, value in changes.items()}
        settings = override(Settings(), {"learn.synchronous": True, **changed})
        scope = ScopeFilter(settings.scope, frozenset())
        ledger = Ledger(Duplicates(settings.duplicates, bands), Counters())
        frontier = Frontier(settings, make_strategy(settings.frontier), scope, ledger, (FUNDS, GARDENING))
        self.absorber = Absorber(settings, frontier, ledger)
        self.commits = self.pauses = 0
        self.reasons: list[str] = []
        self.watcher = Watcher(settings, store, self.absorber, self._commit, self.reasons.append, self._pause)

    async def _commit(self) -> None:
        self.commits += 1

    def _pause(self) -> None:
        self.pauses += 1

    def judge(self, *pages: bool) -> None:
        """Pages come one by one; the watcher looks after each, and may finish what it begins."""

        async def crawl() -> None:
            for relevant in pages:
                self.absorber.counters.page(1.0 if relevant else 0.0)
                self.watcher.look()
            await self.watcher.close(asyncio.Event())

        asyncio.run(crawl())

    @property
    def said(self) -> list[str]:
        return [notice["kind"] for notice in self.absorber.ledger.notices]


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 40))
def test_the_harvest_is_that_of_the_latest_pages(pages: list[bool], window: int) -> None:
    """Whatever comes: the rate is that of the last window, or a step more, and the best is the best of those."""
    harvest, rates = Harvest(window), []
    for judged in range(1, len(pages) + 1):
        seen = harvest.see(judged, sum(pages[:judged]))
        if seen is not None:
            rate, of = seen
            assert window <= of < window + max(1, window // STEPS)
            assert rate == pytest.approx(sum(pages[judged - of : judged]) / of)
            rates.append(rate)
    assert harvest.best == max(rates, default=0.0)
    assert bool(rates) == (len(pages) >= window + (-window) % max(1, window // STEPS))


def test_a_thing_is_said_once_until_it_is_over() -> None:
    """Between `so` and `over` nothing is repeated, and nothing forgotten."""
    said = Reported()
    seen = [(True, False), (True, False), (False, False), (True, False), (False, True), (True, False)]
    assert [said.is_news("x", is_so=so, is_over=over) for so, over in seen] == [True, False, False, False, False, True]
    assert said.is_news("y", is_so=True, is_over=False)


def test_a_harvest_that_falls_is_noticed_once(store: Store) -> None:
    """It falls, and stays low: one notice with the words that came instead, the topic, and the paper's remedy in full,
    in words and as data."""
    scene = Scene(mutual_funds().fill(store), harvest_pages=200)
    scene.judge(*[True] * 200, *[True, False, False, False] * 75)
    assert scene.said == ["harvest"]
    [notice] = scene.absorber.ledger.notices
    assert notice["text"].startswith("recent harvest fell to 0.")
    assert "from 1.00 at its best" in notice["text"]
    assert "broker" in notice["text"]
    assert "'Business/Investment'" in notice["text"]
    folder = store.path.parent
    assert f"opilio topics mark {folder} Business/Investment good" in notice["remedy"]
    assert f"opilio census {folder}" in notice["remedy"]
    first = notice["remedies"][0]
    assert (first["operation"], first["arguments"]) == ("mark", {"topic": "Business/Investment", "good": True})
    assert first["label"] == "Mark Business/Investment wanted"
    stored = scene.absorber.ledger.batch.notices.remedies
    assert [from_json(text, str(folder)) for text in stored] == [notice["remedies"]]
    assert scene.commits, "what was absorbed is written before it is read"
    assert not scene.reasons
    scene.judge(*[True] * 200)
    scene.judge(*[True, False, False, False] * 75)
    assert scene.said == ["harvest", "harvest"], "it had recovered"


def hundreds(*found: int) -> list[bool]:
    """Pages of which so many of each hundred are relevant, evenly spread."""
    return [(n + 1) * many // 100 > n * many // 100 for many in found for n in range(100)]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((24, 6, 1, 0, 0), "against 24% at its best"),
        ((24, 6, 1, 1, 1, 1), "against 24% at its best"),
        ((6, 0, 0, 0), "none of the last 250 pages is relevant, against 6% at its best"),
        ((0,), "none of the first 100 pages of this run is relevant"),
    ],
)
def test_a_crawl_that_finds_nothing_any_more(store: Store, found: tuple[int, ...], said: str) -> None:
    """Long before a whole window of the harvest has been seen: one notice, which proposes to stop, too."""
    scene = Scene(mutual_funds().fill(store))
    scene.judge(*hundreds(*found))
    assert scene.said == ["dry"]
    [notice] = scene.absorber.ledger.notices
    assert said in notice["text"]
    operations = [remedy["operation"] for remedy in notice["remedies"]]
    assert operations[0] == "mark" and operations[-2:] == ["stop", "census"]
    assert scene.watcher.falls == 1, "the crawl asks its user"


@pytest.mark.parametrize("choice", ["go-on", "pause", "stop"])
def test_a_dry_crawl_does_what_its_user_chose(store: Store, choice: str) -> None:
    """limits.when_dry: it goes on, waits with a notice that proposes to resume it, or ends with the reason."""
    scene = Scene(mutual_funds().fill(store), when_dry=choice)
    scene.judge(*hundreds(24, 6, 1, 0, 0))
    [notice] = scene.absorber.ledger.notices
    assert notice["kind"] == ("end" if choice == "stop" else "dry")
    assert scene.pauses == (choice == "pause")
    assert ("resume" in [remedy["operation"] for remedy in notice["remedies"]]) == (choice == "pause")
    if choice == "stop":
        [reason] = scene.reasons
        assert reason.startswith("hardly any relevant page is found any more") and "limits.when_dry" in reason
        assert notice["remedies"][0]["arguments"] == {"settings": {"limits.when_dry": "go-on"}}
    else:
        assert not scene.reasons


def test_a_crawl_that_recovers_can_be_dry_again(store: Store) -> None:
    """What is over is news when it comes back; what is not over is not."""
    scene = Scene(mutual_funds().fill(store))
    scene.judge(*hundreds(40, 40, 0, 0))
    scene.judge(*hundreds(10, 0, 0))
    assert scene.said == ["dry"]
    scene.judge(*hundreds(40))
    scene.judge(*hundreds(0, 0))
    assert scene.said == ["dry", "dry"]


def test_a_harvest_that_wavers_is_not_noticed(store: Store) -> None:
    """By chance, or by less than half, or before a whole window, or where little is found all the time: no notice."""
    draw = random.Random(2)
    scene = Scene(mutual_funds().fill(store), harvest_pages=100)
    scene.judge(*(draw.random() < 0.2 for _ in range(2000)))
    scene.judge(*(draw.random() < 0.15 for _ in range(500)))
    assert not {"harvest", "dry"} & set(scene.said)
    young = Scene(store, harvest_pages=1000)
    young.judge(*hundreds(100, 30, 30, 30))
    assert not {"harvest", "dry"} & set(young.said)
    rare = Scene(store)
    rare.judge(*(draw.random() < 0.03 for _ in range(3000)))
    assert not {"harvest", "dry"} & set(rare.said)


def test_the_least_harvest_ends_the_crawl(store: Store) -> None:
    """With limits.min_harvest the crawl ends once a whole window is below it, for a reason with both figures."""
    scene = Scene(mutual_funds().fill(store), harvest_pages=100, min_harvest=0.05)
    scene.judge(*[True] * 4, *[False] * 95)
    assert not scene.reasons
    scene.judge(False, *[False] * 500)
    assert scene.reasons == ["recent harvest 0.04 of the last 100 pages is below 0.05 (limits.min_harvest)"]
    assert scene.said == ["end"], "nothing is noticed of a crawl that has ended"
    [notice] = scene.absorber.ledger.notices
    assert notice["remedy"] == f"to go on: opilio crawl {store.path.parent} --set limits.min_harvest=0.025"
    assert notice["remedies"][0]["arguments"] == {"settings": {"limits.min_harvest": 0.025}}


def test_a_survey_under_way_reports_nothing_of_a_crawl_that_has_ended(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fall is being looked into when the least harvest ends the crawl: the end is the last that is said."""
    scene = Scene(mutual_funds().fill(store), harvest_pages=100, min_harvest=0.2)
    take_census, begun, ended = learn.take_census, threading.Event(), threading.Event()

    def take_slowly(*asked: Any, **named: Any) -> dict[str, Any]:
        begun.set()
        assert ended.wait(10)
        return take_census(*asked, **named)

    monkeypatch.setattr(learn, "take_census", take_slowly)

    async def crawl() -> None:
        for relevant in hundreds(100, 25, 25, 0):
            scene.absorber.counters.page(1.0 if relevant else 0.0)
            scene.watcher.look()
            if scene.watcher._slot.is_busy:
                await asyncio.to_thread(begun.wait, 10)
        assert scene.reasons
        ended.set()
        await scene.watcher.close(asyncio.Event())

    asyncio.run(crawl())
    assert begun.is_set()
    assert scene.said == ["end"]


def test_a_topic_that_starves(store: Store) -> None:
    """It found nothing while the other did: one notice with its number, a command, and another after it recovered."""
    crawl = MadeCrawl()
    crawl.add(60, kcid=GARDENING, relevance=1.0)
    crawl.add(40, kcid=COOKING, relevance=0.0)
    scene = Scene(crawl.fill(store), harvest_pages=100)
    host = scene.absorber.frontier.host("a.org")
    for n in range(30):
        scene.absorber.offer(f"http://{host.name}/{n}", parent=-1, depth=0, relevance=1.0, topic=GARDENING, now_s=1.0)
    scene.judge(*[True] * 60)
    scene.judge(*[True] * 60)
    assert scene.said == ["topic"]
    assert scene.absorber.ledger.batch.notices.kcid == [FUNDS]
    [notice] = scene.absorber.ledger.notices
    assert notice["text"].startswith("topic 'Business/Investment/Mutual Funds' starves: 0 of the latest relevant pages")
    assert f"opilio topics add {store.path.parent} 'Business/Investment/Mutual Funds' URL" in notice["remedy"]
    crawl.add(60, kcid=FUNDS, relevance=1.0)
    crawl.fill(store)
    scene.judge(*[True] * 60)
    crawl.add(120, kcid=GARDENING, relevance=1.0)
    crawl.fill(store)
    scene.judge(*[True] * 60)
    assert scene.said == ["topic", "topic"]


def test_a_crawl_that_drifts(store: Store) -> None:
    """Every page is accepted, and the words change: one notice; without terms there is nothing to see."""
    scene = Scene(drifting(1.0).fill(store), harvest_pages=100)
    for _ in range(3):
        scene.judge(*[True] * 60)
    assert scene.said == ["drift"]
    [notice] = scene.absorber.ledger.notices
    assert "topic 'Gardening' drifts" in notice["text"]
    assert "opilio topics add" in notice["remedy"]
    assert notice["remedy"].endswith("--negative")
    steady = Scene(drifting(0.1).fill(store), harvest_pages=100)
    steady.judge(*[True] * 60)
    assert steady.said == []


def test_recall_ends_the_crawl(store: Store) -> None:
    """Two estimates in a row above limits.recall end it, with the estimate in the reason; one does not."""
    crawl = MadeCrawl()
    crawl.add(80, kcid=GARDENING, relevance=1.0)
    crawl.add(320, relevance=0.0)
    crawl.add(10, state="waiting")
    scene = Scene(crawl.fill(store), recall=0.9)
    scene.judge(*[False] * 260)
    assert scene.watcher.recall is not None
    assert 0.9 < scene.watcher.recall < 1.0
    assert not scene.reasons
    scene.judge(*[False] * 260)
    assert scene.reasons == [
        f"estimated recall {scene.watcher.recall:.2f} of what can be reached is at least 0.9 (limits.recall): "
        "80 relevant pages found"
    ]
    unlimited = Scene(store)
    for _ in range(3):
        unlimited.judge(*[False] * 260)
    assert unlimited.watcher.recall == scene.watcher.recall
    assert not unlimited.reasons


def test_a_survey_that_fails_is_said_and_does_not_end_the_crawl(store: Store) -> None:
    """An error of the database becomes a notice, once."""
    crawl = MadeCrawl()
    crawl.add(200, kcid=GARDENING, relevance=1.0)
    crawl.fill(store)
    with store.writing() as to:
        to.execute("UPDATE topics SET type = 'good'")  # a good topic below a good one is refused
    scene = Scene(store)
    for _ in range(2):
        scene.judge(*[True] * 260)
    assert scene.said == ["survey"]
    assert "cannot be good" in scene.absorber.ledger.notices[0]["text"]
    assert scene.absorber.counters.counts["surveys that failed"] == 2


# -- whole crawls


def test_a_crawl_ends_by_its_harvest(make_taught: MakeTaught, small_server: LocalServer) -> None:
    """Over HTTP: the crawl ends with the reason, which its status and the table of notices keep."""
    topics = list(small_server.web.topics)
    told = {"limits__max_pages": 0, "limits__min_harvest": 0.3, "limits__harvest_pages": 40}
    collection = make_taught(small_server.web.bookmarks(topics), **told)
    for topic in topics:
        if topic not in TAUGHT_TOPICS[:1]:
            collection.mark(topic, good=False)
    status = collection.crawl()
    assert status.reason.startswith("recent harvest 0.")
    assert status.reason.endswith("is below 0.3 (limits.min_harvest)")
    assert 40 <= status.pages < 240
    assert collection.status().notices[-1]["text"] == status.reason
    assert [notice["kind"] for notice in collection.status().notices].count("end") == 1
    assert status.reason in display.summary(collection.status())


def test_a_crawl_that_has_found_all_there_is_says_so(tmp_path: Path) -> None:
    """Over HTTP: 50 pages about mutual funds, then hundreds about investment. The summary has one notice with the
    commands, and the database has what can be done as data."""
    with funds_collection(tmp_path, limits__max_pages=400) as collection:
        shown = display.summary(collection.crawl()).splitlines()
    [place] = [n for n, line in enumerate(shown) if line.startswith("  dry: hardly any relevant page")]
    assert shown[place + 1].endswith(f"opilio topics mark {collection.folder} {NEARBY} good")
    assert any(line.endswith(f"opilio stop {collection.folder}") for line in shown[place + 2 :])
    [[stored]] = collection.sql("SELECT remedies FROM notices WHERE kind = 'dry'").rows
    assert json.loads(stored)[0] | {"why": ""} == {
        "why": "", "operation": "mark", "arguments": {"topic": NEARBY, "good": True},
    }  # fmt: skip
    assert [one["operation"] for one in collection.census()["remedies"]][:2] == ["mark", "questions"]


def test_a_crawl_that_never_finds_anything_says_so(tmp_path: Path) -> None:
    """Over HTTP: a question about owls on a web about investment. After a hundred pages there is one notice."""
    (tmp_path / "seeds.txt").write_text("http://stocks.test/stock/0")
    with funds_web().served() as server:
        settings = {"fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "run.workers": -1}
        settings["limits.max_pages"] = 250
        collection = Collection.create(
            tmp_path / "c", seeds=tmp_path / "seeds.txt", query="barn owl nesting", settings=settings
        )
        status = collection.crawl()
    [notice] = status.notices
    assert notice["kind"] == "dry"
    assert re.search("none of the first 1[0-9]{2} pages of this run is relevant", notice["text"])
    assert notice["remedies"][0]["operation"] == "add_example"
    assert "retrain_after" not in notice["remedy"], "there is nothing to learn from"


def test_a_crawl_ends_by_its_recall(make_taught: MakeTaught) -> None:
    """Over HTTP: with a low wish the crawl ends early, and its status has the estimate; other limits keep their words."""
    told = {"limits__harvest_pages": 40, "learn__synchronous": True}
    collection = make_taught(limits__max_pages=0, limits__recall=0.05, **told)
    status = collection.crawl()
    assert status.reason.startswith("estimated recall 0.")
    assert status.recall is not None
    assert 0.05 <= status.recall < 1.0
    assert f"recall about {status.recall:.0%}" in display.summary(status)
    collection.settings = override(collection.settings, {"limits.recall": 0.0, "limits.max_pages": status.pages + 20})
    assert collection.crawl().reason == f"page limit reached ({status.pages + 20:,})"


# -- showing it


def status_with(*kinds: str) -> Status:
    notices = [{"kind": kind, "text": f"about {kind}", "remedy": ""} for kind in kinds]
    figures = dict.fromkeys(("pages", "fetched_bytes", "urls", "waiting", "hot", "in_flight", "hosts"), 0)
    figures |= dict.fromkeys(("slow_hosts", "bad_hosts", "elapsed_s", "pages_per_s", "relevant", "requests"), 0)
    rates = dict.fromkeys(("harvest", "harvest_per_request", "harvest_per_s", "recent_harvest"), None)
    return Status("x", True, **figures, **rates, recent_harvests=[], outcomes={}, counters={}, strategy="",
                  order_by="", notices=notices)  # fmt: skip


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_each_notice_is_shown_once(kinds: list[str], steps: list[int]) -> None:
    """However many come between two looks, as long as none was lost, and though some have the same words."""
    fresh, shown, upto = display.FreshNotices(), [], 0
    for step in steps:
        upto = min(len(kinds), upto + step)
        found = fresh.of(status_with(*[f"{n} {kind}" for n, kind in enumerate(kinds)][max(0, upto - 20) : upto]))
        shown += [notice["kind"] for notice in found]
    assert shown == [f"{n} {kind}" for n, kind in enumerate(kinds)][:upto]


def test_log_lines_show_notices_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A line when it comes, none when it is still there; words of strangers cannot steer the terminal."""
    lines = display.LogLines()
    status = status_with("drift")
    status.notices[0] |= {"text": "evil\x1b[2J words", "remedy": "opilio census x"}  # without data, as of old
    lines.tick(status)
    lines.tick(status)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0].endswith("drift: evil [2J words")
    assert said[1].strip() == "opilio census x"
