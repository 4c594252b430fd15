"""What a seed provider is: the Protocol, what it returns, and the registry of its kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Protocol
from urllib.parse import quote, urlencode

import ada_url

from opilio.errors import SettingsError
from opilio.model import normalize
from opilio.registry import Registry
from opilio.settings.files import hide_secrets
from opilio.topics.tree import clean_title

EXAMPLE = "For example: searxng=https://search.example.org"


class FoundPage(NamedTuple):
    """A page that a provider found."""

    url: str
    """In normal form."""
    title: str = ""


class ProviderReply(NamedTuple):
    """The answer to one request of a provider."""

    url: str
    """Where it came from, after redirects."""
    body: bytes
    content_type: str = ""


Request = Callable[[str], Awaitable[ProviderReply]]
"""Requests a URL for a provider. Raises ProviderError unless a usable answer comes."""


class ProviderError(Exception):
    """A provider could not answer: what went wrong, without its name, and what to do about it."""

    def __init__(self, message: str, hint: str = "", *, status: int = 0) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint
        self.status = status
        """The HTTP status, when the answer was another than success."""


class SeedProvider(Protocol):
    """Finds pages for a question.

    Made by its factory from the address that the user wrote; an address that cannot be used is a SettingsError there,
    before anything is contacted.
    """

    async def find(self, query: str, pages: FoundPages, request: Request) -> None:
        """Add the pages for a question to `pages`, the best first, until it is full or there are no more.

        All requests go through `request`. `query` may be empty: a provider that needs words then raises ProviderError
        (`need_words`). No page found is no error. What was added before an error counts.
        """
        ...


class FoundPages:
    """The pages that a provider finds: each once, in order, no more than asked for."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.pages: list[FoundPage] = []
        self._seen: set[str] = set()

    @property
    def missing(self) -> int:
        """How many more are asked for."""
        return self.most - len(self.pages)

    def add(self, url: object, title: object = "", base: str = "") -> bool:
        """Add a page unless it is there, is no web page, or there are enough; whether it was added.

        A relative URL is resolved against `base`.
        """
        found = normalize(url.strip(), base) if isinstance(url, str) and url.strip() else ""
        if not found or found in self._seen or self.missing <= 0:
            return False
        self._seen.add(found)
        self.pages.append(FoundPage(found, plain_title(title)))
        return True


PROVIDERS: Registry[Callable[[str], SeedProvider]] = Registry("seed_providers")
"""Factories by name: from an address to a provider."""


class NamedProvider(NamedTuple):
    """A provider as the user wrote it."""

    name: str
    address: str
    provider: SeedProvider

    @property
    def shown(self) -> str:
        """What the user wrote, without a password."""
        return f"{self.name}={hide_secrets(self.address)}"


def make_provider(text: str) -> NamedProvider:
    """The provider that `name=address` means; a SettingsError if there is none."""
    name, equals, address = text.strip().partition("=")
    name, address = name.strip(), address.strip()
    if not equals or "/" in name or not address:
        raise SettingsError(
            f"seed provider {hide_secrets(text)!r}: not of the form name=address",
            f"{EXAMPLE}. Known names: {', '.join(sorted(PROVIDERS))}.",
        )
    return NamedProvider(name, address, PROVIDERS.get(name)(address))


# -- what factories and providers have in common


def web_address(kind: str, address: str, example: str) -> str:
    """`address` as a URL, without fragment and with `https://` if it names no scheme; a SettingsError if it is none."""
    try:
        url = ada_url.normalize_url(address if "://" in address else f"https://{address}")
    except ValueError:
        url = ""
    if not url.startswith(("http://", "https://")):
        raise SettingsError(
            f"seed provider {kind}: {hide_secrets(address)!r} is not an http(s) address", f"For example: {example}"
        )
    if "@" in url.split("/", 3)[2]:
        raise SettingsError(
            f"seed provider {kind}: {hide_secrets(address)!r} has a name or a password in it",
            "Addresses with passwords are not supported. Let the service accept requests from this machine.",
        )
    return url.partition("#")[0]


def with_parameters(url: str, parameters: Iterable[tuple[str, str | int]]) -> str:
    """A URL with more parameters; those that it has already stay."""
    added = urlencode(list(parameters), quote_via=quote)
    joint = "" if url.endswith(("?", "&")) else "&" if "?" in url else "?"
    return f"{url}{joint}{added}"


def need_words(query: str) -> str:
    """The words of a question; ProviderError if there are none."""
    words = " ".join(query.split())
    if not words:
        raise ProviderError("needs words to search for", "Give --query; later: opilio seeds FOLDER --query WORDS")
    return words


def plain_title(title: object) -> str:
    """A foreign title as one line without control characters; '' if it is no text."""
    if not isinstance(title, str):
        return ""
    return clean_title("".join(sign if sign.isprintable() else " " for sign in title[:2000]))
