"""The census: which topics pages fell into, what the others are about, who starves, and the paper's remedy."""

import math
import random
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from made_crawls import COOKING, FUNDS, GARDENING, INVESTMENT, TOPICS, MadeCrawl, MadePage, drifting, mutual_funds
from opilio.cli import cli
from opilio.errors import InputError
from opilio.features.spaces import counted
from opilio.learn import take_census
from opilio.learn.census import PRIOR_PAGES, TopicShare, odds_scores, off_topic_terms, propose_mark, starving_topics
from opilio.learn.crawl_health import measure_drift, similarity_to_examples
from opilio.store import Store
from opilio.topics import hierarchy_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "my funds") as opened:
        yield opened


def test_the_example_of_the_paper(store: Store) -> None:
    """Focus 3.7: most of what is around mutual funds is on investment, above them; the remedy marks that good."""
    told = take_census(mutual_funds().fill(store))
    counts = {topic["topic"]: topic["own_pages"] for topic in told["topics"] if topic["own_pages"]}
    assert counts == {"Business/Investment": 60, "Gardening": 30, "Business/Investment/Mutual Funds": 20, "Cooking": 4}
    assert told["topics"][0] | {"pages": 80, "relevant": 20, "mark_words": "on the way"} == told["topics"][0]
    assert told["topics"][0]["topic"] == "Business/Investment"
    assert (told["pages"], told["relevant"], told["untaken"], told["waiting"]) == (139, 50, 25, 7)
    assert told["nearby"][0] == {"topic": "Business/Investment", "pages": 60, "where": "above a wanted topic"}
    assert "60 of 64 unwanted pages" in told["remedies"][0]["why"]
    words = shlex.split(told["remedies"][0]["command"])
    assert words == ["opilio", "topics", "mark", str(store.path.parent), "Business/Investment", "good"]
    assert {"broker", "bond", "dividend", "treasury"} <= {word["word"] for word in told["instead"]}
    assert not {"fund", "seed", "soil"} & {word["word"] for word in told["instead"]}
    assert told["hosts"][0] == {"host": "h2.org", "domain": "h2.org", "pages": 60, "relevant": 0}


def test_every_remedy_is_a_command_that_exists(store: Store) -> None:
    """All commands proposed can be given as they are, to a folder whose name needs quotes."""
    told = take_census(mutual_funds().fill(store))
    assert len(told["remedies"]) >= 6
    for remedy in told["remedies"]:
        words = shlex.split(remedy["command"])
        assert words[0] == "opilio"
        context: click.Context = click.Context(cli)
        command: click.Command = cli
        rest = words[1:]
        while isinstance(command, click.Group):
            name, found, rest = command.resolve_command(context, rest)
            assert name is not None
            assert found is not None
            command, context = found, click.Context(found, context, name)
        command.make_context(words[-1], rest)


def test_the_latest_and_a_topic(store: Store) -> None:
    """--last counts the latest pages only; --topic those of a topic with all below it, and those they led to."""
    mutual_funds().fill(store)
    assert take_census(store, last_pages=29)["pages"] == 29
    assert {t["topic"] for t in take_census(store, last_pages=29)["topics"] if t["own_pages"]} == {"Cooking"}
    around = take_census(store, topic="business/investment/mutual funds")
    assert (around["pages"], around["relevant"]) == (20 + 60 + 4 + 25, 20)
    assert take_census(store, topic="Gardening")["pages"] == 30
    with pytest.raises(InputError, match="no topic 'Garden'"):
        take_census(store, topic="Garden")


def test_nothing_yet(store: Store) -> None:
    """A collection without pages has a census without pages, and no remedy."""
    told = take_census(MadeCrawl().fill(store))
    assert (told["pages"], told["hosts"], told["instead"], told["remedies"]) == (0, [], [], [])


pages = st.builds(
    MadePage,
    kcid=st.integers(0, 6),  # 6 is a topic that was removed
    relevance=st.sampled_from([0.0, 0.4, 0.5, 1.0]),
    parent=st.none() | st.integers(0, 15),
    host=st.integers(0, 2),
    state=st.sampled_from(["fetched", "fetched", "fetched", "waiting", "failed"]),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(pages, max_size=16), st.integers(0, 10), st.sampled_from([None, *range(len(TOPICS))]))
