"""The portal that answers: newest finds with yes and no, undo, what feedback changed elsewhere, limits that can be
raised by a button, and collections that are renamed and deleted."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from browser import chromium, signed_in
from conftest import MakeTaught
from opilio import Collection
from opilio.crawl.operations.client import is_running
from running_crawls import wait_for, wait_until
from test_learn_spreading import JUNK, REFUSED, TOPIC, made, relevant
from web_portal import TOKEN, Portal

SHOP = "h2.org"  # the host of the near-identical pages, which were fetched last


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection with owls and a shop that is full of the words of the topic."""
    return made(tmp_path_factory.mktemp("made")).folder


@pytest.fixture
def portal(trained: Path, tmp_path: Path) -> Iterator[Portal]:
    """A portal of a copy of it."""
    shutil.copytree(trained, tmp_path / "all" / "birds")
    with Portal(tmp_path / "all") as serving:
        yield serving


def without_scripts(page: Page, portal: Portal) -> Page:
    """Sign a browser without JavaScript in."""
    page.goto(f"{portal.address}/login")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    return page


def test_finds_are_refused_and_the_refusal_spreads(portal: Portal) -> None:
    """In a real browser: the newest finds have a site, a sentence and reasons. No greys the row, Undo brings it back.
    Four times no and a click on Retrain: the siblings are gone, and the page says how many, with a link to the list."""
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/birds/watch")
        finds = page.locator("[data-part=finds]")
        rows = finds.locator("li")
        assert rows.count() == 8 and finds.get_by_role("link", name=SHOP).count() == 8
        assert "Accepted because of: " in rows.first.inner_text()
        assert Axe().run(page).violations_count == 0
        rows.first.get_by_role("button", name="No", exact=True).click()
        page.locator("[data-part=finds] li.refused").wait_for()
        page.get_by_role("button", name="Retrain now (1 not learned yet)").wait_for()
        assert "counter-example of owls from now on" in rows.first.inner_text().lower()
        rows.first.get_by_role("button", name="Undo").click()
        page.locator("[data-part=finds] li:not(.refused)").nth(7).wait_for()
        page.get_by_role("button", name="Retrain now", exact=True).wait_for()
        for number in range(REFUSED):
            rows.nth(number).get_by_role("button", name="No", exact=True).click()
            page.get_by_role("button", name=f"Retrain now ({number + 1} not learned yet)").wait_for()
        assert page.locator("[data-part=finds] li.refused").count() == REFUSED
        page.get_by_role("button", name="Retrain now").click()
        page.locator("[data-taught]", has_text=f"other pages left {TOPIC}").wait_for()
        wait_until(lambda: not finds.get_by_role("link", name=SHOP).count())
        page.locator("[data-taught]").get_by_role("link", name="See which").click()
        page.get_by_role("heading", name="Model 1 and model 2").wait_for()
        assert page.locator(".results .address", has_text=SHOP).count() == JUNK


def test_finds_without_javascript(portal: Portal) -> None:
    """Plain forms do the same on the crawl page and in the list of a topic: no, undo, retrain, the limits, the order.
    Who is not signed in only looks, and a foreign form changes nothing."""
    collection = Collection(portal.shelf.path("birds"))
    with chromium() as browser:
        page = browser.new_context(java_script_enabled=False).new_page()
        page.goto(f"{portal.address}/c/birds/watch")
        assert page.locator("[data-part=finds] li").count() == 8 and not page.get_by_role("button").count()
        without_scripts(page, portal)
        form = {"url": relevant(collection, 2)[0], "verdict": "irrelevant"}
        assert page.request.post(f"{portal.address}/c/birds/feedback", form=form).status == 403
        for path, no in (("watch", "No"), (f"topic?topic={TOPIC}&order=newest", "Not relevant")):
            page.goto(f"{portal.address}/c/birds/{path}")
            page.get_by_role("button", name=no, exact=True).first.click()
            assert page.url.endswith(path) and page.locator("li.refused").count() == 1
            page.locator("li.refused").get_by_role("button", name="Undo").click()
            assert not page.locator("li.refused").count()
        page.goto(f"{portal.address}/c/birds/watch")
        for number in range(REFUSED):
            page.locator("[data-part=finds] li").nth(number).get_by_role("button", name="No", exact=True).click()
        page.get_by_role("button", name="Retrain now").first.click()
        page.locator("[data-taught]", has_text=f"other pages left {TOPIC}").wait_for()
        page.locator("summary", has_text="Limits").click()
        page.get_by_label("Pages in all").fill("1500")
        page.get_by_label("Hours of crawling").fill("2")
        page.get_by_role("button", name="Change the limits").click()
        page.get_by_label("Strategy").select_option("breadth-first")
        page.get_by_role("button", name="Change the order").click()
    settings = Collection(collection.folder).settings
    assert (settings.limits.max_pages, settings.limits.max_time_s) == (1500, 7200.0)
    assert settings.frontier.strategy == "breadth-first"
    assert relevant(collection, 2) == []


