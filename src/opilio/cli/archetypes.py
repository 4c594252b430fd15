"""Commands for archetypes: the pages that a crawl chose to learn from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from opilio.cli import one_line
from opilio.cli.operations import Called, operation_command
from opilio.cli.teach import when_learned
from opilio.crawl import Collection
from opilio.crawl.operations import training
from opilio.errors import InputError

FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
TOPIC = click.argument("topic")
URL = click.argument("url")
_STATES = {
    "archetype": "in use",
    "next": "to be added in the next round",
    "candidate": "other candidates: not more confident than the mean, or beyond the limit of a round",
    "stuffed": "never added: a few words are repeated far too often (keyword stuffing)",
}


@click.group()
def archetypes() -> None:
    """List the pages that a crawl chose to learn from, and candidates; confirm or reject them. Also while it runs.

    \b
    opilio archetypes list birds
    opilio archetypes confirm birds Owls https://owls.example/barn-owl
    opilio archetypes reject birds Owls https://shop.example/owl-mugs
    opilio archetypes show birds https://owls.example/my-pages
    opilio archetypes trim birds Owls https://owls.example/my-pages --lines 12-40
    """


@operation_command(training.archetypes, name="list")
def list_(called: Called, found: list[dict[str, Any]]) -> None:
    """Show archetypes and candidates: topic, confidence, authority, title, URL and a passage of each."""
    for name in dict.fromkeys(page["topic"] for page in found):
        mine = [page for page in found if page["topic"] == name]
        click.echo(f"{one_line(name)}: its training documents have a mean confidence of {mine[0]['mean']:.3f}")
        for state, says in _STATES.items():
            _show(says, [page for page in mine if page["state"] == state])
    if not found:
        click.echo("no archetypes and no candidates: no page was assigned to a topic that has examples")


archetypes.add_command(list_)


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
    """Print the text of a stored page with numbered lines, as `trim --lines` counts them."""
    page = Collection(folder).page_text(url)
    click.echo(one_line(page["title"]) or "(no title)")
    for number, line in enumerate(page["text"].split("\n"), 1):
        click.echo(f"{number:5}  {one_line(line)}")


@archetypes.command()
@FOLDER
@TOPIC
@click.argument("url", nargs=-1, required=True)
def confirm(folder: Path, topic: str, url: tuple[str, ...]) -> None:
    """Confirm pages: each is your own example of TOPIC from now on, and no crawl removes it."""
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
@click.option("--keep", type=click.Path(path_type=Path, dir_okay=False), help="A text file with the part to keep.")
@click.option(
    "--from", "first", default="", metavar="WORDS", help="Keep the text from the first occurrence of these words ..."
)
@click.option(
    "--to", "last", default="", metavar="WORDS", help="... to the next occurrence of these words, which is included."
)
@click.option("--lines", default="", metavar="A-B", help="Keep lines A to B, as `opilio archetypes show` counts them.")
def trim(folder: Path, topic: str, url: str, keep: Path | None, first: str, last: str, lines: str) -> None:
    """Learn from a part of a stored page instead of the whole; it becomes your own example of TOPIC."""
    if sum((keep is not None, bool(first or last), bool(lines))) != 1:
        raise click.UsageError("say what to keep: --keep, or --from and --to, or --lines")
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
    click.echo(when_learned(folder))


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
    """From the first words to the last ones, both included; ignores case and the kind of white space."""
    start = _place(text, first, 0).start() if first else 0
    end = _place(text, last, start).end() if last else len(text)
    return text[start:end]


def _place(text: str, words: str, after: int) -> re.Match[str]:
    found = re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE).search(text, after)
    if found is None or not words.split():
        raise InputError(f"{words!r} is not on the page", "`opilio archetypes show FOLDER URL` prints its text.")
    return found
