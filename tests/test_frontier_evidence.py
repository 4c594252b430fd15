"""Link evidence: every number is what a plain reading of its definition gives, however the pages came."""

from __future__ import annotations

import math
from collections.abc import Callable
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontiers import make_frontier
from opilio.errors import SettingsError
from opilio.frontier import (
    ABSENT,
    AllEvidence,
    Frontier,
    NoListener,
    QueuedUrl,
    ScopeFilter,
    UrlAliases,
    link_memory,
    make_strategy,
)
from opilio.frontier.link_evidence import DEAD_TRUST, FEATURES, LIKELY_DEAD, NEAR, PRIOR_DEAD, PRIOR_PAGES, LinkEvidence
from opilio.frontier.link_words import CAUTION, WordOdds
from opilio.frontier.strategies import KnownDocument, RejudgedPages
from opilio.frontier.url_forms import url_form
from opilio.model import Document, Judgement, Link, Links, Outcome, Region
from opilio.settings import Settings, override

KEYWORDS = (7, 11)


def url_of(oid: int) -> str:
    """One of three hosts, two folders and four forms."""
    return f"http://h{oid % 3}.example/d{oid % 2}/{oid}{('', '.html', '?q=1', '~')[oid % 4]}"


def page(links: list[tuple[int, list[int], list[int], Region]]) -> Document:
    """A document whose links lead to some oids, with words in them and around them."""
    return Document(
        "", "", "", "", "", "",
        Links.of(Link(url_of(oid), oid, "", "", region, at) for at, (oid, _, _, region) in enumerate(links)),
        b"", b"", [], 0, b"",
        link_words=np.array([word for _, inner, outer, _ in links for word in (*inner, *outer)], "<u4").tobytes(),
        link_words_in=bytes(len(inner) for _, inner, _, _ in links),
        link_words_around=bytes(len(outer) for _, _, outer, _ in links),
    )  # fmt: skip


words = st.lists(st.integers(1, 20), max_size=4)
links = st.lists(st.tuples(st.integers(0, 11), words, words, st.sampled_from([Region.MAIN, Region.NAV])), max_size=6)
visits = st.lists(
    st.tuples(st.integers(0, 11), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.integers(0, 3), links), max_size=8
)


