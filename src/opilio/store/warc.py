"""WARC 1.1 files (ISO 28500): every response as it came, for replay, for reading again, and for other tools.

Each worker writes files of its own; no database is needed. One call writes the request and its response by a single
`os.write`, each record a gzip member of its own, so that after kill -9 at most the tail of a file is broken
(`truncate_torn`), and a reader can start at any record.

Making records (`RecordMaker`) and appending them to files (`WarcFiles`) are two things, since they may happen on two
machines; `WarcWriter` does both.

The body is kept as transferred (Content-Encoding untouched), but without chunking: the header lines that spoke of it
are renamed, as archives do.

A page that was rendered has a second record, written with its response and right before it, so that none is there
without the other: a *conversion* (a type of WARC 1.1), whose payload is the page as a browser has it once its scripts
have run, and which refers to the response. The responses that its scripts requested are records of their own, marked
with the page (`PART_FIELD`).

`recover` reads our files back, also when a crash tore their tail or bytes in the middle were damaged.
"""

from __future__ import annotations

import base64
import datetime
import errno
import hashlib
import mmap
import os
import re
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from isal import igzip

from opilio import __version__
from opilio.errors import StoreError
from opilio.settings import GIB, StoreSettings

REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED_PROFILE = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
RESPONSES = ("response", "revisit")
OUTCOME_FIELD = "Opilio-Outcome"
"""In the record of a response that was not kept whole: its outcome, so that the record alone tells what came of it."""
ARCHIVE_FIELD, ARCHIVE_OFFSET_FIELD = "Opilio-Archive", "Opilio-Archive-Offset"
"""In a record that was copied from an archive: which one, and where the record was there."""
PART_FIELD = "Opilio-Part-Of"
"""In the record of a response that the script of a rendered page requested: the URL of that page."""
CONVERSION = "conversion"
REMEMBERED_PAYLOADS = 50_000
WARC_PATTERN = "*.warc.gz"
COMPRESSION_LEVEL = 1  # level 3 makes HTML 7 % smaller in 2.5 times the time; level 1 of zlib takes four times as long
_GZIP_MAGIC = b"\x1f\x8b\x08"
_PIECE_BYTES = 64 * 2**10
MAX_RECORD_BYTES = 256 * 2**20  # far above any body we accept; a bound on what damaged bytes can make us hold
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def warc_files(folder: Path) -> list[Path]:
    """The WARC files in a folder, by name; a pipe or a folder with such a name is none."""
    return sorted(path for path in folder.glob(WARC_PATTERN) if path.is_file())


def warc_elsewhere(settings: StoreSettings) -> Path | None:
    """The folder to which finished WARC files are moved; None: they stay, or go to a storage that is no folder."""
    url = settings.warc_url
    return Path(url).expanduser() if url and "://" not in url else None


class WarcPlace(NamedTuple):
    """Where a response record lies: the record behind it starts at `offset + length`."""

    file: str
    offset: int
    length: int


class _Seen(NamedTuple):
    """A payload written before."""

    url: str
    date: str
    record_id: str


class RecordNote(NamedTuple):
    """What a record says of its response besides the bytes."""

    truncated: str = ""
    """Why only the beginning of the response is there, as WARC-Truncated says it: length, time, disconnect, ..."""
    outcome: str = ""
    """The outcome of a response that was refused or broke off: only its head is there."""
    unchanged_since_s: float = 0.0
    """When the page was fetched that the server says has not changed (status 304); 0: the response is no such."""
    archive: str = ""
    """The archive that the record was copied from; '': it is the response to a request of ours."""
    archive_offset: int = 0
    part_of: str = ""
    """The URL of the rendered page whose script requested it."""
    rendered: bytes = b""
    """The page as a browser has it once its scripts have run, as HTML in UTF-8; b'': it was not rendered."""


WHOLE = RecordNote()


class WarcRecords(NamedTuple):
    """A request and its response, ready to be appended to a file."""

    data: bytes
    response_at: int
    """Where in `data` the response begins; it ends with it."""


