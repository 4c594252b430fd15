"""What a recorded web is made from: collections, WARC files, labelled corpora, folders of HTML files.

WARC files may be of any origin, compressed record by record, as a whole, or not at all. A revisit record stands for an
answer whose body is in another record, perhaps of another file: when there are any, all files are read once more for
the bodies that they name. Corpora (JSON lines) and folders of HTML hold pages without their servers.

A corpus of a single site can be spread over many hosts, to be crawled like a web of many. Which host a page goes to
follows from its path alone, so links can be rewritten without knowing all pages. Links in HTML become absolute; what is
no HTML, or names its pages in a script, is left as it is.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import html
import io
import json
import mimetypes
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import quote

import zstandard

from opilio.errors import InputError
from opilio.fetch.decoding import CodingError, Decoder, codings_of
from opilio.fetch.headers import parse_headers, status_of
from opilio.lab.webs.recorded import RecordedWeb, is_web
from opilio.lab.webs.recording import RecordedAnswer, head_of, is_replayable, recording
from opilio.model import RELEVANT, host_of, normalize
from opilio.model.url import path_of
from opilio.store import Store
from opilio.store.connection import FILE_NAME as DATABASE_NAME
from opilio.store.warc import OUTCOME_FIELD

MAX_BODY_BYTES = 64 * 2**20
_ROBOTS = "/robots.txt"
_TAG = re.compile(
    r"""<(?:a|area|base|frame|iframe|link|meta)\s(?:[^>"']++|"[^"]*"|'[^']*'|["'])*+>""", re.IGNORECASE
)  # a quote that is never closed is a letter like any other
_ATTRIBUTE = re.compile(r"""(\s(?:href|src)\s*=\s*)("[^"]*"|'[^']*'|[^\s>"']+)""", re.IGNORECASE)
_BASE = re.compile(r"""<base\s[^>]*href\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+)""", re.IGNORECASE)
_REFRESH = re.compile(r"""(\scontent\s*=\s*["']\s*[\d.]+\s*[;,]\s*url\s*=\s*)([^"']+)""", re.IGNORECASE)
_LOCATION = re.compile(rb"^(location:[ \t]*)([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_ENCODING = re.compile(rb"^content-encoding:[^\n]*\n", re.IGNORECASE | re.MULTILINE)


class HostSpread:
    """Puts the pages of the first host it meets on `hosts` hosts below .test, a name that belongs to nobody."""

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts
        self._digits = len(str(hosts - 1))
        self._host = ""

    def url(self, url: str) -> str:
        """The new URL of a URL in normal form."""
        if host_of(url) != self._host:
            return url
        path = path_of(url)
        return self._on(zlib.crc32(path.encode()) % self.hosts) + path

    def answers(self, answer: RecordedAnswer) -> Iterator[RecordedAnswer]:
        """The answer at its new place, with links that lead to the new places; robots.txt stands on every host."""
        url = normalize(answer.url)
        if not url:
            return
        self._host = self._host or host_of(url)
        if path_of(url) == _ROBOTS and host_of(url) == self._host:
            for i in range(self.hosts):
                yield answer._replace(url=self._on(i) + _ROBOTS)
            return
        head = _LOCATION.sub(
            lambda found: found[1] + self._moved(found[2].decode("latin-1"), url).encode(), answer.head
        )
        headers = parse_headers(head.splitlines()[1:])
        body = answer.body
        if body and "html" in headers.get("content-type", "html").lower():
            plain = _decoded(body, headers.get("content-encoding", ""))
            if plain is not None:
                head, body = _ENCODING.sub(b"", head), self._rewritten(plain, url)
        yield answer._replace(url=self.url(url), head=head, body=body)

    def _on(self, host: int) -> str:
        old = re.sub(r"[^a-z0-9]+", "-", self._host).strip("-")
        return f"http://{old}-{host:0{self._digits}}.test"

    def _moved(self, href: str, base: str) -> str:
        """A link's new address; itself when it leads to no page. A page on another host needs its host's name."""
        href = href.strip()
        target = normalize(href, base) if href and not href.startswith("#") else ""
        if not target or host_of(target) != self._host:
            return href
        fragment = href.partition("#")[2]
        return self.url(target) + (f"#{fragment}" if fragment else "")

    def _rewritten(self, body: bytes, url: str) -> bytes:
        charset = "utf-8"
        try:
            text = body.decode()
        except UnicodeDecodeError:
            charset = "latin-1"
            text = body.decode("latin-1")
        named = _BASE.search(text)
        base = (normalize(html.unescape(named[1].strip("\"' ")), url) if named else "") or url

        def attribute(found: re.Match[str]) -> str:
            moved = self._moved(html.unescape(found[2].strip("\"'")), base)
            return f'{found[1]}"{html.escape(moved)}"'

        def refresh(found: re.Match[str]) -> str:
            return found[1] + html.escape(self._moved(html.unescape(found[2]), base))

        def tag(found: re.Match[str]) -> str:
            is_meta = found[0][1:5].lower() == "meta"
            return _REFRESH.sub(refresh, found[0]) if is_meta else _ATTRIBUTE.sub(attribute, found[0])

        return _TAG.sub(tag, text).encode(charset, "xmlcharrefreplace")


def _decoded(body: bytes, encoding: str) -> bytes | None:
    """A body without its content encodings; None when they cannot be undone."""
    codings = codings_of(encoding)
    if not codings:
        return body
    decoder = Decoder(codings, MAX_BODY_BYTES)
    try:
        if not decoder.feed(body):
            return None
        decoder.finish()
    except CodingError:
        return None
    return decoder.body


MAX_WINDOW_BYTES = 2**28  # corpora are packed with long windows
CORPUS_SUFFIXES = (".jsonl.zst", ".jsonl")
MAP_NAMES = {"urls.tsv": "\t", "urls.csv": ","}
PAGE_SUFFIXES = frozenset({".html", ".htm", ".xhtml", ".txt", ".pdf"})
_NOT_OF_TEXT = ("content-type", "content-length", "content-encoding", "transfer-encoding")
MAX_RECORD_BYTES = 256 * 2**20  # what says it is longer is skipped: no crawl would take it
_MAX_LINE_BYTES = 2**16
_GZIP_MAGIC = b"\x1f\x8b"
WARC_SUFFIXES = (".warc", ".warc.gz")
PROGRESS_EVERY_S = 0.1
_JUDGED_TOPICS = "SELECT url, topic FROM collection WHERE topic <> '' AND relevance >= ?"


def is_corpus(path: Path) -> bool:
    """Whether a file is one of JSON lines."""
    return path.name.endswith(CORPUS_SUFFIXES)


def corpus_answers(path: Path) -> Iterator[RecordedAnswer]:
    """The pages (`url`, `html`, `topics` ...) and redirects (`from`, `to`) of a file of JSON lines."""
    for number, line in enumerate(_lines(path), 1):
        try:
            record = json.loads(line)
            answer = _redirect(record) if "from" in record and "html" not in record else _page(record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}, line {number}: not a page: {type(error).__name__} {error}",
                'A line is an object with "url" and "html", or with "from" and "to".',
            ) from None
        yield answer


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            if path.suffix == ".zst":
                stream = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).stream_reader(file)
                yield from io.TextIOWrapper(stream, encoding="utf-8")
            else:
                yield from io.TextIOWrapper(file, encoding="utf-8")
    except (zstandard.ZstdError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}", "It should be JSON lines in UTF-8.") from None


