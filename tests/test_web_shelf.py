"""The collections that one server shows."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from opilio import Collection
from opilio.settings import FILE_NAME
from opilio.store import Store
from web_portal import Portal


def make(place: Path, name: str = "birds") -> Collection:
    """A collection in which nothing was fetched."""
    (place / "seeds.txt").write_text("http://nobody.test/")
    return Collection.create(place / name, seeds=place / "seeds.txt")


@pytest.mark.parametrize("name", ["a#b", "100%", "50%25", "ä ö", "a&b;c"])
def test_a_collection_of_any_name_is_found(tmp_path: Path, name: str) -> None:
    """A server of one collection leads to it, whatever its folder is called."""
    make(tmp_path, name)
    with Portal(tmp_path / name) as portal:
        status, text = portal.get("/")
        assert status == 200
        assert 'placeholder="Search"' in text


def test_one_bad_collection_does_not_hide_the_others(tmp_path: Path) -> None:
    """A folder with settings or a database that cannot be read is listed with what is wrong; the others as ever."""
    make(tmp_path, "good")
    (make(tmp_path, "typo").folder / FILE_NAME).write_text("[fetch]\nno_such_thing = 1\n")
    (make(tmp_path, "torn").folder / "collection.duckdb").write_bytes(b"not a database at all" * 1000)
    with Portal(tmp_path) as portal:
        status, text = portal.get("/collections")
        assert status == 200
        assert "no_such_thing" in text
        status, listed = portal.get("/api/collections")
        assert status == 200
        assert [(row["name"], row["pages"]) for row in listed] == [("good", 0), ("torn", None), ("typo", None)]
        assert portal.get("/c/good/watch")[0] == 200


def test_folders_that_may_not_be_read_are_no_collections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of somebody else beside the collections hides none of them."""
    make(tmp_path)
    (tmp_path / "private").mkdir()
    stat = os.stat

    def refused(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        if "private/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *args, **kwargs)

    with Portal(tmp_path) as portal:
        monkeypatch.setattr(os, "stat", refused)
        assert portal.get("/collections")[0] == 200


def test_a_folder_that_is_gone_is_an_error_page(tmp_path: Path) -> None:
    """When the folder of all collections is taken away, the server says so."""
    (tmp_path / "shelf").mkdir()
    with Portal(tmp_path / "shelf") as portal:
        (tmp_path / "shelf").rmdir()
        assert portal.get("/api/collections") == (200, [])


def test_a_slow_collection_does_not_hold_up_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one database is opened, which takes long after a crash, others are read."""
    slow, quick = make(tmp_path, "slow").folder, make(tmp_path, "quick").folder
    open_ = Store.open
    begun, go_on = threading.Event(), threading.Event()

    def slowly(folder: Path, **options: Any) -> Store:
        if folder == slow:
            begun.set()
            assert go_on.wait(20)
        return open_(folder, **options)

    monkeypatch.setattr(Store, "open", slowly)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(lambda: Collection(slow).status())
        assert begun.wait(10)
        began_s = time.monotonic()
        assert Collection(quick).status().pages == 0
        assert time.monotonic() - began_s < 5
        go_on.set()
        assert waits.result().pages == 0