def test_counts_are_those_by_hand(store: Store, made: list[MadePage], last: int, kcid: int | None) -> None:
    """Any crawl, counted page by page in plain Python, gives the same census."""
    crawl, paths = MadeCrawl(made), {topic[0]: topic[2] for topic in TOPICS}
    told = take_census(crawl.fill(store), last, None if kcid is None else paths[kcid] or "/")
    below = {n for n, _, path, _ in TOPICS if kcid is None or (path + "/").startswith(paths[kcid] + "/") or kcid == 0}

    def is_taken(page: MadePage) -> bool:
        return page.kcid in paths and (page.kcid != 0 or page.relevance >= 0.5)

    def is_near(page: MadePage) -> bool:
        above = made[page.parent] if page.parent is not None and page.parent < len(made) else None
        led = above is not None and above.state == "fetched" and above.kcid in below and is_taken(above)
        return kcid is None or (page.kcid in below if is_taken(page) else kcid == 0) or led

    chosen = [page for page in reversed(made) if page.state == "fetched" and is_near(page)][: last or None]
    counts = Counter(paths[page.kcid] or "everything" for page in chosen if is_taken(page))
    assert {topic["topic"]: topic["own_pages"] for topic in told["topics"] if topic["own_pages"]} == counts
    assert told["untaken"] == sum(not is_taken(page) for page in chosen)
    assert told["relevant"] == sum(page.relevance >= 0.5 for page in chosen)
    hosts = Counter(f"h{page.host}.org" for page in chosen)
    assert {host["host"]: host["pages"] for host in told["hosts"]} == hosts
    assert told["waiting"] == sum(page.state == "waiting" for page in made)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)).filter(any), min_size=1, max_size=6))
def test_odds_are_those_by_hand(counts: list[tuple[int, int]]) -> None:
    """The score of each word is its log odds ratio with a prior, in standard errors, as computed one by one."""
    here, there = (np.array(column, float) for column in zip(*counts, strict=True))
    scores = odds_scores(here, there, 30, 20)
    for score, (a, b) in zip(scores, counts, strict=True):
        usual = (a + b) / 50
        parts = [a + PRIOR_PAGES * usual, 30 - a + PRIOR_PAGES * (1 - usual) + 0.5]
        parts += [b + PRIOR_PAGES * usual, 20 - b + PRIOR_PAGES * (1 - usual) + 0.5]
        odds = math.log(parts[0] / parts[1]) - math.log(parts[2] / parts[3])
        assert score == pytest.approx(odds / math.sqrt(sum(1 / part for part in parts)))


def test_words_without_texts_are_stems(store: Store) -> None:
    """Where texts are not kept the words are stems; where nothing is unwanted there are none."""
    crawl = mutual_funds()
    crawl.fill(store)
    with store.writing() as to:
        to.execute("UPDATE pages SET text = NULL")
    unwanted, wanted = list(range(50, 110)), list(range(50))
    assert "treasuri" in {word["word"] for word in off_topic_terms(store, unwanted, wanted)}
    assert off_topic_terms(store, [], wanted) == []


def test_who_starves() -> None:
    """A topic starves that both found and has waiting less than a quarter of the mean; one alone never does."""
    fed = [TopicShare(1, 40, 100), TopicShare(2, 60, 300)]
    assert starving_topics([*fed, TopicShare(3, 2, 5)]) == [TopicShare(3, 2, 5)]
    assert starving_topics([*fed, TopicShare(3, 2, 100)]) == [], "much waits: its turn comes"
    assert starving_topics([*fed, TopicShare(3, 30, 5)]) == [], "it finds enough"
    assert starving_topics([TopicShare(1, 0, 0)]) == []
    assert starving_topics([TopicShare(1, 2, 9), TopicShare(2, 3, 9), TopicShare(3, 0, 0)]) == [], (
        "nobody has found much"
    )


