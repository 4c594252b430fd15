"""The ledger: the state of every URL of a crawl, and the open batch in which each change is recorded.

Every change of a URL's state is made in `Ledger.states`, which refuses a change that the table of transitions does not
have (`opilio.model.state`). Leases live there only: the database keeps a leased URL as waiting. The ledger is also the
frontier's listener: it records URLs that the frontier drops and priorities that change, and rejects duplicates just
before they would be leased.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from opilio.crawl import rows
from opilio.crawl.rows import VisitRecorder
from opilio.crawl.status import Counters
from opilio.frontier import ABSENT, Duplicates, Host, QueuedUrl, UrlAliases
from opilio.learn.remedies import in_words, to_json
from opilio.model import Outcome, UrlState, UrlStates
from opilio.store import Batch

MAX_NOTICES = 20
_WAITING, _LEASED = UrlState.WAITING, UrlState.LEASED  # looked up for every URL


class Ledger:
    """What is known and written of each URL. One batch is open at any time; `swap_batch` closes it."""

    def __init__(self, duplicates: Duplicates, counters: Counters, recorder: VisitRecorder = rows) -> None:
        self.duplicates = duplicates
        self.counters = counters
        self.recorder = recorder
        self.batch = Batch()
        self.states = UrlStates()
        """By oid: the state of each URL."""
        self.sids = array("i")
        """By oid: the host."""
        self.recrawls: set[int] = set()
        """Queued URLs whose page is stored already."""
        self.aliases = UrlAliases()
        """URLs that were redirected or are duplicates, and the pages they lead to."""
        self.notices: deque[dict[str, Any]] = deque(maxlen=MAX_NOTICES)
        """The latest notices of the crawl."""
        self._visited: set[int] | None = None
        """URLs settled since the crawl last forgot which pages it has visited; None: it has not forgotten any."""
        self.found_again: set[int] = set()
        """Pages that it forgot and to which a link was found since."""
        self.changed_hosts: set[int] = set()
        self.stored_hosts = 0
        """Hosts that have a row in the database: all with a sid below this."""

    @property
    def next_oid(self) -> int:
        """The oid of the next new URL: oids have no gaps."""
        return len(self.states)

    def is_open(self, oid: int) -> bool:
        """Whether a URL is queued or leased."""
        return self.states.is_open(oid)

    def is_stored(self, oid: int) -> bool:
        """Whether a URL is settled and its page is stored."""
        return self.states.has_page(oid)

    # -- the batch

    def swap_batch(self, hosts: Sequence[Host]) -> Batch:
        """The batch to be written now, with all `hosts` that are new or have changed; a new one is open."""
        batch, self.batch = self.batch, Batch()
        # Every host, also one that is known only by a URL too long to keep: sids must have no gaps.
        self.changed_hosts.update(range(self.stored_hosts, len(hosts)))
        self.stored_hosts = len(hosts)
        for sid in self.changed_hosts:
            self.recorder.add_host(batch, hosts[sid])
        self.changed_hosts = set()
        self.counters.write_changes(batch)
        return batch

    def notice(
        self,
        kind: str,
        text: str,
        remedy: str = "",
        kcid: int | None = None,
        remedies: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Say something about the crawl: it is shown with its status, and stored.

        What can be done is said by `remedy` in words, or by `remedies` as data (`learn/remedies.py`).
        """
        remedy = remedy or in_words(remedies)
        self.batch.notices.add(time.time(), kind, kcid, text, remedy, to_json(remedies))
        self.notices.append({"kind": kind, "text": text, "remedy": remedy, "remedies": list(remedies)})

    # -- URLs

    def register(self, sid: int, rejection: Outcome | None) -> None:
        """Give the next oid to a new URL on a host."""
        self.sids.append(sid)
        self.states.append(_WAITING if rejection is None else rejection.final_state)
        if rejection is Outcome.NOT_FOLLOWED:
            self.states.note_not_followed(len(self.states) - 1)

    def add(self, url: QueuedUrl, key: int, parent: int, now_s: float, rejection: Outcome | None) -> None:
        """Record a new URL, which is queued unless it is rejected. URLs are added in the order of their oids."""
        if rejection is not None:
            self.counters.outcome(rejection)
        self.recorder.add_url(self.batch, url, key, parent, now_s, rejection)

    def change(
        self,
        url: QueuedUrl,
        state: UrlState,
        outcome: Outcome | None,
        visited_s: float = rows.NEVER_S,
        not_before_s: float = rows.NEVER_S,
    ) -> None:
        """Record the state of a URL, and with it its priority, relevance and topic."""
        if self.states[url.oid] is not state:
            self.states.change(url.oid, state)
        self.recorder.change_url(self.batch, url, state, outcome, visited_s, not_before_s)

    def follow(self, url: QueuedUrl, parent: int) -> None:
        """Record that a URL is queued to which no link was followed before; `parent` is the page that leads to it."""
        self.change(url, _WAITING, None)
        self.batch.followed.add(url.oid, parent if parent >= 0 else None, min(url.depth, rows.MAX_DEPTH), url.hops)

    def settle(self, url: QueuedUrl, outcome: Outcome, visited_s: float, relevance: float | None = None) -> None:
        """Give a URL its final state, and the relevance of its page when that is known."""
        self.states.change(url.oid, outcome.final_state, has_page=outcome in (Outcome.OK, Outcome.NOT_MODIFIED))
        self.counters.outcome(outcome)
        if self._visited is not None:
            self._visited.add(url.oid)
        if relevance is not None:
            url.relevance = relevance
        self.change(url, outcome.final_state, outcome, visited_s)

    def reopen(self, oid: int) -> None:
        """A settled URL is queued again; one that is open stays as it is."""
        if self.states.is_open(oid):
            return
        if self.states.has_page(oid):
            self.recrawls.add(oid)
        self.states.change(oid, UrlState.WAITING)

    def forget_visited(self) -> None:
        """Forget which pages were visited: those that are found again may be fetched again (`forgetting.py`)."""
        self._visited = set()

    def find(self, oids: list[int]) -> None:
        """Links lead to these URLs; ABSENT stands for a URL that has no oid."""
        if self._visited is not None:
            has_page, visited = self.states.has_page, self._visited
            leading = self.aliases.final_all(oids)
            self.found_again.update(oid for oid in leading if oid != ABSENT and has_page(oid) and oid not in visited)

    def take_found_again(self) -> list[int]:
        """The pages that were found again since the last call. They count as visited from now on."""
        oids, self.found_again = sorted(self.found_again), set()
        if self._visited is not None:
            self._visited.update(oids)
        return oids

    # -- as the frontier's listener

    def duplicate(self, url: QueuedUrl) -> tuple[Outcome, int] | None:
        """Whether a URL that is about to be leased duplicates a stored page, and which: then it is not fetched."""
        found = self.duplicates.known_elsewhere(url.oid, url.url, url.host.sid, url.host.ip)
        if found is None:
            return None
        outcome, twin = found
        self.batch.duplicates.add(url.oid, twin, outcome)
        self.aliases.add(url.oid, twin)
        return outcome, twin

    def leased(self, url: QueuedUrl) -> None:
        """A queued URL goes to a worker."""
        self.states.change(url.oid, _LEASED)

    def put_back(self, url: QueuedUrl) -> None:
        """A leased URL is queued again, as if it had not been leased."""
        self.states.change(url.oid, _WAITING)

    def dropped(self, url: QueuedUrl, outcome: Outcome) -> None:
        """A queued URL will not be fetched."""
        self.settle(url, outcome, rows.NEVER_S)

    def priorities_changed(self, urls: Sequence[QueuedUrl]) -> None:
        """The priorities of queued URLs have changed."""
        for url in urls:
            if url.oid in self.recrawls:  # the outcome in its row says that a page of it is stored
                continue
            self.change(url, _WAITING, None)
