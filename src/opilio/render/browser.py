"""The worker's side of rendering: a response in, a rendered page out, whatever the browser does.

The browser process is started with the first page and serves several pages at a time. One that does not answer in time
is killed with all its processes; the pages that it had come back with an outcome, and the next page starts another.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field

from opilio.errors import OpilioError
from opilio.fetch import Response, Transport
from opilio.model import Lease, Outcome, Subrequest
from opilio.process import Child, frame, read_message, start
from opilio.render.installation import PROGRAM, START_S, browser_setup, environment_of
from opilio.render.messages import (
    PageDone,
    PageFailed,
    PageOrder,
    PageRequest,
    encoder,
    greeting_decoder,
    report_decoder,
)
from opilio.render.process_tree import descendants, kill
from opilio.render.subresources import Keep, PageRequests, Subresources, passed_headers
from opilio.settings import Settings

GRACE_S = 10.0
"""A browser that has not answered so long after the time of a page hangs."""
EMPTY_CHARS = 50
"""A rendered page that is still a shell, and shows no more than this, is empty."""
REMOVALS, REMOVAL_S = 20, 0.1
PAGES_PER_BROWSER = 500
"""After so many pages a fresh browser is started: what it has leaked is gone with the old one."""


@dataclass(frozen=True)
class Rendering:
    """What came of rendering a page."""

    html: bytes = b""
    """The page as the browser has it, in UTF-8."""
    outcome: Outcome = Outcome.OK
    """OK, RENDER_FAILED or BROWSER_LOST."""
    detail: str = ""
    """How it went, in a line."""
    is_empty: bool = False
    """Whether it still shows next to nothing."""
    requests: list[Subrequest] = field(default_factory=list)


@dataclass
class _OpenPage:
    """A page that the browser has."""

    requests: PageRequests
    report: asyncio.Future[PageDone | PageFailed]
    answering: set[asyncio.Task[None]] = field(default_factory=set)

    async def close(self) -> None:
        """Send no more requests, and wait for those under way: each is counted and kept."""
        self.requests.is_over = True
        await asyncio.gather(*self.answering, return_exceptions=True)


class Browser:
    """The browser of a worker."""

    def __init__(self, settings: Settings, transport: Transport) -> None:
        self._settings = settings
        self._shared = Subresources(settings, transport)
        self._places = asyncio.Semaphore(settings.render.pages)
        self._starting = asyncio.Lock()
        self._child: Child | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._folder = ""
        self._pages: dict[int, _OpenPage] = {}
        self._number = 0
        self._left = 0

    @property
    def pid(self) -> int:
        """The process that has Chromium below it; 0: none runs."""
        return self._child.process.pid if self._child is not None else 0

    async def render(self, lease: Lease, response: Response, keep: Keep) -> Rendering:
        """Render the page of a response; `keep` archives the responses that its scripts request."""
        async with self._places:
            try:
                await self._ensure_running()
            except (OpilioError, OSError) as error:
                return Rendering(outcome=Outcome.BROWSER_LOST, detail=str(error)[:300])
            timeout_s = self._settings.render.timeout_s
            page = _OpenPage(
                PageRequests(self._shared, lease, keep, time.monotonic() + timeout_s),
                asyncio.get_running_loop().create_future(),
            )
            self._number += 1
            number = self._number
            self._pages[number] = page
            headers = passed_headers(response.headers)
            self._send(encoder.encode(PageOrder(number, lease.url, headers, response.body)))
            try:
                done = (await asyncio.wait({page.report}, timeout=timeout_s + GRACE_S))[0]
                report = page.report.result() if done else None
            except _BrowserGone:
                detail = "the browser ended while it had the page"
                return Rendering(outcome=Outcome.BROWSER_LOST, detail=detail, requests=page.requests.sent)
            finally:
                self._pages.pop(number, None)
                await page.close()
            if report is None:
                await self._end()
                report = PageFailed(number, f"the browser did not answer for {timeout_s + GRACE_S:g} s")
            return _rendering(page.requests, report)

    async def _ensure_running(self) -> None:
        async with self._starting:
            if self._left <= 0 and self._pages:  # it has had its pages: the last of them end, and no other begins
                await asyncio.wait([page.report for page in self._pages.values()])
            if self._left <= 0:
                await self._end()
            if self._child is None:
                await self._start()
            self._left -= 1

    async def _start(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="opilio-browser-")
        try:
            setup = browser_setup(self._settings, self._folder)
            self._child = start(
                PROGRAM, environment=environment_of(self._folder), output=subprocess.DEVNULL,
                errors=subprocess.DEVNULL, own_session=True,
            )  # fmt: skip
            reader, self._writer = await self._child.channel.streams(limit=2**20)
            self._send(encoder.encode(setup))
            greeting = b""
            with suppress(TimeoutError):
                greeting = await asyncio.wait_for(read_message(reader), START_S)
            problem, hint = greeting_decoder.decode(greeting) if greeting else ("Chromium does not start", "")
        except BaseException:
            await self._end()
            raise
        if problem:
            await self._end()
            raise OpilioError(problem, hint)
        self._left = PAGES_PER_BROWSER
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Take what the browser process reports, until it ends."""
        while message := await read_message(reader):
            report = report_decoder.decode(message)
            page = self._pages.get(report.page)
            if page is None:
                continue
            if isinstance(report, PageRequest):
                task = asyncio.create_task(self._answer(page, report))
                page.answering.add(task)
                task.add_done_callback(page.answering.discard)
            elif not page.report.done():
                page.report.set_result(report)
        self._reading = None
        await self._end()

    async def _answer(self, page: _OpenPage, request: PageRequest) -> None:
        self._send(encoder.encode(await page.requests.answer(request)))

    def _send(self, message: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frame(message))

    async def _end(self) -> None:
        """End the browser with all its processes; its pages are lost."""
        child, self._child, self._left = self._child, None, 0
        writer, self._writer = self._writer, None
        reading, self._reading = self._reading, None
        folder, self._folder = self._folder, ""
        for page in self._pages.values():
            if not page.report.done():
                page.report.set_exception(_BrowserGone())
                page.report.exception()  # so that asyncio does not complain when nobody waits for it any more
        if reading is not None:
            reading.cancel()
        if writer is not None:
            writer.close()
        if child is not None:
            await asyncio.to_thread(_kill_tree, child)
        if folder:
            await asyncio.to_thread(_remove, folder)

    async def aclose(self) -> None:
        """End the browser."""
        for page in self._pages.values():
            for task in page.answering:
                task.cancel()
        await self._end()


