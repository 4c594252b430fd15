"""Clusters of a topic.

The assisted review.
"""

from __future__ import annotations

import csv
import io
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, Response

from opilio.errors import OpilioError
from opilio.web.access import Reading, Render, Writing

router = APIRouter()


class CentralPage(BaseModel):
    """A page that stands for a cluster."""

    url: str


class ClusterBody(BaseModel):
    """What becomes a subtopic."""

    name: str
    central: list[CentralPage]
    examples: list[str] = Field(default_factory=list)


class Split(BaseModel):
    """A topic, and the clusters that become its subtopics."""

    topic: str
    clusters: list[ClusterBody]


@router.get("/c/{name}/clusters", include_in_schema=False)
def clusters_page(
    request: Request, name: str, collection: Reading, pages: Render, topic: str = "", k: int = 0
) -> HTMLResponse:
    """The clusters of a topic as cards."""
    found, trouble = None, ""
    if topic:
        try:
            found = collection.clusters(topic, k)
        except OpilioError as error:
            trouble = f"{error.message}. {error.hint}"
    return pages.render(
        request, "clusters.html", name=name, place="clusters", topics=collection.topics(), topic=topic, k=k,
        found=found, trouble=trouble,
    )  # fmt: skip


@router.get("/api/c/{name}/clusters", tags=["clusters"])
def clusters(collection: Reading, topic: str, k: int = 0) -> dict[str, Any]:
    """The clusters of the pages of a topic; `k` 0 chooses how many."""
    return collection.clusters(topic, k)


@router.post("/api/c/{name}/split", tags=["clusters"])
def split(collection: Writing, body: Split) -> dict[str, Any]:
    """Make subtopics of clusters, with their most central pages as examples."""
    made = collection.split_topic(body.topic, [cluster.model_dump() for cluster in body.clusters])
    return {"said": f"{len(made)} subtopics of {body.topic}: retrain to fill them", "topics": made}


class VerdictBody(BaseModel):
    """What the reviewer says of a page."""

    topic: str
    url: str
    verdict: Literal["yes", "no", "unsure", "skip"]


class TopicBody(BaseModel):
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
def judge(collection: Writing, body: VerdictBody) -> dict[str, Any]:
    """Judge a page: yes, no, unsure or skip."""
    collection.judge(body.topic, body.url, body.verdict)
    return {"said": "", "topic": body.topic}


@router.post("/api/c/{name}/review/back", tags=["review"])
def take_back(collection: Writing, body: TopicBody) -> dict[str, Any]:
    """Forget the latest verdict; answers the page it was about."""
    return {"said": "judge this one again", "topic": body.topic, "url": collection.take_back(body.topic)}


@router.post("/api/c/{name}/review/learn", tags=["review"])
def learn(collection: Writing, body: TopicBody) -> dict[str, Any]:
    """Make examples and counter-examples of what was judged."""
    counts = collection.learn_review(body.topic)
    return {"said": f"{counts['yes']} examples and {counts['no']} counter-examples to learn from", **counts}


@router.post("/api/c/{name}/review/anew", tags=["review"])
def begin_anew(collection: Writing, body: TopicBody) -> dict[str, Any]:
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
