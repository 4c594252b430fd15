"""CPU time to analyse a page, by stage, with HTML libraries that only take links and text as peers in the same run.

    python -m bench.speed.analyze [--quick] [FOLDER]

FOLDER holds HTML files; without one, pages are made from the documentation of the standard library. All contenders
take turns page by page, so that a busy machine slows all of them alike. The last line is JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pydoc
import sys
import time
from collections.abc import Callable
from pathlib import Path

from opilio.analyze import Analyzer
from opilio.analyze.content import Source
from opilio.analyze.html import read_html
from opilio.analyze.language import language_of
from opilio.analyze.layout import Layout
from opilio.analyze.markup import read_markup
from opilio.analyze.sketch import sketch
from opilio.analyze.targets import Targets
from opilio.analyze.terms import Vocabulary, tokenize
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings

MAX_PAGE_BYTES = 200_000
MODULES = (
    "argparse ast asyncio base64 bisect calendar cmd code codecs collections configparser contextlib copy csv ctypes "
    "dataclasses datetime decimal difflib dis email enum fractions functools gettext glob gzip hashlib heapq hmac html "
    "http.client http.server imaplib inspect io ipaddress itertools json logging mailbox mimetypes multiprocessing "
    "operator optparse os pathlib pdb pickle platform plistlib poplib pprint queue random re sched selectors shelve "
    "shlex shutil smtplib socket sqlite3 ssl statistics string struct subprocess tarfile tempfile textwrap threading "
    "timeit tokenize trace traceback turtle typing unittest urllib.parse urllib.request uuid wave weakref zipfile"
)

Contender = Callable[[bytes, str], object]


def pages_of(folder: Path | None, most: int) -> list[tuple[bytes, str]]:
    """Pages with their URLs, spread over 20 hosts."""
    if folder is None:
        renderer = pydoc.HTMLDoc()
        made = (
            renderer.page(name, renderer.docmodule(importlib.import_module(name))).encode() for name in MODULES.split()
        )
    else:
        made = (path.read_bytes() for path in sorted(folder.rglob("*.htm*")) if path.is_file())
    chosen = [body for body in made if 2_000 < len(body) < MAX_PAGE_BYTES]
    chosen = chosen[:: max(1, len(chosen) // most)][:most]
    return [(body, f"https://host{number % 20}.test/docs/page{number}.html") for number, body in enumerate(chosen)]


def stages() -> dict[str, Contender]:
    """The whole analysis, and each stage of it by itself on input prepared before."""
    analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
    targets, vocabulary = Targets(), Vocabulary()
    prepared: dict[str, tuple[object, ...]] = {}

    def source(url: str) -> Source:
        return Source(url, "utf-8", targets, 2000)

    def content(body: bytes, url: str):  # type: ignore[no-untyped-def]
        if url not in prepared:
            page = read_markup(body, "utf-8", 2000)
            made = read_html(body, source(url))
            words = tokenize(made.text)
            prepared[url] = (page, made, words, vocabulary.numbers(words, "en"))
        return prepared[url]

    def layout(body: bytes, url: str) -> object:
        page = content(body, url)[0]
        laid_out = Layout(page.text, page.regions, page.link_spans)
        return laid_out.text, laid_out.main_text

    return {
        "all": lambda body, url: analyzer.analyze(body, "text/html; charset=utf-8", url),
        "parse and render": lambda body, url: read_markup(body, "utf-8", 2000),
        "read (parse, layout, links)": lambda body, url: read_html(body, source(url)),
        "layout": layout,
        "language": lambda body, url: language_of(content(body, url)[1].main_text),
        "words": lambda body, url: vocabulary.numbers(tokenize(content(body, url)[1].text), "en"),
        "terms": lambda body, url: vocabulary.terms(content(body, url)[3]),
        "sketch": lambda body, url: sketch(content(body, url)[3]),
    }


def peers() -> dict[str, Contender]:
    """Libraries that take links and text of a page, as far as they are installed."""
    found: dict[str, Contender] = {}
    for name, make in {"lxml": _lxml, "selectolax": _selectolax, "bs4": _bs4}.items():
        try:
            found[f"peer {name}"] = make()
        except ImportError:
            print(f"peer {name}: not installed, left out", file=sys.stderr)
    return found


def _lxml() -> Contender:
    html = importlib.import_module("lxml.html")

    def read(body: bytes, url: str) -> object:
        tree = html.document_fromstring(body)
        return [(a.get("href"), a.text_content()) for a in tree.iter("a")], tree.text_content()

    return read


def _selectolax() -> Contender:
    parser = importlib.import_module("selectolax.lexbor").LexborHTMLParser

    def read(body: bytes, url: str) -> object:
        tree = parser(body)
        return [(a.attributes.get("href"), a.text()) for a in tree.css("a")], tree.body.text() if tree.body else ""

    return read


def _bs4() -> Contender:
    soup = importlib.import_module("bs4").BeautifulSoup

    def read(body: bytes, url: str) -> object:
        tree = soup(body, "html.parser")
        return [(a.get("href"), a.get_text()) for a in tree.find_all("a")], tree.get_text()

    return read


def measure(contenders: dict[str, Contender], pages: list[tuple[bytes, str]], rounds: int) -> dict[str, float]:
    """Milliseconds of CPU a page of each contender: the best of some rounds, after one to warm up."""
    best: dict[str, float] = {}
    for round_number in range(rounds + 1):
        spent_s = dict.fromkeys(contenders, 0.0)
        for body, url in pages:
            for name, read in contenders.items():
                started_s = time.process_time()
                read(body, url)
                spent_s[name] += time.process_time() - started_s
        if round_number:
            for name, seconds in spent_s.items():
                best[name] = min(best.get(name, float("inf")), seconds / len(pages) * 1000)
    return best


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", nargs="?", type=Path)
    arguments.add_argument("--quick", action="store_true")
    options = arguments.parse_args()
    pages = pages_of(options.folder, 40 if options.quick else 300)
    if not pages:
        sys.exit(f"{options.folder}: no HTML files of 2 to {MAX_PAGE_BYTES // 1000} kB")
    analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
    documents = [analyzer.analyze(body, "text/html", url) for body, url in pages]
    links = sum(len(document.links) for document in documents if document) / len(pages)
    size_bytes = sum(len(body) for body, _ in pages) / len(pages)
    print(f"{len(pages)} pages of {size_bytes / 1000:.1f} kB with {links:.0f} links on average; ms CPU a page")
    figures = measure(stages() | peers(), pages, 3 if options.quick else 7)
    for name, milliseconds in figures.items():
        print(f"  {name:30} {milliseconds:8.3f}")
    result = {"bench": "analyze", "pages": len(pages), "page_bytes": round(size_bytes), "links": round(links, 1)}
    print(json.dumps(result | {"ms_cpu_a_page": {name: round(ms, 4) for name, ms in figures.items()}}))


if __name__ == "__main__":
    main()
