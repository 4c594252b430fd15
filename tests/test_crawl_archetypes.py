"""A crawl that teaches itself: rounds of archetypes beside it, a guard against drift, and the user's word on both."""

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from conftest import TAUGHT_TOPICS, MakeTaught
from fetch_servers import WebServer
from learn_webs import OwlWeb
from opilio import Collection, learn
from opilio.cli import cli
from opilio.crawl import engine
from opilio.crawl.engine import Engine
from opilio.crawl.operations.client import NOTE
from opilio.crawl.teacher import Teacher
from opilio.errors import InputError, SettingsError
from opilio.lab.local_web import LocalServer
from opilio.learn.guard import confidences
from opilio.learn.training_state import examples_in, examples_to_fetch
from opilio.model import TrainingCause, TrainingReason
from opilio.store import Store
from running_crawls import ends


def crawl_beside(collection: Collection) -> threading.Thread:
    """Crawl in another thread."""
    thread = threading.Thread(target=collection.crawl)
    thread.start()
    wait_for((collection.folder / NOTE).exists)
    return thread


def wait_for(is_so: Callable[[], object], timeout_s: float = 90.0) -> None:
    """Wait until something is so."""
    until_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def reasons(collection: Collection) -> list[str]:
    """Why models were trained, oldest first."""
    return [model["reason"] for model in reversed(collection.models())]


class Owls:
    """Owls by six examples, and more of them around."""

    def __init__(self, server: WebServer, web: OwlWeb, folder: Path, examples: list[str], others: list[str]) -> None:
        self._server, self.web, self._folder = server, web, folder
        self._taxonomy = web.taxonomy(folder, {"Owls": examples}, others)

    def make(self, **changes: Any) -> Collection:
        """A collection that teaches itself after ten pages."""
        chosen = {"learn__retrain_after": 10, "learn__above_mean": False, "classify__classifier": "bayes"}
        chosen |= {"fetch__host_delay_s": 0.05, "fetch__per_host": 1} | changes
        return self.web.collection(self._server, self._folder / "c", self._taxonomy, **chosen)


@pytest.fixture
def owls(tmp_path: Path) -> Iterator[Owls]:
    """A web of owls, all of it good."""
    web = OwlWeb()
    examples = web.add("owl", 6, owl=0.3)
    web.add("more", 150, owl=0.4)
    with WebServer(web.routes()) as server:
        yield Owls(server, web, tmp_path, examples, [])


@pytest.fixture
def spammed(tmp_path: Path) -> Iterator[Owls]:
    """A web of casinos that mention owls, and that the first model takes for owls."""
    web = OwlWeb()
    examples, bets = web.add("owl", 6, owl=0.2), web.add("bet", 6, casino=0.1)
    web.add("spam", 30, owl=0.1, casino=0.6)
    with WebServer(web.routes()) as server:
        yield Owls(server, web, tmp_path, examples, bets)


def test_a_crawl_learns_from_what_it_found(owls: Owls) -> None:
    """Once enough is relevant, archetypes join, a model is made of them, all pages are judged by it, and the user is
    told. The next crawl has nothing to train, and archetypes are judged like other pages, not taken at the crawl's
    word."""
    collection = owls.make(limits__max_pages=50, learn__retrain_after=20, learn__authorities=5)
    status = collection.crawl()
    assert reasons(collection) == ["first model", "5 archetypes added, 0 removed"]
    assert status.counters["rounds of archetypes"] == 1
    [notice] = status.notices
    assert notice["kind"] == "archetypes"
    assert notice["text"].startswith("5 archetypes added, 0 removed; balanced accuracy on your own examples")
    assert "opilio archetypes list" in notice["remedy"]
    assert collection.sql("SELECT DISTINCT model_version FROM pages").rows == [(2,)]
    assert collection.sql("SELECT kind, count(*) FROM notices GROUP BY kind").rows == [("archetypes", 1)]
    with Store.open(collection.folder, read_only=True) as store:
        assert len(examples_in(store)) == len(examples_to_fetch(store)) == 6
        assert len(list(store.load_training())) == 11
    collection.crawl(settings={"limits.max_pages": 52})
    assert len(reasons(collection)) == 2
    listed = {topic["topic"]: topic for topic in collection.topics()}
    assert (listed["Owls"]["examples"], listed["Owls"]["archetypes"]) == (11, 5)


