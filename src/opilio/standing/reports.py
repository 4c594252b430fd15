"""What a standing collection reports: a feed, and a digest as text, as HTML and as an e-mail."""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from html import escape
from pathlib import Path
from typing import Any

from opilio.errors import InputError
from opilio.export.feeds import Feed, FeedEntry, atom, rss
from opilio.store.changes import KINDS
from opilio.web.pages import outside

HEADINGS = {"new": "New", "changed": "Changed", "gone": "Gone"}
SHOWN_PAGES = 30
"""Of each kind, in a digest."""
SUMMARY_CHARS = 300
FEEDS = {".rss": rss, ".xml": rss, ".atom": atom}
DIGESTS = (".txt", ".html", ".eml")
_STYLE = "font: 16px/1.5 system-ui, sans-serif; max-width: 42em; margin: auto; padding: 1em"


def count_of(changes: Mapping[str, Any]) -> int:
    """How many pages are new, changed or gone."""
    return sum(int(changes[kind]["pages"]) for kind in KINDS)


def headline(name: str, changes: Mapping[str, Any]) -> str:
    """One line: "birds: 3 new, 1 changed, no page gone"."""
    counts = {kind: int(changes[kind]["pages"]) for kind in KINDS}
    return f"{name}: " + ", ".join(f"{count:,} {kind}" for kind, count in counts.items())


def digest_text(name: str, changes: Mapping[str, Any]) -> str:
    """The digest to read in a terminal or an e-mail."""
    lines = [headline(name, changes), f"{_time(changes['since'])} to {_time(changes['until'])} UTC"]
    for kind in KINDS:
        pages = changes[kind]["best"][:SHOWN_PAGES]
        if pages:
            lines += ["", f"{HEADINGS[kind]} ({changes[kind]['pages']:,})"]
        for page in pages:
            lines += [f"- {_plain(page['title'])}", f"  {_plain(page['url'])}"]
            if note := _note(page):
                lines.append(f"  {note}")
        lines += _more(changes[kind]["pages"] - len(pages)) if pages else []
    return "\n".join([*lines, ""])


def digest_html(name: str, changes: Mapping[str, Any]) -> str:
    """The same as one page of HTML without anything from elsewhere. All text is escaped."""
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(headline(name, changes))}</title>'
        f'</head><body style="{_STYLE}"><h1>{escape(name)}</h1>'
        f"<p>{_time(changes['since'])} to {_time(changes['until'])} UTC</p>"
    ]
    for kind in KINDS:
        pages = changes[kind]["best"][:SHOWN_PAGES]
        if not pages:
            continue
        parts.append(f"<h2>{HEADINGS[kind]} ({changes[kind]['pages']:,})</h2><ul>")
        for page in pages:
            note = f"<br><small>{escape(_note(page))}</small>" if _note(page) else ""
            summary = f"<br>{escape(_plain(page['summary'])[:SUMMARY_CHARS])}" if kind != "gone" else ""
            link = escape(outside(page["url"]), quote=True)
            parts.append(f'<li><a href="{link}">{escape(_plain(page["title"]))}</a>{summary}{note}</li>')
        parts.append("</ul>" + "".join(f"<p>{line}</p>" for line in _more(changes[kind]["pages"] - len(pages))))
    return "\n".join([*parts, "</body></html>", ""])


def digest_mail(name: str, changes: Mapping[str, Any], sender: str = "", recipient: str = "") -> bytes:
    """The digest as an e-mail with text and HTML."""
    message = EmailMessage()
    message["Subject"] = _plain(headline(name, changes))
    if sender:
        message["From"] = sender
    if recipient:
        message["To"] = recipient
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain="opilio.invalid")
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(digest_text(name, changes))
    message.add_alternative(digest_html(name, changes), subtype="html")
    return bytes(message)


def feed_of(name: str, changes: Mapping[str, Any], suffix: str) -> str:
    """New and changed pages as RSS or Atom, newest first."""
    entries = []
    for kind in ("new", "changed"):
        for page in changes[kind]["best"]:
            title = _plain(page["title"]) if kind == "new" else f"Changed: {_plain(page['title'])}"
            summary = _plain(page["summary"])[:SUMMARY_CHARS]
            noticed = datetime.datetime.fromisoformat(page["noticed"])
            entries.append(FeedEntry(outside(page["url"]), title, summary, page["topic"], noticed))
    entries.sort(key=lambda entry: (entry.visited, entry.url), reverse=True)
    return FEEDS[suffix](Feed(_plain(name), entries, made=datetime.datetime.fromisoformat(changes["until"])))


def suffix_of(path: str, known: tuple[str, ...], what: str) -> str:
    """The suffix of a file, which says what is written to it."""
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        raise InputError(f"{path}: a {what} ends in {', '.join(known)}", "Name the file so.")
    return suffix


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file: readers see the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _note(page: Mapping[str, Any]) -> str:
    """What else there is to say of a page."""
    said = [_plain(page["topic"])] if page["topic"] else []
    if page["new_links"]:
        said.append(f"{page['new_links']:,} new link{'s' if page['new_links'] > 1 else ''}")
    if page["outcome"]:
        said.append({"redirect": "it has moved"}.get(page["outcome"], page["outcome"]))
    return ", ".join(said)


def _more(count: int) -> list[str]:
    return [f"and {count:,} more"] if count > 0 else []


def _plain(text: str) -> str:
    """Text from the web in one line, without control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _time(iso: str) -> str:
    return iso[:19].replace("T", " ")
