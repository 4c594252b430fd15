"""Commands for what a crawl learns from by itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click

from opilio.cli import one_line
from opilio.crawl import Collection
from opilio.errors import InputError

FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
TOPIC = click.argument("topic")
URL = click.argument("url")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="As JSON.")
_STATES = {
    "archetype": "learned from",
    "next": "would join in the next round",
    "candidate": "candidates that would not join: not more confident than the mean, or past the limit of a round",
}


@click.group()
def archetypes() -> None:
    """Look at the pages that a crawl learns from by itself, or may; say which are right. Also while a crawl runs.

    \b
    opilio archetypes list birds
    opilio archetypes confirm birds Owls https://owls.example/barn-owl
    opilio archetypes reject birds Owls https://shop.example/owl-mugs
    opilio archetypes show birds https://owls.example/my-pages
    opilio archetypes trim birds Owls https://owls.example/my-pages --lines 12-40
    """


@archetypes.command("list")
@FOLDER
@click.option("--topic", default=None, help="Only those of this topic.")
@AS_JSON
def list_(folder: Path, topic: str | None, as_json: bool) -> None:
    """Show archetypes and candidates: topic, confidence, authority, title, URL and a passage of each."""
    found = Collection(folder).archetypes(topic)
    if as_json:
        click.echo(json.dumps(found))
        return
    for name in dict.fromkeys(page["topic"] for page in found):
        mine = [page for page in found if page["topic"] == name]
        click.echo(f"{one_line(name)}: its training documents have a mean confidence of {mine[0]['mean']:.3f}")
        for state, says in _STATES.items():
            _show(says, [page for page in mine if page["state"] == state])
    if not found:
        click.echo("no archetypes, and no candidates: no page was taken by a topic that has examples")


def _show(says: str, pages: list[dict[str, Any]]) -> None:
    if pages:
        click.echo(f"  {says}: {len(pages):,}")
    for page in pages:
        click.echo(f"    {page['confidence']:8.3f}  authority {page['authority']:.4f}  {one_line(page['title'])}")
        click.echo(f"              {one_line(page['url'])}")
        click.echo(f"              {one_line(page['preview'])}")


@archetypes.command()
@FOLDER
@URL
def show(folder: Path, url: str) -> None:
    """Print the text of a stored page with numbered lines, to trim it by."""
    page = Collection(folder).page_text(url)
    click.echo(one_line(page["title"]) or "(no title)")
    for number, line in enumerate(page["text"].split("\n"), 1):
        click.echo(f"{number:5}  {one_line(line)}")


@archetypes.command()
@FOLDER
@TOPIC
@click.argument("url", nargs=-1, required=True)
def confirm(folder: Path, topic: str, url: tuple[str, ...]) -> None:
    """Vouch for pages: each is your own example of TOPIC from now on, which no crawl removes."""
    for one in url:
        Collection(folder).confirm_archetype(topic, one)
        click.echo(f"confirmed {one_line(one)}")


@archetypes.command()
@FOLDER
@TOPIC
@click.argument("url", nargs=-1, required=True)
def reject(folder: Path, topic: str, url: tuple[str, ...]) -> None:
    """Make pages counter-examples of TOPIC: they are never proposed again."""
    for one in url:
        Collection(folder).reject_archetype(topic, one)
        click.echo(f"rejected {one_line(one)}")
    _say_when(folder)


@archetypes.command()
@FOLDER
@TOPIC
@URL
@click.option("--keep", type=click.Path(path_type=Path, dir_okay=False), help="A text file with what is to be kept.")
@click.option("--from", "first", default="", metavar="WORDS", help="Keep from the first place of these words on ...")
@click.option("--to", "last", default="", metavar="WORDS", help="... to the end of the first place of these after it.")
@click.option("--lines", default="", metavar="A-B", help="Keep lines A to B, as `opilio archetypes show` counts them.")
def trim(folder: Path, topic: str, url: str, keep: Path | None, first: str, last: str, lines: str) -> None:
    """Learn from a part of a stored page in place of the whole; it is your own example of TOPIC then."""
    if sum((keep is not None, bool(first or last), bool(lines))) != 1:
        raise click.UsageError("say what to keep by one of --keep, --from and --to, or --lines")
    collection = Collection(folder)
    if keep is not None:
        kept = _file(keep)
    else:
        text = collection.page_text(url)["text"]
        kept = _lines(text, lines) if lines else _passage(text, first, last)
    collection.trim_example(topic, url, kept)
    click.echo(f"{len(kept.split()):,} words of {one_line(url)} are kept")
    _say_when(folder)


def _say_when(folder: Path) -> None:
    click.echo(f"learned at the next training: opilio topics train {folder} (a crawl that runs does it by itself)")


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"{path}: {said}", "Give a text file with the part of the page to keep.") from None


def _lines(text: str, wanted: str) -> str:
    found = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", wanted)
    lines = text.split("\n")
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= len(lines):
        raise InputError(f"--lines {wanted}: not lines of this page", f"It has the lines 1-{len(lines)}.")
    return "\n".join(lines[first - 1 : last])


def _passage(text: str, first: str, last: str) -> str:
    """From the first words to the last ones, both included; spaces and line breaks are alike, and so are cases."""
    start = _place(text, first, 0).start() if first else 0
    end = _place(text, last, start).end() if last else len(text)
    return text[start:end]


def _place(text: str, words: str, after: int) -> re.Match[str]:
    found = re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE).search(text, after)
    if found is None or not words.split():
        raise InputError(
            f"{words!r} does not stand on the page", "`opilio archetypes show FOLDER URL` prints its text."
        )
    return found
