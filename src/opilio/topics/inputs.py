"""What a user gives a collection to start from: bookmarks, a taxonomy, lists of URLs and examples, a query.

Bookmark files are those that Firefox, Chrome, Safari and Edge export. Folders become topics; each bookmark is a seed
and an example of its folder's topic (BINGO demo). Bookmarks in a folder called OTHERS are negative examples of the
folder that contains it. The format is HTML with unclosed tags: <DT><H3>folder</H3><DL><p> ... </DL>. Only the order of
a few tags matters, so an event parser reads it. Folders that browsers create themselves, such as the bookmarks bar, are
not topics, but the folders in them are. Folders that browsers fill themselves, with links to their maker's pages, are
left out unless the user names them.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import re
import shlex
from collections.abc import Container, Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from opilio.errors import InputError
from opilio.model import host_of, normalize, registered_domain
from opilio.topics.examples import read_examples
from opilio.topics.hierarchy import ROOT
from opilio.topics.taxonomy import read_taxonomy
from opilio.topics.tree import MAX_DEPTH, OTHERS, SEPARATOR, ExampleKind, TopicTree, clean_name, words_of

_CONTAINER_ATTRIBUTES = {"personal_toolbar_folder", "unfiled_bookmarks_folder"}
_CONTAINER_NAMES = {
    "bookmarks", "bookmarks bar", "bookmarks toolbar", "bookmarks menu", "other bookmarks", "mobile bookmarks",
    "favorites", "favorites bar", "imported", "reading list",
}  # fmt: skip
_BROWSER_FOLDERS = {
    "mozilla firefox", "firefox", "mozilla foundation", "google chrome", "chrome", "apple", "microsoft edge",
    "microsoft websites", "msn websites", "windows live", "links for united states", "ubuntu and free software links",
    "debian", "opera", "vivaldi", "brave",
}  # fmt: skip
_BOOKMARK_FILE = re.compile(r"\s*<!doctype\s+netscape-bookmark-file", re.IGNORECASE)
SAMPLE_TITLES = 3
"""How many titles stand for a folder in a preview."""
NAME_WORDS = 8
"""A topic that has only a description is called by so many words of it."""
_HTML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype|!--|html|head|body|dl|\?xml)", re.IGNORECASE)
_SAVED_FROM = re.compile(r"saved from url=\(\d+\)(\S+)")
_SEARCH_ENGINES = {"aol", "ask", "baidu", "bing", "duckduckgo", "ecosia", "google", "startpage", "yahoo", "yandex"}
_REDIRECT_PARAMETERS = {"q", "u", "uddg", "url"}
_YAHOO_TARGET = re.compile(r"/RU=([^/]+)")
_META_CHARSET = re.compile(rb"charset=[\"']?([\w-]+)", re.IGNORECASE)


@dataclass(frozen=True)
class BookmarkFolder:
    """A folder of a bookmark file, as a preview shows it."""

    path: str
    """Names joined by ' / '; '' for the bookmarks outside all folders."""
    bookmarks: int
    """Without those of the folders in it, and without its counter-examples."""
    titles: tuple[str, ...]
    """Of the first bookmarks."""
    by_browser: bool
    """Whether a browser filled it itself."""


def read_bookmarks(path: Path, folders: Iterable[str] | None = None) -> TopicTree:
    """The topic tree of the chosen folders of a bookmark file; None: all but those that a browser filled itself."""
    text = bookmark_text(path)
    if folders is None:
        chosen = [folder.path for folder in bookmark_folders(text) if not folder.by_browser]
    else:
        chosen = list(folders)
    tree = parse_bookmarks(text, chosen)
    if not tree.seeds:
        raise InputError(
            f"{path}: no bookmark with an http(s) address found" + (" in these folders" if chosen else ""),
            "Export the bookmarks as HTML from the browser's bookmark manager; for a plain list of URLs use --seeds. "
            f"`opilio bookmarks {shlex.quote(str(path))}` lists the folders of a file.",
        )
    return tree


def bookmark_text(path: Path) -> str:
    """The text of a bookmark file."""
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "Give the bookmark file your browser exported.") from None


def bookmark_folders(text: str) -> list[BookmarkFolder]:
    """The folders of a bookmark file that have bookmarks of their own, in their order."""
    tree = parse_bookmarks(text)
    titles: dict[int, list[str]] = {}
    for seed in tree.seeds:
        titles.setdefault(seed.kcid, []).append(seed.title or seed.url)
    return [
        BookmarkFolder(
            topic.path, len(titles[topic.kcid]), tuple(titles[topic.kcid][:SAMPLE_TITLES]), _is_by_browser(topic.path)
        )
        for topic in tree.topics
        if topic.kcid in titles
    ]


def _is_by_browser(path: str) -> bool:
    return not _BROWSER_FOLDERS.isdisjoint(path.lower().split(SEPARATOR))


def chosen_folders(text: str, names: Iterable[str]) -> list[str]:
    """The paths of the folders that are named, by their whole path or its last name, with all folders in them."""
    known = [folder.path for folder in bookmark_folders(text)]
    parents = {SEPARATOR.join(path.split(SEPARATOR)[:depth]) for path in known for depth in range(1, MAX_DEPTH + 1)}
    chosen: set[str] = set()
    for name in map(clean_name, names):
        named = [path for path in parents if path and name in (path.replace(SEPARATOR, "/"), path.split(SEPARATOR)[-1])]
        if not named:
            listed = ", ".join(path for path in known if path)
            raise InputError(f"no folder {name!r} among the bookmarks", f"There are: {listed or 'no folders'}.")
        chosen.update(path for path in known if any(path == one or path.startswith(one + SEPARATOR) for one in named))
    return [path for path in known if path in chosen]


def decode(data: bytes) -> str:
    """Decode a bookmark file by its byte-order mark, else its declared charset, else as UTF-8, else as Windows-1252."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    declared = [match[1].decode("ascii") for match in _META_CHARSET.finditer(data[:2048])]
    for encoding in [*declared[:1], "utf-8"]:
        try:
            return data.decode(encoding)
        except (UnicodeError, LookupError):
            continue
    return data.decode("cp1252", "replace")