def _page(record: dict[str, Any]) -> RecordedAnswer:
    """A page of a corpus is text, so it is served as UTF-8, and its head says so."""
    body = str(record["html"]).encode("utf-8", "replace")
    given = record.get("headers") or ""
    lines = given.items() if isinstance(given, dict) else (line.partition(":")[::2] for line in given.splitlines())
    headers = [(name.strip(), value.strip()) for name, value in lines if value]
    declared = next((value for name, value in headers if name.lower() == "content-type"), "")
    media_type = (declared or record.get("content_type") or "text/html").partition(";")[0].strip()
    kept = [(name, value) for name, value in headers if name.lower() not in _NOT_OF_TEXT]
    head = head_of(int(record.get("status", 200)), [*kept, ("Content-Type", f"{media_type}; charset=utf-8")])
    return RecordedAnswer(str(record["url"]), head, body, tuple(map(str, record.get("topics") or ())))


def _redirect(record: dict[str, Any]) -> RecordedAnswer:
    target = normalize(str(record["to"]))
    return RecordedAnswer(str(record["from"]), head_of(int(record.get("status", 301)), [("Location", target)]), b"")


def has_html(folder: Path) -> bool:
    """Whether `folder` has HTML files, or says by a map which files are pages."""
    return any((folder / name).is_file() for name in MAP_NAMES) or next(_files(folder), None) is not None


