"""The figures of all collections for Prometheus: /metrics, in its text format 0.0.4.

They are those of the operation `status`, with the name of the collection as a label. Whatever only grows is a counter;
pages may be removed and re-judged, so their numbers are gauges.

A running crawl is asked at each request, which costs it nothing. The figures of a collection without a crawl are read
from its database once, and again when that has changed: so many collections can be scraped often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

import opilio
from opilio.crawl import Status
from opilio.crawl.operations.browse import database_state
from opilio.crawl.operations.client import NOTE
from opilio.errors import OpilioError
from opilio.web.access import AllShelf, CostlyRequests
from opilio.web.shelf import Shelf

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter()

Labels = Mapping[str, str]


class Metric(NamedTuple):
    """One kind of figure."""

    name: str
    kind: str
    says: str
    values: Callable[[Status], Iterator[tuple[Labels, float | None]]]
    """The figures of a collection, each with its labels; None: not known."""


def _one(name: str) -> Callable[[Status], Iterator[tuple[Labels, float | None]]]:
    """A field of the status."""

    def values(status: Status) -> Iterator[tuple[Labels, float | None]]:
        value = getattr(status, name)
        yield {}, None if value is None else float(value)

    return values


def _by(name: str, label: str) -> Callable[[Status], Iterator[tuple[Labels, float | None]]]:
    """A table of the status, with its keys as a label."""

    def values(status: Status) -> Iterator[tuple[Labels, float | None]]:
        for key, value in sorted(getattr(status, name).items()):
            yield {label: key}, float(value)

    return values


def _events(status: Status) -> Iterator[tuple[Labels, float | None]]:
    for name, value in sorted(status.counters.items()):
        if ":" not in name:  # outcomes are a metric of their own
            yield {"event": name}, float(value)


def _hosts(status: Status) -> Iterator[tuple[Labels, float | None]]:
    fine = status.hosts - status.slow_hosts - status.bad_hosts
    for state, count in (("good", fine), ("slow", status.slow_hosts), ("bad", status.bad_hosts)):
        yield {"state": state}, float(count)


METRICS = (
    Metric("opilio_crawl_running", "gauge", "Whether a crawl runs (1) or not (0).", _one("running")),
    Metric("opilio_crawl_paused", "gauge", "Whether the user has paused the crawl.", _one("paused")),
    Metric("opilio_crawl_without_network", "gauge", "Whether no host answers.", _one("no_network")),
    Metric("opilio_crawl_seconds_total", "counter", "Time spent crawling, over all runs.", _one("elapsed_s")),
    Metric("opilio_pages", "gauge", "Stored pages.", _one("pages")),
    Metric("opilio_relevant_pages", "gauge", "Stored pages that are relevant, as judged now.", _one("relevant")),
    Metric("opilio_pages_per_second", "gauge", "Pages stored a second, over the last seconds.", _one("pages_per_s")),
    Metric("opilio_requests_total", "counter", "Requests sent, failed ones included.", _one("requests")),
    Metric("opilio_received_bytes_total", "counter", "Bytes received.", _one("fetched_bytes")),
    Metric("opilio_requests_in_flight", "gauge", "Requests under way.", _one("in_flight")),
    Metric("opilio_urls", "gauge", "URLs known.", _one("urls")),
    Metric("opilio_queued_urls", "gauge", "URLs queued.", _one("waiting")),
    Metric("opilio_queued_urls_in_memory", "gauge", "URLs queued that are in memory.", _one("hot")),
    Metric("opilio_due_pages", "gauge", "Stored pages that are due to be visited again.", _one("due_pages")),
    Metric("opilio_hosts", "gauge", "Hosts, by whether they answer.", _hosts),
    Metric("opilio_harvest_ratio", "gauge", "Relevant pages / pages, as judged now.", _one("harvest")),
    Metric("opilio_harvest_per_request_ratio", "gauge", "Relevant pages / requests.", _one("harvest_per_request")),
    Metric("opilio_harvest_per_second", "gauge", "Relevant pages a second of crawling.", _one("harvest_per_s")),
    Metric("opilio_recent_harvest_ratio", "gauge", "The same of the latest pages of this run.", _one("recent_harvest")),
    Metric("opilio_recall_ratio", "gauge", "Share of the relevant pages in reach found, by estimate.", _one("recall")),
    Metric("opilio_questions", "gauge", "Questions that wait for an answer.", _one("questions")),
    Metric("opilio_topic_queued_urls", "gauge", "URLs queued, by topic.", _by("topics", "topic")),
    Metric("opilio_outcomes_total", "counter", "URLs that came to an end, by outcome.", _by("outcomes", "outcome")),
    Metric("opilio_events_total", "counter", "What else was counted, by event.", _events),
)  # fmt: skip


class FigureReader:
    """Reads the status of collections, and keeps those that cannot have changed."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, Status]] = {}
        self.turn = asyncio.Lock()
        """Held while figures are read."""

    def read(self, shelf: Shelf) -> dict[str, Status | None]:
        """The status of each collection; None where it cannot be read now."""
        found = {name: self._status(shelf, name) for name in shelf.names()}
        self._kept = {name: kept for name, kept in self._kept.items() if name in found}
        return found

    def _status(self, shelf: Shelf, name: str) -> Status | None:
        try:
            folder = shelf.path(name)
            state = database_state(folder)
            kept = self._kept.get(name)
            if kept is not None and kept[0] == state and not (folder / NOTE).exists():
                return kept[1]
            with shelf.reading(name) as collection:
                status = collection.status()
        except OpilioError:
            return None
        if not status.running:
            self._kept[name] = (state, status)
        return status


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request, shelf: AllShelf) -> Response:
    """The figures of all collections for Prometheus."""
    requests: CostlyRequests = request.app.state.costly
    async with requests.turn("metrics"):
        reader: FigureReader = request.app.state.figures
        async with reader.turn:
            found = await anyio.to_thread.run_sync(reader.read, shelf)
    return Response(exposition(found), media_type=CONTENT_TYPE)


def exposition(found: Mapping[str, Status | None]) -> str:
    """The text format: for each metric what it is, then a line for each figure."""
    lines = [
        "# HELP opilio_info The version of Opilio.", "# TYPE opilio_info gauge",
        _sample("opilio_info", {"version": opilio.__version__}, 1.0),
        "# HELP opilio_up Whether the figures of a collection could be read.", "# TYPE opilio_up gauge",
        *(_sample("opilio_up", {"collection": name}, float(status is not None)) for name, status in found.items()),
    ]  # fmt: skip
    for metric in METRICS:
        samples = [
            _sample(metric.name, {"collection": name, **labels}, value)
            for name, status in found.items()
            if status is not None
            for labels, value in metric.values(status)
            if value is not None
        ]
        if samples:
            lines += [f"# HELP {metric.name} {metric.says}", f"# TYPE {metric.name} {metric.kind}", *samples]
    return "\n".join(lines) + "\n"


def _sample(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {int(value) if value.is_integer() else value!r}"


def _escaped(text: str) -> str:
    """A label's value; names of folders and topics may have any character."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode("utf-8", "replace").decode()
