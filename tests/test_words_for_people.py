"""What people read: names of topics, marks, how sure a page is, and whole words in place of stems."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from browsed import crawled
from opilio import Collection
from opilio.analyze.terms import Vocabulary, spellings, term_ids
from opilio.cli import cli
from opilio.model.visit import RELEVANT, certainty
from opilio.store import Batch, Store
from opilio.store.terms import neighbour_terms, stems, whole_words
from store_rows import add_page
from web_portal import Portal

JARGON = re.compile(r"OTHERS|subsumed|undoubted|>path<|>null<")


@pytest.mark.parametrize(
    ("words", "expected"),
    [({}, "Barn owls"), ({"query": "nests of barn owls"}, "nests of barn owls"), ({"description": "Owls at night"}, "Owls at night")],
)  # fmt: skip
def test_the_root_has_a_name(tmp_path: Path, words: dict[str, str], expected: str) -> None:
    """That of the folder, of the question or of the description; a tree that has topics keeps the name of its root."""
    (tmp_path / "list.txt").write_text("http://owls.test/1\n")
    given_as = "seeds" if words else "examples"
    collection = Collection.create(tmp_path / "Barn owls", **{given_as: tmp_path / "list.txt"}, **words)
    assert [one["topic"] for one in collection.topics()] == [expected]
    (tmp_path / "t.yaml").write_text("topics:\n  owls:\n    examples: [http://owls.test/1]\n")
    other = Collection.create(tmp_path / "OTHERS", topics=tmp_path / "t.yaml")
    assert [one["mark_words"] for one in other.topics()] == ["on the way", "wanted"]


@given(st.floats(0, 1))
def test_certainty_follows_relevance(relevance: float) -> None:
    """Three steps, in order; only pages that are accepted are likely or sure, and those far below are off topic."""
    steps = ["off topic", "borderline", "likely", "sure"]
    place = steps.index(certainty(relevance))
    assert place <= 1 or relevance >= RELEVANT
    assert place >= 1 or relevance < RELEVANT
    assert all(steps.index(certainty(more)) >= place for more in (relevance, (1 + relevance) / 2, 1.0))


def test_a_stem_is_shown_as_the_word_written_most() -> None:
    """The most frequent whole word, in any language that has a stemmer; a term that no text has is left out."""
    [runner], [running], [owl] = (term_ids(word, "en") for word in ("runner", "running", "owl"))
    texts = [
        ("Runner runners running runner", "en", [runner, running, owl]), ("runners running running", "en", [running])
    ]  # fmt: skip
    assert spellings(texts, Vocabulary()) == {runner: "runner", running: "running"}


def test_words_do_not_depend_on_the_order_in_which_pages_were_written(tmp_path: Path) -> None:
    """Of pages that write a term equally often, the first ones have its word: explanations are the same every time.
    What else is asked for changes nothing: a published page says what the live one does."""
    spelled = ["running", "runs", "runs", "run considered", "running", "running", "run considered"]
    tids, other = term_ids("runs", "en"), term_ids("considered", "en")
    words, near = [], []
    for name, order in (("up", range(7)), ("down", range(6, -1, -1))):
        with Store.create(tmp_path / name) as store:
            batch = Batch()
            for oid in order:
                add_page(batch, oid, text=spelled[oid])
                ids = np.array(sorted({*tids, *(other if oid in (3, 6) else ()), *range(oid + 1, oid + 60)}), "<u4")
                batch.terms.add(oid, ids.tobytes(), np.ones(len(ids), "<u2").tobytes())
                batch.links.add(oid, 7, 0, 0, "", "", "main", 0, "a", False)
            store.write(batch)
            words += [whole_words(store, tids), whole_words(store, [*tids, *other])]
            near.append({oid: sorted(found) for oid, found in neighbour_terms(store, [7]).items()})
    assert words == [{tids[0]: "runs"}, {tids[0]: "runs", other[0]: "considered"}] * 2
    assert near[0] == near[1] != {}


def test_words_of_a_collection_are_whole(crawled_taught: Path) -> None:
    """The commonest terms have words that stem to them, and most of these are longer than the stems; explanations show
    words that are in the pages."""
    with Store.open(crawled_taught, read_only=True) as store:
        rows = store.query("SELECT tid FROM terms GROUP BY tid ORDER BY count(*) DESC, tid LIMIT 300").rows
        tids = [tid for (tid,) in rows]
        short, whole = stems(store, tids), whole_words(store, tids)
        [[url, text]] = store.query("SELECT url, lower(title || text) FROM collection WHERE relevant LIMIT 1").rows
    assert whole.keys() == short.keys()
    assert sum(term_ids(word, "en") == [tid] for tid, word in whole.items()) > 0.9 * len(whole)
    assert sum(len(whole[tid]) > len(short[tid]) for tid in tids) > 0.2 * len(tids)
    why = Collection(crawled_taught).explain(url)
    shown = {word for step in why["steps"] for reason in step["reasons"] for word in reason["feature"].split()}
    assert shown and sum(word in text for word in shown) > 0.9 * len(shown)


def test_pages_and_commands_use_plain_words(crawled_taught: Path, tmp_path: Path) -> None:
    """No page for readers names an identifier of the data model; lists say how sure a page is, with the number at hand."""
    collection = crawled(crawled_taught, tmp_path)
    name = collection.folder.name
    [[url]] = collection.sql("SELECT url FROM collection ORDER BY relevance, url LIMIT 1").rows
    with Portal(tmp_path) as portal:
        shown = {where: portal.get(f"/c/{name.replace(' ', '%20').replace('&', '%26')}/{where}", **asked)[1]
                 for where, asked in (("", {}), ("watch", {}), ("teach", {}), ("topic", {"topic": "OTHERS"}), ("search", {"q": "hash"}),
                                      ("page", {"url": url}))}  # fmt: skip
    for where, text in shown.items():
        visible = re.sub(r'href="[^"]*"|value="[^"]*"', "", text)
        assert not JARGON.search(visible), (where, JARGON.search(visible))
    assert re.search(r'title="relevance 1\.00[^"]*">sure<', shown[""])
    assert "<h1>Off topic</h1>" in shown["topic"]
    keywords = re.findall(r'class="quiet words">([^<]*)<', shown["teach"])
    assert keywords and not {"of", "the", "and", "in"} & {
        word.strip(" …") for line in keywords for word in line.split(",")
    }
    for command in (["explain", str(collection.folder), url], ["topics", "list", str(collection.folder)]):
        said = CliRunner().invoke(cli, command, catch_exceptions=False).output
        assert not JARGON.search(said) and "expected precision 0.00" not in said
