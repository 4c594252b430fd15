"""A query that trains: its best hits are shown before there is a model, picked by the user or taken without asking."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fetch_servers import WebServer
from learn_webs import OWL
from opilio import Collection
from opilio.cli import cli
from opilio.cli.questions import parse_places
from opilio.crawl.asker import TAKE_HITS_AT_PAGES
from opilio.errors import InputError
from opilio.learn.hits import TAKEN_HITS, take_best_hits
from opilio.learn.training_data import MIN_CONFIRMED
from opilio.store import Store
from running_crawls import crawl_beside, wait_for
from test_cli_terminal import Terminal
from test_crawl_calibrated import from_a_question, question_web
from web_portal import Portal

SOURCES = "SELECT name FROM training WHERE source = '{}' ORDER BY name"


@pytest.fixture
def query_only(tmp_path: Path) -> Iterator[Collection]:
    """A collection of 30 pages that was made from a word and seeds: no model, and nobody was asked."""
    with from_a_question(tmp_path, limits__max_pages=30) as collection:
        collection.crawl()
        yield collection


def run(*arguments: Any) -> Result:
    """A call of the command line whose input is no terminal."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def names(collection: Collection, source: str) -> list[str]:
    """The examples of one source."""
    return [name for (name,) in collection.sql(SOURCES.format(source)).rows]


def test_hits_are_the_pages_that_match_best(query_only: Collection) -> None:
    """Best first, each with what one needs to choose; what is an example, or was answered, is not listed again."""
    found = query_only.hits(200)
    relevances = [hit["relevance"] for hit in found]
    assert relevances == sorted(relevances, reverse=True) and len(found) > MIN_CONFIRMED
    [(best,)] = query_only.sql("SELECT max(relevance) FROM pages").rows
    assert relevances[0] == pytest.approx(best)
    assert all(hit["accepted"] == (hit["relevance"] >= 0.5) and hit["title"] and hit["snippet"] for hit in found)
    query_only.feedback(found[0]["url"], "relevant")
    query_only.answer(query_only.questions()[0]["oid"], "no")
    left = {hit["oid"] for hit in query_only.hits(200)}
    assert found[0]["oid"] not in left and len(left) == len(found) - 2
    assert len(query_only.hits(2)) == 2


def test_training_says_what_is_missing(query_only: Collection, tmp_path: Path) -> None:
    """The count of confirmed pages, and both ways on; without words, examples are what is missing. The same while a
    crawl runs: three words are no document to learn from."""
    query_only.feedback(query_only.hits()[0]["url"], "relevant")
    with pytest.raises(InputError, match="1 confirmed page of at least 3") as caught:
        query_only.train()
    assert "opilio ask FOLDER" in caught.value.hint and "--yes" in caught.value.hint
    query_only.change_settings({"limits.max_pages": 0, "fetch.host_delay_s": 0.5})
    crawl = crawl_beside(query_only)
    try:
        wait_for(query_only, lambda: query_only.status().running)
        with pytest.raises(InputError, match="1 confirmed page of at least 3"):
            query_only.train()
    finally:
        query_only.stop()
        crawl.join()
    assert not query_only.models()
    plain = Collection.create(tmp_path / "plain", seeds=tmp_path / "seeds.txt")
    with pytest.raises(InputError, match="no examples to learn from"):
        plain.train(take_hits=True)


def test_training_takes_the_best_hits_if_told_to(query_only: Collection) -> None:
    """At most eight, the best of those that the words accept, under a source of their own; the model knows them, the
    words are no example any more. A hit that the user confirms is the user's own."""
    accepted = [hit["url"] for hit in query_only.hits(200) if hit["accepted"]]
    done = run("topics", "train", query_only.folder, "--yes")
    assert done.exit_code == 0 and "model 1 trained" in done.output
    taken = names(query_only, "hit")
    assert taken == sorted(accepted[:TAKEN_HITS]) and all(url in done.output for url in taken)
    assert query_only.models()[0]["documents"] == len(taken)
    again = run("topics", "train", query_only.folder, "--yes")
    assert names(query_only, "hit") == taken and "example from now on" not in again.output
    query_only.feedback(taken[0], "relevant")
    assert names(query_only, "confirmed") == taken[:1]


