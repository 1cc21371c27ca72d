"""Balance equations: how often operators of fixed rates fire in one steady round.

On a stream, the producer's output per round must equal the consumer's input: `push *
repetitions[producer] == pop * repetitions[consumer]`. The smallest integers that solve
this are the repetitions; if there are none, items would pile up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from anabranch.graph.graph import Graph, Op, Output
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.custom import Scan
from anabranch.operators.fan_in import Barrier
from anabranch.operators.stateless import Map, Punctuate


class FixedStream(NamedTuple):
    """A stream of fixed rates: `push` items in per firing, `pop` items out."""

    producer: str
    push: int
    consumer: str
    pop: int


class Balance(NamedTuple):
    """The repetitions of every operator, and the streams that contradict them."""

    repetitions: dict[str, int]
    conflicts: tuple[FixedStream, ...]


class FiringRates(NamedTuple):
    """The number of items that a firing takes from each input and gives on each
    output.
    """

    pops: tuple[int, ...]
    pushes: tuple[int, ...]


def balance(operators: Sequence[str], flows: Iterable[FixedStream]) -> Balance:
    """Solve the balance equations of connected operators.

    >>> balance("ab", [FixedStream("a", 2, "b", 3)]).repetitions
    {'a': 3, 'b': 2}
    >>> balance("ab", [FixedStream("a", 1, "b", 1), FixedStream("a", 2, "b", 1)]).conflicts
    (FixedStream(producer='a', push=2, consumer='b', pop=1),)

    If flows contradict one another the earlier ones win. Operators that no flow
    connects are balanced separately. A flow that never carries an item (a rate of 0)
    connects nothing.
    """
    carrying = [flow for flow in flows if flow.push and flow.pop]
    neighbours: dict[str, list[tuple[str, Fraction]]] = {name: [] for name in operators}
    for flow in _spanning(operators, carrying):
        ratio = Fraction(flow.push, flow.pop)
        neighbours[flow.producer].append((flow.consumer, ratio))
        neighbours[flow.consumer].append((flow.producer, 1 / ratio))
    repetitions: dict[str, int] = {}
    for name in operators:
        if name not in repetitions:
            repetitions |= _in_whole_numbers(_shares_from(name, neighbours))
    conflicts = tuple(
        flow
        for flow in carrying
        if flow.push * repetitions[flow.producer]
        != flow.pop * repetitions[flow.consumer]
    )
    return Balance({name: repetitions[name] for name in operators}, conflicts)


def rates_of(op: Op) -> FiringRates | None:
    """Return the rates that follow from an operator's kind alone; None: they may vary.

    >>> rates_of(Op("sum", Block(sum, pop=4, push=1, peek=4)))
    FiringRates(pops=(4,), pushes=(1,))

    An operator with state per key takes its items key by key, so its rates over the
    whole stream are fixed only if it has an output for every single item.
    """
    match op.kind:
        case Map() | Scan() | Punctuate():
            return FiringRates((1,), (1,))
        case Block(pop=pop, push=push) if pop == 1 or not op.keyed_by:
            return FiringRates((pop,), (push,))
        case Deal(weights=weights):
            return FiringRates((sum(weights),), weights)
        case Collect(weights=weights):
            return FiringRates(weights, (sum(weights),))
        case Barrier() if not op.keyed_by:
            return FiringRates((1,) * len(op.inputs), (1,))
        case _:
            return None


class _FixedWay(NamedTuple):
    """Each item of `origin` leads to `items` items here, by way of `between`."""

    origin: Output
    items: int = 1
    between: frozenset[str] = frozenset()


def find_paired(graph: Graph) -> dict[str, frozenset[str]]:
    """Return the fan-ins that never hold an item back once its cause is done with.

    All inputs of such a barrier or joiner come from one stream, and each brings a fixed
    share of a full set for every item of it. Mapped to the operators between that stream
    and the fan-in.

    >>> from anabranch.operators.stateless import Filter
    >>> one, two = (Op(name, Map(abs), (Output("s"),)) for name in ("one", "two"))
    >>> some = Op("some", Filter(abs), (Output("s"),))
    >>> whole = Op("whole", Barrier(), (Output("one"), Output("two")))
    >>> torn = Op("torn", Barrier(), (Output("one"), Output("some")))
    >>> s = Op("s", Barrier())
    >>> found = find_paired(Graph((s, one, two, some, whole, torn)))
    >>> [(name, sorted(between)) for name, between in found.items()]
    [('whole', ['one', 'two'])]
    """
    paired: dict[str, _FixedWay] = {}
    for op in graph:
        if not isinstance(op.kind, Barrier | Collect) or op.keyed_by or not op.inputs:
            continue
        found = _find_pairs(op, [list(_go_back(graph, o, paired)) for o in op.inputs])
        if found is not None:
            paired[op.name] = found
    return {name: way.between for name, way in paired.items()}


def _go_back(
    graph: Graph, at: Output, paired: Mapping[str, _FixedWay]
) -> Iterator[_FixedWay]:
    """Yield the streams before one, nearest first, as far as the rates are fixed."""
    way = _FixedWay(at)
    while True:
        yield way
        op = graph[way.origin.operator]
        step = paired.get(op.name) or _step_back(op)
        if step is None:
            return
        between = way.between | step.between | {op.name}
        way = _FixedWay(step.origin, way.items * step.items, between)


def _step_back(op: Op) -> _FixedWay | None:
    """Return the way through an operator that answers each item alike, if it does."""
    if isinstance(op.kind, Block) and op.kind.peek > 1:
        return None
    rates = rates_of(op)
    if rates is None or rates.pops != (1,) or len(rates.pushes) > 1 or not op.inputs:
        return None
    return _FixedWay(op.inputs[0], rates.pushes[0])


def _find_pairs(op: Op, ways: Sequence[Sequence[_FixedWay]]) -> _FixedWay | None:
    """Return the way from the nearest stream whose items bring full sets, if any."""
    rates = rates_of(op)
    assert rates is not None  # noqa: S101 - a fan-in of fixed rates
    others = [{way.origin: way for way in found} for found in ways]
    for first in ways[0]:
        if not all(first.origin in found for found in others):
            continue
        mine = [found[first.origin] for found in others]
        shares = {
            Fraction(way.items, pop)
            for way, pop in zip(mine, rates.pops, strict=True)
            if pop
        }
        share = shares.pop() if len(shares) == 1 else Fraction(0)
        if share > 0 and share.denominator == 1:
            between = frozenset[str]().union(*(way.between for way in mine))
            return _FixedWay(first.origin, int(share) * rates.pushes[0], between)
    return None


def find_pairing(graph: Graph, operators: Iterable[str]) -> str | None:
    """Return an operator of a region whose streams must be distributed alike, or None."""
    ops = (graph[name] for name in operators)
    pairing = (op for op in ops if isinstance(op.kind, Barrier | Collect))
    return next((op.name for op in pairing if not op.keyed_by), None)


def _spanning(
    operators: Sequence[str], flows: Iterable[FixedStream]
) -> Iterator[FixedStream]:
    """Yield the flows of a spanning forest; any later one agrees or contradicts."""
    leader = {name: name for name in operators}

    def lead(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]  # path halving for the next search
            name = leader[name]
        return name

    for flow in flows:
        one, two = lead(flow.producer), lead(flow.consumer)
        if one != two:
            leader[two] = one
            yield flow


def _shares_from(
    start: str, neighbours: dict[str, list[tuple[str, Fraction]]]
) -> dict[str, Fraction]:
    """Return how often each connected operator fires per firing of `start`."""
    shares = {start: Fraction(1)}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        for neighbour, ratio in neighbours[name]:
            if neighbour not in shares:
                shares[neighbour] = shares[name] * ratio
                waiting.append(neighbour)
    return shares


def _in_whole_numbers(shares: dict[str, Fraction]) -> dict[str, int]:
    scale = lcm(*{share.denominator for share in shares.values()})
    whole = {name: int(share * scale) for name, share in shares.items()}
    common = gcd(*set(whole.values()))
    return {name: count // common for name, count in whole.items()}
