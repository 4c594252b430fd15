"""Cards for notebooks: a collection, and the results of a search, as HTML.

Titles, sentences and addresses come from foreign pages: all of them are escaped, nothing is loaded when a card is
shown, and a link is made of an address only if it is one of the web.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from opilio.model.visit import certainty

SHOWN_TOPICS = 12
_CARD = "border:1px solid #8886;border-radius:8px;padding:8px 14px;margin:6px 0;max-width:56em"
_SMALL = "font-size:85%;opacity:.75"


class SearchAnswer(dict[str, Any]):
    """The answer to a question; a notebook shows it as a list of cards."""

    def _repr_html_(self) -> str:
        more = "at least " if self["at_least"] else ""
        head = f"<p>{more}{self['total']:,} results for <b>{escape(self['question'])}</b></p>"
        return head + "".join(map(_result, self["results"]))


def collection_card(name: str, portal: Mapping[str, Any]) -> str:
    """A collection: what was found, and the best pages of each wanted topic."""
    tree, found = portal["tree"], portal["found"]
    expected = found["precision"]
    share = "" if expected is None else f" ({expected['kind']}: {expected['value']:.0%} of these on topic)"
    figures = f"{tree['pages'] + portal['others']:,} pages, {tree['relevant']:,} of them relevant{share}"
    topics = "".join(_topic(topic) for topic in portal["wanted"][:SHOWN_TOPICS])
    left = portal["wanted_topics"] - min(SHOWN_TOPICS, len(portal["wanted"]))
    more = f'<div style="{_SMALL}">and {left:,} more topics</div>' if left > 0 else ""
    return f'<div style="{_CARD}"><b>{escape(name)}</b><div>{escape(figures)}</div>{topics}{more}</div>'


def plain_card(name: str, message: str) -> str:
    """A collection of which nothing can be shown, and why."""
    return f'<div style="{_CARD}"><b>{escape(name)}</b><div>{escape(message)}</div></div>'


def _topic(topic: Mapping[str, Any]) -> str:
    pages = "".join(
        f"<li>{_link(page['url'], page['title'])} <span style='{_SMALL}'>{escape(certainty(page['relevance']))}, "
        f"{escape(page['host'])}</span>{_line(page['summary'])}</li>"
        for page in topic["best"]
    )
    sites = f"{topic['sites_total']:,} site{'s' if topic['sites_total'] != 1 else ''}"
    head = f"<b>{escape(topic['topic'] or topic['name'])}</b>: {topic['relevant']:,} pages of {sites}"
    return f"<div style='margin-top:6px'>{head}<ul style='margin:2px 0'>{pages}</ul></div>"


def _result(result: Mapping[str, Any]) -> str:
    facts = " · ".join(filter(None, [result["host"], result["topic"], certainty(result["relevance"])]))
    title = _marked(result["title_pieces"]) or escape(result["url"])
    return (
        f'<div style="{_CARD}">{_linked(result["url"], title)}<div>{_marked(result["snippet"])}</div>'
        f'<div style="{_SMALL}">{escape(facts)}</div></div>'
    )


def _marked(pieces: Sequence[tuple[str, bool]]) -> str:
    return "".join(f"<b>{escape(text)}</b>" if matches else escape(text) for text, matches in pieces)


def _line(text: str) -> str:
    return f"<div style='{_SMALL}'>{escape(text)}</div>" if text else ""


def _link(url: str, title: str) -> str:
    return _linked(url, escape(title or url))


def _linked(url: str, inside: str) -> str:
    """A link around HTML, if the address is one of the web."""
    if not url.startswith(("http://", "https://")):
        return inside
    return f'<a href="{escape(url)}" rel="noopener noreferrer nofollow" target="_blank">{inside}</a>'
