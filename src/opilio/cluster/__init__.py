"""A crawl on many machines: its workers are actors of a Ray cluster, everything else is as on one.

The engine decides as always, and speaks as always to a process over a socket (`opilio.crawl.pool`). That process is the
one here (`process.py`): a Ray driver that passes leases on to actors and their visits back. It stands between because a
Ray driver ends, as a whole and at once, when the node it is connected to is lost: the engine must not.

Ray places the actors, moves bytes, notices deaths. What is ours: which actor has a host's leases, and that the leases
of a lost actor come back once.
"""
