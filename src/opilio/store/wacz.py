"""WACZ: a collection as one file that web archives replay (WACZ 1.1.1).

A ZIP file with the WARC files as they are, an index of their records (CDXJ, in compressed blocks with an index of these
blocks, as pywb and ReplayWeb.page read it), the list of pages, and `datapackage.json` with the digest of every file.
Of a WARC file that a crawl still writes to, the part is taken that the database knows of.

The index is sorted by SURT, the address with the host's labels turned around (`org,example)/path`). Its lines are
sorted one WARC file at a time, on disk, and merged: memory does not grow with the collection.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import heapq
import io
import itertools
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO
from urllib.parse import unquote_to_bytes, urlsplit

from isal import igzip

from opilio import __version__
from opilio.errors import InputError
from opilio.store.database import Store
from opilio.store.warc import OUTCOME_FIELD, RESPONSES, WarcPiece, inspect

VERSION = "1.1.1"
BLOCK_LINES = 1024  # of the index, in one compressed block
COPY_BYTES = 2**20
_PAGES = "SELECT oid, url, visited, coalesce(title, '') AS title FROM collection"
_WWW = re.compile(r"^www\d*\.")
_SESSION = re.compile(r"(?:jsessionid|phpsessid|sid)=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24}")


class _Package:
    """The ZIP file, with the size and digest of each file in it."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.resources: list[dict[str, object]] = []

    @contextlib.contextmanager
    def file(self, path: str, *, packed: bool = True) -> Iterator[_Digested]:
        """A new file; it is compressed if it is not `packed` already."""
        info = zipfile.ZipInfo(path, datetime.datetime.now(datetime.UTC).timetuple()[:6])
        info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
        with self._archive.open(info, "w", force_zip64=True) as inner:
            file = _Digested(inner)
            yield file
        digest = f"sha256:{file.digest.hexdigest()}"
        self.resources.append({"name": Path(path).name, "path": path, "hash": digest, "bytes": file.size_bytes})

    def add(self, path: str, content: object) -> str:
        """A file of JSON that is not listed; its digest."""
        data = json.dumps(content, indent=2).encode()
        self._archive.writestr(path, data, zipfile.ZIP_DEFLATED)
        return f"sha256:{hashlib.sha256(data).hexdigest()}"