class RecordMaker:
    """Makes the records of one worker; remembers payloads, so that none is kept twice."""

    def __init__(self) -> None:
        self._payloads: OrderedDict[bytes, _Seen] = OrderedDict()

    def make(
        self, url: str, ip: str, started_s: float, request_head: bytes, raw_head: bytes, raw_body: bytes,
        note: RecordNote = WHOLE,
    ) -> WarcRecords:  # fmt: skip
        """The records of a response and of the request that caused it."""
        target, date = _header_value(url), _warc_date(started_s)
        digest = hashlib.sha1(raw_body, usedforsecurity=False).digest()
        seen = self._payloads.get(digest) if raw_body else None
        record_id = _record_id()
        common = [("WARC-Target-URI", target), ("WARC-Date", date)]
        if ip:
            common.append(("WARC-IP-Address", _header_value(ip)))
        head = archived_head(raw_head, len(raw_body), is_whole=not note.truncated)
        fields = common + [("WARC-Truncated", note.truncated)] * bool(note.truncated)
        fields += [(OUTCOME_FIELD, note.outcome)] * bool(note.outcome)
        if note.archive:
            fields += [(ARCHIVE_FIELD, _header_value(note.archive)), (ARCHIVE_OFFSET_FIELD, str(note.archive_offset))]
        fields += [(PART_FIELD, _header_value(note.part_of))] * bool(note.part_of)
        if note.unchanged_since_s:
            response = _not_modified(record_id, fields, target, note.unchanged_since_s)
        else:
            response = _response(record_id, fields, head, raw_body, digest, seen)
        request = b""
        if request_head:
            concurrent = [*common, ("WARC-Concurrent-To", record_id)]
            request = _record(
                "request", _record_id(), concurrent, "application/http;msgtype=request", _ended(request_head)
            )
        if raw_body:
            self._remember(digest, seen or _Seen(target, date, record_id))
        if note.rendered:
            request += _conversion(target, record_id, note.rendered)
        return WarcRecords(request + response, len(request))

    def forget(self) -> None:
        """Remember no payload: what was made last was not written."""
        self._payloads.clear()

    def _remember(self, digest: bytes, seen: _Seen) -> None:
        self._payloads[digest] = seen
        self._payloads.move_to_end(digest)
        if len(self._payloads) > REMEMBERED_PAYLOADS:
            self._payloads.popitem(last=False)


class WarcFiles:
    """Appends records to files of one worker, each up to a size."""

    def __init__(self, folder: Path, worker: str = "0", *, max_bytes: int = GIB, user_agent: str = "") -> None:
        self._folder = folder
        self._worker = re.sub(r"[^A-Za-z0-9_]", "_", worker)
        self._max_bytes = max_bytes
        self._user_agent = user_agent
        self._serial = 0
        self._handle = -1
        self._name = ""
        self._end = 0

    def append(self, records: WarcRecords) -> WarcPlace:
        """Write records; the place of the response."""
        self._make_room(len(records.data))
        offset = self._end + records.response_at
        self._append(records.data)
        return WarcPlace(self._name, offset, len(records.data) - records.response_at)

    def sync(self) -> None:
        """Make everything written survive a power cut."""
        if self._handle >= 0:
            os.fsync(self._handle)

    def close(self) -> None:
        """Close the file; the next write opens a new one."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _make_room(self, size_bytes: int) -> None:
        """Begin a new file when there is none, or when the current one would grow past the limit."""
        if self._handle >= 0 and self._end + size_bytes <= self._max_bytes:
            return
        self.close()
        now_s = time.time()  # to the microsecond: collections that are crawled at once may move files to one place
        stamp = f"{time.strftime('%Y%m%d%H%M%S', time.gmtime(now_s))}{int(now_s % 1 * 1e6):06d}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            while self._handle < 0:
                self._serial += 1
                self._name = f"opilio-{stamp}-{self._worker}-{self._serial:05d}.warc.gz"
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
                try:
                    self._handle = os.open(self._folder / self._name, flags, 0o644)
                except FileExistsError:
                    continue
        except OSError as error:
            raise _write_error(self._folder, error) from error
        self._end = 0
        self._append(_warcinfo(self._name, self._user_agent))

    def _append(self, data: bytes) -> None:
        """All of `data` or, when the disk is full, none of it."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._handle, memoryview(data)[written:])
        except OSError as error:
            os.ftruncate(self._handle, self._end)
            raise _write_error(self._folder / self._name, error) from error
        self._end += len(data)


