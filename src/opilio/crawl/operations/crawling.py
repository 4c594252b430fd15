"""Operations that watch and steer a crawl."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from opilio import learn
from opilio.crawl import history
from opilio.crawl.ledger import MAX_NOTICES
from opilio.crawl.operations.client import OperationClient, caller_operation
from opilio.crawl.operations.context import Context, LiveCrawl, address_of
from opilio.crawl.operations.declaration import READS, STEERS, WRITES, Meta, Route, operation
from opilio.crawl.status import SHOWN_SHELL_HOSTS, Counters, Status
from opilio.crawl.steering import name_of_host, relock_offline
from opilio.errors import CollectionError, InputError
from opilio.frontier import DatabaseStrategy, ScopeFilter, covering, make_strategy
from opilio.learn.asking import can_answer, open_count
from opilio.learn.remedies import from_json
from opilio.learn.training_data import pending_changes
from opilio.learn.training_state import describe
from opilio.model import Outcome
from opilio.model.url import path_of
from opilio.settings import ScopeSettings, Settings, override
from opilio.settings.files import changing, write_settings
from opilio.store import Store, urls
from opilio.store.history import stored_figures
from opilio.store.revisits import Upcoming, upcoming
from opilio.store.user_questions import count_questions

POINTS = 300
HOST = Meta(description="A name such as www.example.org, which covers all names below it; or the URL of a page.")
LOCKED = Meta(
    description="A name such as www.example.org, which covers all names below it; or a URL with a path, which covers "
    "all URLs that begin with it; or a list of them."
)
MAX_LISTED = 3


# -- watching


@operation(READS, rest=Route("GET", "status", "crawl"))
def status(at: Context) -> Status:
    """The figures of the running crawl, or of the last one."""
    return stored_status(at.folder, at.settings, at.store)


@status.live
def _(crawl: LiveCrawl) -> Status:
    """A running crawl has its figures in memory."""
    return crawl.engine.status()


def stored_status(folder: Path, settings: Settings, store: Store) -> Status:
    """The figures that the last crawl left in the database."""
    counters = Counters(store.load_counters(), store.load_progress())
    found, figures = stored_figures(store, MAX_NOTICES), store.load_figures()
    shells = Counter(urls.shells_by_host(store))
    next_due = upcoming(store, settings.revisit, time.time()) if settings.revisit.keep_fresh else Upcoming()
    return Status(
        folder=str(folder), running=False, pages=figures.pages, fetched_bytes=counters.counts["bytes"],
        urls=store.count_rows("crawl"), waiting=store.waiting_count(), hot=0, in_flight=0,
        hosts=sum(found.hosts.values()), slow_hosts=found.hosts.get("slow", 0), bad_hosts=found.hosts.get("bad", 0),
        elapsed_s=figures.elapsed_s, pages_per_s=0.0, relevant=figures.relevant, requests=figures.requests,
        harvest=figures.harvest, harvest_per_request=figures.harvest_per_request, harvest_per_s=figures.harvest_per_s,
        recent_harvest=None, recent_harvests=[],
        outcomes=counters.outcomes(), counters=counters.shown(), phase=counters.progress.phase,
        strategy=settings.frontier.strategy, order_by=settings.frontier.order_by, topics=found.queued,
        reason=found.reason, model=describe(store.load_models(), settings),
        notices=[one | {"remedies": from_json(one["remedies"], str(folder))} for one in found.notices],
        recall=learn.estimate_recall(store), questions=open_count(settings, count_questions(store)),
        system=settings.run.system,
        due_pages=next_due.due, next_due_url=next_due.next_url, next_due_s=next_due.next_s,
        shells=dict(shells.most_common(SHOWN_SHELL_HOSTS)), shell_pages=shells.total(),
    )  # fmt: skip


@operation(
    READS,
    rest=Route("GET", "series", "crawl"),
    about={"points": Meta(ge=1, le=2000, description="Points of each line, at most.")},
)
def series(at: Context, points: int = POINTS) -> dict[str, Any]:
    """The history of the crawl over all runs, in at most `points` points: the data behind the charts.

    `harvest` by pages fetched, with the share of the largest topics; `speed` by seconds of crawling; `marks`: phases,
    models, notices and runs, with their positions on both axes.
    """
    return history.series(at.store, points)


@operation(
    READS,
    rest=Route("GET", "hosts", "crawl"),
    about={"top": Meta(ge=1, le=1000, description="How many hosts of each kind.")},
)
def hosts(at: Context, top: int = 15) -> list[dict[str, Any]]:
    """The hosts with most pages, those that fail, those with most queued URLs: at most `top` of each."""
    scope = ScopeFilter(ScopeSettings(locked_domains=at.settings.scope.locked_domains))
    return [
        {**host, "locked": scope.rejection(host["host"]) is Outcome.LOCKED}
        for host in history.list_hosts(at.store, top)
    ]


@operation(
    READS,
    rest=Route("GET", "census", "crawl", "analysis"),
    about={
        "last_pages": Meta(ge=0, description="Only the latest pages; 0: all."),
        "topic": Meta(description="Only the pages of this topic, and those that they led to."),
    },
)
def census(at: Context, last_pages: int = 0, topic: str | None = None) -> dict[str, Any]:
    """The topics of the latest pages (0: all pages), what the off-topic pages are about, and what to do about it."""
    store, is_running = at.store, at.engine is not None
    state = learn.CrawlState(
        can_answer=can_answer(store, at.settings),
        pending=pending_changes(store)["count"]
        if store.load_models() and not is_running
        else 0,  # a running crawl learns them
        strategy=at.settings.frontier.strategy if is_running else "",
    )
    return learn.take_census(store, last_pages, topic or None, state)


@operation(
    READS,
    rest=Route("GET", "dead-seeds", "crawl"),
    about={"top": Meta(ge=0, le=10_000, description="How many URLs of each outcome are named.")},
)
def dead_seeds(at: Context, top: int = 3) -> dict[str, Any]:
    """The seeds and bookmarks that gave no page: how many of all (`dead` of `seeds`), and by outcome which (`outcomes`:
    outcome, what it means, how many, and the first `top` of them with details)."""
    found: dict[str, list[urls.DeadSeed]] = {}
    for seed in urls.dead_seeds(at.store):
        found.setdefault(seed.outcome, []).append(seed)
    return {
        "seeds": urls.count_seeds(at.store),
        "dead": sum(map(len, found.values())),
        "outcomes": [
            {
                "outcome": outcome,
                "meaning": Outcome(outcome).meaning,
                "count": len(seeds),
                "urls": [{"url": one.url, "title": one.title or "", "detail": one.detail} for one in seeds[:top]],
            }
            for outcome, seeds in sorted(found.items(), key=lambda item: -len(item[1]))
        ],
    }


# -- pausing and stopping


@operation(STEERS, rest=Route("POST", "pause", "crawl"))
def pause(at: Context) -> bool:
    """Pause the running crawl until `resume`: it starts no new requests. Returns False when no crawl runs.

    Requests under way are finished. A pause ends with the crawl.
    """
    return False


@pause.live
def _(crawl: LiveCrawl) -> bool:
    crawl.engine.steering.pause()
    return True


@operation(STEERS, rest=Route("POST", "resume", "crawl"))
def resume(at: Context) -> bool:
    """Resume a paused crawl. Returns False when no crawl runs."""
    return False


@resume.live
def _(crawl: LiveCrawl) -> bool:
    crawl.engine.steering.resume()
    return True


@operation(STEERS, rest=Route("POST", "stop", "crawl"))
def stop(at: Context) -> bool:
    """Stop the running crawl cleanly: requests under way are finished. Returns False when no crawl runs."""
    return False


@stop.live
def _(crawl: LiveCrawl) -> bool:
    crawl.engine.stop("stopped by `opilio stop`")
    return True


# -- the order of the frontier


@caller_operation(STEERS)
def policy(client: OperationClient, strategy: str, order_by: str = "", n: int = 0) -> bool:
    """Change the order of the frontier: at once when a crawl runs (returns True), else from the next crawl on."""
    with changing(client.folder) as now:
        settings = override(now, _order_settings(strategy, order_by, n))
        make_strategy(settings.frontier)
        running = client.call(_change_order, strategy, order_by, n)
        if not running and order_by:
            with client.opened(read_only=True) as store:
                store.check_order_by(order_by)
        client.settings = settings
        write_settings(client.folder, settings)
    return running


@operation(STEERS)
def _change_order(at: Context, strategy: str, order_by: str, n: int) -> bool:
    """Change the order of the running crawl's frontier. Returns False when no crawl runs."""
    return False


