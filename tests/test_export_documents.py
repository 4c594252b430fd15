"""What exports compute: parts, chunks, groups of near duplicates, signals of quality, rights; and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio import Collection
from opilio.analyze import jaccard
from opilio.analyze.quality import quality_of
from opilio.analyze.rights import reserved_use
from opilio.export.chunks import _WORD, chunks_of
from opilio.export.near_duplicates import SIMILARITY, NearDuplicates
from opilio.export.splits import PARTS, SiteSplit
from opilio.export.target import replacing
from opilio.model import url_key
from opilio.store import Store
from search_pages import Page, make_collection

SENTENCES = [
    f"The owl number {n} hunts over field {n * 7} and eats {n * 3} mice in the night of day {n}." for n in range(40)
]
DOMAINS = st.from_regex(r"[a-z]{1,8}\.(org|com|de)", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(DOMAINS, unique=True), st.lists(DOMAINS, unique=True), st.lists(st.floats(0, 10), min_size=1, max_size=3)
)
def test_a_site_is_in_one_part_whatever_else_is_there(one: list[str], other: list[str], shares: list[float]) -> None:
    """The part of a site follows from its domain and the shares alone; a part without a share gets no site."""
    if not sum(shares):
        shares = [1.0]
    text = "/".join(map(repr, shares))
    parts = [{domain: SiteSplit.parse(text).part(domain) for domain in some} for some in (one, other)]
    assert all(parts[1].get(domain, part) == part for domain, part in parts[0].items())
    used = {PARTS[at] for at, share in enumerate(shares) if share}
    assert {*parts[0].values()} <= used


def test_parts_have_their_shares() -> None:
    """Of many sites, about as many are in each part as it should get."""
    split = SiteSplit.parse("0.8/0.15/0.05")
    counts = [0, 0, 0]
    for number in range(20_000):
        counts[PARTS.index(split.part(f"site{number}.org"))] += 1
    assert counts[0] == pytest.approx(16_000, rel=0.03)
    assert counts[1] == pytest.approx(3_000, rel=0.06)
    assert counts[2] == pytest.approx(1_000, rel=0.12)


BLOCKS = st.lists(
    st.sampled_from(
        ["# One", "## Two", "### Three", "a b c d e f g", "w " * 50, "```\n# code\n\nx\n```", "- a\n- b", "漢字" * 30]
    )
)


@settings(max_examples=150, deadline=None)
@given(BLOCKS, st.integers(1, 30), st.integers(0, 29))
def test_chunks_hold_all_words_in_order(blocks: list[str], chunk_words: int, overlap_words: int) -> None:
    """No chunk is longer than allowed; without what it repeats of the one before it, the chunks are the document."""
    overlap_words = min(overlap_words, chunk_words - 1)
    document = "\n\n".join(blocks)
    words = [word.strip() for word in _WORD.findall(document)]
    again: list[str] = []
    before: list[str] = []
    for chunk in chunks_of(document, chunk_words, overlap_words):
        own = [word.strip() for word in _WORD.findall(chunk.text)]
        assert 0 < len(own) <= chunk_words
        repeated = min(overlap_words, len(before))
        assert own[:repeated] == before[len(before) - repeated :]
        again += own[repeated:]
        before = own
    assert again == words


def test_chunks_have_the_path_of_headings_above_them() -> None:
    """A heading stays with the text below it, and signs in code are no headings."""
    text = "# Owls\n\nAll owls hunt.\n\n## Barn [owl](http://x/)\n\nIt is white.\n\n```\n# no heading\n```\n\n# Moths\n\nThey fly."
    found = list(chunks_of(text, 8, 0))
    assert [chunk.headings for chunk in found] == ["Owls", "Owls > Barn owl", "Owls > Barn owl", "Moths"]
    assert found[1].text.startswith("## Barn [owl]")


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Pages of which some are nearly or exactly the same."""
    whole = " ".join(SENTENCES)
    texts = [whole, " ".join(SENTENCES[:-1]), "A short text.", " ".join(reversed(whole.split())), "A short text.",
             " ".join(SENTENCES[1:])]  # fmt: skip
    return make_collection(tmp_path_factory.mktemp("alike") / "c", [Page(text, relevance=0.9) for text in texts])


