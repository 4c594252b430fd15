"""A portal as files: a static site for any web host or USB stick.

The templates are those of the live portal; links between pages are relative (`SiteLinks` instead of `LiveLinks`), and
everything that needs a server is left out. Files are named by hashes, so no foreign title or address becomes the name
of a file. Every page has a Content-Security-Policy that allows it to load the files of the site and nothing else.

A site is written to a temporary folder and then moved into place, so readers see the old site or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import jinja2

import opilio
from opilio.errors import InputError
from opilio.search.portal import LINKED, PER_PAGE
from opilio.web.browsing import page_values
from opilio.web.front import front_values
from opilio.web.pages import asset, environment

MARKER = "opilio-site.json"
"""This file marks a folder that was made here: only such a folder is replaced."""
PAGES_PER_TOPIC = 100
READ_PAGES = 20
"""How many pages are read at a time."""
FILES = ("opilio.css", "opilio.svg", "published.js")
SCRIPT_SIGNS = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
MAX_TITLE_CHARS = 200

Progress = Callable[[int, int], None]


class Browsed(Protocol):
    """What is published: a `Collection`, or anything that can be browsed like one."""

    def portal(self, days: int = 1) -> dict[str, Any]:
        """See `Collection.portal`."""
        ...

    def topic_pages(
        self, topic: str = "", *, order: str, page: int, own: bool, relevant: bool, per_page: int
    ) -> dict[str, Any]:
        """See `Collection.topic_pages`."""
        ...

    def distill(self, topic: str | None = None, method: str = "weighted", top: int = 20) -> dict[str, Any]:
        """See `Collection.distill`."""
        ...

    def pages(self, urls: Sequence[str]) -> list[dict[str, Any]]:
        """See `Collection.pages`."""
        ...


class SiteLinks:
    """Links within a published portal, relative to one of its pages; '' for what is not published."""

    def __init__(self, to_top: str, topics: dict[str, str], pages: dict[str, str]) -> None:
        self.to_top = to_top
        self._topics, self._pages = topics, pages

    def front(self, days: int = 0) -> str:
        """The front."""
        return f"{self.to_top}index.html"

    def topic(self, topic: str, page: int = 1, **options: Any) -> str:
        """A list of pages of a topic."""
        name = self._topics.get(topic, "")
        return f"{self.to_top}topics/{numbered(name, page)}" if name else ""

    def page(self, url: str) -> str:
        """A page of the collection."""
        name = self._pages.get(url, "")
        return f"{self.to_top}pages/{name}" if name else ""

    def site(self, topic: str, host: str, best: str) -> str:
        """The best page of a topic on a host."""
        return self.page(best)


def numbered(name: str, page: int) -> str:
    """The file of one of the pages of a list."""
    return f"{name}.html" if page == 1 else f"{name}-{page}.html"


def file_name(text: str) -> str:
    """A file name that any file system accepts; the same for the same text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def publish(
    collection: Browsed,
    target: Path | str,
    *,
    name: str,
    pages_per_topic: int = PAGES_PER_TOPIC,
    progress: Progress = lambda done, total: None,
) -> dict[str, int]:
    """Write the portal of a collection to the folder `target`; how many topics and pages are in it.

    Topics with relevant pages are published, each with its best `pages_per_topic`. `progress` is called with the number
    of files written and the total. An existing folder is replaced if it was made by this function, else refused.
    """
    with _replacing(Path(target).resolve()) as folder:  # follow a symbolic link: the site may be elsewhere
        site = _Site(collection, folder, name, pages_per_topic)
        return site.write(progress)


