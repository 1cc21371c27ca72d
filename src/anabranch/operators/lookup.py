"""Enrichment from a table: its kind, its kernel, and the table's reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.errors import ArgumentError
from anabranch.graph.graph import Op
from anabranch.graph.kind import Kind, UserCode
from anabranch.graph.traits import AT_MOST_ONE, ONE, Traits, keep_nothing
from anabranch.operators.getters import key_getter
from anabranch.operators.kernel import Kernel, Outputs, State
from anabranch.operators.windows import make_row


@dataclass(frozen=True, eq=False)
class Lookup(Kind):
    """Each item with the table's value for its key: the pair, or `into(item, value)`.

    An item whose key is not in the table is dropped, unless there is a `default`: a
    tuple of one value, used instead.
    """

    table: Mapping[Any, Any]
    on: tuple[str, ...]
    into: Callable[[Any, Any], Any] | None = None
    default: tuple[Any, ...] = ()
    label: ClassVar[str] = "lookup"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return () if self.into is None else (UserCode("into", self.into),)

    def traits(self, op: Op) -> Traits:
        push = ONE if self.default else AT_MOST_ONE
        return keep_nothing(op, push, punctuation="preserving")


class LookupKernel(Kernel):
    def __init__(self, kind: Lookup) -> None:
        self.table = kind.table
        self.key_of = key_getter(kind.on)
        self.into = kind.into
        self.default = kind.default

    def process(self, state: State, item: Any, port: int) -> Outputs:
        key = self.key_of(item)
        if key in self.table:
            value = self.table[key]
        elif self.default:
            (value,) = self.default
        else:
            return ()
        return ((item, value) if self.into is None else self.into(item, value),)


def read_table(table: Any, on: Sequence[str]) -> dict[Any, Any]:
    """Return a table as a dictionary of its own.

    For a DataFrame (of Spark, pandas or Arrow) each row is a `Row` under the values of
    its columns `on`.

    >>> read_table({"A": 1}, ("symbol",))
    {'A': 1}
    """
    if isinstance(table, Mapping):
        return dict(table)
    names, rows = _read_frame(table)
    lacking = [name for name in on if name not in names]
    if lacking:
        msg = (
            f"the table of a lookup must have the columns it is looked up by; "
            f"{lacking[0]!r} is not among {', '.join(names)}"
        )
        raise ArgumentError(msg)
    places = [names.index(name) for name in on]
    found: dict[Any, Any] = {}
    for row in rows:
        key = tuple(row[place] for place in places)
        key = key[0] if len(key) == 1 else key
        if key in found:
            msg = (
                f"the table of a lookup must have one row for each key; {key!r} has "
                f"several; drop duplicates first, or use join_latest with a stream"
            )
            raise ArgumentError(msg)
        found[key] = make_row(names, tuple(row))
    return found


def _read_frame(table: Any) -> tuple[tuple[str, ...], Iterable[Sequence[Any]]]:
    """Return the column names of a DataFrame, and its rows."""
    if hasattr(table, "itertuples"):  # pandas
        frame = table.astype(object).where(table.notna(), None)
        return tuple(map(str, frame.columns)), frame.itertuples(index=False, name=None)
    if hasattr(table, "column_names") and hasattr(table, "to_pylist"):  # Arrow
        names = tuple(table.column_names)
        return names, [tuple(row[n] for n in names) for row in table.to_pylist()]
    if hasattr(table, "collect") and hasattr(table, "columns"):  # Spark
        if getattr(table, "isStreaming", False):
            msg = (
                "the table of a lookup must be bounded; this DataFrame is a stream; "
                "read it by ab.from_spark and look that stream up"
            )
            raise ArgumentError(msg)
        return tuple(table.columns), table.collect()
    msg = (
        f"a lookup must be given a mapping, a DataFrame or a stream; got {table!r} of "
        f"type {type(table).__name__}"
    )
    raise TypeError(msg)
