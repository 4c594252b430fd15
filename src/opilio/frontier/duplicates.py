"""Duplicates: pages seen before, recognised step by step (BINGO 4.2, OASIS 6).

Before the fetch: the same IP address and path under another host name, the same file name with another suffix. After
it: the same IP address and size, the same text, nearly the same text, a canonical link to a page we have. The first
step of all, the URL's key, is the frontier's own (`Frontier.known`).

That two hosts share an address proves little: thousands of sites share one. So by default two hosts count as aliases
only after `ALIAS_PROOFS` pairs of pages with the same path had the same text and no pair had different texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import xxhash

from opilio.frontier.arrays import ABSENT, KeyMap
from opilio.model import Document, Outcome
from opilio.model.url import path_of
from opilio.settings import DuplicateSettings

if TYPE_CHECKING:
    import numpy.typing as npt

    Oids: TypeAlias = npt.NDArray[np.int64]

ALIAS_PROOFS = 3
_SKETCH_BINS = 64
_DOCUMENT_SUFFIXES = frozenset(
    {"html", "htm", "xhtml", "shtml", "php", "asp", "aspx", "jsp", "txt", "pdf", "ps", "doc", "docx", "rtf", "odt",
     "ppt", "pptx", "odp", "tex", "dvi", "md"}
)  # fmt: skip

Bands = Callable[[bytes], list[int]]
"""The LSH keys of a sketch; the engine passes it in."""


class UrlAliases:
    """URLs that lead to the page of another URL, because they were redirected there or are duplicates of it."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        """By oid: the next URL on the way. There are no circles."""

    def add(self, oid: int, target: int) -> None:
        """A URL leads to another one from now on."""
        target = self.final(target)
        if target != oid:  # else it is a circle
            self._next[oid] = target

    def add_all(self, oids: Oids, targets: Oids) -> None:
        """The same for several URLs."""
        for oid, target in zip(oids.tolist(), targets.tolist(), strict=True):
            self.add(oid, target)

    def remove(self, oid: int) -> None:
        """A URL has a page of its own again."""
        self._next.pop(oid, None)

    def final(self, oid: int) -> int:
        """The URL whose page a URL leads to: itself, when it is no alias."""
        while oid in self._next:
            oid = self._next[oid]
        return oid

    def final_all(self, oids: list[int]) -> list[int]:
        """The same for several URLs."""
        if self._next.keys().isdisjoint(oids):  # nearly always
            return oids
        return [self.final(oid) for oid in oids]


class Duplicates:
    """What the fetched pages looked like, about 350 bytes a page. Remembers the first page of each kind."""

    def __init__(self, settings: DuplicateSettings, bands: Bands) -> None:
        self._settings = settings
        self._bands_of = bands
        self._ip_path = KeyMap()
        self._ip_size = KeyMap()
        self._stems = KeyMap()
        self._contents = KeyMap()
        self._bands = KeyMap()
        self._latest: tuple[bytes, list[int]] = (b"", [])
        self._sketches = np.zeros((256, _SKETCH_BINS), dtype=np.uint16)
        self._sketch_of: dict[int, int] = {}
        self._alias: dict[tuple[int, int], int] = {}  # two hosts -> proofs; negative: disproved
        self._host_of: dict[int, int] = {}  # oid of a page -> sid, only for pages whose address is shared
        self.asks_ip = settings.ip_path != "off"

    # -- before the fetch

    def known_elsewhere(self, oid: int, url: str, sid: int, ip: str) -> tuple[Outcome, int] | None:
        """The check that recognises a URL before it is fetched, and the page it duplicates, which is never itself."""
        if self._settings.suffix:
            twin = self._suffix_twin(url)
            if twin not in (ABSENT, oid):
                return Outcome.DUP_SUFFIX, twin
        if self.asks_ip and ip:
            twin = self._ip_path.get(_hash(ip, path_of(url)))
            if twin != ABSENT and self._is_alias(twin, sid):
                return Outcome.DUP_IP_PATH, twin
        return None

    def _is_alias(self, twin: int, sid: int) -> bool:
        other = self._host_of[twin]
        if other == sid:
            return False
        return self._settings.ip_path == "trust" or self._alias.get(_pair(other, sid), 0) >= ALIAS_PROOFS

    def _suffix_twin(self, url: str) -> int:
        stem, suffix = _stem(url)
        if not suffix:
            return ABSENT
        return self._stems.get(_hash(stem))

    # -- after the fetch

    def repeats(self, document: Document, sid: int, url: str, ip: str, size: int) -> tuple[Outcome, int] | None:
        """The check that recognises a fetched page, and the page it duplicates. A `size` of 0 is not compared."""
        twin = self._contents.get(document.content_hash) if document.content_hash else ABSENT
        self._learn_alias(url, sid, ip, twin)
        if self._settings.ip_size != "off" and size:
            same_size = self._ip_size.get(_hash(ip, str(size)))
            if same_size != ABSENT and (self._settings.ip_size == "trust" or same_size == twin):
                return Outcome.DUP_IP_SIZE, same_size
        if self._settings.content and twin != ABSENT:
            return Outcome.DUP_CONTENT, twin
        if self._settings.near_jaccard and document.shingles:
            near = self._near(document.shingles)
            if near != ABSENT:
                return Outcome.DUP_NEAR, near
        return None

    def remember(self, oid: int, document: Document, sid: int, url: str, ip: str, size: int) -> None:
        """A page was stored: recognise it from now on."""
        self.restore(oid, sid, url, ip, size, document.content_hash, document.shingles)

    def restore(self, oid: int, sid: int, url: str, ip: str, size: int, content_hash: int, shingles: bytes) -> None:
        """Remember a page by its stored figures, as after a restart."""
        if content_hash:  # 0: no text at all, which duplicates nothing
            self._contents.add(content_hash, oid)
        if self._settings.ip_size != "off" and size:
            self._ip_size.add(_hash(ip, str(size)), oid)
        if self.asks_ip:
            self._ip_path.add(_hash(ip, path_of(url)), oid)
            self._host_of[oid] = sid
        stem, suffix = _stem(url)
        if self._settings.suffix and suffix:
            self._stems.add(_hash(stem), oid)
        if self._settings.near_jaccard and shingles:
            self._add_sketch(oid, shingles)

    def _learn_alias(self, url: str, sid: int, ip: str, twin: int) -> None:
        if not self.asks_ip or not ip:
            return
        candidate = self._ip_path.get(_hash(ip, path_of(url)))
        if candidate == ABSENT or self._host_of[candidate] == sid:
            return
        pair = _pair(self._host_of[candidate], sid)
        proofs = self._alias.get(pair, 0)
        if proofs >= 0:
            self._alias[pair] = proofs + 1 if candidate == twin else -1

    def _near(self, shingles: bytes) -> int:
        for band in self._bands_in(shingles):
            candidate = self._bands.get(band)
            if candidate != ABSENT:
                same = np.count_nonzero(self._sketches[self._sketch_of[candidate]] == _fold(shingles))
                if same >= self._settings.near_jaccard * _SKETCH_BINS:
                    return candidate
        return ABSENT

    def _add_sketch(self, oid: int, shingles: bytes) -> None:
        row = self._sketch_of.get(oid, len(self._sketch_of))  # a page that changed takes its own row again
        if row == len(self._sketches):
            self._sketches = np.concatenate([self._sketches, np.zeros_like(self._sketches)])
        self._sketches[row] = _fold(shingles)
        self._sketch_of[oid] = row
        for band in self._bands_in(shingles):
            self._bands.add(band, oid)

    def _bands_in(self, shingles: bytes) -> list[int]:
        """The bands of a sketch, computed once for a page that is first searched for and then added."""
        if self._latest[0] is not shingles:
            self._latest = (shingles, self._bands_of(shingles))
        return self._latest[1]


def _fold(shingles: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    """16 bits of each bin are enough to compare: a chance agreement has odds of 1 in 65,536."""
    return np.frombuffer(shingles, dtype="<u4").astype(np.uint16)


def _hash(*parts: str) -> int:
    return xxhash.xxh3_64_intdigest("\0".join(parts).encode())


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def _stem(url: str) -> tuple[str, str]:
    """A URL without its suffix, and the suffix when it is one of a document; no suffix for a URL with a query."""
    stem, dot, suffix = url.rpartition(".")
    if dot and suffix.lower() in _DOCUMENT_SUFFIXES and "?" not in stem and stem.count("/") > 2 and stem[-1] != "/":
        return stem, suffix.lower()
    return url, ""
