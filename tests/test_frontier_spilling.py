"""A hot queue that is full spills: the best stay where they were, the others come back best first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opilio.frontier import Host, QueuedUrl
from opilio.frontier.hosts import Domain, HostState
from opilio.frontier.queue import TopicQueue

urls = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=30)


@given(urls, st.integers(0, 30), st.sets(st.integers(0, 4)), st.sets(st.integers(0, 29)))
def test_the_best_stay(given_urls: list[tuple[int, float]], keep: int, parked: set[int], moved: set[int]) -> None:
    """Whatever was moved or parked before, `keep` of the best stay and come out in order; the rest is returned."""
    hosts = [Host(sid, f"h{sid}.example", Domain(), dict.fromkeys(HostState, 0)) for sid in range(5)]
    queue = TopicQueue(0)
    waiting = []
    for oid, (sid, priority) in enumerate(given_urls):
        url = QueuedUrl(oid, f"http://h{sid}.example/{oid}", hosts[sid], 0, 1, 0.5)
        url.priority = priority
        queue.push(url)
        waiting.append(url)
    for oid in moved & set(range(len(waiting))):
        queue.move(waiting[oid], 0.75)
    for origin in {hosts[sid].origin("http") for sid in parked} & queue.lanes.keys():
        queue.park(queue.lanes[origin])
    best_first = sorted(waiting, key=lambda url: (-url.priority, url.oid))
    assert queue.spill(keep) == best_first[keep:]
    assert len(queue) == len(list(queue)) == min(keep, len(waiting))
    for host in hosts:
        for lane in host.parked:
            lane.wake()
    left = []
    while (lane := queue.best_ready()) is not None:
        left.append(queue.pop(lane))
    assert left == best_first[:keep]
