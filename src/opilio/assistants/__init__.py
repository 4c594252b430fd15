"""Assistants: language models that use collections as tools, by the Model Context Protocol (`opilio mcp`).

Most tools are operations of the one declaration (`crawl/operations`): `tools.py` chooses them, and adds what a model
needs, a description and a compact form of the result (`results.py`). The schema of the arguments, the check of what was
sent and the annotation *read-only* follow from the declaration. A few tools concern several collections or start
crawls: these are methods of a `Desk` (`desk.py`), declared in the same way. `limits.py` says what an assistant may
start, and `server.py` speaks the protocol, on standard input and output or over HTTP on loopback.

Invariants: what comes from the web is marked as data in every result and error, and no page can end the mark, because
it has a number that is drawn for each result. An assistant reads no file of this machine, and its SQL only reads. It
starts no crawl without a limit of pages and of time, none into the private network, and changes no setting: those of a
new collection are given by whoever starts the server.
"""
