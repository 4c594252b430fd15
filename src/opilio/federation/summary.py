"""Summaries: what a collection says about itself, so that others can tell whether to ask it.

A summary has the topics of the collection, and for each word how many pages have it and what it adds to their scores.
It is made from the index alone, so that it costs a running crawl nothing. How many pages have a word in their text,
their titles or the links to them is exact. What a word adds to scores is measured on a sample of the pages (on all of
them in a small collection); for a word that is rare in the sample, it is drawn towards what words add on average.

A summary is bounded: it has at most MAX_WORDS words, those that most pages have. The rest is in `PeerSummary.rare`, a
Bloom filter: a word that is not in it is surely in no page, and a word that seems to be in it almost surely is. So no
collection is passed over because a word is rare in it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from opilio.federation.answers import explained
from opilio.federation.peers import PeerSummary, TopicProfile, WordStatistics
from opilio.federation.results import K1, B
from opilio.search.matching import BOOSTS, term_query, words_of
from opilio.topics.tree import OTHERS

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.search.index import IndexReader


BITS_PER_WORD = 10
PROBES = 7  # with 10 bits a word, one in 120 words that are not in the filter seems to be
MAX_BYTES = 2**21
"""Room for 1.7 million words; with more, false positives become more frequent."""


MAX_WORDS = 200_000
SAMPLE_PAGES, SAMPLE_CHARS = 2_000, 30_000_000
"""Pages of the sample; fewer when they are very long."""
MAX_HOSTS = 5_000
PIECE_WORDS = 1_000
PRIOR_PAGES = 4.0
"""What words add on average counts like this many pages of a word's own."""
_MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads oids evenly: the sample does not depend on when a page was found


