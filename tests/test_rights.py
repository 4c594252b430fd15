"""Rights signals are recorded and, if the settings say so, obeyed; and pages are forgotten at the user's request."""

import gzip
import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import warcio
from click.testing import CliRunner

from opilio import Collection
from opilio.analyze.rights import Directives, reservation
from opilio.cli import cli
from opilio.crawl.verification import verify
from opilio.errors import CollectionBusy, InputError, SettingsError
from opilio.fetch.site_rights import PATHS, TDMREP_PATH, SiteRights
from opilio.model import Right
from opilio.settings import Settings, override
from running_crawls import running, wait_for

Headers = list[tuple[str, str]]
Page = tuple[str, Headers]


class RightsServer(ThreadingHTTPServer):
    """Serves pages by host and path; `log` has the URLs that were requested."""

    daemon_threads = True

    def __init__(self, pages: dict[str, Page]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages = pages
        self.log: list[str] = []
        self.moved: dict[str, str] = {}
        """Where a URL is redirected to."""


class Handler(BaseHTTPRequestHandler):
    server: RightsServer

    def do_GET(self) -> None:
        name = f"{self.headers['Host']}{self.path}"
        self.server.log.append(name)
        body, headers = self.server.pages.get(name, ("", []))
        if name in self.server.moved:
            headers = [("Location", self.server.moved[name])]
        self.send_response(301 if name in self.server.moved else 200 if name in self.server.pages else 404)
        for header in [("Content-Type", "text/html; charset=utf-8"), *headers]:
            self.send_header(*header)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(pages: dict[str, Page]) -> Iterator[RightsServer]:
    server = RightsServer(pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def html(title: str, body: str = "", head: str = "", headers: Headers | None = None) -> Page:
    words = " ".join(f"{title}{word}" for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta"))
    return f"<html><head><title>{title}</title>{head}</head><body><p>{words}</p>{body}</body></html>", headers or []


def make(folder: Path, server: RightsServer, seeds: list[str], **chosen: Any) -> Collection:
    (folder / "seeds.txt").write_text("\n".join(seeds))
    settings = {"run.workers": -1, "fetch.host_delay_s": 0.0, "fetch.allow_private_addresses": True}
    settings |= {"fetch.connect_to": {"*.test": f"127.0.0.1:{server.server_address[1]}"}, "fetch.pictures_per_host": 0}
    settings |= {"scope.locked_domains": ["creativecommons.org"]}  # a name that cannot be resolved here
    settings |= {name.replace("__", "."): value for name, value in chosen.items()}
    return Collection.create(folder / "collection", seeds=folder / "seeds.txt", settings=settings)


def links(*paths: str) -> str:
    return " ".join(f'<a href="{path}">link {path}</a>' for path in paths)


LD = '<script type="application/ld+json">{"@graph": [{"license": {"@id": "https://example.org/ld"}}]}</script>'
SITE = {
    "a.test/": html("home", links("/meta", "/noai", "/tdm", "/site/x", "/art/y", "/free")),
    "a.test/meta": html(
        "meta",
        '<a rel="license" href="/terms">terms</a> '
        '<a href="https://creativecommons.org/licenses/by/4.0/">CC BY</a>',
        '<meta name="robots" content="index, noarchive"><meta name="gptbot" content="noindex, noai">'
        '<meta name="dcterms.license" content="All mine"><link rel="license" href="/lic">' + LD,
        [("X-Robots-Tag", "googlebot: noindex"), ("X-Robots-Tag", "noimageai")],
    ),
    "a.test/noai": html("noai", links("/behind"), headers=[("X-Robots-Tag", "otherbot: all"), ("X-Robots-Tag", "noai")]),
    "a.test/behind": html("behind"),
    "a.test/tdm": html(
        "tdm", head='<meta name="tdm-reservation" content="1"><meta name="tdm-policy" content="https://a.test/policy">'
    ),
    "a.test/free": html("free", headers=[("tdm-reservation", "0")]),
    "a.test/site/x": html("sitex"),
    "a.test/art/y": html("arty"),
    "a.test/.well-known/tdmrep.json": (
        json.dumps([{"location": "/site/*", "tdm-reservation": 1, "tdm-policy": "https://a.test/p.json"}]), []
    ),
    "a.test/ai.txt": ("User-Agent: *\nDisallow: /art/\nAllow: /\n", []),
}  # fmt: skip


def rights(collection: Collection) -> dict[str, set[tuple[str, str, str]]]:
    rows = collection.sql("SELECT url, rights FROM collection").rows
    return {
        url.removeprefix("http://a.test"): {tuple(one.values()) for one in json.loads(stored or "[]")}
        for url, stored in rows
    }


def test_all_signals_are_recorded_and_shown(tmp_path: Path) -> None:
    """Meta elements for any crawler, several headers, licences in all forms and the files of the site are recorded; the
    files are requested once, before pages; page view, `explain` and exports show them. Nothing of it is obeyed."""
    with served(SITE) as server:
        collection = make(tmp_path, server, ["http://a.test/"], robots__rights_files=True)
        collection.crawl()
        assert server.log[:3] == ["a.test/robots.txt", "a.test/ai.txt", "a.test/.well-known/tdmrep.json"]
        assert [server.log.count(f"a.test{path}") for path in PATHS] == [1, 1]
    found = rights(collection)
    assert found["/"] == set()
    assert found["/meta"] == {
        ("robots", "index, noarchive", "meta robots"),
        ("robots", "noindex, noai", "meta gptbot"),
        ("robots", "noindex", "header X-Robots-Tag, to googlebot"),
        ("robots", "noimageai", "header X-Robots-Tag"),
        ("license", "All mine", "meta dcterms.license"),
        ("license", "http://a.test/lic", "link rel=license"),
        ("license", "http://a.test/terms", "a rel=license"),
        ("license", "https://creativecommons.org/licenses/by/4.0/", "a to Creative Commons"),
        ("license", "https://example.org/ld", "JSON-LD"),
    }
    assert found["/noai"] == {("robots", "noai", "header X-Robots-Tag")}
    assert found["/tdm"] == {("tdm-reservation", "1", "meta"), ("tdm-policy", "https://a.test/policy", "meta")}
    assert found["/free"] == {("tdm-reservation", "0", "header")}
    file = "/.well-known/tdmrep.json"
    assert found["/site/x"] == {("tdm-reservation", "1", file), ("tdm-policy", "https://a.test/p.json", file)}
    assert found["/art/y"] == {("ai.txt", "disallow", "/ai.txt")}
    assert {"signal": "robots", "value": "noai", "source": "header X-Robots-Tag"} in collection.page(
        "http://a.test/noai"
    )["rights"]
    said = CliRunner().invoke(cli, ["explain", str(collection.folder), "http://a.test/noai"]).output
    assert "rights: robots 'noai' (header X-Robots-Tag)" in said
    collection.export(tmp_path / "out.csv", columns=["url", "rights"])
    assert "tdmrep.json" in (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize(
    ("obeyed", "refused", "requested"),
    [
        (["noai"], {"/noai"}, {"a.test/noai"}),
        (["tdm"], {"/tdm", "/site/x"}, {"a.test/tdm"}),
        (["ai.txt"], {"/art/y"}, set()),
    ],
)
def test_what_is_obeyed_is_not_kept(tmp_path: Path, obeyed: list[str], refused: set[str], requested: set[str]) -> None:
    """A page that reserves a right which is obeyed has its outcome, no row and no body in the WARC file; one that its
    site reserves in a file is not even requested. All else is stored."""
    with served(SITE) as server:
        collection = make(tmp_path, server, ["http://a.test/"], robots__obey_rights=obeyed)
        collection.crawl()
        log = set(server.log)
    outcomes = dict(collection.sql("SELECT url, outcome FROM crawl").rows)
    assert {url.removeprefix("http://a.test") for url, one in outcomes.items() if one == "rights-reserved"} == refused
    assert log & {f"a.test{path}" for path in refused} == requested
    assert "/meta" in rights(collection) and not refused & set(rights(collection))
    bodies = b"".join(whole(path) for path in (collection.folder / "warc").iterdir())
    assert b"homealpha" in bodies
    assert not [path for path in refused if f"{path.replace('/', '')}alpha".encode() in bodies]
    if obeyed == ["noai"]:
        assert "http://a.test/behind" not in outcomes, "links of a page that reserves its rights are not followed"
    assert verify(collection.folder).defects == 0


RULES = [
    {"location": "/open/secret/", "tdm-reservation": 1},
    {"location": "/open/", "tdm-reservation": 0, "tdm-policy": "https://a.test/unused"},
    {"location": "/list/*.jpg$", "tdm-reservation": 1},
    {"location": "/wrong/", "tdm-reservation": 2},
    {"location": "/true/", "tdm-reservation": True},
    {"location": "/none/"},
    {"location": "/%7Ejo/foo-%24", "tdm-reservation": 1},
    {"location": "/caf\u00e9/", "tdm-reservation": 1, "tdm-policy": "https://a.test/p"},
    {"location": "/" + "*a" * 30 + "$", "tdm-reservation": 1},
    {"location": "/wrong", "tdm-reservation": 1},
    {"location": "/Case", "tdm-reservation": 1},
]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/open/secret/x", "1"), ("/open/x", "0"),  # the first that matches, not the longest
        ("/list/a/b.jpg", "1"), ("/list/b.jpg?x=1", ""), ("/list/b.jpgx", ""),
        ("/wrong/x", ""), ("/wrong-x", "1"), ("/true/x", ""), ("/none/x", ""),  # a wrong value says nothing
        ("/~jo/foo-$1", "1"), ("/%7ejo/foo-%24", "1"), ("/~jo/foo-", ""),
        ("/caf%C3%A9/x", "1"), ("/caf%c3%a9/x", "1"), ("/a" * 9 + "/other", "1"), ("/case", ""), ("/", ""),
    ],
)  # fmt: skip
def test_rules_of_tdmrep_are_those_of_its_report(path: str, said: str) -> None:
    """The first rule that matches counts; spellings of a path are one; values other than 0 and 1 say nothing; a policy
    is recorded where something is reserved."""
    site = SiteRights("Opilio/1", ["tdm"])
    site.read(TDMREP_PATH, json.dumps(RULES))
    url = f"http://a.test{path}"
    assert [one.value for one in site.rights(url) if one.signal == "tdm-reservation"] == ([said] if said else [])
    assert site.allows(url) == (said != "1")
    assert any(one.signal == "tdm-policy" for one in site.rights(url)) == path.lower().startswith("/caf%c3")


def test_wrong_values_in_a_page_say_nothing() -> None:
    """A meta element with a value that TDMRep does not know leaves the header in force; a right one overrides it."""
    header = Right("tdm-reservation", "1", "header")
    for value, expected in (("2", "tdm-reservation"), ("yes", "tdm-reservation"), ("0", ""), ("1", "tdm-reservation")):
        assert reservation(Directives(), [Right("tdm-reservation", value, "meta"), header], ["tdm"]) == expected


def test_files_of_rights_are_found_behind_redirects(tmp_path: Path) -> None:
    """A site may keep its file elsewhere; the redirect is followed, politely, and what the file says is obeyed."""
    pages = {name: page for name, page in SITE.items() if "well-known" not in name}
    pages["a.test/tdm.json"] = SITE["a.test/.well-known/tdmrep.json"]
    with served(pages) as server:
        server.moved["a.test/.well-known/tdmrep.json"] = "/tdm.json"
        collection = make(tmp_path, server, ["http://a.test/"], robots__obey_rights=["tdm"])
        collection.crawl()
        assert "a.test/site/x" not in server.log and "a.test/tdm.json" in server.log
    assert ("http://a.test/site/x", "rights-reserved") in collection.sql("SELECT url, outcome FROM crawl").rows
    assert verify(collection.folder).defects == 0


def test_unknown_reservations_are_refused() -> None:
    """A misspelled name in `robots.obey_rights` is an error, not a silent no."""
    with pytest.raises(SettingsError, match="no-ai"):
        override(Settings(), {"robots.obey_rights": ["no-ai"]})


def whole(path: Path) -> bytes:
    """A WARC file, unpacked."""
    return gzip.decompress(path.read_bytes())


# -- forgetting

WORDS = ["owl", "hunts", "mice", "night", "barn", "feather", "silent", "wings", "forest"]
SECRET = "zyxquorbel vandrithak plomwick"  # words that nothing else has


def forgettable() -> dict[str, Page]:
    text = f"<p>{' '.join(WORDS)}</p>"
    secret = f"<p>{SECRET} {' '.join(reversed(WORDS))}</p>"
    return {
        "a.test/": html("home", links("/x", "/1", "/2", "http://b.test/1", "http://b.test/2") + text),
        "a.test/x": html("secretx", secret * 3 + links("/3") + f'<a href="http://b.test/1">{SECRET}</a>'),
        "a.test/1": html("one", text),
        "a.test/2": html("two", text + links("/x")),
        "a.test/3": html("three", text),
        "b.test/": html("bhome", secret),
        "b.test/1": html("bone", secret * 2),
        "b.test/2": html("btwo", f"<p>{'big words in a large page of the other host ' * 400}{SECRET}</p>"),
    }


def traces(folder: Path) -> list[str]:
    """The files of a collection that have one of the secret words, as they are or unpacked."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if path.name.endswith(".warc.gz"):
            data += whole(path)
        if any(word.encode() in data for word in SECRET.split()):
            found.append(path.name)
    return found


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection whose secret page is an example that a model has learned from."""
    folder = tmp_path_factory.mktemp("forget")
    with served(forgettable()) as server:
        collection = make(folder, server, ["http://a.test/"], frontier__strategy="breadth-first")
        collection.crawl()
    topic = collection.topics()[0]["topic"]
    for url in ("http://a.test/x", "http://a.test/1", "http://b.test/2"):
        collection.add_example(topic, url)
    collection.train()
    collection.search("owl")
    collection.update_index()
    with collection._client.opened(read_only=False) as store:
        store.checkpoint()
    return collection.folder


@pytest.fixture
def copied(crawled: Path, tmp_path: Path) -> Collection:
    shutil.copytree(crawled, tmp_path / "copy")
    return Collection(tmp_path / "copy")


def test_forgotten_pages_leave_no_trace(copied: Collection) -> None:
    """After a page and a host are forgotten, no file of the collection has a word of them: neither the database, nor
    the index, nor a WARC file, in which other programs find tombstones; all else is there, and verifies."""
    before = {url for (url,) in copied.sql("SELECT url FROM collection").rows}
    kept = {"http://a.test/", "http://a.test/1", "http://a.test/2", "http://a.test/3"} & before
    assert {"collection.duckdb"} < set(traces(copied.folder))
    sizes = {path.name: path.stat().st_size for path in (copied.folder / "warc").iterdir()}
    assert copied.models()

    asked = CliRunner().invoke(cli, ["forget", str(copied.folder), "http://a.test/x", "b.test"], input="n\n")
    assert asked.exit_code == 1 and f"{len(before - kept)} pages" in asked.output
    assert {url for (url,) in copied.sql("SELECT url FROM collection").rows} == before
    done = CliRunner().invoke(cli, ["forget", str(copied.folder), "http://a.test/x", "b.test", "--yes", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["pages"] == len(before - kept)

    assert traces(copied.folder) == []
    assert {url for (url,) in copied.sql("SELECT url FROM collection").rows} == kept
    forgotten = {url for (url,) in copied.sql("SELECT url FROM crawl WHERE outcome = 'forgotten'").rows}
    assert forgotten >= before - kept
    assert [example["name"] for example in copied.examples()] == ["http://a.test/1"]
    assert copied.models() == [], "the model that learned from it is gone"
    report = verify(copied.folder)
    assert (report.defects, report.notes) == (0, [])
    tombstones = 0
    for path in (copied.folder / "warc").iterdir():
        assert path.stat().st_size == sizes[path.name], "no other record has moved"
        with path.open("rb") as stream:
            for record in warcio.ArchiveIterator(stream):
                body = record.content_stream().read()
                tombstones += record.rec_type == "metadata" and b"removed: by request" in body
                assert "b.test" not in (record.rec_headers.get_header("WARC-Target-URI") or "")
    assert tombstones == json.loads(done.output)["records"] > 0
    with served(forgettable()) as server:
        settings = {"fetch.connect_to": {"*.test": f"127.0.0.1:{server.server_address[1]}"}}
        Collection(copied.folder).crawl(settings=settings, recrawl=True)
        assert "a.test/1" in server.log
        assert not [name for name in server.log if name.startswith("b.test") or name == "a.test/x"]
    assert verify(copied.folder).defects == 0 and traces(copied.folder) == []


def _forget(folder: str, kill_at: int) -> None:
    """Forget, and end at the n-th of the steps that change a file, as kill -9 does."""
    from opilio.store import removal

    steps = iter(range(1000))

    def dying(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(steps) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*args, **kwargs)
            if next(steps) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for name in ("remove_rows", "forget_records", "sync_folder", "bury", "rewrite", "finish"):
        setattr(removal, name, dying(getattr(removal, name)))
    Collection(folder).forget(["http://a.test/x", "b.test"])


@pytest.mark.parametrize("kill_at", [0, 1, 3, 4, 6, 8, 9, 11, 12])
def test_a_removal_that_is_killed_can_be_finished(copied: Collection, kill_at: int) -> None:
    """Killed between any two steps, it leaves a sound collection; repeated, or continued without naming the pages
    again, it leaves no trace of them."""
    process = multiprocessing.get_context("spawn").Process(target=_forget, args=(str(copied.folder), kill_at))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    report = verify(copied.folder)
    assert report.defects == 0, [check for check in report.checks if check.count]
    is_begun = any("forgotten" in note for note in report.notes)
    Collection(copied.folder).forget([] if is_begun else ["http://a.test/x", "b.test"])
    assert traces(copied.folder) == []
    assert verify(copied.folder).notes == []


def test_locked_urls_are_not_requested(tmp_path: Path) -> None:
    """A running crawl drops queued URLs that begin as a locked one at once, by name, and a later crawl keeps to it; what
    is unlocked is fetched. Hosts come from a file as well."""
    pages = {"a.test/": html("home", links(*(f"/{folder}/{n}" for n in range(30) for folder in ("in", "out"))))}
    pages |= {f"a.test/{folder}/{n}": html(f"{folder}{n}") for n in range(30) for folder in ("in", "out")}
    (tmp_path / "hosts.txt").write_text("b.test  # asked us\n\nhttps://a.test/out/\n")
    with served(pages) as server:
        collection = make(tmp_path, server, ["http://a.test/"], fetch__host_delay_s=0.05)
        with running(collection, pages=4) as (other, _):
            said = (
                CliRunner()
                .invoke(cli, ["host", "lock", str(collection.folder), "--file", str(tmp_path / "hosts.txt")])
                .output
            )
            assert "2 hosts and URLs are locked" in said and " 0 queued" not in said
            time.sleep(0.2)  # a request under way ends
            server.log.clear()
            wait_for(other, lambda: not other.status().running, 30)
        assert server.log and not [name for name in server.log if "/out/" in name]
        dropped = collection.sql("SELECT count(*) FROM crawl WHERE outcome = 'locked-domain' AND url LIKE '%/out/%'")
        assert dropped.rows[0][0] >= 20
        again = Collection(collection.folder)
        assert again.settings.scope.locked_urls == ("https://a.test/out/",)
        server.log.clear()
        again.crawl()
        assert not server.log
        assert again.unlock_host("https://a.test/out/") == dropped.rows[0][0]
        again.crawl()
        assert {url for (url,) in again.sql("SELECT url FROM collection").rows} == {f"http://{name}" for name in pages}


def test_nothing_is_forgotten_while_a_crawl_runs(tmp_path: Path) -> None:
    """The error says so and names the next step; an unknown URL is an error too."""
    with served(forgettable()) as server:
        collection = make(tmp_path, server, ["http://a.test/"], fetch__host_delay_s=0.5)
        with running(collection, pages=1) as (other, _):
            with pytest.raises(CollectionBusy, match="a crawl is running"):
                other.forget(["a.test"])
            other.stop()
    with pytest.raises(InputError, match="not known"):
        collection.forget(["http://a.test/nowhere"])
