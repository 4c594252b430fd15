"""Dividing and joining collections that were crawled: crawls go on in them, and searches find what they found."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import MakeCollection
from opilio import Collection, merge, split
from opilio.errors import CollectionBusy, CollectionError, InputError
from opilio.lab.local_web import LocalServer
from opilio.parts import building
from opilio.store import Store
from opilio.store.warc_files import known_ends
from parts_facts import asked_for, differences, facts, urls_in
from running_crawls import PLAIN, SEEDS, running, wait_for

KILLED = """
import os, sys
from opilio import split
def die(doing, done, steps):
    if done > steps / 2:
        os._exit(9)
split(sys.argv[1], sys.argv[2], on_progress=die)
"""


def digest(folder: Path) -> dict[str, str]:
    """What is in the files of a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "index" not in path.parts]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_crawled_collection_is_divided_and_joined(crawled_taught: Path, tmp_path: Path) -> None:
    """Nothing of a real crawl is lost, its files are linked, the collection itself stays as it is."""
    before = digest(crawled_taught)
    parts = split(crawled_taught, tmp_path / "parts")
    assert {part.name for part in parts} >= {"cryptography", "data-compression", "statistics"}
    report = merge(tmp_path / "again", [part.folder for part in parts])
    assert not differences(facts(crawled_taught), facts(tmp_path / "again"))
    assert digest(crawled_taught) == before
    assert report.notes == [] and report.made.elsewhere == 0 and report.made.copied_bytes == 0
    for folder in (*(Path(part.folder) for part in parts), tmp_path / "again"):
        for file in (folder / "warc").iterdir():
            assert file.samefile(crawled_taught / "warc" / file.name)
        with Store.open(folder) as store:
            assert known_ends(store) == {file.name: file.stat().st_size for file in (folder / "warc").iterdir()}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "nothing is left of the making"


def test_crawls_go_on_in_parts_and_in_what_they_make(
    crawled_taught: Path, small_server: LocalServer, tmp_path: Path
) -> None:
    """A part asks for what waits in it and what it finds, never for what is stored; so does the merged collection."""
    parts = [Path(part.folder) for part in split(crawled_taught, tmp_path / "parts") if part.waiting]
    whole = urls_in(crawled_taught, "state = 'fetched'")
    for folder in parts[:2]:
        own, known = urls_in(folder, "state = 'waiting'"), urls_in(folder, "true")
        part = Collection(folder)
        wanted = {topic["topic"] for topic in part.topics() if topic["mark"] == "good"}
        assert len(wanted) == 1 or folder.name == "rest"
        small_server.clear_log()
        part.crawl(settings={"limits.max_pages": part.status().pages + 6})
        asked = set(asked_for(small_server))
        assert asked and not asked & whole
        assert asked & known <= own, "a URL of another part that is known here is left to that part"
        assert part.models()[0]["reason"] == "topics, examples or settings were changed"
    report = merge(tmp_path / "again", parts)
    merged = Collection(tmp_path / "again")
    assert any("trains" in note for note in report.notes)
    assert urls_in(merged.folder, "state = 'fetched'") >= whole | urls_in(parts[0], "state = 'fetched'")
    stored = urls_in(merged.folder, "state = 'fetched'")
    small_server.clear_log()
    merged.crawl(settings={"limits.max_pages": merged.status().pages + 6})
    asked = set(asked_for(small_server))
    assert asked and not asked & stored
    assert merged.status().pages == report.made.pages + 6


def named_elsewhere(crawled: Path, place: Path) -> tuple[Collection, str, str, str]:
    """A part; a page of another part that it knows, another such page that stays unnamed, and a topic of the part."""
    parts = [Path(part.folder) for part in split(crawled, place) if part.waiting > 20 and part.name != "rest"]
    part = Collection(parts[0])
    theirs = "outcome = 'elsewhere' AND url NOT IN (SELECT name FROM training)"
    others = urls_in(parts[1], "state = 'fetched' AND outcome = 'ok'")
    known = sorted(urls_in(part.folder, theirs) & others)
    [topic] = [one["topic"] for one in part.topics() if one["mark"] == "good"]
    return part, known[0], known[1], topic


