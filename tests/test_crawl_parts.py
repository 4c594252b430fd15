"""Dividing and joining collections that were crawled: crawls go on in them, and searches find what they found."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import MakeCollection
from made_worlds import at, make_world
from opilio import Collection, merge, split
from opilio.cli import cli
from opilio.errors import CollectionBusy, CollectionError, InputError
from opilio.lab.local_web import LocalServer
from opilio.parts import building
from opilio.store import Store
from opilio.store.warc import WarcFiles, WarcRecords
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


@pytest.fixture(scope="module")
def divided(crawled_taught: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """A crawled collection, divided once for all tests, which change a copy: how many URLs wait, by the folder."""
    parts = split(crawled_taught, tmp_path_factory.mktemp("divided") / "parts")
    return {part.folder: part.waiting for part in parts}


def copied(divided: dict[str, int], place: Path, waiting: int) -> list[Path]:
    """A copy of all parts in a folder: the places of those in which more than so many URLs wait."""
    for folder in divided:
        shutil.copytree(folder, place / Path(folder).name)
    return [place / Path(folder).name for folder, count in divided.items() if count > waiting]


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
            assert store.load_warc_ends() == {file.name: file.stat().st_size for file in (folder / "warc").iterdir()}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "nothing is left of the making"


def test_crawls_go_on_in_parts_and_in_what_they_make(
    crawled_taught: Path, divided: dict[str, int], small_server: LocalServer, tmp_path: Path
) -> None:
    """A part asks for what waits in it and what it finds, never for what is stored; so does the merged collection.

    What another part has stored and this one has not heard of it may fetch once more, as the guide says.
    """
    parts = copied(divided, tmp_path / "parts", waiting=0)
    whole = urls_in(crawled_taught, "state = 'fetched'")
    for folder in parts[:2]:
        own, known = urls_in(folder, "state = 'waiting'"), urls_in(folder, "true")
        part = Collection(folder)
        wanted = {topic["topic"] for topic in part.topics() if topic["mark"] == "good"}
        assert len(wanted) == 1 or folder.name == "rest"
        small_server.clear_log()
        part.crawl(settings={"limits.max_pages": part.status().pages + 6})
        asked = set(asked_for(small_server))
        assert asked and asked & known <= own, "what is stored here, or known to be another part's, is left alone"
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


def named_elsewhere(divided: dict[str, int], place: Path) -> tuple[Collection, str, str, str]:
    """A part; a page of another part that it knows, another such page that stays unnamed, and a topic of the part."""
    parts = [folder for folder in copied(divided, place, waiting=20) if folder.name != "rest"]
    part = Collection(parts[0])
    theirs = "outcome = 'elsewhere' AND url NOT IN (SELECT name FROM training)"
    others = urls_in(parts[1], "state = 'fetched' AND outcome = 'ok'")
    known = sorted(urls_in(part.folder, theirs) & others)
    [topic] = [one["topic"] for one in part.topics() if one["mark"] == "good"]
    return part, known[0], known[1], topic


@pytest.mark.parametrize("named_as", ["example", "seed", "example in a file", "example while it runs"])
def test_a_url_of_another_part_that_the_user_names_is_fetched(
    named_as: str, divided: dict[str, int], small_server: LocalServer, tmp_path: Path
) -> None:
    """The user's word wins: a URL that was left to another part is asked for once it is a seed or an example here."""
    part, url, other, topic = named_elsewhere(divided, tmp_path / "parts")
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


WORDS = "text:" + " ".join(f"word{n}" for n in range(40))


def run(*words: object) -> str:
    """What a command says."""
    result = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def two_strangers(place: Path) -> tuple[Path, Path]:
    """Collections of which the second is numbered anew in a merge: topics and models."""
    one = make_world(place / "one", 1, sites=("a.org",), urls=8)
    two = make_world(place / "two", 3, sites=("b.org",), urls=8, paths=("", "A", "Q"))
    return one, two


def test_lessons_of_a_renumbered_topic_can_still_be_taken_back(tmp_path: Path) -> None:
    """An example that was added, and one that was dropped, are listed as such after a merge, and taken back."""
    one, two = two_strangers(tmp_path)
    for folder in (one, two):
        Collection(folder).sql("DELETE FROM lessons", write=True)
        Collection(folder).sql("UPDATE training SET added = '2020-01-01'", write=True)
    teacher = Collection(two)
    with Store.open(two) as store:
        dropped = next(record.name for record in store.load_training() if record.kcid == _kcid(store, "A"))
    name = teacher.add_example("Q", WORDS)
    teacher.drop_example("A", dropped)
    before = {(change["topic"], change["name"], change["change"]) for change in teacher.pending()["changes"]}
    assert before == {("Q", name, "example added"), ("A", dropped, "example dropped")}
    merge(tmp_path / "both", [one, two])
    with Store.open(two) as store, Store.open(tmp_path / "both") as merged:
        assert any(_kcid(store, path) != _kcid(merged, path) for path in ("A", "Q")), "they were numbered anew"
    both = Collection(tmp_path / "both")
    assert {(change["topic"], change["name"], change["change"]) for change in both.pending()["changes"]} == before
    assert both.forget_changes(both.models()[0]["version"]) == 2
    names = {row[0] for row in both.sql("SELECT name FROM training").rows}
    assert dropped in names and name not in names


