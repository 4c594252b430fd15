"""Damaged and lost files: `verify` notices and names each defect, `repair` gives back every page that is sound."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from command_line import call
from conftest import MakeCollection
from killed_crawls import KILLABLE, kill_a_crawl
from opilio import Collection
from opilio.crawl.operations.client import is_running
from opilio.crawl.repair import repair
from opilio.crawl.verification import INDEX_CHECK, PAGES_CHECK, WARC_CHECK, Verification, verify
from opilio.lab.local_web import LocalServer
from opilio.lab.webs.transport import RecordedTransport
from opilio.store import Store, recover
from opilio.store.invariants import INVARIANTS
from opilio.store.salvage import reading_file
from running_crawls import crawl_beside
from webs import Page, Web

PAGES = 24
WORDS = "owl hunts at night over fields where small voles live and sleeps by day in barns trees caves or old towers"


def made_web() -> Web:
    """Pages of different words, each linked from the one before, and a redirect."""
    draw = random.Random(5)
    pages = [
        Page(
            " ".join(draw.choices(WORDS.split(), k=40)) + f" number {place} " * 5,
            title=f"Page {place}",
            links=((place + 1, f"to {place + 1}"), ((place * 7) % PAGES, "across")),
        )
        for place in range(PAGES)
    ]
    return Web([*pages, Page(redirect="http://h0.example/0.html")])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small collection that was crawled to its end; tests damage copies of it."""
    folder = tmp_path_factory.mktemp("sound")
    web = made_web()
    (folder / "seeds.txt").write_text(web.url(0))
    settings = {"run.workers": -1, "fetch.host_delay_s": 0.0, "learn.questions": 0}
    collection = Collection.create(folder / "c", seeds=folder / "seeds.txt", query="owl hunts", settings=settings)
    collection.crawl(transport=RecordedTransport(web.recorded(folder / "web"), collection.settings))
    collection.update_index()
    assert len(pages_of(folder / "c")) == PAGES
    assert verify(folder / "c").defects == 0
    return folder / "c"


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(sound, tmp_path / "c"))


def pages_of(folder: Path) -> set[tuple[object, ...]]:
    """What a reader has of each page."""
    return set(Collection(folder).sql("SELECT url, title, text, content_hash, status FROM collection").rows)


def responses_of(folder: Path) -> list[tuple[str, bytes, bytes]]:
    """What the archive has."""
    files = sorted((folder / "warc").glob("*.warc.gz"))
    return sorted((one.url, one.raw_head, one.raw_body) for file in files for one in recover(file))


def wrong(report: Verification) -> list[str]:
    """The names of the checks that found something wrong."""
    return [check.name for check in report.checks if check.count]


def flip(path: Path, at: int, bit: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def files_of(folder: Path) -> Iterator[Path]:
    """The files with content, apart from the settings."""
    return (
        path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size and path.suffix != ".toml"
    )


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 150), marks=pytest.mark.slow)])
def test_a_flipped_bit_is_named_or_means_nothing(sound: Path, tmp_path: Path, seeds: range) -> None:
    """Wherever a bit is flipped: verify names a defect or nothing has changed; repair gives back every page."""
    pages, responses = pages_of(sound), responses_of(sound)
    for seed in seeds:
        folder = Path(shutil.copytree(sound, tmp_path / f"c{seed}"))
        draw = random.Random(seed)
        files = list(files_of(folder))
        kind = [[f for f in files if f.parent.name == "c" + str(seed)], [f for f in files if "warc" in f.name],
                [f for f in files if "index" in f.parts]][seed % 3]  # fmt: skip
        path = draw.choices(kind, weights=[file.stat().st_size for file in kind])[0]
        at, bit = draw.randrange(path.stat().st_size), draw.randrange(8)
        flip(path, at, bit)
        found, where = verify(folder), f"seed {seed}: bit {bit} of byte {at} of {path.name}"
        if not found.defects:
            assert responses_of(folder) == responses, where
            assert pages_of(folder) == pages, where
            assert Collection(folder).search("owl")["total"] == Collection(sound).search("owl")["total"], where
            continue
        done = repair(folder)
        assert done.after is not None
        assert wrong(done.after) == [], f"{where}: {wrong(found)} {done}"
        assert pages_of(folder) == pages, f"{where}: {wrong(found)} {done}"
        shutil.rmtree(folder)