@pytest.mark.parametrize("named_as", ["example", "seed", "example in a file", "example while it runs"])
def test_a_url_of_another_part_that_the_user_names_is_fetched(
    named_as: str, crawled_taught: Path, small_server: LocalServer, tmp_path: Path
) -> None:
    """The user's word wins: a URL that was left to another part is asked for once it is a seed or an example here."""
    part, url, other, topic = named_elsewhere(crawled_taught, tmp_path / "parts")
    (tmp_path / "urls.txt").write_text(url)
    small_server.clear_log()
    if named_as == "example while it runs":
        pages = part.status().pages
        part.change_settings({"limits.max_pages": pages + 40, "fetch.host_delay_s": 0.3})
        with running(part, pages + 1) as (crawl, _):
            assert url not in asked_for(small_server)
            assert crawl.add_example(topic, url) == url
            wait_for(crawl, lambda: bool(urls_in(part.folder, f"url = '{url}' AND state = 'fetched'")), 30)
            assert crawl.status().counters["URLs of other parts that the user named"] == 1
    else:
        if named_as == "example":
            part.add_example(topic, url)
        elif named_as == "seed":
            assert part.add(seeds=tmp_path / "urls.txt") == 1
        else:
            part.add(examples=tmp_path / "urls.txt")
        assert urls_in(part.folder, f"url = '{url}' AND state = 'waiting'")
        part.crawl(settings={"limits.max_pages": part.status().pages + 3})
    asked = asked_for(small_server)
    assert asked.count(url) == 1
    assert other not in asked, "what the user does not name stays another part's"
    assert urls_in(part.folder, f"url = '{url}' AND state = 'fetched' AND outcome = 'ok'")
    merge(tmp_path / "again", [one for one in sorted((tmp_path / "parts").iterdir()) if one.is_dir()])
    copies = f"SELECT count(*) FROM pages JOIN crawl USING (oid) WHERE url = '{url}'"
    assert Collection(tmp_path / "again").sql(copies).rows == [(1,)]


def test_parts_together_find_what_the_whole_found(crawled_taught: Path, tmp_path: Path) -> None:
    """Each page that a search in the whole brings is found in one of the parts, by the same words."""
    shutil.copytree(crawled_taught, tmp_path / "whole")
    parts = [Collection(part.folder) for part in split(tmp_path / "whole", tmp_path / "parts")]
    for question in ("entropy", "title:cipher OR mean", "anchor:compression"):
        found = {hit["url"] for hit in Collection(tmp_path / "whole").search(question, size=100)["results"]}
        in_parts = [hit["url"] for part in parts for hit in part.search(question, size=100)["results"]]
        assert found <= set(in_parts), question
        assert len(in_parts) == len(set(in_parts)), "no page is in two parts"
    assert found


def test_files_of_one_name_are_told_apart(tmp_path: Path, make_collection: MakeCollection) -> None:
    """Other bytes under the same name get another name, which the rows follow; the same bytes are one file."""
    folders = []
    for name, seeds in (("one", SEEDS[:1]), ("two", SEEDS[1:2])):
        collection = make_collection(seeds, name, limits__max_pages=3, **PLAIN)
        collection.crawl()
        [file] = (collection.folder / "warc").glob("*.warc.gz")
        file.rename(file.with_name("same.warc.gz"))
        for table in ("pages", "visits"):
            collection.sql(f"UPDATE {table} SET warc_file = 'same.warc.gz' WHERE warc_file <> ''", write=True)
        folders.append(collection.folder)
    report = merge(tmp_path / "both", folders)
    files = {file.name: file.read_bytes() for file in (tmp_path / "both" / "warc").iterdir()}
    assert files == {
        "same.warc.gz": (folders[0] / "warc" / "same.warc.gz").read_bytes(),
        "same-2.warc.gz": (folders[1] / "warc" / "same.warc.gz").read_bytes(),
    }
    assert report.made.pages == 6
    for url, name in Collection(tmp_path / "both").sql("SELECT url, warc_file FROM pages JOIN crawl USING (oid)").rows:
        source = folders[name == "same-2.warc.gz"]
        assert url in urls_in(source, "state = 'fetched'")


