"""Deliberate exploration: which URLs, how many, and how the share adapts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opilio.frontier import Frontier, QueuedUrl, ScopeFilter
from opilio.frontier.evidence_strategy import EXPLORED_PRIORITY, LEAST, MOST, AllEvidence, Explorer
from opilio.frontier.link_evidence import FEATURES
from opilio.model import Document, Judgement, Link, Links, Region
from opilio.settings import Settings, override


def test_the_least_known_of_the_better_half() -> None:
    """After ten pages at a share of 0.2 two URLs are chosen: of those with at least the median score, the least known;
    of equally known ones the better."""
    explorer = Explorer(0.2, adapts=False)
    for oid in range(10):
        explorer.settle(oid, 0.5)
    oids = np.arange(100, 106)
    known = np.array([0.0, 5.0, 1.0, 0.0, 0.0, 5.0])
    scores = np.array([-1.0, 2.0, 1.0, 0.5, 0.7, 1.5])
    assert explorer.choose(oids, known, scores).tolist() == [2, 1]
    assert explorer.is_chosen(102) and explorer.is_chosen(101) and not explorer.is_chosen(100)
    assert not len(explorer.choose(oids, known, scores))  # the credit is spent


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300), st.floats(0.01, 0.5))
def test_the_share_is_kept(relevance: list[float], share: float) -> None:
    """Never more are chosen than the share of the pages fetched allows."""
    explorer, chosen = Explorer(share, adapts=False), 0
    for oid, value in enumerate(relevance):
        explorer.settle(oid, value)
        chosen += len(explorer.choose(np.arange(1000, 1050), np.zeros(50), np.zeros(50)))
    assert chosen <= share * len(relevance) + 1e-6


def test_the_share_adapts() -> None:
    """It grows when what is explored is better than the rest, shrinks when it is worse, both within bounds."""
    for good, bad, bound in ((1.0, 0.1, MOST), (0.0, 0.9, LEAST)):
        explorer = Explorer(0.1, adapts=True)
        assert explorer.share == 0.1
        for oid in range(2000):
            places = explorer.choose(np.array([10_000 + oid]), np.zeros(1), np.zeros(1))
            explorer.settle(10_000 + oid, good if len(places) else bad)
        assert np.isclose(explorer.share, 0.1 * bound)
    assert Explorer(0.1, adapts=False).share == 0.1


def test_explored_urls_come_first() -> None:
    """In a crawl that explores all the time, a link of a host never contacted before comes before all others, and says so;
    without exploration it does not."""
    for share, is_first in ((1.0, True), (0.0, False)):
        settings = override(Settings(), {"frontier.explore_share": share})
        strategy = AllEvidence(settings.frontier)
        hosts = Frontier(settings, strategy, ScopeFilter(settings.scope))
        names = ["a.example", *["known.example"] * 4, "new.example"]
        urls = [QueuedUrl(oid, f"http://{name}/{oid}", hosts.host(name), 0, 1, 0.5) for oid, name in enumerate(names)]
        links = Links.of(Link(url.url, 0, "owl" if url.oid < 5 else "", "", Region.MAIN, 0) for url in urls[1:])
        document = Document("", "", "", "", "", "", links, b"", b"", [], 0, b"")
        sids = [url.host.sid for url in urls[1:]]
        strategy.observe(urls[0], Judgement(0, True, 0.9, 0.9), document, [1, 2, 3, 4, 5], sids)
        for oid in (0, 1, 2):
            strategy.settle(oid, 1.0)
        strategy.weights = np.zeros(len(FEATURES))  # all are as good as the median
        priorities = strategy.reprioritise(urls[3:])
        assert priorities is not None
        assert (priorities[-1] == EXPLORED_PRIORITY) is is_first
        assert ("to be explored" in strategy.explain(5)) is is_first
        assert strategy.priorities([urls[5]]) == priorities[-1:]
