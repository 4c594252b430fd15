"""Rendering: the templates, in which everything is escaped, and the values that every page gets."""

from __future__ import annotations

import datetime
import re
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from fastapi import Request
from starlette.responses import HTMLResponse

import opilio
from opilio.analyze.terms import FUNCTION_WORDS
from opilio.model.visit import certainty
from opilio.topics.tree import OFF_TOPIC, OTHERS
from opilio.web.front import letter, tone
from opilio.web.security import Security

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LINK_SCHEMES = ("http://", "https://")


def environment() -> jinja2.Environment:
    """The templates of this package. An unknown name is an error, and everything is escaped."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("opilio.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "number": lambda value: f"{value:,}",
        "percent": lambda value: f"{value:.0%}",
        "rate": lambda value: "-" if value is None else f"{value:.1%}",
        "per_s": lambda value: "-" if value is None else f"{value:.3g}",
        "score": lambda value: "" if value is None else f"{value:.2f}",
        "topic": lambda topic: OFF_TOPIC if topic in ("", OTHERS) else topic,
        "certainty": certainty,
        "telling": lambda words: [word for word in words if word not in FUNCTION_WORDS],
        "sentence": lambda text: text[:1].upper() + text[1:],
        "when": when,
        "outside": outside,
        "xml": lambda text: _NOT_XML.sub(" ", text),
        "tone": tone,
        "letter": letter,
        "query": lambda values: urlencode({k: v for k, v in values.items() if v not in ("", None)}, quote_via=quote),
    }
    made.globals["version"] = opilio.__version__
    return made


def when(value: Any) -> str:
    """A time of the database, to the minute; empty when there is none."""
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    return str(value or "")[:16].replace("T", " ")


def outside(url: str) -> str:
    """A URL that is safe in a link: only http and https."""
    return url if url.startswith(LINK_SCHEMES) else "about:blank"


class Pages:
    """Renders the pages of one server."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._environment = environment()

    def render(
        self, request: Request, template: str, status_code: int = 200, *, media_type: str = "text/html", **values: Any
    ) -> HTMLResponse:
        """A page, or a document of another type. `name`, the collection it is about, decides what the menu shows."""
        given = {
            "name": "",
            "place": "",
            "signed_in": self._security.is_signed_in(request),
            "csrf": self._security.csrf(request),
            "here": f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path,
            **values,
        }
        text = self._environment.get_template(template).render(given)
        return HTMLResponse(text, status_code, media_type=media_type)


def asset(path: str) -> bytes:
    """A file of this package's folder `static`."""
    return resources.files("opilio.web").joinpath("static", path).read_bytes()
