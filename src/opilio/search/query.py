"""The language of questions. Every part must fit unless it says OR; what is wrong is said with its place.

    owl nest            both words, in any form: owls, nesting
    "barn owl"          these words in this order, as written
    title:owl           in the title; also text: (as written), anchor: (what links to the page say) and url:
    owl* owl~ owl~2     words that begin so; words that differ by one letter, by two
    owl OR hawk         either; AND binds closer, ( ) group
    -hawk               without
    host: lang: type: topic: since: before: relevance:   filters; those of one kind are alternatives

Filters are about the whole question: they choose the pages that are looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from opilio.errors import InputError

FIELDS = ("title", "text", "anchor", "url")
FILTERS = ("host", "lang", "type", "topic", "since", "before", "relevance")
MAX_CHARS = 2000
MAX_PARTS = 64
MIN_PREFIX_CHARS = 2
HINT = 'The empty search page shows what a question can be made of; "..." makes anything plain text.'

_TOKEN = re.compile(
    r"""\s*(?:(?P<open>\()|(?P<close>\))|(?P<minus>-(?=[^\s)]))|
    (?:(?P<field>[A-Za-z]+):)?(?:"(?P<phrase>[^"]*)"|(?P<broken>")|(?P<word>[^\s()"]+)))""",
    re.VERBOSE,
)
_BARE = re.compile(r"[A-Za-z]+:")
_VAGUE = re.compile(r"(?P<stem>[^*~]+)(?:(?P<star>\*)|~(?P<distance>[12]?))$")


@dataclass(frozen=True)
class Word:
    """Something to find in the words of pages."""

    text: str
    field: str = ""
    """'' means wherever it counts."""
    is_phrase: bool = False
    is_prefix: bool = False
    distance: int = 0
    """How many letters may differ."""


@dataclass(frozen=True)
class AllOf:
    """Every part."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one part."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Without:
    """Not this."""

    part: Node


Node: TypeAlias = Word | AllOf | AnyOf | Without


@dataclass(frozen=True)
class Filter:
    """Which pages are looked at."""

    name: str
    value: str
    is_not: bool = False


@dataclass(frozen=True)
class Question:
    """A question, read."""

    tree: Node | None
    filters: tuple[Filter, ...]

    def words(self) -> list[Word]:
        """What the pages found should have, in order."""
        return list(_wanted(self.tree)) if self.tree is not None else []


def _wanted(node: Node) -> list[Word]:
    if isinstance(node, Word):
        return [node]
    if isinstance(node, Without):
        return []
    return [word for part in node.parts for word in _wanted(part)]


def parse(text: str) -> Question:
    """Read a question."""
    if len(text) > MAX_CHARS:
        raise InputError(f"the question has {len(text):,} characters: {MAX_CHARS:,} is the most", "Ask for less.")
    return _Parser(text).parse()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    field: str
    at: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._cut())
        self._next = 0
        self._filters: list[Filter] = []
        self._depth = 0

    def _cut(self) -> list[_Token]:
        tokens, at = [], 0
        while self._text[at:].strip():
            found = _TOKEN.match(self._text, at)
            if found is None:
                self._fail(at, f"{self._text[at]!r} is not understood")
            kind = found.lastgroup or ""
            start = found.start() + len(found.group()) - len(found.group().lstrip())
            if kind == "broken":
                self._fail(found.start(kind), 'a quotation mark " that is not closed')
            text = found.group(kind)
            if kind == "word" and found["field"] is None and text in ("AND", "OR", "NOT"):
                kind = text
            tokens.append(_Token(kind, text, (found["field"] or "").lower(), start))
            at = found.end()
        if len(tokens) > MAX_PARTS:
            self._fail(tokens[MAX_PARTS].at, f"more than {MAX_PARTS} words and signs")
        return tokens

    def _fail(self, at: int, what: str) -> NoReturn:
        raise InputError(f"question, character {at + 1}: {what}", HINT)

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def parse(self) -> Question:
        tree = self._either()
        left = self._peek()
        if left is not None:
            self._fail(left.at, "a ) that closes nothing")
        return Question(tree, tuple(self._filters))

    def _either(self) -> Node | None:
        parts: list[Node] = []
        while True:
            part = self._all()
            token = self._peek()
            is_more = token is not None and token.kind == "OR"
            if part is None and (is_more or parts):
                self._fail(token.at if token is not None else len(self._text), "OR needs words on both sides")
            if part is not None:
                parts.append(part)
            if not is_more:
                break
            self._next += 1
        return None if not parts else parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all(self) -> Node | None:
        parts: list[Node] = []
        while (token := self._peek()) is not None and token.kind not in ("OR", "close"):
            if token.kind == "AND":
                self._next += 1
                continue
            part = self._one(is_not=False)
            if part is not None:
                parts.append(part)
        return None if not parts else parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _one(self, *, is_not: bool) -> Node | None:
        token = self._peek()
        if token is None or token.kind in ("OR", "AND", "close"):
            self._fail(token.at if token else len(self._text), "something to leave out is missing here")
        self._next += 1
        if token.kind in ("minus", "NOT"):
            part = self._one(is_not=not is_not)
            return None if part is None else Without(part)
        if token.kind == "open":
            return self._group(token)
        if not token.field and _BARE.fullmatch(token.text):
            self._fail(token.at, f"nothing stands after {token.text}")
        if token.field in FILTERS:
            if self._depth:
                self._fail(token.at, "a filter is about the whole question: it does not stand within ( )")
            self._filters.append(Filter(token.field, token.text, is_not))
            return None
        if token.field and token.field not in FIELDS:
            self._fail(token.at, f"no field or filter {token.field!r}: there are {', '.join((*FIELDS, *FILTERS))}")
        return self._word(token)

    def _group(self, opened: _Token) -> Node:
        self._depth += 1
        inner = self._either()
        self._depth -= 1
        closed = self._peek()
        if closed is None:
            self._fail(opened.at, "a ( that is not closed")
        self._next += 1
        if inner is None:
            self._fail(opened.at, "nothing stands between ( and )")
        return inner

    def _word(self, token: _Token) -> Word:
        if not any(map(str.isalnum, token.text)):
            self._fail(token.at, f"{token.text!r} has no letter or digit")
        if token.kind == "phrase":
            return Word(token.text, token.field, is_phrase=True)
        vague = _VAGUE.match(token.text)
        if vague is None:
            return Word(token.text, token.field)
        stem = vague["stem"]
        if sum(map(str.isalnum, stem)) < MIN_PREFIX_CHARS:
            self._fail(
                token.at, f"{token.text!r} would fit almost every word: give at least {MIN_PREFIX_CHARS} letters"
            )
        if vague["star"]:
            return Word(stem, token.field, is_prefix=True)
        return Word(stem, token.field, distance=int(vague["distance"] or 1))
