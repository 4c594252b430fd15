"""Links of a page as a real browser resolves, sends and follows them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser, Error

from browser import chromium
from fetch_servers import WebServer, fetch, html, reply, to_server
from opilio.analyze import Analyzer
from opilio.model import Link, LinkKind, Outcome
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings

SIGNS = [
    "слово",
    "日本語 表示",
    "中文字符",
    "한국어",
    "ไทย",
    "😀",
    "a'b\"c<日>",
    "100%日",
    "[日]{日}\\^`",
    "日\t本",
    "&amp;r=日",
]
LETTERS = ["café €ß", "—“”…", "şŞğ", "žšč", "ελληνικά", "עברית"]
"""In East Asian charsets, Python's codecs and the standard differ in some of these."""
EAST_ASIAN = {  # as the standard names them: Python's codec with which the page is written
    **dict.fromkeys(["gbk", "gb18030", "euc-jp", "iso-2022-jp"]),
    "shift_jis": "cp932",
    "big5": "big5",
    "euc-kr": "cp949",
}
CHARSETS = {
    **EAST_ASIAN,
    **dict.fromkeys(["windows-1250", "windows-1251", "windows-1252", "windows-1253", "windows-1254", "windows-1255"]),
    **dict.fromkeys(["iso-8859-2", "iso-8859-15", "koi8-r", "koi8-u", "ibm866", "utf-8"]),
    "windows-874": "cp874",
    "utf-16le": "utf-16-le",
    "iso-8859-8-i": "iso-8859-8",
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser."""
    with chromium() as running:
        yield running


def links_of(body: bytes, url: str, charset: str, hidden_links: bool = True) -> list[Link]:
    """The links that we find in a page."""
    analyzer = Analyzer(TrapSettings(hidden_links=hidden_links), RobotsSettings(), StoreSettings())
    document = analyzer.analyze(body, f"text/html; charset={charset}", url)
    assert document is not None
    return document.links


def test_queries_are_encoded_as_a_browser_does(browser: Browser) -> None:
    """In every charset of the web, each address on a page comes to the URL that Chromium would request: the query in
    the page's charset, with references for what it lacks, and the path in UTF-8."""
    routes = {}
    for charset, codec in CHARSETS.items():
        words = SIGNS if charset in EAST_ASIAN else SIGNS + LETTERS
        hrefs = [word.replace("'", "&#39;").replace("<", "&lt;") for word in words]
        anchors = [f"<a href='/{place}/{href}?q={href}#{href}'>{place}</a>" for place, href in enumerate(hrefs)]
        body = "\n".join(["<!doctype html>", *anchors]).encode(codec or charset, "xmlcharrefreplace")
        routes[f"/{charset}"] = reply(body, Content_Type=f"text/html; charset={charset}")
    page = browser.new_page()
    with WebServer(dict(routes)) as server:
        for charset in CHARSETS:
            url = f"http://{server.address}/{charset}"
            page.goto(url)
            expected = page.evaluate("[...document.links].map(link => link.href.split('#')[0])")
            body = routes[f"/{charset}"].split(b"\r\n\r\n", 1)[1]
            assert [link.url for link in links_of(body, url, charset)] == expected, charset


@pytest.mark.parametrize(
    "location",
    [
        "/слово?q=слово".encode(),
        "/café?q=é".encode("latin-1"),
        b"/\xff\xfe%41?\x80",
        "/日本#日".encode(),
        b"/plain?q=1",
    ],
)
def test_raw_bytes_in_a_location_are_sent_back(browser: Browser, location: bytes) -> None:
    """A redirect to an address of bytes that are not ASCII, UTF-8 or not, goes where Chromium goes."""
    head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n"
    with WebServer({"/from": head}) as server:
        url = f"http://{server.address}/from"
        with contextlib.suppress(Error):  # nothing is there
            browser.new_page().goto(url)
        followed = next(path for path in server.paths() if path not in ("/from", "/favicon.ico"))
        config = to_server(server.address, allow_private_addresses=True)
        with ThreadPoolExecutor() as pool:  # the browser's event loop runs in this thread
            response = pool.submit(fetch, config, url).result()
        assert response.fetch.outcome is Outcome.REDIRECT
        assert response.fetch.redirect_url == f"http://{server.address}{followed}"


SHOWN = {
    "plain": "<a href=/plain>x</a>",
    "aria": "<p aria-hidden=true><a href=/aria>x</a>",
    "details": "<details><summary>s</summary><a href=/details>x</a></details>",
    "dialog-open": "<dialog open><a href=/dialog-open>x</a></dialog>",
    "svg": "<svg><a href=/svg><text y=20>x</text></a></svg>",
    "xlink": "<svg><a xlink:href=/xlink><text y=20>x</text></a></svg>",
    "both": "<svg><a href=/both xlink:href=/old><text y=20>x</text></a></svg>",
    "shadow": "<div><template shadowrootmode=open><a href=/shadow>x</a></template></div>",
}
HIDDEN = {
    "hidden": "<p hidden><a href=/hidden>x</a></p>",
    "none": "<p style='display:none'><a href=/none>x</a><b hidden><a href=/inner>x</a></b></p>",
    "itself": "<a href=/itself hidden>x</a>",
    "dialog": "<dialog><a href=/dialog>x</a></dialog>",
}
WITHOUT_SCRIPTS = {
    "noscript": "<noscript><p><a href=/noscript>x</a><iframe src=/counter></iframe></noscript>",
}
NEVER = {
    "template": "<template><a href=/template>x</a></template>",
    "canvas": "<canvas><a href=/canvas>x</a></canvas>",
    "script": "<script>'<a href=/script>x</a>'</script>",
    "comment": "<!-- <a href=/comment>x</a> -->",
    "html-xlink": "<a xlink:href=/html-xlink>x</a>",
}
REFRESH = "<head><noscript><meta http-equiv=refresh content='99;url=/refresh'></noscript></head><body>"


def test_links_that_a_reader_can_follow(browser: Browser) -> None:
    """What a reader of Chromium sees or can unfold is followed always; what a script may show, or what is for readers
    without scripts, unless it is turned off; the rest never."""
    parts = {**SHOWN, **HIDDEN, **WITHOUT_SCRIPTS, **NEVER}
    body = (REFRESH + "<hr>".join(parts.values())).encode()
    page = browser.new_page()
    with WebServer({"/": html(body)}) as server:
        url = f"http://{server.address}/"
        page.goto(url)
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        places = page.locator("a[href], svg a")  # goes into shadow roots
        links = [place for place in places.all() if place.is_visible()]
        seen = {link.evaluate("link => link.href.baseVal ?? link.href") for link in links}
        assert {path.rpartition("/")[2] for path in seen} == set(SHOWN)
        found = {link.url.rpartition("/")[2]: link for link in links_of(body, url, "utf-8")}
        only_shown = {link.url.rpartition("/")[2] for link in links_of(body, url, "utf-8", hidden_links=False)}
    assert only_shown == set(SHOWN)
    assert set(found) == {*SHOWN, *HIDDEN, "inner", *WITHOUT_SCRIPTS, "refresh"}
    assert found["refresh"].kind is LinkKind.REFRESH
    assert all(link.anchor == "x" for name, link in found.items() if name != "refresh")
