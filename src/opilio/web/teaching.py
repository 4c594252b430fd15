"""Feedback, training, archetypes and models."""

from __future__ import annotations

import datetime
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import HTMLResponse

from opilio.crawl import Collection
from opilio.crawl.control import is_running
from opilio.errors import OpilioError
from opilio.model import Phase
from opilio.web.access import Reading, Render, Writing

router = APIRouter()


class Feedback(BaseModel):
    """What a reader says of a page; without a topic, of the one that took it."""

    url: str
    verdict: Literal["relevant", "irrelevant", "belongs"]
    topic: str = ""


class NewExample(BaseModel):
    """A document to learn from: a URL, or `text:` and a text."""

    topic: str
    example: str
    positive: bool = True


class Named(BaseModel):
    """A document of a topic, by its name."""

    topic: str
    name: str


class ArchetypeBody(BaseModel):
    """A stored page and a topic."""

    topic: str
    url: str


class Part(ArchetypeBody):
    """The part of a page to learn from."""

    text: str


class Training(BaseModel):
    """Whether stored pages are judged anew by the model that is trained."""

    judge_anew: bool = True


class Version(BaseModel):
    """A model by its version."""

    version: int


class Undo(Version):
    """The model to go back to, and whether what was taught since is taken back too."""

    forget: bool = False


# -- pages


@router.get("/c/{name}/teach", include_in_schema=False)
def teach_page(
    request: Request, name: str, collection: Reading, pages: Render, topic: str = "", url: str = ""
) -> HTMLResponse:
    """What is taught, and a page to learn from a part of."""
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
        waits=_waits(collection), models=collection.models()[:1],
    )  # fmt: skip


@router.get("/c/{name}/archetypes", include_in_schema=False)
def archetypes_page(request: Request, name: str, collection: Reading, pages: Render, topic: str = "") -> HTMLResponse:
    """What the crawl learns from by itself, and what it may."""
    found, trouble = [], ""
    try:
        found = collection.archetypes(topic or None)
    except OpilioError as error:
        trouble = f"{error.message}. {error.hint}"
    return pages.render(
        request, "archetypes.html", name=name, place="teach", archetypes=found, topic=topic, trouble=trouble,
        topics=collection.topics(), waits=_waits(collection),
    )  # fmt: skip


@router.get("/c/{name}/models", include_in_schema=False)
def models_page(request: Request, name: str, collection: Reading, pages: Render) -> HTMLResponse:
    """All models."""
    found = [{**one, "created": _moment(one["created_s"])} for one in collection.models()]
    return pages.render(request, "models.html", name=name, place="teach", models=found)


@router.get("/c/{name}/compare", include_in_schema=False)
def compare_page(
    request: Request, name: str, collection: Reading, pages: Render, first: int, second: int
) -> HTMLResponse:
    """What another model changed; keep it, or go back."""
    newest = max((model["version"] for model in collection.models()), default=0)
    return pages.render(
        request, "compare.html", name=name, place="teach", compared=collection.compare_topics(first, second),
        is_newest=newest == second, running=is_running(collection.folder),
    )  # fmt: skip


def _moment(at_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC)


def _waits(collection: Collection) -> bool:
    """Whether the crawl waits between its phases for the user."""
    return collection.status().phase == Phase.PAUSED


# -- the API


@router.post("/api/c/{name}/feedback", tags=["teaching"])
def feedback(collection: Writing, body: Feedback) -> dict[str, Any]:
    """Say of a page that it is relevant, that it is not, or that it belongs to another topic."""
    return collection.feedback(body.url, body.verdict, body.topic or None)


@router.get("/api/c/{name}/pending", tags=["teaching"])
def pending(collection: Reading) -> dict[str, Any]:
    """What was taught since the model that judges was trained."""
    return collection.pending()


@router.get("/api/c/{name}/examples", tags=["teaching"])
def examples(collection: Reading, topic: str = "") -> list[dict[str, Any]]:
    """What is learned from, in all topics or in one."""
    return [one for one in collection.examples() if topic in ("", one["topic"])]


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


@router.post("/api/c/{name}/examples/drop", tags=["teaching"])
def drop_example(collection: Writing, body: Named) -> dict[str, Any]:
    """Forget a document of a topic."""
    collection.drop_example(body.topic, body.name)
    return {"said": f"dropped from {body.topic}"}


@router.post("/api/c/{name}/trim", tags=["teaching"])
def trim(collection: Writing, body: Part) -> dict[str, Any]:
    """Learn from a part of a stored page in place of the whole."""
    collection.trim_example(body.topic, body.url, body.text)
    return {"said": f"{len(body.text.split())} words of it are learned from as {body.topic}"}


@router.get("/api/c/{name}/archetypes", tags=["teaching"])
def archetypes(collection: Reading, topic: str = "") -> list[dict[str, Any]]:
    """What the crawl learns from by itself, and what it may."""
    return collection.archetypes(topic or None)


@router.post("/api/c/{name}/archetypes/confirm", tags=["teaching"])
def confirm(collection: Writing, body: ArchetypeBody) -> dict[str, Any]:
    """Vouch for an archetype or another page: it is the user's own example from now on."""
    collection.confirm_archetype(body.topic, body.url)
    return {"said": "confirmed"}


@router.post("/api/c/{name}/archetypes/reject", tags=["teaching"])
def reject(collection: Writing, body: ArchetypeBody) -> dict[str, Any]:
    """Make an archetype or a candidate a counter-example of its topic."""
    collection.reject_archetype(body.topic, body.url)
    return {"said": "rejected: a counter-example from now on"}


@router.post("/api/c/{name}/train", tags=["teaching"])
def train(collection: Writing, body: Training) -> dict[str, Any]:
    """Train a model from what is taught now, and judge the stored pages by it. This may take a minute."""
    before = max((model["version"] for model in collection.models()), default=0)
    version = collection.train(judge_anew=body.judge_anew)
    return {"said": f"model {version} judges now", "first": before or version, "second": version}


@router.get("/api/c/{name}/models", tags=["teaching"])
def models(collection: Reading) -> list[dict[str, Any]]:
    """All models, newest first."""
    return collection.models()


@router.get("/api/c/{name}/compare", tags=["teaching"])
def compare(collection: Reading, first: int, second: int) -> dict[str, Any]:
    """What two models say of the pages that both have judged, topic by topic."""
    return collection.compare_topics(first, second)


@router.post("/api/c/{name}/models/use", tags=["teaching"])
def use_model(collection: Writing, body: Version) -> dict[str, Any]:
    """Judge by an older model again; stored pages are judged anew."""
    version = collection.use_model(body.version)
    return {"said": f"model {body.version} judges again, as model {version}", "version": version}


@router.post("/api/c/{name}/undo", tags=["teaching"])
def undo(collection: Writing, body: Undo) -> dict[str, Any]:
    """Go back to an older model; with `forget`, also to what was taught then."""
    forgotten = collection.forget_lessons(body.version) if body.forget else 0
    if body.forget and is_running(collection.folder):  # the crawl has begun to learn from what is taught now
        version = collection.train()
    else:
        version = collection.use_model(body.version)
    taken_back = f", and {forgotten} changes are taken back" if body.forget else ""
    return {"said": f"back to model {body.version}{taken_back}", "version": version, "forgotten": forgotten}
