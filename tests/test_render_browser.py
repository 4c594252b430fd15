"""Rendering with the real Chromium, page by page: what scripts can do, and what they cannot."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from opilio.crawl.messages import WorkerSetup
from opilio.crawl.worker import Worker
from opilio.model import Lease, Outcome, Visit
from opilio.render.process_tree import descendants, is_page
from opilio.settings import Settings, override
from opilio.store.warc import recover
from script_site import TEXT, ScriptSite, page, serving

TYPE = "text/html; charset=utf-8"
SPOKEN = "written by the script"


def rendering(site: ScriptSite, **changes: object) -> Settings:
    """Settings that render pages of the site, which has the name `site.test`; others are named `*.private`."""
    named = {name.replace("__", "."): value for name, value in changes.items()}
    routes = {"*.test": site.address}
    return override(
        Settings(),
        {"render.mode": "auto", "render.sandbox": False, "fetch.connect_to": routes, "render.quiet_s": 0.2} | named,
    )


def visits(
    site: ScriptSite, tmp_path: Path, *paths: str, together: Callable[[Worker], Awaitable[None]] | None = None,
    **changes: object,
) -> list[Visit]:  # fmt: skip
    """The visits of some pages of a site, by one worker, in turn; `together` runs alongside."""

    async def run() -> list[Visit]:
        settings = dataclasses.asdict(rendering(site, **changes))
        worker = Worker(WorkerSetup(settings, b"", str(tmp_path / "warc"), "w0"))
        aside = asyncio.create_task(together(worker)) if together is not None else None
        try:
            found = []
            for number, path in enumerate(paths):
                url = path if "://" in path else f"http://site.test{path}"
                found.append(await worker.visit(Lease(number, url)))
            return found
        finally:
            if aside is not None:
                aside.cancel()
            await worker.aclose()

    return asyncio.run(run())


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A port on loopback, TCP and UDP, that nobody may connect to; and what came."""
    came: list[str] = []
    tcp, udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    tcp.bind(("127.0.0.1", 0))
    tcp.listen()
    port = tcp.getsockname()[1]
    udp.bind(("127.0.0.1", port))
    for one, take in ((tcp, tcp.accept), (udp, lambda: udp.recvfrom(100))):

        def wait(kind: str = one.type.name, take: Callable[[], object] = take) -> None:
            try:
                take()
                came.append(kind)
            except OSError:
                pass

        threading.Thread(target=wait, daemon=True).start()
    yield port, came
    for one in (tcp, udp):
        one.close()


def test_scripts_reach_nothing_but_what_they_may(tmp_path: Path, listener: tuple[int, list[str]]) -> None:
    """Private addresses, other ports, URLs that robots.txt forbids, POST, sockets and workers: no connection is made."""
    port, came = listener
    script = f"""
        const tries = [];
        for (const url of ["http://127.0.0.1:{port}/", "http://localhost/", "http://169.254.169.254/", "http://10.0.0.1/x",
                           "http://[::1]/", "http://site.test:{port}/", "/api/secret", "file:///etc/passwd"])
            tries.push(fetch(url).then(r => url, () => ""));
        tries.push(fetch("/api/open", {{method: "POST", body: "x"}}).then(r => "POST", () => ""));
        navigator.sendBeacon("/api/beacon", "x");
        for (const kind of ["preconnect", "dns-prefetch", "prefetch", "modulepreload"]) {{
            const link = document.createElement("link");
            link.rel = kind; link.href = "http://127.0.0.1:{port}/"; document.head.append(link);
        }}
        for (const make of [
            () => new WebSocket("ws://127.0.0.1:{port}/"),
            () => new EventSource("http://127.0.0.1:{port}/"),
            () => new WebTransport("https://127.0.0.1:{port}/"),
            () => {{ const one = new RTCPeerConnection({{iceServers: [{{urls: "stun:127.0.0.1:{port}"}}]}});
                     one.createDataChannel("x"); one.createOffer().then(o => one.setLocalDescription(o)); }},
            () => new SharedWorker("http://site.test/worker.js"),
            () => new Worker(URL.createObjectURL(new Blob(["fetch('http://127.0.0.1:{port}/')"]))),
            () => navigator.serviceWorker.register("/sw.js").catch(() => 0),
            () => {{ const i = new Image(); i.src = "http://127.0.0.1:{port}/a.png"; document.body.append(i); }},
            () => {{ const f = document.createElement("iframe"); f.src = "http://127.0.0.1:{port}/"; document.body.append(f);
                     const g = document.createElement("iframe"); document.body.append(g);
                     new g.contentWindow.WebSocket("ws://127.0.0.1:{port}/");
                     if (g.contentWindow.RTCPeerConnection) document.title = "RTC";
                     g.contentWindow.fetch("http://127.0.0.1:{port}/").catch(() => 0); }},
        ]) try {{ make(); }} catch {{ }}
        const reached = (await Promise.all(tries)).filter(Boolean);
        await new Promise(done => setTimeout(done, 700));
    """
    after = f"document.getElementById('root').innerHTML = `reached [${{reached}}] cookie [${{document.cookie}}] {TEXT}`"
    pages = {"/": page(script, after), "/api/secret": ("application/json", "{}"), "/api/open": ("text/plain", "x")}
    with serving(pages, robots="User-agent: *\nDisallow: /api/secret") as site:
        [visit] = visits(site, tmp_path, "/", render__quiet_s=0.5)
        assert visit.fetch.outcome is Outcome.OK, visit.fetch.detail
        assert visit.document is not None
        assert "reached [] cookie []" in visit.document.text
        assert came == []
        assert set(site.paths()) == {"/", "/worker.js"}, "a shared worker is a script of its own site like others"
        assert {command for command, _, _ in site.requests} == {"GET"}
        assert not any("cookie" in headers for headers in site.headers)
    for reason in ("private-address", "another port", "robots 1"):
        assert reason in visit.fetch.detail


