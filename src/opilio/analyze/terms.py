"""Terms: the stems of a page's words, as 32-bit hash codes with their counts.

*Words* are runs of letters and digits, in lower case as UTF-8. Splitting bytes is several times faster than searching
strings, and most text is ASCII or has no other letters. Text without spaces (Chinese, Japanese) is cut into overlapping
pairs of characters, which serve as words.

Each word is stemmed and hashed once and then cached as one 64-bit number: the hash of its stem in the lower half (0 for
a word that is not a term), the hash of the word itself in the upper half. So one look-up per word serves both the terms
of the page and its sketch. The numbers are kept as bytes, because joining bytes is much faster than making an array of
Python integers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import Stemmer
import xxhash

from opilio.model import Links

if TYPE_CHECKING:
    from opilio.analyze.sketch import Hashes


MAX_TERMS = 2000
"""Distinct terms kept for a page: the most frequent ones."""
MAX_TERM_BYTES = 60
MAX_NUMBER_DIGITS = 4
"""Longer numbers are not terms: they are dates, prices, serial numbers."""
MAX_LINK_WORDS = 60
"""Words of a link that are used, and as many of the text around it."""

_MAX_REMEMBERED = 500_000
MAX_COUNT = 65535
_PAIR = Struct("<II")
_CODE, _COUNT, _FIRST = np.dtype("<u4"), np.dtype("<u2"), np.zeros(1, np.intp)
_STEMMERS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "es": "spanish", "eu": "basque",
    "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_STOP_WORDS = """
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
ENGLISH_STOP_WORDS = frozenset(_STOP_WORDS.split())
_FUNCTION_WORDS = """
    der die das den dem des ein eine einen einem einer eines und oder aber auch nicht nur noch schon sich ist sind waren
    wird werden wurde haben hatte von vom mit bei beim aus auf für über unter durch nach zum zur als wie wenn dass daß
    ich sie wir ihr ihre sein seine kein keine mehr sehr hier dort
    le la les un une du de des et ou mais pas ne ce cet cette ces qui que quoi dont où il elle ils elles nous vous leur
    leurs sont est était être avoir avec dans par pour sur sous sans entre comme plus très aussi au aux ses sa suffit
    el los las una unos unas del y o pero no se su sus que como más para por con sin sobre entre es fue ser está
    lo gli uno una di da dei delle della dello nel nella sul che chi non si è sono era essere con per tra fra come più
    anche questo questa
    os um uma do da dos das no na nos nas em não mas também são foi ser com sem por para ao aos
    het een de en van met voor door niet ook maar naar bij uit zijn wordt werd deze dit dat
"""
FUNCTION_WORDS = ENGLISH_STOP_WORDS | frozenset(_FUNCTION_WORDS.split())
"""Words that say nothing as a label, in the languages that this web has most of. Judging does not use them."""
# ASCII letters in lower case, and ASCII signs as spaces; the bytes of other characters stay.
_LOWERED = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 32 for code in range(128)) + bytes(range(128, 256))
_LOWERED_ASCII = _LOWERED[:128] + b" " * 128
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_ASCII = bytes(range(128))
_MANY_SIGNS = 100


def tokenize(text: str) -> list[bytes]:
    """The words of `text`."""
    if text.isascii():
        return text.encode().translate(_LOWERED).split()
    data = text.encode("utf-8", "replace")
    others = _not_ascii(data)
    if others != others.lower():  # else nothing has to be lowered but ASCII letters, below
        text = text.lower()
        data = text.encode("utf-8", "replace")
        others = _not_ascii(data)
    signs = [character for character in others if not character.isalnum()]
    if len(signs) > _MANY_SIGNS or _UNSPACED.search(others):
        return _words(text.lower())
    if len(signs) == len(others):
        return data.translate(_LOWERED_ASCII).split()
    for sign in signs:  # dashes, quotes, arrows: a few, and each is found as fast as memory is read
        data = data.replace(sign.encode(), b" ")
    return data.translate(_LOWERED).split()


def _not_ascii(data: bytes) -> str:
    """The distinct characters beyond ASCII in a text encoded as UTF-8."""
    return "".join(set(data.translate(None, _ASCII).decode()))


def _words(text: str) -> list[bytes]:
    parts = (part for word in _WORD.findall(text) for part in _parts(word))
    return [part.encode("utf-8", "replace") for part in parts]


def _parts(word: str) -> list[str]:
    """The parts of a word that contains unspaced script: the script as pairs of characters, and what is around it."""
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


class Terms(NamedTuple):
    """The terms of a page, as stored in `Document`."""

    ids: bytes
    counts: bytes
    new: list[tuple[int, str]]


class _Words(dict[bytes, bytes]):
    """Words of one language, each with its 64-bit number."""

    def __init__(self, algorithm: str, stop_words: frozenset[str], on_term: Callable[[int, bytes], None]) -> None:
        super().__init__()
        self._stem = Stemmer.Stemmer(algorithm, 0).stemWord  # without its own cache: this dict is one
        self._stop_words = frozenset(word.encode() for word in stop_words)
        self._on_term = on_term

    def __missing__(self, word: bytes) -> bytes:
        size, term = len(word), 0
        if (
            1 < size <= MAX_TERM_BYTES
            and word not in self._stop_words
            and (size > MAX_NUMBER_DIGITS or len(word.decode()) > 1)  # one character has at most so many bytes
            and (size <= MAX_NUMBER_DIGITS or not word.isdigit())
        ):
            stem: bytes = self._stem(word)
            term = xxhash.xxh32_intdigest(stem)
            self._on_term(term, stem)
        number = _PAIR.pack(term, xxhash.xxh32_intdigest(word, seed=1))
        if size <= MAX_TERM_BYTES:
            self[word] = number
        return number


