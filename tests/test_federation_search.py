"""Asking: all at once, nobody waits for the slow, the dead are left alone and tried again."""

import threading
import time
from typing import Any

import msgspec
import pytest

from federation_peers import FakePeer, found, summary_of
from opilio.errors import InputError
from opilio.federation.peers import PeerAnswer, PeerError, PeerRefusal, PeerSummary
from opilio.federation.search import (
    FIRST_PAUSE_S,
    MAX_OPEN,
    MAX_PAUSE_S,
    MAX_SILENT_S,
    SILENT_S,
    Backoff,
    FederatedSearch,
    run_concurrently,
)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def make(*names: str, clock: Clock | None = None) -> tuple[FederatedSearch, dict[str, FakePeer]]:
    """A federation of fakes that knows their summaries."""
    peers = {name: FakePeer(name) for name in names}
    federation = FederatedSearch(list(peers.values()), clock=clock or Clock())
    assert federation.refresh() == {}
    return federation, peers


def test_answers_are_merged_and_say_who_gave_them() -> None:
    """Each peer's page is there, with its collection, and the report says who was asked, why, and how long it took."""
    federation, _ = make("a", "b")
    told = federation.search("owl")
    assert {one["collections"][0]["name"] for one in told["results"]} == {"a", "b"}
    assert told["total"] == 20
    assert not told["estimated"]
    assert [(peer["chosen"], peer["answered"], peer["error"]) for peer in told["peers"]] == [(True, True, "")] * 2
    assert "of the best 10" in told["peers"][0]["why"]


def test_a_slow_peer_holds_nobody_up() -> None:
    """With a limit of 0.3 s, an answer comes in less than a second though one peer takes two, and says so."""
    federation, peers = make("quick", "slow")
    peers["slow"].slow_s = 2.0
    began_s = time.monotonic()
    told = federation.search("owl", timeout_s=0.3)
    assert time.monotonic() - began_s < 1.0
    assert [one["collections"][0]["name"] for one in told["results"]] == ["quick"]
    slow = told["peers"][1]
    assert (slow["chosen"], slow["answered"]) == (True, False)
    assert "within 0.3 s" in slow["error"]
    assert told["estimated"]
    assert told["total"] == 20  # 10 counted, 10 expected of the slow one


def test_the_failed_are_left_alone_and_tried_again() -> None:
    """After a failure a peer is not asked for 5 s; others answer meanwhile; then it is, and all is as before."""
    clock = Clock()
    federation, peers = make("good", "bad", clock=clock)
    peers["bad"].fails = True
    assert federation.search("owl")["peers"][1]["error"] == "bad has failed"
    told = federation.search("owl")
    assert peers["bad"].asked == 1
    assert "asked again in 5 s" in told["peers"][1]["error"]
    assert [one["collections"][0]["name"] for one in told["results"]] == ["good"]
    peers["bad"].fails = False
    clock.now_s += FIRST_PAUSE_S
    assert federation.search("owl")["peers"][1]["answered"]
    assert federation.search("owl")["peers"][1]["answered"]


def test_pauses_double() -> None:
    """Each failure in a row doubles the pause, up to the longest; an answer ends it."""
    clock = Clock()
    patience = Backoff(["x"], clock)

    def fail() -> int:
        raise PeerError("no")

    expected_s = FIRST_PAUSE_S
    for _ in range(9):
        assert isinstance(patience.ask({"x": fail}, 1.0)["x"][0], PeerError)
        clock.now_s += expected_s - 0.01
        assert "lately" in str(patience.ask({"x": lambda: 1}, 1.0)["x"][0])
        clock.now_s += 0.02
        expected_s = min(MAX_PAUSE_S, 2 * expected_s)
    assert patience.ask({"x": lambda: 1}, 1.0)["x"][0] == 1
    assert isinstance(patience.ask({"x": fail}, 1.0)["x"][0], PeerError)
    clock.now_s += FIRST_PAUSE_S
    assert patience.ask({"x": lambda: 1}, 1.0)["x"][0] == 1


def test_a_refusal_is_no_failure() -> None:
    """A peer that refuses a question is well: it is asked the next one at once."""
    patience = Backoff(["x"], Clock())

    def refuse() -> int:
        raise PeerRefusal("not this")

    assert isinstance(patience.ask({"x": refuse}, 1.0)["x"][0], PeerRefusal)
    assert patience.ask({"x": lambda: 1}, 1.0)["x"][0] == 1


