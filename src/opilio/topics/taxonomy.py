"""Taxonomy files: a tree of topics with examples, written by hand in YAML or TOML (Focus 1.1).

The file is the root topic; `topics` has the topics below it by name, each with the same keys. A topic may also be
just a list of its examples. docs/guides/topics.md shows the format.

Reading is strict: an unknown key, a topic without content and a good topic below a good one are errors that name their
place. Examples are seeds too, because the crawl starts "by visiting all pages in D(C*)"; those of null topics are not.

A tree that is written and read back is the same tree. The suffix of the file selects the format.
"""

from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path
from typing import Any

from opilio.errors import InputError
from opilio.topics.examples import check_example, parse_example
from opilio.topics.hierarchy import ROOT, Mark
from opilio.topics.taxonomy_syntax import Item, dump_toml, parse_toml, read_text
from opilio.topics.tree import (
    ROOT_NAME,
    SEPARATOR,
    ExampleKind,
    Seed,
    Topic,
    TopicTree,
    TrainingInput,
    clean_name,
    words_of,
)

MAX_FILE_BYTES = 16 * 2**20
TOPIC_KEYS = ("description", "keywords", "good", "seeds", "examples", "others", "topics")
ROOT_KEYS = ("name", *TOPIC_KEYS)
EXAMPLE_KEYS = ("url", "file", "text", "title", "seed")
OTHERS_KEYS = ("url", "file", "text", "title")
SEED_KEYS = ("url", "title")

_HINT = "Write it as .yaml or as .toml; docs/guides/topics.md shows both."
_COMMENT = "Topics, as opilio reads them (docs/guides/topics.md)."
_YES = {"true": True, "yes": True, "false": False, "no": False}
_LEARN = "Give it examples (pages that are about it), keywords, or topics below it."
# Names that people use for a key which has another name here.
_ALSO_CALLED = {
    "children": "topics", "subtopics": "topics", "negatives": "others", "negative": "others", "label": "name",
    "urls": "examples", "positives": "examples", "start": "seeds", "path": "file", "link": "url",
}  # fmt: skip


def read_taxonomy(path: Path) -> TopicTree:
    """The topic tree of a taxonomy file."""
    root = _read_items(path)
    if not isinstance(root.value, dict) or not root.value:
        raise InputError(
            f"{path}: contains no topics", "Begin with a line `topics:`; docs/guides/topics.md shows the format."
        )
    reader = _Reader(path)
    reader.read(root, ())
    return reader.finished()


