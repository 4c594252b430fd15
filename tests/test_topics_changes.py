"""Changes to the topics of a collection: what was true before is true after, or nothing has happened."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.errors import InputError
from opilio.topics import (
    Change,
    ExampleKind,
    Mark,
    TopicRecord,
    TopicTree,
    TrainingInput,
    add_example,
    add_topic,
    describe_marks,
    drop_example,
    find_topic,
    hierarchy_of,
    mark_topic,
    merge_tree,
    records_of,
)
from opilio.topics.tree import OTHERS


def records(*paths: str, good: tuple[str, ...] = ()) -> list[TopicRecord]:
    """A collection with these topics."""
    tree = TopicTree("all")
    for path in paths:
        topic = tree.topic(tuple(path.split(" / ")))
        topic.good = True if path in good else None
    return records_of(tree)


FINANCE = records("Money / Investment / Funds", "Money / Banks", "Sport", good=("Money / Investment / Funds",))


def marks(topics: list[TopicRecord]) -> dict[str, str]:
    return {record.path: record.type for record in topics}


def test_marking_an_ancestor_covers_what_was_good_below_it() -> None:
    """Focus 3.7: one change, marking an ancestor good, widens a crawl that stagnates; below it all is subsumed."""
    after = mark_topic(FINANCE, "Money / Investment", good=True).applied_to(FINANCE)
    assert marks(after) == {
        "": "path", "Money": "path", "Money / Investment": "good", "Money / Investment / Funds": "subsumed",
        "Money / Banks": "null", "Sport": "null",
    }  # fmt: skip
    back = mark_topic(after, "Money / Banks", good=True).applied_to(after)
    assert (
        marks(mark_topic(back, "Money / Investment", good=False).applied_to(back))["Money / Investment / Funds"]
        == "null"
    )


def test_marks_narrow_in_one_step() -> None:
    """A topic below the only good one becomes good in its place: the upper one is path, the others below it null."""
    wide = mark_topic(FINANCE, "Money", good=True).applied_to(FINANCE)
    change = mark_topic(wide, "Money / Investment", good=True)
    assert marks(change.applied_to(wide)) == {
        "": "path", "Money": "path", "Money / Investment": "good", "Money / Investment / Funds": "subsumed",
        "Money / Banks": "null", "Sport": "null",
    }  # fmt: skip
    assert describe_marks({record.path: record.type for record in change.changed}) == (
        "'Money / Investment' is wanted now; 'Money' is only on the way to a wanted topic now; "
        "'Money / Banks' is not wanted now"
    )
    assert describe_marks({}) == ""
    many = describe_marks({f"t{n}": "null" for n in range(7)})
    assert many == "'t0', 't1', 't2', 't3', 't4' and 2 more are not wanted now"


def test_a_part_of_a_good_topic_is_left_out_in_one_step() -> None:
    """Marking a subsumed topic null keeps all the rest that was wanted; a path topic takes the good ones with it."""
    wide = mark_topic(FINANCE, "Money", good=True).applied_to(FINANCE)
    without = mark_topic(wide, "Money / Investment / Funds", good=False)
    with pytest.raises(InputError, match="no topic would be good"):
        mark_topic(records("A", "A / B"), "A / B", good=False)
    after = without.applied_to(wide)
    assert {path for path, mark in marks(after).items() if mark == "good"} == {"Money / Banks"}
    assert marks(after)["Money"] == "path"
    both = mark_topic(FINANCE, "Sport", good=True).applied_to(FINANCE)
    assert marks(mark_topic(both, "Money", good=False).applied_to(both)) == {
        "": "path", "Money": "null", "Money / Investment": "null", "Money / Investment / Funds": "null",
        "Money / Banks": "null", "Sport": "good",
    }  # fmt: skip


@given(st.integers(0, 5), st.booleans(), st.integers(0, 5), st.booleans())
def test_no_mark_is_ever_in_the_way(first: int, good: bool, second: int, then: bool) -> None:
    """Whatever is marked, one more step makes any topic but the root good, and any null that is not the last."""
    topics = list(FINANCE)
    for number, wish in ((first, good), (second, then)):
        path = topics[number].path
        try:
            topics = mark_topic(topics, path, good=wish).applied_to(topics)
        except InputError as error:
            assert "no topic would be good" in error.message or "root cannot" in error.message
            continue
        now = marks(topics)[path]
        assert now == "good" if wish else now == "null"


def test_only_what_changes_is_given_back() -> None:
    """A mark changes the rows it must, and marking again changes none."""
    change = mark_topic(FINANCE, "Sport", good=True)
    assert [(record.path, record.type) for record in change.changed] == [("Sport", "good")]
    assert mark_topic(change.applied_to(FINANCE), "Sport", good=True) == Change(())
    assert mark_topic(FINANCE, "Sport", good=False) == Change(())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: mark_topic(r, "Money", good=False), "no topic would be good"),
        (lambda r: mark_topic(r, "Money / Investment / Funds", good=False), "no topic would be good"),
        (lambda r: mark_topic(r, "", good=True), "the root cannot be good"),
        (lambda r: mark_topic(r, "Sprot", good=True), "no topic 'Sprot'"),
        (lambda r: add_topic(r, "Money", "Banks"), "topic 'Money / Banks' already exists"),
        (lambda r: add_topic(r, "Money", OTHERS), "can be called OTHERS"),
        (lambda r: add_topic(r, "Money", " \n"), "has no name"),
        (lambda r: add_topic(r, "Money / Investment / Funds", "Bonds", good=True), "cannot be good"),
    ],
)  # fmt: skip
def test_refused(change: Callable[[list[TopicRecord]], Change], message: str) -> None:
    """What would leave a tree that makes no sense is refused, and says why."""
    with pytest.raises(InputError) as caught:
        change(list(FINANCE))
    assert message in caught.value.message
    assert caught.value.hint


def test_find_topic() -> None:
    """Paths are found as written, or but for case and spaces around slashes; else the nearest is named."""
    topics = records("Birds / Owls", "birds", "Input/Output / Disks", "A / B", "C / B")
    assert find_topic(topics, "Birds / Owls").path == find_topic(topics, " birds/OWLS ").path == "Birds / Owls"
    assert find_topic(topics, "Birds").path == "Birds"
    assert find_topic(topics, "input / output/disks").path == "Input/Output / Disks"
    assert find_topic(topics, "").kcid == find_topic(topics, "/").kcid == find_topic(topics, "All").kcid == 0
    for wrong, hint in (("Birds / Owl", "'Birds / Owls'"), ("Owls", "'Birds / Owls'"), ("Disk", "'Input/Output / Disks'"),
                        ("b", "'A / B', 'C / B'"), ("xyzzy", "There are 'Birds'")):  # fmt: skip
        with pytest.raises(InputError) as caught:
            find_topic(topics, wrong)
        assert hint in caught.value.hint
    with pytest.raises(InputError, match="is ambiguous"):
        find_topic(topics, "BIRDS")
    with pytest.raises(InputError) as caught:
        find_topic(records(), "Owls")
    assert "no topics except its root" in caught.value.hint


def test_a_lone_root_hands_its_mark_on() -> None:
    """The first topic of a tree that was only a root is good in the place of the root."""
    alone = records()
    assert marks(alone) == {"": "good"}
    change = add_topic(alone, "", "Owls", first_kcid=7)
    one = change.applied_to(alone)
    assert marks(one) == {"": "path", "Owls": "good"}
    assert one[1].kcid == 7
    assert one[1].keywords == ["owls"]


def test_trees_too_deep_are_refused() -> None:
    """No chain of topics grows past the limit."""
    topics = records(" / ".join("a" * 30))
    with pytest.raises(InputError, match="levels of topics"):
        add_topic(topics, " / ".join("a" * 30), "a")


def test_merge() -> None:
    """Topics of the same path are one; new ones get free numbers, and become good as the tree says or by default."""
    tree = TopicTree()
    tree.topic(("Sport", "Chess"))
    tree.topic(("Music",))
    merge = merge_tree(FINANCE, tree, first_kcid=40)
    after = merge.change.applied_to(FINANCE)
    assert merge.numbers == {0: 0, 1: find_topic(FINANCE, "Sport").kcid, 2: 40, 3: 41}
    assert marks(after) == {**marks(FINANCE), "Sport / Chess": "null", "Music": "good"}
    tree.topics[2].good = True
    assert marks(merge_tree(FINANCE, tree).change.applied_to(FINANCE)) == {
        **marks(FINANCE), "Sport": "path", "Sport / Chess": "good", "Music": "null",
    }  # fmt: skip
    below = TopicTree()
    below.topic(("Money", "Investment", "Funds", "Hedge")).good = True
    with pytest.raises(InputError, match="cannot be good"):
        merge_tree(FINANCE, below)
    assert merge_tree(FINANCE, TopicTree()).change == Change(())
    assert merge_tree([], tree).change.applied_to([]) == records_of(tree)
    alone = records()
    assert marks(merge_tree(alone, tree).change.applied_to(alone))["Sport / Chess"] == "good"


def test_one_update_in_sql_suffices() -> None:
    """Marks of other topics are worked out anew from the good ones, whatever the table says of them."""
    edited = [
        record._replace(type="good") if record.path == "Sport" else record._replace(type=record.type)
        for record in FINANCE
    ]
    edited = [record._replace(type="null") if record.type == "path" else record for record in edited]
    hierarchy = hierarchy_of(edited)
    assert hierarchy.nodes[0].mark is Mark.PATH
    assert {hierarchy.nodes[kcid].path for kcid in hierarchy.good} == {"Sport", "Money / Investment / Funds"}


NAMES = st.sampled_from(["a", "b", "c/d", "E", OTHERS, ""])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["mark", "null", "add"]),
        st.integers(0, 9),
        st.integers(0, 9),
        NAMES,
    ),
    max_size=25,
)


def step(topics: list[TopicRecord], kind: str, first: int, second: int, name: str) -> Change:
    path = topics[first % len(topics)].path
    if kind == "add":
        return add_topic(topics, path, name, good=bool(second % 2))
    return mark_topic(topics, path, good=kind == "mark")


@settings(max_examples=150)
@given(STEPS)
def test_any_row_of_changes_keeps_the_tree_whole(steps: list[tuple[str, int, int, str]]) -> None:
    """After any changes, refused ones included: paths are unique and true, and marks are what Focus says they are."""
    topics = records()
    for kind, first, second, name in steps:
        before = list(topics)
        try:
            topics = step(topics, kind, first, second, name).applied_to(topics)
        except InputError:
            assert topics == before
    by_kcid = {record.kcid: record for record in topics}
    assert len({record.path for record in topics}) == len(topics)
    good = {record.kcid for record in topics if record.type == "good"}
    assert good
    for record in topics:
        above, line = record.pcid, []
        while above is not None:
            line.append(above)
            above = by_kcid[above].pcid
        assert record.path == " / ".join(by_kcid[kcid].name for kcid in reversed([record.kcid, *line]) if kcid)
        assert record.name != OTHERS
        below_good = bool(good & set(line))
        above_good = any(record.kcid in _line(by_kcid, kcid) for kcid in good)
        expected = "good" if record.kcid in good else "subsumed" if below_good else "path" if above_good else "null"
        assert record.type == expected
        assert not (below_good and record.kcid in good)


def _line(by_kcid: dict[int, TopicRecord], kcid: int) -> set[int]:
    above, line = by_kcid[kcid].pcid, set()
    while above is not None:
        line.add(above)
        above = by_kcid[above].pcid
    return line


def test_examples_are_added_turned_and_dropped() -> None:
    """The same document in the same topic stands once; a no takes the place of a yes; a slip is answered with the nearest."""
    one = TrainingInput(1, ExampleKind.URL, "https://a.example/owls")
    two = TrainingInput(2, ExampleKind.URL, "https://a.example/owls")
    both = add_example(add_example([], one), two)
    assert add_example(both, one) == both == [one, two]
    turned = TrainingInput(1, ExampleKind.URL, "https://a.example/owls", positive=False)
    assert add_example(both, turned) == [two, turned]
    assert drop_example(both, 1, "https://a.example/owls") == [two]
    with pytest.raises(InputError) as caught:
        drop_example(both, 1, "https://a.example/owl")
    assert "Did you mean 'https://a.example/owls'" in caught.value.hint
