"""Checks of windows, of clocks, and of the punctuations that windows wait for.

An operator that joins streams, or emits items at a pace of its own, removes
punctuations: they would lose their meaning there.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
import sys
from collections.abc import Iterator
from typing import Any

from anabranch.errors import Fault
from anabranch.graph.graph import Op
from anabranch.graph.types import (
    attribute_type,
    fields_of,
    is_number,
    may_be,
    optional_of,
    there_is,
    type_name,
)
from anabranch.language.checks.functions import missing, why_not_called
from anabranch.language.checks.structure import Streams, fault
from anabranch.operators.clock import (
    MOST_STEPS,
    UNITS,
    EventTime,
    InOrder,
    Timing,
    is_positive,
)
from anabranch.operators.custom import Apply, Operator, Scan
from anabranch.operators.iterate import Iterate
from anabranch.operators.join import Join, Lookup
from anabranch.operators.stateless import (
    Filter,
    FlatMap,
    Map,
    Punctuate,
    Split,
    describe_function,
)
from anabranch.operators.windows import Aggregate, Column, Window

_SIZES = ("count", "time", "delta", "gap")
_CLOCK_ADVICE = (
    'put .event_time("...") before it, with nothing between that ends the clock; where '
    "streams meet in a union, each must have a clock with the same attribute, unit and late="
)


def windows(streams: Streams) -> Iterator[Fault]:
    """Yield the faults of the windows of aggregates and joins."""
    for op in streams.ops:
        match op.kind:
            case Aggregate(window=window):
                yield from _window(op, window, "window", streams.types(op))
                yield from _aggregate(op, op.kind, streams.item_type(op))
            case Join(left_window=left, right_window=right):
                for side, window in (("left_window", left), ("right_window", right)):
                    yield from _join_window(op, window, side, streams.types(op))
                if _keeps_nothing(left) and _keeps_nothing(right):
                    yield fault(
                        op,
                        "a side of a join must keep items; both windows have count 0",
                        "give the side whose items wait for the other a larger window",
                    )


def _join_window(op: Op, window: Window, use: str, types: list[Any]) -> Iterator[Fault]:
    if window.punctuation or window.every is not None or window.gap is not None:
        what = "gap" if window.gap is not None else "every"
        what = "punctuation" if window.punctuation else what
        yield fault(
            op,
            f"{use} must hold the latest items; it is given {what}",
            "give ab.Window(count=n), ab.Window(time=t, on=...) or delta=",
        )
    elif not _keeps_nothing(window):
        yield from _window(op, window, use, types)


def _keeps_nothing(window: Window) -> bool:
    """Tell whether items of this side of a join meet others and are then dropped."""
    return type(window.count) is int and window == Window(count=0)


def _window(op: Op, window: Window, use: str, types: list[Any]) -> Iterator[Fault]:
    given = [name for name in _SIZES if getattr(window, name) is not None]
    given += ["punctuation"] if window.punctuation else []
    if len(given) != 1:
        yield fault(
            op,
            f"{use} must have exactly one of count, time, delta, gap and punctuation; "
            f"it has {' and '.join(given) or 'none'}",
            "give one of them",
        )
        return
    (kind,) = given
    if kind == "gap" and not window.clocked:
        yield fault(
            op,
            f"{use} is a session, which ends by the clock; its stream has no clock",
            _CLOCK_ADVICE,
        )
    if kind != "punctuation":
        yield from _size(op, window, use, kind)
    yield from _every(op, window, use, kind)
    yield from _on(op, window, use, kind, types)
    yield from _late(op, window, use, kind)


def _size(op: Op, window: Window, use: str, kind: str) -> Iterator[Fault]:
    size = getattr(window, kind)
    if not _positive(size, whole=kind == "count", span=kind in ("time", "gap")):
        number = "a whole number" if kind == "count" else "a number"
        yield fault(
            op,
            f"{kind} of {use} must be {number} above 0; got {size!r}",
            f"give {kind}= a positive number",
        )
    elif kind in ("time", "gap") and _is_subnormal(size):
        yield _describe_subnormal(op, kind, use, size)


def _every(op: Op, window: Window, use: str, kind: str) -> Iterator[Fault]:
    if window.every is None:
        return
    if kind in ("punctuation", "gap"):
        what = "punctuations" if kind == "punctuation" else "gaps"
        yield fault(
            op,
            f"{use} ends at {what}, so it cannot slide by every={window.every!r}",
            "leave out every=, or slide by count, time or delta",
        )
    elif not _positive(window.every, whole=kind == "count", span=kind == "time"):
        number = "a whole number" if kind == "count" else "a number"
        yield fault(
            op,
            f"every of {use} must be {number} above 0; got {window.every!r}",
            "give every= a positive number, or leave it out for a tumbling window",
        )
    elif kind == "time" and _is_subnormal(window.every):
        yield _describe_subnormal(op, "every", use, window.every)
    elif kind == "time" and _overlaps_too_often(window):
        yield fault(
            op,
            f"every of {use} must be a larger part of time={window.time!r}; got "
            f"{window.every!r}, with which more windows than floats can count overlap",
            "give every= a larger number",
        )


def _is_subnormal(size: Any) -> bool:
    """Tell whether a length is so small that not even its double has all digits."""
    return isinstance(size, float) and size < sys.float_info.min


def _describe_subnormal(op: Op, name: str, use: str, size: Any) -> Fault:
    return fault(
        op,
        f"{name} of {use} must be {sys.float_info.min} or more, so that floats have all "
        f"its digits; got {size!r}",
        f"give {name}= a larger number",
    )


def _overlaps_too_often(window: Window) -> bool:
    time, every = window.time, window.every
    if not isinstance(time, int | float) or not isinstance(every, int | float):
        return False  # a length with a unit is not rounded
    return every > 0 and time > MOST_STEPS * every


def _on(
    op: Op, window: Window, use: str, kind: str, types: list[Any]
) -> Iterator[Fault]:
    if kind in ("count", "punctuation"):
        if window.on is not None:
            yield fault(
                op,
                f"{use} by {kind} looks at no attribute; it is given on={window.on!r}",
                "leave out on=, or use time= or delta=",
            )
    elif window.on is None:
        yield fault(
            op,
            f"{use} by {kind} must know the attribute to look at; on is missing",
            'add on="...", the name of a numeric attribute',
        )
    else:
        for tuple_type in dict.fromkeys(types):
            yield from missing(op, tuple_type, window.on, f"on of {use}")
            if kind == "delta":
                yield from _numeric(op, tuple_type, window.on, f"on of {use}")
            else:
                yield from is_time(op, tuple_type, window.on, f"on of {use}")
                yield from _length(op, window, use, tuple_type)
        if not any(attribute_type(one, window.on) for one in types):
            yield from _find_mixed_lengths(op, window, use)


def _late(op: Op, window: Window, use: str, kind: str) -> Iterator[Fault]:
    if window.late not in ("error", "drop", "current"):
        yield fault(
            op,
            f"late of {use} must be 'error', 'drop' or 'current'; got {window.late!r}",
            "give one of these",
        )
    elif window.late != "error" and kind not in ("time", "gap"):
        yield fault(
            op,
            f"only a window by time has late items; {use} is by {kind} and has "
            f"late={window.late!r}",
            "leave out late=",
        )


def _aggregate(op: Op, kind: Aggregate, item: Any) -> Iterator[Fault]:
    if (kind.function is None) == (not kind.columns):
        has = "both" if kind.columns else "neither"
        yield fault(
            op,
            f"aggregate must be given a function or columns; it has {has}",
            'write .aggregate(f) or .aggregate(total=ab.sum("x"), ...)',
        )
    if kind.function is not None and kind.into is not None:
        yield fault(
            op,
            "into is for columns; with a function it means nothing",
            "let the function return what into makes",
        )
    made: dict[str, Any] = {}
    for name, column in kind.columns:
        if not isinstance(column, Column):
            yield fault(
                op,
                f"column {name!r} must be made by ab.sum, ab.count or the like; got "
                f"{column!r}",
                'write for instance total=ab.sum("volume")',
            )
            continue
        yield from _column(op, name, column, item)
        made[name] = _column_type(column, item)
    if kind.columns and kind.into is not None:
        yield from _into(op, kind.into, made)


def _column(op: Op, name: str, column: Column, item: Any) -> Iterator[Fault]:
    if column.function in ("window_start", "window_end"):
        window = op.kind.window if isinstance(op.kind, Aggregate) else Window()
        if window.time is None and window.gap is None:
            yield fault(
                op,
                f"column {name!r} asks for a bound of its window, but only a window by "
                f"time or a session has bounds",
                "leave the column out, or use time= or gap=",
            )
        return
    if column.attribute is None:
        return
    use = f"column {name!r}"
    yield from missing(op, item, column.attribute, use)
    if column.function in ("sum", "mean"):
        yield from _numeric(op, item, column.attribute, f"{column.function} of {use}")


def _numeric(op: Op, item: Any, name: str, use: str) -> Iterator[Fault]:
    found = attribute_type(item, name)
    if not is_number(found):
        yield fault(
            op,
            f"{use} must look at a number; {name!r} of {type_name(item)} is "
            f"{type_name(found)}",
            _number_advice(found),
        )


def is_time(op: Op, item: Any, name: str, use: str) -> Iterator[Fault]:
    """Yield a fault unless an attribute may be a time: a number, date or datetime."""
    found = attribute_type(item, name)
    inner = optional_of(found) or found
    if not (is_number(found) or _is_date(inner)):
        yield fault(
            op,
            f"{use} must look at a number, a date or a datetime; {name!r} of "
            f"{type_name(item)} is {type_name(found)}",
            "name another attribute, or map the stream so that it has one",
        )


def _is_date(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, dt.date)


def _length(op: Op, window: Window, use: str, item: Any) -> Iterator[Fault]:
    """Yield a fault if lengths and times cannot be compared."""
    timing = Timing(window.on or "", window.unit)
    for name in ("time", "every", "gap"):
        yield from _span(op, f"{name} of {use}", getattr(window, name), timing, item)


def _span(op: Op, what: str, span: Any, timing: Timing, item: Any) -> Iterator[Fault]:
    """Yield a fault if a duration cannot be compared with the times of the items."""
    found = attribute_type(item, timing.on)
    if found is None or not isinstance(span, numbers.Real | dt.timedelta):
        return
    dates = _is_date(optional_of(found) or found)
    if isinstance(span, dt.timedelta) == dates:
        return
    if dates and span != 0:
        yield fault(
            op,
            f"{what} must be a timedelta or a text like '5 min', since "
            f"{timing.on!r} is {type_name(found)}; got {span!r}",
            "give it a unit",
        )
    elif not dates and timing.unit is None:
        yield fault(
            op,
            f"{what} is {span}, but {timing.on!r} is {type_name(found)}, "
            f"of an unknown unit",
            f"give {what.split(maxsplit=1)[0]}= a number, or say event_time(..., "
            f'unit="ms"){_where(op)}',
        )


def _where(op: Op) -> str:
    return "" if isinstance(op.kind, EventTime) else " before"


def _find_mixed_lengths(op: Op, window: Window, use: str) -> Iterator[Fault]:
    """Yield a fault if one length has a unit and the other has none, for any input."""
    if window.time is None or window.every is None or window.unit is not None:
        return
    with_unit = [isinstance(x, dt.timedelta) for x in (window.time, window.every)]
    if any(with_unit) and not all(with_unit):
        yield fault(
            op,
            f"time and every of {use} must both have a unit, or neither; got "
            f"time={window.time!r} and every={window.every!r}",
            "give both one, as in time='10 min', every='1 min'",
        )


def _number_advice(found: Any) -> str:
    advice = "name a numeric attribute, or map the stream so that it has one"
    inner = optional_of(found) or found
    if isinstance(inner, type) and issubclass(inner, dt.date):
        return f"{advice}: a datetime has timestamp(), a date toordinal()"
    return advice


def _column_type(column: Column, item: Any) -> Any:
    if column.function in ("window_start", "window_end", "highest", "lowest"):
        return None
    if column.function == "counts":
        return dict
    if column.attribute is None:
        return int
    return (
        float if column.function == "mean" else attribute_type(item, column.attribute)
    )


def _into(op: Op, into: Any, made: dict[str, Any]) -> Iterator[Fault]:
    if not callable(into):
        yield fault(op, f"into must be a type or a function; got {into!r}", "pass one")
        return
    fields = fields_of(into)
    refused = why_not_called(into, 0, made)
    if refused is not None:
        there = "" if fields is None else f"; {there_is('', fields)}"
        yield fault(
            op,
            f"into must take the columns {', '.join(made)}; {_describe_into(into)} does not: "
            f"{refused}",
            f"name the columns as into does{there}",
        )
    for name, found in made.items():
        if not may_be(found, (fields or {}).get(name)):
            yield fault(
                op,
                f"column {name!r} is {type_name(found)}, but {type_name(into)} has it "
                f"as {type_name((fields or {})[name])}",
                "change the column or the type of the attribute",
            )


def _describe_into(into: Any) -> str:
    return type_name(into) if isinstance(into, type) else describe_function(into)


def _positive(size: Any, *, whole: bool, span: bool = False) -> bool:
    if span and isinstance(size, dt.timedelta):
        return size > dt.timedelta(0)
    kind = numbers.Integral if whole else numbers.Real
    if isinstance(size, bool) or not isinstance(size, kind):
        return False
    number: Any = size
    return bool(0 < number < math.inf)


_LET_THROUGH = (EventTime, Map, Filter, FlatMap, Lookup, Scan, Apply, Split, Iterate)


def punctuation(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each window that waits for punctuations in vain."""
    for op in streams.ops:
        if isinstance(op.kind, Aggregate) and op.kind.window.punctuation:
            yield from _check_awaited(op, streams)


