"""The command that says of a page whether it is relevant."""

from __future__ import annotations

import json
from pathlib import Path

import click

from opilio.cli import one_line
from opilio.crawl import Collection

SIDES = ("relevant", "irrelevant")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("url", required=False)
@click.argument("verdict", required=False, metavar="[relevant|irrelevant|TOPIC]")
@click.option("--topic", default=None, help="The topic that is meant, when it is not the one that took the page.")
@click.option(
    "--undo", "version", type=int, default=0, metavar="MODEL", help="Take back what was taught since a model."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def feedback(
    folder: Path, url: str | None, verdict: str | None, topic: str | None, version: int, as_json: bool
) -> None:
    """Say of a page that it is relevant, that it is not, or to which TOPIC it belongs; without one, show what waits.

    A crawl that runs learns at once. Otherwise changes wait until a model is trained.

    \b
    opilio feedback birds https://owls.example/barn-owl relevant
    opilio feedback birds https://shop.example/owl-mugs irrelevant
    opilio feedback birds https://ducks.example/eider "Birds / Ducks"
    opilio feedback birds                      (what no model has learned yet)
    opilio topics train birds                  (learn it, and judge all pages anew)
    opilio models birds --compare 1 2          (what that changed)
    opilio feedback birds --undo 1             (take it back; then: opilio models birds --use 1)
    """
    collection = Collection(folder)
    if version:
        count = collection.forget_lessons(version)
        click.echo(json.dumps({"forgotten": count}) if as_json else f"{count} documents are as they were")
        return
    if url is None or verdict is None:
        if url is not None:
            raise click.UsageError("say what the page is: relevant, irrelevant, or a topic")
        _show(collection, as_json)
        return
    belongs = verdict not in SIDES
    if belongs and topic is not None:
        raise click.UsageError("name the topic once")
    said = collection.feedback(url, "belongs" if belongs else verdict, verdict if belongs else topic)
    waits = collection.pending()["count"]
    if as_json:
        click.echo(json.dumps({**said, "pending": waits}))
        return
    click.echo(f"{one_line(url)}: {one_line(said['said'])}")
    if waits:
        click.echo(f"{_changes(waits)} not yet learned: opilio topics train {folder}")


def _show(collection: Collection, as_json: bool) -> None:
    waits = collection.pending()
    if as_json:
        click.echo(json.dumps(waits))
        return
    click.echo(f"{_changes(waits['count'])} not yet learned by model {waits['model']}")
    for change in waits["changes"]:
        named = one_line(change["title"] or change["name"])
        click.echo(f"  {change['change']}: {one_line(change['topic'])}{f': {named}' if named else ''}")


def _changes(count: int) -> str:
    return f"{count} change{'s' if count != 1 else ''}"
