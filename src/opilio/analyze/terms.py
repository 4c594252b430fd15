"""The words of a text, in order, as lower-case UTF-8.

Words are runs of letters and digits. Bytes are split several times faster than strings are searched, and most text is
ASCII, or has no letters that are not. Text without spaces (Chinese, Japanese) is cut into overlapping
pairs of characters, which serve as words there.

English words that say nothing of a page's subject: function words, and what apostrophes leave of contractions.

Terms: the stems of a page's words, as 32-bit hash codes with their counts.

A word is stemmed and hashed once and then remembered. What is remembered of it is one 64-bit number: the hash of its
stem in the lower half (0 for a word that is no term), the hash of the word itself in the upper half. So one look-up a
word serves both the terms of the page and its sketch. The numbers are kept as bytes, which are joined much faster than
Python's integers are made into an array.

Words a user gives, as the hash codes that documents carry.

The words of links as hash codes: what a strategy looks at that judges links by what they say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import Stemmer
import xxhash

from opilio.model import Link

if TYPE_CHECKING:
    from opilio.analyze.sketch import Hashes


# ASCII letters in lower case; characters that are no letters or digits become spaces.
_LOWERED = bytes(ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 32 for code in range(256))
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_ASCII = bytes(range(128))


def tokenize(text: str) -> list[bytes]:
    """The words of `text`."""
    if not text.isascii():
        rest = text.encode("utf-8", "replace").translate(None, _ASCII).decode()
        if any(map(str.isalnum, set(rest))):
            return _words(text.lower())
    # What is not ASCII is only signs (dashes, quotes, arrows): each becomes a question mark, and that a space.
    return text.encode("ascii", "replace").translate(_LOWERED).split()


def _words(text: str) -> list[bytes]:
    words = _WORD.findall(text)
    if _UNSPACED.search(text):
        words = [part for word in words for part in _parts(word)]
    return [word.encode("utf-8", "replace") for word in words]


def _parts(word: str) -> list[str]:
    """A word with unspaced script in it: what stands around the script, and the script as pairs of characters."""
    if not _UNSPACED.search(word):
        return [word]
    parts: list[str] = []
    at = 0
    for run in _UNSPACED.finditer(word):
        characters = run.group()
        pairs = [characters[i : i + 2] for i in range(len(characters) - 1)] or [characters]
        parts += [*filter(None, [word[at : run.start()]]), *pairs]
        at = run.end()
    return [*parts, *filter(None, [word[at:]])]


_WORDS = """
    a an the this that these those such same other others another each every either neither both all any some none no
    one ones many much more most few fewer less least several enough own
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves who whom whose which what whoever whatever whichever
    someone somebody something anyone anybody anything everyone everybody everything nobody nothing
    am is are was were be been being do does did doing done have has had having can could may might must shall should
    will would ought cannot
    don doesn didn isn aren wasn weren hasn haven hadn couldn shouldn wouldn won ain ll ve re
    and or but nor so yet if then else because since while although though unless until whether than as
    of in on at by for from to into onto upon with within without about above below over under between among through
    during before after against across along around behind beside besides beyond despite down up off out near per
    toward towards via like except
    not never always often sometimes usually ever also too very just only even still already again once here there
    where when why how now later soon thus hence therefore however moreover otherwise rather quite perhaps maybe
    almost instead anyway yes
    get gets got getting let lets make makes made go goes going gone come comes came take takes took put puts
    say says said see sees seen use uses used using
    etc eg ie vs
"""

ENGLISH = frozenset(_WORDS.split())


MAX_TERMS = 2000
"""Distinct terms kept of a page: the most frequent."""
MAX_TERM_BYTES = 60
MAX_NUMBER_DIGITS = 4
"""Longer numbers are no terms: they are dates, prices, serial numbers."""

_MAX_REMEMBERED = 500_000
_MAX_COUNT = 65535
_NO_TERM = np.zeros(1, "<u4")
_STEMMERS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "es": "spanish", "eu": "basque",
    "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish", "yi": "yiddish",
}  # fmt: skip


class Terms(NamedTuple):
    """The terms of a page, as the model's `Document` holds them."""

    ids: bytes
    counts: bytes
    new: list[tuple[int, str]]


