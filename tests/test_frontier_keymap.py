"""The hash table behind the known URLs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opilio.frontier import ABSENT, KeyMap, RecentKeys

KEYS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 40), max_size=80, unique=True)


@given(st.lists(KEYS, max_size=20))
def test_agrees_with_a_dict(rounds: list[list[int]]) -> None:
    """Whatever is asked and set in bulk, the answers are those of a dict, through growth and collisions."""
    table, oracle = KeyMap(), {}
    for asked in rounds:
        keys = [key for key in asked if key != 0 or 1 not in oracle]
        array = np.array(keys, dtype=np.uint64)
        values = table.get_many(array)
        assert values.tolist() == [oracle.get(key or 1, ABSENT) for key in keys]
        new = [key for key, value in zip(keys, values.tolist(), strict=True) if value == ABSENT]
        new = [key for key in new if not (key == 0 and 1 in new)]
        numbers = np.arange(len(oracle), len(oracle) + len(new))
        table.set_many(np.array(new, dtype=np.uint64), numbers)
        oracle.update(zip([key or 1 for key in new], numbers.tolist(), strict=True))
        assert len(table) == len(oracle)
        for key in keys:
            assert table.get(key) == oracle.get(key or 1, ABSENT)


def test_keeps_its_entries_while_it_grows() -> None:
    """Two hundred thousand entries set one by one and in bulk are all found again."""
    rng = np.random.default_rng(0)
    keys = rng.integers(1, 2**63, 200_000).astype(np.uint64)
    table = KeyMap()
    for index in range(1000):
        table.set(int(keys[index]), index)
    table.set_many(keys[1000:], np.arange(1000, len(keys)))
    assert (table.get_many(keys) == np.arange(len(keys))).all()
    assert (table.get_many(keys ^ np.uint64(1 << 63)) == ABSENT).all()
    assert table.nbytes < 45 * len(keys)


@given(st.lists(st.integers(1, 60), max_size=200), st.integers(1, 20))
def test_a_small_dict_in_front_changes_nothing(keys: list[int], max_recent: int) -> None:
    """Whatever was met lately and forgotten again, the answers are those of a dict."""
    known, oracle = RecentKeys(max_recent), {}
    for key in keys:
        assert known.get(key) == oracle.get(key, ABSENT)
        if key not in oracle:
            oracle[key] = len(oracle)
            known.set(key, oracle[key])
    assert known.get_list(list(range(1, 70))) == [oracle.get(key, ABSENT) for key in range(1, 70)]
    assert len(known) == len(oracle)


def test_the_first_value_stays() -> None:
    """`add` leaves a key that is there alone, also when its slot was taken by another and after the table has grown."""
    table = KeyMap()
    for key in range(1, 3000):
        table.add(key << 20, key)  # all want the same slot
        table.add(key << 20, key + 1)
    assert len(table) == 2999
    assert all(table.get(key << 20) == key for key in range(1, 3000, 37))