def _kcid(store: Store, path: str) -> int:
    return next(topic.kcid for topic in store.load_topics() if topic.path == path)


def test_an_example_that_was_dropped_in_a_part_stays_dropped(tmp_path: Path) -> None:
    """The last word on an example counts, also when it is that it is none; one that was given again later stays."""
    whole = make_world(tmp_path / "whole", 36)
    words = ("gone", "again", "changed")
    texts = {word: Collection(whole).add_example("A", f"text:{word} {WORDS}") for word in words}
    unknown = Collection(whole).add_example("B", "http://unknown.example/")  # only one part has it
    Collection(whole).add_example("B", "http://unknown.example/", positive=False)
    parts = [Path(part.folder) for part in split(whole, tmp_path / "parts")]
    Collection(parts[0]).drop_example("A", texts["gone"])
    Collection(parts[0]).drop_example("A", texts["again"])
    Collection(parts[1]).add_example("A", f"text:again {WORDS}")
    Collection(parts[1]).drop_example("A", texts["changed"])
    Collection(parts[0]).add_example("A", f"text:changed {WORDS}", positive=False)
    merge(tmp_path / "both", parts)
    with Store.open(tmp_path / "both") as store:
        found = {record.name: record.positive for record in store.load_training()}
    with Store.open(whole) as store:
        expected = {record.name: record.positive for record in store.load_training()}
    del expected[texts["gone"]]
    assert found == expected | {texts["changed"]: False} and found[unknown] is False


def test_a_model_that_is_an_older_one_again_names_its_new_number(tmp_path: Path) -> None:
    """Models that get other versions still say which one they are again: what is not learned yet depends on it."""
    one, two = two_strangers(tmp_path)
    with Store.open(one) as store:
        newest = store.load_models()[0].version
        store.query("UPDATE models SET reason = 'reused', repeats = 1 WHERE version = ?", [newest], write=True)
        store.query("UPDATE models SET created = ? WHERE version = 1", [at(7)], write=True)
    merge(tmp_path / "both", [one, two])
    with Store.open(tmp_path / "both") as store:
        models = store.load_models()
        first = next(model for model in models if model.created_s == at(7).timestamp() or model.created_s % 60 == 7)
        assert first.version != 1, "it was numbered anew"
        assert [model.cause.repeats for model in models if model.cause.repeats] == [first.version]


def test_collections_made_from_questions_stay_wanted(tmp_path: Path) -> None:
    """What each of them wanted is a topic of its own, with its seeds, words and examples; beside a tree, too."""
    (tmp_path / "seeds.txt").write_text("http://a.example/")
    (tmp_path / "marks.html").write_text(
        '<DL><DT><H3>Ducks</H3><DL><DT><A HREF="http://d.example/">Mallards</A></DL></DL>'
    )
    owls = Collection.create(tmp_path / "owls", query="barn owl / nests", seeds=tmp_path / "seeds.txt")
    swans = Collection.create(tmp_path / "swans", query="swan lakes", seeds=tmp_path / "seeds.txt")
    geese = Collection.create(tmp_path / "geese", examples=tmp_path / "seeds.txt")
    ducks = Collection.create(tmp_path / "ducks", bookmarks=tmp_path / "marks.html")
    plain = Collection.create(tmp_path / "plain", seeds=tmp_path / "seeds.txt")
    merge(tmp_path / "both", [owls.folder, swans.folder])
    assert wanted(tmp_path / "both") == {"barn owl/nests": {"barn", "owl", "nests"}, "swan lakes": {"swan", "lakes"}}
    merge(tmp_path / "all", [plain.folder, owls.folder, ducks.folder, geese.folder])
    assert wanted(tmp_path / "all") == {
        "barn owl/nests": {"barn", "owl", "nests"}, "Ducks": {"ducks", "mallards"}, "geese": set(),
    }  # fmt: skip
    told = "SELECT path, {} FROM {} JOIN topics USING (kcid) ORDER BY ALL"
    seeds = Collection(tmp_path / "all").sql(told.format("url", "seeds")).rows
    assert seeds == [
        ("", "http://a.example/"), ("Ducks", "http://d.example/"), ("barn owl/nests", "http://a.example/"),
        ("geese", "http://a.example/"),
    ]  # fmt: skip
    examples = Collection(tmp_path / "all").sql(told.format("training.name", "training")).rows
    assert {path for path, _ in examples} == {"Ducks", "barn owl/nests", "geese"}


