"""Columns of Arrow made of arrays of numpy."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.store import arrow

CODES = ("i1", "i2", "i4", "i8", "u2", "u4", "u8", "f4", "f8", "?")


@pytest.mark.parametrize("code", CODES)
@given(raw=st.lists(st.integers(0, 100), max_size=40), step=st.integers(1, 3))
def test_a_column_holds_what_pyarrow_would_make_of_it(code: str, raw: list[int], step: int) -> None:
    """Numbers and flags of every type that we store, also where the array skips some, have pyarrow's type and value."""
    values = np.array(raw, code)[::step]
    assert arrow.numbers(values).equals(pa.array(values))


@given(st.lists(st.one_of(st.just(0.0), st.floats(1.0, 4e9)), max_size=40))
def test_times_are_microseconds_and_0_is_none(seconds: list[float]) -> None:
    """A time is rounded to microseconds as pyarrow has it, and 0.0 is null."""
    given_s = np.array(seconds, np.float64)
    expected = pa.array(np.round(given_s * 1e6).astype("<M8[us]"), mask=given_s == 0.0)
    assert arrow.times(given_s).equals(expected)


def test_no_masked_arrays_are_imported() -> None:
    """That is why these functions are there: a crawl that writes a batch does not import `numpy.ma`."""
    code = """
import sys, numpy as np
from opilio.process import lighten_pyarrow, own_interpreter
own_interpreter(); lighten_pyarrow()
from opilio.store import arrow
arrow.table({"oid": np.arange(3), "flag": np.ones(3, bool), "seen": arrow.times(np.zeros(3))})
sys.exit("numpy.ma" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
