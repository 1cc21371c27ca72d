"""What each kind of operator means, said of a whole stream at once.

The kernels of the package go item by item and keep a state. These definitions see all
that ever arrives (for one key) and say which arrival triggers which outputs. They
share no code with the kernels, so where both agree neither is wrong by habit.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Iterator
from itertools import cycle
from operator import attrgetter
from typing import Any, NamedTuple

from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.clock import is_sign
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.fan_in import Barrier, Merge, Union
from anabranch.operators.join import Join, Lookup
from anabranch.operators.stateless import WINDOW, Filter, FlatMap, Map, Punctuate, Split
from anabranch.operators.windows import Aggregate, Window
from tests.programs.window_definitions import windows_of

END = math.inf  # the trigger of what is given when the stream has ended


class Arrival(NamedTuple):
    index: int
    port: int
    item: Any


class Output(NamedTuple):
    trigger: float  # the index of the arrival, or END
    item: Any
    port: int = 0


Arrivals = list[Arrival]
Outputs = Iterator[Output]


def map_(kind: Map, arrivals: Arrivals) -> Outputs:
    for index, _, item in items_of(arrivals):
        yield Output(index, kind.function(item))


def filter_(kind: Filter, arrivals: Arrivals) -> Outputs:
    for index, _, item in items_of(arrivals):
        if kind.predicate(item):
            yield Output(index, item)


def lookup(kind: Lookup, arrivals: Arrivals) -> Outputs:
    for index, _, item in items_of(arrivals):
        key = tuple(part_of(item, name) for name in kind.on)
        found = [v for k, v in kind.table.items() if key in ((k,), k)]
        for value in found or kind.default:
            yield Output(index, kind.into(item, value) if kind.into else (item, value))


def part_of(item: Any, name: str) -> Any:
    """Return a part of the key of an item: an attribute, or what a function gives."""
    function = getattr(name, "function", None)
    return getattr(item, name) if function is None else function(item)


def flat_map(kind: FlatMap, arrivals: Arrivals) -> Outputs:
    for index, _, item in items_of(arrivals):
        for output in kind.function(item):
            yield Output(index, output)


def punctuate(kind: Punctuate, arrivals: Arrivals) -> Outputs:
    for index, _, item in items_of(arrivals):
        yield Output(index, item)
        if kind.when(item):
            yield Output(index, WINDOW)


def split(kind: Split, arrivals: Arrivals) -> Outputs:
    for index, _, item in items_of(arrivals):
        routes = kind.route(item)
        named = [routes] if isinstance(routes, int) else list(routes)
        for place, port in enumerate(named):
            if port not in named[:place]:
                yield Output(index, item, port)


def union(_: Union, arrivals: Arrivals) -> Outputs:
    for index, _, item in items_of(arrivals):
        yield Output(index, item)


def merge(kind: Merge, arrivals: Arrivals, inputs: int) -> Outputs:
    """Output k is the least head once every input has an item beyond what went out."""
    by = attrgetter(kind.by)
    ports = ports_of(arrivals, inputs)
    taken = [0] * len(ports)
    trigger: float = 0
    while any(taken[p] < len(ports[p]) for p in range(len(ports))):
        heads = [
            ports[p][taken[p]] if taken[p] < len(ports[p]) else None
            for p in range(len(ports))
        ]
        waiting = [head.index if head is not None else END for head in heads]
        trigger = max(trigger, *waiting)
        present = [head for head in heads if head is not None]
        least = min(present, key=lambda head: (by(head.item), head.port))
        taken[least.port] += 1
        yield Output(trigger, least.item)


def barrier(kind: Barrier, arrivals: Arrivals, inputs: int) -> Outputs:
    """Output k is made of the k-th items, when the last of them has come."""
    for together in zip(*ports_of(arrivals, inputs), strict=False):
        items = tuple(arrival.item for arrival in together)
        made = items if kind.into is None else kind.into(*items)
        yield Output(max(arrival.index for arrival in together), made)


def scan(kind: Scan, arrivals: Arrivals) -> Outputs:
    state = kind.initial
    for index, _, item in items_of(arrivals):
        state, output = kind.step(state, item)
        yield Output(index, output)


def apply(kind: Apply, arrivals: Arrivals) -> Outputs:
    instance = kind.operator(*kind.arguments, **dict(kind.keywords))
    instance.setup()
    for index, _, item in arrivals:
        if is_sign(item) and item is not WINDOW:
            continue
        given = instance.punctuation() if item is WINDOW else instance.process(item)
        for output in given:
            yield Output(index, output)
    for output in instance.finish():
        yield Output(END, output)


def aggregate(kind: Aggregate, arrivals: Arrivals) -> Outputs:
    for trigger, items in windows_of(kind.window, arrivals):
        yield Output(trigger, summarize(kind, items))


def summarize(kind: Aggregate, items: list[Any], start: Any = None, end: Any = None):
    """Return the output of one window; the bounds are those of a window by time."""
    if kind.function is not None:
        return kind.function(items)
    bounds = {"window_start": start, "window_end": end}
    values = {}
    for name, column in kind.columns:
        found = [column.attribute and getattr(item, column.attribute) for item in items]
        match column.function:
            case "window_start" | "window_end" as bound:
                values[name] = bounds[bound]
            case "highest":
                values[name] = [
                    i for i, v in zip(items, found, strict=True) if v >= max(found)
                ]
            case "lowest":
                values[name] = [
                    i for i, v in zip(items, found, strict=True) if v <= min(found)
                ]
            case function:
                values[name] = COLUMNS[function](found)
    into = kind.into or namedtuple("Row", values)  # noqa: PYI024 - named at run time
    return into(**values)


COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "count": len,
    "min": min,
    "max": max,
    "any": lambda values: values[0],
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "mean": lambda values: sum(values) / len(values),
    "counts": lambda values: {value: values.count(value) for value in values},
}


def join(kind: Join, arrivals: Arrivals) -> Outputs:
    """Every pair, the later of which finds the earlier one in its window."""
    found = items_of(arrivals)
    windows = (kind.left_window, kind.right_window)
    for place, new in enumerate(found):
        pairs = []
        for old_place, old in enumerate(found[:place]):
            since = found[old_place + 1 : place + 1]
            if old.port == new.port or not _is_held(windows[old.port], old, since):
                continue
            left, right = (new, old) if new.port == 0 else (old, new)
            if kind.match is None or kind.match(left.item, right.item):
                pairs.append((left.item, right.item))
        if not pairs and new.port == 0:
            pairs = [(new.item, other) for other in kind.default]
        for pair in pairs:
            yield Output(new.index, pair if kind.into is None else kind.into(*pair))


def _is_held(window: Window, old: Arrival, since: Arrivals) -> bool:
    """Tell whether an item is still in its window after what has come since."""
    if window.count is not None:
        return sum(later.port == old.port for later in since) < window.count
    value = attrgetter(window.on)
    span = window.time or window.delta
    return all(value(later.item) - value(old.item) < span for later in since)


def block(kind: Block, arrivals: Arrivals) -> Outputs:
    found = items_of(arrivals)
    first = 0
    while first + kind.peek <= len(found):
        seen = found[first : first + kind.peek]
        for output in kind.function([arrival.item for arrival in seen]):
            yield Output(seen[-1].index, output)
        first += kind.pop


def deal(kind: Deal, arrivals: Arrivals) -> Outputs:
    turns = cycle([p for p, weight in enumerate(kind.weights) for _ in range(weight)])
    for (index, _, item), port in zip(items_of(arrivals), turns, strict=False):
        yield Output(index, item, port)


def collect(kind: Collect, arrivals: Arrivals) -> Outputs:
    """Output k comes from the branch of turn k, when it and all before it are there."""
    left = ports_of(arrivals, len(kind.weights))
    turns = cycle([p for p, weight in enumerate(kind.weights) for _ in range(weight)])
    trigger: float = 0
    while any(left[p] for p, weight in enumerate(kind.weights) if weight):
        port = next(turns)
        trigger = max(trigger, left[port][0].index if left[port] else END)
        if left[port]:
            yield Output(trigger, left[port].pop(0).item)


def items_of(arrivals: Arrivals) -> Arrivals:
    """Return the arrivals without the punctuations."""
    return [arrival for arrival in arrivals if not is_sign(arrival.item)]


def ports_of(arrivals: Arrivals, inputs: int) -> list[Arrivals]:
    """Return the items of each input port by itself."""
    items = items_of(arrivals)
    return [[a for a in items if a.port == port] for port in range(inputs)]
