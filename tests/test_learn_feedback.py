"""Feedback on results: what it teaches, what waits to be learned, and that undoing it brings the old judgements back."""

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import TAUGHT_TOPICS
from made_crawls import FUNDS, mutual_funds
from opilio import Collection
from opilio.cli import cli
from opilio.errors import InputError
from opilio.learn.feedback import give_feedback
from opilio.learn.rejudging import DeniedTopics
from opilio.learn.training_data import pending_changes, recording_changes, undo_changes
from opilio.model import Judgement
from opilio.store import Batch, Store
from opilio.topics.hierarchy import Hierarchy, Mark, Node

CRYPTOGRAPHY, COMPRESSION, STATISTICS = TAUGHT_TOPICS


@pytest.fixture
def collection(crawled_taught: Path, tmp_path: Path) -> Collection:
    """A copy of it, to be changed."""
    shutil.copytree(crawled_taught, tmp_path / "c")
    return Collection(tmp_path / "c")


def judged(collection: Collection) -> list[tuple[Any, ...]]:
    """What the newest model says of all pages."""
    return collection.sql("SELECT oid, kcid, relevance FROM pages ORDER BY oid").rows


def pages_of(collection: Collection, topic: str) -> list[str]:
    """The pages of a topic that are no examples, best first."""
    sql = f"""
        SELECT url FROM collection WHERE topic = '{topic}' AND relevance >= 0.5
        AND url NOT IN (SELECT name FROM training) ORDER BY relevance DESC, url
    """
    return [url for (url,) in collection.sql(sql).rows]


def taught(collection: Collection) -> set[tuple[str, str, bool]]:
    """What is learned from, beside what was given at the beginning."""
    return {(o["topic"], o["name"], o["positive"]) for o in collection.examples() if o["source"] != "given"}


def test_feedback_retraining_and_undoing(collection: Collection) -> None:
    """Pages refused are gone after training, the comparison tells so, and undoing gives the very judgements back."""
    before, given = judged(collection), collection.examples()
    refused = pages_of(collection, STATISTICS)[:4]
    for url in refused:
        collection.feedback(url, "irrelevant")
    assert collection.pending()["count"] == 4
    assert judged(collection) == before  # nothing is learned before it is asked for
    second = collection.train()
    assert collection.pending()["count"] == 0
    after = judged(collection)
    assert after != before
    assert not set(refused) & set(pages_of(collection, STATISTICS))
    told = collection.compare_topics(1, second)
    moved = [page for page in told["moved"] if page["url"] in refused]
    assert len(moved) == 4 or told["moved_pages"] > len(told["moved"])  # unless more moved than are listed
    assert all(page["topic_first"] == STATISTICS and page["topic_second"] is None for page in moved)
    by_topic = {one["topic"]: one for one in told["topics"]}
    assert by_topic[STATISTICS]["left"] >= 4
    old, new = ({oid: (k, r) for oid, k, r in rows} for rows in (before, after))
    assert told["moved_pages"] >= sum(old[oid][0] != new[oid][0] for oid in old if new[oid][1] >= 0.5)
    assert collection.forget_changes(1) == 4
    assert collection.examples() == given
    collection.use_model(1)
    assert judged(collection) == before
    assert collection.pending()["count"] == 0


def test_undoing_the_model_alone_keeps_the_lessons_for_later(collection: Collection) -> None:
    """The changes are counted as not learned again, until the next training."""
    [url, *_] = pages_of(collection, STATISTICS)
    collection.feedback(url, "irrelevant")
    collection.train()
    collection.use_model(1)
    waits = collection.pending()
    assert (waits["model"], waits["count"]) == (1, 1)
    assert waits["changes"][0] | {"title": ""} == {
        "topic": STATISTICS, "name": url, "title": "", "change": "counter-example added"
    }  # fmt: skip
    collection.train()
    assert collection.pending()["count"] == 0


def test_each_verdict_teaches_what_it_says(collection: Collection) -> None:
    """Relevant, irrelevant, and belonging to another topic; a later word replaces an earlier one."""
    first, second = pages_of(collection, CRYPTOGRAPHY)[:2]
    assert collection.feedback(first, "relevant")["topic"] == CRYPTOGRAPHY
    assert collection.feedback(second, "irrelevant")["positive"] is False
    assert taught(collection) == {(CRYPTOGRAPHY, first, True), (CRYPTOGRAPHY, second, False)}
    collection.feedback(first, "belongs", COMPRESSION)
    collection.feedback(second, "relevant")
    assert taught(collection) == {(COMPRESSION, first, True), (CRYPTOGRAPHY, second, True)}
    assert collection.pending()["count"] == 2
    collection.drop_example(COMPRESSION, first)
    collection.drop_example(CRYPTOGRAPHY, second)
    assert collection.pending()["count"] == 0  # all is as it was


