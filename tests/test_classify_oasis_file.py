"""The expert's file: written to be edited, read with clear words about what is wrong."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.classify import Example, TrainingSet
from opilio.classify.oasis import OasisFilter
from opilio.classify.oasis_filter import Element, FilterProposal, proposals, read_filter, write_proposal
from opilio.errors import InputError
from opilio.features.classifier_input import TextReader
from opilio.settings import OasisSettings, Settings
from opilio.topics.hierarchy import Hierarchy, Mark, Node

READER = TextReader()
TEXTS = (
    "Binary search trees are data structures. Databases use balanced binary search trees, and uses of trees are many.",
    "Data structures: binary search trees, uses of databases; a balanced binary search tree is a data structure.",
    "Balanced trees. Binary search trees. Databases have uses for data structures.",
)
HIERARCHY = Hierarchy(
    [
        Node(0, -1, "everything", "", Mark.PATH),
        Node(1, 0, "computing", "computing", Mark.PATH),
        Node(2, 1, 'the "best" trees', 'computing / the "best" trees', Mark.GOOD),
        Node(3, 0, "gardening", "gardening", Mark.NULL),
    ]
)
TREES = 'computing / the \\"best\\" trees'


def training(*, named: bool = True) -> TrainingSet:
    examples = tuple(Example(2, READER.read("", text, "en")) for text in TEXTS)
    return TrainingSet(HIERARCHY, examples, terms=dict(READER.terms) if named else {})


def read(path: Path) -> dict[int, FilterProposal]:
    return read_filter(path, HIERARCHY, READER.terms, {2: "en"})


def with_filter(path: Path) -> Settings:
    return dataclasses.replace(Settings(), oasis=OasisSettings(filter=str(path)))


@pytest.mark.parametrize("named", [True, False])
def test_an_untouched_proposal_is_read_back_as_it_was(tmp_path: Path, named: bool) -> None:
    """Stems, frequencies and order survive the file, also stems that stemming again would change."""
    file = tmp_path / "filter.toml"
    found = proposals(training(named=named), OasisSettings())
    write_proposal(file, found, HIERARCHY)
    back = read(file)[2]
    for size in (1, 2, 3):
        written = {element.stems: element.frequency for element in found[0].of_size(size)}
        assert {element.stems: element.frequency for element in back.of_size(size)} == written
    assert "databas" in {element.words for element in back.terms}
    assert "binari search tree" in {element.words for element in back.triples}


def test_the_file_is_made_for_people(tmp_path: Path) -> None:
    """It says what to do, and in how many documents each element was found."""
    file = tmp_path / "filter.toml"
    write_proposal(file, proposals(training(), OasisSettings()), HIERARCHY)
    text = file.read_text()
    assert text.startswith("# ")
    assert '"binari search tree" = 5    # in 3 of 3 documents' in text


def test_what_the_expert_changes_changes_the_filter(tmp_path: Path) -> None:
    """A line deleted drops an element; one added, in whole words, adds its stems; frequencies weigh."""
    file = tmp_path / "filter.toml"
    write_proposal(file, proposals(training(), OasisSettings()), HIERARCHY)
    lines = [line for line in file.read_text().splitlines() if not line.startswith('"databas"')]
    at = lines.index(f'["{TREES}".pairs]')
    lines.insert(at + 1, '"Indexing Structures" = 900')
    file.write_text("\n".join(lines))
    judge = OasisFilter.train(training(), with_filter(file))
    elements = judge.filters[0].elements
    assert "databas" not in {element.words for element in elements.terms}
    assert elements.pairs[0].stems == tuple(READER.stems("indexing structures", "en").tolist())
    assert elements.pairs[0].words == "indexing structures"
    assert judge.judge(training().examples[0].item).accepted


def test_a_class_left_out_is_empty(tmp_path: Path) -> None:
    """A file with terms only makes a filter whose collocation metric abstains."""
    file = tmp_path / "filter.toml"
    file.write_text(f'["{TREES}".terms]\ntrees = 3\ndatabases = 1\n')
    judge = OasisFilter.train(training(), with_filter(file))
    judgement = judge.judge(training().examples[0].item)
    assert set(judgement.votes) == {"terms", "vector", "passages"}


def test_two_spellings_of_one_element_are_one(tmp_path: Path) -> None:
    """Lines that come to the same stems count once, with the larger frequency."""
    file = tmp_path / "filter.toml"
    file.write_text(f'["{TREES}".terms]\ntree = 3\ntrees = 8\nTREES = 5\n')
    (element,) = read(file)[2].terms
    assert element.frequency == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("[", "not valid TOML"),
        ('["gardenin".terms]\ntree = 1', "unknown topic 'gardenin'"),
        ("gardening = 1", "is not a table"),
        ("[gardening]\nterms = 3", "is not a table"),
        ("[gardening.words]\ntree = 1", "unknown class"),
        ("[gardening.terms]", "contains no element"),
        ("[gardening.terms]\nthe = 1", "'the' is not a term"),
        ('[gardening.terms]\n"" = 1', "has 0 words, not 1"),
        ('[gardening.terms]\n"..." = 1', "is not a term"),
        ('[gardening.terms]\n"two words" = 1', "has 2 words, not 1"),
        ("[gardening.pairs]\ntree = 1", "has 1 words, not 2"),
        ('[gardening.pairs]\n"tree of" = 1', "'of' is not a term"),
        ("[gardening.terms]\ntree = 0", "no usable frequency"),
        ("[gardening.terms]\ntree = 1.5", "no usable frequency"),
        ("[gardening.terms]\ntree = true", "no usable frequency"),
        ('[gardening.terms]\ntree = "often"', "no usable frequency"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    """Each mistake is an InputError that names the file, the place and the next step."""
    file = tmp_path / "filter.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        read(file)
    assert str(file) in raised.value.message
    assert raised.value.hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are no text are errors of the input, not crashes."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing", ".", "binary"):
        with pytest.raises(InputError):
            read(tmp_path / name)
    with pytest.raises(InputError, match="cannot be written"):
        write_proposal(tmp_path, [], HIERARCHY)


def test_a_filter_without_examples_is_refused(tmp_path: Path) -> None:
    """Thresholds need a core: a topic that only the file knows is an error that names it."""
    file = tmp_path / "filter.toml"
    file.write_text("[gardening.terms]\nspade = 1")
    with pytest.raises(InputError, match="'gardening' has a filter but no examples"):
        OasisFilter.train(training(), with_filter(file))


def test_a_filter_that_no_example_fits_is_refused(tmp_path: Path) -> None:
    """When the expert's words are in none of the examples no threshold can be tuned."""
    file = tmp_path / "filter.toml"
    file.write_text(f'["{TREES}".terms]\nspade = 1')
    with pytest.raises(InputError, match="none of the words of its filter"):
        OasisFilter.train(training(), with_filter(file))


@given(st.text(max_size=20), st.text(alphabet=st.characters(codec="utf-8"), max_size=20))
def test_any_name_of_a_topic_survives_the_file(tmp_path_factory: pytest.TempPathFactory, name: str, other: str) -> None:
    """Quotes, line breaks and control characters in names of topics are written so that they are read back."""
    file = tmp_path_factory.mktemp("names") / "filter.toml"
    hierarchy = Hierarchy([Node(0, -1, "", "", Mark.PATH), Node(5, 0, name, f"{name} / {other}", Mark.GOOD)])
    chosen = FilterProposal(5, 1, (Element((4711,), "#4711", 2, 1),), (), ())
    write_proposal(file, [chosen], hierarchy)
    assert read_filter(file, hierarchy, {}, {})[5].terms[0].stems == (4711,)
