"""Windows: their kinds, their columns, and the items they hold.

`docs/semantics.md` defines which items each window holds and when it is emitted. A
`WindowShape` adds an item to the state of a window and returns the windows that close;
the kernel of `aggregate` makes one output of each.
"""

from __future__ import annotations

import datetime as dt
import numbers
import operator
from abc import ABC, abstractmethod
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal

from anabranch.errors import ArgumentError, LateItemError
from anabranch.graph.graph import Op
from anabranch.graph.kind import (
    ANY,
    AT_MOST_ONE,
    Kind,
    Traits,
    UserCode,
    keep_by_key,
    keep_one_state,
)
from anabranch.operators.clock import (
    UNITS,
    Duration,
    Grid,
    Scale,
    describe_scale,
    duration_of,
    measure,
    restore,
    scale_of,
    span_on,
)
from anabranch.operators.getters import attribute_getter
from anabranch.operators.kernel import Kernel, Outputs, State

Late = Literal["error", "drop", "current"]


@dataclass(frozen=True)
class Window:
    """A description of which items belong together.

    Exactly one of `count`, `time`, `delta`, `gap` and `punctuation` is given. `on`
    names the attribute for `time`, `delta` and `gap`. With `every` the window slides.
    `unit` is that of numeric times if the length is no number. A `clocked` window is
    closed by the clock of its stream.

    >>> Window(time=300, on="ts").text
    'time=300 on ts'
    """

    count: int | None = None
    time: Duration | None = None
    delta: float | None = None
    on: str | None = None
    every: Duration | None = None
    punctuation: bool = False
    late: Late = "error"
    gap: Duration | None = None
    unit: str | None = None
    clocked: bool = False

    def __post_init__(self) -> None:
        for name in ("time", "every", "gap"):
            given = getattr(self, name)
            if isinstance(given, str):
                object.__setattr__(self, name, duration_of(given))

    @property
    def text(self) -> str:
        """The window's description in explanations."""
        if self.punctuation:
            return "punctuation"
        sizes = (
            f"{name}={value}"
            for name in ("count", "time", "delta", "gap")
            if (value := getattr(self, name)) is not None
        )
        size = next(sizes, "of no size")
        on = "" if self.on is None else f" on {self.on}"
        every = "" if self.every is None else f" every {self.every}"
        return size + on + every


@dataclass(frozen=True)
class Column:
    """One named column of an aggregate: a function of one attribute over the window."""

    function: Literal[
        "sum",
        "count",
        "any",
        "min",
        "max",
        "mean",
        "first",
        "last",
        "counts",
        "highest",
        "lowest",
        "window_start",
        "window_end",
    ]
    attribute: str | None = None

    def __post_init__(self) -> None:
        whole = self.function in ("count", "window_start", "window_end")
        if not whole and not isinstance(self.attribute, str):
            msg = f"ab.{self.function} must name an attribute; got {self.attribute!r}"
            raise ArgumentError(msg)


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
    """Return the minimum of an attribute over the window.

    >>> import anabranch as ab
    >>> ab.min("price")
    Column(function='min', attribute='price')
    """
    return Column("min", attribute)


