"""Commands for topics, examples and models, and the one that explains judgements."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from shlex import quote
from typing import Any

import click

from opilio.cli import one_line
from opilio.cli.operations import Called, operation_command
from opilio.cli.tables import print_table
from opilio.crawl import Collection
from opilio.crawl.operations import training
from opilio.crawl.operations.client import is_running
from opilio.model import Outcome, OutcomeKind
from opilio.model.visit import RELEVANT, certainty
from opilio.store.training import HIT
from opilio.topics import describe_marks

FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
TOPIC = click.argument("topic")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def topics() -> None:
    """List the topics of a collection, and change them. A running crawl learns from changes at once.

    \b
    opilio topics list birds
    opilio topics mark birds "Birds / Owls" good
    opilio topics add birds "Birds / Owls" https://example.org/barn-owl
    opilio topics add birds "Birds / Owls" owl.pdf --negative
    opilio topics train birds
    """


@operation_command(training.topics, name="list")
def list_(called: Called, found: list[dict[str, Any]]) -> None:
    """Show the topic tree: what is wanted, examples, and the pages found of each topic with all below it."""
    figures = ("examples", "negatives", "pages", "relevant")
    rows = [
        [one_line(topic["topic"]), one_line(topic["mark_words"]), *(f"{topic[name]:,}" for name in figures)]
        for topic in found
    ]
    print_table(("topic", "mark", *figures), rows, right=figures)


topics.add_command(list_)


@topics.command()
@FOLDER
@TOPIC
@click.argument("mark", type=click.Choice(["good", "null"]))
def mark(folder: Path, topic: str, mark: str) -> None:
    """Mark a TOPIC, with all topics below it, as wanted (good) or no longer wanted (null).

    One step suffices: marks above and below that contradict it change as well, and the answer names them. A topic below
    a good one becomes good in its place; a topic above good ones covers them.
    """
    changed = Collection(folder).mark(topic, good=mark == "good")
    click.echo(one_line(describe_marks(changed)) or f"nothing changed: {one_line(topic)!r} is {mark} already")


def when_learned(folder: Path) -> str:
    """When a change of the training data takes effect: a running crawl learns by itself."""
    if is_running(folder):
        return "the running crawl learns this by itself"
    return f"to learn this now: opilio topics train {quote(str(folder))}"


@topics.command()
@FOLDER
@TOPIC
@click.argument("example", nargs=-1, required=True)
@click.option("--negative", is_flag=True, help="The documents are counter-examples: not about the topic.")
def add(folder: Path, topic: str, example: tuple[str, ...], negative: bool) -> None:
    """Add examples to a TOPIC: URLs, files of any format, or text:WORDS."""
    collection = Collection(folder)
    for one in example:
        click.echo(f"added {one_line(collection.add_example(topic, one, positive=not negative))}")
    click.echo(when_learned(folder))


@topics.command()
@FOLDER
@TOPIC
@click.argument("name", nargs=-1, required=True)
def drop(folder: Path, topic: str, name: tuple[str, ...]) -> None:
    """Remove documents from a TOPIC, by the NAME that `opilio sql FOLDER "FROM training"` shows."""
    for one in name:
        Collection(folder).drop_example(topic, one)
        click.echo(f"removed {one_line(one)}")


@topics.command()
@FOLDER
@click.option("--keep-judgements", is_flag=True, help="Do not re-judge the stored pages.")
@click.option(
    "--yes", is_flag=True, help="If examples are missing, take the 8 pages that match the query best, without asking."
)
def train(folder: Path, keep_judgements: bool, yes: bool) -> None:
    """Train a model now, and re-judge all stored pages with it.

    A collection that was made from a query needs three pages that you have confirmed (opilio ask FOLDER), or --yes.
    """
    collection = Collection(folder)
    before = _hits_taken(collection)
    version = collection.train(rejudge=not keep_judgements, take_hits=yes)
    for url in sorted(_hits_taken(collection) - before):
        click.echo(f"example from now on: {one_line(url)}")
    click.echo(f"model {version} trained")
    show_effect(collection, version)


def show_effect(collection: Collection, version: int = 0) -> None:
    """Say what a model changed among the other pages; by default the newest that learned from the user."""
    effect = collection.model_effect(version)
    if effect is None:
        return
    command = f"opilio models {quote(str(collection.folder))} --compare {effect['first']} {effect['second']}"
    which = f"; which: {command}" if effect["topics"] else ""
    click.echo(f"with model {effect['second']}, {one_line(effect['said'])}{which}")


def _hits_taken(collection: Collection) -> set[str]:
    """The examples that nobody was asked about."""
    return {example["name"] for example in collection.examples() if example["source"] == HIT}


@click.command()
@FOLDER
@click.argument("url", required=False)
@click.option(
    "--in-database/--in-memory", default=None,
    help="Judge by SQL (a Bayes tree only), or page by page in memory. By default, what is faster.",
)  # fmt: skip
@AS_JSON
def classify(folder: Path, url: str | None, in_database: bool | None, as_json: bool) -> None:
    """Classify all stored pages of FOLDER again by the newest model, while no crawl runs.

    Both ways give the same judgements. In the database, BulkProbe of the Focus paper classifies hundreds of pages in
    one statement, by their terms; in memory, the text of each page is read again.

    With the URL of a stored page, only this page is judged, also while a crawl runs; the judgement is printed and not
    stored. In the database, the paper's SingleProbe looks up each term of the page, node by node.

    \b
    opilio classify birds
    opilio classify birds --in-database
    opilio classify birds --in-database https://example.org/barn-owl
    """
    if url is not None:
        report = Collection(folder).classify_page(url, in_database=bool(in_database))
        click.echo(json.dumps(report)) if as_json else _show_judgement(report)
        return
    began_s = time.monotonic()
    judged = Collection(folder).classify(in_database=in_database)
    took_s = time.monotonic() - began_s
    if as_json:
        click.echo(json.dumps({**judged, "took_s": took_s}))
        return
    click.echo(
        f"{judged['pages']:,} pages classified in {took_s:.1f} s; relevant: {judged['relevant_after']:,}, "
        f"before: {judged['relevant_before']:,}"
    )


@topics.command()
@FOLDER
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def propose(folder: Path, file: Path) -> None:
    """Write terms and collocations of the examples to FILE, for an expert to edit (classifier oasis).

    Edit the file, then use it: opilio crawl FOLDER --classifier oasis --set oasis.filter=FILE
    """
    count = Collection(folder).propose(file)
    click.echo(f"{count:,} topics in {file}: delete terms that do not indicate their topic, add those that are missing")


@click.command()
@FOLDER
@click.argument("target")
@click.option("--model", "version", type=int, default=0, help="Version of the model; by default the newest.")
@click.option(
    "--link", is_flag=True, help="Explain the priority of the URL TARGET, fetched or not: which pages link to it."
)
@AS_JSON
def explain(folder: Path, target: str, version: int, link: bool, as_json: bool) -> None:
    """Explain how a page was judged, or what became of a URL. TARGET is a URL that the crawl has met, or any file.

    Shows the topic path and confidence, the votes of the feature spaces with their expected precision, the terms for
    and against each topic, which metrics agreed, and the links that led the crawl to the page. Of a URL whose page is
    not stored: whether it is queued, failed or was refused, and why; with or without a slash at its end, http or https.
    With --link: which pages link to it with which words and, while a crawl with the strategy `evidence` runs, how its
    priority is computed.
    """
    collection = Collection(folder)
    report = collection.explain_link(target) if link else collection.explain(target, version=version)
    if as_json:
        click.echo(json.dumps(report))
        return
    if "judgement" not in report:
        _show_link(report)
        return
    if "asked" in report:
        click.echo(_what_became(report["asked"]))
    _show_judgement(report)
    for step in report["steps"]:
        _show_step(step)
    for right in report.get("rights", ()):
        click.echo(f"rights: {one_line(right['signal'])} {one_line(right['value'])!r} ({one_line(right['source'])})")
    if report.get("archive"):
        origin = report["archive"]
        when = f", fetched {origin['captured'][:19].replace('T', ' ')} UTC" if origin["captured"] else ""
        click.echo(f"from the archive {one_line(origin['archive'])}, record at byte {origin['offset']:,}{when}")
    if report.get("way"):
        click.echo("how the crawl came to it:")
        _show_offers(report["offered"])
        _show_finds(report["found"])
        for number, step in enumerate(report["way"]):
            said = f"  by the link {one_line(step['anchor'])!r}" if step["anchor"] else ""
            click.echo(f"  {'  ' * min(number, 20)}{one_line(step['url'])}{said}")


def _what_became(report: dict[str, Any]) -> str:
    """What became of a URL, in lines."""
    said = [one_line(report["url"])]
    outcome = Outcome(report["outcome"]) if report["outcome"] else None
    if report["state"] == "waiting":
        said.append(f"queued, priority {report['priority']:.3f}")
    elif report["redirected_to"]:
        said.append(f"redirected to {one_line(report['redirected_to'])}")
    elif report["duplicate_of"]:
        said.append(f"duplicate ({report['outcome']}) of {one_line(report['duplicate_of'])}")
    elif outcome is not None and outcome.kind is OutcomeKind.STORED:
        said.append("its page is stored")
    elif outcome is not None:
        kind = "failed" if outcome.kind is OutcomeKind.FAILED else "not stored"
        said.append(f"{kind} ({outcome}): {outcome.meaning}")
    if report["requested"] and report["requested"] not in ("ok", "redirect"):
        status = f", status {report['status']}" if report["status"] else ""
        what = f"tries {report['tries']}, the latest" if report["tries"] else "the request for robots.txt"
        detail = f" ({one_line(report['detail'])})" if report["detail"] else ""
        said.append(f"{what}: {report['requested']}{status}{detail}")
    return "\n  ".join(said)


def _show_link(report: dict[str, Any]) -> None:
    click.echo(_what_became(report))
    _show_offers(report["offered"])
    _show_finds(report["found"])
    click.echo(f"{report['links']:,} links from {report['pages']:,} pages lead to it")
    for name, part in sorted(report["parts"].items(), key=lambda item: -abs(item[1])):
        click.echo(f"  {part:+.3f}  {name}")
    for page in report["best"]:
        relevance = "  -  " if page["relevance"] is None else f"{page['relevance']:.3f}"
        words = one_line(page["anchor"]) or "(no words)"
        click.echo(f"  {relevance}  {words!r} on {one_line(page['url'])}")


def _show_offers(offered: list[dict[str, Any]]) -> None:
    for offer in offered:
        peer, relevance = one_line(offer["peer"]), offer["relevance"]
        click.echo(f"  forwarded by {peer}, which expected a relevance of {relevance:.2f}")


def _show_finds(found: list[dict[str, Any]]) -> None:
    for find in found:
        words = f" for {one_line(find['query'])!r}" if find["query"] else ""
        click.echo(f"  found as a seed by {one_line(find['provider'])}, rank {find['rank']}{words}")


def _show_judgement(report: dict[str, Any]) -> None:
    judgement = report["judgement"]
    verdict = "relevant" if judgement["relevance"] >= RELEVANT else "not relevant"
    certain = certainty(judgement["relevance"])
    topic = one_line(judgement["topic"]) if judgement["accepted"] else "no topic took it"
    click.echo(one_line(report["title"]) or "(no title)")
    click.echo(
        f"{verdict}, {certain}: {topic} (relevance {judgement['relevance']:.3f}, "
        f"confidence {judgement['confidence']:.3f}, by model {judgement['model_version']})"
    )
    if judgement["agreed"]:
        every = " (all that voted)" if judgement["undoubted"] else ""
        click.echo(f"agreed: {', '.join(judgement['agreed'])}{every}")
    if report.get("said"):
        said = report["said"]
        side = "an example" if said["verdict"] == "relevant" else "a counter-example"
        click.echo(f"you said {said['verdict']}: it is {side} of {one_line(said['topic'])}")
    stored = report.get("stored")
    if stored and stored["model_version"] not in (None, judgement["model_version"]):
        click.echo(f"stored: relevance {stored['relevance']:.2f}, by model {stored['model_version']}")


def _show_step(step: dict[str, Any]) -> None:
    click.echo(f"\n{'-> ' if step['taken'] else '   '}{one_line(step['topic'])}: confidence {step['confidence']:+.3f}")
    for name, value in step["votes"].items():
        estimate = step["estimates"].get(name)
        expected = ""
        if estimate is not None and not math.isnan(estimate["precision"]):
            expected = f"  (expected precision {estimate['precision']:.2f}, recall {estimate['recall']:.2f})"
            if not round(estimate["precision"], 2):  # a lower bound, which is empty where examples are few
                expected = "  (too few examples to expect anything of it)"
        click.echo(f"     {name:20} {value:+.3f}{expected}")
    for label, sign in (("for", 1), ("against", -1)):
        reasons = [reason for reason in step["reasons"] if reason["weight"] * sign > 0]
        if reasons:
            said = ", ".join(f"{one_line(reason['feature'])} {reason['weight']:+.3f}" for reason in reasons)
            click.echo(f"     {label}: {said}")
    if step["missing"]:
        click.echo(f"     missing, words of the topic that the page lacks: {one_line(', '.join(step['missing']))}")


@click.command()
@FOLDER
@click.option(
    "--compare", type=int, nargs=2, default=None, metavar="A B", help="Show what models A and B disagree about."
)
@click.option("--use", type=int, default=None, metavar="N", help="Use model N again; stored pages are re-judged.")
@AS_JSON
def models(folder: Path, compare: tuple[int, int] | None, use: int | None, as_json: bool) -> None:
    """List the models of FOLDER, compare two of them, or go back to one; also while a crawl runs.

    Every model that was ever trained is kept. Going back makes a new version of the old model. Below the table are the
    models that the crawl trained and refused because they did worse on your own examples.

    \b
    opilio models birds
    opilio models birds --compare 2 3
    opilio models birds --use 2
    """
    collection = Collection(folder)
    if use is not None:
        click.echo(f"model {use} is used again, as model {collection.use_model(use)}")
        return
    if compare:
        compared = collection.compare_models(*compare)
        click.echo(json.dumps(compared)) if as_json else _show_comparison(compared)
        return
    found = collection.models()
    if as_json:
        click.echo(json.dumps(found))
        return
    _show_models(found)
    for refused in collection.refused_models():
        click.echo(f"{_when(refused['refused_s'])}  {one_line(refused['reason'])}")


def _when(time_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))


def _show_models(found: list[dict[str, Any]]) -> None:
    right = ("model", "examples", "judged", "relevant", "precision")
    rows = []
    for model in found:
        when = _when(model["created_s"])
        precision = "-" if model["expected_precision"] is None else f"{model['expected_precision']:.2f}"
        figures = (f"{model[name]:,}" for name in ("documents", "pages", "relevant"))
        rows.append([str(model["version"]), when, model["classifier"], *figures, precision, one_line(model["reason"])])
    if found:
        columns = ("model", "trained", "classifier", "examples", "judged", "relevant", "precision", "reason")
        print_table(columns, rows, right=right)
        click.echo("precision: as the model expects it")
    else:
        click.echo("no model yet: pages are judged by keywords, or not at all")


def _show_comparison(report: dict[str, Any]) -> None:
    first, second = report["first"], report["second"]
    click.echo(f"{report['pages']:,} pages were judged by both models")
    click.echo(
        f"relevant by model {first}: {report['relevant_first']:,}, by model {second}: {report['relevant_second']:,}, "
        f"by both: {report['relevant_both']:,}"
    )
    for page in report["changed"]:
        click.echo(
            f"  {page['first']:.3f} -> {page['second']:.3f}  {one_line(page['title'] or '')}\n"
            f"    {one_line(page['url'])}"
        )
