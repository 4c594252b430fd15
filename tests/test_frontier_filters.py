"""Scope, traps and duplicates."""

import msgspec
import pytest

from opilio.analyze import Analyzer, bands
from opilio.frontier import Duplicates, ScopeFilter, TrapGuard
from opilio.model import Document, Outcome
from opilio.settings import DuplicateSettings, RobotsSettings, ScopeSettings, StoreSettings, TrapSettings

WORDS = [f"word{i}" for i in range(400)]


def document(text: str) -> Document:
    found = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(
        text.encode(), "text/plain", "http://x.example/"
    )
    assert found is not None
    return found


def test_locked_and_restricted_domains() -> None:
    """A domain covers its subdomains, and nothing that only ends alike."""
    scope = ScopeFilter(ScopeSettings(locked_domains=("google.com",)))
    assert scope.rejection("www.google.com:80") is Outcome.LOCKED
    assert scope.rejection("notgoogle.com") is None
    only = ScopeFilter(ScopeSettings(only_domains=("example.org",)))
    assert only.rejection("a.example.org") is None
    assert only.rejection("example.com") is Outcome.OUT_OF_SCOPE
    seeds = ScopeFilter(ScopeSettings(stay_on_seed_domains=True), frozenset({"example.net"}))
    assert seeds.rejection("www.example.net") is None
    assert seeds.rejection("example.com") is Outcome.OUT_OF_SCOPE


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/" + "b/" * 30,
        "http://a.example/x/y/x/y/x/y/x/y/",
        "http://a.example/?" + "&".join(f"p{i}=1" for i in range(12)),
        "http://a.example/x" + "".join(f";p{i}=1" for i in range(12)),
    ],
)
def test_shapes_of_traps(url: str) -> None:
    """Endless paths, repeated segments and endless query strings are refused at first sight."""
    assert TrapGuard(TrapSettings()).rejection(url, 0) is Outcome.TRAP


def test_a_url_that_is_too_long_is_told_apart() -> None:
    """BINGO's bound of 1000 characters."""
    assert TrapGuard(TrapSettings()).rejection("http://a.example/" + "x" * 1000, 0) is Outcome.URL_TOO_LONG


def test_countless_pages_are_bounded() -> None:
    """A calendar and a page with endless queries give a bounded number of URLs; articles with a date are no calendar."""
    guard = TrapGuard(TrapSettings(max_queries_per_path=10, max_calendar_urls_per_host=5))
    asked = sum(guard.rejection(f"http://a.example/list?page={i}", 0) is None for i in range(100))
    assert asked == 10
    asked = sum(guard.rejection(f"http://a.example/grid;page={i}/cell", 0) is None for i in range(100))
    assert asked == 10
    asked = sum(guard.rejection(f"http://b.example/events/{1990 + i}/05/", 1) is None for i in range(30))
    assert asked == 5
    articles = sum(guard.rejection(f"http://c.example/2024/05/{i % 28 + 1}/title-{i}", 2) is None for i in range(30))
    assert articles == 30


def test_steps_in_their_order() -> None:
    """Same size and text, same text, nearly the same text and another suffix are told apart, with the page repeated."""
    seen = Duplicates(DuplicateSettings(), bands)
    text = " ".join(WORDS)
    first = document(text)
    assert seen.repeats(first, 0, "http://a.example/p.html", "1.1.1.1", 1000) is None
    seen.remember(7, first, 0, "http://a.example/p.html", "1.1.1.1", 1000)
    assert seen.repeats(first, 1, "http://b.example/q", "1.1.1.1", 1000) == (Outcome.DUP_IP_SIZE, 7)
    assert seen.repeats(first, 1, "http://b.example/q", "2.2.2.2", 1001) == (Outcome.DUP_CONTENT, 7)
    near = document(text + " and a few words more")
    assert seen.repeats(near, 1, "http://b.example/r", "2.2.2.2", 1020) == (Outcome.DUP_NEAR, 7)
    other = document(" ".join(reversed(WORDS)))
    assert seen.repeats(other, 1, "http://b.example/s", "1.1.1.1", 1000) is None
    assert seen.known_elsewhere(99, "http://a.example/p.pdf", 0, "1.1.1.1") == (Outcome.DUP_SUFFIX, 7)
    assert seen.known_elsewhere(7, "http://a.example/p.html", 0, "1.1.1.1") is None  # itself, asked for again
    assert seen.known_elsewhere(99, "http://b.example/p.pdf", 1, "9.9.9.9") is None


def test_aliases_are_believed_after_proof() -> None:
    """Two names of one server are recognised after three equal pages; one different page disproves them for good."""
    seen = Duplicates(DuplicateSettings(), bands)
    pages = [document(" ".join(WORDS[i * 40 : i * 40 + 40])) for i in range(8)]
    for i, page in enumerate(pages):
        seen.remember(i, page, 0, f"http://a.example/{i}", "1.1.1.1", 100 + i)
    for i in range(3):
        assert seen.known_elsewhere(99, f"http://www.a.example/{i}", 1, "1.1.1.1") is None
        seen.repeats(pages[i], 1, f"http://www.a.example/{i}", "1.1.1.1", 100 + i)
    assert seen.known_elsewhere(99, "http://www.a.example/3", 1, "1.1.1.1") == (Outcome.DUP_IP_PATH, 3)
    assert seen.known_elsewhere(99, "http://other.example/3", 2, "1.1.1.1") is None
    seen.repeats(pages[7], 2, "http://other.example/3", "1.1.1.1", 7)
    for i in range(4, 8):
        seen.repeats(pages[i], 2, f"http://other.example/{i}", "1.1.1.1", 100 + i)
    assert seen.known_elsewhere(99, "http://other.example/5", 2, "1.1.1.1") is None


def test_the_papers_own_rules() -> None:
    """With `trust`, address and path, and address and size, are believed at once (BINGO 4.2)."""
    seen = Duplicates(DuplicateSettings(ip_path="trust", ip_size="trust"), bands)
    page = document(" ".join(WORDS[:50]))
    seen.remember(0, page, 0, "http://a.example/p", "1.1.1.1", 100)
    assert seen.known_elsewhere(99, "http://b.example/p", 1, "1.1.1.1") == (Outcome.DUP_IP_PATH, 0)
    other = document(" ".join(WORDS[50:100]))
    assert seen.repeats(other, 1, "http://b.example/x", "1.1.1.1", 100) == (Outcome.DUP_IP_SIZE, 0)


def test_pages_without_text_repeat_nothing() -> None:
    """Two empty pages are not each other's duplicates by content."""
    seen = Duplicates(DuplicateSettings(ip_size="off"), bands)
    empty = msgspec.structs.replace(document("x"), text="", content_hash=0, shingles=b"")
    seen.remember(0, empty, 0, "http://a.example/", "1.1.1.1", 0)
    assert seen.repeats(empty, 1, "http://b.example/", "1.1.1.1", 0) is None