class Plain:
    """The same by loops over everything that happened."""

    def __init__(self) -> None:
        self.pages: list[tuple[float, int, list[tuple[int, list[int], list[int], Region]]]] = []
        self.worth: dict[int, float] = {}
        self.dead: set[int] = set()
        self.seen: list[tuple[set[int], float]] = []
        self.led_to_known: list[tuple[set[int], float]] = []

    def mean_of(self, values: list[float]) -> float:
        usual = (1.0 + sum(self.worth.values())) / (2.0 + len(self.worth))
        return (sum(values) + PRIOR_PAGES * usual) / (len(values) + PRIOR_PAGES)

    @staticmethod
    def odds(seen: list[tuple[set[int], float]], word: int) -> float:
        good = 1.0 + sum(worth for _, worth in seen)
        bad = 1.0 + sum(1.0 - worth for _, worth in seen)
        share = good / (good + bad)
        with_good = sum(worth for found, worth in seen if word in found) + CAUTION * share
        with_bad = sum(1.0 - worth for found, worth in seen if word in found) + CAUTION * (1.0 - share)
        return math.log(with_good / with_bad) - math.log(share / (1.0 - share))

    def features(self, oid: int, met: set[int]) -> dict[str, float]:
        found = [
            (parent, at) for parent, (_, _, page_links) in enumerate(self.pages)
            for at, link in enumerate(page_links) if link[0] == oid
        ]  # fmt: skip
        relevance = [self.pages[parent][0] for parent, _ in found]
        own = [self.pages[parent][2][at] for parent, at in found]

        def normed(values: list[float]) -> float:
            return sum(values) / math.sqrt(1.0 + len(values))

        inside = [normed([self.odds(self.seen, word) for word in inner]) for _, inner, _, _ in own]
        around = [normed([self.odds(self.seen, word) for word in outer]) for _, _, outer, _ in own]
        learned = [
            normed([self.odds(self.led_to_known, word) for word in (*inner, *(-word for word in outer))])
            for _, inner, outer, _ in own
        ]
        siblings: list[float] = []
        for parent, _ in found:
            siblings += self.children(parent)
        beside_known = beside_good = 0.0
        for parent, at in found:
            for step in NEAR:
                if 0 <= at + step < len(self.pages[parent][2]):
                    other = self.pages[parent][2][at + step][0]
                    if other in self.worth:
                        beside_known += 1 / abs(step)
                        beside_good += self.worth[other] / abs(step)
        usual = (1.0 + sum(self.worth.values())) / (2.0 + len(self.worth))
        count = len(found)
        return {
            "best parent": max(relevance),
            "mean parent": sum(relevance) / count,
            "any parent": -sum(math.log1p(-0.95 * value) for value in relevance),
            "parents": math.log(count),
            "relevant parents": sum(value >= 0.5 for value in relevance) / count,
            "strength of parents": sum(self.pages[p][0] / math.sqrt(len(self.pages[p][2])) for p, _ in found),
            "words": sum(inside) / count,
            "best words": max(inside),
            "words around": sum(around) / count,
            "keywords": max(normed([float(word in KEYWORDS) for word in inner]) for _, inner, _, _ in own),
            "learned words": sum(learned) / count,
            "best learned words": max(learned),
            "siblings": self.mean_of(siblings),
            "links beside": (beside_good + PRIOR_PAGES * usual) / (beside_known + PRIOR_PAGES),
            "host": self.mean_of(
                [worth for other, worth in self.worth.items() if other in met and other % 3 == oid % 3]
            ),
            "folder": self.mean_of([w for other, w in self.worth.items() if other in met and other % 6 == oid % 6]),
            "steps from the topic": float(min(self.pages[parent][1] for parent, _ in found)),
            "embedding similarity": 0.0,  # there are no word vectors here: tests/test_frontier_similarity.py has some
            "likely dead": float(self.death(oid, met, [parent for parent, _ in found]) > LIKELY_DEAD),
        }

    def death(self, oid: int, met: set[int], parents: list[int]) -> float:
        """The probability that a URL is dead."""
        known = self.worth.keys()
        usual = (1.0 + len(self.dead)) / (2.0 + len(known))
        base = math.log(usual / (1.0 - usual))
        alike = [other for other in known & met if url_form(url_of(other)) == url_form(url_of(oid))]
        linked = [other for parent in parents for other in {link[0] for link in self.pages[parent][2]} & known]
        odds = base
        for record in (alike, [other for other in alike if other % 3 == oid % 3], linked):
            dead = sum(other in self.dead for other in record)
            alive = len(record) - dead + PRIOR_DEAD * (1.0 - usual)
            odds += DEAD_TRUST * (math.log((dead + PRIOR_DEAD * usual) / alive) - base)
        return 1.0 / (1.0 + math.exp(-odds))

    def children(self, parent: int) -> list[float]:
        """The worth of the known targets of a page; each counts once."""
        return [self.worth[oid] for oid in {link[0] for link in self.pages[parent][2]} if oid in self.worth]


