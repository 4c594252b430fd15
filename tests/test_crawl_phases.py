"""The two phases of a crawl: learning near the seeds, then harvesting from the best hubs."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import MakeTaught
from learn_webs import text
from opilio import Collection
from opilio.crawl.engine import Engine
from opilio.crawl.operations.client import ask
from opilio.crawl.phases import PAUSED, phase_at_start, settings_in
from opilio.errors import InputError, QueryError, SettingsError
from opilio.frontier import Frontier, LearningStrategy, QueuedUrl, ScopeFilter, make_strategy
from opilio.frontier.classic import SharpFocus
from opilio.frontier.evidence_strategy import EXPLORED_PRIORITY, AllEvidence
from opilio.lab.local_web import LocalServer
from opilio.model import Document, Judgement, Link, Links, Phase, Region
from opilio.settings import Settings, override
from opilio.store.reader import StoreReader
from running_crawls import LEARNING, phases_of
from webs import Page, Web

OUTSIDE = """
    SELECT count(*) FILTER (WHERE h.domain NOT IN (
        SELECT s.domain FROM hosts s WHERE s.host IN (SELECT regexp_extract(url, '//([^/]+)/', 1) FROM seeds)))
    FROM (SELECT oid FROM visits WHERE kind = 'page' ORDER BY rowid LIMIT ?) v JOIN crawl c USING (oid) JOIN hosts h USING (sid)
