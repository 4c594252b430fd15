"""The portal's views of the database: its front, the topic tree with pages counted, the pages of one topic, one page.

Each is read from one snapshot. A page comes with all that is known of it and its neighbours in the link graph; of a URL
that is not stored, what is known is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb

from opilio.errors import InputError
from opilio.learn import explain_link
from opilio.learn.explanations import TEXT_NOT_KEPT, current_model, explain_pages, words_for
from opilio.learn.remedies import from_json
from opilio.learn.training_state import expected_precision
from opilio.model import Figures, host_of
from opilio.search.review import checked_precision
from opilio.search.snippets import summary_of
from opilio.store import Store, links
from opilio.store.history import LastRun, growth_parts, last_run, latest_notices
from opilio.store.pages import (
    ORDERS,
    BestPage,
    LinkedPage,
    TopicSite,
    best_linked,
    best_of_topics,
    describe,
    find_pages,
    find_url,
    known_spelling,
    latest_finds,
    new_pages,
    new_period,
    page_facts,
    page_judgements,
    page_openings,
    pages_of_topics,
    same_pages,
    sites_of_topics,
)
from opilio.store.topics import CountedTopics, count_topics
from opilio.store.training import TopicExample, examples_of_topic
from opilio.store.writer import read_figures
from opilio.topics import Mark, find_topic
from opilio.topics.hierarchy import ROOT
from opilio.topics.tree import OFF_TOPIC, OTHERS

MAX_NEIGHBOURS = 12
"""Neighbours on each side."""
MAX_TEXT_CHARS = 200_000
MAX_SAME = 50
PER_PAGE = 25
MAX_PAGE = 1_000_000
BEST = 3
"""Pages that the front shows of each wanted topic."""
CANDIDATES = 12
"""... and of how many it chooses them: of pages with the same title, it shows one."""
OPENING_CHARS = 4000
"""Of the text of a page, to find a sentence that says what it is about."""
SITES = 8
"""Sites of a topic by name."""
FIND_REASONS = 5
"""Words that spoke for a find."""
GROWTH_PARTS = 25
MAX_TOPICS = 24
"""Wanted topics of which it shows any: those with the most relevant pages."""
NEW = 30
LINKED = 8
"""Hubs, and authorities."""
NOTICES = 5
MAX_DAYS = 3650
MAX_SINCE_S = 2**33
EXAMPLES = 50
KEYWORDS = 40


def summary(counted: CountedTopics, kcid: int) -> dict[str, Any]:
    """One topic as plain values, without those below it."""
    record = counted.records[kcid]
    return {
        "topic": record.path, "name": record.name, **counted.hierarchy.described(kcid),
        "wanted": counted.hierarchy.is_wanted(kcid), **counted.figures(kcid), "new": counted.below[kcid].new_relevant,
    }  # fmt: skip


def tree(counted: CountedTopics, kcid: int = ROOT) -> dict[str, Any]:
    """A topic with those below it in `children`, in the order of their names."""
    children = sorted(counted.hierarchy.children(kcid), key=lambda child: counted.records[child].name.casefold())
    return summary(counted, kcid) | {"children": [tree(counted, child) for child in children]}


def portal(store: Store, days: int = 1, since_s: float | None = None) -> dict[str, Any]:
    """The front of a portal: what was found in figures, the topics with their best pages and sites, hubs and
    authorities, what is new, how the collection grew, how the crawl stands.

    New is what the last `days` of crawling brought: counted back from the latest visit, so that a collection that is
    not being crawled does not seem empty; or what was fetched since `since_s`, in seconds since 1970. While a crawl
    runs, it is the crawl that calls this, with its own database, which is open for writing: so it is known whether one
    runs. Plain values.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InputError(f"{days} days cannot be shown", f"Give 1 to {MAX_DAYS}.")
    if since_s is not None and not 0 <= since_s <= MAX_SINCE_S:
        raise InputError(f"{since_s} is no time that can be shown", "Give seconds since 1970.")
    with store.reading() as read:
        counted = count_topics(store.load_topics(), read, days, since_s)
        goods = _shown_goods(counted)
        found = best_of_topics(read, _within(counted, goods), CANDIDATES)
        sites = sites_of_topics(read, _within(counted, sorted(counted.hierarchy.good)))
        new = new_pages(read, days, NEW, since_s)
        linked = best_linked(read, ROOT, LINKED, relevant=True)
        known = describe(read, [page.oid for page in found] + [page.oid for page in linked] + new)
        best = _chosen(known, found, goods)
        texts = page_openings(read, [page.oid for page in best], OPENING_CHARS)
        until, since = new_period(read, days, since_s)
        figures = read_figures(read)
        run, notices, growth = last_run(read), latest_notices(read, NOTICES), growth_parts(read, GROWTH_PARTS)
    return {
        "tree": tree(counted),
        "others": counted.others.pages,
        "found": _found(sites) | {"precision": _precision(store, counted)},
        "wanted": [
            summary(counted, good)
            | {
                "best": [_best(known[page.oid], page, texts[page.oid]) for page in best if page.good == good],
                **_sites([site for site in sites if site.good == good]),
            }
            for good in goods
        ],
        "wanted_topics": len(counted.hierarchy.good),
        **_linked(known, linked),
        "new": {
            "days": days, "since": since, "until": until, "pages": counted.all.new_pages,
            "relevant": counted.all.new_relevant, "best": [known[oid] for oid in new],
        },
        "growth": [{"pages": pages, "relevant": relevant} for pages, relevant in growth],
        "crawl": _crawl(run, figures, running=not store.read_only),
        "notices": [
            notice._asdict() | {"remedies": from_json(notice.remedies, str(store.path.parent))} for notice in notices
        ],
    }  # fmt: skip


