"""Plain text: the bytes are the text. It has no title; its links are the addresses that stand in it."""

from __future__ import annotations

from opilio.analyze.content import Content, Source
from opilio.analyze.draft import collect, urls_in
from opilio.analyze.formats import FORMATS
from opilio.analyze.kinds import is_binary
from opilio.analyze.layout import MAX_TEXT_CHARS, fold_lines
from opilio.analyze.markup import decode


@FORMATS.register("text/plain")
def read_plain(body: bytes, source: Source) -> Content | None:
    """Read a text file; None when it is binary: servers like to call unknown files text/plain."""
    if not source.charset.lower().startswith("utf-16") and is_binary(body):
        return None
    text, charset = decode(body, source.charset)
    text = fold_lines(text[:MAX_TEXT_CHARS])
    links, dropped = collect(urls_in(text, source), source)
    return Content(text, text, charset, links=links, links_dropped=dropped)
