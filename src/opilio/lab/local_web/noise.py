"""Pages about nothing in particular, from texts that come with Python: what a focused crawler should leave alone.

Licences, the calendar, lists of words and the descriptions of packages are real text with real links, only not about
any of the topics.
"""

from __future__ import annotations

import ast
import builtins
import calendar
import codecs
import errno
import html.entities
import importlib.metadata
import importlib.util
import keyword
import locale
import os
import site as site_module
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from encodings.aliases import aliases
from html import escape
from pathlib import Path

from opilio.lab.local_web.frame import FramedPage, Site, bullet_list, frame, link
from opilio.lab.local_web.sections import DISTRIBUTIONS
from opilio.lab.local_web.web import WebPage

LICENCES_HOST = "licences.test"
ALMANAC_HOST = "almanac.test"
WORDS_HOST = "words.test"
ZEN_HOST = "zen.test"
PACKAGES_HOST = "packages.test"

MAX_LICENCE_CHARS = 20_000
WORDS_PER_PAGE = 60


@dataclass(frozen=True)
class Text:
    """A page of noise before it is framed: its path, title and HTML."""

    path: str
    title: str
    main: str


def noise_hosts(*, small: bool) -> list[str]:
    """The hosts of noise in a web of this kind."""
    return (
        [LICENCES_HOST, ALMANAC_HOST] if small else [LICENCES_HOST, ALMANAC_HOST, WORDS_HOST, ZEN_HOST, PACKAGES_HOST]
    )


def noise_pages(*, small: bool, footer: tuple[tuple[str, str], ...]) -> Iterator[WebPage]:
    """All pages of the hosts of noise; each host has a front page that leads to the others."""
    makers: dict[str, Callable[[], list[Text]]] = {
        LICENCES_HOST: lambda: _licences([] if small else list(DISTRIBUTIONS)),
        ALMANAC_HOST: lambda: _almanac(range(2024, 2025) if small else range(2016, 2027)),
        WORDS_HOST: _words,
        ZEN_HOST: _zen,
        PACKAGES_HOST: _packages,
    }
    for host in noise_hosts(small=small):
        texts = makers[host]()
        others = tuple((f"http://{other}/", other) for other in noise_hosts(small=small) if other != host)
        site = Site(host, host.removesuffix(".test"), "", footer=(("/", "home"), *others, *footer))
        contents = bullet_list(link(text.path, text.title) for text in texts)
        yield _framed(site, Text("/", f"{site.name.title()}", f"<h1>{escape(site.name.title())}</h1>\n{contents}"), "")
        for place, text in enumerate(texts):
            near = texts[max(0, place - 8) : place + 9]
            yield _framed(site, text, bullet_list(link(other.path, other.title) for other in near))


def _framed(site: Site, text: Text, sidebar: str) -> WebPage:
    url = f"http://{site.host}{text.path}"
    crumbs = (("/", site.name),) if text.path != "/" else ()
    page = FramedPage(url, text.title, text.main, crumbs=crumbs, sidebar=sidebar)
    return WebPage(url, frame(site, page), "", text.title)


def _preformatted(path: str, title: str, text: str) -> Text:
    paragraphs = "\n".join(f"<p>{escape(' '.join(part.split()))}</p>" for part in text.split("\n\n") if part.strip())
    return Text(path, title, f"<h1>{escape(title)}</h1>\n{paragraphs}")


def _licences(distributions: list[str]) -> list[Text]:
    texts = [
        _preformatted("/python-copyright.html", "Copyright of Python", sys.copyright),
        _preformatted("/python.html", "Licence of Python", _python_licence()),
    ]
    for name in distributions:
        for number, text in enumerate(_licence_files(name)):
            suffix = f"-{number + 1}" if number else ""
            texts.append(_preformatted(f"/{name.lower()}{suffix}.html", f"Licence of {name}{suffix}", text))
    return texts


def _python_licence() -> str:
    folders = [Path(os.__file__).parent, Path(os.__file__).parent.parent]
    for file in (folder / name for folder in folders for name in ("LICENSE.txt", "LICENSE")):
        if file.is_file():
            return file.read_text("utf-8", "replace")[:MAX_LICENCE_CHARS]
    return str(getattr(builtins, "credits", "") or site_module.__doc__ or sys.copyright)


def _licence_files(distribution: str) -> list[str]:
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = []
    for file in sorted(files, key=str):
        path = Path(str(file.locate()))
        if "licen" in file.name.lower() and path.suffix in ("", ".txt", ".md", ".rst") and path.is_file():
            found.append(path.read_text("utf-8", "replace")[:MAX_LICENCE_CHARS])
    return found[:4]


def _almanac(years: range) -> list[Text]:
    texts = []
    writer = calendar.HTMLCalendar()
    for year in years:
        for month in range(1, 13):
            title = f"{calendar.month_name[month]} {year}"
            before, after = _month_path(year, month - 1), _month_path(year, month + 1)
            steps = f"<p>{link(before, 'previous month')} {link(after, 'next month')}</p>"
            if (year, month) in ((years[0], 1), (years[-1], 12)):
                steps = ""  # this calendar ends; the endless one is a trap of its own
            texts.append(
                Text(_month_path(year, month), title, f"<h1>{title}</h1>\n{writer.formatmonth(year, month)}\n{steps}")
            )
    return texts


def _month_path(year: int, month: int) -> str:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    return f"/{year}/{month:02}.html"


def _words() -> list[Text]:
    lists: dict[str, list[str]] = {
        "keywords": [*keyword.kwlist, *keyword.softkwlist],
        "builtins": sorted(name for name in dir(builtins) if not name.startswith("_")),
        "entities": sorted(html.entities.html5),
        "encodings": sorted(f"{alias} {name}" for alias, name in aliases.items()),
        "locales": sorted(f"{alias} {name}" for alias, name in locale.locale_alias.items()),
        "errors": sorted(f"{name} {os.strerror(number)}" for number, name in errno.errorcode.items()),
    }
    texts = []
    for kind, words in lists.items():
        for first in range(0, len(words), WORDS_PER_PAGE):
            title = f"List of {kind}, part {first // WORDS_PER_PAGE + 1}"
            items = bullet_list(escape(word) for word in words[first : first + WORDS_PER_PAGE])
            texts.append(Text(f"/{kind}/{first // WORDS_PER_PAGE + 1}.html", title, f"<h1>{title}</h1>\n{items}"))
    return texts


def _zen() -> list[Text]:
    """The verses of the module `this`, read from its file: importing it prints."""
    spec = importlib.util.find_spec("this")
    if spec is None or not spec.origin or not Path(spec.origin).is_file():
        return []
    strings = [
        node.value
        for node in ast.walk(ast.parse(Path(spec.origin).read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    lines = [line for line in codecs.decode(max(strings, key=len), "rot13").splitlines() if line.strip()]
    return [
        Text(f"/verse-{number}.html", f"Verse {number}", f"<h1>Verse {number}</h1>\n<p>{escape(line)}</p>")
        for number, line in enumerate(lines, 1)
    ]


def _packages() -> list[Text]:
    texts = []
    for name in DISTRIBUTIONS:
        try:
            metadata = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        description = str(metadata.json.get("description") or metadata.json.get("summary") or name)
        texts.append(
            _preformatted(f"/{name.lower()}.html", f"About the package {name}", description[:MAX_LICENCE_CHARS])
        )
    return texts
