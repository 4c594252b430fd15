"""A page that lists the REST API, read from its own description."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from opilio.web.access import Render

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
