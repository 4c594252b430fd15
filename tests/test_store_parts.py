"""Dividing and joining databases: nothing is lost, whatever is in them."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from made_worlds import make_world
from opilio import merge, split
from opilio.classify import Model
from opilio.errors import InputError
from opilio.parts.rules import RULES
from opilio.parts.split import plan_parts
from opilio.store import Store
from opilio.topics import TopicRecord
from parts_facts import differences, facts

DERIVED = frozenset({"meta", "counters", "progress", "taxonomy_stat", "stat", "blob"})
TOPICS = st.sampled_from([(), ("A",), ("A / x", "B"), ("C", "A"), ("C / y",)])
MANY = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
STRENGTH = {"fetched": 4, "failed": 3, "waiting": 2, "dropped": 1}


def test_every_table_has_a_rule(tmp_path: Path) -> None:
    """A table that is added to the schema must say what becomes of it."""
    with Store.create(tmp_path / "c") as store:
        sql = "SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
        tables = {name for (name,) in store.query(sql).rows}
    assert tables == set(RULES)


def test_what_was_divided_is_joined_again() -> None:
    """Merging the parts of a collection gives the same rows in every table; each fact was in one part."""
    _divide_and_join(31, ("A / x", "B"))


@pytest.mark.slow
@MANY
@given(seed=st.integers(0, 2**32), topics=TOPICS)
def test_what_was_divided_is_joined_again_many_times(seed: int, topics: tuple[str, ...]) -> None:
    """The same of any collection, whatever the parts are."""
    _divide_and_join(seed, topics)


def _divide_and_join(seed: int, topics: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as place:
        whole = make_world(Path(place, "whole"), seed)
        parts = split(whole, Path(place, "parts"), topics)
        merge(Path(place, "again"), [part.folder for part in parts])
        before = facts(whole)
        assert not differences(before, facts(Path(place, "again")))
        _check_parts(before, [facts(Path(part.folder)) for part in parts])


def _check_parts(whole: dict[str, Counter[Any]], parts: list[dict[str, Counter[Any]]]) -> None:
    """Every fact is in one part, and every URL that is another's is known to be."""
    for table in (
        "pages",
        "terms",
        "visits",
        "judgements",
        "reviews",
        "questions",
        "redirects",
        "duplicates",
        "past_links",
        "revisits",
        "hubs",
        "seeds",
    ):
        assert sum((part[table] for part in parts), Counter()) == whole[table], table
    for part in parts:
        assert part["lexicon"] == whole["lexicon"] and part["models"] == whole["models"]
        own = {row[1] for row in part["crawl"] if row[9] != "elsewhere"}
        others = {row[1]: row for row in part["crawl"] if row[9] == "elsewhere"}
        assert all(row[8] == "dropped" and row[15] is None for row in others.values())
        assert {row[0] for row in part["pages"]} <= own
        expected = {link for link in whole["links"] if link[0] in own or link[1] in own}
        assert set(part["links"]) == expected
        assert [row[0] for row in part["progress"]] == [row[0] for row in whole["progress"]], (
            "the phase is every part's"
        )


def test_strangers_lose_nothing() -> None:
    """Of collections that know some of the same URLs under other numbers, all facts are there, each once."""
    _join_strangers(32)


@pytest.mark.slow
@MANY
@given(seed=st.integers(0, 2**32))
def test_strangers_lose_nothing_many_times(seed: int) -> None:
    """The same of any two collections."""
    _join_strangers(seed)


