"""The process that drives Chromium, by Playwright: pages in, rendered pages out. It has no network of its own.

Each page has a fresh context. Its document is the response that the worker has fetched; every other request is either
sent to the worker or refused here: pictures, fonts, media, frames, anything but GET, and navigation. What the page
shows is read in an *isolated world* of Chromium, where its scripts cannot change what our questions mean.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import shutil
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

from opilio.process import Channel, frame, read_message
from opilio.render.installation import problem_of
from opilio.render.messages import (
    BrowserSetup,
    PageDone,
    PageFailed,
    PageOrder,
    PageRequest,
    RequestAnswer,
    encoder,
    order_decoder,
    setup_decoder,
)
from opilio.render.process_tree import descendants, kill, limit_memory

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import BrowserContext, CDPSession, Page, Request, Route

LOOK_EVERY_S = 0.1
MEMORY_EVERY_S = 0.5
CLOSE_S = 5.0
EMPTY_CHARS, PATIENCE = 200, 4  # a page that shows no more than this may be still for so many times as long
MAX_NAVIGATIONS = 20  # places to which a page tries to lead the browser: they become links
MAX_REQUESTS = 1000  # of one page, also those that are refused: more are not even counted
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*(?=[,;\s]|$)")
_KINDS = {"script": "script", "stylesheet": "stylesheet", "xhr": "fetch", "fetch": "fetch"}
FLAGS = [
    # No name is resolved and no proxy exists: a connection that is not intercepted leads nowhere.
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--disable-quic", "--no-pings", "--dns-prefetch-disable"),
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps"),
    *("--disable-extensions", "--disable-domain-reliability", "--disable-client-side-phishing-detection"),
    *("--disable-gpu", "--disable-3d-apis", "--disable-dev-shm-usage", "--disable-breakpad", "--mute-audio"),
    *("--disable-notifications", "--disable-speech-api", "--disable-print-preview", "--no-first-run"),
    *("--blink-settings=imagesEnabled=false", "--js-flags=--max-old-space-size=512"),
]
NOWHERE = "http://proxy.invalid:1"
# Ways to connect that are not intercepted. They lead nowhere in any case; so pages see that they are not there.
_TAKE_AWAY = """
    for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport"]) delete window[name];
    window.open = () => null;
    window.print = () => undefined;
