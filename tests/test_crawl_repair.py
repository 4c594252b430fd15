"""Damaged and lost files: `verify` notices and names each defect, `repair` gives back every page that is sound."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import call
from conftest import MakeCollection
from opilio import Collection
from opilio.crawl.repair import repair
from opilio.crawl.verification import INDEX_CHECK, PAGES_CHECK, WARC_CHECK, Verification, verify
from opilio.lab.local_web import LocalServer
from opilio.lab.webs.transport import RecordedTransport
from opilio.store import Store, recover
from opilio.store.invariants import INVARIANTS
from webs import Page, Web

PAGES = 24
WORDS = "owl hunts at night over fields where small voles live and sleeps by day in barns trees caves or old towers"


def made_web() -> Web:
    """Pages of different words, each linked from the one before, and a redirect."""
    draw = random.Random(5)
    pages = [
        Page(
            " ".join(draw.choices(WORDS.split(), k=40)) + f" number {place} " * 5,
            title=f"Page {place}",
            links=((place + 1, f"to {place + 1}"), ((place * 7) % PAGES, "across")),
        )
        for place in range(PAGES)
    ]
    return Web([*pages, Page(redirect="http://h0.example/0.html")])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small collection that was crawled to its end; tests damage copies of it."""
    folder = tmp_path_factory.mktemp("sound")
    web = made_web()
    (folder / "seeds.txt").write_text(web.url(0))
    settings = {"run.workers": -1, "fetch.host_delay_s": 0.0, "learn.questions": 0}
    collection = Collection.create(folder / "c", seeds=folder / "seeds.txt", query="owl hunts", settings=settings)
    collection.crawl(transport=RecordedTransport(web.recorded(folder / "web"), collection.settings))
    assert len(pages_of(folder / "c")) == PAGES
    assert verify(folder / "c").defects == 0
    return folder / "c"


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(sound, tmp_path / "c"))


def pages_of(folder: Path) -> set[tuple[object, ...]]:
    """What a reader has of each page."""
    return set(Collection(folder).sql("SELECT url, title, text, content_hash, status FROM collection").rows)


def responses_of(folder: Path) -> list[tuple[str, bytes, bytes]]:
    """What the archive has."""
    files = sorted((folder / "warc").glob("*.warc.gz"))
    return sorted((one.url, one.raw_head, one.raw_body) for file in files for one in recover(file))


def wrong(report: Verification) -> list[str]:
    """The names of the checks that found something wrong."""
    return [check.name for check in report.checks if check.count]


def flip(path: Path, at: int, bit: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def files_of(folder: Path) -> Iterator[Path]:
    """The files with content, apart from the settings."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size and path.suffix != ".toml")


@pytest.mark.parametrize("seeds", [range(14), pytest.param(range(14, 400), marks=pytest.mark.slow)])
def test_a_flipped_bit_is_named_or_means_nothing(sound: Path, tmp_path: Path, seeds: range) -> None:
    """Wherever a bit is flipped: verify names a defect or nothing has changed; repair gives back every page."""
    pages, responses = pages_of(sound), responses_of(sound)
    for seed in seeds:
        folder = Path(shutil.copytree(sound, tmp_path / f"c{seed}"))
        draw = random.Random(seed)
        files = list(files_of(folder))
        kind = [[f for f in files if f.parent.name == "c" + str(seed)], [f for f in files if "warc" in f.name],
                [f for f in files if "index" in f.parts]][seed % 3]  # fmt: skip
        path = draw.choices(kind, weights=[file.stat().st_size for file in kind])[0]
        at, bit = draw.randrange(path.stat().st_size), draw.randrange(8)
        flip(path, at, bit)
        found, where = verify(folder), f"seed {seed}: bit {bit} of byte {at} of {path.name}"
        if not found.defects:
            assert responses_of(folder) == responses, where
            assert pages_of(folder) == pages, where
            assert Collection(folder).search("owl")["total"] == Collection(sound).search("owl")["total"], where
            continue
        done = repair(folder)
        assert done.after is not None
        assert wrong(done.after) == [], f"{where}: {wrong(found)} {done}"
        assert pages_of(folder) == pages, f"{where}: {wrong(found)} {done}"
        shutil.rmtree(folder)