def test_a_lost_database_is_rebuilt(make_collection: MakeCollection, small_server: LocalServer) -> None:
    """From the WARC files alone: the same pages in the same states, nothing asked for again, and right counts."""
    collection = make_collection(["http://directory.test/"], fetch__in_flight=4, robots__sitemaps=True)
    collection.crawl()
    collection.crawl(recrawl=True)
    facts = """
        SELECT url, c.state, p.title, p.content_hash, p.visited, p.warc_offset FROM crawl c LEFT JOIN pages p USING (oid)
        WHERE c.state IN ('fetched', 'failed') AND c.outcome NOT IN ('dns-failed', 'connect-failed', 'timed-out')
        ORDER BY url
    """
    before = collection.sql(facts).rows
    requests = collection.status().counters["requests"]
    pages = collection.status().pages
    assert pages > 200
    (collection.folder / "collection.duckdb").unlink()
    answered_before = {(one.host, one.path) for one in small_server.requests() if one.status in (200, 301, 302)}
    small_server.clear_log()
    done = repair(collection.folder)
    assert done.after is not None
    assert wrong(done.after) == []
    assert [row for row in collection.sql(facts).rows if row[2]] == [row for row in before if row[2]]
    assert collection.sql("SELECT count(*) FROM duplicates WHERE oid = of_oid").rows == [(0,)]
    answered = collection.sql("SELECT count(*) FROM visits").rows[0][0]
    assert answered <= requests
    status = collection.crawl()
    assert (status.pages, status.waiting) == (pages, 0)
    asked = {(one.host, one.path) for one in small_server.requests()}
    assert not asked & answered_before, "what was answered once is not asked for again"
    assert wrong(verify(collection.folder)) == []


def test_each_kind_of_damage_has_its_result(copy: Path, sound: Path) -> None:
    """A WARC file that is cut or missing, an index that is missing, a database that is none, settings that are none."""
    pages = pages_of(sound)
    [file] = (copy / "warc").glob("*.warc.gz")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    found = verify(copy)
    assert wrong(found) == [WARC_CHECK, PAGES_CHECK]
    assert 0 < found.check(PAGES_CHECK).count < PAGES
    done = repair(copy)
    assert (pages_of(copy), wrong(verify(copy))) == (pages, [])
    assert any("archived responses" in line for line in done.lost)
    assert len(list(Path(done.kept).glob("*.warc.gz"))) == 1

    file.unlink()
    assert wrong(verify(copy)) == [WARC_CHECK, PAGES_CHECK]
    repair(copy)
    assert (pages_of(copy), wrong(verify(copy))) == (pages, [])

    shutil.rmtree(copy / "index")
    found = verify(copy)
    assert (wrong(found), found.notes) == ([], ["there is no search index: the next search makes one"])
    assert Collection(copy).search("owl")["total"] == Collection(sound).search("owl")["total"]

    (copy / "crawl.toml").write_text("[fetch\n")
    ran = call("verify", copy)
    assert (ran.returncode, "Traceback" in ran.stderr) == (1, False)
    assert call("repair", copy).returncode == 0
    assert Collection(copy).settings == Collection(sound).settings

    shutil.copytree(sound / "warc", copy / "warc", dirs_exist_ok=True)
    (copy / "collection.duckdb").write_bytes(b"no database" * 1000)
    ran = call("verify", copy)
    assert (ran.returncode, "cannot be read as a database" in ran.stdout) == (1, True)
    assert call("repair", copy).returncode == 0
    assert pages_of(copy) == pages
    assert call("verify", copy).returncode == 0


