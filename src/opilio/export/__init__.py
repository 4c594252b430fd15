"""Exports: a collection in the form that other programs read.

One operation, `opilio export`, writes all of them; `formats.py` has the table of formats, picks one by the ending of
the target, and refuses options that a format has no use for. Pages come from the store in pieces
(`store/corpus.py`, which has the SQL). `documents.py` completes them by what is computed for exports only: stable ids,
Markdown, signals of quality, the group of near duplicates (`near_duplicates.py`), and the part of a corpus that a site
belongs to (`splits.py`).

`corpora.py` writes datasets, JSON Lines for retrieval (`chunks.py` cuts) and folders of Markdown. `graph.py` writes the
link graph. `outlines.py` writes bookmarks and OPML, `feeds.py` RSS and Atom, also for the portal and published sites.
Plain tables and WACZ are the store's own (`store/export.py`, `store/wacz.py`).

Invariants: a target appears under its name when it is complete, and an interrupted export leaves what was there before;
memory does not grow with the texts of a collection, only by some bytes a page; the same pages give the same ids and the
same parts, in every export.
"""

from __future__ import annotations

TABLES = ("jsonl", "csv", "parquet")
FOLDERS = ("dataset", "markdown", "graph")
"""Formats that write a folder."""
FORMATS = (*TABLES, "dataset", "rag", "markdown", "graphml", "graph", "opml", "bookmarks", "rss", "atom", "wacz")
"""All formats. The names stand here because commands need no more than these to start."""
