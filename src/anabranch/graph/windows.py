"""Windows, and what is computed over each of them.

`docs/semantics.md` says which items each window holds and when it is emitted.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

from anabranch.graph.kinds import Kind, UserCode

Late = Literal["error", "drop", "current"]


@dataclass(frozen=True)
class Window:
    """Which items belong together.

    Exactly one of `count`, `time`, `delta` and `punctuation` is given. `on` names the
    attribute that `time` and `delta` look at. With `every` the window slides.

    >>> Window(time=300, on="ts").text
    'time=300 on ts'
    """

    count: int | None = None
    time: float | None = None
    delta: float | None = None
    on: str | None = None
    every: float | None = None
    punctuation: bool = False
    late: Late = "error"

    @property
    def text(self) -> str:
        """How the window is described in explanations."""
        if self.punctuation:
            return "punctuation"
        size = next(
            f"{name}={value}"
            for name in ("count", "time", "delta")
            if (value := getattr(self, name)) is not None
        )
        on = "" if self.on is None else f" on {self.on}"
        every = "" if self.every is None else f" every {self.every}"
        return size + on + every


@dataclass(frozen=True)
class Column:
    """One named column of an aggregate: a function of one attribute over the window."""

    function: Literal["sum", "count", "any", "min", "max", "mean", "first", "last"]
    attribute: str | None = None


def sum_(attribute: str) -> Column:
    """Return the sum of an attribute over the window.

    >>> import anabranch as ab
    >>> ab.sum("volume")
    Column(function='sum', attribute='volume')
    """
    return Column("sum", attribute)


def count() -> Column:
    """Return the number of items in the window.

    >>> import anabranch as ab
    >>> ab.count()
    Column(function='count', attribute=None)
    """
    return Column("count")


def any_(attribute: str) -> Column:
    """Return an attribute that is the same for the whole window, such as its key.

    >>> import anabranch as ab
    >>> ab.any("symbol")
    Column(function='any', attribute='symbol')
    """
    return Column("any", attribute)


def min_(attribute: str) -> Column:
    """Return the least value of an attribute over the window.

    >>> import anabranch as ab
    >>> ab.min("price")
    Column(function='min', attribute='price')
    """
    return Column("min", attribute)


def max_(attribute: str) -> Column:
    """Return the greatest value of an attribute over the window.

    >>> import anabranch as ab
    >>> ab.max("price")
    Column(function='max', attribute='price')
    """
    return Column("max", attribute)


def mean(attribute: str) -> Column:
    """Return the mean of an attribute over the window.

    >>> import anabranch as ab
    >>> ab.mean("price")
    Column(function='mean', attribute='price')
    """
    return Column("mean", attribute)


def first(attribute: str) -> Column:
    """Return the attribute of the first item in the window.

    >>> import anabranch as ab
    >>> ab.first("ts")
    Column(function='first', attribute='ts')
    """
    return Column("first", attribute)


def last(attribute: str) -> Column:
    """Return the attribute of the last item in the window.

    >>> import anabranch as ab
    >>> ab.last("ts")
    Column(function='last', attribute='ts')
    """
    return Column("last", attribute)


@dataclass(frozen=True, eq=False)
class Aggregate(Kind):
    """One output for each window: `function(items)`, or one value per column."""

    window: Window
    function: Callable[[list[Any]], Any] | None = None
    columns: tuple[tuple[str, Column], ...] = ()
    into: Callable[..., Any] | None = None
    label: ClassVar[str] = "aggregate"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return () if self.function is None else (UserCode("function", self.function),)


@lru_cache(maxsize=1024)
def row_type(names: tuple[str, ...]) -> Any:
    """Return the tuple type of an aggregate by columns that has no `into`.

    >>> row_type(("total", "n"))(total=7, n=2)
    Row(total=7, n=2)
    """
    base: Any = namedtuple("Row", names)  # type: ignore[misc]  # noqa: PYI024 - built at run time
    reduced = {"__slots__": (), "__reduce__": lambda row: (_row, (names, tuple(row)))}
    return type("Row", (base,), reduced)


def _row(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return row_type(names)(*values)
