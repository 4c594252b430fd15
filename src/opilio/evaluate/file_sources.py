"""Answers from files that hold pages without their servers: labelled corpora in JSON lines, folders of HTML files."""

from __future__ import annotations

import csv
import io
import json
import mimetypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import zstandard

from opilio.errors import InputError
from opilio.evaluate.recording import Answer, head_of
from opilio.model import normalize

MAX_WINDOW_BYTES = 2**28  # corpora are packed with long windows
CORPUS_SUFFIXES = (".jsonl.zst", ".jsonl")
MAP_NAMES = {"urls.tsv": "\t", "urls.csv": ","}
PAGE_SUFFIXES = frozenset({".html", ".htm", ".xhtml", ".txt", ".pdf"})
_NOT_OF_TEXT = ("content-type", "content-length", "content-encoding", "transfer-encoding")


def is_corpus(path: Path) -> bool:
    """Whether a file is one of JSON lines."""
    return path.name.endswith(CORPUS_SUFFIXES)


def corpus_answers(path: Path) -> Iterator[Answer]:
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


def _page(record: dict[str, Any]) -> Answer:
    """A page of a corpus is text, so it is served as UTF-8, and its head says so."""
    body = str(record["html"]).encode("utf-8", "replace")
    given = record.get("headers") or ""
    lines = given.items() if isinstance(given, dict) else (line.partition(":")[::2] for line in given.splitlines())
    headers = [(name.strip(), value.strip()) for name, value in lines if value]
    declared = next((value for name, value in headers if name.lower() == "content-type"), "")
    media_type = (declared or record.get("content_type") or "text/html").partition(";")[0].strip()
    kept = [(name, value) for name, value in headers if name.lower() not in _NOT_OF_TEXT]
    head = head_of(int(record.get("status", 200)), [*kept, ("Content-Type", f"{media_type}; charset=utf-8")])
    return Answer(str(record["url"]), head, body, tuple(map(str, record.get("topics") or ())))


def _redirect(record: dict[str, Any]) -> Answer:
    target = normalize(str(record["to"]))
    return Answer(str(record["from"]), head_of(int(record.get("status", 301)), [("Location", target)]), b"")


def has_html(folder: Path) -> bool:
    """Whether `folder` holds HTML files, or says by a map which files are pages."""
    return any((folder / name).is_file() for name in MAP_NAMES) or next(_files(folder), None) is not None


def html_answers(folder: Path, base_url: str = "", label_folders: bool = False) -> Iterator[Answer]:
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
            yield Answer(url[: url.rindex("/") + 1], head_of(301, [("Location", url)]), b"")


def _mapped(folder: Path, map_file: Path, delimiter: str) -> Iterator[Answer]:
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
                raise InputError(f"{where}: there is no file {row['file']}", "Files are looked for beside the map.")
            topics = (row.get("topics") or "").split("|")
            yield _file(path, row["url"], tuple(topic.strip() for topic in topics if topic.strip()))


def _files(folder: Path) -> Iterator[Path]:
    """The pages below a folder in their order; hidden files, and links that may lead anywhere, are left out."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in PAGE_SUFFIXES and not hidden and path.is_file() and not path.is_symlink():
            yield path


def _file(path: Path, url: str, topics: tuple[str, ...]) -> Answer:
    media_type = mimetypes.guess_type(path.name)[0] or "text/html"
    return Answer(url, head_of(200, [("Content-Type", media_type)]), path.read_bytes(), topics)
