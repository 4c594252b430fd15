"""What several test files share: a small local web, served by a process of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opilio import Collection
from opilio.localweb import LocalServer

MakeCollection = Callable[..., Collection]


@pytest.fixture(scope="session")
def small_server() -> Iterator[LocalServer]:
    """The small local web with its misbehaving hosts; the log is the server's own."""
    with LocalServer("small") as server:
        yield server


@pytest.fixture
def make_collection(small_server: LocalServer, tmp_path: Path) -> MakeCollection:
    """Makes a collection that crawls the small local web at full speed."""

    def make(seeds: list[str], name: str = "collection", **changes: Any) -> Collection:
        file = tmp_path / f"{name}.txt"
        file.write_text("\n".join(seeds))
        small_server.clear_log()
        settings: dict[str, Any] = {
            "fetch.connect_to": small_server.connect_to,
            "fetch.host_delay_s": 0.0,
            "fetch.backoff_s": 0.1,
            "run.workers": 1,
        }
        settings.update({key.replace("__", "."): value for key, value in changes.items()})
        return Collection.create(tmp_path / name, seeds=file, settings=settings)

    return make