class WarcWriter:
    """Writes the WARC files of one worker."""

    def __init__(self, folder: Path, worker: str = "0", *, max_bytes: int = GIB, user_agent: str = "") -> None:
        self._files = WarcFiles(folder, worker, max_bytes=max_bytes, user_agent=user_agent)
        self._maker = RecordMaker()

    def write(
        self, url: str, ip: str, started_s: float, request_head: bytes, raw_head: bytes, raw_body: bytes,
        note: RecordNote = WHOLE,
    ) -> WarcPlace:  # fmt: skip
        """Write a response with the request that caused it; the place of the response record."""
        records = self._maker.make(url, ip, started_s, request_head, raw_head, raw_body, note)
        try:
            return self._files.append(records)
        except StoreError:
            self._maker.forget()
            raise

    def sync(self) -> None:
        """Make everything written survive a power cut."""
        self._files.sync()

    def close(self) -> None:
        """Close the file; the next write opens a new one."""
        self._files.close()


def archived_head(raw_head: bytes, body_bytes: int, *, is_whole: bool = True) -> bytes:
    """An HTTP head that fits the body as archived: no chunking, the true length, CRLF line ends, one blank line.

    The length that a server gave for a body that is not whole is kept under another name.
    """
    lines = [line.rstrip(b"\r") for line in raw_head.split(b"\n")]
    kept = [lines[0] or b"HTTP/1.1 200 OK"]
    has_length = False
    for line in lines[1:]:
        name = line.partition(b":")[0].strip().lower()
        if not line:
            continue
        if name == b"transfer-encoding":
            kept.append(b"X-Archive-Orig-" + line)
        elif name != b"content-length":
            kept.append(line)
        elif not has_length:
            has_length = True
            kept += [] if is_whole else [b"X-Archive-Orig-" + line]
            kept.append(b"Content-Length: %d" % body_bytes)
    if not has_length and body_bytes:
        kept.append(b"Content-Length: %d" % body_bytes)
    return b"\r\n".join(kept) + b"\r\n\r\n"


def _response(
    record_id: str, common: list[tuple[str, str]], head: bytes, body: bytes, digest: bytes, seen: _Seen | None
) -> bytes:
    """A response record, or a revisit record when its payload has been written before."""
    fields = [*common, ("WARC-Payload-Digest", _base32(digest))]
    content_type = "application/http;msgtype=response"
    if seen is None:
        return _record("response", record_id, fields, content_type, head + body)
    fields += [
        ("WARC-Profile", REVISIT_PROFILE),
        ("WARC-Refers-To", seen.record_id),
        ("WARC-Refers-To-Target-URI", seen.url),
        ("WARC-Refers-To-Date", seen.date),
    ]
    return _record("revisit", record_id, fields, content_type, head)


def _conversion(target: str, response_id: str, html: bytes) -> bytes:
    """The record of a rendered page."""
    digest = hashlib.sha1(html, usedforsecurity=False).digest()
    fields = [
        ("WARC-Target-URI", target),
        ("WARC-Date", _warc_date(time.time())),
        ("WARC-Refers-To", response_id),
        ("WARC-Payload-Digest", _base32(digest)),
    ]
    return _record(CONVERSION, _record_id(), fields, "text/html;charset=utf-8", html)


def _not_modified(record_id: str, common: list[tuple[str, str]], target: str, unchanged_since_s: float) -> bytes:
    """A revisit record: the server says that the page is the one that was fetched before.

    It has no block, as the standard allows: pywb would replay a head of status 304 in place of the page.
    """
    fields = [
        *common,
        ("WARC-Profile", NOT_MODIFIED_PROFILE),
        ("WARC-Refers-To-Target-URI", target),
        ("WARC-Refers-To-Date", _warc_date(unchanged_since_s)),
    ]
    return _record("revisit", record_id, fields, "application/http;msgtype=response", b"")


