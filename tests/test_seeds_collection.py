"""Collections that find their own seeds: when they are made, later, and while a crawl runs; from Python, CLI and portal."""

import json
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from conftest import TAUGHT_TOPICS, MakeCollection
from opilio import Collection
from opilio.cli import cli
from opilio.errors import InputError
from opilio.lab.local_web import LocalServer
from opilio.seeds import SeedError
from opilio.store.schema import migrations
from seed_services import Answer, Service, serving
from web_portal import Portal

NOWHERE = "searxng=http://127.0.0.1:1"
ALLOWED = {"fetch.allow_private_addresses": True, "fetch.host_delay_s": 0.0}
SET = ["--set", "fetch.allow_private_addresses=true", "--set", "fetch.host_delay_s=0"]
SEEDS = "SELECT url, source, title, found FROM seeds ORDER BY rowid"


def run(*command: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(command))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 1, f"{result.output}{result.exception}"
    return result.exit_code, result.output


def test_a_question_alone_makes_a_collection_that_knows_where_its_seeds_are_from(
    tmp_path: Path, small_server: LocalServer
) -> None:
    """Seeds of a provider are crawled like any others, and every page that came from one says who found it."""
    urls = small_server.web.seeds(TAUGHT_TOPICS[0], 3)
    changes = {**ALLOWED, "fetch.connect_to": small_server.connect_to, "run.workers": -1, "limits.max_pages": 6}
    with serving("searxng", urls) as (_, provider):
        collection = Collection.create(
            tmp_path / "c", query="keys and ciphers", settings={**changes, "seeds.providers": [provider]}
        )
    assert collection.settings.seeds.query == "keys and ciphers"
    finds = [{"provider": provider, "query": "keys and ciphers", "rank": n} for n in (1, 2, 3)]
    assert [(row[0], row[1], row[3]) for row in collection.sql(SEEDS).rows] == [
        (url, "found", [find]) for url, find in zip(urls, finds, strict=True)
    ]
    assert collection.crawl().pages == 6
    assert collection.explain(urls[1])["found"] == [finds[1]]
    assert collection.explain_link(urls[1])["found"] == [finds[1]]
    said = run("explain", str(collection.folder), urls[1])[1]
    assert f"found as a seed by {provider}, rank 2 for 'keys and ciphers'" in said
    with Portal(collection.folder) as portal:
        page = portal.get("/c/c/page", url=urls[1])[1]
    assert f"found by {provider} (rank 2 for “keys and ciphers”)" in page
    others = collection.sql("SELECT url FROM collection WHERE depth > 0").rows
    assert collection.explain(others[0][0])["found"], "a page reached by links is traced back to the seed"


def test_titles_of_finds_do_not_drown_the_question(tmp_path: Path) -> None:
    """What a service calls its results does not become what pages are judged by."""
    with serving("searxng", ["http://a.test/1"]) as (_, provider):
        Collection.create(tmp_path / "c", query="owl", settings={**ALLOWED, "seeds.providers": [provider]})
    [root] = Collection(tmp_path / "c").topics()
    assert root["keywords"] == ["owl"]


