"""The start page: all collections, signing in, new collections, and starting crawls.

A crawl that is started here is a process of its own, which continues when the portal ends.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from opilio.crawl import Collection, Status
from opilio.crawl.bookmark_check import check_bookmarks
from opilio.crawl.operations.client import is_running
from opilio.crawl.operations.context import address_of
from opilio.errors import CollectionBusy, CollectionError, InputError, OpilioError
from opilio.seeds import ProviderAnswer
from opilio.settings import SYSTEMS, LimitSettings, Settings, override, parse_assignment, to_toml
from opilio.topics import ExampleKind, bookmark_folders, read_taxonomy
from opilio.topics.inputs import BookmarkFolder, parse_bookmarks
from opilio.web.access import AllShelf, Render, Writing, allowed, form_fields
from opilio.web.security import LOGIN, LOGIN_PAGE, Security, cookie_name
from opilio.web.shelf import Shelf

LOG = "crawl.log"
START_S = 60.0  # a large collection is read first
POLL_S = 0.05
MAX_INPUT_CHARS = 20_000_000
HOUR_S = 3600.0
CHECK_S = 60.0  # a browser that waits longer looks broken; what was not checked is said
_STARTED: list[subprocess.Popen[bytes]] = []

router = APIRouter()


def start_crawl(folder: Path) -> None:
    """Start or continue a crawl; returns when it answers. Its output goes to crawl.log in the folder."""
    _STARTED[:] = [process for process in _STARTED if process.poll() is None]
    if is_running(folder):
        raise CollectionError("a crawl runs here already", "Watch it, or stop it first.")
    command = [sys.executable, "-m", "opilio", "crawl", str(folder), "--quiet"]
    with (folder / LOG).open("ab") as log:
        start = log.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    _STARTED.append(process)
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        if is_running(folder):
            return
        code = process.poll()
        if code == 0:
            return  # there was little to do
        if code is not None:
            said = (folder / LOG).read_bytes()[start:].decode("utf-8", "replace").strip().splitlines()
            errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
            hints = [line.removeprefix("hint: ") for line in said if line.startswith("hint: ")]
            raise CollectionError((errors or said or ["the crawl ended at once"])[-1], (hints or [""])[-1])
        time.sleep(POLL_S)
    raise CollectionBusy("the crawl has started, but does not answer yet", f"Look at {folder / LOG}.")


MORE_PAGES = 1000
"""So many pages more does one click give a crawl that has reached its limit."""


def limit_reached(status: Status, limits: LimitSettings) -> str:
    """The limit at which a crawl would end at once, for people; empty when there is none."""
    if 0 < limits.max_pages <= status.pages:
        return f"the page limit is reached: {status.pages:,} of {limits.max_pages:,} pages"
    if 0 < limits.max_time_s <= status.elapsed_s:
        return f"the time limit is reached: {limits.max_time_s / HOUR_S:g} hours of crawling"
    if 0 < limits.max_bytes <= status.fetched_bytes:
        return f"the limit of {limits.max_bytes:,} bytes is reached"
    return ""


def continue_crawl(collection: Collection, more_pages: int = 0) -> str:
    """Start or continue a crawl, with so many more pages than there are; returns what happened.

    A crawl that would end at once because of a limit is not started: the error says which limit.
    """
    status = collection.status()
    if more_pages:
        collection.change_limits(max_pages=status.pages + more_pages)
    elif reached := limit_reached(status, collection.settings.limits):
        raise CollectionError(reached, f"Raise it: Continue: +{MORE_PAGES:,} pages, or set other limits.")
    start_crawl(collection.folder)
    if is_running(collection.folder):
        return "the crawl runs"
    return f"the crawl has ended already: {collection.status().reason}"


class CrawlBody(BaseModel):
    """How to continue a crawl."""

    more_pages: int = Field(0, ge=0, description="Raise the page limit to so many more than there are; 0: leave it.")


class NewName(BaseModel):
    """The new name of a collection."""

    to: str


class Deletion(BaseModel):
    """The confirmation that a collection is to be deleted."""

    confirm: str = Field(description="The name of the collection.")


class Token(BaseModel):
    """The token that the server printed."""

    token: str


@router.get("/", include_in_schema=False)
def home(request: Request, shelf: AllShelf, pages: Render) -> Response:
    """All collections; or the collection itself, when the server shows only one."""
    names = shelf.names()
    if shelf.is_one and len(names) == 1:
        return RedirectResponse(f"/c/{quote(names[0], safe='')}/", 307)
    return pages.render(request, "home.html", collections=collections(shelf))


@router.get("/collections", include_in_schema=False)
def all_collections(request: Request, shelf: AllShelf, pages: Render) -> HTMLResponse:
    """All collections, also when there is only one."""
    return pages.render(request, "home.html", collections=collections(shelf))


@router.get(LOGIN_PAGE, include_in_schema=False)
def login_page(request: Request, pages: Render) -> HTMLResponse:
    """A page that signs in with the token after # in its address, or asks for it."""
    return pages.render(request, "login.html")