class Both:
    """Pages shown to the evidence and to its plain reading."""

    def __init__(self) -> None:
        self.evidence, self.plain = LinkEvidence(), Plain()
        self.evidence.set_keywords(KEYWORDS)
        self.met: set[int] = set()
        """URLs that a link led to before they were known."""
        self.visited: list[int] = []
        self.said: dict[int, set[int]] = {}
        """By URL that became known: the words of the links that led to it by then."""

    def visit(self, oid: int, worth: float | None, steps: int, page_links: list) -> None:  # type: ignore[type-arg]
        """A page comes; a worth of None is a page that nothing judges."""
        evidence, plain = self.evidence, self.plain
        if worth is None:
            evidence.forget(oid)
        else:
            self.know(oid, worth)
            evidence.settle(oid, worth)
        spoken = {oid % 5 + 1, oid % 7 + 1}
        plain.seen.append((spoken, worth or 0.0))
        evidence.add_words(np.array(sorted(spoken), np.uint32), worth or 0.0)
        oids = [link[0] for link in page_links]
        plain.pages.append((worth or 0.0, steps, page_links))
        self.visited.append(oid)
        self.met |= {other for other in oids if other not in plain.worth}
        evidence.add_page(oid, worth or 0.0, steps, page(page_links), oids, [other % 3 for other in oids])

    def find_dead(self, oid: int) -> None:
        """There is no page."""
        self.know(oid, 0.0)
        self.plain.dead.add(oid)
        self.visited.append(oid)
        self.evidence.settle(oid, 0.0, is_dead=True)

    def know(self, oid: int, worth: float) -> None:
        leading = [link for _, _, found in self.plain.pages for link in found if link[0] == oid]
        self.said[oid] = {word for _, inner, outer, _ in leading for word in (*inner, *(-w for w in outer))}
        self.plain.worth[oid] = worth

    def rejudge(self, worths: list[float]) -> None:
        """All pages get another worth."""
        plain = self.plain
        assert self.evidence.pages_seen().tolist() == self.visited
        for oid, worth in zip(self.visited, worths, strict=True):
            if oid in plain.worth:
                plain.worth[oid] = worth
            else:
                self.know(oid, worth)
        odds = WordOdds()
        for at, worth in enumerate(worths):
            plain.seen[at] = (plain.seen[at][0], worth)
            plain.pages[at] = (worth, at % 4, plain.pages[at][2])
            spoken = np.array(sorted(plain.seen[at][0]), np.uint32)
            odds.learn(spoken, np.zeros(len(spoken), np.int64), np.array([worth]))
        steps = np.arange(len(worths)) % 4
        self.evidence.rejudge(
            RejudgedPages(np.array(self.visited, np.int64), np.array(worths), steps.astype(np.float64), odds)
        )

    def redirect(self, oid: int, target: int) -> None:
        """A URL leads to another one: as if all links to it had led there from the first."""
        frontier, _ = make_frontier({})
        host = frontier.host("h.example")
        host.sid = target % 3
        url = QueuedUrl(target, url_of(target), host, 0, 1, 0.0)
        self.evidence.hand_over(oid, target, url)
        self.evidence.forget(oid)
        if oid in self.met:
            self.met.add(target)
        for at, (worth, steps, found) in enumerate(self.plain.pages):
            self.plain.pages[at] = (
                worth,
                steps,
                [(target if link[0] == oid else link[0], *link[1:]) for link in found],
            )

    def check(self) -> None:
        plain, evidence = self.plain, self.evidence
        plain.led_to_known = [(said, plain.worth[oid]) for oid, said in self.said.items() if said]
        found = {link[0] for _, _, page_links in plain.pages for link in page_links}
        waiting = sorted(found - set(self.visited))
        evidence.refresh()
        for row, oid in zip(evidence.features(waiting), waiting, strict=True):
            assert evidence.knows(oid)
            features = dict(zip(FEATURES, row.tolist(), strict=True))
            assert features == pytest.approx(plain.features(oid, self.met), abs=2e-5)


@settings(max_examples=100)
@given(visits, st.dictionaries(st.integers(0, 7), st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=3))
def test_links_to_a_redirected_url_are_links_to_its_target(
    happened: list[tuple[int, float, int, list]],  # type: ignore[type-arg]
    redirects: dict[int, tuple[int, int]],
) -> None:
    """Whenever a redirect is found, all numbers are those of a web whose links lead to its target directly."""
    both = Both()
    aliases = UrlAliases()
    for at, (oid, worth, steps, page_links) in enumerate(happened):
        if oid not in both.visited and aliases.final(oid) == oid:
            both.visit(oid, worth, steps, [(aliases.final(link[0]), *link[1:]) for link in page_links])
        source, target = redirects.get(at, (0, 0))
        are_open = all(aliases.final(oid) == oid and oid not in both.visited for oid in (source, target))
        if target != source and are_open:
            both.redirect(source, target)
            aliases.add(source, target)
    both.check()


