"""Parts: one collection divided by topic (`split.py`), and several collections merged into one (`merge.py`); and which
pages two collections share (`shared.py`).

The originals never change. A new collection is built under another name and renamed when it is complete
(`building.py`), so a crash leaves all of it or nothing. What happens to each table stands in one table of rules
(`rules.py`): `divide.py` applies it to split, `join.py` to merge, both by SQL in a scratch database (`building.py`). A
new collection gets the WARC files that its rows point to (`warc_files.py`).

Invariants: every fact is in exactly one part; no part fetches what belongs to another; and merging the parts of a
collection gives the collection again.
"""
