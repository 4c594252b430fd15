"""Quality signals of a text, as pipelines that make corpora for language models filter by.

The signals are those of Gopher (Rae et al. 2021), C4 (Raffel et al. 2020) and of extractors of main texts, computed on
the main text, whose lines are the blocks of a page. No signal is a verdict: `USUAL` has limits to begin with, close to
those in these papers. They are computed when a corpus is exported, not when a page is crawled: most pages of a crawl
are never exported, and 0.2 ms for a text of 2,000 characters (half of it for the language) is little in an export.

What needs words between spaces is None for languages that are written without them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from opilio.analyze.language import SAMPLE_CHARS
from opilio.analyze.markup import detected_language
from opilio.analyze.terms import ENGLISH_STOP_WORDS

UNSPACED = frozenset({"zh", "ja", "th", "lo", "km", "my"})
"""Languages whose words are not separated by spaces."""
USUAL = (
    "words BETWEEN 50 AND 100000 AND coalesce(mean_word_chars, 5) BETWEEN 3 AND 10 AND symbol_ratio <= 0.1 "
    "AND coalesce(alphabetic_words, 1) >= 0.8 AND coalesce(stop_words, 1) >= 0.1 AND duplicate_lines <= 0.3"
)
"""Limits to begin with, as a condition in SQL."""

_ENDS = tuple(".!?:;\u2026\"'\u201d\u2019)\u300d\u3002\uff01\uff1f\uff1a\u0964\u061f")
_SYMBOLS = re.compile(r"#|\u2026|\.\.\.")
_WORD_EDGES = ".,;:!?()[]{}\"'\u00ab\u00bb\u201c\u201d\u201e\u2018\u2019\u2026-\u2013\u2014*/"
# The words that stand in any text of a language: articles, pronouns, prepositions, conjunctions, forms of be and have.
_FUNCTION_WORDS = {
    "de": """
        der die das den dem des ein eine einen einem einer eines und oder aber nicht auch nur so als wie wenn
        dass ist sind war waren wird werden wurde hat haben hatte kann können sich er sie es wir ihr ich mit
        von zu zum zur in im an am auf aus bei für über unter nach vor durch um bis gegen ohne noch schon mehr
        sein seine ihre diese dieser dieses
    """,
    "fr": """
        le la les l un une des du de d et ou mais ne pas que qui quoi dont où ce cet cette ces se s il elle
        ils elles on nous vous je tu son sa ses leur leurs est sont était été être a ont avait avoir dans en
        sur sous par pour avec sans au aux plus comme si
    """,
    "es": """
        el la los las un una unos unas de del al a en y o pero no que quien cual como se su sus lo le les es
        son era fue ser ha han había está están por para con sin sobre entre hasta desde más este esta estos
        estas ese esa también si ya muy
    """,
    "it": """
        il lo la i gli le l un uno una di del della dei delle a al alla ai alle da dal dalla in nel nella su
        sul sulla con per tra fra e ed o ma non che chi cui come si se è sono era ha hanno questo questa
        questi queste più anche suo sua suoi loro
    """,
    "pt": """
        o a os as um uma uns umas de do da dos das em no na nos nas ao à aos às por pelo pela para com sem
        sobre entre até e ou mas não que quem como se seu sua seus suas é são era foi ser tem têm há este esta
        isto mais também já muito
    """,
    "nl": """
        de het een en of maar niet ook als dan dat die dit deze is zijn was waren wordt worden werd heeft
        hebben had kan er hij zij ze we wij ik je u hun haar zich van voor met op aan in uit bij naar over om
        te tot door onder meer nog wel geen
    """,
    "sv": """
        en ett den det de och eller men inte att som är var har hade kan ska om när till från på i av för med
        vid under över efter han hon vi jag du sig sin sina också bara mer
    """,
    "pl": """
        i w na z do że się nie to jest są był była było o a ale oraz lub jak co dla po od za przez przy pod
        nad ten ta te tego tej jego jej ich już tylko także może być
    """,
}
_STOP_WORDS = {"en": ENGLISH_STOP_WORDS} | {code: frozenset(words.split()) for code, words in _FUNCTION_WORDS.items()}


@dataclass(frozen=True)
class Quality:
    """What can be said of a text without reading it. Shares are between 0 and 1."""

    words: int
    """Of unspaced languages: half the characters."""
    mean_word_chars: float | None
    alphabetic_words: float | None
    """Share of words with a letter."""
    stop_words: float | None
    """Share of words that stand in any text of its language; None for a language whose words are not known here."""
    symbol_ratio: float
    """Number signs and ellipses, per word."""
    punctuated_lines: float
    """Share of lines that end like a sentence."""
    duplicate_lines: float
    """Share of lines that are repetitions of another one."""
    link_density: float
    """Share of the characters of the visible text that are in links."""
    boilerplate: float
    """Share of the characters of the visible text that are not in the main text."""
    language_confidence: float
    """How sure the detector is of the language that it finds."""


def quality_of(main_text: str, text_chars: int, language: str, linked_chars: int = 0) -> Quality:
    """The signals of a main text. The visible text has `text_chars` characters, `linked_chars` of them in links."""
    words = main_text.split()
    lines = [line for line in main_text.split("\n") if line]
    spaced = language not in UNSPACED
    count = len(words) if spaced else (len(main_text) - main_text.count(" ") - main_text.count("\n")) // 2
    known = _STOP_WORDS.get(language)
    return Quality(
        words=count,
        mean_word_chars=_share(sum(map(len, words)), len(words), digits=2) if spaced and words else None,
        alphabetic_words=_share(sum(map(_has_letter, words)), len(words)) if spaced and words else None,
        stop_words=_share(sum(word.strip(_WORD_EDGES) in known for word in main_text.lower().split()), len(words))
        if known and words
        else None,
        symbol_ratio=_share(len(_SYMBOLS.findall(main_text)), count),
        punctuated_lines=_share(sum(line.endswith(_ENDS) for line in lines), len(lines)),
        duplicate_lines=_share(len(lines) - len(set(lines)), len(lines)),
        link_density=min(1.0, _share(linked_chars, text_chars)),
        boilerplate=max(0.0, _share(text_chars - len(main_text), text_chars)),
        language_confidence=round(detected_language(main_text[:SAMPLE_CHARS])[1], 4) if words else 0.0,
    )


def _share(part: float, whole: float, digits: int = 4) -> float:
    return round(part / whole, digits) if whole else 0.0


def _has_letter(word: str) -> bool:
    return word.isalpha() or any(map(str.isalpha, word))
