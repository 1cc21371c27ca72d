"""Balance equations: how often operators of fixed rates fire in one steady round.

Over a stream, what the producer gives in a round must be what the consumer takes:
`push * repetitions[producer] == pop * repetitions[consumer]`. The smallest whole
numbers that solve this are the repetitions; where there are none, items would pile up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from anabranch.graph.graph import Op
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.custom import Scan
from anabranch.operators.stateless import Barrier, Map, Punctuate


class FixedStream(NamedTuple):
    """A stream of fixed rates: `push` items in a firing, `pop` items out of it."""

    producer: str
    push: int
    consumer: str
    pop: int


class Balance(NamedTuple):
    """The repetitions of every operator, and the streams that contradict them."""

    repetitions: dict[str, int]
    conflicts: tuple[FixedStream, ...]


class FiringRates(NamedTuple):
    """How many items a firing takes of each input and gives on each output."""

    pops: tuple[int, ...]
    pushes: tuple[int, ...]


def balance(operators: Sequence[str], flows: Iterable[FixedStream]) -> Balance:
    """Solve the balance equations of connected operators.

    >>> balance("ab", [FixedStream("a", 2, "b", 3)]).repetitions
    {'a': 3, 'b': 2}
    >>> balance("ab", [FixedStream("a", 1, "b", 1), FixedStream("a", 2, "b", 1)]).conflicts
    (FixedStream(producer='a', push=2, consumer='b', pop=1),)

    Where flows contradict one another the earlier ones are believed. Operators that no
    flow connects are balanced apart. A flow that never carries an item (a rate of 0)
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
    """Return the rates that an operator has by its kind alone; None: they may vary.

    >>> rates_of(Op("sum", Block(sum, pop=4, push=1, peek=4)))
    FiringRates(pops=(4,), pushes=(1,))

    An operator with state per key takes its items key by key, so its rates over the
    whole stream are fixed only if it answers every single item.
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
        case Barrier():
            return FiringRates((1,) * len(op.inputs), (1,))
        case _:
            return None


def _spanning(
    operators: Sequence[str], flows: Iterable[FixedStream]
) -> Iterator[FixedStream]:
    """Yield the flows that connect something new; any later one can only agree or not."""
    leader = {name: name for name in operators}

    def lead(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]  # halve the path for the next search
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
    """Return how often each connected operator fires for one firing of `start`."""
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
