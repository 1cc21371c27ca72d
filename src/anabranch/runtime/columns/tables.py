"""Lookup tables for functions of one string, computed by Python once per string.

Python itself computes the function, so the values are exactly Python's. A string on
which it raises, or returns a value of another type, is flagged: a kernel that meets it
gives up.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.plan.column_kernels import CODED, TIMES, StringTable, count_time
from anabranch.runtime.columns.column import (
    DTYPES,
    PYTHON_TYPES,
    Numpy,
    Pools,
)

_DEEPEST = 3  # strings of strings of strings
_LARGEST = (1 << 63) - 1


class StringTables:
    """The tables of one kernel.

    >>> pools = Pools()
    >>> _ = pools["str"].add("one"), pools["str"].add("")
    >>> wanted = [StringTable("s[0]", "str"), StringTable("len(s)", "int")]
    >>> first, bad, lengths, _ = StringTables(wanted, pools).arrays()
    >>> pools["str"].strings[first[0]], bad.tolist(), lengths.tolist()
    ('o', [False, True, True], [3, 0, 1])
    """

    def __init__(self, tables: Sequence[StringTable], pools: Pools) -> None:
        self._pools = pools
        self._tables = [
            Ranks(table) if table.text == "rank" else _FilledTable(table)
            for table in tables
        ]

    def arrays(self) -> list[Numpy]:
        """Return the values of each table, and where they are missing."""
        for table in self._tables:
            table.fill(self._pools)
        found = []
        for table in self._tables:
            found += table.arrays(self._pools)
        return found


class Ranks:
    """The ranks of all strings."""

    def __init__(self, table: StringTable) -> None:
        self._of = table.of
        self._ranks = np.zeros(0, np.int64)

    def fill(self, pools: Pools) -> None:
        """Sort all strings; ranks change when there are new ones."""

    def arrays(self, pools: Pools) -> list[Numpy]:
        """Return the ranks, none of them missing."""
        pool = pools[self._of]
        if len(pool) != len(self._ranks):
            order = sorted(range(len(pool)), key=pool.strings.__getitem__)
            self._ranks = np.empty(len(pool), np.int64)
            self._ranks[order] = np.arange(len(pool))
        return [self._ranks, np.zeros(len(pool), np.bool_)]


class _FilledTable:
    def __init__(self, table: StringTable) -> None:
        self._function = table.function()
        self._of = table.of
        self._kind = table.gives
        self._values: list[Any] = []
        self._bad: list[bool] = []

    def fill(self, pools: Pools) -> None:
        """Compute the values of new strings."""
        for code in range(len(self._values), len(pools[self._of])):
            value, bad = self._compute(pools, code)
            self._values.append(value)
            self._bad.append(bad)

    def _compute(self, pools: Pools, code: int) -> tuple[Any, bool]:  # noqa: PLR0911 - one for each way to fail
        pool = pools[self._of]
        if pool.depths[code] >= _DEEPEST:
            return 0, True
        try:
            value: Any = self._function(pool.strings[code])
        except Exception:  # noqa: BLE001 - Python will raise it where it is met
            return 0, True
        if type(value) is not PYTHON_TYPES[self._kind]:
            return 0, True
        if self._kind in TIMES:
            if isinstance(value, dt.datetime) and (value.tzinfo or value.fold):
                return 0, True
            value = count_time(value)
        if type(value) is int and not -_LARGEST <= value <= _LARGEST:
            return 0, True
        if self._kind in CODED:
            return pools[self._kind].add(value, pool.depths[code] + 1), False
        return value, False

    def arrays(self, pools: Pools) -> list[Numpy]:
        """Return the values, and where they are missing."""
        missing = len(pools[self._of]) - len(self._values)
        values = np.array([*self._values, *[0] * missing], DTYPES[self._kind])
        bad = np.array([*self._bad, *[True] * missing], np.bool_)
        return [values, bad]
