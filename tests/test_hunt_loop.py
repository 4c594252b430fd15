"""The focused loop under rough handling: ends in the middle of a change, orders changed from two sides, odd settings."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import MakeTaught
from fetch_servers import Handler, WebServer, html
from learn_webs import text
from opilio import Collection, learn
from opilio.crawl.engine import Engine
from opilio.crawl.phases import Phases
from opilio.crawl.teacher import Teacher
from opilio.errors import QueryError, SettingsError
from opilio.frontier import Frontier, LearningOrder, NoListener, QueuedUrl, ScopeFilter, make_strategy
from opilio.frontier.classic import SharpFocus
from opilio.frontier.evidence_strategy import EXPLORED_PRIORITY, AllEvidence
from opilio.model import Document, Judgement, Link, Outcome, Phase, Region, TrainingCause, TrainingReason
from opilio.settings import Settings, override
from opilio.store import Store
from running_crawls import LEARNING, phases_of

HANGS_S = 60.0


def ends(work: Callable[[], Any]) -> Any:
    """What comes of work that may hang, in another thread; raises what it raises."""
    found: dict[str, Any] = {}

    def run() -> None:
        try:
            found["made"] = work()
        except BaseException as error:
            found["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANGS_S)
    assert not thread.is_alive(), "it hangs"
    if "error" in found:
        raise found["error"]
    return found["made"]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """All engines that are made."""
    made: list[Engine] = []
    begin = Engine.__init__

    def note(self: Engine, *given: Any) -> None:
        begin(self, *given)
        made.append(self)

    monkeypatch.setattr(Engine, "__init__", note)
    return made


# -- a crawl that ends while its phase changes


def test_a_crawl_that_ends_while_learning_ends(make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit, or Ctrl-C, in the very moment when learning is over does not keep the crawl waiting for a model that
    nobody trains any more. The next crawl changes the phase anew."""
    collection = make_taught(limits__max_pages=60, learn__authorities=0, **LEARNING)
    finish = Phases._finish_learning

    async def end_first(self: Phases, why: str) -> None:
        self._end("it is enough")
        await finish(self, why)

    with monkeypatch.context() as patch:
        patch.setattr(Phases, "_finish_learning", end_first)
        assert ends(collection.crawl).reason == "it is enough"
    assert not any(said.startswith("harvesting:") for said in phases_of(collection))
    assert ends(collection.crawl).pages == 60
    assert phases_of(collection)[-1].startswith("harvesting:")


def test_a_second_interrupt_loses_no_batch(
    make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch, engines: list[Engine]
) -> None:
    """Given up while a batch is being written, a change of phase takes neither the batch nor the crawl's end along."""
    collection = make_taught(limits__max_pages=90, **LEARNING)
    harvest, write = Phases._harvest, Store.write
    slow = threading.Event()

    def write_slowly(self: Store, batch: Any) -> None:
        if slow.is_set():
            time.sleep(1.0)
        write(self, batch)

    async def interrupt(self: Phases) -> None:
        [engine] = engines
        slow.set()
        engine.counters.add("something to write")
        engine.stop("interrupted")
        asyncio.get_running_loop().call_later(0.5, engine.stop, "interrupted again")
        await harvest(self)

    monkeypatch.setattr(Store, "write", write_slowly)
    monkeypatch.setattr(Phases, "_harvest", interrupt)
    assert ends(collection.crawl).reason == "interrupted"
    assert collection.status().counters["something to write"] == 1
    assert collection.status().phase == Phase.LEARNING


def test_models_have_versions_of_their_own(
    make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch, engines: list[Engine]
) -> None:
    """To go back to an older model and to train a new one at the same time gives two models, not one number twice."""
    collection = make_taught(limits__max_pages=60)
    collection.crawl(settings={"limits.max_pages": 20})
    renew = learn.reuse_model
    told: list[int] = []

    def renew_slowly(*given: Any) -> Any:
        found = renew(*given)
        time.sleep(3.0)
        return found

    async def ask_twice(teacher: Teacher) -> None:
        told.extend(
            await asyncio.gather(teacher.use_model(1), teacher.retrain(TrainingCause(TrainingReason.REQUESTED)))
        )

    asked: list[asyncio.Task[None]] = []

    def on_tick(status: Any) -> bool:
        if not asked:
            asked.append(asyncio.get_running_loop().create_task(ask_twice(engines[-1].teacher)))
        return not asked[0].done()

    monkeypatch.setattr(learn, "reuse_model", renew_slowly)
    ends(lambda: collection.crawl(settings={"limits.max_pages": 0, "fetch.host_delay_s": 5.0}, on_tick=on_tick))
    versions = [version for (version,) in collection.sql("SELECT version FROM models").rows]
    assert len(set(told)) == 2 and len(versions) == len(set(versions)) == 3


# -- the focus of the learning phase


