"""The engine's side of a cluster: `on_ray` makes workers that are reached through the bridge, and what actors send.

An actor sends parcels: visits, each with the records of its answer for the archive. The bridge must only write the
records and tell the visit where they are. So it reads two parts of a visit; the document, by far the largest part,
passes as the bytes it came in.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from opilio.crawl.messages import WorkerSetup
from opilio.crawl.worker_pool import ProcessWorkers, Program, Workers
from opilio.errors import SettingsError, not_installed
from opilio.model import Fetch, Lease, Visit
from opilio.settings import from_table

POLL_S = 2.0  # an actor answers after this time, with or without parcels, and is called again
ALONE_S = 20.0  # an actor that was not called for this long ends
WATCH_S = 1.0  # how often it looks
BRIDGE = "opilio.cluster.process:run_bridge"
AUTO = "auto"
_HINT = "Look at the messages above, and at the cluster: ray status. What is stored is safe: crawl on when it is well."


class Parcel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A visit as an actor sends it. Its `fetch` gives the place of the response within `records`."""

    visit: Visit
    records: bytes = b""


_READ = {"lease": Lease, "fetch": Fetch, "fatal": str}

if TYPE_CHECKING:

    class ClosedVisit(msgspec.Struct, frozen=True, array_like=True):
        """A visit of which only some parts are read."""

        lease: Lease
        fetch: Fetch
        fatal: str

else:
    ClosedVisit = msgspec.defstruct(
        "ClosedVisit",
        [(name, _READ.get(name, msgspec.Raw)) for name in Visit.__struct_fields__],
        frozen=True,
        array_like=True,
    )


class ClosedParcel(msgspec.Struct, frozen=True, array_like=True):
    """A parcel as the bridge reads it."""

    visit: ClosedVisit
    records: bytes = b""


leases_decoder: msgspec.msgpack.Decoder[list[Lease]] = msgspec.msgpack.Decoder(list[Lease])
parcels_decoder: msgspec.msgpack.Decoder[list[ClosedParcel]] = msgspec.msgpack.Decoder(list[ClosedParcel])


def placed(visit: ClosedVisit, fetch: Fetch, fatal: str = "") -> Any:
    """The visit with another `fetch`."""
    return msgspec.structs.replace(visit, fetch=fetch, fatal=fatal)


def on_ray(address: str = AUTO, workers: int = 0) -> Callable[[WorkerSetup], Workers]:
    """Workers for `Collection.crawl(workers=...)`: actors of the Ray cluster at `address`, HOST:PORT of its head.

    `auto`: the cluster that this machine belongs to. `workers`: how many; 0: one for each CPU of the cluster but one,
    which stays free for the engine.
    """
    check_ray()
    check_address(address)

    def make(setup: WorkerSetup) -> Workers:
        program = Program(BRIDGE, (address, str(workers)), greets=True, hold_s=orphaned_s(setup), hint=_HINT)
        return ProcessWorkers(setup, 1, program)

    return make


def check_address(address: str) -> None:
    """Refuse what cannot be the address of a cluster."""
    host, _, port = address.rpartition(":")
    if address != AUTO and not (host and port.isdigit()):
        raise SettingsError(f"{address!r} is not the address of a Ray cluster", "Give HOST:PORT of its head, or auto.")


def check_ray(doing: str = "a crawl") -> None:
    """Say what to do where Ray is missing."""
    if importlib.util.find_spec("ray") is None:
        raise not_installed("ray", f"{doing} on a cluster", "cluster")


def orphaned_s(setup: WorkerSetup) -> float:
    """How long a lost actor may still send requests: until they time out, or it notices that it is alone."""
    return min(from_table(setup.settings, "settings of the crawl").fetch.total_timeout_s, ALONE_S + WATCH_S)
