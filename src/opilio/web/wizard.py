"""New collections: from bookmarks, from a question, from a few pages, without a terminal."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse

from opilio.crawl import Collection
from opilio.crawl.asking import address_of
from opilio.errors import CollectionError, InputError
from opilio.settings import Settings, override, parse_assignment
from opilio.topics import ExampleKind, read_taxonomy
from opilio.web.access import AllShelf, Render, allowed
from opilio.web.runs import start_crawl

router = APIRouter()
MAX_INPUT_CHARS = 20_000_000
HOUR_S = 3600.0


class Wish(BaseModel):
    """What a collection should be about, where it begins and when it ends."""

    name: str
    bookmarks: str = Field("", max_length=MAX_INPUT_CHARS, description="A browser's bookmark file (HTML), its text.")
    taxonomy: str = Field("", max_length=MAX_INPUT_CHARS, description="A taxonomy (YAML), its text.")
    query: str = Field("", max_length=2000, description="Words the pages should be about.")
    seeds: list[str] = Field(default=[], description="URLs to begin at.")
    examples: list[str] = Field(default=[], description="URLs of pages to learn from; they are begun at, too.")
    max_pages: int = Field(1000, ge=0, description="Pages to fetch; 0: no limit.")
    max_hours: float | None = Field(None, ge=0, description="Hours to crawl; none: no limit.")
    contact: str = Field("", description="URL where owners of sites can reach you.")
    settings: list[str] = Field(default=[], description="Any settings, each as section.key=value.")
    start: bool = Field(True, description="Begin the crawl at once.")


@router.get("/new", include_in_schema=False)
def wizard(request: Request, shelf: AllShelf, pages: Render) -> HTMLResponse:
    """The form."""
    return pages.render(request, "new.html", folder=_shown(shelf.folder))


def _shown(folder: Path) -> str:
    """A folder as people write it: below their own, it begins with ~."""
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)


@router.post("/api/collections", tags=["collections"])
def create(wish: Wish, shelf: AllShelf, _: Annotated[None, Depends(allowed)]) -> dict[str, Any]:
    """Make a collection, and begin its crawl unless told otherwise."""
    settings = _settings(wish)
    with shelf.making(wish.name) as folder, tempfile.TemporaryDirectory() as inputs:
        collection = _made(wish, settings, folder, Path(inputs))
    topics = [topic["topic"] for topic in collection.topics() if topic["path"]]
    said = f"{folder.name} is made" + (f", with {len(topics)} topics" if topics else "")
    if wish.start:
        try:
            start_crawl(folder)
        except CollectionError as error:
            raise CollectionError(f"{said}; its crawl did not begin: {error.message}", error.hint) from None
    return {"said": said + ("; the crawl runs" if wish.start else ""), "name": folder.name, "topics": topics}


def _made(wish: Wish, settings: Settings, folder: Path, inputs: Path) -> Collection:
    """The collection; errors do not tell where its inputs lay for the moment."""
    try:
        files = _files(wish, inputs)
        if "topics" in files:
            _check_taxonomy(files["topics"])
        return Collection.create(folder, query=wish.query.strip(), settings=settings, **files)
    except InputError as error:
        raise InputError(error.message.replace(f"{inputs}/", "").replace(str(inputs), "it"), error.hint) from None


def _check_taxonomy(file: Path) -> None:
    """Refuse files as examples: they would be those of this machine, and whoever reads the portal could read them."""
    named = [example.value for example in read_taxonomy(file).examples if example.kind is ExampleKind.FILE]
    if named:
        raise InputError(
            f"{Path(named[0]).name}: the portal does not read files of this machine",
            "Give URLs, or `text:` and the text itself.",
        )


def _settings(wish: Wish) -> Settings:
    changes: dict[str, Any] = {"limits.max_pages": wish.max_pages}
    if wish.max_hours:
        changes["limits.max_time_s"] = wish.max_hours * HOUR_S
    if wish.contact.strip():
        changes["fetch.contact_url"] = wish.contact.strip()
    changes.update(parse_assignment(line) for line in wish.settings if line.strip())
    return override(Settings(), changes, "the new collection")


def _files(wish: Wish, folder: Path) -> dict[str, Path]:
    """The inputs as files, as `Collection.create` wants them."""
    texts = {
        "bookmarks": (wish.bookmarks, "bookmarks.html"),
        "topics": (wish.taxonomy, "taxonomy.yaml"),
        "seeds": (_addresses(wish.seeds), "seeds.txt"),
        "examples": (_addresses(wish.examples), "examples.txt"),
    }
    files = {}
    for name, (text, file) in texts.items():
        if text.strip():
            files[name] = folder / file
            files[name].write_text(text, encoding="utf-8")
    return files


def _addresses(lines: list[str]) -> str:
    """URLs, one a line; `http://` may be left out."""
    hint = "Write one address on each line, such as https://example.org/"
    return "\n".join(address_of(line, hint) for line in filter(None, map(str.strip, lines)))
