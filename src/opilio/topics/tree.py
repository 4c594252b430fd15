"""The topic tree as it is read from inputs: topics with their seeds and examples."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from opilio.errors import InputError
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node, marks_of

SEPARATOR = " / "
OTHERS = "OTHERS"
"""The name for pages that no topic accepts. No topic may have it."""
OFF_TOPIC = "off topic"
"""What people read in its place."""
ROOT_NAME = "everything"
MAX_TOPICS = 32_000
"""Topic numbers are stored in 16 bits."""
MAX_DEPTH = 30
"""Deeper trees are mistakes or attacks."""

_MAX_NAME_CHARS = 200
_MAX_TITLE_CHARS = 500
_WORD = re.compile(r"[^\W\d_]{2,}")
_SLASH = re.compile(r" ?/ ?")


class ExampleKind(StrEnum):
    """Where the text of an example is."""

    URL = "url"
    FILE = "file"
    TEXT = "text"


@dataclass(frozen=True)
class TrainingInput:
    """A document that the user gave to learn from, not yet read."""

    kcid: int
    kind: ExampleKind
    value: str
    """A URL in normal form, the absolute path of a file in any readable format, or the text itself."""
    positive: bool = True
    """False: it is a negative example, which belongs to the OTHERS that competes with this topic."""
    title: str = ""


class SeedFind(NamedTuple):
    """Who found a seed, with which question, and how far up in the answer."""

    provider: str
    """A seed provider as the user wrote it: name=address."""
    query: str
    rank: int
    """1 is the best."""


@dataclass(frozen=True)
class Seed:
    """A URL that the crawl starts from, for one topic."""

    url: str
    kcid: int
    title: str = ""
    found: tuple[SeedFind, ...] = ()
    """Empty for a seed that the user gave."""


@dataclass
class Topic:
    """A node of the tree."""

    kcid: int
    parent: int
    name: str
    path: str
    """Names from below the root, joined by ' / '; '' for the root."""
    keywords: list[str] = field(default_factory=list)
    """The words of its name and of the titles of its pages, unless the user gave keywords."""
    description: str = ""
    good: bool | None = None
    """Whether the user wants it; None: not given."""


class TopicTree:
    """Topics with their seeds and examples. The number of a topic is its index in `topics`."""

    def __init__(self, root_name: str = ROOT_NAME) -> None:
        self.topics = [Topic(ROOT, ABOVE_ROOT, root_name, "")]
        self.seeds: list[Seed] = []
        self.examples: list[TrainingInput] = []
        self._by_path = {"": ROOT}
        self._seeded: set[str] = set()
        self._examples: dict[tuple[int, str], bool] = {}
        self._titled: set[tuple[int, str]] = set()

    def topic(self, path: tuple[str, ...]) -> Topic:
        """The topic at `path`, created with its ancestors if it is new."""
        names = tuple(map(clean_name, path))
        for name in names:
            check_name(name)
        kcid = self._by_path.get(SEPARATOR.join(names))
        if kcid is not None:
            return self.topics[kcid]
        check_depth(names)
        kcid = ROOT
        for depth, name in enumerate(names, 1):
            joined = SEPARATOR.join(names[:depth])
            found = self._by_path.get(joined)
            kcid = self._add(kcid, name, joined) if found is None else found
        return self.topics[kcid]

    def _add(self, parent: int, name: str, path: str) -> int:
        if len(self.topics) >= MAX_TOPICS:
            raise InputError(f"more than {MAX_TOPICS:,} topics", "Remove the smallest, or make several collections.")
        kcid = len(self.topics)
        self.topics.append(Topic(kcid, parent, name, path, words_of(name)))
        self._by_path[path] = kcid
        return kcid

    def name_after(self, collection: str) -> None:
        """Name the root after its collection, where it is the only topic and no input has named it."""
        root, name = self.topics[ROOT], clean_name(collection)
        if len(self.topics) == 1 and root.name == ROOT_NAME and name and name != OTHERS:
            root.name = name

    def find(self, path: str) -> Topic | None:
        """The topic with exactly this path."""
        kcid = self._by_path.get(path)
        return None if kcid is None else self.topics[kcid]

    def add_seed(self, topic: Topic, url: str, title: str = "") -> bool:
        """Add a seed unless the tree already has its URL; the words of its title become keywords of the topic."""
        if url in self._seeded:
            return False
        self._seeded.add(url)
        title = clean_title(title)
        self.seeds.append(Seed(url, topic.kcid, title))
        self._take_words(topic, url, title)
        return True

    def add_found(self, seed: Seed) -> bool:
        """Add a seed that a provider found, unless the tree already has its URL. The words of its title do not become
        keywords: they would drown those of the question."""
        if seed.url in self._seeded:
            return False
        self._seeded.add(seed.url)
        self.seeds.append(seed)
        return True

    def add_example(
        self, topic: Topic, kind: ExampleKind, value: str, *, positive: bool = True, title: str = ""
    ) -> bool:
        """Add an example unless the topic already has it; the words of a positive example's title become keywords.

        Raises InputError if the topic has it with the opposite sign.
        """
        value = value.strip()
        known = self._examples.get((topic.kcid, f"{kind} {value}"))
        if known is not None and known is not positive:
            raise InputError(
                f"topic {topic.path or topic.name!r}: {value[:200]!r} is both a positive and a negative example",
                "Remove it from one of the two lists.",
            )
        if known is not None:
            return False
        self._examples[topic.kcid, f"{kind} {value}"] = positive
        title = clean_title(title)
        self.examples.append(TrainingInput(topic.kcid, kind, value, positive, title))
        if positive:
            self._take_words(topic, value, title)
        return True

    def _take_words(self, topic: Topic, value: str, title: str) -> None:
        """Add the words of a title to the keywords, once per page: most examples are seeds too."""
        if title and (topic.kcid, value) not in self._titled:
            self._titled.add((topic.kcid, value))
            topic.keywords.extend(words_of(title))

    def children(self, kcid: int) -> list[Topic]:
        """The direct children of a topic, in their order."""
        return [topic for topic in self.topics if topic.parent == kcid]

    def training(self) -> Iterator[TrainingInput]:
        """The documents to learn from: all examples, and for each leaf without any a virtual document of its own words.

        An inner topic learns from the documents of the topics below it.
        """
        yield from self.examples
        with_examples = {example.kcid for example in self.examples if example.positive}
        inner = {topic.parent for topic in self.topics}
        for topic in self.topics:
            words = " ".join([*topic.keywords, topic.description]).strip()
            if topic.kcid not in with_examples and topic.kcid not in inner and words:
                name = topic.name if topic.kcid != ROOT else ""
                yield TrainingInput(topic.kcid, ExampleKind.TEXT, f"{name} {words}".strip())

    def marks(self) -> dict[int, Mark]:
        """The mark of each topic.

        If the user marked none good, the topics directly below the root are; in a tree without others, the root is.
        """
        chosen = {topic.kcid for topic in self.topics if topic.good} or self._good_by_default()
        if not chosen:
            raise InputError("no topic is good, so no page would be wanted", "Mark at least one topic good.")
        if ROOT in chosen:
            check_root(len(self.topics))
        parents = {topic.kcid: topic.parent for topic in self.topics}
        marks = marks_of(parents, chosen, {topic.kcid: topic.path for topic in self.topics})
        for topic in self.topics:
            if topic.good is False and marks[topic.kcid] is Mark.SUBSUMED:
                raise InputError(
                    f"topic {topic.path!r} cannot be left out: "
                    f"{self._good_above(topic.kcid, chosen)!r} above it is good, with everything below it",
                    "Mark the topics below it that you want good, instead of the upper one.",
                )
        return marks

    def _good_by_default(self) -> set[int]:
        level = [self.topics[ROOT]] if len(self.topics) == 1 else self.children(ROOT)
        return {topic.kcid for topic in level if topic.good is not False}

    def _good_above(self, kcid: int, chosen: set[int]) -> str:
        while kcid not in chosen:
            kcid = self.topics[kcid].parent
        return self.topics[kcid].path or "the root"

    def hierarchy(self) -> Hierarchy:
        """The tree as classifiers see it."""
        marks = self.marks()
        return Hierarchy(Node(t.kcid, t.parent, t.name, t.path, marks[t.kcid]) for t in self.topics)


def check_name(name: str) -> None:
    """Raise InputError for a name, as `clean_name` returns it, that no topic may have."""
    if not name:
        raise InputError("a topic has no name", "Give every topic a name of at least one character.")
    if name == OTHERS:
        raise InputError(
            f"no topic can be called {OTHERS}: this name stands for pages that no topic accepts",
            "List pages that a topic should not accept as its `others`, or choose another name.",
        )


def check_depth(names: tuple[str, ...]) -> None:
    """Raise InputError for a topic that is too deep in the tree."""
    if len(names) > MAX_DEPTH:
        raise InputError(
            f"topic {SEPARATOR.join(names[:3])!r} ...: more than {MAX_DEPTH} levels of topics",
            "Move the deepest ones up.",
        )


def check_root(topics: int) -> None:
    """Raise InputError for a good root that has topics below it."""
    if topics > 1:
        raise InputError(
            "the root cannot be good: it contains every page, so nothing would be left out",
            "Mark topics below it good.",
        )


def clean_name(name: str) -> str:
    """A name as one line of printable characters, without spaces around slashes, because ' / ' joins names."""
    printable = "".join(character for character in name if character.isprintable() or character.isspace())
    folded = " ".join(unicodedata.normalize("NFC", printable).split())
    return _SLASH.sub("/", folded[:_MAX_NAME_CHARS]).strip()


def clean_title(title: str) -> str:
    """A title as one line."""
    return " ".join(title.split())[:_MAX_TITLE_CHARS].strip()


def words_of(text: str) -> list[str]:
    """The words of a name or title, in lower case."""
    return [word.lower() for word in _WORD.findall(text)]