"""


def test_learning_then_harvesting(make_taught: MakeTaught) -> None:
    """While learning only the seeds' domains are asked; then a model is trained with archetypes, by weighted votes, and
    the harvest goes beyond them, in the order of the settings."""
    collection = make_taught(limits__max_pages=90, **(LEARNING | {"fetch__in_flight": 1}))  # it sees pages one by one
    status = collection.crawl()
    assert status.pages == 90 and "page limit" in status.reason
    said = phases_of(collection)
    assert said[0].startswith("learning:") and said[-1].startswith("harvesting:")
    assert any("40 pages seen" in text for text in said)
    assert collection.sql(OUTSIDE.replace("?", "40")).rows == [(0,)]
    assert collection.sql(OUTSIDE.replace("?", "1000")).rows[0][0] > 0
    settings = [text for (text,) in collection.sql("SELECT settings FROM models ORDER BY version").rows]
    assert 'meta = "unanimous"' in settings[0] and 'meta = "weighted"' in settings[-1]
    assert collection.sql("SELECT count(*) FROM training WHERE source = 'archetype'").rows[0][0] > 0
    assert collection.sql("SELECT count(*) FROM link_scores").rows[0][0] > 0


def test_a_pause_between_the_phases(make_taught: MakeTaught) -> None:
    """With a pause the crawl ends after learning; archetypes can be rejected; the next crawl harvests, by a model that
    knows of it, and a third one stays in the harvest."""
    beside = {**LEARNING, "learn__synchronous": False, "learn__retrain_after": 5}
    collection = make_taught(limits__max_pages=100, learn__pause=True, **beside)
    assert collection.crawl().reason == PAUSED
    versions = len(collection.models())
    seen = collection.status().pages
    told = re.match(r"learning is over: (\d+) pages seen", phases_of(collection)[-1])
    assert told is not None
    assert 40 <= int(told[1]) <= seen <= 40 + collection.settings.fetch.in_flight, (
        "it learns on while a model is trained"
    )
    [(url, kcid)] = collection.sql("SELECT name, kcid FROM training WHERE source = 'archetype' LIMIT 1").rows
    [(path,)] = collection.sql(f"SELECT path FROM topics WHERE kcid = {kcid}").rows
    collection.reject_archetype(path, url)
    assert collection.crawl().pages == 100
    assert len(collection.models()) > versions
    assert phases_of(collection)[-1].startswith("harvesting:")
    again = collection.crawl(settings={"limits.max_pages": 105})
    assert again.pages == 105 and sum(text.startswith("harvesting:") for text in phases_of(collection)) == 1


def test_learning_that_runs_dry_is_over(make_taught: MakeTaught) -> None:
    """With nothing to follow near the seeds the harvest begins early."""
    collection = make_taught(limits__max_pages=60, **(LEARNING | {"learn__learning_depth": 0}))
    assert collection.crawl().pages == 60
    assert any("nothing more to follow" in text for text in phases_of(collection))


def test_phases_need_something_to_learn(make_taught: MakeTaught, tmp_path: Path) -> None:
    """Without examples, or with a classifier that learns nothing, phases are refused before anything is fetched."""
    with pytest.raises(SettingsError, match="classifier that learns"):
        make_taught(learn__phases=True, classify__classifier="keywords")
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://a.test/\n")
    with pytest.raises(InputError, match="needs examples"):
        Collection.create(tmp_path / "c", seeds=seeds, settings={"learn.phases": True}).crawl()


def test_phase_and_settings_at_the_start() -> None:
    """A crawl goes on in its phase; after a pause it harvests; without phases nothing changes."""
    phased = override(Settings(), {"learn.phases": True})
    assert phase_at_start(Settings(), Phase.LEARNING) is Phase.NONE
    assert phase_at_start(phased, Phase.NONE) is phase_at_start(phased, Phase.LEARNING) is Phase.LEARNING
    assert phase_at_start(phased, Phase.PAUSED) is phase_at_start(phased, Phase.HARVESTING) is Phase.HARVESTING
    assert settings_in(Phase.NONE, phased) is phased
    assert settings_in(Phase.LEARNING, phased).classify.meta == "unanimous"
    assert settings_in(Phase.HARVESTING, phased).classify.meta == "weighted"


def test_the_rule_that_the_user_names_is_kept_in_both_phases() -> None:
    """Only `auto` leaves the choice to the phase, also where the named rule is the one that `auto` is without phases."""
    for rule in ("mean", "majority", "best"):
        chosen = override(Settings(), {"learn.phases": True, "classify.meta": rule})
        assert {settings_in(phase, chosen).classify.meta for phase in Phase} == {rule}


def test_learning_ends_by_time_over_restarts(stray: Callable[..., Collection]) -> None:
    """Learning returns to the user after `learning_time_s`, though pages and links are left. Time of the run before
    counts, and time before learning began does not."""
    slow = {"fetch__host_delay_s": 0.12, "fetch__per_host": 1, "fetch__in_flight": 1, "frontier__tunnel_steps": 50}
    collection = stray(limits__max_time_s=0.8, learn__phases=False, scope__only_domains=["a.test"], **slow)
    assert "time limit" in collection.crawl().reason
    learning = {"learn.phases": True, "learn.learning_time_s": 1.2}
    assert "time limit" in collection.crawl(settings={"limits.max_time_s": 1.6, **learning}).reason
    ended = collection.crawl(settings={"limits.max_time_s": 0.0})
    assert ended.reason == PAUSED and ended.waiting > 0
    assert any("1.2 s of learning" in said for said in phases_of(collection))
    learned_s = ended.elapsed_s - collection.status().counters["learning_from_ms"] / 1000
    assert 0.7 < collection.status().counters["learning_from_ms"] / 1000 < 1.5
    assert 1.2 <= learned_s < 6.0


def test_a_named_rule_needs_no_model_for_the_harvest(make_taught: MakeTaught) -> None:
    """With a rule of the user every model combines votes by it, before and after learning."""
    collection = make_taught(limits__max_pages=60, classify__meta="majority", **LEARNING)
    collection.crawl()
    assert phases_of(collection)[-1].startswith("harvesting:")
    settings = [text for (text,) in collection.sql("SELECT settings FROM models").rows]
    assert settings and all('meta = "majority"' in text for text in settings)


def test_sharp_focus() -> None:
    """The deepest URL comes first, seeds before all; what is too deep, of another domain, or reached through too many
    pages of other classes waits in the database."""
    settings = override(Settings(), {"fetch.host_delay_s": 0.0, "frontier.tunnel_steps": 1})
    strategy = SharpFocus(settings.frontier, ["a.test"], max_depth=3)
    frontier = Frontier(settings, strategy, ScopeFilter(settings.scope, frozenset()))

    def add(oid: int, host: str, depth: int, steps: int = 0) -> None:
        url = QueuedUrl(oid, f"http://{host}/{oid}", frontier.host(host), 0, depth, 0.5)
        url.steps = steps
        frontier.tiers.prioritise([url])
        frontier.tiers.add(url)

    add(0, "a.test", 1)
    add(1, "www.a.test", 3)
    add(2, "a.test", 4)
    add(3, "b.test", 1)
    add(4, "b.test", 0)
    add(5, "a.test", 2, steps=1)
    add(6, "a.test", 2, steps=2)
    for host in frontier.hosts:
        host.origin("http").contacted_s = 1.0
    assert [lease.oid for lease in frontier.take(2.0, 10)] == [4, 1, 5, 0]
    assert frontier.waiting == 3
    page = QueuedUrl(9, "http://a.test/9", frontier.host("a.test"), 2, 1, 0.5)
    page.steps = 1
    assert strategy.steps_at(page, Judgement(2, True, 0.9, 0.9)) == 0
    assert strategy.steps_at(page, Judgement(3, True, 0.9, 0.9)) == 2
    assert strategy.steps_at(page, None) == 2


@pytest.fixture
def stray(tmp_path: Path) -> Iterator[Callable[..., Collection]]:
    """Owls, beside which a way leads along a river; every page also links to many pages of another domain."""

    def outside(n: int) -> list[tuple[int | str, str]]:
        return [(f"http://b.test/{n}/{i}", "b") for i in range(30)]

    web = Web()
    for i in range(8):
        near = (("/river/0", "river"), (f"/owl/{(i + 1) % 8}", "owl"), *outside(i))
        web.pages.append(Page(text(i, owl=0.4), title=f"owl {i}", url=f"http://a.test/owl/{i}", links=near))
    for i in range(20):
        near = ((f"/river/{i + 1}", "river"), *outside(100 + i))
        words = text(100 + i, river=0.4)
        web.pages.append(Page(words, title=f"river {i}", url=f"http://a.test/river/{i}", links=near))

    with web.served() as server:

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
    ask = StoreReader.next_waiting
    monkeypatch.setattr(StoreReader, "next_waiting", lambda *a, **k: refills.append(1) or ask(*a, **k))
    collection = stray(frontier__hot_urls=20, fetch__host_delay_s=0.3, fetch__per_host=1)
    status = collection.crawl()
    asked = [url for (url,) in collection.sql("SELECT url FROM crawl WHERE state = 'fetched'").rows]
    assert [url for url in asked if "river" in url] == ["http://a.test/river/0"]
    assert not [url for url in asked if "b.test" in url]
    assert len(refills) <= 6
    [(waiting,)] = collection.sql("SELECT count(*) FROM crawl WHERE state = 'waiting'").rows
    assert status.waiting == waiting > 100


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


EMPTY = Document("", "", "", "", "", "", Links(), b"", b"", [], 0, b"")


def test_the_order_that_the_user_chose_last_counts(
    make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch, engines: list[Engine]
) -> None:
    """An order chosen while the harvest's is being prepared is not overruled by that."""
    collection = make_taught(limits__max_pages=70, frontier__strategy="evidence", **LEARNING)
    teach = Engine._warm_up

    async def choose_meanwhile(self: Engine, strategy: Any) -> None:
        await teach(self, strategy)
        if isinstance(strategy, LearningStrategy):
            settings = override(self.settings, {"frontier.strategy": "breadth-first"})
            await self.change_strategy(make_strategy(settings.frontier))
            self.settings = settings

    monkeypatch.setattr(Engine, "_warm_up", choose_meanwhile)
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
    links = Links.of(Link(url.url, 0, "owl", "", Region.MAIN, place) for place, url in enumerate(urls))
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


