"""A recorded web: answers of real servers in a folder, the same for every crawler that is let loose on it.

The folder has `web.json` (what it is), `pages.parquet` (one row for each URL, in the order of the URLs) and
`bodies.bin` (bodies, each a zstd frame; equal ones stand there once).
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from opilio.errors import InputError

FORMAT = 1
ABSENT = -1
INFO_FILE, PAGES_FILE, BODIES_FILE = "web.json", "pages.parquet", "bodies.bin"
SCHEMA = pa.schema(
    [
        ("url", pa.string()),
        ("status", pa.int16()),
        ("redirect", pa.string()),
        ("topics", pa.list_(pa.string())),
        ("head", pa.binary()),
        ("body_hash", pa.binary(32)),
        ("body_bytes", pa.int64()),
        ("frame_offset", pa.int64()),
        ("frame_bytes", pa.int64()),
    ]
)


class Info(msgspec.Struct, frozen=True):
    """What `web.json` says."""

    name: str
    digest: str
    urls: int
    pages: int
    """URLs that answer with a success."""
    redirects: int
    hosts: int
    labels: int
    body_bytes: int
    """Of all pages, unpacked."""
    packed_bytes: int
    """Size of `bodies.bin`."""
    sources: list[str] = []
    """What it was recorded from."""
    format: int = FORMAT


class Row(NamedTuple):
    """One URL of a web, without its body."""

    url: str
    status: int
    redirect: str
    topics: tuple[str, ...]
    head: bytes
    body_hash: bytes
    body_bytes: int
    frame_offset: int
    frame_bytes: int


class RecordedWeb:
    """A recorded web, opened for reading. May be shared by threads; another process opens it by its folder."""

    def __init__(self, folder: Path, info: Info, table: pa.Table) -> None:
        self.folder, self.info = folder, info
        self.name, self.digest = info.name, info.digest
        self.urls: list[str] = table["url"].to_pylist()
        self._numbers = {url: n for n, url in enumerate(self.urls)}
        self._statuses: list[int] = table["status"].to_pylist()
        self._redirects: list[str] = table["redirect"].to_pylist()
        self._topics: list[tuple[str, ...]] = [tuple(topics) for topics in table["topics"].to_pylist()]
        self._heads: list[bytes] = table["head"].to_pylist()
        self._hashes: list[bytes] = table["body_hash"].to_pylist()
        self._sizes: list[int] = table["body_bytes"].to_pylist()
        self._offsets: list[int] = table["frame_offset"].to_pylist()
        self._packed: list[int] = table["frame_bytes"].to_pylist()
        self._bodies = _mapped(folder / BODIES_FILE)
        self.labels: dict[str, list[int]] = {}
        for n, topics in enumerate(self._topics):
            for topic in topics:
                self.labels.setdefault(topic, []).append(n)

    @classmethod
    def open(cls, folder: Path | str) -> RecordedWeb:
        """Open the web in `folder`."""
        folder = Path(folder)
        info = read_info(folder)
        try:
            table = pq.read_table(folder / PAGES_FILE, schema=SCHEMA)
            size_bytes = (folder / BODIES_FILE).stat().st_size
        except (OSError, pa.ArrowException) as error:
            raise _damaged(folder, str(error)) from None
        if (table.num_rows, size_bytes) != (info.urls, info.packed_bytes):
            raise _damaged(folder, f"its files do not fit what {INFO_FILE} says")
        return cls(folder, info, table)

    def __len__(self) -> int:
        return len(self.urls)

    def number(self, url: str) -> int:
        """The number of a URL in normal form, -1 when it is not recorded.

        A fragment is dropped. https counts as http, unless both were recorded: then each has its own answer.
        """
        n = self._numbers.get(url)
        if n is not None:
            return n
        url = url.partition("#")[0]
        n = self._numbers.get(url)
        if n is None:
            other = "http" + url[5:] if url.startswith("https:") else "https" + url[4:]
            n = self._numbers.get(other, ABSENT)
        return n

    def status(self, n: int) -> int:
        """The HTTP status of the answer."""
        return self._statuses[n]

    def redirect(self, n: int) -> str:
        """Where the answer leads to (normal form), '' when it is no redirect."""
        return self._redirects[n]

    def head(self, n: int) -> bytes:
        """Status line and headers, as recorded."""
        return self._heads[n]

    def body(self, n: int) -> bytes:
        """The body as recorded: content encodings still on, chunking undone."""
        size_bytes = self._sizes[n]
        if not size_bytes:
            return b""
        start = self._offsets[n]
        frame = self._bodies[start : start + self._packed[n]]
        try:
            body: bytes = zstandard.ZstdDecompressor().decompress(frame, max_output_size=size_bytes)
        except zstandard.ZstdError as error:
            raise _damaged(self.folder, f"the body of {self.urls[n]}: {error}") from None
        return body

    def body_bytes(self, n: int) -> int:
        """The size of the body."""
        return self._sizes[n]

    def topics(self, n: int) -> tuple[str, ...]:
        """The labels of a page, in their order."""
        return self._topics[n]

    def rows(self) -> Iterator[Row]:
        """All URLs in order, without bodies."""
        columns: Sequence[Sequence[object]] = (
            self.urls, self._statuses, self._redirects, self._topics, self._heads, self._hashes, self._sizes,
            self._offsets, self._packed,
        )  # fmt: skip
        return map(Row._make, zip(*columns, strict=True))

    def verify(self) -> None:
        """Read everything, and fail unless each byte is what it was when the web was recorded."""
        for n, wanted in enumerate(self._hashes):
            if hashlib.sha256(self.body(n)).digest() != wanted:
                raise _damaged(self.folder, f"the body of {self.urls[n]} has changed")
        if digest_of(self.rows()) != self.digest:
            raise _damaged(self.folder, "its pages are not those it was recorded with")


def digest_of(rows: Iterable[Row]) -> str:
    """The SHA-256 over all that a web answers and all that is known of it, row by row."""
    digest = hashlib.sha256()
    for row in rows:  # msgpack says how long each part is, so that no two webs have the same bytes here
        digest.update(msgspec.msgpack.encode((row.url, row.status, row.redirect, row.topics, row.head, row.body_hash)))
    return digest.hexdigest()


def read_info(folder: Path) -> Info:
    """The description of a web."""
    try:
        info = msgspec.json.decode((folder / INFO_FILE).read_bytes(), type=Info)
    except OSError:
        raise InputError(
            f"{folder}: no recorded web there", f"Record one: opilio record {quote(str(folder))} --from SOURCE"
        ) from None
    except msgspec.DecodeError as error:
        raise _damaged(folder, f"{INFO_FILE}: {error}") from None
    if info.format != FORMAT:
        raise InputError(
            f"{folder}: a recorded web of format {info.format}, and this version reads {FORMAT}", "Record it again."
        )
    return info


def is_web(folder: Path) -> bool:
    """Whether a recorded web is in `folder`."""
    return (folder / INFO_FILE).is_file() and (folder / PAGES_FILE).is_file()


def _mapped(path: Path) -> mmap.mmap | bytes:
    """The bytes of a file; an empty one, which cannot be mapped, as no bytes."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""


def _damaged(folder: Path, why: str) -> InputError:
    return InputError(f"{folder}: the recorded web is damaged: {why}", "Record it again.")