@router.post(LOGIN_PAGE, include_in_schema=False)
async def login_form(request: Request) -> Response:
    """Sign a browser without JavaScript in."""
    token = form_fields(await request.body()).get("token", "")
    return _signed_in(request, token, RedirectResponse("/", 303))


@router.post(LOGIN, tags=["access"])
def login(request: Request, body: Token) -> Response:
    """Sign a browser in: the response sets its cookie."""
    return _signed_in(request, body.token, JSONResponse({"said": "signed in"}))


def _signed_in(request: Request, token: str, response: Response) -> Response:
    security: Security = request.app.state.security
    security.check_token(request, token)
    response.set_cookie(cookie_name(request), security.new_session(), httponly=True, samesite="strict")
    return response


@router.post("/api/logout", tags=["access"])
def logout(request: Request, _: Annotated[None, Depends(allowed)]) -> Response:
    """Sign out."""
    response = JSONResponse({"said": "signed out"})
    response.delete_cookie(cookie_name(request))
    return response


@router.get("/api/collections", tags=["collections"])
def collections(shelf: AllShelf) -> list[dict[str, Any]]:
    """The collections: their figures, and whether a crawl runs."""
    return [_figures(shelf, name) for name in shelf.names()]


def _figures(shelf: Shelf, name: str) -> dict[str, Any]:
    """The figures of one collection; if it cannot be read now, the reason."""
    report: dict[str, Any] = {
        "name": name,
        "running": False,
        "pages": None,
        "relevant": None,
        "hosts": None,
        "trouble": "",
    }
    try:
        with shelf.reading(name) as collection:
            status = collection.status()
    except CollectionBusy:
        return report | {"trouble": "in use by another process"}
    except OpilioError as error:  # it must not hide the others
        return report | {"trouble": error.message}
    return report | {name: getattr(status, name) for name in ("running", "pages", "relevant", "hosts")}


@router.post("/api/c/{name}/crawl", tags=["crawl"])
def crawl(collection: Writing, body: CrawlBody | None = None) -> dict[str, Any]:
    """Start or continue the crawl of a collection; refused when a limit would end it at once."""
    return {"said": continue_crawl(collection, body.more_pages if body else 0)}


@router.post("/api/c/{name}/rename", tags=["collections"])
def rename(name: str, body: NewName, shelf: AllShelf, _: Annotated[None, Depends(allowed)]) -> dict[str, Any]:
    """Rename a collection, unless a crawl runs in it."""
    to = shelf.rename(name, body.to)
    return {"said": f"{name} is called {to} now", "name": to}


@router.post("/api/c/{name}/delete", tags=["collections"])
def delete(name: str, body: Deletion, shelf: AllShelf, _: Annotated[None, Depends(allowed)]) -> dict[str, Any]:
    """Delete a collection with all its pages, unless a crawl runs in it. This cannot be undone."""
    if body.confirm.strip() != name:
        raise InputError(f"{name} was not deleted", f"To delete it, write its name: {name}")
    shelf.delete(name)
    return {"said": f"{name} is deleted"}


