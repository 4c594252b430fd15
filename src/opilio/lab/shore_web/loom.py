"""Weaves the shore web: articles, the pages of their sites, hubs, noise, and what goes wrong on every web.

A page is labelled with a topic when everything it says or lists is about it: an article, an index or a list of one
topic. Pages that mix topics, welcome pages and noise have none. The labels come from the files of texts, so a crawl can
be marked right or wrong without anybody judging pages by hand.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape

from opilio.lab.local_web.frame import bullet_list, link
from opilio.lab.local_web.web import LocalWeb, WebPage
from opilio.lab.shore_web import pages as html
from opilio.lab.shore_web import sites as hosts
from opilio.lab.shore_web.booklet import booklet
from opilio.lab.shore_web.noise import SITES as NOISE_SITES
from opilio.lab.shore_web.noise import noise_pages
from opilio.lab.shore_web.pages import ShorePage
from opilio.lab.shore_web.pictures import icon, picture
from opilio.lab.shore_web.sites import ABOUT, HUBS, WEBSITES, WORDS, Website
from opilio.lab.shore_web.texts import TOPICS, Article, read_articles

PNG, PDF, TEXT, XML = "image/png", "application/pdf", "text/plain; charset=utf-8", "application/xml"
SEED = 7
# Bookmarks of each topic: mostly English, one German, one French.
BOOKMARK_LANGUAGES = ("en", "en", "en", "de", "fr", "en")
PRINT_EVERY = 8  # of the articles, one has a print view
BOOKLETS = ("lamproom.test", "tidepool.test", "lichenwall.test")
SITEMAPS = ("springtide.test", "darksky.test", "estran.test")
DRAFTS = ("orbweb.test", "fieldnotes.test", "strandgut.test")
MIRRORED = "orbweb.test"
GONE_HOST = "gone.test"
# Hosts without pages of their own: how the directory names them, and under which topic.
_OTHER_ADDRESSES = {
    hosts.MIRROR_HOST: ("Orb and Thread (mirror)", TOPICS["spiders"]),
    hosts.OLD_HOST: ("The Lamp Room (old address)", TOPICS["lighthouses"]),
}


def weave() -> LocalWeb:
    """The shore web: always the same."""
    return _Loom(read_articles()).weave()


def _slug(topic: str) -> str:
    return topic.lower().replace(" ", "-")


class _Loom:
    """The web under way."""

    def __init__(self, articles: Sequence[Article]) -> None:
        self.articles = articles
        self.by_host = {site.host: [a for a in articles if a.host == site.host] for site in WEBSITES}
        sites = {site.host: site for site in WEBSITES}
        self.urls = {article.slug: html.url_of(sites[article.host], article) for article in articles}
        self.topics = [topic for topic in TOPICS.values() if topic]
        self.rng = random.Random(SEED)
        self.pages: dict[str, WebPage] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.redirects: dict[str, tuple[int, str]] = {}
        self.copies: dict[str, str] = {}
        self.noindex: set[str] = set()
        self.dead: set[str] = set()
        self.noise = [
            (f"http://{NOISE_SITES[page.site].host}{page.path}", page) for page in noise_pages(random.Random(SEED))
        ]

    def weave(self) -> LocalWeb:
        for site in WEBSITES:
            self._write_site(site, self.by_host[site.host])
        self._write_hubs()
        for url, page in self.noise:
            self._add(NOISE_SITES[page.site], ShorePage(url, page.title, page.main), "")
        everybody = [*WEBSITES, *HUBS, *NOISE_SITES.values()]
        for site in everybody:
            self._write_housekeeping(site)
        self._write_copies()
        return LocalWeb(
            pages=self.pages,
            redirects=self.redirects,
            files=self.files,
            copies=self.copies,
            noindex=frozenset(self.noindex),
            hosts=sorted({*(site.host for site in everybody), hosts.MIRROR_HOST, hosts.OLD_HOST}),
            topics=sorted(self.topics),
            ranked={topic: self._ranked(topic) for topic in self.topics},
            seed=SEED,
            dead=frozenset(self.dead),
        )

    def _add(self, site: Website, page: ShorePage, topic: str) -> None:
        """Frame a page and keep it. One without a picture of its own names that of an article of its site."""
        if not page.picture and (articles := self.by_host.get(site.host)):
            page = replace(page, picture=html.picture_of(random.Random(page.url).choice(articles)))
        ring = f"http://{hosts.RING_HOST}/next/{site.host}"
        self.pages[page.url] = WebPage(page.url, html.framed(site, page, ring), topic, page.title)
        if "noindex" in page.robots:
            self.noindex.add(page.url)

    # -- the sites with articles

    def _write_site(self, site: Website, articles: list[Article]) -> None:
        base, words = f"http://{site.host}", WORDS[site.language]
        topic = _only_topic(articles)
        for place, article in enumerate(articles):
            self._write_article(site, article, articles[(place + 1) % len(articles)])
        if site.front == "welcome":
            main = (
                f"<h1>{escape(site.name)}</h1>\n{html.figure(articles[0])}\n<p>{link(site.index, words['enter'])}</p>"
            )
            self._add(site, ShorePage(f"{base}/", site.name, main), "")
        elif site.front == "redirect":
            self.redirects[f"{base}/"] = (302, base + site.index)
        starts = range(0, len(articles), html.PAGE_ARTICLES)
        for number, first in enumerate(starts, 1):
            path = site.index if number == 1 else f"{site.index}page-{number}.html"
            older = [link(f"{site.index}page-{number + 1}.html", words["older"])] if number < len(starts) else []
            shown = articles[first : first + html.PAGE_ARTICLES]
            main = f"<h1>{escape(site.name)}</h1>\n{html.teasers(shown, self.urls)}"
            boxes = (
                (words["tags"], tuple(self._tag_links(articles))),
                (words["more"], (*older, *self._friends(site))),
            )
            page = ShorePage(base + path, f"{site.name}: {site.motto}", main, boxes=boxes)
            self._add(site, page, topic)
        for tag in _tags(articles):
            tagged = [article for article in articles if tag in article.tags]
            main = f"<h1>{escape(tag)}</h1>\n" + bullet_list(link(self.urls[a.slug], a.title) for a in tagged)
            self._add(site, ShorePage(f"{base}/tags/{tag}.html", f"{site.name}: {tag}", main), _only_topic(tagged))
        about = f"<h1>{escape(words['about'])}</h1>\n<p>{escape(ABOUT[site.language])}</p>"
        self._add(site, ShorePage(f"{base}/about.html", f"{words['about']}: {site.name}", about), "")
        self.files[f"{base}/feed.xml"] = (XML, html.feed(site, articles, self.urls))

    def _write_article(self, site: Website, article: Article, following: Article) -> None:
        words, url = WORDS[site.language], self.urls[article.slug]
        related = [following, *self._related(article)]
        elsewhere = self._friends(site)
        if article.host in DRAFTS:
            elsewhere.append(link(f"/drafts/{article.slug}.html", "draft"))
        if self.rng.random() < 0.25:
            elsewhere.append(link(self._dead(f"http://{GONE_HOST}/~{article.slug}/"), "2003"))
        number = self.articles.index(article)
        printed = f"http://{site.host}/print/{article.slug}.html"
        if number % PRINT_EVERY == 0:
            elsewhere.append(link(printed, words["print"]))
        if article.topic:
            elsewhere.append(link(f"http://{hosts.LINKS_HOST}/{_slug(article.topic)}.html", words["links"]))
        boxes = (
            (words["next"], tuple(link(self.urls[other.slug], other.title) for other in related)),
            (words["tags"], tuple(self._tag_links(self.by_host[site.host], article))),
            (words["more"], tuple(elsewhere)),
        )
        text = html.body(article, self.urls)
        page = ShorePage(
            url,
            article.title,
            f"<article><h1>{escape(article.title)}</h1>\n{html.figure(article)}\n{text}</article>",
            article.teaser,
            html.picture_of(article),
            html.published(article),
            url,
            boxes=boxes,
        )
        self._add(site, page, article.topic)
        self.files[html.picture_of(article)] = (PNG, picture(article.motif, article.slug))
        if number % PRINT_EVERY == 0:
            plain = ShorePage(
                printed, article.title, f"<h1>{escape(article.title)}</h1>\n{text}\n<p>{link(url, url)}</p>",
                picture=html.picture_of(article),
            )  # fmt: skip
            self._add(site, plain, article.topic)
            self.copies[printed] = url
        if article.host in DRAFTS:
            draft = f"http://{site.host}/drafts/{article.slug}.html"
            self._add(site, ShorePage(draft, article.title, f"<p>{escape(article.teaser)}</p>", robots="noindex"), "")

    def _related(self, article: Article) -> list[Article]:
        """Two articles on the same topic elsewhere, and one on anything."""
        near = [other for other in self.articles if other.topic == article.topic and other.host != article.host]
        same_language = [other for other in near if other.language == article.language]
        chosen = self.rng.sample(same_language, min(1, len(same_language))) + self.rng.sample(near, min(1, len(near)))
        return [
            *dict.fromkeys(chosen),
            self.rng.choice([other for other in self.articles if other.topic != article.topic]),
        ]

    def _tag_links(self, articles: Sequence[Article], article: Article | None = None) -> list[str]:
        return [link(f"/tags/{tag}.html", tag) for tag in _tags(articles) if article is None or tag in article.tags]

    def _friends(self, site: Website) -> list[str]:
        """Links to two sites about anything else, the same on all pages of a site."""
        others = [*NOISE_SITES.values(), *(other for other in WEBSITES if not self.by_host[other.host][0].topic)]
        chosen = random.Random(site.host).sample([other for other in others if other is not site], 2)
        return [link(f"http://{other.host}/", other.name) for other in chosen]

    def _dead(self, url: str) -> str:
        """An address that has no page, noted as such."""
        self.dead.add(url)
        return url

    # -- hubs

    def _write_hubs(self) -> None:
        directory, links, ring, planet = HUBS
        base = f"http://{directory.host}"
        listed = bullet_list(link(f"/{_slug(topic)}/", topic) for topic in [*self.topics, "Everything else"])
        self._add(directory, ShorePage(f"{base}/", directory.name, f"<h1>{directory.name}</h1>\n{listed}"), "")
        for topic in [*self.topics, ""]:
            own = [site for site in WEBSITES if any(a.topic == topic for a in self.by_host[site.host])]
            items = [link(f"http://{site.host}/", f"{site.name} ({site.language})") for site in own]
            if not topic:
                items += [link(f"http://{site.host}/", site.name) for site in NOISE_SITES.values()]
            items += [
                link(f"http://{host}/", label) for host, (label, about) in _OTHER_ADDRESSES.items() if about == topic
            ]
            items.append(link(self._dead(f"http://{GONE_HOST}/{_slug(topic or 'rest')}/"), "A page that has moved"))
            title = topic or "Everything else"
            page = ShorePage(f"{base}/{_slug(title)}/", f"Sites: {title}", f"<h1>{title}</h1>\n{bullet_list(items)}")
            self._add(directory, page, topic)
        self._write_link_lists(links)
        order = [*WEBSITES]
        self.rng.shuffle(order)
        everyone = [*order, *HUBS, *NOISE_SITES.values()]
        for site, following in zip(everyone, [*everyone[1:], everyone[0]], strict=True):
            target = following if site in WEBSITES and following in WEBSITES else self.rng.choice(order)
            self.redirects[f"http://{ring.host}/next/{site.host}"] = (302, f"http://{target.host}/")
        members = bullet_list(link(f"http://{site.host}/", site.name) for site in order)
        self._add(ring, ShorePage(f"http://{ring.host}/", ring.name, f"<h1>{ring.name}</h1>\n{members}"), "")
        mixed = list(self.articles)
        self.rng.shuffle(mixed)
        for number, first in enumerate(range(0, 36, 6)):
            older = link(f"/{number + 2}.html", "Older") if number < 5 else ""
            path = "/" if number == 0 else f"/{number + 1}.html"
            main = f"<h1>{planet.name}</h1>\n{html.teasers(mixed[first : first + 6], self.urls)}\n<p>{older}</p>"
            self._add(planet, ShorePage(f"http://{planet.host}{path}", f"{planet.name}, page {number + 1}", main), "")

    def _write_link_lists(self, links: Website) -> None:
        for topic in self.topics:
            own = [(self.urls[a.slug], a.title) for a in self.articles if a.topic == topic]
            strays = [(self.urls[a.slug], a.title) for a in self.articles if a.topic != topic]
            gone = [(self._dead(f"http://{GONE_HOST}/{_slug(topic)}/{number}.html"), "Gone?") for number in range(3)]
            items = [*self.rng.sample(own, 12), *self.rng.sample(strays, 2), *gone]
            self.rng.shuffle(items)
            main = f"<h1>{topic}</h1>\n" + bullet_list(link(url, title) for url, title in items)
            page = ShorePage(f"http://{links.host}/{_slug(topic)}.html", f"Links: {topic}", main)
            self._add(links, page, topic)
        listed = bullet_list(link(f"/{_slug(topic)}.html", topic) for topic in self.topics)
        self._add(links, ShorePage(f"http://{links.host}/", links.name, f"<h1>{links.name}</h1>\n{listed}"), "")

    # -- what every site has, and what goes wrong

    def _write_housekeeping(self, site: Website) -> None:
        base = f"http://{site.host}"
        if f"{base}/about.html" not in self.pages:
            main = f"<h1>About</h1>\n<p>{escape(ABOUT['en'])}</p>"
            self._add(site, ShorePage(f"{base}/about.html", f"About: {site.name}", main), "")
        sign = icon(site.sign, site.colour)
        self.files[f"{base}/icon.png"] = self.files[f"{base}/favicon.ico"] = (PNG, sign)
        lines = ["User-agent: *", "Disallow: /drafts/"]
        if site.host in SITEMAPS:
            lines.append(f"Sitemap: {base}/sitemap.xml")
            own = [self.urls[article.slug] for article in self.by_host[site.host]]
            self.files[f"{base}/sitemap.xml"] = (XML, html.sitemap(own))
        self.files[f"{base}/robots.txt"] = (TEXT, "\n".join([*lines, ""]).encode())

    def _write_copies(self) -> None:
        """Booklets, a mirror, and a host that has moved."""
        for host in BOOKLETS:
            site = next(each for each in WEBSITES if each.host == host)
            url, articles = f"http://{host}/booklet.pdf", self.by_host[host]
            title = f"{site.name}: the booklet"
            self.pages[url] = WebPage(url, booklet(title, articles), _only_topic(articles), title, PDF)
            front = self.pages[f"http://{host}{site.index}"]
            mention = f'<p><a href="/booklet.pdf">{escape(title)} (PDF)</a></p>\n</main>'.encode()
            self.pages[front.url] = WebPage(
                front.url, front.body.replace(b"</main>", mention, 1), front.topic, front.title
            )
        self.redirects[f"http://{hosts.RING_HOST}/next/{hosts.MIRROR_HOST}"] = (302, f"http://{MIRRORED}/")
        start = f"http://{MIRRORED}/"
        for url in [url for url in self.pages if url.startswith(start)]:
            copy = url.replace(MIRRORED, hosts.MIRROR_HOST, 1)
            page = self.pages[url]
            body = page.body.replace(MIRRORED.encode(), hosts.MIRROR_HOST.encode())
            self.pages[copy] = WebPage(copy, body, page.topic, page.title)
            self.copies[copy] = url
        for url in [url for url in self.files if url.startswith(start)]:
            self.files[url.replace(MIRRORED, hosts.MIRROR_HOST, 1)] = self.files[url]
        self.noindex |= {copy for copy, url in self.copies.items() if url in self.noindex}
        for url in [url for url in self.pages if url.startswith("http://lamproom.test/")]:
            self.redirects[url.replace("lamproom.test", hosts.OLD_HOST, 1)] = (301, url)

    def _ranked(self, topic: str) -> list[str]:
        """The articles of a topic, in the languages of the bookmarks first, taking turns between its sites."""
        left = [article for article in self.articles if article.topic == topic]
        left.sort(key=lambda article: self.by_host[article.host].index(article))
        chosen = []
        for language in BOOKMARK_LANGUAGES:
            found = next(article for article in left if article.language == language)
            left.remove(found)
            chosen.append(found)
        return [self.urls[article.slug] for article in [*chosen, *left]]


def _only_topic(articles: Sequence[Article]) -> str:
    """The topic that all articles have, or none."""
    topics = {article.topic for article in articles}
    return topics.pop() if len(topics) == 1 else ""


def _tags(articles: Iterable[Article]) -> list[str]:
    """The tags that more than one article has."""
    count = Counter(tag for article in articles for tag in article.tags)
    return sorted(tag for tag, uses in count.items() if uses > 1)
