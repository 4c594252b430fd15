"""Results: a full-text index of the collection, the portal's views of it, clusters, and the assisted review.

The index is a folder next to the database that can be deleted and rebuilt. While a crawl runs, the crawl keeps it up to
date; otherwise whoever searches does. Searching reads its files only, and takes nothing from the crawl.

- The index: `index.py` (the words of pages), `columns.py` (what changes with every judgement, and near duplicates),
  `index_update.py` (bringing both up to date), `index_update_process.py` (the same in another process).
- Searching: `query.py` (the language of questions), `matching.py` (what a question asks the index), `ranking.py`
  (rankings and term vectors), `results.py` (results with facets, and similar pages), `snippets.py`.
- Views of the database: `portal.py` (the portal's front, the pages of a topic, and all that is known of one page),
  `cards.py` (the same for notebooks), `clusters.py` (subtopics found in a topic), `review.py` (judging a sample to know
  the precision and recall of the whole).

Invariants: a page counts as indexed only once it is in the columns, which are replaced in one step; an update can be
killed at any moment and loses at most its last piece.
"""