def _check_awaited(op: Op, streams: Streams) -> Iterator[Fault]:
    stopped_at = _find_stop(op, streams)
    if stopped_at is None:
        return
    lost = _nearest(stopped_at, streams)
    if lost is None:
        yield fault(
            op,
            "its windows end at punctuations, but nothing puts any into its stream",
            "put .punctuate(when) before .window(punctuation=True)",
        )
    else:
        yield fault(
            op,
            f"its windows end at punctuations; those of {lost.name!r} ({lost.site}) "
            f"are lost at {stopped_at.name!r} ({stopped_at.site})",
            f"put .punctuate(when) behind {stopped_at.name!r}, or window before it",
        )


def _find_stop(op: Op, streams: Streams) -> Op | None:
    """Return the operator that stops all punctuations; None: one may come."""
    seen = {op.name}
    while len(op.inputs) == 1:
        producer = streams.producer(op.inputs[0])
        if producer is None or producer.name in seen:
            return None  # a graph that is broken in another way
        if isinstance(producer.kind, Punctuate):
            return None
        if not isinstance(producer.kind, _LET_THROUGH):
            return producer
        seen.add(producer.name)
        op = producer
    return None


def _nearest(op: Op, streams: Streams) -> Op | None:
    """Return the nearest operator before `op` that inserts punctuations."""
    seen = {op.name}
    waiting = [op]
    for at in waiting:  # grows during iteration
        for stream in at.inputs:
            producer = streams.producer(stream)
            if producer is None or producer.name in seen:
                continue
            if isinstance(producer.kind, Punctuate):
                return producer
            seen.add(producer.name)
            waiting.append(producer)
    return None