def html_answers(folder: Path, base_url: str = "", label_folders: bool = False) -> Iterator[RecordedAnswer]:
    """The files of a folder, by its map `urls.tsv` or `urls.csv` or as they would stand below `base_url`."""
    for name, delimiter in MAP_NAMES.items():
        if (folder / name).is_file():
            yield from _mapped(folder, folder / name, delimiter)
            return
    base = normalize(base_url)
    if not base:
        raise InputError(
            f"{folder}: HTML files, and nothing says what their URLs are",
            "Give --base-url http://HOST/, or a file urls.tsv with the columns file, url and topics.",
        )
    base = base[: base.rindex("/") + 1]
    for path in _files(folder):
        place = path.relative_to(folder)
        url = base + quote(place.as_posix())
        topics = (place.parent.as_posix(),) if label_folders and place.parent.parts else ()
        yield _file(path, url, topics)
        if place.stem == "index":
            yield RecordedAnswer(url[: url.rindex("/") + 1], head_of(301, [("Location", url)]), b"")


def _mapped(folder: Path, map_file: Path, delimiter: str) -> Iterator[RecordedAnswer]:
    with map_file.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter=delimiter)
        if not {"file", "url"} <= set(reader.fieldnames or ()):
            raise InputError(
                f"{map_file}: its first line must name the columns file and url",
                "Separate columns as the name of the file says; a column topics may follow, several topics as a|b.",
            )
        for row in reader:
            where = f"{map_file}, line {reader.line_num}"
            if not normalize(row["url"] or ""):
                raise InputError(f"{where}: {row['url']!r} is not an http URL", "Write it like http://host/path.")
            path = folder / row["file"]
            if not path.is_file():
                raise InputError(f"{where}: there is no file {row['file']}", "Files are looked for next to the map.")
            topics = (row.get("topics") or "").split("|")
            yield _file(path, row["url"], tuple(topic.strip() for topic in topics if topic.strip()))


def _files(folder: Path) -> Iterator[Path]:
    """The pages below a folder in their order; hidden files, and links that may lead anywhere, are left out."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in PAGE_SUFFIXES and not hidden and path.is_file() and not path.is_symlink():
            yield path


def _file(path: Path, url: str, topics: tuple[str, ...]) -> RecordedAnswer:
    media_type = mimetypes.guess_type(path.name)[0] or "text/html"
    return RecordedAnswer(url, head_of(200, [("Content-Type", media_type)]), path.read_bytes(), topics)


class _Record(NamedTuple):
    fields: dict[str, str]
    block: bytes

    @property
    def url(self) -> str:
        return self.fields.get("warc-target-uri", "").strip("<>")

    @property
    def date(self) -> str:
        return self.fields.get("warc-date", "")

    @property
    def digest(self) -> str:
        return self.fields.get("warc-payload-digest", "")


class WarcSource:
    """The answers of WARC files. After reading, `damaged` and `lost_revisits` say what could not be had."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = list(paths)
        self.damaged: list[Path] = []
        """Files that could be read to some point only."""
        self.lost_revisits = 0
        """Revisits of a body that is in none of the files."""

    def answers(self) -> Iterator[RecordedAnswer]:
        """All answers, in the order of the files; revisits last."""
        revisits: dict[str, list[RecordedAnswer]] = {}
        for record in self._records():
            if record.fields.get("warc-type") == "revisit":
                head = record.block.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
                if is_replayable(status_of(head)):  # else: not modified, and what was there stands
                    answer = RecordedAnswer(record.url, head, b"", date_s=_seconds(record.date))
                    revisits.setdefault(_revisited(record), []).append(answer)
                continue
            yield from _answer(record)
        if revisits:
            yield from self._revisits(revisits)

    def _revisits(self, revisits: dict[str, list[RecordedAnswer]]) -> Iterator[RecordedAnswer]:
        for record in self._records():
            if record.fields.get("warc-type") != "response":
                continue
            for key in (record.digest, f"{record.url} {record.date}", f"{record.url} "):
                for waiting in revisits.pop(key, ()) if key else ():
                    for found in _answer(record):
                        yield waiting._replace(body=found.body)
        self.lost_revisits = sum(map(len, revisits.values()))

    def _records(self) -> Iterator[_Record]:
        self.damaged = []
        for path in self.paths:
            try:
                with _opened(path) as stream:
                    yield from _read(stream)
            except (EOFError, zlib.error, gzip.BadGzipFile, ValueError):
                self.damaged.append(path)


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP_MAGIC
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")


