"""`opilio topics` and `opilio explain`, as a user calls them."""

import html
import json
import re
import shutil
from pathlib import Path

import pytest

from command_line import call
from conftest import MakeTaught
from opilio import Collection
from opilio.lab.local_web import LocalServer
from running_crawls import running

TOPICS = ["cryptography", "statistics"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, small_server: LocalServer) -> Path:
    """A collection of two topics, crawled."""
    place = tmp_path_factory.mktemp("teach")
    bookmarks = place / "bookmarks.html"
    bookmarks.write_text(small_server.web.bookmarks(TOPICS), encoding="utf-8")
    settings = {"fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "limits.max_pages": 60}
    settings |= {"run.workers": -1, "learn.mined_negatives": 0, "classify.calibrate": False}
    Collection.create(place / "c", bookmarks=bookmarks, settings=settings).crawl()
    return place / "c"


def test_topics_are_listed(folder: Path) -> None:
    """The tree with its marks and figures, as a table and as JSON."""
    shown = call("topics", "list", str(folder))
    assert shown.returncode == 0, shown.stderr
    assert "cryptography" in shown.stdout
    rows = {row["topic"]: row for row in json.loads(call("topics", "list", str(folder), "--json").stdout)}
    assert {name: rows[name]["mark"] for name in ("bookmarks", *TOPICS)} == {
        "bookmarks": "path", "cryptography": "good", "statistics": "good",
    }  # fmt: skip
    assert rows["statistics"]["examples"] == 5
    assert rows["statistics"]["relevant"] >= 5


def test_teaching_by_command(folder: Path, tmp_path: Path) -> None:
    """Add, train, mark, drop: each says what it did; a wrong name gives one line and the next step."""
    file = tmp_path / "made.txt"
    file.write_text("The median of a sample is the value in the middle. " * 10)
    added = call("topics", "add", str(folder), "statistics", str(file))
    assert added.returncode == 0, added.stderr
    assert "made.txt" in added.stdout
    assert added.stdout.endswith(f"to learn this now: opilio topics train {folder}\n")
    assert "model 2 trained" in call("topics", "train", str(folder)).stdout
    assert "cryptography" in call("topics", "mark", str(folder), "cryptography", "null").stdout
    assert call("topics", "mark", str(folder), "cryptography", "good").returncode == 0
    dropped = call("topics", "drop", str(folder), "statistics", str(file))
    assert dropped.returncode == 0, dropped.stderr
    for wrong in (("mark", str(folder), "statistic", "good"), ("add", str(folder), "statistics", "/no/such/file")):
        refused = call("topics", *wrong)
        assert refused.returncode == 1
        assert "hint: " in refused.stderr
        assert "Traceback" not in refused.stderr


def test_nothing_is_advised_that_a_running_crawl_does_by_itself(make_taught: MakeTaught) -> None:
    """While a crawl runs, `topics add` and `feedback` say that it learns; the status counts requests in good English."""
    collection = make_taught(fetch__host_delay_s=0.3, limits__max_pages=0)
    with running(collection, pages=5) as (other, _):
        folder = str(other.folder)
        added = call("topics", "add", folder, "statistics", "text:" + "The median of a sample. " * 10)
        assert added.stdout.endswith("the running crawl learns this by itself\n"), added.stderr
        assert "topics train" not in added.stdout
        [[url]] = other.sql("SELECT url FROM collection LIMIT 1").rows
        said = call("feedback", folder, url, "irrelevant")
        assert said.stdout.endswith("the running crawl learns this by itself\n"), said.stderr
        assert re.search(r" (1 request|(0|[2-9]|[1-9]\d+) requests) under way", call("status", folder).stdout)


def test_a_good_topic_below_a_good_one(folder: Path) -> None:
    """The last good topic cannot be unmarked, and the root cannot be good: both are said plainly."""
    refused = call("topics", "mark", str(folder), "/", "good")
    assert refused.returncode == 1
    assert "root" in refused.stderr


def test_explain_shows_why(folder: Path) -> None:
    """Topic, confidence, votes with what is expected of them, terms for and against, and the way to the page."""
    url = "http://statistics.python.test/statistics/median_high.html"
    shown = call("explain", str(folder), url)
    assert shown.returncode == 0, shown.stderr
    assert "relevant" in shown.stdout
    assert "-> statistics" in shown.stdout
    assert "expected precision" in shown.stdout
    assert "median" in shown.stdout
    assert "how the crawl came to it" in shown.stdout
    told = json.loads(call("explain", str(folder), url, "--json").stdout)
    assert told["way"][-1]["url"] == url
    assert told["judgement"]["model_version"] >= 1
    assert {"terms", "pairs"} <= set(told["steps"][0]["votes"])


def test_explain_a_file(folder: Path, tmp_path: Path) -> None:
    """Any file is judged as a page would be; binary garbage and a page that is not stored are refused plainly."""
    known = "SELECT text FROM collection WHERE url = 'http://hashes.python.test/hashlib/'"
    ((text,),) = Collection(folder).sql(known).rows
    page = tmp_path / "page.html"
    page.write_text(f"<title>Hashing</title><p>{html.escape(text)}", encoding="utf-8")
    told = json.loads(call("explain", str(folder), str(page), "--json").stdout)
    assert told["title"] == "Hashing"
    assert told["judgement"]["topic"] == "cryptography"
    garbage = tmp_path / "garbage.txt"
    garbage.write_bytes(bytes(range(256)) * 100)
    for target in (str(garbage), "http://not.stored.test/", "not a url at all", str(tmp_path)):
        refused = call("explain", str(folder), target)
        assert refused.returncode == 1, target
        assert "hint: " in refused.stderr
        assert "Traceback" not in refused.stderr


def test_proposals_for_an_expert(folder: Path, tmp_path: Path) -> None:
    """A file to edit, in the form that `oasis.filter` reads."""
    file = tmp_path / "filter.toml"
    shown = call("topics", "propose", str(folder), str(file))
    assert shown.returncode == 0, shown.stderr
    assert '["statistics".terms]' in file.read_text()


def test_models_are_kept_compared_and_used_again(folder: Path, tmp_path: Path) -> None:
    """A worse model can be undone: its judgements are kept beside the older ones, which hold again afterwards."""
    collection = Collection(folder)
    first = collection.models()[0]["version"]
    before = dict(collection.sql("SELECT oid, round(relevance, 4) FROM pages").rows)
    misleading = tmp_path / "misleading.txt"
    misleading.write_text("The secret key of the cipher hides the message from all who lack it. " * 20)
    assert call("topics", "add", str(folder), "statistics", str(misleading)).returncode == 0
    assert call("topics", "train", str(folder)).returncode == 0
    worse = collection.models()[0]["version"]
    assert worse == first + 1

    listed = call("models", str(folder))
    assert listed.returncode == 0, listed.stderr
    assert "requested" in listed.stdout
    found = json.loads(call("models", str(folder), "--json").stdout)
    assert [model["version"] for model in found] == list(range(worse, 0, -1))
    assert found[0]["pages"] > 0
    assert 0.0 <= found[0]["expected_precision"] <= 1.0

    compared = json.loads(call("models", str(folder), "--compare", str(first), str(worse), "--json").stdout)
    [[pages, one, other]] = collection.sql(
        f"SELECT count(*), count(*) FILTER (a.relevance >= 0.5), count(*) FILTER (b.relevance >= 0.5) FROM judgements a"
        f" JOIN judgements b USING (oid) WHERE a.model_version = {first} AND b.model_version = {worse}"
    ).rows
    assert (compared["pages"], compared["relevant_first"], compared["relevant_second"]) == (pages, one, other)
    assert "were judged by both" in call("models", str(folder), "--compare", str(first), str(worse)).stdout

    used = call("models", str(folder), "--use", str(first))
    assert used.stdout == f"model {first} is used again, as model {worse + 1}\n", used.stderr
    assert dict(collection.sql("SELECT oid, round(relevance, 4) FROM pages").rows) == before
    refused = call("models", str(folder), "--use", "99")
    assert refused.returncode == 1
    assert "There are: " in refused.stderr


def test_classify_gives_the_same_in_the_database(folder: Path, tmp_path: Path) -> None:
    """Pages are classified in memory and in SQL with one result; only a Bayes tree can be asked in SQL."""
    copy = tmp_path / "c"
    shutil.copytree(folder, copy)
    refused = call("classify", str(copy), "--in-database")
    assert refused.returncode == 1 and "cannot judge in the database" in refused.stderr
    Collection(copy).change_settings({"classify.classifier": "bayes"})
    assert call("topics", "train", str(copy), "--keep-judgements").returncode == 0
    reports = []
    for way in ("--in-memory", "--in-database"):
        report = json.loads(call("classify", str(copy), way, "--json").stdout)
        assert report.pop("took_s") > 0
        reports.append((report["pages"], report["relevant_after"]))
    assert reports[0] == reports[1] and reports[0][0] > 50
    assert "pages classified in" in call("classify", str(copy)).stdout
    url, kept = (
        Collection(copy).sql("SELECT url, relevance FROM collection ORDER BY relevance DESC, url LIMIT 1").rows[0]
    )
    one, other = (
        json.loads(call("classify", str(copy), way, url, "--json").stdout) for way in ("--in-memory", "--in-database")
    )
    assert (one["url"], one["judgement"]["topic"]) == (other["url"], other["judgement"]["topic"])
    assert one["judgement"]["relevance"] == pytest.approx(other["judgement"]["relevance"], abs=1e-6)
    assert one["judgement"]["relevance"] > 0.5
    assert Collection(copy).sql(f"SELECT relevance FROM collection WHERE url = '{url}'").rows == [(kept,)]
    assert "relevant, sure: " in call("classify", str(copy), "--in-database", url).stdout
