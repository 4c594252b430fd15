"""Files of the user's, of any format we can read."""

from __future__ import annotations

from pathlib import Path

from opilio.errors import InputError
from opilio.learn.lessons import FileText
from opilio.settings import Settings

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
