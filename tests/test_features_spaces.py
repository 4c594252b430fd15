"""Feature spaces: what each one counts, that they never clash, and what people are told of their features."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.analyze.terms import term_ids
from opilio.errors import SettingsError
from opilio.features import SPACES, ClassifierInput, Space, Vector, make_space
from opilio.features.anchors import MAX_ANCHOR_WORDS, anchor_stems, stop_phrases, without_stop_phrases
from opilio.features.spaces import MAX_PAIR_WORDS, pair_ids
from opilio.settings import ClassifySettings

BUILT_IN = ("terms", "pairs", "anchors", "neighbours")

few_stems = st.lists(st.integers(0, 9), max_size=60)
any_stems = st.lists(st.integers(0, 2**32 - 1), max_size=30)
stems = st.one_of(few_stems, any_stems).map(lambda codes: np.array(codes, np.uint32))
items = st.builds(ClassifierInput, stems=stems, anchors=stems, neighbours=stems)
specs = st.lists(st.sampled_from(BUILT_IN), min_size=1, max_size=6).map("+".join)


def space(spec: str, distance: int = 4) -> Space:
    return make_space(spec, ClassifySettings(pair_distance=distance))


def item(*codes: int, **others: list[int]) -> ClassifierInput:
    arrays = {name: np.array(given_codes, np.uint32) for name, given_codes in others.items()}
    return ClassifierInput(stems=np.array(codes, np.uint32), **arrays)


def counts(vector: Vector) -> dict[int, float]:
    return dict(zip(vector.ids.tolist(), vector.values.tolist(), strict=True))


def pair(one: int, other: int) -> int:
    low, high = sorted((one, other))
    return int(pair_ids(np.array([low], np.uint64), np.array([high], np.uint64))[0])


class TestEverySpace:
    @given(items, specs)
    def test_vectors_are_well_formed(self, page: ClassifierInput, spec: str) -> None:
        """Feature numbers ascend and are distinct, every count is a whole number from 1 on, and types are fixed."""
        vector = space(spec).vector(page)
        assert (vector.ids.dtype, vector.values.dtype) == (np.uint64, np.float64)
        assert len(vector.ids) == len(vector.values)
        assert vector.ids.tolist() == sorted(set(vector.ids.tolist()))
        assert all(value >= 1 and value == int(value) for value in vector.values.tolist())

    @given(items, specs)
    def test_every_feature_has_a_name(self, page: ClassifierInput, spec: str) -> None:
        """Names are given for exactly the features of the vector."""
        view = space(spec)
        assert set(view.names(page, {})) == set(view.vector(page).ids.tolist())

    @given(items)
    def test_no_two_spaces_share_a_number(self, page: ClassifierInput) -> None:
        """Features of different kinds never have the same number, whatever the hash codes."""
        numbers = [set(space(name).vector(page).ids.tolist()) for name in BUILT_IN]
        assert len(set().union(*numbers)) == sum(map(len, numbers))

    @pytest.mark.parametrize("spec", [*BUILT_IN, "+".join(BUILT_IN)])
    def test_nothing_to_look_at(self, spec: str) -> None:
        """A page without words, or of stop words alone, has an empty vector: the space abstains."""
        for page in (item(), item(0, 0, anchors=[0], neighbours=[0])):
            assert counts(space(spec).vector(page)) == {}

    @given(items, specs)
    def test_evidence_is_not_changed(self, page: ClassifierInput, spec: str) -> None:
        """ClassifierInput may be looked at by many spaces, and its arrays may be read-only."""
        for array in (page.stems, page.anchors, page.neighbours):
            array.flags.writeable = False
        first, second = space(spec).vector(page), space(spec).vector(page)
        assert counts(first) == counts(second)


class TestTerms:
    @given(stems)
    def test_counts(self, codes: np.ndarray) -> None:
        """Terms are all stems but the zeros, each with its count."""
        expected = Counter(code for code in codes.tolist() if code)
        assert counts(space("terms").vector(ClassifierInput(stems=codes))) == expected

    def test_neighbours(self) -> None:
        """Terms of neighbours are features of their own beside the page's terms."""
        page = item(5, 7, 5, neighbours=[7, 0, 7])
        assert counts(space("terms+neighbours").vector(page)) == {5: 2, 7: 1, (2 << 32) + 7: 2}