def _shown_goods(counted: CountedTopics) -> list[int]:
    """The wanted topics of the front, in the order of their paths."""
    fullest = sorted(counted.hierarchy.good, key=lambda kcid: (-counted.below[kcid].relevant, kcid))
    return sorted(fullest[:MAX_TOPICS], key=lambda kcid: counted.records[kcid].path.casefold())


def _within(counted: CountedTopics, goods: list[int]) -> list[tuple[int, int]]:
    """Each topic of some good ones, with the good one it is in."""
    return [(kcid, good) for good in goods for kcid in sorted(counted.hierarchy.below(good))]


def _chosen(known: Mapping[int, dict[str, Any]], found: list[BestPage], goods: list[int]) -> list[BestPage]:
    """The best pages of each topic, no title twice. What the user gave is shown only where nothing else was found."""
    chosen: list[BestPage] = []
    titles: set[str] = set()
    for good in goods:
        mine = [page for page in found if page.good == good]
        for page in [page for page in mine if not page.own] or mine:
            title = title_key(known[page.oid])
            if title not in titles and sum(one.good == good for one in chosen) < BEST:
                titles.add(title)
                chosen.append(page)
    return chosen


def title_key(page: Mapping[str, Any]) -> str:
    """The same for pages that a reader would see under the same title."""
    return " ".join(str(page["title"] or "").split()).casefold() or str(page["url"])


def _best(page: dict[str, Any], best: BestPage, text: str) -> dict[str, Any]:
    summary = summary_of(page["title"], page["description"], text)
    return page | {"confidence": best.confidence, "own": best.own, "summary": summary}


def _sites(sites: list[TopicSite]) -> dict[str, Any]:
    """The sites of one topic: the largest by name, and how many there are."""
    named = [{"host": site.host, "pages": site.pages, "url": site.url} for site in sites[:SITES]]
    return {"sites": named, "sites_total": len(sites)}


def _found(sites: list[TopicSite]) -> dict[str, Any]:
    """What was found of all wanted topics: relevant pages, and the sites that they are on."""
    return {"pages": sum(site.pages for site in sites), "sites": len({site.host for site in sites})}


def _precision(store: Store, counted: CountedTopics) -> dict[str, Any] | None:
    """How many of the pages are on topic: as reviews found it (`checked`), or as the model expects it (`expected`)."""
    checked = checked_precision(
        store, {good: sorted(counted.hierarchy.below(good)) for good in sorted(counted.hierarchy.good)}
    )
    if checked is not None:
        return {"kind": "checked", **checked}
    models = store.load_models()
    expected = expected_precision(models[0].estimates) if models else None
    if expected is None:
        return None
    return {"kind": "expected", **dict(zip(("value", "low", "high"), expected, strict=True)), "judged": 0}