def test_pages_that_misbehave_are_rendered_all_the_same(tmp_path: Path) -> None:
    """alert(), window.open(), a download, print, a service worker and a change of location stop nothing."""
    pages: dict[str, object] = {
        "/alert": page("alert(1); confirm(2); prompt(3)"),
        "/open": page("window.open('/other'); const a = document.createElement('a'); a.href='/o'; a.target='_blank'; "
                      "document.body.append(a); a.click(); print()"),
        "/download": page("const a = document.createElement('a'); a.download='x'; a.href='data:text/plain,x'; a.click(); "
                          "const b = document.createElement('a'); b.download='x'; b.href='/file'; b.click()"),
        "/worker": page("try { await navigator.serviceWorker.register('/sw.js') } catch { }"),
        "/leave": page("location.href = '/elsewhere'; history.pushState({}, '', '/pushed'); await 0"),
        "/short": '<body><noscript>Turn on JavaScript.</noscript><div id="root"></div>'
                  '<script type="module">document.getElementById("root").textContent = '
                  '"A page with few words, as a photo album has them, written by the script."</script>',
        "/sw.js": ("text/javascript", ""),
    }  # fmt: skip
    with serving(pages) as site:  # type: ignore[arg-type]
        found = visits(site, tmp_path, "/alert", "/open", "/download", "/worker", "/short", "/leave")
        for visit in found:
            assert visit.document is not None, visit.fetch
            assert SPOKEN in visit.document.text
        asked = {"/alert", "/open", "/download", "/worker", "/short", "/leave"}
        assert set(site.paths()) == asked
    assert "http://site.test/elsewhere" in [link.url for link in found[-1].document.links]  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_page_that_never_ends_costs_that_page(tmp_path: Path) -> None:
    """Endless loops (at once, later, in a microtask), a crash, and too much memory: an outcome, and the next page works."""
    pages: dict[str, object] = {
        "/loop": page("for (;;) ;"),
        "/later": page("setTimeout(() => { for (;;) ; }, 50)"),
        "/micro": page("const again = () => Promise.resolve().then(again); again(); await new Promise(() => 0)"),
        "/memory": page("const all = []; for (;;) all.push(new Array(1e6).fill(Math.random()))"),
        "/good": page(""),
    }  # fmt: skip
    with serving(pages) as site:  # type: ignore[arg-type]
        paths = ("/loop", "/later", "/micro", "/memory", "/good")
        found = visits(
            site, tmp_path, *paths, render__timeout_s=4.0
        )  # fmt: skip
        assert [visit.fetch.outcome for visit in found] == [Outcome.RENDER_FAILED] * 4 + [Outcome.OK]
        assert "did not pause within 4 s" in found[0].fetch.detail
        assert all(visit.fetch.warc_file for visit in found), "what was received is kept"