def max_(attribute: str) -> Column:
    """Return the maximum of an attribute over the window.

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
    """Return the attribute of the window's first item.

    >>> import anabranch as ab
    >>> ab.first("ts")
    Column(function='first', attribute='ts')
    """
    return Column("first", attribute)


def last(attribute: str) -> Column:
    """Return the attribute of the window's last item.

    >>> import anabranch as ab
    >>> ab.last("ts")
    Column(function='last', attribute='ts')
    """
    return Column("last", attribute)


def counts(attribute: str) -> Column:
    """Return the number of occurrences of each value of an attribute, as a dict.

    >>> import anabranch as ab
    >>> words = ab.from_iterable(["b", "a", "b"]).map(lambda w: {"word": w})
    >>> ab.testing.outputs(words.window(count=3).aggregate(n=ab.counts("word")))
    [Row(n={'b': 2, 'a': 1})]
    """
    return Column("counts", attribute)


def highest(attribute: str) -> Column:
    """Return the items of the window with the maximum of an attribute, as a list.

    >>> import anabranch as ab
    >>> ab.highest("price")
    Column(function='highest', attribute='price')
    """
    return Column("highest", attribute)


def lowest(attribute: str) -> Column:
    """Return the items of the window with the minimum of an attribute, as a list.

    >>> import anabranch as ab
    >>> ab.lowest("price")
    Column(function='lowest', attribute='price')
    """
    return Column("lowest", attribute)


def window_start() -> Column:
    """Return the start of a time window, or the first time of a session.

    >>> import anabranch as ab
    >>> ab.window_start()
    Column(function='window_start', attribute=None)
    """
    return Column("window_start")


def window_end() -> Column:
    """Return the end of a time window or of a session: the first time beyond it.

    >>> import anabranch as ab
    >>> ab.window_end()
    Column(function='window_end', attribute=None)
    """
    return Column("window_end")


@dataclass(frozen=True, eq=False)
class Aggregate(Kind):
    """One output per window: `function(items)`, or one value per column."""

    window: Window
    function: Callable[[list[Any]], Any] | None = None
    columns: tuple[tuple[str, Column], ...] = ()
    into: Callable[..., Any] | None = None
    label: ClassVar[str] = "aggregate"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return () if self.function is None else (UserCode("function", self.function),)

    def traits(self, op: Op) -> Traits:
        window = self.window
        slides_in_time = window.time is not None and window.every is not None
        push = ANY if window.punctuation or slides_in_time else AT_MOST_ONE
        if op.state_key and window.punctuation:
            text = (
                "a punctuation closes the windows of several keys at once, and their "
                "results stand in the order of the keys"
            )
            return keep_one_state(op, text, push, expects_punctuation=True)
        what = f"the window ({window.text}) is kept"
        return keep_by_key(op, what, push, expects_punctuation=window.punctuation)


@lru_cache(maxsize=1024)
def row_type(names: tuple[str, ...]) -> Any:
    """Return the tuple type of an aggregate by columns without `into`.

    >>> row_type(("total", "n"))(total=7, n=2)
    Row(total=7, n=2)
    """
    base: Any = namedtuple("Row", names)  # type: ignore[misc]  # noqa: PYI024 - built at run time
    reduced = {
        "__slots__": (),
        "__reduce__": lambda row: (make_row, (names, tuple(row))),
    }
    return type("Row", (base,), reduced)


def is_row_type(found: Any) -> bool:
    """Tell whether a type is that of an aggregate by columns without `into`."""
    if getattr(found, "__name__", "") != "Row" or not hasattr(found, "_fields"):
        return False
    return found is row_type(found._fields)


def make_row(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Return a tuple of an aggregate by columns without `into`."""
    return row_type(names)(*values)


Items = list[Any]


class Bounded(list[Any]):
    """The items of a time window or of a session, with its start and its end."""

    def __init__(self, items: Items, start: Any, end: Any) -> None:
        super().__init__(items)
        self.start = start
        self.end = end


class WindowShape(ABC):
    """One kind of window."""

    @abstractmethod
    def open(self) -> State:
        """Return the state of an empty window."""

    @abstractmethod
    def add(self, state: State, item: Any) -> list[Items]:
        """Add an item and return the windows it closes, in order."""

    def cut(self, state: State) -> list[Items]:
        """Return the windows that a punctuation closes."""
        return []

    @abstractmethod
    def finish(self, state: State) -> list[Items]:
        """Return the windows still open at the end, in order."""


class CountTumbling(WindowShape):
    """Items (k-1)n+1 to kn; the state is the items so far."""

    def __init__(self, size: int) -> None:
        self.size = size

    def open(self) -> State:
        return []

    def add(self, state: State, item: Any) -> list[Items]:
        state.append(item)
        if len(state) < self.size:
            return []
        window = state[:]
        state.clear()
        return [window]

    def finish(self, state: State) -> list[Items]:
        return [state[:]] if state else []


