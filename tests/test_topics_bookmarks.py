"""A look at bookmarks before a crawl: folders to choose, dead links, languages; in Python, as a command, in a browser."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from playwright.sync_api import expect

from browser import chromium, signed_in
from command_line import call
from opilio import Collection
from opilio.crawl.bookmark_check import check_bookmarks
from opilio.errors import InputError
from opilio.settings import Settings, override
from opilio.topics import bookmark_folders, read_bookmarks
from opilio.topics.inputs import chosen_folders, read_inputs
from web_portal import Portal

FILE = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<DL><p>
  <DT><A HREF="http://alone.example/">Alone</A>
  <DT><H3>Mozilla Firefox</H3><DL><p>
    <DT><A HREF="https://support.example/firefox">Get Help</A>
  </DL><p>
  <DT><H3>Birds</H3><DL><p>
    <DT><A HREF="http://birds.example/owls">Owls &lt;b&gt;at&lt;/b&gt; night</A>
    <DT><A HREF="http://birds.example/jays">Jays</A>
    <DT><H3>TCP/IP</H3><DL><p><DT><A HREF="http://pigeons.example/">Carriers</A></DL><p>
  </DL><p>
  <DT><H3>Knots</H3><DL><p><DT><A HREF="http://knots.example/">Bowline</A></DL><p>
</DL>"""
GERMAN = "Die Eule jagt in der Nacht und schläft am Tag, denn sie sieht auch bei wenig Licht noch gut. " * 4


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A bookmark file with a browser's own folder in it."""
    path = tmp_path / "my bookmarks.html"
    path.write_text(FILE, encoding="utf-8")
    return path


def urls(path: Path, **chosen: list[str]) -> list[str]:
    """The seeds that a collection gets."""
    return [seed.url for seed in read_inputs(path, **chosen).seeds]  # type: ignore[arg-type]


def test_folders_of_a_browser_are_left_out_unless_named(file: Path) -> None:
    """The preview shows every folder with its size; the browser's own is taken only by name."""
    folders = bookmark_folders(FILE)
    assert [(folder.path, folder.bookmarks, folder.by_browser) for folder in folders] == [
        ("", 1, False), ("Mozilla Firefox", 1, True), ("Birds", 2, False), ("Birds / TCP/IP", 1, False),
        ("Knots", 1, False),
    ]  # fmt: skip
    assert folders[2].titles == ("Owls <b>at</b> night", "Jays")
    assert "https://support.example/firefox" not in urls(file)
    assert len(urls(file)) == 5
    assert urls(file, folders=["Mozilla Firefox"]) == ["https://support.example/firefox"]


def test_a_named_folder_includes_those_in_it(file: Path) -> None:
    """A folder is named by its path or its last name; an unknown name is an error that lists the folders."""
    assert chosen_folders(FILE, ["Birds"]) == ["Birds", "Birds / TCP/IP"]
    assert chosen_folders(FILE, ["TCP/IP", "Knots"]) == ["Birds / TCP/IP", "Knots"]
    assert chosen_folders(FILE, ["Birds / TCP/IP"]) == ["Birds / TCP/IP"]
    with pytest.raises(InputError, match="Fish") as caught:
        chosen_folders(FILE, ["Fish"])
    assert "Knots" in caught.value.hint
    with pytest.raises(InputError, match="in these folders"):
        read_bookmarks(file, ["Fish"])


def test_bookmarks_given_as_seeds_are_recognised(file: Path) -> None:
    """A bookmark file is read as one, with its folders as topics, by whichever option it comes."""
    by_seeds, by_bookmarks = read_inputs(seeds=file), read_inputs(bookmarks=file)
    assert [topic.path for topic in by_seeds.topics] == [topic.path for topic in by_bookmarks.topics]
    assert by_seeds.seeds == by_bookmarks.seeds