@router.post("/collections", include_in_schema=False)
async def manage_form(request: Request, shelf: AllShelf, _: Annotated[None, Depends(allowed)]) -> Response:
    """Rename or delete a collection, by a form of a browser without JavaScript."""
    given = form_fields(await request.body())
    name = given.get("name", "")
    if "to" in given:
        await anyio.to_thread.run_sync(rename, name, NewName(to=given["to"]), shelf, None)
    else:
        await anyio.to_thread.run_sync(delete, name, Deletion(confirm=given.get("confirm", "")), shelf, None)
    return RedirectResponse("/collections", 303)


class Wish(BaseModel):
    """A new collection: what it is about, where the crawl begins and when it ends."""

    name: str
    bookmarks: str = Field("", max_length=MAX_INPUT_CHARS, description="A browser's bookmark file (HTML), its text.")
    folders: list[str] | None = Field(None, description="Bookmark folders to take; none: all but the browser's own.")
    taxonomy: str = Field("", max_length=MAX_INPUT_CHARS, description="A taxonomy (YAML), its text.")
    query: str = Field("", max_length=2000, description="Words that describe the pages.")
    description: str = Field("", max_length=MAX_INPUT_CHARS, description="Sentences that describe the pages.")
    seeds: list[str] = Field(default=[], description="URLs where the crawl begins.")
    providers: list[str] = Field(
        default=[], description="Services that find pages to start from for the words, each as name=address."
    )
    examples: list[str] = Field(default=[], description="URLs of pages to learn from; the crawl begins there, too.")
    max_pages: int = Field(1000, ge=0, description="Pages to fetch; 0: no limit.")
    max_hours: float | None = Field(None, ge=0, description="Hours to crawl; none: no limit.")
    system: str = Field("", description="The system of a paper: focus, bingo, best-n-first or oasis; empty: Opilio's.")
    contact: str = Field("", description="URL where site owners can reach you.")
    settings: list[str] = Field(default=[], description="Any settings, each as section.key=value.")
    start: bool = Field(True, description="Start the crawl at once.")


class BookmarkFile(BaseModel):
    """A bookmark file that is looked at before a collection is made of it."""

    bookmarks: str = Field(max_length=MAX_INPUT_CHARS, description="A browser's bookmark file (HTML), its text.")
    folders: list[str] | None = Field(None, description="Folders to check; none: all.")
    settings: list[str] = Field(default=[], description="Settings for the check, such as a proxy: section.key=value.")


@router.post("/api/bookmarks", tags=["collections"])
def preview(file: BookmarkFile, _: Annotated[None, Depends(allowed)]) -> dict[str, Any]:
    """The folders of a bookmark file, with the number of bookmarks in each."""
    folders = _folders(file.bookmarks)
    count = sum(folder.bookmarks for folder in folders)
    said = f"{count:,} bookmarks in {len(folders)} folders" if len(folders) > 1 else f"{count:,} bookmarks"
    return {"said": said, "folders": [asdict(folder) for folder in folders]}


def _folders(bookmarks: str) -> list[BookmarkFolder]:
    """The folders of a bookmark file; refuses a file without bookmarks."""
    folders = bookmark_folders(bookmarks)
    if not folders:
        raise InputError("this file has no bookmarks with web addresses", "Export them from the browser as HTML.")
    return folders


@router.post("/api/bookmarks/check", tags=["collections"])
def check(file: BookmarkFile, _: Annotated[None, Depends(allowed)]) -> dict[str, Any]:
    """Fetch the bookmarks once, politely: which are dead, and in which languages the others are."""
    urls = [seed.url for seed in parse_bookmarks(file.bookmarks, file.folders).seeds]
    changes = dict(parse_assignment(line) for line in file.settings if line.strip())
    report = check_bookmarks(urls, override(Settings(), changes, "the check"), max_time_s=CHECK_S)
    said = f"{report.checked:,} bookmarks checked, {len(report.dead):,} dead"
    return {"said": said, **asdict(report)}


@router.get("/settings", include_in_schema=False)
def all_settings(request: Request, pages: Render) -> HTMLResponse:
    """All settings with their defaults."""
    return pages.render(request, "settings.html", settings=to_toml(Settings(), everything=True))


