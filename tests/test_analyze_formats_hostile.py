"""Files that were broken on purpose: whatever the bytes, there is an answer, and soon."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyze_documents import doc, docx, dvips, epub, opendocument, pdf, ppt, pptx, rtf, tarred, zipped
from opilio.analyze import Content, Extractor, Failure
from opilio.analyze.formats import DOCUMENT_KINDS
from opilio.settings import DocumentSettings, Settings

URL = "http://site.test/papers/file"
WHOLE = {
    "docx": docx(),
    "pptx": pptx(),
    "odt": opendocument(),
    "epub": epub(),
    "doc": doc(),
    "ppt": ppt(),
    "rtf": rtf(),
    "pdf": pdf("Some text", "and more"),
    "ps": dvips(),
    "zip": zipped({"a.txt": b"text", "b.pdf": pdf("x")}),
    "tar": tarred({"a.txt": b"text", "b.rtf": rtf()}),
    "tgz": tarred({"a.txt": b"text"}, "w:gz"),
    "txz": tarred({"a.txt": b"text"}, "w:xz"),
    "tbz": tarred({"a.txt": b"text"}, "w:bz2"),
}
QUICKLY_S = 5.0


@pytest.fixture(scope="module")
def extractor() -> Iterator[Extractor]:
    reader = Extractor(Settings(documents=DocumentSettings(timeout_s=10.0)))
    yield reader
    reader.close()


def check(extractor: Extractor, body: bytes, mime: str) -> None:
    """There is content, or a failure in words that blames the file and not us."""
    start_s = time.monotonic()
    result = extractor.read_now(body, mime, URL)
    assert time.monotonic() - start_s < QUICKLY_S
    if isinstance(result, Failure):
        assert result.detail
        assert "\n" not in result.detail
        assert not result.detail.startswith("analysis failed"), result.detail
        assert "crashed" not in result.detail
    else:
        assert isinstance(result, Content)
        (result.text + result.title + "".join(link.anchor for link in result.links)).encode()


many = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(body=st.binary(max_size=3000), mime=st.sampled_from(sorted(DOCUMENT_KINDS)))
def test_random_bytes(extractor: Extractor, body: bytes, mime: str) -> None:
    """Random bytes, called a document of any kind, do no harm."""
    check(extractor, body, mime)


@pytest.mark.parametrize("name", WHOLE)
def test_truncated(extractor: Extractor, name: str) -> None:
    """Files cut off at any place do no harm."""
    whole = WHOLE[name]
    rng = random.Random(name)
    for _ in range(15):
        check(extractor, whole[: rng.randrange(len(whole))], "application/octet-stream")


@pytest.mark.parametrize("name", WHOLE)
def test_changed_bytes(extractor: Extractor, name: str) -> None:
    """Files with some bytes changed do no harm; most changes are in what matters."""
    rng = random.Random(name)
    for _ in range(15):
        body = bytearray(WHOLE[name])
        for _ in range(rng.choice([1, 3, 30])):
            body[rng.randrange(len(body))] = rng.choice([0, 255, 127, rng.randrange(256)])
        check(extractor, bytes(body), "application/octet-stream")


@pytest.mark.parametrize("name", ["doc", "ppt"])
def test_changed_numbers(extractor: Extractor, name: str) -> None:
    """Old office files are full of offsets and sizes: absurd ones lead nowhere, and do no harm."""
    rng = random.Random(name)
    places = [at for at in range(0, len(WHOLE[name]) - 4, 2) if any(WHOLE[name][at : at + 4])]
    for _ in range(100):
        body = bytearray(WHOLE[name])
        for at in rng.sample(places, 2):
            body[at : at + 4] = rng.choice([2**32 - 1, 2**31, 0, len(body), rng.randrange(len(body))]).to_bytes(
                4, "little"
            )
        check(extractor, bytes(body), "application/msword")


@pytest.mark.parametrize(
    "body",
    [
        b"{\\rtf1" + b"{" * 1_000_000,
        b"{\\rtf1" + b"{\\field" * 1500,
        b"{\\rtf1" + b"\\u-10179?" * 100_000,
        b"{\\rtf1 \\bin999999999 x",
        b"%!PS\n" + b"(" * 100_000,
        b"%!PS\n" + b"(\\" * 200_000,
        b"%!PS\n" + b"(a)" * 100_000,
        b"%PDF-1.4\n" + b"[" * 200_000,
        b"%PDF-1.4\n" + b"1 0 obj\n" * 50_000,
        docx("<w:p>" * 50_000),
        docx('<w:r><w:fldChar w:fldCharType="begin"/></w:r>' * 20_000),
    ],
    ids=range(11),
)
def test_pathological(extractor: Extractor, body: bytes) -> None:
    """Files made to be slow to read are read, or refused, quickly."""
    check(extractor, body, "application/octet-stream")


def test_archive_of_itself(extractor: Extractor) -> None:
    """Archives in archives without end are refused at the depth that the settings allow."""
    body = b"text"
    for _ in range(50):
        body = zipped({"in.zip": body})
    result = extractor.read_now(body, "application/zip", URL)
    assert isinstance(result, Failure)
    assert "is nested in more than 3 archives" in result.detail
