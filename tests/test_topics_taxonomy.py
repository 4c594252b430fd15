"""Taxonomy files: what they say is understood, what is wrong with them is named, and they are written back the same."""

import re
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opilio.errors import InputError
from opilio.topics import ExampleKind, Mark, TopicTree, read_taxonomy, write_taxonomy
from opilio.topics.tree import MAX_TOPICS, OTHERS, clean_name, words_of

BIRDS = """\
name: Birds of Europe
description: Where they nest, and how they sing.
topics:
  Owls:
    good: true
    keywords: owl, barn owl, Strigiformes
    seeds: https://owls.example/links
    examples:
      - https://owls.example/barn#top
      - url: https://owls.example/tawny
        title: Tawny owls
        seed: false
      - file: notes/owls.txt
      - text: |
          An owl flies without a sound.
          It hunts by ear.
    others:
      - https://shop.example/owl-mugs
    topics:
      Snowy owls: [https://snowy.example/]
  Raptors/Hawks:
    examples: [https://hawks.example/]
  Sparrows: https://sparrows.example/
"""
BIRDS_TOML = """\
name = "Birds of Europe"
description = "Where they nest, and how they sing."
[topics.Owls]
good = true
keywords = ["owl", "barn owl", "Strigiformes"]
seeds = ["https://owls.example/links"]
examples = [
  "https://owls.example/barn#top",
  { url = "https://owls.example/tawny", title = "Tawny owls", seed = false },
  "file:notes/owls.txt",
  { text = "An owl flies without a sound.\\nIt hunts by ear." },
]
others = "https://shop.example/owl-mugs"
[topics.Owls.topics]
"Snowy owls" = ["https://snowy.example/"]
[topics]
"Raptors/Hawks" = { examples = ["https://hawks.example/"] }
Sparrows = "https://sparrows.example/"
"""


def write(folder: Path, text: str | bytes, name: str = "birds.yaml") -> Path:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def contents(tree: TopicTree) -> dict[str, object]:
    """All that a tree says, whatever the order and the numbers."""
    paths = [topic.path for topic in tree.topics]
    marks = tree.marks()
    return {
        "topics": {t.path: (t.name, t.description, t.good, marks[t.kcid], Counter(t.keywords)) for t in tree.topics},
        "parents": {topic.path: paths[topic.parent] for topic in tree.topics[1:]},
        "seeds": {(paths[seed.kcid], seed.url, seed.title) for seed in tree.seeds},
        "examples": Counter((paths[e.kcid], e.kind, e.value, e.positive, e.title) for e in tree.examples),
    }


@pytest.mark.parametrize(("text", "name"), [(BIRDS, "b.yaml"), (BIRDS, "b.YML"), (BIRDS_TOML, "b.toml")])
def test_a_taxonomy_says_everything(tmp_path: Path, text: str, name: str) -> None:
    """Each key has its meaning, in both formats: names, marks, keywords, seeds, all kinds of examples, negatives."""
    notes = tmp_path / "notes" / "owls.txt"
    notes.parent.mkdir()
    notes.write_text("owls")
    tree = read_taxonomy(write(tmp_path, text, name))
    assert [topic.path for topic in tree.topics] == ["", "Owls", "Owls / Snowy owls", "Raptors/Hawks", "Sparrows"]
    assert tree.topics[0].name == "Birds of Europe"
    assert tree.topics[0].description == "Where they nest, and how they sing."
    assert tree.topics[1].keywords == ["owl", "barn owl", "Strigiformes"]
    assert tree.topics[2].keywords == ["snowy", "owls"]
    marks = [tree.marks()[topic.kcid] for topic in tree.topics]
    assert marks == [Mark.PATH, Mark.GOOD, Mark.SUBSUMED, Mark.NULL, Mark.NULL]
    owls = [(e.kind, e.value, e.positive, e.title) for e in tree.examples if e.kcid == 1]
    assert owls == [
        (ExampleKind.URL, "https://owls.example/barn", True, ""),
        (ExampleKind.URL, "https://owls.example/tawny", True, "Tawny owls"),
        (ExampleKind.FILE, str(notes), True, ""),
        (ExampleKind.TEXT, "An owl flies without a sound.\nIt hunts by ear.", True, ""),
        (ExampleKind.URL, "https://shop.example/owl-mugs", False, ""),
    ]
    assert {seed.url for seed in tree.seeds} == {
        "https://owls.example/links", "https://owls.example/barn", "https://snowy.example/",
    }, "seeds, and the examples of topics that are wanted unless they say `seed: false`"  # fmt: skip


