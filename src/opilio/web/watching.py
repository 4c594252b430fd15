"""The crawl page: live figures, newest finds, charts, notices with their remedies, and the controls of the crawl.

A browser keeps a connection open and receives events (`text/event-stream`). All listeners of one collection share one
`Watch`: it asks the crawl for its figures once a second as long as anybody listens. Where no crawl runs, the figures of
the last one are sent once, and then nothing until a crawl begins.

A remedy (`learn/remedies.py`) is a button that carries it out, or a link to where the user does. With JavaScript the
buttons call the REST API; without it they are plain forms, sent to the address of the page itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Literal
from urllib.parse import quote, urlencode

import anyio.to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, Response, StreamingResponse

from opilio.crawl import Collection, Status
from opilio.crawl.operations import OPERATIONS
from opilio.crawl.operations.client import ask, is_running
from opilio.errors import CollectionBusy, InputError, OpilioError
from opilio.frontier import covering, strategies
from opilio.learn.remedies import CRAWL, Remedy, command_line
from opilio.model import Outcome, OutcomeKind
from opilio.model.url import host_name
from opilio.settings import LimitSettings, Settings
from opilio.topics import describe_marks
from opilio.web.access import AllShelf, Reading, Render, Writing, form_fields, way_back
from opilio.web.shelf import Shelf
from opilio.web.start import HOUR_S, MORE_PAGES, continue_crawl, limit_reached
from opilio.web.teaching import taught

EVERY_S = 1.0
KEEP_ALIVE_S = 15.0  # silence after which a proxy might think the connection dead
LOOK_UP_S = 0.4  # how often a listener looks whether the server ends
ASK_TIMEOUT_S = 10.0
SHOWN_MARKS = 40
SHOWN_TOPICS = 100
SHOWN_HOSTS = 8  # of each kind
SHOWN_FINDS = 8
STOP_S = 60.0  # so long may a crawl take to end before it goes on with other settings
STOP_POLL_S = 0.1
SHOWN_NOTICES = 3
SHOWN_SEEDS = 10  # dead ones, of each outcome
TITLES = {
    "network": "No server is reached", "harvest": "The harvest fell", "dry": "The crawl finds hardly anything",
    "topic": "A topic starves", "drift": "A topic drifts", "end": "The crawl has ended",
}  # fmt: skip
"""Headings of notices, by kind."""
REMEDY_SETTINGS = frozenset({
    "learn.retrain_after", "frontier.strategy", "frontier.tunnel_steps", "frontier.explore_share",
    "limits.min_harvest", "limits.recall", "limits.when_dry",
})  # fmt: skip
"""The settings that a remedy may change."""

Figures = dict[str, Any]

router = APIRouter()


# -- live figures


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
        """How often the figures of the crawl were requested."""

    async def listen(self, is_ending: Callable[[], bool]) -> AsyncIterator[str]:
        """Events, until the listener leaves or the server ends."""
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
        """Ask once a second, and send what is new to all listeners."""
        while True:
            try:
                now = await asyncio.to_thread(self._look)
            except OpilioError:  # the crawl begins or ends right now, or the folder is gone
                now = None
            if now is not None and now != self._last:
                self._last = now
                for queue in self._listeners:
                    with contextlib.suppress(asyncio.QueueEmpty):
                        queue.get_nowait()  # a slow listener gets the newest only
                    queue.put_nowait(_event(now))
            await asyncio.sleep(EVERY_S)

    def _look(self) -> Figures | None:
        """The figures; None when no crawl runs and none ran the last time."""
        self.looks += 1
        report: Figures | None = None
        answer = ask(self._shelf.path(self._name), "status", timeout_s=ASK_TIMEOUT_S)
        if answer is not None:
            report = answer.result
            self._was_live = True
        elif self._last is None or self._was_live:  # at its end, it may have written more than it said
            with self._shelf.reading(self._name) as collection:
                report = dataclasses.asdict(collection.status())
            self._was_live = False
        return report


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


# -- the page


class HostWish(BaseModel):
    """What to do with a host, and with all below it."""

    host: str = Field(description="A name such as www.example.org, or the URL of a page.")
    do: Literal["lock", "unlock", "boost"]
    factor: float = Field(10.0, description="For a boost: the factor for priorities; 1 takes the boost back.")


class PolicyBody(BaseModel):
    """The order of the frontier."""

    strategy: str = Field(description="The name of a strategy, or sql.")
    order_by: str = Field("", description="For the strategy sql: what follows ORDER BY, over the view frontier.")
    n: int = Field(0, ge=0, description="For the strategy best-n-first.")


class LimitsBody(BaseModel):
    """When the crawl ends. What is not given stays as it is; 0: no limit."""

    max_pages: int | None = Field(None, ge=0, description="Pages to store, with those there are.")
    max_hours: float | None = Field(None, ge=0, description="Hours of crawling, earlier runs included.")
    more_pages: int = Field(0, ge=0, description="Raise the limit of pages by so many.")


@router.get("/c/{name}/watch", include_in_schema=False)
def watch(request: Request, name: str, collection: Reading, pages: Render) -> HTMLResponse:
    """The running crawl, or the last one."""
    status, census = collection.status(), collection.census()
    hosts = [
        {**host, "boosted_as": covering(host_name(host["host"]), status.boosts)}
        for host in collection.hosts(SHOWN_HOSTS)
    ]
    shown = [topic for topic in census["topics"] if topic["pages"] or topic["waiting"] or topic["mark"] == "good"]
    marks = collection.series()["marks"][::-1]
    finds = collection.finds(SHOWN_FINDS)
    state = RemedyState(name, status, collection.settings, {one["topic"]: one["mark"] for one in census["topics"]})
    return pages.render(
        request, "watch.html", name=name, place="watch", status=status, census=census, topics=shown[:SHOWN_TOPICS],
        hidden_topics=len(census["topics"]) - len(shown[:SHOWN_TOPICS]), hosts=hosts,
        marks=[{**mark, "remedies": state.shown(mark["remedies"])} for mark in marks[:SHOWN_MARKS]],
        outcomes=by_kind(status.outcomes), dead=collection.dead_seeds(SHOWN_SEEDS),
        notices=[
            {**one, "title": TITLES.get(one["kind"], one["kind"]), "remedies": state.shown(one["remedies"])}
            for one in notices_of_run(marks)
        ],
        remedies=state.shown(census["remedies"]),
        strategies=sorted(strategies), now=describe(status), limit=status.limit or limit_of(collection.settings.limits),
        limits=collection.settings.limits, more_pages=MORE_PAGES, finds=finds,
        reached="" if status.running else limit_reached(status, collection.settings.limits),
        render_command=command_line("crawl", status.folder, "--render", "auto"),
        **taught(collection, [one["url"] for one in finds]),
    )  # fmt: skip


@router.post("/c/{name}/watch", include_in_schema=False)
async def remedy_form(request: Request, name: str, collection: Writing) -> Response:
    """Carry out a remedy, or press another button of the page, by a form of a browser without JavaScript."""
    given = form_fields(await request.body())
    operation = given.get("operation", "")
    try:
        if operation == "change_limits":
            numbers = json.loads(given.get("arguments", "{}"))
            await anyio.to_thread.run_sync(limits, collection, LimitsBody.model_validate(numbers | _filled(given)))
        elif operation == "policy" and "arguments" not in given:
            await anyio.to_thread.run_sync(policy, collection, PolicyBody.model_validate(given))
        else:
            arguments = json.loads(given.get("arguments", ""))
            await anyio.to_thread.run_sync(carry_out, collection, operation, arguments)
    except ValueError:
        raise InputError("the form cannot be read", "Reload the page, then try again.") from None
    return way_back(name, {}, "watch")


def _filled(given: Mapping[str, str]) -> dict[str, str]:
    return {name: given[name] for name in ("max_pages", "max_hours") if given.get(name)}


def limit_of(limits: LimitSettings) -> str:
    """The limits that would end a crawl, for people."""
    words = {
        "max_pages": f"{limits.max_pages:,} pages", "max_time_s": f"{limits.max_time_s:g} s",
        "max_bytes": f"{limits.max_bytes:,} bytes", "recall": f"a recall of {limits.recall:.0%}",
    }  # fmt: skip
    return ", ".join(text for name, text in words.items() if getattr(limits, name)) or "none"


def by_kind(outcomes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Outcomes grouped by kind; the largest first in each group."""
    known = {outcome.value for outcome in Outcome}
    found = []
    for kind in OutcomeKind:
        rows = [(word, n) for word, n in outcomes.items() if word in known and Outcome(word).kind is kind]
        found += [{"kind": kind.value, "outcome": word, "urls": n} for word, n in sorted(rows, key=lambda row: -row[1])]
    return found