def _read(stream: BinaryIO) -> Iterator[_Record]:
    """Record after record; raises ValueError or EOFError where the file is damaged."""
    while line := stream.readline(_MAX_LINE_BYTES):
        if not line.strip():
            continue
        if not line.startswith(b"WARC/"):
            raise ValueError("no record here")
        fields: dict[str, str] = {}
        while (line := stream.readline(_MAX_LINE_BYTES)).strip():
            name, _, value = line.decode("utf-8", "replace").partition(":")
            fields[name.strip().lower()] = value.strip()
        length = int(fields.get("content-length", ""))
        if length > MAX_RECORD_BYTES:
            _skip(stream, length)
            continue
        block = stream.read(length)
        if len(block) < length:
            raise EOFError
        if fields.get("warc-type") in ("response", "resource", "revisit"):
            yield _Record(fields, block)


def _skip(stream: BinaryIO, length: int) -> None:
    while length > 0:
        piece = stream.read(min(length, 2**20))
        if not piece:
            raise EOFError
        length -= len(piece)


def _answer(record: _Record) -> Iterator[RecordedAnswer]:
    if OUTCOME_FIELD.lower() in record.fields:  # only the head is there: the crawl refused it, or it broke off
        return
    content_type = record.fields.get("content-type", "")
    head, body = b"", record.block
    if record.fields["warc-type"] == "resource":
        head = head_of(200, [("Content-Type", content_type)] if content_type else [])
    elif content_type.startswith("application/http"):
        head, body = _split(record.block)
    if status_of(head):
        yield RecordedAnswer(record.url, head, body, date_s=_seconds(record.date))


def _split(block: bytes) -> tuple[bytes, bytes]:
    """Head and body of a recorded answer; chunks are put together."""
    head, blank, body = block.partition(b"\r\n\r\n")
    if not blank:
        head, _, body = block.partition(b"\n\n")
    headers = parse_headers(head.splitlines()[1:])
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _unchunked(body)
    return head + b"\r\n\r\n", body


def _unchunked(body: bytes) -> bytes:
    """The data of a chunked body; the body itself when it is not chunked, as many archives undo it."""
    pieces: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\n", at, at + 100)
        size = body[at:end].partition(b";")[0].strip() if end >= 0 else b""
        if not size or len(size) > 8 or size.strip(b"0123456789abcdefABCDEF"):
            return body
        length = int(size, 16)
        if not length:
            return b"".join(pieces)
        pieces.append(body[end + 1 : end + 1 + length])
        at = end + 1 + length
        if at >= len(body):  # the record was cut off; what there is counts
            return b"".join(pieces)
        at += 2 if body[at : at + 2] == b"\r\n" else 1


def _revisited(record: _Record) -> str:
    """The key under which the record that a revisit refers to will be recognised."""
    fields = record.fields
    named = fields.get("warc-refers-to-target-uri", "").strip("<>")
    return record.digest or f"{named or record.url} {fields.get('warc-refers-to-date', '')}"


def _seconds(date: str) -> float:
    try:
        return datetime.datetime.fromisoformat(date).timestamp()
    except ValueError:
        return 0.0


JUDGED, FOLDERS = "judged", "folders"


@dataclass(frozen=True)
class RecordOptions:
    """What is done to the answers on their way."""

    base_url: str = ""
    """Where the files of a folder without a map stand."""
    labels: str = ""
    """`judged`: label pages of a collection by the topics they were judged to be of; `folders`: files by folder."""
    spread_hosts: int = 0
    """Spread the pages of the first host over a number of hosts."""
    drop: tuple[str, ...] = ()
    """URL patterns (with * and ?) that are left out, so that they answer 404."""


@dataclass
class Report:
    """What became of a recording besides the web."""

    web: RecordedWeb
    dropped: int = 0
    skipped: int = 0
    lost_revisits: int = 0
    damaged: list[str] = field(default_factory=list)


