"""Operations that search and browse the stored pages."""

from __future__ import annotations

import asyncio
import base64
import datetime
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from opilio.crawl.operations.client import OperationClient, caller_operation
from opilio.crawl.operations.context import Context, LiveCrawl, address_of
from opilio.crawl.operations.declaration import LONG_TIMEOUT_S, READS, WRITES, Meta, Route, operation
from opilio.errors import CollectionBusy, InputError, StoreError
from opilio.learn.training_state import wanted_topics
from opilio.search.cards import SearchAnswer
from opilio.store import Store
from opilio.store.connection import FILE_NAME
from opilio.store.warc import warc_elsewhere
from opilio.topics import find_topic

if TYPE_CHECKING:  # it takes a while to import
    from opilio.distill import Analysis, BackLinks
    from opilio.search.index import IndexReader

T = TypeVar("T")


# -- searching: in the process of the caller, so that a running crawl does not lose time


_MANY = "Several are alternatives."


@caller_operation(
    READS,
    about={
        "question": Meta(description="What to search for: words, phrases, fields, filters."),
        "topic": Meta(description=f"Only pages of this topic and those below it. {_MANY}"),
        "host": Meta(description=f"Only pages of this host, or of the hosts of this domain. {_MANY}"),
        "lang": Meta(description=f"Only pages in this language: en, de, ... {_MANY}"),
        "type": Meta(description=f"Only pages of this type: html, pdf, ... {_MANY}"),
        "since": Meta(description="Only pages fetched on or after this day: 2026-01-31."),
        "before": Meta(description="Only pages fetched before this day: 2026-01-31."),
        "copies_of": Meta(description="The near duplicates of the page with this oid."),
        "page": Meta(ge=1, le=1_000_000, description="Page of the results, from 1."),
        "size": Meta(ge=1, le=200, description="Results on a page."),
    },
)
def search(
    client: OperationClient,
    question: str,
    *,
    weights: Mapping[str, float] | None = None,
    topic: str | Sequence[str] = (),
    host: str | Sequence[str] = (),
    lang: str | Sequence[str] = (),
    type: str | Sequence[str] = (),
    since: str = "",
    before: str = "",
    copies_of: int | None = None,
    page: int = 1,
    size: int = 10,
) -> dict[str, Any]:
    """Search the stored pages; returns total, results with snippets, and facets.

    A question has words, "phrases", fields (title:, text:, anchor:, url:), prefixes (owl*), fuzzy words (owl~), OR,
    -not, ( ) and filters (host:, lang:, type:, topic:, since:, before:, relevance:). Filters can also be given by name:
    several values of one filter are alternatives, a topic includes all below it, and '' is no filter.

    `weights` are those of the rankings bm25, cosine, relevance and authority; results are ordered by the weighted sum.
    Near duplicates are shown as one result, and `folded` says how many were left out; `copies_of` a page (its oid)
    lists them. A snippet is a list of pieces of text, each with whether it matches the question.
    """
    named = {"topic": topic, "host": host, "lang": lang, "type": type, "since": since, "before": before}
    filters = [
        (name, value)
        for name, values in named.items()
        for value in ([values] if isinstance(values, str) else values)
        if value
    ]

    def find(reader: IndexReader) -> dict[str, Any]:
        from opilio.search.results import search  # noqa: PLC0415

        return search(reader, question, weights=weights, filters=filters, copies_of=copies_of, page=page, size=size)

    return SearchAnswer(with_index(client, find))


@caller_operation(
    READS,
    rest=Route("GET", "similar", "search", "search"),
    about={"n": Meta(ge=1, le=100, description="How many pages.")},
)
def similar(client: OperationClient, url: str, n: int = 10) -> list[dict[str, Any]]:
    """The stored pages most similar to the page of a URL, best first; neither itself nor copies of it."""
    address = address_of(url, "Give the address of a stored page.")

    def find(reader: IndexReader) -> list[dict[str, Any]]:
        from opilio.search.results import similar  # noqa: PLC0415

        return similar(reader, address, n)

    return with_index(client, find)


@caller_operation(READS)
def update_index(client: OperationClient) -> bool:
    """Bring the search index up to date; False when a crawl runs, or another process does it already."""
    from opilio.search.index_update import update  # noqa: PLC0415

    seen = database_state(client.folder)
    try:
        with client.opened(read_only=True) as store:  # together with other threads that read it
            return update(store, client.folder, seen=seen) is not None
    except CollectionBusy:
        return False
    except (OSError, ValueError) as error:  # the library reports everything as a ValueError
        raise StoreError(
            f"{client.folder}: the index cannot be written: {error}", "Free some disk space, then search again."
        ) from None


