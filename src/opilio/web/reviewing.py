"""The pages for clusters of a topic and for the assisted review."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, Response

from opilio.errors import OpilioError
from opilio.web.access import Reading, Render, Writing, costly
from opilio.web.teaching import taught

router = APIRouter()


class CentralPage(BaseModel):
    """A central page of a cluster."""

    url: str


class ClusterBody(BaseModel):
    """A cluster that becomes a subtopic."""

    name: str
    central: list[CentralPage]
    examples: list[str] = Field(default_factory=list)


class Split(BaseModel):
    """A topic, and the clusters that become its subtopics."""

    topic: str
    clusters: list[ClusterBody]


@router.get("/c/{name}/clusters", include_in_schema=False, dependencies=[costly("analysis")])
def clusters_page(
    request: Request, name: str, collection: Reading, pages: Render, topic: str = "", k: int = 0, search: str = ""
) -> HTMLResponse:
    """The clusters of a topic, or of a search result, as cards."""
    found, trouble = None, ""
    if topic or search:
        try:
            found = collection.clusters(topic, k, search=search)
        except OpilioError as error:
            trouble = f"{error.message}. {error.hint}"
    central = [page["url"] for one in (found["clusters"] if found else []) for page in one["central"]]
    said = taught(collection, central)
    clusters = [{**one, "said": _said(one, said["given"])} for one in (found["clusters"] if found else [])]
    return pages.render(
        request, "clusters.html", name=name, place="clusters", topics=collection.topics(), topic=topic, k=k,
        search=search, found=found, clusters=clusters, trouble=trouble, **said,
    )  # fmt: skip


def _said(cluster: Mapping[str, Any], given: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """What was said of a whole cluster: the same of all its central pages at one moment."""
    said = [given.get(page["url"]) for page in cluster["central"]]
    return said[0] if said and said[0] and all(one == said[0] for one in said) else None


@router.post("/api/c/{name}/split", tags=["clusters"])
def split(collection: Writing, body: Split) -> dict[str, Any]:
    """Make subtopics of clusters, with their most central pages as examples."""
    made = collection.split_topic(body.topic, [cluster.model_dump() for cluster in body.clusters])
    return {"said": f"{len(made)} subtopics of {body.topic}: retrain to fill them", "topics": made}


@router.get("/c/{name}/review", include_in_schema=False)
def review_page(
    request: Request, name: str, collection: Reading, pages: Render, topic: str = "", url: str = ""
) -> HTMLResponse:
    """The next page to judge, and the estimates so far."""
    state = collection.review(topic, url or None) if topic else None
    return pages.render(
        request, "review.html", name=name, place="review", topics=collection.topics(), topic=topic, state=state
    )


@router.get("/c/{name}/review/verdicts.csv", include_in_schema=False, dependencies=[costly("analysis")])
def verdicts_table(collection: Reading, topic: str) -> Response:
    """All verdicts of a review as a CSV file."""
    text = io.StringIO()
    columns = ["url", "title", "verdict", "stratum", "judged"]
    table = csv.DictWriter(text, columns, extrasaction="ignore")
    table.writeheader()
    table.writerows({key: _inert(value) for key, value in row.items()} for row in collection.verdicts(topic))
    headers = {"Content-Disposition": 'attachment; filename="review.csv"'}
    return Response(text.getvalue(), media_type="text/csv", headers=headers)


@router.get("/c/{name}/review/kept.csv", include_in_schema=False, dependencies=[costly("analysis")])
def kept_pages(collection: Reading, topic: str) -> Response:
    """The pages that a review keeps as a CSV file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kept.csv"
        collection.export_review(topic, file)
        with file.open(newline="", encoding="utf-8") as rows:
            table = csv.writer(text := io.StringIO())
            table.writerows([_inert(value) for value in row] for row in csv.reader(rows))
    return Response(
        text.getvalue(), media_type="text/csv", headers={"Content-Disposition": 'attachment; filename="kept.csv"'}
    )


def _inert(value: Any) -> str:
    """A field that no spreadsheet mistakes for a formula."""
    text = str(value)
    return f"'{text}" if text[:1] in "=+-@\t\r" and text else text