def _warcinfo(name: str, user_agent: str) -> bytes:
    facts = {
        "software": f"Opilio/{__version__}",
        "format": "WARC File Format 1.1",
        "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        "http-header-user-agent": " ".join(user_agent.split()),
    }
    block = "".join(f"{key}: {value}\r\n" for key, value in facts.items() if value).encode()
    fields = [("WARC-Date", _warc_date(time.time())), ("WARC-Filename", name)]
    return _record("warcinfo", _record_id(), fields, "application/warc-fields", block)


def _record(kind: str, record_id: str, fields: list[tuple[str, str]], content_type: str, block: bytes) -> bytes:
    """One record as a gzip member."""
    header = [("WARC-Type", kind), ("WARC-Record-ID", record_id), *fields]
    header.append(("WARC-Block-Digest", _base32(hashlib.sha1(block, usedforsecurity=False).digest())))
    header += [("Content-Type", content_type), ("Content-Length", str(len(block)))]
    head = "WARC/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in header) + "\r\n"
    plain = b"".join((head.encode("utf-8", "replace"), block, b"\r\n\r\n"))
    compressed: bytes = igzip.compress(plain, COMPRESSION_LEVEL, mtime=0)
    return compressed


_EMPTY_BLOCK = b"\x00\x00\x00\xff\xff"  # of a deflate stream: stored, not the last, no bytes


def tombstone(length: int, removed_s: float) -> bytes:
    """A record that says that another one was removed by request, in exactly as many bytes as that one had.

    It is filled up with blocks that unpack to nothing, and a comment in the gzip header.
    """
    date = _warc_date(removed_s)
    block = f"removed: by request\r\nremovedDate: {date}\r\n".encode()
    header = {"WARC-Type": "metadata", "WARC-Record-ID": _record_id(), "WARC-Date": date}
    header |= {"Content-Type": "application/warc-fields", "Content-Length": str(len(block))}
    head = "WARC/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in header.items()) + "\r\n"
    plain = head.encode() + block + b"\r\n\r\n"
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packer.compress(plain) + packer.flush()
    room = length - 10 - len(data) - 8
    if room < 0:
        raise StoreError(f"a record of {length} bytes is too small for a tombstone", "This is no file of Opilio's.")
    blocks, rest = divmod(room, len(_EMPTY_BLOCK))
    flags, comment = (16, b" " * (rest - 1) + b"\x00") if rest else (0, b"")
    trailer = zlib.crc32(plain).to_bytes(4, "little") + len(plain).to_bytes(4, "little")
    start = _GZIP_MAGIC + bytes([flags, 0, 0, 0, 0, 0, 255]) + comment
    return start + _EMPTY_BLOCK * blocks + data + trailer


def _header_value(text: str) -> str:
    """`text` without anything that could end a header line or split a field: such bytes are percent-encoded."""
    return _CONTROL.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _ended(head: bytes) -> bytes:
    return head.rstrip(b"\r\n") + b"\r\n\r\n"


def _base32(digest: bytes) -> str:
    return "sha1:" + base64.b32encode(digest).decode()


def _record_id() -> str:
    bits = os.urandom(16).hex()
    return f"<urn:uuid:{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}>"


def _warc_date(at_s: float) -> str:
    """A time as WARC writes it, rounded as the database rounds it: the date of a record is that of its page."""
    return (_EPOCH + datetime.timedelta(microseconds=round(at_s * 1e6))).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _write_error(path: Path, error: OSError) -> StoreError:
    hint = "Make room, then start the crawl again: it goes on where it stopped." if error.errno in _FULL else ""
    return StoreError(f"{path}: cannot be written: {error.strerror}", hint or "Check who owns the folder.")


# -- reading


class WarcRecord(NamedTuple):
    """A response read back. `offset + length` is where the record after it starts."""

    url: str
    ip: str
    date_s: float
    raw_head: bytes
    raw_body: bytes
    offset: int
    length: int
    cut: bool = False
    """Only the beginning of the body is there (WARC-Truncated)."""
    outcome: str = ""
    """The outcome of a response that was refused or broke off: only its head is there."""
    archive: str = ""
    """The archive that it was copied from; '' for a response to a request of ours."""
    archive_offset: int = 0
    part_of: str = ""
    """The URL of the rendered page whose script requested it."""
    rendered: bytes = b""
    """The page as a browser had it once its scripts had run; b'': it was not rendered."""


