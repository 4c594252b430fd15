"""A real Chromium for tests of pages: Debian's or another that is installed, driven by Playwright."""

import contextlib
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from web_portal import TOKEN

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail("no Chromium on this machine: `make browser` installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def signed_in(browser: Browser, address: str, **options: object) -> Page:
    """A page of a browser that has signed in, at the start page. What a page's script complains of fails the test."""
    page = browser.new_context(**options).new_page()  # type: ignore[arg-type]
    page.set_default_timeout(20_000)
    page.on("pageerror", lambda error: pytest.fail(f"a script failed: {error}"))
    page.goto(f"{address}/login#{TOKEN}")
    page.wait_for_url(f"{address}/**", wait_until="load")
    page.get_by_role("link", name="New", exact=True).wait_for()
    return page
