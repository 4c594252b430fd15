"""Clusters of a topic."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse

from opilio.errors import OpilioError
from opilio.web.access import Reading, Render, Writing

router = APIRouter()


class CentralPage(BaseModel):
    """A page that stands for a cluster."""

    url: str


class Cluster(BaseModel):
    """What becomes a subtopic."""

    name: str
    central: list[CentralPage]
    examples: list[str] = Field(default_factory=list)


class Split(BaseModel):
    """A topic, and the clusters that become its subtopics."""

    topic: str
    clusters: list[Cluster]


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