def describe(status: Status) -> str:
    """The state of a crawl, for people."""
    if not status.running:
        return f"no crawl runs: {status.reason}"
    return "paused" if status.paused else "crawling"


# -- remedies


def notices_of_run(marks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The latest notices of the latest run that have remedies, newest first; one of each kind and remedy.

    `marks` are those of `series`, newest first.
    """
    found: list[Mapping[str, Any]] = []
    every = list(marks)
    latest = max((mark["run"] for mark in every), default=0)
    for mark in every:
        is_known = any(one["kind"] == mark["kind"] and one["remedies"] == mark["remedies"] for one in found)
        if mark["run"] == latest and mark["remedies"] and not is_known:
            found.append(mark)
    return found[:SHOWN_NOTICES]


@dataclasses.dataclass(frozen=True)
class RemedyState:
    """What decides whether a remedy can be carried out now: the crawl as it is."""

    name: str
    status: Status
    settings: Settings
    marks: Mapping[str, str]
    """By topic."""

    def shown(self, remedies: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Remedies for the page: `link` leads to where the user does it, `state` is now, done, later or by hand.

        Commands name the collection, not its place on this machine.
        """
        return [
            {
                **Remedy(one["why"], one["operation"], one["arguments"]).described(self.name),
                "link": self._link(one),
                "state": self._state(one),
            }
            for one in remedies
        ]

    def _link(self, remedy: Mapping[str, Any]) -> str:
        here, given = f"/c/{quote(self.name, safe='')}", remedy["arguments"]
        return {
            "questions": f"{here}/questions",
            "add_example": f"{here}/teach?{urlencode({'topic': given.get('topic', '')})}#examples",
            "census": "#topics-head",
        }.get(remedy["operation"], "")

    def _state(self, remedy: Mapping[str, Any]) -> str:
        operation, given = remedy["operation"], remedy["arguments"]
        if operation == CRAWL:
            return self._state_of_crawl(given["settings"])
        if operation == "stop":
            return "now" if self.status.running else "done"
        if operation == "resume":
            return "now" if self.status.paused else "done"
        if operation == "mark":
            is_wanted = self.marks.get(given["topic"]) in ("good", "subsumed")
            return "done" if is_wanted == given["good"] else "now"
        if operation == "policy":
            return "done" if self.status.strategy == given["strategy"] else "now"
        return "now"

    def _state_of_crawl(self, settings: Mapping[str, Any]) -> str:
        """Settings cannot be changed while a crawl runs."""
        if None in settings.values():
            return "by hand"
        if self.status.running:
            return "later"
        now = dataclasses.asdict(self.settings)
        parts = (name.split(".") for name in settings)
        return "done" if all(now[s][n] == settings[f"{s}.{n}"] for s, n in parts) else "now"


def carry_out(collection: Collection, operation: str, arguments: Mapping[str, Any]) -> str:
    """Do what a remedy proposes; returns what was done."""
    if operation == CRAWL:
        settings = arguments.get("settings", {})
        if not settings.keys() <= REMEDY_SETTINGS:
            raise InputError("a remedy cannot change these settings", "Use `opilio crawl FOLDER --set`.")
        if settings:
            _end_crawl(collection)
            collection.change_settings(settings)
        return continue_crawl(collection, int(arguments.get("more_pages", 0)))
    if operation not in _DONE:
        raise InputError(f"{operation!r} is no remedy", "`opilio census FOLDER` shows those there are.")
    result = getattr(collection, operation)(**OPERATIONS[operation].check(arguments))
    return _DONE[operation](arguments, result)


def _end_crawl(collection: Collection) -> None:
    """Stop the crawl if one runs, and wait until it has ended: settings can be changed then."""
    until_s = time.monotonic() + STOP_S
    while collection.stop() or is_running(collection.folder):
        if time.monotonic() > until_s:
            raise CollectionBusy("the crawl is still ending", "Try again in a moment.")
        time.sleep(STOP_POLL_S)


_DONE: dict[str, Callable[[Mapping[str, Any], Any], str]] = {
    "mark": lambda _, changed: describe_marks(changed) or "nothing changed",
    "train": lambda _, version: f"model {version} is in use now",
    "policy": lambda given, running: f"ordered by {given['strategy']}{'' if running else ' from the next crawl on'}",
    "stop": lambda _, running: "stopping" if running else "no crawl runs",
    "pause": lambda _, running: "paused" if running else "no crawl runs",
    "resume": lambda _, running: "the crawl goes on" if running else "no crawl runs",
}
"""The remedies and controls that are one operation, and what is said when it is done."""


# -- the API, where it does more than call one operation


class RemedyBody(BaseModel):
    """A remedy of a notice or of the census: an operation with its arguments."""

    operation: Literal["mark", "train", "policy", "stop", "resume", "crawl"]
    arguments: dict[str, Any] = Field(default={}, description="As the notice or the census has them.")


@router.post("/api/c/{name}/remedy", tags=["crawl"])
def remedy(collection: Writing, body: RemedyBody) -> dict[str, Any]:
    """Carry out a remedy that a notice or the census proposes."""
    return {"said": carry_out(collection, body.operation, body.arguments)}


@router.get("/api/c/{name}/events", tags=["crawl"], response_class=StreamingResponse)
async def events(request: Request, name: str, shelf: AllShelf) -> StreamingResponse:
    """The figures as they change, as server-sent events: `data:` and a status in JSON, at most one a second."""
    state = request.app.state
    if not hasattr(state, "watches"):
        state.watches = Watches(shelf)
    is_ending = getattr(state, "is_ending", lambda: False)
    return StreamingResponse(state.watches.of(name).listen(is_ending), media_type="text/event-stream")


@router.post("/api/c/{name}/host", tags=["crawl"])
def steer_host(collection: Writing, wish: HostWish) -> dict[str, Any]:
    """Lock a host (nothing is fetched from it again), unlock it, or boost it while the crawl runs."""
    if wish.do == "lock":
        urls = collection.lock_host(wish.host)
        return {"said": f"{wish.host} is locked; {urls:,} of its queued URLs were dropped", "urls": urls}
    if wish.do == "unlock":
        urls = collection.unlock_host(wish.host)
        return {"said": f"{wish.host} is unlocked; {urls:,} URLs are queued again", "urls": urls}
    urls = collection.boost_host(wish.host, wish.factor)
    how = f"is boosted {wish.factor:g} times" if wish.factor > 1 else "is no longer boosted"
    return {"said": f"{wish.host} {how}; {urls:,} of its URLs are queued", "urls": urls}


@router.post("/api/c/{name}/limits", tags=["crawl"])
def limits(collection: Writing, body: LimitsBody) -> dict[str, Any]:
    """Change when the crawl ends: at once when one runs, else from the next crawl on."""
    max_pages = body.max_pages
    if body.more_pages:
        max_pages = max(collection.settings.limits.max_pages, collection.status().pages) + body.more_pages
    running = collection.change_limits(max_pages, None if body.max_hours is None else body.max_hours * HOUR_S)
    said = f"the crawl ends at: {limit_of(collection.settings.limits)}"
    return {"said": said + ("" if running else ", from the next crawl on")}


@router.post("/api/c/{name}/policy", tags=["crawl"])
def policy(collection: Writing, order: PolicyBody) -> dict[str, Any]:
    """Change the order of the frontier: at once when a crawl runs, else from the next crawl on."""
    order_by = order.order_by if order.strategy == "sql" else ""
    running = collection.policy(order.strategy, order_by, order.n)
    return {"said": f"ordered by {order_by or order.strategy}{'' if running else ' from the next crawl on'}"}
