"""Archives that tests write with warcio: pages about owls and pages about other things."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

OWLS = "owl hunts at night over fields where voles live and sleeps by day in barns trees caves or old towers"
OTHERS = "ship sails on seas with cargo for harbours where cranes lift steel boxes from decks onto long trains"
DATE = "2024-05-06T07:08:09Z"


class MadePage(NamedTuple):
    """A page of an archive."""

    url: str
    body: bytes
    on_topic: bool


def made_pages(count: int, *, seed: int = 1, links: bool = True) -> list[MadePage]:
    """Every third page is about owls; each links to the next two."""
    draw = random.Random(seed)
    pages = []
    for number in range(count):
        on_topic = number % 3 == 0
        words = " ".join(draw.choices((OWLS if on_topic else OTHERS).split(), k=60))
        more = "".join(f'<a href="{address(seed, number + step)}">next {step}</a>' for step in (1, 2)) if links else ""
        title = f"{'Owls' if on_topic else 'Ships'} {number}"
        body = f"<html><head><title>{title}</title></head><body><p>{words} {number} {seed}</p>{more}</body></html>"
        pages.append(MadePage(address(seed, number), body.encode(), on_topic))
    return pages


def address(seed: int, number: int) -> str:
    return f"http://h{number % 7}.example/{seed}/{number}.html"


def response(writer: WARCWriter, url: str, body: bytes, *headers: tuple[str, str], kind: str = "text/html") -> None:
    head = StatusAndHeaders("200 OK", [("Content-Type", kind), *headers], protocol="HTTP/1.1")
    writer.write_record(
        writer.create_warc_record(
            url, "response", payload=io.BytesIO(body), http_headers=head, warc_headers_dict={"WARC-Date": DATE}
        )
    )


def write_warc(path: Path, pages: Iterable[MadePage], *, gzip_records: bool = True) -> Path:
    """A WARC file with a request before each response, as most crawlers write them."""
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=gzip_records)
        writer.write_record(writer.create_warcinfo_record(path.name, {"software": "a test"}))
        for page in pages:
            head = StatusAndHeaders("GET / HTTP/1.1", [("Host", "x")], is_http_request=True)
            writer.write_record(writer.create_warc_record(page.url, "request", http_headers=head))
            response(writer, page.url, page.body)
    return path


def write_forms(folder: Path, pages: Sequence[MadePage]) -> dict[str, Path]:
    """The same archive in every form that is met: a member for each record, one member, none, and cut anywhere."""
    folder.mkdir(exist_ok=True)
    records = write_warc(folder / "records.warc.gz", pages)
    plain = write_warc(folder / "plain.warc", pages, gzip_records=False)
    data = plain.read_bytes()
    whole = folder / "whole.warc.gz"
    whole.write_bytes(gzip.compress(data))
    blocks = folder / "blocks.warc.gz"
    blocks.write_bytes(b"".join(gzip.compress(data[at : at + 5000]) for at in range(0, len(data), 5000)))
    return {"records": records, "plain": plain, "whole": whole, "blocks": blocks}