class _BrowserGone(Exception):
    """The browser process ended."""


def _remove(folder: str) -> None:
    """Remove the folder of a browser, which may write there for a moment after the process that drove it was killed."""
    for _ in range(REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(REMOVAL_S)
        if not os.path.lexists(folder):
            return


def _kill_tree(child: Child) -> None:
    below = descendants(child.process.pid)
    child.close()
    kill(below)


def _rendering(requests: PageRequests, report: PageDone | PageFailed) -> Rendering:
    """What came of a page, with what it requested in words."""
    words = [f"{len(requests.sent)} request{'' if len(requests.sent) == 1 else 's'}"]
    if requests.refused:
        words.append("refused: " + ", ".join(f"{reason} {n}" for reason, n in requests.refused.most_common()))
    if isinstance(report, PageFailed):
        detail = f"{report.detail}; {'; '.join(words)}"[:300]
        return Rendering(outcome=Outcome.RENDER_FAILED, detail=detail, requests=requests.sent)
    if report.blocked:
        words.append("not loaded: " + ", ".join(f"{kind} {n}" for kind, n in sorted(report.blocked.items())))
    if not report.is_quiet:
        words.append("it did not come to rest")
    detail, is_empty = f"rendered: {'; '.join(words)}"[:300], report.text_chars <= EMPTY_CHARS
    return Rendering(report.html, detail=detail, is_empty=is_empty, requests=requests.sent)
