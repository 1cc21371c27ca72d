"""What follows the clock of a stream, said of the whole stream at once.

Nothing here keeps an index or a queue: at each advance everything is looked at.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from anabranch.graph.graph import Op
from anabranch.operators.clock import Advance, EventTime, InOrder, is_sign
from anabranch.operators.custom import Apply
from anabranch.operators.join import Join
from anabranch.operators.stateless import WINDOW
from anabranch.operators.windows import Aggregate
from tests.programs.definitions import (
    END,
    Arrival,
    Arrivals,
    Output,
    part_of,
    summarize,
)

Plain = Callable[[Any, Arrivals], Any]


def event_time(kind: EventTime, arrivals: Arrivals) -> Iterator[Output]:
    """The clock before an item is that of the highest time before it."""
    on = attrgetter(kind.on)
    taken: list[Any] = []
    for index, _, item in arrivals:
        if item is WINDOW:
            yield Output(index, item)
        if is_sign(item):
            continue
        clock = max(taken, default=-math.inf) - kind.lateness
        if on(item) < clock:
            assert kind.late in ("drop", "current"), f"{item!r} is late"
            if kind.late == "current":
                yield Output(index, item)
            continue
        taken.append(on(item))
        yield Output(index, item)
        if max(taken) - kind.lateness > clock:
            yield Output(index, Advance(max(taken) - kind.lateness, "number"))


def clocked(op: Op, arrivals: Arrivals, plain: Plain) -> list[Output]:
    """Return the outputs of an operator that follows the clock, in order."""
    clocks = _clocks(arrivals, len(op.inputs))
    kind = op.kind
    if isinstance(kind, Aggregate) and kind.window.gap is not None:
        made = _sessions(op, kind, arrivals, clocks)
    elif isinstance(kind, Aggregate) and kind.window.time is not None:
        made = _windows(op, kind, arrivals, clocks)
    elif isinstance(kind, InOrder):
        made = _in_order(kind, arrivals, clocks)
    elif isinstance(kind, Join):
        made = _pairs(op, kind, arrivals, clocks)
    elif isinstance(kind, Apply) and kind.overrides("on_time"):
        made = _timers(op, kind, arrivals, clocks)
    else:
        made = _lives(op, arrivals, clocks, plain)
    outputs = [output for _, output in sorted(made, key=lambda pair: pair[0])]
    behind = [
        Output(index, Advance(clocks[index], "number"))
        for index in range(len(arrivals))
        if clocks[index] > ([-math.inf, *clocks])[index]
    ]
    return sorted(outputs + behind, key=lambda output: output.trigger)


def _clocks(arrivals: Arrivals, inputs: int) -> list[float]:
    """Return the clock after each arrival: the least of the inputs' clocks."""
    latest = [-math.inf] * inputs
    found = []
    for _, port, item in arrivals:
        if isinstance(item, Advance):
            latest[port] = item.time
        found.append(min(latest))
    return found


def _trigger(clocks: list[float], after: int, time: float) -> float:
    """Return the first arrival from `after` on at which the clock has come to a time."""
    return next((i for i in range(after, len(clocks)) if clocks[i] >= time), END)


def _key(op: Op, item: Any) -> tuple[Any, ...]:
    return tuple(part_of(item, name) for name in op.keyed_by)


Made = Iterator[tuple[Any, Output]]