def test_links_to_a_url_that_redirects_to_a_known_page_learn_from_it() -> None:
    """The words of such a link are learned with the relevance of the page, which the link leads to in the end."""
    evidence = LinkEvidence()
    evidence.settle(0, 1.0)
    evidence.add_page(0, 1.0, 0, page([(2, [5], [], Region.MAIN), (3, [5], [], Region.MAIN)]), [2, 3], [0, 0])
    evidence.settle(1, 1.0)
    learned = FEATURES.index("learned words")
    evidence.refresh()
    before = evidence.features([3])[0, learned]
    evidence.hand_over(2, 1, None)
    evidence.forget(2)
    assert not evidence.knows(2) and evidence.knows(3)
    evidence.refresh()
    assert evidence.features([3])[0, learned] > before
    assert evidence.features([3])[0, FEATURES.index("links beside")] > 0.5


@settings(max_examples=100)
@given(visits, st.sets(st.integers(0, 7)), st.sampled_from([1, 3, 16]), st.sets(st.integers(0, 7)))
def test_features_are_what_their_definitions_say(
    happened: list[tuple[int, float, int, list]],  # type: ignore[type-arg]
    asked: set[int],
    pending: int,
    dead: set[int],
) -> None:
    """Pages come in any order, link to each other, to themselves, and to the same page twice, and some are dead; after
    some of them the features of their targets are computed, which need not wait until all samples are learned from."""
    both = Both()
    with patch.multiple(link_memory, MAX_PENDING_SAMPLES=pending, KNOWN_PER_PENDING=1):
        for at, (oid, worth, steps, page_links) in enumerate(happened):
            if oid not in both.visited:
                if at in dead:
                    both.find_dead(oid)
                else:
                    both.visit(oid, worth, steps, page_links)
            if at in asked:
                both.evidence.grown()
    both.check()


@settings(max_examples=100)
@given(
    visits, st.lists(st.sampled_from([0.0, 0.2, 0.7, 1.0]), min_size=8, max_size=8), st.sets(st.integers(0, 7)), visits
)
def test_rejudged_pages_are_as_if_they_had_always_been_so(
    happened: list[tuple[int, float, int, list]],  # type: ignore[type-arg]
    worths: list[float],
    unjudged: set[int],
    later: list[tuple[int, float, int, list]],  # type: ignore[type-arg]
) -> None:
    """All that was learned from the old judgements is put right, that of pages which nothing had judged too; pages
    that come afterwards are learned from as ever."""
    both = Both()
    for at, (oid, worth, steps, page_links) in enumerate(happened):
        if oid not in both.visited:
            both.visit(oid, None if at in unjudged else worth, steps, page_links)
    both.rejudge(worths[: len(both.visited)])
    both.check()
    for oid, worth, steps, page_links in later:
        if oid not in both.visited:
            both.visit(oid, worth, steps, page_links)
    both.check()


def test_words_of_pages_that_come_during_rejudging_are_kept() -> None:
    """A page that comes after the judgements were read is in the words that follow from it; after a re-judging that was
    cancelled nothing is noted any more."""
    strategy, nothing = AllEvidence(Settings().frontier), np.zeros(0, np.int64)
    known = [KnownDocument(np.array([5], np.uint32), np.zeros(0, np.uint32), 1.0)]
    rejudging = strategy.rejudging()
    strategy.prepare([], known)
    rejudging.finish(RejudgedPages(nothing, np.zeros(0), np.zeros(0), WordOdds()))
    assert strategy.evidence.memory.page_words.odds(np.array([5], np.uint32))[0] > 0.5
    rejudging = strategy.rejudging()
    rejudging.cancel()
    strategy.prepare([], known)
    assert not rejudging.words_since, "nothing piles up when nothing comes of it"


