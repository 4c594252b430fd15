"""The assisted review: groups, samples, the rule of 75 %, estimates with intervals, and what is kept of it."""

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, hypergeom

from made_crawls import COOKING, GARDENING, MadeCrawl
from opilio.errors import InputError
from opilio.search import review
from opilio.search.review import (
    ShareInterval,
    Stratum,
    decision_on,
    estimate,
    learn_review,
    next_page,
    recall,
    wilson,
    z_of,
)
from opilio.store import Store
from opilio.store.reviews import ReviewGroup

TOPIC = "Gardening"

# -- intervals


@given(st.integers(1, 400), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_is_what_scipy_says(judged: int, data: st.DataObject, level: float) -> None:
    """The interval of one share, for any count and level."""
    yes = data.draw(st.integers(0, judged))
    expected = binomtest(yes, judged).proportion_ci(level, method="wilson")
    assert wilson(yes / judged, judged, z_of(level)) == pytest.approx((expected.low, expected.high), abs=1e-9)


STRATA = st.lists(
    st.integers(1, 500).flatmap(
        lambda pages: st.integers(1, pages).flatmap(
            lambda judged: st.builds(Stratum, st.just(pages), st.just(judged), st.integers(0, judged))
        )
    ),
    min_size=1,
    max_size=6,
)


@given(STRATA)
def test_an_interval_holds_the_estimate_and_all_that_is_known(strata: list[Stratum]) -> None:
    """The estimate is the weighted mean; the interval lies between what was found and what can still be."""
    found = estimate(strata)
    assert found is not None
    pages = sum(s.pages for s in strata)
    assert found.value == pytest.approx(sum(s.pages * s.relevant / s.judged for s in strata) / pages)
    assert found.low <= found.value <= found.high
    assert found.low * pages >= sum(s.relevant for s in strata) - 1e-6
    assert (1 - found.high) * pages >= sum(s.judged - s.relevant for s in strata) - 1e-6
    if all(s.judged == s.pages for s in strata):
        assert found.low == pytest.approx(found.high)


def test_one_group_of_many_pages_has_the_interval_of_wilson() -> None:
    """With one group and a population without end, stratifying changes nothing."""
    found = estimate([Stratum(10**9, 40, 31)])
    expected = binomtest(31, 40).proportion_ci(0.95, method="wilson")
    assert found is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-6)


@settings(max_examples=12)
@given(st.lists(st.tuples(st.integers(60, 200), st.floats(0.05, 0.95)), min_size=1, max_size=2))
def test_intervals_cover_the_truth_as_often_as_they_promise(groups: list[tuple[int, float]]) -> None:
    """Over all samples that can be drawn, each with its chance, 95 % intervals hold the true share nearly always."""
    truths = [round(pages * share) for pages, share in groups]
    truth = sum(truths) / sum(pages for pages, _ in groups)
    drawn = []
    for (pages, _), relevant in zip(groups, truths, strict=True):
        judged = math.ceil(0.2 * pages)
        chances = hypergeom(pages, relevant, judged).pmf(range(judged + 1))
        drawn.append([(Stratum(pages, judged, yes), chance) for yes, chance in enumerate(chances) if chance > 1e-9])
    held = 0.0
    for samples in itertools.product(*drawn):
        found = estimate([stratum for stratum, _ in samples])
        assert found is not None
        held += math.prod(chance for _, chance in samples) * (found.low <= truth <= found.high)
    assert held > 0.9


def test_nothing_is_claimed_before_every_group_was_looked_at() -> None:
    """No estimate without a sample of each group, and none of nothing."""
    assert estimate([Stratum(10, 2, 1), Stratum(5, 0, 0)]) is None
    assert estimate([]) is None


def test_recall_is_exact_when_all_is_known() -> None:
    """90 relevant of 100 taken, 30 of 300 left: three quarters were found."""
    found = recall((100, ShareInterval(0.9, 0.9, 0.9)), (300, ShareInterval(0.1, 0.1, 0.1)))
    assert (found.value, found.low, found.high) == pytest.approx((0.75, 0.75, 0.75))


# -- groups


@pytest.mark.parametrize(
    ("yes", "no", "decision"), [(3, 1, "refused"), (4, 1, "kept"), (0, 4, "refused"), (2, 0, "open"), (0, 0, "open")]
)
def test_a_group_is_kept_when_more_than_three_quarters_are_relevant(yes: int, no: int, decision: str) -> None:
    """OASIS 4.7: exactly 75 % is not more than 75 %, and nothing is decided before the sample is judged."""
    assert decision_on(ReviewGroup("doubtful", "terms", "", 20, yes, no, 0, 0, None, None)) == decision


