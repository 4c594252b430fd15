"""The index of a web archive (CDX server): `cdx=https://index.commoncrawl.org/CC-MAIN-2026-39-index?url=*.example.org`.

The address says which URLs: `url=*.example.org` is a domain with its subdomains, `url=example.org/birds/*` a folder;
`filter=`, `from=` and `to=` may be added. Two dialects are in use. Common Crawl and pywb answer one JSON object for
each capture, with `url`, `mime` and `status`; the Wayback Machine answers one array of rows, the first of which names
the columns (`original`, `mimetype`, `statuscode`). Where nothing was captured, the former answer 404.

An index knows no text. Pages come first whose URLs contain words of the question, then those with short addresses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from opilio.errors import SettingsError
from opilio.seeds.provider import (
    PROVIDERS,
    FoundPages,
    ProviderError,
    Request,
    SeedProvider,
    web_address,
    with_parameters,
)
from opilio.topics.tree import words_of

EXAMPLE = "cdx=https://index.commoncrawl.org/CC-MAIN-2026-39-index?url=*.example.org"
MAX_CAPTURES = 5000
"""Captures that are read, unless the address has a limit of its own: an index lists them in the order of their URLs."""
MIN_WORD_CHARS = 3
_NO_PAGES = ("image/", "video/", "audio/", "font/", "text/css", "text/javascript", "application/javascript",
             "application/x-javascript", "application/json", "application/xml", "text/xml")  # fmt: skip
_STORED = ("200", "-", "")  # `-`: a revisit record, whose page is stored under an earlier date
_NOT_JSON = "Is this the address of a CDX server? It must answer `output=json`."


class CdxProvider:
    """Lists pages of a domain, or of a pattern of URLs."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def find(self, query: str, pages: FoundPages, request: Request) -> None:
        """The captured pages: those whose URLs have words of the question first."""
        limit = [] if "limit" in parse_qs(urlsplit(self._address).query) else [("limit", MAX_CAPTURES)]
        try:
            reply = await request(with_parameters(self._address, [("output", "json"), *limit]))
        except ProviderError as error:
            if error.status == 404:  # how pywb and Common Crawl say that nothing was captured
                return
            raise
        captured = FoundPages(MAX_CAPTURES)
        for url, mime, status in _captures(reply.body):
            if status in _STORED and not mime.startswith(_NO_PAGES):
                captured.add(url)
        words = {word for word in words_of(query) if len(word) >= MIN_WORD_CHARS}
        for page in sorted(captured.pages, key=lambda page: _order(page.url, words)):
            pages.add(page.url)


def _order(url: str, words: set[str]) -> tuple[int, bool, int]:
    """More words of the question first, then URLs without a query, then shorter paths; else the order of the index."""
    text = unquote(url).lower()
    return -sum(word in text for word in words), "?" in url, url.count("/")


def _captures(body: bytes) -> Iterator[tuple[str, str, str]]:
    """URL, type and status of each capture, in either dialect."""
    try:
        text = body.decode("utf-8", "replace").strip()
        rows = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    except (ValueError, RecursionError):
        raise ProviderError("answers with something else than a list of captures", _NOT_JSON) from None
    if rows and isinstance(rows[0], list):
        names = [str(name) for name in rows[0]]
        rows = [dict(zip(names, row, strict=False)) for row in rows[1:] if isinstance(row, list)]
    for row in rows:
        if isinstance(row, dict):
            yield _text(row, "url", "original"), _text(row, "mime", "mimetype"), _text(row, "status", "statuscode")


def _text(row: dict[str, Any], *names: str) -> str:
    return next((str(row[name]) for name in names if row.get(name) is not None), "")


@PROVIDERS.register("cdx")
def cdx(address: str) -> SeedProvider:
    """A CDX server by its address, which says of which URLs."""
    url = web_address("cdx", address, EXAMPLE)
    if not any(parse_qs(urlsplit(url).query).get("url", ())):
        raise SettingsError(
            f"seed provider cdx: {address!r} does not say which URLs",
            f"Add ?url=*.DOMAIN, or ?url=HOST/FOLDER/*. For example: {EXAMPLE}",
        )
    return CdxProvider(url)
