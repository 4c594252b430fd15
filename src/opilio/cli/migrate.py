"""`opilio migrate`: make a collection from the configuration of another crawler."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from shlex import quote

import click

from opilio.cli.tables import print_table
from opilio.crawl import Collection
from opilio.crawl.collection import check_new
from opilio.integrations.ache import CONFIG, AcheMigration, Kind, read_ache


@click.group()
def migrate() -> None:
    """Make a collection from the configuration of another crawler.

    Nothing is crawled yet: look at the table, then start the crawl.
    """


@migrate.command()
@click.argument("config", type=click.Path(path_type=Path, exists=True))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--training",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with the folders positive and negative (buildModel -t). Default: looked for in CONFIG.",
)
@click.option(
    "--seeds", type=click.Path(path_type=Path), help="File of seeds (startCrawl -s). Default: CONFIG/seeds.txt."
)
@click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True),
    help="Folder with pageclassifier.yml (startCrawl -m). Default: CONFIG/model.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be translated, and make nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def ache(
    config: Path, folder: Path, training: Path | None, seeds: Path | None, model: Path | None, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Make the collection FOLDER from the ACHE configuration in CONFIG: a folder with ache.yml.

    link_filters.yml, pageclassifier.yml, seeds and training pages are taken too. The table shows what became of each
    key, and why some have no counterpart.

    \b
    opilio migrate ache config/ birds --training training_data/ --dry-run
    opilio migrate ache config/ birds --training training_data/
    opilio crawl birds --max-pages 1000
    """
    if not dry_run:
        check_new(folder)
    found = read_ache(config, seeds=seeds, training=training, model=model, on_read=_progress)
    if not dry_run:
        Collection.from_topics(folder, found.tree, settings=found.settings)
    if as_json:
        settings = {name: list(value) if isinstance(value, tuple) else value for name, value in found.settings.items()}
        settings.pop("fetch.proxy", None)  # it may hold a password
        keys = [asdict(key) for key in found.keys]
        click.echo(json.dumps({"keys": keys, "settings": settings, "seeds": len(found.tree.seeds)}))
        return
    _show(found)
    if dry_run:
        click.echo("\nNothing was made. Without --dry-run the collection is made.")
    else:
        click.echo(f"\nMade {folder}. Crawl:  opilio crawl {quote(str(folder))} --contact URL")


def _show(found: AcheMigration) -> None:
    """What was translated first, then what was left out."""
    order = list(Kind)
    keys = sorted(found.keys, key=lambda key: order.index(key.kind))
    rows = [
        (
            key.kind.value,
            ": ".join(filter(None, ["" if key.file == CONFIG else key.file, key.key])),
            key.value[:60],
            key.says,
        )
        for key in keys
    ]
    print_table(("", "ACHE", "value", "Opilio"), rows)
    counts = {kind: sum(key.kind is kind for key in found.keys) for kind in Kind}
    click.echo("\n" + ", ".join(f"{count} {kind.value}" for kind, count in counts.items()))


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty() and (done % 20 == 0 or done == total):
        click.echo(f"\rreading training pages: {done:,} of {total:,}", nl=done == total, err=True)