def parse_bookmarks(text: str, folders: Iterable[str] | None = None) -> TopicTree:
    """The topic tree of the text of a bookmark file, of all or some folders; empty when it has no bookmarks."""
    reader = _Reader(folders)
    with contextlib.suppress(AssertionError):  # raised by Python's parser for a broken <![ ... section
        reader.feed(text)
        reader.close()
    reader.end_bookmark()
    return reader.tree


class _Reader(HTMLParser):
    """Follows <h3>, <dl> and <a>, and ignores everything else."""

    def __init__(self, folders: Iterable[str] | None) -> None:
        super().__init__(convert_charrefs=True)
        self.tree = TopicTree("bookmarks")
        self._folders = None if folders is None else frozenset(folders)
        self._open: list[str | None] = []  # one entry per open <dl>; None for a browser's own folder
        self._pending: str | None = None  # the folder whose <dl> comes next
        self._is_container = False
        self._href: str | None = None
        self._text: list[str] = []
        self._in_heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.end_bookmark()
            self._href = dict(attrs).get("href") or ""
            self._text = []
        elif tag == "h3":
            self.end_bookmark()
            self._in_heading, self._text = True, []
            self._is_container = any(name in _CONTAINER_ATTRIBUTES for name, _ in attrs)
        elif tag == "dl":
            self.end_bookmark()
            self._open.append(self._pending)
            self._pending = None

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self.end_bookmark()
        elif tag == "h3" and self._in_heading:
            name = clean_name("".join(self._text))
            container = self._is_container or name.lower() in _CONTAINER_NAMES
            self._pending = None if container or not name else name
            self._in_heading = False
        elif tag == "dl":
            self.end_bookmark()
            if self._open:
                self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._in_heading or self._href is not None:
            self._text.append(data)

    def end_bookmark(self) -> None:
        """Add the open bookmark, if there is one: its </a> was read, or is missing."""
        if self._href is None:
            return
        url = normalize(self._href.strip())
        title = "".join(self._text)
        self._href = None
        if url:
            self._take(url, title)

    def _take(self, url: str, title: str) -> None:
        names = [name for name in self._open if name]
        wanted = OTHERS not in names
        if not wanted:
            names = names[: names.index(OTHERS)]
        names = names[:MAX_DEPTH]
        if self._folders is not None and SEPARATOR.join(names) not in self._folders:
            return
        topic = self.tree.topic(tuple(names))
        with contextlib.suppress(InputError):  # both in the folder and in its OTHERS: the first one counts
            self.tree.add_example(topic, ExampleKind.URL, url, positive=wanted, title=title)
        if wanted:
            self.tree.add_seed(topic, url, title)


def _is_bookmark_file(path: Path) -> bool:
    """Whether a file says that a browser exported it; one that cannot be read is reported by its reader."""
    try:
        with path.open("rb") as file:
            return _BOOKMARK_FILE.match(decode(file.read(1024))) is not None
    except OSError:
        return False


