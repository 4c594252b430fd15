"""Columns of Arrow from arrays of numpy, without a copy.

`pyarrow.array` looks whether an array of numpy is a masked one, and imports `numpy.ma` for that: a hundredth of a
second and 3 MB for each crawl, which has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

TIME = pa.timestamp("us")
_TYPES = {
    np.dtype(code): kind
    for code, kind in {
        "i1": pa.int8(), "i2": pa.int16(), "i4": pa.int32(), "i8": pa.int64(),
        "u2": pa.uint16(), "u4": pa.uint32(), "u8": pa.uint64(), "f4": pa.float32(), "f8": pa.float64(),
    }.items()
}  # fmt: skip


def numbers(values: npt.NDArray[Any]) -> pa.Array:
    """A column of numbers or flags."""
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def times(seconds: npt.NDArray[np.float64]) -> pa.Array:
    """A column of times, given as seconds since the epoch; 0.0 is none."""
    microseconds = np.round(seconds * 1e6).astype(np.int64)
    return pa.Array.from_buffers(TIME, len(seconds), [_bits(seconds != 0.0), pa.py_buffer(microseconds)])


def table(columns: Mapping[str, pa.Array | npt.NDArray[Any]]) -> pa.Table:
    """A table of columns of Arrow and arrays of numpy."""
    return pa.table(
        {name: numbers(column) if isinstance(column, np.ndarray) else column for name, column in columns.items()}
    )


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