def _windows(op: Op, kind: Aggregate, arrivals: Arrivals, clocks: list[float]) -> Made:
    window = kind.window
    every = window.every or window.time
    held: dict[Any, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        index, _, item = arrival
        if is_sign(item):
            continue
        clock = ([-math.inf, *clocks])[index]
        time = getattr(item, window.on)
        if (time // every + 1) * every <= clock:
            assert window.late in ("drop", "current"), f"{item!r} is late"
            if window.late == "drop":
                continue
            end = (clock // every + 1) * every
            time = max(end - every, end - window.time)
        for step in range(1, int(window.time // every) + 3):
            end = (time // every + step) * every
            if end - window.time <= time < end:
                held[(end, _key(op, item))].append(arrival)
    for (end, key), those in held.items():
        trigger = _trigger(clocks, those[0].index, end)
        items = [arrival.item for arrival in those]
        made = summarize(kind, items, end - window.time, end)
        yield (trigger, end, key), Output(trigger, made)


def _in_order(kind: InOrder, arrivals: Arrivals, clocks: list[float]) -> Made:
    for index, _, item in arrivals:
        if not is_sign(item):
            time = max(getattr(item, kind.on), clocks[index])
            trigger = _trigger(clocks, index, time)
            yield (trigger, time, index), Output(trigger, item)


def _pairs(op: Op, kind: Join, arrivals: Arrivals, clocks: list[float]) -> Made:
    """Each pair, when the later one comes, if the earlier one is still waiting then."""
    found = [arrival for arrival in arrivals if not is_sign(arrival.item)]
    on = attrgetter(op.timing.on)
    for new in found:
        for old in found[: found.index(new)]:
            left, right = (new, old) if new.port == 0 else (old, new)
            if (
                old.port != new.port
                and _key(op, old.item) == _key(op, new.item)
                and abs(on(old.item) - on(new.item)) < kind.within
                and clocks[new.index] < on(old.item) + kind.within
                and (kind.match is None or kind.match(left.item, right.item))
            ):
                pair = (left.item, right.item)
                made = pair if kind.into is None else kind.into(*pair)
                yield (new.index, old.index), Output(new.index, made)


def _sessions(op: Op, kind: Aggregate, arrivals: Arrivals, clocks: list[float]) -> Made:
    """At each advance the items that hang together are looked for anew."""
    gap, on = kind.window.gap, kind.window.on
    held: dict[Any, list[tuple[Any, Any]]] = defaultdict(list)
    end_of_all = [*arrivals, Arrival(len(arrivals), 0, Advance(math.inf, "number"))]
    for index, _, item in end_of_all:
        clock = ([-math.inf, *clocks])[index]
        if not is_sign(item):
            time = getattr(item, on)
            if time + gap <= clock:
                assert kind.window.late in ("drop", "current"), f"{item!r} is late"
                if kind.window.late == "drop":
                    continue
                time = clock
            held[_key(op, item)].append((time, item))
            continue
        at_end = index == len(arrivals)
        now = math.inf if at_end else clocks[index]
        for key, timed in held.items():
            for session in _hang_together(timed, gap):
                end = max(time for time, _ in session) + gap
                if end <= now:
                    items = [item for _, item in session]
                    start = min(time for time, _ in session)
                    made = summarize(kind, items, start, end)
                    trigger = END if at_end else index
                    yield (trigger, end, key), Output(trigger, made)
                    for one in session:
                        timed.remove(one)


def _hang_together(timed: list[tuple[Any, Any]], gap: Any) -> list[list[Any]]:
    """Return the items in groups: within one, each is less than `gap` from another."""
    groups: list[list[Any]] = []
    for time in sorted(time for time, _ in timed):
        if not groups or time - groups[-1][-1] >= gap:
            groups.append([])
        groups[-1].append(time)
    return [[one for one in timed if g[0] <= one[0] <= g[-1]] for g in groups]


def _timers(op: Op, kind: Apply, arrivals: Arrivals, clocks: list[float]) -> Made:
    instances: dict[Any, Any] = {} if op.keyed_by else {(): kind.instance()}
    for index, _, item in arrivals:
        count = 0
        if not is_sign(item):
            key = _key(op, item)
            own = instances.setdefault(key, kind.instance())
            for made in list(own.process(item)):
                yield (index, count), Output(index, made)
                count += 1
        for made in _wake(instances, clocks[index]):
            yield (index, count), Output(index, made)
            count += 1
    count = 0
    for own in instances.values():
        timers = own.__dict__.get("_timers", {})
        for time in [time for time, at_end in timers.items() if not at_end]:
            del timers[time]
    for made in _wake(instances, math.inf):
        yield (END, count), Output(END, made)
        count += 1
    for key in sorted(instances):
        for made in instances[key].finish():
            yield (END, count), Output(END, made)
            count += 1


def _wake(instances: dict[Any, Any], clock: float) -> Iterator[Any]:
    while True:
        due = [
            (time, key)
            for key, own in instances.items()
            for time in own.__dict__.get("_timers", {})
            if time <= clock
        ]
        if not due:
            return
        time, key = min(due)
        del instances[key]._timers[time]
        yield from list(instances[key].on_time(time))


def _lives(op: Op, arrivals: Arrivals, clocks: list[float], plain: Plain) -> Made:
    """A key lives from an item of it to the advance that makes it old, then anew."""
    after, on = op.timing.forget_after, attrgetter(op.timing.on)
    if after is None or not op.keyed_by:
        for count, output in enumerate(plain(op.kind, arrivals)):
            yield (output.trigger, count), output
        return
    lives: dict[Any, Arrivals] = {}
    for index, _, item in arrivals:
        if not is_sign(item):
            lives.setdefault(_key(op, item), []).append(arrivals[index])
            continue
        if item is WINDOW:
            for life in lives.values():
                life.append(arrivals[index])
            continue
        for key, life in list(lives.items()):
            end = max(on(one.item) for one in life if one.item is not WINDOW) + after
            if end <= clocks[index]:
                yield from _life(op, life, plain, (index, end, key))
                del lives[key]
    for key, life in lives.items():
        yield from _life(op, life, plain, (END, math.inf, key))


def _life(op: Op, life: Arrivals, plain: Plain, end: tuple[Any, Any, Any]) -> Made:
    for count, output in enumerate(plain(copy.copy(op.kind), life)):
        if output.trigger == END:
            yield (*end, count), Output(end[0], output.item)
        else:
            yield (output.trigger, -math.inf, end[2], count), output
