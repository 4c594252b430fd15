"""Searching: the page, and the same by the API."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse

from opilio.errors import InputError
from opilio.search.ranking import DEFAULT_WEIGHTS, RANKINGS
from opilio.web.access import Reading, Render

router = APIRouter()

FACETS = {"topic": "Topic", "host": "Host", "type": "Type", "lang": "Language"}
RANKING_NAMES = {"bm25": "Words (BM25)", "cosine": "Cosine", "confidence": "Confidence", "authority": "Authority"}
DEFAULT_SIZE = 10


class SearchBody(BaseModel):
    """What a search asks for: the parameters of the address."""

    model_config = ConfigDict(extra="ignore")

    q: str = Field("", description="The question: words, phrases, fields, filters.")
    topic: list[str] = Field([], description="Only pages of these topics, and of those below them.")
    host: list[str] = Field([], description="Only pages of these hosts or domains.")
    type: list[str] = Field([], description="Only pages of these types: html, pdf, ...")
    lang: list[str] = Field([], description="Only pages in these languages: en, de, ...")
    since: str = Field("", description="Only pages fetched since this day.")
    before: str = Field("", description="Only pages fetched before this day.")
    bm25: float | None = Field(None, ge=0, le=100, description="Weight of BM25. Without any weight: the defaults.")
    cosine: float | None = Field(None, ge=0, le=100, description="Weight of the cosine.")
    confidence: float | None = Field(None, ge=0, le=100, description="Weight of the relevance.")
    authority: float | None = Field(None, ge=0, le=100, description="Weight of the authority.")
    copies_of: int | None = Field(None, description="The near duplicates of the page with this oid.")
    page: int = Field(1, ge=1, le=1_000_000)
    size: int = Field(DEFAULT_SIZE, ge=1, le=200)

    @property
    def weights(self) -> dict[str, float] | None:
        """The weights that are given; None when there are none."""
        given = {name: getattr(self, name) for name in RANKINGS if getattr(self, name) is not None}
        return given or None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for at all."""
        return self.copies_of is None and not any(getattr(self, name) for name in ("q", *FACETS, "since", "before"))

    def request(self) -> dict[str, Any]:
        """What `Collection.search` takes beside the question."""
        return {**self.model_dump(exclude={"q", *RANKINGS}), "weights": self.weights}

    def link(self, **changes: Any) -> str:
        """The query of an address like this one, changed: the first page unless the changes say which."""
        given = {**self.model_dump(exclude_defaults=True, exclude={"page"}), **changes}
        pairs = [
            (name, one)
            for name, value in given.items()
            for one in (value if isinstance(value, list) else [value])
            if one not in ("", None)
        ]
        return urlencode(pairs, quote_via=quote)

    def with_value(self, facet: str, value: str) -> str:
        """The same with one more value of a facet, or without it when it is chosen."""
        values = getattr(self, facet)
        changed = [one for one in values if one != value] if value in values else [*values, value]
        return self.link(**{facet: changed})


@router.get("/c/{name}/search", include_in_schema=False)
def search_page(
    request: Request, name: str, collection: Reading, pages: Render, asked: Annotated[SearchBody, Query()]
) -> HTMLResponse:
    """Results, what they can be narrowed by, and how they are ordered. Without a question: how to ask."""
    answer, wrong, hint = None, "", ""
    if not asked.is_empty:
        try:
            answer = collection.search(asked.q, **asked.request())
        except InputError as error:
            wrong, hint = error.message, error.hint
    weights = dict(answer["weights"]) if answer else {**DEFAULT_WEIGHTS, **(asked.weights or {})}
    return pages.render(
        request, "search.html", 400 if wrong else 200, name=name, place="search", asked=asked, answer=answer,
        wrong=wrong, hint=hint, facets=FACETS, rankings=RANKING_NAMES, weights=weights,
        topics=answer["topics"] if answer else [],
    )  # fmt: skip


@router.get("/api/c/{name}/search", tags=["search"])
def search(collection: Reading, asked: Annotated[SearchBody, Query()]) -> dict[str, Any]:
    """Search the stored pages: total, results, facets. A snippet is pieces of text, each marked when asked for."""
    return collection.search(asked.q, **asked.request())


@router.get("/api/c/{name}/similar", tags=["search"])
def similar(collection: Reading, url: str, n: Annotated[int, Query(ge=1, le=100)] = 10) -> list[dict[str, Any]]:
    """The stored pages most like the page of a URL, best first; neither itself nor copies of it."""
    return collection.similar(url, n)
