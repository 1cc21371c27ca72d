"""Joins: of two streams in windows, and of a stream with a table (`lookup`)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.errors import ArgumentError
from anabranch.graph.graph import Op
from anabranch.graph.kind import (
    ANY,
    AT_MOST_ONE,
    ONE,
    Kind,
    Traits,
    UserCode,
    keep_by_key,
    keep_nothing,
)
from anabranch.operators.clock import Duration, measure, scale_of, span_on
from anabranch.operators.getters import attribute_getter, key_getter
from anabranch.operators.kernel import Kernel, Outputs, State
from anabranch.operators.windows import Window, make_row, refuse_no_number


@dataclass(frozen=True, eq=False)
class Join(Kind):
    """An item of either side meets the window of the other, oldest item first.

    There is one pair of windows per value of `on`. `match(left, right)` filters the
    pairs and `into(left, right)` makes the output; without it the pair is the output.
    """

    on: tuple[str, ...]
    left_window: Window
    right_window: Window
    match: Callable[[Any, Any], bool] | None = None
    into: Callable[[Any, Any], Any] | None = None
    within: Duration | None = None
    default: tuple[Any, ...] = ()  # what a left item meets if there is no partner
    label: ClassVar[str] = "join"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        given = (("match", self.match), ("into", self.into))
        return tuple(UserCode(role, f) for role, f in given if f is not None)

    def traits(self, op: Op) -> Traits:
        return keep_by_key(op, "the windows of a join are kept", ANY)


LEFT = 0


class JoinKernel(Kernel):
    """Keeps as state [left items, right items] for one value of `on`."""

    stateful = True
    forwards_punctuation = False

    def __init__(self, kind: Join) -> None:
        self.kind = kind
        self.evict = (_eviction(kind.left_window), _eviction(kind.right_window))

    def open(self) -> State:
        return [[], []]

    def process(self, state: State, item: Any, port: int) -> Outputs:
        other = 1 - port
        self.evict[other](state[other], item)
        met = state[other]
        if port == LEFT and not met:
            met = self.kind.default
        pairs = [(item, x) if port == LEFT else (x, item) for x in met]
        outputs = make_pairs(self.kind, pairs)
        state[port].append(item)
        try:
            self.evict[port](state[port], item)
        except Exception:
            state[port].pop()  # an item that cannot be measured is not in
            raise
        return outputs


def make_pairs(kind: Join, pairs: list[tuple[Any, Any]]) -> list[Any]:
    """Return the outputs of the pairs (left, right) that match."""
    match, into = kind.match, kind.into
    return [
        pair if into is None else into(*pair)
        for pair in pairs
        if match is None or match(*pair)
    ]


def _eviction(window: Window) -> Callable[[list[Any], Any], None]:
    """Return the function that evicts old items of a window when an item arrives."""
    if window.count is not None:
        size = window.count

        def by_count(items: list[Any], _newest: Any) -> None:
            del items[: max(0, len(items) - size)]

        return by_count
    span = window.time if window.time is not None else window.delta
    assert span is not None and window.on is not None  # noqa: PT018, S101
    if isinstance(span, dt.timedelta):
        return _by_calendar(window.on, span_on(span, "naive", None, "a window"))
    value, length = attribute_getter(window.on), span

    def by_value(items: list[Any], newest: Any) -> None:
        now = value(newest)
        refuse_no_number(window, now)
        items[:] = [item for item in items if now - value(item) < length]

    return by_value


def _by_calendar(on: str, length: int) -> Callable[[list[Any], Any], None]:
    """Return the function that evicts old items by dates or datetimes."""
    value = attribute_getter(on)

    def evict(items: list[Any], newest: Any) -> None:
        scale = scale_of(value(newest))
        if scale == "number":
            msg = (
                f"{on!r} must be a date or a datetime where a window has a length with a "
                f"unit; got {value(newest)!r}; give the length as a number"
            )
            raise TypeError(msg)
        now = measure(value(newest), scale, on)
        items[:] = [x for x in items if now - measure(value(x), scale, on) < length]

    return evict


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
    raise ArgumentError(msg)
