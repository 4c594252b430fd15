"""Content decoding and sniffing: any encoder's output is read back, any bytes are survived, no limit is passed."""

from __future__ import annotations

import gzip
import itertools
import time
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from opilio.fetch.decoding import CodingError, Decoder, codings_of
from opilio.fetch.headers import media_type, parse_headers, retry_after_s, sniff


def raw_deflate(data: bytes) -> bytes:
    """Deflate without the zlib wrapper."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


ENCODERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("br", brotli.compress),
    ("zstd", zstandard.compress),
]


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """`data` cut into pieces of the given sizes, over and over."""
    out, start = [], 0
    for size in itertools.cycle(sizes):
        if start >= len(data):
            return out
        out.append(data[start : start + size])
        start += size
    return out


@given(
    st.binary(max_size=5000).map(lambda data: data * 3),
    st.lists(st.sampled_from(ENCODERS), max_size=3),
    st.lists(st.integers(1, 400), min_size=1, max_size=5),
)
def test_whatever_was_encoded_is_decoded(
    data: bytes, encoders: list[tuple[str, Callable[[bytes], bytes]]], sizes: list[int]
) -> None:
    """Any stack of encodings by the reference encoders, cut anywhere, gives the data back."""
    coded = data
    for _, encode in encoders:
        coded = encode(coded)
    decoder = Decoder([name for name, _ in encoders], 100_000)
    assert all(decoder.feed(piece) for piece in pieces(coded, sizes))
    decoder.finish()
    assert decoder.body == data


@given(
    st.binary(min_size=1, max_size=3000),
    st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br", "compress"]),
    st.integers(0, 2000),
)
def test_any_bytes_are_survived(data: bytes, header: str, max_bytes: int) -> None:
    """Garbage, also behind a good start, ends in a CodingError or in at most `max_bytes`, never in anything else."""
    for start in (b"", gzip.compress(b"x" * 50)[:-3], b"\x28\xb5\x2f\xfd"):
        decoder = Decoder(codings_of(header), max_bytes)
        try:
            decoder.feed(start + data)
            decoder.finish()
        except CodingError as error:
            assert str(error)
        assert len(decoder.body) <= max_bytes


@pytest.mark.parametrize("encoder", range(len(ENCODERS)))
def test_limit_is_exact(encoder: int) -> None:
    """A body of the limit's size passes, one byte more does not."""
    name, encode = ENCODERS[encoder]
    data = bytes(n * n % 251 for n in range(20_000))
    exact, short = Decoder([name], 20_000), Decoder([name], 19_999)
    assert exact.feed(encode(data))
    exact.finish()
    assert not short.feed(encode(data))
    assert short.overflowed
    assert short.body == data[:19_999]


@pytest.mark.parametrize("name", ["gzip", "br", "zstd", "zstd-blocks", "deflate"])
def test_bombs_cost_little(name: str) -> None:
    """Megabytes out of a few KB are neither made nor kept: the decoder stops near its limit and calls it a bomb."""
    zeros = bytes(30_000_000)
    encoders: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "deflate": raw_deflate,
        "br": lambda data: brotli.compress(data, quality=1),
        "zstd": zstandard.compress,
        # A frame of nothing but RLE blocks, the densest zstd there is: each 4 bytes are 128 KiB of zeros.
        "zstd-blocks": lambda data: b"\x28\xb5\x2f\xfd\x00\x58" + b"\x02\x00\x10\x00" * 4000,
    }
    bomb = encoders[name](zeros)
    del zeros
    decoder = Decoder([name.partition("-")[0]], 1_000_000)
    tracemalloc.start()
    begin_s = time.perf_counter()
    assert not decoder.feed(bomb)
    took_s = time.perf_counter() - begin_s
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoder.is_bomb
    assert peak_bytes < 40_000_000
    assert took_s < 0.5


def test_long_but_honest_text_is_no_bomb() -> None:
    """Text that is merely too long is told apart from a bomb."""
    decoder = Decoder(["gzip"], 10_000)
    assert not decoder.feed(gzip.compress(b" ".join(b"%d" % n for n in range(20_000))))
    assert not decoder.is_bomb


@pytest.mark.parametrize(
    ("start", "header", "expected"),
    [
        (b"<!DOCTYPE html>", "", "text/html"),
        (b"\xef\xbb\xbf\n <HTML>", "", "text/html"),
        (b"<!-- x --><p>", "", "text/html"),
        (b"plain words", "", "text/plain"),
        (b"", "", "text/plain"),
        ("Füße".encode("latin-1"), "", "text/plain"),
        ("中文".encode("gb18030"), "", "text/plain"),
        ("\x1b$BF|K\\".encode("latin-1"), "", "text/plain"),
        ("<p>ß".encode("utf-16-le"), "", "text/html"),
        ("ß".encode("utf-16"), "", "text/plain"),
        ("word".encode("utf-16-be"), "text/plain; charset=utf-16be", "text/plain"),
        (b"\x89PNG\r\n\x1a\n", "text/html", "image/png"),
        (b"%PDF-1.4", "text/html", "application/pdf"),
        (b"PK\x03\x04", "text/html", "application/zip"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "", "application/x-riff"),
        (b"\x00\x00\x00\x20ftypisom", "", "video/mp4"),
        (b"ab\x00\x00\x00cd", "", "application/octet-stream"),
        (b"<p>" + bytes(100), "", "application/octet-stream"),
    ],
)
def test_sniff(start: bytes, header: str, expected: str) -> None:
    """Text of any charset is text; the usual binary formats are known."""
    assert sniff(start, header) == expected


@given(st.text(max_size=300))
def test_text_in_utf8_is_text(text: str) -> None:
    """Printable UTF-8 is never taken for binary, unless it begins as a binary format does."""
    printable = "".join(c for c in text if c.isprintable())
    assert sniff(("word " + printable).encode()) == "text/plain"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("text/html", "text/html"),
        (" Text/HTML ;charset=x", "text/html"),
        ("text/html, text/html", "text/html"),
        ("application/xhtml+xml;", "application/xhtml+xml"),
        ("html", ""),
        ("", ""),
        ("; charset=utf-8", ""),
    ],
)
def test_media_type(header: str, expected: str) -> None:
    """The bare type is read from whatever servers write around it."""
    assert media_type(header) == expected


def test_folded_and_broken_header_lines() -> None:
    """A folded line belongs to the header before it; a line without a colon is passed over."""
    lines = [b"X-A: one\r\n", b"\ttwo\r\n", b"nonsense\r\n", b"x-a: three\r\n", b"\xe9: \xe9\r\n"]
    assert parse_headers(lines) == {"x-a": "one two, three", "é": "é"}


@given(st.text(max_size=40))
def test_retry_after_is_always_a_wait(value: str) -> None:
    """Whatever a server writes there, the wait is finite and not negative."""
    assert 0 <= retry_after_s(value, 1e9) < 1e9


def test_retry_after_forms() -> None:
    """Seconds and dates are read; a date in the past is no wait."""
    assert retry_after_s("7", 0) == 7
    assert retry_after_s("9" * 400, 0) < 1e9
    assert retry_after_s("Thu, 01 Jan 1970 00:01:00 GMT", 30) == 30
    assert retry_after_s("Thu, 01 Jan 1970 00:01:00 GMT", 90) == 0
