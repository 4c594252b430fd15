"""Feedback spreads: what is said of a few pages changes those that are like them, which is shown, and can be undone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from learn_webs import OWL, text
from made_crawls import MadeCrawl
from opilio import Collection
from opilio.cli import cli
from opilio.errors import InputError
from opilio.learn.models import _effect_in_words
from opilio.model import url_key
from opilio.store import Store

TOPIC = "owls"
OWLS, RIVERS, JUNK = 30, 80, 20
REFUSED = 4


def junk(number: int) -> str:
    """A page of a shop that is full of the words of the topic: four fifths of it are the same on all such pages."""
    return f"{text(99, 120, owl=0.35, casino=0.15)} {text(5000 + number, 30, owl=0.35, casino=0.1)}"


def made(folder: Path, **settings: Any) -> Collection:
    """A collection of pages about owls, pages about rivers in which owls are named, and the junk; five examples."""
    crawl = MadeCrawl(
        topics=((0, None, "", "path"), (1, 0, TOPIC, "good")),
        examples=[(1, text(9000 + number, owl=0.3)) for number in range(5)],
    )
    for host, texts in enumerate((
        [text(number, owl=0.3) for number in range(OWLS)],
        [text(500 + number, river=0.3, owl=0.05) for number in range(RIVERS)],
        [junk(number) for number in range(JUNK)],
    )):  # fmt: skip
        for one in texts:
            crawl.add(text=one, host=host)
    seeds = folder / "seeds.txt"
    seeds.write_text("http://h0.org/")
    changes = {name.replace("__", "."): value for name, value in settings.items()}
    collection = Collection.create(folder / "c", seeds=seeds, settings=changes)
    with Store.open(collection.folder) as store:
        crawl.fill(store)
        keys = [[url_key(url), url] for (url,) in store.query("SELECT url FROM crawl").rows]
        with store.writing() as to:
            to.execute("UPDATE pages SET model_version = 0")
            to.executemany("UPDATE crawl SET key = ? WHERE url = ?", keys)
    collection.train()
    return collection


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One such collection for all tests, which change copies of it."""
    return made(tmp_path_factory.mktemp("made")).folder


@pytest.fixture
def collection(trained: Path, tmp_path: Path) -> Collection:
    """A copy."""
    return Collection(shutil.copytree(trained, tmp_path / "c"))


def relevant(collection: Collection, host: int) -> list[str]:
    """The relevant pages of a host."""
    sql = f"SELECT url FROM collection WHERE host = 'h{host}.org' AND relevance >= 0.5 ORDER BY url"
    return [url for (url,) in collection.sql(sql).rows]


@pytest.mark.parametrize("calibrate", [True, False])
def test_four_refused_pages_take_their_sixteen_siblings_along(calibrate: bool, trained: Path, tmp_path: Path) -> None:
    """Twenty near-identical pages are accepted for the words of the topic. Four of them are refused and a model is
    trained: the other sixteen leave the topic, nearly all owls stay, and no river comes. So it is with a calibrated
    model, and with one that has met no pages yet."""
    if calibrate:
        collection = Collection(shutil.copytree(trained, tmp_path / "c"))
    else:
        collection = made(tmp_path, classify__calibrate=False)
    owls, siblings = relevant(collection, 0), relevant(collection, 2)
    assert len(siblings) == JUNK and len(owls) > 0.6 * OWLS and not relevant(collection, 1)
    for url in siblings[:REFUSED]:
        collection.feedback(url, "irrelevant")
    version = collection.train()
    assert relevant(collection, 2) == []
    assert len(relevant(collection, 0)) >= 0.9 * len(owls) and not relevant(collection, 1)
    effect = collection.model_effect()
    assert effect is not None and effect == collection.model_effect(version)
    [moved] = effect["topics"]
    assert (effect["first"], effect["second"], moved["topic"]) == (1, 2, TOPIC)
    assert moved["left"] - (JUNK - REFUSED) == len(set(owls) - set(relevant(collection, 0)))
    assert f"{moved['left']} other pages left {TOPIC}" in effect["said"]


def test_many_changes_are_said_in_one_short_sentence() -> None:
    """Up to two topics are named; of more, the sums."""
    moved = [
        {"topic": name, "left": left, "joined": joined}
        for name, left, joined in (("a", 2, 1), ("b", 0, 1), ("c", 1, 0))
    ]
    assert _effect_in_words(moved[:2]) == "2 other pages left a, 1 joined; 1 other page joined b"
    assert _effect_in_words(moved) == "3 other pages left 3 topics, 2 joined"


