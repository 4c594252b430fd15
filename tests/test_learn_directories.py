"""The directory metric of `oasis`: shared by a whole crawl, and applied to pages that came before it was known."""

from pathlib import Path
from typing import Any

import pytest

from learn_webs import OwlWeb, text
from opilio import Collection
from opilio.errors import SettingsError
from opilio.learn import directories
from opilio.learn.directories import RelevantDirectories, directory_of
from opilio.learn.training_state import check_settings
from opilio.model import Judgement
from opilio.settings import Settings, from_table
from webs import Page, Web

RELEVANT = Judgement(3, accepted=True, relevance=0.8, votes={"terms": 1.2}, agreed=["terms"], model_version=1)
REFUSED = Judgement(0, relevance=0.2, votes={"terms": 0.4}, model_version=1)


def test_directory_speaks_only_when_nothing_else_does() -> None:
    """After a relevant page, others of its directory are relevant, not undoubted; deeper and other directories not."""
    known = RelevantDirectories()
    assert known.judge("http://a.test/x/1.html", REFUSED) == REFUSED
    assert known.judge("http://a.test/x/2.html?q=/y/", RELEVANT) == RELEVANT
    found = known.judge("http://a.test/x/1.html", REFUSED)
    assert (found.topic, found.accepted, found.relevance, found.undoubted) == (3, True, 0.5, False)
    assert (found.agreed, found.votes) == (["directory"], {"terms": 0.4, "directory": 1.0})
    for elsewhere in ("http://a.test/x/y/1.html", "http://a.test/", "http://b.test/x/1.html"):
        assert known.judge(elsewhere, REFUSED) == REFUSED
    assert known.judge("http://a.test/x/3.html", RELEVANT) == RELEVANT
    assert known.take_new() == {"http://a.test/x/": 3}
    assert not known.has_new


