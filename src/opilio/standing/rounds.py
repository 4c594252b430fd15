"""Rounds of a watch: visit what is due, see what changed, report it, and wait for the next round."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from opilio.crawl import Collection, Status
from opilio.errors import CollectionBusy, InputError, OpilioError, describe_error
from opilio.settings import override
from opilio.standing import reports
from opilio.standing.webhooks import SECRET, check_webhook, post_report

LOCK, STATE = "watch.lock", "watch.json"
"""Files in the folder of a collection."""
FEED_DAYS = 30
FIRST_LOOK_S = 5.0
"""A round that sees nothing due for so long has nothing to do."""
MIN_WAIT_S, MAX_WAIT_S = 600.0, 86_400.0
"""Between rounds that follow the collection's own schedule."""
COMMAND_TIMEOUT_S = 120.0
NAME = "{name}"


@dataclass(frozen=True)
class Channels:
    """Where reports are delivered. `{name}` in a path stands for the name of the collection."""

    feed: str = ""
    """A file: .rss or .xml for RSS, .atom for Atom."""
    digest: str = ""
    """A file: .txt, .html or .eml; - is standard output."""
    digest_command: str = ""
    """A command that is given the digest as an e-mail: sendmail -t."""
    mail_to: str = ""
    mail_from: str = ""
    webhooks: tuple[str, ...] = ()
    allow_private: bool = False

    def check(self, collections: int) -> None:
        """Refuse what cannot work, before anything is fetched."""
        if self.feed:
            reports.suffix_of(self.feed, tuple(reports.FEEDS), "feed")
        if self.digest and self.digest != "-":
            reports.suffix_of(self.digest, reports.DIGESTS, "digest")
        for path in (self.feed, self.digest):
            if collections > 1 and path and path != "-" and NAME not in path:
                raise InputError(f"{path}: one file for several collections", f"Put {NAME} into its name.")
        for url in self.webhooks:
            check_webhook(url)
        for address in (self.mail_to, self.mail_from):
            if "\n" in address or "\r" in address:
                raise InputError("an e-mail address has a line end", "Give one address.")

    @property
    def names(self) -> list[str]:
        """The channels that must know what they have delivered."""
        told = [*(["digest"] if self.digest else []), *(["command"] if self.digest_command else [])]
        return told + [f"webhook {url}" for url in self.webhooks]


