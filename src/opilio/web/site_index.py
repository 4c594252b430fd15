"""The search index of a published site: small files that a browser loads when a search needs them.

A browser cannot open a large index at once, and from a disk (`file:`) it loads nothing but scripts. So the index is a
folder of scripts, each of which hands one value to `published.js`:

- `index.js`: how many pages there are, and with which word each part of the vocabulary begins;
- `words/N.js`: a part of the vocabulary in alphabetical order, each word with its pages and a score for each;
- `pages/N.js`: a page as a result shows it, with its text for the snippet.

Pages are ranked by BM25 (Robertson and Zaragoza 2009), and a word counts more in a title than in a text. All of it but
the sum over the words of a question is computed here. `published.js` reads words as `words_of` does.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

FOLDER = "search"
BOOSTS = (2.0, 1.0, 0.2)
"""How much a word counts in title, text, and place (address and topic): those of the live search."""
K1, B = 1.2, 0.75
SCALE = 100
"""Scores are whole numbers, in hundredths."""
PART_CHARS = 40_000
MAX_WORD_CHARS = 40
MAX_SNIPPET_CHARS = 30_000
"""Of the text of a page, what is searched for a snippet."""
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Characters of scripts without blanks between words (Chinese, Japanese): each two beside each other are a word."""
SCRIPT_SIGNS = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_WORD = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_NOT_ASCII = re.compile("[^\x00-\x7f]+")


class _Marks(dict[int, int | None]):
    """For `str.translate`: removes accents and other marks, which NFKD takes off their letters."""

    def __missing__(self, code: int) -> int | None:
        value = None if unicodedata.category(chr(code)).startswith("M") else code
        self[code] = value
        return value


_MARKS = _Marks()


def words_of(text: str) -> list[str]:
    """The words of a text: in lower case, without accents, at most so long."""
    if text.isascii():
        return [word for word in _WORD.findall(text.lower()) if len(word) <= MAX_WORD_CHARS]
    folded = _NOT_ASCII.sub(lambda found: unicodedata.normalize("NFKD", found[0]).translate(_MARKS), text).lower()
    words = []
    for word in _WORD.findall(folded):
        if _UNSPACED.match(word) and len(word) > 1:
            words += [word[at : at + 2] for at in range(len(word) - 1)]
        elif len(word) <= MAX_WORD_CHARS:
            words.append(word)
    return words


class SiteIndex:
    """Collects the words of pages and writes the files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        for name in ("words", "pages"):
            (self._folder / name).mkdir(parents=True)
        self._lengths: list[tuple[int, ...]] = []
        """By page, the number of words in each field."""
        self._postings: dict[str, array[int]] = defaultdict(lambda: array("I"))
        """By word, for each page that has it: its number, and how often it is in each field."""

    def add(self, page: dict[str, Any], title: str, text: str, place: str, shown: str) -> None:
        """Add a page: what its result shows, the texts of its fields, and the text that snippets come from."""
        number = len(self._lengths)
        fields = [words_of(part) for part in (title, text, place)]
        self._lengths.append(tuple(map(len, fields)))
        titles, texts, places = (Counter(words) for words in fields)
        for word in titles.keys() | texts.keys() | places.keys():
            self._postings[word].extend((number, titles.get(word, 0), texts.get(word, 0), places.get(word, 0)))
        self._write(f"pages/{number}", page | {"text": " ".join(shown[:MAX_SNIPPET_CHARS].split())})

    def finish(self) -> None:
        """Write the vocabulary, and which part of it has which words."""
        first, part, chars = list[str](), list[list[Any]](), 0
        means = [max(1.0, sum(lengths) / len(lengths)) for lengths in zip(*self._lengths, strict=True)]
        # In the order in which JavaScript compares texts: by units of UTF-16.
        for word in sorted(self._postings, key=lambda word: word.encode("utf-16-be", "surrogatepass")):
            entry = [word, *self._scored(self._postings[word], means)]
            if not part:
                first.append(word)
            part.append(entry)
            chars += len(word) + 6 * len(entry)
            if chars > PART_CHARS:
                self._write(f"words/{len(first) - 1}", part)
                part, chars = [], 0
        if part:
            self._write(f"words/{len(first) - 1}", part)
        self._write("index", {"pages": len(self._lengths), "first": first, "unspaced": UNSPACED})

    def _scored(self, postings: Sequence[int], means: Sequence[float]) -> Iterator[int]:
        """Page and score, page and score, ..."""
        pages, frequency = len(self._lengths), len(postings) // 4
        idf = math.log(1 + (pages - frequency + 0.5) / (frequency + 0.5))
        for at in range(0, len(postings), 4):
            number = postings[at]
            score = 0.0
            for field, boost in enumerate(BOOSTS):
                if count := postings[at + 1 + field]:
                    length = self._lengths[number][field] / means[field]
                    score += boost * count * (K1 + 1) / (count + K1 * (1 - B + B * length))
            yield number
            yield max(1, round(SCALE * idf * score))

    def _write(self, name: str, value: Any) -> None:
        text = f"opilioPart({script_json(name)},{script_json(value)});\n"
        (self._folder / f"{name}.js").write_text(text, "utf-8")


def script_json(value: Any) -> str:
    """JSON that is safe inside a script, whatever texts are in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for sign, escaped in SCRIPT_SIGNS.items():  # much faster than `str.translate`
        text = text.replace(sign, escaped)
    return text.encode("utf-8", "replace").decode()