class TestPairs:
    @given(stems, st.integers(0, 7))
    def test_against_brute_force(self, codes: np.ndarray, distance: int) -> None:
        """Any two different stems at most `pair_distance` places apart are a pair, zeros in between counting."""
        expected: Counter[int] = Counter()
        words = codes.tolist()
        for at, one in enumerate(words):
            for other in words[at + 1 : at + 1 + distance]:
                if one and other and one != other:
                    expected[pair(one, other)] += 1
        assert counts(space("pairs", distance).vector(ClassifierInput(stems=codes))) == expected

    def test_order_does_not_matter(self) -> None:
        """A pair is the same in either order of its words."""
        view = space("pairs")
        assert counts(view.vector(item(3, 8))) == counts(view.vector(item(8, 3))) == {pair(3, 8): 1}

    def test_distance_counts_stop_words(self) -> None:
        """Words that are no terms keep their place: they push the others apart."""
        assert len(space("pairs", 3).vector(item(3, 0, 0, 8)).ids) == 1
        assert len(space("pairs", 3).vector(item(3, 0, 0, 0, 8)).ids) == 0

    @given(st.sets(st.tuples(st.integers(1, 2**32 - 1), st.integers(1, 2**32 - 1)), max_size=50))
    def test_different_pairs_have_different_numbers(self, pairs: set[tuple[int, int]]) -> None:
        """The numbers of pairs that share a stem, or have their stems the other way round, are told apart."""
        unordered = {tuple(sorted(both)) for both in pairs}
        assert len({pair(*both) for both in unordered}) == len(unordered)

    def test_numbers_are_spread(self) -> None:
        """A hundred thousand pairs of neighbouring hash codes have as many numbers, all with the highest bit set."""
        low, high = np.divmod(np.arange(100_000, dtype=np.uint64), np.uint64(300))
        numbers = pair_ids(low, high + np.uint64(400))
        assert len(np.unique(numbers)) == 100_000
        assert numbers.min() >= 1 << 63

    def test_a_book_is_cut(self) -> None:
        """Only the first words of a very long page are looked at."""
        words = np.arange(1, MAX_PAIR_WORDS + 100, dtype=np.uint32)
        view = space("pairs", 1)
        assert len(view.vector(ClassifierInput(stems=words)).ids) == MAX_PAIR_WORDS - 1


class TestAnchors:
    def test_links_that_say_nothing(self) -> None:
        """Whole links that are stop phrases are left out; the same words in a longer link stay."""
        lines = "Click here\nhome\nRead more...\nNext\n12\npage 3\nThe Home Brewing Page\n\nDownload\nhome"
        stems = anchor_stems(lines)
        assert without_stop_phrases(stems).tolist() == term_ids("home brewing page")
        found = space("anchors").vector(ClassifierInput(stems=np.zeros(0, np.uint32), anchors=stems))
        assert set(found.ids.tolist()) == {code + (1 << 32) for code in term_ids("home brewing page")}

    def test_only_links_that_say_nothing(self) -> None:
        """A page to which only such links lead is one the space cannot judge."""
        page = ClassifierInput(stems=np.zeros(0, np.uint32), anchors=anchor_stems("click here\nhere\nback to top"))
        assert counts(space("anchors").vector(page)) == {}

    @given(
        st.lists(st.sampled_from(["click here", "data mining", "more", "gene", "home page", "next gene"]), max_size=9)
    )
    def test_against_brute_force(self, links: list[str]) -> None:
        """Counts are over all links that say something, one by one."""
        expected: Counter[int] = Counter()
        for link in links:
            if link in ("data mining", "gene", "next gene"):
                expected.update(code + (1 << 32) for code in term_ids(link))
        page = ClassifierInput(stems=np.zeros(0, np.uint32), anchors=anchor_stems("\n".join(links)))
        assert counts(space("anchors").vector(page)) == expected

    def test_by_language(self) -> None:
        """Stop phrases are those of the page's language, stemmed by its rules, and the English ones everywhere."""
        lines = "Hier klicken\nnächste Seite\nHomepage\nDie Häuser der Stadt"
        assert without_stop_phrases(anchor_stems(lines, "de"), "de").tolist() == term_ids("die häuser der stadt", "de")
        assert len(without_stop_phrases(anchor_stems(lines, "en"), "en")) > len(term_ids("die häuser der stadt", "en"))

    def test_separators(self) -> None:
        """Links are separated by one zero, links without terms leave no trace, and a phrase never spans two links."""
        assert anchor_stems("the\ngene\n\ncell").tolist() == [*term_ids("gene"), 0, *term_ids("cell")]
        assert anchor_stems("").tolist() == []
        assert without_stop_phrases(anchor_stems("shopping\ncart")).tolist() == term_ids("shopping")

    def test_no_phrase_is_empty(self) -> None:
        """Phrases of stop words alone are nothing to compare with."""
        assert all(stop_phrases(language) and () not in stop_phrases(language) for language in ("", "en", "de", "xx"))

    def test_a_million_links(self) -> None:
        """A page that everybody links to costs no more than one that many link to."""
        stems = np.tile(np.array([7, 0], np.uint32), 1_000_000)
        page = ClassifierInput(stems=stems[:0], anchors=stems)
        assert counts(space("anchors").vector(page)) == {(1 << 32) + 7: MAX_ANCHOR_WORDS / 2}


