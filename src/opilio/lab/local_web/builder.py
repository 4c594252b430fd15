"""Builds the whole local web, or reads the one that was built before.

What was built is kept in the user's cache folder, under a key over everything it depends on. A cache file has plain
data (MessagePack, compressed), so reading one never runs code. A file that cannot be read is treated as missing; a
folder that cannot be written costs time only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import zstandard

from opilio.errors import InputError
from opilio.lab.local_web import weave
from opilio.lab.local_web.frame import Site
from opilio.lab.local_web.harvest import Doc, harvest
from opilio.lab.local_web.hubs import DIRECTORY_HOST, MIN_SEED_CHARS, HubPages, rank
from opilio.lab.local_web.noise import ALMANAC_HOST, LICENCES_HOST, noise_hosts, noise_pages
from opilio.lab.local_web.sections import DISTRIBUTIONS, SECTIONS, Section, small_sections
from opilio.lab.local_web.weave import DocPages, SitePages, Traits, sites_of
from opilio.lab.local_web.web import LocalWeb, WebPage

# Files kept in the folder; the longest unused go first.
MAX_FILES = 12
_LEVEL = 1  # a full web of 200 MB is read in 0.3 s and written in 0.5 s; higher levels win little

T = TypeVar("T")
Size = Literal["full", "small"] | int
# Documented objects in the small web; with hubs, noise and copies it has about 300 pages.
SMALL_DOCS = 184
# Below this number of pages, hubs and noise have fewer hosts, lest there be more noise than documentation.
LEAN_BELOW_PAGES = 3000
# A web of a given number of pages spreads over at least this many sections.
MIN_SECTIONS = 12
# Share of pages that are documentation, in a web of a given number of pages.
DOC_SHARE = 0.8
_FOOTER = (
    (f"http://{LICENCES_HOST}/python.html", "licence"),
    (f"http://{ALMANAC_HOST}/", "calendar"),
    (f"http://{DIRECTORY_HOST}/", "directory"),
)


@dataclass(frozen=True)
class Cache:
    """The cache files that are good for this Python, these packages and this version of the code."""

    folder: Path
    key: str

    @classmethod
    def of_this_machine(cls) -> Cache:
        """The cache under $XDG_CACHE_HOME or ~/.cache."""
        home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
        return cls(Path(home) / "opilio", _key())

    def read_web(self, name: str) -> LocalWeb | None:
        """The web kept under `name`."""
        file = self._file("web", name)
        web = _read(file, LocalWeb)
        return replace(web, cache_file=file) if web is not None else None

    def write_web(self, name: str, web: LocalWeb) -> Path | None:
        """Keep `web`; the file, or None when the folder cannot be written."""
        return self._write(self._file("web", name), dump(web))

    def read_docs(self, small: bool) -> list[Doc] | None:
        """The harvest kept, never an empty one."""
        return _read(self._file("docs", "small" if small else "full"), list[Doc]) or None

    def write_docs(self, docs: list[Doc], small: bool) -> None:
        """Keep a harvest."""
        data = zstandard.ZstdCompressor(level=_LEVEL).compress(msgspec.msgpack.encode(docs))
        self._write(self._file("docs", "small" if small else "full"), data)

    def _file(self, kind: str, name: str) -> Path:
        return self.folder / f"localweb-{kind}-{name}-{self.key}.zst"

    def _write(self, file: Path, data: bytes) -> Path | None:
        """Write to another name and rename: a reader never sees half a file."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".localweb-", delete=False) as part:
                part.write(data)
            Path(part.name).replace(file)
            self._prune()
        except OSError:
            return None
        return file

    def _prune(self) -> None:
        files = sorted(self.folder.glob("localweb-*.zst"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[MAX_FILES:]:
            file.unlink(missing_ok=True)


def dump(web: LocalWeb) -> bytes:
    """A web as the bytes of a cache file."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(msgspec.msgpack.encode(replace(web, cache_file=None)))


def load(file: Path) -> LocalWeb | None:
    """The web in a cache file, or None when it is not one."""
    return _read(file, LocalWeb)


def _read(file: Path, kind: type[T]) -> T | None:
    try:
        data = zstandard.ZstdDecompressor().decompress(file.read_bytes())
        value = msgspec.msgpack.decode(data, type=kind)
    except (OSError, zstandard.ZstdError, msgspec.MsgspecError):
        return None
    with contextlib.suppress(OSError):
        os.utime(file)  # so that pruning takes the longest unused
    return value


def _key() -> str:
    digest = hashlib.sha256(f"{sys.version}\0{sys.platform}".encode())
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            digest.update(f"\0{name} {importlib.metadata.version(name)}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def build(size: Size = "full", seed: int = 0) -> LocalWeb:
    """The local web of this machine: the same for the same installed packages, size and seed.

    `full` takes everything that is installed, `small` about 300 pages of the standard library on 12 hosts (for
    tests), a number: about that many pages.
    """
    if size not in ("full", "small") and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
        raise InputError(f"size {size!r} of the local web", "Use 'full', 'small' or a number of pages.")
    cache = Cache.of_this_machine()
    web = cache.read_web(f"{size}-{seed}")
    if web is None:
        sections = small_sections() if size == "small" else SECTIONS
        docs = cache.read_docs(size == "small") or _harvested(cache, sections, small=size == "small")
        is_lean = size != "full" and (size == "small" or int(size) < LEAN_BELOW_PAGES)
        web = _assemble(_choose(docs, size, random.Random(seed)), seed, small=is_lean)
        web = dataclasses.replace(web, cache_file=cache.write_web(f"{size}-{seed}", web))
    return web


def _harvested(cache: Cache, sections: Sequence[Section], *, small: bool) -> list[Doc]:
    docs = harvest(sections)
    cache.write_docs(docs, small)
    return docs


def _choose(docs: list[Doc], size: Size, rng: random.Random) -> list[Doc]:
    """As many documents as the size needs: whole modules' pages first, topics taking turns."""
    if size == "full":
        return docs
    budget = SMALL_DOCS if size == "small" else max(MIN_SECTIONS, round(int(size) * DOC_SHARE))
    by_host: dict[str, list[Doc]] = {}
    for doc in docs:
        by_host.setdefault(doc.host, []).append(doc)
    topics: dict[str, list[str]] = {}
    for section in SECTIONS:
        if section.host in by_host:
            topics.setdefault(section.topic, []).append(section.host)
    turns = [host for step in range(len(by_host)) for hosts in topics.values() for host in hosts[step : step + 1]]
    even_share = -(-budget // len(turns))
    cap = even_share if size == "small" else max(even_share, budget // MIN_SECTIONS)
    chosen: list[Doc] = []
    for host in turns:
        if len(chosen) >= budget:
            break
        chosen += _cut(by_host[host], min(cap, budget - len(chosen)), rng)
    return chosen


def _cut(docs: list[Doc], limit: int, rng: random.Random) -> list[Doc]:
    """At most `limit` of one host's documents, in their order; modules before the objects in them."""
    modules = [doc for doc in docs if doc.kind == "module"][: max(1, limit // 3)]
    kept = {doc.module for doc in modules}
    objects = [doc for doc in docs if doc.kind != "module" and doc.module in kept]
    names = {doc.name for doc in modules} | {
        doc.name for doc in rng.sample(objects, min(len(objects), limit - len(modules)))
    }
    return [doc for doc in docs if doc.name in names]


def _assemble(docs: list[Doc], seed: int, *, small: bool) -> LocalWeb:
    rng = random.Random(seed)
    sites = sites_of(docs, _FOOTER)
    traits = Traits.throw(sites, rng)
    ranked = rank(sites, traits.noindex)
    hubs = HubPages(sites, ranked, rng, small=small, mirror=weave.MIRROR_HOST)
    pages, copies = _pages(sites, traits, hubs, rng, small=small)
    hosts = [*(s.host for s in sites), *hubs.hosts(), *noise_hosts(small=small), weave.MIRROR_HOST]
    if not small:
        hosts.append(weave.MOVED_HOST)
    page_hosts = [host for host in hosts if host != weave.MOVED_HOST]
    return LocalWeb(
        pages=pages,
        redirects=weave.redirects(sites, page_hosts, small=small),
        files=weave.files(sites, hosts, traits.private, rng),
        copies=copies,
        noindex=frozenset(url for url, page in pages.items() if b'<meta name="robots" content="noindex' in page.body),
        hosts=sorted(hosts),
        topics=sorted(ranked),
        ranked={
            topic: [entry.url for entry in entries if len(entry.doc.text) >= MIN_SEED_CHARS] or [entries[0].url]
            for topic, entries in ranked.items()
        },
        seed=seed,
    )


def _pages(
    sites: Sequence[Site], traits: Traits, hubs: HubPages, rng: random.Random, *, small: bool
) -> tuple[dict[str, WebPage], dict[str, str]]:
    writer, site_writer = DocPages(sites, traits), SitePages(traits, hubs.addresses())
    pages: dict[str, WebPage] = {}
    for site in sites:
        pages.update((page.url, page) for page in site_writer.write(site))
        pages.update((entry.url, writer.write(site, entry)) for entry in site.entries)
    pages.update((page.url, page) for page in hubs.write())
    pages.update((page.url, page) for page in noise_pages(small=small, footer=_FOOTER))
    copies: dict[str, str] = {}
    for url, copy in weave.print_views(sites, writer, rng).items():
        pages[url] = weave.with_print_link(pages[url], copy)
        pages[copy.url], copies[copy.url] = copy, url
    for url, copy in weave.mirror(pages, weave.mirrored_site(sites)).items():
        pages[copy.url], copies[copy.url] = copy, url
    return pages, copies
