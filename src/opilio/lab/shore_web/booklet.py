"""A booklet: articles set as a PDF file, with no more of PDF than that takes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from opilio.lab.shore_web.texts import Article

LINE_CHARS = 82
LINES_PER_PAGE = 46


def booklet(title: str, articles: Sequence[Article]) -> bytes:
    """A PDF file with the articles, one after the other."""
    sheets = [sheet for article in articles for sheet in _sheets(article)]
    kids = " ".join(f"{4 + 2 * place} 0 R" for place in range(len(sheets)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(sheets)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /Encoding /WinAnsiEncoding >>",
    ]
    for place, lines in enumerate(sheets):
        text = b"BT /F1 11 Tf 60 780 Td 15 TL\n" + b"".join(b"(" + _escaped(line) + b") '\n" for line in lines) + b"ET"
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> "
            b"/Contents %d 0 R >>" % (5 + 2 * place)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text))
    objects.append(b"<< /Title (" + _escaped(title) + b") >>")
    return _file(objects)


def _sheets(article: Article) -> Iterator[list[str]]:
    lines = [article.title, ""]
    for paragraph in article.plain:
        lines += [*textwrap.wrap(paragraph, LINE_CHARS), ""]
    for first in range(0, len(lines), LINES_PER_PAGE):
        yield lines[first : first + LINES_PER_PAGE]


def _escaped(line: str) -> bytes:
    return line.encode("cp1252", "replace").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _file(objects: Sequence[bytes]) -> bytes:
    """The objects with the table of where each begins, which ends a PDF file."""
    body, starts = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        starts.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % start for start in starts)
    count = len(objects) + 1
    return (
        body
        + b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, table)
        + b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, count - 1, len(body))
    )
