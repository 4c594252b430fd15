"""Live figures: one look a second at a crawl, whoever and however many listen.

A browser keeps a connection open and is sent events (`text/event-stream`). All who listen to one collection share one
`Watch`: it asks the crawl once a second as long as anybody listens. Where no crawl runs, the figures of the last one
are sent once, and then nothing until a crawl begins.

A crawl as it runs: figures, charts and the means to steer it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, StreamingResponse

from opilio.crawl import Status
from opilio.crawl.control import ask
from opilio.errors import OpilioError
from opilio.frontier import covering, strategies
from opilio.model import Outcome, OutcomeKind
from opilio.model.url import host_name
from opilio.settings import LimitSettings
from opilio.web.access import AllShelf, Reading, Render, Writing
from opilio.web.shelf import Shelf

EVERY_S = 1.0
KEEP_ALIVE_S = 15.0  # silence after which a proxy might think the connection dead
LOOK_UP_S = 0.4  # whoever listens looks this often whether the server ends
ASK_TIMEOUT_S = 10.0

Figures = dict[str, Any]


class Watch:
    """The figures of one collection as they change."""

    def __init__(self, shelf: Shelf, name: str) -> None:
        self._shelf = shelf
        self._name = name
        self._listeners: set[asyncio.Queue[str]] = set()
        self._task: asyncio.Task[None] | None = None
        self._last: Figures | None = None
        self._was_live = False
        self.looks = 0
        """How often the crawl has been asked."""

    async def listen(self, is_ending: Callable[[], bool]) -> AsyncIterator[str]:
        """Events, until whoever listens leaves or the server ends."""
        queue: asyncio.Queue[str] = asyncio.Queue(1)
        self._listeners.add(queue)
        if self._last is not None:
            queue.put_nowait(_event(self._last))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_on())
        silent_s = 0.0
        try:
            while not is_ending() and self._task is not None and not self._task.done():
                try:
                    yield await asyncio.wait_for(queue.get(), LOOK_UP_S)
                    silent_s = 0.0
                except TimeoutError:
                    silent_s += LOOK_UP_S
                    if silent_s >= KEEP_ALIVE_S:
                        yield ": nothing new\n\n"
                        silent_s = 0.0
        finally:
            self._listeners.discard(queue)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = self._last = None

    async def _look_on(self) -> None:
        """Look once a second, and tell all who listen what is new."""
        while True:
            try:
                now = await asyncio.to_thread(self._look)
            except OpilioError:  # it begins or ends just now, or the folder is gone
                now = None
            if now is not None and now != self._last:
                self._last = now
                for queue in self._listeners:
                    with contextlib.suppress(asyncio.QueueEmpty):
                        queue.get_nowait()  # whoever is slow hears the newest
                    queue.put_nowait(_event(now))
            await asyncio.sleep(EVERY_S)

    def _look(self) -> Figures | None:
        """The figures; None when no crawl runs and none ran at the last look."""
        self.looks += 1
        told: Figures | None = ask(self._shelf.path(self._name), "status", timeout_s=ASK_TIMEOUT_S)
        if told is not None:
            self._was_live = True
        elif self._last is None or self._was_live:  # as it ended, it may have said less than it wrote
            with self._shelf.reading(self._name) as collection:
                told = dataclasses.asdict(collection.status())
            self._was_live = False
        return told


class Watches:
    """The watches of one server, by collection."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._watches: dict[str, Watch] = {}

    def of(self, name: str) -> Watch:
        """The watch of a collection; an error when there is none of that name."""
        self._shelf.path(name)
        return self._watches.setdefault(name, Watch(self._shelf, name))


def _event(figures: Figures) -> str:
    return f"data: {json.dumps(figures)}\n\n"


router = APIRouter()
SHOWN_MARKS = 40
SHOWN_TOPICS = 100
SHOWN_HOSTS = 8  # of each kind


class HostWish(BaseModel):
    """What is wanted of a host, and of all below it."""

    host: str = Field(description="A name such as www.example.org; the address of a page will do.")
    do: Literal["lock", "unlock", "boost"]
    factor: float = Field(10.0, description="Of a boost: how many times as much a priority counts; 1 takes it back.")


class PolicyBody(BaseModel):
    """The order of what waits."""

    strategy: str = Field(description="A strategy by name, or sql.")
    order_by: str = Field("", description="Of the strategy sql: what stands after ORDER BY, over the view frontier.")
    n: int = Field(0, ge=0, description="Of the strategy best-n-first.")


class TopicMark(BaseModel):
    """Whether a topic is wanted."""

    topic: str
    good: bool = True


@router.get("/c/{name}/watch", include_in_schema=False)
def watch(request: Request, name: str, collection: Reading, pages: Render) -> HTMLResponse:
    """The crawl that runs, or the last one."""
    status, census = collection.status(), collection.census()
    hosts = [
        {**host, "boosted_as": covering(host_name(host["host"]), status.boosts)}
        for host in collection.hosts(SHOWN_HOSTS)
    ]
    shown = [topic for topic in census["topics"] if topic["pages"] or topic["waiting"] or topic["mark"] == "good"]
    return pages.render(
        request, "watch.html", name=name, place="watch", status=status, census=census, topics=shown[:SHOWN_TOPICS],
        hidden_topics=len(census["topics"]) - len(shown[:SHOWN_TOPICS]), hosts=hosts,
        marks=collection.series()["marks"][::-1][:SHOWN_MARKS], outcomes=by_kind(status.outcomes),
        strategies=sorted(strategies), now=describe(status), limit=status.limit or limit_of(collection.settings.limits),
    )  # fmt: skip