def with_index(client: OperationClient, find: Callable[[IndexReader], T]) -> T:
    """Look into the index. It is brought up to date first; while a crawl runs, which does that itself, the index is
    used as it is. A damaged index is rebuilt."""
    from opilio.search.index import DamagedIndex, discard_index, open_reader  # noqa: PLC0415

    for is_last in (False, True):
        try:
            reader = open_reader(client.folder)
            if reader is None or reader.columns.seen != database_state(client.folder):
                client.call(update_index)
                reader = open_reader(client.folder)
            if reader is None:
                raise CollectionBusy(
                    f"{client.folder}: nothing can be searched yet: the index is being built",
                    "Try again soon. While a crawl runs, it builds the index if [search] index = true.",
                )
            return find(reader)
        except DamagedIndex as error:
            discard_index(client.folder)
            if is_last:
                raise StoreError(
                    f"{client.folder}: the index cannot be read: {error}",
                    "Delete its folder `index`: it is rebuilt.",
                ) from None
    raise AssertionError("unreachable")


def database_state(folder: Path) -> str:
    """A text that changes whenever the database file does."""
    states = []
    for name in (FILE_NAME, f"{FILE_NAME}.wal"):
        try:
            state = (folder / name).stat()
        except FileNotFoundError:
            continue
        states.append(f"{state.st_mtime_ns}/{state.st_size}")
    return " ".join(states)


# -- browsing


@operation(
    READS,
    rest=Route("GET", "portal", "browse"),
    about={
        "days": Meta(description="How many days of crawling count as new."),
        "since_s": Meta(
            description="Pages fetched since then, in seconds since 1970, count as new; instead of `days`."
        ),
    },
)
def portal(at: Context, days: int = 1, *, since_s: float | None = None) -> dict[str, Any]:
    """The front page of the portal: what was `found` in figures, the topic tree with counts, the best pages and the
    sites of each wanted topic, hubs and authorities, new pages, the growth, the state of the crawl, and its notices.

    New pages are those of the last `days` of crawling, or since `since_s` (seconds since 1970). The share of pages that
    are on topic is the one of a review (`checked`) or the one that the model expects (`expected`).
    """
    from opilio.search import portal  # noqa: PLC0415

    return portal.portal(at.store, days, since_s)


@operation(
    READS,
    rest=Route("GET", "topic", "browse"),
    about={
        "topic": Meta(description="The path of a topic; OTHERS: the pages that no topic took; '': the root."),
        "order": Meta(description="confidence, authority, hub, newest or title."),
        "own": Meta(description="Leave out the topics below."),
        "relevant": Meta(description="Leave out pages that are not relevant."),
    },
)
def topic_pages(
    at: Context,
    topic: str = "",
    *,
    order: str = "confidence",
    page: int = 1,
    own: bool = False,
    relevant: bool = False,
    per_page: int = 25,
) -> dict[str, Any]:
    """The pages of a topic and of all topics below it, and what the topic is. `OTHERS` are pages that no topic took.

    `order` is confidence, authority, hub, newest or title; `own` leaves out the topics below, `relevant` leaves out
    pages that are not relevant.
    """
    from opilio.search import portal  # noqa: PLC0415

    return portal.topic_pages(at.store, topic, order, page, own, relevant, per_page)


@operation(READS)
def page(at: Context, url: str, *, explain: bool = True) -> dict[str, Any]:
    """A page with its text, why it is judged as it is, its judgements over time, duplicates and neighbours.

    `stored` is false when the collection does not have it; then `known` says what is known of the URL, if anything.
    """
    from opilio.search import portal  # noqa: PLC0415

    return portal.page(at.store, address_of(url), explain)


@operation(READS)
def pages(at: Context, urls: Sequence[str]) -> list[dict[str, Any]]:
    """What `page` returns, for each of several URLs."""
    from opilio.search import portal  # noqa: PLC0415

    return portal.pages(at.store, [address_of(url) for url in urls])


@operation(READS, rest=Route("GET", "markdown", "browse"))
def markdown(at: Context, url: str) -> str:
    """A stored page as Markdown, made from its response: the main part with headings, lists, tables, links and code."""
    from opilio.export.documents import page_as_markdown  # noqa: PLC0415

    folders = [at.folder / "warc", warc_elsewhere(at.settings.store)]
    return page_as_markdown(at.store, [one for one in folders if one is not None], address_of(url))


