"""How many workers a cluster has room for: Ray is asked, again and again."""

from __future__ import annotations

from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group


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
