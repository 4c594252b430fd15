"""Empty shells: pages that have nothing to read until a script writes it.

The rule is conservative, since a page that it names is not stored unless it is rendered. A page is an empty shell if
all of these hold:

- its visible text has at most `MAX_TEXT_CHARS` characters, and it has at most `MAX_LINKS` links;
- it has a script that could write it: a file, a module, or `MIN_INLINE_CHARS` characters in the page itself;
- it has a place for the text: an element that scripts usually fill (such as `<div id="root">`, or an element of the
  page's own as `<my-app>`) with at most `MAX_PLACEHOLDER_CHARS` characters; or its `<noscript>` speaks of JavaScript.

Few pages have so little text, so only those are parsed a second time.
"""

from __future__ import annotations

from opilio.analyze.markup import read_shell

MAX_TEXT_CHARS = 200
MAX_LINKS = 3
MAX_PLACEHOLDER_CHARS = 50
MIN_INLINE_CHARS = 500


def is_empty_shell(body: bytes, charset: str, text: str, links: int) -> bool:
    """Whether a page with this visible text, and so many links, is an empty shell."""
    if len(text) > MAX_TEXT_CHARS or links > MAX_LINKS or b"<script" not in body.lower():
        return False
    signs = read_shell(body, charset, MAX_PLACEHOLDER_CHARS)
    has_program = signs.files > 0 or signs.inline_chars >= MIN_INLINE_CHARS
    return has_program and (signs.has_mount or signs.asks_for_scripts)
