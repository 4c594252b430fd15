"""WARC files in other storage: they arrive whole, none is lost, none is sent twice, and the crawl never waits for it."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from conftest import MakeCollection
from opilio import Collection
from opilio.crawl import Status, shipping
from opilio.crawl.shipping import PART, FolderStorage, GivenUp, open_storage
from opilio.errors import SettingsError
from opilio.settings import FILE_NAME

START = ["http://directory.test/"]
SMALL = {"store__warc_max_bytes": 30_000, "limits__max_pages": 60}


class Failing(LocalFileSystem):  # type: ignore[misc]
    """A file system that cannot rename, is full when told so, and counts what is written: failing:///path."""

    protocol = "failing"
    mv = fsspec.AbstractFileSystem.mv
    is_full = False
    written: list[str] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("failing://")))

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        if "w" in mode:
            if self.is_full:
                raise OSError("no room on the far side")
            self.written.append(path)
        return super()._open(path, mode, **more)


fsspec.register_implementation("failing", Failing, clobber=True)


def contents(url: str) -> dict[str, bytes]:
    """The files at a place."""
    system, folder = fsspec.core.url_to_fs(url)
    return {path.rpartition("/")[2]: system.cat_file(path) for path in system.find(folder)}


def local(collection: Collection) -> list[Path]:
    return sorted((collection.folder / "warc").iterdir())


def check_places(collection: Collection, files: dict[str, bytes]) -> None:
    """Every page's record is in the files, where the database says."""
    places = collection.sql("SELECT warc_file, warc_offset, url FROM pages JOIN crawl USING (oid)").rows
    assert len(places) == 60
    for name, offset, url in places:
        record = next(iter(ArchiveIterator(io.BytesIO(files[name][offset:]))))
        assert record.rec_headers.get_header("WARC-Target-URI") == url


@pytest.mark.parametrize("before", ["", "file://", "failing://"])
def test_all_files_arrive(before: str, make_collection: MakeCollection, tmp_path: Path) -> None:
    """When the crawl ends, every file is there, with every page in its place, and none is here."""
    url = f"{before}{tmp_path}/far"
    collection = make_collection(START, **SMALL, store__warc_url=url)
    status = collection.crawl()
    files = contents(url)
    assert len(files) == status.counters["WARC files moved"] > 3
    assert not local(collection)
    assert not any(name.endswith(PART) for name in files)
    check_places(collection, files)


