"""A Ray cluster of the tests: nodes that are processes on this machine, small and quiet, and ways to break them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

HEAD, NODE = "127.0.0.2", "127.0.0.3"  # Ray takes 127.0.0.1 for the address of the machine's network
STORE_BYTES = 78 * 2**20  # Ray takes little less


class SmallCluster:
    """A head of two CPUs, of which one is the engine's, and a node of one."""

    def __init__(self) -> None:
        self._cluster = Cluster()
        self._start_head()
        self.start_node()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def _start_head(self, **more: Any) -> None:
        self._head = self._cluster.add_node(
            num_cpus=2, node_ip_address=HEAD, object_store_memory=STORE_BYTES,
            include_dashboard=False, include_log_monitor=False, **more,
        )  # fmt: skip

    def start_node(self) -> None:
        self._node = self._cluster.add_node(num_cpus=1, node_ip_address=NODE, object_store_memory=STORE_BYTES)

    def lose_node(self) -> None:
        """The Ray of the node is killed; the workers there are not told."""
        self._cluster.remove_node(self._node, allow_graceful=False)

    def replace_node(self) -> None:
        self.lose_node()
        self.start_node()

    def restart_head(self) -> None:
        """Head and node are lost, and come back a moment later at the same address."""
        port = int(self.address.rpartition(":")[2])
        self._cluster.remove_node(self._head, allow_graceful=False)
        self._cluster.remove_node(self._node, allow_graceful=False)
        self._cluster = Cluster()
        time.sleep(1.0)
        self._start_head(gcs_server_port=port)
        self.start_node()

    def workers(self) -> list[int]:
        """The processes of our actors in this cluster."""
        found = []
        for node in (self._head, self._node):
            for raylet in node.all_processes.get("raylet", []):
                found += _children(raylet.process.pid, "ray::WorkerActor")
        return found

    def stop(self) -> None:
        self._cluster.shutdown()


def bridges(of: int | None = None) -> list[int]:
    """The bridge processes of a process: of this one unless told."""
    return _children(of or os.getpid(), "opilio.cluster.process")


def _children(pid: int, command: str) -> list[int]:
    search = ["pgrep", "-P", str(pid), "-f", command]
    return [int(found) for found in subprocess.run(search, capture_output=True, text=True, check=False).stdout.split()]


def kill_one(pids: list[int]) -> None:
    """kill -9 of the first, if there is one at this moment."""
    if pids:
        os.kill(pids[0], signal.SIGKILL)
