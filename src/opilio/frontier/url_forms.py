"""The form of a URL: what URLs of one kind have in common, whatever they are about.

A site writes the addresses of its articles in one form and those of its pictures, old pages and forms in others. Links
that lead nowhere often share a form, so that the form tells which queued URLs will answer with a page.
"""

from __future__ import annotations

import re

MAX_DEPTH, MAX_ENDING = 6, 6
_DIGIT = re.compile(r"[0-9]")


def url_form(url: str) -> str:
    """The depth of the path, the ending of its last part, and whether it has a query, a tilde or digits.

    Parts are counted up to `MAX_DEPTH`, and a longer ending than `MAX_ENDING` is none: dots also stand in names.
    """
    path, mark, _ = url[url.find("/", 8) :].partition("?")
    last = path[path.rfind("/") + 1 :]
    ending = last[last.rfind(".") + 1 :].lower() if "." in last else ""
    if len(ending) > MAX_ENDING:
        ending = ""
    kind = ending if last else "/"
    return f"{min(path.count('/'), MAX_DEPTH)}{kind}{mark}{'~' * ('~' in path)}{'#' * bool(_DIGIT.search(path))}"
