"""Taking docstrings apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opilio.lab.local_web.documentation import Block, parse
from opilio.lab.local_web.harvest import summary, without_chance

_LINES = st.lists(
    st.one_of(
        st.text(alphabet="ab `:>*-.= \t", max_size=20),
        st.sampled_from(["Parameters", "----------", "See Also", "Args:", ">>> f(1)", "    code", "- item", "x : int"]),
    ),
    max_size=30,
)


def test_numpydoc_sections_become_headings_and_terms() -> None:
    """The form most scientific packages use is understood: parameters keep their names apart from their meaning."""
    text = "Solve it.\n\nParameters\n----------\na : int\n    First.\n    More.\nb : str\n    Second."
    assert parse(text) == [
        Block("paragraph", "Solve it."),
        Block("heading", "Parameters"),
        Block("terms", items=(("a : int", "First. More."), ("b : str", "Second."))),
    ]


def test_examples_and_indented_text_are_code() -> None:
    """Doctests end at the blank line, indented blocks where the indentation does; neither loses its line ends."""
    blocks = parse("Like this::\n\n    a = 1\n\n    b = 2\n\nThen:\n\n>>> f()\n3\n\nDone.")
    assert [block.kind for block in blocks] == ["paragraph", "code", "paragraph", "code", "paragraph"]
    assert blocks[1].text == "a = 1\n\nb = 2"
    assert blocks[3].text == ">>> f()\n3"


def test_bullets_become_a_list() -> None:
    """A continued bullet belongs to its item."""
    assert parse("- one\n  more\n- two") == [Block("list", items=(("", "one more"), ("", "two")))]


@given(_LINES)
def test_no_word_is_lost(lines: list[str]) -> None:
    """Whatever the form, every letter of the text is in exactly one block."""
    blocks = parse("\n".join(lines))
    kept = "".join(block.text + "".join(term + text for term, text in block.items) for block in blocks)
    assert sorted(c for c in kept if c.isalpha()) == sorted(c for line in lines for c in line if c.isalpha())


def test_what_chance_put_into_a_docstring_is_left_out() -> None:
    """Some packages draw the samples of their examples while they are imported; the web must not depend on that."""
    text = "Draw.\n\n>>> x = <f at 0x7f00>\n>>> x.draw()\narray([1.5,\n       2.5])  # may vary\n\n>>> 1 + 1\n2"
    assert without_chance(text) == "Draw.\n\n>>> x = <f>\n>>> x.draw()\n...\n\n>>> 1 + 1\n2"


def test_a_summary_is_one_plain_sentence() -> None:
    """Rules, roles and further sentences stay out of titles."""
    assert summary("=====\nTools (:mod:`scipy.x`)\n=====\n\nMore.") == "Tools (scipy.x)"
    assert summary("Do `it`\nnow. Then rest.") == "Do it now."
