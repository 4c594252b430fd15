"""A real Scrapy spider on a web on loopback, in its own order and ordered by the model of a collection."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import opilio
from opilio import Collection
from webs import Page, Web

pytest.importorskip("scrapy")
SPIDER = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Owls(scrapy.Spider):
    name = "owls"
    start_urls = [sys.argv[1]]

    def parse(self, response):
        with open(sys.argv[2], "a") as log:
            print(response.url, file=log)
        yield {"url": response.url}
        for link in response.css("a"):
            yield response.follow(link)

settings = {
    "ROBOTSTXT_OBEY": False, "CONCURRENT_REQUESTS": 1, "TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "WARNING",
    "DOWNLOAD_DELAY": 0, "FEEDS": {sys.argv[2] + ".jsonl": {"format": "jsonlines"}}, **json.loads(sys.argv[3]),
}
process = CrawlerProcess(settings)
process.crawl(Owls)
process.start()
"""
MIDDLEWARE = {"SPIDER_MIDDLEWARES": {"opilio.integrations.scrapy.FocusMiddleware": 543}}
OWL = "The barn owl hunts voles at night over meadows; owlets wait in the nest for prey. Owls see in the dark."
CAR = "The engine of the car needs oil, the wheels need air, and the motor of the lorry needs diesel and repair."


def owls_and_cars() -> Web:
    """A front page, ten hubs of which every other is about owls, and ten leaves behind each, the last ones about owls."""
    hubs = [(OWL, "owl nests") if n % 2 else (CAR, "car engines") for n in range(10)]
    pages = [Page("Links to many pages.", links=tuple((f"/hub{n}.html", name) for n, (_, name) in enumerate(hubs)))]
    for n, (text, name) in enumerate(hubs):
        links = tuple((f"/leaf{n}-{m}.html", f"more {name} {m}") for m in range(10))
        pages.append(Page(f"{text} Number {n}.", title=name, links=links))
        pages += [Page(f"{text} It is part {m} of {n}.", title=f"{name} {m}") for m in range(10)]
    names = ["", *(name for n in range(10) for name in (f"hub{n}.html", *(f"leaf{n}-{m}.html" for m in range(10))))]
    return Web(
        [Page(page.text, page.title, f"/{name}", links=page.links) for page, name in zip(pages, names, strict=True)]
    )


@pytest.fixture(scope="module")
def owls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection whose model knows owls from cars; nothing was crawled."""
    folder = tmp_path_factory.mktemp("scrapy")
    (folder / "seeds.txt").write_text("http://owls.test/\n")
    collection = Collection.create(folder / "owls", seeds=folder / "seeds.txt", query="barn owls")
    for n in range(5):
        collection.add_example("barn owls", f"text: {OWL * 2} Example {n}.")
        collection.add_example("barn owls", f"text: {CAR * 2} Example {n}.", positive=False)
    collection.train()
    return folder / "owls"


def crawl(folder: Path, settings: dict[str, object]) -> tuple[list[str], list[dict[str, object]], str]:
    """The paths that a spider fetched in their order, its items, and what it wrote to its log."""
    with owls_and_cars().served() as server:
        log = folder / "log"
        environment = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent)}
        ended = subprocess.run(
            [sys.executable, "-c", SPIDER, f"http://127.0.0.1:{server.port}/", str(log), json.dumps(settings)],
            capture_output=True, text=True, check=False, timeout=60, env=environment,
        )  # fmt: skip
    paths = [url.split("/", 3)[3] for url in log.read_text().split()] if log.exists() else []
    items = Path(f"{log}.jsonl")
    return paths, [json.loads(line) for line in items.read_text().splitlines()] if items.exists() else [], ended.stderr


def is_owl(path: str) -> bool:
    """Whether a page of the web is about owls: hubs and leaves with an odd number."""
    return path.startswith(("hub", "leaf")) and int(path.removeprefix("hub").removeprefix("leaf")[0]) % 2 == 1


def test_relevant_pages_come_earlier(owls: Path, tmp_path: Path) -> None:
    """The same spider fetches the same pages; with the middleware, nearly all pages about owls come in the first half,
    and items say how relevant their page is."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "focused").mkdir()
    plain, items, _ = crawl(tmp_path / "plain", {})
    focused, judged, log = crawl(tmp_path / "focused", {**MIDDLEWARE, "OPILIO_COLLECTION": str(owls)})
    assert "Traceback" not in log and sorted(plain) == sorted(focused) and len(plain) == 111
    half = len(plain) // 2
    found = [sum(map(is_owl, order[:half])) for order in (plain, focused)]
    assert found[1] >= 45 > found[0] + 15, found
    assert not any("opilio" in item for item in items)
    for item in judged:
        path = str(item["url"]).split("/", 3)[3]
        if not path:
            continue  # the front page, which names both
        assert item["opilio"]["relevant"] is is_owl(path), item
        assert item["opilio"]["topic"] == ("barn owls" if is_owl(path) else "OTHERS")


def test_links_and_items_are_dropped_on_request(owls: Path, tmp_path: Path) -> None:
    """Below the thresholds, requests are not made and items not kept."""
    limits = {"OPILIO_DROP_LINKS_BELOW": 0.3, "OPILIO_DROP_ITEMS_BELOW": 0.5}
    paths, items, _ = crawl(tmp_path, {**MIDDLEWARE, "OPILIO_COLLECTION": str(owls), **limits})
    assert sum(map(is_owl, paths)) == 55 and len(paths) < 70
    assert 55 <= len(items) <= 56 and all(item["opilio"]["relevant"] for item in items)


def test_a_collection_that_is_not_there(tmp_path: Path) -> None:
    """The crawl does not begin, and the error says what to do; without the setting the spider runs as before."""
    paths, _, log = crawl(tmp_path, {**MIDDLEWARE, "OPILIO_COLLECTION": str(tmp_path / "none")})
    assert not paths and "no collection there" in log and "opilio crawl" in log
    paths, _, log = crawl(tmp_path, MIDDLEWARE)
    assert len(paths) == 111 and "OPILIO_COLLECTION is not set" in log
