"""Event time: times and durations, the clock of a stream, and its advances.

A time is a number, a `date` or a `datetime`. It is measured as a number: itself, or the
microseconds since 1970 (of a naive datetime and of a date on their own calendar). All
times that are compared with one another have one *scale*: "number", "date", "naive" or,
for datetimes with a zone, that zone.

`event_time` gives a stream a clock. An *advance* of it follows the item that caused it in the stream, like a punctuation, and goes
where punctuations go. What it closes is defined in docs/semantics.md.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, TypeAlias

from anabranch.errors import ArgumentError, LateItemError
from anabranch.graph.graph import Graph, Op, ancestors
from anabranch.graph.kind import Kind, Push, Traits, keep_one_state
from anabranch.operators.fan_in import Union
from anabranch.operators.getters import attribute_getter
from anabranch.operators.kernel import Kernel, Outputs, State
from anabranch.operators.stateless import WINDOW

Duration: TypeAlias = float | dt.timedelta  # a number is in the unit of the times
Scale: TypeAlias = (
    Any  # "number", "date", "naive" or a tzinfo: plain, since states hold it
)

_UNITS = {
    "us": dt.timedelta(microseconds=1),
    "ms": dt.timedelta(milliseconds=1),
    "s": dt.timedelta(seconds=1),
    "min": dt.timedelta(minutes=1),
    "h": dt.timedelta(hours=1),
    "d": dt.timedelta(days=1),
}
UNITS = tuple(_UNITS)
_TEXT = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(UNITS)})\s*")
_MICROSECOND = _UNITS["us"]
_DAY = _UNITS["d"]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NAIVE_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the calendar of naive datetimes
_FIRST_DAY = dt.date(1970, 1, 1)


def duration_of(given: str | Duration) -> Duration:
    """Return a duration: a text becomes a `timedelta`, anything else stays.

    >>> duration_of("250 ms"), duration_of("1.5 h"), duration_of(300)
    (datetime.timedelta(microseconds=250000), datetime.timedelta(seconds=5400), 300)
    """
    if not isinstance(given, str):
        return given
    found = _TEXT.fullmatch(given)
    if found is None:
        msg = (
            f"a duration must be a number, a timedelta or a text like '250 ms'; got "
            f"{given!r}; the units are {', '.join(UNITS)}"
        )
        raise ArgumentError(msg)
    try:
        return float(found[1]) * _UNITS[found[2]]
    except OverflowError:
        msg = f"a duration must be at most {dt.timedelta.max.days} days; got {given!r}"
        raise ArgumentError(msg) from None


def is_positive(duration: Duration) -> bool:
    """Tell whether a duration is above 0.

    >>> is_positive(5), is_positive(dt.timedelta(0))
    (True, False)
    """
    if isinstance(duration, dt.timedelta):
        return duration > dt.timedelta(0)
    return duration > 0


def scale_of(value: Any) -> Scale:
    """Return the scale on which a time is measured.

    >>> scale_of(7), scale_of(dt.date(2026, 1, 1)), scale_of(_EPOCH)
    ('number', 'date', datetime.timezone.utc)
    """
    if isinstance(value, dt.datetime):
        if value.tzinfo is dt.UTC:
            return dt.UTC
        return _zone(value.tzinfo) if value.utcoffset() is not None else "naive"
    return "date" if isinstance(value, dt.date) else "number"


def _zone(zone: Any) -> Any:
    """Return a zone; those that mean UTC are one, whichever library made them.

    >>> import zoneinfo
    >>> _zone(zoneinfo.ZoneInfo("UTC")) is dt.UTC
    True
    """
    return dt.UTC if str(zone) in _UTC_NAMES else zone


_UTC_NAMES: Final = ("UTC", "Etc/UTC", "Z", "UTC+00:00")


def measure(value: Any, scale: Scale, on: str) -> Any:
    """Return a time as a number; `on` names its attribute in errors.

    >>> measure(dt.date(1970, 1, 2), "date", "day")
    86400000000
    """
    if scale == "number" and not isinstance(value, dt.date):
        return _number(value, on)
    if scale_of(value) != scale:
        raise TypeError(describe_mixture(value, scale, on))
    match scale:
        case "date":
            return (value - _FIRST_DAY) // _MICROSECOND
        case "naive":
            return (value - _NAIVE_EPOCH) // _MICROSECOND
    return (value - _EPOCH) // _MICROSECOND


def _number(value: Any, on: str) -> Any:
    try:
        finite = value - value == 0 and not isinstance(value, complex)
    except TypeError:
        finite = False
    if finite:
        return value
    msg = (
        f"{on!r} must be a finite number, a date or a datetime; got {value!r}; map the "
        f"items first, or filter such items out"
    )
    raise TypeError(msg)


class Grid:
    """The bounds of time windows: window k ends at k*every and begins `size` earlier.

    Multiples of a fraction are rounded. So every bound is computed as a multiple, and
    steps are found by comparing with these: where one ends the next begins, and each
    time is in one of them.

    >>> grid = Grid(0.1, 0.1)
    >>> [grid.find_end(time) for time in (0.2, 0.3, 0.7, 1.0)]
    [3.0, 3.0, 7.0, 11.0]
    >>> grid.start_of(3.0) == 0.2 and 0.3 < grid.end_of(3.0)
    True
    """

    __slots__ = ("_steps", "every", "size")

    def __init__(self, size: Any, every: Any) -> None:
        self.size, self.every = size, every
        steps = round(size / every)
        is_whole = abs(size / every - steps) * _SAME_LENGTH < 1
        self._steps = steps if steps and is_whole else None

    def find_end(self, time: Any) -> Any:
        """Return the number of the first window that ends after a time."""
        k = time // self.every + 1
        return k if type(k) is int else self.correct(k, time)

    def correct(self, k: Any, time: Any) -> Any:
        """Return the number of a window that was found by a rounded division.

        >>> Grid(1e-16, 1e-16).find_end(1.0)
        Traceback (most recent call last):
            ...
        ValueError: a window by time=1e-16 must be longer at the time 1.0: ...
        """
        if isinstance(k, float) and abs(k) > MOST_STEPS:
            raise ValueError(self._describe_short(time))
        if k * self.every <= time:
            return k + 1
        return k - 1 if (k - 1) * self.every > time else k

    def start_of(self, k: Any) -> Any:
        """Return the time at which window k begins."""
        if self._steps is None:
            return k * self.every - self.size
        return (k - self._steps) * self.every

    def end_of(self, k: Any) -> Any:
        """Return the time at which window k ends, which is not in it."""
        return k * self.every

    def _describe_short(self, time: Any) -> str:
        every = "" if self.every == self.size else f", every={self.every!r}"
        return describe_short(f"a window by time={self.size!r}{every}", time)


def describe_short(what: str, time: Any) -> str:
    """Return the error text for a length that is lost in the rounding of a time."""
    return (
        f"{what} must be longer at the time {time!r}: floats that large are further apart; "
        f"make it longer, or map the times to integers of a smaller unit"
    )


MOST_STEPS: Final = 2**52  # up to here the multiples of any float are distinct
_SAME_LENGTH = 10**9  # a length that differs less from a multiple of a step is one


def is_exact_step(span: Any) -> bool:
    """Tell whether the multiples of a span are not rounded, for times up to 2**43.

    >>> is_exact_step(10), is_exact_step(0.25), is_exact_step(0.1)
    (True, True, False)
    """
    return type(span) is int or (type(span) is float and (span * 1024).is_integer())


FAR_FLOAT = float(1 << 43)


def describe_mixture(value: Any, scale: Scale, on: str) -> str:
    """Return the error text for a time that is not on the scale of the others."""
    zones = not isinstance(scale, str) and isinstance(value, dt.datetime)
    advice = "for example with astimezone(datetime.UTC)" if zones else "to one kind"
    return (
        f"{on!r} must be of one kind throughout, {describe_scale(scale)}; got {value!r}, "
        f"{describe_scale(scale_of(value))}; convert the times first, {advice}"
    )


def describe_scale(scale: Scale) -> str:
    """Return the values of a scale in words.

    >>> describe_scale("naive"), describe_scale(dt.UTC)
    ('a datetime without a zone', 'a datetime in the zone UTC')
    """
    words = {
        "number": "a number",
        "date": "a date",
        "naive": "a datetime without a zone",
    }
    return words[scale] if isinstance(scale, str) else f"a datetime in the zone {scale}"


def restore(number: Any, scale: Scale) -> Any:
    """Return the time that a number represents.

    >>> restore(86_400_000_000, "date")
    datetime.date(1970, 1, 2)
    """
    match scale:
        case "number":
            return number
        case "date":
            return _FIRST_DAY + dt.timedelta(microseconds=number)
        case "naive":
            return _NAIVE_EPOCH + dt.timedelta(microseconds=number)
    return (_EPOCH + dt.timedelta(microseconds=number)).astimezone(scale)


def span_on(duration: Duration, scale: Scale, unit: str | None, use: str) -> Any:
    """Return a duration as a number on a scale; `use` names it in errors.

    >>> span_on(dt.timedelta(seconds=2), "number", "ms", "time")
    2000
    """
    if scale != "number":
        return _span_in_microseconds(duration, scale, use)
    if not isinstance(duration, dt.timedelta):
        return duration
    if unit is None:
        msg = (
            f"{use} must be a number where times are numbers of an unknown unit; got "
            f"{duration}; state the unit in event_time(..., unit=), one of "
            f"{', '.join(UNITS)}"
        )
        raise TypeError(msg)
    whole, rest = divmod(duration, _UNITS[unit])
    return whole if not rest else duration / _UNITS[unit]


def _span_in_microseconds(duration: Duration, scale: Scale, use: str) -> int:
    if not isinstance(duration, dt.timedelta):
        if duration == 0:
            return 0
        msg = (
            f"{use} must be a timedelta or a text like '5 min' where times are "
            f"datetimes; got {duration!r}"
        )
        raise TypeError(msg)
    if scale == "date" and duration % _DAY:
        msg = f"{use} must be whole days where times are dates; got {duration}"
        raise TypeError(msg)
    return duration // _MICROSECOND


LateEvent = Literal["drop", "error", "dead_letter", "current"]


class Advance:
    """The clock of the stream is now at `time`, a number on `scale`.

    >>> Advance(5, "number") == Advance(5, "number")
    True
    """

    __slots__ = ("scale", "time")

    def __init__(self, time: Any, scale: Scale) -> None:
        self.time = time
        self.scale = scale

    def __repr__(self) -> str:
        return f"<the clock reached {restore(self.time, self.scale)!r}>"

    def __eq__(self, other: object) -> bool:
        same = type(other) is Advance and self.time == other.time
        return same and self.scale == other.scale  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.time)

    def __reduce__(self) -> Any:
        return (Advance, (self.time, self.scale))


def is_sign(item: Any) -> bool:
    """Tell whether a stream element is a sign, not an item: a punctuation or an
    advance.

    >>> is_sign(WINDOW), is_sign(Advance(5, "number")), is_sign(5)
    (True, True, False)
    """
    return item is WINDOW or type(item) is Advance


def forward_advance(kernel: Kernel, sign: Advance, ports: int) -> list[Any]:
    """Return the part of an advance that goes on to the consumers of an operator."""
    if not (kernel.forwards_clock and kernel.forwards_punctuation):
        return []
    return [(port, sign) for port in range(ports)] if kernel.routed else [sign]


@dataclass(frozen=True)
class StreamClock:
    """The language's knowledge of a stream's clock."""

    on: str
    unit: str | None = None
    late: LateEvent = "drop"


@dataclass(frozen=True)
class Timing:
    """How an operator follows the clock of its stream.

    `on` names the attribute by which `forget_after` determines the age of a key, and
    `unit` is that of numeric times.
    """

    on: str
    unit: str | None = None
    forget_after: Duration | None = None


@dataclass(frozen=True, eq=False)
class EventTime(Kind):
    """Each item, followed by an advance of the clock if its time is the highest so far.

    If only time windows follow the clock, `steps` are the lengths between their ends:
    then an advance that stays between two multiples of each of them has no effect, and
    is left out. Once all its sources have been silent for `idle`, it does not hold back
    other clocks that it meets.
    """

    on: str
    lateness: Duration = 0
    late: LateEvent = "drop"
    unit: str | None = None
    steps: tuple[Duration, ...] = ()
    idle: dt.timedelta | None = None
    label: ClassVar[str] = "event_time"

    def traits(self, op: Op) -> Traits:
        text = f"the clock is the highest {self.on} so far, of all items"
        push = Push(0, 2)
        return keep_one_state(op, text, push, forwards=None, punctuation="preserving")


@dataclass(frozen=True, eq=False)
class InOrder(Kind):
    """Each item when the clock has reached its time, in the order of time."""

    on: str
    label: ClassVar[str] = "in_order"


def _find_bound(clock: Any, steps: tuple[int, ...]) -> Any:
    """Return where a clock next reaches a multiple of one of the steps; None: anywhere.

    >>> _find_bound(8, (5, 10)), _find_bound(8.5, (5, 10))
    (10, None)
    """
    if not steps or type(clock) is not int:
        return None
    return min((clock // step + 1) * step for step in steps)


IdlePorts: TypeAlias = Mapping[str, frozenset[int]]  # operator -> inputs


def has_idle(graph: Graph) -> bool:
    """Tell whether a clock of a program may be idle."""
    return any(isinstance(op.kind, EventTime) and op.kind.idle for op in graph)


def find_idle_ports(graph: Graph, silent_s: Mapping[str, float]) -> IdlePorts:
    """Return the inputs that are ignored where clocks meet, by operator.

    `silent_s` is how long live sources have been silent. A stream is idle if its clock
    is; where streams meet, if all of them are.
    """
    idle: set[str] = set()
    found: dict[str, frozenset[int]] = {}
    for op in graph:
        ports = {n for n, out in enumerate(op.inputs) if out.operator in idle}
        if isinstance(op.kind, EventTime):
            before = ancestors(graph, op.name)
            given = [
                silent_s.get(one.name) for one in graph.sources if one.name in before
            ]
            least_s = min((0.0 if s is None else s for s in given), default=0.0)
            if op.kind.idle and least_s >= op.kind.idle.total_seconds():
                idle.add(op.name)
        elif len(op.inputs) == 1 and ports:
            idle.add(op.name)
        elif op.timing is not None and ports:
            found[op.name] = frozenset(ports)
            if len(ports) == len(op.inputs):
                idle.add(op.name)
    return found


def keeps_clock(op: Op) -> bool:
    """Tell whether an operator's only state is the clock.

    Then replicas may have ranges of the stream: a few items of the earlier ranges tell
    each of them where to begin (`Kernel.find_deciding`).
    """
    following = op.timing is not None and isinstance(op.kind, Union)
    return following or isinstance(op.kind, EventTime)


class EventTimeKernel(Kernel):
    """Keeps as state [scale, clock, bound]: an advance before the bound has no effect.

    Without a bound every advance is sent.
    """

    stateful = True
    makes_clock = True
    forwards_clock = False

    def __init__(self, kind: EventTime) -> None:
        self.kind = kind
        self.get = attribute_getter(kind.on)
        self.decides_on = kind.on
        self.spans = lru_cache(maxsize=8)(self._find_spans)
        self.known: tuple[Any, ...] = (None, 0, ())  # a scale and its spans

    def _find_spans(self, scale: Scale) -> tuple[Any, tuple[int, ...]]:
        """Return the lateness on a scale, and the steps if they are integers."""
        kind = self.kind
        lateness = span_on(kind.lateness, scale, kind.unit, "lateness")
        try:
            steps = [span_on(step, scale, kind.unit, "") for step in kind.steps]
        except TypeError:  # its window says so
            steps = []
        whole = all(type(step) is int and step > 0 for step in steps)
        return lateness, tuple(steps) if whole else ()

    def open(self) -> State:
        return [None, None, None]

    def process(self, state: State, item: Any, port: int) -> Outputs:
        value = self.get(item)
        scale, clock, bound = state
        if scale is None:
            scale = scale_of(value)
        time = value
        if type(value) is not int or scale != "number":
            time = self._measure(value, scale)
        known = self.known
        if known[0] is not scale:
            known = self.known = scale, *self.spans(scale)
        _, lateness, steps = known
        now = time - lateness
        if clock is not None:
            if time < clock:
                return self._take_late(item, value, restore(clock, scale))
            if now <= clock:
                return (item,)
            if bound is not None and type(now) is int and now < bound:
                state[1] = now
                return (item,)
        state[:] = scale, now, _find_bound(now, steps)
        return (item, Advance(now, scale))

    def find_shared(self, state: State) -> Any:
        scale, clock, _ = state
        return scale, [clock]

    def share(self, state: State, shared: Any) -> None:
        scale, (clock,) = shared
        steps = () if clock is None else self.spans(scale)[1]
        state[:] = scale, clock, _find_bound(clock, steps)

    def find_deciding(self, values: Iterable[Any]) -> list[int]:
        """Return, for each scale, the first item and the one that advances the clock
        most.

        >>> EventTimeKernel(EventTime("ts")).find_deciding([3, None, 7, 5, 7])
        [0, 2]
        """
        found: list[list[Any]] = []  # scale, first, clock, and the item that moved it
        for index, value in enumerate(values):
            try:
                scale = "number" if type(value) is int else scale_of(value)
                time = value if type(value) is int else self._measure(value, scale)
                now = time - self.spans(scale)[0]
                known = next((one for one in found if one[0] == scale), None)
                if known is None:
                    found.append([scale, index, now, index])
                elif now > known[2]:
                    known[2:] = now, index
            except Exception:  # noqa: BLE001, S112 - the operator fails on it, and moves nothing
                continue
        return sorted({one[place] for one in found for place in (1, 3)})

    def _measure(self, value: Any, scale: Scale) -> Any:
        return measure(value, scale, self.kind.on)

    def _take_late(self, item: Any, value: Any, clock: Any) -> Outputs:
        if self.kind.late == "drop":
            return ()
        if self.kind.late == "current":
            return (item,)
        msg = (
            f"times must not fall behind the clock; got {value!r} in {item!r} when the "
            f"clock stood at {clock!r}; allow more lateness, or say "
            f'event_time(..., late="drop") or late="current"'
        )
        raise LateItemError(msg)
