"""What follows the clock of a stream, said of the whole stream at once.

Nothing here keeps an index or a queue: at each advance everything is looked at.
"""

from __future__ import annotations

import copy
import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
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
MICROSECOND = dt.timedelta(microseconds=1)
LENGTHS = {"s": dt.timedelta(seconds=1)}  # of the units that generated programs use


def number_of(time: Any) -> Any:
    """Return a time as a number; one of the calendar in microseconds since 1970."""
    match time:
        case dt.datetime(tzinfo=None):
            return (time - dt.datetime.fromisoformat("1970-01-01")) // MICROSECOND
        case dt.datetime():
            since = time - dt.datetime.fromisoformat("1970-01-01T00:00:00Z")
            return since // MICROSECOND
        case dt.date():
            return 86_400_000_000 * (time.toordinal() - dt.date(1970, 1, 1).toordinal())
    return time


def length_of(length: Any, unit: str | None = None) -> Any:
    """Return a length as a number; without a unit it is one of the calendar."""
    if not isinstance(length, dt.timedelta):
        return length
    return length // (MICROSECOND if unit is None else LENGTHS[unit])


def time_like(time: Any, number: Any) -> Any:
    """Return the time of a number, of the same kind as another time."""
    apart = number - number_of(time)
    match time:
        case dt.datetime(tzinfo=None):
            return time + apart * MICROSECOND
        case dt.datetime(tzinfo=zone):
            return (time.astimezone(dt.UTC) + apart * MICROSECOND).astimezone(zone)
        case dt.date():
            return time + apart * MICROSECOND
    return number


def by_number(name: str) -> Callable[[Any], Any]:
    """Return the function that gives an attribute of an item, a time, as a number."""
    return lambda item: number_of(getattr(item, name))


