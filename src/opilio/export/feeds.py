"""Feeds of the newest pages: RSS 2.0 and Atom, for exports, the portal and published sites."""

from __future__ import annotations

import datetime
import email.utils
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

import opilio

FEED_PAGES = 50
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class FeedEntry:
    """A page in a feed."""

    url: str
    title: str
    summary: str
    topic: str
    visited: datetime.datetime
    """UTC."""
    related: str = ""
    """Where our own page about it is."""


@dataclass(frozen=True)
class Feed:
    """A feed and its entries, newest first."""

    name: str
    entries: Sequence[FeedEntry]
    home: str = ""
    """The address of what the feed is about."""
    address: str = ""
    """Its own address."""
    made: datetime.datetime = datetime.datetime(1970, 1, 1)
    """The time of a feed without entries, UTC."""

    @property
    def updated(self) -> datetime.datetime:
        """When its newest page was fetched."""
        return max((entry.visited for entry in self.entries), default=self.made)


def rss(feed: Feed) -> str:
    """A feed as RSS 2.0."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom">',
        "<channel>",
        f"<title>{xml(feed.name)}</title>",
        f"<link>{xml(feed.home or 'index.html')}</link>",
        f"<description>New pages of {xml(feed.name)}, collected with Opilio</description>",
    ]
    if feed.address:
        lines.append(f'<atom:link href={attribute(feed.address)} rel="self" type="application/rss+xml"/>')
    for entry in feed.entries:
        shown = email.utils.format_datetime(entry.visited.replace(tzinfo=datetime.UTC), usegmt=True)
        lines += [
            "<item>",
            f"<title>{xml(entry.title)}</title>",
            f"<link>{xml(entry.url)}</link>",
            f'<guid isPermaLink="true">{xml(entry.url)}</guid>',
            f"<pubDate>{shown}</pubDate>",
            f"<category>{xml(entry.topic)}</category>",
            f"<description>{xml(escape(entry.summary))}</description>",  # readers take it for HTML
            "</item>",
        ]
    return "\n".join([*lines, "</channel>", "</rss>", ""])


def atom(feed: Feed) -> str:
    """A feed as Atom (RFC 4287)."""
    identity = feed.home or uuid.uuid5(uuid.NAMESPACE_URL, f"opilio:{feed.name}").urn
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"<title>{xml(feed.name)}</title>",
        f"<id>{xml(identity)}</id>",
        f"<updated>{_rfc3339(feed.updated)}</updated>",
        f"<author><name>{xml(feed.name)}</name></author>",
        f"<generator version={attribute(opilio.__version__)}>Opilio</generator>",
    ]
    if feed.address:
        lines.append(f'<link rel="self" type="application/atom+xml" href={attribute(feed.address)}/>')
    if feed.home:
        lines.append(f'<link rel="alternate" type="text/html" href={attribute(feed.home)}/>')
    for entry in feed.entries:
        lines += [
            "<entry>",
            f"<title>{xml(entry.title)}</title>",
            f"<id>{xml(entry.url)}</id>",
            f'<link rel="alternate" href={attribute(entry.url)}/>',
        ]
        if entry.related:
            lines.append(f'<link rel="related" type="text/html" href={attribute(entry.related)}/>')
        lines += [
            f"<updated>{_rfc3339(entry.visited)}</updated>",
            f"<category term={attribute(entry.topic)}/>",
            f"<summary>{xml(entry.summary)}</summary>",
            "</entry>",
        ]
    return "\n".join([*lines, "</feed>", ""])


def xml(text: str) -> str:
    """A text inside an element. What XML cannot hold becomes a space."""
    return escape(_NOT_XML.sub(" ", text))


def attribute(text: str) -> str:
    """A text as the value of an attribute, with its quotes."""
    return quoteattr(_NOT_XML.sub(" ", text))


def _rfc3339(time: datetime.datetime) -> str:
    return time.replace(microsecond=0, tzinfo=None).isoformat() + "Z"