def test_a_page_that_belongs_elsewhere_is_judged_so(collection: Collection) -> None:
    """After training the page is of its new topic, and no counter-example stands against that."""
    [url, *_] = pages_of(collection, CRYPTOGRAPHY)
    collection.feedback(url, "belongs", COMPRESSION)
    assert (CRYPTOGRAPHY, url, False) not in taught(collection)
    collection.train()
    assert collection.sql(f"SELECT topic FROM collection WHERE url = '{url}'").rows == [(COMPRESSION,)]


def test_an_example_of_the_users_own_can_be_taken_back(collection: Collection) -> None:
    """Irrelevant, said of an example, drops it and makes it a counter-example; forgetting restores it."""
    example = next(one for one in collection.examples() if one["topic"] == STATISTICS and one["there"])
    collection.feedback(example["name"], "irrelevant")
    assert collection.pending()["changes"][0]["change"] == "now a counter-example"
    assert collection.forget_changes(1) == 1
    assert example in collection.examples()


def test_a_part_of_a_page_is_learned_from(collection: Collection) -> None:
    """Trimming counts as one change, and the list of examples says that it is a part."""
    [url, *_] = pages_of(collection, STATISTICS)
    words = " ".join(collection.page_text(url)["text"].split()[:8])
    collection.trim_example(STATISTICS, url, words)
    [mine] = [one for one in collection.examples() if one["name"] == url]
    assert (mine["part"], mine["words"]) == (True, 8)
    assert collection.pending()["count"] == 1


def test_what_cannot_be_learned_is_refused(collection: Collection) -> None:
    """A page that is not there, that no topic took, a topic that is not there, no topic, no verdict."""
    [outside, inside, *_] = pages_of(collection, STATISTICS)
    collection.feedback(outside, "irrelevant")
    collection.train()
    for url, verdict, topic, said in (
        ("http://nowhere.test/", "relevant", None, "not a page"),
        (outside, "irrelevant", None, "no topic took"),
        (outside, "relevant", None, "which is it about"),
        (inside, "belongs", None, "to which topic"),
        (inside, "belongs", "owls", "no topic 'owls'"),
        (inside, "splendid", None, "no verdict"),
    ):
        with pytest.raises(InputError, match=said):
            collection.feedback(url, verdict, topic)
    assert collection.pending()["count"] == 0  # nothing has happened


def test_a_crawl_that_runs_learns_at_once(collection: Collection) -> None:
    """Feedback through a running crawl makes it train, and nothing waits any more; all else can be asked of it, too."""
    [url, *_] = pages_of(collection, STATISTICS)
    collection.change_settings({"limits.max_pages": 0, "fetch.host_delay_s": 0.2, "fetch.per_host": 1})
    done, until_s = threading.Event(), time.monotonic() + 30
    running = threading.Thread(target=lambda: collection.crawl(on_tick=lambda _: not done.is_set()))
    running.start()
    try:
        while not collection.status().running:
            assert time.monotonic() < until_s
            time.sleep(0.05)
        collection.feedback(url, "irrelevant")
        while collection.pending()["count"] or collection.models()[0]["version"] == 1:
            assert time.monotonic() < until_s
            time.sleep(0.1)
        assert collection.models()[0]["reason"].startswith("feedback")
        assert collection.clusters(CRYPTOGRAPHY, 2)["k"] == 2
        collection.judge(CRYPTOGRAPHY, collection.review(CRYPTOGRAPHY)["next"]["url"], "yes")
        assert [one["verdict"] for one in collection.verdicts(CRYPTOGRAPHY)] == ["yes"]
        assert collection.forget_changes(1) == 1
        collection.train()  # whether the crawl has learned it by itself meanwhile, or not
        assert not taught(collection)
    finally:
        done.set()
        running.join(30)


def test_the_command_says_what_it_did_and_what_waits(collection: Collection) -> None:
    """`opilio feedback`: a verdict, a topic, the list, and taking it back."""
    first, second = pages_of(collection, STATISTICS)[:2]
    folder, run = str(collection.folder), CliRunner().invoke
    assert "1 change not yet learned" in run(cli, ["feedback", folder, first, "irrelevant"]).output
    assert f"an example of {COMPRESSION}" in run(cli, ["feedback", folder, second, COMPRESSION]).output
    shown = run(cli, ["feedback", folder]).output
    assert "2 changes not yet learned by model 1" in shown and "counter-example added: statistics" in shown
    assert "2 documents restored" in run(cli, ["feedback", folder, "--undo", "1"]).output
    assert run(cli, ["feedback", folder, first]).exit_code == 2