class CountSliding(WindowShape):
    """Window k holds items k*every-size+1 to k*every; the state is [items, total]."""

    def __init__(self, size: int, every: int) -> None:
        self.size = size
        self.every = every

    def open(self) -> State:
        return [[], 0]

    def add(self, state: State, item: Any) -> list[Items]:
        items = state[0]
        items.append(item)
        if len(items) > self.size:
            del items[0]
        state[1] += 1
        return [] if state[1] % self.every else [items[:]]

    def finish(self, state: State) -> list[Items]:
        items, total = state
        missing = -total % self.every
        kept = min(len(items), self.size - missing)
        return [items[-kept:]] if missing and kept > 0 else []


def no_number(window: Window, value: Any, why: TypeError | None = None) -> Exception:
    """Return the error of a window over time or difference that meets no number."""
    if window.time is not None and isinstance(value, dt.date):
        return TypeError(_describe_bare_length(window, value))
    wanted = "a number" if why is not None else "a finite number"
    also = "" if why is None else f" ({why})"
    kind = ValueError if why is None else TypeError
    return kind(
        f"{window.on!r} must be {wanted} for a window by time or delta; got "
        f"{value!r}{also}; map the items first, for example a datetime to its "
        f"timestamp()"
    )


def _describe_bare_length(window: Window, value: dt.date) -> str:
    what = describe_scale(scale_of(value))
    unit = "s" if isinstance(value, dt.datetime) else "d"
    return (
        f"the length of a window must have a unit where {window.on!r} is {what}; got "
        f"time={window.time!r}; write for instance time='{window.time!r} {unit}', with a "
        f"unit of {', '.join(UNITS)}, or a timedelta"
    )


def refuse_no_number(window: Window, value: Any) -> None:
    """Raise if a value cannot be measured: text, a datetime, NaN or infinity."""
    try:
        finite = value - value == 0
    except TypeError as error:
        raise no_number(window, value, error) from None
    if not finite:
        why = None if isinstance(value, numbers.Number) else TypeError("no number")
        raise no_number(window, value, why)


def _describe_late(item: Any, time: Any, start: Any) -> str:
    return (
        f"times must not fall behind an emitted window; got {time!r} in {item!r} "
        f"when the window from {start!r} was open; sort the stream, "
        f'or say window(..., late="drop") or late="current"'
    )


def lengths_of(window: Window) -> tuple[Any, Any]:
    """Return the length of time windows and the step between them."""
    return window.time, window.time if window.every is None else window.every


class TimeSliding(WindowShape):
    """For each multiple b of `every`, the items with b-size <= time < b.

    The state is [items, times, k]: the next window to close ends at k*every.
    """

    def __init__(self, window: Window, grid: Grid | None = None) -> None:
        assert window.time is not None and window.on is not None  # noqa: PT018, S101
        self.grid = Grid(*lengths_of(window)) if grid is None else grid
        self.window = window
        self.on = window.on
        self.time: Callable[[Any], Any] = attribute_getter(window.on)

    def open(self) -> State:
        return [[], [], None]

    def add(self, state: State, item: Any) -> list[Items]:
        time = self.time(item)
        try:
            end = self.grid.find_end(time)
        except TypeError as error:
            raise no_number(self.window, time, error) from None
        if state[2] is None:
            state[2] = end
        elif end < state[2]:
            if self.window.late == "drop":
                return []
            if self.window.late == "error":
                self._refuse(state, item, time)
            end = state[2]
            time = max(self.grid.end_of(end - 1), self.grid.start_of(end))
        closed = []
        while state[0] and end > state[2]:
            closed.append(self.take_held(state))
            self._advance(state)
        if time >= self.grid.start_of(end):
            state[0].append(item)
            state[1].append(time)
        elif end != end:  # noqa: PLR0124 - NaN; any other lies between two windows
            state[2] = None if state[2] != state[2] else state[2]
            raise no_number(self.window, time)
        state[2] = end
        return closed

    def finish(self, state: State) -> list[Items]:
        closed = []
        while state[0]:
            closed.append(self.take_held(state))
            self._advance(state)
        return closed

    def _advance(self, state: State) -> None:
        """Move to the next window that holds an item."""
        items, times, k = state[:3]
        k += 1
        first = self.grid.start_of(k)
        kept = [i for i, time in enumerate(times) if time >= first]
        state[0] = [items[i] for i in kept]
        state[1] = [times[i] for i in kept]
        state[2] = k

    def take_held(self, state: State) -> Items:
        """Return the window that closes next, with its bounds."""
        k = state[2]
        return Bounded(state[0], self.grid.start_of(k), self.grid.end_of(k))

    def _refuse(self, state: State, item: Any, time: Any) -> None:
        start = self.grid.end_of(state[2] - 1)
        raise LateItemError(_describe_late(item, time, start))


