"""The simulator: real frontier, absorber and strategies on a recorded web, without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluate_standin import make_analysed, plain_heap, url_of
from opilio import Collection
from opilio.classify import KeywordJudge, Model
from opilio.crawl.worker import PageJudge
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput
from opilio.lab.experiments import analyse
from opilio.lab.experiments.simulate import Answers, Crawl, Simulation, run_all
from opilio.lab.webs import RecordedTransport, record
from opilio.model import Judgement
from opilio.settings import Settings, override

webs = st.integers(2, 25).flatmap(
    lambda pages: st.lists(st.lists(st.integers(0, pages - 1), max_size=6), min_size=pages, max_size=pages)
)


def settings_for(strategy: str, **changes: object) -> Settings:
    return override(Settings(), {"frontier.strategy": strategy} | {k.replace("__", "."): v for k, v in changes.items()})


def simulate(analysed, strategy="breadth-first", seeds=(0,), judge=None, budget=0, **options) -> Crawl:  # type: ignore[no-untyped-def]
    changes = {key: options.pop(key) for key in list(options) if "__" in key}
    simulation = Simulation(
        Answers(analysed), settings_for(strategy, **changes), seeds, judge, max_pages=budget, **options
    )
    return simulation.run()


def brute_breadth_first(links: list[list[int]], seeds: list[int]) -> list[int]:
    order = list(dict.fromkeys(seeds))
    for page in order:
        order += [link for link in dict.fromkeys(links[page]) if link not in order]
    return order


@settings(max_examples=60)
@given(webs, st.integers(1, 4), st.lists(st.integers(0, 1), min_size=1, max_size=3))
def test_breadth_first_is_a_plain_queue(links: list[list[int]], hosts: int, seeds: list[int]) -> None:
    """Whatever the web and its hosts, breadth-first visits pages as a queue would."""
    crawl = simulate(make_analysed(links, hosts=hosts), seeds=seeds)
    assert crawl.pages.tolist() == brute_breadth_first(links, seeds)


@settings(max_examples=60)
@given(webs, st.integers(1, 4), st.data())
def test_best_first_is_a_plain_heap(links: list[list[int]], hosts: int, data: st.DataObject) -> None:
    """Best-first takes the link of the most relevant page known so far, earlier ones first among equals."""
    relevance = data.draw(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=len(links), max_size=len(links)))
    crawl = simulate(make_analysed(links, hosts=hosts), "best-first", judge=np.array(relevance))
    assert crawl.pages.tolist() == plain_heap(links, [0], lambda page, _: relevance[page])


@settings(max_examples=40)
@given(webs, st.sampled_from(["breadth-first", "best-first", "depth-first", "bfs2"]), st.integers(1, 30))
def test_what_is_told_of_a_page_fits(links: list[list[int]], strategy: str, budget: int) -> None:
    """A page comes after its parent, one link deeper, with the score of its parent; the budget is kept."""
    relevance = np.linspace(0, 1, len(links))
    crawl = simulate(make_analysed(links), strategy, judge=relevance, budget=budget)
    place = {page: at for at, page in enumerate(crawl.pages.tolist())}
    assert len(place) == len(crawl) <= budget
    for at, (page, parent) in enumerate(zip(crawl.pages.tolist(), crawl.parents.tolist(), strict=True)):
        if parent < 0:
            assert (page, crawl.depths[at]) == (0, 0)
        else:
            assert place[parent] < at
            assert page in links[parent]
            assert crawl.depths[at] == crawl.depths[place[parent]] + 1
            if strategy == "best-first":
                assert crawl.scores[at] == relevance[parent]


def test_the_web_answers_as_recorded() -> None:
    """Redirects are followed, errors and unknown URLs cost requests and no budget, failed servers get more tries."""
    links = [[1, 2, 3, "http://elsewhere.test/"], [], [], [], [5], []]
    analysed = make_analysed(links, statuses={2: 404, 3: 503}, redirects={1: url_of(4)})
    crawl = simulate(analysed)
    assert crawl.pages.tolist() == [0, 4, 5]
    assert crawl.parents.tolist() == [-1, 1, 4], "who is found by a redirect has the redirected URL as its parent"
    assert crawl.outcomes == {"ok": 3, "redirect": 1, "http-4xx": 2, "http-5xx": 1}
    tries = Settings().fetch.max_tries
    assert crawl.requests.tolist()[0] == 1
    assert crawl.requests[-1] <= 3 + 1 + 2 + tries


BY_RELEVANCE = ("best-first", "bingo", "evidence", "focus", "focus-hard", "oasis", "shark-search", "tres")


@pytest.mark.parametrize("strategy", BY_RELEVANCE)
def test_the_target_of_a_redirect_has_the_turn_of_its_source(strategy: str) -> None:
    """Links of a relevant page come before those of an irrelevant one, in every order that goes by relevance; also when
    they are redirected twice. What a redirect leads to is fetched next, as if the link had led there."""
    direct = make_analysed([[1, 2], [3], [4, 5], [], [], []])
    moved = make_analysed([[1, 2], [6], [4, 5], [], [], [], [], []], redirects={6: url_of(7), 7: url_of(3)})
    relevance = np.array([0.5, 0.9, 0.1, 0.8, 0.1, 0.1, 0.0, 0.0])
    options = {"frontier__tunnel_steps": 9}
    straight = simulate(direct, strategy, judge=relevance[:6], **options).pages.tolist()
    assert simulate(moved, strategy, judge=relevance, **options).pages.tolist() == straight


def test_a_page_counts_once_under_two_addresses() -> None:
    """https answers as http does: the second address is asked for, but is no second page."""
    analysed = make_analysed([[1, "https://h0.test/1", 2], [], []], contents={1: 7})
    crawl = simulate(analysed)
    assert crawl.pages.tolist() == [0, 1, 2]
    assert crawl.requests.tolist() == [1, 2, 4]
    assert crawl.outcomes["duplicate-content"] == 1


def test_recorded_robots_are_obeyed() -> None:
    """What a recorded robots.txt forbids is not visited; other hosts have none."""
    urls = ["http://a.test/", "http://a.test/secret/x", "http://b.test/secret/x", "http://a.test/robots.txt"]
    robots = b"User-agent: *\nDisallow: /secret/\n"
    analysed = make_analysed([[1, 2], [], [], []], urls=urls, bodies={3: robots})
    assert simulate(analysed).pages.tolist() == [0, 2]
    assert simulate(analysed, robots__obey=True).outcomes["robots"] == 1


def test_duplicates_are_recognised_as_in_a_crawl() -> None:
    """Links of a page whose text is known already are not followed, unless the setting is off."""
    analysed = make_analysed([[1, 2], [3], [4], [], []], contents={1: 9, 2: 9})
    assert simulate(analysed).pages.tolist() == [0, 1, 2, 3]
    assert simulate(analysed, duplicates__content=False).pages.tolist() == [0, 1, 2, 3, 4]


def test_more_in_flight_means_later_knowledge() -> None:
    """With two leases at a time, the second is chosen before the links of the first are known."""
    links: list[list[int]] = [[1, 2], [3], [], []]
    relevance = np.array([0.5, 1.0, 0.0, 0.0])
    alone = simulate(make_analysed(links, hosts=4), "best-first", judge=relevance)
    together = simulate(make_analysed(links, hosts=4), "best-first", judge=relevance, in_flight=4)
    assert alone.pages.tolist() == [0, 1, 3, 2]
    assert together.pages.tolist() == [0, 1, 2, 3]


def test_ways_to_judge_agree() -> None:
    """Relevance in an array, judgements in a list, a function and a model at work lead the same way."""
    words = ["birds", "cars and birds", "cars", "birds birds", "birds", "cars"]
    analysed = make_analysed([[1, 2, 3], [4], [5], [0], [], []], words=words)
    model = Model(1, "keywords", KeywordJudge({0: "birds"}))
    judgements = [model.judge(ClassifierInput.of(doc, "")) for doc in analysed.documents if doc]
    relevance = np.array([said.relevance for said in judgements])
    live = PageJudge(model.to_bytes(), Settings().classify)
    crawls = [
        simulate(analysed, "best-first", judge=judge) for judge in (relevance, judgements, judgements.__getitem__, live)
    ]
    assert crawls[0].pages.tolist() == [0, 1, 2, 3, 4, 5]
    assert len({crawl.to_bytes() for crawl in crawls}) == 1


def test_examples_count_as_relevant() -> None:
    """The links of an example come first, though the judge thinks little of it."""
    analysed = make_analysed([[2], [3], [], []])
    judge = np.array([0.4, 0.0, 0.0, 0.0])
    assert simulate(analysed, "best-first", (0, 1), judge).pages.tolist() == [0, 1, 2, 3]
    assert simulate(analysed, "best-first", (0, 1), judge, examples=(1,)).pages.tolist() == [0, 1, 3, 2]


def test_a_learner_may_change_the_judge() -> None:
    """From the page on at which a new judge comes, it judges."""
    analysed = make_analysed([[1, 2], [3], [4], [], []])
    told: list[tuple[int, float]] = []

    def learn(page: int, judgement: Judgement | None) -> None:
        assert judgement is not None
        told.append((page, judgement.relevance))
        simulation.judge = np.full(5, 0.75)

    simulation = Simulation(Answers(analysed), settings_for("breadth-first"), (0,), np.full(5, 0.25), on_page=learn)
    simulation.run()
    assert told == [(0, 0.25), (1, 0.75), (2, 0.75), (3, 0.75), (4, 0.75)]


RELEVANCES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


@settings(max_examples=60)
@given(webs, st.sampled_from(["best-first", "breadth-first", "focus", "bingo", "oasis"]), st.integers(1, 9), st.data())
def test_re_judging_by_the_same_judge_changes_nothing(
    links: list[list[int]], strategy: str, after: int, data: st.DataObject
) -> None:
    """A strategy that is shown everything again after some pages goes on as if nothing had happened."""
    judge = np.array(data.draw(st.lists(RELEVANCES, min_size=len(links), max_size=len(links))))
    analysed, pages = make_analysed(links), list[int]()

    def rejudge(page: int, _: Judgement | None) -> None:
        pages.append(page)
        if len(pages) == after:
            simulation.rejudge(judge)

    simulation = Simulation(Answers(analysed), settings_for(strategy), (0,), judge, on_page=rejudge)
    assert simulation.run().pages.tolist() == simulate(analysed, strategy, judge=judge).pages.tolist()


@pytest.mark.parametrize("strategy", ["best-first", "focus", "bingo", "oasis", "shark-search", "evidence"])
def test_the_order_follows_new_judgements(strategy: str) -> None:
    """When pages are re-judged, the links of the page that turns out relevant come before those of the other."""
    analysed = make_analysed([[1, 2], [3, 4], [5, 6], [], [], [], []])

    def learn(page: int, _: Judgement | None) -> None:
        if page == 2:
            simulation.rejudge(np.array([0.6, 0.1, 0.9, 0.0, 0.0, 0.0, 0.0]))

    before = np.array([0.6, 0.9, 0.1, 0.0, 0.0, 0.0, 0.0])
    simulation = Simulation(Answers(analysed), settings_for("breadth-first"), (0,), before, on_page=learn)
    simulation.settings = settings_for(strategy)  # the first three pages in a fixed order, then by this strategy
    assert set(simulation.run().pages.tolist()[3:5]) == {5, 6}


def test_an_order_in_sql_is_refused() -> None:
    """There is no database to ask; the error says what to do instead."""
    with pytest.raises(InputError, match="SQL"):
        simulate(make_analysed([[]]), "sql", frontier__order_by="relevance desc")


_PROGRAM = """
import sys; sys.path.insert(0, {tests!r})
import hashlib, numpy as np
from evaluate_standin import make_analysed
from opilio.lab.experiments.simulate import Answers
from opilio.lab.experiments.simulate import Simulation
from opilio.settings import Settings, override
rng = np.random.default_rng(3)
analysed = make_analysed(rng.integers(0, 200, (200, 6)).tolist(), hosts=9)
changes = {{"frontier.strategy": "bfs16", "run.seed": {seed}, "frontier.max_queued": 50}}
crawl = Simulation(Answers(analysed), override(Settings(), changes), (0, 1), rng.random(200)).run()
print(hashlib.sha256(crawl.to_bytes()).hexdigest())
"""


def test_the_same_crawl_in_every_process() -> None:
    """Two processes that hash strings differently make the same crawl, bit for bit; another seed makes another."""

    def run(hash_seed: str, seed: int) -> str:
        program = _PROGRAM.format(tests=str(Path(__file__).parent), seed=seed)
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        )
        return done.stdout.decode()

    first, second, other = run("1", 0), run("2", 0), run("1", 5)
    assert first == second != other


def test_many_crawls_in_processes() -> None:
    """Processes give the same results in the same order as one process does, and what a job raises is raised."""
    answers = Answers(make_analysed(np.random.default_rng(1).integers(0, 50, (50, 3)).tolist()))
    jobs = [
        lambda seed=seed: Simulation(answers, settings_for("breadth-first"), (seed,)).run().to_bytes()
        for seed in range(5)
    ]
    assert list(run_all(jobs, 2)) == list(run_all(jobs, 1))
    with pytest.raises(ZeroDivisionError):
        list(run_all([lambda: 1 / 0, lambda: 1], 2))


@pytest.mark.parametrize("strategy", ["breadth-first", "best-first", "bfs4"])
def test_a_simulation_goes_where_a_real_crawl_goes(tmp_path: Path, strategy: str) -> None:
    """Engine, worker and database on the same recorded web visit the same pages in the same order."""
    rng = np.random.default_rng(4)
    pages = []
    for page in range(40):
        links = "".join(f'<a href="/{link}">to {link}</a> ' for link in rng.integers(0, 45, 4))
        words = " ".join(rng.choice(["bird", "car", "tree"], 20)) + f" number{page}"
        pages.append({"url": f"http://site.test/{page}", "html": f"<body><p>{words}</p>{links}</body>", "topics": []})
    (tmp_path / "pages.jsonl").write_text("\n".join(map(json.dumps, pages)))
    web = record(tmp_path / "web", [tmp_path / "pages.jsonl"]).web
    changes = {
        "frontier.strategy": strategy, "fetch.in_flight": 1, "fetch.host_delay_s": 0.0, "classify.classifier": "keywords",
        "duplicates.ip_path": "off", "duplicates.ip_size": "off",
    }  # fmt: skip
    (tmp_path / "seeds.txt").write_text("http://site.test/0\n")
    real = Collection.create(tmp_path / "real", seeds=tmp_path / "seeds.txt", query="bird", settings=changes)
    real.crawl(transport=RecordedTransport(web))
    visited = real.sql(
        "SELECT url FROM visits JOIN crawl USING (oid) WHERE visits.outcome = 'ok' ORDER BY visits.rowid"
    )
    judge = PageJudge(Model(0, "keywords", KeywordJudge({0: "bird"})).to_bytes(), real.settings.classify)
    simulation = Simulation(Answers(analyse(web)), real.settings, (web.number("http://site.test/0"),), judge)
    assert [web.urls[page] for page in simulation.run().pages] == [url for (url,) in visited.rows]
    assert len(visited.rows) > 30
