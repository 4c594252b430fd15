"""A user's condition on rows that are in no table, such as what an export computes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from opilio.store import guard


class RowFilter:
    """Applies a condition in SQL, in a database of its own that has nothing else and reaches nothing."""

    def __init__(self, condition: str, columns: Mapping[str, pa.DataType]) -> None:
        """Refuse a condition that is none. `columns` are those that it may name."""
        self._database = duckdb.connect(
            config={"python_enable_replacements": "false", "threads": 1, "memory_limit": "256MiB"}
        )
        self._database.execute("SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")
        self._sql = f"SELECT place FROM signals WHERE (\n{condition}\n) ORDER BY place"
        self.columns = {name for name in columns if re.search(rf"\b{name}\b", condition, re.IGNORECASE)}
        """Those that it names."""
        fields = [pa.field(name, kind) for name, kind in columns.items()]
        self._schema = pa.schema([pa.field("place", pa.int64()), *fields])
        self.kept([])

    def kept(self, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """Which of some rows meet the condition, by place."""
        numbered = [{"place": place, **row} for place, row in enumerate(rows)]
        self._database.register("signals", pa.Table.from_pylist(numbered, schema=self._schema))
        try:
            guard.check(self._database, self._sql)
            found = self._database.execute(self._sql).fetchall()
        except duckdb.Error as error:
            raise guard.query_error(error) from None
        finally:
            self._database.unregister("signals")
        return [place for (place,) in found]
