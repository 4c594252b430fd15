"""The strategy that learns, in real crawls: nothing is lost, and it finds more of the topic than the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conftest import MakeCollection, MakeTaught
from opilio.analyze.terms import Vocabulary, link_words, term_ids
from opilio.crawl import Collection, worker
from opilio.errors import InputError
from opilio.frontier import ABSENT, AllEvidence, Frontier, QueuedUrl, ScopeFilter, make_strategy
from opilio.lab.local_web import LocalServer
from opilio.model import Document, Judgement, Lease, Link, Links, Region
from opilio.settings import Settings, override
from running_crawls import ORDERLESS


def link(url: str, anchor: str, context: str = "") -> Link:
    return Link(url, 0, anchor, context, Region.MAIN, 0)


def test_words_of_links_are_those_of_the_analysis() -> None:
    """Words of the anchor, of the URL's path and of the context, stemmed, without stop words, link by link."""
    links = [
        link("http://a.example/hawks/The-Falcons.html", "Hunting hawks", "of the meadows and forests"),
        link("http://b.example/", "", ""),
        link("http://c.example/?q=owl", "the", "Owls"),
    ]
    words = link_words(Links.of(links), "en", Vocabulary())
    stems = np.frombuffer(words.stems, "<u4").tolist()
    wanted = ["Hunting hawks hawks falcons html", "meadows forests", "", "", "q owl", "Owls"]
    assert stems == [stem for text in wanted for stem in term_ids(text, "en")]
    assert list(words.inside) == [5, 0, 1] and list(words.around) == [2, 0, 1]
    assert link_words(Links(), "en", Vocabulary()) == (b"", b"", b"")


def test_every_page_is_found_once(make_collection: MakeCollection) -> None:
    """With little of the frontier in memory, a worker process, and a stop in between: all pages, each once."""
    urls = "SELECT url FROM pages JOIN crawl USING (oid) ORDER BY url"
    plain = make_collection(["http://directory.test/"], **ORDERLESS, fetch__max_tries=1)
    plain.crawl()
    learned = make_collection(
        ["http://directory.test/"], "learned", run__workers=1, frontier__strategy="evidence", frontier__hot_urls=20,
        **ORDERLESS, fetch__max_tries=1,
    )  # fmt: skip
    learned.crawl(settings={"limits.max_pages": 40})
    learned.crawl(settings={"limits.max_pages": 0})
    assert learned.sql(urls).rows == plain.sql(urls).rows
    assert learned.sql("SELECT count(*) FROM crawl WHERE state = 'waiting'").rows == [(0,)]


def test_why_a_link_waits(make_collection: MakeCollection) -> None:
    """A URL that waits is explained by the pages that link to it; one that is not known is an error with a hint."""
    collection = make_collection(["http://directory.test/"], limits__max_pages=3)
    collection.crawl()
    [[url, oid]] = collection.sql(
        "SELECT url, oid FROM crawl WHERE state = 'waiting' AND oid IN (SELECT oid_dst FROM links) ORDER BY oid LIMIT 1"
    ).rows
    told = collection.explain_link(url)
    assert (told["state"], told["oid"], told["parts"]) == ("waiting", oid, {})
    [[links, pages]] = collection.sql(f"SELECT count(*), count(DISTINCT oid_src) FROM links WHERE oid_dst = {oid}").rows
    assert (told["links"], told["pages"]) == (links, pages)
    assert told["best"][0]["url"].startswith("http://")
    with pytest.raises(InputError, match="never seen"):
        collection.explain_link("http://directory.test/no-such-page")


def test_the_parts_of_a_priority_make_it_up() -> None:
    """What each piece of evidence adds sums to the priority."""
    strategy = make_strategy(override(Settings(), {"frontier.strategy": "evidence"}).frontier)
    assert isinstance(strategy, AllEvidence)
    hosts = Frontier(Settings(), strategy, ScopeFilter(Settings().scope))
    urls = [QueuedUrl(oid, f"http://a.example/{oid}", hosts.host("a.example"), 0, 1, 0.5) for oid in range(6)]
    document = Document(
        "", "", "", "", "", "", Links.of(link(url.url, "owls") for url in urls[1:]), b"", b"", [], 0, b"",
    )  # fmt: skip
    strategy.observe(urls[0], Judgement(0, True, 0.9, 1.0), document, [1, 2, 3, 4, 5], [0] * 5)
    strategy.settle(1, 1.0)
    strategy.reprioritise(urls[2:])
    strategy.observe(urls[1], Judgement(0, False, 0.1, -1.0), document, [ABSENT, 2, 3, ABSENT, ABSENT], [0] * 5)
    for url, priority in zip(urls[2:], strategy.priorities(urls[2:]), strict=True):
        assert sum(strategy.explain(url.oid).values()) == pytest.approx(priority)
    assert strategy.explain(1) == {}


def test_it_finds_more_of_the_topic(small_server: LocalServer, tmp_path: Path) -> None:
    """With keywords that some pages have, more of the first pages are about them than breadth-first finds."""
    (tmp_path / "seeds.txt").write_text("http://directory.test/")
    found = {}
    for strategy in ("breadth-first", "evidence"):
        collection = Collection.create(
            tmp_path / strategy, seeds=tmp_path / "seeds.txt", query="statistics mean variance",
            settings={
                "fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "run.workers": -1,
                "frontier.strategy": strategy, "limits.max_pages": 60,
            },
        )  # fmt: skip
        collection.crawl()
        [[found[strategy]]] = collection.sql("SELECT sum(relevance) FROM pages").rows
    assert found["evidence"] > 1.2 * found["breadth-first"]


def test_links_keep_their_words_while_they_wait_in_the_database(
    make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words of the link, and the page it was found on, are evidence also after a refill and after a restart.

    Of a page that must not be stored (noindex) only its links are kept: such a page tells nothing of where it leads.
    """
    seen: list[Lease] = []
    judge = worker.PageJudge.judge

    def spy(self: worker.PageJudge, document: Document, lease: Lease) -> Judgement:
        seen.append(lease)
        return judge(self, document, lease)

    monkeypatch.setattr(worker.PageJudge, "judge", spy)
    spaces = ["terms", "terms+anchors", "terms+neighbours"]
    collection = make_taught(classify__classifier="svm", classify__spaces=spaces)
    for pages in (60, 100):
        seen.clear()
        collection.crawl(settings={"limits.max_pages": pages})
        found = """
            SELECT c.oid, c.parent IN (SELECT oid FROM pages)
            FROM crawl c JOIN links l ON l.oid_dst = c.oid AND l.oid_src = c.parent WHERE l.anchor <> ''
        """
        told = dict(collection.sql(found).rows)
        linked = [lease for lease in seen if lease.oid in told]
        assert len([lease for lease in linked if told[lease.oid]]) > 20
        assert not [lease.url for lease in linked if not lease.anchor]
        assert not [lease.url for lease in linked if told[lease.oid] and not lease.neighbours]
