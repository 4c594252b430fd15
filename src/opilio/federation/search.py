"""Federated search: one question, sent to the peers that are likely to have some of the best pages, all at once.

No peer is waited for longer than the question's timeout. A peer that fails is left alone for a while, longer each time
(`Backoff`), and then tried again; the answer says of each peer whether it was asked, why, and what came of it.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from opilio.errors import InputError, describe_error
from opilio.federation.answers import every_word
from opilio.federation.peers import Peer, PeerAnswer, PeerError, PeerRefusal, PeerSummary
from opilio.federation.results import MergedResult, ResultScorer, gather_statistics, merge, merge_facets
from opilio.federation.selection import LEFT_OUT, Choice, choose
from opilio.search.columns import Columns
from opilio.search.matching import leaves_of, mask_of
from opilio.search.query import FILTERS, Question, parse
from opilio.search.ranking import check_weights
from opilio.search.results import MAX_SIZE, pieces, with_filters
from opilio.search.snippets import Highlighter

FIRST_PAUSE_S, MAX_PAUSE_S = 5.0, 300.0
"""A peer that fails is left alone this long; the pause doubles with each failure, up to the second number."""
MAX_OPEN = 8
"""Unanswered questions a peer may have; it is asked no more until it has answered some."""

TIMEOUT_S = 5.0
REFRESH_TIMEOUT_S = 120.0
SILENT_S, MAX_SILENT_S = 60.0, 900.0
"""The same for a peer that does not give its summary."""
MAX_DEPTH = 1000
"""Results that can be paged through, at most."""
LATE = 0.5
"""A peer that is asked in the second round gets at least this share of the timeout: it must not pay for slow ones."""
SPARE_PAGES = 5
"""Peers send one and a half times as many pages as are shown, and these: their own order differs a little from the
common one (docs/results/search.md)."""

T = TypeVar("T")
Replies = dict[str, tuple[T | Exception | None, float]]
"""By name: the reply or the error, None when neither came in time; and how long it took."""


def run_concurrently(jobs: Mapping[str, Callable[[], T]], timeout_s: float) -> Replies[T]:
    """Run several jobs, each in a thread of its own. What is not done in time goes on, and its result is ignored."""
    done: queue.SimpleQueue[tuple[str, T | Exception, float]] = queue.SimpleQueue()
    began_s = time.monotonic()

    def run(name: str, job: Callable[[], T]) -> None:
        try:
            found: T | Exception = job()
        except Exception as error:
            found = error
        done.put((name, found, time.monotonic() - began_s))

    came: Replies[T] = dict.fromkeys(jobs, (None, timeout_s))
    for name, job in jobs.items():
        threading.Thread(target=run, args=(name, job), daemon=True, name=f"peer {name}").start()
    waits = len(jobs)
    while waits and (left_s := began_s + timeout_s - time.monotonic()) > 0:
        try:
            name, found, took_s = done.get(timeout=left_s)
        except queue.Empty:
            break
        came[name] = (found, took_s)
        waits -= 1
    return came


@dataclass
class _State:
    failures: int = 0
    not_before_s: float = 0.0
    open: int = 0


class Backoff:
    """Contacts peers, except those that failed lately or are still busy."""

    def __init__(
        self,
        names: Sequence[str],
        clock: Callable[[], float],
        first_pause_s: float = FIRST_PAUSE_S,
        max_pause_s: float = MAX_PAUSE_S,
    ) -> None:
        self._clock = clock
        self._first_pause_s, self._max_pause_s = first_pause_s, max_pause_s
        self._states = {name: _State() for name in names}
        self._lock = threading.Lock()

    def ask(self, jobs: Mapping[str, Callable[[], T]], timeout_s: float) -> Replies[T]:
        """Run these jobs at the same time, except those of peers that failed lately."""
        replies: Replies[T] = {}
        asked = {}
        for name, job in jobs.items():
            refusal = self._refusal(name)
            if refusal:
                replies[name] = (PeerError(refusal), 0.0)
            else:
                asked[name] = self._counted(name, job)
        heard = run_concurrently(asked, timeout_s)
        for name, (found, _) in heard.items():
            is_well = isinstance(found, PeerRefusal)  # it refused the question, but it answered
            self._note(name, failed=not is_well and (found is None or isinstance(found, Exception)))
        return replies | heard

    def left_s(self, name: str) -> float:
        """How long a peer is still left alone; 0 when it may be asked."""
        with self._lock:
            return max(0.0, self._states[name].not_before_s - self._clock())

    def forgive(self, name: str) -> None:
        """Forget the failures of a peer that is known to work."""
        self._note(name, failed=False)

    def _refusal(self, name: str) -> str:
        left_s = self.left_s(name)
        with self._lock:
            state = self._states[name]
            if left_s > 0:
                return f"did not answer lately: it is asked again in {left_s:.0f} s"
            if state.open >= MAX_OPEN:
                return f"is still busy with {state.open} earlier questions"
            return ""

    def _counted(self, name: str, job: Callable[[], T]) -> Callable[[], T]:
        state = self._states[name]

        def run() -> T:
            with self._lock:
                state.open += 1
            try:
                return job()
            finally:
                with self._lock:
                    state.open -= 1

        return run

    def _note(self, name: str, *, failed: bool) -> None:
        with self._lock:
            state = self._states[name]
            if not failed:
                state.failures, state.not_before_s = 0, 0.0
                return
            if state.not_before_s > self._clock():  # another question has seen the same failure
                return
            state.failures += 1
            pause_s = min(self._max_pause_s, self._first_pause_s * 2.0 ** min(state.failures - 1, 60))
            state.not_before_s = self._clock() + pause_s


class FederatedSearch:
    """Several collections, searched like one. May be used from several threads."""

    def __init__(
        self,
        peers: Sequence[Peer],
        *,
        left_out: float = LEFT_OUT,
        silent_s: float = SILENT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`left_out`: the share of the best pages that may be lost by asking fewer peers; 0 asks all that may have one.

        `silent_s`: how long `refresh` leaves a peer alone that has not given its summary for the first time.
        """
        self.peers = list(peers)
        self._left_out = left_out
        self._summaries: dict[str, PeerSummary] = {}
        names = [peer.name for peer in self.peers]
        self._backoff = Backoff(names, clock)
        self._summary_backoff = Backoff(names, clock, silent_s, MAX_SILENT_S)
        self._summary_errors: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def summaries(self) -> dict[str, PeerSummary]:
        """The latest summary of each peer that has given one, by the peer's name."""
        with self._lock:
            return dict(self._summaries)

    def peer(self, name: str) -> Peer:
        """The peer of a name."""
        for peer in self.peers:
            if peer.name == name:
                return peer
        raise InputError(f"no peer {name!r}", f"There are: {', '.join(peer.name for peer in self.peers)}.")

    def refresh(
        self, timeout_s: float = REFRESH_TIMEOUT_S, heard: Callable[[str], object] = lambda name: None
    ) -> dict[str, str]:
        """Fetch the summaries of all peers; what went wrong, by the peer's name. One that fails keeps its last.

        A summary counts as soon as it is there, however long others take; `heard` receives its name then. A
        peer that failed lately is not asked before its pause is over (`next_try_s`): its last error is reported again.
        """
        known = self.summaries

        def fetch(peer: Peer) -> Callable[[], PeerSummary]:
            def run() -> PeerSummary:
                try:
                    found = peer.summary(known.get(peer.name))
                except PeerRefusal as error:  # no question is to blame: a failure like others
                    raise PeerError(error.message, error.hint) from error
                with self._lock:
                    self._summaries[peer.name] = found
                    self._summary_errors.pop(peer.name, None)
                self._summary_backoff.forgive(peer.name)  # also when it came after the timeout
                heard(peer.name)
                return found

            return run

        due = [peer for peer in self.peers if not self.next_try_s(peer.name)]
        came = self._summary_backoff.ask({peer.name: fetch(peer) for peer in due}, timeout_s)
        with self._lock:
            for name, (found, _) in came.items():
                if not isinstance(found, PeerSummary):
                    self._summary_errors[name] = _said(found, timeout_s)
            return {
                peer.name: self._summary_errors[peer.name] for peer in self.peers if peer.name in self._summary_errors
            }

    def next_try_s(self, name: str) -> float:
        """In how many seconds `refresh` would ask a peer again that has not given its summary; 0: at once."""
        return self._summary_backoff.left_s(name)

    def search(
        self,
        question: str,
        *,
        weights: Mapping[str, float] | None = None,
        filters: Sequence[tuple[str, str]] = (),
        page: int = 1,
        size: int = 10,
        timeout_s: float = TIMEOUT_S,
        ask_all: bool = False,
    ) -> dict[str, Any]:
        """Answer a question like `Collection.search`, from all peers that are likely to have some of the best pages.

        Each result has `collections`: [{"name", "score", "oid", "topic", "url"}, ...], those that have the page, best
        first. `total` is an estimate (`estimated`) when not all were asked, or when some have the same pages and more
        than they sent. `peers` says of each: `name`, `place`, `pages`, `chosen`, `why` (a sentence), `expected` (number
        of pages among the best, None when unknown), `answered`, `took_ms`, `total`, `error`.
        """
        began_s = time.perf_counter()
        checked = check_weights(weights)
        asked = _checked(question, filters, page, size)
        depth = page * size
        known = {peer.name: self.summaries.get(peer.name) for peer in self.peers}
        choices = choose(asked, known, checked, depth, self._left_out)
        if ask_all:
            choices = {
                name: dataclasses.replace(choice, chosen=True, why="all are asked") for name, choice in choices.items()
            }
        options = {"weights": weights, "filters": filters, "most": depth + depth // 2 + SPARE_PAGES}
        came = self._ask([name for name, choice in choices.items() if choice.chosen], question, timeout_s, options)
        left_s = timeout_s - (time.perf_counter() - began_s)
        late = _late(choices, came, depth) if left_s > LATE * timeout_s else {}
        came |= self._ask(list(late), question, left_s, options)
        choices |= late
        answers = _answers(came)
        merged = _merged(asked, answers, known, checked)
        total, estimated = _total(choices, answers, len(merged))
        return {
            "question": question,
            "weights": checked,
            "total": total,
            "estimated": estimated,
            "at_least": any(answer.at_least for answer in answers.values()),
            "page": page,
            "size": size,
            "results": _results(asked, merged[depth - size : depth]),
            "facets": merge_facets(answers.values()),
            "peers": [_report(peer, known[peer.name], choices[peer.name], came) for peer in self.peers],
            "took_ms": round((time.perf_counter() - began_s) * 1000, 1),
        }

    def _ask(
        self, names: Sequence[str], question: str, timeout_s: float, options: Mapping[str, Any]
    ) -> Replies[PeerAnswer]:
        """Ask some peers at the same time."""

        def ask(peer: Peer) -> Callable[[], PeerAnswer]:
            return lambda: peer.ask(question, timeout_s=timeout_s, **options)

        return self._backoff.ask({name: ask(self.peer(name)) for name in names}, timeout_s) if names else {}


def _answers(came: Replies[PeerAnswer]) -> dict[str, PeerAnswer]:
    return {name: found for name, (found, _) in came.items() if isinstance(found, PeerAnswer)}


def _late(choices: Mapping[str, Choice], came: Replies[PeerAnswer], depth: int) -> dict[str, Choice]:
    """Peers that are asked in a second round because the first found fewer pages than are shown."""
    if sum(answer.total for answer in _answers(came).values()) >= depth:
        return {}
    return {
        name: dataclasses.replace(choice, chosen=True, why="the peers that were asked first have too few")
        for name, choice in choices.items()
        if not choice.chosen and choice.possible
    }


def _merged(
    asked: Question,
    answers: Mapping[str, PeerAnswer],
    known: Mapping[str, PeerSummary | None],
    weights: Mapping[str, float],
) -> list[MergedResult]:
    """The pages of all answers in the common order."""
    leaves = [leaf for word in every_word(asked.tree) for leaf in leaves_of(word)]
    return merge(answers, ResultScorer(asked.tree, gather_statistics(answers, known, leaves)), weights)


def _results(asked: Question, shown: Sequence[MergedResult]) -> list[dict[str, Any]]:
    """What is shown of pages; snippets are cut from their texts where peers sent these."""
    highlighter = Highlighter(asked.words())
    return [
        {**one.best, "collections": one.collections}
        | ({} if one.text is None else pieces(highlighter, one.best["title"], one.text))
        for one in shown
    ]


def _report(peer: Peer, summary: PeerSummary | None, choice: Choice, came: Replies[PeerAnswer]) -> dict[str, Any]:
    """What the answer says about a peer."""
    found, took_s = came.get(peer.name, (None, 0.0))
    answered = isinstance(found, PeerAnswer)
    return {
        "name": peer.name, "place": peer.place, "pages": summary.pages if summary else None,
        "chosen": choice.chosen, "why": choice.why, "expected": choice.expected, "answered": answered,
        "took_ms": round(took_s * 1000, 1), "total": found.total if isinstance(found, PeerAnswer) else None,
        "error": "" if answered or peer.name not in came else _said(found, took_s),
    }  # fmt: skip


def _checked(question: str, filters: Sequence[tuple[str, str]], page: int, size: int) -> Question:
    """The parsed question; all that can be wrong with it is raised before any peer is asked."""
    if page < 1 or not 1 <= size <= MAX_SIZE or page * size > MAX_DEPTH:
        raise InputError(
            f"page {page} of {size} results",
            f"Pages count from 1; {MAX_DEPTH} results can be seen, {MAX_SIZE} at a time.",
        )
    for name, _ in filters:
        if name not in FILTERS:
            raise InputError(f"no filter {name!r}", f"There are: {', '.join(FILTERS)}.")
    asked = with_filters(parse(question), filters)
    for word in every_word(asked.tree):
        leaves_of(word)
    mask_of([one for one in asked.filters if one.name != "topic"], Columns())
    return asked


def _total(choices: Mapping[str, Choice], answers: Mapping[str, PeerAnswer], merged: int) -> tuple[int, bool]:
    """How many pages fit in all, and whether that is an estimate: counted by those who answered, less the copies."""
    sent = sum(len(answer.pages) for answer in answers.values())
    fitting = sum(answer.total for answer in answers.values())
    others = [choice for name, choice in choices.items() if name not in answers and choice.possible]
    counted = fitting - (sent - merged)  # a page that two have is one
    more_copies = fitting > sent > merged  # where some were seen, there are more among what was not sent
    total = counted + round(sum(choice.matching or 0.0 for choice in others))
    return max(merged, total), bool(others) or more_copies


def _said(found: object, timeout_s: float) -> str:
    if isinstance(found, PeerError):
        return found.message
    return describe_error(found) if isinstance(found, Exception) else f"did not answer within {timeout_s:.3g} s"