"""
_LOOK = """[document.readyState === "complete" ? 1 : 0, document.body ? document.body.innerText.length : 0,
            document.getElementsByTagName("*").length].join()"""
# The document with its open shadow roots, in the form in which HTML can write them.
_READ = """(() => {
    const top = document.documentElement;
    if (!top) return "";
    const roots = [];
    const walk = root => { for (const one of root.querySelectorAll("*"))
        if (one.shadowRoot && roots.length < 10000) { roots.push(one.shadowRoot); walk(one.shadowRoot); } };
    walk(document);
    const shell = top.cloneNode(false).outerHTML, end = shell.lastIndexOf("</");
    const inner = roots.length ? top.getHTML({shadowRoots: roots}) : top.innerHTML;
    return ("<!DOCTYPE html>" + shell.slice(0, end) + inner + shell.slice(end)).slice(0, MAX_CHARS);
})()"""


class PageLost(Exception):
    """A page cannot be rendered, by its own fault."""


class OpenPage:
    """One page in the browser: its requests, and when it is finished."""

    def __init__(self, order: PageOrder, setup: BrowserSetup, send: Any) -> None:
        self.order = order
        self._setup = setup
        self._send = send
        self._is_opened = False
        self._number = 0
        self._answers: dict[int, asyncio.Future[RequestAnswer]] = {}
        self._blocked: Counter[str] = Counter()
        self._navigations: dict[str, None] = {}
        self._active_s = time.monotonic()
        self._crashed = asyncio.Event()
        self._chars = 0

    def answered(self, answer: RequestAnswer) -> None:
        """The worker answered a request."""
        future = self._answers.pop(answer.request, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def close(self) -> None:
        """Wait for no answer any more."""
        for future in self._answers.values():
            future.cancel()

    async def render(self, context: BrowserContext) -> PageDone:
        """Open the page, and wait until it is finished."""
        deadline_s = time.monotonic() + self._setup.timeout_s
        await context.add_init_script(_TAKE_AWAY)
        await context.route("**/*", self._routed)
        page = await context.new_page()
        context.on("page", lambda popup: asyncio.ensure_future(_close(popup)))
        page.on("dialog", lambda dialog: asyncio.ensure_future(_dismiss(dialog)))
        page.on("crash", lambda _: self._crashed.set())
        await self._unless_crashed(self._open(page), deadline_s)
        session = await context.new_cdp_session(page)
        is_quiet = await self._settle(session, page, deadline_s)
        read = _READ.replace("MAX_CHARS", str(self._setup.max_chars or 2**40))
        # Reading may take a moment beyond the deadline: the page is there.
        text = await self._ask(session, read, time.monotonic() + CLOSE_S)
        return PageDone(self.order.page, self._document(str(text)), dict(self._blocked), self._chars, is_quiet=is_quiet)

    def _document(self, text: str) -> bytes:
        """The page, with what its scripts would have led to as what HTML has for that."""
        for url in self._navigations:
            text += f'\n<meta http-equiv="refresh" content="0; url={html.escape(url)}">'
        return text.encode("utf-8", "replace")

    async def _open(self, page: Page) -> None:
        await page.goto(self.order.url, wait_until="commit", timeout=self._setup.timeout_s * 1000)

    async def _settle(self, session: CDPSession, page: Page, deadline_s: float) -> bool:
        """Wait until the page requests and changes nothing any more; False when the time is over before."""
        before, still_s = "", time.monotonic()
        while time.monotonic() < deadline_s:
            now = str(await self._ask(session, _LOOK, deadline_s)) or "0,0,0"
            if now != before or self._answers:
                before, still_s = now, time.monotonic()
            quiet_s = time.monotonic() - max(still_s, self._active_s)
            is_loaded, self._chars, _ = map(int, now.split(","))
            patience = PATIENCE if self._chars <= EMPTY_CHARS else 1
            if is_loaded and quiet_s >= patience * self._setup.quiet_s:
                return True
            await asyncio.sleep(LOOK_EVERY_S)
        return False

    async def _ask(self, session: CDPSession, expression: str, deadline_s: float) -> Any:
        """The value of an expression, in a world that the page's scripts cannot reach."""

        async def ask() -> Any:
            tree = await session.send("Page.getFrameTree")
            world = await session.send(
                "Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "opilio"}
            )
            answer = await session.send(
                "Runtime.evaluate",
                {"expression": expression, "contextId": world["executionContextId"], "returnByValue": True},
            )
            return answer["result"].get("value", "")

        return await self._unless_crashed(ask(), deadline_s)

    async def _unless_crashed(self, work: Any, deadline_s: float) -> Any:
        """The result of some work on the page, unless the page crashes or takes too long."""
        task, crash = asyncio.ensure_future(work), asyncio.ensure_future(self._crashed.wait())
        try:
            await asyncio.wait(
                {task, crash}, timeout=max(0.05, deadline_s - time.monotonic()), return_when=asyncio.FIRST_COMPLETED
            )
            if self._crashed.is_set():
                raise PageLost("the page crashed or used too much memory")
            if not task.done():
                raise PageLost(f"its scripts did not pause within {self._setup.timeout_s:g} s")
            return task.result()
        finally:
            crash.cancel()
            task.cancel()
            with suppress(BaseException):
                await task

    # -- requests

    async def _routed(self, route: Route) -> None:
        try:
            await self._route(route, route.request)
        except Exception:  # the page may be closed meanwhile
            with suppress(Exception):
                await route.abort()

    async def _route(self, route: Route, request: Request) -> None:
        self._number += 1
        self._active_s = time.monotonic()
        if self._number > MAX_REQUESTS:
            await route.abort()
            return
        if request.is_navigation_request():
            await self._navigate(route, request)
            return
        kind = _KINDS.get(request.resource_type, "")
        if not kind or request.method != "GET":
            self._blocked[request.resource_type if request.method == "GET" else request.method.lower()[:10]] += 1
            await route.abort()
            return
        number = self._number
        future = self._answers[number] = asyncio.get_running_loop().create_future()
        headers = request.headers
        self._send(
            PageRequest(
                self.order.page, number, request.url[:4000], kind, headers.get("accept", "")[:200],
                headers.get("origin", "")[:300],
            )
        )  # fmt: skip
        answer = await future
        self._active_s = time.monotonic()
        if answer.status:
            await route.fulfill(status=answer.status, headers=answer.headers, body=answer.body)
        else:
            await route.abort("blockedbyclient")

    async def _navigate(self, route: Route, request: Request) -> None:
        """Give the browser the document of the page; wherever it leads to after that is a link."""
        order = self.order
        if not self._is_opened:
            self._is_opened = True
            await route.fulfill(status=200, headers=order.headers, body=order.body)
            return
        url = urldefrag(request.url)[0]
        is_main = request.frame.parent_frame is None
        if is_main and url != order.url and len(self._navigations) < MAX_NAVIGATIONS:
            self._navigations[url[:4000]] = None
        self._blocked["navigation" if is_main else "frame"] += 1
        await route.abort("aborted")


