"""The HTML of the shore web: what stands around an article, and the pages that list articles."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from opilio.lab.local_web.frame import bullet_list, link
from opilio.lab.shore_web.sites import DIRECTORY_HOST, LEGAL_HOST, LINKS_HOST, PLANET_HOST, RING_HOST, WORDS, Website
from opilio.lab.shore_web.texts import Article

FIRST_YEAR, YEARS = 2009, 16
PAGE_ARTICLES = 4
_STYLE = """
body{margin:0;font:18px/1.6 Georgia,serif;color:#23211d;background:#fbf8f0}a{color:var(--site)}
header,footer{padding:1rem 6vw;background:var(--site);color:#fff}header a,footer a{color:#fff}header p{margin:0}
main{max-width:40rem;margin:2rem auto;padding:0 1rem}aside{font-size:.85em;border-top:1px solid #ccc}
figure{margin:0 0 1.5rem}img{max-width:100%;height:auto;border-radius:4px}figcaption{font-size:.8em;color:#666}
""".strip()
# At the bottom of every page.
_SMALL_PRINT = (
    (f"http://{DIRECTORY_HOST}/", "Directory"),
    (f"http://{LINKS_HOST}/", "Links"),
    (f"http://{RING_HOST}/", "Ring"),
    (f"http://{PLANET_HOST}/", "Planet"),
    (f"http://{LEGAL_HOST}/imprint.html", "Imprint"),
    (f"http://{LEGAL_HOST}/privacy.html", "Privacy"),
    (f"http://{LEGAL_HOST}/terms.html", "Terms"),
)
_LINK = re.compile(r"\[([^\]]+)\]\(([a-z0-9-]+)\)")


@dataclass(frozen=True)
class ShorePage:
    """What is particular to one page; `framed` adds the rest."""

    url: str
    title: str
    main: str
    description: str = ""
    picture: str = ""
    published: str = ""
    canonical: str = ""
    robots: str = ""
    # Boxes beside the text, as (heading, list of ready items).
    boxes: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())


def published(article: Article) -> str:
    """A date for an article, always the same."""
    number = int.from_bytes(hashlib.blake2b(article.slug.encode(), digest_size=4).digest())
    return f"{FIRST_YEAR + number % YEARS}-{number // 16 % 12 + 1:02}-{number // 192 % 28 + 1:02}"


def url_of(site: Website, article: Article) -> str:
    """The address of an article on its site."""
    return f"http://{site.host}" + site.path.format(slug=article.slug, year=published(article)[:4])


def picture_of(article: Article) -> str:
    """The address of the picture of an article."""
    return f"http://{article.host}/pictures/{article.slug}.png"


def body(article: Article, urls: dict[str, str]) -> str:
    """The paragraphs as HTML; `urls` has the addresses of all articles by slug."""
    parts = []
    for paragraph in article.paragraphs:
        text = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escape(paragraph, quote=False))
        parts.append(f"<p>{_LINK.sub(lambda found: link(urls[found[2]], found[1]), text)}</p>")
    return "\n".join(parts)


def figure(article: Article) -> str:
    """The picture with what it shows."""
    return (
        f'<figure><img src="{picture_of(article)}" width="480" height="300" alt="{escape(article.title)}">'
        f"<figcaption>{escape(article.title)}</figcaption></figure>"
    )


def teasers(articles: Sequence[Article], urls: dict[str, str]) -> str:
    """Articles as an index shows them: title and first sentences."""
    return "\n".join(
        f"<article><h2>{link(urls[article.slug], article.title)}</h2>\n<p>{escape(article.teaser)}</p></article>"
        for article in articles
    )


def framed(site: Website, page: ShorePage, ring: str) -> bytes:
    """The whole page as it is served; `ring` is the address of the next site in the ring."""
    words = WORDS[site.language]
    boxes = "\n".join(f"<aside><h3>{escape(head)}</h3>\n{bullet_list(items)}</aside>" for head, items in page.boxes)
    menu = " &middot; ".join(
        link(path, words[name]) for name, path in ((("home", site.index), ("about", "/about.html")))
    )
    small = " &middot; ".join(link(url, label) for url, label in _SMALL_PRINT)
    return f"""<!DOCTYPE html>
<html lang="{site.language}">
<head>
{_head(site, page)}
</head>
<body style="--site:{site.colour}">
<header><p>{link("/", site.name)}</p>
<nav>{menu}</nav></header>
<main>
{page.main}
</main>
{boxes}
<footer><p>{link(ring, words["ring"])}</p>
<p>{small}</p></footer>
</body>
</html>
""".encode()


def _head(site: Website, page: ShorePage) -> str:
    title, description = escape(page.title), escape(page.description or page.title)
    lines = [
        '<meta charset="utf-8">',
        f"<title>{title}</title>",
        f'<meta name="description" content="{description}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta property="og:site_name" content="{escape(site.name)}">',
        f'<meta property="og:title" content="{title}">',
        '<link rel="icon" type="image/png" href="/icon.png">',
    ]
    if page.picture:
        lines.append(f'<meta property="og:image" content="{page.picture}">')
    if page.published:
        lines.append('<link rel="alternate" type="application/rss+xml" href="/feed.xml">')
        lines.append(f'<meta property="article:published_time" content="{page.published}">')
    if page.canonical:
        lines.append(f'<link rel="canonical" href="{page.canonical}">')
    if page.robots:
        lines.append(f'<meta name="robots" content="{page.robots}">')
    return "\n".join([*lines, f"<style>{_STYLE}</style>"])


def feed(site: Website, articles: Sequence[Article], urls: dict[str, str]) -> bytes:
    """The RSS feed of a site."""
    items = "\n".join(
        f"<item><title>{escape(article.title)}</title><link>{urls[article.slug]}</link>"
        f"<description>{escape(article.teaser)}</description></item>"
        for article in articles
    )
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel><title>{escape(site.name)}</title>'
        f"<link>http://{site.host}/</link><description>{escape(site.motto)}</description>\n{items}\n</channel></rss>\n"
    ).encode()


def sitemap(urls: Sequence[str]) -> bytes:
    """The sitemap of a site."""
    places = "\n".join(f"<url><loc>{escape(url)}</loc></url>" for url in urls)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{places}\n</urlset>\n'
    ).encode()
