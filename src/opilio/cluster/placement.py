"""Which actor gets the leases of a host, and how many actors a cluster has room for.

A host stays with the actor that has leases of it under way, even a lost one, until the last of them is back: so no two
actors send requests to it at once. When it has none under way, rendezvous hashing gives it to one of the ready actors:
the same as before, unless that one is gone; a new actor takes its share from all others evenly.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import ray
import xxhash
from ray.util.placement_group import PlacementGroup, placement_group

MAX_REMEMBERED = 100_000


class Capacity:
    """Counts slots. One CPU of the engine's own node is kept for the engine, by a reservation of Ray's."""

    def __init__(self, workers: int) -> None:
        """`workers`: how many the user wants; 0: one for each CPU but the engine's."""
        self._workers = workers
        self._own_node = ray.get_runtime_context().get_node_id()
        self._reserved: PlacementGroup | None = None

    def slots(self) -> int:
        """How many workers there should be now."""
        if self._workers:
            return self._workers
        nodes = _live_nodes()
        cpus = sum(int(node["Resources"].get("CPU", 0)) for node in nodes)
        own = next((node for node in nodes if node["NodeID"] == self._own_node), None)
        if own is None or not own["Resources"].get("CPU") or cpus < 2:
            return max(1, cpus)
        if self._reserved is None:
            self._reserved = placement_group([{"CPU": 1, f"node:{own['NodeManagerAddress']}": 0.001}])
        return cpus - 1

    @staticmethod
    def has_node(node_id: str) -> bool:
        """Whether a node is alive, as far as the cluster knows."""
        return any(node["NodeID"] == node_id for node in _live_nodes())


def _live_nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


class Numbered(Protocol):
    """Something with a number that no other has."""

    @property
    def number(self) -> int:
        """A number that no other has."""
        ...


Who = TypeVar("Who", bound=Numbered)


class Placement(Generic[Who]):
    """Gives hosts to those who are ready."""

    def __init__(self) -> None:
        self._ready: dict[int, Who] = {}
        self._under_way: dict[str, tuple[Who, int]] = {}
        self._chosen: dict[str, Who] = {}  # by hashing; looked up with every lease

    def add(self, who: Who) -> None:
        """Give hosts to `who` too from now on."""
        self._ready[who.number] = who
        self._chosen.clear()

    def remove(self, who: Who) -> None:
        """Give no further hosts to `who`; those with leases under way stay there until `ended`."""
        if self._ready.pop(who.number, None) is not None:
            self._chosen.clear()

    @property
    def ready(self) -> int:
        """How many there are to give hosts to."""
        return len(self._ready)

    def of(self, host: str) -> Who | None:
        """Who has a host; None when nobody is ready."""
        if host in self._under_way:
            return self._under_way[host][0]
        if host not in self._chosen:
            if not self._ready:
                return None
            if len(self._chosen) >= MAX_REMEMBERED:
                self._chosen.clear()
            name = host.encode()
            number = max(self._ready, key=lambda number: (xxhash.xxh3_64_intdigest(name, seed=number), number))
            self._chosen[host] = self._ready[number]
        return self._chosen[host]

    def begun(self, host: str, who: Who) -> None:
        """A lease of a host was given to `who`."""
        self._under_way[host] = who, self._under_way.get(host, (who, 0))[1] + 1

    def ended(self, host: str) -> None:
        """A lease of a host came back."""
        who, count = self._under_way.pop(host)
        if count > 1:
            self._under_way[host] = who, count - 1