class Vocabulary:
    """A cache of words by language, and the set of terms reported to the lexicon. When one is full, it is cleared."""

    def __init__(self) -> None:
        self._languages: dict[str, _Words] = {}
        self._reported: set[int] = set()
        self._new: list[tuple[int, str]] = []

    def numbers(self, words: list[bytes], language: str) -> Hashes:
        """The 64-bit numbers of `words`, in order."""
        if sum(map(len, list(self._languages.values()))) > _MAX_REMEMBERED:  # a list: threads may share it
            self._languages.clear()
        known = self._languages.get(language) or self._learn(language)
        return np.frombuffer(b"".join(map(known.__getitem__, words)), "<u8")

    def terms(self, numbers: Hashes) -> Terms:
        """The terms among `numbers`, and the stems that are new since the last call."""
        new = self.take_new()
        ordered = numbers.astype(_CODE)
        ordered.sort()
        # Each change of value starts the run of a term; what comes before the first change is not a term.
        starts = (ordered[1:] != ordered[:-1]).nonzero()[0] + 1
        if len(ordered) and ordered[0]:
            starts = np.concatenate((_FIRST, starts))
        if not len(starts):
            return Terms(b"", b"", new)
        counts = np.empty_like(starts)
        counts[:-1] = starts[1:] - starts[:-1]
        counts[-1] = len(ordered) - starts[-1]
        ids = ordered[starts]
        if len(ids) > MAX_TERMS:
            kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_TERMS])
            ids, counts = ids[kept], counts[kept]
        return Terms(ids.tobytes(), np.minimum(counts, MAX_COUNT).astype(_COUNT).tobytes(), new)

    def take_new(self) -> list[tuple[int, str]]:
        """The stems that are new since the last call, by term."""
        new, self._new = self._new, []
        return new

    def _report(self, term: int, stem: bytes) -> None:
        """Report a stem to the lexicon, unless it was reported before. Reporting it twice does no harm."""
        if term in self._reported:
            return
        if len(self._reported) > _MAX_REMEMBERED:
            self._reported.clear()
        self._reported.add(term)
        self._new.append((term, stem.decode()))

    def _learn(self, language: str) -> _Words:
        algorithm = _STEMMERS.get(language, "porter")
        stop_words = ENGLISH_STOP_WORDS if language in ("", "en") else frozenset()
        words = self._languages[language] = _Words(algorithm, stop_words, self._report)
        return words


def term_ids(text: str, language: str = "", vocabulary: Vocabulary | None = None) -> list[int]:
    """The hash codes of the terms in `text`, in order and with repeats, without stop words.

    A `vocabulary` used for several calls saves the time of learning the same words again.
    """
    numbers = (vocabulary or Vocabulary()).numbers(tokenize(text), language) & 0xFFFFFFFF
    return [number for number in numbers.tolist() if number]


def spellings(texts: Iterable[tuple[str, str, Collection[int]]], vocabulary: Vocabulary) -> dict[int, str]:
    """For each term, the whole word that texts write most often for it; a text comes with its language and its terms.

    A `vocabulary` used for several calls saves the time of learning the same words again.
    """
    counts: dict[int, Counter[bytes]] = {}
    for text, language, terms in texts:
        words, wanted = tokenize(text), np.array(sorted(terms), np.uint64)
        numbers = vocabulary.numbers(words, language) & np.uint64(0xFFFFFFFF)
        for place in np.flatnonzero(np.isin(numbers, wanted)).tolist():
            counts.setdefault(int(numbers[place]), Counter())[words[place]] += 1
    return {
        term: min(found, key=lambda word: (-found[word], word)).decode("utf-8", "replace")
        for term, found in counts.items()
    }  # fmt: skip


def term_of(stem: str) -> int:
    """The hash code of a stem."""
    return xxhash.xxh32_intdigest(stem.encode())


class LinkWords(NamedTuple):
    """The words of all links on a page, as stored in `Document`."""

    stems: bytes = b""
    inside: bytes = b""
    around: bytes = b""


def link_words(links: Links, language: str, vocabulary: Vocabulary) -> LinkWords:
    """The stems of anchor texts and URL paths, and of the text around links."""
    parts = [part[:MAX_LINK_WORDS] for part in _word_parts(links)]
    words = [word for part in parts for word in part]
    stems = vocabulary.numbers(words, language).astype(np.uint32)
    part_of = np.repeat(np.arange(len(parts)), np.fromiter(map(len, parts), np.int64, len(parts)))
    counts = np.bincount(part_of[stems > 0], minlength=len(parts)).astype(np.uint8)
    return LinkWords(stems[stems > 0].astype("<u4").tobytes(), counts[::2].tobytes(), counts[1::2].tobytes())


def _word_parts(links: Links) -> Iterator[list[bytes]]:
    for url, anchor, context in zip(links.url_list(), links.anchor_list(), links.context_list(), strict=True):
        yield tokenize(anchor) + tokenize(url[url.index("/", 8) :])
        yield tokenize(context) if context else []
