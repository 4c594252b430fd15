"""`opilio seeds`: ask services for further pages to start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from opilio.cli import one_line
from opilio.crawl import Collection


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--query", default="", help="Words to ask for; by default those that the collection began with.")
@click.option("--topic", default="", help="The topic that the pages are for; its name is what is asked for by default.")
@click.option(
    "--seed-provider", "providers", multiple=True, metavar="NAME=ADDRESS",
    help="A service to ask; may be repeated. By default those of the settings (seeds.providers).",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def seeds(folder: Path, query: str, topic: str, providers: tuple[str, ...], as_json: bool) -> None:
    """Ask seed providers for pages to start from, and add those that are new to the collection FOLDER.

    A running crawl queues them at once; otherwise the next `opilio crawl FOLDER` does. A seed provider is a service
    that finds pages. Nothing is contacted unless you name it:

    \b
    searxng=https://search.example.org                   the metasearch engine SearXNG; `json` must be allowed there
    opensearch=https://example.org/opensearch.xml        any search with an OpenSearch description (Atom, RSS or JSON)
    "opensearch=https://example.org/s?q={searchTerms}"   ... or its template
    mediawiki=https://en.wikipedia.org/w/api.php         the search of a wiki
    "cdx=https://index.commoncrawl.org/CC-MAIN-2026-39-index?url=*.example.org"
                                                         the index of a web archive: pages of a domain or folder
    opilio=http://127.0.0.1:8765/c/birds                 the portal of another collection, or a federation

    Private addresses need --set fetch.allow_private_addresses=true (at `opilio crawl`). `opilio explain FOLDER URL`
    shows which provider found a page, with which words and at which rank.

    \b
    opilio seeds owls
    opilio seeds owls --query "tawny owl calls" --seed-provider mediawiki=https://en.wikipedia.org/w/api.php
    opilio seeds birds --topic Owls
    """
    report = Collection(folder).find_seeds(query, topic, list(providers))
    if as_json:
        click.echo(json.dumps(report))
    else:
        show_found(report)


def show_found(report: dict[str, Any]) -> None:
    """Say what each provider found, and how many pages are new."""
    for answer in report["answers"]:
        show_answer(answer["said"], answer["trouble"], answer["hint"])
    click.echo(f"{report['new']:,} new seeds", err=True)


def show_answer(said: str, trouble: str, hint: str) -> None:
    """Say what one provider found, or what went wrong."""
    click.echo(f"warning: seed provider {one_line(said)}" if trouble else one_line(said), err=True)
    if trouble and hint:
        click.echo(f"hint: {one_line(hint)}", err=True)
