"""What a collection answers to the query servers and crawlers of a federation. All of it needs the token.

Reading needs it here, too: peers may be on other machines, and a summary and the parts of scores reveal more of a
collection than its pages do. The session of a browser is not enough: none of this is for browsers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from opilio.crawl.peer import SharedCollection
from opilio.federation.peers import MAX_NAME_CHARS, MAX_TOPIC_CHARS, Offer
from opilio.federation.validation import check_offers
from opilio.search.query import MAX_CHARS
from opilio.web.access import CollectionAccess, shelf_of
from opilio.web.security import NotAllowed, Security

router = APIRouter(prefix="/api/c/{name}/peer", tags=["federation"])

MAX_MOST = 2_000
MAX_FILTERS = 100
MAX_OFFERS = 1_000

Named = Annotated[str, Field(max_length=MAX_TOPIC_CHARS)]
Address = Annotated[str, Field(max_length=4_000)]
FilterName = Literal["host", "lang", "type", "topic", "since", "before", "relevance"]


class AskedByPeer(BaseModel):
    """A question of a query server."""

    question: str = Field("", max_length=MAX_CHARS)
    weights: dict[Annotated[str, Field(max_length=20)], float] | None = Field(None, max_length=20)
    filters: list[tuple[FilterName, Named]] = Field([], max_length=MAX_FILTERS)
    most: int = Field(50, ge=1, le=MAX_MOST, description="How many pages to send.")


class SaidElsewhere(BaseModel):
    """Feedback of a user of a query server on a page; without a topic, for the one that the page is in."""

    url: Address
    topic: Named = ""
    relevant: bool


class Offered(BaseModel):
    """A URL that suits a topic of this collection."""

    url: Address
    topic: Named = ""
    relevance: float = Field(0.0, ge=0, le=1)
    title: Annotated[str, Field(max_length=4_000)] = ""


class Handed(BaseModel):
    """URLs that another crawl forwards."""

    sender: str = Field(min_length=1, max_length=MAX_NAME_CHARS)
    offers: list[Offered] = Field(max_length=MAX_OFFERS)


def token_shown(request: Request) -> None:
    """Refuse requests without the token."""
    security: Security = request.app.state.security
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise NotAllowed("peers must send the token of this server", "Send Authorization: Bearer TOKEN.")
    security.check_token(request, token)


async def _reading(request: Request, name: str, _: Annotated[None, Depends(token_shown)]) -> AsyncIterator[Any]:
    access: CollectionAccess = request.app.state.access
    async with access.reading(shelf_of(request), name) as collection:
        yield SharedCollection(collection.folder)


async def _writing(request: Request, name: str, _: Annotated[None, Depends(token_shown)]) -> AsyncIterator[Any]:
    access: CollectionAccess = request.app.state.access
    async with access.writing(shelf_of(request), name) as collection:
        yield SharedCollection(collection.folder)


PeerReading = Annotated[SharedCollection, Depends(_reading, scope="function")]
PeerWriting = Annotated[SharedCollection, Depends(_writing, scope="function")]


@router.get("/summary")
def summary(request: Request, collection: PeerReading) -> Response:
    """The summary of the collection: topics, words, pages. With If-None-Match, 304 when it has not changed."""
    made = collection.summarize()
    headers = {"ETag": f'"{made.version}"'}
    if request.headers.get("If-None-Match", "") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(msgspec.json.encode(made), media_type="application/json", headers=headers)


@router.post("/ask")
def ask(collection: PeerReading, asked: AskedByPeer) -> Response:
    """The best pages for a question, with the parts of their scores."""
    filters: list[tuple[str, str]] = [(name, value) for name, value in asked.filters]
    found = collection.reply(asked.question, weights=asked.weights, filters=filters, most=asked.most)
    return Response(msgspec.json.encode(found), media_type="application/json")


@router.post("/feedback")
def feedback(collection: PeerWriting, said: SaidElsewhere) -> dict[str, Any]:
    """Learn from the feedback of a user of a query server on a stored page."""
    return {"said": collection.take_feedback(said.url, said.topic, relevant=said.relevant)}


@router.post("/offer")
def offer(collection: PeerWriting, handed: Handed) -> dict[str, Any]:
    """Take URLs that suit the topics of this collection; `taken` says how many were new."""
    offers = check_offers(Offer(one.url, one.topic, one.relevance, one.title) for one in handed.offers)
    return {"taken": collection.take_offers(handed.sender, offers)}
