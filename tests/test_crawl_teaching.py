"""From bookmarks to judgements: examples are fetched, a model is trained beside the crawl, pages are judged by it."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import TAUGHT_TOPICS, MakeTaught
from opilio import Collection, learn
from opilio.crawl.phases import Phases
from opilio.crawl.status import Status
from opilio.errors import InputError, QueryError, SettingsError
from opilio.lab.local_web import LocalServer
from opilio.learn import trainer, training_data
from opilio.model import RELEVANT, TrainingReason
from opilio.process import Child
from opilio.settings import Settings
from running_crawls import LEARNING, crawl_beside, ends, phases_of, wait_for, wait_until
from webs import Page, Web


def versions(collection: Collection) -> list[int]:
    """The models there are, oldest first."""
    return [version for (version,) in collection.sql("SELECT version FROM models ORDER BY version").rows]


@pytest.mark.parametrize("classifier", ["svm", "bayes", "oasis"])
def test_bookmarks_become_judgements(classifier: str, make_taught: MakeTaught, small_server: LocalServer) -> None:
    """One model from the bookmarks, of which three folders are wanted; every page is judged by it, the examples are
    what the user says they are, and of the other pages judged relevant most are: the local web knows their topics."""
    web = small_server.web
    bookmarks = web.bookmarks(list(web.topics))
    # By default, oasis redraws its filter after 100 relevant pages. This crawl finds 97 to 103.
    told = {"limits__max_pages": 200, "run__workers": 1, "oasis__redraw_after": 1000}
    collection = make_taught(bookmarks, classify__classifier=classifier, **told)
    for topic in set(web.topics) - set(TAUGHT_TOPICS):
        collection.mark(topic, good=False)
    status = collection.crawl()
    assert collection.sql("SELECT version, reason FROM models").rows == [(1, TrainingReason.FIRST)]
    assert status.model.startswith(f"model 1 ({classifier}, ")
    assert collection.sql("SELECT DISTINCT model_version FROM pages").rows == [(1,)]
    wanted = "url IN (SELECT training.name FROM training JOIN topics USING (kcid) WHERE type = 'good')"
    examples = collection.sql(f"SELECT relevance FROM collection WHERE {wanted}").rows
    assert len(examples) >= 14
    assert all(relevance == 1.0 for (relevance,) in examples)
    found = collection.sql(
        f"SELECT url, topic FROM collection WHERE relevance >= {RELEVANT} AND url NOT IN (SELECT name FROM training)"
    ).rows
    right = sum(url in web.pages and web.pages[url].topic == topic for url, topic in found)
    assert len(found) >= 15
    assert right / len(found) > 0.5, "by chance it would be less than a quarter"


@pytest.mark.parametrize("max_pages", [1, 60])
def test_the_first_training_is_prepared_while_its_examples_are_fetched(
    max_pages: int, make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of a large one starts before all examples are there, and no other is prepared; that of a crawl that ends before it can
    train is ended with it."""
    collection = make_taught(run__workers=1, limits__max_pages=max_pages)
    prepared: list[tuple[Child, int]] = []
    seen: list[Status] = []
    prepare_training = learn.prepare_training
    monkeypatch.setattr(trainer, "FEW_DOCUMENTS", 0)

    def prepare(settings: Settings, examples: int) -> Child | None:
        child = prepare_training(settings, examples)
        assert child is not None
        prepared.append((child, seen[-1].pages if seen else 0))
        return child

    monkeypatch.setattr(learn, "prepare_training", prepare)
    collection.crawl(on_tick=seen.append)
    assert versions(collection) == ([1] if max_pages > 1 else [])
    [(child, pages)] = prepared
    assert pages < len(collection.examples())
    assert child.process.poll() is not None


def test_what_is_fetched_before_there_is_a_judge(make_taught: MakeTaught) -> None:
    """Until the first model only examples are asked for, and what leads to them: not the links found on them."""
    collection = make_taught()
    collection.crawl()
    blind = collection.sql(
        "SELECT count(*) FROM visits v JOIN crawl c USING (oid) JOIN models m ON v.visited < m.created "
        "WHERE v.kind = 'page' AND c.depth > 0"
    ).rows[0][0]
    assert blind <= 2