def test_a_refusal_spreads_from_clusters_and_is_explained(portal: Portal) -> None:
    """A whole cluster is rejected by one click and undone by another; after training, the page of a river says which
    words of the topic it lacks, and that of a refused page who refused it."""
    collection = Collection(portal.shelf.path("birds"))
    siblings = relevant(collection, 2)
    [river] = collection.sql("SELECT url FROM collection WHERE host = 'h1.org' LIMIT 1").rows[0]
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/birds/clusters?topic={TOPIC}&k=2")
        card = page.locator("li[data-cluster]", has_text=f"{JUNK} pages,")
        card.get_by_role("button", name=f"Reject all {JUNK}").click()
        page.locator("li.refused[data-cluster]").wait_for()
        page.locator("[data-taught]", has_text=f"{JUNK} changes not learned yet").wait_for()
        assert Axe().run(page).violations_count == 0
        card.get_by_role("button", name="Undo").click()
        page.locator("li.refused[data-cluster]").wait_for(state="detached")
        page.locator("[data-taught] button").wait_for(state="detached")
        assert collection.pending()["count"] == 0
        card.get_by_role("button", name=f"Reject all {JUNK}").click()
        page.locator("[data-taught]").get_by_role("button", name="Retrain now").click()
        page.locator("#said", has_text="model 2 is in use now").wait_for()
        for url, said in ((river, "words of the topic that the page lacks"), (siblings[0], "You said not relevant")):
            page.goto(f"{portal.address}/c/birds/page?url={url}")
            page.get_by_text(said).first.wait_for()
    assert relevant(collection, 2) == []


def test_a_crawl_at_its_limit_says_so_and_goes_on(make_taught: MakeTaught) -> None:
    """Start at the page limit starts nothing and names the limit; the page offers to raise it, and the crawl goes on.
    Limits of a running crawl are raised at once, and it is stopped to be renamed or deleted."""
    collection = make_taught(limits__max_pages=20)
    collection.crawl()
    collection.change_settings({"fetch.host_delay_s": 0.3})
    place, name = collection.folder.parent, collection.folder.name
    with Portal(place) as portal, chromium() as browser:
        api = f"/api/c/{name}"
        code, told = portal.ask("POST", f"{api}/crawl")
        assert code == 409 and told["error"].startswith("the page limit is reached: ") and "+1,000" in told["hint"]
        assert not is_running(collection.folder)
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/{name}/watch")
        page.get_by_text("To go on, raise it.").wait_for()
        assert not page.get_by_role("button", name="Start").count()
        assert not page.get_by_role("button", name="Continue", exact=True).count()
        page.get_by_role("button", name="Continue: +1,000 pages").click()
        page.locator("#now", has_text="crawling").wait_for()
        before = collection.status().pages
        wait_for(collection, lambda: Collection(collection.folder).status().pages > before, 30)
        limit = Collection(collection.folder).settings.limits.max_pages
        assert limit >= 1020
        page.get_by_role("button", name="+1,000 pages", exact=True).click()
        page.locator("[data-live=limit]", has_text=f"{limit + 1000:,} pages").wait_for()
        assert Collection(collection.folder).settings.limits.max_pages == limit + 1000
        for path, body in (("rename", {"to": "other"}), ("delete", {"confirm": name})):
            code, told = portal.ask("POST", f"{api}/{path}", body)
            assert code == 409 and told["error"] == f"a crawl runs in {name}" and "Stop it first" in told["hint"]
        assert portal.ask("POST", f"{api}/limits", {"max_pages": 1})[0] == 200, "it ends at once"
        page.locator("#now", has_text="page limit reached").wait_for()
        page.get_by_text("To go on, raise it.").wait_for()
    wait_until(lambda: not is_running(collection.folder))


def test_collections_are_renamed_and_deleted(portal: Portal) -> None:
    """In a real browser: a new name, which must be free and fit a folder; deleting takes the name, typed; plain forms
    do the same; and nobody who is not signed in can do either."""
    folder = portal.shelf.folder
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/collections")
        page.locator(".manage summary").click()
        assert Axe().run(page).violations_count == 0
        page.get_by_label("New name").fill("owls & co")
        assert not page.get_by_label("New name").evaluate("field => field.checkValidity()")
        page.get_by_label("New name").fill("owls")
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("link", name="owls", exact=True).wait_for()
        assert portal.shelf.names() == ["owls"] and len(Collection(folder / "owls").finds()) == 8
        shutil.copytree(folder / "owls", folder / "more")
        assert portal.ask("POST", "/api/c/owls/rename", {"to": "more"})[0] == 400
        assert portal.ask("POST", "/api/c/owls/rename", {"to": "../owls"})[0] == 400
        assert portal.ask("POST", "/api/c/owls/rename", {"to": "free"}, token="")[0] == 403
        assert portal.ask("POST", "/api/c/owls/delete", {"confirm": "owl"})[0] == 400
        assert portal.ask("POST", "/api/c/owls/delete", {"confirm": "owls"}, token="")[0] == 403
        plain = without_scripts(browser.new_context(java_script_enabled=False).new_page(), portal)
        plain.goto(f"{portal.address}/collections")
        plain.locator(".manage summary").first.click()
        plain.get_by_label("New name").first.fill("others")
        plain.get_by_role("button", name="Rename").first.click()
        assert portal.shelf.names() == ["others", "owls"]
        page.goto(f"{portal.address}/collections")
        page.locator(".manage summary").nth(1).click()
        page.get_by_label("write its name").nth(1).fill("owls")
        page.get_by_role("button", name="Delete for ever").click()
        page.get_by_role("link", name="owls", exact=True).wait_for(state="detached")
        assert [one.name for one in folder.iterdir()] == ["others"], "nothing is left of it"
