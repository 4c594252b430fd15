"""The figures of collections for Prometheus: in its format, those of `status`, of a running crawl and of others."""

import math
import re
from pathlib import Path

import pytest

from browsed import crawled
from conftest import MakeCollection
from opilio.crawl import Status
from opilio.web.metrics import METRICS, exposition
from running_crawls import SEEDS, crawl_beside, wait_until
from web_portal import Portal

_SAMPLE = re.compile(r'([a-z_:][a-z0-9_:]*)\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"')
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Samples:
    """The samples of an exposition. Fails where the text format 0.0.4 is broken: an unknown line, a sample without its
    type or apart from the others of its metric, one that is there twice, a counter with another name."""
    found: Samples = {}
    kinds: dict[str, str] = {}
    said: set[str] = set()
    now = ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            now = line.split(" ")[2]
            assert now not in said and len(line.split(" ", 3)[3]) > 5
            said.add(now)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == now and kind in ("counter", "gauge") and (kind == "counter") == name.endswith("_total")
            kinds[name] = kind
        else:
            match = _SAMPLE.fullmatch(line)
            assert match and match[1] == now and now in kinds, line
            labels = frozenset(
                (name, value.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\"))
                for name, value in _LABEL.findall(match[2])
            )
            assert (now, labels) not in found
            found[now, labels] = float(match[3])
            assert math.isfinite(found[now, labels])
    return found


def by_official_parser(text: str) -> Samples:
    """The same by the client library of Prometheus, where that is installed."""
    parser = pytest.importorskip("prometheus_client.parser")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_figures_are_those_of_status(crawled_taught: Path, tmp_path: Path) -> None:
    """Each collection of the shelf has its figures under its name; a damaged one is down, and does not hide the others."""
    collection = crawled(crawled_taught, tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "collection.duckdb").write_bytes(b"no database" * 1000)
    with Portal(tmp_path) as portal:
        code, text = portal.get("/metrics")
        assert code == 200
        found, status = parsed(text), collection.status()
        own = ("collection", "birds & bees")
        assert (
            found["opilio_up", frozenset([own])] == 1 and found["opilio_up", frozenset([("collection", "broken")])] == 0
        )
        assert found["opilio_pages", frozenset([own])] == status.pages > 0
        assert found["opilio_relevant_pages", frozenset([own])] == status.relevant
        assert found["opilio_harvest_ratio", frozenset([own])] == pytest.approx(status.harvest)
        assert found["opilio_crawl_running", frozenset([own])] == 0
        assert found["opilio_outcomes_total", frozenset([own, ("outcome", "ok")])] == status.outcomes["ok"]
        assert (
            sum(value for (name, labels), value in found.items() if name == "opilio_hosts" and own in labels)
            == status.hosts
        )
        collection.forget([collection.sql("SELECT url FROM collection LIMIT 1").rows[0][0]])
        assert parsed(portal.get("/metrics")[1])["opilio_pages", frozenset([own])] == status.pages - 1


def test_a_running_crawl_is_asked(make_collection: MakeCollection) -> None:
    """While a crawl runs, its figures are those of the moment."""
    collection = make_collection(SEEDS, fetch__host_delay_s=0.3)
    thread = crawl_beside(collection)
    with Portal(collection.folder) as portal:
        name = frozenset([("collection", collection.folder.name)])

        def pages() -> float:
            return parsed(portal.get("/metrics")[1]).get(("opilio_pages", name), 0)

        wait_until(lambda: pages() > 3)
        first = pages()
        wait_until(lambda: pages() > first)
        assert parsed(portal.get("/metrics")[1])["opilio_crawl_running", name] == 1
        collection.stop()
        thread.join(30)
        wait_until(lambda: parsed(portal.get("/metrics")[1])["opilio_crawl_running", name] == 0)


HOSTILE = 'a"b\\c\nd 😀 {x="1"} 5'


def test_names_are_escaped() -> None:
    """A collection or topic of any name neither breaks the format nor adds a figure."""
    empty = dict.fromkeys(Status.__dataclass_fields__, 0)
    status = Status(**{**empty, "topics": {HOSTILE: 3}, "outcomes": {"ok": 1}, "counters": {HOSTILE: 2}})
    text = exposition({HOSTILE: status, "other": None})
    found = parsed(text)
    assert found["opilio_topic_queued_urls", frozenset([("collection", HOSTILE), ("topic", HOSTILE)])] == 3
    assert {name for name, _ in found} <= {metric.name for metric in METRICS} | {"opilio_info", "opilio_up"}


def test_the_official_parser_agrees() -> None:
    """The client library of Prometheus reads the same."""
    empty = dict.fromkeys(Status.__dataclass_fields__, 0)
    text = exposition({HOSTILE: Status(**{**empty, "topics": {HOSTILE: 3}, "outcomes": {"ok": 1}, "counters": {}})})
    assert by_official_parser(text) == parsed(text)
