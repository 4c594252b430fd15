"""The ready questions: each answers, those of Focus section 1 agree with a plain computation, and docs/sql.md has them."""

import datetime
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from made_crawls import BEGAN, TOPICS, MadeCrawl
from opilio.store import Store
from opilio.store.questions import QUESTIONS, list_tables, question, to_markdown

DOCS = Path(__file__).parent.parent / "docs" / "sql.md"
PATHS = {kcid: path for kcid, _, path, _ in TOPICS}
PAGES, HOSTS, LINKS = 60, 9, 500

Link = tuple[int, int, str]


class Made:
    """A random web of pages of several topics, and the same in a store."""

    def __init__(self, folder: Path, seed: int) -> None:
        draw = random.Random(seed)
        self.topic = {oid: draw.choice([0, 2, 3, 3, 4, 4, 5]) for oid in range(PAGES)}
        self.host = {oid: draw.randrange(HOSTS) for oid in range(PAGES + 5)}
        self.links: list[Link] = [
            (draw.randrange(PAGES), draw.randrange(PAGES + 5), draw.choice(["", "more", "see"])) for _ in range(LINKS)
        ]
        crawl = MadeCrawl()
        for oid, kcid in self.topic.items():
            crawl.add(kcid=kcid, relevance=0.9 if kcid in (3, 4) else 0.1, host=self.host[oid])
        for oid in range(PAGES, PAGES + 5):
            crawl.add(state="waiting", host=self.host[oid])
        self.store = crawl.fill(Store.create(folder))
        with self.store.writing() as to:
            to.execute(f"UPDATE crawl SET numtries = 0 WHERE oid >= {PAGES}")
            for number, url, outcome in (
                (1000, "http://gone.test/", "dns-failed"),
                (1001, "http://shell.test/", "needs-javascript"),
            ):
                to.execute(
                    "INSERT INTO crawl SELECT oid + $1, $2, 0, sid, topic, 0, NULL, 0, 'failed', $3, "
                    "1, 0, 0, NULL, found, lastvisited FROM crawl LIMIT 1",
                    [number, url, outcome],
                )
            to.execute("INSERT INTO seeds VALUES ('http://gone.test/', 0, 'given', '', NULL, NULL)")
            self.seen = [BEGAN + datetime.timedelta(seconds=draw.randrange(10_000)) for _ in self.links]
            to.executemany(
                "INSERT INTO links VALUES (?, ?, ?, ?, ?, '', 'main', 0, 'a', false, ?)",
                [
                    (a, b, self.host[a], self.host[b], words, at)
                    for (a, b, words), at in zip(self.links, self.seen, strict=True)
                ],
            )
            self.past = [(a, b, at, at + datetime.timedelta(seconds=draw.randrange(5000))) for (a, b, _), at in
                         zip(self.links[::-1][:200], self.seen[:200], strict=True)]  # fmt: skip
            to.executemany(
                "INSERT INTO past_links VALUES (?, ?, 0, 0, '', ?, ?)",
                [(b, a, *at) for a, b, *at in self.past if b < PAGES],
            )

    def ask(self, name: str) -> list[dict[str, Any]]:
        """The answer to a question, row by row."""
        found = question(name)
        assert found is not None
        result = self.store.query(found.sql)
        return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


@pytest.fixture(params=[1, 2])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Made]:
    """Two webs."""
    web = Made(tmp_path, request.param)
    with web.store:
        yield web


@pytest.mark.parametrize("name", [one.name for one in QUESTIONS])
def test_each_question_answers(tmp_path: Path, name: str) -> None:
    """It runs as it stands and has something to say; what does not write needs no leave to."""
    web = Made(tmp_path, 1)
    found = question(name)
    assert found is not None and found.shows.endswith(".")
    with web.store as store:
        if found.writes:
            assert store.query(found.sql, write=True).rows[0][0] > 0
        else:
            assert store.query(found.sql).rows


def test_citation_sociology(made: Made) -> None:
    """Distinct pages one link away, in either direction, by topic; against their share of all pages."""
    near: dict[str, set[int]] = defaultdict(set)
    for a, b, _ in made.links:
        for here, there in ((a, b), (b, a)):
            if made.topic.get(here) and there in made.topic:
                near[PATHS[made.topic[here]]].add(there)
    at_large = Counter(PATHS[kcid] for kcid in made.topic.values() if kcid)
    expected = {}
    for topic, oids in near.items():
        for other, count in Counter(PATHS[made.topic[oid]] for oid in oids if made.topic[oid]).items():
            if other != topic:
                expected[topic, other] = (count, count / len(oids) / (at_large[other] / PAGES))
    rows = made.ask("citation-sociology")
    assert {(row["topic"], row["beside_it"]): row["pages_near"] for row in rows} == {
        pair: count for pair, (count, _) in expected.items()
    }
    for row in rows:
        assert row["times_as_frequent"] == pytest.approx(expected[row["topic"], row["beside_it"]][1], abs=0.006)
    assert [row["times_as_frequent"] for row in rows] == sorted(
        (row["times_as_frequent"] for row in rows), reverse=True
    )


def test_typed_links(made: Made) -> None:
    """Links between pages of different topics are counted by the two topics."""
    expected: Counter[tuple[str, str]] = Counter()
    for a, b, _ in made.links:
        if made.topic.get(a) and made.topic.get(b) and made.topic[a] != made.topic[b]:
            expected[PATHS[made.topic[a]], PATHS[made.topic[b]]] += 1
    rows = made.ask("typed-links")
    assert {(row["from_topic"], row["to_topic"]): row["links"] for row in rows} == expected
    assert all(set(row["words"]) <= {"more", "see"} for row in rows)


