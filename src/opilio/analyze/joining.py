"""Several contents made into one: the chapters of a book, the members of an archive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opilio.analyze.content import Content, Source
from opilio.analyze.draft import INSIDE
from opilio.analyze.layout import MAX_TEXT_CHARS
from opilio.model import Link, Region


def join(
    parts: Iterable[tuple[str, Content]],
    source: Source,
    *,
    title: str = "",
    language: str = "",
    description: str = "",
    name: str = "",
) -> Content | None:
    """One content with the text and links of all parts, each under its heading; None when there are none.

    Without a title, that of the first part that has one is taken, else `name`. Parts are asked for one by one, and no
    more once there is as much text as a document may have.
    """
    read: list[Content] = []
    texts: list[str] = []
    main_texts: list[str] = []
    chars = 0
    for heading, part in parts:
        read.append(part)
        texts.append("\n".join(filter(None, (heading, part.text))))
        main_texts.append("\n".join(filter(None, (heading, part.main_text))))
        chars += len(texts[-1])
        if chars >= MAX_TEXT_CHARS:
            break
    if not read:
        return None
    text = "\n".join(filter(None, texts))[:MAX_TEXT_CHARS]
    links = list(_distinct(read))
    return Content(
        text=text,
        main_text="\n".join(filter(None, main_texts))[:MAX_TEXT_CHARS],
        title=title or next(filter(None, (part.title for part in read)), "") or name,
        description=description or next(filter(None, (part.description for part in read)), ""),
        language=language or next(filter(None, (part.language for part in read)), ""),
        links=links[: source.max_links],
        links_dropped=max(0, len(links) - source.max_links) + sum(part.links_dropped for part in read),
    )


def _distinct(parts: Iterable[Content]) -> Iterator[Link]:
    """The links of all parts that lead out of them, renumbered."""
    seen: set[tuple[str, str]] = set()
    for part in parts:
        for link in part.links:
            if (
                (link.url, link.anchor) not in seen
                and not link.url.startswith(INSIDE)
                and link.region is not Region.HEAD
            ):
                seen.add((link.url, link.anchor))
                position = len(seen) - 1
                yield Link(
                    link.url, link.key, link.anchor, link.context, link.region, position, link.kind, link.nofollow
                )
