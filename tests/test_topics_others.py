"""OTHERS: the documents that ship with the product are what they should be, and can be replaced."""

import itertools
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.analyze.language import language_of
from opilio.analyze.terms import term_ids
from opilio.errors import InputError
from opilio.topics import OthersDocument, default_others, read_others
from opilio.topics.others import parse_others

DOCUMENTS = default_others()
ENGLISH = [document for document in DOCUMENTS if document.language == "en"]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def similarity(one: set[object], other: set[object]) -> float:
    return len(one & other) / len(one | other)


def test_there_are_enough_of_a_fair_length() -> None:
    """About as many as BINGO used, each long enough to be a page and short enough not to weigh more than others."""
    assert 60 <= len(ENGLISH) <= 90
    assert len({document.title for document in DOCUMENTS}) == len(DOCUMENTS)
    lengths = {document.title: len(words(document.text)) for document in DOCUMENTS}
    assert all(120 <= length <= 240 for length in lengths.values()), lengths


def test_the_vocabulary_is_broad() -> None:
    """Thousands of different stems, and no stem but the most common ones in more than half of the documents."""
    stems = [set(term_ids(document.text, document.language)) for document in ENGLISH]
    assert len(set().union(*stems)) > 2500
    assert len(set().union(*(term_ids(document.text, document.language) for document in DOCUMENTS))) > 3500
    spread = Counter(itertools.chain.from_iterable(stems))
    assert sum(count > len(ENGLISH) / 2 for count in spread.values()) < 5


def test_everyday_and_web_words_are_there() -> None:
    """Words that pages of any topic share are known as words of no topic."""
    known = set().union(*(term_ids(document.text, "en") for document in ENGLISH))
    common = (
        "home page search contact privacy cookie login password account email newsletter copyright terms error comment "
        "share print subscribe family school work money health weather sport music film garden animal car house news "
        "law government history mountain river kitchen travel hotel price order delivery review job event street child "
        "morning water food friend doctor hospital train ticket letter question answer book library church election tax"
    )
    missing = [word for word in common.split() if not set(term_ids(word, "en")) <= known]
    assert not missing


def test_no_two_are_alike() -> None:
    """No document repeats another: almost no three words in a row are shared, and few words."""
    for one, other in itertools.combinations(DOCUMENTS, 2):
        first, second = words(one.text), words(other.text)
        runs = [set(zip(text, text[1:], text[2:], strict=False)) for text in (first, second)]
        assert similarity(runs[0], runs[1]) < 0.1, (one.title, other.title)
        assert similarity(set(first), set(second)) < 0.35, (one.title, other.title)


def test_languages() -> None:
    """Pages in other languages are known too, and each document is in the language it says."""
    languages = Counter(document.language for document in DOCUMENTS)
    assert {"en", "de", "fr", "es", "it", "pt", "nl"} <= set(languages)
    assert 8 <= len(DOCUMENTS) - languages["en"] <= 12
    wrong = [
        (d.title, d.language, language_of(d.text)) for d in DOCUMENTS if language_of(d.text) not in (d.language, "")
    ]
    assert not wrong


def test_a_file_or_a_folder_replaces_them(tmp_path: Path) -> None:
    """One file in our format, a plain one, or a folder of both; hidden files and other formats are passed over."""
    one = tmp_path / "mine.txt"
    one.write_text(
        "=== Wetter [de]\nEs regnet.\n\n===   Empty\n\n=== Tea\nHot.\n=== not a language [english]\nx\n", "utf-8"
    )
    expected = [
        OthersDocument("Wetter", "Es regnet.", "de"),
        OthersDocument("Tea", "Hot."),
        OthersDocument("not a language [english]", "x"),
    ]
    assert read_others(one) == expected
    (tmp_path / "a plain one").write_text("\ufeffNothing but text.\n", "utf-8")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / "folder.txt").mkdir()
    assert read_others(tmp_path) == [OthersDocument("a plain one", "Nothing but text."), *expected]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no document"),
        (b"=== a\n=== b\n", "no document"),
        (b"caf\xe9", "line 1: not UTF-8"),
        (b"x" * (4 * 2**20 + 1), "larger than 4 MiB"),
        (b"=== a\nb\n" * 5001, "more than 5,000"),
    ],
)
def test_unusable_files(tmp_path: Path, data: bytes, message: str) -> None:
    """What holds no usable text is an error that names the file and the next step."""
    file = tmp_path / "o.txt"
    file.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_others(file)
    assert message in caught.value.message
    assert str(file) in caught.value.message
    assert caught.value.hint


def test_missing_and_empty_places(tmp_path: Path) -> None:
    """A path that is not there and a folder without text are errors."""
    with pytest.raises(InputError, match="No such file"):
        read_others(tmp_path / "missing")
    with pytest.raises(InputError, match="no document"):
        read_others(tmp_path)


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    """Whatever the text, nothing of it is lost but headers and white space, and no document is empty."""
    found = list(parse_others(text))
    assert all(document.text for document in found)
    if "===" not in text:
        assert [document.text for document in found] == ([text.strip()] if text.strip() else [])