def _linked(known: Mapping[int, dict[str, Any]], pages: Iterable[LinkedPage]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"hubs": [], "authorities": []}
    for page in pages:
        found[page.kind].append(known[page.oid] | {"score": page.score})
    return found


def _crawl(run: LastRun, figures: Figures, *, running: bool) -> dict[str, Any]:
    """How the crawl stands."""
    return run._asdict() | {
        "running": running, "pages": figures.pages, "relevant": figures.relevant, "requests": figures.requests,
        "elapsed_s": figures.elapsed_s, "harvest": figures.harvest,
        "harvest_per_request": figures.harvest_per_request, "harvest_per_s": figures.harvest_per_s,
    }  # fmt: skip


def finds(store: Store, limit: int, classifier: str) -> list[dict[str, Any]]:
    """The relevant pages that were fetched last, without what the user gave: each with a sentence about it, and the
    words that spoke for it. `classifier` judges where there is no model. Plain values."""
    with store.reading() as read:
        oids = latest_finds(read, limit)
        known = describe(read, oids)
        texts = page_openings(read, oids, OPENING_CHARS)
    urls = {oid: known[oid]["url"] for oid in oids}
    words = words_for(store, urls, current_model(store, classifier=classifier), FIND_REASONS) if oids else {}
    return [
        known[oid]
        | {
            "host": host_of(urls[oid]),
            "summary": summary_of(known[oid]["title"], known[oid]["description"], texts.get(oid, "")),
            "reasons": words.get(oid, []),
        }
        for oid in oids
    ]