def test_what_no_crawl_has_read_yet_is_kept(crawled_taught: Path, tmp_path: Path) -> None:
    """A WARC file with a record that the database does not know goes to every part, as a file of its own."""
    shutil.copytree(crawled_taught, tmp_path / "whole")
    file = tmp_path / "whole" / "warc" / "opilio-20200101000000-w9-00001.warc.gz"
    file.write_bytes(b"\x1f\x8b\x08 torn")
    for part in split(tmp_path / "whole", tmp_path / "parts"):
        taken = Path(part.folder, "warc", file.name)
        assert taken.read_bytes() == file.read_bytes() and not taken.samefile(file)


def test_a_killed_split_leaves_nothing_in_the_way(crawled_taught: Path, tmp_path: Path) -> None:
    """After kill -9 in the middle the collection is as it was, there is no target, and the next try succeeds."""
    before = digest(crawled_taught)
    command = [sys.executable, "-c", KILLED, str(crawled_taught), str(tmp_path / "parts")]
    assert subprocess.run(command, env=os.environ, check=False).returncode == 9
    assert [path.name for path in tmp_path.iterdir()] == [".parts.unfinished"]
    assert digest(crawled_taught) == before
    parts = split(crawled_taught, tmp_path / "parts")
    assert sum(part.pages for part in parts) == 120
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


def test_a_failed_split_leaves_nothing(crawled_taught: Path, tmp_path: Path) -> None:
    """An error in the middle takes away what was made."""

    def fail(doing: str, done: int, steps: int) -> None:
        if done > 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        split(crawled_taught, tmp_path / "parts", on_progress=fail)
    assert not list(tmp_path.iterdir())


def test_what_is_refused(crawled_taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that exists, one collection twice, a topic that is not there, a full disk: said before anything."""
    shutil.copytree(crawled_taught, tmp_path / "copy")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")
    with pytest.raises(CollectionError, match="exists already"):
        split(crawled_taught, tmp_path / "there")
    with pytest.raises(CollectionError, match="exists already"):
        merge(tmp_path / "there", [crawled_taught, tmp_path / "copy"])
    with pytest.raises(InputError, match="two or more"):
        merge(tmp_path / "new", [crawled_taught, crawled_taught])
    with pytest.raises(InputError, match="no topic 'owls'") as refused:
        split(crawled_taught, tmp_path / "new", ["owls"])
    assert "'statistics'" in refused.value.hint
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(building.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(CollectionError, match="are needed"):
        split(crawled_taught, tmp_path / "new")
    with pytest.raises(CollectionError, match="are needed"):
        merge(tmp_path / "new", [crawled_taught, tmp_path / "copy"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "there"]


def test_a_running_crawl_is_not_divided(make_collection: MakeCollection, crawled_taught: Path, tmp_path: Path) -> None:
    """While a crawl runs in it, a collection is neither divided nor joined."""
    collection = make_collection(SEEDS, fetch__host_delay_s=0.05, **PLAIN)
    with running(collection):
        with pytest.raises(CollectionBusy, match="a crawl runs here"):
            split(collection.folder, tmp_path / "parts")
        with pytest.raises(CollectionBusy):
            merge(tmp_path / "new", [crawled_taught, collection.folder])
    assert not (tmp_path / "parts").exists() and not (tmp_path / "new").exists()