@pytest.mark.parametrize("turned", [False, True])
def test_one_question_stays_one(tmp_path: Path, turned: bool) -> None:
    """Two crawls for one question, or one for it and one for nothing in particular, are one for that question."""
    (tmp_path / "seeds.txt").write_text("http://a.example/")
    owls = Collection.create(tmp_path / "owls", query="barn owls", seeds=tmp_path / "seeds.txt").folder
    plain = Collection.create(tmp_path / "plain", seeds=tmp_path / "seeds.txt").folder
    merge(tmp_path / "both", [plain, owls] if turned else [owls, plain])
    merge(tmp_path / "all", [tmp_path / "both", owls])
    for name in ("both", "all"):
        assert wanted(tmp_path / name) == {"barn owls": {"barn", "owls"}}
        assert Collection(tmp_path / name).sql("SELECT count(*) FROM topics").rows == [(1,)]


def wanted(folder: Path) -> dict[str, set[str]]:
    """The topics that are good, with their keywords."""
    return {t["topic"]: set(t["keywords"]) for t in Collection(folder).topics() if t["mark"] == "good"}


def written(folder: Path, name: str, records: int, known: int, seed: int) -> Path:
    """A collection with a WARC file of so many records, of which its database knows the first."""
    collection = make_world(folder, seed, sites=(f"{folder.name}.org",), urls=8)
    files = WarcFiles(collection / "warc", "w0")
    (collection / "warc").mkdir()
    places = [files.append(WarcRecords(f"{folder.name} {n} ".encode() * 50, 0)) for n in range(records)]
    files.close()
    (collection / "warc" / places[0].file).rename(collection / "warc" / name)
    end = places[known - 1].offset + places[known - 1].length
    with Store.open(collection) as store:
        for table in ("pages", "visits"):
            store.query(f"UPDATE {table} SET warc_file = '', warc_offset = 0, warc_bytes = 0", write=True)
        store.query("UPDATE visits SET warc_file = ?, warc_bytes = ? WHERE oid = 0", [name, end], write=True)
        assert store.load_warc_ends() == {name: end}
    return collection


@pytest.mark.parametrize("turned", [False, True])
def test_what_one_has_not_read_is_not_taken_for_read_since_another_has_a_file_of_that_name(
    tmp_path: Path, turned: bool
) -> None:
    """Two crawls began in the same second; one was killed: its unread records are still to be read after a merge."""
    name = "opilio-20260101000000-w0-00001.warc.gz"
    killed = written(tmp_path / "killed", name, records=3, known=1, seed=41)
    sound = written(tmp_path / "sound", name, records=9, known=9, seed=42)
    folders = [sound, killed] if turned else [killed, sound]
    merge(tmp_path / "both", folders)
    files = {file.read_bytes(): file for file in (tmp_path / "both" / "warc").iterdir()}
    unread = files[(killed / "warc" / name).read_bytes()]
    assert not unread.samefile(killed / "warc" / name), "a crawl may cut it"
    assert files[(sound / "warc" / name).read_bytes()].samefile(sound / "warc" / name)
    with Store.open(killed) as store, Store.open(tmp_path / "both") as merged:
        assert merged.load_warc_ends()[unread.name] == store.load_warc_ends()[name]


def test_two_collections_never_write_files_of_one_name(tmp_path: Path) -> None:
    """Parts that are crawled at the same time move their files to the same place: none may be written over."""
    names = [WarcFiles(tmp_path / str(n), "w0").append(WarcRecords(b"x", 0)).file for n in range(4)]
    assert len(set(names)) == 4, names


def crash(collection: Collection, pages: int) -> set[str]:
    """Crawl on, then forget all of it but the WARC files, as kill -9 before a commit does; the pages only they have."""
    database = collection.folder / "collection.duckdb"
    kept = database.with_name("kept")
    shutil.copy(database, kept)
    stored = urls_in(collection.folder, "state = 'fetched'")
    collection.crawl(settings={"limits.max_pages": pages})
    found = urls_in(collection.folder, "oid IN (SELECT oid FROM pages)")
    kept.replace(database)
    return found - stored