def test_who_is_far_behind_is_not_asked_more() -> None:
    """A peer that hangs gets a bounded number of threads, not one for each question."""
    clock, release = Clock(), threading.Event()
    patience = Backoff(["x"], clock)
    for _ in range(MAX_OPEN + 3):
        patience.ask({"x": release.wait}, 0.02)
        clock.now_s += MAX_PAUSE_S + 1
    waiting = [thread for thread in threading.enumerate() if thread.name == "peer x"]
    told = patience.ask({"x": release.wait}, 0.02)["x"][0]
    release.set()
    assert len(waiting) == MAX_OPEN
    assert "still busy" in str(told)


def test_the_last_summary_is_kept() -> None:
    """A peer that does not give its summary any more keeps the last one; a new one takes its place."""
    federation, peers = make("a", "b")
    first = federation.summaries["a"]
    peers["a"].summary_fails = True
    peers["b"].told = summary_of("newer", owl=20)
    assert federation.refresh() == {"a": "a is silent"}
    assert federation.summaries["a"] is first
    assert federation.summaries["b"].name == "newer"


def test_a_silent_peer_is_asked_for_its_summary_later_and_later() -> None:
    """Each failure doubles the pause up to the longest; meanwhile its trouble stays told; a summary ends it."""
    clock = Clock()
    federation, peers = make("well", "bad", clock=clock)
    bad = peers["bad"]
    bad.summary_fails = True
    pause_s, count = SILENT_S, bad.summary_asked
    for _ in range(7):
        assert federation.refresh() == {"bad": "bad is silent"}
        count += 1
        assert (bad.summary_asked, federation.next_try_s("bad")) == (count, pause_s)
        clock.now_s += pause_s - 0.5
        assert federation.refresh() == {"bad": "bad is silent"}
        assert bad.summary_asked == count, "it is not its time"
        clock.now_s += 0.5
        pause_s = min(MAX_SILENT_S, 2 * pause_s)
    assert pause_s == MAX_SILENT_S
    assert peers["well"].summary_asked == 1 + 14
    bad.summary_fails = False
    assert federation.refresh() == {}
    assert federation.next_try_s("bad") == 0.0
    bad.summary_fails = True
    federation.refresh()
    assert federation.next_try_s("bad") == SILENT_S


def test_a_refused_summary_is_a_failure() -> None:
    """One that hears us and says no is left alone as well: there is no other way to ask for a summary."""
    federation, peers = make("a", clock=Clock())

    def refuse(known: PeerSummary | None = None) -> PeerSummary:
        raise PeerRefusal("not you")

    peers["a"].summary = refuse  # type: ignore[method-assign]
    assert federation.refresh() == {"a": "not you"}
    assert federation.next_try_s("a") == SILENT_S


def test_a_summary_that_comes_late_counts() -> None:
    """It is taken when it is there, and who gave it is not left alone though nobody waited for it any more."""
    federation, peers = make("slow", clock=Clock())
    may_go, newer = threading.Event(), summary_of("newer", owl=20)

    def tell_late(known: PeerSummary | None = None) -> PeerSummary:
        may_go.wait(30)
        return newer

    peers["slow"].summary = tell_late  # type: ignore[method-assign]
    assert "within 0.05 s" in federation.refresh(0.05)["slow"]
    assert federation.next_try_s("slow") == SILENT_S
    may_go.set()
    deadline_s = time.monotonic() + 30
    while federation.summaries["slow"] is not newer or federation.next_try_s("slow"):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_peer_without_a_summary_is_asked() -> None:
    """Nothing is known of it, so it may have anything."""
    peer = FakePeer("new")
    peer.summary_fails = True
    federation = FederatedSearch([peer])
    assert federation.refresh() == {"new": "new is silent"}
    told = federation.search("owl")
    assert told["peers"][0]["why"] == "nothing is known about it yet"
    assert len(told["results"]) == 1


