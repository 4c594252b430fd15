"""From harvested documentation to the pages of the documentation sites, linked by their real references.

Around the pages stands what webmasters add over the years: redirects from old addresses, robots.txt, sitemaps, mirrors
and print views.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from opilio.lab.local_web.documentation import DocWriter
from opilio.lab.local_web.frame import Entry, FramedPage, Names, Site, bullet_list, entry_for, frame, link, sidebar
from opilio.lab.local_web.harvest import Doc
from opilio.lab.local_web.sections import SECTIONS
from opilio.lab.local_web.web import WebPage

NEIGHBOURS_EACH_SIDE = 6
# Shares of pages and sites that have a property.
WELCOME_SHARE = 0.4
NOINDEX_SHARE = 0.01
CANONICAL_SHARE = 0.05
PRIVATE_SHARE = 0.3
FRONT_MODULES = 12
MIRROR_HOST = "mirror.python.test"
MOVED_HOST = "docs.python.test"
PRINT_SHARE = 0.03
SITEMAP_SHARE = 0.35
CRAWL_DELAY_S = 0.2
CRAWL_DELAY_HOSTS = 2
MIRROR_PAGES = 60


@dataclass(frozen=True)
class Traits:
    """The dice, thrown once for the whole web: which pages and hosts have which property."""

    welcome: frozenset[str]
    private: frozenset[str]
    noindex: frozenset[str]
    canonical: frozenset[str]

    @classmethod
    def throw(cls, sites: Sequence[Site], rng: random.Random) -> Traits:
        """Choose at random, but never nothing: a web of any size has at least one of each."""
        hosts = [site.host for site in sites]
        urls = [entry.url for site in sites for entry in site.entries if entry.doc.kind != "module"] or ["", ""]
        return cls(
            welcome=_share(hosts, WELCOME_SHARE, rng),
            private=_share(hosts, PRIVATE_SHARE, rng),
            noindex=_share(urls, NOINDEX_SHARE, rng),
            canonical=_share(urls, CANONICAL_SHARE, rng),
        )


def _share(items: Sequence[str], share: float, rng: random.Random) -> frozenset[str]:
    return frozenset(rng.sample(items, max(1, round(len(items) * share))))


def sites_of(docs: Sequence[Doc], footer: tuple[tuple[str, str], ...]) -> list[Site]:
    """One site for each section that has documentation, in the order of the sections."""
    by_host: dict[str, list[Entry]] = {}
    for doc in docs:
        by_host.setdefault(doc.host, []).append(entry_for(doc))
    sections = [section for section in SECTIONS if section.host in by_host]
    hosts = [section.host for section in sections]
    own_footer = (("/about.html", "about"), ("/imprint.html", "imprint"), ("/genindex.html", "index"))
    return [
        Site(
            section.host,
            section.name,
            section.topic,
            tuple(_unique(by_host[section.host])),
            tuple(_ring(hosts, place)),
            (*own_footer, *footer),
        )
        for place, section in enumerate(sections)
    ]


def _unique(entries: list[Entry]) -> Iterator[Entry]:
    """Entries once each by URL."""
    seen: set[str] = set()
    for entry in entries:
        if entry.url not in seen:
            seen.add(entry.url)
            yield entry


def _ring(hosts: Sequence[str], place: int) -> Iterator[str]:
    steps = [step for step in range(-NEIGHBOURS_EACH_SIDE, NEIGHBOURS_EACH_SIDE + 1) if step]
    yield from dict.fromkeys(hosts[(place + step) % len(hosts)] for step in steps if len(hosts) > abs(step))


class DocPages:
    """Writes the page of each documented object."""

    def __init__(self, sites: Sequence[Site], traits: Traits) -> None:
        self.names = Names(entry for site in sites for entry in site.entries)
        self.traits = traits

    def write(self, site: Site, entry: Entry, print_view_of: str = "") -> WebPage:
        """The page of `entry`; with `print_view_of`, a copy without sidebar and with a few words more."""
        is_print, url = bool(print_view_of), print_view_of or entry.url
        title = f"{entry.doc.name} \N{EM DASH} {entry.summary[:80]}" if entry.summary else entry.doc.name
        if is_print:
            title = f"{title} (print view)"
        page = FramedPage(
            url,
            title,
            self._main(site, entry, is_print=is_print),
            description=entry.summary,
            crumbs=tuple(self._crumbs(site, entry)),
            sidebar="" if is_print else sidebar(site, entry),
            robots="noindex" if entry.url in self.traits.noindex else "",
            canonical=entry.url if self._has_canonical(entry, is_print=is_print) else "",
        )
        return WebPage(url, frame(site, page), site.topic, title)

    def _has_canonical(self, entry: Entry, *, is_print: bool) -> bool:
        """Half of the print views name their original, the other half has to be recognised."""
        return entry.url in self.traits.canonical or (is_print and len(entry.url) % 2 == 0)

    def _main(self, site: Site, entry: Entry, *, is_print: bool) -> str:
        doc = entry.doc
        writer = DocWriter(entry, self.names, lambda other: other.path if other.doc.host == doc.host else other.url)
        signature = f'<p class="signature"><code>{escape(doc.name + doc.signature)}</code></p>' if doc.signature else ""
        source = f'<h2>Source</h2>\n<div class="highlight"><pre>{escape(doc.source)}</pre></div>' if doc.source else ""
        parts = [
            f"<p>Print view of {escape(entry.url)}, made for paper.</p>" if is_print else "",
            f"<h1>{escape(doc.name)}</h1>",
            signature,
            f"<article>\n{writer.text()}\n</article>",
            self._members(site, entry),
            source,
            writer.references("Base classes", doc.bases),
            writer.references("Refers to", doc.uses),
            "" if is_print else self._neighbours(site, entry),
        ]
        return "\n".join(part for part in parts if part)

    def _members(self, site: Site, entry: Entry) -> str:
        doc = entry.doc
        inside = site.by_module.get(doc.module, [])
        if doc.kind != "module":
            inside = [other for other in inside if other.doc.name.startswith(doc.name + ".")]
        items = [f"{link(other.path, other.label)} &ndash; {escape(other.summary)}" for other in inside]
        items += [f"<code>{escape(name)}</code> &ndash; {escape(text)}" for name, text in doc.entries]
        return f"<h2>Members</h2>\n{bullet_list(items, 'members')}" if items else ""

    def _crumbs(self, site: Site, entry: Entry) -> Iterator[tuple[str, str]]:
        yield "/contents.html", site.name
        if entry.doc.kind == "module":
            return
        yield f"/{entry.doc.module}/", entry.doc.module
        owner = self.names.by_real_name(entry.doc.name.rpartition(".")[0])
        if owner is not None and owner.doc.kind == "class" and owner.doc.host == site.host:
            yield owner.path, owner.label

    def _neighbours(self, site: Site, entry: Entry) -> str:
        place = site.position[entry.url]
        steps = []
        if place > 0:
            steps.append(f"previous: {link(site.entries[place - 1].path, site.entries[place - 1].doc.name)}")
        if place + 1 < len(site.entries):
            steps.append(f"next: {link(site.entries[place + 1].path, site.entries[place + 1].doc.name)}")
        return f'<p class="steps">{" &middot; ".join(steps)}</p>' if steps else ""


class SitePages:
    """Writes the pages every documentation site has besides its documentation."""

    def __init__(self, traits: Traits, hubs: dict[str, list[tuple[str, str]]]) -> None:
        self.traits, self.hubs = traits, hubs

    def write(self, site: Site) -> Iterator[WebPage]:
        """Front page, contents, about, imprint, index and, on some hosts, notes that robots.txt keeps private."""
        front = self._welcome(site) if site.host in self.traits.welcome else self._front(site)
        yield self._page(site, "/", f"{site.name}: {site.topic}", front)
        yield self._page(site, "/contents.html", f"Contents of {site.name}", self._contents(site))
        yield self._page(site, "/about.html", f"About {site.name}", self._about(site))
        yield self._page(site, "/imprint.html", f"Imprint of {site.name}", self._imprint(site), robots="nofollow")
        yield self._page(site, "/genindex.html", f"Index of {site.name}", self._index(site), robots="noindex")
        if site.host in self.traits.private:
            notes = f"<h1>Notes of {escape(site.name)}</h1>\n<p>robots.txt asks crawlers not to read this.</p>"
            yield self._page(site, "/private/notes.html", f"Notes of {site.name}", notes)

    def _page(self, site: Site, path: str, title: str, main: str, robots: str = "") -> WebPage:
        url = f"http://{site.host}{path}"
        crumbs = (("/", site.name),) if path != "/" else ()
        return WebPage(url, frame(site, FramedPage(url, title, main, crumbs=crumbs, robots=robots)), "", title)

    def _welcome(self, site: Site) -> str:
        enter = link("/contents.html", "Enter")
        return f"<h1>Welcome to {escape(site.host)}</h1>\n<p>You are our guest. {enter}</p>"

    def _front(self, site: Site) -> str:
        modules = bullet_list(link(entry.path, entry.doc.name) for entry in site.modules[:FRONT_MODULES])
        contents = link("/contents.html", "All contents")
        others = bullet_list(link(f"http://{host}/", host) for host in site.neighbours)
        return f"<h1>{escape(site.name)}</h1>\n{modules}\n<p>{contents}</p>\n<h2>Other sites</h2>\n{others}"

    def _contents(self, site: Site) -> str:
        modules = [f"{link(entry.path, entry.doc.name)} &ndash; {escape(entry.summary)}" for entry in site.modules]
        hubs = bullet_list(link(url, label) for url, label in self.hubs.get(site.topic, []))
        return (
            f"<h1>Contents</h1>\n<p>About {escape(site.topic)}.</p>\n{bullet_list(modules)}\n"
            f"<h2>Further resources</h2>\n{hubs}"
        )

    def _about(self, site: Site) -> str:
        notes = link("/private/notes.html", "Notes") if site.host in self.traits.private else ""
        counts = f"{len(site.entries)} pages on {len(site.modules)} modules"
        return f"<h1>About {escape(site.name)}</h1>\n<p>{escape(site.host)} has {counts}.</p>\n<p>{notes}</p>"

    def _imprint(self, site: Site) -> str:
        return f"<h1>Imprint</h1>\n<p>{escape(site.host)} is a name that exists on this machine only.</p>"

    def _index(self, site: Site) -> str:
        """Every object of the site; modules by their old addresses, as indexes are brought up to date last."""
        old = [link(f"/library/{entry.doc.module}.html", entry.doc.name) for entry in site.modules]
        entries = sorted((e for e in site.entries if e.doc.kind != "module"), key=lambda e: (e.label.lower(), e.url))
        items = [link(entry.path, entry.label) for entry in entries]
        return f"<h1>Index</h1>\n{bullet_list(old)}\n{bullet_list(items)}"


def mirrored_site(sites: Sequence[Site]) -> Site:
    """The site of the standard library that has a mirror: one of middling size."""
    own = [site for site in sites if site.host.endswith(".python.test")]
    return min(own, key=lambda site: (abs(len(site.entries) - MIRROR_PAGES), site.host))


def mirror(pages: dict[str, WebPage], site: Site) -> dict[str, WebPage]:
    """Byte for byte the pages of `site` under another host name: copy by URL of the original."""
    origin = f"http://{site.host}/"
    return {
        url: WebPage(f"http://{MIRROR_HOST}/{url[len(origin) :]}", page.body, page.topic, page.title)
        for url, page in pages.items()
        if url.startswith(origin)
    }


def print_views(sites: Sequence[Site], writer: DocPages, rng: random.Random) -> dict[str, WebPage]:
    """Near copies of some pages: copy by URL of the original."""
    pairs = [(site, entry) for site in sites for entry in site.entries if entry.doc.kind != "module"]
    chosen = rng.sample(pairs, min(len(pairs), max(4, round(len(pairs) * PRINT_SHARE))))
    return {
        entry.url: writer.write(site, entry, print_view_of=f"http://{site.host}/print{entry.path}")
        for site, entry in sorted(chosen, key=lambda pair: pair[1].url)
    }


def with_print_link(page: WebPage, copy: WebPage) -> WebPage:
    """`page` with a link to its print view."""
    path = "/" + copy.url.split("/", 3)[3]
    anchor = f'<p class="tools"><a rel="alternate" href="{escape(path)}">print view</a></p>\n</main>'
    return WebPage(page.url, page.body.replace(b"</main>", anchor.encode(), 1), page.topic, page.title)


def redirects(sites: Sequence[Site], hosts: Iterable[str], *, small: bool) -> dict[str, tuple[int, str]]:
    """Old addresses: of front pages, of modules (some moved twice) and of a host that was given up."""
    found: dict[str, tuple[int, str]] = {f"http://{host}/index.html": (301, f"http://{host}/") for host in hosts}
    for site in sites:
        for place, entry in enumerate(site.modules):
            library = f"http://{site.host}/library/{entry.doc.module}.html"
            found[library] = ((301, 302, 308)[place % 3], entry.url)
            found[f"http://{site.host}/old/{entry.doc.module}"] = (307, library)
            if not small and site.host.endswith(".python.test"):
                found[f"http://{MOVED_HOST}/{entry.doc.module}"] = (301, entry.url)
    if not small and sites:
        found[f"http://{MOVED_HOST}/"] = (302, f"http://{sites[0].host}/")
    return found | _mirrored(found, mirrored_site(sites))


def _mirrored(found: dict[str, tuple[int, str]], site: Site) -> dict[str, tuple[int, str]]:
    """The redirects of the mirrored site, as its mirror sends them."""
    origin, copy = f"http://{site.host}/", f"http://{MIRROR_HOST}/"
    return {
        url.replace(origin, copy, 1): (status, target.replace(origin, copy, 1))
        for url, (status, target) in found.items()
        if url.startswith(origin)
    }


def files(
    sites: Sequence[Site], hosts: Sequence[str], private: frozenset[str], rng: random.Random
) -> dict[str, tuple[str, bytes]]:
    """robots.txt of every host, sitemap.xml of some."""
    smallest = sorted(sites, key=lambda site: (len(site.entries), site.host))
    delayed = {site.host for site in smallest[:CRAWL_DELAY_HOSTS]}
    mapped = {site.host: site for site in sites if rng.random() < SITEMAP_SHARE or site is sites[0]}
    found: dict[str, tuple[str, bytes]] = {}
    for host in hosts:
        lines = ["User-agent: *", "Disallow: /private/" if host in private else "Disallow:"]
        if host in delayed:
            lines.append(f"Crawl-delay: {CRAWL_DELAY_S}")
        if host in mapped:
            lines.append(f"Sitemap: http://{host}/sitemap.xml")
            found[f"http://{host}/sitemap.xml"] = ("application/xml", _sitemap(mapped[host].entries))
        found[f"http://{host}/robots.txt"] = ("text/plain; charset=utf-8", "\n".join([*lines, ""]).encode())
    return found


def _sitemap(entries: Iterable[Entry]) -> bytes:
    rows = "\n".join(f"<url><loc>{escape(entry.url)}</loc></url>" for entry in entries)
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{schema}">\n{rows}\n</urlset>\n'.encode()
