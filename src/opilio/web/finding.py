"""The search page, and the same search for programs."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import HTMLResponse

from opilio.crawl.operations import browse
from opilio.errors import InputError
from opilio.search.ranking import DEFAULT_WEIGHTS, FORMER_NAMES, RANKINGS
from opilio.web.access import Reading, Render, costly
from opilio.web.browsing import LiveLinks
from opilio.web.teaching import taught

router = APIRouter()

FACETS = {"topic": "Topic", "host": "Host", "type": "Type", "lang": "Language"}
RANKING_NAMES = {"bm25": "Words (BM25)", "cosine": "Cosine", "relevance": "Relevance", "authority": "Authority"}
DEFAULT_SIZE = 10
_ABOUT = browse.search.about
MIN_FUZZY_CHARS = 3  # of a shorter word nearly all others are similar


class SearchBody(BaseModel):
    """The parameters of a search, as the address has them."""

    model_config = ConfigDict(extra="ignore")

    q: str = Field("", description=_ABOUT["question"].description)
    topic: list[str] = Field([], description=_ABOUT["topic"].description)
    host: list[str] = Field([], description=_ABOUT["host"].description)
    type: list[str] = Field([], description=_ABOUT["type"].description)
    lang: list[str] = Field([], description=_ABOUT["lang"].description)
    since: str = Field("", description=_ABOUT["since"].description)
    before: str = Field("", description=_ABOUT["before"].description)
    bm25: float | None = Field(None, ge=0, le=100, description="Weight of BM25. Without any weight: the defaults.")
    cosine: float | None = Field(None, ge=0, le=100, description="Weight of the cosine.")
    relevance: float | None = Field(None, ge=0, le=100, description="Weight of the relevance.")
    authority: float | None = Field(None, ge=0, le=100, description="Weight of the authority.")
    copies_of: int | None = Field(None, description=_ABOUT["copies_of"].description)
    page: int = Field(1, ge=_ABOUT["page"].ge, le=_ABOUT["page"].le, description=_ABOUT["page"].description)
    size: int = Field(DEFAULT_SIZE, ge=_ABOUT["size"].ge, le=_ABOUT["size"].le, description=_ABOUT["size"].description)

    @model_validator(mode="before")
    @classmethod
    def _with_present_names(cls, given: Any) -> Any:
        """Addresses of earlier versions have former names of rankings. A parameter that a template left empty is not
        given."""
        if not isinstance(given, dict):
            return given
        return {FORMER_NAMES.get(name, name): value for name, value in given.items() if value != ""}

    @property
    def weights(self) -> dict[str, float] | None:
        """The weights that are given; None when none is."""
        given = {name: getattr(self, name) for name in RANKINGS if getattr(self, name) is not None}
        return given or None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search for."""
        return self.copies_of is None and not any(getattr(self, name) for name in ("q", *FACETS, "since", "before"))

    @property
    def question(self) -> str:
        """The question with all filters in it, as commands and the API take it."""
        filters = [(name, one) for name in FACETS for one in getattr(self, name)]
        filters += [(name, getattr(self, name)) for name in ("since", "before") if getattr(self, name)]
        return " ".join([*filter(None, [self.q]), *(_as_filter(name, value) for name, value in filters)])

    def request(self) -> dict[str, Any]:
        """The arguments of `Collection.search` besides the question."""
        return {**self.model_dump(exclude={"q", *RANKINGS}), "weights": self.weights}

    def link(self, **changes: Any) -> str:
        """The query string of this search with some changes; on the first page unless the changes say which."""
        given = {**self.model_dump(exclude_defaults=True, exclude={"page"}), **changes}
        pairs = [
            (name, one)
            for name, value in given.items()
            for one in (value if isinstance(value, list) else [value])
            if one not in ("", None)
        ]
        return urlencode(pairs, quote_via=quote)

    def with_value(self, facet: str, value: str) -> str:
        """The query string with one more value of a facet, or without that value when it is chosen."""
        values = getattr(self, facet)
        changed = [one for one in values if one != value] if value in values else [*values, value]
        return self.link(**{facet: changed})


def proposals(question: str) -> list[str]:
    """Other questions for one that finds nothing: similar words, and any of the words. Only for plain words."""
    words = question.split()
    if not words or not all(word.isalnum() for word in words) or {"OR", "AND", "NOT"} & set(words):
        return []
    similar = " ".join(f"{word}~" if len(word) > MIN_FUZZY_CHARS else word for word in words)
    found = [similar] if similar != question else []
    return found + ([" OR ".join(words)] if len(words) > 1 else [])


def _as_filter(name: str, value: str) -> str:
    """A filter in the language of questions; a value in quotes has no quotes itself."""
    plain = value.replace('"', " ")
    return f'{name}:"{plain}"' if set(plain) & set(" ()") else f"{name}:{plain}"


@router.get("/c/{name}/search", include_in_schema=False, dependencies=[costly("search")])
def search_page(
    request: Request, name: str, collection: Reading, pages: Render, asked: Annotated[SearchBody, Query()]
) -> HTMLResponse:
    """Results, filters and ranking. Without a question: how to write one."""
    answer, wrong, hint = None, "", ""
    if not asked.is_empty:
        try:
            answer = collection.search(asked.q, **asked.request())
            shown = collection.illustrations([one["oid"] for one in answer["results"]])
            answer["results"] = [one | more for one, more in zip(answer["results"], shown, strict=True)]
        except InputError as error:
            wrong, hint = error.message, error.hint
    others: list[tuple[str, int]] = []
    if answer and not answer["results"]:
        totals = {
            other: collection.search(other, **{**asked.request(), "page": 1})["total"] for other in proposals(asked.q)
        }
        others = [(other, total) for other, total in totals.items() if total]
    weights = dict(answer["weights"]) if answer else {**DEFAULT_WEIGHTS, **(asked.weights or {})}
    return pages.render(
        request, "search.html", 400 if wrong else 200, name=name, place="search", asked=asked, answer=answer,
        wrong=wrong, hint=hint, facets=FACETS, rankings=RANKING_NAMES, weights=weights, links=LiveLinks(name),
        topics=answer["topics"] if answer else [], others=others,
        **taught(collection, [one["url"] for one in answer["results"]] if answer else []),
    )  # fmt: skip


@router.get("/api/c/{name}/search", tags=["search"], dependencies=[costly("search")])
def search(collection: Reading, asked: Annotated[SearchBody, Query()]) -> dict[str, Any]:
    """Search the stored pages: total, results, facets. A snippet is a list of pieces of text, each with whether it
    matches."""
    return collection.search(asked.q, **asked.request())