class _Reader:
    """Reads topics into a tree. Examples become seeds at the end, when the marks of all topics are known."""

    def __init__(self, path: Path) -> None:
        self.tree = TopicTree()
        self._path = path
        self._seeds: list[tuple[Topic, str, str]] = []
        self._keywords: dict[int, list[str]] = {}

    def read(self, item: Item, names: tuple[str, ...]) -> None:
        """Read a topic and everything below it."""
        place = _Place(self._path, names)
        table = item.value if isinstance(item.value, dict) else {"examples": item}
        place.check_keys(table, TOPIC_KEYS if names else ROOT_KEYS, item.line)
        try:
            topic = self.tree.topic(names)
            if "name" in table:
                topic.name = clean_name(place.text(table["name"], "name")) or topic.name
            self._read_marks(table, topic, place)
            self._read_pages(table, topic, place)
        except InputError as error:
            raise place.wrapped(error, item.line) from None
        self._check_not_empty(table, topic, place, item.line)
        self._read_below(table, names, place)

    def _read_marks(self, table: dict[str, Item], topic: Topic, place: _Place) -> None:
        if "description" in table:
            topic.description = place.text(table["description"], "description").strip()
        if "good" in table:
            topic.good = place.yes_or_no(table["good"], "good")
        if "keywords" in table:
            self._keywords[topic.kcid] = place.words(table["keywords"])

    def _read_pages(self, table: dict[str, Item], topic: Topic, place: _Place) -> None:
        for key, positive in (("examples", True), ("others", False)):
            for entry in place.entries(table.get(key)):
                kind, value, title, seed = place.example(entry, EXAMPLE_KEYS if positive else OTHERS_KEYS)
                self.tree.add_example(topic, kind, value, positive=positive, title=title)
                if kind is ExampleKind.URL and positive and seed:
                    self._seeds.append((topic, value, title))
        for entry in place.entries(table.get("seeds")):
            kind, value, title, _ = place.example(entry, SEED_KEYS)
            if kind is not ExampleKind.URL:
                raise place.error("a seed is a URL to start from", "Write files and texts as examples.", entry.line)
            self.tree.add_seed(topic, value, title)

    def _read_below(self, table: dict[str, Item], names: tuple[str, ...], place: _Place) -> None:
        below = table.get("topics", Item("")).value
        if not isinstance(below, dict):
            if below:
                raise place.error(
                    "`topics` is a table of topics by name", "Write each as `name:`.", table["topics"].line
                )
            return
        for name, item in below.items():
            path = (*names, clean_name(name))
            if path[-1] and self.tree.find(SEPARATOR.join(path)):
                raise place.error(f"two topics {path[-1]!r}", "Join them, or rename one.", item.line)
            self.read(item, path)

    def _check_not_empty(self, table: dict[str, Item], topic: Topic, place: _Place, line: int) -> None:
        taught = any(table[key].value for key in ("examples", "topics") if key in table)
        if not taught and not self._keywords.get(topic.kcid) and not topic.description:
            raise place.error("nothing describes what this topic is about", _LEARN, line)

    def finished(self) -> TopicTree:
        """The tree, with the seeds that come from examples."""
        try:
            marks = self.tree.marks()
        except InputError as error:
            raise InputError(f"{self._path}: {error.message}", error.hint) from None
        for topic, url, title in self._seeds:
            if marks[topic.kcid] is not Mark.NULL:
                self.tree.add_seed(topic, url, title)
        for kcid, keywords in self._keywords.items():
            self.tree.topics[kcid].keywords = keywords
        return self.tree


