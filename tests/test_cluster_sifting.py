"""Sifting on a Ray cluster: the same pages as on one machine, also when workers are lost."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from archives import made_pages, write_warc
from opilio import Collection
from opilio.cluster.sifting import sift_on_ray
from opilio.crawl.verification import verify
from opilio.errors import OpilioError, SettingsError
from opilio.sift import SiftReport, sift
from ray_cluster import SmallCluster

pytestmark = pytest.mark.slow  # a cluster takes ten seconds to start


@pytest.fixture(scope="module")
def cluster() -> Iterator[SmallCluster]:
    cluster = SmallCluster()
    yield cluster
    cluster.stop()


def actors() -> list[int]:
    found = subprocess.run(["pgrep", "-f", "ray::SieveActor"], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def test_losing_workers_loses_no_page(cluster: SmallCluster, tmp_path: Path) -> None:
    """Two workers sift four archives while each is killed once: every page on topic is stored, once."""
    pages = made_pages(1200, links=False)
    files = [write_warc(tmp_path / f"{part}.warc.gz", pages[part::4]) for part in range(4)]
    collection = Collection.create(tmp_path / "c", query="owl hunts night voles barns", needs_seeds=False)
    killed: list[int] = []

    def kill(report: SiftReport) -> None:
        if report.stored and len(killed) < 2:
            for pid in actors()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    report = sift(collection, [str(file) for file in files], program=sift_on_ray(cluster.address, 2), on_tick=kill)
    assert killed
    assert (report.judged, report.stored, report.done) == (1200, 400, 4)
    urls = sorted(url for (url,) in collection.sql("SELECT url FROM collection").rows)
    assert urls == sorted(page.url for page in pages if page.on_topic)
    assert verify(collection.folder).defects == 0


def test_a_cluster_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """An address where nothing answers, or that is none, is named with the next step."""
    with pytest.raises(SettingsError, match="not the address"):
        sift_on_ray("nowhere")
    collection = Collection.create(tmp_path / "c", query="owl", needs_seeds=False)
    file = write_warc(tmp_path / "a.warc.gz", made_pages(3))
    with pytest.raises(OpilioError, match="no Ray cluster can be reached"):
        sift(collection, [str(file)], program=sift_on_ray("127.0.0.1:1"))
