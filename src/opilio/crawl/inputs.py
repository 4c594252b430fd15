"""What the user gives a collection to start from."""

from __future__ import annotations

from pathlib import Path

from opilio.errors import InputError
from opilio.topics import TopicTree, query_topic, read_bookmarks, read_examples, read_seeds, read_taxonomy


def read_inputs(
    bookmarks: Path | str | None = None,
    seeds: Path | str | None = None,
    query: str = "",
    examples: Path | str | None = None,
    topics: Path | str | None = None,
) -> TopicTree:
    """The topic tree of what the user gave."""
    if bookmarks and topics:
        raise InputError("both bookmarks and a taxonomy", "Make the collection from one, then add the other to it.")
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
