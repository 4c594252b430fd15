"""What several test files share: a small local web, served by a process of its own."""

import dataclasses
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from opilio import Collection
from opilio.crawl.engine import Engine
from opilio.lab.local_web import LocalServer, LocalWeb, build
from warm_processes import warm_processes

hypothesis.settings.register_profile("opilio", deadline=None)  # a busy machine is no fault of the code's
hypothesis.settings.load_profile("opilio")

MakeCollection = Callable[..., Collection]
MakeTaught = Callable[..., Collection]
TAUGHT_TOPICS = ["cryptography", "data compression", "statistics"]


def hurried_web() -> LocalWeb:
    """The small local web; the hosts in it that ask for a Crawl-delay ask for a shorter one, so that crawls end sooner.

    Where the delay itself is tested, the web is served as it was built.
    """
    web = build("small")
    files = {
        url: (kind, body.replace(b"Crawl-delay: 0.2\n", b"Crawl-delay: 0.02\n"))
        for url, (kind, body) in web.files.items()
    }
    assert files != web.files
    return dataclasses.replace(web, files=files, cache_file=None)


@pytest.fixture(scope="session", autouse=True)
def _warm_processes() -> Iterator[None]:
    """Child processes, such as one that trains a model, start in no time."""
    with warm_processes():
        yield


@pytest.fixture
def cold_processes() -> Iterator[None]:
    """For tests of child processes themselves: they start as they do outside of tests."""
    with warm_processes(subprocess.Popen):
        yield


@pytest.fixture(scope="session")
def small_server() -> Iterator[LocalServer]:
    """The small local web with its misbehaving hosts; the log is the server's own."""
    with LocalServer(hurried_web()) as server:
        yield server


@pytest.fixture
def make_collection(small_server: LocalServer, tmp_path: Path) -> MakeCollection:
    """Makes a collection that crawls the small local web at full speed, in one process unless told otherwise."""

    def make(seeds: list[str], name: str = "collection", **changes: Any) -> Collection:
        file = tmp_path / f"{name}.txt"
        file.write_text("\n".join(seeds))
        small_server.clear_log()
        settings: dict[str, Any] = {
            "fetch.connect_to": small_server.connect_to,
            "fetch.host_delay_s": 0.0,
            "fetch.backoff_s": 0.1,
            "run.workers": -1,
        }
        settings.update({key.replace("__", "."): value for key, value in changes.items()})
        return Collection.create(tmp_path / name, seeds=file, settings=settings)

    return make


@pytest.fixture
def make_taught(small_server: LocalServer, tmp_path: Path) -> MakeTaught:
    """Makes a collection from bookmarks of the small local web; its classifier is the one that learns fastest."""

    def make(bookmarks: str = "", **changes: Any) -> Collection:
        file = tmp_path / "bookmarks.html"
        file.write_text(bookmarks or small_server.web.bookmarks(TAUGHT_TOPICS), encoding="utf-8")
        settings = {"fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "run.workers": -1}
        settings |= {"fetch.backoff_s": 0.1, "limits.max_pages": 60, "classify.classifier": "bayes"}
        settings |= {
            "learn.mined_negatives": 0,
            "classify.calibrate": False,
        }  # where they are not what is tested, models are counted
        settings.update({key.replace("__", "."): value for key, value in changes.items()})
        return Collection.create(tmp_path / "collection", bookmarks=file, settings=settings)

    return make


@pytest.fixture(scope="session")
def crawled_taught(small_server: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection from bookmarks, crawled once for all tests: they look at it, or change a copy."""
    place = tmp_path_factory.mktemp("taught")
    (place / "bookmarks.html").write_text(small_server.web.bookmarks(TAUGHT_TOPICS), encoding="utf-8")
    changes = {"fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "run.workers": -1}
    changes |= {"fetch.backoff_s": 0.1, "limits.max_pages": 120, "classify.classifier": "bayes"}
    changes |= {"learn.mined_negatives": 0, "classify.calibrate": False}
    Collection.create(place / "c", bookmarks=place / "bookmarks.html", settings=changes).crawl()
    return place / "c"


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """All engines that are made."""
    made: list[Engine] = []
    begin = Engine.__init__

    def note(self: Engine, *given: Any) -> None:
        begin(self, *given)
        made.append(self)

    monkeypatch.setattr(Engine, "__init__", note)
    return made
