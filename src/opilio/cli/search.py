"""`opilio search`: search the stored pages from a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from opilio.cli import one_line
from opilio.cli.operations import type_of
from opilio.cli.tables import fitted
from opilio.crawl import Collection
from opilio.crawl.operations import browse
from opilio.model.visit import certainty
from opilio.topics.tree import OFF_TOPIC, OTHERS

_ABOUT = browse.search.about


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("question", default="")
@click.option(
    "--rank", default="", metavar="WEIGHTS", help="Weights of the rankings: bm25=1,cosine=0,relevance=0,authority=0.5."
)
@click.option("--topic", multiple=True, help=_ABOUT["topic"].description)
@click.option("--host", multiple=True, help=_ABOUT["host"].description)
@click.option("--lang", multiple=True, help=_ABOUT["lang"].description)
@click.option("--type", "kind", multiple=True, help=_ABOUT["type"].description)
@click.option("--since", default="", metavar="DAY", help=_ABOUT["since"].description)
@click.option("--before", default="", metavar="DAY", help=_ABOUT["before"].description)
@click.option(
    "-n", "size", type=type_of(int, _ABOUT["size"]), default=10, show_default=True, help=_ABOUT["size"].description
)
@click.option(
    "--page", type=type_of(int, _ABOUT["page"]), default=1, show_default=True, help=_ABOUT["page"].description
)
@click.option(
    "--similar", "similar_to", default="", metavar="URL", help="Show pages similar to this one; no QUESTION is needed."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with facets.")
def search(
    folder: Path,
    question: str,
    rank: str,
    topic: tuple[str, ...],
    host: tuple[str, ...],
    lang: tuple[str, ...],
    kind: tuple[str, ...],
    since: str,
    before: str,
    size: int,
    page: int,
    similar_to: str,
    as_json: bool,
) -> None:
    """Search the pages stored in FOLDER, while a crawl runs or after.

    A QUESTION has words (in any form), "phrases", prefixes (owl*), fuzzy words (owl~), OR, -not and ( ); fields: title:
    text: anchor: url: and filters: host: lang: type: topic: since: before: relevance:

    \b
    opilio search birds "barn owl"
    opilio search birds '"barn owl" -toy type:pdf'
    opilio search birds nest --topic "Birds / Owls" --rank bm25=1,authority=0.5
    opilio search birds --similar http://owls.example/barn.html
    """
    collection = Collection(folder)
    if similar_to:
        found = collection.similar(similar_to, size)
        click.echo(json.dumps(found)) if as_json else _show_similar(found)
        return
    from opilio.search.ranking import parse_weights  # noqa: PLC0415  needs numpy, which `--help` does not

    answer = collection.search(
        question, weights=parse_weights(rank) if rank else None, topic=topic, host=host, lang=lang, type=kind,
        since=since, before=before, page=page, size=size,
    )  # fmt: skip
    click.echo(json.dumps(answer)) if as_json else _show(answer)


def _show(answer: dict[str, Any]) -> None:
    least = "at least " if answer["at_least"] else ""
    click.echo(f"{least}{answer['total']:,} of {answer['pages_indexed']:,} pages, {answer['took_ms']:.0f} ms")
    first = (answer["page"] - 1) * answer["size"] + 1
    for number, result in enumerate(answer["results"], first):
        click.echo(f"\n{number:>3}. {_said(result['title_pieces']) or '(no title)'}")
        click.secho(f"     {one_line(result['url'])}", fg="green")
        copies = f" · {result['folded']} more like it" if result["folded"] else ""
        topic = OFF_TOPIC if result["topic"] in ("", OTHERS) else result["topic"]
        certain = certainty(result["relevance"])
        facts = f"{topic} · " * (topic != certain) + f"{certain} · score {result['score']:.3f}{copies}"
        click.secho(f"     {one_line(facts)}", dim=True)
        click.echo(fitted(f"     {_said(result['snippet'])}"))


def _said(pieces: list[tuple[str, bool]]) -> str:
    """Pieces with the matches highlighted; foreign text cannot control the terminal."""
    said = [
        click.style(_printable(text), bold=True, fg="yellow") if is_match else _printable(text)
        for text, is_match in pieces
    ]
    return "".join(said).strip()


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _show_similar(found: list[dict[str, Any]]) -> None:
    for result in found:
        click.echo(f"{result['likeness']:.3f}  {one_line(result['title']) or '(no title)'}")
        click.secho(f"       {one_line(result['url'])}", fg="green")
