"""Lists of results, whatever their format: RSS (0.9 to 2.0), Atom, and JSON with a list of objects that have a URL.

Which it is, the answer itself shows: servers label feeds in many ways. XML is parsed without entities: a document that
declares any is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from opilio.seeds.provider import FoundPage, ProviderError, ProviderReply

_LISTS = ("results", "items", "entries", "hits", "data")
_URLS = ("url", "link", "href")
_ENTITY = re.compile(rb"<!\s*ENTITY", re.IGNORECASE)
_HTML = re.compile(rb"\s*(<!doctype\s+html|<html)", re.IGNORECASE)
NOT_A_LIST = (
    "Give the address that answers with JSON, RSS or Atom; or save the page of results, and give it as --seeds."
)


def read_results(reply: ProviderReply) -> list[FoundPage]:
    """The pages in a list of results, in its order, their URLs as they stand there; ProviderError if it is none."""
    body = reply.body.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _HTML.match(body):
        raise ProviderError("answers with a web page, not with a list of results", NOT_A_LIST)
    if body[:1] in (b"{", b"["):
        return list(_in_json(read_json(reply)))
    return list(_in_feed(read_xml(reply)))


def read_json(reply: ProviderReply) -> Any:
    """An answer as JSON; ProviderError if it is none."""
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        kind = "a web page" if _HTML.match(reply.body) else "something else"
        raise ProviderError(f"answers with {kind} instead of JSON", NOT_A_LIST) from None


def read_xml(reply: ProviderReply) -> ElementTree.Element:
    """An answer as XML; ProviderError if it is none."""
    if _ENTITY.search(reply.body) or _ENTITY.search(reply.body.replace(b"\0", b"")):  # the latter: UTF-16
        raise ProviderError("answers with XML that declares entities, which is not read", NOT_A_LIST)
    try:
        return ElementTree.fromstring(reply.body.lstrip())
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        said = f" ({error})" if reply.body.strip() else ": it is empty"
        raise ProviderError(f"answers with something that is neither JSON nor XML{said}", NOT_A_LIST) from None


def local_name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _in_json(found: Any) -> Iterator[FoundPage]:
    if isinstance(found, dict):
        lists = [found[name] for name in _LISTS if isinstance(found.get(name), list)]
        if not lists:
            said = found.get("error") or found.get("message")
            about = f": {said[:200]}" if isinstance(said, str) else ""
            raise ProviderError(f"answers with JSON that has no list of results{about}", NOT_A_LIST)
        found = lists[0]
    for one in found:
        if isinstance(one, dict):
            url = next((one[name] for name in _URLS if isinstance(one.get(name), str)), "")
            yield FoundPage(url, str(one.get("title") or ""))


def _in_feed(root: ElementTree.Element) -> Iterator[FoundPage]:
    kind = local_name(root)
    if kind not in ("rss", "RDF", "feed"):
        raise ProviderError(f"answers with XML that is neither RSS nor Atom (<{kind[:50]}>)", NOT_A_LIST)
    wanted = "entry" if kind == "feed" else "item"
    for entry in root.iter():
        if local_name(entry) == wanted:
            title = next((child for child in entry if local_name(child) == "title"), None)
            yield FoundPage(_link_of(entry), "" if title is None else "".join(title.itertext()))


def _link_of(entry: ElementTree.Element) -> str:
    """The page that an entry of a feed is about."""
    for child in entry:
        if local_name(child) == "link":
            href = child.get("href")
            if href is None and (child.text or "").strip():
                return child.text or ""
            if href and child.get("rel", "alternate") == "alternate":
                return href
    for child in entry:
        if local_name(child) == "guid" and child.get("isPermaLink", "true") != "false":
            return child.text or ""
    return ""
