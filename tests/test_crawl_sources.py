"""URLs that no page links to: folders above relevant pages, and known back-links of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio import Collection
from opilio.crawl.extra_urls import FROM_BACK_LINKS, FROM_PATHS, folders_above
from opilio.distill import back_links
from opilio.distill.back_links import MAX_BACK_LINKS, BackLinks
from opilio.errors import InputError, SettingsError
from opilio.lab.webs import RecordedWeb
from opilio.lab.webs.transport import RecordedTransport
from opilio.model import normalize
from opilio.store import Store
from webs import Page, Web

GOOD = "Owls hunt at night. The owl is a bird: barn owl, eagle owl, tawny owl, snowy owl, little owl."
NONE = "Trams, timetables, tickets, platforms, stations, delays, fares, routes, lines, doors, seats and drivers."
LINKS = [
    ("http://far.test/list", "http://birds.test/x/y/owl.html"),
    ("HTTP://Far.test:80/list#top", "http://birds.test/x/y/owl.html?utm_source=mail"),
    ("http://out.test/", "http://birds.test/x/y/owl.html"),
    ("mailto:somebody", "http://birds.test/x/y/owl.html"),
    ("http://birds.test/x/y/owl.html", "http://birds.test/x/y/owl.html"),
    ("http://lost.test/", "http://trams.test/a/b.html"),
    ("http://far.test/list", "not a URL"),
]
TO_OWL = ["http://far.test/list", "http://out.test/"]


# -- folders


def test_folders_above() -> None:
    """The nearest first, the home page last; neither the page itself nor its query."""
    assert folders_above("http://a.org/x/y/z.html") == ["http://a.org/x/y/", "http://a.org/x/", "http://a.org/"]
    assert folders_above("http://a.org:81/x/y/?q=/1/2") == [
        "http://a.org:81/x/y/", "http://a.org:81/x/", "http://a.org:81/",
    ]  # fmt: skip
    assert folders_above("https://a.org/x/") == ["https://a.org/"]
    assert folders_above("https://a.org/?q=1") == ["https://a.org/"]
    assert folders_above("https://a.org/") == []


@given(st.lists(st.from_regex(r"[a-z0-9.~%-]{0,4}", fullmatch=True), max_size=6), st.booleans())
def test_every_folder_is_a_url_in_normal_form(names: list[str], query: bool) -> None:
    """Each is on the page's own host, a part of the one before, and what `normalize` would make of it."""
    url = normalize(f"http://a.example/{'/'.join(names)}{'?q=1' if query else ''}")
    before = url
    for folder in folders_above(url):
        assert folder == normalize(folder) and folder.endswith("/") and folder.startswith("http://a.example/")
        assert before.startswith(folder) and len(folder) < len(before)
        before = folder
    assert before == "http://a.example/"


# -- files of back-links


def write_csv(path: Path) -> None:
    path.write_text("target,n,source\n" + "".join(f'"{target}",1,"{source}"\n' for source, target in LINKS))


def write_jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in LINKS))


def write_gz(path: Path) -> None:
    with gzip.open(path, "wt") as file:
        file.write("source,target\n" + "".join(f'"{source}","{target}"\n' for source, target in LINKS))


def write_parquet(path: Path) -> None:
    pq.write_table(pa.table({"source": [s for s, _ in LINKS], "target": [t for _, t in LINKS]}), path)


FORMS = {"a.csv": write_csv, "b [1]*.jsonl": write_jsonl, "c.csv.gz": write_gz, "d.PARQUET": write_parquet}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_back_links(tmp_path: Path, name: str) -> None:
    """Each form gives the same: URLs in normal form, each once, in the order of the file; what is no URL is left out."""
    FORMS[name](tmp_path / name)
    known = BackLinks.load(tmp_path / name)
    assert known.to("http://birds.test/x/y/owl.html") == TO_OWL
    assert known.to("http://trams.test/a/b.html") == ["http://lost.test/"]
    assert known.to("http://birds.test/") == []
    assert len(known) == len(LINKS) - 1


