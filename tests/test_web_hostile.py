"""Text of strangers stays text, on every page that shows it."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from browser import chromium, signed_in
from opilio import Collection
from opilio.lab.local_web import LocalServer
from web_portal import Portal

SEEDS = [f"http://title.test/{path}" for path in ("escaped", "raw", "attribute", "huge", "control", "sql")]


@pytest.fixture(scope="module")
def portal(small_server: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """A portal of the pages whose titles are scripts, quotes, control characters and SQL."""
    place = tmp_path_factory.mktemp("hostile")
    (place / "seeds.txt").write_text("\n".join(SEEDS))
    settings = {"fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "run.workers": -1}
    # All of them say the same, or nothing: duplicates must not keep them out.
    alike = {"duplicates.content": False, "duplicates.near_jaccard": 0.0, "duplicates.ip_size": "off"}
    collection = Collection.create(
        place / "<b>bold",
        seeds=place / "seeds.txt",
        query="page",
        settings={**settings, **alike, "limits.max_pages": 6},
    )
    collection.crawl()
    with Portal(place) as portal:
        yield portal


def paths(portal: Portal) -> list[str]:
    """All pages that show what was fetched."""
    base = f"/c/{quote(portal.shelf.names()[0])}"
    views = [f"{base}/page?url={quote(url)}" for url in SEEDS]
    lists = ["/", "/topic?topic=", "/search?q=alert", "/watch", "/teach", "/clusters", "/review", "/sql"]
    sql = f"{base}/sql?sql={quote('SELECT url, title FROM collection')}"
    return ["/collections", *(base + path for path in lists), *views, sql]


def test_titles_are_escaped(portal: Portal, tmp_path: Path) -> None:
    """No page has a title as markup, and where it is shown it is shown as it was."""
    shown = 0
    for path in paths(portal):
        status, text = portal.ask("GET", path)
        assert status == 200, (path, text)
        assert "<script>alert" not in text, path
        assert "<b>bold" not in text, path
        assert ' onmouseover="alert' not in text, path
        shown += "&lt;script&gt;" in text
    assert shown >= 3


def test_nothing_runs_in_a_browser(portal: Portal) -> None:
    """A real browser meets no script of a stranger on any page, and the policy finds nothing to refuse."""
    complaints: list[str] = []
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        for path in paths(portal):
            page.goto(portal.address + path)
            page.wait_for_timeout(150)
    assert complaints == []