def test_the_commands_for_clusters_and_reviews(collection: Collection) -> None:
    """Clusters are listed and split; a review takes keys from a pipe, reports, is learned from and started again."""
    folder, run = str(collection.folder), CliRunner().invoke
    listed = run(cli, ["clusters", folder, STATISTICS, "--k", "2"])
    assert listed.exit_code == 0 and "in 2 clusters" in listed.output
    asked = run(cli, ["review", folder, STATISTICS], input="y n\nu s z x q")
    assert "Is it about statistics?" in asked.output and "2 judged" in asked.output
    assert len(run(cli, ["review", folder, STATISTICS, "--verdicts"]).output.splitlines()) == 3
    assert "unknown yet" in run(cli, ["review", folder, STATISTICS, "--report"]).output
    assert "1 examples and 1 counter-examples" in run(cli, ["review", folder, STATISTICS, "--learn"]).output
    former = run(cli, ["review", folder, STATISTICS, "--anew", "--report"])
    assert "3 verdicts deleted" in former.stdout and former.stderr == "notice: --anew is called --restart now\n"
    assert run(cli, ["review", folder, STATISTICS, "--restart", "--report"]).output.startswith("0 verdicts deleted\n")
    assert "made 2 subtopics" in run(cli, ["clusters", folder, STATISTICS, "--k", "2", "--split"]).output
    assert len([one for one in collection.topics() if one["topic"].startswith(f"{STATISTICS} / ")]) == 2


TREE = ((0, -1, "", Mark.PATH), (1, 0, "A", Mark.GOOD), (2, 1, "A / B", Mark.SUBSUMED), (3, 1, "A / C", Mark.SUBSUMED),
        (4, 0, "D", Mark.GOOD), (5, 0, "E", Mark.PATH), (6, 5, "E / F", Mark.GOOD))  # fmt: skip


@pytest.mark.parametrize(
    ("denied_at", "judged_as", "stays_in", "accepted", "relevance"),
    [
        (1, 1, 0, False, 0.0),  # not about A
        (1, 3, 0, False, 0.0),  # nor about what is below it
        (1, 4, 0, False, 0.0),  # nor about D: it is in OTHERS beside both
        (2, 3, 1, True, 0.8),  # not about B, so beside it too; but still about A
        (2, 4, 4, True, 0.8),  # D is elsewhere
        (6, 6, 5, True, 0.0),  # E took it, but E is not wanted
    ],
)
def test_a_denied_judgement_stays_above_what_is_denied(
    denied_at: int, judged_as: int, stays_in: int, accepted: bool, relevance: float
) -> None:
    """What a counter-example of a topic can still be judged to be."""
    hierarchy = Hierarchy(Node(k, parent, path.split(" / ")[-1], path, mark) for k, parent, path, mark in TREE)
    refused = DeniedTopics({7: frozenset({hierarchy.nodes[denied_at].parent})}, hierarchy)
    said = Judgement(topic=judged_as, accepted=True, relevance=0.8, confidence=1.0)
    now = refused.overrule(7, said)
    assert (now.topic, now.accepted, now.relevance) == (stays_in, accepted, relevance)
    assert refused.overrule(8, said) == said  # another page


_DOCUMENTS = "SELECT kcid, name, positive, source, text, added FROM training ORDER BY ALL"
_SAID = st.tuples(
    st.integers(0, 5),
    st.sampled_from(["relevant", "irrelevant", "belongs"]),
    st.sampled_from([None, "Gardening", "Cooking"]),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_SAID, max_size=8))
def test_whatever_was_said_can_be_counted_and_taken_back(made: Store, said: list[tuple[int, str, str | None]]) -> None:
    """What waits is what differs, nothing more; forgetting brings back the very rows; no page is on two sides."""
    before = made.query(_DOCUMENTS).rows
    for number, verdict, topic in said:
        with contextlib.suppress(InputError), recording_changes(made):
            give_feedback(made, f"http://h0.org/{number}", verdict, topic)
    now = made.query(_DOCUMENTS).rows
    was, is_now = ({(row[0], row[1]): row[2] for row in rows} for rows in (before, now))
    assert pending_changes(made)["count"] == sum(was.get(key) != is_now.get(key) for key in {*was, *is_now})
    positive = [name for _, name, yes, *_ in now if yes]
    assert len(positive) == len(set(positive))
    assert not any((kcid, name, False) in {row[:3] for row in now} for kcid, name, yes, *_ in now if yes)
    undo_changes(made, 1)
    assert made.query(_DOCUMENTS).rows == before
    assert pending_changes(made)["count"] == 0


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Store]:
    """A small crawl row by row, with a model and two examples that were there before it."""
    crawl = mutual_funds()
    with Store.create(tmp_path / "made") as store:
        crawl.fill(store)
        batch = Batch()
        for number in (0, 1):
            batch.training.add(f"http://h0.org/{number}", "url", FUNDS, True, "given", "", None, 1000.0)
        batch.models.add(1, 2000.0, "bayes", "first", None, "", 2, "{}", "", "", b"model")
        store.write(batch)
        yield store