def test_who_has_no_such_word_is_not_asked() -> None:
    """The one without the word is passed over, and asked when all are to be asked."""
    federation, peers = make("a", "b")
    peers["b"].told = summary_of("other", wheel=10)
    federation.refresh()
    told = federation.search("owl")
    assert peers["b"].asked == 0
    assert told["peers"][1]["why"] == "none of its pages has 'owl'"
    assert told["total"] == 10
    assert not told["estimated"]
    federation.search("owl", ask_all=True)
    assert peers["b"].asked == 1


def test_of_few_pages_none_is_missed() -> None:
    """A peer of which next to nothing is expected is asked after all when the others have less than is shown."""
    federation, peers = make("much", "little")
    peers["much"].told, peers["little"].told = summary_of("m", owl=90, nest=80), summary_of("l", owl=1, nest=1)
    federation.refresh()
    told = federation.search("owl nest", size=5)  # 10 pages fit, says the one that was asked
    assert [peer["chosen"] for peer in told["peers"]] == [True, False]
    assert told["estimated"]
    told = federation.search("owl nest", size=11)
    assert [peer["chosen"] for peer in told["peers"]] == [True, True]
    assert told["peers"][1]["why"] == "the peers that were asked first have too few"
    assert len(told["results"]) == 2


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ('"owl', {}), ("since:tomorrow owl", {}), ("relevance:much owl", {}), ("owl", {"filters": [("color", "red")]}),
        ("owl", {"weights": {"beauty": 1.0}}), ("ab*cd ow-l*", {}), ("x" * 3000, {}),
    ],
)  # fmt: skip
def test_wrong_questions_are_refused_before_anybody_is_asked(question: str, options: dict[str, object]) -> None:
    """What is wrong with a question is said once, by the federation, as one collection would."""
    federation, peers = make("a")
    with pytest.raises(InputError):
        federation.search(question, **options)  # type: ignore[arg-type]
    assert peers["a"].asked == 0


def test_at_once_means_at_once() -> None:
    """Ten things that take 0.2 s each take less than a second together; an error is a value; order is kept."""
    jobs = {f"{n}": (lambda n=n: time.sleep(0.2) or n) for n in range(10)}
    jobs["wrong"] = lambda: 1 // 0
    began_s = time.monotonic()
    came = run_concurrently(jobs, 5.0)
    assert time.monotonic() - began_s < 1.0
    assert [came[f"{n}"][0] for n in range(10)] == list(range(10))
    assert isinstance(came["wrong"][0], ZeroDivisionError)
    assert list(came) == list(jobs)


def test_a_peer_by_its_name() -> None:
    """The one of that name, or an error that lists those there are."""
    federation, peers = make("a", "b")
    assert federation.peer("b") is peers["b"]
    with pytest.raises(InputError, match="no peer 'c'"):
        federation.peer("c")


class Copying(FakePeer):
    """Has the page of another, and more that it does not send."""

    def ask(self, question: str, **options: Any) -> PeerAnswer:
        page = found("http://birds.example/", owl=3.0)
        return msgspec.structs.replace(super().ask(question, **options), pages=[page])


def test_a_total_with_copies_unseen_is_an_estimate() -> None:
    """Two that have the same page, and nine more each that they do not send, may have more in common: no count."""
    for other, estimated in ((Copying("bees"), True), (FakePeer("bees"), False)):
        both = FederatedSearch([FakePeer("birds"), other])
        both.refresh()
        answer = both.search("owl", ask_all=True)
        assert (answer["total"], answer["estimated"]) == (19 if estimated else 20, estimated)


def test_nobody_is_blamed_for_how_slow_others_are() -> None:
    """Who would be asked after all, with hardly any time left, is not asked, and not taken for one that failed."""
    slow, late = FakePeer("slow", summary_of("slow", owl=100)), FakePeer("late", summary_of("late", owl=1))
    slow.slow_s, late.slow_s = 0.6, 0.5
    asking = FederatedSearch([slow, late])
    asking.refresh()
    peers = asking.search("owl", size=20, timeout_s=1.0)["peers"]
    assert [(one["answered"], one["error"]) for one in peers] == [(True, ""), (False, "")]
    assert (slow.asked, late.asked) == (1, 0)
    slow.slow_s = 0.0
    peers = asking.search("owl", size=20, timeout_s=1.0)["peers"]
    assert [one["answered"] for one in peers] == [True, True]
