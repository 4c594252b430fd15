"""Feature spaces: each turns what is known about a page into a sparse vector (BINGO 3.4).

Every feature is a 64-bit number. Its range shows its kind, so that spaces can be combined:

    terms        0 ... 2^32 - 1     the hash code of a stem
    anchors      stem + 2^32        a stem in the anchor text of a link to the page
    neighbours   stem + 2 * 2^32    a stem of a page that links here or is linked to
    embeddings   place + 3 * 2^32   a dimension of the mean of a page's word vectors
    encoder      place + 4 * 2^32   a dimension of the vector that a sentence encoder gives a page
    pairs        2^63 and above     two stems that are close together

A space is a plug-in: a class with the attributes and methods of `Space`, registered under the name that the setting
`classify.spaces` uses. Numbers from 16 * 2^32 to 2^63 are free for other packages. Names joined by + are the
combination of those spaces, as in `terms+anchors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from opilio.errors import SettingsError
from opilio.features.anchors import without_stop_phrases
from opilio.features.classifier_input import ClassifierInput
from opilio.registry import Registry
from opilio.settings import ClassifySettings

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.features.classifier_input import Stems

    Ids = npt.NDArray[np.uint64]
    Values = npt.NDArray[np.float64]

ANCHOR = 1 << 32
NEIGHBOUR = 2 << 32
PAIR = 1 << 63
TERMS_END = 1 << 32
"""Lower numbers are plain terms, whose document frequencies in the collection are known."""

MAX_PAIR_WORDS = 5000
"""Words in which pairs are looked for, so that a book does not cost a thousand times as much as a page."""


class Vector(NamedTuple):
    """One page in one space."""

    ids: Ids
    """Feature numbers, ascending and distinct."""
    values: Values
    """Their counts; in a dense space, any real numbers."""


class Space(Protocol):
    """Turns what is known about a page into features. Two spaces use the same number only for the same feature."""

    name: str
    dense: bool
    """Its features are few, and all of them are used: they are neither selected nor weighted."""

    def vector(self, item: ClassifierInput) -> Vector:
        """The features of a page; empty if there are none, so that a classifier abstains."""
        ...  # pragma: no cover

    def names(self, item: ClassifierInput, terms: Mapping[int, str]) -> dict[int, str]:
        """Readable names for the features of this page; `terms` maps hash codes to stems."""
        ...  # pragma: no cover


SPACES: Registry[Callable[[ClassifySettings], Space]] = Registry("spaces")


def make_space(spec: str, settings: ClassifySettings) -> Space:
    """The space called `spec`. The order of the parts of a combination does not matter."""
    parts = {name: SPACES.get(name) for name in map(str.strip, spec.split("+"))}
    ordered = [parts[name](settings) for name in SPACES.in_order(parts)]
    if len(ordered) == 1:
        return ordered[0]
    for space in ordered:
        if space.dense:
            raise SettingsError(
                f"feature space {spec!r}: {space.name} is dense and cannot be combined with others",
                f"List {space.name} as a separate space: all spaces vote anyway.",
            )
    return Combination(ordered)


def vectors_of(spaces: Iterable[Space], item: ClassifierInput) -> list[Vector]:
    """The vectors of a page in some spaces. What several of them combine is counted once."""
    counted_once: dict[str, Vector] = {}

    def of_part(space: Space) -> Vector:
        if space.name not in counted_once:
            counted_once[space.name] = space.vector(item)
        return counted_once[space.name]

    return [
        _union([of_part(part) for part in space.spaces]) if isinstance(space, Combination) else of_part(space)
        for space in spaces
    ]


@SPACES.register("terms")
class TermSpace:
    """Bag of words: each stem of title and text with its count."""

    name = "terms"
    dense = False

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    def vector(self, item: ClassifierInput) -> Vector:
        """The stems, counted."""
        found = counted(item.stems)
        return Vector(found.ids[1:], found.values[1:]) if len(found.ids) and not found.ids[0] else found

    def names(self, item: ClassifierInput, terms: Mapping[int, str]) -> dict[int, str]:
        """Each stem is its own name."""
        return _stem_names(item.stems, terms)


@SPACES.register("pairs")
class Pairs:
    """Two different stems at most `pair_distance` words apart, in either order. Stop words count for the distance."""

    name = "pairs"
    dense = False

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    def vector(self, item: ClassifierInput) -> Vector:
        """The pairs, counted."""
        low, high = self._pairs(item.stems)
        return counted(pair_ids(low, high))

    def names(self, item: ClassifierInput, terms: Mapping[int, str]) -> dict[int, str]:
        """Both stems in alphabetical order: 'data mine'."""
        low, high = self._pairs(item.stems)
        ids, places = np.unique(pair_ids(low, high), return_index=True)
        stems = {stem: _stem_name(stem, terms) for stem in _distinct(item.stems.tolist())}
        ones, others = ([stems[code] for code in codes[places].tolist()] for codes in (low, high))
        return {
            number: f"{one} {other}" if one < other else f"{other} {one}"
            for number, one, other in zip(ids.tolist(), ones, others, strict=True)
        }

    def _pairs(self, stems: Stems) -> tuple[Ids, Ids]:
        """The smaller and the larger hash code of each pair, with repeats."""
        stems = stems[:MAX_PAIR_WORDS]
        low, high = np.zeros((2, self.settings.pair_distance, len(stems)), np.uint32)
        for step in range(1, self.settings.pair_distance + 1):
            np.minimum(stems[:-step], stems[step:], out=low[step - 1, step:])
            np.maximum(stems[:-step], stems[step:], out=high[step - 1, step:])
        pairs = (low != 0) & (low != high)  # without stop words, and words with themselves
        return low[pairs].astype(np.uint64), high[pairs].astype(np.uint64)


@SPACES.register("anchors")
class Anchors:
    """Stems of the anchor texts of links to the page, without stop phrases ('click here')."""

    name = "anchors"
    dense = False

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    def vector(self, item: ClassifierInput) -> Vector:
        """The stems, counted over all links."""
        return _shifted(counted(without_stop_phrases(item.anchors, item.language)), ANCHOR)

    def names(self, item: ClassifierInput, terms: Mapping[int, str]) -> dict[int, str]:
        """The stem with its origin: 'anchor: home'."""
        stems = without_stop_phrases(item.anchors, item.language)
        return _stem_names(stems, terms, ANCHOR, "anchor: ")


@SPACES.register("neighbours")
class Neighbours:
    """Significant stems of neighbour pages. `terms+neighbours` is the vector that BINGO describes."""

    name = "neighbours"
    dense = False

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    def vector(self, item: ClassifierInput) -> Vector:
        """The stems, counted over all neighbours."""
        return _shifted(counted(item.neighbours[item.neighbours > 0]), NEIGHBOUR)

    def names(self, item: ClassifierInput, terms: Mapping[int, str]) -> dict[int, str]:
        """The stem with its origin: 'near: gene'."""
        return _stem_names(item.neighbours, terms, NEIGHBOUR, "near: ")


class Combination:
    """The features of several spaces together."""

    dense = False

    def __init__(self, spaces: Sequence[Space]) -> None:
        self.spaces = spaces
        self.name = "+".join(space.name for space in spaces)

    def vector(self, item: ClassifierInput) -> Vector:
        """The union of all parts; empty only if all of them are."""
        return _union([space.vector(item) for space in self.spaces])

    def names(self, item: ClassifierInput, terms: Mapping[int, str]) -> dict[int, str]:
        """The names of all parts."""
        return {number: name for space in self.spaces for number, name in space.names(item, terms).items()}


def counted(numbers: npt.NDArray[np.unsignedinteger]) -> Vector:
    """A vector of counts from feature numbers in any order and with repeats."""
    if not len(numbers):
        return Vector(np.zeros(0, np.uint64), np.zeros(0))
    ordered = np.sort(numbers)
    is_last = np.ones(len(ordered), bool)  # of the run of a number
    np.not_equal(ordered[1:], ordered[:-1], out=is_last[:-1])
    ends = is_last.nonzero()[0]
    counts = (ends + 1).astype(np.float64)
    counts[1:] -= ends[:-1] + 1
    return Vector(ordered[ends].astype(np.uint64, copy=False), counts)


def pair_ids(low: Ids, high: Ids) -> Ids:
    """The feature numbers of pairs of hash codes, the smaller ones in `low`.

    Two hash codes fill 64 bits, but one bit must mark a pair. Without mixing, all pairs of one stem would collide with
    those of another that differs in that bit; so all 64 bits are mixed first (the finalizer of splitmix64), and two
    given pairs collide with probability 2^-63.
    """
    mixed = low << np.uint64(32) | high
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31) | np.uint64(PAIR)


def _shifted(vector: Vector, kind: int) -> Vector:
    return Vector(vector.ids | np.uint64(kind), vector.values)


def _union(vectors: Iterable[Vector]) -> Vector:
    """The union of vectors; the counts of a feature that several of them have are added."""
    vectors = [vector for vector in vectors if len(vector.ids)]
    if len(vectors) == 1:
        return vectors[0]
    if not vectors:
        return counted(np.zeros(0, np.uint64))
    vectors.sort(key=lambda vector: int(vector.ids[0]))  # enough for kinds of features that do not overlap
    ids = np.concatenate([vector.ids for vector in vectors])
    values = np.concatenate([vector.values for vector in vectors])
    if np.all(ids[1:] > ids[:-1]):  # always, unless plug-ins use overlapping ranges
        return Vector(ids, values)
    distinct, places = np.unique(ids, return_inverse=True)
    return Vector(distinct, np.bincount(places, values).astype(np.float64))


def _stem_names(stems: Stems, terms: Mapping[int, str], kind: int = 0, prefix: str = "") -> dict[int, str]:
    return {stem | kind: prefix + _stem_name(stem, terms) for stem in _distinct(stems.tolist())}


def _distinct(stems: Iterable[int]) -> list[int]:
    return sorted({*stems} - {0})


def _stem_name(stem: int, terms: Mapping[int, str]) -> str:
    return terms.get(stem) or f"#{stem}"