def test_back_links_of_many_pages_and_of_one(tmp_path: Path) -> None:
    """A page that everybody links to gives the first 50; sources in many pieces of a file are told apart."""
    rows = [(f"http://s{i % 700}.test/", f"http://t{i % 1000}.test/") for i in range(450_000)]
    rows += [(f"http://fan{i}.test/", "http://star.test/") for i in range(200)]
    pq.write_table(pa.table({"source": [s for s, _ in rows], "target": [t for _, t in rows]}), tmp_path / "l.parquet")
    known = BackLinks.load(tmp_path / "l.parquet")
    assert known.to("http://star.test/") == [f"http://fan{i}.test/" for i in range(MAX_BACK_LINKS)]
    expected = list(dict.fromkeys(source for source, target in rows if target == "http://t7.test/"))
    assert known.to("http://t7.test/") == expected


def write_graph(folder: Path, names: list[str], edges: list[tuple[int, int]], *, packed: bool = False) -> Path:
    """A web graph as Common Crawl publishes it; `packed`: in pieces, each in a gz file of a folder."""
    vertices = [f"{number}\t{name}\t1\n" for number, name in enumerate(names)]
    lines = [f"{source}\t{target}\n" for source, target in edges]
    folder.mkdir()
    for kind, all_ in (("vertices", vertices), ("edges", lines)):
        if not packed:
            (folder / f"cc-main-host-{kind}.txt").write_text("".join(all_))
            continue
        (folder / kind).mkdir()
        for part in range(2):
            with gzip.open(folder / kind / f"part-{part}.txt.gz", "wt") as file:
                file.writelines(all_[part::2])
    return folder


