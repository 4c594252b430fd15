"""Examples: documents that the user gives to learn from, as written on a command line or in a file."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from opilio.errors import InputError
from opilio.model import normalize
from opilio.topics.hierarchy import ROOT
from opilio.topics.tree import ExampleKind, TopicTree, TrainingInput

_HINT = "Write a URL with http:// or https://, file: and the path of a file, or text: and the text itself."


def parse_example(text: str, folder: Path) -> tuple[ExampleKind, str]:
    """Kind and value of an example as a user writes it: a URL, file:PATH or PATH, or text:WORDS.

    Paths are relative to `folder`. A file must exist already, so that a typo is found before the crawl.
    """
    text = text.strip()
    kind, colon, value = text.partition(":")
    if colon and kind == ExampleKind.TEXT:
        return _text(value)
    if colon and kind == ExampleKind.FILE:
        return _file(value.strip(), folder)
    if "://" in text:
        return _url(text)
    return _file(text, folder)


def check_example(kind: ExampleKind, value: str, folder: Path) -> tuple[ExampleKind, str]:
    """Kind and value of an example whose kind is known, checked like `parse_example` does."""
    if kind is ExampleKind.URL:
        return _url(value.strip())
    return _file(value.strip(), folder) if kind is ExampleKind.FILE else _text(value)


def _url(text: str) -> tuple[ExampleKind, str]:
    url = normalize(text)
    if not url:
        raise InputError(f"{text[:200]!r} is not an http(s) URL", _HINT)
    return ExampleKind.URL, url


def _text(text: str) -> tuple[ExampleKind, str]:
    if not text.strip():
        raise InputError("the example has no text", _HINT)
    return ExampleKind.TEXT, text.strip()


def _file(text: str, folder: Path) -> tuple[ExampleKind, str]:
    name = text.removeprefix("//")
    try:
        path = (folder / Path(name).expanduser()).absolute() if name else None
        found = path is not None and path.is_file()
    except (OSError, ValueError, RuntimeError):  # the name is too long, contains NUL, or ~user does not exist
        path, found = None, False
    if path is None or not found:
        raise InputError(f"{text[:200]!r} is not a file in {folder}, and not a URL", _HINT)
    if str(path) != str(path).strip():
        raise InputError(f"{text[:200]!r}: the file name starts or ends with a space", "Rename the file.")
    return ExampleKind.FILE, str(path)


def read_examples(path: Path, tree: TopicTree) -> int:
    """Add the examples of a text file, one per line, to the root of `tree`; blank lines and # comments are skipped.

    A line is either a URL, optionally followed by a title, which is also a seed, or the path of a file, relative to
    this one. Returns the number of new examples.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "Give a text file with one URL or file on each line.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text", "Give a text file with one URL or file on each line.") from None
    root, added = tree.topics[ROOT], 0
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        words = line.split(maxsplit=1)
        is_url = "://" in words[0] and not words[0].startswith(("file:", "text:"))
        title = words[1] if is_url and len(words) > 1 else ""
        try:
            kind, value = parse_example(words[0] if is_url else line, path.parent)
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error.message}", error.hint) from None
        added += tree.add_example(root, kind, value, title=title)
        if kind is ExampleKind.URL:
            tree.add_seed(root, value, title)
    if not added:
        raise InputError(f"{path}: contains no example", "Write one URL or one file path on each line.")
    return added


def add_example(examples: Sequence[TrainingInput], new: TrainingInput) -> list[TrainingInput]:
    """`examples` with `new`, which replaces the same document in the same topic: its sign may have changed."""
    kept = [example for example in examples if _key(example) != _key(new)]
    return list(examples) if new in examples else [*kept, new]


def drop_example(examples: Sequence[TrainingInput], kcid: int, value: str) -> list[TrainingInput]:
    """`examples` without one document of one topic."""
    kept = [example for example in examples if (example.kcid, example.value) != (kcid, value)]
    if len(kept) < len(examples):
        return kept
    mine = [example.value for example in examples if example.kcid == kcid and len(example.value) < 1000]
    near = difflib.get_close_matches(value, mine, n=1, cutoff=0.4)
    raise InputError(
        f"{value[:200]!r} is not an example of this topic",
        f"Did you mean {near[0]!r}?" if near else f"It has {len(mine)} examples.",
    )


def _key(example: TrainingInput) -> tuple[int, str, str]:
    return example.kcid, example.kind, example.value
