"""A spider middleware of Scrapy that orders an existing spider's requests by the model of a collection.

    SPIDER_MIDDLEWARES = {"opilio.integrations.scrapy.FocusMiddleware": 543}
    OPILIO_COLLECTION = "birds"

Each response is judged before the spider sees it. The relevance is in `response.meta["opilio"]`, and in each item under
`opilio`, if the item has such a field or is a dict. Each request gets a priority: the spider's own, plus the expected
relevance of the page behind it in thousandths. Scrapy takes requests of a higher priority first.

The expected relevance is one logistic sum: what the page with the link was judged, what the model makes of the words of
the link and its URL, and what links with such words led to earlier in this crawl. Scrapy sets a priority once: a
request that waits does not profit from what is learned after it. That takes a crawl of Opilio's own.

`OPILIO_DROP_LINKS_BELOW` and `OPILIO_DROP_ITEMS_BELOW` (0 to 1; 0 drops nothing) leave out requests whose expected
relevance, and items whose page's relevance, is less. Start requests are never dropped.

Scrapy 2.13 or later must be installed; it is no dependency of Opilio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from itemadapter import ItemAdapter
from scrapy.exceptions import NotConfigured
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware

from opilio.errors import OpilioError
from opilio.features.classifier_input import NO_STEMS, ClassifierInput
from opilio.frontier.link_words import WordOdds
from opilio.integrations.model import NOWHERE, CollectionModel, InputReader
from opilio.model import Document, Judgement, normalize
from opilio.settings import Settings

if TYPE_CHECKING:
    import numpy.typing as npt
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    Words = npt.NDArray[np.uint32]

META, LINK = "opilio", "opilio_link"
"""The keys of `meta` with the judgement of a response, and with the words of the link that a request came from."""
PRIORITY_STEPS = 1000
"""The priority of a request whose page is certainly relevant."""
MAX_LINK_WORDS = 60
MAX_BYTES = Settings().fetch.accept["text/html"]
"""Of a page, as in a crawl of Opilio's own: Scrapy takes much longer ones."""
LEAST = 0.01
"""No evidence is more certain than this, so that others can outweigh it."""
UNKNOWN = 0.5
"""The relevance of a page that nothing is known of."""


@dataclass(frozen=True)
class LinkStems:
    """The words of the links to one URL on one page: hash codes of stems."""

    own: Words
    """Those of anchor texts and the URL."""
    around: Words


