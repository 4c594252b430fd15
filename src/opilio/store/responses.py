"""Stored responses: the body of a page as its server sent it, read back from the WARC files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opilio.fetch.decoding import CodingError, Decoder, codings_of
from opilio.store.warc import Payloads, recover, warc_files

MAX_BODY_BYTES = 64 * 2**20


class Responses:
    """Reads bodies of stored pages. `folders` are those that WARC files may be in."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._payloads: Payloads | None = None

    def body(self, warc_file: str | None, warc_offset: int | None) -> bytes | None:
        """The body of a response, decoded; None if its record is not there or damaged, or has no body."""
        if not warc_file or warc_offset is None:
            return None
        path = next((folder / warc_file for folder in self._folders if (folder / warc_file).is_file()), None)
        if path is None:
            return None
        record = next(recover(path, warc_offset, self._all_payloads()), None)
        if record is None or record.offset != warc_offset or not record.raw_body:
            return None
        decoder = Decoder(_codings(record.raw_head), MAX_BODY_BYTES)
        try:
            decoder.feed(record.raw_body)
        except CodingError:
            return None
        return decoder.body or None

    def _all_payloads(self) -> Payloads:
        """What revisit records refer to. The files are read when the first such record is met."""
        if self._payloads is None:
            paths = {path.name: path for folder in self._folders for path in warc_files(folder)}
            self._payloads = Payloads(list(paths.values()))
        return self._payloads


def _codings(raw_head: bytes) -> list[str]:
    for line in raw_head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-encoding":
            return codings_of(value.decode("latin-1"))
    return []
