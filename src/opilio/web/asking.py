"""The page with the crawl's questions: cards with yes, no and skip, and the answers so far.

With JavaScript the buttons call the REST API, and keys press them. Without it they are plain forms: a form names the
page and the answer in its body, is sent to the address of the page itself, and leads back to it.
"""

from __future__ import annotations

from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from opilio.crawl import Collection
from opilio.crawl.operations.client import is_running
from opilio.errors import InputError
from opilio.learn.asking import asks
from opilio.web.access import Reading, Render, Writing, form_fields

SHOWN_ANSWERS = 50
UNDO = "undo"

router = APIRouter()


@router.get("/c/{name}/questions", include_in_schema=False)
def questions_page(request: Request, name: str, collection: Reading, pages: Render) -> HTMLResponse:
    """The open questions, and the answers so far."""
    answers, pending = collection.answers(), collection.pending()
    return pages.render(
        request, "questions.html", name=name, place="teach", questions=collection.questions(),
        answers=answers[:SHOWN_ANSWERS], answered=sum(one["answer"] != "skip" for one in answers),
        wanted=collection.settings.learn.questions, asks=asks(collection.settings),
        running=is_running(collection.folder), pending=pending["count"], missing=pending["missing"],
        stored=pending["stored"],
    )  # fmt: skip


@router.post("/c/{name}/questions", include_in_schema=False)
async def answer_form(request: Request, name: str, collection: Writing) -> Response:
    """Answer a question, or undo an answer, by a form of a browser without JavaScript."""
    given = form_fields(await request.body())
    await anyio.to_thread.run_sync(_apply, collection, given)
    return RedirectResponse(f"/c/{quote(name, safe='')}/questions", 303)


def _apply(collection: Collection, given: dict[str, str]) -> None:
    try:
        oid = int(given.get("oid", ""))
    except ValueError:
        raise InputError("the form names no page", "Reload the page, then try again.") from None
    if given.get("answer") == UNDO:
        collection.undo_answer(oid)
    else:
        collection.answer(oid, given.get("answer", ""))