def test_one_failure_warns_and_none_left_is_an_error(tmp_path: Path) -> None:
    """A provider that fails is named while another answers; when none does, nothing is made."""
    with serving("searxng", ["http://a.test/1"]) as (_, good):
        with pytest.warns(UserWarning, match="127.0.0.1:1 cannot be reached"):
            Collection.create(tmp_path / "c", query="owl", settings={**ALLOWED, "seeds.providers": [good, NOWHERE]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Collection.create(tmp_path / "d", query="owl", settings={**ALLOWED, "seeds.providers": [good]})
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://b.test/")
    for inputs in ({}, {"seeds": seeds}):
        with pytest.raises(SeedError, match="cannot be reached"):
            Collection.create(tmp_path / "e", query="owl", settings={**ALLOWED, "seeds.providers": [NOWHERE]}, **inputs)
    assert not (tmp_path / "e").exists()


def test_without_a_provider_nobody_is_asked(tmp_path: Path) -> None:
    """The default is none; the error of a question without seeds names providers as a way."""
    with pytest.raises(InputError) as found:
        Collection.create(tmp_path / "c", query="owl")
    assert "--seed-provider" in found.value.hint
    assert Collection.create(tmp_path / "d", bookmarks=_bookmarks(tmp_path)).settings.seeds.providers == ()


def _bookmarks(place: Path) -> Path:
    file = place / "bookmarks.html"
    file.write_text("<DT><H3>Owls</H3><DL><p><DT><A HREF='http://a.test/'>Owls</A></DL>")
    return file


def test_the_command_says_who_found_how_many(tmp_path: Path, small_server: LocalServer) -> None:
    """`opilio crawl` and `opilio seeds` name each provider with its count or its trouble, and what is new."""
    urls = small_server.web.seeds(TAUGHT_TOPICS[0], 3)
    routes = ", ".join(f'"{name}" = "{address}"' for name, address in small_server.connect_to.items())
    with serving("searxng", urls[:2]) as (service, good), serving("mediawiki", urls[1:]) as (wiki, m):
        folder = str(tmp_path / "owls")
        code, said = run("crawl", folder, "--query", "barn owl", "--seed-provider", good, "--seed-provider", NOWHERE,
                         *SET, "--set", f"fetch.connect_to={{ {routes} }}", "--max-pages", "1", "--quiet",
                         "--workers", "-1")  # fmt: skip
        assert code == 0, said
        assert f"2 start pages from {good}" in said
        assert f"warning: seed provider {NOWHERE} cannot be reached" in said
        assert service.asked[0] == ("/search", {"q": "barn owl", "format": "json", "pageno": "1"})
        code, said = run("seeds", folder, "--seed-provider", m)
        assert code == 0, said
        assert f"2 start pages from {m}" in said
        assert "1 new seeds" in said
        assert wiki.asked[0][1]["gsrsearch"] == "barn owl", "the words that the collection began with"
        code, said = run("seeds", folder, "--query", "kestrel", "--json")
        report = json.loads(said)
        assert (report["query"], report["new"]) == ("kestrel", 0)
        assert [answer["pages"] for answer in report["answers"]] == [2, 0], "those of the settings"
        assert report["answers"][1]["trouble"]
    code, said = run("seeds", folder)
    assert code == 1
    assert "cannot be reached" in said
    assert "no seed provider" in run("seeds", str(_plain(tmp_path).folder))[1]


def _plain(place: Path) -> Collection:
    return Collection.create(place / "plain", bookmarks=_bookmarks(place))


def test_seeds_for_a_topic_are_asked_for_by_its_name(tmp_path: Path) -> None:
    """A collection of bookmarks can ask for one of its topics; the seeds join that topic. Unknown topics cost nothing."""
    collection = _plain(tmp_path)
    collection.change_settings(ALLOWED)
    with serving("searxng", ["http://b.test/1"]) as (service, provider):
        assert collection.find_seeds(topic="Owls", providers=[provider])["new"] == 1
        assert service.asked[0][1]["q"] == "Owls"
        count = len(service.asked)
        with pytest.raises(InputError, match="no topic"):
            collection.find_seeds(topic="Hawks", providers=[provider])
        with pytest.raises(SeedError, match="needs words"):
            collection.find_seeds(providers=[provider])
        assert len(service.asked) == count
    found = collection.sql("SELECT path FROM seeds JOIN topics USING (kcid) WHERE url = 'http://b.test/1'").rows
    assert found == [("Owls",)]


def wait_for(what: Callable[[], Any], timeout_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_crawl_that_runs_queues_new_seeds_at_once(make_collection: MakeCollection, small_server: LocalServer) -> None:
    """What providers find while a crawl runs is fetched in the same run."""
    starts = small_server.web.seeds(TAUGHT_TOPICS[0], 2)
    collection = make_collection(starts, fetch__host_delay_s=0.05, fetch__allow_private_addresses=True)
    thread = threading.Thread(target=collection.crawl)
    thread.start()
    try:
        wait_for((collection.folder / "engine.json").exists)
        other = Collection(collection.folder)
        wait_for(lambda: other.status().pages >= 2)
        with serving("searxng", ["http://found.test/first", starts[0]]) as (_, provider):
            assert other.find_seeds("data", providers=[provider])["new"] == 1
        asked = "SELECT count(*) FROM visits JOIN crawl USING (oid) WHERE url = 'http://found.test/first'"
        wait_for(lambda: other.sql(asked).rows[0][0] > 0)
        other.stop()
    finally:
        thread.join(60)
    assert collection.sql("SELECT depth FROM crawl WHERE url = 'http://found.test/first'").rows == [(0,)]
    assert collection.sql("SELECT max(run) FROM runs").rows == [(1,)]


def test_the_form_of_the_portal_asks_too(tmp_path: Path) -> None:
    """A wish with a service needs no addresses; what it found is said, and what went wrong is an error of the form."""
    with serving("searxng", ["http://a.test/1"]) as (_, good), Portal(tmp_path) as portal:
        wish = {"name": "owls", "start": False, "query": "barn owl", "settings": ["fetch.allow_private_addresses=true"]}
        status, answer = portal.ask("POST", "/api/collections", {**wish, "providers": [NOWHERE]})
        assert (status, "cannot be reached" in answer["error"]) == (400, True)
        assert not list(tmp_path.iterdir())
        status, answer = portal.ask("POST", "/api/collections", {**wish, "providers": [good, " ", NOWHERE]})
        assert status == 200, answer
        assert f"1 start page from {good}; {NOWHERE} cannot be reached" in answer["said"]
        status, answer = portal.ask("POST", "/api/c/owls/seeds", {"query": "kestrel"})
        assert (status, answer["new"]) == (200, 0), answer
        assert portal.ask("POST", "/api/c/owls/seeds", {"query": "kestrel"}, token="")[0] == 403


def test_keys_are_kept_from_readers(tmp_path: Path) -> None:
    """The key of a service is in crawl.toml, for its owner only, and in nothing that people or programs read."""
    with Service(lambda path, given: Answer(b'[{"url": "http://a.test/1"}]')) as service:
        provider = f"opensearch={service.address}/s?q={{searchTerms}}&key=hidden"
        collection = Collection.create(
            tmp_path / "c", query="owl", settings={**ALLOWED, "seeds.providers": [provider], "limits.max_pages": 1}
        )
        assert service.asked[0][1]["key"] == "hidden"
    file = tmp_path / "c" / "crawl.toml"
    assert "hidden" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert "hidden" not in str(collection.sql(SEEDS).rows)
    assert "hidden" not in run("settings", str(tmp_path / "c"))[1]


def test_seeds_of_older_collections_have_no_finder(tmp_path: Path) -> None:
    """The migration adds the column at its place, and changes nothing else."""
    collection = _plain(tmp_path)
    before = str(next(step.version for step in migrations() if step.name == "found_seeds") - 1)
    with duckdb.connect(collection.folder / "collection.duckdb") as connection:
        connection.execute(
            "ALTER TABLE seeds DROP COLUMN found; DROP TABLE sifted; DROP TABLE archives; DROP TABLE labels"
        )
        connection.execute("ALTER TABLE questions DROP COLUMN answered_by")
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema_version'", [before])
    assert collection.sql(SEEDS).rows == [("http://a.test/", "given", "Owls", None)]
    with serving("searxng", ["http://b.test/1"]) as (_, provider):
        collection.change_settings(ALLOWED)
        assert collection.find_seeds("owl", providers=[provider])["new"] == 1
