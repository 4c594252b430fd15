"""One host's pages over many hosts, so that a corpus of a single site can be crawled like a web of many.

Which host a page goes to follows from its path alone, so links can be rewritten without knowing all pages. Links in
HTML become absolute; what is no HTML, or names its pages in a script, is left as it is.
"""

from __future__ import annotations

import html
import re
import zlib
from collections.abc import Iterator

from opilio.fetch.decoding import CodingError, Decoder, codings_of
from opilio.fetch.headers import parse_headers
from opilio.lab.webs.recording import RecordedAnswer
from opilio.model import host_of, normalize
from opilio.model.url import path_of

MAX_BODY_BYTES = 64 * 2**20
_ROBOTS = "/robots.txt"
_TAG = re.compile(
    r"""<(?:a|area|base|frame|iframe|link|meta)\s(?:[^>"']++|"[^"]*"|'[^']*'|["'])*+>""", re.IGNORECASE
)  # a quote that is never closed is a letter like any other
_ATTRIBUTE = re.compile(r"""(\s(?:href|src)\s*=\s*)("[^"]*"|'[^']*'|[^\s>"']+)""", re.IGNORECASE)
_BASE = re.compile(r"""<base\s[^>]*href\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+)""", re.IGNORECASE)
_REFRESH = re.compile(r"""(\scontent\s*=\s*["']\s*[\d.]+\s*[;,]\s*url\s*=\s*)([^"']+)""", re.IGNORECASE)
_LOCATION = re.compile(rb"^(location:[ \t]*)([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_ENCODING = re.compile(rb"^content-encoding:[^\n]*\n", re.IGNORECASE | re.MULTILINE)


class HostSpread:
    """Puts the pages of the first host it meets on `hosts` hosts below .test, a name that belongs to nobody."""

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts
        self._digits = len(str(hosts - 1))
        self._host = ""

    def url(self, url: str) -> str:
        """The new URL of a URL in normal form."""
        if host_of(url) != self._host:
            return url
        path = path_of(url)
        return self._on(zlib.crc32(path.encode()) % self.hosts) + path

    def answers(self, answer: RecordedAnswer) -> Iterator[RecordedAnswer]:
        """The answer at its new place, with links that lead to the new places; robots.txt stands on every host."""
        url = normalize(answer.url)
        if not url:
            return
        self._host = self._host or host_of(url)
        if path_of(url) == _ROBOTS and host_of(url) == self._host:
            for i in range(self.hosts):
                yield answer._replace(url=self._on(i) + _ROBOTS)
            return
        head = _LOCATION.sub(
            lambda found: found[1] + self._moved(found[2].decode("latin-1"), url).encode(), answer.head
        )
        headers = parse_headers(head.splitlines()[1:])
        body = answer.body
        if body and "html" in headers.get("content-type", "html").lower():
            plain = _decoded(body, headers.get("content-encoding", ""))
            if plain is not None:
                head, body = _ENCODING.sub(b"", head), self._rewritten(plain, url)
        yield answer._replace(url=self.url(url), head=head, body=body)

    def _on(self, host: int) -> str:
        old = re.sub(r"[^a-z0-9]+", "-", self._host).strip("-")
        return f"http://{old}-{host:0{self._digits}}.test"

    def _moved(self, href: str, base: str) -> str:
        """A link's new address; itself when it leads to no page. A page on another host needs its host's name."""
        href = href.strip()
        target = normalize(href, base) if href and not href.startswith("#") else ""
        if not target or host_of(target) != self._host:
            return href
        fragment = href.partition("#")[2]
        return self.url(target) + (f"#{fragment}" if fragment else "")

    def _rewritten(self, body: bytes, url: str) -> bytes:
        charset = "utf-8"
        try:
            text = body.decode()
        except UnicodeDecodeError:
            charset = "latin-1"
            text = body.decode("latin-1")
        named = _BASE.search(text)
        base = (normalize(html.unescape(named[1].strip("\"' ")), url) if named else "") or url

        def attribute(found: re.Match[str]) -> str:
            moved = self._moved(html.unescape(found[2].strip("\"'")), base)
            return f'{found[1]}"{html.escape(moved)}"'

        def refresh(found: re.Match[str]) -> str:
            return found[1] + html.escape(self._moved(html.unescape(found[2]), base))

        def tag(found: re.Match[str]) -> str:
            is_meta = found[0][1:5].lower() == "meta"
            return _REFRESH.sub(refresh, found[0]) if is_meta else _ATTRIBUTE.sub(attribute, found[0])

        return _TAG.sub(tag, text).encode(charset, "xmlcharrefreplace")


def _decoded(body: bytes, encoding: str) -> bytes | None:
    """A body without its content encodings; None when they cannot be undone."""
    codings = codings_of(encoding)
    if not codings:
        return body
    decoder = Decoder(codings, MAX_BODY_BYTES)
    try:
        if not decoder.feed(body):
            return None
        decoder.finish()
    except CodingError:
        return None
    return decoder.body
