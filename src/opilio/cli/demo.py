"""`opilio demo` and `opilio localweb`: a complete crawl on this machine, without a network."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import click

from opilio.cli.crawl_run import make_display
from opilio.cli.display import summary
from opilio.cli.portal import serve_place
from opilio.cli.steer import show_table
from opilio.crawl import Collection
from opilio.errors import CollectionError
from opilio.lab.local_web import LocalServer, LocalWeb, build
from opilio.lab.local_web.__main__ import main as serve_local_web
from opilio.lab.shore_web import weave
from opilio.web.publishing import publish

MARK = "made-by-opilio-demo"
SITE = "site"
_BEST = """
    SELECT round(relevance, 3) AS relevance, topic, title, url FROM collection
    WHERE relevant AND url NOT IN (SELECT name FROM training)
    QUALIFY row_number() OVER (PARTITION BY topic ORDER BY relevance DESC, url) <= 2 ORDER BY topic, relevance DESC
"""
_CENSUS = """
    SELECT coalesce(nullif(topic, ''), 'off topic') AS topic, count(*) AS pages, count(*) FILTER (relevant) AS relevant,
           count(DISTINCT host) AS hosts
    FROM collection GROUP BY ALL ORDER BY pages DESC
"""
_JUDGED = """
    SELECT url, coalesce(topic, ''), relevant FROM collection WHERE url NOT IN (SELECT name FROM training)
