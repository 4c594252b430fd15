"""Which pages a crawl may learn from: the rule of BINGO 3.2 against brute force."""

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetch_servers import WebServer
from learn_webs import OwlWeb
from opilio import Collection, learn
from opilio.classify import CLASSIFIERS, Model, TrainingSet
from opilio.distill import distill
from opilio.errors import InputError
from opilio.learn.archetypes import Archetype, TopicSurvey, merge_ranks
from opilio.learn.guard import confidences, split
from opilio.learn.training_data import fingerprint
from opilio.settings import LearnSettings, override
from opilio.store import Store


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Owls by six examples, and the pages around them: about owls, about owls and rivers, about neither."""
    folder = tmp_path_factory.mktemp("owls")
    web = OwlWeb()
    examples = web.add("owl", 6, owl=0.3)
    web.add("more", 12, owl=0.5)
    web.add("mixed", 8, owl=0.2, river=0.2)
    web.add("river", 8, river=0.4)
    with WebServer(web.routes()) as server:
        collection = web.collection(
            server, folder / "c", web.taxonomy(folder, {"Owls": examples}), classify__classifier="bayes"
        )
        collection.crawl()
    return collection


@pytest.fixture
def store(crawled: Collection, tmp_path: Path) -> Iterator[Store]:
    """A copy of its database, to change."""
    (tmp_path / "collection.duckdb").write_bytes((crawled.folder / "collection.duckdb").read_bytes())
    with Store.open(tmp_path) as opened:
        yield opened


def pages(values: list[float]) -> tuple[Archetype, ...]:
    return tuple(Archetype(1, oid, f"http://a.test/{oid}", "", value) for oid, value in enumerate(values))


NUMBERS = st.lists(st.floats(-5, 5, allow_nan=False), max_size=12)


@given(NUMBERS, NUMBERS, st.floats(-5, 5), st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_the_rule(
    candidates: list[float], current: list[float], mean: float, authorities: int, confident: int, above: bool
) -> None:
    """Only what is above the mean joins, at most min(N_auth, N_conf), in the order of the candidates; archetypes below
    the mean leave, and nobody else; without the rule all may join, and those leave that their topic does not take."""
    about = TopicSurvey(mean, pages(candidates), pages(current))
    joining, leaving = about.choose(LearnSettings(authorities=authorities, confident=confident, above_mean=above))
    allowed = [oid for oid, value in enumerate(candidates) if not above or value > mean]
    assert [page.oid for page in joining] == allowed[: min(authorities, confident)]
    limit = mean if above else 0.0
    assert {page.oid for page in leaving} == {
        oid for oid, value in enumerate(current) if value < limit or (not above and value == 0)
    }


@given(st.lists(st.integers(0, 9), unique=True, max_size=8), st.lists(st.integers(0, 9), unique=True, max_size=8))
def test_two_ranks_become_one(authorities: list[int], confident: list[int]) -> None:
    """By the sum of places, counted by hand; every candidate once; who leads both lists leads."""
    by_oid = {oid: Archetype(1, oid, "", "", float(oid)) for oid in range(10)}
    merged = [
        page.oid for page in merge_ranks([by_oid[oid] for oid in authorities], [by_oid[oid] for oid in confident])
    ]
    assert sorted(merged) == sorted({*authorities, *confident})

    def cost(oid: int) -> int:
        return sum(ranked.index(oid) if oid in ranked else len(ranked) for ranked in (authorities, confident))

    costs = [cost(oid) for oid in merged]
    assert costs == sorted(costs)
    if authorities and confident and authorities[0] == confident[0]:
        assert merged[0] == authorities[0]


@pytest.mark.parametrize("method", ["weighted", "hits", "focus"])
def test_a_survey_by_brute_force(crawled: Collection, method: str) -> None:
    """The candidates are the best authorities by the method of the collection, and the most confident pages that the
    newest model accepts, training documents excepted; the mean is that of the documents, each judged by a model trained
    here without its fold."""
    changes = {"learn.authorities": 4, "learn.confident": 6, "frontier.distill_method": method}
    settings = override(crawled.settings, changes)
    with Store.open(crawled.folder, read_only=True) as opened:
        about = learn.survey(opened, settings).topics[1]
        training = learn.gather(opened, settings)
        scores = distill(opened, 1, method).top_authorities(1000)
        rows = opened.query(
            "SELECT oid, j.confidence FROM judgements j JOIN pages USING (oid, model_version) JOIN crawl USING (oid) "
            "WHERE j.accepted AND j.kcid = 1 AND url NOT IN (SELECT name FROM training)"
        ).rows
    assert len(rows) > 12
    stored = dict(rows)
    by_confidence = sorted(stored, key=lambda oid: (-stored[oid], oid))[:6]
    by_authority = [page.oid for page in scores if page.oid in stored][:4]
    assert {page.oid for page in about.candidates} == {*by_confidence, *by_authority}
    assert all(page.confidence == stored[page.oid] for page in about.candidates)
    found = {page.oid: page.score for page in scores}
    assert [page.authority for page in about.candidates] == [found.get(page.oid, 0.0) for page in about.candidates]
    assert about.mean == pytest.approx(statistics.fmean(unseen_confidences(training, crawled)), abs=1e-6)
    assert about.archetypes == ()


def unseen_confidences(training: TrainingSet, crawled: Collection) -> list[float]:
    """What a judge says of each example that was trained without every third one, among which it is."""
    found = []
    for fold in range(3):
        kept = [example for place, example in enumerate(training.examples) if place % 3 != fold]
        rest = TrainingSet(
            training.hierarchy, tuple(kept), training.others, training.document_frequencies, training.documents,
            training.terms, training.keywords,
        )  # fmt: skip
        judge = CLASSIFIERS.get(crawled.settings.classify.classifier).train(rest, crawled.settings)
        for example in training.examples[fold::3]:
            judgement = judge.judge(example.item)
            found.append(judgement.confidence if judgement.topic == 1 else min(0.0, judgement.confidence))
    return found


def test_a_document_is_less_sure_when_it_was_not_learned_from(crawled: Collection) -> None:
    """The reason for keeping documents aside: judged by the model that learned them, they are surer than as pages."""
    with Store.open(crawled.folder, read_only=True) as opened:
        training, model = learn.gather(opened, crawled.settings), opened.load_model()
    unseen = [value for value in confidences(training, crawled.settings, model) if value is not None]
    seen = [Model.from_bytes(model).judge(example.item).confidence for example in training.examples]
    assert statistics.fmean(unseen) < statistics.fmean(seen)


def test_folds_leave_every_topic_something(crawled: Collection) -> None:
    """Each document is in one fold, but the only one of a topic in none."""
    with Store.open(crawled.folder, read_only=True) as opened:
        training = learn.gather(opened, crawled.settings)
    folds = list(split(training.examples, training.others))
    assert sorted(e.name for fold in folds for e in fold) == sorted(e.name for e in training)
    assert all(set(training.examples) - set(fold) for fold in folds)
    assert list(split(training.examples[:1])) == []


def test_a_round_is_written_as_it_was_foretold(crawled: Collection, store: Store) -> None:
    """The fingerprint taken before is that of the training set after, so no crawl trains again because of it; what the
    user gave stays; a page that the user rejected meanwhile is not added."""
    settings = override(crawled.settings, {"learn.above_mean": False, "learn.authorities": 5})
    surveyed = learn.survey(store, settings)
    changes = surveyed.choose(settings.learn)
    assert len(changes.added) == 5
    before = store.query("SELECT name FROM training ORDER BY rowid").rows
    learn.write_round(store, changes)
    assert fingerprint(store, settings) == surveyed.fingerprint(changes, settings)
    again = learn.survey(store, settings)
    assert {page.url for page in again.topics[1].archetypes} == {page.url for page in changes.added}
    back = learn.Round(removed=again.topics[1].archetypes)
    foretold = again.fingerprint(back, settings)
    learn.reject_archetype(store, "Owls", changes.added[0].url)
    learn.write_round(store, back)
    left = store.query("SELECT name, source FROM training ORDER BY rowid").rows
    assert [(name,) for name, source in left if source != "rejected"] == before
    assert [name for name, source in left if source == "rejected"] == [changes.added[0].url]
    learn.write_round(store, changes)
    names = [name for (name,) in store.query("SELECT name FROM training WHERE positive").rows]
    assert changes.added[0].url not in names
    assert len(names) == 6 + 4
    assert foretold != fingerprint(store, settings)


def test_what_was_rejected_is_never_proposed_again(crawled: Collection, store: Store) -> None:
    """Nor is anything else that is learned from, as an example or a counter-example, of whatever topic."""
    first = learn.survey(store, crawled.settings).topics[1].candidates[0]
    learn.reject_archetype(store, "Owls", first.url)
    again = learn.survey(store, crawled.settings).topics[1]
    assert first.oid not in {page.oid for page in again.candidates}
    assert store.query("SELECT positive, source FROM training WHERE name = ?", [first.url]).rows == [
        (False, "rejected")
    ]


def test_confirmed_and_trimmed_pages_are_the_users(crawled: Collection, store: Store) -> None:
    """Confirmed, an archetype is in no list of archetypes; trimmed, only its part is learned from, and the page is still
    an example of its topic; words that are not on the page are refused."""
    settings = override(crawled.settings, {"learn.above_mean": False})
    changes = learn.survey(store, settings).choose(settings.learn)
    learn.write_round(store, changes)
    first, second = changes.added[:2]
    told = fingerprint(store, settings)
    learn.confirm_archetype(store, "Owls", first.url)
    assert fingerprint(store, settings) == told, "another model would be the same"
    words = learn.page_text(store, second.url)["text"].split()
    learn.trim_example(store, "Owls", second.url, " ".join(words[3:9]))
    assert fingerprint(store, settings) != told
    about = learn.survey(store, settings).topics[1]
    assert not {first.url, second.url} & {page.url for page in about.archetypes}
    [example] = [one for one in learn.gather(store, settings).examples if one.name == second.url]
    assert example.item.text == " ".join(words[3:9])
    [record] = [one for one in store.load_training() if one.name == second.url]
    assert (record.oid, record.source) == (second.oid, "confirmed")
    for wrong in ("zyzzyva", "  "):
        with pytest.raises(InputError):
            learn.trim_example(store, "Owls", second.url, wrong)
    given_url = next(one.name for one in store.load_training() if one.source not in ("archetype", "confirmed"))
    with pytest.raises(InputError, match="that you gave"):
        learn.reject_archetype(store, "Owls", given_url)


def test_previews_show_the_topic(crawled: Collection) -> None:
    """Archetypes and candidates come with a passage of the page that has words of the topic in it."""
    with Store.open(crawled.folder, read_only=True) as opened:
        found = learn.list_archetypes(opened, crawled.settings, "Owls")
        with pytest.raises(InputError):
            learn.list_archetypes(opened, crawled.settings, "Owl")
    assert {page["state"] for page in found} <= {"archetype", "next", "candidate"}
    shown = [page for page in found if "/more/" in page["url"]]
    assert shown
    for page in shown:
        assert set(page["preview"].split()) & {"owl", "barn", "vole", "talon", "nest", "hoot", "prey", "wing", "beak"}


def test_a_page_stuffed_with_keywords_teaches_nothing(crawled: Collection, store: Store) -> None:
    """The best candidate, once a few of its words make up most of it, is listed as stuffed and is no candidate any more;
    it is not among the pages met either. All other candidates stay."""
    before = learn.survey(store, crawled.settings)
    first = before.topics[1].candidates[0]
    assert not before.topics[1].stuffed
    store.query("UPDATE terms SET freq = 400 WHERE oid = ? AND tid IN (SELECT min(tid) FROM terms WHERE oid = ?)",
                [first.oid, first.oid], write=True)  # fmt: skip
    after = learn.survey(store, crawled.settings)
    assert [page.oid for page in after.topics[1].stuffed] == [first.oid]
    left = [page.oid for page in before.topics[1].candidates if page.oid != first.oid]
    assert {page.oid for page in after.topics[1].candidates} >= {*left} - {first.oid}
    assert first.oid not in {page.oid for page in after.topics[1].candidates}
    settings = override(crawled.settings, {"classify.classifier": "svm", "classify.calibrate": True})
    met = learn.with_crawled_pages(store, settings, learn.gather(store, settings)).met
    assert met and first.url not in {example.name for example in met}
    listed = {page["state"] for page in learn.list_archetypes(store, crawled.settings)}
    assert "stuffed" in listed