def record(
    target: Path | str,
    sources: Sequence[Path | str],
    *,
    base_url: str = "",
    labels: str = "",
    spread_hosts: int = 0,
    drop: Sequence[str] = (),
    on_progress: Callable[[int], object] = lambda urls: None,
) -> Report:
    """Make a recorded web in the folder `target` of all `sources`; stopped, it leaves nothing behind.

    A source is a collection, a WARC file or a folder of them, a file of JSON lines or a folder of them (`url`, `html`,
    `topics`; redirects `from`, `to`), a folder of HTML files, or a recorded web. Where two sources answer for the same
    URL, the later answer by date counts, else that of the later source; labels add up.
    """
    options = RecordOptions(base_url, labels, spread_hosts, tuple(drop))
    paths = [Path(source) for source in sources]
    found = [_Source(path, options) for path in paths]  # a wrong one is found before the work begins
    spread = HostSpread(spread_hosts) if spread_hosts > 1 else None
    dropped, shown_s = 0, 0.0
    with recording(Path(target)) as recorder:
        for source in found:
            for answer in source.answers():
                if _matches(answer.url, options.drop):
                    dropped += 1
                    continue
                for placed in spread.answers(answer) if spread else (answer,):
                    recorder.add(placed)
                if time.monotonic() - shown_s > PROGRESS_EVERY_S:
                    shown_s = time.monotonic()
                    on_progress(len(recorder))
        web = recorder.finish([path.name for path in paths])
        report = Report(web, dropped, recorder.skipped)
    for source in found:
        report.lost_revisits += source.warc.lost_revisits
        report.damaged += map(str, source.warc.damaged)
    return report


def _matches(url: str, patterns: tuple[str, ...]) -> bool:
    return bool(patterns) and any(fnmatchcase(normalize(url) or url, pattern) for pattern in patterns)


class _Source:
    """One source, of whatever kind it is."""

    def __init__(self, path: Path, options: RecordOptions) -> None:
        self._path, self._options = path, options
        self.warc = WarcSource(())
        self._read = self._reader()

    def answers(self) -> Iterator[RecordedAnswer]:
        """All it has to say."""
        return self._read()

    def _reader(self) -> Callable[[], Iterator[RecordedAnswer]]:
        path = self._path
        if path.is_file():
            return self._file_reader(path)
        if not path.is_dir():
            raise InputError(f"{path}: no such file or folder", "Name what the web is to be recorded from.")
        if is_web(path):
            return self._web
        files = [file for file in sorted(path.iterdir()) if file.is_file()]
        if (path / DATABASE_NAME).is_file():
            self.warc = WarcSource(sorted((path / "warc").glob("*.warc.gz")))
            if not self.warc.paths:
                raise InputError(f"{path}: the collection has no WARC files", "Crawl with store.warc = true.")
            return self._collection
        warcs = [file for file in files if file.name.endswith(WARC_SUFFIXES)]
        if warcs:
            self.warc = WarcSource(warcs)
            return self.warc.answers
        corpora = [file for file in files if is_corpus(file)]
        if corpora:
            return lambda: (answer for file in corpora for answer in corpus_answers(file))
        if has_html(path):
            options = self._options
            return lambda: html_answers(path, options.base_url, options.labels == FOLDERS)
        raise InputError(
            f"{path}: nothing to record in this folder",
            "It should be a collection, or hold WARC files, JSON lines (.jsonl, .jsonl.zst) or HTML files.",
        )

    def _file_reader(self, path: Path) -> Callable[[], Iterator[RecordedAnswer]]:
        if path.name.endswith(WARC_SUFFIXES):
            self.warc = WarcSource([path])
            return self.warc.answers
        if is_corpus(path):
            return lambda: corpus_answers(path)
        raise InputError(
            f"{path}: not a kind of file that can be recorded", "Known: .warc, .warc.gz, .jsonl, .jsonl.zst, folders."
        )

    def _collection(self) -> Iterator[RecordedAnswer]:
        labels = _judged_topics(self._path) if self._options.labels == JUDGED else {}
        for answer in self.warc.answers():
            yield answer._replace(topics=labels.get(normalize(answer.url), ()))

    def _web(self) -> Iterator[RecordedAnswer]:
        web = RecordedWeb.open(self._path)
        for n, url in enumerate(web.urls):
            yield RecordedAnswer(url, web.head(n), web.body(n), web.topics(n))


def _judged_topics(folder: Path) -> dict[str, tuple[str, ...]]:
    """The topic of each page that was judged relevant."""
    with Store.open(folder, read_only=True) as store:
        return {
            url: (topic,)
            for piece in store.stream(_JUDGED_TOPICS, [RELEVANT])
            for url, topic in zip(*(column.to_pylist() for column in piece.columns), strict=True)
        }
