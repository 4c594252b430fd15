"""Pages that are surely about nothing wanted: which ones join OTHERS."""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opilio import Collection, learn
from opilio.analyze.files import read_file
from opilio.classify import CLASSIFIERS, Example, TrainingSet
from opilio.classify.calibration import MIN_MET
from opilio.learn import training_data
from opilio.learn.guard import confidences
from opilio.learn.mined_negatives import MIN_PAGES, choose_negatives
from opilio.settings import Settings, override
from opilio.store import Store
from opilio.topics.hierarchy import ABOVE_ROOT


@pytest.fixture
def store(crawled_taught: Path, tmp_path: Path) -> Iterator[Store]:
    """A copy of a collection of 120 pages whose user named no page that is not wanted."""
    shutil.copytree(crawled_taught, tmp_path / "c")
    with Store.open(tmp_path / "c") as opened:
        yield opened


@pytest.fixture
def settings(crawled_taught: Path) -> Settings:
    """Those of the collection, but it learns from strangers."""
    return override(Collection(crawled_taught).settings, {"learn.mined_negatives": 50, "classify.calibrate": False})


def strangers_of(store: Store, settings: Settings) -> list[Example]:
    """What joins OTHERS."""
    known = learn.gather(store, settings)
    training = learn.with_crawled_pages(store, settings, known)
    assert training.examples == known.examples
    assert training.others[: len(known.others)] == known.others
    return list(training.others[len(known.others) :])


def unasked(store: Store) -> list[str]:
    """The addresses of the pages that are no training documents, nor lead to one, nor are copies."""
    known = [record.oid for record in store.load_training() if record.oid is not None]
    rows = store.query(
        "SELECT url FROM pages JOIN crawl USING (oid) WHERE oid NOT IN (SELECT unnest($1::BIGINT[])) "
        "AND oid NOT IN (SELECT oid FROM duplicates) AND url NOT IN (SELECT name FROM training) ORDER BY url",
        [known],
        max_rows=10**6,
    ).rows
    return [url for (url,) in rows]


@pytest.mark.parametrize("classifier", ["svm", "bayes"])
def test_strangers_by_brute_force(store: Store, settings: Settings, classifier: str) -> None:
    """They are the pages that a model without strangers is least sure of: at most a quarter of the pages that nobody
    has said anything of, none that a topic takes unless it is less sure of it than of each document of its
    own that was kept aside. Asked twice, the answer is the same."""
    settings = override(settings, {"classify.classifier": classifier})
    found, urls = strangers_of(store, settings), unasked(store)
    names = [stranger.name for stranger in found]
    assert 5 <= len(names) <= len(urls) // 4
    assert len(set(names)) == len(names)
    assert set(names) <= set(urls)
    assert all((one.kcid, one.positive) == (ABOVE_ROOT, False) for one in found)
    assert [stranger.name for stranger in strangers_of(store, settings)] == names

    known = learn.gather(store, settings)
    trained = learn.train(known, settings, 1)
    judge = CLASSIFIERS.get(classifier).train(known, settings)
    least: dict[int, float] = {}
    for example, value in zip(known.examples, confidences(known, settings, trained.model), strict=True):
        assert value is not None, "all topics are wanted"
        least[example.kcid] = min(value, least.get(example.kcid, value))
    said = [judge.judge(stranger.item) for stranger in found]
    assert [one.confidence for one in said] == sorted(one.confidence for one in said)
    assert all(not one.accepted or one.confidence < least[one.topic] for one in said)


def test_no_more_than_asked_for(store: Store, settings: Settings) -> None:
    """The setting bounds their number, the surest stay; 0 turns them off."""
    every = [stranger.name for stranger in strangers_of(store, settings)]
    few = [stranger.name for stranger in strangers_of(store, override(settings, {"learn.mined_negatives": 3}))]
    assert few == every[:3]
    assert strangers_of(store, override(settings, {"learn.mined_negatives": 0})) == []


