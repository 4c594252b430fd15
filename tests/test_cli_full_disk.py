"""A disk that is full: the crawl ends with one clear error, keeps what it had, and goes on when there is room."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import MakeCollection
from opilio import Collection

START = ["http://directory.test/"]
needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")


def crawl(folder: Path, *options: str, max_file_bytes: int = 0) -> "subprocess.CompletedProcess[str]":
    """`opilio crawl FOLDER`, no file of which may grow past a size when one is given."""
    limit: Callable[[], None] | None = None
    if max_file_bytes:
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))  # noqa: E731
    command = [sys.executable, "-m", "opilio", "crawl", str(folder), "-q", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, preexec_fn=limit)


def assert_told(ended: "subprocess.CompletedProcess[str]", *words: str) -> None:
    assert ended.returncode == 1, (ended.stdout, ended.stderr)
    error, hint = ended.stderr.splitlines()
    assert error.startswith("error: ") and hint.startswith("hint: ")
    assert "room" in hint
    for word in words:
        assert word in error


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[Path, str], None]]:
    """Mounts small disks on folders; they are gone in the end."""
    mounted: list[Path] = []

    def mount(folder: Path, size: str) -> None:
        if folder in mounted:
            subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)
            return
        folder.mkdir(exist_ok=True)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False)
        if made.returncode:
            pytest.skip("mounts are not allowed here")
        mounted.append(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("max_file_bytes", [150_000, 1_500_000])
def test_no_room_for_the_database(max_file_bytes: int, make_collection: MakeCollection) -> None:
    """The database cannot grow: what was committed stays, nothing half-written shows, and the crawl goes on later."""
    collection = make_collection(START, store__warc=False, store__batch_pages=20, robots__obey=False)
    ended = crawl(collection.folder, max_file_bytes=max_file_bytes)
    assert_told(ended, "collection.duckdb", "disk is full")
    kept = pages_of(collection)
    assert collection.status().pages == len(kept), "counters and pages are of one transaction"
    assert collection.crawl().reason.startswith("frontier empty")
    assert kept <= pages_of(collection)
    assert len(pages_of(collection)) > 200
    assert collection.sql("SELECT count(*) - count(DISTINCT oid) FROM pages").rows == [(0,)]


@needs_mounts
def test_no_room_for_the_warc_files(make_collection: MakeCollection, small_disk: Callable[[Path, str], None]) -> None:
    """A worker that cannot write its WARC file ends the crawl; with room, the crawl goes on and every page has a record."""
    collection = make_collection(START, run__workers=2, robots__obey=False)
    small_disk(collection.folder / "warc", "96k")
    assert_told(crawl(collection.folder), str(collection.folder / "warc"), "No space left")
    kept = pages_of(collection)
    small_disk(collection.folder / "warc", "32m")
    assert collection.crawl().reason.startswith("frontier empty")
    pages = pages_of(collection)
    assert kept <= pages and len(pages) > 200
    places = collection.sql("SELECT warc_file, warc_offset, warc_bytes FROM pages").rows
    for file, offset, length in places:
        assert (collection.folder / "warc" / file).stat().st_size >= offset + length > offset


@needs_mounts
def test_no_room_at_all(
    make_collection: MakeCollection, small_disk: Callable[[Path, str], None], tmp_path: Path
) -> None:
    """Database and WARC files on one full disk; asking still works there, and the crawl goes on with more room."""
    made = make_collection(START, name="made", robots__obey=False)
    disk = tmp_path / "disk"
    small_disk(disk, "3500k")
    subprocess.run(["cp", "-r", str(made.folder), str(disk / "c")], check=True)
    collection = Collection(disk / "c")
    ended = crawl(collection.folder)
    assert_told(ended, str(disk))
    assert collection.sql("SELECT count(*) FROM seeds").rows == [(1,)]
    kept = pages_of(collection)
    small_disk(disk, "64m")
    assert collection.crawl().reason.startswith("frontier empty")
    assert kept <= pages_of(collection)


def test_no_room_for_a_new_collection(make_collection: MakeCollection, tmp_path: Path) -> None:
    """What a failed beginning leaves behind does not stand in the way of the next one."""
    (tmp_path / "s.txt").write_text(START[0])
    settings = make_collection(START, name="other").folder / "crawl.toml"
    options = ("--seeds", str(tmp_path / "s.txt"), "--config", str(settings), "--max-pages", "3")
    assert_told(crawl(tmp_path / "new", *options, max_file_bytes=6_000), "disk is full")
    again = crawl(tmp_path / "new", *options)
    assert again.returncode == 0, again.stderr
    assert "page limit reached (3)" in again.stdout


def pages_of(collection: Collection) -> set[str]:
    return {url for (url,) in collection.sql("SELECT url FROM collection").rows}
