"""Opilio, a focused crawler: from bookmarks, examples or a question to a topical collection of the web.

from opilio import Collection

birds = Collection.create("birds", bookmarks="bookmarks.html", settings={"limits.max_pages": 500})
print(birds.crawl().reason)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opilio.crawl import Collection
    from opilio.errors import OpilioError
    from opilio.parts.merge import merge
    from opilio.parts.shared import shared_pages
    from opilio.parts.split import split

__version__ = "0.1.0"
__all__ = ["Collection", "OpilioError", "__version__", "merge", "shared_pages", "split"]


def __getattr__(name: str) -> Any:
    """Load the public names when they are first used: `import opilio.model` need not load a database."""
    if name == "Collection":
        from opilio.crawl import Collection  # noqa: PLC0415

        return Collection
    if name == "split":
        from opilio.parts.split import split  # noqa: PLC0415

        return split
    if name == "merge":
        from opilio.parts.merge import merge  # noqa: PLC0415

        return merge
    if name == "shared_pages":
        from opilio.parts.shared import shared_pages  # noqa: PLC0415

        return shared_pages
    if name == "OpilioError":
        from opilio.errors import OpilioError  # noqa: PLC0415

        return OpilioError
    raise AttributeError(f"module 'opilio' has no attribute {name!r}")
