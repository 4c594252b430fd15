"""The command that finds clusters in a topic."""

from __future__ import annotations

import json
from pathlib import Path

import click

from opilio.cli import one_line
from opilio.crawl import Collection

SHOWN_PAGES = 3


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("topic")
@click.option("--k", default=0, show_default=True, help="How many clusters; 0: as many as entropy suggests.")
@click.option("--split", is_flag=True, help="Make each cluster a subtopic, with its most central pages as examples.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def clusters(folder: Path, topic: str, k: int, split: bool, as_json: bool) -> None:
    """Find what the pages of a TOPIC are about in particular, and make subtopics of it. Also while a crawl runs.

    \b
    opilio clusters birds Owls
    opilio clusters birds Owls --k 4
    opilio clusters birds Owls --k 4 --split
    opilio topics train birds                  (then pages are judged by the subtopics, too)
    """
    collection = Collection(folder)
    found = collection.clusters(topic, k)
    made = collection.split_topic(topic, found["clusters"]) if split else []
    if as_json:
        click.echo(json.dumps({**found, "made": made}))
        return
    why = ", the number of the least entropy" if found["chosen"] else ""
    click.echo(f"{one_line(found['topic'])}: {found['pages']:,} relevant pages in {found['k']} clusters{why}")
    for cluster in found["clusters"]:
        click.echo(f"{one_line(cluster['name'])}: {cluster['pages']:,} pages, homogeneity {cluster['homogeneity']:.2f}")
        click.echo(f"    {one_line(', '.join(cluster['terms']))}")
        for page in cluster["central"][:SHOWN_PAGES]:
            click.echo(f"    {page['cosine']:.2f}  {one_line(page['title'])}  {one_line(page['url'])}")
    if made:
        click.echo(f"made {len(made)} subtopics: {one_line('; '.join(made))}")
        click.echo(f"learn them: opilio topics train {folder}")