def test_rounds_come_later_and_later(owls: Owls) -> None:
    """After 10 relevant pages, then 20 more; the next would need 40 more, over restarts too."""
    collection = owls.make(limits__max_pages=30, learn__guard="off", learn__synchronous=True)
    first = collection.crawl()
    assert first.counters["rounds of archetypes"] == 1
    last = collection.crawl(settings={"limits.max_pages": 60})
    assert last.counters["rounds of archetypes"] == 2
    looked = last.counters["pages relevant when fetched before the last round of archetypes"]
    assert looked >= first.counters["pages relevant when fetched before the last round of archetypes"] + 20


def test_the_rule_keeps_the_unsure_out(owls: Owls) -> None:
    """BINGO 3.2: every archetype was surer than the mean of the training documents when it joined."""
    collection = owls.make(
        learn__above_mean=True, learn__retrain_after=30, learn__synchronous=True, limits__max_pages=60
    )
    collection.crawl()
    judged = collection.sql(
        "SELECT count(*), min(j.confidence) FROM training t JOIN crawl c ON c.url = t.name JOIN judgements j USING (oid) "
        "WHERE t.source = 'archetype' AND j.model_version = 1"
    ).rows
    assert judged[0][0] > 0
    with Store.open(collection.folder, read_only=True) as store:
        training = learn.gather(store, collection.settings)
        own = tuple(e for e in training.examples if "/owl/" in e.name)
        first = store.load_model(1)
    values = [v for v in confidences(replace(training, examples=own), collection.settings, first) if v is not None]
    assert judged[0][1] > min(values), "the mean then was of these documents, counted in fewer pages"


def test_drift_is_refused(spammed: Owls) -> None:
    """The pages found would lead the topic away: the model is refused with its figures, nothing of the round stays in
    the training set, the first model judges on, and the same set is not tried a second time."""
    collection = spammed.make(
        classify__classifier="svm", classify__meta="majority", learn__retrain_after=20, learn__synchronous=True
    )
    status = collection.crawl()
    assert reasons(collection) == ["first model"]
    assert status.counters["models refused"] == 1
    [notice] = status.notices
    assert notice["kind"] == "model"
    assert re.match(r"a model was refused \(\d+ archetypes added, 0 removed\): balanced accuracy", notice["text"])
    assert notice["remedy"]
    [refused] = collection.refused_models()
    assert refused["reason"] == notice["text"]
    listed = CliRunner().invoke(cli, ["models", str(collection.folder)])
    assert notice["text"] in listed.output and listed.exit_code == 0
    assert collection.sql("SELECT count(*) FROM training WHERE source = 'archetype'").rows == [(0,)]
    assert collection.sql("SELECT DISTINCT model_version FROM pages").rows == [(1,)]
    again = collection.crawl(settings={"learn.guard": "off"})
    assert again.counters["rounds of archetypes"] == 1, "too little was found since"
    assert reasons(collection) == ["first model"]