def test_a_new_model_reaches_the_workers_of_a_running_crawl(make_taught: MakeTaught, small_server: LocalServer) -> None:
    """An example added meanwhile: a second model is trained, later pages are judged by it, and the crawl never stopped."""
    bookmarks = small_server.web.bookmarks(TAUGHT_TOPICS, per_topic=2)
    collection = make_taught(
        bookmarks,
        fetch__host_delay_s=1.0,
        limits__max_pages=0,
        limits__max_time_s=150.0,
        run__workers=2,
        classify__classifier="svm",
    )
    later = "FROM pages, models WHERE version = 2 AND visited > created + INTERVAL 2 SECOND"
    crawl = crawl_beside(collection)
    try:
        wait_for(collection, lambda: collection.status().running and versions(collection) == [1])
        added = next(url for url, page in small_server.web.pages.items() if page.topic == "networking")
        assert collection.add_example("statistics", added, positive=False) == added
        wait_for(collection, lambda: 2 in versions(collection))
        wait_for(collection, lambda: collection.sql(f"SELECT count(*) {later}").rows[0][0] > 10)
        told = collection.explain(next(iter(collection.sql("SELECT url FROM collection LIMIT 1").rows))[0])
        assert told["judgement"]["model_version"] == 2
    finally:
        collection.stop()
        crawl.join()
    assert collection.sql("SELECT count(*) FROM runs").rows == [(1,)]
    assert collection.sql(f"SELECT DISTINCT model_version {later}").rows == [(2,)]
    before = collection.sql("SELECT count(DISTINCT model_version) FROM judgements").rows
    assert before[0][0] >= 2, "judgements of older models are kept"


def test_a_mark_changed_by_sql_is_noticed(make_taught: MakeTaught, small_server: LocalServer) -> None:
    """Focus 3.7: one UPDATE while the crawl runs changes what is wanted; pages of that topic count no more."""
    bookmarks = small_server.web.bookmarks(TAUGHT_TOPICS, per_topic=2)
    collection = make_taught(
        bookmarks,
        fetch__host_delay_s=0.6,
        limits__max_pages=0,
        limits__max_time_s=60.0,
        run__workers=1,
        classify__classifier="svm",
    )
    crawl = crawl_beside(collection)
    try:
        wait_for(collection, lambda: collection.status().running and versions(collection) == [1])
        collection.sql("UPDATE topics SET type = 'null' WHERE name = 'statistics'", write=True)
        wait_for(collection, lambda: 2 in versions(collection))
    finally:
        collection.stop()
        crawl.join()
    wanted = collection.sql("SELECT count(*) FROM collection WHERE topic = 'statistics' AND relevance >= 0.5").rows
    assert wanted == [(0,)]
    assert {topic["topic"]: topic["mark"] for topic in collection.topics()}["statistics"] == "null"


def test_a_topic_whose_examples_cannot_be_fetched(make_taught: MakeTaught, small_server: LocalServer) -> None:
    """The crawl goes on, and says what is missing or what it did about it."""
    bookmarks = small_server.web.bookmarks(["statistics"])
    folder = '<DT><H3>lost</H3>\n<DL><p>\n<DT><A HREF="http://nowhere.directory.test/x">Zyzzyva</A>\n</DL><p>\n</DL><p>'
    collection = make_taught(bookmarks=bookmarks.rsplit("</DL><p>", 1)[0] + folder, limits__max_pages=60)
    status = collection.crawl()
    assert status.pages == 60
    told = json.dumps([status.model, status.counters])
    assert "model 1" in told or "lost" in told


