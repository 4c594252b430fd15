"""The metasearch engine SearXNG, and searx before it: `searxng=https://search.example.org`.

GET /search?q=WORDS&format=json&pageno=N answers {"results": [{"url", "title", ...}], "unresponsive_engines": [...]}. An
instance does so only if its settings list `json` under `search.formats`; otherwise it answers 403. Further parameters
may stand in the address, such as ?categories=science&language=de.
"""

from __future__ import annotations

from typing import Any

from opilio.errors import SettingsError
from opilio.seeds.provider import (
    PROVIDERS,
    FoundPages,
    ProviderError,
    Request,
    SeedProvider,
    need_words,
    web_address,
    with_parameters,
)
from opilio.seeds.results import read_json

EXAMPLE = "searxng=https://search.example.org"
_NO_JSON = "An instance answers programs only if `json` is in `search.formats` of its settings.yml: use your own."


class SearxngProvider:
    """Searches by an instance of SearXNG."""

    def __init__(self, address: str) -> None:
        url, question, parameters = address.partition("?")
        self._address = (url if url.rstrip("/").endswith("/search") else f"{url.rstrip('/')}/search") + (
            question + parameters
        )

    async def find(self, query: str, pages: FoundPages, request: Request) -> None:
        """Page after page of results, until there are enough or no more."""
        words, number = need_words(query), 1
        while pages.missing > 0:
            address = with_parameters(self._address, [("q", words), ("format", "json"), ("pageno", number)])
            try:
                reply = await request(address)
            except ProviderError as error:
                if error.status == 403:
                    raise ProviderError(error.message, _NO_JSON, status=403) from None
                raise
            if not self._take(read_json(reply), pages):
                break
            number += 1

    @staticmethod
    def _take(answer: Any, pages: FoundPages) -> bool:
        """Take the results of one page; whether any was new."""
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list):
            raise ProviderError("answers with JSON that has no `results`", f"Is this SearXNG? {_NO_JSON}")
        silent = answer.get("unresponsive_engines")
        if not results and not pages.pages and silent:
            raise ProviderError(f"has no result, because its engines did not answer: {_names(silent)}", "Try later.")
        return sum(pages.add(one.get("url"), one.get("title")) for one in results if isinstance(one, dict)) > 0


def _names(engines: Any) -> str:
    """The engines that did not answer, each with the reason, as SearXNG lists them."""
    listed = engines if isinstance(engines, list) else [engines]
    return ", ".join(" ".join(map(str, one)) if isinstance(one, list) else str(one) for one in listed)[:200]


@PROVIDERS.register("searxng")
def searxng(address: str) -> SeedProvider:
    """An instance by its address."""
    url = web_address("searxng", address, EXAMPLE)
    if "{" in address:
        raise SettingsError(f"seed provider searxng: {address!r} is a template", "Use opensearch= for templates.")
    return SearxngProvider(url)
