"""What webmasters add to a site: redirects from old addresses, robots.txt, sitemaps, mirrors and print views."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from html import escape

from opilio.localweb.frame import Site
from opilio.localweb.names import Entry
from opilio.localweb.weave import DocPages
from opilio.localweb.web import WebPage

MIRROR_HOST = "mirror.python.test"
MOVED_HOST = "docs.python.test"

PRINT_SHARE = 0.03
SITEMAP_SHARE = 0.35
CRAWL_DELAY_S = 0.2
CRAWL_DELAY_HOSTS = 2
MIRROR_PAGES = 60


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
