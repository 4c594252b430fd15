"""A worker: lease in, visit out. Fetches, writes the WARC record, analyses, judges.

A worker keeps only caches (connections, names, words); losing one loses nothing but the time of its leases.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from opilio.analyze import Analyzer
from opilio.analyze.keywords import term_ids
from opilio.classify import KeywordJudge
from opilio.crawl.messages import WorkerSetup
from opilio.errors import StoreError
from opilio.fetch import Client, Response, Transport, meet_host, parse_sitemap
from opilio.fetch.replay import replay
from opilio.model import Fetch, Lease, LeaseKind, Outcome, Visit
from opilio.settings import Settings, from_table
from opilio.store.warc import WarcWriter

# Answers that were read to their end; of others (too large, wrong type, broken off) only the head is there.
_COMPLETE = frozenset(
    {
        *(Outcome.OK, Outcome.NOT_MODIFIED, Outcome.REDIRECT, Outcome.BAD_REDIRECT),
        *(Outcome.CLIENT_ERROR, Outcome.TOO_MANY_REQUESTS, Outcome.SERVER_ERROR),
    }
)


class Worker:
    """Carries out leases, many at a time."""

    def __init__(self, setup: WorkerSetup, transport: Transport | None = None, *, archive: bool = True) -> None:
        self.settings: Settings = from_table(setup.settings, "settings of the crawl")
        self._transport = transport
        self._analyzer = Analyzer(self.settings.traps, self.settings.robots, self.settings.store)
        self._judge = KeywordJudge(setup.keywords, term_ids)
        self._warc: WarcWriter | None = None
        if archive and self.settings.store.warc:
            self._warc = WarcWriter(
                Path(setup.warc_folder),
                setup.name,
                max_bytes=self.settings.store.warc_max_bytes,
                user_agent=self.settings.user_agent,
            )

    async def visit(self, lease: Lease) -> Visit:
        """Carry out one lease. Whatever goes wrong in it becomes the visit's outcome."""
        try:
            return await self._visit(lease)
        except StoreError as error:
            return Visit(lease, _failed(Outcome.WORKER_LOST, error.message), fatal=error.message)
        except Exception as error:  # a defect of ours: the lease must come back all the same
            return Visit(lease, _failed(Outcome.UNREADABLE, f"{type(error).__name__}: {error}"))

    async def _visit(self, lease: Lease) -> Visit:
        if self._transport is None:
            self._transport = Client(self.settings)
        if lease.kind is LeaseKind.HOST:
            response, report = await meet_host(self._transport, lease, self.settings)
            return Visit(lease, self._archive(lease, response).fetch, host=report)
        response = await self._transport.fetch(lease)
        response = self._archive(lease, response)
        if lease.kind is LeaseKind.SITEMAP:
            return self._sitemap(lease, response)
        return self.read(lease, response)

    def read(self, lease: Lease, response: Response) -> Visit:
        """The visit that a response amounts to: analysis and judgement, no network."""
        fetch = response.fetch
        if fetch.outcome is not Outcome.OK:
            return Visit(lease, fetch)
        declared = response.headers.get("content-type", "")  # with its charset, unless the bytes belied the type
        content_type = declared if declared.lower().startswith(fetch.content_type) else fetch.content_type
        try:
            document = self._analyzer.analyze(response.body, content_type, lease.url, response.headers)
        except Exception as error:  # a page must never stop a crawl; what it did is recorded
            detail = f"analysis failed: {type(error).__name__}: {error}"[:300]
            return Visit(lease, msgspec.structs.replace(fetch, outcome=Outcome.UNREADABLE, detail=detail))
        if document is None:
            detail = f"no analysis for {fetch.content_type}"
            return Visit(lease, msgspec.structs.replace(fetch, outcome=Outcome.UNREADABLE, detail=detail))
        if not self.settings.store.text:
            document = msgspec.structs.replace(document, text="", main_text="")
        if not self._judge or not self.settings.store.terms:
            return Visit(lease, fetch, document)
        topic, relevance = self._judge.judge(document)
        return Visit(lease, fetch, document, relevance=relevance, topic=topic)

    def read_again(self, lease: Lease, ip: str, started_s: float, raw_head: bytes, raw_body: bytes) -> Visit:
        """The visit that a recorded answer amounts to."""
        return self.read(lease, replay(lease, ip, started_s, raw_head, raw_body, self.settings))

    def _archive(self, lease: Lease, response: Response) -> Response:
        """Write a complete answer of the web to the WARC file before anything else is done with it."""
        fetch = response.fetch
        if self._warc is None or fetch.outcome not in _COMPLETE or not response.raw_head:
            return response
        file, offset, size = self._warc.write(
            lease.url, fetch.ip, fetch.started_s, response.request_head, response.raw_head, response.raw_body
        )
        return response._replace(
            fetch=msgspec.structs.replace(fetch, warc_file=file, warc_offset=offset, warc_bytes=size)
        )

    def _sitemap(self, lease: Lease, response: Response) -> Visit:
        if response.fetch.outcome is not Outcome.OK:
            return Visit(lease, response.fetch)
        urls, is_index = parse_sitemap(response.body, lease.url, self.settings.robots.max_sitemap_urls)
        return Visit(lease, response.fetch, sitemap_urls=urls, sitemap_is_index=is_index)

    async def aclose(self) -> None:
        """Close connections and the WARC file."""
        if self._transport is not None:
            await self._transport.aclose()
        if self._warc is not None:
            self._warc.close()


def _failed(outcome: Outcome, detail: str) -> Fetch:
    return Fetch(outcome, started_s=time.time(), detail=detail[:300])
