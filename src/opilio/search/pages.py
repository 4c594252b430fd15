"""One page with all that is known of it, a URL that is not stored, and the neighbours of either in the link graph."""

from __future__ import annotations

from typing import Any

import duckdb

from opilio.errors import InputError
from opilio.learn import explain as explain_stored
from opilio.learn import explain_link
from opilio.store import Store, links
from opilio.store.pages import describe, find_page, find_url, page_facts, page_judgements, same_pages

MOST = 12
"""Neighbours on each side."""
MAX_TEXT_CHARS = 200_000
MAX_SAME = 50


def page(store: Store, url: str, explain: bool = True) -> dict[str, Any]:
    """A page with all that is known of it; of a URL that is not stored (`stored` is false), what is known (`known`).

    A URL that was redirected, or found to be a duplicate, stands for the page that is stored. Plain values.
    """
    with store.reading() as read:
        oid = find_page(read, url)
        if oid is not None:
            stored = _stored(read, oid)
    if oid is None:
        return {"asked": url, "stored": False, "known": _known(store, url)}
    topics = [record.path for record in store.load_topics() if record.path]
    why = _why(store, url) if explain else {"why": None, "why_not": ""}
    return {"asked": url, **stored, "topics": topics, **why}


def pages(store: Store, urls: list[str]) -> list[dict[str, Any]]:
    """What `page` returns, for each URL."""
    return [page(store, url) for url in urls]


def _stored(read: duckdb.DuckDBPyConnection, oid: int) -> dict[str, Any]:
    near = _neighbours(read, oid)
    return {
        **near["page"],
        **page_facts(read, oid, MAX_TEXT_CHARS),
        "judgements": page_judgements(read, oid),
        "same": same_pages(read, oid, MAX_SAME),
        "neighbours": near,
    }


def _why(store: Store, url: str) -> dict[str, Any]:
    """The explanation of the newest model, or why there is none."""
    try:
        return {"why": explain_stored(store, url=url, title="", text=""), "why_not": ""}
    except InputError as error:  # its text is not kept
        return {"why": None, "why_not": f"{error.message}. {error.hint}"}


def _known(store: Store, url: str) -> dict[str, Any] | None:
    try:
        return explain_link(store, url)
    except InputError:  # no page links to it
        return None


def neighbours(store: Store, url: str, most: int = MOST) -> dict[str, Any]:
    """The best pages that link to a URL (`from`) and that it links to (`to`), with the words of the links."""
    with store.reading() as read:
        oid = find_url(read, url)
        if oid is None:
            raise InputError(f"{url}: not known to this collection", "Give a URL that a page of it links to.")
        return _neighbours(read, oid, most)


def _neighbours(read: duckdb.DuckDBPyConnection, oid: int, most: int = MOST) -> dict[str, Any]:
    linking, linked = links.neighbours(read, oid, most)
    known = describe(read, [oid, *(near.oid for near in (*linking, *linked))])
    return {
        "page": known[oid],
        "from": [known[near.oid] | {"anchor": near.anchor} for near in linking],
        "from_total": linking[0].total if linking else 0,
        "to": [known[near.oid] | {"anchor": near.anchor} for near in linked],
        "to_total": linked[0].total if linked else 0,
    }
