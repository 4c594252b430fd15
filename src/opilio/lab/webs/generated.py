"""A labelled web that this code makes up: the same on every machine, byte for byte, so that figures can be pinned.

Corpora are not at hand everywhere, and the local web is made of the installed Python, which differs. This one needs
nothing. It is made to be like webs in what matters to a focused crawler: pages of a topic use its words, mostly link to
pages that are not of it but to their own topic far more often than chance would; some pages that have no label list
many of one; topics share words with the next one, and most pages are about nothing wanted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from opilio.lab.webs.recorded import RecordedWeb
from opilio.lab.webs.recording import RecordedAnswer, head_of, recording

NAME = "made"
TOPICS = 12
PAGES_OF_TOPIC = 40
OTHER_PAGES = 900
HOSTS = 20
TOPIC_WORDS = 40
COMMON_WORDS = 600
WORDS_OF_PAGE = 120
LINKS_OF_PAGE = 12
LIST_EVERY = 30  # of the other pages, one is a list of one topic's pages
LINKS_OF_LIST = 10
OWN_WORDS_SHARE = 0.12
SHARED_WORDS_SHARE = 0.06  # of a page: words of the next topic
OWN_LINKS_SHARE = 0.25
STRAY_WORDS_SHARE = 0.02  # of any page: words of any topic
_HEAD = head_of(200, [("Content-Type", "text/html; charset=utf-8")])
_ONSETS = (*"bdfgklmnprstvz", "br", "dr", "gl", "kr", "pl", "st", "tr")
_VOWELS = "aeiou"
_ENDS = ("", "n", "r", "l", "m")


class _Page(NamedTuple):
    url: str
    topic: int
    """-1 for none."""
    lists: int
    """The topic whose pages it lists, -1 for none."""


class _Lot:
    """Draws by lot. Only `random()` of the generator is used: its numbers are promised to stay as they are."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, count: int) -> int:
        return int(self._random.random() * count)

    def happens(self, share: float) -> bool:
        return self._random.random() < share

    def one_of(self, things: Sequence[str]) -> str:
        """The first ones more often, as words are used."""
        return things[int(len(things) * self._random.random() ** 2)]

    def word(self) -> str:
        syllables = [
            _ONSETS[self.below(len(_ONSETS))] + _VOWELS[self.below(len(_VOWELS))] + _ENDS[self.below(len(_ENDS))]
            for _ in range(2 + self.below(2))
        ]
        return "".join(syllables)

    def words(self, count: int, known: set[str]) -> list[str]:
        """New words."""
        found: list[str] = []
        while len(found) < count:
            word = self.word()
            if word not in known:
                known.add(word)
                found.append(word)
        return found


def make_web(folder: Path, seed: int = 0) -> RecordedWeb:
    """Make the web of a seed and record it in `folder`."""
    with recording(folder) as recorder:
        for answer in _answers(_Lot(seed)):
            recorder.add(answer)
        return recorder.finish([f"made up, seed {seed}"])


def _answers(lot: _Lot) -> Iterator[RecordedAnswer]:
    known: set[str] = set()
    common = lot.words(COMMON_WORDS, known)
    vocabularies = [lot.words(TOPIC_WORDS, known) for _ in range(TOPICS)]
    pages = [_Page(_url(n), n // PAGES_OF_TOPIC, -1) for n in range(TOPICS * PAGES_OF_TOPIC)]
    pages += [
        _Page(_url(n), -1, n // LIST_EVERY % TOPICS if n % LIST_EVERY == 0 else -1)
        for n in range(len(pages), len(pages) + OTHER_PAGES)
    ]
    for page in pages:
        words = [_word(lot, page, common, vocabularies) for _ in range(WORDS_OF_PAGE)]
        links = dict.fromkeys(_link(lot, page, pages) for _ in range(LINKS_OF_PAGE))
        if page.lists >= 0:
            first = page.lists * PAGES_OF_TOPIC
            links |= dict.fromkeys(first + lot.below(PAGES_OF_TOPIC) for _ in range(LINKS_OF_LIST))
        anchors = "\n".join(
            f'<li><a href="{pages[to].url}">{_word(lot, pages[to], common, vocabularies)} {lot.one_of(common)}</a>'
            for to in links
            if pages[to] is not page
        )
        title = f"{words[0]} {words[1]}".capitalize()
        body = f"<p>{' '.join(words)}.</p><ul>{anchors}</ul>"
        html = f'<!doctype html><html lang="en"><title>{title}</title>{body}</html>'
        yield RecordedAnswer(page.url, _HEAD, html.encode(), (vocabularies[page.topic][0],) if page.topic >= 0 else ())


def _url(n: int) -> str:
    return f"http://h{n * 7 % HOSTS:02}.made.test/{n}"


def _word(lot: _Lot, page: _Page, common: list[str], vocabularies: list[list[str]]) -> str:
    about = page.topic if page.topic >= 0 else page.lists
    if about >= 0 and lot.happens(OWN_WORDS_SHARE):
        return lot.one_of(vocabularies[about])
    if about >= 0 and lot.happens(SHARED_WORDS_SHARE):
        return lot.one_of(vocabularies[(about + 1) % TOPICS])
    if lot.happens(STRAY_WORDS_SHARE):
        return lot.one_of(vocabularies[lot.below(TOPICS)])
    return lot.one_of(common)


def _link(lot: _Lot, page: _Page, pages: list[_Page]) -> int:
    if page.topic >= 0 and lot.happens(OWN_LINKS_SHARE):
        return page.topic * PAGES_OF_TOPIC + lot.below(PAGES_OF_TOPIC)
    return lot.below(len(pages))