class _Words(dict[bytes, bytes]):
    """Words of one language, each with its 64-bit number."""

    def __init__(self, algorithm: str, stop_words: frozenset[str], on_term: Callable[[int, str], None]) -> None:
        super().__init__()
        self._stem = Stemmer.Stemmer(algorithm, 0).stemWord  # we remember the stems, it need not
        self._stop_words = stop_words
        self._on_term = on_term

    def __missing__(self, word: bytes) -> bytes:
        number = (xxhash.xxh32_intdigest(word, seed=1) << 32 | self._term(word)).to_bytes(8, "little")
        if len(word) <= MAX_TERM_BYTES:
            self[word] = number
        return number

    def _term(self, word: bytes) -> int:
        too_long = len(word) > (MAX_NUMBER_DIGITS if word.isdigit() else MAX_TERM_BYTES)
        text = "" if too_long else word.decode("utf-8", "replace")
        if len(text) < 2 or text in self._stop_words:
            return 0
        stem: str = self._stem(text)
        term = xxhash.xxh32_intdigest(stem.encode())
        self._on_term(term, stem)
        return term


class Vocabulary:
    """The words met so far, by language, and the terms already reported to the lexicon. Bounded: it starts afresh."""

    def __init__(self) -> None:
        self._languages: dict[str, _Words] = {}
        self._reported: set[int] = set()
        self._new: list[tuple[int, str]] = []

    def numbers(self, words: list[bytes], language: str) -> Hashes:
        """The 64-bit numbers of `words`, in order."""
        if sum(map(len, self._languages.values())) > _MAX_REMEMBERED:
            self._languages.clear()
        known = self._languages.get(language) or self._learn(language)
        return np.frombuffer(b"".join(map(known.__getitem__, words)), "<u8")

    def terms(self, numbers: Hashes) -> Terms:
        """The terms among `numbers`, and the stems that were met for the first time since the last call."""
        new, self._new = self._new, []
        ordered = np.sort(numbers.astype("<u4"))
        if not len(ordered) or ordered[0]:
            ordered = np.concatenate((_NO_TERM, ordered))
        # Each change to another value starts the run of a term; what is before the first change is no term.
        starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        if not len(starts):
            return Terms(b"", b"", new)
        counts = np.empty_like(starts)
        counts[:-1] = starts[1:] - starts[:-1]
        counts[-1] = len(ordered) - starts[-1]
        ids = ordered[starts]
        if len(ids) > MAX_TERMS:
            kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_TERMS])
            ids, counts = ids[kept], counts[kept]
        return Terms(ids.tobytes(), np.minimum(counts, _MAX_COUNT).astype("<u2").tobytes(), new)

    def _report(self, term: int, stem: str) -> None:
        """Note a stem for the lexicon, unless it was noted before; to note it twice does no harm."""
        if term in self._reported:
            return
        if len(self._reported) > _MAX_REMEMBERED:
            self._reported.clear()
        self._reported.add(term)
        self._new.append((term, stem))

    def _learn(self, language: str) -> _Words:
        algorithm = _STEMMERS.get(language, "porter")
        stop_words = ENGLISH if language in ("", "en") else frozenset()
        words = self._languages[language] = _Words(algorithm, stop_words, self._report)
        return words


def term_ids(text: str, language: str = "") -> list[int]:
    """The hash codes of the terms of `text`, in order and with repeats; stop words are no terms."""
    numbers = Vocabulary().numbers(tokenize(text), language) & 0xFFFFFFFF
    return [number for number in numbers.tolist() if number]


MAX_WORDS = 60
"""Of a link, and as many of those around it."""


class LinkWords(NamedTuple):
    """The words of all links of a page, as the model's `Document` holds them."""

    stems: bytes = b""
    inside: bytes = b""
    around: bytes = b""


def link_words(links: Sequence[Link], language: str, vocabulary: Vocabulary) -> LinkWords:
    """The stems of the words in and around links, and of the paths of their URLs."""
    parts = [part[:MAX_WORDS] for link in links for part in _word_parts(link)]
    words = [word for part in parts for word in part]
    stems = vocabulary.numbers(words, language).astype(np.uint32)
    part_of = np.repeat(np.arange(len(parts)), np.fromiter(map(len, parts), np.int64, len(parts)))
    counts = np.bincount(part_of[stems > 0], minlength=len(parts)).astype(np.uint8)
    return LinkWords(stems[stems > 0].astype("<u4").tobytes(), counts[::2].tobytes(), counts[1::2].tobytes())


def _word_parts(link: Link) -> Iterator[list[bytes]]:
    url = link.url
    yield tokenize(link.anchor) + tokenize(url[url.index("/", 8) :])
    yield tokenize(link.context) if link.context else []
