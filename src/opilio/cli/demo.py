"""`opilio demo` and `opilio localweb`: a complete crawl on this machine, without a network."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from shlex import quote

import click

from opilio.cli.crawl import make_display
from opilio.cli.display import summary
from opilio.cli.portal import serve_place
from opilio.cli.steer import show_table
from opilio.crawl import Collection, Status
from opilio.errors import CollectionError
from opilio.lab.local_web import LocalServer, LocalWeb
from opilio.lab.local_web.__main__ import main as serve_local_web
from opilio.web.publishing import publish

MARK = "made-by-opilio-demo"
SITE = "site"
TOPICS = ["cryptography", "data compression", "machine learning/clustering", "statistics"]
_BEST = """
    SELECT round(relevance, 3) AS relevance, topic, title, url FROM collection ORDER BY relevance DESC LIMIT 8
"""
_CENSUS = """
    SELECT coalesce(nullif(topic, ''), 'off topic') AS topic, count(*) AS pages, count(*) FILTER (relevant) AS relevant,
           count(DISTINCT host) AS hosts
    FROM collection GROUP BY ALL ORDER BY pages DESC
"""


@click.command()
@click.option(
    "--folder", type=click.Path(path_type=Path), default=Path("demo"), help="Folder for the demo (default: demo)."
)
@click.option("--max-pages", type=click.IntRange(1), default=1000, help="Pages to fetch (default: 1000).")
@click.option(
    "--portal/--no-portal", default=None, help="Serve the portal afterwards, until Ctrl-C (default: on a terminal)."
)
@click.option("--quiet", "-q", is_flag=True, help="Print only the results.")
def demo(folder: Path, max_pages: int, portal: bool | None, quiet: bool) -> None:
    """Crawl a web made from the documentation on this machine, offline, and show the results.

    The portal of the collection is also written as a static site; on a terminal it is served, so that you can browse,
    train and continue the crawl.
    """
    _make_room(folder)
    click.echo("Building a local web from the documentation installed here ...")
    with LocalServer("full") as server:
        click.echo(f"{len(server.web.pages):,} pages on {len(server.web.hosts)} hosts, served at {server.address}.")
        bookmarks = folder / "bookmarks.html"
        bookmarks.write_text(
            server.web.bookmarks([topic for topic in TOPICS if topic in server.web.topics]), encoding="utf-8"
        )
        click.echo(f"Crawling from the bookmarks in {bookmarks} ...")
        collection = Collection.create(
            folder / "collection",
            bookmarks=bookmarks,
            settings={
                "limits.max_pages": max_pages,
                "fetch.connect_to": server.connect_to,
                "fetch.host_delay_s": 0.0,
                "fetch.backoff_s": 0.2,
                "fetch.total_timeout_s": 5.0,
                "fetch.read_timeout_s": 2.0,
            },
        )
        with make_display(quiet=quiet, as_json=False) as display:
            status = collection.crawl(on_tick=display.tick)
        _show(collection, server.web, status, folder / SITE)
        if portal if portal is not None else sys.stdout.isatty():
            click.echo("\nThe portal:")
            serve_place(collection.folder, quiet=False)  # the local web stays, so that the crawl can go on


def _show(collection: Collection, web: LocalWeb, status: Status, site: Path) -> None:
    """The results, and where to look next."""
    click.echo(summary(status))
    click.echo(_truth(collection, web))
    click.echo("\nPages by topic:")
    show_table(collection.sql(_CENSUS))
    click.echo("\nThe best of them:")
    show_table(collection.sql(_BEST))
    publish(collection, site, name="demo", pages_per_topic=25)
    target = quote(str(collection.folder))
    click.echo(
        f"\nLook around:\n"
        f"  {site / 'index.html'}                (the portal as files: open it in a browser)\n"
        f"  opilio serve {target}        (the portal with search, training, SQL)\n"
        f"  opilio search {target} 'compress file'\n"
        f"  opilio status {target}\n"
        f"  opilio topics list {target}\n"
        f"  opilio explain {target} {quote(_example(collection))}\n"
        f'  opilio sql {target} "SELECT * FROM harvest"\n'
        f'  opilio sql {target} "SELECT outcome, count(*) FROM crawl GROUP BY ALL ORDER BY 2 DESC"\n'
        f"  opilio export {target} pages.parquet\n"
        f"  ls {target}/warc\n"
        f"(opilio is in .venv/bin when `make` set it up)"
    )


def _example(collection: Collection) -> str:
    """A page worth an explanation: the best that is no bookmark, if there is one."""
    best = """
        SELECT url FROM collection ORDER BY url IN (SELECT name FROM training), relevance DESC, url LIMIT 1
    """
    found = collection.sql(best).rows
    return str(found[0][0]) if found else "URL"


def _truth(collection: Collection, web: LocalWeb) -> str:
    """How much of what was fetched is on the topics of the bookmarks: the local web knows the topic of each page."""
    fetched = collection.sql("SELECT url, relevant, url IN (SELECT name FROM training) FROM collection").rows
    on_topic = {url for url, _, _ in fetched if url in web.pages and web.pages[url].topic in TOPICS}
    found = [url for url, is_relevant, is_example in fetched if is_relevant and not is_example]
    there_are = sum(page.topic in TOPICS for page in web.pages.values())
    return (
        f"  on the topics of the bookmarks: {len(on_topic) / max(1, len(fetched)):.0%} of the pages fetched "
        f"(of all pages of this web, {there_are / len(web.pages):.0%} are), "
        f"{sum(url in on_topic for url in found) / max(1, len(found)):.0%} of the {len(found)} judged relevant"
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
    """Serve the local web of the demo on loopback, for your own crawls (--port, --latency, --size)."""
    raise SystemExit(serve_local_web(list(arguments)))
