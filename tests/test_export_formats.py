"""Every format of an export, opened by a program that people use for it."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest

with warnings.catch_warnings():  # of the packages themselves
    warnings.simplefilter("ignore")
    import datasets
    import feedparser
    import networkx
    import pandas
    import polars
import yaml

from browsed import SCRIPT, crawled
from command_line import call
from opilio import Collection
from opilio.errors import CollectionBusy, InputError, QueryError
from opilio.export.outlines import OutlinePage, write_opml
from opilio.store.responses import Responses
from opilio.store.warc import WarcWriter
from opilio.topics.inputs import read_bookmarks
from search_pages import Page, make_collection
from test_crawl_operations import served

TDM = '[{"signal":"tdm-reservation","value":"1","source":"meta"}]'
HTML = """<!doctype html><title>Owls</title><link rel=alternate type="application/rss+xml" href="/new.rss">
<body><p>An owl hears a mouse under the snow."""


@pytest.fixture(scope="module")
def collection(crawled_taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """A crawled collection with topics, WARC files, a hostile title, and one relevant page that reserves its use."""
    made = crawled(crawled_taught, tmp_path_factory.mktemp("exported"))
    reserved = "(SELECT max(oid) FROM pages WHERE relevance >= 0.5)"
    made.sql(f"UPDATE pages SET rights = '{TDM}' WHERE oid = {reserved}", write=True)
    return made


@pytest.fixture
def relevant(collection: Collection) -> set[str]:
    """The addresses of the relevant pages."""
    return {row[0] for row in collection.sql("SELECT url FROM collection WHERE relevant").rows}


def test_a_dataset_is_loaded_by_datasets_pandas_and_polars(
    collection: Collection, relevant: set[str], tmp_path: Path
) -> None:
    """`datasets` finds the parts by themselves, without the page that reserves its use; no site is in two of them; all
    three libraries read the same rows, with text and signals of quality."""
    target = tmp_path / "corpus"
    count = collection.export(target, "dataset", split="0.5/0.25/0.25")
    assert count == len(relevant) - 1
    assert "1 pages were left out" in (target / "README.md").read_text()
    loaded = datasets.load_dataset(str(target), cache_dir=str(tmp_path / "cache"))
    assert sum(len(part) for part in loaded.values()) == count
    domains = [set(part["domain"]) for part in loaded.values()]
    assert sum(map(len, domains)) == len(set().union(*domains))
    assert len(domains) > 1, "with these sites, more than one part has pages"
    for name, part in loaded.items():
        file = target / f"{name}.parquet"
        alone = datasets.load_dataset("parquet", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
        assert (
            alone["id"]
            == part["id"]
            == pandas.read_parquet(file)["id"].tolist()
            == polars.read_parquet(file)["id"].to_list()
        )
        assert set(part["split"]) == {name}
    texts = pandas.concat([pandas.read_parquet(file) for file in target.glob("*.parquet")])
    assert texts["id"].is_unique
    assert (texts["words"] == texts["text"].str.split().str.len()).all()
    assert texts["stop_words"].dropna().between(0, 1).all()
    assert (texts["reserved"] == "").all()


def test_json_lines_for_retrieval(collection: Collection, relevant: set[str], tmp_path: Path) -> None:
    """`datasets` loads whole pages and chunks; the chunks of a page name it, and have no more words than allowed."""
    pages, chunks = tmp_path / "pages.jsonl", tmp_path / "chunks.jsonl"
    assert collection.export(pages, "rag", respect_rights=False) == len(relevant)
    collection.export(chunks, "rag", respect_rights=False, chunk_words=60, overlap_words=10)
    read = [
        datasets.load_dataset("json", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
        for file in (pages, chunks)
    ]
    assert set(read[0].column_names) == {"id", "text", "metadata"}
    assert {about["source"] for about in read[0]["metadata"]} == relevant
    assert len(read[1]) > len(read[0])
    assert len(set(read[1]["id"])) == len(read[1])
    assert all(len(text.split()) <= 60 for text in read[1]["text"])
    assert {about["document"] for about in read[1]["metadata"]} == set(read[0]["id"])
    assert not any(isinstance(value, (list, dict)) for about in read[1]["metadata"] for value in about.values())
    assert any(" > " in about["headings"] or about["headings"] for about in read[1]["metadata"])


def test_a_folder_of_markdown(collection: Collection, relevant: set[str], tmp_path: Path) -> None:
    """A file for each page, in folders by topic, with front matter that a reader of YAML understands. A second export
    replaces the folder, and a folder of somebody else is not touched."""
    target = tmp_path / "notes"
    for _ in range(2):
        assert collection.export(target, "markdown") == len(relevant)
    files = sorted(target.rglob("*.md"))
    facts = []
    for file in files:
        _, front, body = file.read_text("utf-8").split("---\n", 2)
        facts.append(yaml.safe_load(front))
        assert body.strip()
        assert "<script" not in body
    assert {fact["url"] for fact in facts} == relevant
    assert SCRIPT in {fact.get("title") for fact in facts}
    assert {str(file.relative_to(target).parent) for file in files} >= {"data-compression", "cryptography/hashes"}
    assert any("\n# " in file.read_text("utf-8") for file in files), "headings come from the stored response"
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="was not made by"):
        collection.export(tmp_path / "mine", "markdown")


def test_the_link_graph_is_read_by_networkx(collection: Collection, tmp_path: Path) -> None:
    """GraphML and Parquet have the same nodes and edges: all pages, and the links among them with their words."""
    count = collection.export(tmp_path / "links.graphml")
    graph = networkx.read_graphml(tmp_path / "links.graphml")
    assert collection.export(tmp_path / "graph", "graph") == count == graph.number_of_nodes()
    nodes = pandas.read_parquet(tmp_path / "graph" / "nodes.parquet")
    edges = polars.read_parquet(tmp_path / "graph" / "edges.parquet").to_pandas()
    assert graph.is_directed()
    assert {(f"n{s}", f"n{t}") for s, t in zip(edges["source"], edges["target"], strict=True)} == set(graph.edges)
    stored = collection.sql(
        "SELECT a.url, b.url, min(anchor) FROM links l JOIN collection a ON a.oid = l.oid_src "
        "JOIN collection b ON b.oid = l.oid_dst WHERE anchor <> '' AND a.oid <> b.oid GROUP BY ALL HAVING count(*) = 1"
    ).rows
    numbers = {data["url"]: node for node, data in graph.nodes(data=True)}
    assert {data["title"] for _, data in graph.nodes(data=True)} >= {SCRIPT}
    assert stored
    for source, target, anchor in stored:
        edge = graph.edges[numbers[source], numbers[target]]
        if edge["links"] == 1:
            assert edge["anchor"] == anchor
    assert nodes["authority"].max() == pytest.approx(max(data["authority"] for _, data in graph.nodes(data=True)))


def test_bookmarks_come_back_as_the_same_topics(collection: Collection, relevant: set[str], tmp_path: Path) -> None:
    """Our reader of bookmark files finds the topics with their pages; lines have the form that Chromium's importer,
    which reads line by line, looks for."""
    file = tmp_path / "birds.html"
    collection.export(file)
    tree = read_bookmarks(file)
    rows = collection.sql("SELECT url, topic FROM collection WHERE relevant").rows
    assert {(seed.url, tree.topics[seed.kcid].path) for seed in tree.seeds} == set(rows)
    lines = file.read_text("utf-8").splitlines()
    assert lines[0] == "<!DOCTYPE NETSCAPE-Bookmark-file-1>"
    bookmarks = [line for line in lines if "<A HREF" in line]
    assert len(bookmarks) == len(relevant)
    assert all(re.fullmatch(r' *<DT><A HREF="[^"<>]+" ADD_DATE="\d{10}">[^<>]+</A>', line) for line in bookmarks)
    assert sum("<DL>" in line for line in lines) == sum("</DL>" in line for line in lines)


def test_feeds_are_well_formed_for_feedparser(collection: Collection, tmp_path: Path) -> None:
    """RSS and Atom have the newest relevant pages, and a hostile title is a title."""
    newest = collection.sql("SELECT url FROM collection WHERE relevant ORDER BY visited DESC, url LIMIT 50").rows
    for name, version in (("new.rss", "rss20"), ("new.atom", "atom10")):
        collection.export(tmp_path / name)
        read = feedparser.parse((tmp_path / name).read_bytes())
        assert not read.bozo, read.get("bozo_exception")
        assert read.version == version
        assert [(entry.link,) for entry in read.entries] == newest
        assert all(entry.updated_parsed if version == "atom10" else entry.published_parsed for entry in read.entries)


def test_opml_has_topics_with_sites(collection: Collection, tmp_path: Path) -> None:
    """Outlines are topics, one in the other; below each are its sites, once."""
    collection.export(tmp_path / "birds.opml")
    body = ElementTree.parse(tmp_path / "birds.opml").getroot().find("body")
    assert body is not None
    topics = {one.get("text"): one for one in body.findall("outline")}
    inner = next(one for one in topics["cryptography"].findall("outline") if one.get("text") == "hashes")
    sites = [one.get("text") for one in inner.findall("outline")]
    rows = collection.sql(
        "SELECT DISTINCT host FROM collection WHERE relevant AND topic = 'cryptography / hashes'"
    ).rows
    assert sorted(map(str, sites)) == sorted(host for (host,) in rows)


def test_opml_subscribes_to_the_feed_that_a_stored_page_names(tmp_path: Path) -> None:
    """The page is read from its WARC record, compressed as it was sent; its feed gets a complete address."""
    import gzip

    writer = WarcWriter(tmp_path)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"
    url = "http://owls.example/barn.html"
    place = writer.write(url, "192.0.2.1", 1e9, b"GET / HTTP/1.1\r\n\r\n", head, gzip.compress(HTML.encode()))
    writer.close()
    import datetime

    page = OutlinePage("birds", url, "Owls & <others>", "owls.example", datetime.datetime(2024, 1, 1), "text/html",
                      "utf-8", place.file, place.offset)  # fmt: skip
    with (tmp_path / "x.opml").open("wb") as file:
        assert write_opml(file, iter([page]), "birds", Responses([tmp_path])) == 1
    [site] = [one for one in ElementTree.parse(tmp_path / "x.opml").iter("outline") if one.get("type")]
    assert site.attrib == {
        "type": "rss", "text": "owls.example", "title": "Owls & <others>", "xmlUrl": "http://owls.example/new.rss",
        "htmlUrl": url,
    }  # fmt: skip


def test_computed_columns_stand_in_any_table(collection: Collection, tmp_path: Path) -> None:
    """CSV, JSON Lines and Parquet have the same computed columns, and `keep` chooses by them."""
    columns = ["id", "url", "split", "words", "near_duplicate_group", "markdown"]
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        collection.export(tmp_path / name, columns=columns)
    rows = pandas.read_parquet(tmp_path / "a.parquet")
    assert rows.equals(pandas.read_json(tmp_path / "a.jsonl", lines=True, dtype=False)[columns])
    assert rows["id"].tolist() == pandas.read_csv(tmp_path / "a.csv", dtype=str)["id"].tolist()
    median = int(rows["words"].median())
    kept = collection.export(tmp_path / "b.csv", columns=columns, keep=f"words > {median}")
    assert kept == (rows["words"] > median).sum() > 0
    assert collection.export(tmp_path / "c.csv", keep="usual") <= len(rows)


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("x.xlsx", {}, "unknown format"),
        ("x.wacz", {"where": "relevant"}, "whole collection"),
        ("x.graphml", {"keep": "words > 1"}, "no use for --keep"),
        ("x.csv", {"chunk_words": 5}, "no use for --chunk-words"),
        ("x.csv", {"split": "1/1"}, "without the column"),
        ("x", {"format_name": "dataset", "split": "a lot"}, "not shares"),
        ("x.jsonl", {"format_name": "rag", "chunk_words": 5, "overlap_words": 5}, "overlap"),
        ("x.html", {"where": "false"}, "no page to write"),
        ("nowhere/x", {"format_name": "markdown"}, "no such folder"),
    ],
)
def test_mistakes_are_named(
    collection: Collection, tmp_path: Path, target: str, options: dict[str, object], said: str
) -> None:
    """An option that a format has no use for is refused, with the next step, and nothing is left behind."""
    with pytest.raises(InputError, match=said) as caught:
        collection.export(tmp_path / target, **options)  # type: ignore[arg-type]
    assert caught.value.hint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "keep",
    ["words > ", "true) ; DROP TABLE signals; --", "nosuch > 1", "words IN (SELECT * FROM read_csv('/etc/passwd'))"],
)
def test_conditions_on_computed_columns_reach_nothing_else(collection: Collection, tmp_path: Path, keep: str) -> None:
    """A condition that is none, or looks at files, is refused before anything is written."""
    with pytest.raises(QueryError):
        collection.export(tmp_path / "x.csv", keep=keep)
    assert not list(tmp_path.iterdir())


def test_the_command(collection: Collection, tmp_path: Path) -> None:
    """The command writes a folder and says what it left out; to standard output it writes what is text."""
    ended = call("export", collection.folder, tmp_path / "corpus", "--format", "dataset")
    assert ended.returncode == 0, ended.stderr
    assert "1 pages left out" in ended.stderr
    ended = call("export", collection.folder, "-", "--format", "rag", "--ignore-rights", "--where", "relevant")
    assert all(json.loads(line)["text"] for line in ended.stdout.splitlines())
    refused = call("export", collection.folder, "-", "--format", "markdown")
    assert refused.returncode == 1
    assert "Name a file, or a folder" in refused.stderr


def test_a_running_crawl_writes_the_same(collection: Collection, tmp_path: Path) -> None:
    """What a crawl exports is what is exported without one."""
    with served(collection):
        collection.export(tmp_path / "live.jsonl", "rag", chunk_words=50)
        with pytest.raises(CollectionBusy):
            collection.export("-", "rag")
    collection.export(tmp_path / "alone.jsonl", "rag", chunk_words=50)
    assert (tmp_path / "live.jsonl").read_bytes() == (tmp_path / "alone.jsonl").read_bytes()


def test_nothing_relevant(tmp_path: Path) -> None:
    """A collection without a relevant page says how to export all of it."""
    made = make_collection(tmp_path / "c", [Page("some words", relevance=0.1)])
    with pytest.raises(InputError) as caught:
        made.export(tmp_path / "x", "markdown")
    assert "--where true" in caught.value.hint
    assert made.export(tmp_path / "x", "markdown", where="true") == 1
