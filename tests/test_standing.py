"""Standing collections: a round visits what is due, and reports what is new, changed and gone, once, to everybody."""

from __future__ import annotations

import email
import email.policy
import hashlib
import hmac
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import feedparser
import pytest

from command_line import call
from opilio import Collection
from opilio.errors import CollectionBusy, InputError
from opilio.standing import Channels, RoundReport, StandingWatch
from opilio.standing.webhooks import WebhookError, post_report
from web_portal import Portal

OWL = "The owl hunts at night for voles and sleeps by day in a barn or an old tower. "


class Site:
    """A web site whose pages change, and which takes webhooks."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.hooks: list[tuple[dict[str, str], bytes]] = []
        self.refusals: list[int] = []
        """What the next webhooks are answered."""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = site.pages.get(self.path, "").encode()
                self._answer(200 if body else 404, body)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = site.refusals.pop(0) if site.refusals else 204
                if status == 204:
                    site.hooks.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self._answer(status, b"")

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def put(self, path: str, words: str, *links: str) -> None:
        anchors = "".join(f'<a href="{link}">about {link}</a> ' for link in links)
        self.pages[path] = f"<html><title>{path} &lt;b&gt;</title><p>{words} {path}</p>{anchors}</html>"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    made.put("/", OWL * 2 + "home", "/stays", "/changes", "/goes")
    made.put("/stays", OWL + "Barn owls breed in towers, with white faces and quiet wings.")
    made.put("/changes", OWL + "Tawny owls call in woods, and are heard in winter gardens.")
    made.put("/goes", OWL + "Snowy owls live in the far north among lemmings and stones.")
    yield made
    made.close()


@pytest.fixture
def owls(site: Site, tmp_path: Path) -> Collection:
    """A collection of the site, all of whose pages are due again at once."""
    (tmp_path / "seeds.txt").write_text(f"{site.url}/")
    settings = {
        "fetch.allow_private_addresses": True, "fetch.host_delay_s": 0.0, "run.workers": -1, "learn.questions": 0,
        "revisit.first_s": 0.5, "revisit.min_s": 0.5, "traps.soft_404": False, "fetch.pictures_per_host": 0,
        "limits.max_pages": 50, "fetch.max_tries": 1,
    }  # fmt: skip
    collection = Collection.create(
        tmp_path / "owls", query="owl hunts", seeds=tmp_path / "seeds.txt", settings=settings
    )
    collection.crawl()
    assert collection.status().pages == 4
    return collection


def change(site: Site) -> None:
    """One page is new, one has changed, one is gone."""
    site.put("/changes", OWL + "Little owls bob on posts now, and hunt beetles in the afternoon sun.", "/new", "/gone2")
    site.put("/new", OWL + "Eagle owls are the largest, and take hares on rocky slopes at dusk.")
    del site.pages["/goes"]


def watch_once(collection: Collection, **channels: Any) -> RoundReport:
    # A round of seconds: a page of a test site is due again all the time.
    [report] = StandingWatch([collection.folder], Channels(**channels), max_time_s=4.0).once()
    return report


def paths(site: Site, changes: dict[str, Any]) -> dict[str, list[str]]:
    return {
        kind: sorted(page["url"].removeprefix(site.url) for page in changes[kind]["best"])
        for kind in ("new", "changed", "gone")
    }


def test_a_round_reports_what_changed_to_everybody(
    owls: Collection, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New, changed and gone pages are in the feed (by feedparser), the digest, the e-mail, the signed webhook, and in
    the answers of Python, the command and the API; the settings of the collection are as before."""
    monkeypatch.setenv("OPILIO_WEBHOOK_SECRET", "s3cret")
    settings = (owls.folder / "crawl.toml").read_text()
    expected = {"new": ["/new"], "changed": ["/changes"], "gone": ["/goes"]}
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    time.sleep(1.2)
    change(site)
    mail = tmp_path / "mail.eml"
    report = watch_once(
        owls, feed=str(tmp_path / "{name}.atom"), digest=str(tmp_path / "out" / "{name}.html"),
        digest_command=f"tee {mail}", mail_to="me@example.org", mail_from="owls@example.org",
        webhooks=(f"{site.url}/hook",), allow_private=True,
    )  # fmt: skip
    assert report.problems == []
    assert paths(site, report.changes) == expected
    assert (owls.folder / "crawl.toml").read_text() == settings
    assert paths(site, owls.changes(began)) == expected
    shown = call("changes", owls.folder, "--since", began, "--json")
    assert paths(site, json.loads(shown.stdout)) == expected
    [changed] = owls.changes(began)["changed"]["best"]
    assert changed["new_links"] == 2
    feed = feedparser.parse(tmp_path / "owls.atom")
    assert not feed.bozo
    titles = {entry.link.removeprefix(site.url): entry.title for entry in feed.entries}
    assert titles["/new"] == "/new <b>"
    assert "/goes" not in titles, "it came and went within the 30 days of a feed"
    assert paths(site, owls.changes("1h")) == {"new": ["/", "/changes", "/new", "/stays"], "changed": [], "gone": []}
    message = email.message_from_bytes(mail.read_bytes(), policy=email.policy.default)
    assert message["To"] == "me@example.org"
    assert message["Subject"] == "owls: 1 new, 1 changed, 1 gone"
    text, html = (part.get_content() for part in message.iter_parts())
    assert f"{site.url}/new" in text
    assert "<b>" not in html.replace("&lt;b&gt;", "")
    assert "Gone (1)" in (tmp_path / "out" / "owls.html").read_text()
    [(headers, body)] = site.hooks
    signed = hmac.new(b"s3cret", headers["x-opilio-timestamp"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["x-opilio-signature"] == f"sha256={signed}"
    assert paths(site, json.loads(body)) == expected


def test_what_was_not_delivered_is_in_the_next_report(owls: Collection, site: Site, tmp_path: Path) -> None:
    """A webhook that fails loses nothing: its next report has it; the digest, which worked, does not repeat it."""
    hook, digest = f"{site.url}/hook", tmp_path / "digest.txt"
    time.sleep(1.0)
    change(site)
    site.refusals = [400]
    assert watch_once(owls, webhooks=(hook,), digest=str(digest), allow_private=True).problems
    assert site.hooks == []
    assert "/goes" in digest.read_text()
    digest.unlink()
    second = watch_once(owls, webhooks=(hook,), digest=str(digest), allow_private=True)
    assert second.problems == []
    [(_, body)] = site.hooks
    assert paths(site, json.loads(body))["gone"] == ["/goes"]
    assert not digest.exists()


def test_webhooks_are_tried_again_and_only_sent_where_they_may(site: Site) -> None:
    """Busy and broken receivers are tried again with growing waits; private addresses need permission; others end it."""
    waits: list[float] = []
    site.refusals = [503, 429]
    post_report(f"{site.url}/hook", {"a": 1}, allow_private=True, sleep=waits.append)
    assert waits == [1.0, 4.0]
    assert len(site.hooks) == 1
    with pytest.raises(WebhookError, match="private address"):
        post_report(f"{site.url}/hook", {}, sleep=waits.append)
    site.refusals = [404]
    with pytest.raises(WebhookError, match="status 404"):
        post_report(f"{site.url}/hook", {}, allow_private=True, sleep=waits.append)
    assert len(waits) == 2


def test_two_watches_do_not_share_a_collection(owls: Collection) -> None:
    """The second is refused at once and says why; when the first ends, it may begin."""
    first, second = (StandingWatch([owls.folder], Channels(), max_time_s=1.0) for _ in range(2))
    with first.alone(), pytest.raises(CollectionBusy, match="another opilio watch"):
        second.once()
    assert second.once()
    with pytest.raises(InputError, match="one file for several"):
        StandingWatch([owls.folder, owls.folder], Channels(feed="a.atom"))
    with pytest.raises(InputError, match=r"ends in \.rss"):
        StandingWatch([owls.folder], Channels(feed="a.html"))


def test_sigterm_ends_a_watch_cleanly(owls: Collection) -> None:
    """SIGTERM ends the process with exit code 0, in a round as well as between two."""
    command = [sys.executable, "-m", "opilio", "watch", str(owls.folder), "--max-time", "2s", "--json"]
    for waits in (False, True):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            deadline_s = time.monotonic() + 20
            while not (owls.folder / "engine.json").exists() and not waits and time.monotonic() < deadline_s:
                time.sleep(0.02)
            line = process.stdout.readline() if waits else ""
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=20)
            assert process.returncode == 0
            assert json.loads(line or rest.splitlines()[0])["name"] == "owls"


def test_bad_times_are_refused(owls: Collection) -> None:
    """A time that is none is named with the form that is."""
    with pytest.raises(InputError, match="'yesterday' is no time"):
        owls.changes("yesterday")
    assert owls.changes("1h")["new"]["pages"] == 4
    assert owls.changes("2030-01-01")["new"]["pages"] == 0


def test_the_api_has_the_changes(owls: Collection) -> None:
    """GET /api/c/NAME/changes answers as the operation does."""
    with Portal(owls.folder.parent) as portal:
        status, answer = portal.get("/api/c/owls/changes", since="1h")
    assert status == 200
    assert answer["new"]["pages"] == 4
