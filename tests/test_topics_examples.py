"""Lists of examples, bookmarks as examples, and queries as virtual documents."""

from pathlib import Path

import pytest

from opilio.errors import InputError
from opilio.topics import ExampleKind, Mark, TopicTree, parse_example, query_topic, read_examples
from opilio.topics.inputs import parse_bookmarks


def test_list_of_examples(tmp_path: Path) -> None:
    """URLs are examples and seeds, with their titles; paths are files beside the list; comments are skipped."""
    (tmp_path / "my notes.pdf").write_bytes(b"%PDF")
    file = tmp_path / "examples.txt"
    file.write_text("# mine\n\nhttps://a.example/#x  Barn owls\nmy notes.pdf\nfile:my notes.pdf\ntext: owls at night\n")
    tree = TopicTree()
    assert read_examples(file, tree) == 3
    assert [(e.kcid, e.kind, e.value, e.positive, e.title) for e in tree.examples] == [
        (0, ExampleKind.URL, "https://a.example/", True, "Barn owls"),
        (0, ExampleKind.FILE, str(tmp_path / "my notes.pdf"), True, ""),
        (0, ExampleKind.TEXT, "owls at night", True, ""),
    ]
    assert [seed.url for seed in tree.seeds] == ["https://a.example/"]
    assert tree.topics[0].keywords == ["barn", "owls"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"http://a.example/\nmissing.pdf\n", "line 2: 'missing.pdf' is not a file"),
        (b"ftp://a.example/\n", "line 1: 'ftp://a.example/' is not an http"),
        (b"# nothing\n", "no example"),
        (b"caf\xe9.txt\n", "not UTF-8"),
        (b"a\x00b\n", "is not a file"),
        (b"~nobody-of-that-name/x\n", "is not a file"),
        (b"x" * 5000, "is not a file"),
        (b"text:\n", "has no text"),
    ],
)
def test_a_slip_in_a_list_is_found_at_once(tmp_path: Path, data: bytes, message: str) -> None:
    """A file that is not there is not taken for a host, nor passed over: the error names its line."""
    file = tmp_path / "examples.txt"
    file.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_examples(file, TopicTree())
    assert message in caught.value.message
    assert caught.value.hint


def test_a_missing_list(tmp_path: Path) -> None:
    """A list that is not there is an error with a next step."""
    with pytest.raises(InputError, match="No such file"):
        read_examples(tmp_path / "missing.txt", TopicTree())


def test_paths_are_relative_to_the_folder(tmp_path: Path) -> None:
    """What comes out is absolute, so that it can be read later from anywhere."""
    (tmp_path / "a.txt").write_text("a")
    for text in ("a.txt", "file:a.txt", "file: a.txt", f"file://{tmp_path}/a.txt", f"{tmp_path}/a.txt"):
        assert parse_example(text, tmp_path) == (ExampleKind.FILE, str(tmp_path / "a.txt"))


BOOKMARKS = """<DL><p>
<DT><A HREF="https://root.example/">Start</A>
<DT><H3>Birds</H3><DL><p>
  <DT><A HREF="https://birds.example/">Owls and hawks</A>
  <DT><H3>OTHERS</H3><DL><p>
     <DT><A HREF="https://angry.example/">A game with birds</A>
     <DT><H3>Deeper</H3><DL><p><DT><A HREF="https://deeper.example/">Mugs</A></DL><p>
  </DL><p>
  <DT><H3>Inbox / Outbox</H3><DL><p><DT><A HREF="https://birds.example/">Owls and hawks</A></DL><p>
</DL><p>
</DL>"""


def test_bookmarks_are_seeds_and_examples() -> None:
    """BINGO: bookmarks are the seeds and the training data of their folder; those in OTHERS are its negatives only."""
    tree = parse_bookmarks(BOOKMARKS)
    paths = [topic.path for topic in tree.topics]
    assert paths == ["", "Birds", "Birds / Inbox/Outbox"]
    assert [(paths[e.kcid], e.value, e.positive) for e in tree.examples] == [
        ("", "https://root.example/", True),
        ("Birds", "https://birds.example/", True),
        ("Birds", "https://angry.example/", False),
        ("Birds", "https://deeper.example/", False),
        ("Birds / Inbox/Outbox", "https://birds.example/", True),
    ]
    assert [seed.url for seed in tree.seeds] == ["https://root.example/", "https://birds.example/"]
    assert tree.topics[1].keywords == ["birds", "owls", "and", "hawks"]
    assert list(tree.marks().values()) == [Mark.PATH, Mark.GOOD, Mark.SUBSUMED]


def test_endless_folders() -> None:
    """Ten thousand folders in each other end at the deepest level there may be; nothing is lost or overflows."""
    soup = "<DL>" + "".join(f"<DT><H3>f{i}</H3><DL>" for i in range(10_000)) + '<DT><A HREF="http://a.example/">x</A>'
    tree = parse_bookmarks(soup)
    assert len(tree.topics) == 31
    assert tree.seeds[0].kcid == 30
    assert tree.hierarchy().good == {1}


def test_a_query_is_a_virtual_document() -> None:
    """BINGO 5.3: the words of a query are what the root learns from, besides its keywords."""
    tree = TopicTree()
    query_topic("open source ARIES recovery", tree)
    [document] = tree.training()
    assert (document.kcid, document.kind, document.value) == (0, ExampleKind.TEXT, "open source ARIES recovery")
    assert tree.hierarchy().good == {0}
