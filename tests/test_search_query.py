"""The language of questions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.errors import InputError
from opilio.search.query import AllOf, AnyOf, Filter, Question, Without, Word, parse

A, B, C = Word("a1"), Word("b1"), Word("c1")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a1", A),
        ("a1 b1", AllOf((A, B))),
        ("a1 AND b1", AllOf((A, B))),
        ("a1 b1 OR c1", AnyOf((AllOf((A, B)), C))),
        ("a1 (b1 OR c1)", AllOf((A, AnyOf((B, C))))),
        ("a1 -b1", AllOf((A, Without(B)))),
        ("-(a1 OR b1)", Without(AnyOf((A, B)))),
        ("NOT a1", Without(A)),
        ('"a1 b1"', Word("a1 b1", is_phrase=True)),
        ('title:"a1"', Word("a1", "title", is_phrase=True)),
        ("url:ab*", Word("ab", "url", is_prefix=True)),
        ("ab~", Word("ab", distance=1)),
        ("ab~2", Word("ab", distance=2)),
        ("well-known", Word("well-known")),
    ],
)
def test_words_are_read(text: str, tree: object) -> None:
    """Each form of a question means what the guide says."""
    assert parse(text) == Question(tree, ())  # type: ignore[arg-type]


def test_filters_are_about_the_whole_question() -> None:
    """Filters are taken out of the words, with what is left out marked so."""
    read = parse('a1 host:x.org -type:pdf topic:"Birds / Owls" OR b1')
    assert read.tree == AnyOf((A, B))
    assert read.filters == (
        Filter("host", "x.org"),
        Filter("type", "pdf", is_not=True),
        Filter("topic", "Birds / Owls"),
    )


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ('owl "nest', 5, "not closed"),
        ("owl (nest", 5, "not closed"),
        ("owl )", 5, "closes nothing"),
        ("owl OR", 7, "both sides"),
        ("OR owl", 1, "both sides"),
        ("owl colour:red", 5, "no field or filter 'colour'"),
        ("owl title:", 5, "nothing stands after"),
        ("owl ++", 5, "no letter or digit"),
        ("x*", 1, "at least 2 letters"),
        ("(host:x owl)", 2, "whole question"),
        ("owl ()", 5, "nothing stands between"),
        ("owl -OR nest", 6, "leave out"),
    ],
)
def test_errors_say_where(text: str, place: int, says: str) -> None:
    """A wrong question is refused with the place of the mistake."""
    with pytest.raises(InputError, match=f"character {place}: .*{says}"):
        parse(text)


def test_length_is_bounded() -> None:
    """Neither a long text nor a great many words keep the parser busy."""
    for text in ("x" * 2001, "a1 " * 65):
        with pytest.raises(InputError):
            parse(text)


@given(st.text(alphabet='ab1 "():-*~ORND\u00e9\u4e2d', max_size=40) | st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever is typed, the answer is a question or an InputError."""
    try:
        read = parse(text)
    except InputError:
        return
    assert read.tree is not None or read.filters or not any(map(str.isalnum, text)) or "AND" in text
