"""Writing a topic tree as a taxonomy file; reading it back gives the same tree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from opilio.topics.forms import write_table
from opilio.topics.hierarchy import ROOT, Mark
from opilio.topics.tree import ROOT_NAME, ExampleKind, Seed, Topic, TopicTree, TrainingInput, words_of

_COMMENT = "Topics, as opilio reads them (docs/guides/topics.md)."


def write_taxonomy(tree: TopicTree, path: Path) -> None:
    """Write `tree` to a .yaml, .yml or .toml file."""
    write_table(_Tables(tree, path.absolute().parent).root(), path, _COMMENT)


class _Tables:
    """A tree as plain tables, in the order in which the keys of a topic are written."""

    def __init__(self, tree: TopicTree, folder: Path) -> None:
        self._tree = tree
        self._folder = folder
        self._marks = tree.marks()
        self._children: dict[int, list[Topic]] = {}
        self._examples: dict[int, list[TrainingInput]] = {}
        self._seeds: dict[int, dict[str, Seed]] = {}
        for topic in tree.topics:
            self._children.setdefault(topic.parent, []).append(topic)
        for example in tree.examples:
            self._examples.setdefault(example.kcid, []).append(example)
        for seed in tree.seeds:
            self._seeds.setdefault(seed.kcid, {})[seed.url] = seed

    def root(self) -> dict[str, Any]:
        """The whole tree."""
        root = self._tree.topics[ROOT]
        return {**({"name": root.name} if root.name != ROOT_NAME else {}), **self._topic(root)}

    def _topic(self, topic: Topic) -> dict[str, Any]:
        examples, seeds = self._examples.get(topic.kcid, []), dict(self._seeds.get(topic.kcid, {}))
        positives = [self._entry(example, seeds) for example in examples if example.positive]
        table = {
            "description": topic.description,
            "good": topic.good,
            "keywords": self._keywords(topic, examples),
            "seeds": [_titled({"url": seed.url}, seed.title) for seed in seeds.values()],
            "examples": positives,
            "others": [self._entry(example, {}) for example in examples if not example.positive],
            "topics": {child.name: self._topic(child) for child in self._children.get(topic.kcid, ())},
        }
        return {
            key: value for key, value in table.items() if value or value is False or (key, value) == ("keywords", [])
        }

    def _keywords(self, topic: Topic, examples: list[TrainingInput]) -> list[str] | None:
        """The keywords, unless reading the rest of the topic would give the same."""
        titles = {seed.url: seed.title for seed in self._seeds.get(topic.kcid, {}).values() if seed.title}
        titles.update({example.value: example.title for example in examples if example.positive and example.title})
        words = [word for title in titles.values() for word in words_of(title)]
        if topic.kcid != ROOT:
            words += words_of(topic.name)
        return None if Counter(words) == Counter(topic.keywords) else topic.keywords

    def _entry(self, example: TrainingInput, seeds: dict[str, Seed]) -> str | dict[str, Any]:
        """An example; the seed that it makes unless told not to is taken from `seeds`."""
        value = example.value
        if example.kind is ExampleKind.FILE and Path(value).is_relative_to(self._folder):
            value = str(Path(value).relative_to(self._folder))
        entry: dict[str, Any] = {example.kind.value: value}
        if example.kind is ExampleKind.URL and example.positive and self._marks[example.kcid] is not Mark.NULL:
            seed = seeds.get(example.value)
            if seed and seed.title == example.title:
                del seeds[example.value]
            else:
                entry["seed"] = False
        return _titled(entry, example.title)


def _titled(entry: dict[str, Any], title: str) -> str | dict[str, Any]:
    """An entry with its title; a URL alone needs no table."""
    if title:
        return {**entry, "title": title}
    return str(entry["url"]) if list(entry) == ["url"] else entry