def test_links_that_are_not_followed_count_for_nothing() -> None:
    """A nofollow link keeps its place on the page, but nothing is learned of where it leads."""
    evidence = LinkEvidence()
    document = page([(1, [3], [], Region.MAIN), (2, [4], [], Region.MAIN), (3, [5], [], Region.MAIN)])
    evidence.add_page(9, 1.0, 0, document, [1, ABSENT, 3], [0, ABSENT, 0])
    assert evidence.knows(1) and evidence.knows(3) and not evidence.knows(2)
    evidence.settle(3, 1.0)
    beside = evidence.features([1])[0][FEATURES.index("links beside")]
    assert beside == pytest.approx((0.5 * 1.0 + PRIOR_PAGES * 2 / 3) / (0.5 + PRIOR_PAGES)), "two places away, not one"


def test_old_links_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit the older half goes; what is left has the same numbers as if the rest had never been."""
    monkeypatch.setattr("opilio.frontier.link_memory.MAX_LINKS", 10)
    long, short = LinkEvidence(), LinkEvidence()
    for first in range(0, 60, 3):
        document = page([(first + at, [first + at], [1], Region.MAIN) for at in range(3)])
        long.add_page(1000 + first, 0.5, 1, document, [first, first + 1, first + 2], [0, 0, 0])
        if first >= 57:
            short.add_page(1000 + first, 0.5, 1, document, [first, first + 1, first + 2], [0, 0, 0])
    assert not long.knows(0) and long.knows(59)
    assert len(long.memory.links) <= 10, "memory is bounded, whatever waits"
    np.testing.assert_allclose(long.features([58, 59]), short.features([58, 59]))
    long.settle(0, 1.0)  # no link to it is known any more
    long.settle(59, 1.0)
    assert not long.knows(59)


def test_words_speak_for_what_they_were_seen_with() -> None:
    """A word seen on good pages has positive odds, one seen on bad pages negative, one never seen none."""
    odds = WordOdds()
    for _ in range(5):
        odds.learn(np.array([1, 2], np.uint32), np.zeros(2, np.int64), np.ones(1))
        odds.learn(np.array([2, 3], np.uint32), np.zeros(2, np.int64), np.zeros(1))
    good, both, bad, new = odds.odds(np.array([1, 2, 3, 4], np.uint32)).tolist()
    assert good > 1.0 and bad < -1.0
    assert both == pytest.approx(0.0) and new == pytest.approx(0.0)


def test_a_page_that_is_fetched_again_counts_once() -> None:
    """Settled again, at once or later, a URL is still one page of its host, whose links taught once."""
    once, twice = LinkEvidence(), LinkEvidence()
    document = page([(1, [3], [], Region.MAIN), (4, [3], [], Region.MAIN)])
    for evidence in (once, twice):
        evidence.add_page(9, 1.0, 0, document, [1, 4], [1, 1])
        evidence.settle(1, 1.0)
    twice.settle(1, 1.0)
    expected = once.features([4])
    np.testing.assert_allclose(twice.features([4]), expected)
    twice.settle(1, 1.0)
    np.testing.assert_allclose(twice.features([4]), expected)


def test_a_url_given_up_unseen_teaches_nothing() -> None:
    """What robots rules or limits refuse says nothing about pages like it."""
    evidence = LinkEvidence()
    document = page([(1, [3], [], Region.MAIN), (2, [3], [], Region.MAIN)])
    evidence.add_page(9, 1.0, 0, document, [1, 2], [0, 0])
    before = evidence.features([2])
    evidence.forget(1)
    assert not evidence.knows(1)
    np.testing.assert_array_equal(evidence.features([2]), before)
    evidence.settle(2, 0.0)
    assert not evidence.knows(2)


@pytest.mark.parametrize("without", [[], ["likely dead"]])
def test_urls_of_a_form_that_is_dead_come_last(without: list[str]) -> None:
    """After twenty dead links of one form, a link of that form on a relevant page comes behind a link of a form that
    answers on a page that is not; `explain` says why. Without this piece of evidence it is the other way round."""
    order = AllEvidence(override(Settings(), {"frontier.evidence_without": without}).frontier)
    host = make_frontier({})[0].host("h.example")

    def visit(oid: int, relevance: float, urls: dict[int, str]) -> None:
        document = page([(other, [], [], Region.MAIN) for other in urls])
        links = Links.of(Link(url, 0, "", "", Region.MAIN, at) for at, url in enumerate(urls.values()))
        document = msgspec.structs.replace(document, links=links)
        judgement = Judgement(0, True, relevance)
        order.settle(oid, relevance)
        order.observe(QueuedUrl(oid, "", host, 0, 1, 0.0), judgement, document, list(urls), [0] * len(urls))

    visit(0, 0.2, {oid: f"http://h.example/old/{oid}.cgi" for oid in range(1, 21)})
    visit(21, 0.2, {oid: f"http://h.example/new/{oid}.html" for oid in range(22, 42)})
    for oid in range(1, 21):
        order.settle_dead(oid)
    for oid in range(22, 42):
        order.settle(oid, 0.0)
    visit(50, 1.0, {51: "http://h.example/old/51.cgi"})
    visit(52, 0.1, {53: "http://h.example/new/53.html"})
    queued = [QueuedUrl(oid, "", host, 0, 1, 0.0) for oid in (51, 53)]
    priorities = order.reprioritise(queued)
    assert priorities is not None and (priorities[0] < priorities[1]) == (not without)
    assert priorities == pytest.approx(order.priorities(queued))
    assert (order.explain(51)["likely dead"] < -10) == (not without) and order.explain(53)["likely dead"] == 0


def test_evidence_can_be_left_out() -> None:
    """A piece of evidence that is left out weighs nothing, also under its former name; a name that is none is an error
    that names all."""
    for without, expected in (
        (["siblings", "keywords"], {"siblings", "keywords"}),
        (["kindred words"], {"embedding similarity"}),
    ):
        chosen = override(Settings(), {"frontier.evidence_without": without})
        strategy = AllEvidence(chosen.frontier)
        assert {name for name, weight in zip(FEATURES, strategy.weights, strict=True) if not weight} == expected
    with pytest.raises(SettingsError, match="'sibling' is no piece"):
        AllEvidence(override(Settings(), {"frontier.evidence_without": ["sibling"]}).frontier)


class Drops(NoListener):
    """Notes what a frontier drops."""

    def __init__(self, note: Callable[[QueuedUrl], object]) -> None:
        self._note = note

    def dropped(self, url: QueuedUrl, outcome: Outcome) -> None:
        self._note(url)


def test_the_best_are_not_evicted() -> None:
    """With a limit of queued URLs, a strategy that has changed all priorities still loses the worst; and what is
    remembered for that does not grow with the URLs that have come and gone."""
    settings = override(Settings(), {"frontier.max_queued": 100, "frontier.strategy": "evidence"})
    strategy, dropped = make_strategy(settings.frontier), []
    scope = ScopeFilter(settings.scope, frozenset())
    frontier = Frontier(settings, strategy, scope, Drops(lambda url: dropped.append(url.oid)))

    def add(oid: int, priority: float) -> None:
        url = QueuedUrl(oid, f"http://h{oid % 7}.test/{oid}", frontier.host(f"h{oid % 7}.test"), 0, 1, 0.5)
        url.priority = priority
        frontier.tiers.add(url)

    for oid in range(100):
        add(oid, float(oid))
    strategy.reprioritise = lambda urls: [500.0 - url.priority for url in urls]  # type: ignore[attr-defined]
    frontier.tiers.reprioritise()
    for oid in range(100, 160):
        add(oid, 1000.0 + oid)
    assert frontier.waiting == 100 and len(dropped) == 60 and max(dropped) < 100
    for oid in range(1_000, 20_000):
        add(oid, float(oid))
    assert len(frontier.tiers._worst) < 5_000