class _Site:
    """Writes the files of one site."""

    def __init__(self, collection: Browsed, folder: Path, name: str, pages_per_topic: int) -> None:
        self._collection, self._folder, self._name, self._most = collection, folder, name, pages_per_topic
        self._environment = environment()
        self._front = collection.portal()
        if not self._front["hubs"] and not self._front["authorities"]:  # no crawl kept a link analysis
            best = collection.distill(top=LINKED)
            self._front |= {"hubs": best["hubs"], "authorities": best["authorities"]}
        self._topics: dict[str, str] = {}
        self._named: dict[str, str] = {}
        """The files of topics by all that lists call them: the root has no path, and goes by its name."""
        self._lists: dict[str, dict[str, Any]] = {}
        self._pages: dict[str, str] = {}
        self._found: dict[str, dict[str, Any]] = {}
        """Every page of a list by its address, as the first list has it."""

    def write(self, progress: Progress) -> dict[str, int]:
        """Read the lists first: they decide what is published, and so what can be linked to."""
        for node in _with_pages(self._front["tree"]):
            self._read_list(node)
        if not self._pages:
            raise InputError(
                "no page of this collection is relevant: there is nothing to publish",
                "Give its topics examples (opilio topics add), and crawl on.",
            )
        root = self._front["tree"]["name"]
        self._named = {root: self._topics[""]} | self._topics
        total = len(self._topics) + len(self._pages)
        for folder in ("topics", "pages"):
            (self._folder / folder).mkdir()
        for done, topic in enumerate(self._topics):
            progress(done, total)
            self._write_list(topic)
        urls = list(self._pages)
        for start in range(0, len(urls), READ_PAGES):
            progress(len(self._topics) + start, total)
            self._write_pages(urls[start : start + READ_PAGES])
        self._write("index.html", "portal.html", "", **front_values(self._front), since_visit=False)
        self._write("search.html", "published_search.html", "")
        self._write_assets()
        progress(total, total)
        return {"topics": len(self._topics), "pages": len(self._pages)}

    def _read_list(self, node: dict[str, Any]) -> None:
        report = self._collection.topic_pages(
            node["topic"], order="confidence", page=1, own=False, relevant=True, per_page=self._most
        )
        report["total"] = min(report["total"], len(report["results"]))
        self._lists[node["topic"]] = report
        self._topics[node["topic"]] = file_name(node["topic"])
        for page in report["results"]:
            self._pages.setdefault(page["url"], f"{file_name(page['url'])}.html")
            self._found.setdefault(page["url"], page)

    def _write_list(self, topic: str) -> None:
        report = self._lists[topic]
        results, last = report["results"], max(1, -(-len(report["results"]) // PER_PAGE))
        for number in range(1, last + 1):
            part = {"results": results[(number - 1) * PER_PAGE : number * PER_PAGE], "page": number, "last_page": last}
            path = f"topics/{numbered(self._topics[topic], number)}"
            self._write(path, "topic.html", "../", **(report | part), analysed=False)

    def _write_pages(self, urls: list[str]) -> None:
        for url, report in zip(urls, self._collection.pages(urls), strict=True):
            if not report["stored"]:
                raise InputError(f"{url}: it was removed while the site was written", "Publish again.")
            self._write(f"pages/{self._pages[url]}", "page.html", "../", **page_values(report))

    def _write(self, path: str, template: str, to_top: str, **values: Any) -> None:
        shown = {
            "name": self._name, "place": "", "base": "published_base.html", "live": False, "choices": (),
            "links": SiteLinks(to_top, self._named, self._pages),
        }  # fmt: skip
        text = _rendered(self._environment, template, {**shown, **values})
        (self._folder / path).write_text(text, encoding="utf-8", errors="replace")

    def _write_assets(self) -> None:
        for name in FILES:
            (self._folder / name).write_bytes(asset(name))
        places = {topic: place for place, topic in enumerate(self._named)}
        rows = [
            [page["title"][:MAX_TITLE_CHARS], url, places.get(page["topic"], -1), self._pages[url]]
            for url, page in self._found.items()
        ]
        index = {"topics": [[topic, f"{name}.html"] for topic, name in self._named.items()], "pages": rows}
        (self._folder / "search-index.js").write_text(f"window.opilioIndex = {script_json(index)};\n", "utf-8")
        about = {"made_by": "opilio publish", "version": opilio.__version__, "name": self._name}
        (self._folder / MARKER).write_text(json.dumps(about) + "\n", "utf-8")


def _rendered(made: jinja2.Environment, template: str, values: dict[str, Any]) -> str:
    return made.get_template(template).render(values)


def _with_pages(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The topics that have relevant pages, from the root down."""
    if node["relevant"]:
        yield node
        for child in node["children"]:
            yield from _with_pages(child)


def script_json(value: Any) -> str:
    """JSON that is safe inside a script, whatever texts are in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "".join(SCRIPT_SIGNS.get(sign, sign) for sign in text).encode("utf-8", "replace").decode()


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A new folder next to `target` that replaces it at the end, or is removed after an error."""
    if target.exists() and not (target / MARKER).is_file():
        raise InputError(
            f"{target}: exists, and was not made by `opilio publish`", "Give a folder that does not exist yet."
        )
    if not target.parent.is_dir():
        raise InputError(f"{target.parent}: no such folder", "Make it first.")
    suffix = secrets.token_hex(4)
    new, old = (target.with_name(f".{target.name[:200]}.{kind}-{suffix}") for kind in ("new", "old"))
    new.mkdir()
    try:
        yield new
        if target.exists():
            target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    finally:
        for folder in (new, old):
            shutil.rmtree(folder, ignore_errors=True)
