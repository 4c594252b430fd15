"""Browsing: counts, orders, a page and its neighbours, each beside a plain account of the same rows in Python."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opilio.errors import InputError
from opilio.model import url_key
from opilio.search.portal import BEST, NEW, ORDERS, neighbours, page, pages, portal, topic_pages
from opilio.search.snippets import summary_of
from opilio.store import Store

# kcid, parent, name, path, mark: two wanted topics, one with another below it, and one that is not wanted.
TOPICS = [
    (0, None, "all", "", "path"),
    (1, 0, "Birds", "Birds", "good"),
    (2, 1, "Owls", "Birds / Owls", "subsumed"),
    (3, 0, "Fish", "Fish", "good"),
    (4, 0, "Cars", "Cars", "null"),
]
BELOW = {0: {0, 1, 2, 3, 4}, 1: {1, 2}, 2: {2}, 3: {3}, 4: {4}}
PATHS = {"": 0, "Birds": 1, "Birds / Owls": 2, "Fish": 3, "Cars": 4}
DAY_S = 86_400
REMOVED = 9  # the number of a topic that is no more


@dataclass
class Page:
    """A row of the account."""

    oid: int
    kcid: int
    relevance: float
    confidence: float
    visited_s: int
    title: str
    depth: int
    hub: float
    authority: float

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://host{self.oid % 3}.test/{self.oid}"

    @property
    def taken(self) -> bool:
        """Whether a topic took it."""
        return self.kcid in BELOW and self.kcid != 0

    @property
    def surest(self) -> tuple[float, ...]:
        """Its place by confidence."""
        return (-(self.relevance if self.relevance >= 0.5 else 0), -self.confidence, -self.relevance, self.oid)


@dataclass
class Account:
    """What the store was filled with."""

    pages: list[Page]
    waiting: list[int]
    links: list[tuple[int, int, str]] = field(default_factory=list)


def made(seed: int, count: int = 120) -> Account:
    """Pages at random, with many that are equal in what they are ordered by."""
    rng = random.Random(seed)
    pages = []
    for oid in range(count):
        kcid = rng.choice([0, 0, 1, 1, 2, 3, 4, REMOVED])
        relevance = rng.choice([0.5, 0.75, 1.0, 1.0]) if kcid in (1, 2, 3) else rng.choice([0.0, 0.25])
        pages.append(
            Page(
                oid, kcid, relevance, rng.choice([-0.5, 0.25, 1.0, 2.0]), rng.randrange(10 * DAY_S),
                rng.choice(["", " ", "Zebra", "apple", "Mango", f"page {oid}"]), rng.choice([0, 1, 2]),
                rng.choice([0.0, 0.125, 0.25]), rng.choice([0.0, 0.125, 0.5]),
            )
        )  # fmt: skip
    waiting = list(range(count, count + 30))
    links = [(rng.randrange(count), rng.randrange(count + 30), rng.choice(["", "a", "b"])) for _ in range(count * 8)]
    links += [(oid, oid, "to itself") for oid in range(0, count, 7)]
    return Account(pages, waiting, links)


def filled(folder: Path, account: Account) -> Store:
    """A store with these rows; some pages were judged twice by the model, of which the later word counts."""
    store = Store.create(folder)
    with store.writing() as to:
        to.executemany("INSERT INTO topics VALUES (?, ?, ?, ?, ?, ['bird', 'wing', 'bird'], 'feathers')", TOPICS)
        for p in account.pages:
            at = "make_timestamp(1700000000000000 + $1::BIGINT * 1000000)"
            to.execute(
                "INSERT INTO crawl (oid, url, key, sid, topic, depth, hops, state, outcome, numtries, relevance, priority)"
                " VALUES (?, ?, ?, ?, ?, ?, 0, 'fetched', 'ok', 1, ?, 0)",
                [p.oid, p.url, url_key(p.url), p.oid % 3, p.kcid, p.depth, p.relevance],
            )
            to.execute(
                "INSERT INTO pages (oid, visited, title, text, main_text, relevance, kcid, model_version)"
                f" VALUES ($2, {at}, $3, 'some text', 'text', $4, $5, 2)",
                [p.visited_s, p.oid, p.title, p.relevance, p.kcid],
            )
            said = [(2, 99.0), (2, p.confidence), (1, 77.0)] if p.oid % 3 == 0 else [(1, 77.0), (2, p.confidence)]
            for version, confidence in said:
                to.execute(
                    "INSERT INTO judgements VALUES (?, ?, ?, ?, ?, ?, FALSE, [], MAP {})",
                    [p.oid, version, p.kcid, p.taken, p.relevance, confidence],
                )
            to.execute("INSERT INTO link_scores VALUES (1, ?, ?, ?)", [p.oid, p.hub, p.authority])
            to.execute("INSERT INTO hubs VALUES (?, ?)", [p.oid, p.hub])
            to.execute("INSERT INTO auth VALUES (?, ?)", [p.oid, p.authority])
        for oid in account.waiting:
            url = f"http://waits.test/{oid}"
            to.execute(
                "INSERT INTO crawl (oid, url, key, sid, topic, depth, hops, state, numtries, relevance, priority)"
                " VALUES (?, ?, ?, 1, 1, 1, 0, 'waiting', 0, 0.9, 0)",
                [oid, url, url_key(url)],
            )
        for link in account.links:
            to.execute("INSERT INTO links VALUES (?, ?, 0, 0, ?, '', 'main', 0, 'a', FALSE, NULL)", link)
    return store


@pytest.fixture(scope="module")
def account() -> Account:
    """The rows that most tests look at."""
    return made(1)


@pytest.fixture(scope="module")
def store(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """... and a store of them."""
    with filled(tmp_path_factory.mktemp("browsing"), account) as made_store:
        yield made_store


def oids(pages: list[dict[str, Any]]) -> list[int]:
    """Which pages a list has."""
    return [shown["oid"] for shown in pages]


def nodes(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All topics of a tree by their paths."""
    found = {tree["topic"]: tree}
    for child in tree["children"]:
        found |= nodes(child)
    return found


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), days=st.sampled_from([1, 3, 7]))
def test_the_front_counts_as_an_account_of_the_rows_does(
    seed: int, days: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Pages, relevant and new ones of each topic with all below it, of OTHERS, and the harvest are those of the rows."""
    account = made(seed, 60)
    with filled(tmp_path_factory.mktemp("counts"), account) as store:
        front = portal(store, days)
    since_s = max(p.visited_s for p in account.pages) - days * DAY_S
    shown = nodes(front["tree"])
    assert shown.keys() == PATHS.keys()
    for path, kcid in PATHS.items():
        below = [p for p in account.pages if p.taken and p.kcid in BELOW[kcid]]
        own = [p for p in account.pages if p.taken and p.kcid == kcid]
        relevant = [p for p in below if p.relevance >= 0.5]
        assert (shown[path]["pages"], shown[path]["relevant"]) == (len(below), len(relevant)), path
        assert shown[path]["own_pages"] == len(own)
        assert shown[path]["new"] == sum(p.visited_s > since_s for p in relevant)
    assert front["others"] == sum(not p.taken for p in account.pages)
    assert front["new"]["pages"] == sum(p.visited_s > since_s for p in account.pages)
    assert front["crawl"]["pages"] == len(account.pages)
    assert front["crawl"]["relevant"] == (relevant_pages := sum(p.relevance >= 0.5 for p in account.pages))
    assert front["crawl"]["harvest"] == pytest.approx(relevant_pages / len(account.pages))


def test_the_front_shows_the_best_found_pages_of_wanted_topics(account: Account, store: Store) -> None:
    """The most relevant and surest that were found, no title twice, none that the user gave; a topic that is not wanted
    has no place."""
    front = portal(store)
    assert [topic["topic"] for topic in front["wanted"]] == ["Birds", "Fish"]
    titles: set[str] = set()
    for topic in front["wanted"]:
        fitting = [
            p for p in account.pages if p.kcid in BELOW[PATHS[topic["topic"]]] and p.relevance >= 0.5 and p.depth
        ]
        expected: list[Page] = []
        for p in sorted(fitting, key=lambda p: p.surest):
            title = p.title.strip().lower() or p.url
            if title not in titles and len(expected) < BEST:
                titles.add(title)
                expected.append(p)
        assert oids(topic["best"]) == [p.oid for p in expected]
        assert [shown["confidence"] for shown in topic["best"]] == [p.confidence for p in expected]


def test_what_the_user_gave_is_among_the_best_only_where_nothing_else_is(tmp_path: Path) -> None:
    """Examples and seeds are left out while a topic has another page, and marked where it has none."""
    pages = [Page(oid, 1 if oid < 3 else 3, 0.9, 1.0, oid, f"page {oid}", oid % 3, 0, 0) for oid in range(5)]
    with filled(tmp_path, Account(pages, [])) as store:
        with store.writing() as to:
            row = "('{}', 'url', {}, TRUE, '{}', '', '', NULL)"
            given = [(pages[1].url, 1, "added"), (pages[2].url, 1, "archetype"), (pages[4].url, 3, "given")]
            to.execute("INSERT INTO training VALUES " + ", ".join(row.format(*one) for one in given))
        birds, fish = portal(store)["wanted"]
    assert [(shown["oid"], shown["own"]) for shown in birds["best"]] == [(2, False)]
    assert [(shown["oid"], shown["own"]) for shown in fish["best"]] == [(3, True), (4, True)]


def test_the_front_counts_sites_and_growth(account: Account, store: Store) -> None:
    """The sites of each topic by relevant pages, all of them together, and the growth add up to the rows."""
    front = portal(store)
    relevant = [p for p in account.pages if p.kcid in (1, 2, 3)]
    for topic in front["wanted"]:
        hosts = Counter(f"host{p.oid % 3}.test" for p in relevant if p.kcid in BELOW[PATHS[topic["topic"]]])
        assert {site["host"]: site["pages"] for site in topic["sites"]} == dict(hosts)
        assert topic["sites_total"] == len(hosts)
        counts = [site["pages"] for site in topic["sites"]]
        assert counts == sorted(counts, reverse=True)
    assert front["found"] == {"pages": len(relevant), "sites": 3, "precision": None}
    assert sum(part["pages"] for part in front["growth"]) == len(account.pages)
    assert sum(part["relevant"] for part in front["growth"]) == len(relevant)


def test_the_share_on_topic_is_what_a_review_found_or_else_what_the_model_expects(tmp_path: Path) -> None:
    """A review counts when each of its groups has a judged page; before that, the expectation of the newest model."""
    expected = json.dumps({"1": {"calibrated": {"accepted": 10, "precision": 0.7, "low": 0.5, "high": 0.8}}})
    account = made(5, 40)
    with filled(tmp_path, account) as store:
        with store.writing() as to:
            to.execute(
                "INSERT INTO models (version, created, classifier, reason, documents, estimates, taught, model) "
                "VALUES (2, now(), 'svm', 'first', 4, ?, '', ''::BLOB)",
                [expected],
            )
        first = portal(store)["found"]["precision"]
        judged = [p for p in account.pages if p.kcid == 3]
        with store.writing() as to:
            for place, p in enumerate(judged):
                verdict = "no" if place == 0 else "yes"
                to.execute("INSERT INTO reviews VALUES (now(), 3, ?, ?, '')", [p.oid, verdict])
        checked = portal(store)["found"]["precision"]
    assert (first["kind"], first["value"], first["low"], first["high"]) == ("expected", 0.7, 0.5, 0.8)
    assert (checked["kind"], checked["judged"]) == ("checked", len(judged))
    assert checked["value"] == pytest.approx((len(judged) - 1) / len(judged), abs=1e-3)


@pytest.mark.parametrize(
    ("description", "text", "summary"),
    [
        ("A long description of owls that hunt at night.", "x", "A long description of owls that hunt at night."),
        ("Owls", "Home\nMenu 1 2 3\nOwls hunt mice and voles in the dark of night. More.", "Owls hunt mice and voles in"
         " the dark of night."),
        ("", "f(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, i=9).", ""),
        ("The title of this page, which is rather long", "nothing else", ""),
    ],
)  # fmt: skip
def test_a_summary_is_the_description_or_the_first_good_sentence(description: str, text: str, summary: str) -> None:
    """Menus, signatures and the title again say nothing about a page."""
    assert summary_of("The title of this page, which is rather long", description, text) == summary


def test_a_long_summary_is_cut_between_words() -> None:
    """It has at most so many characters, and the sign for more."""
    told = summary_of("", "word " * 100, "")
    assert len(told) <= 202 and told.endswith("word …")


def test_new_pages_are_those_of_the_last_days_of_crawling(account: Account, store: Store) -> None:
    """Counted back from the latest visit, whatever the clock says; the most relevant first."""
    last_s = max(p.visited_s for p in account.pages)
    for days in (1, 7):
        new = [p for p in account.pages if p.visited_s > last_s - days * DAY_S and p.relevance >= 0.5]
        expected = sorted(new, key=lambda p: (p.depth == 0, -p.relevance, -p.visited_s, p.oid))[:NEW]
        assert oids(portal(store, days)["new"]["best"]) == [p.oid for p in expected]


def test_new_pages_can_be_those_since_a_moment(account: Account, store: Store) -> None:
    """What was fetched later counts as new, also when that is nothing; a time beyond all reason is refused."""
    start_s, last_s = 1_700_000_000, max(p.visited_s for p in account.pages)
    front = portal(store, since_s=start_s + 5 * DAY_S)
    assert front["new"]["pages"] == sum(p.visited_s > 5 * DAY_S for p in account.pages)
    assert portal(store, since_s=start_s + last_s)["new"]["best"] == []
    with pytest.raises(InputError):
        portal(store, since_s=-1)


def test_hubs_and_authorities_of_the_front_are_the_highest_scores(account: Account, store: Store) -> None:
    """Of equal ones the earlier; a score of nothing is none; a page that is not relevant is left out."""
    front = portal(store)
    relevant = [p for p in account.pages if (p.relevance or 0) >= 0.5]
    hubs = sorted((p for p in relevant if p.hub), key=lambda p: (-p.hub, p.oid))[:8]
    best = sorted((p for p in relevant if p.authority), key=lambda p: (-p.authority, p.oid))[:8]
    assert len(relevant) < len(account.pages) and hubs
    assert oids(front["hubs"]) == [p.oid for p in hubs]
    assert oids(front["authorities"]) == [p.oid for p in best]


def ordered(pages: list[Page], order: str) -> list[int]:
    """The account's own order."""
    keys: dict[str, Any] = {
        "confidence": lambda p: p.surest,
        "authority": lambda p: (-p.authority, p.surest),
        "hub": lambda p: (-p.hub, p.surest),
        "newest": lambda p: (-p.visited_s, -p.oid),
        "title": lambda p: (not p.title.strip(), p.title.strip().lower(), p.oid),
    }
    return [p.oid for p in sorted(pages, key=keys[order])]


@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.parametrize("path", ["Birds", "", "Cars", "OTHERS"])
def test_a_topic_lists_its_pages_in_each_order(account: Account, store: Store, order: str, path: str) -> None:
    """Every page of the subtree once, in the order asked for, through all pages of results."""
    if path == "OTHERS":
        fitting = [p for p in account.pages if not p.taken]
    else:
        fitting = [p for p in account.pages if p.taken and p.kcid in BELOW[PATHS[path]]]
    first = topic_pages(store, path, order, per_page=7)
    found = list(oids(first["results"]))
    for number in range(2, first["last_page"] + 1):
        found += oids(topic_pages(store, path, order, number, per_page=7)["results"])
    scored = path in ("Birds", "", "OTHERS") or order not in ("authority", "hub")
    assert found == ordered(fitting, order if scored else "confidence")
    assert first["total"] == len(fitting)
    assert topic_pages(store, path, order, first["last_page"] + 1, per_page=7)["results"] == []


def test_a_topic_can_be_shown_without_those_below_it_and_without_what_is_not_relevant(
    account: Account, store: Store
) -> None:
    """The switches leave out what they say, and the totals follow."""
    own = topic_pages(store, "Birds", own=True, per_page=1000)
    assert oids(own["results"]) == ordered([p for p in account.pages if p.kcid == 1], "confidence")
    assert own["total"] == len(own["results"])
    relevant = topic_pages(store, "", relevant=True, per_page=1000)
    assert oids(relevant["results"]) == ordered([p for p in account.pages if p.relevance >= 0.5], "confidence")
    assert relevant["total"] == len(relevant["results"])


def test_a_topic_tells_what_it_is(store: Store) -> None:
    """Its keywords once each, its place in the tree, the topics below it; without link scores it says so."""
    owls = topic_pages(store, "birds/owls")
    assert owls["about"]["keywords"] == ["bird", "wing"]
    assert [above["topic"] for above in owls["about"]["above"]] == ["Birds"]
    assert [below["topic"] for below in topic_pages(store, "Birds")["about"]["subtopics"]] == ["Birds / Owls"]
    assert not owls["scored"] and owls["hubs"] == []
    assert topic_pages(store, "Birds")["scored"]


def test_what_cannot_be_shown_is_refused(store: Store) -> None:
    """A topic, an order, a page or a span of days that does not exist is an error with a hint."""
    calls = [
        lambda: topic_pages(store, "Bards"),
        lambda: topic_pages(store, "Birds", "p.oid; DROP TABLE pages"),
        lambda: topic_pages(store, "Birds", page=0),
        lambda: portal(store, 0),
        lambda: neighbours(store, "http://unknown.test/"),
    ]
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.hint


def around(account: Account, oid: int, *, linking: bool) -> dict[int, str]:
    """The neighbours of a page with the words of the first link."""
    found: dict[int, str] = {}
    for source, target, words in account.links:
        here, far = (target, source) if linking else (source, target)
        if here == oid and far != oid:
            found.setdefault(far, words)
    return found


def test_neighbours_are_the_ends_of_links_stored_ones_first(account: Account, store: Store) -> None:
    """Each page once, none its own neighbour, the best of the stored first, with the words of its first link."""
    by_oid = {p.oid: p for p in account.pages}

    def rank(oid: int) -> tuple[bool, float, int]:
        return (oid not in by_oid, -(by_oid[oid].relevance if oid in by_oid else 0.9), oid)

    for oid in range(0, len(account.pages), 7):
        told = neighbours(store, by_oid[oid].url, 5)
        for kind, linking in (("from", True), ("to", False)):
            expected = around(account, oid, linking=linking)
            assert oids(told[kind]) == sorted(expected, key=rank)[:5]
            assert [near["anchor"] for near in told[kind]] == [expected[near["oid"]] for near in told[kind]]
            assert told[f"{kind}_total"] == len(expected)


def test_a_page_tells_what_models_said_and_follows_redirects(tmp_path: Path) -> None:
    """The judgements in their order; an address that leads to a stored page shows that page, and which one it was."""
    account = made(3, 12)
    with filled(tmp_path, account) as store:
        with store.writing() as to:
            to.execute("INSERT INTO redirects VALUES (13, 12, 301), (12, 3, 302)")
            to.execute("INSERT INTO duplicates VALUES (14, 3, 'content')")
        asked = page(store, "http://waits.test/13", explain=False)
        direct = page(store, account.pages[3].url, explain=False)
        assert page(store, "http://waits.test/14", explain=False)["url"] == account.pages[3].url
    assert (asked["url"], asked["asked"]) == (account.pages[3].url, "http://waits.test/13")
    assert [said["confidence"] for said in direct["judgements"]] == [99.0, account.pages[3].confidence, 77.0]
    assert {(same["url"], same["step"]) for same in direct["same"]} == {
        ("http://waits.test/12", "redirect 302"), ("http://waits.test/14", "content"),
    }  # fmt: skip


def test_a_url_that_is_not_stored_tells_what_is_known(account: Account, store: Store) -> None:
    """One that waits has the pages that link to it; one that nobody knows has nothing."""
    waits = next(target for _, target, _ in account.links if target in account.waiting)
    told = page(store, f"http://waits.test/{waits}")
    assert not told["stored"] and told["known"]["state"] == "waiting"
    assert told["known"]["pages"] == len(around(account, waits, linking=True))
    assert page(store, "http://unknown.test/") == {"asked": "http://unknown.test/", "stored": False, "known": None}


def test_answers_are_plain_values(account: Account, store: Store) -> None:
    """What a running crawl sends over its socket as JSON is what is read from the database."""
    for answer in (portal(store), topic_pages(store, "Birds"), page(store, account.pages[1].url, explain=False)):
        assert json.loads(json.dumps(answer)) == answer


def test_an_empty_collection_has_a_front(tmp_path: Path) -> None:
    """Before the first crawl there is a tree without pages, and nothing is new."""
    with filled(tmp_path, Account([], [])) as store:
        front = portal(store)
        assert topic_pages(store, "Birds")["results"] == []
    assert front["tree"]["pages"] == 0 and front["new"]["best"] == [] and front["crawl"]["run"] is None


def test_more_pages_are_described_by_as_many_queries(crawled_taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading 30 pages, with reasons, takes as many queries as reading 3: publishing reads hundreds at a time."""
    counts = []
    with Store.open(crawled_taught, read_only=True) as store:
        urls = [url for (url,) in store.query("SELECT url FROM collection ORDER BY url LIMIT 30").rows]
        asked: list[str] = []

        def counted(ask: Callable[..., Any]) -> Callable[..., Any]:
            def answer(sql: str, *args: Any, **options: Any) -> Any:
                asked.append(sql)
                return ask(sql, *args, **options)

            return answer

        monkeypatch.setattr(store, "query", counted(store.query))  # the user's
        monkeypatch.setattr(store, "select", counted(store.select))  # our own
        for some in (urls[:3], urls):
            asked.clear()
            assert all(page["why"] for page in pages(store, some))
            counts.append(len(asked))
    assert counts[0] == counts[1] > 0
