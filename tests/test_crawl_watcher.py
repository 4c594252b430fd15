"""The watcher: it notices crawls that stagnate, starve a topic or drift, says so once, and ends them when told to."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import TAUGHT_TOPICS, MakeTaught
from made_crawls import COOKING, FUNDS, GARDENING, MadeCrawl, drifting, mutual_funds
from opilio.analyze.sketch import bands
from opilio.cli import display
from opilio.crawl.absorb import Absorber
from opilio.crawl.ledger import Ledger
from opilio.crawl.status import Counters, Status
from opilio.crawl.watcher import STEPS, Harvest, Reported, Watcher
from opilio.frontier import Duplicates, Frontier, ScopeFilter, make_strategy
from opilio.lab.local_web import LocalServer
from opilio.settings import Settings, override
from opilio.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path) as opened:
        yield opened


class Scene:
    """A watcher of a made-up crawl, with all that it says."""

    def __init__(self, store: Store, **changes: float) -> None:
        changed = {f"limits.{name}": value for name, value in changes.items()}
        settings = override(Settings(), {"learn.synchronous": True, **changed})
        scope = ScopeFilter(settings.scope, frozenset())
        ledger = Ledger(Duplicates(settings.duplicates, bands), Counters())
        frontier = Frontier(settings, make_strategy(settings.frontier), scope, ledger, (FUNDS, GARDENING))
        self.absorber = Absorber(settings, frontier, ledger)
        self.commits = 0
        self.reasons: list[str] = []
        self.watcher = Watcher(settings, store, self.absorber, self._commit, self.reasons.append)

    async def _commit(self) -> None:
        self.commits += 1

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
    """It falls, and stays low: one notice with the words that came instead, the topic, and the paper's remedy in full."""
    scene = Scene(mutual_funds().fill(store), harvest_pages=100)
    scene.judge(*[True] * 100, *[False] * 300)
    assert scene.said.count("harvest") == 1
    notice = next(notice for notice in scene.absorber.ledger.notices if notice["kind"] == "harvest")
    assert notice["text"].startswith("harvest fell to 0.")
    assert "from 1.00 at its best" in notice["text"]
    assert "broker" in notice["text"]
    assert "'Business/Investment'" in notice["text"]
    assert f"opilio topics mark {store.path.parent} Business/Investment good" in notice["remedy"]
    assert f"opilio census {store.path.parent}" in notice["remedy"]
    assert scene.commits, "what was absorbed is written before it is read"
    assert not scene.reasons
    scene.judge(*[True] * 100)
    scene.judge(*[False] * 300)
    assert scene.said.count("harvest") == 2, "it had recovered"


def test_a_harvest_that_wavers_is_not_noticed(store: Store) -> None:
    """By chance, or by less than half, or before a whole window: no notice."""
    draw = random.Random(2)
    scene = Scene(mutual_funds().fill(store), harvest_pages=100)
    scene.judge(*(draw.random() < 0.2 for _ in range(2000)))
    scene.judge(*(draw.random() < 0.15 for _ in range(500)))
    assert "harvest" not in scene.said
    young = Scene(store, harvest_pages=1000)
    young.judge(*[True] * 100, *[False] * 300)
    assert "harvest" not in young.said


def test_the_least_harvest_ends_the_crawl(store: Store) -> None:
    """With limits.min_harvest the crawl ends once a whole window is below it, for a reason with both figures."""
    scene = Scene(mutual_funds().fill(store), harvest_pages=100, min_harvest=0.05)
    scene.judge(*[True] * 4, *[False] * 95)
    assert not scene.reasons
    scene.judge(False, *[False] * 50)
    assert scene.reasons == ["harvest rate 0.04 of the last 100 pages is below 0.05 (limits.min_harvest)"]
    assert scene.said.count("end") == 1
    remedy = next(notice["remedy"] for notice in scene.absorber.ledger.notices if notice["kind"] == "end")
    assert remedy == f"to go on: opilio crawl {store.path.parent} --set limits.min_harvest=0.025"


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
    assert status.reason.startswith("harvest rate 0.")
    assert status.reason.endswith("is below 0.3 (limits.min_harvest)")
    assert 40 <= status.pages < 240
    # It is not always the last: a notice that the harvest fell may follow it.
    assert [notice["text"] for notice in collection.status().notices if notice["kind"] == "end"] == [status.reason]
    assert status.reason in display.summary(collection.status())


def test_a_crawl_ends_by_its_recall(make_taught: MakeTaught) -> None:
    """Over HTTP: with a low wish the crawl ends early, and its status has the estimate; other limits keep their words."""
    told = {"limits__harvest_pages": 40, "learn__synchronous": True}
    collection = make_taught(limits__max_pages=0, limits__recall=0.05, **told)
    status = collection.crawl()
    assert status.reason.startswith("estimated recall 0.")
    assert status.recall is not None
    assert 0.05 <= status.recall < 1.0
    assert f"recall about {status.recall:.2f}" in display.summary(status)
    collection.settings = override(collection.settings, {"limits.recall": 0.0, "limits.max_pages": status.pages + 20})
    assert collection.crawl().reason == f"page limit reached ({status.pages + 20:,})"


# -- showing it


def status_with(*kinds: str) -> Status:
    notices = [{"kind": kind, "text": f"about {kind}", "remedy": ""} for kind in kinds]
    figures = dict.fromkeys(("pages", "fetched_bytes", "urls", "waiting", "hot", "in_flight", "hosts"), 0)
    figures |= dict.fromkeys(("slow_hosts", "bad_hosts", "elapsed_s", "pages_per_s"), 0)
    return Status("x", True, **figures, harvest=None, harvest_history=[], outcomes={}, counters={}, strategy="",
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
    status.notices[0] |= {"text": "evil\x1b[2J words", "remedy": "opilio census x"}
    lines.tick(status)
    lines.tick(status)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0].endswith("drift: evil [2J words")
    assert said[1].strip() == "opilio census x"
