"""A crawl on many machines: its workers are actors of a Ray cluster, everything else is as on one machine.

The engine decides as always, and talks as always to a process over a channel (`opilio.crawl.worker_pool`). That process
is the bridge (`process.py`): a Ray driver that passes leases on to actors and their visits back. It stands between
because a Ray driver ends, as a whole and at once, when the node it is connected to is lost: the engine must not.

Ray places the actors, moves bytes, notices deaths. The rest is ours: how many actors there are and which of them gets
the leases of a host (`bridge.py`), that calls to an actor can be repeated without harm (`actor.py`), and that the
leases of a lost one come back once, when none of its requests can be under way any more (`bridge.py`). What came from
the web reaches the engine's machine with the visit (`workers.py`) and is written to a WARC file there before the engine
receives the visit: nodes need to share nothing.

    from opilio import Collection
    from opilio.cluster import on_ray

    Collection("birds").crawl(workers=on_ray("127.0.0.1:6379"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.cluster.workers import on_ray

__all__ = ["on_ray"]

_MODULES = {"on_ray": "workers"}

__getattr__ = loader(__name__, _MODULES)
