"""The file in which an expert chooses the elements of the filters (OASIS 4, step 3).

TOML, one table for each topic and class; a line is an element and its frequency:

    ["databases / query languages".pairs]
    "queri languag" = 41    # in 12 of 30 documents

To strike an element out, delete its line. To add one, write a line: stems as they stand in the file, or whole words,
which are stemmed; the number says how much it weighs next to the others.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from opilio.classify.collocations import SIZES
from opilio.classify.oasis_proposal import CLASSES, Element, Proposal
from opilio.errors import InputError
from opilio.features.evidence import TextReader
from opilio.topics.hierarchy import Hierarchy

MAX_FREQUENCY = 10**9

_HEAD = """\
# Filter of the classifier `oasis`: what speaks for each topic, the most significant first.
# Keep 20 to 100 of each class: delete the lines that do not speak for the topic, add what is missing.
# A line is a term or collocation (in stems; whole words may be added) and its frequency, by which terms are weighed.
# To use the file, set in crawl.toml:  [oasis]  filter = "this file"
"""
_NUMBERED = re.compile(r"#(\d{1,10})")


def write_proposal(path: Path, proposals: Iterable[Proposal], hierarchy: Hierarchy) -> None:
    """Write proposals as a file to edit; read back unchanged it gives the same elements."""
    lines = [_HEAD]
    for proposal in proposals:
        topic = _quoted(hierarchy.nodes[proposal.kcid].path)
        for size, name in zip(SIZES, CLASSES, strict=True):
            lines.append(f"[{topic}.{name}]")
            lines += [
                f"{_quoted(element.words)} = {element.frequency}    # in {element.documents} of {proposal.documents}"
                " documents"
                for element in proposal.of_size(size)
            ]
            lines.append("")
    try:
        path.write_text("\n".join(lines), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def read_filter(
    path: Path, hierarchy: Hierarchy, names: Mapping[int, str], languages: Mapping[int, str]
) -> dict[int, Proposal]:
    """The elements chosen for each topic in the file, by kcid.

    `names` are the stems of the core by hash code, `languages` those of the topics, in which added words are stemmed.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", "See the setting oasis.filter.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}", "Correct the line it names.") from None
    if not table:
        raise InputError(f"{path}: the filter is empty", "It needs a table for each topic and class of elements.")
    topics = {hierarchy.nodes[kcid].path: kcid for kcid in sorted(hierarchy.nodes)}
    reader = _Reader(str(path), {stem: code for code, stem in names.items()})
    return {
        reader.known(topic, topics, "topic"): reader.topic(topic, classes, topics[topic], languages)
        for topic, classes in table.items()
    }


class _Reader:
    """Checks a filter file and turns its words into stems."""

    def __init__(self, where: str, codes: Mapping[str, int]) -> None:
        self._where = where
        self._codes = codes
        self._texts = TextReader()

    def known(self, name: str, names: Mapping[str, int], what: str) -> int:
        if name in names:
            return names[name]
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(map(repr, names))}."
        raise InputError(f"{self._where}: unknown {what} {name!r}", hint)

    def topic(self, name: str, classes: Any, kcid: int, languages: Mapping[int, str]) -> Proposal:
        if not isinstance(classes, dict):
            self._fail(name, "is not a table", f'Write ["{name}".terms] and the terms below it.')
        sizes = dict(zip(CLASSES, SIZES, strict=True))
        chosen: dict[int, tuple[Element, ...]] = {}
        for class_name, lines in classes.items():
            size = self.known(class_name, sizes, f"class of elements of topic {name!r}:")
            if not isinstance(lines, dict):
                self._fail(f"{name}.{class_name}", "is not a table", 'Write one line for each element: "word" = 1')
            elements = [
                self._element(f"{name}.{class_name}", words, frequency, size, languages.get(kcid, ""))
                for words, frequency in lines.items()
            ]
            elements.sort(key=lambda element: -element.frequency)
            distinct = {element.stems: element for element in reversed(elements)}
            chosen[size] = tuple(reversed(distinct.values()))
        if not any(chosen.values()):
            self._fail(name, "holds no element", "Keep at least some terms, or delete all tables of the topic.")
        return Proposal(kcid, 0, *(chosen.get(size, ()) for size in SIZES))

    def _element(self, place: str, words: str, frequency: Any, size: int, language: str) -> Element:
        if type(frequency) is not int or not 1 <= frequency <= MAX_FREQUENCY:
            self._fail(place, f"{words!r} has no usable frequency: {frequency!r}", "Write a whole number from 1 on.")
        parts = words.split()
        stems = tuple(stem for part in parts for stem in self._stems(place, part, language))
        if len(stems) != size:
            self._fail(
                place, f"{words!r} has {len(stems)} words, not {size}", f"Classes: {', '.join(CLASSES)}: 1, 2, 3 words."
            )
        return Element(stems, " ".join(parts).lower(), frequency)

    def _stems(self, place: str, word: str, language: str) -> list[int]:
        """Of a stem of the core, itself: to stem it again might change it. Of another word, its stem."""
        if word in self._codes:
            return [self._codes[word]]
        if (numbered := _NUMBERED.fullmatch(word)) and 0 < int(numbered[1]) < 1 << 32:
            return [int(numbered[1])]
        stems: list[int] = self._texts.stems(word, language).tolist()
        if not stems or 0 in stems:
            self._fail(place, f"{word!r} is no term", "Stop words, single letters and long numbers are none.")
        return stems

    def _fail(self, place: str, what: str, hint: str) -> NoReturn:
        raise InputError(f"{self._where}, [{place}]: {what}", hint)


def _quoted(text: str) -> str:
    """`text` as a TOML key."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