def topic_pages(
    store: Store,
    topic: str = "",
    order: str = "confidence",
    page: int = 1,
    own: bool = False,
    relevant: bool = False,
    per_page: int = PER_PAGE,
) -> dict[str, Any]:
    """The pages of a topic with all below it, or of the topic alone (`own`), or of OTHERS; and what the topic is.

    `relevant` leaves out what is not. Plain values.
    """
    if order not in ORDERS:
        raise InputError(f"no order is called {order!r}", f"There are: {', '.join(ORDERS)}.")
    if not 1 <= page <= MAX_PAGE or not 1 <= per_page <= 1000:
        raise InputError(f"no page {page} of {per_page} results", "Pages are counted from 1, and have up to 1000.")
    is_others = topic.strip() == OTHERS
    records = store.load_topics()
    kcid = ROOT if is_others else find_topic(records, topic).kcid
    with store.reading() as read:
        counted = count_topics(records, read)
        topics = {kcid} if own else counted.hierarchy.below(kcid)
        found = pages_of_topics(
            read, kcid, topics, order=order, accepted=not is_others, relevant=relevant, limit=per_page,
            offset=(page - 1) * per_page,
        )  # fmt: skip
        linked = [] if is_others else best_linked(read, kcid, LINKED, relevant=relevant)
        known = describe(read, [one.oid for one in found] + [one.oid for one in linked])
        examples, examples_total = ([], 0) if is_others else examples_of_topic(read, kcid, EXAMPLES)
    count = counted.others if is_others else (counted.own if own else counted.below)[kcid]
    total = count.relevant if relevant else count.pages
    return {
        "about": _others(counted) if is_others else _about(counted, kcid, examples, examples_total),
        "tree": tree(counted), "others": counted.others.pages, "order": order, "orders": list(ORDERS), "own": own,
        "relevant": relevant, "page": page, "last_page": max(1, -(-total // per_page)), "total": total,
        "results": [known[one.oid] | one._asdict() for one in found], "scored": bool(linked),
        **_linked(known, linked),
    }  # fmt: skip


def _about(counted: CountedTopics, kcid: int, examples: list[TopicExample], total: int) -> dict[str, Any]:
    record = counted.records[kcid]
    above = [counted.records[number] for number in counted.hierarchy.line(kcid)[:-1]]
    return summary(counted, kcid) | {
        "above": [{"name": higher.name, "topic": higher.path} for higher in above],
        "keywords": list(dict.fromkeys(record.keywords))[:KEYWORDS],
        "description": record.description,
        "subtopics": [
            summary(counted, child)
            for child in sorted(counted.hierarchy.children(kcid), key=lambda child: counted.records[child].path)
        ],
        "examples": [example._asdict() for example in examples],
        "examples_total": total,
    }


def _others(counted: CountedTopics) -> dict[str, Any]:
    """What stands in the place of a topic for pages that none took."""
    return {
        "topic": OTHERS, "name": OTHERS, "mark": Mark.NULL.value, "mark_words": OFF_TOPIC,
        "wanted": False, "pages": counted.others.pages,
        "relevant": counted.others.relevant, "new": counted.others.new_relevant, "own_pages": counted.others.pages,
        "own_relevant": counted.others.relevant, "above": [], "keywords": [], "description": "", "subtopics": [],
        "examples": [], "examples_total": 0,
    }  # fmt: skip


def page(store: Store, url: str, explain: bool = True) -> dict[str, Any]:
    """A page with all that is known of it; of a URL that is not stored (`stored` is false), what is known (`known`).

    A URL that was redirected, or found to be a duplicate, stands for the page that is stored. Plain values.
    """
    [found] = pages(store, [url], explain)
    return found


def pages(store: Store, urls: list[str], explain: bool = True) -> list[dict[str, Any]]:
    """What `page` returns, for each URL, by a few queries for all of them."""
    with store.reading() as read:
        oids = find_pages(read, urls)
    addresses = {url: url if url in oids else known_spelling(store, url) or url for url in urls}
    with store.reading() as read:
        oids = find_pages(read, list(addresses.values()))
        stored = _stored(read, sorted(set(oids.values())))
    topics = [record.path for record in store.load_topics() if record.path]
    explained = explain_pages(store, list(oids)) if explain and oids else {}
    found = []
    for url in urls:
        address = addresses[url]
        if address not in oids:
            found.append({"asked": url, "stored": False, "known": _known(store, address)})
            continue
        why = explained.get(address)
        why_not = f"{url}: its text is not kept. {TEXT_NOT_KEPT}" if explain and why is None else ""
        found.append({"asked": url, **stored[oids[address]], "topics": topics, "why": why, "why_not": why_not})
    return found


def _stored(read: duckdb.DuckDBPyConnection, oids: list[int]) -> dict[int, dict[str, Any]]:
    near = _neighbours(read, oids, MAX_NEIGHBOURS)
    facts, judgements = page_facts(read, oids, MAX_TEXT_CHARS), page_judgements(read, oids)
    same = same_pages(read, oids, MAX_SAME)
    return {
        oid: {
            **near[oid]["page"],
            **facts[oid],
            "judgements": judgements[oid],
            "same": same[oid],
            "neighbours": near[oid],
        }
        for oid in oids
    }


def _known(store: Store, url: str) -> dict[str, Any] | None:
    try:
        return explain_link(store, url)
    except InputError:  # no page links to it
        return None


def neighbours(store: Store, url: str, most: int = MAX_NEIGHBOURS) -> dict[str, Any]:
    """The best pages that link to a URL (`from`) and that it links to (`to`), with the words of the links."""
    with store.reading() as read:
        oid = find_url(read, url)
        if oid is None:
            raise InputError(f"{url}: not known to this collection", "Give a URL that a page of it links to.")
        return _neighbours(read, [oid], most)[oid]


def _neighbours(read: duckdb.DuckDBPyConnection, oids: list[int], most: int) -> dict[int, dict[str, Any]]:
    linking, linked = links.neighbours(read, oids, most)
    known = describe(read, [*oids, *(near.oid for side in (linking, linked) for all in side.values() for near in all)])
    return {
        oid: {
            "page": known[oid],
            "from": [known[near.oid] | {"anchor": near.anchor} for near in linking[oid]],
            "from_total": linking[oid][0].total if linking[oid] else 0,
            "to": [known[near.oid] | {"anchor": near.anchor} for near in linked[oid]],
            "to_total": linked[oid][0].total if linked[oid] else 0,
        }
        for oid in oids
    }