@_change_order.live
async def _(crawl: LiveCrawl, strategy: str, order_by: str, n: int) -> bool:
    engine, changes = crawl.engine, _order_settings(strategy, order_by, n)
    order = make_strategy(override(engine.settings, changes, "policy").frontier)
    if engine.phases.has_own_order:
        if isinstance(order, DatabaseStrategy):
            engine.store.check_order_by(order.order_by)
        engine.absorber.notice("phase", f"the harvest will be ordered by {order_by or strategy}")
    else:
        await engine.change_strategy(order)
    engine.settings = override(engine.settings, changes, "policy")  # others may have changed meanwhile
    return True


def _order_settings(strategy: str, order_by: str, n: int) -> dict[str, Any]:
    changes: dict[str, Any] = {"frontier.strategy": strategy, "frontier.order_by": order_by}
    return {**changes, "frontier.n": n} if n else changes


# -- limits


@caller_operation(
    STEERS,
    about={
        "max_pages": Meta(description="Pages to store, with those there are; 0: no limit."),
        "max_time_s": Meta(description="Seconds of crawling, earlier runs included; 0: no limit."),
    },
)
def change_limits(client: OperationClient, max_pages: int | None = None, max_time_s: float | None = None) -> bool:
    """Change when the crawl ends: at once when one runs (returns True), else from the next crawl on.

    A limit that is not given stays.
    """
    changes = _limit_settings(max_pages, max_time_s)
    if not changes:
        raise InputError("no limit is given", "Give a number of pages, or a time.")
    with changing(client.folder) as now:
        settings = override(now, changes)
        running = client.call(_change_limits, max_pages, max_time_s)
        client.settings = settings
        write_settings(client.folder, settings)
    return running


