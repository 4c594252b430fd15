"""Commands by which a reader improves the results: feedback, clusters of a topic, and the assisted review."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import click

from opilio.cli import one_line
from opilio.cli.teach import show_effect, when_learned
from opilio.crawl import Collection
from opilio.crawl.operations.client import is_running
from opilio.errors import InputError

FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SIDES = ("relevant", "irrelevant")
SHOWN_PAGES = 3
SHOWN_CHARS = 700
KEYS = {"y": "yes", "n": "no", "u": "unsure", "s": "skip"}
_HELP = "y yes, n no, u unsure, s skip, z undo, q quit"
DECISIONS = {"keep": "kept", "drop": "dropped", "by_rule": "by rule"}
_KINDS = {"doubtful": "taken", "undoubted": "taken by all", "filtered": "not taken"}


@click.command()
@FOLDER
@click.argument("url", required=False)
@click.argument("verdict", required=False, metavar="[relevant|irrelevant|TOPIC]")
@click.option("--topic", default=None, help="The topic you mean, if it is not the topic of the page.")
@click.option(
    "--undo",
    "version",
    type=int,
    default=0,
    metavar="MODEL",
    help="Undo all changes of the training data since this model.",
)
@AS_JSON
def feedback(
    folder: Path, url: str | None, verdict: str | None, topic: str | None, version: int, as_json: bool
) -> None:
    """Say that a page is relevant, that it is not, or to which TOPIC it belongs; without a URL, list pending changes.

    Feedback spreads: training also re-judges similar pages, and says how many left a topic or joined it.

    A running crawl learns from feedback at once. Otherwise changes are pending until a model is trained.

    \b
    opilio feedback birds https://owls.example/barn-owl relevant
    opilio feedback birds https://shop.example/owl-mugs irrelevant
    opilio feedback birds https://ducks.example/eider "Birds / Ducks"
    opilio feedback birds                      (changes not learned yet; what the latest feedback changed elsewhere)
    opilio topics train birds                  (learn them, and re-judge all pages)
    opilio models birds --compare 1 2          (see what that changed)
    opilio feedback birds --undo 1             (undo them; then: opilio models birds --use 1)
    """
    collection = Collection(folder)
    if version:
        count = collection.forget_changes(version)
        click.echo(json.dumps({"forgotten": count}) if as_json else f"{count} documents restored")
        return
    if url is None or verdict is None:
        if url is not None:
            raise click.UsageError("say what the page is: relevant, irrelevant, or a topic")
        _show_feedback(collection, as_json)
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
    if is_running(folder):
        click.echo(when_learned(folder))
    elif waits:
        click.echo(f"{_changes(waits)} not yet learned: opilio topics train {quote(str(folder))}")


def _show_feedback(collection: Collection, as_json: bool) -> None:
    waits = collection.pending()
    if as_json:
        click.echo(json.dumps(waits))
        return
    click.echo(f"{_changes(waits['count'])} not yet learned by model {waits['model']}")
    for change in waits["changes"]:
        named = one_line(change["title"] or change["name"])
        click.echo(f"  {change['change']}: {one_line(change['topic'])}{f': {named}' if named else ''}")
    show_effect(collection)


def _changes(count: int) -> str:
    return f"{count} change{'s' if count != 1 else ''}"


@click.command()
@FOLDER
@click.argument("topic", default="")
@click.option("--k", default=0, show_default=True, help="How many clusters; 0: as many as the entropy suggests.")
@click.option(
    "--search", default="", metavar="QUESTION", help="Only the pages of the topic that match, relevant or not."
)
@click.option("--split", is_flag=True, help="Make each cluster a subtopic, with its most central pages as examples.")
@click.option(
    "--accept", multiple=True, metavar="CLUSTER",
    help="Make all pages of a cluster examples: its number or name. May be repeated.",
)  # fmt: skip
@click.option(
    "--reject", multiple=True, metavar="CLUSTER",
    help="Make all pages of a cluster counter-examples: its number or name. May be repeated.",
)  # fmt: skip
@AS_JSON
def clusters(
    folder: Path, topic: str, k: int, search: str, split: bool, accept: tuple[str, ...], reject: tuple[str, ...],
    as_json: bool,
) -> None:  # fmt: skip
    """Find clusters among the pages of a TOPIC, by default of all. Make them subtopics, or accept or reject them.

    Also while a crawl runs. Clusters are numbered in the order of the list. Give the same --k as for the list.

    \b
    opilio clusters birds Owls
    opilio clusters birds Owls --k 4
    opilio clusters birds Owls --search nest
    opilio clusters birds --search "host:example.org nest"
    opilio clusters birds Owls --k 4 --split
    opilio clusters birds Owls --k 4 --reject 2 --accept 1
    opilio topics train birds                  (learn it, and re-judge all pages)
    """
    if split and (accept or reject):
        raise click.UsageError("--split goes with neither --accept nor --reject")
    collection = Collection(folder)
    found = collection.clusters(topic, k, search=search)
    chosen = [
        (_cluster(found["clusters"], one), verdict)
        for given, verdict in ((accept, "relevant"), (reject, "irrelevant"))
        for one in given
    ]
    made = collection.split_topic(topic, found["clusters"]) if split else []
    said = [collection.feedback_on_pages(one["oids"], verdict, topic)["said"] for one, verdict in chosen]
    if as_json:
        click.echo(json.dumps({**found, "made": made, "said": said}))
        return
    if said:
        click.echo("\n".join(map(one_line, said)))
        click.echo(when_learned(folder))
        return
    kind = "matching" if search else "relevant"
    why = ", the number of the least entropy" if found["chosen"] else ""
    click.echo(f"{one_line(found['topic'])}: {found['pages']:,} {kind} pages in {found['k']} clusters{why}")
    for number, cluster in enumerate(found["clusters"], 1):
        named = f"{number}. {one_line(cluster['name'])}"
        click.echo(f"{named}: {cluster['pages']:,} pages, homogeneity {cluster['homogeneity']:.2f}")
        click.echo(f"    {one_line(', '.join(cluster['terms']))}")
        for page in cluster["central"][:SHOWN_PAGES]:
            click.echo(f"    {page['cosine']:.2f}  {one_line(page['title'])}\n          {one_line(page['url'])}")
    if made:
        click.echo(f"made {len(made)} subtopics: {one_line('; '.join(made))}")
        click.echo(when_learned(folder))


def _cluster(found: list[dict[str, Any]], given: str) -> dict[str, Any]:
    """The cluster of a number, as the list has it, or of a name."""
    for number, cluster in enumerate(found, 1):
        if given in (str(number), cluster["name"]):
            return cluster
    raise InputError(
        f"there is no cluster {given!r}", f"Give a number from 1 to {len(found)}, or a name from the list."
    )


@click.command()
@FOLDER
@click.argument("topic")
@click.option("--report", is_flag=True, help="Only print the estimates.")
@click.option("--verdicts", is_flag=True, help="Only list the verdicts, as JSON lines.")
@click.option("--learn", is_flag=True, help="Make examples and counter-examples of the verdicts.")
@click.option("--restart", is_flag=True, help="Delete all verdicts and decisions of this topic, and start again.")
@click.option("--anew", is_flag=True, hidden=True, help="The former name of --restart.")
@click.option("--keep", multiple=True, metavar="GROUP", help="Keep a group as a whole: its number or name.")
@click.option("--drop", multiple=True, metavar="GROUP", help="Drop a group, except for the pages judged relevant.")
@click.option("--by-rule", multiple=True, metavar="GROUP", help="Let the rule of 75 % decide about a group again.")
@click.option("--export", "file", metavar="FILE", help="Write the pages that are kept: .jsonl, .csv or .parquet.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def review(
    folder: Path,
    topic: str,
    report: bool,
    verdicts: bool,
    learn: bool,
    restart: bool,
    anew: bool,
    file: str | None,
    as_json: bool,
    **decided: tuple[str, ...],
) -> None:
    """Judge a fifth of the pages of a TOPIC, one at a time, to estimate precision and recall.

    Keys: y yes, n no, u unsure, s skip, z undo, q quit. They can also be piped in. Verdicts are kept.

    The report numbers the groups of pages. When more than 75 % of the sample of a group are relevant, the group is
    kept; --keep and --drop decide otherwise.

    \b
    opilio review birds Owls
    opilio review birds Owls --report
    opilio review birds Owls --drop 2 --export owls.csv
    opilio review birds Owls --verdicts > owls.jsonl
    opilio review birds Owls --learn && opilio topics train birds
    """
    collection = Collection(folder)
    if anew:
        click.echo("notice: --anew is called --restart now", err=True)
    if restart or anew:
        click.echo(f"{collection.restart_review(topic)} verdicts deleted")
    if any(decided.values()):
        _decide(collection, topic, decided)
    if file is not None:
        if verdicts or learn:
            raise InputError("--export goes with --keep, --drop and --restart only", "Give one after the other.")
        _export(collection, topic, file, as_json)
        return
    if verdicts:
        for one in collection.verdicts(topic):
            click.echo(json.dumps(one))
        return
    if learn:
        counts = collection.learn_review(topic)
        click.echo(f"{counts['yes']} examples and {counts['no']} counter-examples")
        click.echo(when_learned(folder))
        return
    if not report and not as_json and not any(decided.values()):
        _ask(collection, topic)
    state = collection.review(topic)
    if as_json:
        click.echo(json.dumps(state))
    else:
        _report(state)


def _decide(collection: Collection, topic: str, decided: Mapping[str, Sequence[str]]) -> None:
    """Decide about groups, which the user gave by their numbers in the report or by their names."""
    groups = [group["name"] for group in collection.review(topic)["groups"]]
    for option, given in decided.items():
        for one in given:
            is_number = one.isdecimal() and 0 < int(one) <= len(groups)
            collection.decide_group(topic, groups[int(one) - 1] if is_number else one, DECISIONS[option])


def _export(collection: Collection, topic: str, file: str, as_json: bool) -> None:
    """Write the pages that are kept, and say how many."""
    done = collection.export_review(topic, file)
    left = f"; groups not decided yet: {done['open']}" if done["open"] else ""
    said = json.dumps(done) if as_json else f"{file}: {done['pages']:,} pages{left}"
    click.echo(said, err=file == "-")


def _ask(collection: Collection, topic: str) -> None:
    """Show a page and wait for a key, until all samples are judged or the input ends."""
    state = collection.review(topic)
    while state["next"] is not None:
        _show(state)
        key = _key()
        url = None
        if key in ("q", ""):
            return
        if key == "z":
            url = collection.take_back(topic) if state["verdicts"] else None
        elif key in KEYS:
            collection.judge(topic, state["next"]["url"], KEYS[key])
        else:
            click.echo(_HELP)
            url = state["next"]["url"]
        state = collection.review(topic, url)


def _show(state: dict[str, Any]) -> None:
    page, group = state["next"], state["next"]["group"]
    click.echo("")
    if group is not None:
        where = " ".join(filter(None, (_KINDS[group["kind"]], group["agreed"], group["directory"])))
        click.echo(f"{state['left']} to go, {group['left']} of this group: {one_line(where)}")
    click.echo(one_line(page["title"]) or "(no title)")
    click.echo(one_line(page["url"]))
    text = one_line(page["text"])
    click.echo(f"  {text[:SHOWN_CHARS]}{'...' if len(text) > SHOWN_CHARS else ''}")
    click.echo(f"Is it about {one_line(state['topic'])}? [{_HELP}] ", nl=False)


def _key() -> str:
    """One key; one character that is not a space when input is piped in; '' at its end."""
    if sys.stdin.isatty():
        key = click.getchar()
        click.echo(key if key.isprintable() else "")
        return key.lower()
    while (key := sys.stdin.read(1)).isspace():
        pass
    click.echo(key)
    return key.lower()


def _report(state: dict[str, Any]) -> None:
    known = state["estimates"]
    click.echo(f"{one_line(state['topic'])}: {state['judged']:,} judged, {state['left']:,} to go")
    click.echo(f"  precision of all {known['pages']:,} pages taken: {_between(known['precision'])}")
    undoubted = known["undoubted"]
    click.echo(f"  precision of the {undoubted['pages']:,} taken by all: {_between(undoubted['precision'])}")
    for agreed, one in known["by_agreed"].items():
        click.echo(f"  precision of {one['pages']:,} taken by {one_line(agreed)}: {_between(one['precision'])}")
    click.echo(f"  recall among pages fetched: {_between(known['recall'])}")
    click.echo(f"  kept by the rule of 75 % and your decisions: {known['kept_pages']:,} pages")
    for number, group in enumerate(state["groups"], 1):
        if group["kind"] != "filtered":
            name = " ".join(filter(None, (_KINDS[group["kind"]], group["agreed"], group["directory"])))
            counts = f"{group['pages']:,} pages, {group['yes']} yes and {group['no']} no of {group['sample']}"
            click.echo(f"  {number:3}. {group['decision']:8} {one_line(name)}: {counts}")


def _between(one: dict[str, float] | None) -> str:
    if one is None:
        return "unknown yet"
    return f"{one['value']:.0%} ({one['low']:.0%} to {one['high']:.0%})"
