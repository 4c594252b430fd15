"""OTHERS: common-sense documents that are about none of the topics (BINGO 3.1).

Examples of a topic contain the words of the topic and words that every page has. A classifier that has only seen such
examples takes the everyday words for signs of the topic. So OTHERS is trained with documents of everyday vocabulary,
typical parts of web pages, and a few texts in other languages. A set comes with Opilio (`data/others`).

A file of documents is plain text. Each document begins with a line `=== title`, optionally with a language: `=== Wetter
[de]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opilio.errors import InputError
from opilio.topics.taxonomy_syntax import read_text

_DATA = Path(__file__).parent / "data" / "others"
_HEADER = re.compile(r"^===(.*)$", re.MULTILINE)
_LANGUAGE = re.compile(r"\[([a-z]{2,3})\]$")
_MAX_FILE_BYTES = 4 * 2**20
_MAX_DOCUMENTS = 5000
_SUFFIXES = {".txt", ".text", ".md", ""}
_HINT = "Give a folder of text files, or one file in which each document begins with a line `=== title`."


@dataclass(frozen=True)
class OthersDocument:
    """A document that is about none of the topics."""

    title: str
    text: str
    language: str = ""
    """ISO 639 code; '' if not given."""


def default_others() -> list[OthersDocument]:
    """The set that comes with Opilio."""
    return read_others(_DATA)


def read_others(path: Path) -> list[OthersDocument]:
    """The documents of a file, or of all text files of a folder in the order of their names."""
    found: list[OthersDocument] = []
    for file in _files(path):
        found.extend(parse_others(read_text(file, _MAX_FILE_BYTES, _HINT), file.stem))
        if len(found) > _MAX_DOCUMENTS:
            raise InputError(f"{path}: more than {_MAX_DOCUMENTS:,} documents", "Remove some; 50 to 500 are enough.")
    if not found:
        raise InputError(f"{path}: contains no document", _HINT)
    return found


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    try:
        return sorted(file for file in path.iterdir() if _is_text(file))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", _HINT) from None


def _is_text(file: Path) -> bool:
    return file.suffix.lower() in _SUFFIXES and not file.name.startswith(".") and file.is_file()


def parse_others(text: str, name: str = "") -> Iterator[OthersDocument]:
    """The documents of a text; one without a header line is a single document called `name`."""
    headers = list(_HEADER.finditer(text))
    starts = [header.start() for header in headers] + [len(text)]
    before = text[: starts[0]].strip()
    if before:
        yield OthersDocument(name, before)
    for header, end in zip(headers, starts[1:], strict=True):
        body = text[header.end() : end].strip()
        title = header[1].strip()
        language = _LANGUAGE.search(title)
        if body and language:
            yield OthersDocument(title[: language.start()].strip(), body, language[1])
        elif body:
            yield OthersDocument(title, body)
