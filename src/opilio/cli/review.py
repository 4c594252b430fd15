"""The command for the assisted review."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from opilio.cli import one_line
from opilio.crawl import Collection

SHOWN_CHARS = 700
KEYS = {"y": "yes", "n": "no", "u": "unsure", "s": "skip"}
_HELP = "y yes, n no, u unsure, s skip, z undo, q quit"
_KINDS = {"doubtful": "taken", "undoubted": "taken by all", "filtered": "not taken"}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("topic")
@click.option("--report", is_flag=True, help="Only say what is known.")
@click.option("--verdicts", is_flag=True, help="Only list what was judged, as JSON lines.")
@click.option("--learn", is_flag=True, help="Make examples and counter-examples of what was judged.")
@click.option("--anew", is_flag=True, help="Forget what was judged, and begin anew.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def review(folder: Path, topic: str, report: bool, verdicts: bool, learn: bool, anew: bool, as_json: bool) -> None:
    """Judge a fifth of what a TOPIC found, one page at a time, and know how good all of it is.

    Keys: y yes, n no, u unsure, s skip, z undo, q quit. They can be piped in, too. What was judged is kept.

    \b
    opilio review birds Owls
    opilio review birds Owls --report
    opilio review birds Owls --verdicts > owls.jsonl
    opilio review birds Owls --learn && opilio topics train birds
    """
    collection = Collection(folder)
    if anew:
        click.echo(f"{collection.review_anew(topic)} verdicts forgotten")
    if verdicts:
        for one in collection.verdicts(topic):
            click.echo(json.dumps(one))
        return
    if learn:
        counts = collection.learn_review(topic)
        click.echo(f"{counts['yes']} examples and {counts['no']} counter-examples: opilio topics train {folder}")
        return
    if not report and not as_json:
        _ask(collection, topic)
    state = collection.review(topic)
    if as_json:
        click.echo(json.dumps(state))
    else:
        _report(state)


def _ask(collection: Collection, topic: str) -> None:
    """Show a page, wait for a key, and so on, until all samples are judged or no more keys come."""
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
    click.echo(f"  precision of the {undoubted['pages']:,} undoubted: {_between(undoubted['precision'])}")
    for agreed, one in known["by_agreed"].items():
        click.echo(f"  precision of {one['pages']:,} taken by {one_line(agreed)}: {_between(one['precision'])}")
    click.echo(f"  recall among pages fetched: {_between(known['recall'])}")
    click.echo(f"  kept by the rule of 75 %: {known['kept_pages']:,} pages")
    for group in state["groups"]:
        if group["kind"] != "filtered":
            name = " ".join(filter(None, (_KINDS[group["kind"]], group["agreed"], group["directory"])))
            counts = f"{group['pages']:,} pages, {group['yes']} yes and {group['no']} no of {group['sample']}"
            click.echo(f"  {group['decision']:8} {one_line(name)}: {counts}")


def _between(one: dict[str, float] | None) -> str:
    if one is None:
        return "not known yet"
    return f"{one['value']:.0%} ({one['low']:.0%} to {one['high']:.0%})"