def test_training_goes_on_after_a_crash(make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl that ended before its first model has it trained by the next one."""
    collection = make_taught(limits__max_pages=20)
    with monkeypatch.context() as patched:
        patched.setattr("opilio.learn.trainer.train_off_loop", lambda *_: (_ for _ in ()).throw(InputError("no power")))
        status = collection.crawl()
    assert "no power" in status.model
    assert versions(collection) == []
    collection.crawl(settings={"limits.max_pages": 40})
    assert versions(collection) == [1]
    assert collection.sql("SELECT count(*) FROM pages WHERE model_version IS DISTINCT FROM 1").rows == [(0,)]


def test_teaching_a_collection_at_rest(make_taught: MakeTaught, tmp_path: Path) -> None:
    """Marks and examples are changed in the database; training judges all pages anew; older models still explain."""
    collection = make_taught(classify__classifier="svm")
    collection.crawl()
    assert collection.mark("data compression", good=False) == {"data compression": "null"}
    note = tmp_path / "note.txt"
    note.write_text("Entropy coding squeezes redundancy out of streams of symbols. " * 5)
    name = collection.add_example("statistics", str(note), positive=False)
    assert collection.train() == 2
    assert collection.sql(
        "SELECT count(*) FROM collection WHERE topic = 'data compression' AND relevance >= 0.5"
    ).rows == [(0,)]
    assert collection.sql("SELECT count(*) FROM pages WHERE model_version <> 2").rows == [(0,)]
    collection.drop_example("statistics", name)
    with pytest.raises(InputError, match="no example"):
        collection.drop_example("statistics", name)
    with pytest.raises(InputError, match="no topic 'statistic'"):
        collection.mark("statistic", good=True)
    url = collection.sql(
        "SELECT url FROM collection WHERE topic = 'cryptography' ORDER BY relevance DESC LIMIT 1"
    ).rows[0][0]
    new, old = collection.explain(url), collection.explain(url, version=1)
    assert (new["judgement"]["model_version"], old["judgement"]["model_version"]) == (2, 1)
    assert new["way"][-1]["url"] == url
    with pytest.raises((InputError, QueryError), match="no model 9"):
        collection.explain(url, version=9)


def test_what_was_taught_at_rest_is_learned_by_the_next_crawl(make_taught: MakeTaught) -> None:
    """A mark changed while no crawl ran: the next crawl begins with a new model; the one after it does not."""
    collection = make_taught(limits__max_pages=30, classify__classifier="svm")
    collection.crawl()
    collection.mark("statistics", good=False)
    collection.crawl(settings={"limits.max_pages": 40})
    collection.crawl(settings={"limits.max_pages": 50})
    assert versions(collection) == [1, 2]
    assert collection.sql("SELECT count(*) FROM collection WHERE topic = 'statistics' AND relevance >= 0.5").rows == [
        (0,)
    ]


def test_a_query_alone_is_judged_by_its_words(small_server: LocalServer, tmp_path: Path) -> None:
    """Three words are no document to learn from: no model is made of them, and the cosine judges."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://directory.test/")
    settings = {
        "fetch.connect_to": small_server.connect_to,
        "fetch.host_delay_s": 0.0,
        "limits.max_pages": 40,
        "run.workers": -1,
    }
    collection = Collection.create(tmp_path / "c", seeds=seeds, query="hash functions", settings=settings)
    status = collection.crawl()
    assert versions(collection) == []
    assert status.harvest is not None
    assert status.model == "keywords"


def test_the_variable_part_of_a_filter_is_drawn_anew(make_taught: MakeTaught) -> None:
    """OASIS: after so many recommended documents a new version of the filter judges, while the crawl goes on."""
    collection = make_taught(classify__classifier="oasis", oasis__redraw_after=20, limits__max_pages=150)
    collection.crawl()
    reasons = [reason for (reason,) in collection.sql("SELECT reason FROM models ORDER BY version").rows]
    assert reasons[0] == TrainingReason.FIRST
    assert set(reasons[1:]) == {TrainingReason.REDRAWN}


def test_an_expert_chooses_the_filter(make_taught: MakeTaught, tmp_path: Path) -> None:
    """What the examples propose is written to a file; what is left of it in the file is the filter."""
    collection = make_taught(limits__max_pages=30)
    collection.crawl()
    file = tmp_path / "filter.toml"
    assert collection.propose(file) == 3
    lines = file.read_text().splitlines()
    kept = [line for line in lines if "=" not in line or "hash" in line or "compress" in line or "mean" in line]
    file.write_text("\n".join(kept))
    collection.change_settings({"classify.classifier": "oasis", "oasis.filter": str(file)})
    assert collection.train() == 2
    told = collection.explain("http://hashes.python.test/hashlib/")
    found = {reason["feature"] for step in told["steps"] for reason in step["reasons"]}
    assert any("hash" in feature for feature in found)