@operation(
    READS,
    rest=Route("GET", "neighbours", "browse"),
    about={"most": Meta(ge=1, le=1000, description="How many pages in each direction.")},
)
def neighbours(at: Context, url: str, most: int = 12) -> dict[str, Any]:
    """The best pages that link to a URL (`from`) and that it links to (`to`), with the words of the links."""
    from opilio.search import portal  # noqa: PLC0415

    return portal.neighbours(at.store, address_of(url), most)


@operation(
    READS,
    rest=Route("GET", "finds", "browse"),
    about={"limit": Meta(ge=1, le=100, description="How many pages.")},
)
def finds(at: Context, limit: int = 8) -> list[dict[str, Any]]:
    """The relevant pages that were fetched last, each with a sentence about it (`summary`) and the words that spoke for
    it (`reasons`). Seeds and examples that you gave are left out."""
    from opilio.search import portal  # noqa: PLC0415

    return portal.finds(at.store, limit, at.settings.classify.classifier)


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)")
_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_NO_TIME = "Write it like 7d, 12h or 90m ago, or as a date: 2026-11-18, 2026-11-18T06:00:00Z."


def moment_of(text: str, now_s: float) -> float:
    """A time in seconds since 1970: so long ago (7d), or a date; without a zone it is in UTC."""
    ago = _DURATION.fullmatch(text.strip())
    if ago:
        return max(0.0, now_s - float(ago[1]) * _UNITS_S[ago[2]])
    try:
        given = datetime.datetime.fromisoformat(text.strip())
        aware = given if given.tzinfo else given.replace(tzinfo=datetime.UTC)
        return max(0.0, aware.timestamp())
    except (ValueError, OverflowError):
        raise InputError(f"{text!r} is no time", _NO_TIME) from None


@operation(
    READS,
    rest=Route("GET", "changes", "browse"),
    about={
        "since": Meta(description="Since when: 7d, 12h, 90m ago, or a date such as 2026-11-18T06:00:00Z."),
        "until": Meta(description="Until when, in the same form; empty: now."),
        "all_pages": Meta(description="Also pages that are not relevant."),
        "limit": Meta(ge=1, le=1000, description="How many pages of each kind are listed, the best first."),
    },
)
def changes(
    at: Context, since: str = "1d", *, until: str = "", all_pages: bool = False, limit: int = 100
) -> dict[str, Any]:
    """What is new, changed and gone since a time: how many pages of each kind, and the best of them.

    `new`: stored since then. `changed`: a later visit found another text; `new_links` counts the links that are new on
    it. `gone`: the latest visit found the page moved, removed or closed (`outcome`); a page that could not be reached
    is not gone. Times are in UTC.
    """
    from opilio.store.changes import changes_since  # noqa: PLC0415

    now_s = time.time()
    since_s = moment_of(since, now_s)
    until_s = moment_of(until, now_s) if until else now_s
    found = changes_since(at.store, since_s, until_s, all_pages=all_pages, limit=limit)
    return {"since": _iso(since_s), "until": _iso(until_s), **found}


def _iso(moment_s: float) -> str:
    return datetime.datetime.fromtimestamp(moment_s, datetime.UTC).isoformat().replace("+00:00", "Z")


@operation(READS)
def pictures(at: Context, urls: Sequence[str]) -> list[dict[str, Any] | None]:
    """The stored pictures and icons of some addresses, with their bytes in Base64; None for what is not stored."""
    from opilio.store.pictures import stored_pictures  # noqa: PLC0415

    stored = stored_pictures(at.store, urls)
    return [
        found._asdict() | {"data": base64.b64encode(found.data).decode()} if (found := stored.get(url)) else None
        for url in urls
    ]


@operation(READS)
def illustrations(at: Context, oids: Sequence[int]) -> list[dict[str, Any]]:
    """What lists show of some pages besides words: the `picture` of each (url, width, height) and the `icon` of its
    host (an address); None where there is none."""
    from opilio.store.pictures import NO_PICTURES, shown_pictures  # noqa: PLC0415

    with at.store.reading() as cursor:
        found = shown_pictures(cursor, oids)
    return [found.get(oid, NO_PICTURES) for oid in oids]


# -- link analysis

_ABOUT_DISTILL = {
    "topic": Meta(description="A topic; without one, all that are wanted."),
    "method": Meta(description="weighted, or another method that `opilio distill --help` lists."),
    "top": Meta(ge=1, le=1000, description="How many hubs, and how many authorities."),
}


