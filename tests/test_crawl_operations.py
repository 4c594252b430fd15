"""Operations are declared once: Python, the control socket and REST offer the same ones, with the same results."""

import asyncio
import contextlib
import inspect
import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from browsed import TOPICS, crawled
from opilio import Collection
from opilio.crawl.control import ControlServer
from opilio.crawl.operations import OPERATIONS, READS, STEERS, WRITES, Operation
from opilio.crawl.operations.client import BEGUN, NOTE, OperationClient, ask, is_running
from opilio.errors import CollectionBusy, CollectionError, InputError, QueryError, SettingsError
from opilio.model.training import TrainingCause, TrainingReason
from opilio.store import Store

PUBLIC = {name: operation for name, operation in OPERATIONS.items() if operation.is_public}
ALL = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
EACH_PUBLIC = pytest.mark.parametrize("operation", PUBLIC.values(), ids=PUBLIC)
TOPIC = TOPICS[1]


class Engine:
    """An engine as operations see it that have no `live` body: the database, and who is notified of changes."""

    def __init__(self, collection: Collection, store: Store) -> None:
        self.folder, self.settings, self.store = str(collection.folder), collection.settings, store
        self.learned: list[TrainingCause] = []
        self.claimed: list[str] = []
        self.commits = 0
        self.teacher = SimpleNamespace(learn_soon=self._learn_soon)
        self.steering = SimpleNamespace(claim=self._claim)
        self.asker = SimpleNamespace(counts=None)

    async def commit(self, *, wait: bool) -> None:
        self.commits += 1

    async def _learn_soon(self, cause: TrainingCause) -> None:
        self.learned.append(cause)

    async def _claim(self, urls: list[str]) -> None:
        self.claimed += urls

    def query(self, sql: str, *, write: bool, timeout_s: float) -> Any:
        return self.store.query(sql, write=write, timeout_s=timeout_s)


@contextlib.contextmanager
def served(collection: Collection) -> Iterator[Engine]:
    """The control socket of a collection, answering in another thread as that of a running crawl does."""
    started, ended = threading.Event(), threading.Event()
    engines: list[Engine] = []

    async def serve() -> None:
        with Store.open(collection.folder) as store:
            engines.append(Engine(collection, store))
            async with ControlServer(engines[0], collection.folder):  # type: ignore[arg-type]  # as much as is needed
                started.set()
                while not ended.is_set():
                    await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(20)
    try:
        yield engines[0]
    finally:
        ended.set()
        thread.join(20)


