"""PDF, read by PDFium. The library is loaded with the first PDF, and only in the extraction process."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

from opilio.analyze.content import Content
from opilio.analyze.documents.reading import ReadingContext, Unreadable
from opilio.analyze.draft import Draft
from opilio.analyze.formats import DOCUMENTS, PDF

_MAX_LINKS_PER_PAGE = 1000
_MAX_URI_BYTES = 8192
# A word hyphenated at the end of a line. PDFium replaces a hyphen that it takes for one by a special character.
_CUT_WORD = re.compile(r"(?<=\w)(?:[-\xad]\r?\n|[\x02\ufffe](?:\r?\n)?)(?=[^\W\d_A-Z])")


@DOCUMENTS.register(PDF)
def read_pdf(body: bytes, reading: ReadingContext) -> Content:
    """Read a PDF page by page, until the text is full or time runs out."""
    import pypdfium2  # noqa: PLC0415

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("is protected by a password") from error
        raise
    draft = Draft()
    for number in range(min(len(document), reading.budget.max_pages)):
        if draft.full or not reading.budget.has_time:
            break
        _read_page(document, number, draft)
    title = document.get_metadata_value("Title")
    return draft.content(reading.source, title=title, language=_language(document), bare_urls=True)


def _read_page(document: Any, number: int, draft: Draft) -> None:
    """Add the text and links of a page; a broken page is skipped."""
    import pypdfium2  # noqa: PLC0415

    try:
        page = document[number]
        text_page = page.get_textpage()
    except pypdfium2.PdfiumError:
        return
    draft.add(_CUT_WORD.sub("", text_page.get_text_bounded(errors="replace")))
    draft.end_line()
    for uri, (left, bottom, right, top) in _links(document, page):
        draft.add_link(uri, text_page.get_text_bounded(left, bottom, right, top, errors="replace"))
    text_page.close()
    page.close()


def _links(document: Any, page: Any) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """The addresses of the link areas on a page, with the areas: left, bottom, right, top."""
    import pypdfium2.raw as pdfium  # noqa: PLC0415

    position, link, area = ctypes.c_int(0), pdfium.FPDF_LINK(), pdfium.FS_RECTF()
    for _ in range(_MAX_LINKS_PER_PAGE):
        if not pdfium.FPDFLink_Enumerate(page, position, link):
            return
        action = pdfium.FPDFLink_GetAction(link)
        if not action or pdfium.FPDFAction_GetType(action) != pdfium.PDFACTION_URI:
            continue
        size = pdfium.FPDFAction_GetURIPath(document, action, None, 0)
        if 1 < size <= _MAX_URI_BYTES and pdfium.FPDFLink_GetAnnotRect(link, area):
            buffer = ctypes.create_string_buffer(size)
            pdfium.FPDFAction_GetURIPath(document, action, buffer, size)
            yield buffer.value.decode("utf-8", "replace"), (area.left, area.bottom, area.right, area.top)


def _language(document: Any) -> str:
    import pypdfium2.raw as pdfium  # noqa: PLC0415

    size = pdfium.FPDFCatalog_GetLanguage(document, None, 0)
    if not 2 < size < 200:
        return ""
    buffer = (pdfium.FPDF_WCHAR * (size // 2))()
    pdfium.FPDFCatalog_GetLanguage(document, buffer, size)
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\0")