@dataclass
class RoundReport:
    """What came of a round in one collection."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    """Since the start of the round before."""
    pages: int = 0
    reason: str = ""
    problems: list[str] = field(default_factory=list)
    next_due_s: float | None = None
    interrupted: bool = False


class StandingWatch:
    """Watches collections, one after the other."""

    def __init__(
        self,
        folders: Sequence[Path],
        channels: Channels,
        *,
        every_s: float = 0.0,
        max_time_s: float = 900.0,
        new_pages: int = 100,
        on_round: Callable[[RoundReport], object] = lambda report: None,
        on_tick: Callable[[Status], object] = lambda status: None,
    ) -> None:
        """`every_s`: the time from one round to the next; 0: when the next page is due. A round takes at most
        `max_time_s` in each collection, and fetches at most `new_pages` that were not stored before."""
        channels.check(len(folders))
        self._folders = [folder for folder in folders if Collection(folder)]
        self._channels = channels
        self._every_s, self._max_time_s, self._new_pages = every_s, max_time_s, new_pages
        self._on_round, self._on_tick = on_round, on_tick
        self._stopping = threading.Event()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the locks of all collections, and end cleanly on SIGTERM and Ctrl-C."""
        with contextlib.ExitStack() as stack:
            for folder in self._folders:
                stack.enter_context(_locked(folder))
            before: dict[signal.Signals, Any] = {}
            for number in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(ValueError):  # not in the main thread
                    before[number] = signal.signal(number, lambda *_: self._stopping.set())
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def once(self) -> list[RoundReport]:
        """One round now; what came of it."""
        with self.alone():
            return self._round()

    def keep_on(self) -> None:
        """Rounds until SIGTERM or Ctrl-C."""
        with self.alone():
            wait_s = self._wait_after_restart()
            while not self._stopping.wait(wait_s):
                began_s = time.time()
                found = self._round()
                wait_s = max(0.0, self._wait_s(found) - (time.time() - began_s if self._every_s else 0.0))

    def _wait_after_restart(self) -> float:
        """With fixed intervals, a watch that is started again keeps to them."""
        latest = [float(_state(folder).get("round", 0.0)) for folder in self._folders]
        return max(0.0, min(latest) + self._every_s - time.time()) if self._every_s and all(latest) else 0.0

    def _wait_s(self, found: Sequence[RoundReport]) -> float:
        if self._every_s:
            return self._every_s
        due = [report.next_due_s for report in found if report.next_due_s is not None]
        return min(max(min(due, default=float("inf")) - time.time(), MIN_WAIT_S), MAX_WAIT_S)

    def _round(self) -> list[RoundReport]:
        found = []
        for folder in self._folders:
            if self._stopping.is_set():
                break
            report = self._visit(folder)
            found.append(report)
            self._on_round(report)
        return found

    def _visit(self, folder: Path) -> RoundReport:
        """A round in one collection. What goes wrong in it does not keep others from theirs."""
        report = RoundReport(folder.resolve().name)
        state = _state(folder)
        began_s = time.time()
        since_s = float(state.get("until", began_s))
        try:
            self._refresh(Collection(folder), report)
        except OpilioError as error:
            report.problems.append(f"{error.message} {error.hint}".strip())
        except OSError as error:
            report.problems.append(describe_error(error))
        try:
            self._report(Collection(folder), report, state, since_s)
        except CollectionBusy as error:
            report.problems.append(error.message)
        state["round"] = began_s
        reports.write_whole(folder / STATE, json.dumps(state).encode())
        return report

    # -- visiting

    def _refresh(self, collection: Collection, report: RoundReport) -> None:
        """Crawl until nothing is due, and new links were followed as far as a round may."""
        stored = collection.status().pages
        for_now = {
            "revisit.keep_fresh": True, "revisit.share": 1.0, "learn.questions": 0, "limits.max_time_s": 0.0,
            "limits.max_bytes": 0, "limits.max_pages_per_host": 0, "limits.max_pages": stored + self._new_pages,
        }  # fmt: skip
        collection.settings = override(collection.settings, for_now)  # of this run; the file stays as it is
        began_s = time.monotonic()

        def tick(status: Status) -> bool:
            self._on_tick(status)
            now_s = time.monotonic() - began_s
            has_looked = status.next_due_s is not None or bool(status.due_pages)
            report.next_due_s = status.next_due_s
            is_idle = not status.due_pages and not status.in_flight and not status.waiting
            is_done = is_idle and (has_looked or now_s >= FIRST_LOOK_S)
            return not (is_done or now_s >= self._max_time_s or self._stopping.is_set())

        # In a thread of its own, a crawl leaves signals to the watch.
        with ThreadPoolExecutor(1, "round") as thread:
            status = thread.submit(collection.crawl, on_tick=tick).result()
        report.pages = status.pages - stored
        report.interrupted = self._stopping.is_set()
        report.reason = status.reason if status.reason != "stopped by its caller" else "nothing is due"
        if status.no_network:
            report.problems.append(status.reason)

    # -- telling

    def _report(self, collection: Collection, report: RoundReport, state: dict[str, Any], since_s: float) -> None:
        until_s = time.time()
        report.changes = collection.changes(_moment(since_s), until=_moment(until_s), limit=reports.SHOWN_PAGES)
        state["until"] = until_s
        told: dict[str, float] = state.setdefault("told", {})
        for name in self._channels.names:
            told_s = told.setdefault(name, since_s)
            changes = report.changes
            if told_s < since_s:  # an earlier report was not delivered
                changes = collection.changes(_moment(told_s), until=_moment(until_s), limit=reports.SHOWN_PAGES)
            try:
                if reports.count_of(changes):
                    self._tell(name, report.name, changes)
                told[name] = until_s
            except (OpilioError, OSError, subprocess.SubprocessError) as error:
                report.problems.append(describe_error(error))
        if self._channels.feed:
            latest = collection.changes(f"{FEED_DAYS}d", limit=100)
            path = self._path(self._channels.feed, report.name)
            feed = reports.feed_of(report.name, latest, path.suffix.lower())
            try:
                reports.write_whole(path, feed.encode("utf-8", "replace"))
            except OSError as error:
                report.problems.append(f"{path}: {error.strerror}")

    def _tell(self, channel: str, name: str, changes: dict[str, Any]) -> None:
        settings = self._channels
        if channel == "digest":
            self._write_digest(name, changes)
        elif channel == "command":
            mail = reports.digest_mail(name, changes, settings.mail_from, settings.mail_to)
            done = subprocess.run(
                shlex.split(settings.digest_command), input=mail, capture_output=True, check=False,
                timeout=COMMAND_TIMEOUT_S,
            )  # fmt: skip
            if done.returncode:
                said = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
                raise InputError(f"{settings.digest_command}: exit code {done.returncode} {said}".strip())
        else:
            post_report(
                channel.removeprefix("webhook "), {"collection": name, **changes},
                secret=os.environ.get(SECRET, ""), allow_private=settings.allow_private, sleep=self._stopping.wait,
            )  # fmt: skip

    def _write_digest(self, name: str, changes: dict[str, Any]) -> None:
        settings = self._channels
        if settings.digest == "-":
            sys.stdout.write(reports.digest_text(name, changes))
            sys.stdout.flush()
            return
        path = self._path(settings.digest, name)
        suffix = path.suffix.lower()
        if suffix == ".eml":
            data = reports.digest_mail(name, changes, settings.mail_from, settings.mail_to)
        else:
            made = reports.digest_html(name, changes) if suffix == ".html" else reports.digest_text(name, changes)
            data = made.encode("utf-8", "replace")
        reports.write_whole(path, data)

    @staticmethod
    def _path(pattern: str, name: str) -> Path:
        return Path(pattern.replace(NAME, name)).expanduser()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Watch a collection alone. The system gives the lock back when the process ends, however it ends."""
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CollectionBusy(
                f"{folder}: another opilio watch has this collection", f"Find it: fuser {quote(str(folder / LOCK))}"
            ) from None
        yield


def _state(folder: Path) -> dict[str, Any]:
    """What the rounds before left; empty when there were none."""
    try:
        found = json.loads((folder / STATE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _moment(at_s: float) -> str:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).isoformat()
