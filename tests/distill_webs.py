"""Small webs in a database, for the tests of link analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from opilio.store import Store
from webs import put_rows

URLS = 12
TABLES = ("crawl", "hosts", "links", "pages", "redirects", "duplicates", "judgements", "topics", "hubs", "auth")


@dataclass
class Web:
    """A web by oid, and what a crawl has found out about it."""

    hosts: Sequence[int]
    links: Sequence[tuple[int, int]] = ()
    relevance: Sequence[float] = ()
    """1.0 of all when not given."""
    waiting: frozenset[int] = frozenset()
    redirects: Mapping[int, int] = field(default_factory=dict)
    duplicates: Mapping[int, int] = field(default_factory=dict)
    kcid: Sequence[int] = ()
    accepted: Sequence[bool] = ()
    """Nothing is judged when not given."""
    topics: Sequence[tuple[int, int | None, str, str]] = ((0, None, "", "good"),)
    """Number, parent, path and mark."""
    domains: Sequence[str] = ()
    """The registered domain of each host; without them, no host has a row."""
    ips: Sequence[str | None] = ()
    """The address of each host."""
    boilerplate: frozenset[tuple[int, int]] = frozenset()
    """Links in the footer of their page."""

    def fill(self, store: Store) -> Store:
        """Put this web in the place of what is in the database."""
        return put_rows(store, self._rows(), emptied=TABLES)

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        oids = range(len(self.hosts))
        merged = {**self.duplicates, **self.redirects}
        relevance, kcid = self.relevance or [1.0] * len(oids), self.kcid or [0] * len(oids)
        pages = [oid for oid in oids if oid not in merged and oid not in self.waiting]
        common = {"depth": 1, "hops": 0, "priority": 0.0}
        judged = {"model_version": 1 if self.accepted else None}
        return {
            "crawl": [
                {
                    "oid": oid, "url": f"http://h{self.hosts[oid]}.org/{oid}", "key": oid, "sid": self.hosts[oid],
                    "topic": kcid[oid], "state": "waiting" if oid in self.waiting else "fetched",
                    "outcome": None if oid in self.waiting else "redirect" if oid in merged else "ok",
                    "relevance": relevance[oid], "numtries": int(oid not in self.waiting), **common,
                }
                for oid in oids
            ],
            "pages": [
                {
                    "oid": oid, "visited": "2024-01-01", "title": f"page {oid}", "relevance": relevance[oid],
                    "kcid": kcid[oid], **judged,
                }
                for oid in pages
            ],
            "judgements": [
                {
                    "oid": oid, "kcid": kcid[oid], "accepted": self.accepted[oid], "relevance": relevance[oid],
                    "confidence": 1.0, "undoubted": False, **judged,
                }
                for oid in pages if self.accepted
            ],
            "links": [
                {
                    "oid_src": u, "oid_dst": v, "sid_src": self.hosts[u], "sid_dst": self.hosts[v],
                    "region": "footer" if (u, v) in self.boilerplate else "main",
                }
                for u, v in self.links
            ],
            "hosts": [
                {
                    "sid": sid, "host": f"h{sid}.org", "domain": domain, "ip": self.ips[sid] if self.ips else None,
                    "pages": 0, "bytes": 0, "requests": 0,
                }
                for sid, domain in enumerate(self.domains)
            ],
            "redirects": [{"oid_src": u, "oid_dst": v, "status": 301} for u, v in self.redirects.items()],
            "duplicates": [{"oid": u, "of_oid": v, "step": "duplicate-content"} for u, v in self.duplicates.items()],
            "topics": [
                {"kcid": number, "pcid": parent, "name": path.split(" / ")[-1] or "everything", "path": path, "type": mark}
                for number, parent, path, mark in self.topics
            ],
        }  # fmt: skip

    def end(self, oid: int) -> int | None:
        """The page a URL stands for, by going on step by step; None in a circle."""
        merged = {**self.duplicates, **self.redirects}
        for _ in range(len(self.hosts) + 1):
            if oid not in merged:
                return oid
            oid = merged[oid]
        return None

    def edges(self) -> set[tuple[int, int]]:
        """The links between pages, redirects and duplicates followed."""
        ends = {(self.end(source), self.end(target)) for source, target in self.links}
        return {(source, target) for source, target in ends if source is not None and target is not None}


_oid = st.integers(0, URLS - 1)
_link = st.tuples(_oid, _oid)
_onward = st.dictionaries(_oid, _oid, max_size=4).map(lambda found: {a: b for a, b in found.items() if a != b})


def webs(merging: bool = True, own_hosts: bool = False) -> st.SearchStrategy[Web]:
    """Random webs of few hosts; with circles of redirects, repeated links and links of a page to itself."""
    return st.builds(
        Web,
        hosts=st.just(list(range(URLS))) if own_hosts else st.lists(st.integers(0, 4), min_size=URLS, max_size=URLS),
        links=st.lists(_link, max_size=60) | st.lists(_link, min_size=20, max_size=80),
        relevance=st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=URLS, max_size=URLS),
        waiting=st.frozensets(_oid, max_size=5) if merging else st.just(frozenset()),
        redirects=_onward if merging else st.just({}),
        duplicates=_onward if merging else st.just({}),
    )
