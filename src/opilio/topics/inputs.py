"""What a user gives a collection to start from: bookmarks, a taxonomy, lists of URLs and examples, a query."""

from __future__ import annotations

from pathlib import Path

from opilio.errors import InputError
from opilio.model import normalize
from opilio.topics.bookmarks import read_bookmarks
from opilio.topics.examples import read_examples
from opilio.topics.hierarchy import ROOT
from opilio.topics.taxonomy import read_taxonomy
from opilio.topics.tree import ExampleKind, TopicTree, clean_name, words_of


def read_seeds(path: Path, tree: TopicTree) -> int:
    """Add the URLs of a text file, one per line, to the root of `tree`; blank lines and # comments are skipped.

    A title may follow the URL. Returns the number of new seeds.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "Give a text file with one URL on each line.") from None
    added, usable, bad = 0, 0, ""
    for number, line in enumerate(lines, 1):
        words = line.split(maxsplit=1)
        if not words or words[0].startswith("#"):
            continue
        url = normalize(words[0] if "://" in words[0] else f"http://{words[0]}")
        if not url:
            bad = bad or f"line {number}: {words[0][:80]!r} is not an http(s) URL"
            continue
        usable += 1
        added += tree.add_seed(tree.topics[ROOT], url, words[1] if len(words) > 1 else "")
    if not usable:  # URLs that the tree already has as examples are fine
        raise InputError(f"{path}: no usable URL" + (f" ({bad})" if bad else ""), "Write one URL on each line.")
    return added


def query_topic(query: str, tree: TopicTree) -> None:
    """Make the words of `query` the keywords of the root topic, and a virtual training document (BINGO 5.3)."""
    words = words_of(query)
    if not words:
        raise InputError(f"--query {query!r}: contains no word", "Give words that describe the pages you want.")
    root = tree.topics[ROOT]
    root.name = clean_name(query)
    root.keywords = words + root.keywords
    tree.add_example(root, ExampleKind.TEXT, query)


def read_inputs(
    bookmarks: Path | str | None = None,
    seeds: Path | str | None = None,
    query: str = "",
    examples: Path | str | None = None,
    topics: Path | str | None = None,
) -> TopicTree:
    """The topic tree made of all inputs."""
    if bookmarks and topics:
        raise InputError(
            "both bookmarks and a taxonomy are given", "Make the collection from one, then add the other to it."
        )
    tree = TopicTree()
    if bookmarks:
        tree = read_bookmarks(Path(bookmarks))
    elif topics:
        tree = read_taxonomy(Path(topics))
    if seeds:
        read_seeds(Path(seeds), tree)
    if examples:
        read_examples(Path(examples), tree)
    if query:
        query_topic(query, tree)
    return tree
