"""Topic, Seed, TrainingInput and the tree they form."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from opilio.errors import InputError
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node, marks_of

SEPARATOR = " / "
OTHERS = "OTHERS"
"""The name of what no topic took. No topic may have it."""
ROOT_NAME = "everything"
MAX_TOPICS = 32_000
"""The number of a topic is stored in 16 bits."""
MAX_DEPTH = 30
"""Deeper trees are mistakes, or made to break something."""

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
    """A document that the user gave to learn from; it is not read yet."""

    kcid: int
    kind: ExampleKind
    value: str
    """A URL in normal form, the absolute path of a file of any format we read, or the text itself."""
    positive: bool = True
    """False: it is not about this topic, and belongs to OTHERS beside it."""
    title: str = ""


@dataclass(frozen=True)
class Seed:
    """A URL the crawl starts from, for one topic."""

    url: str
    kcid: int
    title: str = ""


@dataclass
class Topic:
    """A node of the tree."""

    kcid: int
    parent: int
    name: str
    path: str
    """Names from below the root, joined by ' / '; '' for the root."""
    keywords: list[str] = field(default_factory=list)
    """The words of its name and of the titles of its pages, unless the user gave others."""
    description: str = ""
    good: bool | None = None
    """Whether the user wants it; None: nothing was said."""


class TopicTree:
    """Topics by number, and the seeds and examples of all of them. A topic's number is its place in `topics`."""

    def __init__(self, root_name: str = ROOT_NAME) -> None:
        self.topics = [Topic(ROOT, ABOVE_ROOT, root_name, "")]
        self.seeds: list[Seed] = []
        self.examples: list[TrainingInput] = []
        self._by_path = {"": ROOT}
        self._seeded: set[str] = set()
        self._examples: dict[tuple[int, str], bool] = {}
        self._titled: set[tuple[int, str]] = set()

    def topic(self, path: tuple[str, ...]) -> Topic:
        """The topic at `path`, made with its ancestors when it is new."""
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
            raise InputError(f"more than {MAX_TOPICS:,} topics", "Leave out the smallest, or make several collections.")
        kcid = len(self.topics)
        self.topics.append(Topic(kcid, parent, name, path, words_of(name)))
        self._by_path[path] = kcid
        return kcid

    def find(self, path: str) -> Topic | None:
        """The topic of exactly this path."""
        kcid = self._by_path.get(path)
        return None if kcid is None else self.topics[kcid]

    def add_seed(self, topic: Topic, url: str, title: str = "") -> bool:
        """Add a seed unless the tree has that URL already; words of its title become keywords of the topic."""
        if url in self._seeded:
            return False
        self._seeded.add(url)
        title = clean_title(title)
        self.seeds.append(Seed(url, topic.kcid, title))
        self._take_words(topic, url, title)
        return True

    def add_example(
        self, topic: Topic, kind: ExampleKind, value: str, *, positive: bool = True, title: str = ""
    ) -> bool:
        """Add an example unless the topic has it; words of a positive one's title become keywords.

        Refuses an example that is there already with the other sign.
        """
        value = value.strip()
        known = self._examples.get((topic.kcid, f"{kind} {value}"))
        if known is not None and known is not positive:
            raise InputError(
                f"topic {topic.path or topic.name!r}: {value[:200]!r} is both an example of it and not",
                "Leave it in one of the two lists.",
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
        """Once for each page: most examples are seeds too."""
        if title and (topic.kcid, value) not in self._titled:
            self._titled.add((topic.kcid, value))
            topic.keywords.extend(words_of(title))

    def children(self, kcid: int) -> list[Topic]:
        """The topics right below one, in their order."""
        return [topic for topic in self.topics if topic.parent == kcid]

    def training(self) -> Iterator[TrainingInput]:
        """What to learn from: the examples, and for a topic at the bottom of the tree without any its own words.

        Those words are a virtual training document. A topic with topics below it learns from theirs.
        """
        yield from self.examples
        taught = {example.kcid for example in self.examples if example.positive}
        inner = {topic.parent for topic in self.topics}
        for topic in self.topics:
            words = " ".join([*topic.keywords, topic.description]).strip()
            if topic.kcid not in taught and topic.kcid not in inner and words:
                name = topic.name if topic.kcid != ROOT else ""
                yield TrainingInput(topic.kcid, ExampleKind.TEXT, f"{name} {words}".strip())

    def marks(self) -> dict[int, Mark]:
        """The mark of each topic.

        When the user marked none good, the topics right below the root are; in a tree that is only a root, it is.
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
                    f"{self._good_above(topic.kcid, chosen)!r} above it is good, with all that is below it",
                    "Mark those of its topics good that you want, and not the upper one.",
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
    """Refuse a name, as `clean_name` gives it, that no topic may have."""
    if not name:
        raise InputError("a topic without a name", "Give every topic a name of at least one letter or sign.")
    if name == OTHERS:
        raise InputError(
            f"no topic can be called {OTHERS}: that is where pages go that no topic takes",
            "Give pages that a topic should not take as its `others`, or choose another name.",
        )


def check_depth(names: tuple[str, ...]) -> None:
    """Refuse a topic too far from the root."""
    if len(names) > MAX_DEPTH:
        raise InputError(
            f"topic {SEPARATOR.join(names[:3])!r} ...: more than {MAX_DEPTH} topics below each other",
            "Move the deepest ones up.",
        )


def check_root(topics: int) -> None:
    """Refuse a good root that has topics below it."""
    if topics > 1:
        raise InputError(
            "the root cannot be good: every page is below it, and nothing would be left out",
            "Mark topics below it good.",
        )


def clean_name(name: str) -> str:
    """A name in one line of printable characters; a slash in it has no spaces around it, as ' / ' joins names."""
    printable = "".join(character for character in name if character.isprintable() or character.isspace())
    folded = " ".join(unicodedata.normalize("NFC", printable).split())
    return _SLASH.sub("/", folded[:_MAX_NAME_CHARS]).strip()


def clean_title(title: str) -> str:
    """A title in one line."""
    return " ".join(title.split())[:_MAX_TITLE_CHARS].strip()


def words_of(text: str) -> list[str]:
    """The words of a name or title, in lower case."""
    return [word.lower() for word in _WORD.findall(text)]