class CalendarSliding(TimeSliding):
    """The same as `TimeSliding`, over dates or datetimes, or numbers of a known unit.

    The state also has the scale of the times; its items are stored with their times.
    """

    def __init__(self, window: Window) -> None:
        self.spans, self.unit = lengths_of(window), window.unit
        scale = "naive" if window.unit is None else "number"
        super().__init__(
            window, Grid(*(self._span(each, scale) for each in self.spans))
        )
        self.value = self.time
        self.time = operator.itemgetter(0)

    def _span(self, span: Duration, scale: Scale) -> Any:
        return span_on(span, scale, self.unit, "a window by time")

    def open(self) -> State:
        return [[], [], None, None]

    def add(self, state: State, item: Any) -> list[Items]:
        value = self.value(item)
        if state[3] is None:
            scale = scale_of(value)
            for span in self.spans:
                self._span(span, scale)  # refuses incomparable values
            state[3] = scale
        return super().add(state, (measure(value, state[3], self.on), item))

    def _refuse(self, state: State, item: Any, time: Any) -> None:
        start = restore(self.grid.end_of(state[2] - 1), state[3])
        text = _describe_late(item[1], restore(time, state[3]), start)
        raise LateItemError(text)

    def take_held(self, state: State) -> Items:
        k, scale = state[2], state[3]
        items = [item for _, item in state[0]]
        bounds = self.grid.start_of(k), self.grid.end_of(k)
        return Bounded(items, *(restore(bound, scale) for bound in bounds))


class Delta(WindowShape):
    """Items within `delta` of one another; the state is [items, values, mark].

    A window closes on the first item whose value lies `every` (for a tumbling window:
    `delta`) or more above the mark, the value of the item that opened it.
    """

    def __init__(self, window: Window) -> None:
        assert window.delta is not None and window.on is not None  # noqa: PT018, S101
        self.window = window
        self.size = window.delta
        self.tumbling = window.every is None
        self.every = window.delta if window.every is None else window.every
        self.value = attribute_getter(window.on)

    def open(self) -> State:
        return [[], [], None]

    def add(self, state: State, item: Any) -> list[Items]:
        value = self.value(item)
        refuse_no_number(self.window, value)
        closed = []
        if state[2] is None:
            state[2] = value
        elif value - state[2] >= self.every:
            closed.append(state[0][:])
            state[2] = value
            if self.tumbling:
                state[0], state[1] = [], []
        if not self.tumbling:
            self._evict(state, value)
        state[0].append(item)
        state[1].append(value)
        return closed

    def _evict(self, state: State, value: Any) -> None:
        """Evict what lies `delta` or more below the newest value."""
        kept = [i for i, old in enumerate(state[1]) if value - old < self.size]
        if len(kept) < len(state[1]):
            state[0] = [state[0][i] for i in kept]
            state[1] = [state[1][i] for i in kept]

    def finish(self, state: State) -> list[Items]:
        return [state[0][:]] if state[0] else []