def test_pages_without_a_sound_record_come_from_the_database(copy: Path, sound: Path) -> None:
    """When a table is damaged and the WARC files are gone, pages, links and topics come from the tables that are left."""
    links = (
        "SELECT a.url, b.url FROM links JOIN crawl a ON a.oid = oid_src JOIN crawl b ON b.oid = oid_dst ORDER BY ALL"
    )
    shutil.rmtree(copy / "warc")
    with Store.open(copy) as store:
        store.query("UPDATE crawl SET oid = oid + 1 WHERE oid > 3", write=True)  # no mending will do
        for table, column in (("pages", "oid"), ("links", "oid_src"), ("links", "oid_dst"), ("terms", "oid")):
            store.query(f"UPDATE {table} SET {column} = {column} + 1 WHERE {column} > 3", write=True)
    assert "the numbers of URLs have no gaps and no repetitions" in wrong(verify(copy))
    done = repair(copy)
    assert done.after is not None
    assert (wrong(done.after), pages_of(copy)) == ([], pages_of(sound))
    was, now = Collection(sound), Collection(copy)
    assert now.sql(links).rows == was.sql(links).rows
    assert now.topics() == was.topics()
    assert (
        now.sql("SELECT state, count(*) FROM crawl GROUP BY ALL ORDER BY 1").rows
        == was.sql("SELECT state, count(*) FROM crawl GROUP BY ALL ORDER BY 1").rows
    )


BREAKING = {
    "every page has its URL": "UPDATE pages SET oid = 900 WHERE oid = 3",
    "no page is stored twice": "INSERT INTO pages SELECT * FROM pages WHERE oid = 7",
    "every URL that was fetched has its page": "DELETE FROM pages WHERE oid = 8",
    "links start at a known URL": "UPDATE links SET oid_src = 900 WHERE oid_src = 9",
    "links lead to a known URL": "UPDATE links SET oid_dst = 900 WHERE oid_dst = 10",
    "redirects start at a known URL": "INSERT INTO redirects VALUES (900, 3, 301)",
    "redirects lead to a known URL": "INSERT INTO redirects VALUES (3, 900, 301)",
    "duplicates belong to a known URL": "INSERT INTO duplicates VALUES (900, 3, 'content')",
    "originals of duplicates belong to a known URL": "INSERT INTO duplicates VALUES (3, 900, 'content')",
    "judgements belong to a known URL": "UPDATE judgements SET oid = 900 WHERE oid = 11",
    "questions belong to a known URL": "INSERT INTO questions VALUES (900, 0, now(), 'sure', 1, NULL, NULL, NULL)",
    "labels belong to a known URL": "INSERT INTO labels VALUES (now(), 900, 0, 'm', 0, 'yes', '', 1, 1, false)",
    "reviews belong to a known URL": "INSERT INTO reviews VALUES (now(), 0, 900, 'yes', '')",
    "earlier links belong to a known URL": "INSERT INTO past_links VALUES (900, 3, 0, 0, '', now(), now())",
    "no page is its own duplicate": "INSERT INTO duplicates VALUES (3, 3, 'content')",
    "terms belong to a stored page": "UPDATE terms SET oid = 900 WHERE oid = 12",
    "the counter 'pages' equals what is stored": "UPDATE counters SET n = n + 1 WHERE name = 'pages'",
    "the counter 'requests' equals what is stored": "DELETE FROM counters WHERE name = 'requests'",
    "the counter 'bytes' equals what is stored": "UPDATE counters SET n = 0 WHERE name = 'bytes'",
    "the pages of each host are counted": "UPDATE hosts SET pages = 0 WHERE sid = 1",
    "no URL is known twice": "UPDATE crawl SET url = (SELECT url FROM crawl WHERE oid = 13) WHERE oid = 14",
    "the numbers of URLs have no gaps and no repetitions": "UPDATE crawl SET oid = 900 WHERE oid = 15",
    "the numbers of hosts have no gaps and no repetitions": "UPDATE hosts SET sid = 900 WHERE sid = 1",
    "every URL has its host": "UPDATE crawl SET sid = 900 WHERE oid = 16",
    "every topic has its parent": "UPDATE topics SET pcid = 99",
}