def test_skipped_pages_come_last_and_a_judged_group_is_left() -> None:
    """The order of a review: fresh pages group by group, then those that were skipped."""
    done = ReviewGroup("doubtful", "a", "", 10, 2, 0, 0, 0, 7, None)
    skipped = ReviewGroup("doubtful", "b", "", 10, 1, 0, 0, 1, 8, 9)
    fresh = ReviewGroup("undoubted", "", "", 10, 0, 0, 0, 0, 5, None)
    assert next_page([done, skipped, fresh]) == (5, fresh)
    assert next_page([done, skipped]) == (9, skipped)
    assert next_page([done]) is None


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Gardening: 40 undoubted pages; 30 by terms, of them 20 in one directory; 60 pages elsewhere."""
    crawl = MadeCrawl()
    crawl.add(40, kcid=GARDENING, relevance=0.9, text="soil seed", host=0)
    crawl.add(30, kcid=GARDENING, relevance=0.6, text="flower bed", host=1)
    crawl.add(60, kcid=COOKING, relevance=0.0, text="oven flour", host=2)
    with Store.create(tmp_path / "c") as store:
        crawl.fill(store)
        said = [
            {
                "oid": oid, "model_version": 1, "kcid": GARDENING, "accepted": True, "relevance": 0.9,
                "confidence": 1.0, "undoubted": oid < 40, "agreed": ["terms", "pairs"] if oid < 40 else ["terms"],
            }
            for oid in range(70)
        ]  # fmt: skip
        with store.writing() as to:
            to.register("incoming", pa.Table.from_pylist(said))
            to.execute("INSERT INTO judgements BY NAME FROM incoming")
            to.execute(
                "UPDATE crawl SET url = 'http://h1.org/dir' || (oid - 60) || '/page' WHERE oid BETWEEN 60 AND 69"
            )
    yield tmp_path / "c"


def judge_all(store: Store, truth: dict[str, str]) -> dict[str, Any]:
    """Judge what is asked for, by the beginning of the group's name; the state at the end."""
    while (state := review.review_state(store, TOPIC))["next"] is not None:
        kind = state["next"]["group"]["name"]
        review.judge(store, TOPIC, state["next"]["url"], next(v for k, v in truth.items() if kind.startswith(k)))
    return state


def test_pages_are_grouped_by_agreement_and_directory(folder: Path) -> None:
    """A directory of twenty has a group; ten of one page each share one; a fifth of each is the sample."""
    with Store.open(folder) as store:
        groups = {one["name"]: (one["pages"], one["sample"]) for one in review.review_state(store, TOPIC)["groups"]}
    assert groups == {
        "doubtful | terms | http://h1.org/": (20, 4),
        "doubtful | terms": (10, 2),
        "undoubted": (40, 8),
        "filtered | h2.org": (60, 12),
    }


def test_a_review_decides_by_the_rule_and_estimates(folder: Path) -> None:
    """The directory is good, the small ones are not: kept are 40 and 20 pages; recall is exact with nothing missed."""
    truth = {"doubtful | terms | ": "yes", "doubtful": "no", "undoubted": "yes", "filtered": "no"}
    with Store.open(folder) as store:
        state = judge_all(store, truth)
    known = state["estimates"]
    assert (state["judged"], state["left"], known["judged"], known["to_judge_without"]) == (26, 0, 6, 30)
    assert {one["name"]: one["decision"] for one in state["groups"]} == {
        "doubtful | terms | http://h1.org/": "kept", "doubtful | terms": "refused", "undoubted": "kept",
        "filtered | h2.org": "refused",
    }  # fmt: skip
    assert known["kept_pages"] == 60
    assert known["precision"]["value"] == pytest.approx(60 / 70, abs=1e-4)
    assert known["precision"]["low"] < 60 / 70 < known["precision"]["high"]
    assert known["recall"]["value"] == 1.0 > known["recall"]["low"]
    assert known["recall_by_rule"] == 1.0


def test_the_paper_counts_what_a_kept_group_of_left_pages_would_have_added(folder: Path) -> None:
    """When the pages left are relevant, all of their host counts as missed."""
    with Store.open(folder) as store:
        known = judge_all(store, {"": "yes"})["estimates"]
    assert known["recall"]["value"] == known["recall_by_rule"] == pytest.approx(70 / 130, abs=1e-4)


