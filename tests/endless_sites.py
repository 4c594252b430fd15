"""Sites without end on loopback: sitemaps of sitemaps, session ids, archives, subdomains, near duplicates, soft 404s.

Each is a function from host and path to a page, sitemap or robots.txt; `EndlessServer` serves them by host name, and
counts what is requested.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import TypeAlias

from fetch_servers import Handler, WebServer, html, reply

Site: TypeAlias = Callable[[str, str], bytes]
"""The response to a request, by host and path."""
WORDS = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in ("ck", "lm", "nd", "rst", "zza", "x", "vy", "sh")]
NOT_FOUND = reply(status="404 Not Found")


class EndlessServer(WebServer):
    """Serves sites by host name; a site answers for all names that end like its own."""

    def __init__(self, **sites: Site) -> None:
        super().__init__({})
        self._sites = sites

    def answer(self, head: bytes) -> bytes | Handler:
        host, path = host_and_path(head)
        return self._sites[host.split(".")[-2]](host, path)

    def asked(self) -> list[tuple[str, str]]:
        """Host and path of each request."""
        return [host_and_path(head) for head in self.requests]


def host_and_path(head: bytes) -> tuple[str, str]:
    lines = head.decode("latin-1").split("\r\n")
    host = next(line[5:].strip() for line in lines if line.lower().startswith("host:"))
    return host.partition(":")[0], lines[0].split(" ")[1]


def prose(seed: str, words: int = 120) -> str:
    """Text that is the same for the same seed and unlike that of any other."""
    chosen = random.Random(seed).choices(WORDS, k=words)
    return " ".join(chosen)


def page(text: str, *links: str, title: str = "", anchor: str = "") -> bytes:
    """A page with some links, in the part of it that counts."""
    anchors = " ".join(f'<a href="{link}">{anchor or prose(link.rpartition("/")[2], 2)}</a>' for link in links)
    return html(f"<title>{title or prose(text, 3)}</title><body><p>{text}</p><p>{anchors}</p></body>".encode())


def sitemap(kind: str, *urls: str) -> bytes:
    """A sitemap (`urlset`) or an index of sitemaps (`sitemapindex`)."""
    locs = "".join(f"<loc>{url}</loc>" for url in urls)
    return reply(f"<{kind}>{locs}</{kind}>".encode(), Content_Type="application/xml")


def token(*parts: object) -> str:
    """A session id."""
    return random.Random(str(parts)).randbytes(16).hex()


# -- hostile sites


def maps(host: str, path: str) -> bytes:
    """An index of sitemaps that lists more such indexes, and so on for ever."""
    if path == "/robots.txt":
        return reply(f"Sitemap: http://{host}/m0.xml\n".encode(), Content_Type="text/plain")
    if path.endswith(".xml"):
        return sitemap("sitemapindex", *(f"http://{host}{path[:-4]}-{n}.xml" for n in range(20)))
    return page(prose(path), "/one", "/two")


def sessions(host: str, path: str) -> bytes:
    """The same twenty pages under another session id with each request; each greets the visitor."""
    if path == "/robots.txt":
        return NOT_FOUND
    name, visitor = path.rpartition("/")[2] or "home", token(path)[:6]
    return page(f"{prose(name, 300)} visitor {visitor}", *(f"/s/{token(path, n)}/{n}" for n in range(20)), title=name)


def cookieless(host: str, path: str) -> bytes:
    """The same with session ids as ASP.NET puts them into paths."""
    if path == "/robots.txt":
        return NOT_FOUND
    name, visitor = path.rpartition("/")[2] or "home", token(path)[:6]
    links = (f"/(S({token(path, n)[:24]}))/{n}.aspx" for n in range(20))
    return page(f"{prose(name, 300)} visitor {visitor}", *links, title=name)


def archive(host: str, path: str) -> bytes:
    """A list that has a next page for ever, each with words of its own."""
    if path == "/robots.txt":
        return NOT_FOUND
    number = int(path.rpartition("/")[2] or 0)
    return page(prose(path), f"/news/page/{number + 1}", f"/news/page/{number + 2}", f"/news/page/{number + 7}")


def calendar(host: str, path: str) -> bytes:
    """A calendar without events: days, weeks and months for ever, written in many ways."""
    if path == "/robots.txt":
        return NOT_FOUND
    number = int(path.rpartition("=")[2]) if "=" in path else random.Random(path).randrange(10**6)
    year, month, day = 1950 + number % 149, number % 12 + 1, number % 28 + 1
    forms = (
        f"/events/{year}/{month}/{day}?n={number + 1}", f"/cal/{year}-{month:02}-{day:02}", f"/cal/week/{year}-W{month}",
        f"/day/{day}/month/{month}/year/{year}", f"/agenda?day={day}&month={month}&year={year}",
    )  # fmt: skip
    return page(prose(path), *forms)


def segments(host: str, path: str) -> bytes:
    """Relative links that make paths longer and longer."""
    if path == "/robots.txt":
        return NOT_FOUND
    return page(prose(path), *(f"{path}{name}/" for name in ("red", "green", "blue")))


def queries(host: str, path: str) -> bytes:
    """A list with filters: each link adds one to the query."""
    if path == "/robots.txt":
        return NOT_FOUND
    start = f"{path}&" if "?" in path else f"{path}list?"
    return page(prose(path), *(f"{start}{name}={n}" for name in ("colour", "size") for n in range(5)))


def parameters(host: str, path: str) -> bytes:
    """The same after semicolons, in the path."""
    if path == "/robots.txt":
        return NOT_FOUND
    return page(prose(path), *(f"{path};{name}={n}" for name in ("colour", "size") for n in range(5)))


def wild(host: str, path: str) -> bytes:
    """Each page has words of its own, and leads to twenty more subdomains."""
    if path == "/robots.txt":
        return NOT_FOUND
    return page(prose(host + path), *(f"http://{token(host, path, n)[:10]}.wild.test/" for n in range(20)))


def farm(host: str, path: str) -> bytes:
    """Near duplicates of one text, under names that mean nothing."""
    if path == "/robots.txt":
        return NOT_FOUND
    names = (f"/{prose(path + str(n), 1)}/{prose(path + str(n) + 'x', 2).replace(' ', '-')}" for n in range(20))
    return page(prose("the farm", 400) + " " + prose(path, 2), *names, anchor="more")


def soft(host: str, path: str) -> bytes:
    """Ten pages with dead links on them. What is not there is answered with status 200 and a text that names it."""
    if path == "/robots.txt":
        return NOT_FOUND
    if path == "/" or path.startswith("/real/"):
        dead = (f"/gone/{prose(path + str(n), 1)}-{n}" for n in range(10))
        return page(prose(path), *(f"/real/{n}" for n in range(10)), *dead)
    text = f"Sorry. The page {path} does not exist on this server. Perhaps you find it by our search."
    more = (f"/gone/{prose(path + str(n), 1)}-{n}" for n in range(3))
    return page(text, *more, title="Oops", anchor="more")


# -- an honest one


def honest(host: str, path: str) -> bytes:
    """A large site: 560 numbered list pages with four posts each, 300 subdomains with two pages each, and 60 sitemaps,
    which name pages that nothing links to. Dead links end with status 404."""
    name = path.rpartition("/")[2]
    number = int(re.sub("[^0-9].*", "", name) or 0)
    if path == "/robots.txt":
        return reply(f"Sitemap: http://{host}/maps.xml\n".encode() if host == "honest.test" else b"")
    if path == "/maps.xml":
        return sitemap("sitemapindex", *(f"http://honest.test/map/{n}.xml" for n in range(60)))
    if path.startswith("/map/"):
        return sitemap("urlset", *(f"http://honest.test/found/{number}-{n}" for n in range(5)))
    if host != "honest.test":
        return page(prose(host + path, 40), "/about", "/gone") if path in ("/", "/about") else NOT_FOUND
    links = [f"/post/{number}-{n}" for n in range(4)] if path.startswith("/news/page/") else []
    if path == "/" or path.startswith("/news/page/"):
        links += [f"/news/page/{number + 1}"] * (number < 559)
        links += [f"http://s{number}.honest.test/"] * (number < 300)
    return page(prose(path, 40), *links)


HOSTILE: dict[str, Site] = {
    "maps": maps, "sessions": sessions, "cookieless": cookieless, "archive": archive, "calendar": calendar,
    "segments": segments, "queries": queries, "parameters": parameters, "wild": wild, "farm": farm, "soft": soft,
}  # fmt: skip