HOSTS = ["org.birds", "org.birds.www", "com.far", "de.trams", "com.far.sub"]
EDGES = [(2, 1), (4, 1), (3, 1), (1, 1), (2, 3), (0, 3)]
TO_BIRDS = ["http://far.com/", "http://trams.de/", "http://sub.far.com/"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_web_graph_gives_back_links(tmp_path: Path, packed: bool) -> None:
    """Hosts backwards as in Common Crawl, hosts as they are, and URLs; a host stands for its home page, by http or
    https, and does not link to itself."""
    graph = BackLinks.load(write_graph(tmp_path / "cc", HOSTS, EDGES, packed=packed))
    plain = [".".join(reversed(name.split("."))) for name in HOSTS]
    same = BackLinks.load(write_graph(tmp_path / "plain", plain, EDGES, packed=packed))
    urls = [f"http://{name}/x?a=1" for name in plain]
    pages = BackLinks.load(write_graph(tmp_path / "urls", urls, EDGES, packed=packed))
    for known in (graph, same):
        assert known.to("http://www.birds.org/") == known.to("https://www.birds.org/") == TO_BIRDS
        assert known.to("http://trams.de/") == ["http://birds.org/", "http://far.com/"]
        assert known.to("http://www.birds.org/owl.html") == known.to("http://far.com/") == []
    assert pages.to("http://www.birds.org/x?a=1") == [f"{url}x?a=1" for url in TO_BIRDS]


def test_of_a_large_graph_only_known_hosts_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links to other hosts take no memory; a graph that knows none of the hosts is no error."""
    monkeypatch.setattr(back_links, "WHOLE_GRAPH_BYTES", 10)
    names = [*HOSTS, *(f"org.other{n}" for n in range(2000))]
    edges = [*EDGES, *((n, 5 + n) for n in range(2000)), *((5 + n, 1) for n in range(2000))]
    folder = write_graph(tmp_path / "cc", names, edges)
    known = BackLinks.load(folder, ["www.birds.org:8080", "unknown.org"])
    assert known.to("http://www.birds.org/")[:3] == TO_BIRDS
    assert known.to("http://trams.de/") == [] and len(known) == 2 * 1000
    nothing = BackLinks.load(folder, ["unknown.org"])
    assert len(nothing) == 0 and nothing.to("http://www.birds.org/") == []
    assert not nothing.has_targets(np.array([1, 2], np.uint64)).any()


def test_a_bad_graph_is_told(tmp_path: Path) -> None:
    """A folder without such files, and files with other lines: each is named, with a hint."""
    (tmp_path / "empty").mkdir()
    write_graph(tmp_path / "words", ["org.a", "org.b"], [(0, 1)])
    (tmp_path / "words" / "cc-main-host-edges.txt").write_text("a\tb\n")
    for name, says in (("empty", "neither a collection nor a web graph"), ("words", "cannot be read as a web graph")):
        with pytest.raises(InputError, match=says) as told:
            BackLinks.load(tmp_path / name)
        assert told.value.hint and name in told.value.message


BAD = {
    "there-is-none.csv": None,
    "empty.csv": "",
    "no-header.csv": "http://a.test/,http://b.test/\n",
    "other-columns.csv": "from,to\nhttp://a.test/,http://b.test/\n",
    "torn.csv": "source,target\nhttp://a.test/,http://b.test/\nhttp://a.test/,http://b.test/,http://c.test/,x\n",
    "no-urls.csv": "source,target\nhere,there\n",
    "only-header.csv": "source,target\n",
    "broken.jsonl": '{"source": "http://a.test/", "target": "http://b.test/"}\n{"source": \n',
    "one-key.jsonl": '{"source": "http://a.test/"}\n',
    "not.parquet": "PAR1 but not really",
    "kind.txt": "http://a.test/ http://b.test/\n",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_before_anything_is_fetched(tmp_path: Path, name: str) -> None:
    """It is named, with a hint; no request was made and no URL taken in."""
    text = BAD[name]
    if text is not None:
        (tmp_path / name).write_text(text)
    (tmp_path / "seeds.txt").write_text("http://birds.test/")
    settings = {"frontier.back_links": str(tmp_path / name), "run.workers": -1}
    collection = Collection.create(tmp_path / "c", seeds=tmp_path / "seeds.txt", settings=settings)
    with pytest.raises(InputError, match=name) as told:
        collection.crawl()
    assert told.value.hint
    assert collection.sql("SELECT (SELECT count(*) FROM visits) + (SELECT count(*) FROM crawl)").rows == [(0,)]


# -- crawls


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> RecordedWeb:
    """A page about owls to which a seed leads, folders above it, pages that link to it: nothing leads to those."""
    texts = {
        "http://seed.test/": GOOD,
        "http://birds.test/x/y/owl.html": f"{GOOD} wise",
        "http://birds.test/x/y/": f"{GOOD} folder",
        "http://birds.test/x/": NONE,
        "http://birds.test/": f"{GOOD} home",
        "http://birds.test/robots.txt": "",
        "http://trams.test/a/b.html": NONE + " yellow",
        "http://trams.test/a/": NONE + " red",
        "http://far.test/list": f"{GOOD} list",
        "http://out.test/": NONE + " out",
        "http://new.test/": NONE + " new",
        "http://lost.test/": NONE + " lost",
    }
    links: dict[str, tuple[tuple[int | str, str], ...]] = {
        "http://seed.test/": (("http://birds.test/x/y/owl.html", "o"), ("http://trams.test/a/b.html", "t")),
        "http://far.test/list": (("http://new.test/", "new"),),
    }
    pages = [Page(text, str(n), url, links=links.get(url, ())) for n, (url, text) in enumerate(texts.items())]
    return Web(pages).recorded(tmp_path_factory.mktemp("web") / "birds")


@pytest.fixture
def crawl(web: RecordedWeb, tmp_path: Path) -> Callable[..., Collection]:
    def make(name: str = "birds", **changes: Any) -> Collection:
        (tmp_path / "seeds.txt").write_text("http://seed.test/")
        settings: dict[str, Any] = {
            "fetch.host_delay_s": 0.0, "classify.classifier": "keywords", "duplicates.near_jaccard": 0.0,
            "duplicates.ip_size": "off", "duplicates.ip_path": "off",
        }  # fmt: skip
        settings.update({key.replace("__", "."): value for key, value in changes.items()})
        seeds = tmp_path / "seeds.txt"
        collection = Collection.create(tmp_path / name, seeds=seeds, query="owl owls bird", settings=settings)
        collection.crawl(transport=RecordedTransport(web, collection.settings))
        return collection

    return make


def urls_of(collection: Collection) -> set[str]:
    return {url for (url,) in collection.sql("SELECT url FROM crawl JOIN pages USING (oid)").rows}


PLAIN = {"http://seed.test/", "http://birds.test/x/y/owl.html", "http://trams.test/a/b.html"}
FOLDERS = {"http://birds.test/x/y/", "http://birds.test/x/", "http://birds.test/"}


def test_truncated_paths_find_what_nothing_links_to(crawl: Callable[..., Collection]) -> None:
    """Folders above relevant pages only, each once, the farther the later; with the page as their parent."""
    assert urls_of(crawl("plain")) == PLAIN
    collection = crawl(frontier__truncate_paths=True, limits__max_pages=3)
    sql = """
        SELECT c.url, c.relevance / p.relevance, c.depth, p.url FROM crawl c JOIN crawl p ON p.oid = c.parent
        WHERE c.state = 'waiting' ORDER BY c.relevance DESC
    """
    waiting = [row for row in collection.sql(sql).rows if "birds" in row[0]]
    owl = "http://birds.test/x/y/owl.html"
    near = pytest.approx
    assert waiting == [
        ("http://birds.test/x/y/", near(0.5), 2, owl), ("http://birds.test/x/", near(0.25), 2, owl),
        ("http://birds.test/", near(0.125), 2, owl),
    ]  # fmt: skip
    whole = crawl("whole", frontier__truncate_paths=True)
    assert urls_of(whole) == PLAIN | FOLDERS
    assert whole.status().counters[FROM_PATHS] == len(FOLDERS)


def test_scope_and_limits_hold_for_them(crawl: Callable[..., Collection]) -> None:
    """What is offered this way is refused as any link is."""
    collection = crawl(frontier__truncate_paths=True, limits__max_depth=1)
    assert urls_of(collection) == PLAIN
    assert collection.status().outcomes["too-deep"] == len(FOLDERS)


def test_back_links_find_what_nothing_links_to(crawl: Callable[..., Collection], tmp_path: Path) -> None:
    """Pages that link to relevant pages are tried, and what they lead to; those that link to others are not."""
    write_csv(tmp_path / "links.csv")
    collection = crawl(frontier__back_links=str(tmp_path / "links.csv"))
    assert urls_of(collection) == PLAIN | set(TO_OWL) | {"http://new.test/"}
    assert collection.status().counters[FROM_BACK_LINKS] == 2


def test_a_crawl_and_its_link_analysis_use_a_web_graph(
    crawl: Callable[..., Collection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large graph too: the hosts that link to a relevant home page are tried, and their links count."""
    monkeypatch.setattr(back_links, "WHOLE_GRAPH_BYTES", 10)
    names = ["test.birds", "test.seed", "test.out", "test.elsewhere", "test.other"]
    edges = [(2, 1), (3, 1), (3, 0), (4, 0), (3, 4)]
    graph = write_graph(tmp_path / "graph", names, edges)
    collection = crawl(frontier__back_links=str(graph))
    assert "http://out.test/" in urls_of(collection) and "http://other.test/" not in urls_of(collection)
    without = {row["url"] for row in crawl("plain").distill(method="hits")["authorities"]}
    found = {row["url"] for row in collection.distill(method="hits")["authorities"]}
    assert "http://seed.test/" in found - without


def test_another_collection_serves_as_back_links(crawl: Callable[..., Collection], tmp_path: Path) -> None:
    """Its links are read; while it is in use, the crawl says so."""
    write_csv(tmp_path / "links.csv")
    first = crawl("first", frontier__back_links=str(tmp_path / "links.csv"))
    assert BackLinks.load(first.folder).to("http://new.test/") == ["http://far.test/list"]
    with Store.open(first.folder), pytest.raises(InputError, match="in use") as told:
        BackLinks.load(first.folder)
    assert told.value.hint


def test_a_collection_is_no_source_for_itself(tmp_path: Path) -> None:
    """Its own folder is refused when it is named, not when the crawl has begun."""
    (tmp_path / "seeds.txt").write_text("http://seed.test/")
    collection = Collection.create(tmp_path / "c", seeds=tmp_path / "seeds.txt")
    with pytest.raises(SettingsError, match="writes to") as told:
        collection.change_settings({"frontier.back_links": str(tmp_path / "c")})
    assert told.value.hint
    assert Collection(tmp_path / "c").settings.frontier.back_links == ""


def test_a_relative_path_is_kept_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later crawl may be called from another folder."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "links.csv")
    (tmp_path / "seeds.txt").write_text("http://seed.test/")
    collection = Collection.create("c", seeds="seeds.txt", settings={"frontier.back_links": "links.csv"})
    assert collection.settings.frontier.back_links == str(tmp_path / "links.csv")
