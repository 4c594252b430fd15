"""Rights signals are recorded and, if the settings say so, obeyed; and pages are forgotten at the user's request."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opilio import Collection
from opilio.cli import main
from opilio.crawl.verification import verify
from opilio.errors import SettingsError
from opilio.fetch.site_rights import PATHS
from opilio.settings import Settings, override

Headers = list[tuple[str, str]]
Page = tuple[str, Headers]


class RightsServer(ThreadingHTTPServer):
    """Serves pages by host and path; `log` has the URLs that were requested."""

    daemon_threads = True

    def __init__(self, pages: dict[str, Page]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages = pages
        self.log: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: RightsServer

    def do_GET(self) -> None:
        name = f"{self.headers['Host']}{self.path}"
        self.server.log.append(name)
        body, headers = self.server.pages.get(name, ("", []))
        self.send_response(200 if name in self.server.pages else 404)
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
    said = CliRunner().invoke(main, ["explain", str(collection.folder), "http://a.test/noai"]).output
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


def test_unknown_reservations_are_refused() -> None:
    """A misspelled name in `robots.obey_rights` is an error, not a silent no."""
    with pytest.raises(SettingsError, match="no-ai"):
        override(Settings(), {"robots.obey_rights": ["no-ai"]})


def whole(path: Path) -> bytes:
    """A WARC file, unpacked."""
    return gzip.decompress(path.read_bytes())
