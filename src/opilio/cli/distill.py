"""Commands that look at all pages: the census of topics, and hubs and authorities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from opilio.cli import one_line
from opilio.cli.operations import Called, operation_command
from opilio.cli.tables import fitted, print_table
from opilio.crawl import Collection
from opilio.crawl.operations import crawling
from opilio.distill import DEFAULT_METHOD, METHODS, STORED_METHODS

BAR_CELLS = 6  # tables have 80 columns
NO_BREAK = "\u00a0"
_FIGURES = ("pages", "relevant", "itself", "waiting")
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@operation_command(crawling.census, options={"last_pages": "last"})
def census(called: Called, report: dict[str, Any]) -> None:
    """Show the topics of the pages in FOLDER, what the off-topic pages are about, and what to do about it.

    When a crawl stagnates, this shows why: most pages may be about a topic above or next to yours, which you can mark
    good too. Also works while a crawl runs.

    \b
    opilio census funds
    opilio census funds --last 500
    opilio census funds --topic "Business/Investment/Mutual Funds"
    """
    latest = "latest " if report["last_pages"] else ""
    around = f" of {one_line(report['topic'])} and around it" if report["topic"] else ""
    click.echo(
        f"{report['pages']:,} {latest}pages{around}: {report['relevant']:,} relevant, {report['waiting']:,} URLs queued"
    )
    _show_topics(report)
    _show_hosts(report["hosts"])
    if report["instead"]:
        click.echo("\nthe off-topic pages are about")
        click.echo(fitted("  " + ", ".join(one_line(word["word"]) for word in report["instead"])))
    for near in report["nearby"]:
        click.echo(f"  {near['pages']:,} pages about {one_line(near['topic'])}, {near['where']}")
    if report["remedies"]:
        click.echo("\nwhat you can do")
        for remedy in report["remedies"]:
            click.echo(f"  {one_line(remedy['why'])}:\n    {one_line(remedy['command'])}")


def _show_topics(report: dict[str, Any]) -> None:
    rows = [topic for topic in report["topics"] if topic["pages"] or topic["waiting"] or topic["mark"] == "good"]
    lines = []
    most = max([report["untaken"], *(topic["own_pages"] for topic in rows)], default=0)
    for topic in rows:
        mark = topic["mark_words"] + (", starves" if topic["starves"] else "")
        figures = (f"{topic[name]:,}" for name in ("pages", "relevant", "own_pages", "waiting"))
        lines.append(
            [one_line(topic["topic"]), one_line(mark).replace(" ", NO_BREAK), *figures, bar(topic["own_pages"], most)]
        )
    untaken = f"{report['untaken']:,}"
    lines.append(["off topic", "", untaken, "", untaken, "", bar(report["untaken"], most)])
    print_table(("topic", "mark", *_FIGURES, ""), lines, right=_FIGURES)


def _show_hosts(hosts: list[dict[str, Any]]) -> None:
    if hosts:
        click.echo()
        most = hosts[0]["pages"]
        figures = ("pages", "relevant")
        rows = [
            [one_line(host["host"]), *(f"{host[n]:,}" for n in figures), bar(host["pages"], most)] for host in hosts
        ]
        print_table(("host", *figures, ""), rows, right=figures)


def bar(value: int, most: int) -> str:
    """A bar whose length is the share of the largest value."""
    eighths = round(8 * BAR_CELLS * value / most) if most else 0
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--topic", default=None, help="Only this topic and those below it; by default all wanted topics.")
@click.option(
    "--method",
    type=click.Choice(list(METHODS)),
    help="By default that of the setting distill_method; with --search, weighted instead of focus.",
)
@click.option(
    "--search", default="", metavar="QUESTION", help="Only the pages that match, and their neighbourhood; not stored."
)
@click.option("--no-store", is_flag=True, help="Only list, and leave the stored scores as they are.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="How many of each to list.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def distill(
    folder: Path, topic: str | None, method: str | None, search: str, no_store: bool, top: int, as_json: bool
) -> None:
    """Find the hubs and authorities of FOLDER by link analysis, store their scores, and list the best.

    Scores are stored for all wanted topics; search and portal rank by them. A crawl does the same when it ends.

    weighted uses the pages of a topic and their neighbourhood, weights links by relevance, and leaves out navigation
    and links inside a site; hits is plain HITS on the same pages; focus weights links by the relevance of both ends, in
    the database; pagerank measures how popular a page is, regardless of topic, and has no hubs: it is only listed.

    \b
    opilio distill birds
    opilio distill birds --topic "Birds / Owls" --method focus --top 10
    opilio distill birds --search "barn owl" --topic "Birds / Owls"
    """
    collection = Collection(folder)
    chosen = collection.settings.frontier.distill_method
    if search and chosen == "focus":  # which goes by relevance, and cannot start from given pages
        chosen = DEFAULT_METHOD
    if search or no_store or method not in (None, *STORED_METHODS):
        report = collection.distill(topic, method or chosen, top, search=search)
    else:
        report = collection.analyse_links(topic, method or "", top)
    if as_json:
        click.echo(json.dumps(report))
    else:
        _show(report)


def _show(report: dict[str, Any]) -> None:
    unsure = "" if report["converged"] else ", not settled yet"
    click.echo(f"{report['method']}: {report['pages']:,} pages, {report['rounds']} rounds{unsure}")
    for kind in ("hubs", "authorities"):
        if report[kind]:
            click.echo(f"\n{kind}")
            _show_pages(report[kind])
    if not report["hubs"] and not report["authorities"]:
        click.echo("no link counts: none leads from the page of one site to a relevant page of another")


def _show_pages(pages: list[dict[str, Any]]) -> None:
    for page in pages:
        title = one_line(page["title"]) or ("(not fetched)" if page["state"] != "fetched" else "(no title)")
        click.echo(f"{page['score']:.4f}  {title}\n        {one_line(page['url'])}")