def test_what_the_user_has_spoken_of_is_no_stranger(store: Store, settings: Settings) -> None:
    """A page that was reviewed, and one that became an example, are strangers no more."""
    reviewed, confirmed, *_ = (stranger.name for stranger in strangers_of(store, settings))
    [(oid,)] = store.query("SELECT oid FROM crawl WHERE url = $1", [reviewed]).rows
    store.query("INSERT INTO reviews VALUES (now()::TIMESTAMP, 1, $1, 'yes', '')", [oid], write=True)
    path = next(topic.path for topic in store.load_topics() if topic.path)
    training_data.add_example(store, path, confirmed, True, Path(), read_file)
    left = {stranger.name for stranger in strangers_of(store, settings)}
    assert left
    assert not left & {reviewed, confirmed}


@pytest.mark.parametrize("kind", ["counter-examples", "topics that are not wanted"])
def test_a_user_who_shows_what_is_not_wanted_needs_none(store: Store, settings: Settings, kind: str) -> None:
    """With 20 documents that are not wanted there are none, with 19 there are."""
    [topic, other, *_] = [topic for topic in store.load_topics() if topic.path]
    pages = unasked(store)[:20]
    if kind != "counter-examples":
        training_data.mark(store, other.path, good=False)
        for record in list(store.load_training()):
            if record.kcid == other.kcid:
                training_data.drop_example(store, other.path, record.name)
    for number, url in enumerate(pages, 1):
        if kind == "counter-examples":
            training_data.add_example(store, topic.path, url, False, Path(), read_file)
        else:
            training_data.add_example(store, other.path, url, True, Path(), read_file)
        if number >= 19:
            assert bool(strangers_of(store, settings)) == (number == 19), number


@pytest.mark.parametrize("changes", [{"classify.others": "texts"}, {"classify.classifier": "oasis"}])
def test_where_there_is_no_use_for_them(store: Store, settings: Settings, changes: dict[str, Any]) -> None:
    """Texts of OTHERS that the user named are enough; a filter does not learn from OTHERS what is not wanted."""
    known = learn.gather(store, settings)
    assert learn.with_crawled_pages(store, settings, known) is not known
    assert learn.with_crawled_pages(store, override(settings, changes), known) is known


def test_pages_like_the_examples_are_no_strangers(store: Store, settings: Settings) -> None:
    """Where all pages met are what the examples are none is a stranger, though a quarter of them is least sure."""
    known = learn.gather(store, settings)
    topic = known.examples[0].kcid
    mine = [example for example in known.examples if example.kcid == topic]
    met = [dataclasses.replace(mine[n % len(mine)], kcid=ABOVE_ROOT, positive=False, name=str(n)) for n in range(40)]
    rest = TrainingSet(known.hierarchy, known.examples, known.others, terms=known.terms, keywords=known.keywords)
    assert choose_negatives(rest, met, settings) == []


def test_too_few_pages_are_not_read(store: Store, settings: Settings) -> None:
    """Where it is known beforehand that pages do not suffice, they would not have; answers count where a model is
    calibrated."""
    calibrated = override(settings, {"classify.calibrate": True, "classify.classifier": "svm"})
    assert not learn.has_enough_pages(store, settings, MIN_PAGES - 1)
    assert learn.has_enough_pages(store, settings, MIN_PAGES)
    assert not learn.has_enough_pages(store, calibrated, MIN_MET - 1)
    assert learn.has_enough_pages(store, calibrated, MIN_MET)
    store.query(
        "UPDATE training SET source = 'confirmed' WHERE rowid IN (SELECT rowid FROM training LIMIT 4)", write=True
    )
    assert learn.has_enough_pages(store, calibrated, MIN_MET - 4)
    assert not learn.has_enough_pages(store, calibrated, MIN_MET - 5)
    assert not learn.has_enough_pages(store, calibrated, 0)
