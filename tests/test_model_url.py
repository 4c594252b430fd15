"""Normal form of URLs."""

import random
from collections import Counter
from string import ascii_letters, ascii_lowercase, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st
from publicsuffixlist import PublicSuffixList

from opilio.model import host_of, normalize, registered_domain, url_key
from opilio.model.url import is_top_level, path_of


@pytest.mark.parametrize(
    ("raw", "base", "expected"),
    [
        ("HTTP://User:pw@Example.COM:80/a/../b", "", "http://example.com/b"),
        ("../x y", "http://a.example/d/e/f", "http://a.example/d/x%20y"),
        ("?q=1&utm_source=feed&PHPSESSID=3", "http://a.example/p", "http://a.example/p?q=1"),
        ("/p;jsessionid=AB12?x=1", "http://a.example/", "http://a.example/p?x=1"),
        ("#top", "http://a.example/p?q", "http://a.example/p?q"),
        ("http://bücher.example/ü", "", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://0x7f.1/", "", "http://127.0.0.1/"),
        ("//b.example:8080/x", "https://a.example/", "https://b.example:8080/x"),
        ("mailto:a@b.example", "", ""),
        ("javascript:alert(1)", "http://a.example/", ""),
        ("http://", "", ""),
        ("http://[::1", "", ""),
        ("\ud800", "http://a.example/", ""),
    ],
)
def test_normal_form(raw: str, base: str, expected: str) -> None:
    """The forms a page can write a URL in come to one normal form, or to none."""
    assert normalize(raw, base) == expected


@given(st.text(max_size=60))
def test_normal_form_is_stable(raw: str) -> None:
    """Normalising twice changes nothing, and no input raises."""
    once = normalize(raw, "http://a.example/dir/page")
    assert once == "" or normalize(once) == once
    if once:
        assert "#" not in once
        assert once.startswith(("http://", "https://"))
        assert once == f"{once.split('://')[0]}://{host_of(once)}{path_of(once)}"


NAMES = st.sampled_from(["sid", "SID", "session_id", "sessionid"])
CHOSEN = (
    st.integers(0, 10**15).map(str)
    | st.from_regex(r"[A-Za-z]{0,60}", fullmatch=True).filter(bool)
    | st.from_regex(r"[a-z]{1,12}([-_.+][a-z0-9]{1,12}){0,6}", fullmatch=True)
    | st.uuids().map(str)
    | st.dates().map(str)
)
"""Values that people and databases give to pages."""


@given(NAMES, st.lists(CHOSEN, min_size=2, max_size=4, unique=True))
def test_pages_that_a_number_or_a_name_selects_stay_apart(name: str, values: list[str]) -> None:
    """`article.php?sid=12` and `?sid=13` are two pages, in the query and in the path, whatever the values are."""
    for form in ("http://a.example/article.php?{}={}", "http://a.example/article.php;{}={}?x=1"):
        urls = [form.format(name, value) for value in values]
        assert [normalize(url) for url in urls] == urls


HEX = "0123456789abcdef"


@pytest.mark.parametrize(
    ("alphabet", "length", "recognised"),
    [(HEX, 32, 1000), (HEX, 16, 930), (ascii_lowercase[:22] + digits, 26, 990), (ascii_letters + digits, 32, 950)],
)
def test_sessions_are_one_page(alphabet: str, length: int, recognised: int) -> None:
    """Whatever session a site invents, in the forms that PHP and forums use, the page is the same. A parameter that is
    always a session is dropped with any value."""
    draw = random.Random(7)
    tokens = ["".join(draw.choices(alphabet, k=length)) for _ in range(1000)]
    for form in ("/q?x=1&sid={}&y=2", "/q?x=1&session_id={}&y=2", "/q?x=1&SessionID={}&y=2", ";sid={}/q?x=1&y=2"):
        found = Counter(normalize("http://a.example/p" + form.format(token)) for token in tokens)
        assert found["http://a.example/p/q?x=1&y=2"] >= recognised
    for name in ("PHPSESSID", "jsessionid", "CFID", "zenid", "osCsid", "ASPSESSIONIDABC"):
        assert normalize(f"http://a.example/p?{name}={tokens[0][:3]}") == "http://a.example/p"
    assert normalize("http://a.example/p?sid=") == normalize("http://a.example/p?sid") == "http://a.example/p"


def test_keys_tell_schemes_apart() -> None:
    """http and https are two URLs: one may redirect to the other."""
    assert url_key("http://a.example/") != url_key("https://a.example/")


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.co.uk:8080", "example.co.uk"),
        ("a.b.example.com", "example.com"),
        ("127.0.0.1:81", "127.0.0.1"),
        ("[::1]:80", "[::1]"),
        ("localhost", "localhost"),
    ],
)
def test_registered_domain(host: str, domain: str) -> None:
    """The domain caps count hosts of one registered domain together."""
    assert registered_domain(host) == domain


def test_the_rules_of_one_top_level_domain_give_the_same_domains_as_the_whole_list() -> None:
    """Only the rules of the top-level domains that a crawl meets are parsed: no rule of another one can match."""
    whole = PublicSuffixList()
    rules = {rule.lstrip("!").replace("*.", "wild.") for rule in whole._publicsuffix}
    names = [before + rule for rule in rules for before in ("x.", "b.a.")]
    names += ["example.org.", "EXAMPLE.CO.UK", "localhost", "a.unknown", "a.b.unknown", "a.xn--p1ai", "a.xn--0", "a..b"]
    for name in names:
        assert registered_domain(name) == (whole.privatesuffix(name) or name), name
    for label in ("com", "рф", "xn--p1ai", "unknown", "xn--0", ""):
        assert is_top_level(label) == (whole.publicsuffix(f"x.{label}", accept_unknown=False) is not None), label