def test_only_pages_recognised_by_other_metrics_vouch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a page that the words of the topics took before there was a model; and memory is bounded."""
    monkeypatch.setattr(directories, "MAX_DIRECTORIES", 3)
    known = RelevantDirectories({"http://a.test/0/": 3})
    by_directory = known.judge("http://a.test/0/1", REFUSED)
    assert known.judge("http://a.test/9/", by_directory) == by_directory
    assert known.judge("http://a.test/9/1", REFUSED) == REFUSED
    by_words = Judgement(3, accepted=True, relevance=0.9, agreed=["keywords"])
    assert known.judge("http://a.test/8/", by_words) == by_words
    assert known.judge("http://a.test/8/1", REFUSED) == REFUSED
    for number in (1, 2, 0, 3):  # 0 is used again, so 1 is the oldest
        known.judge(f"http://a.test/{number}/", RELEVANT)
    assert [known.judge(f"http://a.test/{n}/z", REFUSED).accepted for n in range(4)] == [True, False, True, True]


@pytest.mark.parametrize(
    ("url", "directory"),
    [
        ("http://a.test/", "http://a.test/"),
        ("http://a.test/x/y.html", "http://a.test/x/"),
        ("http://a.test/x/?p=/q/r", "http://a.test/x/"),
        ("http://a.test", "http://a.test/"),
        ("file", "file/"),
    ],
)
def test_directory_of(url: str, directory: str) -> None:
    """A directory ends at the last slash of the path; a host alone is its own."""
    assert directory_of(url) == directory


@pytest.mark.parametrize(
    ("changes", "used"),
    [
        ({"classifier": "oasis"}, True),
        ({"classifier": "svm"}, False),
        ({"classifier": "oasis", "only_undoubted": True}, False),
    ],
)
def test_when_it_is_used(changes: dict[str, Any], used: bool) -> None:
    """With `oasis`, unless only undoubted pages are accepted or the settings say otherwise."""
    assert directories.uses_directories(from_table({"classify": changes}, "test")) == used
    assert not directories.uses_directories(from_table({"classify": changes, "oasis": {"directories": False}}, "test"))
    assert not directories.uses_directories(Settings())


def mixed_web() -> Web:
    """Owl pages in /core/; in /mixed/ one owl page that is found late; in /casino/ none."""
    pages = [Page(text(n, owl=0.6), title="owls", url=f"http://a.test/core/{n}.html") for n in range(12)]
    dull = [Page(text(100 + n, casino=0.6), url=f"http://b.test/mixed/{n}.html") for n in range(4)]
    away = [Page(text(200 + n, casino=0.6), url=f"http://b.test/casino/{n}.html") for n in range(4)]
    late = Page(text(3, owl=0.6), url="http://b.test/mixed/owl.html", links=((22, "more"), (23, "more")))
    more = [Page(text(300 + n, river=0.6), url=f"http://b.test/mixed/more{n}.html") for n in range(2)]
    first = tuple((n, "page") for n in range(12, 20))
    pages[0] = Page(pages[0].text, "owls", pages[0].url, links=(*first, (21, "step")))
    step = Page(text(400, river=0.5), url="http://b.test/step/1.html", links=((20, "owls"),))
    return Web([*pages, *dull, *away, late, step, *more])


def accepted_by_directory(collection: Collection) -> set[str]:
    sql = "SELECT url FROM collection WHERE relevance = 0.5 AND NOT undoubted"
    return {url.removeprefix("http://b.test/") for (url,) in collection.sql(sql).rows}


def test_a_crawl_shares_directories_and_rejudges(tmp_path: Path) -> None:
    """Pages judged before and after the relevant one of their directory are accepted; also by the next run, and after
    another training. The settings can leave the metric out."""
    web = mixed_web()
    topics = OwlWeb().taxonomy(tmp_path, {"Owls": []})
    urls = "\n".join(f"      - {web.url(n)}" for n in range(12))
    topics.write_text(f"topics:\n  Owls:\n    good: true\n    examples:\n{urls}\n")
    with web.served() as server:
        settings: dict[str, Any] = {"fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0}
        settings |= {"run.workers": 2, "classify.classifier": "oasis", "frontier.strategy": "breadth-first"}
        settings |= {"learn.mined_negatives": 0, "duplicates.near_jaccard": 0.0, "oasis.core_share": 1.0}
        collection = Collection.create(tmp_path / "c", topics=topics, settings=settings)
        collection.crawl(settings={"limits.max_pages": 22})
        early = {f"mixed/{n}.html" for n in range(4)}
        assert accepted_by_directory(collection) == early
        collection.crawl(settings={"limits.max_pages": 0})
        everything = early | {"mixed/more0.html", "mixed/more1.html"}
        assert accepted_by_directory(collection) == everything
        explained = collection.explain("http://b.test/mixed/1.html")
        assert (explained["judgement"]["accepted"], explained["judgement"]["agreed"]) == (True, ["directory"])
        collection.train()
        assert accepted_by_directory(collection) == everything
        collection.change_settings({"oasis.directories": False})
        collection.train()
        assert accepted_by_directory(collection) == set()
        collection.change_settings(
            {"oasis.directories": True, "classify.only_undoubted": True, "oasis.core_share": 0.65}
        )
        collection.train()
        given = {web.url(n) for n in range(12)}  # examples are relevant, whatever a model says
        accepted = dict(collection.sql("SELECT url, undoubted FROM collection WHERE relevance >= 0.5").rows)
        assert accepted and given <= accepted.keys()
        assert all(undoubted for url, undoubted in accepted.items() if url not in given)


@pytest.mark.parametrize(
    "changes", [{"classifier": "bayes"}, {"classifier": "keywords"}, {"classifier": "svm", "spaces": ["terms"]}]
)
def test_unattended_needs_two_voices(changes: dict[str, Any]) -> None:
    """Where nothing can agree with anything, no page would be accepted: that is refused before anything is fetched."""
    settings = from_table({"classify": {**changes, "only_undoubted": True}}, "test")
    with pytest.raises(SettingsError, match="only_undoubted"):
        check_settings(settings)
    check_settings(from_table({"classify": {"only_undoubted": True}}, "test"))