@operation(STEERS)
def _change_limits(at: Context, max_pages: int | None, max_time_s: float | None) -> bool:
    """Change the limits of the running crawl. Returns False when no crawl runs."""
    return False


@_change_limits.live
def _(crawl: LiveCrawl, max_pages: int | None, max_time_s: float | None) -> bool:
    engine = crawl.engine
    engine.settings = override(engine.settings, _limit_settings(max_pages, max_time_s), "limits")
    return True


def _limit_settings(max_pages: int | None, max_time_s: float | None) -> dict[str, Any]:
    given = {"limits.max_pages": max_pages, "limits.max_time_s": max_time_s}
    return {name: value for name, value in given.items() if value is not None}


# -- hosts


@caller_operation(WRITES, about={"host": LOCKED})
def lock_host(client: OperationClient, host: str | Sequence[str]) -> int:
    """Never fetch from a host again, nor from any below it, in this crawl and later ones.

    A URL with a path locks all URLs that begin with it, not the host. `host` can also be a list of both. Returns how
    many queued URLs were dropped.
    """
    with changing(client.folder) as settings:
        now = settings.scope
        domains, urls = _lockable(host)
        new = [name for name in domains if not covering(name, now.locked_domains)]
        new_urls = [url for url in urls if url not in now.locked_urls]
        if not new and not new_urls:
            return 0
        said = _listed([*new, *new_urls])
        locks = Locks([*now.locked_domains, *new], [*now.locked_urls, *new_urls])
        return _change_locks(client, settings, locks, f"{said} locked")["dropped"]