@router.get("/new", include_in_schema=False)
def wizard(request: Request, shelf: AllShelf, pages: Render) -> HTMLResponse:
    """The form."""
    return pages.render(request, "new.html", folder=_shown(shelf.folder), systems=SYSTEMS)


def _shown(folder: Path) -> str:
    """A folder as people write it: with ~ for their home."""
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)


@router.post("/api/collections", tags=["collections"])
def create(wish: Wish, shelf: AllShelf, _: Annotated[None, Depends(allowed)]) -> dict[str, Any]:
    """Make a collection, and start its crawl unless `start` is false."""
    settings = _settings(wish)
    with shelf.making(wish.name) as folder, tempfile.TemporaryDirectory() as inputs:
        collection, answers = _made(wish, settings, folder, Path(inputs))
    topics = [topic["topic"] for topic in collection.topics() if topic["path"]]
    said = f"{folder.name} is made" + (f", with {len(topics)} topics" if topics else "")
    said += "".join(f"; {answer.said}" for answer in answers)
    if wish.start:
        try:
            start_crawl(folder)
        except CollectionError as error:
            raise CollectionError(f"{said}; its crawl did not start: {error.message}", error.hint) from None
    return {"said": said + ("; the crawl runs" if wish.start else ""), "name": folder.name, "topics": topics}


def _made(wish: Wish, settings: Settings, folder: Path, inputs: Path) -> tuple[Collection, list[ProviderAnswer]]:
    """Make the collection; errors do not show the folder of its temporary input files. Also what seed providers
    answered."""
    answers: list[ProviderAnswer] = []
    try:
        files: dict[str, Any] = dict(_files(wish, inputs))
        _check_start(files, wish)
        if "bookmarks" in files:
            _folders(wish.bookmarks)
            files["folders"] = wish.folders
        if "topics" in files:
            _check_taxonomy(files["topics"])
        query, description = wish.query.strip(), wish.description.strip()
        collection = Collection.create(
            folder, query=query, description=description, system=settings.run.system, settings=settings,
            on_answer=answers.append, **files,
        )  # fmt: skip
    except InputError as error:
        raise InputError(error.message.replace(f"{inputs}/", "").replace(str(inputs), "it"), error.hint) from None
    return collection, answers


def _check_start(files: Mapping[str, Path], wish: Wish) -> None:
    """Refuse a wish that names no page to start from, in the words of the form."""
    if files or wish.providers:
        return
    if wish.query.strip() or wish.description.strip():
        raise InputError(
            "the words say what you want, but not where to start",
            "Search for them with a search engine, and add the addresses of a few results under *Where to start*; or "
            "name a search service.",
        )
    raise InputError("there is nothing to start from", "Choose a file, or write the addresses of a few pages.")


def _check_taxonomy(file: Path) -> None:
    """Refuse files as examples: everyone who reads the portal could read these files of this machine."""
    named = [example.value for example in read_taxonomy(file).examples if example.kind is ExampleKind.FILE]
    if named:
        raise InputError(
            f"{Path(named[0]).name}: the portal does not read files of this machine",
            "Give URLs, or `text:` and the text itself.",
        )


def _settings(wish: Wish) -> Settings:
    changes: dict[str, Any] = {"limits.max_pages": wish.max_pages, "run.system": wish.system}
    if wish.max_hours:
        changes["limits.max_time_s"] = wish.max_hours * HOUR_S
    if providers := tuple(filter(None, map(str.strip, wish.providers))):
        changes["seeds.providers"] = providers
    if wish.contact.strip():
        changes["fetch.contact_url"] = wish.contact.strip()
    changes.update(parse_assignment(line) for line in wish.settings if line.strip())
    return override(Settings(), changes, "the new collection")


def _files(wish: Wish, folder: Path) -> dict[str, Path]:
    """The inputs as files, as `Collection.create` takes them."""
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
    """URLs, one on each line; `http://` may be left out."""
    hint = "Write one address on each line, such as https://example.org/"
    return "\n".join(address_of(line, hint) for line in filter(None, map(str.strip, lines)))
