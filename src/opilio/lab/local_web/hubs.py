"""Hub pages: lists of links on hosts of their own, about a topic but with next to no text on it.

A crawler that judges a page by its words alone throws them away; the best pages of a topic are one step behind them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from html import escape
from itertools import zip_longest

from opilio.lab.local_web.frame import Entry, FramedPage, Site, bullet_list, frame, link
from opilio.lab.local_web.web import WebPage

DIRECTORY_HOST = "directory.test"
RESOURCES_HOST = "links.test"
READING_HOST = "reading.test"

RESOURCES_PER_PAGE = 40
STRAY_LINKS = 5
OLD_ADDRESS_SHARE = 0.1
READING_LISTS = 3
MAX_SCORED_CHARS = 6000
MIN_SEED_CHARS = 300


def slug(topic: str) -> str:
    """A topic as a path: `machine-learning/clustering`."""
    return topic.replace(" ", "-")


def rank(sites: Sequence[Site], noindex: frozenset[str]) -> dict[str, list[Entry]]:
    """For each topic its entries, those with most to say first, taking turns between the topic's hosts."""
    by_topic: dict[str, list[list[Entry]]] = {}
    for site in sites:
        usable = [entry for entry in site.entries if entry.url not in noindex]
        usable.sort(key=lambda entry: (-_score(entry), entry.url))
        by_topic.setdefault(site.topic, []).append(usable)
    return {
        topic: [entry for turn in zip_longest(*groups) for entry in turn if entry is not None]
        for topic, groups in sorted(by_topic.items())
    }


def _score(entry: Entry) -> int:
    length = min(len(entry.doc.text), MAX_SCORED_CHARS)
    return length if entry.doc.kind != "method" else length // 2


class HubPages:
    """Writes the hubs. In a small web, one host carries all of them."""

    def __init__(
        self, sites: Sequence[Site], ranked: dict[str, list[Entry]], rng: random.Random, *, small: bool, mirror: str
    ) -> None:
        self.sites, self.ranked, self.rng, self.small, self.mirror = sites, ranked, rng, small, mirror
        self.resources_host = DIRECTORY_HOST if small else RESOURCES_HOST
        self.reading_host = DIRECTORY_HOST if small else READING_HOST

    def hosts(self) -> list[str]:
        """The hosts of the hubs."""
        return list(dict.fromkeys([DIRECTORY_HOST, self.resources_host, self.reading_host]))

    def addresses(self) -> dict[str, list[tuple[str, str]]]:
        """For each topic the hubs a site on it links to: (URL, label)."""
        return {
            topic: [
                (f"http://{DIRECTORY_HOST}/{slug(topic)}/", f"Directory: {topic}"),
                (f"http://{self.resources_host}/resources/{slug(topic)}.html", f"Resources on {topic}"),
                (f"http://{self.reading_host}/lists/{slug(topic)}-1.html", f"Reading list: {topic}"),
            ]
            for topic in self.ranked
        }

    def write(self) -> Iterator[WebPage]:
        """All hub pages."""
        yield from self._directory()
        for host, label in ((self.resources_host, "resources"), (self.reading_host, "reading lists")):
            if host != DIRECTORY_HOST:
                front = bullet_list(link(f"http://{DIRECTORY_HOST}/{slug(topic)}/", topic) for topic in self.ranked)
                yield self._page(host, "/", label.capitalize(), front)
        for topic, entries in self.ranked.items():
            yield self._resources(topic, entries)
            yield from self._reading_lists(topic, entries)

    def _page(self, host: str, path: str, title: str, main: str) -> WebPage:
        footer = (("/", "home"), (f"http://{DIRECTORY_HOST}/", "directory"))
        site = Site(host, host.removesuffix(".test"), "", footer=footer)
        url = f"http://{host}{path}"
        return WebPage(url, frame(site, FramedPage(url, title, f"<h1>{escape(title)}</h1>\n{main}")), "", title)

    def _directory(self) -> Iterator[WebPage]:
        topics = bullet_list(link(f"/{slug(topic)}/", topic.replace("/", " / ")) for topic in self.ranked)
        mirror = f"<p>{link(f'http://{self.mirror}/', 'A mirror')}</p>" if self.mirror else ""
        yield self._page(DIRECTORY_HOST, "/", "Directory", topics + mirror)
        addresses = self.addresses()
        for topic in self.ranked:
            sites = bullet_list(link(f"http://{s.host}/", s.name) for s in self.sites if s.topic == topic)
            hubs = bullet_list(link(url, label) for url, label in addresses[topic])
            yield self._page(DIRECTORY_HOST, f"/{slug(topic)}/", f"Directory: {topic}", f"{sites}\n{hubs}")

    def _resources(self, topic: str, entries: list[Entry]) -> WebPage:
        strays = [entry for other, group in self.ranked.items() if other != topic for entry in group[:20]]
        chosen = entries[:RESOURCES_PER_PAGE] + self.rng.sample(strays, min(STRAY_LINKS, len(strays)))
        self.rng.shuffle(chosen)
        items = [f"{link(self._address(entry), entry.doc.name)} {escape(entry.summary[:60])}" for entry in chosen]
        return self._page(
            self.resources_host, f"/resources/{slug(topic)}.html", f"Resources on {topic}", bullet_list(items)
        )

    def _address(self, entry: Entry) -> str:
        """The entry's URL; for some module pages an old one, which redirects."""
        if entry.doc.kind == "module" and self.rng.random() < OLD_ADDRESS_SHARE:
            return f"http://{entry.doc.host}/library/{entry.doc.module}.html"
        return entry.url

    def _reading_lists(self, topic: str, entries: list[Entry]) -> Iterator[WebPage]:
        count = 1 if self.small else READING_LISTS
        for number in range(1, count + 1):
            chosen = self.rng.sample(entries, min(RESOURCES_PER_PAGE, len(entries)))
            following = link(f"/lists/{slug(topic)}-{number % count + 1}.html", "next list")
            items = bullet_list(link(entry.url, entry.doc.name) for entry in chosen)
            title = f"Reading list {number}: {topic}"
            yield self._page(
                self.reading_host, f"/lists/{slug(topic)}-{number}.html", title, f"{items}\n<p>{following}</p>"
            )