def read_seeds(path: Path, tree: TopicTree) -> int:
    """Add the URLs of a text file, one per line, to the root of `tree`; blank lines and # comments are skipped.

    A title may follow the URL. Of an HTML file, such as saved search results, all links to pages are taken. Returns the
    number of new seeds.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "Give a text file with one URL on each line.") from None
    if _HTML.match(data):
        return _read_linked_seeds(path, decode(data), tree)
    lines = data.decode("utf-8-sig", "replace").splitlines()
    added, usable, bad = 0, 0, ""
    for number, line in enumerate(lines, 1):
        words = line.split(maxsplit=1)
        if not words or words[0].startswith("#") or (number == 1 and words == ["url"]):  # the head of a column
            continue
        url = normalize(words[0] if "://" in words[0] else f"http://{words[0]}")
        if not url:
            bad = bad or f"line {number}: {words[0][:80]!r} is not an http(s) URL"
            continue
        usable += 1
        added += tree.add_seed(tree.topics[ROOT], url, words[1] if len(words) > 1 else "")
    if not usable:  # URLs that the tree already has as examples are fine
        raise InputError(f"{path}: no usable URL" + (f" ({bad})" if bad else ""), "Write one URL on each line.")
    return added


def _read_linked_seeds(path: Path, html: str, tree: TopicTree) -> int:
    """Add the targets of all links in an HTML page, but those to the site that the page was saved from.

    The words of the links do not become keywords: they would drown those of a query.
    """
    reader = _LinkReader()
    with contextlib.suppress(AssertionError):  # raised by Python's parser for a broken <![ ... section
        reader.feed(html)
        reader.close()
    saved_from = _SAVED_FROM.search(html)
    own = {registered_domain(host_of(url)) for url in (reader.base, saved_from[1] if saved_from else "") if url}
    linked = (_linked_page(link, own) for link in reader.links)
    found = [url for url in linked if url and registered_domain(host_of(url)) not in own]
    if not found:
        raise InputError(
            f"{path}: no link to a page of another site found", "Save the page of results as HTML, or list URLs."
        )
    return sum(tree.add_seed(tree.topics[ROOT], url) for url in found)


class _LinkReader(HTMLParser):
    """Collects the targets of links, and the address that they are relative to."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = (dict(attrs).get("href") or "").strip()
        if tag == "a" and target:
            self.links.append(target)
        elif tag == "base":
            self.base = self.base or normalize(target)


def _linked_page(target: str, own: Container[str]) -> str:
    """The URL of the page that a link leads to; '' if it is none.

    Search engines link through addresses of their own, which have the page as a parameter; `own` are the domains of the
    page with the link. Elsewhere a URL in a parameter means something else: a button that shares a page has one, too.
    """
    url = normalize(f"https:{target}" if target.startswith("//") else target)
    domain = registered_domain(host_of(url)) if url else ""
    if not url or domain in own or domain.partition(".")[0] in _SEARCH_ENGINES:
        return _redirect_target(target) or url
    return url


def _redirect_target(target: str) -> str:
    """The URL of the page in a redirect of a search engine; '' if there is none."""
    path, _, query = target.partition("?")
    values = [value for name, value in parse_qsl(query) if name in _REDIRECT_PARAMETERS]
    if in_path := _YAHOO_TARGET.search(path):
        values.append(unquote(in_path[1]))
    for value in values:
        encoded = value.removeprefix("a1") if value.startswith("a1") else ""  # Bing: a1 and base64
        with contextlib.suppress(ValueError):
            decoded = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
            value = decoded or value  # noqa: PLW2901
        if value.startswith(("http://", "https://")) and (url := normalize(value)):
            return url
    return ""


def query_topic(query: str, tree: TopicTree) -> None:
    """Make the words of `query` the keywords of the root topic, and a virtual training document (BINGO 5.3)."""
    words = words_of(query)
    if not words:
        raise InputError(f"--query {query!r}: contains no word", "Give words that describe the pages you want.")
    root = tree.topics[ROOT]
    root.name = clean_name(query)
    root.keywords = words + root.keywords
    tree.add_example(root, ExampleKind.TEXT, query)


def describe_topic(description: str, tree: TopicTree) -> None:
    """Make sentences a virtual training document of the root topic; without a query their words are its keywords."""
    words = words_of(description)
    if not words:
        raise InputError(f"--description {description!r}: contains no word", "Describe the pages you want.")
    root = tree.topics[ROOT]
    root.description = description.strip()
    if not root.keywords:
        root.name = clean_name(" ".join(description.split()[:NAME_WORDS]))
        root.keywords = words
    tree.add_example(root, ExampleKind.TEXT, description)


def read_inputs(
    bookmarks: Path | str | None = None,
    seeds: Path | str | None = None,
    query: str = "",
    examples: Path | str | None = None,
    topics: Path | str | None = None,
    description: str = "",
    folders: Iterable[str] | None = None,
) -> TopicTree:
    """The topic tree made of all inputs. `folders` are those of the bookmarks; a file of seeds that is a bookmark file
    is taken as one."""
    if seeds and not bookmarks and not topics and _is_bookmark_file(Path(seeds)):
        bookmarks, seeds = seeds, None
    if folders is not None and not bookmarks:
        raise InputError("folders are chosen, but no bookmarks are given", "Give the bookmark file as well.")
    if bookmarks and topics:
        raise InputError(
            "both bookmarks and a taxonomy are given", "Make the collection from one, then add the other to it."
        )
    tree = TopicTree()
    if bookmarks:
        tree = read_bookmarks(Path(bookmarks), folders)
    elif topics:
        tree = read_taxonomy(Path(topics))
    if seeds:
        read_seeds(Path(seeds), tree)
    if examples:
        read_examples(Path(examples), tree)
    if query:
        query_topic(query, tree)
    if description:
        describe_topic(description, tree)
    return tree