def limit_of(limits: LimitSettings) -> str:
    """What would end a crawl, in words."""
    words = {
        "max_pages": f"{limits.max_pages:,} pages", "max_time_s": f"{limits.max_time_s:g} s",
        "max_bytes": f"{limits.max_bytes:,} bytes", "recall": f"a recall of {limits.recall:.0%}",
    }  # fmt: skip
    return ", ".join(text for name, text in words.items() if getattr(limits, name)) or "none"


def by_kind(outcomes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Outcomes by the family they belong to, in the order of the families; the largest first in each."""
    known = {outcome.value for outcome in Outcome}
    found = []
    for kind in OutcomeKind:
        rows = [(word, n) for word, n in outcomes.items() if word in known and Outcome(word).kind is kind]
        found += [{"kind": kind.value, "outcome": word, "urls": n} for word, n in sorted(rows, key=lambda row: -row[1])]
    return found


def describe(status: Status) -> str:
    """How a crawl stands, in a word or two."""
    if not status.running:
        return f"no crawl runs: {status.reason}"
    return "paused" if status.paused else "crawling"


# -- watching


@router.get("/api/c/{name}/status", tags=["crawl"])
def status_now(collection: Reading) -> dict[str, Any]:
    """The figures of the crawl that runs, or of the last one."""
    return dataclasses.asdict(collection.status())


@router.get("/api/c/{name}/series", tags=["crawl"])
def series(collection: Reading, points: Annotated[int, Query(ge=1, le=2000)] = 300) -> dict[str, Any]:
    """The history of the crawl: harvest by pages, speed by seconds of crawling, and what happened when."""
    return collection.series(points)


@router.get("/api/c/{name}/hosts", tags=["crawl"])
def hosts(collection: Reading, top: Annotated[int, Query(ge=1, le=1000)] = 15) -> list[dict[str, Any]]:
    """The hosts that gave most, those that fail, and those with most URLs waiting."""
    return collection.hosts(top)


@router.get("/api/c/{name}/census", tags=["crawl"])
def census(
    collection: Reading, last_pages: Annotated[int, Query(ge=0)] = 0, topic: str | None = None
) -> dict[str, Any]:
    """Which topics the pages fell into, and what to do about it."""
    return collection.census(last_pages, topic)


@router.get("/api/c/{name}/events", tags=["crawl"], response_class=StreamingResponse)
async def events(request: Request, name: str, shelf: AllShelf) -> StreamingResponse:
    """The figures as they change, as server-sent events: `data:` and a status in JSON, at most one a second."""
    state = request.app.state
    if not hasattr(state, "watches"):
        state.watches = Watches(shelf)
    is_ending = getattr(state, "is_ending", lambda: False)
    return StreamingResponse(state.watches.of(name).listen(is_ending), media_type="text/event-stream")


# -- steering


@router.post("/api/c/{name}/pause", tags=["crawl"])
def pause(collection: Writing) -> dict[str, Any]:
    """Ask for nothing new until the crawl is resumed; requests under way are finished."""
    running = collection.pause()
    return {"said": "paused: requests under way are finished" if running else "no crawl runs", "running": running}


@router.post("/api/c/{name}/resume", tags=["crawl"])
def resume(collection: Writing) -> dict[str, Any]:
    """Go on after a pause."""
    running = collection.resume()
    return {"said": "the crawl goes on" if running else "no crawl runs", "running": running}


@router.post("/api/c/{name}/host", tags=["crawl"])
def steer_host(collection: Writing, wish: HostWish) -> dict[str, Any]:
    """Lock a host (it is never asked again), unlock it, or let it have its turn sooner while the crawl runs."""
    if wish.do == "lock":
        urls = collection.lock_host(wish.host)
        return {"said": f"{wish.host} is locked; {urls:,} of its URLs no longer wait", "urls": urls}
    if wish.do == "unlock":
        urls = collection.unlock_host(wish.host)
        return {"said": f"{wish.host} is unlocked; {urls:,} URLs wait again", "urls": urls}
    urls = collection.boost_host(wish.host, wish.factor)
    how = f"comes sooner, {wish.factor:g} times" if wish.factor > 1 else "comes in its own turn again"
    return {"said": f"{wish.host} {how}; {urls:,} of its URLs wait", "urls": urls}


@router.post("/api/c/{name}/policy", tags=["crawl"])
def policy(collection: Writing, order: PolicyBody) -> dict[str, Any]:
    """Order what waits another way: at once when a crawl runs, else from the next one on."""
    order_by = order.order_by if order.strategy == "sql" else ""
    running = collection.policy(order.strategy, order_by, order.n)
    return {"said": f"ordered by {order_by or order.strategy}{'' if running else ' from the next crawl on'}"}


@router.post("/api/c/{name}/mark", tags=["crawl"])
def mark(collection: Writing, wish: TopicMark) -> dict[str, Any]:
    """Want a topic, or not any more; a crawl that runs learns it at once."""
    changed = collection.mark(wish.topic, good=wish.good)
    said = f"{wish.topic} is {'wanted' if wish.good else 'not wanted any more'}" if changed else "nothing changed"
    return {"said": said, "changed": changed}
