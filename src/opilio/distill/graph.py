"""The links of a collection in memory, 9 bytes a link, with redirects and duplicates merged.

A URL may stand for another: where its redirect ends, or the page of which it is a duplicate. Links count for the URL
that is stood for.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from opilio.store import Store
from opilio.store.links import count_links, hosts_by_oid, merge_steps, page_oids, site_numbers, stream_links

if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.sparse import csr_array

    from opilio.distill.scores import Oids, Values

    Numbers: TypeAlias = npt.NDArray[np.integer]
    Flags: TypeAlias = npt.NDArray[np.bool_]

NOWHERE = -1
TABLE = "merged"
_CHUNK_LINKS = 1_000_000


def load_merged(cursor: duckdb.DuckDBPyConnection) -> tuple[Oids, Oids]:
    """URLs that stand for others, ascending, and for which: the last of a chain, NOWHERE when it goes in a circle."""
    oids, onward = merge_steps(cursor)
    return oids, follow(oids, onward)


def follow(oids: Oids, onward: Oids) -> Oids:
    """Where the chain of each of `oids` (ascending, distinct) ends; `onward` has the next step of each.

    Steps are doubled: after n rounds all chains of 2^n steps are done, so that long chains cost a few rounds.
    """
    ends = onward.copy()
    for _ in range(len(oids).bit_length()):
        places, is_merged = _places(oids, ends)
        if not is_merged.any():
            return ends
        ends[is_merged] = ends[places[is_merged]]
    ends[_places(oids, ends)[1]] = NOWHERE  # not at an end yet, so in a circle
    return ends


def ends_of(oids: Oids, merged: tuple[Oids, Oids]) -> Oids:
    """For each of `oids` the page it stands for, mostly itself."""
    places, is_merged = _places(merged[0], oids)
    ends = np.array(oids, np.int64)
    ends[is_merged] = merged[1][places[is_merged]]
    return ends


def register(cursor: duckdb.DuckDBPyConnection) -> None:
    """Let SQL on this cursor see the merged URLs as the table `merged` (oid, ends)."""
    oids, ends = load_merged(cursor)
    cursor.register(TABLE, pa.table({"oid": pa.array(oids, pa.int64()), "ends": pa.array(ends, pa.int64())}))


def _places(oids: Oids, wanted: Oids) -> tuple[Oids, npt.NDArray[np.bool_]]:
    """Where each of `wanted` is in `oids`, and whether it is there at all."""
    places = np.searchsorted(oids, wanted)
    inside = places < len(oids)
    is_there = np.zeros(len(wanted), np.bool_)
    is_there[inside] = oids[places[inside]] == wanted[inside]
    return places, is_there


@dataclass(frozen=True, eq=False)
class WebGraph:
    """Links from `sources[n]` to `targets[n]`, distinct, ascending by source, then target; some lead from a page to
    itself. Oids serve as places in `hosts` and `stored`."""

    sources: Numbers
    targets: Numbers
    hosts: Numbers
    """By oid: the host it is on."""
    stored: Flags
    """By oid: whether a page of it is in the collection, be it from before it was redirected."""
    merged: tuple[Oids, Oids]
    """URLs that stand for others, and for which; none of the former is in `sources` or `targets`."""
    is_boilerplate: Flags
    """By link: whether it occurs in boilerplate parts of its page only, such as navigation."""
    sites: Numbers
    """By host: its site, which is its registered domain."""
    servers: Numbers
    """By host: its server, which is its address where that is known."""

    @classmethod
    def of(cls, store: Store) -> Self:
        """The links of a collection as they are now, for several calls of `distill`."""
        with store.reading() as cursor:
            return cls.load(cursor)

    @property
    def urls(self) -> int:
        """Known URLs, which are the numbers below this one."""
        return len(self.hosts)

    @classmethod
    def load(cls, cursor: duckdb.DuckDBPyConnection) -> Self:
        """The links that are in the database now."""
        merged = load_merged(cursor)
        hosts = hosts_by_oid(cursor)
        stored = np.zeros(len(hosts), np.bool_)
        stored[page_oids(cursor)] = True
        keys = _keys(cursor, merged, len(hosts))
        is_boilerplate = (keys & 1).astype(np.bool_)
        keys >>= 1
        sources, targets = _split(keys, len(hosts))
        sites, servers = site_numbers(cursor, int(hosts.max(initial=-1)) + 1)
        return cls(sources, targets, hosts, stored, merged, is_boilerplate, sites, servers)

    def chosen(self, flags: Flags) -> Self:
        """The same graph with the links for which `flags` say so."""
        return dataclasses.replace(
            self,
            sources=self.sources[flags],
            targets=self.targets[flags],
            is_boilerplate=self.is_boilerplate[flags],
        )

    def between_hosts(self) -> Self:
        """The same graph without links inside one host."""
        return self.chosen(self.hosts[self.sources] != self.hosts[self.targets])

    def crosses_sites(self) -> Flags:
        """Which links lead from one site to another that is not on the same server."""
        sources, targets = self.hosts[self.sources], self.hosts[self.targets]
        other_site = self.sites[sources] != self.sites[targets]
        return np.asarray(other_site & (self.servers[sources] != self.servers[targets]))

    def within(self, pages: Flags) -> Self:
        """The same graph with the links from and to `pages`, given as a flag by oid."""
        return self.chosen(pages[self.sources] & pages[self.targets])

    def matrix(self, pages: Oids, weights: Values) -> csr_array:
        """Links as a matrix, the weight of each in the row of its source and the column of its target.

        Row i is page i of `pages`, ascending, among which are all sources and targets.
        """
        from scipy.sparse import csr_array  # noqa: PLC0415  (nobody else must wait for scipy)

        places = np.zeros(self.urls, np.int32)
        places[pages] = np.arange(len(pages))
        counts = np.bincount(places[self.sources], minlength=len(pages)) if len(pages) else np.zeros(0, np.int64)
        starts = np.concatenate(([0], np.cumsum(counts)))
        return csr_array((weights, places[self.targets], starts), shape=(len(pages), len(pages)))


def _keys(cursor: duckdb.DuckDBPyConnection, merged: tuple[Oids, Oids], urls: int) -> Oids:
    """Each link once, as one number, ascending: twice (source * urls + target), and 1 more for boilerplate."""
    keys = np.empty(count_links(cursor), np.int64)
    filled = 0
    for piece in stream_links(cursor):
        sources, targets = (ends_of(oids, merged) for oids in piece[:2])
        somewhere = (sources >= 0) & (targets >= 0)
        part = (sources[somewhere] * urls + targets[somewhere]) * 2 + piece[2][somewhere]
        keys[filled : filled + len(part)] = part
        filled += len(part)
    keys = keys[:filled]
    keys.sort()
    return keys[firsts(keys >> 1)]


def firsts(ordered: Numbers) -> Flags:
    """Which of the values in a row are unlike the one before."""
    flags = np.ones(len(ordered), np.bool_)
    flags[1:] = ordered[1:] != ordered[:-1]
    return flags


def _split(keys: Oids, urls: int) -> tuple[Numbers, Numbers]:
    small: type[np.int32 | np.int64] = np.int32 if urls <= np.iinfo(np.int32).max else np.int64
    sources: Numbers = np.empty(len(keys), small)
    targets: Numbers = np.empty(len(keys), small)
    for at in range(0, len(keys), _CHUNK_LINKS):  # in pieces: the whole would need 16 bytes a link in passing
        part = slice(at, at + _CHUNK_LINKS)
        sources[part], targets[part] = np.divmod(keys[part], urls)
    return sources, targets