def test_too_few_hits_are_not_taken(query_only: Collection) -> None:
    """With two accepted pages there is no model, and nothing is changed; a confirmed page makes up for the third."""
    best, second, third = (hit["oid"] for hit in query_only.hits(3))
    too_few = f"UPDATE pages SET relevance = 0.4 WHERE oid NOT IN ({best}, {second})"
    query_only.sql(too_few, write=True)
    before = query_only.pending()
    with pytest.raises(InputError, match="too few stored pages match"):
        query_only.train(take_hits=True)
    assert names(query_only, "hit") == [] and query_only.pending() == before
    query_only.feedback(next(hit["url"] for hit in query_only.hits() if hit["oid"] == third), "relevant")
    query_only.sql(too_few, write=True)  # what is like the confirmed page was judged again
    assert query_only.train(take_hits=True) == 1
    assert len(names(query_only, "hit")) == 2


def test_a_crawl_takes_its_best_hits(tmp_path: Path) -> None:
    """With `learn.hits`, which --yes sets, the crawl has examples and a model without a question, once there is
    something to choose from; it takes them once, and says so."""
    quick = {"limits__max_pages": 50, "learn__mined_negatives": 0, "classify__calibrate": False}
    with from_a_question(tmp_path, learn__hits=TAKEN_HITS, learn__questions=0, **quick) as collection:
        status = collection.crawl()
    taken = names(collection, "hit")
    assert MIN_CONFIRMED <= len(taken) <= TAKEN_HITS
    assert sum("/owl/" in url for url in taken) > len(taken) / 2
    models = collection.sql("SELECT reason, documents FROM models ORDER BY version").rows
    assert models[0] == ("feedback", len(taken))
    assert any(f"{len(taken)} best hits were taken" in notice["text"] for notice in status.notices)
    [(before,)] = collection.sql(
        "SELECT count(*) FROM pages WHERE visited < (SELECT min(added) FROM training WHERE source = 'hit')"
    ).rows
    assert before >= TAKE_HITS_AT_PAGES
    with Store.open(collection.folder) as store:
        assert take_best_hits(store, TAKEN_HITS) == [], "there is enough to learn from"


def test_a_description_is_learned_from(tmp_path: Path) -> None:
    """From 30 words on the first model is trained on it, and knows owls from rivers; a shorter one is announced to be
    only words that judge."""
    web = question_web()
    (tmp_path / "seeds.txt").write_text("\n".join(web.url(path) for path in list(web.texts)[:10]))
    with WebServer(web.routes()) as server:
        options = ["--seeds", tmp_path / "seeds.txt", "--max-pages", 40, "--delay", "0s", "--workers", -1, "-q",
                   "--set", f'fetch.connect_to={{"*" = "{server.address}"}}', "--set", "learn.mined_negatives=0",
                   "--set", "classify.calibrate=false", "--set", "search.index=false"]  # fmt: skip
        long = run("crawl", tmp_path / "long", "--description", " ".join(OWL), *options)
        short = run("crawl", tmp_path / "short", "--description", " ".join(OWL[:9]), *options)
    assert (long.exit_code, short.exit_code) == (0, 0)
    assert "notice: the description has 9 words; from 30 on" in short.output and "notice" not in long.output
    assert not Collection(tmp_path / "short").models()
    taught = Collection(tmp_path / "long")
    [(reason, documents)] = taught.sql("SELECT reason, documents FROM models").rows
    assert (reason, documents) == ("first", 1)
    sql = "SELECT avg(relevance) FILTER (url LIKE '%/owl/%') > avg(relevance) FILTER (url LIKE '%/river/%') FROM collection"
    assert taught.sql(sql).rows == [(True,)]


