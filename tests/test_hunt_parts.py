"""Dividing and joining where it hurts: after crashes, twice over, with strangers that number everything otherwise."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from made_worlds import at, make_world
from opilio import Collection, merge, split
from opilio.cli import cli
from opilio.errors import CollectionError, InputError
from opilio.lab.local_web import LocalServer
from opilio.store import Store
from opilio.store.warc import WarcFiles, WarcRecords
from opilio.store.warc_files import known_ends
from opilio.web.shelf import Shelf
from parts_facts import asked_for, differences, facts, urls_in

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


# -- what is numbered anew


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


# -- what is wanted


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


# -- WARC files


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
        assert known_ends(store) == {name: end}
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
        assert known_ends(merged)[unread.name] == known_ends(store)[name]


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


# -- parts of parts


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


# -- what is said


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
    with pytest.raises(InputError, match=r"both.*made.*no examples") as refused:
        merge(tmp_path / "both", [one, two], train=True)
    assert refused.value.hint and len(urls_in(tmp_path / "both", "true")) == 16


# -- where it is made


def test_a_portal_does_not_show_what_is_half_made(tmp_path: Path) -> None:
    """While a merge runs, a portal on the folder of its target lists the whole collections, and lets it finish."""
    one, two = two_strangers(tmp_path)
    shown: set[str] = set()

    def look(doing: str, done: int, steps: int) -> None:
        assert done == 0 or (tmp_path / ".both.unfinished" / "collection.duckdb").exists()
        shown.update(Shelf(tmp_path).names())

    merge(tmp_path / "both", [one, two], on_progress=look)
    assert shown == {"one", "two"} and Shelf(tmp_path).names() == ["both", "one", "two"]


def test_nothing_is_thrown_away_behind_a_link(tmp_path: Path) -> None:
    """A link in the place where a collection would be built leads nowhere: what it points to stays."""
    one, two = two_strangers(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    (tmp_path / ".both.unfinished").symlink_to(tmp_path / "mine")
    with pytest.raises(CollectionError, match="cannot make the folder"):
        merge(tmp_path / "both", [one, two])
    assert (tmp_path / "mine" / "file").read_text() == "kept"
