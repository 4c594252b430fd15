"""URLs that other collections offered to this one, and those that were forwarded to them: the table `offers`."""

from __future__ import annotations

from typing import Any

from opilio.store.database import Store

_OFFERS_OF = "SELECT peer, relevance FROM offers WHERE incoming AND url = $1 ORDER BY offered, rowid"


def offers_of(store: Store, url: str) -> list[dict[str, Any]]:
    """The collections that offered a URL, each with the relevance that it expected."""
    return [{"peer": peer, "relevance": relevance} for peer, relevance in store.query(_OFFERS_OF, [url]).rows]
