"""Functions of one string as tables, filled by Python once for each string.

Python itself computes the function, so the values are Python's own. A string on which
it raises, or gives a value of another type, is marked: a kernel that meets it gives up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.plan.column_kernels import ColumnKind, StringTable
from anabranch.runtime.columns.column import DTYPES, Numpy, StringPool

_DEEPEST = 3  # strings of strings of strings
_TYPES: dict[ColumnKind, type] = {"int": int, "float": float, "bool": bool, "str": str}
_LARGEST = (1 << 63) - 1


class StringTables:
    """The tables of one kernel.

    >>> pool = StringPool()
    >>> _ = pool.add("one"), pool.add("")
    >>> tables = StringTables([StringTable("s[0]", "str"), StringTable("len(s)", "int")], pool)
    >>> first, bad, lengths, _ = tables.arrays()
    >>> pool.strings[first[0]], bad.tolist(), lengths.tolist()
    ('o', [False, True, True], [3, 0, 1])
    """

    def __init__(self, tables: Sequence[StringTable], pool: StringPool) -> None:
        self._pool = pool
        self._tables = [_FilledTable(table) for table in tables]

    def arrays(self) -> list[Numpy]:
        """Return for each table its values, and where there is none."""
        for table in self._tables:
            table.fill(self._pool)
        found = []
        for table in self._tables:
            found += table.arrays(len(self._pool))
        return found


class _FilledTable:
    def __init__(self, table: StringTable) -> None:
        self._function = table.function()
        self._kind = table.gives
        self._values: list[Any] = []
        self._bad: list[bool] = []

    def fill(self, pool: StringPool) -> None:
        """Compute for the strings that are new."""
        for code in range(len(self._values), len(pool)):
            value, bad = self._compute(pool, code)
            self._values.append(value)
            self._bad.append(bad)

    def _compute(self, pool: StringPool, code: int) -> tuple[Any, bool]:
        nothing = 0 if self._kind == "str" else _TYPES[self._kind]()
        if pool.depths[code] >= _DEEPEST:
            return nothing, True
        try:
            value: Any = self._function(pool.strings[code])
        except Exception:  # noqa: BLE001 - Python will raise it where it is met
            return nothing, True
        wanted: Any = _TYPES[self._kind]
        if type(value) is not wanted:
            return nothing, True
        if self._kind == "int" and not -_LARGEST <= value <= _LARGEST:
            return nothing, True
        if self._kind == "str":
            return pool.add(value, pool.depths[code] + 1), False
        return value, False

    def arrays(self, count: int) -> list[Numpy]:
        missing = count - len(self._values)
        nothing = 0 if self._kind == "str" else _TYPES[self._kind]()
        values = np.array([*self._values, *[nothing] * missing], DTYPES[self._kind])
        bad = np.array([*self._bad, *[True] * missing], np.bool_)
        return [values, bad]