def test_words_of_topics_without_examples_are_virtual_documents(tmp_path: Path) -> None:
    """A topic with nothing but words is learned from those words; one with examples, or topics below it, is not."""
    text = "topics:\n  Owls: {keywords: 'strix, tyto', description: Night birds}\n  Hawks: [https://h.example/]\n"
    text += "  Ducks: {keywords: duck, topics: {Teals: {description: Small ducks}}}\n"
    tree = read_taxonomy(write(tmp_path, text))
    virtual = {tree.topics[e.kcid].path: e.value for e in tree.training() if e not in tree.examples}
    assert virtual == {"Owls": "Owls strix tyto Night birds", "Ducks / Teals": "Teals teals Small ducks"}


def test_names_that_yaml_takes_for_something_else_stay_names(tmp_path: Path) -> None:
    """Norway's code, years, dates, nulls and numbers are names here."""
    names = ["no", "1984", "null", "on", "2001-01-01", "1e3", "0x1F", "12:30:45"]
    tree = read_taxonomy(write(tmp_path, "topics:\n" + "".join(f"  {name}: [https://a.example/]\n" for name in names)))
    assert [topic.name for topic in tree.topics[1:]] == names


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("topics:\n  Owls:\n    keyword: owl\n", "line 3, topic 'Owls': unknown key 'keyword'", "mean 'keywords'"),
        ("topics:\n  Owls:\n    children: {}\n", "unknown key 'children'", "mean 'topics'"),
        ("topics:\n  Owls:\n    name: Owl\n", "unknown key 'name'", "listed under"),
        ("Owls: [https://a.example/]\n", "unknown key 'Owls'", "below `topics`"),
        ("topics:\n  Owls:\n    good: true\n", "line 2, topic 'Owls': nothing describes", "examples"),
        ("topics:\n  Owls:\n", "line 2, topic 'Owls': nothing describes", "examples"),
        ("topics:\n  Owls:\n    seeds: https://a.example/\n", "nothing describes", "keywords"),
        ("topics:\n  Owls:\n    examples: []\n", "nothing describes", "keywords"),
        ("topics:\n  Owls:\n    good: maybe\n    keywords: a\n", "line 3, topic 'Owls': `good` is 'maybe'", "true"),
        ("topics:\n  Owls:\n    examples:\n      - ftp://a.example/\n", "line 4, topic 'Owls': 'ftp", "http://"),
        ("topics:\n  Owls:\n    examples:\n      - missing.txt\n", "line 4, topic 'Owls': 'missing.txt'", "file:"),
        ("topics:\n  Owls:\n    examples:\n      - file: \n", "is not a file", "file:"),
        ("topics:\n  Owls:\n    examples:\n      - text: \n", "has no text", "text:"),
        ("topics:\n  Owls:\n    examples:\n      - file: 'a\\0'\n", "is not a file", "file:"),
        ("topics:\n  Owls:\n    examples:\n      - {url: 'http://a.example/', text: b}\n", "one of url", "file"),
        ("topics:\n  Owls:\n    examples:\n      - {uri: 'http://a.example/'}\n", "unknown key 'uri'", "'url'"),
        ("topics:\n  Owls:\n    others:\n      - {url: 'http://a.example/', seed: no}\n", "unknown key 'seed'", ""),
        ("topics:\n  Owls:\n    keywords: a\n    seeds: text:b\n", "a seed is a URL", "examples"),
        ("topics:\n  Owls:\n    keywords: {a: b}\n", "`keywords` is text", ""),
        ("topics:\n  - Owls\n", "`topics` is a table", "name"),
        ("topics: Owls\n", "`topics` is a table", "name"),
        ("topics:\n  A: [http://a.example/]\n  A: [http://b.example/]\n", "line 3: 'A' is given twice", "Join"),
        ("topics:\n  A/B: [http://a.example/]\n  A / B: [http://b.example/]\n", "line 3: two topics 'A/B'", "rename"),
        ("topics:\n  OTHERS: [http://a.example/]\n", "no topic can be called OTHERS", "`others`"),
        ("topics:\n  '': [http://a.example/]\n", "has no name", "name"),
        ("topics:\n  A:\n    topics:\n      '\u200b': [http://a.example/]\n", "has no name", "name"),
        ("topics:\n  A: {examples: [http://a.example/], others: [http://a.example/]}\n", "both a positive", "one of"),
        ("good: true\ntopics:\n  A: [http://a.example/]\n", "the root cannot be good", "below it"),
        ("topics:\n  A: {good: false, keywords: a}\n", "no topic is good", "Mark"),
        ("", "no topics", "topics:"),
        ("- a\n", "no topics", "topics:"),
        ("topics: {}\n", "nothing describes", "examples"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_place(tmp_path: Path, text: str, message: str, hint: str) -> None:
    """The error names the file, line and topic, and the next step."""
    file = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_taxonomy(file)
    assert message in caught.value.message
    assert caught.value.message.startswith(str(file))
    assert caught.value.message.count(str(file)) == 1 + ("is not a file in" in message)
    assert hint in caught.value.hint


def test_good_below_good_is_refused_with_both_names(tmp_path: Path) -> None:
    """Focus 1.1: no good topic is an ancestor of another. Nor can a topic below a good one be left out."""
    text = (
        "topics:\n  A:\n    good: {}\n    topics:\n      B:\n        topics:\n          C: {{good: {}, keywords: c}}\n"
    )
    for upper, lower, word in (("true", "true", "cannot be good"), ("true", "false", "cannot be left out")):
        with pytest.raises(InputError, match=word) as caught:
            read_taxonomy(write(tmp_path, text.format(upper, lower)))
        assert "'A'" in caught.value.message
        assert "'A / B / C'" in caught.value.message
    tree = read_taxonomy(write(tmp_path, text.format("false", "true")))
    assert [mark.value for mark in tree.marks().values()] == ["path", "path", "path", "good"]


def test_marks_when_none_is_given() -> None:
    """Without marks the topics below the root are good, except those marked false; a lone root is good itself."""
    tree = TopicTree()
    assert tree.marks() == {0: Mark.GOOD}
    assert tree.hierarchy().start == -1
    tree.topic(("A", "B"))
    tree.topic(("C",)).good = False
    assert list(tree.marks().values()) == [Mark.PATH, Mark.GOOD, Mark.SUBSUMED, Mark.NULL]
    assert tree.hierarchy().good == {1}


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(20)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "an alias (*a)"),
        ("topics: &t\n  A: *t\n", "an alias (*t)"),
        ("topics: &t\n  <<: *t\n", "an alias (*t)"),
        ("topics:\n  A: !!python/object/apply:os.system ['true']\n", "a tag"),
        ("topics: [\n", "line 2: not valid YAML"),
        ("topics:\n\tA: b\n", "not valid YAML"),
        ("topics:\n  A: 'b\n", "not valid YAML"),
        ("topics:\n  A: \x07\n", "not valid YAML"),
        ("{a: b}: c\n", "as a key"),
        ("topics: {}\n---\ntopics: {}\n", "a second document"),
        ("[" * 100_000, "levels deep"),
        ("{a: " * 100_000, "levels deep"),
        ("- " * 100_000, "levels deep"),
        (b"topics:\n  V\xf6gel: [http://a.example/]\n", "line 2: not UTF-8"),
        (b"\xff\xfet\x00o\x00", "not UTF-8"),
        (b"\x00" * 1000, "not valid YAML"),
        (b"#" * (16 * 2**20 + 1), "larger than 16 MiB"),
    ],
)  # fmt: skip
def test_hostile_yaml_is_refused_at_once(tmp_path: Path, text: str | bytes, message: str) -> None:
    """Bombs of aliases, cycles, objects, endless nesting, other encodings: each is one InputError, in a moment."""
    start = time.perf_counter()
    with pytest.raises(InputError) as caught:
        read_taxonomy(write(tmp_path, text))
    assert message in caught.value.message
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics = [\n", "not valid TOML"),
        ("a = " + "[" * 100_000, "TOML"),
        ("a = " + "9" * 10_000, "TOML"),
        ("a = " + "[" * 100 + "]" * 100, "levels"),
        ("[topics.A]\nkeyword = 'a'\n", "topic 'A': unknown key 'keyword'"),
        ("[topics.A]\n[topics.A]\n", "not valid TOML"),
        ("[" + ".".join(["topics.a"] * 40) + "]\nkeywords='a'\n", "levels of topics"),
        ("[" + ".".join(["topics.a"] * 4000) + "]\nkeywords='a'\n", "levels"),
    ],
)
def test_hostile_toml_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The same for the other format."""
    with pytest.raises(InputError) as caught:
        read_taxonomy(write(tmp_path, text, "t.toml"))
    assert message.lower() in caught.value.message.lower() or "levels" in caught.value.message


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    """A missing file, a folder, an unknown suffix, a place that does not exist."""
    for name, message in (("missing.yaml", "No such file"), ("t.json", "neither that of YAML")):
        with pytest.raises(InputError, match=message):
            read_taxonomy(tmp_path / name)
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match="directory"):
        read_taxonomy(tmp_path / "folder.toml")
    with pytest.raises(InputError, match="neither"):
        write_taxonomy(TopicTree(), tmp_path / "t.json")
    with pytest.raises(InputError, match="No such file"):
        write_taxonomy(TopicTree(), tmp_path / "missing" / "t.yaml")


@pytest.mark.parametrize(("suffix", "topics"), [(".yaml", 10_000), (".toml", 3_000)])
def test_thousands_of_topics(tmp_path: Path, suffix: str, topics: int) -> None:
    """A large taxonomy is written and read in seconds, and its marks are known in a moment."""
    tree = TopicTree()
    for i in range(topics):
        topic = tree.topic((f"area {i % 10}", f"field {i % 100}", f"topic {i}"))
        tree.add_example(topic, ExampleKind.URL, f"https://host{i}.example/", title=f"Page {i}")
    for topic in tree.topics:
        topic.good = topic.name == "topic 1234" or None
    start = time.perf_counter()
    write_taxonomy(tree, tmp_path / f"t{suffix}")
    again = read_taxonomy(tmp_path / f"t{suffix}")
    assert time.perf_counter() - start < 10
    assert len(again.topics) == len(tree.topics) == topics + 110 + 1
    assert again.hierarchy().is_wanted(next(t.kcid for t in again.topics if t.name == "topic 1234"))


def test_more_topics_than_there_are_numbers_are_refused() -> None:
    """The number of a topic is stored in 16 bits; one topic more is an error, not a wrong number."""
    tree = TopicTree()
    for i in range(MAX_TOPICS - 1):
        tree.topic((f"topic {i}",))
    assert tree.topics[-1].kcid < 2**15
    with pytest.raises(InputError, match="32,000"):
        tree.topic(("one too many",))


NAMES = st.text(min_size=1, max_size=12).map(clean_name).filter(lambda name: name and name != OTHERS)
WORDS = st.text(max_size=30).map(lambda text: " ".join(text.split())).filter(bool)
TEXTS = st.text(min_size=1, max_size=60).map(str.strip).filter(bool)
URLS = st.integers(0, 30).map(lambda n: f"https://host{n}.example/")
TITLES = st.one_of(st.just(""), WORDS)


@st.composite
def trees(draw: st.DrawFn) -> TopicTree:
    """Any tree that a taxonomy can say."""
    tree = TopicTree(draw(NAMES))
    for path in draw(st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=6)):
        tree.topic(tuple(path))
    chosen = draw(st.sampled_from(["none", "one", "left out"]))
    if chosen == "one" and len(tree.topics) > 1:
        draw(st.sampled_from(tree.topics[1:])).good = True
    if chosen == "left out" and len(tree.children(0)) > 1:
        tree.children(0)[0].good = False
    for topic in tree.topics:
        for url, title, seed, example in draw(
            st.lists(st.tuples(URLS, TITLES, st.booleans(), st.booleans()), max_size=4)
        ):
            if example:
                tree.add_example(topic, ExampleKind.URL, url, title=title)
            if seed:
                tree.add_seed(topic, url, draw(st.sampled_from([title, "another title"])))
        for text, positive in draw(st.lists(st.tuples(TEXTS, st.booleans()), max_size=2)):
            tree.add_example(topic, ExampleKind.TEXT, f"{positive} {text}", positive=positive, title=draw(TITLES))
        topic.description = draw(st.one_of(st.just(""), TEXTS))
        if draw(st.booleans()):
            topic.keywords = draw(st.lists(WORDS, min_size=1, max_size=4))
        elif not tree.children(topic.kcid):
            topic.description = topic.description or "something"
    return tree


@pytest.mark.parametrize("suffix", [".yaml", ".toml"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees())
def test_what_is_written_is_read_back(tmp_path: Path, suffix: str, tree: TopicTree) -> None:
    """Writing a tree and reading it gives the same tree: every name, mark, word, seed and example."""
    file = tmp_path / f"t{suffix}"
    write_taxonomy(tree, file)
    assert contents(read_taxonomy(file)) == contents(tree)


def test_files_are_written_relative_to_the_taxonomy(tmp_path: Path) -> None:
    """A taxonomy and the files beside it can be moved together; files elsewhere keep their full path."""
    inside, outside = tmp_path / "a" / "x.txt", tmp_path / "y.txt"
    inside.parent.mkdir()
    inside.write_text("x")
    outside.write_text("y")
    tree = TopicTree()
    for file in (inside, outside):
        tree.add_example(tree.topics[0], ExampleKind.FILE, str(file))
    write_taxonomy(tree, tmp_path / "a" / "t.yaml")
    (tmp_path / "a").rename(tmp_path / "b")
    again = read_taxonomy(tmp_path / "b" / "t.yaml")
    assert [example.value for example in again.examples] == [str(tmp_path / "b" / "x.txt"), str(outside)]


@given(st.text(max_size=40))
def test_clean_names_can_be_told_apart_in_a_path(name: str) -> None:
    """A name stays as it is when cleaned again, and never holds what joins names."""
    cleaned = clean_name(name)
    assert clean_name(cleaned) == cleaned
    assert " / " not in f"x{cleaned}x"
    assert cleaned.isprintable()
    assert " / ".join((cleaned, cleaned, "x")).split(" / ") == [cleaned, cleaned, "x"]
    assert words_of(cleaned) == words_of(clean_name(cleaned))


def test_the_taxonomies_of_the_guide_are_read(tmp_path: Path) -> None:
    """What docs/guides/topics.md shows works as it says: one good topic, another below it, the rest null."""
    guide = (Path(__file__).parent.parent / "docs" / "guides" / "topics.md").read_text("utf-8")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "owls.pdf").write_bytes(b"%PDF")
    blocks = re.findall(r"^```(yaml)?\n(name.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert [language for language, _ in blocks] == ["yaml", ""]
    for language, block in blocks:
        tree = read_taxonomy(write(tmp_path, block, "g.yaml" if language else "g.toml"))
        marks = {topic.path: tree.marks()[topic.kcid].value for topic in tree.topics}
        assert {marks.pop("Owls"), marks.pop("Owls / Snowy owls"), marks.pop("")} == {"good", "subsumed", "path"}
        assert set(marks.values()) == {"null"}
        assert {seed.url for seed in tree.seeds} >= {"https://owls.example/barn-owl", "https://north.example/snowy-owl"}
        assert not any("hawks" in seed.url or "encyclopedia" in seed.url for seed in tree.seeds)
