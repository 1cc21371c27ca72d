"""The meaning of a program, operator by operator instead of item by item.

Every arrival has a position: the round and the number of the source, then for each
operator on the way the index of the output and the index of the branch. An operator
takes all its arrivals in the order of their positions. That the outcome equals that
of the depth-first interpreter is what the parallel engines rest on, since they too
run operators apart from one another and put outputs in order by position.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.clock import EventTime, InOrder, is_sign
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.fan_in import Barrier, Merge, Union
from anabranch.operators.iterate import Iterate
from anabranch.operators.join import Join, Lookup
from anabranch.operators.sources import FromIterable
from anabranch.operators.stateless import WINDOW, Filter, FlatMap, Map, Punctuate, Split
from anabranch.operators.windows import Aggregate
from tests.programs import definitions
from tests.programs.clock_definitions import clocked, event_time
from tests.programs.definitions import END, Arrival, Arrivals, Output

Position = tuple[float, ...]
Delivery = tuple[Position, int, Any]  # position, input port, item
Definition = Callable[[Any, Arrivals], Any]

PASSING = (Map, Filter, FlatMap, Lookup, Punctuate, Split, Scan, Apply, Iterate)


def run_breadth_first(graph: Graph, given: Sequence[Any] = ()) -> dict[str, list[Any]]:
    """Return what each sink gets; `given` are the items of a `Given` source."""
    delivered: dict[str, list[Delivery]] = defaultdict(list)
    got: dict[str, list[Any]] = {}
    for number, op in enumerate(graph):
        if isinstance(op.kind, SourceKind):
            which = graph.sources.index(op)
            outputs = [
                ((turn, which), 0, item)
                for turn, item in enumerate(_items(op.kind, given))
            ]
        else:
            arrived = _in_order(delivered.pop(op.name, []))
            if isinstance(op.kind, SinkKind):
                got[op.name] = [item for _, _, item in arrived if not is_sign(item)]
            outputs = _outputs(op, number, arrived)
        for position, port, item in outputs:
            edges = [e for e in graph.out_edges(op.name) if e.producer.port == port]
            for branch, edge in enumerate(edges):
                place = (*position, branch)
                delivered[edge.consumer.operator].append(
                    (place, edge.consumer.port, item)
                )
    return got


def _items(source: SourceKind, given: Sequence[Any]) -> Any:
    if isinstance(source, FromIterable):
        return source.items
    return source.factory() if hasattr(source, "factory") else given


def _in_order(deliveries: list[Delivery]) -> list[Delivery]:
    """Sort by position; none may begin with another, or order would be a matter of luck."""
    ordered = sorted(deliveries, key=lambda delivery: delivery[0])
    for (one, _, _), (two, _, _) in itertools.pairwise(ordered):
        assert one != two[: len(one)], f"{one} and {two} cannot be told apart"
    return ordered


def _outputs(op: Op, number: int, arrived: list[Delivery]) -> list[Delivery]:
    """Return the outputs of an operator with their positions."""
    if isinstance(op.kind, SinkKind):
        return []
    arrivals = [Arrival(i, port, item) for i, (_, port, item) in enumerate(arrived)]
    made: list[tuple[float, int, Output]] = [
        (output.trigger, rank, output)
        for rank, mine in enumerate(_per_key(op, arrivals))
        for output in (
            _define(op)(op.kind, mine)
            if op.timing is None
            else clocked(op, mine, _define(op))
        )
    ]
    if isinstance(op.kind, PASSING):
        passed = [a for a in arrivals if is_sign(a.item)]
        if op.timing is not None:
            passed = [a for a in passed if a.item is WINDOW]
        last = len(arrivals)
        made += [
            (a.index, last, Output(a.index, a.item, port))
            for a in passed
            for port in range(op.kind.outputs)
        ]
    made.sort(key=lambda entry: entry[:2])
    placed: list[Delivery] = []
    count: dict[float, int] = defaultdict(int)
    for trigger, _, output in made:
        start = (END, number) if trigger == END else arrived[int(trigger)][0]
        placed.append(((*start, count[trigger]), output.port, output.item))
        count[trigger] += 1
    return placed


def _per_key(op: Op, arrivals: Arrivals) -> list[Arrivals]:
    """Return what each key sees, in the order of keys: its items, and punctuations.

    A key is there from its first item on; an operator without a key from the start.
    """
    if not op.state_key:
        return [arrivals]
    keys = [
        None
        if is_sign(a.item)
        else tuple(definitions.part_of(a.item, n) for n in op.state_key)
        for a in arrivals
    ]
    return [
        [
            a
            for a, of in zip(arrivals, keys, strict=True)
            if of == key or (of is None and a.index > keys.index(key))
        ]
        for key in sorted({key for key in keys if key is not None})
    ]


def _define(op: Op) -> Definition:
    if isinstance(op.kind, Merge | Barrier):
        define = DEFINITIONS[type(op.kind)]
        inputs = len(op.inputs)
        return lambda kind, arrivals: define(kind, arrivals, inputs)
    return DEFINITIONS[type(op.kind)]


def iterate(kind: Iterate, arrivals: Arrivals) -> Any:
    window: list[Any] = []
    for index, _, item in arrivals:
        if item is not WINDOW:
            window += [] if is_sign(item) else [item]
            continue
        yield from (Output(index, output) for output in _rounds(kind, window))
        window = []
    yield from (Output(END, output) for output in _rounds(kind, window))


def _rounds(kind: Iterate, items: list[Any]) -> list[Any]:
    done = 0
    while items or done:
        if done == kind.rounds or (done and kind.until and kind.until(items)):
            break
        (items,) = run_breadth_first(kind.body, items).values()
        done += 1
    return items


DEFINITIONS: dict[type, Any] = {
    EventTime: event_time,
    InOrder: None,  # only behind a clock, so `clocked` says what it means
    Map: definitions.map_,
    Filter: definitions.filter_,
    FlatMap: definitions.flat_map,
    Punctuate: definitions.punctuate,
    Split: definitions.split,
    Union: definitions.union,
    Merge: definitions.merge,
    Barrier: definitions.barrier,
    Scan: definitions.scan,
    Apply: definitions.apply,
    Aggregate: definitions.aggregate,
    Join: definitions.join,
    Lookup: definitions.lookup,
    Block: definitions.block,
    Deal: definitions.deal,
    Collect: definitions.collect,
    Iterate: iterate,
}
