"""What surrounds the text of every page: head, header, sidebar, breadcrumb, footer, and links by name.

The anatomy is that of a real documentation site, so that a typical page of the full web has as many bytes and links as
one out there, most of them boilerplate that a crawler has to see through. A name in a docstring, a base class or a
called function is linked to the page that documents it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from urllib.parse import quote

from opilio.lab.local_web.harvest import Doc, summary

# A name found by its last part alone must be unmistakable: used once, and no everyday word.
MIN_LONE_NAME_CHARS = 5
# Links in the sidebar: a window around the page's own place in the tree of its section.
NEAR_ENTRIES = 46
NEAR_MODULES = 12
_STYLE = """
:root{--ink:#1c1e21;--paper:#fff;--line:#d8dee4;--accent:#0b57d0;--code:#f6f8fa}
*{box-sizing:border-box}body{margin:0;font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
header.site{display:flex;gap:1.5rem;align-items:center;padding:.7rem 1.2rem;border-bottom:1px solid var(--line)}
header.site a{color:inherit;text-decoration:none;font-weight:600}.layout{display:grid;grid-template-columns:17rem 1fr}
nav.sidebar{padding:1rem;border-right:1px solid var(--line);font-size:.9rem}nav.sidebar ul{list-style:none;padding:0}
nav.sidebar li{padding:.12rem 0}nav.sidebar li.current>a{font-weight:700}nav.breadcrumb{font-size:.85rem}
main{padding:1.2rem 2rem;max-width:56rem}a{color:var(--accent)}pre{background:var(--code);padding:.8rem;overflow:auto}
code{font-family:ui-monospace,monospace;font-size:.92em}
dl.field-list dt{font-weight:600}dl.field-list dd{margin:0 0 .6rem 1.5rem}
.signature{background:var(--code);padding:.6rem;border-left:3px solid var(--accent)}table{border-collapse:collapse}
td,th{border:1px solid var(--line);padding:.2rem .5rem}
footer{border-top:1px solid var(--line);padding:1rem;font-size:.85rem}
@media(max-width:50rem){.layout{grid-template-columns:1fr}nav.sidebar{border-right:0}}
@media print{nav,footer{display:none}}
""".strip()


@dataclass(frozen=True)
class Entry:
    """A documented object with the page it got."""

    doc: Doc
    url: str

    @property
    def path(self) -> str:
        """The page's path on its host."""
        return self.url[len("http://") + len(self.doc.host) :]

    @property
    def label(self) -> str:
        """The name as the page's own section writes it."""
        inner = self.doc.name[len(self.doc.module) + 1 :]
        return inner or self.doc.module

    @cached_property
    def summary(self) -> str:
        """The first sentence of the documentation."""
        return summary(self.doc.text)


def entry_for(doc: Doc) -> Entry:
    """A module's page is a folder; its objects are files in it."""
    folder = f"http://{doc.host}/{quote(doc.module)}/"
    inner = doc.name[len(doc.module) + 1 :]
    return Entry(doc, f"{folder}{quote(inner)}.html" if inner else folder)


class Names:
    """Resolves names, nearest first: the class, the module, its package, the whole web."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._published: dict[str, Entry] = {}
        self._real: dict[str, Entry] = {}
        self._lone: dict[str, Entry | None] = {}
        for entry in entries:
            self._published.setdefault(entry.doc.name, entry)
            if entry.doc.real_name:
                self._real.setdefault(entry.doc.real_name, entry)
            last = entry.doc.name.rpartition(".")[2]
            self._lone[last] = None if last in self._lone else entry

    def by_real_name(self, name: str) -> Entry | None:
        """The page of an object known by where it was defined."""
        return self._real.get(name) or self._published.get(name)

    def in_prose(self, name: str, near: Doc, *, quoted: bool) -> Entry | None:
        """The page a name in the text of `near` means; a quoted name is looked for further away than a plain one."""
        scope = near.name
        while scope:
            found = self._published.get(f"{scope}.{name}")
            if found is not None:
                return found
            scope = scope.rpartition(".")[0]
        found = self._published.get(name) or self._real.get(name)
        if found is None and quoted and len(name) >= MIN_LONE_NAME_CHARS:
            found = self._lone.get(name.rpartition(".")[2])
        return found


@dataclass(frozen=True)
class Site:
    """One host with its section of documentation."""

    host: str
    name: str
    topic: str
    entries: tuple[Entry, ...] = ()
    neighbours: tuple[str, ...] = ()
    # Links every page of the host carries at its bottom: (address, label).
    footer: tuple[tuple[str, str], ...] = ()

    @cached_property
    def modules(self) -> list[Entry]:
        """The module pages, in order."""
        return [entry for entry in self.entries if entry.doc.kind == "module"]

    @cached_property
    def by_module(self) -> dict[str, list[Entry]]:
        """The objects of each module, in order."""
        grouped: dict[str, list[Entry]] = {}
        for entry in self.entries:
            if entry.doc.kind != "module":
                grouped.setdefault(entry.doc.module, []).append(entry)
        return grouped

    @cached_property
    def position(self) -> dict[str, int]:
        """The place of each page in the site, by URL."""
        return {entry.url: place for place, entry in enumerate(self.entries)}

    @cached_property
    def module_position(self) -> dict[str, int]:
        """The place of each module among the modules."""
        return {entry.doc.module: place for place, entry in enumerate(self.modules)}


@dataclass(frozen=True)
class FramedPage:
    """What is particular to one page; `frame` adds the rest."""

    url: str
    title: str
    main: str
    topic: str = ""
    description: str = ""
    crumbs: tuple[tuple[str, str], ...] = ()
    sidebar: str = ""
    robots: str = ""
    canonical: str = ""
    extra_head: str = field(default="", repr=False)


def link(href: str, label: str, title: str = "", css: str = "") -> str:
    """An anchor; its parts are escaped here."""
    css_attribute = f' class="{css}"' if css else ""
    title_attribute = f' title="{escape(title)}"' if title else ""
    return f'<a{css_attribute} href="{escape(href)}"{title_attribute}>{escape(label)}</a>'


def bullet_list(items: Iterable[str], css: str = "") -> str:
    """A list of ready HTML items."""
    css_attribute = f' class="{css}"' if css else ""
    return f"<ul{css_attribute}>\n" + "\n".join(f"<li>{item}</li>" for item in items) + "\n</ul>"


def frame(site: Site, page: FramedPage) -> bytes:
    """The whole page as it is served."""
    crumbs = " &rsaquo; ".join(link(href, label) for href, label in page.crumbs)
    breadcrumb = f'<nav class="breadcrumb" aria-label="breadcrumb">{crumbs}</nav>' if crumbs else ""
    sidebar = f'<nav class="sidebar" aria-label="contents">\n{page.sidebar}\n</nav>' if page.sidebar else ""
    footer = " &middot; ".join(link(href, label) for href, label in site.footer)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
{_head(site, page)}
</head>
<body>
<header class="site"><a class="brand" href="/">{escape(site.name)}</a>
<span class="tagline">{escape(site.topic or "pages from the local web")}</span></header>
<div class="layout">
{sidebar}
<main id="content" role="main">
{breadcrumb}
{page.main}
</main>
</div>
<footer class="site"><p>{footer}</p>
<p class="small">Made from the documentation installed on this machine. {escape(site.host)}</p></footer>
</body>
</html>
""".encode()


def _head(site: Site, page: FramedPage) -> str:
    title, description = escape(page.title), escape(page.description or page.title)
    lines = [
        '<meta charset="utf-8">',
        f"<title>{title}</title>",
        f'<meta name="description" content="{description}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta property="og:title" content="{title}">',
        '<meta property="og:type" content="article">',
        f'<meta property="og:site_name" content="{escape(site.name)}">',
        f'<meta property="og:description" content="{description}">',
    ]
    if page.robots:
        lines.append(f'<meta name="robots" content="{page.robots}">')
    if page.canonical:
        lines.append(f'<link rel="canonical" href="{escape(page.canonical)}">')
    lines.append(f"<style>\n{_STYLE}\n</style>")
    lines.append(f'<script type="application/ld+json">{_linked_data(site, page)}</script>')
    return "\n".join(lines)


def _linked_data(site: Site, page: FramedPage) -> str:
    data = {
        "@context": "http://schema.test/",
        "@type": "TechArticle",
        "headline": page.title,
        "isPartOf": site.name,
        "breadcrumb": [label for _, label in page.crumbs],
    }
    return json.dumps(data).replace("<", "\\u003c")  # a docstring cannot close the script element


def sidebar(site: Site, current: Entry) -> str:
    """The section's tree around `current`, and the sites next to this one."""
    near_modules = _window(site.modules, site.module_position[current.doc.module], NEAR_MODULES)
    near = _window(site.entries, site.position[current.url], NEAR_ENTRIES)
    parts = [
        "<h3>Modules</h3>",
        _tree(near_modules, current),
        f"<h3>{escape(current.doc.module)}</h3>",
        _tree([entry for entry in near if entry.doc.kind != "module" or entry not in near_modules], current),
        "<h3>Other sites</h3>",
        bullet_list(link(f"http://{host}/", host.removesuffix(".test")) for host in site.neighbours),
    ]
    return "\n".join(parts)


def _tree(entries: Sequence[Entry], current: Entry) -> str:
    return '<ul class="toctree">\n' + "\n".join(_tree_item(entry, entry is current) for entry in entries) + "\n</ul>"


def _tree_item(entry: Entry, is_current: bool) -> str:
    kind, css = entry.doc.kind, "toctree-l1 current" if is_current else "toctree-l1"
    badge = f'<span class="badge badge-{kind}" aria-hidden="true">{kind[0]}</span>'
    anchor = link(entry.path, entry.label, entry.summary, "reference internal")
    return f'<li class="{css}" data-kind="{kind}">{badge} {anchor}</li>'


def _window(entries: Sequence[Entry], place: int, size: int) -> Sequence[Entry]:
    first = max(0, min(place - size // 2, len(entries) - size))
    return entries[first : first + size]