def test_a_counter_example_keeps_its_like_out(make_taught: MakeTaught, small_server: LocalServer) -> None:
    """A page that a topic takes and should not: given to the topic as a counter-example, it is taken no more."""
    web = small_server.web
    collection = make_taught(web.bookmarks(["statistics"]), limits__max_pages=200, classify__classifier="svm")
    collection.crawl()
    wrong = [
        url
        for (url,) in collection.sql("SELECT url FROM collection WHERE relevance >= 0.5 ORDER BY relevance DESC").rows
        if url in web.pages and web.pages[url].topic not in ("statistics", "")
    ]
    assert wrong, "the examples alone should not suffice here"
    for url in wrong[:3]:
        collection.add_example("statistics", url, positive=False)
    collection.train()
    listed = ", ".join(f"'{url}'" for url in wrong[:3])
    assert collection.sql(f"SELECT count(*) FROM collection WHERE relevance >= 0.5 AND url IN ({listed})").rows == [
        (0,)
    ]


def test_an_example_that_waits_as_a_mere_link_is_asked_for_next(
    make_taught: MakeTaught, small_server: LocalServer
) -> None:
    """Named as an example while the crawl runs, a URL far back in the queue is fetched at once and learned from."""
    bookmarks = small_server.web.bookmarks(TAUGHT_TOPICS, per_topic=2)
    collection = make_taught(
        bookmarks, fetch__host_delay_s=0.8, limits__max_pages=0, limits__max_time_s=60.0, classify__classifier="svm"
    )
    crawl = crawl_beside(collection)
    try:
        wait_for(collection, lambda: collection.status().running and versions(collection) == [1])
        worst = "SELECT url FROM crawl WHERE state = 'waiting' AND depth > 0 ORDER BY relevance, oid DESC LIMIT 1"
        wait_for(collection, lambda: bool(collection.sql(worst).rows))
        ((url,),) = collection.sql(worst).rows
        collection.add_example("statistics", url)
        wait_for(collection, lambda: 2 in versions(collection))
        assert collection.sql(f"SELECT count(*) FROM crawl WHERE url = '{url}' AND state = 'waiting'").rows == [(0,)]
    finally:
        collection.stop()
        crawl.join()


def slowly(work: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """The same work, after a while."""

    def waiting(*given: Any) -> Any:
        time.sleep(seconds)
        return work(*given)

    return waiting


def model_count(collection: Collection) -> int:
    """How many models there are."""
    return int(collection.sql("SELECT count(*) FROM models").rows[0][0])


def test_explain_follows_redirects_and_says_when_a_file_is_empty(
    make_taught: MakeTaught, small_server: LocalServer, tmp_path: Path
) -> None:
    """A URL that was asked for under another address is explained by its page."""
    collection = make_taught(limits__max_pages=40)
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(sorted(small_server.web.redirects)[:9]))
    assert collection.add(seeds=seeds) == 9
    collection.crawl()
    moved = """
        SELECT a.url, p.title FROM redirects JOIN crawl a ON a.oid = oid_src JOIN pages p ON p.oid = oid_dst LIMIT 1
    """
    url, title = collection.sql(moved).rows[0]
    assert collection.explain(url)["title"] == title
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    with pytest.raises(InputError, match="no text"):
        collection.explain(str(empty))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("classify.classifier", "smv", "svm"),
        ("classify.spaces", ["terms", "terms+ancors"], "anchors"),
        ("classify.spaces", [], "terms"),
    ],
)
def test_wrong_names_are_found_before_anything_is_fetched(
    name: str, value: Any, said: str, make_taught: MakeTaught
) -> None:
    """A slip in the settings of learning is an error at once, not a crawl without a judge; the settings stay good."""
    collection = make_taught(classify__classifier="svm")
    with pytest.raises(SettingsError) as caught:
        collection.change_settings({name: value})
    assert said in caught.value.hint
    assert collection.settings.classify.classifier == "svm"
    assert Collection(collection.folder).settings == collection.settings


def test_keywords_learn_nothing(make_taught: MakeTaught) -> None:
    """No model is made of a classifier that has none: it would not judge anyway."""
    collection = make_taught(classify__classifier="keywords", limits__max_pages=20)
    collection.crawl()
    with pytest.raises(InputError, match="learns nothing"):
        collection.train()
    assert model_count(collection) == 0