def make_filter(words: Iterable[str]) -> bytes:
    """A Bloom filter of some words."""
    hashes = np.fromiter((xxhash.xxh3_64_intdigest(word.encode()) for word in words), np.uint64)
    if not len(hashes):
        return b""
    size = min(MAX_BYTES, max(8, len(hashes) * BITS_PER_WORD // 8 + 1))
    flags = np.zeros(size * 8, bool)
    low, high = hashes & np.uint64(0xFFFFFFFF), hashes >> np.uint64(32)
    for probe in range(PROBES):
        flags[(low + np.uint64(probe) * high) % np.uint64(size * 8)] = True
    return np.packbits(flags, bitorder="little").tobytes()


def may_have(packed: bytes, word: str) -> bool:
    """Whether a word may be in a Bloom filter."""
    if not packed:
        return False
    code, bits = xxhash.xxh3_64_intdigest(word.encode()), len(packed) * 8
    low, high = code & 0xFFFFFFFF, code >> 32
    places = ((low + probe * high) % bits for probe in range(PROBES))
    return all(packed[place >> 3] >> (place & 7) & 1 for place in places)


def make_summary(reader: IndexReader, name: str, version: str, topics: list[TopicProfile]) -> PeerSummary:
    """The summary of a collection from its index."""
    columns = reader.columns
    frequencies = _Frequencies(reader)
    kept = sorted(frequencies.pages.items(), key=lambda one: (-one[1], one[0]))
    lengths = {field: _mean_length(reader, field) for field in (*BOOSTS, "title")}
    sample = _Sample(reader, lengths)
    relevance = columns["relevance"]
    facets, cut = _facets(reader)
    return PeerSummary(
        name=name,
        version=version,
        pages=len(columns),
        mean_words=round(lengths["text"], 2),
        topics=topics,
        words={word: sample.statistics(word, frequencies) for word, _ in kept[:MAX_WORDS]},
        rare=make_filter(word for word, _ in kept[MAX_WORDS:]),
        relevance=(round(float(relevance.mean()), 4), round(float(relevance.var()), 4)) if len(columns) else (0.0, 0.0),
        facets=facets,
        cut=cut,
        lengths={field: round(length, 3) for field, length in lengths.items()},
    )


class _Frequencies:
    """How many pages have each stem: in the text, in titles, in what links say, and anywhere."""

    def __init__(self, reader: IndexReader) -> None:
        def terms(field: str) -> list[tuple[str, int]]:
            found: list[tuple[str, int]] = reader.searcher.terms_with_prefix(field, "")
            return found

        most = len(reader.columns)
        self.text, self.titles, self.anchors = (dict(terms(field)) for field in ("stems", "title_stems", "anchor"))
        self.pages = dict(self.text)
        for some in (self.titles, self.anchors):
            self._raise(some.items())
        for field in ("text", "url"):  # as written: several words may have one stem
            words = terms(field)
            for first in range(0, len(words), PIECE_WORDS):
                self._raise(_stemmed(words[first : first + PIECE_WORDS]))
        self.pages = {stem: min(most, count) for stem, count in self.pages.items()}

    def _raise(self, counts: Iterable[tuple[str, int]]) -> None:
        for stem, count in counts:
            if count > self.pages.get(stem, 0):
                self.pages[stem] = count


def _stemmed(words: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The stems of words; all at once if each has one."""
    stems = words_of(" ".join(word for word, _ in words), stems=True)
    if len(stems) == len(words):
        yield from zip(stems, (count for _, count in words), strict=True)
        return
    for word, count in words:
        for stem in words_of(word, stems=True):
            yield stem, count


def _mean_length(reader: IndexReader, field: str) -> float:
    """Words in a field, on average: the index knows, and says so of any page that has a word there."""
    for term, _ in reader.searcher.terms_with_prefix(field, "", limit=1):
        query = term_query(field, term)
        for _, address in reader.searcher.search(query, limit=1, count=False).hits:
            counted = explained(reader.searcher, query, address)
            if counted is not None:
                return counted.mean_length
    return 0.0


class _Sample:
    """What words add to the scores of pages, without their weights."""

    def __init__(self, reader: IndexReader, lengths: dict[str, float]) -> None:
        self._lengths = lengths
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__
        numbers, added = self._look(reader)
        self._pages = np.bincount(numbers, minlength=1)
        self._total = np.bincount(numbers, added, minlength=1)
        self._squares = np.bincount(numbers, added * added, minlength=1)
        self._mean = float(added.mean()) if len(added) else 1.0
        self._variance = max(0.01, float(added.var())) if len(added) else 1.0

    def _look(self, reader: IndexReader) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """For each page of the sample and each word in it: the number of the word, and what it adds."""
        oids = reader.columns["oid"]
        chosen = oids[np.argsort(oids.astype(np.uint64) * _MIX)[:SAMPLE_PAGES]]
        numbers, added = [np.zeros(0, np.int64)], [np.zeros(0)]
        left_chars = SAMPLE_CHARS
        for oid in chosen.tolist():
            address = reader.address("oid", oid)
            if address is None or left_chars < 0:
                continue
            page = reader.packed(address)
            left_chars -= len(page.text)
            own = self._page(page.title, page.text)
            numbers.append(np.array([self._numbers[stem] for stem in own], np.int64))
            added.append(np.array(list(own.values())))
        return np.concatenate(numbers), np.concatenate(added)

    def _page(self, title: str, text: str) -> dict[str, float]:
        """What each word of a page adds."""
        words, in_title = Counter(words_of(text, stems=True)), Counter(words_of(title, stems=True))
        counts = np.fromiter(words.values(), np.float64, len(words))
        shares = (BOOSTS["stems"] + BOOSTS["text"]) * self._share("stems", counts, words.total())
        added = dict(zip(words, shares.tolist(), strict=True))
        for stem, count in in_title.items():
            share = BOOSTS["title_stems"] * self._share("title_stems", np.array([float(count)]), in_title.total())
            added[stem] = added.get(stem, 0.0) + float(share[0])
        return added

    def _share(self, field: str, counts: npt.NDArray[np.float64], length: int) -> npt.NDArray[np.float64]:
        mean = self._lengths[field]
        shares: npt.NDArray[np.float64] = (
            (K1 + 1) * counts / (counts + K1 * (1 - B + B * (length / mean if mean else 1.0)))
        )
        return shares

    def statistics(self, word: str, frequencies: _Frequencies) -> WordStatistics:
        pages = frequencies.pages[word]
        titles, anchors = (min(pages, some.get(word, 0)) for some in (frequencies.titles, frequencies.anchors))
        at = self._numbers.get(word)
        own = (0, 0.0, 0.0) if at is None else (self._pages[at], self._total[at], self._squares[at])
        weight = float(own[0]) + PRIOR_PAGES
        mean = (float(own[1]) + PRIOR_PAGES * self._mean) / weight
        squares = (float(own[2]) + PRIOR_PAGES * (self._variance + self._mean**2)) / weight
        main = min(1.0, max(frequencies.text.get(word, 0), titles) / pages)  # the others have it in their menus only
        mean = main * mean + (1 - main) * BOOSTS["text"]
        squares = main * squares + (1 - main) * BOOSTS["text"] ** 2
        linked = anchors / pages  # what links say adds about its boost, to some of the pages
        variance = squares - mean**2 + linked * (1 - linked) * BOOSTS["anchor"] ** 2
        mean += linked * BOOSTS["anchor"]
        return WordStatistics(pages, round(mean, 4), round(max(0.0001, variance), 4), titles, anchors)


def _facets(reader: IndexReader) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Pages by topic, host, type and language; and which of these are not whole."""
    columns = reader.columns

    def counted(column: str, names: dict[int, str]) -> dict[str, int]:
        values, counts = np.unique(columns[column], return_counts=True)
        pairs = [(names.get(value, ""), count) for value, count in zip(values.tolist(), counts.tolist(), strict=True)]
        return dict(sorted(((name, count) for name, count in pairs if name), key=lambda one: (-one[1], one[0])))

    kcids, counts = np.unique(columns["kcid"], return_counts=True)
    own: dict[int, int] = dict(zip(kcids.tolist(), counts.tolist(), strict=True))
    topics: dict[str, int] = {OTHERS: int(columns.in_others.sum())}
    for topic in columns.topics:
        topics[topic["path"] or topic["name"]] = sum(own.get(kcid, 0) for kcid in columns.subtree(topic["kcid"]))
    hosts = counted("sid", columns.hosts)
    facets = {
        "topic": topics,
        "host": dict(list(hosts.items())[:MAX_HOSTS]),
        "type": counted("kind", _numbered(columns.kinds)),
        "lang": counted("language", _numbered(columns.languages)),
    }
    return facets, ["host"] if len(hosts) > MAX_HOSTS else []


def _numbered(names: list[str]) -> dict[int, Any]:
    return {number: name or "unknown" for number, name in enumerate(names)}
