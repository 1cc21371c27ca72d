"""The clock of a stream: `event_time`, and the sign by which the clock advances.

An *advance* follows the item that caused it in the stream, like a punctuation, and goes
where punctuations go. What it closes is defined in docs/semantics.md.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeAlias

from anabranch.errors import LateItemError
from anabranch.graph.graph import Graph, Op, ancestors
from anabranch.graph.kind import Kind
from anabranch.graph.traits import Push, Traits, keep_one_state
from anabranch.operators.getters import attribute_getter
from anabranch.operators.kernel import Kernel, Outputs, State
from anabranch.operators.stateless import WINDOW, Union
from anabranch.operators.timescale import (
    Duration,
    Scale,
    measure,
    restore,
    scale_of,
    span_on,
)

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
        return f"Advance({restore(self.time, self.scale)!r})"

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
