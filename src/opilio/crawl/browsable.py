"""Browsing a collection: its topics, their best pages, a page with all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opilio.crawl.asking import Askable, address_of


class Browsable(Askable):
    """What concerns the portal: each of these is one read, answered by the crawl that runs or from the database."""

    def portal(self, days: int = 1) -> dict[str, Any]:
        """The front of the portal: the topic tree with counts, the best pages of each wanted topic, hubs and
        authorities, what the last `days` of crawling brought, how the crawl stands, and its notices."""
        return dict(self._read("portal", days=days))

    def topic_pages(
        self,
        topic: str = "",
        *,
        order: str = "confidence",
        page: int = 1,
        own: bool = False,
        relevant: bool = False,
        per_page: int = 25,
    ) -> dict[str, Any]:
        """The pages of a topic with all below it, and what the topic is. `OTHERS` are pages that no topic took.

        `order` is confidence, authority, hub, newest or title; `own` leaves out the topics below, `relevant` what is
        not relevant.
        """
        asked = {"topic": topic, "order": order, "page": page, "own": own, "relevant": relevant, "per_page": per_page}
        return dict(self._read("topic_pages", **asked))

    def page(self, url: str, *, explain: bool = True) -> dict[str, Any]:
        """A page with its text, why it is judged as it is, its judgements over time, duplicates and neighbours.

        `stored` is false when the collection does not have it; `known` says then what is known of the URL, if anything.
        """
        return dict(self._read("page", url=_url(url), explain=explain))

    def pages(self, urls: Sequence[str]) -> list[dict[str, Any]]:
        """What `page` says of each of several URLs, in one read."""
        return list(self._read("pages", urls=[_url(url) for url in urls]))

    def neighbours(self, url: str, most: int = 12) -> dict[str, Any]:
        """The best pages that link to a URL (`from`) and that it links to (`to`), with the words of the links."""
        return dict(self._read("neighbours", url=_url(url), most=most))


def _url(text: str) -> str:
    return address_of(text, "Give the address of a page, such as http://example.org/page.")
