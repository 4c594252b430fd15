"""Normal form of URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.model import host_of, normalize, registered_domain, url_key
from opilio.model.url import path_of


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