@pytest.fixture
def stray(tmp_path: Path) -> Iterator[Callable[..., Collection]]:
    """Owls, beside which a way leads along a river; every page also links to many pages of another domain."""
    outside = " ".join(f"<a href='http://b.test/{{n}}/{i}'>b</a>" for i in range(30))
    routes: dict[str, bytes | Handler] = {}
    for i in range(8):
        near = f"<a href='/river/0'>river</a> <a href='/owl/{(i + 1) % 8}'>owl</a> {outside.format(n=i)}"
        routes[f"/owl/{i}"] = html(f"<title>owl {i}</title><p>{text(i, owl=0.4)}</p>{near}".encode())
    for i in range(20):
        near = f"<a href='/river/{i + 1}'>river</a> {outside.format(n=100 + i)}"
        routes[f"/river/{i}"] = html(f"<title>river {i}</title><p>{text(100 + i, river=0.4)}</p>{near}".encode())

    with WebServer(routes) as server:

        def make(examples: list[str] | None = None, **changes: Any) -> Collection:
            given = examples or [f"http://a.test/owl/{i}" for i in range(6)]
            lines = ["topics:", "  Owls:", "    good: true", "    examples:", *(f"      - {one}" for one in given)]
            (tmp_path / "topics.yaml").write_text("\n".join(lines))
            settings: dict[str, Any] = {"fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0}
            settings |= {"run.workers": -1, "learn.phases": True, "learn.pause": True, "learn.learning_depth": 50}
            settings |= {"frontier.tunnel_steps": 0, "classify.classifier": "svm", "classify.spaces": ["terms"]}
            settings |= {key.replace("__", "."): value for key, value in changes.items()}
            seeds = tmp_path / "seeds.txt"
            seeds.write_text("http://a.test/owl/0")
            return Collection.create(tmp_path / "c", topics=tmp_path / "topics.yaml", seeds=seeds, settings=settings)

        yield make


def test_a_refill_keeps_the_focus(stray: Callable[..., Collection], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found where the focus had been lost is not asked for while learning, neither at once nor after a refill
    from the database; and what is not admitted does not have the database asked again and again."""
    refills: list[int] = []
    ask = Store.next_waiting
    monkeypatch.setattr(Store, "next_waiting", lambda *a, **k: refills.append(1) or ask(*a, **k))
    collection = stray(frontier__hot_urls=20, fetch__host_delay_s=0.3, fetch__per_host=1)
    status = collection.crawl()
    asked = [url for (url,) in collection.sql("SELECT url FROM crawl WHERE state = 'fetched'").rows]
    assert [url for url in asked if "river" in url] == ["http://a.test/river/0"]
    assert not [url for url in asked if "b.test" in url]
    assert len(refills) <= 6
    [(waiting,)] = collection.sql("SELECT count(*) FROM crawl WHERE state = 'waiting'").rows
    assert status.waiting == waiting > 100


class Drops(NoListener):
    """Notes what a frontier drops."""

    def __init__(self, note: Callable[[QueuedUrl], object]) -> None:
        self._note = note

    def dropped(self, url: QueuedUrl, outcome: Outcome) -> None:
        self._note(url)


def focus(**changes: Any) -> tuple[Frontier, list[QueuedUrl]]:
    """A frontier that learns near a.test, and what it has dropped."""
    settings = override(Settings(), {key.replace("__", "."): value for key, value in changes.items()})
    dropped: list[QueuedUrl] = []
    strategy = SharpFocus(settings.frontier, ["a.test"], max_depth=3)
    scope = ScopeFilter(settings.scope, frozenset())
    return Frontier(settings, strategy, scope, Drops(dropped.append)), dropped


def test_hubs_do_not_break_the_focus() -> None:
    """What great hubs recommend stays in the database while learning when it is not near the seeds, and is there when
    another order comes."""
    frontier, _ = focus()
    url = QueuedUrl(0, "http://b.test/0", frontier.host("b.test"), 0, 1, 0.5)
    frontier.tiers.prioritise([url])
    frontier.tiers.add(url)
    frontier.warm([url])
    frontier.tiers.raise_urls({0: 0.9})
    assert (frontier.hot, frontier.waiting, frontier.tiers.wants_refill()) == (0, 1, [])
    frontier.change_strategy(make_strategy(override(Settings(), {"frontier.strategy": "best-first"}).frontier))
    assert (frontier.waiting, frontier.tiers.wants_refill()) == (1, [0])


def test_phases_and_a_limit_of_waiting_urls(stray: Callable[..., Collection]) -> None:
    """While learning most of what waits is not near the seeds; a limit would drop what is: both are refused."""
    with pytest.raises(SettingsError, match="max_queued"):
        stray(frontier__max_queued=100)


def test_a_bad_order_is_refused_before_learning(stray: Callable[..., Collection]) -> None:
    """The order of the harvest is looked at before the first page, not after the phase of learning."""
    collection = stray(frontier__strategy="sql", frontier__order_by="relevanz desc")
    with pytest.raises(QueryError, match="relevanz"):
        collection.crawl()
    assert collection.status().pages == 0


def test_enough_archetypes_of_a_topic_taught_by_files(stray: Callable[..., Collection], tmp_path: Path) -> None:
    """Learning is over by enough archetypes also where no example is a URL. A seed of no topic is where the focus
    begins, whatever topic takes it."""
    files = [tmp_path / f"owl{i}.txt" for i in range(4)]
    for i, file in enumerate(files):
        file.write_text(text(50 + i, owl=0.4))
    rounds = {"learn__retrain_after": 3, "learn__above_mean": False, "learn__guard": "off", "learn__synchronous": True}
    collection = stray([str(file) for file in files], learn__learning_archetypes=1, **rounds)
    collection.crawl()
    assert any("every topic has 1 archetypes" in said for said in phases_of(collection))


def test_what_is_known_at_the_start_counts(stray: Callable[..., Collection]) -> None:
    """Archetypes that the user has confirmed between two crawls end learning too, though no model comes of that."""
    collection = stray(limits__max_pages=7, learn__learning_archetypes=1, learn__learning_pages=5000)
    collection.crawl()
    collection.sql("UPDATE training SET source = 'confirmed' WHERE name LIKE '%/owl/0'", write=True)
    collection.crawl(settings={"limits.max_pages": 100})
    assert any("every topic has 1 archetypes" in said for said in phases_of(collection))


def test_phases_turned_off(stray: Callable[..., Collection]) -> None:
    """A crawl that goes on without phases does not say that it learns."""
    collection = stray(limits__max_pages=4)
    collection.crawl()
    collection.crawl(settings={"learn.phases": False, "limits.max_pages": 8})
    assert [said.partition(":")[0] for said in phases_of(collection)] == [
        "learning",
        "no phases any more (learn.phases)",
    ]
    assert collection.status().phase == Phase.NONE


# -- orders

EMPTY = Document("", "", "", "", "", "", [], b"", b"", [], 0, b"")


def test_the_order_that_the_user_chose_last_counts(
    make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch, engines: list[Engine]
) -> None:
    """An order chosen while the harvest's is being prepared is not overruled by that."""
    collection = make_taught(limits__max_pages=70, frontier__strategy="evidence", **LEARNING)
    teach = Engine._teach

    async def choose_meanwhile(self: Engine, strategy: Any) -> None:
        await teach(self, strategy)
        if isinstance(strategy, LearningOrder):
            settings = override(self.settings, {"frontier.strategy": "breadth-first"})
            await self.change_strategy(make_strategy(settings.frontier))
            self.settings = settings

    monkeypatch.setattr(Engine, "_teach", choose_meanwhile)
    collection.crawl()
    [engine] = engines
    assert engine.settings.frontier.strategy == "breadth-first"
    assert engine.frontier.strategy.order_by == "depth"


def test_replayed_pages_earn_no_exploration() -> None:
    """After a restart, exploration goes on at its share: it is not made up for all the pages that were replayed."""
    settings = override(Settings(), {"frontier.explore_share": 0.1, "frontier.strategy": "evidence"})
    strategy = AllEvidence(settings.frontier)
    frontier = Frontier(settings, strategy, ScopeFilter(settings.scope))
    urls = [QueuedUrl(oid, f"http://a.test/{oid}", frontier.host("a.test"), 0, 1, 0.5) for oid in range(1, 500)]
    links = [Link(url.url, 0, "owl", "", Region.MAIN, place) for place, url in enumerate(urls)]
    page = msgspec.structs.replace(EMPTY, links=links)
    judgement = Judgement(0, True, 0.9, 0.9)
    for oid in range(1_000, 3_000):  # replayed
        strategy.settle(oid, 0.5)
    strategy.observe(urls[0], judgement, page, [url.oid for url in urls], [0] * len(urls))

    def explored() -> int:
        for _ in range(len(urls)):  # so many that it is time for new priorities
            strategy.observe(urls[0], judgement, EMPTY, [], [])
        return sum(priority == EXPLORED_PRIORITY for priority in strategy.reprioritise(urls) or ())

    assert explored() <= 1
    for oid in range(3_000, 3_100):
        strategy.settle(oid, 0.5)
    assert explored() == 10


def test_the_best_are_not_evicted() -> None:
    """With a limit of queued URLs, a strategy that has changed all priorities still loses the worst; and what is
    remembered for that does not grow with the URLs that have come and gone."""
    settings = override(Settings(), {"frontier.max_queued": 100, "frontier.strategy": "evidence"})
    strategy, dropped = make_strategy(settings.frontier), []
    scope = ScopeFilter(settings.scope, frozenset())
    frontier = Frontier(settings, strategy, scope, Drops(lambda url: dropped.append(url.oid)))

    def add(oid: int, priority: float) -> None:
        url = QueuedUrl(oid, f"http://h{oid % 7}.test/{oid}", frontier.host(f"h{oid % 7}.test"), 0, 1, 0.5)
        url.priority = priority
        frontier.tiers.add(url)

    for oid in range(100):
        add(oid, float(oid))
    strategy.reprioritise = lambda urls: [500.0 - url.priority for url in urls]  # type: ignore[attr-defined]
    frontier.tiers.reprioritise()
    for oid in range(100, 160):
        add(oid, 1000.0 + oid)
    assert frontier.waiting == 100 and len(dropped) == 60 and max(dropped) < 100
    for oid in range(1_000, 20_000):
        add(oid, float(oid))
    assert len(frontier.tiers._worst) < 5_000
