"""Unkeyed windows in two steps: replicas pre-aggregate, and one operator merges.

Adjacent items of a stream that belong to the same windows become one `WindowPart` with
what each column needs of them. It takes the place of the first of them, and closes the
windows that this one would have closed. What cannot be added exactly to the last bit
(numbers other than ints in a sum, NaN in a maximum, times that are no ints) is left
unchanged: a window may hold parts and items.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import gcd
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from anabranch.operators.getters import attribute_getter
from anabranch.operators.kernel import State
from anabranch.operators.windows import (
    Aggregate,
    AggregateKernel,
    Column,
    Items,
    TimeSliding,
    Window,
    lengths_of,
    summary_by,
)

Held: TypeAlias = tuple[bool, Any, Any]  # whether it is a part, its value, and itself


class WindowPart(NamedTuple):
    """Some aggregated items of a window: their number, the first of them and its time.

    `values` are the partial results, by column index.
    """

    size: int
    first: Any
    time: int
    values: tuple[Any, ...]

    def __repr__(self) -> str:
        return repr(self.first)  # an error about it is one about that item


@dataclass(frozen=True, eq=False)
class MergedAggregate(Aggregate):
    """An aggregate whose items may have been pre-aggregated."""


def why_not_in_parts(kind: Aggregate) -> str | None:
    """Return why the windows of an aggregate cannot be computed in two steps, or None.

    >>> from anabranch.operators.windows import count
    >>> why_not_in_parts(Aggregate(Window(time=10, on="ts"), columns=(("n", count()),)))
    >>> why_not_in_parts(Aggregate(Window(count=10), columns=(("n", count()),)))
    'where a window by count ends depends on all items before it'
    """
    window = kind.window
    if kind.function is not None:
        return "its function wants the items of a window, not columns of them"
    if window.clocked:
        return "it closes by a clock"
    if window.time is None:
        what = "count" if window.count is not None else "difference"
        return f"where a window by {what} ends depends on all items before it"
    if not all(type(span) is int for span in lengths_of(window)):
        return "only times and lengths that are ints are added up"
    return None


def find_span(window: Window) -> int:
    """Return a time span whose multiples include all window bounds.

    >>> find_span(Window(time=10, every=4, on="ts"))
    2
    """
    return gcd(*map(int, lengths_of(window)))


class PartedSliding(TimeSliding):
    """Time windows over items and parts of them."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        of_item = self.time
        self.time = lambda one: one.time if type(one) is WindowPart else of_item(one)

    def _refuse(self, state: State, item: Any, time: Any) -> None:
        first = item.first if type(item) is WindowPart else item
        super()._refuse(state, first, time)


class MergedAggregateKernel(AggregateKernel):
    def __init__(self, kind: MergedAggregate) -> None:
        self.shape = PartedSliding(kind.window)
        self.summary = merge_of(kind)
        self.handles_punctuation = False


def merge_of(kind: Aggregate) -> Callable[[Items], Any]:
    """Return the function from the items and parts of a window to its output."""
    merges = [_merge(place, column) for place, (_, column) in enumerate(kind.columns)]
    return summary_by(kind, merges)


def _merge(place: int, column: Column) -> Callable[[Any], Any]:
    if column.attribute is None:
        if column.function == "count":
            return _count
        return attrgetter(column.function.removeprefix("window_"))
    get = attribute_getter(column.attribute)
    merge = _MERGES.get(column.function, _first)

    def each(held: Items) -> Iterator[Held]:
        for one in held:
            if type(one) is WindowPart:
                yield True, one.values[place], one
            else:
                yield False, get(one), one

    if column.function == "mean":
        return lambda held: _sum(each(held)) / _count(held)
    if column.function == "last":
        return lambda held: _first(each(held[-1:]))
    return lambda held: merge(each(held))


def _count(held: Items) -> int:
    return sum(one.size if type(one) is WindowPart else 1 for one in held)


def _sum(each: Iterator[Held]) -> Any:
    """Return the sum; for numbers other than ints, item by item."""
    held = list(each)
    if all(is_part or type(value) is int for is_part, value, _ in held):
        return sum(value[0] if is_part else value for is_part, value, _ in held)
    ones = (array("q", value[1]) if is_part else (value,) for is_part, value, _ in held)
    return sum(chain.from_iterable(ones))


def _counts(each: Iterator[Held]) -> dict[Any, int]:
    counts: dict[Any, int] = {}
    for is_part, value, _ in each:
        for one, count in value.items() if is_part else ((value, 1),):
            counts[one] = counts.get(one, 0) + count
    return counts


def _best(choose: Callable[..., Any], each: Iterator[Held]) -> list[Any]:
    held = list(each)
    best = choose(value[0] if is_part else value for is_part, value, _ in held)
    found: list[Any] = []
    for is_part, value, one in held:
        if is_part and value[0] == best:
            found += value[1]
        elif not is_part and value == best:
            found.append(one)
    return found


def _first(each: Iterator[Held]) -> Any:
    return next(each)[1]


_MERGES: dict[str, Callable[[Iterator[Held]], Any]] = {
    "sum": _sum,
    "min": lambda each: min(value for _, value, _ in each),
    "max": lambda each: max(value for _, value, _ in each),
    "counts": _counts,
    "highest": partial(_best, max),
    "lowest": partial(_best, min),
}