def _first_language(header: str) -> str | None:
    """The first language of the header Accept-Language; None: that of Chromium."""
    found = _LANGUAGE.match(header.strip())
    return found.group() if found else None


async def _close(page: Page) -> None:
    with suppress(Exception):
        await page.close()


async def _dismiss(dialog: Any) -> None:
    with suppress(Exception):
        await dialog.dismiss()


class RenderedPages:
    """The pages that are open in the browser."""

    def __init__(self, browser: Chromium, setup: BrowserSetup, writer: asyncio.StreamWriter) -> None:
        self._browser = browser
        self._setup = setup
        self._writer = writer
        self._open: dict[int, OpenPage] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, order: PageOrder | RequestAnswer) -> None:
        """Carry out an order, or pass an answer on."""
        if isinstance(order, RequestAnswer):
            if order.page in self._open:
                self._open[order.page].answered(order)
            return
        self._open[order.page] = OpenPage(order, self._setup, self._send)
        task = asyncio.create_task(self._render(self._open[order.page]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, report: PageRequest | PageDone | PageFailed) -> None:
        self._writer.write(frame(encoder.encode(report)))

    async def _render(self, page: OpenPage) -> None:
        setup, number = self._setup, page.order.page
        context = None
        try:
            context = await self._browser.new_context(
                user_agent=setup.user_agent, locale=_first_language(setup.language), accept_downloads=False,
                service_workers="block", viewport={"width": 1280, "height": 1024},
            )  # fmt: skip
            report: PageDone | PageFailed = await page.render(context)
        except PageLost as error:
            report = PageFailed(number, str(error))
        except Exception as error:
            if not self._browser.is_connected():
                os._exit(1)
            line = str(error).strip().partition("\n")[0]
            report = PageFailed(number, f"{type(error).__name__}: {line}"[:200])
        self._send(report)
        self._open.pop(number, None)
        page.close()
        try:
            if context is not None:
                await asyncio.wait_for(context.close(), CLOSE_S)
        except Exception:  # the page holds on to the browser: all others would wait for it
            kill(descendants(os.getpid()))
            os._exit(1)


async def _serve(channel: Channel) -> None:
    """Render pages until the worker closes the channel."""
    from playwright.async_api import Error, async_playwright  # noqa: PLC0415  (an extra)

    reader, writer = await channel.streams(limit=2**20)
    message = await read_message(reader)
    if not message:
        return
    setup = setup_decoder.decode(message)
    async with async_playwright() as playwright:
        try:
            browser = await playwright.chromium.launch(
                executable_path=setup.program, chromium_sandbox=setup.sandbox, args=FLAGS,
                proxy={"server": NOWHERE, "bypass": "<-loopback>"},
            )  # fmt: skip
        except Error as error:
            writer.write(frame(encoder.encode(problem_of(error.message))))
            await writer.drain()
            return
        browser.on("disconnected", lambda _: os._exit(1))
        writer.write(frame(encoder.encode(("", ""))))
        watching = asyncio.create_task(_watch_memory(setup.memory_bytes))
        pages = RenderedPages(browser, setup, writer)
        while message := await read_message(reader):
            pages.take(order_decoder.decode(message))
        watching.cancel()
        kill(descendants(os.getpid()))
        shutil.rmtree(setup.folder, ignore_errors=True)
        os._exit(0)


async def _watch_memory(max_bytes: int) -> None:
    while True:
        await asyncio.sleep(MEMORY_EVERY_S)
        await asyncio.to_thread(limit_memory, os.getpid(), max_bytes)


def serve(channel: Channel) -> None:
    """The work of a browser process."""
    asyncio.run(_serve(channel))
