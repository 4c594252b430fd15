"""Stored link scores: made by every crawl and by `distill`, used by search, and helped by links from outside."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opilio import Collection
from opilio.cli import cli
from opilio.distill import DistillOptions, distill
from opilio.distill.back_links import BackLinks
from opilio.errors import InputError
from opilio.lab.webs import RecordedWeb
from opilio.lab.webs.transport import RecordedTransport
from opilio.store import Store
from running_crawls import crawl_beside
from webs import Page, Web

GOOD = "Owls hunt at night. The owl is a bird: barn owl, eagle owl, tawny owl, snowy owl, little owl."
NIGHT = "Owls sleep by day. An owl sees in moonlight: the owl hears a mouse, the owls call."
FAMOUS, PLAIN, NIGHTLY = "http://famous.test/", "http://plain.test/", "http://nightly.test/"


def page(name: str, words: str, links: list[str]) -> Page:
    return Page(f"{words} {name}", name, f"http://{name}.test/", links=tuple((to, "owl") for to in links))


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> RecordedWeb:
    """Three lists of links about owls: all of them name one page, one of them two others."""
    lists = [page(f"list{n}", GOOD, [FAMOUS, *([PLAIN, NIGHTLY] if not n else [])]) for n in range(3)]
    seed = page("seed", GOOD, [f"http://list{n}.test/" for n in range(3)])
    pages = [seed, *lists, page("famous", GOOD, []), page("plain", GOOD, []), page("nightly", NIGHT, [])]
    return Web(pages).recorded(tmp_path_factory.mktemp("web") / "owls")


def crawl(folder: Path, web: RecordedWeb, **changes: Any) -> Collection:
    (folder / "seeds.txt").write_text("http://seed.test/")
    settings: dict[str, Any] = {
        "fetch.host_delay_s": 0.0, "fetch.in_flight": 1, "classify.classifier": "keywords", "duplicates.near_jaccard": 0.0,
        "duplicates.ip_size": "off", "duplicates.ip_path": "off",
    }  # fmt: skip
    settings |= {key.replace("__", "."): value for key, value in changes.items()}
    made = Collection.create(folder / "owls", seeds=folder / "seeds.txt", query="owl owls bird", settings=settings)
    made.crawl(transport=RecordedTransport(web, made.settings))
    return made


def best_by_authority(collection: Collection) -> str:
    return str(collection.search("owl", weights={"authority": 1.0})["results"][0]["url"])


def forget_scores(collection: Collection) -> None:
    for table in ("hubs", "auth", "link_scores"):
        collection.sql(f"DELETE FROM {table}", write=True)


def test_search_ranks_by_authority_from_the_first_day(web: RecordedWeb, tmp_path: Path) -> None:
    """A crawl leaves scores; without any, the ranking is refused and the hint names the command that makes them."""
    collection = crawl(tmp_path, web)
    assert best_by_authority(collection) == FAMOUS
    forget_scores(collection)
    with pytest.raises(InputError) as refused:
        best_by_authority(collection)
    assert "opilio distill FOLDER" in refused.value.hint
    assert collection.search("owl")["total"] == 7  # other rankings are not affected
    shown = collection.analyse_links(top=1)
    assert [one["url"] for one in shown["authorities"]] == [FAMOUS]
    assert best_by_authority(collection) == FAMOUS


def test_a_running_crawl_stores_scores(tmp_path: Path) -> None:
    """`analyse_links` is done by the crawl itself, and the crawl goes on."""
    famous = "http://famous.test/famous"
    seed = Page(GOOD, "seed", "/seed", links=tuple((f"http://list{n}.test/list{n}", "owl") for n in range(3)))
    lists = [Page(f"{GOOD} {n}", f"list {n}", f"/list{n}", links=((famous, "owl"),)) for n in range(3)]
    more = [Page(f"{GOOD} famous", "famous", "/famous", links=(("/0", "on"),))]
    more += [Page(f"{NIGHT} {n}", f"more {n}", f"/{n}", links=((f"/{n + 1}", "on"),)) for n in range(40)]
    with Web([seed, *lists, *more]).served() as server:
        (tmp_path / "seeds.txt").write_text("http://seed.test/seed")
        settings: dict[str, Any] = {
            "fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.1, "run.workers": -1,
            "classify.classifier": "keywords", "duplicates.near_jaccard": 0.0, "duplicates.ip_size": "off",
            "duplicates.ip_path": "off",
        }  # fmt: skip
        collection = Collection.create(
            tmp_path / "owls", seeds=tmp_path / "seeds.txt", query="owl bird", settings=settings
        )
        crawling = crawl_beside(collection)
        while collection.status().pages < 6:
            time.sleep(0.05)
        shown = collection.analyse_links(top=1)
        assert collection.status().running
        assert [one["url"] for one in shown["authorities"]] == [famous]
        assert collection.sql("SELECT count(*) > 0 FROM auth").rows == [(True,)]
        collection.stop()
        crawling.join()
    assert best_by_authority(collection) == famous


def test_the_command_stores_unless_told_not_to(web: RecordedWeb, tmp_path: Path) -> None:
    """`opilio distill` makes scores of a finished collection, by the method that is named."""
    collection = crawl(tmp_path, web)
    forget_scores(collection)
    folder = str(collection.folder)
    listed = CliRunner().invoke(cli, ["distill", folder, "--no-store"], catch_exceptions=False).output
    assert "weighted" in listed and FAMOUS in listed
    assert collection.sql("SELECT count(*) FROM auth").rows == [(0,)]
    stored = CliRunner().invoke(cli, ["distill", folder, "--method", "hits"], catch_exceptions=False).output
    assert stored.startswith("hits")
    assert collection.sql("SELECT count(*) > 0 FROM auth").rows == [(True,)]


def test_link_analysis_of_a_search_result(web: RecordedWeb, tmp_path: Path) -> None:
    """The pages found are the base set, and only they can be authorities (BINGO 3.6); what is stored stays."""
    collection = crawl(tmp_path, web)
    before = collection.sql("SELECT * FROM auth ORDER BY ALL").rows
    found = collection.distill(search="moonlight")
    assert [one["url"] for one in found["authorities"]] == [NIGHTLY]
    assert [one["url"] for one in found["hubs"]] == ["http://list0.test/"]
    assert collection.sql("SELECT * FROM auth ORDER BY ALL").rows == before
    for method in ("weighted", "hits", "focus"):  # the distiller of Focus cannot, so another method does it
        collection.change_settings({"frontier.distill_method": method})
        call = ["distill", str(collection.folder), "--search", "moonlight"]
        said = CliRunner().invoke(cli, call, catch_exceptions=False).output
        assert said.startswith(method if method != "focus" else "weighted")
        assert NIGHTLY in said and FAMOUS not in said
    with pytest.raises(InputError, match="no page matches"):
        collection.distill(search="trams")


def write_links(path: Path, target: str, sources: int, delimiter: str = "\t") -> Path:
    with path.open("w", newline="") as file:
        rows = csv.writer(file, delimiter=delimiter)
        rows.writerows([("source", "target"), *((f"http://outside{n}.example/", target) for n in range(sources))])
    return path


def test_predecessors_from_outside(web: RecordedWeb, tmp_path: Path) -> None:
    """Links of pages that the crawl never fetched make a page an authority; such pages are hubs where they are known."""
    outside = write_links(tmp_path / "graph.tsv", PLAIN, 9)
    collection = crawl(tmp_path, web, frontier__back_links=str(outside), scope__locked_domains=["example"])
    for method in ("weighted", "hits"):
        shown = collection.distill(method=method)
        assert shown["authorities"][0]["url"] == PLAIN
        assert any("outside" in one["url"] for one in shown["hubs"])
    best = "SELECT url FROM auth JOIN crawl USING (oid) ORDER BY score DESC LIMIT 1"
    assert collection.sql(best).rows == [(PLAIN,)], "the crawl counts them when it ends"


def test_the_set_of_predecessors_is_bounded(web: RecordedWeb, tmp_path: Path) -> None:
    """A page with thousands of links from outside counts no more than `max_predecessors` of them. Pages that are not in
    the collection get no scores."""
    collection = crawl(tmp_path, web)
    many = BackLinks.load(write_links(tmp_path / "graph.csv", PLAIN, 3000, ","))
    few = BackLinks.load(write_links(tmp_path / "few.csv", PLAIN, 5, ","))
    with Store.open(collection.folder, read_only=True) as store:
        scores = [
            distill(store, method="hits", back_links=links, options=DistillOptions(max_predecessors=5))
            for links in (many, few)
        ]
    assert scores[0].oids.max() < collection.sql("SELECT count(*) FROM crawl").rows[0][0]
    assert scores[0].authority.tolist() == pytest.approx(scores[1].authority.tolist())