@pytest.mark.slow
def test_memory_is_bounded(tmp_path: Path) -> None:
    """A page that fills memory outside of what V8 counts is ended alone: the browser stays for the next page."""
    script = "const all = []; for (;;) { all.push(new Uint8Array(5e7).fill(1)); document.body.append('text '); " \
             "await new Promise(done => setTimeout(done, 20)) }"  # fmt: skip
    pids: set[int] = set()

    async def watch(worker: Worker) -> None:
        while True:
            pids.update({worker._browser.pid} if worker._browser is not None else ())
            await asyncio.sleep(0.02)

    with serving({"/": page(script), "/good": page("")}) as site:
        changes = {"render__timeout_s": 60.0, "render__memory_bytes": 800 * 2**20}
        full, good = visits(site, tmp_path, "/", "/good", together=watch, **changes)
        assert "too much memory" in full.fetch.detail
        assert good.fetch.outcome is Outcome.OK
        assert len(pids - {0}) == 1


@pytest.mark.slow
def test_a_page_that_keeps_changing_is_taken_as_it_is(tmp_path: Path) -> None:
    """A page that polls for ever is taken when its time is over; its requests are bounded."""
    script = "setInterval(() => fetch('/api/news').catch(() => 0), 20); setInterval(() => document.title += 'x', 100)"
    with serving({"/": page(script), "/api/news": ("application/json", "{}")}) as site:
        [visit] = visits(site, tmp_path, "/", render__timeout_s=3.0, render__max_requests=7)
        assert visit.fetch.outcome is Outcome.OK
        assert "did not come to rest" in visit.fetch.detail
        assert "too many requests" in visit.fetch.detail
        assert len(visit.subrequests) == 7
        assert site.paths().count("/api/news") == 6  # and robots.txt


@pytest.mark.slow
def test_bytes_and_the_document_are_bounded(tmp_path: Path) -> None:
    """A huge document is cut as a page that long would be, and files beyond the budget of bytes are not read."""
    script = "const big = 'word '.repeat(2e5); await fetch('/big').catch(() => 0); await fetch('/small').catch(() => 0)"
    after = "document.getElementById('root').innerHTML = `<p>${big}</p>`.repeat(4)"
    pages = {"/": page(script, after), "/big": ("text/plain", b"x" * 300_000), "/small": ("text/plain", "x")}
    with serving(pages) as site:  # type: ignore[arg-type]
        [visit] = visits(site, tmp_path, "/", render__max_bytes=100_000)
        assert visit.fetch.outcome is Outcome.OK, visit.fetch.detail
        assert visit.fetch.cut
        assert visit.fetch.body_bytes == Settings().fetch.accept["text/html"]
        assert sum(one.fetch.received_bytes for one in visit.subrequests) < 200_000


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["the process that drives it", "Chromium", "its pages"])
def test_a_browser_that_is_killed_is_started_again(tmp_path: Path, whom: str) -> None:
    """kill -9 of the driving process, of Chromium or of a renderer: the page says so, and the next one is rendered."""

    async def kill_it(worker: Worker) -> None:
        while True:
            await asyncio.sleep(0.02)
            browser = worker._browser
            if browser is None or not browser._pages or browser._left <= 0:
                continue
            await asyncio.sleep(0.5)
            below = descendants(browser.pid)
            by_name = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below}
            chromium = [pid for pid, line in by_name.items() if b"--remote-debugging-pipe" in line]
            pages = [pid for pid in below if is_page(pid)]
            chosen = {"the process that drives it": [browser.pid], "Chromium": chromium, "its pages": pages}[whom]
            assert chosen
            for pid in chosen:
                os.kill(pid, signal.SIGKILL)
            return

    with serving({"/slow": page("await new Promise(done => setTimeout(done, 3000))"), "/good": page("")}) as site:
        lost, good = visits(site, tmp_path, "/slow", "/good", together=kill_it)
        wanted = Outcome.RENDER_FAILED if whom == "its pages" else Outcome.BROWSER_LOST
        assert (lost.fetch.outcome, good.fetch.outcome) == (wanted, Outcome.OK)
    assert not chromium_left()


def chromium_left() -> list[int]:
    """Processes of Chromium that this process has started and that are still there."""
    deadline_s = time.monotonic() + 3
    while (
        left := [pid for pid in descendants(os.getpid()) if b"chrom" in line_of(pid)]
    ) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return left