def test_what_is_below_a_topic_counts_for_it(store: Store) -> None:
    """Pages and URLs of subtopics feed the good topic above them."""
    crawl = MadeCrawl(topics=(*TOPICS, (7, GARDENING, "Gardening/Roses", "subsumed")))
    crawl.add(30, kcid=FUNDS, relevance=1.0)
    crawl.add(30, kcid=7, relevance=1.0)
    assert take_census(crawl.fill(store))["starving"] == []
    with store.writing() as to:
        to.execute("UPDATE pages SET relevance = 0 WHERE kcid = 7")
    told = take_census(store)
    assert told["starving"] == []
    with store.writing() as to:
        to.execute("UPDATE crawl SET state = 'waiting' WHERE topic = 3")
    told = take_census(store)
    assert told["starving"] == ["Gardening"]
    assert [topic["topic"] for topic in told["topics"] if topic["starves"]] == ["Gardening"]


@pytest.mark.parametrize(
    ("around", "proposed"),
    [
        ({FUNDS: {INVESTMENT: 9}}, None),  # too few
        ({FUNDS: {INVESTMENT: 10}}, INVESTMENT),
        ({FUNDS: {INVESTMENT: 10, COOKING: 10}}, None),  # not most
        ({FUNDS: {COOKING: 30}}, None),  # neither above nor beside
        ({GARDENING: {COOKING: 30}}, COOKING),  # beside
        ({GARDENING: {0: 30}}, None),  # all there is
        ({GARDENING: {COOKING: 30}, FUNDS: {INVESTMENT: 40}}, INVESTMENT),
    ],
)
def test_which_topic_is_proposed(around: dict[int, dict[int, int]], proposed: int | None, store: Store) -> None:
    """Only a topic above or beside a good one that took most of the unwanted pages around it, and ten of them."""
    MadeCrawl().fill(store)
    found = propose_mark(hierarchy_of(store.load_topics()), around)
    assert (found.kcid if found else None) == proposed


# -- drift


@pytest.mark.parametrize(("into", "drifts"), [(0.1, False), (0.13, False), (0.5, True), (1.0, True)])
def test_a_crawl_that_drifts(into: float, drifts: bool, store: Store) -> None:
    """Words that change while every page is accepted with the same relevance are seen; chance and a little are not."""
    crawl = drifting(into).fill(store)
    [found] = measure_drift(crawl, hierarchy_of(crawl.load_topics()))
    assert found.kcid == GARDENING
    assert found.drifts is drifts
    assert found.has_recovered is not drifts


def test_no_drift_is_seen_without_enough_pages_or_examples(store: Store) -> None:
    """199 accepted pages, or no example, give no figure: nothing is made up."""
    crawl = drifting(1.0)
    del crawl.pages[199:]
    crawl.fill(store)
    hierarchy = hierarchy_of(store.load_topics())
    assert measure_drift(store, hierarchy) == []
    with store.writing() as to:
        to.execute("DELETE FROM training")
    assert measure_drift(store, hierarchy) == []


def test_likeness_is_the_mean_cosine() -> None:
    """Against cosines computed with scikit-learn from the same tf*idf weights."""
    from sklearn.metrics.pairwise import cosine_similarity

    draw = random.Random(1)
    bags = [{draw.randrange(30): draw.randrange(1, 9) for _ in range(8)} for _ in range(24)]
    examples, first, latest, common = bags[:4], bags[4:10], bags[10:18], bags[18:]
    table = np.zeros((24, 30))
    for row, bag in enumerate(bags):
        for stem, freq in bag.items():
            table[row, stem] = 1 + np.log(freq)
    table *= np.log(25 / (1 + (table > 0).sum(axis=0)))
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    cosines = cosine_similarity(unit, unit[:4].sum(axis=0, keepdims=True)).ravel()
    groups = ([counted(np.repeat([*bag], [*bag.values()])) for bag in of] for of in (examples, first, latest, common))
    before, now, _ = similarity_to_examples(*groups)
    assert (before, now) == (pytest.approx(cosines[4:10].mean()), pytest.approx(cosines[10:18].mean()))