def test_a_refusal_is_explained(collection: Collection) -> None:
    """A river lacks words of the topic, which are named; a refused sibling has the words of the shop against it; and of
    a page that the user refused, it is said that the user did."""
    [river] = collection.sql("SELECT url FROM collection WHERE host = 'h1.org' ORDER BY url LIMIT 1").rows[0]
    first, *others = relevant(collection, 2)
    [step] = collection.explain(river)["steps"]
    words = set(collection.page_text(river)["text"].split())
    assert not step["taken"] and len(step["missing"]) == 8 and not words & set(step["missing"])
    assert set(step["missing"]) <= {stem for word in OWL for stem in (word, word.rstrip("e"), word[:-1] + "i")}
    assert collection.explain(first)["steps"][0]["missing"] == [], "it was accepted"
    for url in (first, *others[:3]):
        collection.feedback(url, "irrelevant")
    collection.train()
    [step] = collection.explain(others[-1])["steps"]
    shop, against = set(junk(0).split()[:120]), [one["feature"] for one in step["reasons"] if one["weight"] < 0]
    assert against and all(any(word.startswith(one[:4]) for word in shop) for one in against), against
    told = CliRunner().invoke(cli, ["explain", str(collection.folder), first]).output
    assert "you said irrelevant: it is a counter-example of owls" in told
    assert "against: " in told and "missing, words of the topic that the page lacks: " in told


def test_feedback_is_remembered_and_undone(collection: Collection) -> None:
    """What was said of pages is returned for lists; undoing one page of many leaves the others; undoing all restores
    the very training data, also when a model has learned it; nothing can be undone twice."""
    before = collection.examples()
    [first, second, *_] = pages = relevant(collection, 2)
    numbers = [oid for (oid,) in collection.sql("SELECT oid FROM collection WHERE host = 'h2.org'").rows]
    said = collection.feedback_on_pages(numbers, "irrelevant")
    assert (said["pages"], said["said"]) == (JUNK, f"{JUNK} counter-examples of owls from now on")
    given = collection.feedback_given([first, second, "http://nobody.test/"])
    expected = {"verdict": "irrelevant", "topic": TOPIC, "moment_us": said["moment_us"]}
    assert given == {first: expected, second: expected}
    collection.train()
    assert relevant(collection, 2) == []
    assert collection.undo_feedback(said["moment_us"], first)["restored"] == 1
    assert set(collection.feedback_given(pages)) == set(pages) - {first}
    assert collection.pending()["count"] == 1, "the model has learned otherwise"
    assert collection.undo_feedback(said["moment_us"])["restored"] == JUNK - 1
    assert collection.examples() == before
    with pytest.raises(InputError, match="nothing to undo"):
        collection.undo_feedback(said["moment_us"])
    with pytest.raises(InputError, match="many pages"):
        collection.feedback_on_pages(numbers, "belongs", TOPIC)
    with pytest.raises(InputError, match="none of these pages"):
        collection.feedback_on_pages([], "relevant")


def test_whole_clusters_by_the_command_line(collection: Collection) -> None:
    """`opilio clusters` numbers the clusters; one is rejected and one accepted as a whole, and training says what
    changed elsewhere, as does `opilio feedback`; a cluster that is not there is refused."""
    folder, run = str(collection.folder), CliRunner().invoke
    clusters = collection.clusters(TOPIC, 2)["clusters"]
    shop = next(n for n, one in enumerate(clusters, 1) if "http://h2.org" in one["central"][0]["url"])
    assert sum(len(one["oids"]) for one in clusters) == sum(one["pages"] for one in clusters)
    listed = run(cli, ["clusters", folder, TOPIC, "--k", "2"]).output
    assert f"{shop}. {clusters[shop - 1]['name']}: " in listed
    said = run(cli, ["clusters", folder, TOPIC, "--k", "2", "--reject", str(shop), "--accept", str(3 - shop)])
    assert f"{clusters[shop - 1]['pages']} counter-examples of owls from now on" in said.output, said.output
    assert f"{clusters[2 - shop]['pages']} examples of owls from now on" in said.output
    assert run(cli, ["clusters", folder, TOPIC, "--k", "2", "--reject", "9"]).exit_code == 1
    trained = run(cli, ["topics", "train", folder]).output
    assert trained.startswith("model 2 trained\nwith model 2, ")
    assert trained.splitlines()[1] in run(cli, ["feedback", folder]).output
    assert relevant(collection, 2) == []


def test_limits_by_the_command_line(collection: Collection) -> None:
    """`opilio limits` shows the limits and changes them for the next crawl."""
    folder, run = str(collection.folder), CliRunner().invoke
    assert run(cli, ["limits", folder]).output == "pages: no limit\ntime: no limit\n"
    assert "the next crawl" in run(cli, ["limits", folder, "--more-pages", "1000", "--max-time", "2h"]).output
    limits = Collection(collection.folder).settings.limits
    assert (limits.max_pages, limits.max_time_s) == (collection.status().pages + 1000, 7200.0)
    assert run(cli, ["limits", folder, "--more-pages", "1", "--max-pages", "1"]).exit_code != 0
