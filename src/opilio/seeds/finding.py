"""Asking all seed providers at once, and merging what they found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opilio.errors import InputError, describe_error
from opilio.fetch import Client, Transport
from opilio.seeds.provider import FoundPage, FoundPages, NamedProvider, ProviderError, make_provider
from opilio.seeds.requester import Requester, Turns
from opilio.settings import Settings
from opilio.topics.tree import Seed, SeedFind

MAX_QUERY_CHARS = 300
"""A longer question, such as a description in sentences, is cut at a word: search engines do not read on."""


class SeedError(InputError):
    """No seed provider found a page to start from."""


@dataclass(frozen=True)
class ProviderAnswer:
    """What one provider found."""

    provider: str
    """As the user wrote it: name=address, without a password."""
    query: str
    pages: tuple[FoundPage, ...] = ()
    trouble: str = ""
    """What went wrong; empty if nothing did. Pages that were found before count."""
    hint: str = ""

    @property
    def said(self) -> str:
        """A sentence for people."""
        count = len(self.pages)
        found = f"{count:,} start {'page' if count == 1 else 'pages'} from {self.provider}"
        if not self.trouble:
            return found
        return f"{found}, which then {self.trouble}" if count else f"{self.provider} {self.trouble}"


def find_seeds(
    query: str,
    settings: Settings,
    *,
    providers: Sequence[str] = (),
    transport: Transport | None = None,
) -> list[ProviderAnswer]:
    """Ask the providers of the settings, or `providers` in their place, for pages; their answers, in that order.

    Raises SeedError if none of them found a page.
    """
    named = [make_provider(text) for text in dict.fromkeys(providers or settings.seeds.providers)]
    answers = asyncio.run(_ask_all(named, _shortened(query), settings, transport))
    if named and not any(answer.pages for answer in answers):
        troubled = [answer for answer in answers if answer.trouble]
        if not troubled:
            names = ", ".join(answer.provider for answer in answers)
            raise SeedError(f"{names}: no page found for {query!r}", "Try fewer, or other, words.")
        raise SeedError(f"seed provider {'; '.join(answer.said for answer in answers)}", troubled[0].hint)
    return answers


def seeds_of(answers: Iterable[ProviderAnswer], kcid: int) -> list[Seed]:
    """The pages of all answers as seeds of a topic: the best of each provider first. A page that several providers
    found is one seed, which says so."""
    finds: dict[str, list[SeedFind]] = {}
    titles: dict[str, str] = {}
    ranked = [
        (rank, page, SeedFind(answer.provider, answer.query, rank))
        for answer in answers
        for rank, page in enumerate(answer.pages, 1)
    ]
    for _, page, find in sorted(ranked, key=lambda one: one[0]):
        finds.setdefault(page.url, []).append(find)
        titles[page.url] = titles.get(page.url) or page.title
    return [Seed(url, kcid, titles[url], tuple(found)) for url, found in finds.items()]


async def _ask_all(
    providers: Sequence[NamedProvider],
    query: str,
    settings: Settings,
    transport: Transport | None,
) -> list[ProviderAnswer]:
    client = transport or Client(settings)
    turns = Turns(settings.fetch.host_delay_s)

    try:
        requests = [_ask(named, query, settings, Requester(client, turns, settings)) for named in providers]
        return list(await asyncio.gather(*requests))
    finally:
        if transport is None:
            await client.aclose()


async def _ask(named: NamedProvider, query: str, settings: Settings, request: Requester) -> ProviderAnswer:
    seeds, trouble, hint = settings.seeds, "", ""
    pages = FoundPages(seeds.max_per_provider)
    try:
        async with asyncio.timeout(seeds.timeout_s):
            await named.provider.find(query, pages, request)
    except TimeoutError:
        trouble, hint = f"did not answer within {seeds.timeout_s:g} s", "Try again later, or raise seeds.timeout_s."
    except ProviderError as error:
        trouble, hint = error.message, error.hint
    except Exception as error:  # a defect of a plug-in must not keep the others from answering
        trouble, hint = f"failed ({describe_error(error)})", "This is a defect of the provider: report it to its maker."
    return ProviderAnswer(named.shown, query, tuple(pages.pages), trouble, hint)


def _shortened(query: str) -> str:
    words = " ".join(query.split())
    return words if len(words) <= MAX_QUERY_CHARS else words[: MAX_QUERY_CHARS + 1].rpartition(" ")[0]
