"""Addresses resolved by memory and by shortcuts are those that parsing gives."""

from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.analyze.targets import Targets, base_of
from opilio.analyze.terms import tokenize
from opilio.model import normalize

BASES = ["http://a.example/d/e/p.html", "https://b.example/", "http://a.example:81/x?y=/z/"]
PARTS = [
    "../",
    "./",
    "..",
    "/",
    "a",
    "b.html",
    "#x",
    " ",
    "?q=1",
    "a:b",
    "%2e",
    "%C3%A9",
    "(",
    "'",
    "+",
    ",",
    "|",
    "^",
    ":",
]
HREFS = (
    st.text(alphabet="abAZ09_.~-/:xn%?#h tps\t;=&\\", max_size=25)
    | st.from_regex(r"https?://[a-z0-9.\-A-Z]{1,12}/[a-z./~_-]{0,12}", fullmatch=True)
    | st.from_regex(r"/?[a-z./~_-]{0,12}", fullmatch=True)
    | st.lists(st.sampled_from(PARTS), max_size=6).map("".join)
)


@settings(max_examples=400)
@given(st.lists(st.tuples(HREFS, st.sampled_from(BASES)), max_size=4))
def test_resolving_is_normalising(asked: list[tuple[str, str]]) -> None:
    """Whatever was asked before, in whatever folder, an address leads where `normalize` says."""
    targets = Targets()
    for href, base in asked + asked:
        assert targets.relative_to(base_of(base))[href].url == normalize(href, base)


@settings(max_examples=500)
@given(st.text(max_size=60))
def test_words_are_the_same_by_bytes_and_by_characters(text: str) -> None:
    """The quick way for text without letters beyond ASCII gives the words that the slow way gives."""
    assert tokenize(text) == tokenize(text + " ä")[:-1]