@caller_operation(WRITES, about={"host": LOCKED})
def unlock_host(client: OperationClient, host: str | Sequence[str]) -> int:
    """Allow fetching from a host, or from URLs that begin so, again. Returns how many URLs are queued again."""
    with changing(client.folder) as settings:
        now = settings.scope
        domains, urls = _lockable(host)
        for name in domains:
            by = covering(name, now.locked_domains)
            if not by:
                raise InputError(f"{name} is not locked", "`opilio host lock FOLDER` lists what is.")
            if by != name:
                raise InputError(f"{name} is locked as a part of {by}", f"Unlock that: opilio host unlock FOLDER {by}")
        for url in urls:
            if url not in now.locked_urls:
                raise InputError(f"{url} is not locked", "`opilio host lock FOLDER` lists what is.")
        locks = Locks(
            [one for one in now.locked_domains if one not in domains],
            [one for one in now.locked_urls if one not in urls],
        )
        return _change_locks(client, settings, locks, f"{_listed([*domains, *urls])} unlocked")["taken_up"]


class Locks(NamedTuple):
    """All domains, and beginnings of URLs, that are locked."""

    domains: list[str]
    urls: list[str]


def _lockable(host: str | Sequence[str]) -> Locks:
    """What a user names: hosts, and URLs with a path."""
    locks = Locks([], [])
    for text in [host] if isinstance(host, str) else host:
        name = name_of_host(text)
        url = address_of(text.strip())
        is_host = path_of(url) == "/"
        (locks.domains if is_host else locks.urls).append(name if is_host else url)
    return Locks(list(dict.fromkeys(locks.domains)), list(dict.fromkeys(locks.urls)))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MAX_LISTED else f"{len(names):,} hosts and URLs"


def _change_locks(client: OperationClient, settings: Settings, locks: Locks, notice: str) -> dict[str, int]:
    """Lock these and no others; the crawl is notified before anyone else can change the settings."""
    client.settings = override(settings, _lock_settings(locks.domains, locks.urls), "lock")
    write_settings(client.folder, client.settings)
    return client.call(_relock, locks.domains, locks.urls, notice)


def _lock_settings(domains: Sequence[str], urls: Sequence[str]) -> dict[str, Any]:
    return {"scope.locked_domains": list(domains), "scope.locked_urls": list(urls)}


@operation(WRITES)
def _relock(at: Context, domains: Sequence[str], urls: Sequence[str], notice: str) -> dict[str, int]:
    """Drop the queued URLs that are locked, and queue those again that are no longer locked."""
    return relock_offline(at.store, at.settings.scope)


@_relock.live
async def _(crawl: LiveCrawl, domains: Sequence[str], urls: Sequence[str], notice: str) -> dict[str, int]:
    engine = crawl.engine
    engine.settings = override(engine.settings, _lock_settings(domains, urls), "lock")
    return await engine.steering.relock(domains, urls, notice)


@operation(STEERS, about={"host": HOST, "factor": Meta(ge=1, le=1000, description="1 takes a boost back.")})
def boost_host(at: Context, host: str, factor: float) -> int:
    """Give a host, and all below it, an earlier turn while the crawl runs; a factor of 1 takes it back.

    Its URLs count for `factor` times their priority, those found later too; under an order in SQL they come first.
    Returns how many of them are queued.
    """
    name_of_host(host)
    raise CollectionError(
        f"no crawl runs in {at.folder}", "A boost is for a running crawl: start it, then boost the host."
    )


@boost_host.live
async def _(crawl: LiveCrawl, host: str, factor: float) -> int:
    return int((await crawl.engine.steering.boost(name_of_host(host), factor))["waiting"])