def test_unsure_is_replaced_undo_takes_back_and_all_of_it_is_kept(folder: Path) -> None:
    """Verdicts survive a restart; the latest counts; an unsure page makes room for the next of its group."""
    with Store.open(folder) as store:
        first = review.review_state(store, TOPIC)["next"]
        review.judge(store, TOPIC, first["url"], "unsure")
        second = review.review_state(store, TOPIC)["next"]
        assert second["url"] != first["url"] and second["group"]["sample"] == 4
        review.judge(store, TOPIC, second["url"], "yes")
        review.judge(store, TOPIC, second["url"], "no")
    with Store.open(folder) as store:
        state = review.review_state(store, TOPIC)
        assert (state["judged"], state["unsure"]) == (1, 1)
        listed = {one["url"]: one["verdict"] for one in review.list_verdicts(store, TOPIC)}
        assert listed == {first["url"]: "unsure", second["url"]: "no"}
        assert review.undo_verdict(store, TOPIC) == second["url"]
        assert review.list_verdicts(store, TOPIC)[-1]["verdict"] == "yes"
        assert review.review_state(store, TOPIC, first["url"])["next"]["url"] == first["url"]
        assert review.restart_review(store, TOPIC) == 2
        assert review.review_state(store, TOPIC)["judged"] == 0
        with pytest.raises(InputError, match="nothing was judged"):
            review.undo_verdict(store, TOPIC)
        with pytest.raises(InputError, match="no verdict"):
            review.judge(store, TOPIC, first["url"], "perhaps")


def kept_urls(store: Store, file: Path) -> set[str]:
    review.export_review(store, TOPIC, str(file))
    return {json.loads(line)["url"] for line in file.read_text().splitlines()}


def test_groups_are_kept_or_dropped_and_exported(folder: Path, tmp_path: Path) -> None:
    """By the rule, 40 undoubted pages and the 20 of a good directory are kept; the user can decide otherwise, and take
    that back. Of a dropped group the pages judged relevant stay, of a kept one those judged irrelevant go."""
    good, small = "doubtful | terms | http://h1.org/", "doubtful | terms"
    with Store.open(folder) as store:
        assert review.export_review(store, TOPIC, str(tmp_path / "a.csv")) == {"pages": 40, "open": 2}
        judge_all(store, {good: "yes", small: "no", "undoubted": "yes", "filtered": "no"})
        assert review.export_review(store, TOPIC, str(tmp_path / "b.parquet")) == {"pages": 60, "open": 0}
        judged = {one["url"]: one["verdict"] for one in review.list_verdicts(store, TOPIC)}
        by_rule = kept_urls(store, tmp_path / "c.jsonl")
        review.decide_group(store, TOPIC, good, "dropped")
        review.decide_group(store, TOPIC, small, "kept")
        state = review.review_state(store, TOPIC)
        decisions = {one["name"]: one["decision"] for one in state["groups"]}
        assert (decisions[good], decisions[small], state["estimates"]["kept_pages"]) == ("dropped", "kept", 40 + 4 + 8)
        kept = kept_urls(store, tmp_path / "c.jsonl")
        assert len(kept) == 40 + 4 + 8  # 4 of the dropped group were judged relevant, 2 of the kept one irrelevant
        assert {url for url, verdict in judged.items() if verdict == "yes"} <= kept
        assert not kept & {url for url, verdict in judged.items() if verdict == "no"}
        for group in (good, small):
            review.decide_group(store, TOPIC, group, "by rule")
        assert kept_urls(store, tmp_path / "c.jsonl") == by_rule
        review.decide_group(store, TOPIC, good, "dropped")
        review.restart_review(store, TOPIC)
        assert {one["decided"] for one in review.review_state(store, TOPIC)["groups"]} == {"by rule"}
        for wrong in ("filtered | h2.org", "no such group"):
            with pytest.raises(InputError, match="no group"):
                review.decide_group(store, TOPIC, wrong, "kept")
        with pytest.raises(InputError, match="no decision"):
            review.decide_group(store, TOPIC, good, "perhaps")


def test_nothing_more_is_asked_about_a_group_that_was_decided(folder: Path) -> None:
    """A decision ends the sample of its group."""
    with Store.open(folder) as store:
        before = review.review_state(store, TOPIC)
        review.decide_group(store, TOPIC, before["next"]["group"]["name"], "kept")
        after = review.review_state(store, TOPIC)
    assert after["left"] == before["left"] - 4
    assert after["next"]["group"]["name"] != before["next"]["group"]["name"]


def test_what_was_judged_becomes_examples_and_counter_examples(folder: Path) -> None:
    """Yes is an example of the topic, no a counter-example; unsure is neither."""
    with Store.open(folder) as store:
        for verdict in ("yes", "no", "unsure"):
            review.judge(store, TOPIC, review.review_state(store, TOPIC)["next"]["url"], verdict)
        said = {one["url"]: one["verdict"] == "yes" for one in review.list_verdicts(store, TOPIC)[:2]}
        assert learn_review(store, TOPIC) == {"yes": 1, "no": 1}
        taught = {r.name: (r.kcid, r.positive) for r in store.load_training()}
    assert taught == {url: (GARDENING, positive) for url, positive in said.items()}