"""


@dataclass(frozen=True)
class DemoWeb:
    """A web to crawl: how it is made, and what the demo seeks in it."""

    announcement: str
    make: Callable[[], LocalWeb]
    # None: all topics of the web.
    topics: list[str] | None
    bookmarks_per_topic: int
    max_pages: int
    search: str


WEBS = {
    "shore": DemoWeb(
        "Weaving a small web about spiders, moths, lighthouses, tides, lichens and stars ...",
        weave,
        topics=None,
        bookmarks_per_topic=6,
        max_pages=220,
        search="moon light",
    ),
    "documentation": DemoWeb(
        "Building a local web from the documentation installed here ...",
        lambda: build("full"),
        topics=["cryptography", "data compression", "machine learning/clustering", "statistics"],
        bookmarks_per_topic=5,
        max_pages=1000,
        search="compress file",
    ),
}


@click.command()
@click.option(
    "--folder", type=click.Path(path_type=Path), default=Path("demo"), help="Folder for the demo (default: demo)."
)
@click.option(
    "--web",
    "name",
    type=click.Choice(list(WEBS)),
    default="shore",
    help="What to crawl: shore, 400 pages that come with Opilio, or documentation, 10,000 pages made from what is "
    "installed on this machine (default: shore).",
)
@click.option(
    "--max-pages", type=click.IntRange(1), help="Pages to fetch (default: 220, and 1000 of the documentation)."
)
@click.option(
    "--portal/--no-portal", default=None, help="Serve the portal afterwards, until Ctrl-C (default: on a terminal)."
)
@click.option("--quiet", "-q", is_flag=True, help="Print only the results.")
def demo(folder: Path, name: str, max_pages: int | None, portal: bool | None, quiet: bool) -> None:
    """Crawl a small web about the shore at night, offline, and show the results.

    The portal of the collection is also written as a static site; on a terminal it is served, so that you can browse,
    train and continue the crawl.
    """
    _make_room(folder)
    chosen = WEBS[name]
    click.echo(chosen.announcement)
    with LocalServer(chosen.make()) as server:
        web = server.web
        click.echo(f"{len(web.pages):,} pages on {len(web.hosts)} hosts, served at {server.address}.")
        topics = [topic for topic in chosen.topics or web.topics if topic in web.topics]
        bookmarks = folder / "bookmarks.html"
        bookmarks.write_text(web.bookmarks(topics, chosen.bookmarks_per_topic), encoding="utf-8")
        click.echo(f"Crawling from the bookmarks in {bookmarks} ...")
        collection = Collection.create(
            folder / name,
            bookmarks=bookmarks,
            settings={
                "limits.max_pages": max_pages or chosen.max_pages,
                "fetch.connect_to": server.connect_to,
                "fetch.host_delay_s": 0.0,
                "fetch.backoff_s": 0.2,
                "fetch.total_timeout_s": 5.0,
                "fetch.read_timeout_s": 2.0,
            },
        )
        with make_display(quiet=quiet, as_json=False) as display:
            status = collection.crawl(on_tick=display.tick)
        click.echo(summary(status))
        click.echo(_truth(collection, web, topics))
        _show(collection, folder / SITE, chosen.search)
        if portal if portal is not None else sys.stdout.isatty():
            click.echo("\nThe portal:")
            serve_place(collection.folder, quiet=False)  # the local web stays, so that the crawl can go on


def _show(collection: Collection, site: Path, search: str) -> None:
    """The results, and where to look next."""
    click.echo("\nPages by topic:")
    show_table(collection.sql(_CENSUS))
    click.echo("\nThe best of them, bookmarks left out:")
    show_table(collection.sql(_BEST))
    publish(collection, site, name="demo", pages_per_topic=25)
    target = quote(str(collection.folder))
    click.echo(
        f"\nLook around:\n"
        f"  {site / 'index.html'}  (the portal as files: open it in a browser)\n"
        f"  opilio serve {target}  (the portal with search, training, SQL)\n"
        f"  opilio search {target} {quote(search)}\n"
        f"  opilio status {target}\n"
        f"  opilio topics list {target}\n"
        f"  opilio explain {target} {quote(_example(collection))}\n"
        f'  opilio sql {target} "SELECT * FROM harvest"\n'
        f'  opilio sql {target} "SELECT outcome, count(*) FROM crawl GROUP BY ALL ORDER BY 2 DESC"\n'
        f"  opilio export {target} pages.parquet\n"
        f"  ls {target}/warc"
    )
    if shutil.which("opilio") is None:
        click.echo(f"The command is not on your path yet: export PATH={quote(str(Path(sys.executable).parent))}:$PATH")


def _example(collection: Collection) -> str:
    """A page worth an explanation: the best that is no bookmark, if there is one."""
    best = """
        SELECT url FROM collection ORDER BY url IN (SELECT name FROM training), relevance DESC, url LIMIT 1
    """
    found = collection.sql(best).rows
    return str(found[0][0]) if found else "URL"


@dataclass(frozen=True)
class Score:
    """A crawl measured against the truth. Bookmarks, whose topics were given, do not count."""

    fetched: int
    on_topic: int
    accepted: int
    # Accepted, and filed under the topic that the page has.
    right: int

    @property
    def precision(self) -> float:
        """Share of the accepted pages that are where they belong."""
        return self.right / max(1, self.accepted)

    @property
    def recall(self) -> float:
        """Share of the fetched pages on a topic that are where they belong."""
        return self.right / max(1, self.on_topic)


def score(collection: Collection, web: LocalWeb, topics: list[str]) -> Score:
    """Compare what the crawl made of its pages with the topics that the web gave them."""
    rows = collection.sql(_JUDGED).rows
    true = {url: web.pages[url].topic for url, _, _ in rows if url in web.pages and web.pages[url].topic in topics}
    accepted = {url: topic.replace(" / ", "/") for url, topic, is_relevant in rows if is_relevant}
    right = sum(true.get(url) == topic for url, topic in accepted.items())
    return Score(len(rows), len(true), len(accepted), right)


def _truth(collection: Collection, web: LocalWeb, topics: list[str]) -> str:
    """The score in words, and what a crawl that does not choose would get."""
    found = score(collection, web, topics)
    there_are = sum(page.topic in topics for page in web.pages.values())
    return (
        f"  this web knows the topics of its pages: {found.on_topic / max(1, found.fetched):.0%} of the pages fetched "
        f"are on a topic of the bookmarks (of all its pages, {there_are / len(web.pages):.0%} are)\n"
        f"  {found.accepted} pages were judged relevant; {found.precision:.0%} of them are on the topic that they are "
        f"filed under, and with them {found.recall:.0%} of the fetched pages on a topic were found"
    )


def _make_room(folder: Path) -> None:
    """An empty folder; an older demo is replaced, anything else is left alone."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise CollectionError(f"{folder}: exists and is not a demo folder", "Name another folder: --folder NAME")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def localweb(arguments: tuple[str, ...]) -> None:
    """Serve the web of `demo --web documentation` on loopback, for your own crawls (--port, --latency, --size)."""
    raise SystemExit(serve_local_web(list(arguments)))