def test_community_evolution(made: Made) -> None:
    """In each twelfth of the time: the links that were there between two topics, those that came, those that went."""
    links = [(a, b, at, None) for (a, b, _), at in zip(made.links, made.seen, strict=True)]
    links += [(b, a, came, went) for a, b, came, went in made.past if b < PAGES]
    rows = made.ask("community-evolution")
    starts = sorted({row["from_then"] for row in rows})
    assert len(starts) == 12 and starts[0] == min(made.seen)
    ends = [*starts[1:], datetime.datetime.max]
    expected: Counter[tuple[Any, ...]] = Counter()
    for a, b, came, went in links:
        pair = made.topic.get(a), made.topic.get(b)
        if not all(pair) or pair[0] == pair[1]:
            continue
        names = (PATHS[pair[0] or 0], PATHS[pair[1] or 0])
        for start, end in zip(starts, ends, strict=True):
            if came < end and (went is None or went >= start):
                expected["links", start, *names] += 1
                expected["came", start, *names] += came >= start
                expected["went", start, *names] += went is not None and went < end
    found = {(what, row["from_then"], row["from_topic"], row["to_topic"]): row[what]
             for row in rows for what in ("links", "came", "went")}  # fmt: skip
    assert found == dict(expected)
    assert sum(row["went"] for row in rows) > 50


def test_spam_filter(made: Made) -> None:
    """Relevant pages which pages of other hosts cite, at least two, and most of them of another topic."""
    citing: dict[int, set[int]] = defaultdict(set)
    for a, b, _ in made.links:
        if b in made.topic and made.host[a] != made.host[b]:
            citing[b].add(a)
    expected = {}
    for oid, by in citing.items():
        others = sum(made.topic[one] != made.topic[oid] for one in by)
        if made.topic[oid] in (3, 4) and others >= 2 and others > len(by) - others:
            expected[f"http://h{made.host[oid]}.org/{oid}"] = (others, len(by) - others)
    assert {row["url"]: (row["others"], row["own"]) for row in made.ask("spam-filter")} == expected


def test_typed_paths(made: Made) -> None:
    """From a page of a good topic over one page to pages of another topic."""
    out: dict[int, set[int]] = defaultdict(set)
    for a, b, _ in made.links:
        out[a].add(b)
    expected = {}
    for oid, kcid in made.topic.items():
        ends: dict[int, set[int]] = defaultdict(set)
        for middle in out[oid]:
            for end in out[middle]:
                if end != oid and made.topic.get(end) and made.topic[end] != kcid:
                    ends[made.topic[end]].add(end)
        if kcid in (3, 4):
            expected |= {(f"http://h{made.host[oid]}.org/{oid}", PATHS[to]): len(far) for to, far in ends.items()}
    rows = made.ask("typed-paths")
    assert len(rows) == 50
    for row in rows:
        assert expected[row["url"], row["to_topic"]] == row["pages"]
    assert min(row["pages"] for row in rows) >= sorted(expected.values(), reverse=True)[49]


def test_neglected_neighbours_before_and_after_link_analysis(made: Made) -> None:
    """Waiting URLs that hubs of other hosts link to; once there are hubs by link analysis, those count."""
    rows = made.ask("neglected-neighbours")
    waiting = {f"http://h{made.host[oid]}.org/{oid}" for oid in range(PAGES, PAGES + 5)}
    assert rows and {row["url"] for row in rows} <= waiting
    [(source, target)] = [(a, b) for a, b, _ in made.links if b >= PAGES and made.host[a] != made.host[b]][:1]
    with made.store.writing() as to:
        to.execute("INSERT INTO hubs VALUES (?, 0.9)", [source])
    again = made.ask("neglected-neighbours")
    assert f"http://h{made.host[target]}.org/{target}" in {row["url"] for row in again}
    assert {row["hubs"] for row in again} == {1}


def test_the_ancestor_is_marked_good(made: Made) -> None:
    """As in the paper: investment is good, the funds below it are subsumed, and what is elsewhere stays as it was."""
    found = question("mark-ancestor-good")
    assert found is not None
    made.store.query(found.sql, write=True)
    marks = dict(made.store.query("SELECT kcid, type FROM topics").rows)
    assert marks == {0: "path", 1: "path", 2: "good", 3: "subsumed", 4: "good", 5: "null"}


def test_the_page_prints_them() -> None:
    """docs/sql.md has each question as the code has it."""
    page = DOCS.read_text(encoding="utf-8")
    printed = page.partition("<!-- questions -->\n")[2].partition("<!-- end of questions -->")[0]
    assert printed.strip() == to_markdown().strip(), "put opilio.store.questions.to_markdown() there"


def test_every_table_says_what_it_is(tmp_path: Path) -> None:
    """Names and types are those of the database, and the comments of schema.sql stand with what they are about."""
    with Store.create(tmp_path) as store:
        tables = {table["name"]: table for table in list_tables(store)}
        listed = store.query("SELECT table_name, list(column_name ORDER BY ordinal_position) "
                             "FROM information_schema.columns GROUP BY ALL").rows  # fmt: skip
    assert {name: [column["name"] for column in table["columns"]] for name, table in tables.items()} == dict(listed)
    assert next(iter(tables)) == "crawl"
    says = {column["name"]: column["says"] for column in tables["crawl"]["columns"]}
    assert says["depth"] == "links from a seed" and says["sid"] == "its host"
    assert tables["visits"]["says"] == "Every request, whatever came of it."
    assert tables["frontier"]["view"] and tables["frontier"]["says"].startswith("What waits to be fetched")