def _join_strangers(seed: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        one = make_world(Path(place, "one"), seed, sites=("a.org", "b.org"), urls=20)
        two = make_world(
            Path(place, "two"), seed + 1, sites=("b.org", "c.org"), urls=20, later_s=0.5,
            paths=("", "A", "D", "C", "C / y", "C / z"),
        )  # fmt: skip
        merge(Path(place, "both"), [one, two])
        ours, theirs, both = facts(one), facts(two), facts(Path(place, "both"))
    sources = [ours, theirs]
    for table in ("visits", "lexicon", "notices", "runs", "offers", "reviews", "questions", "redirects", "past_links"):
        columns = slice(1, None) if table == "runs" else slice(None)
        assert {row[columns] for row in both[table]} == {row[columns] for s in sources for row in s[table]}, table
    assert {row[1] for row in both["crawl"]} == {row[1] for source in sources for row in source["crawl"]}
    _check_urls(sources, both)
    _check_hosts(sources, both)
    assert {row[3] for row in both["topics"]} == {row[3] for source in sources for row in source["topics"]}
    assert {row[3] for row in both["topics"] if row[4] == "good"} == {"A", "B", "C / y"}
    names = {(row[0], row[2]) for source in sources for row in source["training"]}
    assert {(row[0], row[2]) for row in both["training"]} == names
    assert sum(both["judgements"].values()) == sum(sum(source["judgements"].values()) for source in sources)


def _check_urls(sources: list[dict[str, Counter[Any]]], both: dict[str, Counter[Any]]) -> None:
    """The strongest word on a URL counts, and the page that was visited last."""
    rows: dict[str, list[Any]] = defaultdict(list)
    pages: dict[str, list[Any]] = defaultdict(list)
    links: dict[tuple[str, int], set[Any]] = defaultdict(set)
    for number, source in enumerate(sources):
        for row in source["crawl"]:
            rows[row[1]].append((STRENGTH[row[8]], str(row[15] or ""), -number, row))
        for row in source["pages"]:
            pages[row[0]].append((row[1], -number, row[:20]))
        for row in source["links"]:
            links[row[0], number].add(row)
    for row in both["crawl"]:
        best = max(rows[row[1]], key=lambda found: found[:3])
        assert row[8:10] == best[3][8:10] and row[15] == best[3][15] and row[4] == best[3][4]
        giver = -(max(pages[row[1]])[1] if row[1] in pages else best[2])
        assert {link for link in both["links"] if link[0] == row[1]} == links[row[1], giver]
    assert {row[0] for row in both["pages"]} == set(pages)
    assert {row[:20] for row in both["pages"]} == {max(found)[2] for found in pages.values()}


def _check_hosts(sources: list[dict[str, Counter[Any]]], both: dict[str, Counter[Any]]) -> None:
    """A host is one by its name; what both have counted of the same visits is counted once."""
    names = {row[1] for source in sources for row in source["hosts"]}
    assert {row[1] for row in both["hosts"]} == names and len(both["hosts"]) == len(names)
    alone = names - {row[1] for row in sources[1]["hosts"]}
    counts = {row[1]: row[4:7] for row in sources[0]["hosts"]}
    assert all(row[4:7] == counts[row[1]] for row in both["hosts"] if row[1] in alone)


def test_a_copy_adds_nothing(tmp_path: Path) -> None:
    """A collection merged with a copy of itself is the collection: nothing is there, or counted, twice."""
    one, two = (make_world(tmp_path / name, 5) for name in ("one", "two"))
    with Store.open(one) as store:  # as a crawl counts
        for column, told in (("pages", "pages"), ("requests", "visits")):
            store.query(f"UPDATE counters SET n = (SELECT count(*) FROM {told}) WHERE name = '{column}'", write=True)
    with Store.open(two) as store:
        for column, told in (("pages", "pages"), ("requests", "visits")):
            store.query(f"UPDATE counters SET n = (SELECT count(*) FROM {told}) WHERE name = '{column}'", write=True)
    merge(tmp_path / "both", [one, two])
    before, after = facts(one), facts(tmp_path / "both")
    assert not differences(before, after, DERIVED | {"hosts"})
    for name in ("pages", "requests"):
        assert {row for row in after["counters"] if row[0] == name} == {
            row for row in before["counters"] if row[0] == name
        }


def test_some_parts_keep_what_points_out(tmp_path: Path) -> None:
    """Two of three parts keep the links from and to the third, whose URLs stay marked as elsewhere; it comes later."""
    whole = make_world(tmp_path / "whole", 11)
    parts = [Path(part.folder) for part in split(whole, tmp_path / "parts")]
    assert len(parts) == 4
    merge(tmp_path / "some", parts[:2])
    first, some = facts(whole), facts(tmp_path / "some")
    own = {row[1] for row in some["crawl"] if row[9] != "elsewhere"}
    assert {row[1] for row in some["crawl"] if row[9] == "elsewhere"}
    assert set(some["links"]) == {link for link in first["links"] if link[0] in own or link[1] in own}
    merge(tmp_path / "all", [*parts[2:], tmp_path / "some", parts[0]])  # one of them a second time
    assert not differences(first, facts(tmp_path / "all"), frozenset({"counters", "hosts"}))


def test_examples_of_other_parts_are_learned_by_their_text(tmp_path: Path) -> None:
    """Every part can learn from every example that was stored, and merging forgets the copies of their texts."""
    whole = make_world(tmp_path / "whole", 3)
    with Store.open(whole) as store:
        url, text = store.query("SELECT url, text FROM crawl JOIN pages USING (oid) ORDER BY oid LIMIT 1").rows[0]
        store.query(
            "INSERT INTO training SELECT ?, 'url', max(kcid), true, 'given', '', NULL, NULL FROM topics",
            [url], write=True,
        )  # fmt: skip
    parts = split(whole, tmp_path / "parts", ["A"])
    for part in parts:
        with Store.open(Path(part.folder)) as store:
            assert text in [record.text for record in store.load_training() if record.name == url]
    merge(tmp_path / "again", [part.folder for part in parts])
    assert not differences(facts(whole), facts(tmp_path / "again"))


RECORDS = [
    TopicRecord(0, None, "all", "", "path", []),
    TopicRecord(1, 0, "A", "A", "good", []),
    TopicRecord(2, 1, "x", "A / x", "subsumed", []),
    TopicRecord(3, 0, "a", "a", "path", []),
    TopicRecord(4, 3, "y/z", "a / y/z", "good", []),
    TopicRecord(5, 0, "rest", "rest", "null", []),
]


def test_parts_are_named_and_want_their_topics() -> None:
    """Names are fit for folders and differ also where case does not count; marks follow from the topics of a part."""
    parts = plan_parts(RECORDS, ())
    assert [(part.name, part.topic) for part in parts] == [("A", "A"), ("a-2", "a"), ("rest", "")]
    assert [sorted(k for k, mark in part.marks.items() if mark == "good") for part in parts] == [[1], [4], [1, 4]]
    named = plan_parts(RECORDS, ["a / y/z", "rest", "A / x"])
    assert [part.name for part in named] == ["a-y-z", "rest-2", "A-x", "rest"]
    assert [sorted(k for k, mark in part.marks.items() if mark == "good") for part in named] == [[4], [5], [2], [1]]


@pytest.mark.parametrize("topics", [["A", "A / x"], ["/"], ["nowhere"]])
def test_parts_that_cannot_be(topics: list[str]) -> None:
    """Topics inside each other, the root, and names that are not there are refused."""
    with pytest.raises(InputError):
        plan_parts(RECORDS, topics)


def test_models_stay_apart(tmp_path: Path) -> None:
    """Models of strangers with the same versions get others, and so do the judgements that are theirs.

    A model whose topics have other numbers now cannot judge: it is left out, below those that can.
    """
    one = make_world(tmp_path / "one", 1, sites=("a.org",), urls=8)
    two = make_world(tmp_path / "two", 2, sites=("b.org",), urls=8, paths=("", "A", "B"))
    report = merge(tmp_path / "both", [one, two])
    assert any("left out" in note and "two" in note for note in report.notes)
    judged = "SELECT host, model_version, count(*) FROM judgements JOIN crawl USING (oid) JOIN hosts USING (sid) GROUP BY ALL"
    with Store.open(one) as store:
        count = len(store.load_models())
    with Store.open(tmp_path / "both") as store:
        versions = [record.version for record in store.load_models()]
        assert len(versions) == count and store.query(judged + " HAVING model_version = 0").rows
        by_host = {host: version for host, version, _ in store.query(judged).rows if version}
        assert by_host["b.org"] < min(versions) <= by_host["a.org"]
        for version in versions:
            assert Model.from_bytes(store.load_model(version)).version == version
