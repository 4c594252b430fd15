"""The assisted review."""

from __future__ import annotations

import csv
import io
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import HTMLResponse, Response

from opilio.web.access import Reading, Render, Writing

router = APIRouter()


class Verdict(BaseModel):
    """What the reviewer says of a page."""

    topic: str
    url: str
    verdict: Literal["yes", "no", "unsure", "skip"]


class Topic(BaseModel):
    """A topic that is reviewed."""

    topic: str


@router.get("/c/{name}/review", include_in_schema=False)
def review_page(
    request: Request, name: str, collection: Reading, pages: Render, topic: str = "", url: str = ""
) -> HTMLResponse:
    """One page after the other to be judged, and what is known by then."""
    state = collection.review(topic, url or None) if topic else None
    return pages.render(
        request, "review.html", name=name, place="review", topics=collection.topics(), topic=topic, state=state
    )


@router.get("/api/c/{name}/review", tags=["review"])
def review(collection: Reading, topic: str, url: str = "") -> dict[str, Any]:
    """How the review of a topic stands: groups, estimates, and the page to judge next."""
    return collection.review(topic, url or None)


@router.post("/api/c/{name}/review", tags=["review"])
def judge(collection: Writing, body: Verdict) -> dict[str, Any]:
    """Judge a page: yes, no, unsure or skip."""
    collection.judge(body.topic, body.url, body.verdict)
    return {"said": "", "topic": body.topic}


@router.post("/api/c/{name}/review/back", tags=["review"])
def take_back(collection: Writing, body: Topic) -> dict[str, Any]:
    """Forget the latest verdict; answers the page it was about."""
    return {"said": "judge this one again", "topic": body.topic, "url": collection.take_back(body.topic)}


@router.post("/api/c/{name}/review/learn", tags=["review"])
def learn(collection: Writing, body: Topic) -> dict[str, Any]:
    """Make examples and counter-examples of what was judged."""
    counts = collection.learn_review(body.topic)
    return {"said": f"{counts['yes']} examples and {counts['no']} counter-examples to learn from", **counts}


@router.post("/api/c/{name}/review/anew", tags=["review"])
def begin_anew(collection: Writing, body: Topic) -> dict[str, Any]:
    """Forget all verdicts of a topic."""
    return {"said": f"{collection.review_anew(body.topic)} verdicts forgotten"}


@router.get("/api/c/{name}/review/verdicts", tags=["review"])
def verdicts(collection: Reading, topic: str) -> list[dict[str, Any]]:
    """All that was judged in the review of a topic."""
    return collection.verdicts(topic)


@router.get("/c/{name}/review/verdicts.csv", include_in_schema=False)
def verdicts_table(collection: Reading, topic: str) -> Response:
    """The same as a table."""
    text = io.StringIO()
    columns = ["url", "title", "verdict", "stratum", "judged"]
    table = csv.DictWriter(text, columns, extrasaction="ignore")
    table.writeheader()
    table.writerows({key: _inert(value) for key, value in row.items()} for row in collection.verdicts(topic))
    headers = {"Content-Disposition": 'attachment; filename="review.csv"'}
    return Response(text.getvalue(), media_type="text/csv", headers=headers)


def _inert(value: Any) -> str:
    """A field that no spreadsheet takes for a formula."""
    text = str(value)
    return f"'{text}" if text[:1] in "=+-@\t\r" and text else text
