"""Defects of learning that were found by hunting for them, each kept from coming back."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import TAUGHT_TOPICS, MakeTaught
from fetch_servers import Handler, WebServer, html, reply
from opilio import Collection
from opilio.cli import demo
from opilio.crawl import worker
from opilio.crawl.operations.client import NOTE
from opilio.errors import InputError, OpilioError, SettingsError
from opilio.lab.local_web import LocalServer
from opilio.learn import rejudging, training_data
from opilio.model import Document, Judgement, Lease
from opilio.process import start
from opilio.store import judgements as store_judgements


def crawl_beside(collection: Collection) -> threading.Thread:
    """Crawl in another thread."""
    thread = threading.Thread(target=collection.crawl)
    thread.start()
    wait_for((collection.folder / NOTE).exists)
    return thread


def wait_for(is_so: Callable[[], object], timeout_s: float = 30.0) -> None:
    """Wait until something is so."""
    until_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def slowly(work: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """The same work, after a while."""

    def waiting(*given: Any) -> Any:
        time.sleep(seconds)
        return work(*given)

    return waiting


def model_count(collection: Collection) -> int:
    """How many models there are."""
    return int(collection.sql("SELECT count(*) FROM models").rows[0][0])


def test_links_keep_their_words_while_they_wait_in_the_database(
    make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words of the link, and the page it was found on, are evidence also after a refill and after a restart.

    Of a page that must not be stored (noindex) only its links are kept: such a page tells nothing of where it leads.
    """
    seen: list[Lease] = []
    judge = worker.PageJudge.judge

    def spy(self: worker.PageJudge, document: Document, lease: Lease) -> Judgement:
        seen.append(lease)
        return judge(self, document, lease)

    monkeypatch.setattr(worker.PageJudge, "judge", spy)
    spaces = ["terms", "terms+anchors", "terms+neighbours"]
    collection = make_taught(classify__classifier="svm", classify__spaces=spaces)
    for pages in (60, 100):
        seen.clear()
        collection.crawl(settings={"limits.max_pages": pages})
        found = """
            SELECT c.oid, c.parent IN (SELECT oid FROM pages)
            FROM crawl c JOIN links l ON l.oid_dst = c.oid AND l.oid_src = c.parent WHERE l.anchor <> ''
        """
        told = dict(collection.sql(found).rows)
        linked = [lease for lease in seen if lease.oid in told]
        assert len([lease for lease in linked if told[lease.oid]]) > 20
        assert not [lease.url for lease in linked if not lease.anchor]
        assert not [lease.url for lease in linked if told[lease.oid] and not lease.neighbours]


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
    wait_for(lambda: model_count(collection))
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
        wait_for(lambda: collection.sql(still_to_come).rows == [(0,)])
        pages = collection.status().pages
        wait_for(lambda: collection.status().pages > pages + 5)
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
        wait_for(lambda: model_count(collection))
    finally:
        collection.stop()
        crawl.join()
    assert time.monotonic() - began_s < 30
    assert collection.sql("SELECT documents FROM models WHERE version = 1").rows[0][0] >= 14


def test_an_example_that_moved_is_learned_from(tmp_path: Path) -> None:
    """Where it moved to is asked for like the example itself, not after the longest wait for examples."""
    words = {name: f"<title>{name}</title>{f'{name} birds nest and feed at dusk ' * 30}" for name in ("owl", "hawk")}
    routes: dict[str, bytes | Handler] = {
        "/owl": html((words["owl"] + '<a href="/more">more</a>').encode()),
        "/old": reply(status="301 Moved", Location="/hawk"),
        "/hawk": html(words["hawk"].encode()),
        "/more": html(b"<title>more</title>of it"),
    }
    with WebServer(routes) as server:
        file = tmp_path / "examples.txt"
        file.write_text("http://docs.test/owl\nhttp://docs.test/old\n")
        settings = {"fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.2, "run.workers": -1}
        settings |= {"classify.classifier": "bayes"}
        collection = Collection.create(tmp_path / "c", examples=file, settings=settings)
        began_s = time.monotonic()
        collection.crawl()
    assert time.monotonic() - began_s < 30
    assert collection.sql("SELECT documents FROM models").rows == [(2,)]


def test_training_ends_with_its_engine() -> None:
    """A process whose model nobody would take does not stay behind."""
    child = start("opilio.process.child:answer_call")
    child.channel.close()
    try:
        assert child.process.wait(20) in (0, -signal.SIGTERM)  # it has not read anything yet, or watches the channel
    finally:
        child.close()


def test_a_demo_without_pages_still_says_what_to_do(make_taught: MakeTaught) -> None:
    """Of a demo in which nothing but bookmarks was fetched, or nothing at all, no page can be named as the best."""
    collection = make_taught(limits__max_pages=1)
    assert demo._example(collection) == "URL"
    collection.crawl()
    assert demo._example(collection).startswith("http://")