class _Member(NamedTuple):
    """An intact gzip member with a well-formed WARC record."""

    offset: int
    length: int
    fields: dict[str, str]
    block: bytes

    @property
    def kind(self) -> str:
        return self.fields.get("warc-type", "")


class WarcPiece(NamedTuple):
    """A part of a file: a record, or bytes that are none."""

    offset: int
    length: int
    kind: str = ""
    """The type of the record; '': these bytes are no intact record."""
    url: str = ""
    fields: Mapping[str, str] = {}
    """The header of the record, with lower-case names."""
    status: int = 0
    """Of the HTTP response in it."""
    content_type: str = ""
    """The same."""


def inspect(path: Path) -> Iterator[WarcPiece]:
    """The parts of a file, from its first byte to its last. A record with a wrong digest is no intact one."""
    end = 0
    with _Mapped(path) as data:
        for member in _members(data, 0):
            if not _has_right_digest(member):
                continue
            if member.offset > end:
                yield WarcPiece(end, member.offset - end)
            end = member.offset + member.length
            fields, status, content_type = member.fields, 0, ""
            if member.kind in RESPONSES:
                lines = member.block.partition(b"\r\n\r\n")[0].split(b"\r\n")
                words = lines[0].split()
                status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
                types = [line for line in lines if line.lower().startswith(b"content-type:")]
                content_type = types[0].partition(b":")[2].decode("latin-1").strip() if types else ""
            yield WarcPiece(
                member.offset,
                member.length,
                member.kind,
                fields.get("warc-target-uri", ""),
                fields,
                status,
                content_type,
            )
        if len(data) > end:
            yield WarcPiece(end, len(data) - end)


def _has_right_digest(member: _Member) -> bool:
    stated = member.fields.get("warc-block-digest", "")
    return not stated.startswith("sha1:") or stated == _base32(
        hashlib.sha1(member.block, usedforsecurity=False).digest()
    )


def copy_pieces(path: Path, pieces: Iterable[WarcPiece], target: Path) -> dict[int, int]:
    """Write some parts of a file to a new one; where each is there, by where it was."""
    moved: dict[int, int] = {}
    with path.open("rb") as source, target.open("wb") as file:
        for piece in pieces:
            source.seek(piece.offset)
            moved[piece.offset] = file.tell()
            file.write(source.read(piece.length))
        file.flush()
        os.fsync(file.fileno())
    return moved