class _Site(http.server.BaseHTTPRequestHandler):
    """A German page, a page that is gone, one that robots.txt forbids, and one that is moved."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        status, body, place = {
            "/robots.txt": (200, "User-agent: *\nDisallow: /secret", ""),
            "/owls": (200, f"<html><title>Eulen</title><p>{GERMAN}</html>", ""),
            "/moved": (301, "", "/owls"),
            "/secret": (200, "secret", ""),
        }.get(self.path, (404, "gone", ""))
        self.send_response(status)
        kind = "text/plain" if self.path == "/robots.txt" else "text/html; charset=utf-8"
        self.send_header("Content-Type", kind)
        if place:
            self.send_header("Location", place)
        data = body.encode()
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    """The address of the site."""
    _Site.asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_check_names_dead_links_and_languages(site: str) -> None:
    """Each bookmark is fetched once and politely; what is forbidden is not fetched, what has no time is counted."""
    settings = override(
        Settings(), {"fetch.connect_to": {"site.test": site, "*": "127.0.0.1:9"}, "fetch.host_delay_s": 0.01}
    )
    paths = ["owls", "gone", "secret", "moved"]
    report = check_bookmarks([*(f"http://site.test/{path}" for path in paths), "http://dead.test/"], settings)
    assert [one.url for one in report.dead] == ["http://site.test/gone", "http://dead.test/"]
    assert [(one.url, one.outcome) for one in report.trouble] == [("http://site.test/secret", "robots")]
    assert (report.checked, report.unchecked, report.languages) == (5, 0, {"de": 2})
    assert "/secret" not in _Site.asked
    assert _Site.asked.count("/robots.txt") == 1
    hurried = check_bookmarks(["http://site.test/owls"], settings, max_time_s=0.0)
    assert (hurried.checked, hurried.unchecked, hurried.dead) == (0, 1, [])


def test_the_command_lists_folders_and_crawls_take_them(file: Path, site: str, tmp_path: Path) -> None:
    """`opilio bookmarks` shows folders and dead links, and quotes the file; a crawl takes the folders that are named."""
    config = tmp_path / "crawl.toml"
    config.write_text(f'[fetch]\nconnect_to = {{ "*" = "{site}" }}\nhost_delay_s = 0.01\n', encoding="utf-8")
    plain = call("bookmarks", file)
    assert plain.returncode == 0
    assert "made by the browser: left out" in plain.stdout
    assert f"--bookmarks '{file}'" in plain.stdout
    checked = json.loads(call("bookmarks", file, "--check", "--json", "--folder", "Birds", "--config", config).stdout)
    assert {one["url"] for one in checked["check"]["dead"]} == {"http://birds.example/jays", "http://pigeons.example/"}
    options = ["--bookmark-folder", "Knots", "--config", config, "--max-pages", "1", "--workers", "-1", "-q"]
    call("crawl", tmp_path / "knots", "--bookmarks", file, *options)
    assert [topic["topic"] for topic in Collection(tmp_path / "knots").topics() if topic["path"]] == ["Knots"]


def test_the_form_previews_a_bookmark_file(file: Path, tmp_path: Path) -> None:
    """In a browser: folders with counts, the browser's own unticked; only ticked folders become topics."""
    (tmp_path / "shelf").mkdir()
    with Portal(tmp_path / "shelf") as portal, chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/new")
        page.get_by_label("Bookmark file of your browser").set_input_files(file)
        expect(page.locator("#preview-said")).to_contain_text("6 bookmarks in 5 folders")
        expect(page.locator("#folders")).to_contain_text("Owls <b>at</b> night")
        expect(page.get_by_label("Mozilla Firefox")).not_to_be_checked()
        page.get_by_label("Knots").uncheck()
        page.get_by_label("in no folder").uncheck()
        page.get_by_label("start at once").uncheck()
        page.get_by_label("Name").fill("mine")
        page.get_by_role("button", name="Make it and crawl").click()
        page.wait_for_url(f"{portal.address}/c/mine/watch")
        topics = [topic["topic"] for topic in Collection(tmp_path / "shelf" / "mine").topics() if topic["path"]]
        assert topics == ["Birds", "Birds / TCP/IP"]


def test_the_form_speaks_of_its_own_fields(tmp_path: Path) -> None:
    """What is wrong with a wish is said without options of the command line."""
    with Portal(tmp_path) as portal:
        for wrong in ({}, {"query": "owls"}, {"description": "owls at night"}, {"bookmarks": "nothing"}):
            status, answer = portal.ask("POST", "/api/collections", {"name": "a", "start": False, **wrong})
            assert status == 400
            assert "--" not in answer["error"] + answer["hint"], answer
        assert "host_delay_s" in portal.get("/settings")[1]
