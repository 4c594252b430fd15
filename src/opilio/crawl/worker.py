"""A worker: lease in, visit out. Fetches, has pages rendered, writes the WARC record, analyses, judges.

A worker keeps only caches (connections, names, words); losing one loses nothing but the time of its leases.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from opilio.analyze import Analyzer, Content, Extractor, Failure
from opilio.analyze.pictures import read_picture
from opilio.crawl.messages import WorkerSetup
from opilio.errors import StoreError
from opilio.fetch import Client, Response, Transport, contact_host, parse_sitemap
from opilio.fetch.robots import fetch_site_file, report_of
from opilio.fetch.transport import replay
from opilio.model import Document, Fetch, Judgement, Lease, LeaseKind, Outcome, Visit, host_of
from opilio.settings import ClassifySettings, Settings, from_table
from opilio.store.warc import RecordNote, WarcPlace, WarcRecord, WarcWriter

if TYPE_CHECKING:
    from opilio.render import Browser, Rendering

# Responses that were read to their end; of others (too large, wrong type, broken off) only the head is there.
_COMPLETE = frozenset(
    {
        *(Outcome.OK, Outcome.NOT_MODIFIED, Outcome.REDIRECT, Outcome.BAD_REDIRECT, Outcome.TOO_MANY_REDIRECTS),
        *(Outcome.CLIENT_ERROR, Outcome.TOO_MANY_REQUESTS, Outcome.SERVER_ERROR),
    }
)
_TRUNCATED = {
    Outcome.TOO_LARGE: "length",
    Outcome.BOMB: "length",
    Outcome.TIMED_OUT: "time",
    Outcome.BROKEN: "disconnect",
}
"""Why the body of a response is missing, as WARC names it; that of other responses: unspecified."""
_OUTCOMES = frozenset(Outcome)
_RENDERED_TYPES = frozenset({"text/html", "application/xhtml+xml"})


class PageJudge:
    """A model at work."""

    def __init__(self, model: bytes, settings: ClassifySettings) -> None:
        # Loaded with the first model: a crawl that judges nothing need not load classifiers.
        from opilio.classify import Model  # noqa: PLC0415
        from opilio.features.classifier_input import ClassifierInput, significant_stems  # noqa: PLC0415

        self._model = Model.from_bytes(model)
        self._input_of = ClassifierInput.of
        self._significant_stems = significant_stems
        self._uses_neighbours = any("neighbours" in space for space in settings.spaces)

    def judge(self, document: Document, lease: Lease) -> Judgement:
        """What the model says of a page."""
        return self._model.judge(self._input_of(document, lease.url, lease.anchor, lease.neighbours))

    def significant(self, document: Document) -> bytes:
        """The stems that describe a page when those it links to are judged; b"" when no feature space uses them."""
        return self._significant_stems(document) if self._uses_neighbours else b""


class Archive(Protocol):
    """Where responses of the web are kept as they came."""

    def write(
        self,
        url: str,
        ip: str,
        started_s: float,
        request_head: bytes,
        raw_head: bytes,
        raw_body: bytes,
        note: RecordNote,
    ) -> WarcPlace:
        """Keep a response with its request."""
        ...


class Worker:
    """Carries out leases, many at a time."""

    def __init__(self, setup: WorkerSetup, transport: Transport | None = None, *, archive: bool = True) -> None:
        self.settings: Settings = from_table(setup.settings, "settings of the crawl")
        self._transport = transport
        self._analyzer = Analyzer(self.settings.traps, self.settings.robots, self.settings.store)
        self._analyzer.gives_link_words = setup.link_words
        self._extractor = Extractor(self.settings)
        self._browser: Browser | None = None
        self._judge: PageJudge | None = None
        self._sends_stems = self.settings.classify.classifier != "keywords" and self.settings.store.text
        if setup.model and self.settings.store.terms:
            self.use_model(setup.model)
        self._warc: WarcWriter | None = None
        if archive and self.settings.store.warc:
            self._warc = WarcWriter(
                Path(setup.warc_folder),
                setup.name,
                max_bytes=self.settings.store.warc_max_bytes,
                user_agent=self.settings.user_agent,
            )

    def use_model(self, model: bytes) -> None:
        """Judge by another model from now on."""
        self._judge = PageJudge(model, self.settings.classify)

    def send_link_words(self) -> None:
        """Give the words of links with each document from now on."""
        self._analyzer.gives_link_words = True

    async def visit(self, lease: Lease, archive: Archive | None = None) -> Visit:
        """Carry out one lease. Whatever goes wrong becomes the visit's outcome.

        The response is kept in the worker's own files, or in `archive` when one is given.
        """
        try:
            return await self._visit(lease, archive or self._warc)
        except StoreError as error:
            return Visit(lease, _failed(Outcome.WORKER_LOST, error.message), fatal=error.message)
        except Exception as error:  # a defect of ours: the lease must come back nevertheless
            return Visit(lease, _failed(Outcome.UNREADABLE, f"{type(error).__name__}: {error}"))

    async def _visit(self, lease: Lease, archive: Archive | None) -> Visit:
        if self._transport is None:
            self._transport = Client(self.settings)
        if lease.kind is LeaseKind.HOST:
            response, report = await contact_host(self._transport, lease, self.settings)
            return Visit(lease, _archive(lease, response, archive).fetch, host=report)
        if lease.kind is LeaseKind.RIGHTS:
            response = await fetch_site_file(self._transport, lease, self.settings)
            return _rights_file(lease, _archive(lease, response, archive))
        response = await self._transport.fetch(lease)
        if lease.kind is LeaseKind.PROBE:
            return Visit(lease, response.fetch)
        if lease.kind is LeaseKind.MISSING:  # not archived: it is no page of the site
            return self._to_visit(lease, response)
        if lease.kind is LeaseKind.PAGE and (self.settings.robots.obey_rights or self._may_render(lease, response)):
            return await self._visit_page(lease, response, archive)
        response = _archive(lease, response, archive)
        if lease.kind is LeaseKind.SITEMAP:
            return self._sitemap(lease, response)
        if lease.kind in (LeaseKind.PICTURE, LeaseKind.ICON):
            return _picture(lease, response)
        return await self._read_page(lease, response)

    async def _visit_page(self, lease: Lease, response: Response, archive: Archive | None) -> Visit:
        """Read a page before it is archived: it may reserve rights, and then it may not be kept; or it is rendered."""
        visit = await self._read_page(lease, response)
        rendering = None
        if self._may_render(lease, response) and self._must_render(lease, visit):
            rendering = await self._rendered(lease, response, archive)
            visit = self._visit_of_rendering(lease, response, visit, rendering)
        if visit.fetch.outcome is Outcome.RESERVED:
            fetch = _archive(lease, response._replace(fetch=visit.fetch, raw_body=b""), archive).fetch
            return Visit(lease, fetch, subrequests=visit.subrequests)
        archived = _archive(lease, response, archive, rendering.html if rendering and visit.rendered else b"")
        if archived is response:  # nothing was written
            return visit
        fetch = archived.fetch
        places = {"warc_file": fetch.warc_file, "warc_offset": fetch.warc_offset, "warc_bytes": fetch.warc_bytes}
        return msgspec.structs.replace(visit, fetch=msgspec.structs.replace(visit.fetch, **places))

    def _may_render(self, lease: Lease, response: Response) -> bool:
        """Whether a page is one that a browser shows, of a host whose pages may be rendered."""
        is_page = response.fetch.outcome is Outcome.OK and response.fetch.content_type in _RENDERED_TYPES
        return is_page and self.settings.render.mode_of(host_of(lease.url)) != "never"

    def _must_render(self, lease: Lease, visit: Visit) -> bool:
        """Whether a page that was read has to be rendered."""
        if visit.document is None:
            return False
        return visit.document.needs_javascript or self.settings.render.mode_of(host_of(lease.url)) == "always"

    async def _rendered(self, lease: Lease, response: Response, archive: Archive | None) -> Rendering:
        def keep(part: Lease, answer: Response) -> Response:
            # What a page reserves may be known only once it is rendered: then nothing of it is kept.
            reserves = bool(self.settings.robots.obey_rights)
            return _archive(part, answer, None if reserves else archive, part_of=lease.url)

        if self._transport is None:
            self._transport = Client(self.settings)
        if self._browser is None:
            from opilio.render import Browser  # noqa: PLC0415  (few crawls render pages; it takes a fifth of a start)

            self._browser = Browser(self.settings, self._transport)
        return await self._browser.render(lease, response, keep)

    def _visit_of_rendering(self, lease: Lease, response: Response, plain: Visit, rendering: Rendering) -> Visit:
        """The visit of a page that was rendered; `plain` is the one of the page as it was received."""
        if rendering.outcome is not Outcome.OK:
            fetch = msgspec.structs.replace(plain.fetch, outcome=rendering.outcome, detail=rendering.detail)
            return Visit(lease, fetch, subrequests=rendering.requests)
        visit = self._to_visit(lease, rendered_response(response, rendering.html, self.settings))
        fetch, document = msgspec.structs.replace(visit.fetch, detail=rendering.detail), visit.document
        if document is not None and document.needs_javascript and rendering.is_empty:
            detail = f"still empty when {rendering.detail}"[:300]
            fetch = msgspec.structs.replace(plain.fetch, outcome=Outcome.RENDER_FAILED, detail=detail)
            return Visit(lease, fetch, subrequests=rendering.requests)
        if document is not None and plain.document is not None:  # a script cannot take back what its page forbids
            document = msgspec.structs.replace(
                document,
                noindex=document.noindex or plain.document.noindex,
                nofollow=document.nofollow or plain.document.nofollow,
                needs_javascript=False,
            )
        return msgspec.structs.replace(
            visit, fetch=fetch, document=document, subrequests=rendering.requests, rendered=True
        )

    async def _read_page(self, lease: Lease, response: Response) -> Visit:
        content_type = _content_type(response)
        if response.fetch.outcome is Outcome.OK and self._analyzer.is_risky(response.body, content_type, lease.url):
            return self._to_visit(lease, response, await self._extractor.read(response.body, content_type, lease.url))
        return self._to_visit(lease, response)

    def read(self, lease: Lease, response: Response) -> Visit:
        """Make a visit of a response: analysis and judgement, no network."""
        content_type = _content_type(response)
        if response.fetch.outcome is Outcome.OK and self._analyzer.is_risky(response.body, content_type, lease.url):
            return self._to_visit(lease, response, self._extractor.read_now(response.body, content_type, lease.url))
        return self._to_visit(lease, response)

    def _to_visit(self, lease: Lease, response: Response, content: Content | Failure | None = None) -> Visit:
        """Make a visit of a response; `content` is what the extractor read, if the body is not safe to read here."""
        fetch = response.fetch
        if fetch.outcome is not Outcome.OK:
            return Visit(lease, fetch)
        if isinstance(content, Failure):
            return Visit(lease, msgspec.structs.replace(fetch, outcome=content.outcome, detail=content.detail))
        try:
            if content is not None:
                document: Document | None = self._analyzer.document_of(content, lease.url, response.headers)
            else:
                document = self._analyzer.analyze(response.body, _content_type(response), lease.url, response.headers)
        except Exception as error:  # a page must never stop a crawl; the error is recorded
            detail = f"analysis failed: {type(error).__name__}: {error}"[:300]
            return Visit(lease, msgspec.structs.replace(fetch, outcome=Outcome.UNREADABLE, detail=detail))
        if document is None:
            detail = f"no analysis for {fetch.content_type}"
            return Visit(lease, msgspec.structs.replace(fetch, outcome=Outcome.UNREADABLE, detail=detail))
        if document.reserved:
            detail = ", ".join(f"{one.signal} {one.value} ({one.source})" for one in document.rights)[:300]
            return Visit(lease, msgspec.structs.replace(fetch, outcome=Outcome.RESERVED, detail=detail))
        judgement = self._judge.judge(document, lease) if self._judge is not None else None
        return Visit(lease, fetch, self._for_engine(document), judgement=judgement)

    def _for_engine(self, document: Document) -> Document:
        """The document with what the engine needs, and no more."""
        keeps_text = self.settings.store.text
        return msgspec.structs.replace(
            document,
            text=document.text if keeps_text else "",
            main_text=document.main_text if keeps_text else "",
            significant=self._judge.significant(document) if self._judge is not None else b"",
            stems=document.stems if self._sends_stems and self._judge is not None else b"",
        )

    def read_again(self, lease: Lease, record: WarcRecord) -> Visit:
        """Make a visit of a response that was recorded."""
        response = replay(
            lease, record.ip, record.date_s, record.raw_head, record.raw_body, self.settings, cut=record.cut
        )
        if record.outcome in _OUTCOMES:  # its body was not kept
            detail = "as its WARC record says"
            return Visit(lease, msgspec.structs.replace(response.fetch, outcome=Outcome(record.outcome), detail=detail))
        if record.rendered and lease.kind is LeaseKind.PAGE and response.fetch.outcome is Outcome.OK:
            from opilio.render import Rendering  # noqa: PLC0415

            rendering = Rendering(record.rendered, detail="rendered, as its WARC record says")
            return self._visit_of_rendering(lease, response, self.read(lease, response), rendering)
        if lease.kind is LeaseKind.HOST:
            return Visit(lease, response.fetch, host=report_of(response.fetch, response.body, lease.url, self.settings))
        if lease.kind is LeaseKind.RIGHTS:
            return _rights_file(lease, response)
        return self._sitemap(lease, response) if lease.kind is LeaseKind.SITEMAP else self.read(lease, response)

    def _sitemap(self, lease: Lease, response: Response) -> Visit:
        if response.fetch.outcome is not Outcome.OK:
            return Visit(lease, response.fetch)
        urls, is_index = parse_sitemap(response.body, lease.url, self.settings.robots.max_sitemap_urls)
        return Visit(lease, response.fetch, sitemap_urls=urls, sitemap_is_index=is_index)

    async def aclose(self) -> None:
        """Close connections and the WARC file, and end the browser."""
        if self._browser is not None:
            await self._browser.aclose()
        if self._transport is not None:
            await self._transport.aclose()
        await self._extractor.aclose()
        if self._warc is not None:
            self._warc.close()


def rendered_response(response: Response, html: bytes, settings: Settings) -> Response:
    """A response with the rendered page as its body, cut as other pages are.

    It has nothing that a conditional request could name: that its document is unchanged says nothing about the page.
    """
    limit = settings.fetch.cut_bytes or settings.fetch.accept.get("text/html", 0)
    is_cut = 0 < limit <= len(html)
    body = html[:limit] if is_cut else html
    fetch = msgspec.structs.replace(
        response.fetch, content_type="text/html", body_bytes=len(body), cut=is_cut, etag="", last_modified=""
    )
    return response._replace(
        fetch=fetch, body=body, headers={**response.headers, "content-type": "text/html; charset=utf-8"}
    )


def _archive(
    lease: Lease, response: Response, archive: Archive | None, rendered: bytes = b"", part_of: str = ""
) -> Response:
    """Write a response to the archive; of one that was refused, its head. Of a page nothing else is done before, unless
    it has to be read first."""
    fetch = response.fetch
    if archive is None or not fetch.status or not response.raw_head:
        return response
    note = RecordNote("length" if fetch.cut else "", part_of=part_of, rendered=rendered)
    if fetch.outcome not in _COMPLETE:
        note = RecordNote(_TRUNCATED.get(fetch.outcome, "unspecified"), fetch.outcome, part_of=part_of)
    elif fetch.outcome is Outcome.NOT_MODIFIED:
        note = RecordNote(unchanged_since_s=lease.stored_s, part_of=part_of)
    file, offset, size = archive.write(
        lease.url, fetch.ip, fetch.started_s, response.request_head, response.raw_head, response.raw_body, note
    )
    return response._replace(fetch=msgspec.structs.replace(fetch, warc_file=file, warc_offset=offset, warc_bytes=size))


def _rights_file(lease: Lease, response: Response) -> Visit:
    """The visit of a file in which a site reserves rights. One that is a web page is the answer for pages not found."""
    text = response.body.decode("utf-8", "replace").removeprefix("\ufeff")
    return Visit(lease, response.fetch, rights_file="" if text.lstrip().startswith("<") else text)


def _picture(lease: Lease, response: Response) -> Visit:
    """The visit of a picture: its bytes decide what it is, whatever the server says."""
    if response.fetch.outcome is not Outcome.OK:
        return Visit(lease, response.fetch)
    picture = read_picture(response.body)
    if picture is None:
        detail = "not a PNG, JPEG, GIF, WebP or ICO file"
        return Visit(lease, msgspec.structs.replace(response.fetch, outcome=Outcome.WRONG_TYPE, detail=detail))
    return Visit(lease, response.fetch, picture=picture)


def _content_type(response: Response) -> str:
    """The type as the server sent it, with its charset, unless the bytes proved it wrong."""
    declared, found = response.headers.get("content-type", ""), response.fetch.content_type
    return declared if declared.lower().startswith(found) else found


def _failed(outcome: Outcome, detail: str) -> Fetch:
    return Fetch(outcome, started_s=time.time(), detail=detail[:300])
