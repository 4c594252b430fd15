"""Files on disk as documents, in any format we can read: the examples that users give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import quote

from opilio.analyze.content import Failure
from opilio.errors import InputError
from opilio.settings import Settings

if TYPE_CHECKING:
    from opilio.model import Document

MAX_FILE_BYTES = 100 * 2**20

_ON_DISK = "http://file.invalid/"
"""The base URL of files on disk. It does not exist, so their relative links lead nowhere."""


@dataclass(frozen=True)
class FileText:
    """The title and text of a file."""

    title: str
    text: str


class FileReader:
    """Turns files into documents, one after the other.

    A context manager: at its end, the process that reads the risky formats ends too.
    """

    def __init__(self, settings: Settings) -> None:
        # Loaded here because they take long to load, and most crawls start without files.
        from opilio.analyze.analyzer import Analyzer  # noqa: PLC0415
        from opilio.analyze.extractor import Extractor  # noqa: PLC0415

        self._analyzer = Analyzer(settings.traps, settings.robots, settings.store)
        self._extractor = Extractor(settings)

    def __enter__(self) -> FileReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._extractor.close()

    def read(self, path: Path) -> Document:
        """The document in a file; an InputError that names the file if it cannot be read."""
        try:
            body = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        url = _ON_DISK + quote(path.name, errors="replace")
        if not self._analyzer.is_risky(body, "", url):
            document = self._analyzer.analyze(body, "", url)
            if document is None:
                raise InputError(f"{path}: neither text nor a document in a format that can be read")
            return document
        content = self._extractor.read_now(body, "", url)
        if isinstance(content, Failure):
            raise InputError(f"{path}: {content.detail}")
        return self._analyzer.document_of(content, url)


def read_file(path: Path) -> FileText:
    """The title and text of a file."""
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