class _Digested:
    """Writes to a file, and notes size and digest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.digest.update(data)
        self.size_bytes += len(data)


def write_wacz(store: Store, file: BinaryIO, elsewhere: Path | None = None) -> int:
    """Write a collection as WACZ; how many pages it lists. `elsewhere` is the folder to which WARC files were moved."""
    folder = store.path.parent / "warc"
    ends = store.load_warc_ends()
    paths = [(_find(name, folder, elsewhere), end) for name, end in ends.items()]
    if not paths:
        raise InputError(
            f"{store.path.parent}: has no WARC files, and a WACZ is made of these", "Export .jsonl or .parquet."
        )
    with zipfile.ZipFile(file, "w") as archive, tempfile.TemporaryDirectory() as scratch:
        package = _Package(archive)
        for path, end in paths:
            with package.file(f"archive/{path.name}") as target, path.open("rb") as source:
                while piece := source.read(min(COPY_BYTES, end - source.tell())):
                    target.write(piece)
        sorted_files = [_write_sorted(path, end, Path(scratch)) for path, end in paths]
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(path.open(encoding="utf-8")) for path in sorted_files]
            _write_index(package, heapq.merge(*files))
        pages = _write_pages(package, store)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        digest = package.add(
            "datapackage.json",
            {
                "profile": "data-package", "wacz_version": VERSION, "title": store.path.parent.absolute().name,
                "created": now, "modified": now, "software": f"Opilio {__version__}", "resources": package.resources,
            },
        )  # fmt: skip
        package.add("datapackage-digest.json", {"path": "datapackage.json", "hash": digest})
    return pages


def _find(name: str, folder: Path, elsewhere: Path | None) -> Path:
    for place in (folder, *([elsewhere] if elsewhere is not None else [])):
        if (place / name).is_file():
            return place / name
    raise InputError(
        f"{folder / name}: the file is missing",
        "Copy it there from store.warc_url, if it was moved. `opilio verify` lists what is missing.",
    )


def _write_sorted(path: Path, end: int, scratch: Path) -> Path:
    """The lines of the index for one WARC file, sorted, in a file of their own."""
    lines = sorted(_line(piece, path.name) for piece in inspect(path) if piece.offset < end and _is_indexed(piece))
    target = scratch / f"{path.name}.cdxj"
    target.write_text("".join(lines), encoding="utf-8")
    return target


def _is_indexed(piece: WarcPiece) -> bool:
    """Whether a record can be replayed: it is a response, and not just the head of one that was refused."""
    return piece.kind in RESPONSES and OUTCOME_FIELD.lower() not in piece.fields


def _line(piece: WarcPiece, name: str) -> str:
    digest = piece.fields.get("warc-payload-digest", "-")
    facts = {
        "url": piece.url,
        "mime": "warc/revisit" if piece.kind == "revisit" else piece.content_type.partition(";")[0].strip() or "-",
        "status": str(piece.status or "-"), "digest": digest, "length": str(piece.length), "offset": str(piece.offset),
        "filename": name,
    }  # fmt: skip
    timestamp = re.sub(r"\D", "", piece.fields.get("warc-date", ""))[:14]
    return f"{surt(piece.url)} {timestamp} {json.dumps(facts)}\n"


def _write_index(package: _Package, lines: Iterator[str]) -> None:
    """The index in compressed blocks, and the index of these blocks by their first lines."""
    blocks = io.StringIO()
    blocks.write('!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n')
    with package.file("indexes/index.cdx.gz") as file:
        for some in _blocks(lines):
            packed = igzip.compress("".join(some).encode(), 2, mtime=0)
            key = " ".join(some[0].split(" ", 2)[:2])
            digest = f"sha256:{hashlib.sha256(packed).hexdigest()}"
            place = {"offset": file.size_bytes, "length": len(packed), "digest": digest, "filename": "index.cdx.gz"}
            blocks.write(f"{key} {json.dumps(place)}\n")
            file.write(packed)
    with package.file("indexes/index.idx", packed=False) as file:
        file.write(blocks.getvalue().encode())


def _blocks(lines: Iterator[str]) -> Iterator[list[str]]:
    while some := list(itertools.islice(lines, BLOCK_LINES)):
        yield some


def _write_pages(package: _Package, store: Store) -> int:
    count = 0
    with package.file("pages/pages.jsonl", packed=False) as file:
        header = {"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}
        file.write(json.dumps(header).encode() + b"\n")
        for piece in store.select_pieces(_PAGES):
            for row in piece.to_pylist():
                when = row["visited"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                page = {"id": str(row["oid"]), "url": row["url"], "ts": when, "title": row["title"]}
                file.write(json.dumps(page).encode() + b"\n")
                count += 1
    return count


def surt(url: str) -> str:
    """The address as web archives sort it and look it up: host turned around, without case, scheme and `www.`."""
    parts = urlsplit(url)
    host, port = _WWW.sub("", (parts.hostname or "").lower()), parts.port
    labels = ",".join(reversed(host.split(".")))
    if port and port != {"http": 80, "https": 443}.get(parts.scheme):
        labels += f":{port}"
    path = re.sub("/+", "/", _escaped(parts.path)).rstrip("/") or "/"
    query = "&".join(sorted(word for word in _escaped(parts.query).split("&") if not _SESSION.fullmatch(word)))
    return f"{labels}){path}" + (f"?{query}" if query else "")


def _escaped(text: str) -> str:
    """A part of an address in lower case, with as few escapes as possible."""
    plain = unquote_to_bytes(text)
    return "".join(chr(b) if 0x20 < b < 0x7F and b not in b"#%" else f"%{b:02x}" for b in plain).lower()
