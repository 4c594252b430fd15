"""The sieve: reads an archive piece by piece, analyses and judges its pages, and keeps those on topic.

It runs in worker processes and on the nodes of a cluster. An order is answered by exactly one piece.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec

from opilio.crawl.messages import WorkerSetup
from opilio.crawl.worker import Worker
from opilio.errors import OpilioError, describe_error
from opilio.fetch import Response
from opilio.fetch.transport import replay
from opilio.model import Document, Lease, Outcome, Visit, normalize
from opilio.model.url import path_of
from opilio.settings import MIB
from opilio.sift.archives import ArchivePage, Damage, Position, read_pages
from opilio.sift.sources import ArchiveFile, opened
from opilio.store.warc import RecordMaker, RecordNote

PIECE_S = 0.5
"""A piece ends after so much work: often enough for progress, and seldom enough for transactions."""
PIECE_PAGES, PIECE_BYTES = 64, 8 * MIB
"""A piece has at most so many pages on topic, or so many bytes of them."""
MAX_PROBLEMS = 100
"""Of one piece; further ones are only counted."""
JUDGED, ON_TOPIC, DAMAGE, REVISITS, ROBOTS, NO_ADDRESS, TOO_LARGE, LOST, NOINDEX = (
    "judged", "on topic", "damaged places", "revisit records", "robots.txt files", "records of no web address",
    "too large", "lost", "noindex",
)  # fmt: skip
"""What is counted, besides the outcomes of responses that are no pages."""


ROBOTS_PATH = "/robots.txt"


class SiftOrder(msgspec.Struct, frozen=True, array_like=True):
    """Read on in an archive, for one piece."""

    slot: int
    """Which worker."""
    unit: int
    archive: ArchiveFile | None = None
    """Begin with this archive, at `position`; None: go on in the one of the order before."""
    position: Position = Position()
    lane: int = 0
    lanes: int = 1
    careful: bool = False
    """A piece has one page only: something in it has ended a worker."""
    leave_out: bool = False
    """The first page is not looked at: it has ended a worker."""


class SiftSetup(msgspec.Struct, frozen=True, array_like=True):
    """The first message to a worker."""

    worker: WorkerSetup
    keep_off_topic: bool = False


class Found(msgspec.Struct, frozen=True, array_like=True):
    """A page to be stored."""

    visit: Visit
    offset: int
    record: bytes
    """For the WARC file of the collection."""


class SiftPiece(msgspec.Struct, frozen=True, array_like=True):
    """What came of an order."""

    slot: int
    unit: int
    position: Position = Position()
    """Where to go on."""
    found: list[Found] = []
    counts: dict[str, int] = {}
    problems: list[tuple[int, str]] = []
    """Offset and what is wrong there."""
    ended: bool = False
    lost: bool = False
    """The worker ended before it could answer."""


encoder = msgspec.msgpack.Encoder()
order_decoder = msgspec.msgpack.Decoder(SiftOrder)
piece_decoder = msgspec.msgpack.Decoder(SiftPiece)
setup_decoder = msgspec.msgpack.Decoder(SiftSetup)


class Sieve:
    """One worker."""

    def __init__(self, setup: SiftSetup) -> None:
        self._worker = Worker(setup.worker, archive=False)
        self._keep_off_topic = setup.keep_off_topic
        self._maker = RecordMaker()
        self._terms: dict[int, str] = {}
        """Stems that were new on pages off topic: the collection learns them with the first page on topic."""
        self._open = ExitStack()
        self._pages: Iterator[ArchivePage | Damage] = iter(())
        self._name = ""
        self._at = Position()
        self._has_ended = True

    def carry_out(self, order: SiftOrder) -> SiftPiece:
        """The next piece of an archive."""
        counts: Counter[str] = Counter()
        problems: list[tuple[int, str]] = []
        found: list[Found] = []
        try:
            if order.archive is not None:
                self._begin(order, order.archive)
            self._read(order, found, counts, problems)
        except OpilioError as error:
            counts[DAMAGE] += 1
            problems.append((self._at.offset, error.message))
            self._has_ended = True
        except Exception as error:  # whatever a library raises over a file that others wrote
            counts[DAMAGE] += 1
            problems.append((self._at.offset, f"cannot be read further: {describe_error(error)}"))
            self._has_ended = True
        if self._has_ended:
            self._open.close()
        return SiftPiece(
            order.slot, order.unit, self._at, found, dict(counts), problems[:MAX_PROBLEMS], self._has_ended
        )

    def _begin(self, order: SiftOrder, archive: ArchiveFile) -> None:
        self._open.close()
        self._name, self._at, self._has_ended = archive.name, order.position, False
        file = self._open.enter_context(opened(archive.path, archive.member))
        self._pages = read_pages(file, order.position, order.lane, order.lanes)

    def _read(
        self, order: SiftOrder, found: list[Found], counts: Counter[str], problems: list[tuple[int, str]]
    ) -> None:
        until_s, held_bytes, leave_out = time.monotonic() + PIECE_S, 0, order.leave_out
        while not self._has_ended:
            page = next(self._pages, None)
            if page is None:
                self._has_ended = True
                return
            if isinstance(page, Damage):
                counts[DAMAGE] += 1
                problems.append((page.offset, page.problem))
            elif leave_out:
                counts[LOST] += 1
                problems.append((page.offset, f"{page.url[:300]}: left out, for it ended the process that read it"))
                leave_out = False
            else:
                kept = self._sift(page, counts, problems)
                if kept is not None:
                    found.append(kept)
                    held_bytes += len(kept.record)
            self._at = page.after
            is_full = len(found) >= PIECE_PAGES or held_bytes >= PIECE_BYTES
            if is_full or order.careful or order.leave_out or time.monotonic() >= until_s:
                return

    def _sift(self, page: ArchivePage, counts: Counter[str], problems: list[tuple[int, str]]) -> Found | None:
        """Judge a page; what is to be stored of it."""
        if page.kind == "revisit":
            counts[REVISITS] += 1
            return None
        url = normalize(page.url)
        if url and path_of(url) == ROBOTS_PATH:
            counts[ROBOTS] += 1
            return None
        if not url:
            counts[NO_ADDRESS] += 1
            return None
        if page.too_large:
            counts[TOO_LARGE] += 1
            problems.append((page.offset, f"{url}: its record is too large, and was passed over"))
            return None
        lease = Lease(0, url)
        response = self._response(page, lease)
        visit = self._worker.read(lease, response)
        document = visit.document
        if document is None:
            counts[visit.fetch.outcome] += 1
            return None
        if document.noindex and self._worker.settings.robots.obey_meta:
            counts[NOINDEX] += 1
            self._terms.update(document.new_terms)
            return None
        counts[JUDGED] += 1
        is_relevant = visit.judgement is not None and visit.judgement.is_relevant
        counts[ON_TOPIC] += is_relevant
        if is_relevant or self._keep_off_topic:
            return self._found(page, msgspec.structs.replace(visit, document=self._with_terms(document)), response)
        self._terms.update(document.new_terms)
        return None

    def _with_terms(self, document: Document) -> Document:
        """The document with its stems that were new on an earlier page off topic."""
        ids = memoryview(document.term_ids).cast("I") if document.term_ids else ()
        late = [(tid, self._terms.pop(tid)) for tid in ids if tid in self._terms]
        return msgspec.structs.replace(document, new_terms=[*document.new_terms, *late]) if late else document

    def _response(self, page: ArchivePage, lease: Lease) -> Response:
        """The response in a record. Archives keep bodies as they came, or unpacked, whatever the head says."""
        settings = self._worker.settings
        if page.kind == "response":
            head, gap, body = page.block.partition(b"\r\n\r\n")
            if not gap or len(head) > page.block.find(b"\n\n") >= 0:
                head, _, body = page.block.partition(b"\n\n")
            head, body = _unchunked(head, body)
        else:
            kind = page.content_type if page.kind == "resource" else "text/plain; charset=utf-8"
            head, body = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}".encode("latin-1", "replace"), page.block
        ip, captured_s = page.ip, page.captured_s
        response = replay(lease, ip, captured_s, head + b"\r\n\r\n", body, settings, cut=page.is_cut)
        if response.fetch.outcome is Outcome.BAD_ENCODING:
            plain = _without(head, b"content-encoding")
            again = replay(lease, ip, captured_s, plain + b"\r\n\r\n", body, settings, cut=page.is_cut)
            response = again if again.fetch.outcome is Outcome.OK else response
        return response

    def _found(self, page: ArchivePage, visit: Visit, response: Response) -> Found:
        note = RecordNote("length" if visit.fetch.cut else "", archive=self._name, archive_offset=page.offset)
        url, fetch = visit.lease.url, visit.fetch
        records = self._maker.make(url, fetch.ip, fetch.started_s, b"", response.raw_head, response.raw_body, note)
        self._maker.forget()  # the page may be one that the collection has: no other record may refer to this one
        return Found(visit, page.offset, records.data)


def _without(head: bytes, name: bytes) -> bytes:
    """A head without the lines of one header."""
    lines = head.split(b"\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() != name]
    return b"\n".join(kept).rstrip(b"\r\n")


def _unchunked(head: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Head and body without chunked coding, if the body has it: some archives keep what went over the wire."""
    if b"chunked" not in head.lower():
        return head, body
    pieces: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at, at + 40)
        size = body[at:end].partition(b";")[0].strip() if end >= 0 else b""
        try:
            count = int(size, 16)
        except ValueError:
            return (_without(head, b"transfer-encoding"), b"".join(pieces)) if pieces else (head, body)
        if count <= 0:
            return _without(head, b"transfer-encoding"), b"".join(pieces)
        pieces.append(body[end + 2 : end + 2 + count])
        at = end + 2 + count + 2