def test_a_companion_can_ask_for_a_round(spammed: Owls, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Teacher.teach_itself`, as the phases call it: twice at once, one after the other; the second comes to the set
    that was just refused, and does not try it again."""
    heard: list[learn.Round] = []
    tasks: list[asyncio.Task[None]] = []

    class Asking(Teacher):
        def look(self) -> None:
            super().look()
            frontier = self._absorber.frontier
            if not tasks and self.version and not frontier.waiting and not frontier.in_flight:
                tasks.extend(asyncio.create_task(self._ask()) for _ in range(2))

        @property
        def is_busy(self) -> bool:
            return super().is_busy or not tasks or not all(task.done() for task in tasks)

        async def _ask(self) -> None:
            heard.append(await self.teach_itself("a phase ends"))

    monkeypatch.setattr(engine, "Teacher", Asking)
    status = spammed.make(classify__classifier="svm", learn__retrain_after=0).crawl()
    assert [one.verdict and one.verdict.accepted for one in heard] == [False, None], "refused, and not tried again"
    assert heard[0].added == heard[1].added != ()
    assert status.counters["models refused"] == 1
    assert status.counters["rounds of archetypes"] == 2


def test_fetching_goes_on_during_a_round(owls: Owls, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that takes seconds holds nothing up: pages are stored meanwhile, and the model comes all the same."""
    times: list[float] = []

    def slowly(*given: Any) -> Any:
        times.append(time.time())
        time.sleep(1.5)
        times.append(time.time())
        return real(*given)

    real = learn.survey
    monkeypatch.setattr(learn, "survey", slowly, raising=False)
    collection = owls.make(learn__guard="off", limits__max_pages=150)
    collection.crawl()
    between = f"epoch(visited) BETWEEN {times[0]} AND {times[1]}"
    assert collection.sql(f"SELECT count(*) FROM pages WHERE {between}").rows[0][0] >= 5
    assert reasons(collection)[1].endswith("archetypes added, 0 removed")


def test_the_users_word_reaches_a_running_crawl(owls: Owls) -> None:
    """Listed, confirmed, rejected and trimmed while it runs: confirming trains nothing, rejecting does."""
    collection = owls.make(fetch__host_delay_s=1.2, limits__max_time_s=200.0)
    crawl = crawl_beside(collection)
    try:
        wait_for(lambda: len(reasons(collection)) == 2)
        assert collection.status().running
        found = [page for page in collection.archetypes("Owls") if page["state"] == "archetype"]
        assert found
        url = found[0]["url"]
        collection.confirm_archetype("Owls", url)
        assert collection.sql(f"SELECT source FROM training WHERE name = '{url}'").rows == [("confirmed",)]
        other = found[1]["url"]
        collection.reject_archetype("Owls", other)
        wait_for(lambda: "reject archetype: Owls" in reasons(collection))
        assert other not in {page["url"] for page in collection.archetypes()}
        words = collection.page_text(url)["text"].split()
        collection.trim_example("Owls", url, " ".join(words[:60]))
        wait_for(lambda: reasons(collection)[-1] == "trim example: Owls")
        assert "confirm archetype: Owls" not in reasons(collection)
    finally:
        collection.stop()
        crawl.join()
    assert collection.sql(f"SELECT relevance FROM collection WHERE url = '{url}'").rows == [(1.0,)], "it is an example"
    count = len(reasons(collection))
    collection.crawl(settings={"limits.max_pages": 1, "learn.retrain_after": 0})
    assert len(reasons(collection)) == count


def test_an_older_model_is_used_again_while_a_crawl_runs(make_taught: MakeTaught, small_server: LocalServer) -> None:
    """`opilio models --use 1` from another process: the old model gets a new version, and later pages are judged by it."""
    bookmarks = small_server.web.bookmarks(TAUGHT_TOPICS, per_topic=2)
    collection = make_taught(bookmarks, fetch__host_delay_s=0.6, limits__max_pages=0, limits__max_time_s=90.0)
    crawl = crawl_beside(collection)
    try:
        wait_for(lambda: len(reasons(collection)) == 1)
        program = [sys.executable, "-m", "opilio", "models", str(collection.folder)]
        used = subprocess.run([*program, "--use", "1"], capture_output=True, text=True, check=True)
        assert used.stdout.strip() == "model 1 is used again, as model 2"
        later = "FROM pages, models WHERE version = 2 AND visited > created"
        wait_for(lambda: collection.sql(f"SELECT count(*) {later}").rows[0][0] > 3)
        wait_for(lambda: collection.sql(f"SELECT DISTINCT model_version {later}").rows == [(2,)])
        listed = subprocess.run([*program, "--json"], capture_output=True, text=True, check=True)
        assert [model["reason"] for model in json.loads(listed.stdout)] == ["model 1 again", "first model"]
    finally:
        collection.stop()
        crawl.join()


def test_a_guard_that_cannot_work_is_named_before_anything_is_fetched(owls: Owls) -> None:
    """xi-alpha asks what bayes cannot say."""
    with pytest.raises(SettingsError, match="xi-alpha"):
        owls.make(learn__guard="xi-alpha").crawl()


def test_archetypes_without_a_model(owls: Owls) -> None:
    """Before a model there is nothing to list, and the error says what to do."""
    with pytest.raises(InputError, match="no model yet"):
        owls.make().archetypes()


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
