"""What a collection knows, without the numbers it knows it by: to compare collections that number it otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opilio import Collection
from opilio.lab.local_web import LocalServer
from opilio.parts.rules import RULES
from opilio.store import Store

_OIDS = {"oid", "oid_src", "oid_dst", "of_oid", "parent"}
_SIDS = {"sid", "sid_src", "sid_dst"}
_KCIDS = {"kcid", "topic", "pcid"}
FIRST_SITEMAP = -(2**40)
Facts = dict[str, Counter[tuple[Any, ...]]]


def facts(folder: Path) -> Facts:
    """The rows of every table; a URL, a host or a topic stands where its number did."""
    with Store.open(folder) as store:
        urls = dict(store.query("SELECT oid, url FROM crawl", max_rows=10**6).rows)
        hosts = dict(store.query("SELECT sid, host FROM hosts", max_rows=10**6).rows)
        paths = {topic.kcid: topic.path for topic in store.load_topics()}
        assert sorted(urls) == list(range(len(urls))), "oids are dense"
        assert [row[0] for row in store.query("SELECT oid FROM crawl", max_rows=10**6).rows] == sorted(urls)
        assert sorted(hosts) == list(range(len(hosts))), "sids are dense"
        return {table: _rows(store, table, urls, hosts, paths) for table in RULES}


def _rows(
    store: Store, table: str, urls: Mapping[int, str], hosts: Mapping[int, str], paths: Mapping[int, str]
) -> Counter[tuple[Any, ...]]:
    result = store.query(f"SELECT * FROM {table}", max_rows=10**7)

    def plain(column: str, value: Any) -> Any:
        if value is None:
            return None
        if column in _OIDS:
            if value < 0:
                return "a sitemap" if value < FIRST_SITEMAP else f"robots.txt of {hosts[-1 - value]}"
            return urls[value]
        if column in _SIDS:
            return hosts[value]
        if column in _KCIDS and table not in ("offers",):
            return paths.get(value, value) if value > -3 else f"OTHERS below {paths[-3 - value]}"
        return repr(value) if isinstance(value, (list, dict, bytes)) else value

    return Counter(tuple(plain(c, v) for c, v in zip(result.columns, row, strict=True)) for row in result.rows)


def differences(one: Facts, other: Facts, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """By table, rows that one has and the other has not, a few of them."""
    found = {}
    for table in RULES:
        if table not in without and one[table] != other[table]:
            found[table] = {
                "lost": list((one[table] - other[table]).items())[:3],
                "new": list((other[table] - one[table]).items())[:3],
            }
    return found


def urls_in(folder: Path, where: str) -> set[str]:
    """The URLs of a collection that are so."""
    return {url for (url,) in Collection(folder).sql(f"SELECT url FROM crawl WHERE {where}").rows}


def asked_for(server: LocalServer) -> list[str]:
    """The pages that were requested, in order."""
    asked = [f"http://{request.host}{request.path}" for request in server.requests()]
    return [url for url in asked if not url.endswith("/robots.txt")]
