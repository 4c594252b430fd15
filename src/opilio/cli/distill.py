"""The command that lists hubs and authorities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from opilio.cli import one_line
from opilio.crawl import Collection
from opilio.distill import METHODS


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--topic", default=None, help="A topic with all below it; by default all that are wanted.")
@click.option("--method", type=click.Choice(list(METHODS)), default="hits", show_default=True)
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="How many of each to list.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def distill(folder: Path, topic: str | None, method: str, top: int, as_json: bool) -> None:
    """List the best hubs and authorities of FOLDER, by what its links say.

    hits looks at the pages of a topic and their neighbourhood; focus weighs links by the relevance of their ends, in
    the database; pagerank asks how popular a page is, whatever it is about, and knows no hubs.

    \b
    opilio distill birds
    opilio distill birds --topic "Birds / Owls" --method focus --top 10
    """
    told = Collection(folder).distill(topic, method, top)
    if as_json:
        click.echo(json.dumps(told))
    else:
        _show(told)


def _show(told: dict[str, Any]) -> None:
    unsure = "" if told["converged"] else ", not settled yet"
    click.echo(f"{told['method']}: {told['pages']:,} pages, {told['rounds']} rounds{unsure}")
    for kind in ("hubs", "authorities"):
        if told[kind]:
            click.echo(f"\n{kind}")
            _show_pages(told[kind])
    if not told["hubs"] and not told["authorities"]:
        click.echo("no link counts: none leads from the page of one host to that of another, both on the topic")


def _show_pages(pages: list[dict[str, Any]]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for page in pages:
        title = one_line(page["title"]) or ("(not fetched)" if page["state"] != "fetched" else "(no title)")
        table.add_row(f"{page['score']:.4f}", Text(f"{title}\n{one_line(page['url'])}"))
    Console(markup=False, highlight=False).print(table)
