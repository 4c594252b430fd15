"""A federation of collections (OASIS 3): one question, asked of those collections that are likely to answer it.

Each collection is a peer: a folder on this machine, or a collection that another Opilio serves. (1) A peer publishes a
summary: its topics, and how often words stand in its pages (`summary.py`). (2) For each question the peers are chosen
that are likely to have some of the best pages (`choosing.py`, by the guesses of `estimating.py`). (3) They are asked at
the same time, each with a limit of time (`asking.py`, `patience.py`). (4) Their answers come with what scores are made
of (`answering.py`), so that pages of different collections can be compared (`merging.py`). What users say of a page
goes back to the collections that gave it, and crawlers hand each other URLs that suit another's topics (`profiles.py`).

Peers of other machines prove who they are by a token (`remote.py`), and what they say is checked before it is believed
(`checking.py`). Who the peers are stands in a file (`peers.py`).

Two things hold always. Whoever is passed over without an estimate has no page that fits. And when all are asked, pages
have the scores that they would have in one collection.
"""