def test_the_option_yes_is_kept(query_only: Collection) -> None:
    """`opilio crawl --yes` sets the number of hits in crawl.toml."""
    assert run("crawl", query_only.folder, "--yes", "--max-pages", "30", "-q").exit_code == 0
    assert Collection(query_only.folder).settings.learn.hits == TAKEN_HITS


def test_hits_are_listed_and_picked_without_a_terminal(query_only: Collection) -> None:
    """Title, address, snippet and score of each, and the command to pick; a page that is no hit changes nothing."""
    listed = run("ask", query_only.folder, "--hits", "5")
    found = query_only.hits(5)
    for place, hit in enumerate(found, 1):
        for part in (f"{place:>3}. {hit['title']}", hit["url"], hit["snippet"][:40], f"page {hit['oid']}, topic owl"):
            assert part in listed.output
    assert f"opilio ask {query_only.folder} --pick PAGE" in listed.output
    as_json = run("ask", query_only.folder, "--hits", "--format", "json")
    assert json.loads(as_json.output) == query_only.hits()
    wrong = run("ask", query_only.folder, "--pick", found[0]["oid"], "--pick", 10**9)
    assert isinstance(wrong.exception, InputError) and names(query_only, "confirmed") == []
    done = run("ask", query_only.folder, *(part for hit in found[:3] for part in ("--pick", hit["oid"])))
    assert "changes not yet learned: opilio topics train" in done.output
    assert names(query_only, "confirmed") == sorted(hit["url"] for hit in found[:3])
    assert query_only.train() == 1


def test_hits_are_picked_by_number_in_a_terminal(query_only: Collection) -> None:
    """A wrong line is asked for again; then the pages of these numbers are examples."""
    found = query_only.hits(4)
    terminal = Terminal("ask", str(query_only.folder), "--hits", "4")
    terminal.wait_for("Which are examples")
    terminal.type(b"9\r")
    terminal.wait_for("numbers from 1 to 4")
    terminal.type(b"1 3-4\r")
    assert terminal.wait_for_end() == 0
    assert names(query_only, "confirmed") == sorted(found[place]["url"] for place in (0, 2, 3))


def test_places() -> None:
    """Numbers, ranges, all and none; anything else is refused."""
    assert parse_places("1, 3  5-7,3", 9) == [1, 3, 5, 6, 7]
    assert parse_places(" ALL ", 3) == [1, 2, 3]
    assert parse_places("", 3) == []
    for wrong in ("0", "4", "2-1", "1-4", "x", "-1", "1-"):
        with pytest.raises(ValueError):
            parse_places(wrong, 3)


def test_cards_of_the_portal_before_there_is_a_model(query_only: Collection) -> None:
    """The questions of a query-only collection are cards with title, snippet and buttons; three answers by its API are
    enough for training, which before says what is missing. The best hits are there, too."""
    with Portal(query_only.folder.parent) as portal:
        name = query_only.folder.name
        page = portal.get(f"/c/{name}/questions")[1]
        asked = portal.get(f"/api/c/{name}/questions")[1]
        assert len(asked) >= MIN_CONFIRMED
        assert all(one["title"] in page and one["snippet"][:40] in page for one in asked)
        hits = portal.get(f"/api/c/{name}/hits", limit=3)[1]
        assert [hit["oid"] for hit in hits] == [hit["oid"] for hit in query_only.hits(3)]
        refused = portal.ask("POST", f"/api/c/{name}/train", {})
        assert refused[0] == 400 and "0 confirmed pages of at least 3" in str(refused[1])
        for one in asked[:MIN_CONFIRMED]:
            assert portal.ask("POST", f"/api/c/{name}/answer", {"oid": one["oid"], "answer": "yes"})[0] == 200
        assert portal.ask("POST", f"/api/c/{name}/train", {})[0] == 200
    assert query_only.models()[0]["documents"] == MIN_CONFIRMED