@caller_operation(
    READS,
    timeout_s=LONG_TIMEOUT_S,
    rest=Route("GET", "distill", "browse", "analysis"),
    about={**_ABOUT_DISTILL, "search": Meta(description="A question: analyse the links around the pages found.")},
)
def distill(
    client: OperationClient, topic: str | None = None, method: str = "weighted", top: int = 20, *, search: str = ""
) -> dict[str, Any]:
    """The best hubs and authorities of a topic and all below it; of all wanted topics when `topic` is None.

    With `search`, those of the pages that match a question, in the topic if one is given. Nothing is stored.
    """
    return client.call(_distill, topic, method, top, search_hits(client, search, topic or "") if search else None)


@operation(READS, timeout_s=LONG_TIMEOUT_S)
def _distill(at: Context, topic: str | None, method: str, top: int, base: list[int] | None) -> dict[str, Any]:
    """The best hubs and authorities of a topic, or of the neighbourhood of some pages."""
    from opilio import distill as links  # noqa: PLC0415

    options = links.DistillOptions(rho=at.settings.frontier.distill_rho)
    scores = links.distill(
        at.store,
        (topic or None) if base is None else None,
        method,
        options=options,
        base=base,
        back_links=_back_links(at, method),
    )
    return links.listing(at.store, scores, top)


@operation(WRITES, timeout_s=LONG_TIMEOUT_S, rest=Route("POST", "distill", "browse"), about=_ABOUT_DISTILL)
def analyse_links(at: Context, topic: str | None = None, method: str = "", top: int = 20) -> dict[str, Any]:
    """Find the hubs and authorities of every wanted topic and store their scores, for searching and browsing.

    Returns the best of a topic, or of all wanted topics when `topic` is None. `method` is by default that of the
    settings, `frontier.distill_method`.
    """
    from opilio import distill as links  # noqa: PLC0415

    _check_analysis(at.store, topic, method)
    records = at.store.load_topics()
    frontier = at.settings.frontier
    method = method or frontier.distill_method
    found = links.analyse(
        at.store,
        wanted_topics(records),
        frontier.hub_percentile,
        method=method,
        options=links.DistillOptions(rho=frontier.distill_rho),
        back_links=_back_links(at, method),
    )
    assert found is not None, "nobody cancels it"
    links.save_scores(at.store, found.by_topic, found.overall)
    return _listed(at.store, found, topic, top)


@analyse_links.live
async def _(crawl: LiveCrawl, topic: str | None = None, method: str = "", top: int = 20) -> dict[str, Any]:
    """A running crawl stores the scores itself; nothing rises because of it."""
    await crawl.read(_check_analysis, topic, method)
    found = await crawl.engine.distiller.distill_now(method, raises=False)
    if found is None:
        raise InputError("the crawl ends, and analyses no links any more", "Try again when it has ended.")
    return await asyncio.to_thread(_listed, crawl.engine.store, found, topic, top)


def _check_analysis(store: Store, topic: str | None, method: str) -> None:
    """Refuse an unknown topic or method before anything is stored."""
    from opilio.distill.analysis import check_stored_method  # noqa: PLC0415

    if topic:
        find_topic(store.load_topics(), topic)
    if method:
        check_stored_method(method)


def _listed(store: Store, found: Analysis, topic: str | None, top: int) -> dict[str, Any]:
    """The best of a topic: as it was just analysed, or now when it is not one of the wanted topics."""
    from opilio import distill as links  # noqa: PLC0415

    if not topic:
        return links.listing(store, found.overall, top)
    kcid = find_topic(store.load_topics(), topic).kcid
    scores = found.by_topic.get(kcid) or links.distill(store, kcid, found.overall.method or links.DEFAULT_METHOD)
    return links.listing(store, scores, top)


def _back_links(at: Context, method: str) -> BackLinks | None:
    """Known links from outside, if the settings name any and the method counts them."""
    from opilio.distill import BackLinks  # noqa: PLC0415
    from opilio.store.links import host_names  # noqa: PLC0415

    path = at.settings.frontier.back_links
    if not path or method not in ("weighted", "hits"):
        return None
    with at.store.reading() as cursor:
        hosts = [name for _, name, _ in host_names(cursor)]
    return BackLinks.load(Path(path), hosts)


def search_hits(client: OperationClient, question: str, topic: str) -> list[int]:
    """The oids of all pages that match a question, best first; only those of a topic if one is given."""
    from opilio.search.results import matching_pages  # noqa: PLC0415

    filters = [("topic", topic)] if topic else []
    found = with_index(client, lambda reader: matching_pages(reader, question, filters))
    if not found:
        where = f" in {topic!r}" if topic else ""
        raise InputError(f"no page matches {question!r}{where}", "`opilio search` explains how to write a question.")
    return found