@pytest.mark.parametrize("is_phased", [True, False])
@pytest.mark.parametrize("strategy", ["best-first", "best-n-first", "sql"])
def test_an_order_given_while_learning_loses_no_seed(
    make_taught: MakeTaught, small_server: LocalServer, strategy: str, is_phased: bool
) -> None:
    """An order that comes while examples are awaited lets all of them come before any link; a harvest follows it."""
    phases = {"learn__phases": True, "learn__learning_pages": 30} if is_phased else {}
    collection = make_taught(learn__synchronous=True, **phases)
    changed: list[Any] = []

    def change(status: Any) -> None:
        if not changed and status.in_flight:
            changed.append(threading.Thread(target=apply))
            changed[0].start()

    def apply() -> None:
        order = "relevance DESC" if strategy == "sql" else ""
        ask(collection.folder, "_change_order", {"strategy": strategy, "order_by": order, "n": 0})

    ended = collection.crawl(on_tick=change)
    changed[0].join()
    seeds = collection.sql("SELECT state, outcome, count(*) FROM crawl JOIN seeds USING (url) GROUP BY ALL").rows
    assert not [row for row in seeds if row[0] == "waiting"], seeds
    visited = "SELECT url IN (SELECT url FROM seeds) FROM pages JOIN crawl USING (oid) ORDER BY pages.visited"
    are_seeds = [is_seed for (is_seed,) in collection.sql(visited).rows]
    assert are_seeds == sorted(are_seeds, reverse=True)
    assert collection.sql("SELECT count(*) FROM models").rows[0][0] > 0
    assert ended.strategy == strategy
    if is_phased:
        assert any("harvesting" in notice["text"] for notice in ended.notices)
