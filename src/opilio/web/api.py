"""The REST API of a collection: a route below /api/c/{name}/ for each operation that declares one.

A route takes the arguments of its operation: from the query when it reads (GET), from a JSON body when it changes
something (POST). It answers the operation's result; after a change, also a sentence for people under `said`. Routes
that do more than call one operation are written by hand, in the modules of the pages that use them. The page /api lists
all of them, read from the API's own description.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, create_model
from starlette.responses import HTMLResponse

from opilio.crawl.operations import OPERATIONS, READS, Operation
from opilio.crawl.operations.declaration import Meta, Route
from opilio.topics import describe_marks
from opilio.web.access import Reading, Render, Writing, costly

PREFIX = "/api/c/{name}/"
_BOUNDS = ("ge", "gt", "le", "lt", "description")

Arguments = dict[str, Any]

_DECIDED = {
    "kept": "this group is kept",
    "dropped": "only the pages of this group that you judged relevant are kept",
    "by rule": "the rule of 75 % decides about this group",
}
ANSWERS: dict[str, Callable[[Arguments, Any], dict[str, Any]]] = {
    "pause": lambda _, running: {
        "said": "paused: requests under way are finished" if running else "no crawl runs", "running": running,
    },
    "resume": lambda _, running: {"said": "the crawl goes on" if running else "no crawl runs", "running": running},
    "stop": lambda _, running: {"said": "stopping" if running else "no crawl runs"},
    "mark": lambda given, changed: {"said": describe_marks(changed) or "nothing changed", "changed": changed},
    "drop_example": lambda given, _: {"said": f"removed from {given['topic']}"},
    "trim_example": lambda given, _: {
        "said": f"{len(given['text'].split())} words of it are an example of {given['topic']} now",
    },
    "confirm_archetype": lambda _, __: {"said": "confirmed"},
    "reject_archetype": lambda _, __: {"said": "rejected: a counter-example from now on"},
    "use_model": lambda given, version: {
        "said": f"model {given['version']} is in use again, as model {version}", "version": version,
    },
    "judge": lambda given, _: {"said": "", "topic": given["topic"]},
    "take_back": lambda given, url: {"said": "judge this one again", "topic": given["topic"], "url": url},
    "learn_review": lambda _, counts: {
        "said": f"{counts['yes']} examples and {counts['no']} counter-examples to learn from", **counts,
    },
    "decide_group": lambda given, _: {"said": _DECIDED[given["decision"]]},
    "restart_review": lambda _, count: {"said": f"{count} verdicts deleted"},
}  # fmt: skip
"""What a change answers, by operation; without an entry, its result."""


def operation_routes() -> APIRouter:
    """The routes of all operations that declare one."""
    router = APIRouter()
    for operation in OPERATIONS.values():
        if operation.rest is not None:
            _add(router, operation, operation.rest)
    return router


def _add(router: APIRouter, operation: Operation[..., Any], route: Route) -> None:
    endpoint = _reading(operation) if operation.access is READS else _changing(operation)
    endpoint.__name__, endpoint.__doc__ = operation.name, operation.doc
    router.add_api_route(
        PREFIX + route.path, endpoint, methods=[route.method], tags=[route.tag], description=operation.doc,
        dependencies=[costly(route.costly)] if route.costly else [],
    )  # fmt: skip


def _reading(operation: Operation[..., Any]) -> Callable[..., Any]:
    """An endpoint that takes the arguments from the query."""

    def endpoint(collection: Any, **arguments: Any) -> Any:
        return getattr(collection, operation.name)(**arguments)

    query = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=parameter.default,
            annotation=Annotated[_kind(operation, name), Query(**_described(operation.about.get(name)))],
        )
        for name, parameter in operation.parameters.items()
    ]
    return _with_signature(endpoint, Reading, query)


def _changing(operation: Operation[..., Any]) -> Callable[..., Any]:
    """An endpoint that takes the arguments from a JSON body."""

    def endpoint(collection: Any, body: BaseModel | None = None) -> Any:
        arguments = {name: getattr(body, name) for name in operation.parameters}
        result = getattr(collection, operation.name)(**arguments)
        return ANSWERS[operation.name](arguments, result) if operation.name in ANSWERS else result

    if not operation.parameters:
        return _with_signature(endpoint, Writing, [])
    body = inspect.Parameter("body", inspect.Parameter.KEYWORD_ONLY, annotation=body_model(operation))
    return _with_signature(endpoint, Writing, [body])


def body_model(operation: Operation[..., Any]) -> type[BaseModel]:
    """The JSON body of a request that calls an operation, derived from its signature."""
    required = inspect.Parameter.empty
    fields: dict[str, Any] = {
        name: (
            _kind(operation, name),
            Field(... if parameter.default is required else parameter.default, **_described(operation.about.get(name))),
        )
        for name, parameter in operation.parameters.items()
    }
    name = "".join(word.capitalize() for word in operation.name.split("_"))
    made: type[BaseModel] = create_model(f"{name}Body", __doc__=operation.doc.partition("\n")[0], **fields)
    return made


def _kind(operation: Operation[..., Any], name: str) -> Any:
    """The type of an argument; where only a few values make sense, these."""
    meta = operation.about.get(name)
    choices = (meta.extra_json_schema or {}).get("enum") if meta is not None else None
    return Literal[tuple(choices)] if choices else operation.types[name]


def _described(meta: Meta | None) -> dict[str, Any]:
    """What is known of an argument, as pydantic takes it."""
    return {} if meta is None else {name: getattr(meta, name) for name in _BOUNDS if getattr(meta, name) is not None}


def _with_signature(
    endpoint: Callable[..., Any], collection: Any, others: list[inspect.Parameter]
) -> Callable[..., Any]:
    """The endpoint as FastAPI should see it: with a collection to read or to change, and these parameters."""
    first = inspect.Parameter("collection", inspect.Parameter.KEYWORD_ONLY, annotation=collection)
    endpoint.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]
    return endpoint


router = APIRouter()


@router.get("/api", include_in_schema=False)
def api_page(request: Request, pages: Render) -> HTMLResponse:
    """The list of all requests."""
    return pages.render(request, "api.html", groups=_groups(request.app.openapi()))


def _groups(described: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Requests by tag, in the order in which they were declared."""
    groups: dict[str, list[dict[str, Any]]] = {}
    bodies = described.get("components", {}).get("schemas", {})
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            fields = [parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "query"]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            fields += bodies.get(body.get("$ref", "").rpartition("/")[2], {}).get("properties", {})
            says = operation.get("description", operation.get("summary", ""))
            row = {"method": method.upper(), "path": path, "says": says, "fields": fields}
            groups.setdefault((operation.get("tags") or ["other"])[0], []).append(row)
    return groups