def line_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_what_scripts_write_is_kept_and_read_again(tmp_path: Path) -> None:
    """The WARC file has the response, the page as the browser had it (warcio reads both), and what it requested; a worker
    makes the same visit of the record."""
    from warcio.archiveiterator import ArchiveIterator

    script = "const text = await (await fetch('/api/x?utm_source=a')).text()"
    after = (
        f"const own = document.createElement('x-box'); own.attachShadow({{mode: 'open'}}).innerHTML = `<p>from a shadow</p>`;"
        f"document.getElementById('root').innerHTML = text + `{TEXT}<a href='/next'>next</a>`; document.body.append(own)"
    )
    with serving({"/": page(script, after), "/api/x?utm_source=a": ("text/plain", "From an API.")}) as site:
        [visit] = visits(site, tmp_path, "/")
    assert visit.document is not None
    assert "From an API." in visit.document.text
    assert "from a shadow" in visit.document.text
    assert [link.url for link in visit.document.links] == ["http://site.test/next"]
    assert visit.fetch.etag == ""
    [path] = (tmp_path / "warc").iterdir()
    with path.open("rb") as file:
        records = [
            (record.rec_type, record.rec_headers, record.content_stream().read())
            for record in ArchiveIterator(file, check_digests="raise")
        ]
    by_kind = {
        kind: (headers, body)
        for kind, headers, body in records
        if headers.get_header("WARC-Target-URI") == "http://site.test/"
    }
    headers, body = by_kind["conversion"]
    assert headers.get_header("WARC-Refers-To") == by_kind["response"][0].get_header("WARC-Record-ID")
    assert b"From an API." in body
    assert b"From an API." not in by_kind["response"][1]
    parts = {headers.get_header("WARC-Target-URI") for _, headers, _ in records if headers.get_header("Opilio-Part-Of")}
    assert parts == {"http://site.test/robots.txt", "http://site.test/api/x?utm_source=a"}
    record = next(one for one in recover(path) if one.url == "http://site.test/")
    assert (record.offset, record.length) == (visit.fetch.warc_offset, visit.fetch.warc_bytes)
    reader = Worker(WorkerSetup(dataclasses.asdict(rendering(site)), b"", str(tmp_path), "w1"), archive=False)
    again = reader.read_again(Lease(0, "http://site.test/"), record)
    assert again.document is not None
    assert again.document.text == visit.document.text


@pytest.mark.slow
def test_third_parties_give_what_the_settings_allow(tmp_path: Path) -> None:
    """Data and scripts of other domains come unless the setting leaves them out, across origins too; locked ones never do."""
    script = (
        "const got = []; for (const host of ['cdn.else.test', 'locked.test']) "
        "try { got.push(await (await fetch(`http://${host}/data`, {headers: {'X-Own': '1'}})).text()) } catch { }"
    )
    after = f"document.getElementById('root').innerHTML = `got [${{got}}] {TEXT}`"
    with serving({"/": page(script, after), "/data": ("text/plain", "data")}) as site:
        lock = {"scope__locked_domains": ("locked.test",)}
        [given] = visits(site, tmp_path, "/", **lock)
        [refused] = visits(site, tmp_path, "/", render__third_party=("script",), **lock)
    assert given.document is not None
    assert "got [data]" in given.document.text
    assert "locked-domain 1" in given.fetch.detail
    assert refused.document is not None
    assert "got []" in refused.document.text
    assert "third party 1" in refused.fetch.detail


@pytest.mark.slow
def test_one_host_is_asked_for_one_thing_at_a_time(tmp_path: Path) -> None:
    """Requests of a page to one host do not overlap, wait for its Crawl-delay, and a script is requested once."""
    script = "await Promise.all([1, 2, 3].map(n => fetch('/api/' + n))); await import('/lib.js')"
    pages = {f"/{name}": page(script) for name in ("a", "b")}
    pages |= {f"/api/{n}": ("application/json", "{}") for n in (1, 2, 3)} | {"/lib.js": ("text/javascript", "")}
    with serving(pages, robots="User-agent: *\nCrawl-delay: 0.3") as site:  # type: ignore[arg-type]
        visits(site, tmp_path, "/a", "/b")
        times = [at_s for _, path, at_s in site.requests if path.startswith(("/api", "/lib"))]
        assert site.paths().count("/lib.js") == 1
        assert len(times) == 7
        within = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert min(within) >= 0.29


def test_user_agent_is_ours(tmp_path: Path) -> None:
    """Scripts see the name of the crawler, and servers get it from requests of scripts too."""
    after = f"document.getElementById('root').innerHTML = navigator.userAgent + `{TEXT}`"
    with serving({"/": page("await fetch('/x')", after), "/x": ("text/plain", "")}) as site:
        [visit] = visits(site, tmp_path, "/", fetch__contact_url="https://me.test/")
        assert visit.document is not None
        assert "Opilio/0.1 (+https://me.test/)" in visit.document.text
        assert {headers["user-agent"] for headers in site.headers} == {"Opilio/0.1 (+https://me.test/)"}
