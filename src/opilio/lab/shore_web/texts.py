"""The articles of the shore web, as they are written in the files of the folder `texts`.

A file has the articles of one topic. An article begins with a line `=== host/slug language motif tags`, then comes its
title, then its paragraphs. `[words](slug)` links to another article and `*words*` are emphasised; there is no other
markup.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from opilio.errors import InputError

FOLDER = Path(__file__).parent / "texts"
# File name -> topic; what is in `other` is about none of them.
TOPICS = {
    "spiders": "Spiders and harvestmen",
    "moths": "Moths",
    "lighthouses": "Lighthouses",
    "tides": "Tides and shores",
    "lichens": "Lichens and mosses",
    "stars": "The night sky",
    "other": "",
}
_LINK = re.compile(r"\[([^\]]+)\]\(([a-z0-9-]+)\)")


@dataclass(frozen=True)
class Article:
    """One text with where it is published and what its picture shows."""

    slug: str
    host: str
    language: str
    motif: str
    tags: tuple[str, ...]
    title: str
    paragraphs: tuple[str, ...]
    topic: str

    @property
    def plain(self) -> list[str]:
        """The paragraphs without markup."""
        return [_LINK.sub(r"\1", paragraph).replace("*", "") for paragraph in self.paragraphs]

    @property
    def teaser(self) -> str:
        """The first sentences, some thirty words."""
        sentences = re.split(r"(?<=[.!?]) ", self.plain[0])
        chosen = sentences[:1]
        for sentence in sentences[1:]:
            if len(" ".join(chosen).split()) >= 22:
                break
            chosen.append(sentence)
        return " ".join(chosen)

    @property
    def links(self) -> list[str]:
        """The slugs of the articles that this one links to."""
        return [slug for paragraph in self.paragraphs for _, slug in _LINK.findall(paragraph)]


def read_articles() -> list[Article]:
    """All articles, in the order of the files."""
    articles = []
    for name, topic in TOPICS.items():
        file = FOLDER / f"{name}.txt"
        for block in file.read_text("utf-8").split("\n=== "):
            head, title, *paragraphs = (line for line in block.removeprefix("=== ").splitlines() if line)
            try:
                place, language, motif, *tags = head.split()
            except ValueError as error:
                raise InputError(
                    f"{file}: an article begins with {head!r}", "Write: === host/slug language motif tags"
                ) from error
            host, _, slug = place.partition("/")
            articles.append(Article(slug, host, language, motif, tuple(tags), title, tuple(paragraphs), topic))
    return articles