def event_time(kind: EventTime, arrivals: Arrivals) -> Iterator[Output]:
    """The clock before an item is that of the highest time before it."""
    on = by_number(kind.on)
    lateness = length_of(kind.lateness, kind.unit)
    taken: list[Any] = []
    for index, _, item in arrivals:
        if item is WINDOW:
            yield Output(index, item)
        if is_sign(item):
            continue
        clock = max(taken, default=-math.inf) - lateness
        if on(item) < clock:
            assert kind.late in ("drop", "current"), f"{item!r} is late"
            if kind.late == "current":
                yield Output(index, item)
            continue
        taken.append(on(item))
        yield Output(index, item)
        if max(taken) - lateness > clock:
            yield Output(index, Advance(max(taken) - lateness, "number"))


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
    length = length_of(window.time, window.unit)
    every = length_of(window.every or window.time, window.unit)
    held: dict[Any, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        index, _, item = arrival
        if is_sign(item):
            continue
        clock = ([-math.inf, *clocks])[index]
        time = number_of(getattr(item, window.on))
        if (time // every + 1) * every <= clock:
            assert window.late in ("drop", "current"), f"{item!r} is late"
            if window.late == "drop":
                continue
            end = (clock // every + 1) * every
            time = max(end - every, end - length)
        for step in range(1, int(length // every) + 3):
            end = (time // every + step) * every
            if end - length <= time < end:
                held[(end, _key(op, item))].append(arrival)
    for (end, key), those in held.items():
        trigger = _trigger(clocks, those[0].index, end)
        items = [arrival.item for arrival in those]
        like = getattr(items[0], window.on)
        bounds = time_like(like, end - length), time_like(like, end)
        made = summarize(kind, items, *bounds)
        yield (trigger, end, key), Output(trigger, made)


def _in_order(kind: InOrder, arrivals: Arrivals, clocks: list[float]) -> Made:
    for index, _, item in arrivals:
        if not is_sign(item):
            time = max(number_of(getattr(item, kind.on)), clocks[index])
            trigger = _trigger(clocks, index, time)
            yield (trigger, time, index), Output(trigger, item)


def _pairs(op: Op, kind: Join, arrivals: Arrivals, clocks: list[float]) -> Made:
    """Each pair, when the later one comes, if the earlier one is still waiting then."""
    found = [arrival for arrival in arrivals if not is_sign(arrival.item)]
    on = by_number(op.timing.on)
    within = length_of(kind.within, op.timing.unit)
    for new in found:
        for old in found[: found.index(new)]:
            left, right = (new, old) if new.port == 0 else (old, new)
            if (
                old.port != new.port
                and _key(op, old.item) == _key(op, new.item)
                and abs(on(old.item) - on(new.item)) < within
                and clocks[new.index] < on(old.item) + within
                and (kind.match is None or kind.match(left.item, right.item))
            ):
                pair = (left.item, right.item)
                made = pair if kind.into is None else kind.into(*pair)
                yield (new.index, old.index), Output(new.index, made)


def _sessions(op: Op, kind: Aggregate, arrivals: Arrivals, clocks: list[float]) -> Made:
    """At each advance the items that hang together are looked for anew."""
    gap, on = length_of(kind.window.gap, kind.window.unit), kind.window.on
    held: dict[Any, list[tuple[Any, Any]]] = defaultdict(list)
    end_of_all = [*arrivals, Arrival(len(arrivals), 0, Advance(math.inf, "number"))]
    for index, _, item in end_of_all:
        clock = ([-math.inf, *clocks])[index]
        if not is_sign(item):
            time = number_of(getattr(item, on))
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
                    like = getattr(items[0], on)
                    bounds = time_like(like, start), time_like(like, end)
                    made = summarize(kind, items, *bounds)
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
    """At each advance, what is due is looked for among all keys, until nothing is.

    At an item it is looked for among the timers of its key.
    """
    after = length_of(op.timing.forget_after, op.timing.unit)
    instances: dict[Any, Any] = {} if op.keyed_by else {(): kind.instance()}
    last: dict[Any, Any] = {}
    for index, _, item in arrivals:
        made: list[Any] = []
        if isinstance(item, Advance):
            ends = {key: time + after for key, time in last.items()}
            made += _wake(instances, clocks[index], ends)
            last = {key: time for key, time in last.items() if key in instances}
        elif item is WINDOW:
            for key in sorted(instances):
                made += instances[key].punctuation()
        else:
            key = _key(op, item)
            if key not in instances:
                instances[key] = kind.instance()
            made += instances[key].process(item)
            made += _wake({key: instances[key]}, clocks[index], {})
            if op.keyed_by and after is not None:
                time = number_of(getattr(item, op.timing.on))
                last[key] = max(time, last.get(key, time))
        for count, one in enumerate(made):
            yield (index, count), Output(index, one)
    for count, one in enumerate(_at_end(instances)):
        yield (END, count), Output(END, one)


def _at_end(instances: dict[Any, Any]) -> Iterator[Any]:
    """Yield what the timers that are left give, and then each key."""
    for own in instances.values():
        for time in [time for time, at_end in _timers_of(own).items() if not at_end]:
            del _timers_of(own)[time]
    yield from _wake(instances, math.inf, {})
    for key in sorted(instances):
        yield from instances[key].finish()


def _wake(
    instances: dict[Any, Any], clock: float, ends: dict[Any, Any]
) -> Iterator[Any]:
    """Yield what is due up to the clock; a key that has come to its end is removed."""
    while True:
        due = [
            (number_of(time), 0, key, time)
            for key, own in instances.items()
            for time in _timers_of(own)
            if number_of(time) <= clock
        ]
        due += [(end, 1, key, end) for key, end in ends.items() if end <= clock]
        if not due:
            return
        _, ended, key, time = min(due, key=lambda one: one[:3])
        own = instances[key]
        if not ended:
            yield from _fire(own, time)
            continue
        while timers := _timers_of(own):
            first = min(timers, key=number_of)
            if timers[first]:
                yield from _fire(own, first)
            else:
                del timers[first]
        yield from list(own.finish())
        del instances[key], ends[key]


def _fire(own: Any, time: Any) -> list[Any]:
    del _timers_of(own)[time]
    return list(own.on_time(time))


def _timers_of(own: Any) -> dict[Any, bool]:
    return own.__dict__.setdefault("_timers", {})


def _lives(op: Op, arrivals: Arrivals, clocks: list[float], plain: Plain) -> Made:
    """A key lives from an item of it to the advance that makes it old, then anew."""
    after = length_of(op.timing.forget_after, op.timing.unit)
    on = by_number(op.timing.on)
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