@pytest.mark.slow
def test_pages_that_only_warc_files_have_are_not_asked_for_again(
    crawled_taught: Path, small_server: LocalServer, tmp_path: Path
) -> None:
    """Killed, then divided: each part takes its pages from the files; so does what is merged of a part that did not."""
    whole = Collection(shutil.copytree(crawled_taught, tmp_path / "whole"))
    unread = crash(whole, 160)
    assert len(unread) == 40
    known = unread & urls_in(whole.folder, "state = 'waiting'")
    parts = [Path(part.folder) for part in split(whole.folder, tmp_path / "parts") if part.waiting]
    first = max(parts, key=lambda folder: len(known & urls_in(folder, "state = 'waiting'")))
    others = known - urls_in(first, "state = 'waiting'")
    assert others and others != known
    small_server.clear_log()
    collection = Collection(first)
    collection.crawl(settings={"limits.max_pages": collection.status().pages + 1})
    taken = urls_in(first, "state = 'fetched'")
    assert not unread & set(asked_for(small_server)) and taken & known
    merge(tmp_path / "again", [first, *(folder for folder in parts if folder != first)])
    small_server.clear_log()
    again = Collection(tmp_path / "again")
    again.crawl(settings={"limits.max_pages": again.status().pages + 1})
    assert not unread & set(asked_for(small_server))
    settled = urls_in(again.folder, "state <> 'waiting'")
    assert others <= settled


def test_a_part_is_divided_again(tmp_path: Path) -> None:
    """What --dry-run says of a part of a part is what is done, no part is made of references alone, none is lost."""
    whole = make_world(tmp_path / "whole", 33, urls=30)
    parts = {part.name: part for part in split(whole, tmp_path / "parts")}
    told = json.loads(run("split", parts["A"].folder, tmp_path / "sub", "--topic", "A / x", "--dry-run", "--json"))
    done = json.loads(run("split", parts["A"].folder, tmp_path / "sub", "--topic", "A / x", "--json"))
    figures = ("name", "pages", "urls", "waiting")
    assert [[part[n] for n in figures] for part in told["parts"]] == [
        [part[n] for n in figures] for part in done["parts"]
    ]
    assert sum(part["urls"] for part in done["parts"]) == parts["A"].urls
    folders = [part["folder"] for part in done["parts"]] + [part.folder for part in parts.values() if part.name != "A"]
    merge(tmp_path / "again", folders)
    assert not differences(facts(whole), facts(tmp_path / "again"))


def test_a_part_of_one_topic_has_no_rest_of_nothing(tmp_path: Path) -> None:
    """URLs that are known to be elsewhere make no part by themselves."""
    whole = make_world(tmp_path / "whole", 34, urls=30)
    part = next(part for part in split(whole, tmp_path / "parts") if part.name == "B")
    assert part.elsewhere
    assert [part.name for part in split(part.folder, tmp_path / "sub", ["B"])] == ["B"]
    assert not differences(facts(Path(part.folder)), facts(tmp_path / "sub" / "B"))


def test_the_figures_of_the_sources_are_true(tmp_path: Path) -> None:
    """The table of a merge says how many WARC files each of the collections has."""
    folders = [written(tmp_path / name, f"{name}.warc.gz", 2, 2, seed) for seed, name in enumerate(("one", "two"))]
    report = merge(tmp_path / "both", folders)
    assert [source.warc_files for source in report.sources] == [1, 1] and report.made.warc_files == 2


def test_the_commands_that_are_shown_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders with blanks and quotes in their names are quoted in what is proposed; and they work."""
    monkeypatch.chdir(tmp_path)
    make_world(Path("b'irds ünï"), 35)
    said = run("split", "b'irds ünï", "my parts").splitlines()[-1]
    serve, merging = (words.partition(": ")[2] for words in said.split("; "))
    assert shlex.split(serve) == ["opilio", "serve", "my parts"]
    assert merging.endswith("'my parts'/*")
    run("merge", "aga'in", *sorted(Path("my parts").iterdir()))
    assert not differences(facts(Path("b'irds ünï")), facts(Path("aga'in")))


def test_a_merge_that_cannot_train_says_what_was_made(tmp_path: Path) -> None:
    """--train without an example: the error says that the collection is there, so that nobody merges again."""
    one, two = two_strangers(tmp_path)
    for folder in (one, two):
        Collection(folder).sql("DELETE FROM training", write=True)
    with pytest.raises(InputError, match=r"both.*made.*too few examples") as refused:
        merge(tmp_path / "both", [one, two], train=True)
    assert refused.value.hint and len(urls_in(tmp_path / "both", "true")) == 16


def test_nothing_is_thrown_away_behind_a_link(tmp_path: Path) -> None:
    """A link in the place where a collection would be built leads nowhere: what it points to stays."""
    one, two = two_strangers(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    (tmp_path / ".both.unfinished").symlink_to(tmp_path / "mine")
    with pytest.raises(CollectionError, match="cannot make the folder"):
        merge(tmp_path / "both", [one, two])
    assert (tmp_path / "mine" / "file").read_text() == "kept"