class Punctuated(WindowShape):
    """The items between two window punctuations; the state is the items so far."""

    def open(self) -> State:
        return []

    def add(self, state: State, item: Any) -> list[Items]:
        state.append(item)
        return []

    def cut(self, state: State) -> list[Items]:
        window = state[:]
        state.clear()
        return [window] if window else []

    def finish(self, state: State) -> list[Items]:
        return self.cut(state)


def shape_of(window: Window) -> WindowShape:
    """Return the shape for a window description."""
    if window.punctuation:
        return Punctuated()
    if isinstance(window.time, dt.timedelta):
        return CalendarSliding(window)
    if window.time is not None:
        return TimeSliding(window)
    if window.delta is not None:
        return Delta(window)
    assert window.count is not None  # noqa: S101 - validation has seen to it
    if window.every is None:
        return CountTumbling(window.count)
    assert not isinstance(window.every, dt.timedelta)  # noqa: S101 - as above
    return CountSliding(window.count, int(window.every))


class AggregateKernel(Kernel):
    stateful = True
    finishes = True
    forwards_punctuation = False

    def __init__(self, kind: Aggregate) -> None:
        self.shape = shape_of(kind.window)
        self.summary = summary_of(kind)
        self.handles_punctuation = kind.window.punctuation

    def open(self) -> State:
        return self.shape.open()

    def process(self, state: State, item: Any, port: int) -> Outputs:
        return [self.summary(window) for window in self.shape.add(state, item)]

    def punctuation(self, state: State) -> Outputs:
        return [self.summary(window) for window in self.shape.cut(state)]

    def finish(self, state: State) -> Outputs:
        return [self.summary(window) for window in self.shape.finish(state)]


def summary_of(kind: Aggregate) -> Callable[[Items], Any]:
    """Return the function from the items of a window to its output."""
    if kind.function is not None:
        own = kind.function
        if kind.window.time is not None or kind.window.gap is not None:
            return lambda items: own(list(items))  # it ignores the bounds
        return own
    return summary_by(kind, [_column(column) for _, column in kind.columns])


def summary_by(
    kind: Aggregate, columns: Sequence[Callable[[Any], Any]]
) -> Callable[[Items], Any]:
    """Return the function that makes an output from the columns' values."""
    names = tuple(name for name, _ in kind.columns)
    make = row_type(names) if kind.into is None else kind.into
    return lambda items: make(
        **{name: f(items) for name, f in zip(names, columns, strict=True)}
    )


def _column(column: Column) -> Callable[[Items], Any]:
    if column.function in ("window_start", "window_end"):
        return operator.attrgetter(column.function.removeprefix("window_"))
    if column.attribute is None:
        return len
    get = attribute_getter(column.attribute)
    plain = operator.attrgetter(column.attribute)

    def values(items: Items) -> Iterator[Any]:
        return map(get if isinstance(items[0], dict) else plain, items)

    if column.function in _OF_VALUES:
        summarize = _OF_VALUES[column.function]
        return lambda items: summarize(items, values(items))
    at = -1 if column.function == "last" else 0  # else any, first
    return lambda items: get(items[at])


def _find_best(choose: Callable[..., Any], items: Items, values: Any) -> Items:
    known = list(values)
    best = choose(known)
    return [item for item, value in zip(items, known, strict=True) if value == best]


_OF_VALUES: dict[str, Callable[[Items, Iterator[Any]], Any]] = {
    "sum": lambda _, values: sum(values),
    "min": lambda _, values: min(values),
    "max": lambda _, values: max(values),
    "mean": lambda items, values: sum(values) / len(items),
    "counts": lambda _, values: dict(Counter(values)),
    "highest": partial(_find_best, max),
    "lowest": partial(_find_best, min),
}