_LATE = ("drop", "error", "dead_letter", "current")


def clocks(streams: Streams) -> Iterator[Fault]:
    """Yield the faults of `event_time`, timers and key expiry."""
    for op in streams.ops:
        item = streams.item_type(op)
        if isinstance(op.kind, EventTime):
            yield from _event_time(op, op.kind, item)
        if op.timing is not None and op.timing.forget_after is not None:
            yield from missing(op, item, op.timing.on, "forget_after")
            after = op.timing.forget_after
            yield from _span(op, "forget_after", after, op.timing, item)
        if isinstance(op.kind, InOrder) or (
            isinstance(op.kind, Join) and op.kind.within is not None
        ):
            for each in dict.fromkeys(streams.types(op)):
                yield from missing(op, each, op.timing.on, op.kind.label)
                yield from is_time(op, each, op.timing.on, op.kind.label)
                if isinstance(op.kind, Join):
                    within = op.kind.within
                    yield from _span(op, "within", within, op.timing, each)
        if isinstance(op.kind, Apply) and op.timing is None:
            yield from _woken(op, op.kind)


def _event_time(op: Op, kind: EventTime, item: Any) -> Iterator[Fault]:
    yield from missing(op, item, kind.on, "event_time")
    yield from is_time(op, item, kind.on, "event_time")
    timing = Timing(kind.on, kind.unit)
    yield from _span(op, "lateness", kind.lateness, timing, item)
    if kind.late not in _LATE:
        yield fault(
            op,
            f"late must be one of {', '.join(map(repr, _LATE))}; got {kind.late!r}",
            "give one of these",
        )
    if kind.unit is not None and kind.unit not in UNITS:
        yield fault(
            op,
            f"unit must be one of {', '.join(UNITS)}; got {kind.unit!r}",
            "give one of these, or leave it out",
        )
    if kind.idle is not None and not (
        isinstance(kind.idle, dt.timedelta) and is_positive(kind.idle)
    ):
        yield fault(
            op,
            f"idle must be a timedelta or a text like '30 s', above 0; got {kind.idle!r}",
            "give the time of silence by the wall clock, or leave it out",
        )
    given = isinstance(kind.lateness, numbers.Real | dt.timedelta)
    if not given or not (
        kind.lateness == type(kind.lateness)(0) or is_positive(kind.lateness)
    ):
        yield fault(
            op,
            f"lateness must be a duration of 0 or more; got {kind.lateness!r}",
            "give a number in the unit of the times, a timedelta, or a text like '5 min'",
        )


def _woken(op: Op, kind: Apply) -> Iterator[Fault]:
    ours = isinstance(kind.operator, type) and issubclass(kind.operator, Operator)
    if ours and kind.overrides("on_time"):
        yield fault(
            op,
            f"{kind.operator.__name__}.on_time is called by the clock of the stream, and "
            f"its stream has none",
            _CLOCK_ADVICE,
        )