def test_nothing_is_learned_where_no_terms_are_kept(make_taught: MakeTaught) -> None:
    """Pages without terms cannot be judged: an example added while such a crawl runs does not change that."""
    collection = make_taught(store__terms=False, limits__max_pages=0, fetch__host_delay_s=0.2)
    still_to_come = (
        "SELECT count(*) FROM training LEFT JOIN crawl ON crawl.url = training.name "
        "WHERE training.name LIKE 'http%' AND coalesce(crawl.state, 'waiting') = 'waiting'"
    )
    crawl = crawl_beside(collection)
    try:
        collection.add_example("statistics", "text:" + "mean and median of a sample " * 10)
        with pytest.raises(InputError, match="terms of pages are not stored"):
            collection.train()
        wait_until(lambda: collection.sql(still_to_come).rows == [(0,)])
        pages = collection.status().pages
        wait_until(lambda: collection.status().pages > pages + 5)
    finally:
        collection.stop()
        crawl.join()
    assert model_count(collection) == 0, "a crawl that ends waits for a training under way"


def test_teaching_at_the_same_time(make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three commands take the mark of one topic each away; the last of them is refused, for one must stay good."""
    collection = make_taught(limits__max_pages=0, fetch__host_delay_s=0.5)
    monkeypatch.setattr(training_data, "apply", slowly(training_data.apply, 0.5))
    crawl = crawl_beside(collection)
    refused: list[str] = []

    def mark(topic: str) -> None:
        try:
            collection.mark(topic, good=False)
        except InputError as error:
            refused.append(error.message)

    threads = [threading.Thread(target=mark, args=(topic,)) for topic in TAUGHT_TOPICS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    collection.stop()
    crawl.join()
    assert len(refused) == 1
    assert [topic["mark"] for topic in collection.topics()].count("good") == 1


def test_a_large_file_is_explained_while_a_crawl_runs(make_taught: MakeTaught, tmp_path: Path) -> None:
    """Its text goes to the crawl as one request, whatever its letters."""
    collection = make_taught(limits__max_pages=0, fetch__host_delay_s=0.5)
    file = tmp_path / "large.txt"
    file.write_text("статистика и регрессия " * 40_000, encoding="utf-8")
    crawl = crawl_beside(collection)
    try:
        assert collection.explain(str(file))["judgement"]["relevance"] < 0.5
    finally:
        collection.stop()
        crawl.join()


def test_a_sql_order_does_not_keep_the_examples_waiting(make_taught: MakeTaught) -> None:
    """Nothing is in memory under a SQL order, so holding links back held the examples back too: for a minute."""
    collection = make_taught(
        frontier__strategy="sql", frontier__order_by="numtries, relevance DESC", limits__max_pages=0
    )
    began_s = time.monotonic()
    crawl = crawl_beside(collection)
    try:
        wait_until(lambda: model_count(collection))
    finally:
        collection.stop()
        crawl.join()
    assert time.monotonic() - began_s < 30
    assert collection.sql("SELECT documents FROM models WHERE version = 1").rows[0][0] >= 14


def test_an_example_that_moved_is_learned_from(tmp_path: Path) -> None:
    """Where it moved to is asked for like the example itself, not after the longest wait for examples."""
    words = {name: f"{name} birds nest and feed at dusk " * 30 for name in ("owl", "hawk")}
    web = Web(
        [
            Page(words["owl"], title="owl", url="/owl", links=(("/more", "more"),)),
            Page(url="/old", redirect="/hawk"),
            Page(words["hawk"], title="hawk", url="/hawk"),
            Page("of it", title="more", url="/more"),
        ]
    )
    with web.served() as server:
        file = tmp_path / "examples.txt"
        file.write_text("http://docs.test/owl\nhttp://docs.test/old\n")
        settings = {"fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.2, "run.workers": -1}
        settings |= {"classify.classifier": "bayes"}
        collection = Collection.create(tmp_path / "c", examples=file, settings=settings)
        began_s = time.monotonic()
        collection.crawl()
    assert time.monotonic() - began_s < 30
    assert collection.sql("SELECT documents FROM models").rows == [(2,)]


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
