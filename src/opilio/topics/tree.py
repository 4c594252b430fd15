"""Topic, Seed and the tree they form."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ROOT = 0
_WORD = re.compile(r"[^\W\d_]{2,}")


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


class TopicTree:
    """Topics by number, and the seeds of all of them."""

    def __init__(self, root_name: str = "everything") -> None:
        self.topics = [Topic(ROOT, -1, root_name, "")]
        self.seeds: list[Seed] = []
        self._by_path = {"": ROOT}
        self._seeded: set[str] = set()

    def topic(self, path: tuple[str, ...]) -> Topic:
        """The topic at `path`, made with its ancestors when it is new."""
        joined = " / ".join(path)
        if joined in self._by_path:
            return self.topics[self._by_path[joined]]
        parent = self.topic(path[:-1])
        made = Topic(len(self.topics), parent.kcid, path[-1], joined, words_of(path[-1]))
        self.topics.append(made)
        self._by_path[joined] = made.kcid
        return made

    def add_seed(self, topic: Topic, url: str, title: str = "") -> bool:
        """Add a seed unless the tree has that URL already; words of its title become keywords of the topic."""
        if url in self._seeded:
            return False
        self._seeded.add(url)
        self.seeds.append(Seed(url, topic.kcid, title))
        topic.keywords.extend(words_of(title))
        return True


def words_of(text: str) -> list[str]:
    """The words of a name or title, in lower case."""
    return [word.lower() for word in _WORD.findall(text)]