def test_near_duplicates_are_those_that_a_comparison_of_all_pairs_finds(alike: Collection) -> None:
    """Groups are the connected pages of similar sketches or the same text; a condition limits them."""
    with Store.open(alike.folder, read_only=True) as store:
        rows = store.query("SELECT oid, url, shingles, content_hash FROM collection ORDER BY oid").rows
        first = {oid: oid for oid, *_ in rows}
        for oid, _, sketch, text in rows:
            for other, _, their, same in rows[:oid]:
                if text == same or jaccard(sketch, their) >= SIMILARITY:
                    first[oid] = min(first[oid], first[other])
        urls = {oid: url for oid, url, *_ in rows}
        groups = NearDuplicates(store, "")
        assert {oid: groups.group(oid, 0) for oid in first} == {oid: url_key(urls[one]) for oid, one in first.items()}
        assert len(set(first.values())) == 3
        alone = NearDuplicates(store, "oid IN (1, 4)")
        assert alone.group(4, 0) == url_key(urls[4])


def test_one_page_of_each_group_can_be_kept(alike: Collection, tmp_path: Path) -> None:
    """The guide's condition leaves the first page of each group."""
    count = alike.export(
        tmp_path / "x.parquet", columns=["url", "near_duplicate_group"], keep="near_duplicate_group = id"
    )
    assert count == 3
    assert len(set(pyarrow.parquet.read_table(tmp_path / "x.parquet")["near_duplicate_group"].to_pylist())) == 3


def test_signals_of_quality_mean_what_the_guide_says() -> None:
    """Counted by hand; without words there are no shares, and unspaced languages have no words to measure."""
    text = "The cat sat on the mat.\nThe cat sat on the mat.\nBuy now ..."
    found = quality_of(text, 2 * len(text), "en", linked_chars=len(text) // 2)
    assert found.words == 15
    assert found.stop_words == round(7 / 15, 4)  # the, on, the, twice each but "The" too; now
    assert found.duplicate_lines == round(1 / 3, 4)
    assert found.punctuated_lines == 1.0
    assert found.symbol_ratio == round(1 / 15, 4)
    assert found.alphabetic_words == round(14 / 15, 4)
    assert found.boilerplate == 0.5
    assert found.link_density == pytest.approx(0.25, abs=0.01)
    empty = quality_of("", 0, "en")
    assert (empty.words, empty.mean_word_chars, empty.stop_words, empty.boilerplate) == (0, None, None, 0.0)
    unspaced = quality_of("猫はマットの上に座っていました。", 16, "ja")
    assert (unspaced.words, unspaced.mean_word_chars) == (8, None)


@pytest.mark.parametrize(
    ("signal_", "value", "source", "reserved"),
    [
        ("robots", "noai, noimageai", "meta robots", "noai"),
        ("robots", "noai", "header X-Robots-Tag", "noai"),
        ("robots", "noai", "header X-Robots-Tag, to otherbot", ""),
        ("robots", "noai", "meta otherbot", ""),
        ("robots", "noindex, nofollow", "meta robots", ""),
        ("tdm-reservation", "1", "/.well-known/tdmrep.json", "tdm-reservation"),
        ("tdm-reservation", "0", "meta", ""),
        ("ai.txt", "disallow", "/ai.txt", "ai.txt"),
        ("license", "http://creativecommons.org/licenses/by/4.0/", "link rel=license", ""),
    ],
)
def test_what_reserves_the_use_of_a_page(signal_: str, value: str, source: str, reserved: str) -> None:
    """As stored by a crawl: reservations to everyone count, those to other crawlers and licences do not."""
    assert reserved_use([{"signal": signal_, "value": value, "source": source}]) == reserved


def test_an_interrupted_folder_leaves_the_one_before(tmp_path: Path) -> None:
    """A folder appears when it is complete; after an error or Ctrl-C the former one is there, and nothing else."""
    target = tmp_path / "notes"
    with replacing(target, ".mark", "this test") as folder:
        (folder / ".mark").touch()
    for error in (KeyboardInterrupt, OSError(28, "No space left on device")):
        with pytest.raises(BaseException), replacing(target, ".mark", "this test") as folder:  # noqa: B017
            (folder / "half").touch()
            raise error
    assert [file.name for file in target.iterdir()] == [".mark"]
    assert list(tmp_path.iterdir()) == [target]


def test_ctrl_c_leaves_no_half_export(tmp_path: Path) -> None:
    """The command, interrupted while it writes a folder, leaves neither the folder nor a part of it."""
    text = " ".join(SENTENCES * 10)
    make_collection(tmp_path / "c", [Page(f"{n} {text}", relevance=0.9) for n in range(120)])
    command = [
        sys.executable,
        "-m",
        "opilio",
        "export",
        str(tmp_path / "c"),
        str(tmp_path / "out"),
        "--format",
        "dataset",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=dict(os.environ))
    deadline_s = time.monotonic() + 30
    while not list(tmp_path.glob(".out.new-*")) and process.poll() is None and time.monotonic() < deadline_s:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert {file.name for file in tmp_path.iterdir()} == {"c", "c-seeds.txt"}
