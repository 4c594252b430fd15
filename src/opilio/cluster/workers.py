"""The engine's side: workers on a Ray cluster, reached through the bridge."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from opilio.cluster.parcels import ALONE_S, WATCH_S
from opilio.crawl.child import Program
from opilio.crawl.messages import WorkerSetup
from opilio.crawl.pool import ProcessWorkers, Workers
from opilio.errors import SettingsError
from opilio.settings import from_table

MODULE = "opilio.cluster.process"
AUTO = "auto"
_HINT = "Look at the messages above, and at the cluster: ray status. What is stored is safe: crawl on when it is well."


def on_ray(address: str = AUTO, workers: int = 0) -> Callable[[WorkerSetup], Workers]:
    """Workers for `Collection.crawl(workers=...)`: actors of the Ray cluster at `address`, HOST:PORT of its head.

    `auto`: the cluster that this machine belongs to. `workers`: how many; 0: one for each CPU of the cluster but one,
    which stays free for the engine.
    """
    check_ray()
    host, _, port = address.rpartition(":")
    if address != AUTO and not (host and port.isdigit()):
        raise SettingsError(f"{address!r} is not the address of a Ray cluster", "Give HOST:PORT of its head, or auto.")

    def make(setup: WorkerSetup) -> Workers:
        program = Program(MODULE, (address, str(workers)), greets=True, hold_s=orphaned_s(setup), hint=_HINT)
        return ProcessWorkers(setup, 1, program)

    return make


def check_ray() -> None:
    """Say what to do where Ray is missing."""
    if importlib.util.find_spec("ray") is None:
        raise SettingsError("a crawl on a cluster needs Ray, which is not installed", "pip install 'opilio[cluster]'")


def orphaned_s(setup: WorkerSetup) -> float:
    """How long after we have lost an actor it may still be asking: until its requests or its patience end."""
    return min(from_table(setup.settings, "settings of the crawl").fetch.total_timeout_s, ALONE_S + WATCH_S)
