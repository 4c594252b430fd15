"""Reading archives: every page of every form, from any place, and never more than is bounded, whatever is in them."""

from __future__ import annotations

import gzip
import io
import random
import tracemalloc
import zlib
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from archives import made_pages, write_forms, write_warc
from opilio.sift import archives
from opilio.sift.archives import ArchivePage, Damage, Position, read_pages


def pages_in(data: bytes, position: Position = Position(), lane: int = 0, lanes: int = 1) -> list[ArchivePage]:  # noqa: B008
    found = read_pages(io.BytesIO(data), position, lane, lanes)
    return [one for one in found if isinstance(one, ArchivePage)]


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_forms(tmp_path_factory.mktemp("forms"), made_pages(40))


@pytest.mark.parametrize("form", ["records", "plain", "whole", "blocks"])
def test_every_form_gives_the_pages_that_warcio_gives(forms: dict[str, Path], form: str) -> None:
    """However a file is compressed, its responses are those that an independent reader finds, with the same bytes."""
    data = forms[form].read_bytes()
    with forms["records"].open("rb") as file:
        expected = [
            (record.rec_headers["WARC-Target-URI"], record.raw_stream.read())
            for record in ArchiveIterator(file, no_record_parse=True)
            if record.rec_type == "response"
        ]
    assert [(page.url, page.block) for page in pages_in(data)] == expected


@pytest.mark.parametrize("form", ["records", "plain", "whole", "blocks"])
def test_reading_goes_on_from_any_page(forms: dict[str, Path], form: str) -> None:
    """From the position behind each page, exactly the pages after it follow."""
    data = forms[form].read_bytes()
    pages = pages_in(data)
    urls = [page.url for page in pages]
    for place, page in enumerate(pages):
        assert [later.url for later in pages_in(data, page.after)] == urls[place + 1 :]


def test_lanes_share_the_pages(forms: dict[str, Path]) -> None:
    """Every page is in exactly one lane, and a lane goes on in its own pages."""
    data = forms["records"].read_bytes()
    lanes = [pages_in(data, lane=lane, lanes=3) for lane in range(3)]
    assert sorted(page.url for lane in lanes for page in lane) == sorted(page.url for page in pages_in(data))
    rest = pages_in(data, lanes[1][4].after, 1, 3)
    assert [page.url for page in rest] == [page.url for page in lanes[1][5:]]


@pytest.mark.parametrize("form", ["records", "plain", "whole", "blocks"])
def test_damaged_bytes_lose_only_what_they_hit(forms: dict[str, Path], form: str) -> None:
    """With random bytes overwritten, cut out or cut off, reading ends without an error, and gives no page twice.

    With a member for each record, only the damaged records are lost, and each damage is reported with its place.
    """
    sound = forms[form].read_bytes()
    urls = [page.url for page in pages_in(sound)]
    draw = random.Random(7)
    for _ in range(60):
        data, at = bytearray(sound), draw.randrange(len(sound))
        what = draw.choice(("overwrite", "remove", "cut"))
        if what == "overwrite":
            data[at : at + 40] = draw.randbytes(40)
        elif what == "remove":
            del data[at : at + draw.randrange(1, 3000)]
        else:
            del data[at:]
        found = list(read_pages(io.BytesIO(bytes(data)), Position()))
        pages = [one.url for one in found if isinstance(one, ArchivePage)]
        assert len(pages) == len(set(pages))
        if form == "records" and what == "overwrite":
            assert len(set(urls) - set(pages)) <= 2
            assert set(urls) == set(pages) or any(isinstance(one, Damage) for one in found)


def _record(length: object, block: bytes = b"", *more: str) -> bytes:
    head = ["WARC/1.0", "WARC-Type: response", "WARC-Target-URI: http://x.example/", f"Content-Length: {length}", *more]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


@pytest.mark.parametrize(
    "bad",
    [
        _record("-5"), _record("9" * 18), _record("9" * 500), _record("ten"), _record("٣"),
        b"WARC/1.0\r\n" + b"X: y\r\n" * 200_000, b"WARC/1.0 " + b"a" * 300_000, b"\x00" * 100_000,
        b"<html>no archive</html>" * 5000, _record(5, b"12345678901234"),
    ],
    ids=["negative", "exabytes", "digits", "words", "other digits", "endless header", "endless line", "zeros", "html",
         "too short a length"],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_absurd_records_are_stepped_over(tmp_path: Path, bad: bytes, packed: bool) -> None:
    """The pages before and behind an absurd record are read, and it is reported."""
    good = write_warc(tmp_path / "good", made_pages(2), gzip_records=packed).read_bytes()
    data = good + (gzip.compress(bad) if packed else bad) + good
    found = list(read_pages(io.BytesIO(data), Position()))
    pages = [one for one in found if isinstance(one, ArchivePage) and one.url != "http://x.example/"]
    assert len(pages) == 4
    assert any(isinstance(one, Damage) for one in found)


def test_bombs_are_passed_over_in_little_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A record of 128 MB of zeros is reported as too large, in a few megabytes of memory; the next is read."""
    size = 128 * 2**20
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    bomb = packer.compress(_record(size)[:-4])
    zeros = bytes(2**20)
    bomb += b"".join(packer.compress(zeros) for _ in range(size // 2**20)) + packer.compress(b"\r\n\r\n")
    bomb += packer.flush()
    good = write_warc(tmp_path / "good", made_pages(1)).read_bytes()
    tracemalloc.start()
    found = pages_in(bomb + good)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [page.too_large for page in found] == [True, False]
    assert peak_bytes < 16 * 2**20
    monkeypatch.setattr(archives, "MAX_SKIPPED_BYTES", 2**20)
    again = list(read_pages(io.BytesIO(bomb + good), Position()))
    assert [type(one) for one in again] == [Damage, ArchivePage]
