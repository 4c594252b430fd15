"""The lab: webs that answer the same every time, and experiments that compare crawlers on them.

Nothing here is needed for a crawl of the real web. `webs` has recorded webs (answers of real servers in a folder) and
how they are replayed; `local_web` makes a web of the documentation on this machine, for the tests and the benchmarks;
`shore_web` is the written web of the demo; `experiments` runs strategies on recorded webs and measures them.
"""
