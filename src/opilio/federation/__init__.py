"""A federation of collections (OASIS 3): one question, answered by the collections that are likely to know.

Each collection is a peer: a folder on this machine, or a collection that another Opilio serves (`peers.py` has the
protocol, the records and the file that names the peers; `remote_peer.py` speaks HTTP). A question goes this way:

1. Every peer publishes a summary: its topics, and how often words occur in its pages (`summary.py`, `profiles.py`).
2. For each question those peers are selected that are likely to have some of the best pages (`selection.py`).
3. They are asked at the same time, each with a timeout (`search.py`).
4. Each answers with what its scores are made of (`answers.py`).
5. So pages of different collections can be compared and merged into one list (`results.py`).

Crawlers also offer each other URLs: `forwarding.py` finds pages that suit a peer's topics and sends their URLs,
`offers.py` decides which offers to accept and queues them. Feedback on a page goes to the collections that gave it.

Other machines prove who they are by a token, and what they send is validated before it is used (`validation.py`).

Two things always hold. A peer that is passed over without an estimate has no page that matches. And when all peers are
asked, pages have the scores that they would have in one collection.

This package comes before `opilio.crawl`: the crawl passes itself in where offered URLs are admitted (`AdmitsUrls`).
"""