@pytest.fixture(scope="module")
def made(crawled_taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """A crawled collection with a model; tests that change something copy it."""
    return crawled(crawled_taught, tmp_path_factory.mktemp("operations"))


def copied(made: Collection, folder: Path) -> Collection:
    shutil.copytree(made.folder, folder)
    return Collection(folder)


# -- declarations


@ALL
def test_every_operation_says_what_it_is(operation: Operation[..., Any]) -> None:
    """A docstring, an access kind, a time limit; each argument and the result have types that JSON can carry."""
    assert operation.doc and operation.doc[0].isupper()
    assert operation.access in (READS, WRITES, STEERS)
    assert 1 <= operation.timeout_s <= 3600
    assert set(operation.about) <= set(operation.parameters)
    assert set(operation.renamed.values()) <= set(operation.parameters)
    schema = operation.schema()
    assert json.loads(json.dumps(schema)) == schema
    assert set(schema["properties"]) == set(operation.parameters)


@ALL
def test_a_running_crawl_takes_the_same_arguments(operation: Operation[..., Any]) -> None:
    """The body for a running crawl has the arguments, defaults and result of the other one."""
    if operation.live_function is None:
        assert operation.access is not STEERS or operation.runs_in_caller
        return
    mine, live = inspect.signature(operation.function), inspect.signature(operation.live_function)
    assert list(mine.parameters.values())[1:] == list(live.parameters.values())[1:]
    assert mine.return_annotation == live.return_annotation


@EACH_PUBLIC
def test_collection_has_a_method_for_each_operation(operation: Operation[..., Any]) -> None:
    """Same name, docstring, arguments and result, as help() and type checkers see them."""
    method = getattr(Collection, operation.name)
    assert inspect.getdoc(method) == operation.doc
    assert method.__qualname__ == f"Collection.{operation.name}"
    signature = inspect.signature(method)
    assert list(signature.parameters)[1:] == list(operation.parameters)
    assert signature.return_annotation == inspect.signature(operation.function).return_annotation


def test_former_names_are_accepted(made: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods and arguments that were renamed still work, with a notice of the new name."""
    called: list[tuple[str, Any]] = []
    monkeypatch.setattr(
        OperationClient,
        "call",
        lambda self, operation, *args, **kwargs: called.append((operation.name, args or kwargs)) or 1,
    )
    with pytest.warns(FutureWarning, match="rejudge"):
        made.train(judge_anew=False)  # type: ignore[call-arg]
    with pytest.warns(FutureWarning, match="restart_review"):
        made.review_anew(TOPIC)
    with pytest.warns(FutureWarning, match="forget_changes"):
        made.forget_lessons(3)
    assert called == [("train", {"rejudge": False}), ("restart_review", (TOPIC,)), ("forget_changes", (3,))]


def test_operations_load_what_they_need_when_they_are_called() -> None:
    """Who imports Collection does not wait for classifiers, the search index or the portal, nor for what only workers
    and exports need: a parser of HTML, libcurl, Parquet."""
    code = "import sys; from opilio import Collection; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "opilio.crawl.operations" in loaded
    assert not loaded & {"sklearn", "scipy", "tantivy", "fastapi", "pydantic", "opilio.search.index", "opilio.web"}
    assert not loaded & {"turbohtml", "pycurl", "fsspec", "pyarrow.parquet", "pyarrow.csv", "opilio.store.wacz"}


# -- the same results without a crawl and through a running one


READINGS: dict[str, dict[str, Any]] = {
    "search": {"question": "python", "size": 3},
    "similar": {"url": "PAGE", "n": 3},
    "portal": {},
    "topic_pages": {"topic": TOPIC, "per_page": 5},
    "page": {"url": "PAGE"},
    "pages": {"urls": ["PAGE"]},
    "pictures": {"urls": ["http://directory.test/favicon.ico"]},
    "illustrations": {"oids": ["OID", 900000]},
    "markdown": {"url": "PAGE"},
    "neighbours": {"url": "PAGE"},
    "changes": {"since": "2020-01-01", "until": "2020-01-02"},
    "distill": {"topic": None, "top": 3},
    "feed": {"form": "rss", "home": "http://127.0.0.1/c/birds/"},
    "query": {"sql": "SELECT url, visited FROM pages JOIN crawl USING (oid) ORDER BY url LIMIT 3"},
    "tables": {},
    "topics": {},
    "examples": {"topic": TOPIC},
    "page_text": {"url": "PAGE"},
    "archetypes": {"topic": TOPIC},
    "models": {},
    "refused_models": {},
    "compare_models": {"first": 1, "second": 1},
    "compare_topics": {"first": 1, "second": 1},
    "explain": {"target": "PAGE"},
    "classify_page": {"url": "PAGE"},
    "questions": {},
    "hits": {"limit": 5},
    "answers": {},
    "labels": {"limit": 5},
    "pending": {},
    "clusters": {"topic": TOPIC, "k": 2},
    "review": {"topic": TOPIC},
    "verdicts": {"topic": TOPIC},
    "series": {"points": 7},
    "hosts": {"top": 3},
    "census": {"last_pages": 20},
    "dead_seeds": {},
    "peer_topics": {},
}
CHANGES = (
    ("answer", {"oid": "OID", "answer": True}),
    ("undo_answer", {"oid": "OID"}),
    ("answer", {"oid": "OID", "answer": "skip"}),
    ("mark", {"topic": TOPIC, "good": False}),
    ("mark", {"topic": TOPIC, "good": True}),
    ("add_example", {"topic": TOPIC, "example": "text:huffman codes and entropy"}),
    ("add_example", {"topic": TOPIC, "example": "http://elsewhere.test/", "positive": False}),
    ("drop_example", {"topic": TOPIC, "name": "http://elsewhere.test/"}),
    ("feedback", {"url": "PAGE", "verdict": "irrelevant"}),
    ("confirm_archetype", {"topic": TOPIC, "url": "PAGE"}),
    ("trim_example", {"topic": TOPIC, "url": "PAGE", "text": "WORDS"}),
    ("reject_archetype", {"topic": TOPIC, "url": "PAGE"}),
    ("forget_changes", {"version": 1}),
    ("split_topic", {"topic": TOPIC, "clusters": [{"name": "codes", "central": [{"url": "PAGE"}], "examples": []}]}),
    ("judge", {"topic": TOPIC, "url": "PAGE", "verdict": "yes"}),
    ("take_back", {"topic": TOPIC}),
    ("judge", {"topic": TOPIC, "url": "PAGE", "verdict": "no"}),
    ("learn_review", {"topic": TOPIC}),
    ("restart_review", {"topic": TOPIC}),
)
ELSEWHERE = {
    "test_rights": {"forget"},
    "test_crawl_steering": {"lock_host", "unlock_host", "boost_host", "pause", "resume", "stop", "status"},
    "test_crawl_teaching": {"train", "use_model", "policy"},
    "test_crawl_evidence": {"explain_link"},
    "test_learn_labeller": {"label"},
    "test_crawl_handing": {"take_offers", "offer_to_peers"},
    "test_crawl_indexer": {"update_index"},
    "test_crawl_link_scores": {"analyse_links"},
    "test_crawl_refresher": {"classify"},
    "test_seeds_collection": {"find_seeds"},
    "test_web_finds": {"change_limits", "finds"},
    "test_learn_spreading": {"feedback_on_pages", "model_effect", "feedback_given", "undo_feedback"},
    "below": {"sql", "export", "propose", "decide_group", "export_review"},
}
"""Operations that do something else while a crawl runs, and where that is tested."""


def test_no_operation_is_forgotten() -> None:
    """Every operation is compared here, or tested elsewhere with a crawl that runs."""
    compared = set(READINGS) | {name for name, _ in CHANGES}
    others = set().union(*ELSEWHERE.values())
    assert compared | others == set(PUBLIC)
    assert not compared & others
    live = {name for name, operation in PUBLIC.items() if operation.live_function is not None}
    assert not live & compared


def filled(arguments: dict[str, Any], page: str, words: str, oid: int) -> dict[str, Any]:
    text = json.dumps(arguments)
    for name, value in {"PAGE": page, "WORDS": words, "OID": oid}.items():
        text = text.replace(f'"{name}"', json.dumps(value))
    filled_in: dict[str, Any] = json.loads(text)
    return filled_in


def page_of(collection: Collection) -> tuple[str, str, int]:
    """A relevant page of the topic, and some words of it; and a page that the crawl asks about."""
    url = collection.topic_pages(TOPIC, relevant=True)["results"][-1]["url"]
    words = " ".join(collection.page_text(url)["text"].split()[:12])
    return url, words, collection.questions()[-1]["oid"]


def without_times(result: Any) -> Any:
    """A result without what the clock decides, and without whether a crawl runs."""
    if isinstance(result, dict):
        return {
            name: without_times(value)
            for name, value in result.items()
            if name not in {"took_ms", "running", "moment_us"}
        }
    return [without_times(one) for one in result] if isinstance(result, (list, tuple)) else result


def test_reading_is_the_same_while_a_crawl_runs(made: Collection, tmp_path: Path) -> None:
    """Every operation that reads gives the same result from the database and from a running crawl."""
    collection = copied(made, tmp_path / "copy")
    found = page_of(collection)
    calls = {name: filled(arguments, *found) for name, arguments in READINGS.items()}
    alone = {name: getattr(collection, name)(**arguments) for name, arguments in calls.items()}
    with served(collection) as engine:
        assert is_running(collection.folder)
        for name, arguments in calls.items():
            assert OPERATIONS[name].access is READS
            through_python = getattr(collection, name)(**arguments)
            assert without_times(through_python) == without_times(alone[name]), name
            answer = ask(collection.folder, name, arguments)
            assert answer is not None
            assert without_times(answer.result) == without_times(json.loads(json.dumps(alone[name]))), name
        assert not engine.learned
        assert engine.commits > len(READINGS)
    assert not (collection.folder / NOTE).exists()


def test_changes_are_the_same_while_a_crawl_runs(made: Collection, tmp_path: Path) -> None:
    """Every change has the same result and leaves the same training data; a running crawl learns from each, once."""
    alone, live = copied(made, tmp_path / "alone"), copied(made, tmp_path / "live")
    found = page_of(alone)
    results = []
    for name, arguments in CHANGES:
        assert OPERATIONS[name].access is WRITES
        results.append(getattr(alone, name)(**filled(arguments, *found)))
    with served(live) as engine:
        for (name, arguments), result in zip(CHANGES, results, strict=True):
            engine.learned.clear()
            assert without_times(getattr(live, name)(**filled(arguments, *found))) == without_times(result), name
            [cause] = engine.learned
            assert cause.reason is TrainingReason.FEEDBACK
            assert cause.detail.startswith(name.replace("_", " "))
        assert "http://elsewhere.test/" in engine.claimed
    assert live.examples() == alone.examples()
    assert live.topics() == alone.topics()
    assert live.pending()["count"] == alone.pending()["count"]


def test_sql_reads_and_writes(made: Collection, tmp_path: Path) -> None:
    """A running crawl answers a query with the same values; without `write` nothing can be changed."""
    collection = copied(made, tmp_path / "copy")
    query = "SELECT url, depth, relevance FROM crawl ORDER BY oid LIMIT 5"
    alone = collection.sql(query)
    with served(collection):
        assert collection.sql(query) == alone
        with pytest.raises(QueryError):
            collection.sql("DELETE FROM crawl")
    with pytest.raises(QueryError):
        collection.sql("DELETE FROM crawl")


def test_a_review_is_decided_and_exported_the_same(
    made: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running crawl decides about a group and writes the pages that are kept, as the collection itself does."""
    monkeypatch.chdir(tmp_path)
    collection = copied(made, tmp_path / "c")
    [group, *_] = collection.review(TOPIC)["groups"]
    collection.decide_group(TOPIC, group["name"], "kept")
    kept = collection.export_review(TOPIC, "alone.jsonl")
    assert kept["pages"] >= group["pages"] > 0
    with served(collection):
        assert collection.review(TOPIC)["groups"][0]["decision"] == "kept"
        assert collection.export_review(TOPIC, "live.jsonl") == kept
        collection.decide_group(TOPIC, group["name"], "dropped")
        assert collection.export_review(TOPIC, "less.jsonl")["pages"] == kept["pages"] - group["pages"]
        with pytest.raises(CollectionBusy, match="standard output"):
            collection.export_review(TOPIC, "-", "jsonl")
    assert Path("live.jsonl").read_text() == Path("alone.jsonl").read_text()


def test_an_export_is_the_same(made: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running crawl writes the same file, relative to the caller's folder; it cannot write to our output."""
    collection = copied(made, tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    count = collection.export("alone.jsonl", where="relevance > 0.2")
    with served(collection):
        assert collection.export("live.jsonl", where="relevance > 0.2") == count > 0
        with pytest.raises(CollectionBusy):
            collection.export("-", "jsonl")
    assert (tmp_path / "live.jsonl").read_bytes() == (tmp_path / "alone.jsonl").read_bytes()


# -- refusals


def test_errors_are_the_same_while_a_crawl_runs(made: Collection, tmp_path: Path) -> None:
    """An error of a running crawl has the class, the message and the hint that it has without one."""
    collection = copied(made, tmp_path / "copy")
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("page", {"url": ""}),
        ("mark", {"topic": "nonsense", "good": True}),
        ("feedback", {"url": "http://a.test/", "verdict": "good"}),
        ("use_model", {"version": 99}),
        ("portal", {"days": 0}),
        ("query", {"sql": "SELEC"}),
        ("answer", {"oid": -1, "answer": "yes"}),
    ]
    told = []
    for name, arguments in wrong:
        with pytest.raises((InputError, QueryError)) as caught:
            getattr(collection, name)(**arguments)
        told.append((caught.type, caught.value.message, caught.value.hint))
    with served(collection):
        for (name, arguments), expected in zip(wrong, told, strict=True):
            if name == "use_model":
                continue  # the teacher of a real crawl refuses it: test_crawl_teaching
            with pytest.raises((InputError, QueryError)) as caught:
                getattr(collection, name)(**arguments)
            assert (caught.type, caught.value.message, caught.value.hint) == expected


def test_requests_are_checked(made: Collection, tmp_path: Path) -> None:
    """Unknown operations, unknown, missing and wrong arguments are refused with a reason; the crawl goes on."""
    collection = copied(made, tmp_path / "copy")
    with served(collection):
        with pytest.raises(QueryError, match="unknown operation 'nonsense'"):
            ask(collection.folder, "nonsense")
        with pytest.raises(InputError, match="limit"):
            ask(collection.folder, "hosts", {"limit": 3})
        with pytest.raises(InputError, match="topic"):
            ask(collection.folder, "mark", {"good": True})
        with pytest.raises(InputError, match="int"):
            ask(collection.folder, "hosts", {"top": "many"})
        assert is_running(collection.folder)


def test_what_needs_the_database_alone_is_refused(made: Collection, tmp_path: Path) -> None:
    """While a crawl runs, inputs and settings are not changed, nothing is forwarded by hand, nothing is proposed."""
    collection = copied(made, tmp_path / "copy")
    (tmp_path / "peers.toml").write_text("")
    with served(collection):
        with pytest.raises(CollectionBusy):
            collection.change_settings({"limits.max_pages": 5})
        with pytest.raises(CollectionError):
            collection.propose(tmp_path / "filter.toml")
    assert collection.propose(tmp_path / "filter.toml") == len(TOPICS)
    with pytest.raises(SettingsError):
        collection.offer_to_peers()


def test_steering_needs_a_crawl(made: Collection) -> None:
    """Without one, nothing is steered, and nothing needs the database."""
    with Store.open(made.folder):  # nobody else could open it
        assert (made.pause(), made.resume(), made.stop()) == (False, False, False)
        with pytest.raises(CollectionError, match="no crawl runs"):
            made.boost_host("a.test", 2)


# -- answers that are lost


@contextlib.contextmanager
def losing(folder: Path, *sent: bytes) -> Iterator[list[str]]:
    """A crawl that takes requests, sends some lines and ends without an answer; yields the operations it was sent."""
    taken: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, connection.makefile("rb") as lines:
                        taken.append(json.loads(lines.readline())["operation"])
                        connection.sendall(b"".join(sent))

        thread = threading.Thread(target=serve)
        thread.start()
        (folder / NOTE).write_text(json.dumps({"pid": 1, "port": server.getsockname()[1], "token": ""}))
        try:
            yield taken
        finally:
            (folder / NOTE).unlink()
            server.shutdown(socket.SHUT_RDWR)
            thread.join(20)


def test_a_change_whose_answer_is_lost_is_not_made_again(made: Collection, tmp_path: Path) -> None:
    """Once a crawl has begun with a change, it is neither sent again nor made here: the caller is told."""
    collection = copied(made, tmp_path / "copy")
    before = collection.examples()
    with losing(collection.folder, json.dumps(BEGUN).encode() + b"\n") as taken:
        with pytest.raises(CollectionError, match="began with add_example and ended without an answer"):
            collection.add_example(TOPIC, "http://new.test/")
        assert taken == ["add_example"]
    assert collection.examples() == before


def test_a_request_that_no_crawl_began_with_is_carried_out_here(made: Collection, tmp_path: Path) -> None:
    """A crawl that ends before it begins with a change has not made it, and what reads can be repeated."""
    collection = copied(made, tmp_path / "copy")
    with losing(collection.folder) as taken:
        collection.add_example(TOPIC, "http://new.test/")
        assert "http://new.test/" in [one["name"] for one in collection.examples()]
        assert taken == ["add_example", "examples"]


def test_a_crawl_that_ends_answers_the_change_it_makes(
    made: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change in the last moment of a crawl is made once, and its result arrives."""
    collection = copied(made, tmp_path / "copy")
    operation, begun, goes_on, made_by = OPERATIONS["forget_changes"], threading.Event(), threading.Event(), []
    function = operation.function

    def forget_slowly(at: Any, version: int) -> Any:
        made_by.append(at.engine)
        begun.set()
        assert goes_on.wait(20)
        return function(at, version)

    collection.feedback(collection.sql("SELECT url FROM collection WHERE relevance >= 0.5").rows[0][0], "irrelevant")
    monkeypatch.setattr(operation, "function", forget_slowly)
    with ThreadPoolExecutor(1) as pool:
        with served(collection) as engine:
            forgotten = pool.submit(collection.forget_changes, 1)
            assert begun.wait(20)
            threading.Timer(0.3, goes_on.set).start()  # when the crawl ends already
        assert forgotten.result(20) == 1
    assert made_by == [engine]


def test_what_is_read_at_the_end_of_a_crawl(made: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`at_end` is called while the database is still open: operations that read do not open it once more, and see
    what the crawl has stored."""
    collection = copied(made, tmp_path / "copy")
    opened, read = [], list[Any]()
    open_store = Store.open
    monkeypatch.setattr(Store, "open", lambda *args, **options: opened.append(args) or open_store(*args, **options))
    collection.crawl(
        settings={"run.workers": -1},
        at_end=lambda: read.extend((collection.dead_seeds(), collection.query("SELECT count(*) FROM runs")["rows"])),
    )
    assert len(opened) == 1
    assert read == [collection.dead_seeds(), collection.query("SELECT count(*) FROM runs")["rows"]]
    assert len(opened) > 1, "later, the database is opened again"


def test_a_caller_of_an_earlier_version_gets_the_answer_alone(made: Collection, tmp_path: Path) -> None:
    """A portal that was started before an upgrade reads one line, and takes another one before it for no answer."""
    collection = copied(made, tmp_path / "copy")
    with served(collection):
        note = json.loads((collection.folder / NOTE).read_text())
        request = {"token": note["token"], "operation": "mark", "arguments": {"topic": TOPIC, "good": True}}
        with socket.create_connection(("127.0.0.1", note["port"]), timeout=20) as connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            assert "result" in json.loads(connection.makefile("rb").readline())


def test_all_interfaces_describe_an_argument_alike() -> None:
    """What an argument means is said once, in the declaration: the command line, REST and assistants repeat it."""
    from opilio.assistants.tools import TOOLS
    from opilio.cli.export import export
    from opilio.cli.search import search
    from opilio.crawl.operations import browse, database
    from opilio.web.finding import SearchBody

    [tool] = [tool for tool in TOOLS if tool.name == "search"]
    commands = {one.opts[0].strip("-"): getattr(one, "help", None) for one in search.params}
    for name in ("topic", "host", "lang", "type", "since", "before"):
        said = browse.search.about[name].description
        assert said == commands[name] == SearchBody.model_fields[name].description
        assert said == tool.schema()["properties"][name]["description"]
    options = {str(one.name): getattr(one, "help", None) for one in export.params}
    for name, about in database.export.about.items():
        assert name == "format_name" or options[name] == about.description