class Payloads:
    """The bodies in some files, by their digests. The files are read when the first revisit needs a body."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._places: dict[str, tuple[Path, int]] | None = None

    def body(self, digest: str) -> bytes | None:
        """The body with this digest; None when no intact record has it."""
        if self._places is None:
            self._places = {}
            for path in self._paths:
                with _Mapped(path) as data:
                    for member in _members(data, 0):
                        if member.kind == "response":
                            self._places[member.fields.get("warc-payload-digest", "")] = (path, member.offset)
        if digest not in self._places:
            return None
        path, offset = self._places[digest]
        with _Mapped(path) as data:
            parsed = _parse(_inflate(data, offset)[1])
        return parsed[1].partition(b"\r\n\r\n")[2] if parsed else None


def recover(path: Path, from_offset: int = 0, payloads: Payloads | None = None) -> Iterator[WarcRecord]:
    """Every intact response after `from_offset`. Damaged bytes are stepped over.

    A revisit is given with the body it refers to, when that is in this file or among the `payloads`; else it is left
    out. Of a page that the server says has not changed, the head alone is given.
    """
    payloads = payloads or Payloads([path])
    with _Mapped(path) as data:
        for member, rendered in _with_conversions(_members(data, from_offset)):
            if member.kind not in RESPONSES:
                continue
            head, _, body = member.block.partition(b"\r\n\r\n")
            if member.fields.get("warc-profile") == NOT_MODIFIED_PROFILE:
                head = head or b"HTTP/1.1 304 Not Modified"
            elif member.kind == "revisit":
                found = payloads.body(member.fields.get("warc-payload-digest", ""))
                if found is None:
                    continue
                body = found
            yield WarcRecord(
                member.fields.get("warc-target-uri", ""),
                member.fields.get("warc-ip-address", ""),
                _seconds(member.fields.get("warc-date", "")),
                head + b"\r\n\r\n",
                body,
                member.offset,
                member.length,
                "warc-truncated" in member.fields,
                member.fields.get(OUTCOME_FIELD.lower(), ""),
                member.fields.get(ARCHIVE_FIELD.lower(), ""),
                _number(member.fields.get(ARCHIVE_OFFSET_FIELD.lower(), "")),
                member.fields.get(PART_FIELD.lower(), ""),
                rendered,
            )


def _with_conversions(members: Iterable[_Member]) -> Iterator[tuple[_Member, bytes]]:
    """Each record with the rendered page that was written with it, if there is one."""
    response_id, rendered = "", b""
    for member in members:
        if member.kind == CONVERSION:
            response_id, rendered = member.fields.get("warc-refers-to", ""), member.block
        else:
            is_its = rendered and response_id == member.fields.get("warc-record-id")
            yield member, rendered if is_its else b""


def cut_to_known(path: Path, known_end: int) -> None:
    """Cut off the records that the database does not know of; a file of which it knows none is removed."""
    if not known_end:
        path.unlink()
    elif path.stat().st_size > known_end:
        os.truncate(path, known_end)


def truncate_torn(path: Path, from_offset: int = 0) -> int:
    """Cut what follows the last intact response (or warcinfo) record; how many bytes were cut.

    A request, or a rendered page, whose response is torn goes with it. `from_offset` must be a record's start known to
    be intact.
    """
    size_bytes = path.stat().st_size
    end = min(from_offset, size_bytes)
    with _Mapped(path) as data:
        for member in _members(data, end):
            if member.kind not in ("request", CONVERSION):
                end = member.offset + member.length
    if end < size_bytes:
        os.truncate(path, end)
    return size_bytes - end


class _Mapped:
    """The bytes of a file; an empty one, which cannot be mapped, as no bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> mmap.mmap | bytes:
        with self._path.open("rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            self._data: mmap.mmap | bytes = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._data

    def __exit__(self, *_: object) -> None:
        if isinstance(self._data, mmap.mmap):
            self._data.close()


def _members(data: mmap.mmap | bytes, from_offset: int) -> Iterator[_Member]:
    """The intact records from `from_offset` on."""
    offset = from_offset
    while 0 <= offset < len(data):
        length, plain = _inflate(data, offset)
        parsed = _parse(plain) if length else None
        if parsed is None:
            offset = data.find(_GZIP_MAGIC, offset + 1)
            continue
        yield _Member(offset, length, *parsed)
        offset += length


def _inflate(data: mmap.mmap | bytes, offset: int) -> tuple[int, bytes]:
    """Length and content of the gzip member at `offset`; length 0 when there is no intact one."""
    if data[offset : offset + 3] != _GZIP_MAGIC:
        return 0, b""
    decoder = zlib.decompressobj(wbits=31)
    pieces: list[bytes] = []
    held_bytes, at = 0, offset
    while not decoder.eof:
        piece = data[at : at + _PIECE_BYTES]
        if not piece or held_bytes > MAX_RECORD_BYTES:
            return 0, b""
        at += len(piece)
        try:
            pieces.append(decoder.decompress(piece, MAX_RECORD_BYTES))
        except zlib.error:
            return 0, b""
        if decoder.unconsumed_tail:
            return 0, b""
        held_bytes += len(pieces[-1])
    return at - len(decoder.unused_data) - offset, b"".join(pieces)


def _parse(plain: bytes) -> tuple[dict[str, str], bytes] | None:
    """Header fields and block of a record, or None when it is not a whole one."""
    head, blank, rest = plain.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    if not blank or not lines[0].startswith(b"WARC/1."):
        return None
    fields = {}
    for line in lines[1:]:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        fields[name.strip().lower()] = value.strip()
    length = fields.get("content-length", "")
    if not length.isdigit() or len(rest) < int(length):
        return None
    return fields, rest[: int(length)]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _seconds(date: str) -> float:
    try:
        return datetime.datetime.fromisoformat(date).timestamp()
    except ValueError:
        return 0.0