class _Place:
    """One topic in a file: reads its values, and names the place in errors."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        self._path = path
        self._names = names

    def error(self, message: str, hint: str, line: int) -> InputError:
        """An error that names the place."""
        at = f", line {line}" if line else ""
        topic = f", topic {SEPARATOR.join(self._names)!r}" if self._names else ""
        return InputError(f"{self._path}{at}{topic}: {message}", hint)

    def wrapped(self, error: InputError, line: int) -> InputError:
        """An error with the place added, unless it names the file already."""
        if error.message.startswith(str(self._path)):
            return error
        return self.error(error.message, error.hint, line)

    def check_keys(self, table: dict[str, Item], known: tuple[str, ...], line: int) -> None:
        """Raise an error for an unknown key, with the nearest known one."""
        for key, item in table.items():
            if key in known:
                continue
            also = _ALSO_CALLED.get(key.lower(), "")
            near = [also] if also in known else difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            if key == "name":
                hint = "The name of a topic is the key it is listed under. "
            elif not near and "examples" in known:
                hint = "If it is the name of a topic, write it below `topics`. "
            raise self.error(f"unknown key {key!r}", f"{hint}Known: {', '.join(known)}.", item.line or line)

    def text(self, item: Item, key: str) -> str:
        """A value that is text."""
        if isinstance(item.value, str):
            return item.value
        raise self.error(f"`{key}` is text, not a list or table", "Put it in one line, or in quotes.", item.line)

    def yes_or_no(self, item: Item, key: str) -> bool:
        """A value that is true or false."""
        chosen = _YES.get(self.text(item, key).lower())
        if chosen is None:
            raise self.error(f"`{key}` is {item.value!r}, not true or false", "Write true or false.", item.line)
        return chosen

    def words(self, item: Item) -> list[str]:
        """Keywords: a list, or text separated by commas."""
        if isinstance(item.value, str):
            given = item.value.split(",")
        else:
            given = [self.text(entry, "keywords") for entry in self.entries(item)]
        return [" ".join(word.split()) for word in given if word.strip()]

    def entries(self, item: Item | None) -> list[Item]:
        """The entries of a list; a single value is a list of one."""
        if item is None or not item.value:
            return []
        return item.value if isinstance(item.value, list) else [item]

    def example(self, item: Item, known: tuple[str, ...]) -> tuple[ExampleKind, str, str, bool]:
        """Kind, value, title, and whether it is a seed too."""
        if not isinstance(item.value, dict):
            return *self._checked(item, None, self.text(item, "examples")), "", True
        table = item.value
        self.check_keys(table, known, item.line)
        kinds = [kind for kind in ExampleKind if kind in table]
        if len(kinds) != 1:
            raise self.error("an entry needs one of url, file and text", "For example: - file: notes.pdf", item.line)
        kind, value = self._checked(item, kinds[0], self.text(table[kinds[0]], kinds[0]))
        title = self.text(table["title"], "title") if "title" in table else ""
        seed = self.yes_or_no(table["seed"], "seed") if "seed" in table else True
        return kind, value, title, seed

    def _checked(self, item: Item, kind: ExampleKind | None, text: str) -> tuple[ExampleKind, str]:
        folder = self._path.parent
        try:
            return check_example(kind, text, folder) if kind else parse_example(text, folder)
        except InputError as error:
            raise self.wrapped(error, item.line) from None


def write_taxonomy(tree: TopicTree, path: Path) -> None:
    """Write `tree` to a .yaml, .yml or .toml file."""
    _write_table(_Tables(tree, path.absolute().parent).root(), path, _COMMENT)


class _Tables:
    """A tree as plain tables, with the keys of each topic in the order they are written."""

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
        """The keywords; None if the reader would derive the same ones from the rest of the topic."""
        titles = {seed.url: seed.title for seed in self._seeds.get(topic.kcid, {}).values() if seed.title}
        titles.update({example.value: example.title for example in examples if example.positive and example.title})
        words = [word for title in titles.values() for word in words_of(title)]
        if topic.kcid != ROOT:
            words += words_of(topic.name)
        return None if Counter(words) == Counter(topic.keywords) else topic.keywords

    def _entry(self, example: TrainingInput, seeds: dict[str, Seed]) -> str | dict[str, Any]:
        """An example. If it also stands for a seed, that one is removed from `seeds`; if not, it says `seed: false`."""
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
    """An entry with its title; a URL without a title needs no table."""
    if title:
        return {**entry, "title": title}
    return str(entry["url"]) if list(entry) == ["url"] else entry


def _read_items(path: Path) -> Item:
    """The contents of a YAML or TOML file."""
    is_toml = _is_toml(path)
    text = read_text(path, MAX_FILE_BYTES, _HINT)
    if is_toml:
        return parse_toml(text, path)
    from opilio.topics.taxonomy_yaml import parse_yaml  # noqa: PLC0415  # keeps YAML out of the workers

    return parse_yaml(text, path)


def _write_table(table: dict[str, Any], path: Path, comment: str) -> None:
    """Write nested tables to a YAML or TOML file, with a comment line on top."""
    if _is_toml(path):
        text = dump_toml(table)
    else:
        from opilio.topics.taxonomy_yaml import dump_yaml  # noqa: PLC0415  # keeps YAML out of the workers

        text = dump_yaml(table)
    try:
        path.write_text(f"# {comment}\n{text}", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "Choose another path.") from None


def _is_toml(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix not in (".yaml", ".yml", ".toml"):
        raise InputError(f"{path}: its suffix is neither that of YAML nor of TOML", _HINT)
    return suffix == ".toml"