def test_every_invariant_is_checked_and_mended(copy: Path) -> None:
    """Each invariant of the tables, broken by hand, is named; afterwards the collection is sound again."""
    assert set(BREAKING) == {invariant.name for invariant in INVARIANTS}
    for is_mended in (True, False):
        names = [invariant.name for invariant in INVARIANTS if bool(invariant.mend) is is_mended]
        with Store.open(copy) as store:
            for name in names:
                store.query(BREAKING[name], write=True)
        assert set(names) <= set(wrong(verify(copy)))
        done = repair(copy)
        assert done.after is not None
        assert wrong(done.after) == []
        assert bool(done.kept) is not is_mended, "a database whose rows can be mended stays"


def test_a_pipe_or_a_folder_among_the_warc_files_is_no_file(copy: Path) -> None:
    """Neither is opened, which would wait for ever for a writer: the collection is sound, and its crawl goes on."""
    os.mkfifo(copy / "warc" / "pipe.warc.gz")
    (copy / "warc" / "folder.warc.gz").mkdir()
    assert wrong(verify(copy)) == []
    assert Collection(copy).crawl(settings={"limits.max_pages": 1}).pages > 1


def test_changes_in_the_journal_are_no_defect(copy: Path) -> None:
    """What a killed crawl left in the journal counts as if it were in its table."""
    with duckdb.connect(copy / "collection.duckdb") as database:
        [(number,)] = database.execute("SELECT oid FROM crawl WHERE state = 'fetched' LIMIT 1").fetchall()
        columns = [name for name, *_ in database.execute("DESCRIBE crawl_changes").fetchall()]
        values = ", ".join({"seq": "1", "outcome": "'http'", "state": "'failed'"}.get(name, name) for name in columns)
        database.execute(f"INSERT INTO crawl_changes SELECT {values} FROM crawl WHERE oid = {number}")
    with reading_file(copy / "collection.duckdb", 2**28) as read:
        assert read.ask(f"SELECT state, outcome FROM crawl WHERE oid = {number}") == [("failed", "http")]
    report = verify(copy)
    assert report.check("the database can be read").defects == []
    assert "no URL is known twice" not in {check.name for check in report.checks if check.unchecked}


def test_after_a_kill_and_during_a_crawl(make_collection: MakeCollection) -> None:
    """kill -9 leaves right counts, and a note of what the next crawl takes in; beside a crawl, what cannot be checked is
    named, and repair refuses."""
    collection = make_collection(["http://directory.test/"], **KILLABLE)
    kill_a_crawl(collection, after_s=0.7)
    assert wrong(verify(collection.folder)) in ([], [INDEX_CHECK])
    thread = crawl_beside(collection)
    while not is_running(collection.folder):
        time.sleep(0.01)
    report, code = verify(collection.folder), call("repair", collection.folder).returncode
    collection.stop()
    thread.join()
    assert (wrong(report), code) == ([], 1)
    unchecked = {check.name for check in report.checks if check.unchecked}
    assert {"the database can be read", PAGES_CHECK, INDEX_CHECK} <= unchecked
    assert "no URL is known twice" not in unchecked
    assert wrong(verify(collection.folder)) == []


def test_the_commands_say_what_is_wrong(copy: Path) -> None:
    """`opilio verify` names the file and the bytes and exits with 1; `opilio repair` says what it did and what is lost."""
    assert call("verify", copy).returncode == 0
    [file] = (copy / "warc").glob("*.warc.gz")
    flip(file, file.stat().st_size // 2, 3)
    ran = call("verify", copy)
    assert ran.returncode == 1
    assert f"{file.name}: the bytes" in ran.stdout
    assert "every page has its WARC record" in ran.stdout
    ran = call("repair", copy)
    assert ran.returncode == 0
    assert "done: " in ran.stdout
    assert "lost: the archived responses of 1 requests" in ran.stdout
    assert call("verify", copy).returncode == 0
    ran = call("verify", copy.parent / "nothing")
    assert (ran.returncode, "no collection there" in ran.stderr) == (1, True)
