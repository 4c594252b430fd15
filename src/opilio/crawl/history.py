"""The history of a crawl, as charts show it: computed from the tables, so that it outlives every restart.

Whatever the number of pages, a chart has a few hundred points: pages are counted into parts of equal size, requests
into parts of equal time, each in one pass over the columns that matter. Time is time of crawling: the nights between
two runs are left out.
"""

from __future__ import annotations

import bisect
import datetime
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from opilio.learn.remedies import from_json
from opilio.store import Store
from opilio.store.history import (
    HarvestPart,
    harvest_parts,
    host_figures,
    last_visit,
    load_runs,
    notices_with_times,
    requests_by_time,
)

MAX_POINTS = 2000
WINDOW_PAGES = 200
"""The harvest rate is a moving average over this many pages, or over a twentieth of all pages if that is more."""
WINDOW_PARTS = 20
TOP_TOPICS = 4
MAX_MARKS = 200


@dataclass(frozen=True)
class CrawlRun:
    """A run of the crawler, and the seconds of crawling before it."""

    number: int
    started: datetime.datetime
    ended: datetime.datetime
    before_s: float
    reason: str
    is_over: bool

    def at_s(self, when: datetime.datetime) -> float:
        """The seconds of crawling at a time of this run, or just after it."""
        return self.before_s + (min(max(when, self.started), self.ended) - self.started).total_seconds()


def series(store: Store, points: int = 300) -> dict[str, Any]:
    """The history of a crawl in at most `points` points a line; plain values."""
    points = max(1, min(points, MAX_POINTS))
    runs = _runs(store)
    parts = harvest_parts(store, points)
    names = {record.kcid: record.path or record.name for record in store.load_topics()}
    ends, pages = [part.until for part in parts], _sums([part.pages for part in parts])
    total_s = runs[-1].at_s(runs[-1].ended) if runs else 0.0
    return {
        "pages": pages[-1] if pages else 0,
        "crawled_s": total_s,
        "window_pages": _window(pages[-1]) if pages else 0,
        **_harvest(parts, pages, names),
        "speed": _speed(store, runs, total_s, points),
        "marks": _marks(store, runs, ends, pages),
    }


def _runs(store: Store) -> list[CrawlRun]:
    """The runs, oldest first. A run that was killed ends with its last visit."""
    rows = load_runs(store)
    found: list[CrawlRun] = []
    before_s = 0.0
    for place, (number, started, ended, reason) in enumerate(rows):
        following = rows[place + 1].started if place + 1 < len(rows) else None
        last = ended or last_visit(store, started, following) or started
        found.append(CrawlRun(number, started, max(started, last), before_s, reason or "", ended is not None))
        before_s = found[-1].at_s(found[-1].ended)
    return found


def _window(pages: int) -> int:
    return max(WINDOW_PAGES, pages // WINDOW_PARTS)


def _harvest(parts: Sequence[HarvestPart], pages: Sequence[int], names: dict[int, str]) -> dict[str, Any]:
    """Moving averages, part by part: mean relevance, and the shares of relevant pages and of the largest topics."""
    counts: dict[int, int] = {}
    for part in parts:
        for kcid, count in (part.topics or {}).items():
            counts[kcid] = counts.get(kcid, 0) + count
    top = [kcid for kcid in sorted(counts, key=lambda kcid: (-counts[kcid], kcid)) if kcid in names][:TOP_TOPICS]
    judged = [0, *_sums([part.judged for part in parts])]
    sums = [0.0, *_sums([part.relevance or 0.0 for part in parts])]
    relevant = [0, *_sums([part.relevant for part in parts])]
    by_topic = {kcid: [0, *_sums([(part.topics or {}).get(kcid, 0) for part in parts])] for kcid in top}
    window = _window(pages[-1]) if pages else 0
    points = []
    for place, (fetched, part) in enumerate(zip(pages, parts, strict=True)):
        first = bisect.bisect_right(pages, max(0, fetched - window))  # parts before it are out of the window
        seen = judged[place + 1] - judged[first]
        inside = fetched - (pages[first - 1] if first else 0)
        points.append({
            "pages": fetched,
            "at": part.until.isoformat(sep=" ", timespec="seconds"),
            "relevance": round((sums[place + 1] - sums[first]) / seen, 4) if seen else None,
            "relevant": round((relevant[place + 1] - relevant[first]) / seen, 4) if seen else None,
            "topics": [round((by_topic[kcid][place + 1] - by_topic[kcid][first]) / inside, 4) for kcid in top],
        })  # fmt: skip
    return {"topics": [names[kcid] for kcid in top], "harvest": points}


def _speed(store: Store, runs: Sequence[CrawlRun], total_s: float, points: int) -> list[dict[str, float]]:
    """Pages and requests a second, by seconds of crawling; parts without any count as zero."""
    if not runs or total_s <= 0:
        return []
    step_s = max(1.0, total_s / points)
    started, before_s = [run.started for run in runs], [run.before_s for run in runs]
    found = requests_by_time(store, started, before_s, step_s, max_parts=2 * points + 10)
    report = []
    for part in range(int(total_s // step_s) + (total_s % step_s > 0)):
        pages, requests = found.get(part, (0, 0))
        end_s = min((part + 1) * step_s, total_s)
        took_s = max(end_s - part * step_s, 0.05 * step_s)
        report.append({"s": round(end_s, 2), "pages_per_s": pages / took_s, "requests_per_s": requests / took_s})
    return report


def _marks(
    store: Store, runs: Sequence[CrawlRun], ends: Sequence[datetime.datetime], pages: Sequence[int]
) -> list[dict[str, Any]]:
    """What happened when: runs, models and notices of the crawl; the latest, in order of time."""
    found: list[tuple[datetime.datetime, str, str, str, str]] = []
    for run in runs:
        found.append((run.started, "run", f"run {run.number} began", "", ""))
        if run.is_over:
            found.append((run.ended, "run", f"run {run.number} ended: {run.reason}", "", ""))
    for model in store.load_models()[:MAX_MARKS]:
        created = datetime.datetime.fromtimestamp(model.created_s, datetime.UTC).replace(tzinfo=None)
        text = f"model {model.version}, of {model.documents} examples: {model.cause}"
        found.append((created, "model", text, "", ""))
    found += reversed(notices_with_times(store, MAX_MARKS))
    found.sort(key=lambda mark: mark[0])
    report, folder = [], str(store.path.parent)
    for at, kind, text, remedy, remedies in found[-MAX_MARKS:]:
        place = bisect.bisect_right(ends, at)
        of = max((run for run in runs if run.started <= at), key=lambda run: run.started, default=None)
        report.append({
            "at": at.isoformat(sep=" ", timespec="seconds"), "kind": kind, "text": text, "remedy": remedy,
            "remedies": from_json(remedies, folder), "run": of.number if of else 0,
            "pages": pages[place - 1] if place else 0, "s": round(of.at_s(at), 2) if of else 0.0,
        })  # fmt: skip
    return report


def list_hosts(store: Store, top: int = 15) -> list[dict[str, Any]]:
    """The hosts with the most pages, those that fail, and those with the most queued URLs: at most `top` of each."""
    return [host._asdict() for host in host_figures(store, max(1, min(top, 1000)))]


def _sums(values: Iterable[Any]) -> list[Any]:
    """The sum of all values up to each."""
    return list(itertools.accumulate(values))
