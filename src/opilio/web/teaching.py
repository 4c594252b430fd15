"""Feedback, training, archetypes and models."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request
from pydantic import AliasChoices, BaseModel, Field
from starlette.responses import HTMLResponse, Response

from opilio.crawl import Collection
from opilio.crawl.operations.client import is_running
from opilio.errors import InputError, OpilioError
from opilio.model import Phase
from opilio.web.access import Reading, Render, Writing, costly, form_fields, way_back

PER_PAGE = 25
"""Archetypes on a page."""

router = APIRouter()


class NewExample(BaseModel):
    """A document to learn from: a URL, or `text:` and a text."""

    topic: str
    example: str
    positive: bool = True


class Training(BaseModel):
    """How to train."""

    rejudge: bool = Field(
        True,
        description="Whether the new model re-judges the stored pages.",
        validation_alias=AliasChoices("rejudge", "judge_anew"),
    )
    take_hits: bool = Field(False, description="Whether to take the best hits of a question as examples, unseen.")


class Undo(BaseModel):
    """The model to go back to."""

    version: int
    forget: bool = Field(False, description="Whether to undo the changes of the training data since then, too.")


# -- pages


@router.get("/c/{name}/teach", include_in_schema=False)
def teach_page(
    request: Request, name: str, collection: Reading, pages: Render, topic: str = "", url: str = ""
) -> HTMLResponse:
    """The training data, and a page of which a part can be chosen."""
    topics, trimmed, trouble = collection.topics(), None, ""
    if url:
        try:
            trimmed = collection.page_text(url)
        except OpilioError as error:
            trouble = f"{error.message}. {error.hint}"
    shown = [one for one in collection.examples() if one["topic"] == topic] if topic else []
    return pages.render(
        request, "teach.html", name=name, place="teach", topics=topics, topic=topic, examples=shown, page=trimmed,
        trouble=trouble, pending=collection.pending(), running=is_running(collection.folder),
        waits=_waits(collection), models=collection.models()[:1], effect=collection.model_effect(),
    )  # fmt: skip


@router.get("/c/{name}/archetypes", include_in_schema=False, dependencies=[costly("analysis")])
def archetypes_page(
    request: Request, name: str, collection: Reading, pages: Render, topic: str = "", page: int = 1
) -> HTMLResponse:
    """The pages that the crawl chose to learn from, and candidates."""
    found, trouble = [], ""
    try:
        found = collection.archetypes(topic or None)
    except OpilioError as error:
        trouble = f"{error.message}. {error.hint}"
    last = max(1, -(-len(found) // PER_PAGE))
    page = min(max(page, 1), last)
    shown = found[(page - 1) * PER_PAGE : page * PER_PAGE]
    return pages.render(
        request, "archetypes.html", name=name, place="teach", archetypes=shown, topic=topic, trouble=trouble,
        page=page, last_page=last,
        topics=collection.topics(), waits=_waits(collection),
    )  # fmt: skip


@router.get("/c/{name}/models", include_in_schema=False)
def models_page(request: Request, name: str, collection: Reading, pages: Render) -> HTMLResponse:
    """All models."""
    found = [{**one, "created": _moment(one["created_s"])} for one in collection.models()]
    return pages.render(request, "models.html", name=name, place="teach", models=found)


@router.get("/c/{name}/compare", include_in_schema=False, dependencies=[costly("analysis")])
def compare_page(
    request: Request, name: str, collection: Reading, pages: Render, first: int, second: int
) -> HTMLResponse:
    """What a new model changed; keep it, or go back."""
    newest = max((model["version"] for model in collection.models()), default=0)
    return pages.render(
        request, "compare.html", name=name, place="teach", compared=collection.compare_topics(first, second),
        is_newest=newest == second, running=is_running(collection.folder),
    )  # fmt: skip


def _moment(at_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC)


def _waits(collection: Collection) -> bool:
    """Whether the crawl waits for the user between its phases."""
    return collection.status().phase == Phase.PAUSED


def taught(collection: Collection, pages: Sequence[str] = ()) -> dict[str, Any]:
    """What pages with feedback show: what was said of the `pages` (URLs), changes that no model has learned, and what
    the latest feedback changed elsewhere."""
    pending = collection.pending()
    return {
        "given": collection.feedback_given(list(pages)) if pages else {},
        "pending": pending["count"],
        "missing": pending["missing"],
        "stored": pending["stored"],
        "effect": collection.model_effect(),
        "running": is_running(collection.folder),
    }


# -- forms of a browser without JavaScript


@router.post("/c/{name}/feedback", include_in_schema=False)
async def feedback_form(request: Request, name: str, collection: Writing) -> Response:
    """Give feedback on a page or on a cluster, or undo it."""
    given = form_fields(await request.body())
    await anyio.to_thread.run_sync(_give, collection, given)
    return way_back(name, given, "")


def _give(collection: Collection, given: Mapping[str, str]) -> None:
    url, topic, verdict = given.get("url", ""), given.get("topic") or None, given.get("verdict", "")
    try:
        if "moment_us" in given:
            collection.undo_feedback(int(given["moment_us"]), url)
        elif "oids" in given:
            collection.feedback_on_pages([int(oid) for oid in json.loads(given["oids"])], verdict, topic)
        else:
            collection.feedback(url, verdict, topic)
    except ValueError:
        raise InputError("the form names no page", "Reload the page, then try again.") from None


@router.post("/c/{name}/train", include_in_schema=False)
async def train_form(request: Request, name: str, collection: Writing) -> Response:
    """Train a model now."""
    given = form_fields(await request.body())
    await anyio.to_thread.run_sync(partial(collection.train, take_hits="take_hits" in given))
    return way_back(name, given, "teach")


# -- the API, where it does more than call one operation


@router.post("/api/c/{name}/examples", tags=["teaching"])
def add_example(collection: Writing, body: NewExample) -> dict[str, Any]:
    """Add a document to learn from: a URL of the web, or `text:` and a text. Files of this machine are not read."""
    example = body.example.strip()
    if not example.startswith(("http://", "https://", "text:")):
        example = f"http://{example}"
    added = collection.add_example(body.topic, example, positive=body.positive)
    return {
        "said": f"{'an example' if body.positive else 'a counter-example'} of {body.topic} from now on",
        "name": added,
    }


@router.post("/api/c/{name}/train", tags=["teaching"])
def train(collection: Writing, body: Training) -> dict[str, Any]:
    """Train a model from the training data as it is now, and re-judge the stored pages. This may take a minute."""
    before = max((model["version"] for model in collection.models()), default=0)
    version = collection.train(rejudge=body.rejudge, take_hits=body.take_hits)
    effect = None if is_running(collection.folder) else collection.model_effect(version)
    changed = f": {effect['said']}" if effect else ""
    return {"said": f"model {version} is in use now{changed}", "first": before or version, "second": version}


@router.post("/api/c/{name}/undo", tags=["teaching"])
def undo(collection: Writing, body: Undo) -> dict[str, Any]:
    """Go back to an older model; with `forget`, also to the training data of that time."""
    forgotten = collection.forget_changes(body.version) if body.forget else 0
    if body.forget and is_running(collection.folder):  # the crawl has begun to learn from the changed data
        version = collection.train()
    else:
        version = collection.use_model(body.version)
    taken_back = f", and {forgotten} changes are undone" if body.forget else ""
    return {"said": f"back to model {body.version}{taken_back}", "version": version, "forgotten": forgotten}
