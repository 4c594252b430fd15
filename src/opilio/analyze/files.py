"""Reads files on disk, for commands and for training: any format, one after the other.

Files of the user's, of any format we can read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from opilio.analyze.analyzer import Analyzer
from opilio.analyze.content import Failure
from opilio.analyze.extractor import Extractor
from opilio.errors import InputError
from opilio.model import Document
from opilio.settings import Settings

_ON_DISK = "http://file.invalid/"
"""Where files on disk are said to be. Their relative links lead there, and so nowhere."""


@dataclass(frozen=True)
class FileText:
    """What a file says."""

    title: str
    text: str


class FileReader:
    """Makes documents of files. A context manager: at its end the process that reads the difficult ones ends."""

    def __init__(self, settings: Settings) -> None:
        self._analyzer = Analyzer(settings.traps, settings.robots, settings.store)
        self._extractor = Extractor(settings)

    def __enter__(self) -> FileReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._extractor.close()

    def read(self, path: Path) -> Document:
        """The document in a file; an InputError that names the file when there is none."""
        try:
            body = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        url = _ON_DISK + quote(path.name, errors="replace")
        if not self._analyzer.is_risky(body, "", url):
            document = self._analyzer.analyze(body, "", url)
            if document is None:
                raise InputError(f"{path}: not a text, nor a document of a format that can be read")
            return document
        content = self._extractor.read_now(body, "", url)
        if isinstance(content, Failure):
            raise InputError(f"{path}: {content.detail}")
        return self._analyzer.document_of(content, url)


MAX_FILE_BYTES = 100 * 2**20


def read_file(path: Path) -> FileText:
    """The title and text of a file."""
    from opilio.analyze import FileReader  # noqa: PLC0415  (most crawls begin without files, and it takes long to load)

    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {MAX_FILE_BYTES:,} bytes", "Give a part of it.")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "Give a file that can be read.") from None
    with FileReader(Settings()) as reader:
        try:
            document = reader.read(path)
        except InputError as error:
            hint = error.hint or "docs/guides/documents.md lists the formats that can be read."
            raise InputError(error.message, hint) from None
    return FileText(document.title, document.text)
