"""Pictures of the portal for these pages, taken by a real browser.

    python docs/screenshots.py FOLDER [NAME...]   a folder with one collection, such as the demo's: demo; all pictures,
                                                  or those named, such as `portal` and `search`
    python docs/screenshots.py --notice           a notice of a crawl that has found all there is, on a web made for it

Needs the packages of `dev` and a Chromium. Writes docs/img/*.png.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from playwright.sync_api import Browser  # noqa: E402

from browser import chromium, signed_in  # noqa: E402
from dry_webs import funds_collection  # noqa: E402
from running_crawls import crawl_beside, paused, wait_for  # noqa: E402
from web_portal import Portal  # noqa: E402

IMAGES = HERE / "img"
DESKTOP, PHONE = {"width": 1200, "height": 800}, {"width": 390, "height": 780}
STATEMENT = "SELECT host, count(*) AS pages FROM collection GROUP BY host ORDER BY pages DESC LIMIT 12"
SETTLE_MS = 1500  # charts are drawn, fragments have come


def views(portal: Portal) -> dict[str, str]:
    """Names of pictures, and what they show."""
    name = portal.shelf.names()[0]
    base = f"/c/{quote(name)}"
    with portal.shelf.reading(name) as collection:
        topic = next(row["path"] for row in collection.topics() if row["mark"] == "good")
        best = collection.sql("SELECT url FROM collection WHERE depth > 1 ORDER BY relevance DESC, url LIMIT 1").rows[
            0
        ][0]
    return {
        "portal": f"{base}/",
        "topic": f"{base}/topic?topic={quote(topic)}",
        "page": f"{base}/page?url={quote(best)}",
        "search": f"{base}/search?q={quote('moon light')}",
        "crawl": f"{base}/watch",
        "teach": f"{base}/teach",
        "clusters": f"{base}/clusters?topic={quote(topic)}",
        "review": f"{base}/review?topic={quote(topic)}",
        "sql": f"{base}/sql?sql={quote(STATEMENT)}",
        "new": "/new",
    }


def take(browser: Browser, portal: Portal, names: list[str], *, dark: bool, phone: bool) -> None:
    """The views of these names, or all, in one form."""
    scheme, size = ("dark" if dark else "light"), (PHONE if phone else DESKTOP)
    page = signed_in(browser, portal.address, viewport=size, color_scheme=scheme)
    for name, path in views(portal).items():
        if names and name not in names:
            continue
        page.goto(portal.address + path)
        page.wait_for_timeout(SETTLE_MS)
        page.screenshot(path=str(IMAGES / f"{name}-{scheme}-{'phone' if phone else 'desktop'}.png"))
    page.context.close()


def take_notice() -> None:
    """The crawl page of a crawl that finds hardly anything."""
    with (
        tempfile.TemporaryDirectory() as place,
        funds_collection(Path(place), "funds", fetch__host_delay_s=0.01) as funds,
    ):
        thread = crawl_beside(funds)
        wait_for(funds, lambda: bool(funds.status().notices))
        paused(funds)
        with Portal(Path(place)) as portal, chromium() as browser:
            for form, size in (("desktop", DESKTOP), ("phone", PHONE)):
                page = signed_in(browser, portal.address, viewport=size, color_scheme="light")
                page.goto(f"{portal.address}/c/funds/watch")
                page.wait_for_timeout(SETTLE_MS)
                page.screenshot(path=str(IMAGES / f"notice-light-{form}.png"))
        funds.stop()
        thread.join()


def main() -> None:
    """Take them."""
    IMAGES.mkdir(exist_ok=True)
    if sys.argv[1] == "--notice":
        take_notice()
        return
    with Portal(Path(sys.argv[1])) as portal, chromium() as browser:
        for dark in (False, True):
            for phone in (False, True):
                take(browser, portal, sys.argv[2:], dark=dark, phone=phone)


if __name__ == "__main__":
    main()
