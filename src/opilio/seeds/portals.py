"""The portal of another collection, or a federation of several: `opilio=http://host:8765/c/birds`.

Their REST search answers the pages by rank. Without `/c/NAME` the address is that of a federation (`opilio federate
serve`), which searches all of its collections.
"""

from __future__ import annotations

from urllib.parse import urlsplit

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

EXAMPLE = "opilio=http://127.0.0.1:8765/c/birds"
MAX_SIZE = 200
"""Results on one page of a portal."""


class PortalProvider:
    """Searches a collection, or a federation."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        above, slash, name = parts.path.rstrip("/").rpartition("/c/")
        path = f"{above}/api/c/{name.partition('/')[0]}/search" if slash else f"{parts.path.rstrip('/')}/api/search"
        self._address = f"{parts.scheme}://{parts.netloc}{path}"

    async def find(self, query: str, pages: FoundPages, request: Request) -> None:
        """The pages by rank."""
        words, number, size = need_words(query), 1, min(pages.most, MAX_SIZE)
        while pages.missing > 0:
            parameters: list[tuple[str, str | int]] = [("q", words), ("size", size), ("page", number)]
            try:
                answer = read_json(await request(with_parameters(self._address, parameters)))
            except ProviderError as error:
                if error.status == 404:
                    raise ProviderError("has no such collection", f"Give its address: {EXAMPLE}", status=404) from None
                if error.status == 400:
                    said = "Write plain words, without punctuation: a portal has a language of questions."
                    raise ProviderError("does not understand the question", said, status=400) from None
                raise
            results = answer.get("results") if isinstance(answer, dict) else None
            if not isinstance(results, list):
                raise ProviderError("answers with JSON that has no `results`", f"Is this a portal of Opilio? {EXAMPLE}")
            added = sum(pages.add(one.get("url"), one.get("title")) for one in results if isinstance(one, dict))
            if not added or len(results) < size:
                break
            number += 1


@PROVIDERS.register("opilio")
def opilio(address: str) -> SeedProvider:
    """A portal by the address of one of its collections, or a federation by its own."""
    return PortalProvider(web_address("opilio", address, EXAMPLE))