class FocusMiddleware(BaseSpiderMiddleware):
    """Judges responses, and orders requests by the relevance that is expected of them."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        settings = crawler.settings
        folder = settings.get("OPILIO_COLLECTION")
        if not folder:
            raise NotConfigured("OPILIO_COLLECTION is not set: give the folder of a collection")
        try:
            self._model = CollectionModel.of(Path(folder))
        except OpilioError as error:  # Scrapy logs the message of a component that is not configured, and goes on
            raise ValueError(f"OPILIO_COLLECTION: {error.message}. {error.hint}") from None
        self._drop_links_below = settings.getfloat("OPILIO_DROP_LINKS_BELOW", 0.0)
        self._drop_items_below = settings.getfloat("OPILIO_DROP_ITEMS_BELOW", 0.0)
        self._reader = InputReader()
        self._reader.analyzer.gives_link_words = True
        self._odds = WordOdds()
        self._page: tuple[Response | None, Mapping[str, LinkStems]] = (None, {})
        """The response whose links are known, and the words of its links by URL."""

    # -- responses

    def process_spider_input(self, response: Response, spider: Spider | None = None) -> None:
        """Judge a response, and learn what the words of the link to it were worth."""
        document = self._document(response)
        words = np.frombuffer(bytes.fromhex(response.meta.get(LINK, "")), "<u4")
        said = None if document is None else self._judge(document, response.url, words)
        response.meta[META] = None if said is None else self._told(said)
        self._page = (response, {} if document is None else _words_of_links(document))
        if said is not None and len(words):
            self._odds.learn(words, np.zeros(len(words), np.int64), np.array([said.relevance]))
        stats = self.crawler.stats
        if stats is not None and said is not None:
            stats.inc_value("opilio/judged")
            stats.inc_value("opilio/relevant", int(said.is_relevant))

    def _document(self, response: Response) -> Document | None:
        content_type = (response.headers.get("Content-Type") or b"").decode("latin-1")
        return self._reader.document(response.body[:MAX_BYTES], content_type, normalize(response.url) or NOWHERE)

    def _judge(self, document: Document, url: str, anchor: Words) -> Judgement:
        return self._model.judge(
            ClassifierInput(np.frombuffer(document.stems, "<u4"), anchor, NO_STEMS, document.title, document.text,
                            document.language, url)
        )  # fmt: skip

    def _told(self, said: Judgement) -> dict[str, Any]:
        """A judgement in plain values, as a disk queue can keep it."""
        return {"relevance": said.relevance, "topic": self._model.topic_of(said), "relevant": said.is_relevant}

    # -- what the spider makes of them

    def get_processed_request(self, request: Request, response: Response | None) -> Request | None:
        """A request with its priority; None if too little is expected of it."""
        if response is None:
            return request
        links = self._links_of(response)
        words = links.get(normalize(request.url))
        own = words.own if words is not None else NO_STEMS
        expected = self._expected(_relevance(response), own, words.around if words is not None else NO_STEMS)
        if expected < self._drop_links_below:
            if self.crawler.stats is not None:
                self.crawler.stats.inc_value("opilio/links_dropped")
            return None
        request.meta.pop(META, None)  # a spider may pass on the meta of its response
        request.meta[LINK] = own[:MAX_LINK_WORDS].astype("<u4").tobytes().hex()
        return request.replace(priority=request.priority + round(PRIORITY_STEPS * expected))

    def get_processed_item(self, item: Any, response: Response | None) -> Any:
        """An item with the judgement of its page; None if the page is not relevant enough."""
        if response is None or response.meta.get(META) is None:
            return item
        if _relevance(response) < self._drop_items_below:
            if self.crawler.stats is not None:
                self.crawler.stats.inc_value("opilio/items_dropped")
            return None
        if ItemAdapter.is_item(item):
            adapter = ItemAdapter(item)
            if isinstance(item, dict) or META in adapter.field_names():
                adapter.setdefault(META, response.meta[META])
        return item

    def _links_of(self, response: Response) -> Mapping[str, LinkStems]:
        """The words of the links of a response. It is read again when others came while its callback ran."""
        known, links = self._page
        if known is not response:
            document = self._document(response)
            links = {} if document is None else _words_of_links(document)
            self._page = (response, links)
        return links

    def _expected(self, parent: float, own: Words, around: Words) -> float:
        """The expected relevance of a page, by the page that links to it, the words of the link, and experience."""
        total = _logit(parent)
        if len(own):
            words = np.concatenate([own, around])
            said = self._model.judge(ClassifierInput(words, own))
            total += _logit(said.relevance) + float(self._odds.odds(own).mean())
        return 1.0 / (1.0 + math.exp(-total / 2))


def _relevance(response: Response) -> float:
    said = response.meta.get(META)
    return UNKNOWN if said is None else float(said["relevance"])


def _logit(share: float) -> float:
    kept = min(1.0 - LEAST, max(LEAST, share))
    return math.log(kept / (1.0 - kept))


def _words_of_links(document: Document) -> dict[str, LinkStems]:
    """The words of the links of a page by URL; several links to one URL are taken together."""
    stems = np.frombuffer(document.link_words, "<u4")
    counts = np.stack([np.frombuffer(document.link_words_in, "u1"), np.frombuffer(document.link_words_around, "u1")], 1)
    ends = np.cumsum(counts.ravel().astype(np.int64)).tolist()
    found: dict[str, LinkStems] = {}
    for number, link in enumerate(document.links):
        start = ends[2 * number - 1] if number else 0
        own, around = stems[start : ends[2 * number]], stems[ends[2 * number] : ends[2 * number + 1]]
        before = found.get(link.url)
        if before is not None:
            own, around = np.concatenate([before.own, own]), np.concatenate([before.around, around])
        found[link.url] = LinkStems(own, around)
    return found