def test_finished_files_go_while_the_crawl_runs(
    make_collection: MakeCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is moved soon after its worker began another; the one it writes to stays."""
    monkeypatch.setattr(shipping, "LOOK_S", 0.0)
    far = tmp_path / "far"
    collection = make_collection(START, **SMALL, store__warc_url=str(far), fetch__host_delay_s=0.3)
    seen: list[tuple[int, int]] = []

    def tick(status: Status) -> None:
        if status.running and status.pages:
            seen.append((len(list(far.glob("*.gz"))) if far.exists() else 0, len(local(collection))))

    collection.crawl(on_tick=tick)
    assert any(there for there, _ in seen)
    assert all(here for _, here in seen), "the file that is written to was taken away"
    check_places(collection, contents(str(far)))


def test_a_storage_that_fails(make_collection: MakeCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full storage is told once, with a remedy; the crawl ends as ever, and the next one moves the files."""
    monkeypatch.setattr(shipping, "LOOK_S", 0.0)
    monkeypatch.setattr(shipping, "AGAIN_S", 0.0)
    monkeypatch.setattr(Failing, "is_full", True)
    far = f"failing://{tmp_path}/far"
    collection = make_collection(START, **SMALL, store__warc_url=far)
    status = collection.crawl()
    assert status.reason.startswith("page limit")
    notices = [notice for notice in status.notices if "no room on the far side" in str(notice)]
    assert len(notices) == 1
    assert status.counters["WARC files that could not be moved"] > 1
    names = {path.name for path in local(collection)}
    assert len(names) > 3

    monkeypatch.setattr(Failing, "is_full", False)
    collection.crawl(settings={"limits.max_pages": 60})
    assert not local(collection)
    assert set(contents(far)) == names
    check_places(collection, contents(far))


def test_going_on_after_a_crash(
    make_collection: MakeCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is there whole is not sent again; half a file is."""
    monkeypatch.setattr(Failing, "is_full", True)
    far = tmp_path / "far"
    collection = make_collection(START, **SMALL, store__warc_url=f"failing://{far}")
    collection.crawl()
    whole, half, *_ = local(collection)
    monkeypatch.setattr(Failing, "is_full", False)
    far.mkdir(exist_ok=True)
    (far / whole.name).write_bytes(whole.read_bytes())
    (far / half.name).write_bytes(half.read_bytes()[:1000])
    Failing.written.clear()
    collection.crawl()
    assert not local(collection)
    assert str(far / whole.name) not in Failing.written
    assert str(far / half.name) in Failing.written
    check_places(collection, contents(str(far)))


def test_fsspec_is_missing(make_collection: MakeCollection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library the crawl says what to install before it asks for anything; a folder needs none."""
    collection = make_collection(START, **SMALL, store__warc_url="s3://bucket/warc")
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(SettingsError, match=r"fsspec is not installed.*s3://bucket/warc") as caught:
        collection.crawl()
    assert "pip install 'opilio[cluster]'" in caught.value.hint
    assert collection.sql("SELECT count(*) FROM visits").rows == [(0,)]
    assert isinstance(open_storage("/srv/warc"), FolderStorage)


def test_an_unknown_kind_of_storage() -> None:
    """A URL that no file system knows is an error that names it."""
    with pytest.raises(SettingsError, match="nosuch://place"):
        open_storage("nosuch://place")


@pytest.mark.parametrize(
    "url", ["memory://far/warc", "memory:///far", "dir::memory://far", "simplecache::memory://far"]
)
def test_a_storage_that_ends_with_the_process(url: str, make_collection: MakeCollection) -> None:
    """Files would be deleted here and lost there: it is refused when it is set, and before a crawl begins."""
    with pytest.raises(SettingsError, match="is lost when the crawl ends") as caught:
        make_collection(START, **SMALL, store__warc_url=url)
    assert url in caught.value.message
    assert "s3://" in caught.value.hint
    collection = make_collection(START, **SMALL)
    with pytest.raises(SettingsError, match="is lost when the crawl ends"):
        collection.change_settings({"store.warc_url": url})
    file = collection.folder / FILE_NAME
    file.write_text(file.read_text("utf-8").replace("[store]", f'[store]\nwarc_url = "{url}"'), "utf-8")
    with pytest.raises(SettingsError, match="is lost when the crawl ends"):
        Collection(collection.folder).crawl()
    assert collection.sql("SELECT count(*) FROM visits").rows == [(0,)]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=20))
def test_which_files_are_finished(begun: list[tuple[int, bool]]) -> None:
    """Of the files of this crawl, exactly the last of each worker is not finished; old ones always are."""
    names = [f"opilio-202601010000{at:02d}-w{worker}-{at:05d}.warc.gz" for at, (worker, _) in enumerate(begun)]
    old = {name for name, (_, is_old) in zip(names, begun, strict=True) if is_old}
    last = {worker: name for name, (worker, _) in zip(names, begun, strict=True)}
    assert set(shipping.finished(names, old)) == set(names) - (set(last.values()) - old)


def test_a_file_waits_for_the_leases_under_way(tmp_path: Path) -> None:
    """A finished file is safe to move when every lease is back that was under way when it was finished, and no sooner."""
    (tmp_path / "warc").mkdir()
    frontier = SimpleNamespace(leased={1: None, 2: None})
    shipper: Any = shipping.Shipper.__new__(shipping.Shipper)
    shipper._absorber, shipper._awaited, shipper._old = SimpleNamespace(frontier=frontier), {}, {"old"}
    assert shipper._safe(["a", "old"]) == ["old"]
    frontier.leased = {2: None, 3: None}
    assert shipper._safe(["a", "b"]) == []
    frontier.leased = {3: None}
    assert shipper._safe(["a", "b"]) == ["a"]
    frontier.leased = {}
    assert shipper._safe(["a", "b"]) == ["a", "b"]


def test_a_user_in_a_hurry(tmp_path: Path) -> None:
    """Copying ends at the next piece; what is there then has no name that anybody takes for a whole file."""
    (tmp_path / "big.warc.gz").write_bytes(b"x" * 10)
    for url in (str(tmp_path / "far"), f"file://{tmp_path}/far2"):
        storage = open_storage(url)
        with pytest.raises(GivenUp):
            storage.put(tmp_path / "big.warc.gz", lambda: False)
        assert storage.size("big.warc.gz") is None
        storage.put(tmp_path / "big.warc.gz", lambda: True)
        assert storage.size("big.warc.gz") == 10
