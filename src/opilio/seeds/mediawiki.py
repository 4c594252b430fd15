"""The search of a wiki that runs MediaWiki: `mediawiki=https://en.wikipedia.org/w/api.php`.

action=query with generator=search and prop=info answers the pages with their URLs; `index` is their rank, and
`continue` is what the next request repeats.
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

EXAMPLE = "mediawiki=https://en.wikipedia.org/w/api.php"
MAX_PER_REQUEST = 50


class MediaWikiProvider:
    """Searches the pages of one wiki."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def find(self, query: str, pages: FoundPages, request: Request) -> None:
        """The pages by rank, as many requests as it takes."""
        asked = {
            "action": "query", "format": "json", "formatversion": "2", "generator": "search",
            "gsrsearch": need_words(query), "gsrlimit": str(min(pages.most, MAX_PER_REQUEST)), "prop": "info",
            "inprop": "url",
        }  # fmt: skip
        more: dict[str, str] = {}
        while pages.missing > 0:
            reply = await request(with_parameters(self._address, {**asked, **more}.items()))
            answer = read_json(reply)
            if not isinstance(answer, dict) or "error" in answer:
                raise ProviderError(f"refuses the search: {_reason(answer)}", "Is this the api.php of a wiki?")
            found = answer.get("query", {}).get("pages", []) if isinstance(answer.get("query", {}), dict) else []
            ranked = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
            for one in sorted(ranked, key=_rank):
                pages.add(one.get("canonicalurl") or one.get("fullurl"), one.get("title"))
            more = _text(answer.get("continue"))
            if not more or not ranked:
                break


def _rank(page: dict[str, Any]) -> float:
    rank = page.get("index")
    return float(rank) if isinstance(rank, (int, float)) else float("inf")


def _text(continuation: Any) -> dict[str, str]:
    """The parameters of the next request; none when there is none."""
    return {str(k): str(v) for k, v in continuation.items()} if isinstance(continuation, dict) else {}


def _reason(answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("info", error))[:200] if isinstance(error, dict) else "the answer is no object"


@PROVIDERS.register("mediawiki")
def mediawiki(address: str) -> SeedProvider:
    """A wiki by the address of its api.php."""
    url = web_address("mediawiki", address, EXAMPLE)
    if not url.partition("?")[0].endswith(".php"):
        raise SettingsError(
            f"seed provider mediawiki: {address!r} is not the address of an api.php",
            f"The page Special:Version of a wiki names its api.php. For example: {EXAMPLE}",
        )
    return MediaWikiProvider(url)
