"""Anything with OpenSearch 1.1: `opensearch=https://example.org/opensearch.xml`.

The address is that of a description document, which has templates for addresses of results, or it is a template itself:
https://example.org/search?q={searchTerms}&format=rss. Of several templates the first counts that answers with Atom, RSS
or JSON. Parameters are filled in by their local names; an optional one that is not known here is left empty.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin
from xml.etree import ElementTree

from opilio.errors import SettingsError
from opilio.seeds.provider import PROVIDERS, FoundPages, ProviderError, Request, SeedProvider, need_words, web_address
from opilio.seeds.results import local_name, read_results, read_xml

EXAMPLE = "opensearch=https://example.org/opensearch.xml"
READABLE = (
    "application/atom+xml", "application/rss+xml", "application/rdf+xml", "application/json", "text/xml",
    "application/xml",
)  # fmt: skip
"""Types of results, the best first."""
MAX_COUNT = 100
_PARAMETER = re.compile(r"\{([^{}?]+)(\??)\}")


@dataclass(frozen=True)
class Template:
    """A template for addresses of results."""

    text: str
    index_offset: int = 1
    """The number of the first result."""
    page_offset: int = 1
    """The number of the first page."""

    @property
    def has_pages(self) -> bool:
        """Whether it can ask for further results."""
        return any(name in ("startIndex", "startPage") for name, _ in self._names())

    def fill(self, words: str, *, count: int, start: int, page: int) -> str:
        """The address of some results; `start` and `page` count from 0."""
        values = {
            "searchTerms": words, "count": str(count), "startIndex": str(self.index_offset + start),
            "startPage": str(self.page_offset + page), "language": "*", "inputEncoding": "UTF-8",
            "outputEncoding": "UTF-8",
        }  # fmt: skip
        unknown = [name for name, optional in self._names() if not optional and name not in values]
        if unknown:
            raise ProviderError(
                f"asks for a parameter that is not known here: {unknown[0][:50]}", "Write it into the template."
            )
        return _PARAMETER.sub(lambda found: quote(values.get(_local(found[1]), ""), safe=""), self.text)

    def _names(self) -> list[tuple[str, bool]]:
        """The parameters by their local names, each with whether it is optional."""
        return [(_local(found[1]), bool(found[2])) for found in _PARAMETER.finditer(self.text)]


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def read_description(root: ElementTree.Element, base: str) -> Template:
    """The best template of a description document; ProviderError if there is none that can be used."""
    if local_name(root) != "OpenSearchDescription":
        raise ProviderError(
            f"is not an OpenSearch description: it begins with <{local_name(root)[:50]}>",
            'Its address is in the page of the service: <link rel="search" href="...">',
        )
    found: list[tuple[int, Template]] = []
    others: list[str] = []
    for one in root.iter():
        if local_name(one) != "Url":
            continue
        kind = one.get("type", "").partition(";")[0].strip().lower()
        method = next((value for name, value in one.attrib.items() if name.rpartition("}")[2] == "method"), "get")
        is_results = "results" in one.get("rel", "results").split()
        if not is_results:
            continue
        if method.lower() == "get" and kind in READABLE and "searchTerms" in one.get("template", ""):
            template = Template(
                _joined(base, one.get("template", "")), _number(one, "indexOffset"), _number(one, "pageOffset")
            )
            found.append((READABLE.index(kind), template))
        else:
            others.append((kind or "an unnamed type") + (" by POST" if method.lower() == "post" else ""))
    if not found:
        offered = f"only {', '.join(others)[:200]}" if others else "no results at all"
        raise ProviderError(
            f"describes no results that can be read: {offered}",
            "Atom, RSS and JSON can. Or save the page of results as HTML, and give it as --seeds.",
        )
    return min(found, key=lambda one: one[0])[1]


def _joined(base: str, template: str) -> str:
    """A template as an absolute one; the braces stay as they are."""
    return urljoin(base, template)


def _number(element: ElementTree.Element, name: str) -> int:
    text = element.get(name, "1").strip()
    return int(text) if text.isdecimal() and len(text) < 9 else 1


class OpenSearchProvider:
    """Searches by a template, given or read from a description document."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def find(self, query: str, pages: FoundPages, request: Request) -> None:
        """Results, and further ones if the template can ask for them."""
        words = need_words(query)
        if "{" in self._address:
            template = Template(self._address)
        else:
            reply = await request(self._address)
            template = read_description(read_xml(reply), reply.url)
        start, number = 0, 0
        while pages.missing > 0:
            reply = await request(template.fill(words, count=min(pages.most, MAX_COUNT), start=start, page=number))
            results = read_results(reply)
            added = sum(pages.add(page.url, page.title, reply.url) for page in results)
            start, number = start + len(results), number + 1
            if not added or not template.has_pages:
                break


@PROVIDERS.register("opensearch")
def opensearch(address: str) -> SeedProvider:
    """A service by the address of its description, or by a template."""
    if "{" in address:
        web_address("opensearch", address.partition("{")[0], EXAMPLE)
        if "{searchTerms}" not in address or not address.startswith(("http://", "https://")):
            raise SettingsError(
                f"seed provider opensearch: {address!r} is not a template",
                "For example: opensearch=https://example.org/search?q={searchTerms}&format=rss",
            )
        return OpenSearchProvider(address)
    return OpenSearchProvider(web_address("opensearch", address, EXAMPLE))
