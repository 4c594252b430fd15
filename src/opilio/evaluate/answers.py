"""What a recorded web answers, made ready once and shared by all simulations of it."""

from __future__ import annotations

import msgspec

from opilio.analyze.link_words import link_words
from opilio.analyze.sketch import bands
from opilio.analyze.terms import Vocabulary
from opilio.evaluate.analysed import Analysed
from opilio.fetch.replay import replay
from opilio.fetch.verdicts import of_status
from opilio.model import Document, Fetch, HostReport, Lease, Outcome
from opilio.settings import Settings

_MISSING = Fetch(Outcome.CLIENT_ERROR, 404)
_NO_ROBOTS = HostReport(404)


class Answers:
    """The answer to each URL of a web. What it says never changes: simulations share it."""

    def __init__(self, analysed: Analysed) -> None:
        self.urls = analysed.web.urls
        self.documents = analysed.documents
        self._web = analysed.web
        self._numbers = {url: number for number, url in enumerate(self.urls)}
        self._fetches = [self._fetch(number) for number in range(len(self.urls))]
        self._bands: dict[bytes, list[int]] = {}
        self._vocabulary = Vocabulary()
        self._told: dict[int, Document] = {}

    def number(self, url: str) -> int:
        """The page number of a URL, -1 when it was not recorded."""
        number = self._numbers.get(url)
        return self._web.number(url) if number is None else number

    def page(self, number: int) -> tuple[Fetch, Document | None]:
        """What asking for a page comes to, with its document if it has one; 404 for -1."""
        if number < 0:
            return _MISSING, None
        fetch = self._fetches[number]
        if fetch.outcome is not Outcome.OK:
            return fetch, None
        document = self.documents[number]
        if document is None:
            return msgspec.structs.replace(fetch, outcome=Outcome.UNREADABLE), None
        return fetch, document

    def document(self, number: int) -> Document | None:
        """The document of a page with the words of its links, which strategies that learn look at."""
        told = self._told.get(number)
        document = self.documents[number]
        if told is not None or document is None:
            return told
        words = link_words(document.links, document.language, self._vocabulary)
        told = self._told[number] = msgspec.structs.replace(
            document, link_words=words.stems, link_words_in=words.inside, link_words_around=words.around
        )
        return told

    def robots(self, url: str) -> HostReport:
        """What the robots.txt at `url` says: nothing, for a host of which none was recorded.

        A delay that it asks for is left out, for there is no time here; so are sitemaps, and redirects of it.
        """
        number = self.number(url)
        fetch, _ = self.page(number)
        if fetch.outcome is Outcome.REDIRECT:
            return _NO_ROBOTS
        if not 200 <= fetch.status < 300:
            return HostReport(fetch.status)
        answer = replay(Lease(number, url), "", 0.0, self._web.head(number), self._web.body(number), Settings())
        return HostReport(fetch.status, answer.body.decode("utf-8", "replace"))

    def bands(self, sketch: bytes) -> list[int]:
        """The bands of a sketch, remembered: every simulation asks for the same ones."""
        known = self._bands.get(sketch)
        if known is None:
            known = self._bands[sketch] = bands(sketch)
        return known

    def _fetch(self, number: int) -> Fetch:
        status, location = self._web.status(number), self._web.redirect(number)
        outcome, detail, target = of_status(status, location, self.urls[number])
        return Fetch(outcome, status, detail=detail, redirect_url=target)
