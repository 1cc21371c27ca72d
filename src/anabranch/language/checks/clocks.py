"""Checks of clocks: well formed, and present where needed."""

from __future__ import annotations

import datetime as dt
import numbers
from collections.abc import Iterator
from typing import Any

from anabranch.errors import Fault
from anabranch.graph.graph import Op
from anabranch.language.checks.functions import missing
from anabranch.language.checks.structure import Streams, fault
from anabranch.language.checks.windows import is_time
from anabranch.operators.clock import EventTime, InOrder
from anabranch.operators.custom import Apply, Operator
from anabranch.operators.join import Join
from anabranch.operators.timescale import UNITS, is_positive

_LATE = ("drop", "error", "dead_letter", "current")


def clocks(streams: Streams) -> Iterator[Fault]:
    """Yield the faults of `event_time`, timers and key expiry."""
    for op in streams.ops:
        item = streams.item_type(op)
        if isinstance(op.kind, EventTime):
            yield from _event_time(op, op.kind, item)
        if op.timing is not None and op.timing.forget_after is not None:
            yield from missing(op, item, op.timing.on, "forget_after")
        if isinstance(op.kind, InOrder) or (
            isinstance(op.kind, Join) and op.kind.within is not None
        ):
            for each in dict.fromkeys(streams.types(op)):
                yield from missing(op, each, op.timing.on, op.kind.label)
                yield from is_time(op, each, op.timing.on, op.kind.label)
        if isinstance(op.kind, Apply) and op.timing is None:
            yield from _woken(op, op.kind)


def _event_time(op: Op, kind: EventTime, item: Any) -> Iterator[Fault]:
    yield from missing(op, item, kind.on, "event_time")
    yield from is_time(op, item, kind.on, "event_time")
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
            'put .event_time("...") before it, with nothing between that ends the clock',
        )
