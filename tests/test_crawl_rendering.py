"""Crawls of pages that a script writes: what is reported without a browser, and what is found with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import call
from opilio import Collection, OpilioError
from opilio.analyze import Analyzer
from opilio.model import Outcome
from opilio.settings import Settings, override
from script_site import SHELL, WORDS, ScriptSite, bird_site, page, serving

CHANGES = {"render.sandbox": False, "fetch.host_delay_s": 0.0, "render.quiet_s": 0.2, "run.workers": -1}


def collection_of(folder: Path, site: ScriptSite, *starts: str, **changes: object) -> Collection:
    """A new collection that starts on the site, whose name is `birds.test`."""
    seeds = folder.parent / f"{folder.name}.txt"
    seeds.write_text("\n".join(f"http://birds.test:{site.port}{start}" for start in starts or ("/birds",)))
    named = {name.replace("__", "."): value for name, value in changes.items()}
    routes = {"*.test": site.address}
    settings = override(Settings(), {**CHANGES, "fetch.connect_to": routes, **named})
    return Collection.create(folder, seeds=seeds, settings=settings)


def rows(collection: Collection, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in collection.query(sql)["rows"]]


def needs_javascript(html: str) -> bool:
    """What the analysis says of a page."""
    settings = Settings()
    document = Analyzer(settings.traps, settings.robots, settings.store).analyze(
        html.encode(), "text/html; charset=utf-8", "http://a.test/"
    )
    assert document is not None
    return document.needs_javascript


def test_empty_shells_are_told_from_short_pages() -> None:
    """Shells of usual frameworks are recognised; short pages with scripts, and pages with text or links, are none."""
    script = '<script src="/main.js"></script>'
    shells = [
        SHELL,
        f'<body><div id="app"></div>{script}',
        f'<body><div id="__next"><div class="spinner">Loading ...</div></div>{script}',
        f"<body><app-root></app-root>{script}",
        "<body><my-app></my-app><script type=module>import './x.js'</script>",
        f"<body><noscript>Please turn on JavaScript.</noscript><div></div>{script}",
        f"<body><div id='root'></div><script>{'var a = 1; ' * 60}</script>",
    ]
    assert [needs_javascript(html) for html in shells] == [True] * len(shells)
    links = "".join(f"<a href='/{n}'>{n}</a> " for n in range(5))
    pages = [
        f"<body><p>Under construction.</p>{script}",
        "<body><div id='root'></div>",
        f"<body><div id='root'><p>{'Rendered by the server, with enough to read. ' * 6}</p></div>{script}",
        f"<body><div id='root'></div>{links}{script}",
        "<body><div id='root'></div><script type='application/ld+json'>{}</script><script>a()</script>",
        f"<body><div id='root'>{'x ' * 60}</div>{script}",
        f"<body><h1>Moved</h1><noscript><img src='/count.gif'></noscript>{script}",
    ]
    assert [needs_javascript(html) for html in pages] == [False] * len(pages)


def test_empty_pages_are_reported_and_rendered_once_that_is_on(tmp_path: Path) -> None:
    """Without rendering they are counted, listed by SQL and named with the next step; with it, they are fetched again, the
    links that scripts write are followed, and a crawl that is repeated requests nothing."""
    with serving(bird_site()) as site:
        collection = collection_of(tmp_path / "c", site)
        status = collection.crawl()
        host = f"birds.test:{site.port}"
        assert (status.pages, status.shell_pages, status.shells) == (0, 1, {host: 1})
        assert status.outcomes == {"needs-javascript": 1}
        assert collection.status().shells == {host: 1}
        shown = call("status", tmp_path / "c").stdout
        assert f"1 page is empty without JavaScript: on {host} (1); next step: opilio crawl" in shown
        assert shown.count("--render auto") == 1
        listed = call("sql", tmp_path / "c", "--question", "empty-pages")
        assert "/birds" in listed.stdout
        status = collection.crawl(settings={"render.mode": "auto"})
        assert (status.pages, status.shell_pages) == (1 + len(WORDS), 0)
        found = dict(rows(collection, "SELECT url, text FROM collection"))
        assert "hunts at night" in str(found[f"http://{host}/birds/owl"])
        assert rows(collection, "SELECT count(*) FROM links") == [(6,)]
        sent = len(site.requests)
        assert rows(collection, "SELECT count(*) FROM visits") == [(sent,)]
        assert status.requests == sent
        assert collection.crawl().pages == 4
        assert len(site.requests) == sent
        assert call("verify", tmp_path / "c").returncode == 0


def test_hosts_rest_for_every_request_of_a_page(tmp_path: Path) -> None:
    """With a delay of 0.4 s a page that takes 3 more requests is followed by a rest of 4 delays."""
    pages = {"/a": page("await Promise.all([fetch('/x'), fetch('/y')])", "document.getElementById('root').innerHTML = "
             "`<a href='/b'>b</a><p>${'Some words that are read here. '.repeat(10)}</p>`"),
             "/x": ("text/plain", ""), "/y": ("text/plain", ""), "/b": "<p>plain words</p>"}  # fmt: skip
    with serving(pages) as site:  # type: ignore[arg-type]
        collection = collection_of(tmp_path / "c", site, "/a", render__mode="auto", fetch__host_delay_s=0.4)
        collection.crawl()
        times = {path: at_s for _, path, at_s in site.requests}
        assert times["/b"] - max(times["/x"], times["/y"]) >= 4 * 0.4
        assert rows(collection, "SELECT requests FROM hosts") == [(6,)]


def test_rendered_pages_survive_the_loss_of_the_database(tmp_path: Path) -> None:
    """A collection that is rebuilt from its WARC files has the rendered texts and links, and no page made of an API's
    answers; a forgotten page leaves neither its rendered form nor what its script requested."""
    with serving(bird_site()) as site:
        collection = collection_of(tmp_path / "c", site, render__hosts={"birds.*": "auto"})
        collection.crawl()
        texts = rows(collection, "SELECT url, text FROM collection ORDER BY url")
        assert len(texts) == 4
        for file in (tmp_path / "c").glob("collection.duckdb*"):
            file.unlink()
        repaired = call("repair", tmp_path / "c")
        assert repaired.returncode == 0, repaired.stderr
        collection = Collection(tmp_path / "c")
        assert rows(collection, "SELECT url, text FROM collection ORDER BY url") == texts
        requests = len(site.requests)
        collection.forget([f"http://birds.test:{site.port}/birds/owl"])
        assert len(site.requests) == requests
        import gzip

        kept = b"".join(gzip.decompress(path.read_bytes()) for path in (tmp_path / "c" / "warc").iterdir())
        assert b"hunts at night" not in kept
        assert b"flies from one pole" in kept


def test_a_page_whose_data_may_not_be_requested_says_so(tmp_path: Path) -> None:
    """robots.txt forbids the API: the page is not stored, and its visit says that it is still empty and why."""
    with serving(bird_site(), robots="User-agent: *\nDisallow: /api/") as site:
        collection = collection_of(tmp_path / "c", site, render__mode="auto")
        status = collection.crawl()
        assert status.outcomes == {"render-failed": 1}
        [(detail,)] = rows(collection, "SELECT detail FROM visits WHERE kind = 'page'")
        assert str(detail).startswith("still empty when rendered")
        assert "robots 1" in str(detail)
        assert "/api/birds" not in site.paths()


def test_what_is_missing_is_said_before_the_crawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Playwright, no Chromium, one that does not start, and root in the sandbox: an error with the next step, and no
    request is sent."""
    with serving(bird_site()) as site:
        collection = collection_of(tmp_path / "c", site, render__mode="auto")

        def error_of(**changes: object) -> OpilioError:
            with pytest.raises(OpilioError) as caught:
                collection.crawl(settings={name.replace("__", "."): value for name, value in changes.items()})
            return caught.value

        assert "is not a program" in error_of(render__browser="/no/such/file").message
        assert "does not start" in error_of(render__browser="/bin/false").message
        collection.change_settings({"render.browser": "", "render.sandbox": True})
        with monkeypatch.context() as patched:
            patched.setattr("os.geteuid", lambda: 0)
            assert "render.sandbox=false" in error_of().hint
        with monkeypatch.context() as patched:
            patched.setattr("shutil.which", lambda name: None)
            assert "apt install chromium" in error_of().hint
        with monkeypatch.context() as patched:
            patched.setattr("importlib.util.find_spec", lambda name: None)
            assert error_of().hint == "pip install 'opilio[render]'"
        assert site.requests == []


@pytest.mark.slow
def test_worker_processes_render_and_leave_nothing(tmp_path: Path) -> None:
    """The same with a worker process; when the crawl is over, no browser is left."""
    from test_render_browser import chromium_left

    with serving(bird_site()) as site:
        collection = collection_of(tmp_path / "c", site, render__mode="auto", run__workers=1)
        assert collection.crawl().pages == 4
        assert not chromium_left()


def test_outcomes_of_rendering_have_their_place() -> None:
    """A lost browser is tried again, a page that is the cause is not, and neither blames the host."""
    assert Outcome.BROWSER_LOST.may_retry
    assert not Outcome.RENDER_FAILED.may_retry
    assert not Outcome.NEEDS_JAVASCRIPT.may_retry
    assert not any(one.blames_host for one in (Outcome.BROWSER_LOST, Outcome.RENDER_FAILED, Outcome.NEEDS_JAVASCRIPT))