class TestCombinations:
    @given(items, st.sets(st.sampled_from(BUILT_IN), min_size=1), st.randoms())
    def test_is_the_union(self, page: ClassifierInput, names: set[str], random) -> None:
        """A combination has the features and names of its parts and no others, in any order and with repeats."""
        shuffled = [*names, next(iter(names))]
        random.shuffle(shuffled)
        together = space(" + ".join(shuffled))
        parts = [space(name) for name in names]
        expected = {number: count for part in parts for number, count in counts(part.vector(page)).items()}
        assert counts(together.vector(page)) == expected
        assert together.names(page, {}) == {n: name for part in parts for n, name in part.names(page, {}).items()}

    @pytest.mark.parametrize("spec", ["terms+anchors", "anchors+terms", " anchors + terms ", "terms+anchors+terms"])
    def test_one_name(self, spec: str) -> None:
        """However it is written, the same combination has the same name: votes are filed under it."""
        assert space(spec).name == "terms+anchors"

    def test_single_part(self) -> None:
        """A space combined with itself is that space."""
        assert space("terms+terms").name == "terms"

    @pytest.mark.parametrize(
        ("spec", "near"), [("tems", "terms"), ("terms+anchor", "anchors"), ("pair+terms", "pairs")]
    )
    def test_unknown_name(self, spec: str, near: str) -> None:
        """An unknown part is refused with the nearest known name."""
        with pytest.raises(SettingsError) as caught:
            space(spec)
        assert repr(near) in caught.value.hint

    @pytest.mark.parametrize("spec", ["", "terms+", "+"])
    def test_missing_name(self, spec: str) -> None:
        """A plus sign with nothing beside it is an error, not a smaller space."""
        with pytest.raises(SettingsError):
            space(spec)


class _Plugin:
    """A third-party space whose numbers lie between and upon those of others."""

    name = "odd"
    dense = False

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    def vector(self, item: ClassifierInput) -> Vector:
        return Vector(np.array([1, 5, 1 << 40], np.uint64), np.array([10.0, 20.0, 30.0]))

    def names(self, item: ClassifierInput, terms: Mapping[int, str]) -> dict[int, str]:
        return {1: "one", 5: "five", 1 << 40: "many"}


@pytest.fixture
def plugins() -> Iterator[None]:
    """Registers a sparse and a dense space of others for one test."""
    dense = type("Dense", (_Plugin,), {"name": "solid", "dense": True})
    SPACES.register("odd")(_Plugin)
    SPACES.register("solid")(dense)
    yield
    for name in ("odd", "solid"):
        del SPACES._factories[name]


@pytest.mark.usefixtures("plugins")
class TestPlugins:
    def test_numbers_between_those_of_others(self) -> None:
        """A combination stays in order, and features that two spaces share are counted once, with the sum."""
        found = space("odd+terms").vector(item(3, 5))
        assert found.ids.tolist() == [1, 3, 5, 1 << 40]
        assert found.values.tolist() == [10, 1, 21, 30]

    def test_dense_stands_alone(self) -> None:
        """A dense space is used alone; in a combination it is refused by its name."""
        assert space("solid").dense
        with pytest.raises(SettingsError, match="solid is dense"):
            space("terms+solid")


class TestNames:
    TERMS = {5: "mine", 7: "data", 8: "gene"}

    def test_readable(self) -> None:
        """A person can read of which kind a feature is and which stems made it."""
        page = item(5, 7, anchors=[8], neighbours=[8])
        assert space("terms+pairs+anchors+neighbours").names(page, self.TERMS) == {
            5: "mine",
            7: "data",
            pair(5, 7): "data mine",
            (1 << 32) + 8: "anchor: gene",
            (2 << 32) + 8: "near: gene",
        }

    def test_unknown_stem(self) -> None:
        """A stem that the lexicon does not know is shown as its number."""
        assert space("terms+pairs").names(item(5, 9), self.TERMS) == {5: "mine", 9: "#9", pair(5, 9): "#9 mine"}

    @settings(max_examples=20)
    @given(items)
    def test_stop_phrases_have_no_names(self, page: ClassifierInput) -> None:
        """Names of anchors are those of the links that were kept."""
        view = space("anchors")
        assert all(name.startswith("anchor: ") for name in view.names(page, {}).values())


def test_judging_needs_numpy_alone() -> None:
    """Importing the package loads neither scipy nor scikit-learn: a worker must start quickly."""
    code = "import sys, opilio.features; print([m for m in sys.modules if m in ('scipy', 'sklearn')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
