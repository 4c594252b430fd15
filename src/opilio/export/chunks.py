"""Documents cut into chunks for retrieval: whole blocks of Markdown as far as they fit, with the path of headings.

A chunk has at most so many words; it begins with the last words of the one before it. A block is cut only if it is
longer than a chunk. Of text without spaces, two characters are a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from opilio.errors import InputError

HEADING_SEPARATOR = " > "
OVERLAP_SHARE = 8
"""Without another choice, this part of a chunk, one in eight words, is that of the chunk before it."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"(?:[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+)\s*")
_HEADING = re.compile(r"(#{1,6}) (.*)")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_LINK = re.compile(r"\[((?:[^\]\\]|\\.)*)\]\([^)]*\)")
_MARKS = re.compile(r"\\(.)|[*`]")


class Chunk(NamedTuple):
    """A part of a document."""

    text: str
    headings: str
    """The headings above its first own words, from the outermost."""


class _Block(NamedTuple):
    words: list[str]
    """With the spaces behind each."""
    headings: str


def check_sizes(chunk_words: int, overlap_words: int) -> None:
    """Refuse sizes that make no sense."""
    if chunk_words < 0 or (chunk_words and not 0 <= overlap_words < chunk_words):
        raise InputError(
            f"chunks of {chunk_words} words that overlap by {overlap_words}", "The overlap must be the smaller one."
        )


def chunks_of(markdown: str, chunk_words: int, overlap_words: int) -> Iterator[Chunk]:
    """Cut a document. All its words are in the chunks, in order."""
    held: list[str] = []
    own, headings = 0, ""
    for block in _blocks(markdown):
        words = block.words
        if own and len(held) + len(words) > chunk_words:
            yield Chunk("".join(held).rstrip(), headings)
            held, own = _tail(held, overlap_words), 0
        while words:
            if not own:
                headings = block.headings
            taken = words[: min(chunk_words - len(held), len(words))]
            held, own, words = held + taken, own + len(taken), words[len(taken) :]
            if words:
                yield Chunk("".join(held).rstrip(), headings)
                held, own = _tail(held, overlap_words), 0
    if own:
        yield Chunk("".join(held).rstrip(), headings)


def _tail(words: list[str], count: int) -> list[str]:
    return words[-count:] if count else []


def _blocks(markdown: str) -> Iterator[_Block]:
    """The blocks between blank lines, a code block as one; a heading belongs to the block below it."""
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    pending: list[str] = []
    fence = ""

    def block() -> _Block:
        text = "\n".join([*pending, *lines]) + "\n\n"
        return _Block(_WORD.findall(text), HEADING_SEPARATOR.join(title for _, title in path))

    for line in markdown.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            lines.append(line)
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                fence = ""
            continue
        if mark:
            fence = mark[1]
        heading = _HEADING.fullmatch(line) if not lines else None
        if heading:
            level = len(heading[1])
            path[:] = [(depth, title) for depth, title in path if depth < level]
            path.append((level, _plain(heading[2])))
            pending += [line, ""]
        elif line.strip():
            lines.append(line)
        elif lines:
            yield block()
            lines, pending = [], []
    if lines or pending:
        yield block()


def _plain(heading: str) -> str:
    """A heading without marks of Markdown."""
    return _MARKS.sub(lambda found: found[1] or "", _LINK.sub(r"\1", heading)).strip()
