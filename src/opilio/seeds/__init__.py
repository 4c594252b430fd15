"""Seeds from a question: pages to start from, found by services that the user names.

A *seed provider* is a service that answers words, or a pattern of URLs, with pages: a metasearch engine (`searxng.py`),
anything with an OpenSearch description (`opensearch.py`), the search of a wiki (`mediawiki.py`), the index of a web
archive (`cdx.py`), or the portal of another collection (`portals.py`). Each is a `SeedProvider`, registered by its name
in `PROVIDERS`; the user writes `name=address`. A provider knows which addresses to request and how to read the answers.
It makes no connection of its own: `Requester` (`requester.py`) requests for it, and `find_seeds` (`finding.py`) asks
all providers at once and merges what they found.

Invariants:

- *Only services that the user names are contacted*: no provider is set by default.
- *Requests are as safe as those of a crawl*: they go through the same client, so private addresses are refused unless
  the settings allow them, redirects are checked like first requests, every answer has a largest size, each provider has
  a time limit, and a host gets one request at a time with the usual delay. robots.txt is not fetched: these are the
  programming interfaces of services, which the user has named.
- *No provider fails in silence*: what went wrong is in its `ProviderAnswer`, and when all fail, it is an error.
- *Answers are not trusted*: of what comes back only http(s) URLs and titles are kept, as text.
"""

from opilio.seeds import cdx, mediawiki, opensearch, portals, searxng
from opilio.seeds.finding import ProviderAnswer, SeedError, find_seeds, seeds_of
from opilio.seeds.provider import (
    PROVIDERS,
    FoundPages,
    ProviderError,
    ProviderReply,
    Request,
    SeedProvider,
    make_provider,
)

__all__ = [
    "PROVIDERS",
    "FoundPages",
    "ProviderAnswer",
    "ProviderError",
    "ProviderReply",
    "Request",
    "SeedError",
    "SeedProvider",
    "cdx",
    "find_seeds",
    "make_provider",
    "mediawiki",
    "opensearch",
    "portals",
    "searxng",
    "seeds_of",
]
